//! AccessRestrictions (OPC 10000-3 §5.2.11 and §8.56): each service, each restriction, each mode.

use access_model::{AuditKind, Outcome, Reason, Restrictions, Rights, ScopeIndex};
use opcua_types::*;
use pep::Who;

use super::monitoring::TICK;
use super::services::{attribute_of, value_of};
use super::world::*;
use crate::server::{Answer, ConnId, EndpointSecurity, Input};

const REACTOR: ScopeIndex = ScopeIndex(1);
const MIXER: ScopeIndex = ScopeIndex(2);
const WEAK: StatusCode = StatusCode::BadSecurityModeInsufficient;
/// Each bit, each bit with ApplyRestrictionsToBrowse, and what of the modes None, Sign and SignAndEncrypt will do.
const TABLE: [(Restrictions, [bool; 3]); 5] = [
    (Restrictions::NONE, [true, true, true]),
    (Restrictions::SIGNING, [false, true, true]),
    (Restrictions::ENCRYPTION, [false, false, true]),
    // Every request of this server is made in a session.
    (Restrictions::SESSION, [true, true, true]),
    (Restrictions::BROWSE, [true, true, true]),
];
const MODES: [EndpointSecurity; 3] = [BARE, SIGN, ENCRYPT];

type Try = fn(&mut World, ConnId, &Login) -> StatusCode;

/// Every service that touches a node; whether it only browses.
const SERVICES: [(&str, bool, Try); 15] = [
    ("Read Value", false, |world, conn, login| status(world, conn, login, AttributeId::Value)),
    ("Read BrowseName", false, |world, conn, login| status(world, conn, login, AttributeId::BrowseName)),
    ("Read UserAccessLevel", false, |world, conn, login| status(world, conn, login, AttributeId::UserAccessLevel)),
    ("Read AccessRestrictions", false, |world, conn, login| {
        status(world, conn, login, AttributeId::AccessRestrictions)
    }),
    ("Write", false, |world, conn, login| world.write(conn, login, vec![(id("Setpoint"), 5.0.into())]).unwrap()[0]),
    ("Call of a restricted method", false, |world, conn, login| call(world, conn, login, "Stir", Vec::new())),
    ("Call on a restricted object", false, |world, conn, login| call(world, conn, login, "Reset", vec![1.0.into()])),
    ("CreateMonitoredItems", false, |world, conn, login| {
        world.subscribe(conn, login, &["Setpoint"]).remove(0).status_code
    }),
    ("CreateMonitoredItems of a name", false, |world, conn, login| {
        let results = world.subscribe_to(conn, login, vec![attribute_of(&id("Setpoint"), AttributeId::DisplayName)]);
        results[0].status_code
    }),
    ("Browse", true, |world, conn, login| world.browse(conn, login, id("Unit"), 0).status_code),
    ("BrowseNext", true, |world, conn, login| {
        unrestricted(
            world,
            |world| world.browse(conn, login, id("Unit"), 1).continuation_point,
            |world, point| {
                let request = BrowseNextRequest {
                    request_header: world.header(&login.token),
                    release_continuation_points: false,
                    continuation_points: Some(vec![point]),
                };
                let response: BrowseNextResponse = world.ask(conn, &request).unwrap();
                response.results.unwrap()[0].status_code
            },
        )
    }),
    ("Browse to it", true, |world, conn, login| {
        let page = world.browse(conn, login, ObjectId::ObjectsFolder.into(), 0);
        let there = page.references.iter().flatten().any(|found| found.browse_name.name.as_ref() == "Unit");
        if there { StatusCode::Good } else { WEAK }
    }),
    ("TranslateBrowsePaths from it", true, |world, conn, login| translate(world, conn, login, id("Unit"), "Setpoint")),
    ("TranslateBrowsePaths to it", true, |world, conn, login| {
        match translate(world, conn, login, ObjectId::ObjectsFolder.into(), "Unit") {
            StatusCode::BadNoMatch => WEAK,
            status => status,
        }
    }),
    ("RegisterNodes", true, |world, conn, login| {
        let request = RegisterNodesRequest {
            request_header: world.header(&login.token),
            nodes_to_register: Some(vec![id("Setpoint")]),
        };
        world.ask::<_, RegisterNodesResponse>(conn, &request).err().unwrap_or(StatusCode::Good)
    }),
];

fn start(scopes: &[(ScopeIndex, Restrictions)]) -> World {
    let all = Rights::BROWSE | Rights::READ | Rights::WRITE | Rights::CALL;
    let local = vec![
        grant(Who::User("alice".into()), vec![(all, "reactor"), (all, "mixer")]),
        grant(Who::User("bob".into()), vec![(Rights::BROWSE, "reactor")]),
    ];
    let mut world = Setup { local, ..Setup::default() }.start();
    world.server.space_mut().set_restrictions(Restrictions::NONE, scopes.iter().copied());
    world
}

fn status(world: &mut World, conn: ConnId, login: &Login, attribute: AttributeId) -> StatusCode {
    world.read(conn, login, vec![attribute_of(&id("Setpoint"), attribute)]).unwrap()[0].status()
}

fn call(world: &mut World, conn: ConnId, login: &Login, method: &str, inputs: Vec<Variant>) -> StatusCode {
    let request = world.call_request(login, vec![(id("Unit"), id(method), inputs)]);
    let request = world.send(conn, &request);
    while let Some((id, _)) = world.invoked.pop_front() {
        let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: Vec::new() };
        world.input(Input::Answer { id, answer });
    }
    world.answer::<CallResponse>(conn, request).unwrap().unwrap().results.unwrap()[0].status_code
}

fn translate(world: &mut World, conn: ConnId, login: &Login, start: NodeId, name: &str) -> StatusCode {
    let element = RelativePathElement {
        reference_type_id: ReferenceTypeId::HierarchicalReferences.into(),
        is_inverse: false,
        include_subtypes: true,
        target_name: QualifiedName::new(1, name),
    };
    let path = BrowsePath { starting_node: start, relative_path: RelativePath { elements: Some(vec![element]) } };
    let request = TranslateBrowsePathsToNodeIdsRequest {
        request_header: world.header(&login.token),
        browse_paths: Some(vec![path]),
    };
    let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(conn, &request).unwrap();
    response.results.unwrap()[0].status_code
}

/// Does the first step as long as nothing is restricted.
fn unrestricted<T, R>(
    world: &mut World,
    first: impl FnOnce(&mut World) -> T,
    then: impl FnOnce(&mut World, T) -> R,
) -> R {
    let asked = [REACTOR, MIXER].map(|scope| (scope, world.server.space().restrictions(scope)));
    world.server.space_mut().set_restrictions(Restrictions::NONE, []);
    let got = first(world);
    world.server.space_mut().set_restrictions(Restrictions::NONE, asked);
    then(world, got)
}

#[test]
fn every_service_holds_channels_to_the_restrictions() {
    for (one, will_do) in TABLE {
        for with_browse in [false, true] {
            let asked = if with_browse { one | Restrictions::BROWSE } else { one };
            for (security, fits) in MODES.into_iter().zip(will_do) {
                for (service, browses, attempt) in SERVICES {
                    // The method `Stir` alone is of the mixer, the object and all else of the reactor.
                    let scope = if service == "Call of a restricted method" { MIXER } else { REACTOR };
                    let mut world = start(&[(scope, asked)]);
                    let (conn, login) = world.log_in(security, "alice");
                    let expected = if fits || (browses && !with_browse) { StatusCode::Good } else { WEAK };
                    let said = attempt(&mut world, conn, &login);
                    assert_eq!(said, expected, "{service}, `{asked}` over {:?}", security.1);
                }
            }
        }
    }
}

#[test]
fn a_denial_for_a_weak_channel_is_recorded_as_such() {
    let mut world = start(&[(REACTOR, Restrictions::ENCRYPTION)]);
    let (conn, login) = world.log_in(SIGN, "alice");
    assert_eq!(world.write(conn, &login, vec![(id("Setpoint"), 5.0.into())]), Ok(vec![WEAK]));
    assert!(world.written.is_empty());
    let outcomes = world.outcomes(AuditKind::Write);
    assert_eq!(outcomes, [Outcome::Denied(Reason::ChannelTooWeak)]);
}

#[test]
fn restrictions_tell_nobody_of_hidden_nodes_and_give_nobody_a_right() {
    let all = Restrictions::ENCRYPTION | Restrictions::BROWSE;
    let mut world = start(&[(REACTOR, all), (MIXER, all), (ScopeIndex(3), all)]);
    let (conn, login) = world.log_in(BARE, "alice");
    assert_eq!(world.read_one(conn, &login, "Secret"), Err(StatusCode::BadNodeIdUnknown), "no right on the vault");
    assert_eq!(world.read_one(conn, &login, "Missing"), Err(StatusCode::BadNodeIdUnknown));
    let (conn, login) = world.log_in(ENCRYPT, "bob");
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied), "may browse only");
    assert_eq!(world.read_one(conn, &login, "Speed"), Err(StatusCode::BadNodeIdUnknown), "no right on the mixer");
}

#[test]
fn running_items_fall_silent_when_their_channel_is_too_weak() {
    let mut world = start(&[]);
    let (conn, login) = world.log_in(SIGN, "alice");
    world.subscribe(conn, &login, &["Setpoint", "Speed"]);
    let first = world.publish(conn, &login);
    world.pass(TICK);
    assert_eq!(world.notified(conn, first).unwrap().len(), 2);
    world.server.space_mut().set_restrictions(Restrictions::NONE, [(REACTOR, Restrictions::ENCRYPTION)]);
    let second = world.publish(conn, &login);
    world.set("Setpoint", Variant::from(66.0));
    world.set("Speed", Variant::from(8_i32));
    world.pass(TICK);
    let seen = world.notified(conn, second).unwrap();
    assert!(seen.contains(&(1, Ok(Variant::from(8_i32)))), "{seen:?}");
    assert!(!seen.iter().any(|(handle, value)| *handle == 0 && value.is_ok()), "{seen:?}");
}

#[test]
fn clients_read_restrictions_where_the_standard_puts_them() {
    let mut world = start(&[]);
    let both = Restrictions::ENCRYPTION | Restrictions::BROWSE;
    world
        .server
        .space_mut()
        .set_restrictions(Restrictions::SIGNING, [(MIXER, both), (ScopeIndex(3), Restrictions::NONE)]);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let attribute = |world: &mut World, node: &NodeId| {
        world.read(conn, &login, vec![attribute_of(node, AttributeId::AccessRestrictions)]).unwrap()[0].value.clone()
    };
    for (node, bits) in [(id("Setpoint"), 1_u16), (id("Speed"), 10), (id("Stir"), 10), (ObjectId::Server.into(), 0)] {
        assert_eq!(attribute(&mut world, &node), Some(Variant::UInt16(bits)), "{node}");
    }
    let space = world.server.space();
    let namespaces = space.find(&NodeId::new(0, 11_715_u32)).unwrap();
    let metadata = space.child(namespaces, &QualifiedName::new(1, super::keys::SERVER_URI)).unwrap();
    let default = space.child(metadata, &QualifiedName::new(0, "DefaultAccessRestrictions")).unwrap();
    let default = space.id(default);
    let read = world.read(conn, &login, vec![ReadValueId { node_id: default, ..value_of("") }]).unwrap();
    assert_eq!(read[0].value, Some(Variant::UInt16(1)));
}
