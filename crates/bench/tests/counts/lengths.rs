//! How long messages are: of OPC UA between our client and our server, and the certificates in them.

use bench::load::value_of;
use cost::algorithm::Key;
use cost::choose::Mode;
use cost::mechanism::certificate_bytes;
use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
use cost::protocol::{Line, Party, Phase};
use cost::whatif::READ;
use opcua_types::{
    AttributeId, CreateMonitoredItemsRequest, CreateSubscriptionRequest, DataValue, MessageSecurityMode,
    MonitoredItemCreateRequest, MonitoringMode, MonitoringParameters, NodeId, PublishRequest, ReadValueId,
    TimestampsToReturn, Variant, WriteRequest, WriteValue,
};
use ua_proto::client::{Credential, Request};
use ua_proto::crypto::SecurityPolicyId;

use super::wire::{Kind, LIFETIME, LOG, People, SPEED, Sent, Wire};
use super::{at_server, modes, rows, users};

/// Names and bytes that the model gives to messages of one end; those of TCP itself have none.
pub(crate) fn messages(lines: &[Line], by: Party) -> Vec<(&'static str, u64)> {
    let own = lines.iter().filter(|line| line.to.is_some() && line.by == by && line.bytes > 0);
    own.map(|line| (line.name, line.bytes)).collect()
}

/// A message may be longer or shorter than the model has it by so much: names and addresses differ from plant to plant, and a
/// certificate is as long as its names. A forgotten key, signature or URI of a short message is more.
pub(crate) fn near(model: u64, real: u64) -> bool {
    model.abs_diff(real) <= 40.max(real / 20)
}

pub(crate) fn compare(rule: &str, model: &[(&'static str, u64)], real: &[(String, u64)], far: &mut Vec<String>) {
    assert!(real.len() >= model.len(), "{rule}: {model:?} {real:?}");
    for ((name, model), (kind, real)) in model.iter().zip(real) {
        if !near(*model, *real) {
            far.push(format!("{rule}: {name} has {model} B in the model, as {kind} {real} B"));
        }
    }
}

/// Discovery, Hello, OpenSecureChannel, CreateSession and ActivateSession, both ways.
#[test]
fn messages_are_about_as_long_as_the_model_says() {
    let mut far = Vec::new();
    for row in rows() {
        let people = People::new(row.kind);
        for (real, mode) in modes(&row) {
            for (name, user, credential, twice) in users(&people, &row, mode) {
                let rule = format!("{} {} {mode:?} {name}", row.policy.word(), row.key);
                let channel = Channel { endpoints: 1, ..Channel::new(row.policy, mode, row.key).unwrap() };
                let opcua = OpcUa { channel, user };
                let (asked, opened): (Vec<Phase>, Vec<Phase>) =
                    opcua.connect().into_iter().partition(|phase| phase.name == "discovery");
                let (asked, opened) = (at_server(asked), at_server(opened));
                let mut wire = Wire::new(&people, vec![(row.real, real)]);
                wire.discover();
                for (by, sent) in [(Party::Client, &wire.sent.client), (Party::Server, &wire.sent.server)] {
                    compare(&format!("{rule}, discovery"), &messages(&asked, by), sent, &mut far);
                }
                wire.connect(&people, (row.real, real), credential, twice);
                for (by, sent) in [(Party::Client, &wire.sent.client), (Party::Server, &wire.sent.server)] {
                    compare(&rule, &messages(&opened, by), sent, &mut far);
                }
            }
        }
    }
    assert!(far.is_empty(), "{} messages:\n{}", far.len(), far.join("\n"));
}

/// Keys, algorithms and signatures are counted from the standards; the rest is the same in all certificates with names of that length. A
/// signature of ECDSA has a byte or two more or less from one to the next.
#[test]
fn certificates_are_as_long_as_the_model_says() {
    for row in rows() {
        let model = certificate_bytes(row.key);
        for real in People::new(row.kind).certificates() {
            let spread = if matches!(row.key, Key::Ecdsa(_)) { 3 } else { 1 };
            assert!(model.abs_diff(real as u64) <= spread, "{}: {model} B in the model, {real} B", row.key);
        }
    }
}

/// Renewed keys: OpenSecureChannel once more, both ways. All of it is counted, but for the byte or two of a certificate's signature.
#[test]
fn renewals_are_as_long_as_the_model_says() {
    for row in rows() {
        let people = People::new(row.kind);
        for (real, mode) in modes(&row) {
            let rule = format!("{} {} {mode:?} renewed", row.policy.word(), row.key);
            let channel = Channel::new(row.policy, mode, row.key).unwrap();
            let renewed = at_server(OpcUa { channel, user: User::Anonymous }.renew());
            let mut wire = Wire::new(&people, vec![(row.real, real)]);
            wire.connect(&people, (row.real, real), Credential::Anonymous, false);
            wire.take_sent();
            wire.pass(LIFETIME * 4 / 5);
            let sent = wire.take_sent();
            for (by, sent) in [(Party::Client, sent.client), (Party::Server, sent.server)] {
                let opened: Vec<_> = sent.into_iter().filter(|(kind, _)| kind == "OPN").collect();
                let model = messages(&renewed, by);
                assert!(model.len() == 1 && opened.len() == 1, "{rule}: {model:?} {opened:?}");
                assert!(model[0].1.abs_diff(opened[0].1) <= 3, "{rule}: {model:?} {opened:?}");
            }
        }
    }
}

/// CloseSession with its answer and CloseSecureChannel, and the records that the server writes then: all of it is counted.
#[test]
fn what_ends_a_connection_is_as_long_as_the_model_says() {
    for row in rows() {
        let people = People::new(row.kind);
        for (real, mode) in modes(&row) {
            let rule = format!("{} {} {mode:?} closed", row.policy.word(), row.key);
            let channel = Channel::new(row.policy, mode, row.key).unwrap();
            let closed = at_server(OpcUa { channel, user: User::Anonymous }.disconnect());
            let mut wire = Wire::new(&people, vec![(row.real, real)]);
            wire.connect(&people, (row.real, real), Credential::Anonymous, false);
            wire.take_sent();
            let before = wire.recorded;
            wire.close();
            let sent = wire.take_sent();
            let kinds: Vec<&str> = sent.client.iter().map(|(kind, _)| kind.as_str()).collect();
            assert_eq!(kinds, ["MSG", "CLO"], "{rule}");
            for (by, sent) in [(Party::Client, sent.client), (Party::Server, sent.server)] {
                let model: Vec<u64> = messages(&closed, by).into_iter().map(|(_, bytes)| bytes).collect();
                let sent: Vec<u64> = sent.into_iter().map(|(_, bytes)| bytes).collect();
                assert_eq!(model, sent, "{rule}: {by:?}");
            }
            let records = closed.iter().filter(|line| line.operation == "append audit").count();
            assert_eq!(wire.recorded - before, records as u64, "{rule}");
        }
    }
}

fn speed() -> ReadValueId {
    ReadValueId { node_id: NodeId::new(2, SPEED), attribute_id: AttributeId::Value as u32, ..ReadValueId::default() }
}

/// Requests of all sorts, and whether their answers come at once.
fn requests() -> Vec<(&'static str, Request)> {
    let value = DataValue { value: Some(Variant::from(8.5_f64)), ..DataValue::null() };
    let write = WriteValue {
        node_id: NodeId::new(2, SPEED),
        attribute_id: AttributeId::Value as u32,
        value,
        ..WriteValue::default()
    };
    let subscription = CreateSubscriptionRequest {
        requested_publishing_interval: 1_000.0,
        requested_lifetime_count: 300,
        requested_max_keep_alive_count: 100,
        publishing_enabled: true,
        ..CreateSubscriptionRequest::default()
    };
    let watched = MonitoredItemCreateRequest {
        item_to_monitor: speed(),
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle: 1,
            sampling_interval: 1_000.0,
            queue_size: 1,
            discard_oldest: true,
            ..MonitoringParameters::default()
        },
    };
    let items = CreateMonitoredItemsRequest {
        subscription_id: 1,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![watched]),
        ..CreateMonitoredItemsRequest::default()
    };
    vec![
        ("Read", value_of(SPEED).into()),
        ("Write", WriteRequest { nodes_to_write: Some(vec![write]), ..WriteRequest::default() }.into()),
        ("CreateSubscription", subscription.into()),
        ("CreateMonitoredItems", items.into()),
        ("Publish", PublishRequest::default().into()),
        ("Read of a long value", value_of(LOG).into()),
    ]
}

/// The bytes of each request and of its answer, chunks added up.
fn asked(
    people: &People,
    at: (SecurityPolicyId, MessageSecurityMode),
    chunks: &mut Vec<(usize, usize)>,
) -> Vec<(&'static str, u64, u64)> {
    let mut wire = Wire::new(people, vec![at]);
    wire.connect(people, at, Credential::Anonymous, false);
    let mut lengths = Vec::new();
    for (name, request) in requests() {
        wire.take_sent();
        wire.request(request);
        if name == "Publish" {
            wire.pass(std::time::Duration::from_millis(1_500));
        }
        let Sent { client, server } = wire.take_sent();
        let all = [&client, &server].map(|sent| {
            assert!(!sent.is_empty() && sent.iter().all(|(kind, _)| kind == "MSG"), "{name}: {sent:?}");
            sent.iter().map(|(_, bytes)| bytes).sum::<u64>()
        });
        chunks.push((client.len(), server.len()));
        lengths.push((name, all[0], all[1]));
    }
    lengths
}

/// Without a policy a chunk is its body behind 24 bytes; what a policy makes of the same bodies follows. Exactly, where one chunk is
/// enough; about, where a body is cut.
#[test]
fn requests_and_answers_are_as_long_as_the_model_says() {
    let rows = rows();
    let people = People::new(Kind::Rsa(2_048));
    let mut chunks = Vec::new();
    let bare = asked(&people, (SecurityPolicyId::None, MessageSecurityMode::None), &mut chunks);
    let body = |sent: u64, chunks: usize| sent - 24 * chunks as u64;
    let bodies: Vec<_> = bare
        .iter()
        .zip(&chunks)
        .map(|((name, client, server), (up, down))| (*name, body(*client, *up), body(*server, *down)))
        .collect();
    assert_eq!((bodies[0].1, bodies[0].2), READ, "a Read of one value and its answer");
    assert!(chunks.last().unwrap().1 > 2, "{chunks:?}");
    let told = |channel: Channel, up, down| {
        let request = at_server(OpcUa { channel, user: User::Anonymous }.request(up, down, false));
        (messages(&request, Party::Client)[0].1, messages(&request, Party::Server)[0].1)
    };
    let plain = Channel::new(Policy::None, Mode::None, Key::Rsa(2048)).unwrap();
    for ((name, up, down), (_, client, server)) in bodies.iter().zip(&bare) {
        let (model_up, model_down) = told(plain, *up, *down);
        assert!(near(model_up, *client) && near(model_down, *server), "{name}: {model_up} {model_down}");
    }
    for row in rows {
        let people = People::new(row.kind);
        for (real, mode) in modes(&row) {
            let channel = Channel::new(row.policy, mode, row.key).unwrap();
            let mut chunks = Vec::new();
            let sent = asked(&people, (row.real, real), &mut chunks);
            for (((name, up, down), (_, client, server)), cut) in bodies.iter().zip(&sent).zip(&chunks) {
                let rule = format!("{} {} {mode:?} {name}", row.policy.word(), row.key);
                let model = told(channel, *up, *down);
                if *cut == (1, 1) {
                    assert_eq!(model, (*client, *server), "{rule}");
                } else {
                    let ends = [(model.0, *client), (model.1, *server)];
                    assert!(
                        ends.iter().all(|(model, real)| model.abs_diff(*real) <= real / 1_000 + 16),
                        "{rule}: {ends:?}"
                    );
                }
            }
        }
    }
}
