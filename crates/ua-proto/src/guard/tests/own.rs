//! What the guard says of itself: how well it serves, that it ends, and who stands in for it.

use std::time::Duration;

use access_model::{Mode, Now};
use opcua_types::*;

use super::subscriptions::{SECOND, publish};
use super::world::*;
use crate::client::CallId;
use crate::guard::Input;
use crate::server::{self, ConnId};
use crate::space::{date_time, ns0};

const STATE: u32 = 2_259;
const LEVEL: u32 = 2_267;
const SUPPORT: u32 = 3_709;
const SERVERS: u32 = 11_313;
const URIS: u32 = 11_314;
const RETURN: u32 = 12_885;

/// The server behind the guard says this of itself.
fn behind(world: &mut World, number: u32, value: impl Into<Variant>) {
    let node = ns0::find_numeric(number).unwrap();
    let (value, now) = (DataValue::value_only(value), world.now);
    world.plant.handle_input(server::Input::SetValue { node, value }, now);
    world.run();
}

fn ask(world: &mut World, client: ConnId, numbers: &[u32]) -> Result<Vec<DataValue>, StatusCode> {
    let nodes = numbers.iter().map(|number| value_of(NodeId::new(0, *number))).collect();
    let request = ReadRequest {
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(nodes),
        ..ReadRequest::default()
    };
    let response: ReadResponse = world.ask(client, request)?;
    Ok(response.results.unwrap())
}

fn level(world: &mut World, client: ConnId) -> Option<Variant> {
    ask(world, client, &[LEVEL]).unwrap().remove(0).value
}

fn drain(world: &mut World, seconds: u32) {
    world.guard.handle_input(Input::Down(server::Input::Drain { seconds }), world.now);
    world.run();
}

/// The server cannot be reached any more, and is another when it can.
fn unplug(world: &mut World) {
    world.unplugged = true;
    world.restart_plant(space(false));
}

#[test]
fn the_level_is_the_least_of_the_servers_and_the_guards() {
    let mut world = World::listening(Mode::Enforce, |_| {});
    let client = world.client();
    let byte = |level: u8| Some(Variant::Byte(level));
    assert_eq!(level(&mut world, client), byte(255), "all is well");
    behind(&mut world, LEVEL, 150_u8);
    assert_eq!(level(&mut world, client), byte(150), "the server behind is degraded");
    behind(&mut world, LEVEL, 255_u8);
    world.guard.handle_input(Input::Down(server::Input::ContactLost), world.now);
    assert_eq!(level(&mut world, client), byte(199), "the authority is away");
    world.update(2, |_| {});
    assert_eq!(level(&mut world, client), byte(255), "and back");
    unplug(&mut world);
    assert_eq!(level(&mut world, client), byte(1), "the server behind is away: no data");
    let both = ask(&mut world, client, &[LEVEL, 2_258]);
    assert_eq!(both.unwrap_err(), StatusCode::BadServerNotConnected, "what is the server's waits for it");
    drain(&mut world, 20);
    assert_eq!(level(&mut world, client), byte(0), "maintenance");
    world.unplugged = false;
    world.pass(SECOND * 5);
    assert_eq!(level(&mut world, client), byte(0), "whatever the server behind says");
}

#[test]
fn a_guard_that_drains_says_until_when_it_is_away_at_least() {
    let mut world = World::new();
    let client = world.client();
    assert_eq!(ask(&mut world, client, &[RETURN]).unwrap()[0].status(), StatusCode::BadNodeIdUnknown, "the server's");
    let said: Now = world.now;
    drain(&mut world, 20);
    world.pass(SECOND * 3);
    let values = ask(&mut world, client, &[STATE, RETURN]).unwrap();
    assert_eq!(values[0].value, Some(Variant::Int32(ServerState::Shutdown as i32)));
    let end = date_time(said.unix + SECOND * 20);
    assert_eq!(values[1].value, Some(Variant::DateTime(Box::new(end))));
    assert!(values.iter().all(|value| value.source_timestamp.is_some() && value.server_timestamp.is_some()));
}

#[test]
fn who_stands_in_is_the_guards_to_say_and_never_the_servers() {
    for paired in [false, true] {
        let mut world = World::with(|config| config.paired = paired);
        behind(&mut world, SUPPORT, RedundancySupport::Hot as i32);
        let client = world.client();
        let values = ask(&mut world, client, &[SUPPORT, URIS, SERVERS]).unwrap();
        if !paired {
            assert_eq!(values[0].value, Some(Variant::Int32(RedundancySupport::None as i32)));
            assert_eq!([values[1].status(), values[2].status()], [StatusCode::BadNodeIdUnknown; 2], "hidden as ever");
            continue;
        }
        assert_eq!(values[0].value, Some(Variant::Int32(RedundancySupport::Cold as i32)));
        assert_eq!(values[1].value, Some(Variant::from(vec![GUARD.to_owned()])), "both have one name");
        let server = Variant::ExtensionObject(ExtensionObject::from_message(RedundantServerDataType {
            server_id: GUARD.into(),
            service_level: 255,
            server_state: ServerState::Running,
        }));
        let one = Array::new(VariantScalarTypeId::ExtensionObject, vec![server]).unwrap();
        let told = values[2].value.clone().unwrap();
        assert_eq!(body_of(&told), body_of(&Variant::Array(Box::new(one))), "whoever can be asked serves");
    }
}

/// A client that monitors these nodes of the Server object, whose first values it has, and Publish requests that wait.
fn watching(world: &mut World, client: ConnId, numbers: &[u32]) -> Vec<CallId> {
    let request = CreateSubscriptionRequest {
        requested_publishing_interval: 1_000.0,
        requested_lifetime_count: 600,
        requested_max_keep_alive_count: 100,
        publishing_enabled: true,
        ..CreateSubscriptionRequest::default()
    };
    let created: CreateSubscriptionResponse = world.ask(client, request).unwrap();
    let item = |number: &u32| MonitoredItemCreateRequest {
        item_to_monitor: value_of(NodeId::new(0, *number)),
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle: *number,
            queue_size: 1,
            ..MonitoringParameters::default()
        },
    };
    let request = CreateMonitoredItemsRequest {
        subscription_id: created.subscription_id,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(numbers.iter().map(item).collect()),
        ..CreateMonitoredItemsRequest::default()
    };
    let _: CreateMonitoredItemsResponse = world.ask(client, request).unwrap();
    let calls: Vec<CallId> = (0..12).map(|_| publish(world, client, &[])).collect();
    world.pass(SECOND * 2);
    assert_eq!(changes(world, client, &calls).len(), numbers.len(), "the first values");
    calls
}

/// What was told since: handles and values, in order.
fn changes(world: &mut World, client: ConnId, calls: &[CallId]) -> Vec<(u32, Variant)> {
    let answers: Vec<_> = calls.iter().filter_map(|call| world.answer(client, *call)).collect();
    let messages = answers.into_iter().map(|answer| PublishResponse::try_from(answer.unwrap()).unwrap());
    let parts = messages.flat_map(|message| message.notification_message.notification_data.unwrap_or_default());
    let mut told = Vec::new();
    for part in parts {
        let change = part.inner_as::<DataChangeNotification>().expect("data changes");
        let items = change.monitored_items.iter().flatten();
        told.extend(items.map(|item| (item.client_handle, item.value.value.clone().unwrap())));
    }
    told
}

#[test]
fn who_monitors_the_level_hears_that_the_server_went_and_came() {
    let mut world = World::new();
    let client = world.client();
    let calls = watching(&mut world, client, &[LEVEL, STATE]);
    behind(&mut world, LEVEL, 220_u8);
    world.pass(SECOND * 2);
    assert_eq!(changes(&mut world, client, &calls), [(LEVEL, Variant::Byte(220))], "the server's own word");
    world.cut_upstream();
    world.pass(Duration::from_millis(1));
    assert_eq!(changes(&mut world, client, &calls).first(), Some(&(LEVEL, Variant::Byte(1))));
    world.pass(SECOND * 5);
    let told = changes(&mut world, client, &calls);
    assert_eq!(told.iter().rfind(|(handle, _)| *handle == LEVEL), Some(&(LEVEL, Variant::Byte(220))), "{told:?}");
}

#[test]
fn who_monitors_the_end_hears_of_it_when_it_is_said() {
    let mut world = World::new();
    let client = world.client();
    let seconds = 2_992;
    let calls = watching(&mut world, client, &[LEVEL, STATE, seconds]);
    drain(&mut world, 20);
    let shutdown = Variant::Int32(ServerState::Shutdown as i32);
    let mut told = changes(&mut world, client, &calls);
    told.sort_by_key(|(handle, _)| *handle);
    assert_eq!(told, [(STATE, shutdown), (LEVEL, Variant::Byte(0)), (seconds, Variant::UInt32(20))]);
    world.pass(SECOND);
    drain(&mut world, 19);
    assert_eq!(changes(&mut world, client, &calls), [(seconds, Variant::UInt32(19))], "and of nothing else again");
}
