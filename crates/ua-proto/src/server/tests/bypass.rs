//! Bytes that no client sends: whatever a body holds, there is one answer and no panic (invariant 8).

use std::collections::BTreeSet;
use std::time::Duration;

use opcua_types::*;
use proptest::prelude::*;

use super::services::value_of;
use super::world::*;
use crate::server::dispatch::{SERVICES, Service};
use crate::server::{Answer, ConnId, Input};

fn encoded<T: BinaryEncodable + MessageInfo>(request: &T) -> Vec<u8> {
    let owned = ContextOwned::default();
    let id: NodeId = request.type_id().into();
    let mut body = id.encode_to_vec(&owned.context());
    body.extend(request.encode_to_vec(&owned.context()));
    body
}

/// One good request of each kind that carries something.
fn requests(world: &mut World, login: &Login) -> Vec<Vec<u8>> {
    let read = ReadRequest {
        request_header: world.header(&login.token),
        nodes_to_read: Some(["Setpoint", "Secret", "Samples"].map(value_of).to_vec()),
        ..ReadRequest::default()
    };
    let write =
        world.write_request(login, vec![(id("Samples"), Variant::from(vec![1_i32, 2])), (id("Note"), "x".into())]);
    let call = world.call_request(login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    let browse = BrowseRequest {
        request_header: world.header(&login.token),
        nodes_to_browse: Some(vec![BrowseDescription { node_id: id("Unit"), ..BrowseDescription::default() }]),
        ..BrowseRequest::default()
    };
    let subscribe = CreateSubscriptionRequest {
        request_header: world.header(&login.token),
        ..CreateSubscriptionRequest::default()
    };
    let publish = PublishRequest { request_header: world.header(&login.token), ..PublishRequest::default() };
    let activate = ActivateSessionRequest { request_header: world.header(&login.token), ..Default::default() };
    vec![
        encoded(&read),
        encoded(&write),
        encoded(&call),
        encoded(&browse),
        encoded(&subscribe),
        encoded(&publish),
        encoded(&activate),
        encoded(&GetEndpointsRequest::default()),
        encoded(&CreateSessionRequest::default()),
    ]
}

#[test]
fn a_request_cut_off_anywhere_is_answered_with_a_fault() {
    let mut world = World::new();
    let (conn, login) = world.log_in(BARE, "alice");
    for body in requests(&mut world, &login) {
        for length in 0..body.len() {
            let request = world.send_raw(conn, &body[..length]);
            let answer = world.answer::<ResponseHeader>(conn, request);
            assert!(matches!(answer, Some(Err(_))), "{length} of {body:?}: {answer:?}");
        }
    }
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
}

#[test]
fn nesting_bombs_are_refused() {
    let mut world = World::new();
    let (conn, login) = world.log_in(BARE, "alice");
    let header = |world: &mut World| {
        let owned = ContextOwned::default();
        world.header(&login.token).encode_to_vec(&owned.context())
    };
    let levels = 300_000;
    let bombs = [[vec![24_u8; levels], vec![0]].concat(), [[23_u8, 1].repeat(levels / 2), vec![0]].concat(), {
        let mut diagnostics = vec![25_u8];
        diagnostics.extend(vec![0x40_u8; levels]);
        diagnostics.push(0);
        diagnostics
    }];
    for bomb in bombs {
        let mut write = vec![1, 0, 0xa1, 0x02];
        write.extend(header(&mut world));
        write.extend([1, 0, 0, 0, 0, 1, 13, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1]);
        write.extend(&bomb);
        let request = world.send_raw(conn, &write);
        let refused = world.answer::<ResponseHeader>(conn, request);
        assert_eq!(refused, Some(Err(StatusCode::BadEncodingLimitsExceeded)));

        let mut call = vec![1, 0, 0xc8, 0x02];
        call.extend(header(&mut world));
        call.extend([1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0]);
        call.extend(&bomb);
        let request = world.send_raw(conn, &call);
        let refused = world.answer::<ResponseHeader>(conn, request);
        assert_eq!(refused, Some(Err(StatusCode::BadEncodingLimitsExceeded)));
    }
}

fn is_fault(mut answer: &[u8]) -> bool {
    let owned = ContextOwned::default();
    NodeId::decode(&mut answer, &owned.context()).unwrap() == ObjectId::ServiceFault_Encoding_DefaultBinary
}

/// The most virtual memory this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn array_bombs_reserve_nothing() {
    let mut world = World::new();
    let (mut conn, mut login) = world.log_in(BARE, "alice");
    let before = peak();
    let mut tried = 0;
    for (number, service) in SERVICES {
        if matches!(service, Service::Unsupported) {
            continue;
        }
        let owned = ContextOwned::default();
        let mut body = NodeId::new(0, number).encode_to_vec(&owned.context());
        body.extend(world.header(&login.token).encode_to_vec(&owned.context()));
        body.extend([0xff, 0xff, 0xff, 0x7f].repeat(20));
        let request = world.send_raw(conn, &body);
        let answer = world.peers.get_mut(&conn).unwrap().answers.remove(&request).expect("one answer");
        tried += 1;
        if matches!(service, Service::CloseSession) {
            (conn, login) = world.log_in(BARE, "alice");
        }
        let arrayless =
            [Service::CloseSession, Service::Cancel, Service::CreateSubscription, Service::ModifySubscription];
        assert!(is_fault(&answer) || arrayless.contains(&service), "{service:?}");
    }
    assert_eq!(tried, SERVICES.iter().filter(|(_, service)| !matches!(service, Service::Unsupported)).count());
    // Each claims two thousand million elements; threads beside may reserve their arenas meanwhile.
    assert!(peak() - before < 8 << 30, "{} MiB were reserved", (peak() - before) >> 20);
}

#[test]
fn a_header_in_an_extension_object_of_any_type_is_left_alone() {
    let mut world = World::new();
    let (conn, login) = world.log_in(BARE, "alice");
    let mut header = world.header(&login.token);
    let parameters = AdditionalParametersType {
        parameters: Some(vec![KeyValuePair { key: "ECDHPolicyUri".into(), value: Variant::from("x") }]),
    };
    header.additional_header = ExtensionObject::new(parameters);
    let request = ReadRequest {
        request_header: header,
        nodes_to_read: Some(vec![value_of("Setpoint")]),
        ..ReadRequest::default()
    };
    assert!(world.ask::<_, ReadResponse>(conn, &request).is_ok());
}

/// What a client has asked on a connection, and what of it waits for its answer.
struct Account {
    conn: ConnId,
    open: BTreeSet<u32>,
}

impl Account {
    /// Sends a body and takes what comes: each answer is to a request that had none. Only a Publish may wait then, for
    /// something to tell, and a Call, for its methods.
    fn send(&mut self, world: &mut World, body: &[u8]) -> Result<(), TestCaseError> {
        let owned = ContextOwned::default();
        let id = NodeId::decode(&mut &*body, &owned.context());
        let waits = [ObjectId::PublishRequest_Encoding_DefaultBinary, ObjectId::CallRequest_Encoding_DefaultBinary];
        let request = world.send_raw(self.conn, body);
        self.open.insert(request);
        self.settle(world)?;
        let may_wait = id.is_ok_and(|id| waits.into_iter().any(|one| id == one));
        prop_assert!(may_wait || !self.open.contains(&request), "{body:?} is not answered");
        Ok(())
    }

    fn settle(&mut self, world: &mut World) -> Result<(), TestCaseError> {
        let peer = world.peers.get_mut(&self.conn).unwrap();
        for answered in std::mem::take(&mut peer.answers).into_keys() {
            prop_assert!(self.open.remove(&answered), "{answered} was not asked, or is answered twice");
        }
        prop_assert_eq!(peer.closed, None, "the client's end takes no answer to what waits for none");
        Ok(())
    }

    /// A method comes back.
    fn call_back(&mut self, world: &mut World) -> Result<(), TestCaseError> {
        let Some((id, _)) = world.invoked.pop_front() else { return Ok(()) };
        let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: Vec::new() };
        world.input(Input::Answer { id, answer });
        self.settle(world)
    }
}

/// One byte of one request is another: which request, where in it, and what stands there.
type Flip = (usize, usize, u8);

/// Sends requests with their flips one after another, lets half of the methods come back, time pass and the session end:
/// every request has got exactly one answer. Returns how many waited before the last flip, and after it.
fn each_is_answered_once(flips: &[Flip]) -> Result<(usize, usize), TestCaseError> {
    let mut world = World::new();
    let (conn, login) = world.log_in(BARE, "alice");
    let mut account = Account { conn, open: BTreeSet::new() };
    let bodies = requests(&mut world, &login);
    let mut waited = (0, 0);
    for &(which, at, value) in flips {
        let mut body = bodies[which].clone();
        let at = at % body.len();
        body[at] = value;
        waited.0 = account.open.len();
        account.send(&mut world, &body)?;
        waited.1 = account.open.len();
    }
    for _ in 0..world.invoked.len() / 2 {
        account.call_back(&mut world)?;
    }
    world.pass(Duration::from_secs(2));
    account.settle(&mut world)?;
    let end = CloseSessionRequest { request_header: world.header(&login.token), ..Default::default() };
    account.send(&mut world, &encoded(&end))?;
    prop_assert!(account.open.is_empty(), "never answered: {:?}", account.open);
    while !world.invoked.is_empty() {
        account.call_back(&mut world)?;
    }
    let (other, login) = world.log_in(BARE, "alice");
    prop_assert!(world.read_one(other, &login, "Pressure").is_ok());
    Ok(waited)
}

const CALL: Flip = (2, 0, 1);
const SUBSCRIBE: Flip = (4, 0, 1);
const PUBLISH: Flip = (5, 0, 1);

#[test]
fn a_flip_that_makes_a_request_another_answers_what_waited_once() {
    let number = |id: ObjectId| (id as u32).to_le_bytes()[0];
    let rows: [(&str, Vec<Flip>, (usize, usize)); 5] = [
        ("as they are, a call and a publish wait", vec![SUBSCRIBE, CALL, PUBLISH], (1, 2)),
        (
            "an activation becomes the end of the session",
            vec![SUBSCRIBE, CALL, PUBLISH, (6, 2, number(ObjectId::CloseSessionRequest_Encoding_DefaultBinary))],
            (2, 0),
        ),
        ("a publish too many answers the first", [vec![SUBSCRIBE], vec![PUBLISH; 33]].concat(), (32, 32)),
        (
            "a publish becomes the end of all subscriptions, of which there are none",
            vec![SUBSCRIBE, PUBLISH, (5, 2, number(ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary))],
            (1, 1),
        ),
        ("a call is no call", vec![SUBSCRIBE, PUBLISH, CALL, (2, 0, 255)], (2, 2)),
    ];
    for (rule, flips, waited) in rows {
        assert_eq!(each_is_answered_once(&flips).unwrap(), waited, "{rule}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_get_one_answer_each(flips in prop::collection::vec((0_usize..9, any::<u16>().prop_map(usize::from), any::<u8>()), 1..200)) {
        each_is_answered_once(&flips)?;
    }
}
