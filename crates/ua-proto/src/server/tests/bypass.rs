//! Bytes that no client sends: whatever a body holds, there is one answer and no panic (invariant 8).

use opcua_types::*;
use proptest::prelude::*;

use super::services::value_of;
use super::world::*;
use crate::server::dispatch::{SERVICES, Service};

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_get_one_answer_each(flips in prop::collection::vec((0_usize..9, any::<prop::sample::Index>(), any::<u8>()), 1..200)) {
        let mut world = World::new();
        let (conn, login) = world.log_in(BARE, "alice");
        let mut bodies = requests(&mut world, &login);
        for (which, at, value) in flips {
            let body = &mut bodies[which];
            let at = at.index(body.len());
            let before = std::mem::replace(&mut body[at], value);
            let body = body.clone();
            bodies[which][at] = before;
            let request = world.send_raw(conn, &body);
            if world.peers[&conn].closed.is_some() {
                break;
            }
            let answers = world.peers[&conn].answers.len();
            let answered = world.peers.get_mut(&conn).unwrap().answers.remove(&request).is_some();
            // A Publish is answered later, a write or call when it is on record; nothing is answered that was not asked.
            prop_assert!(answers <= 1 && (answers == 0) != answered, "{answers} answers, its own: {answered}");
        }
        let (other, login) = world.log_in(BARE, "alice");
        prop_assert!(world.read_one(other, &login, "Pressure").is_ok());
    }
}
