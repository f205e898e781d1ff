//! History through the guard: decided item by item, byte for byte, with continuation points of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use access_model::Rights;
use opcua_types::*;

use super::world::*;
use crate::server::ConnId;
use crate::server::front::{Reader, write_header, write_len, write_no_diagnostics};

pub(super) const IDS: (ObjectId, ObjectId) =
    (ObjectId::HistoryReadRequest_Encoding_DefaultBinary, ObjectId::HistoryReadResponse_Encoding_DefaultBinary);
/// A structure that nobody knows, in an encoding that is longer than needed.
const DATA: [u8; 16] = [2, 9, 0, 0x39, 0x30, 0, 0, 1, 4, 0, 0, 0, 7, 8, 9, 10];

/// A server that has this history for every node, and more of it.
fn historian(world: &mut World) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let seen: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let log = Rc::clone(&seen);
    world.script = Some(Box::new(move |_, body, handle| {
        log.borrow_mut().push(body.to_vec());
        let mut reader = Reader::new(body);
        reader.extension_object()?;
        reader.bytes(5)?;
        let count = reader.array_len(1)?;
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, start(), handle, StatusCode::Good);
        write_len(&mut out, count);
        for _ in 0..count {
            out.extend_from_slice(&StatusCode::GoodMoreData.bits().to_le_bytes());
            out.extend_from_slice(&[2, 0, 0, 0, 0xaa, 0xbb]);
            out.extend_from_slice(&DATA);
        }
        write_no_diagnostics(&mut out);
        Ok(out)
    }));
    seen
}

fn raw() -> ExtensionObject {
    ExtensionObject::from_message(ReadRawModifiedDetails::default())
}

fn body(details: ExtensionObject, nodes: &[(&str, &[u8])]) -> Vec<u8> {
    let one = |(name, point): &(&str, &[u8])| HistoryReadValueId {
        node_id: id(name),
        continuation_point: if point.is_empty() { ByteString::null() } else { ByteString::from(point.to_vec()) },
        ..HistoryReadValueId::default()
    };
    body_of(&HistoryReadRequest {
        history_read_details: details,
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(nodes.iter().map(one).collect()),
        ..HistoryReadRequest::default()
    })
}

/// Status, continuation point and data.
type Told = (StatusCode, Vec<u8>, Vec<u8>);

fn ask(
    world: &mut World,
    client: ConnId,
    details: ExtensionObject,
    nodes: &[(&str, &[u8])],
) -> Result<Vec<Told>, StatusCode> {
    let answer = world.raw(client, IDS, body(details, nodes))?;
    let mut reader = Reader::new(&answer);
    let count = reader.array_len(1).unwrap();
    let one = |reader: &mut Reader<'_>| {
        let status = StatusCode::from(reader.u32().unwrap());
        let point = reader.byte_string().unwrap().unwrap_or_default().to_vec();
        let before = reader.rest();
        reader.extension_object().unwrap();
        (status, point, before[..before.len() - reader.rest().len()].to_vec())
    };
    Ok((0..count).map(|_| one(&mut reader)).collect())
}

fn reader(world: &mut World) -> ConnId {
    let browse = Rights::BROWSE;
    world.client_by_token(vec![(browse | Rights::READ_HISTORY, 1), (browse | Rights::READ, 2)], Duration::from_secs(60))
}

#[test]
fn history_is_read_by_a_right_of_its_own() {
    use StatusCode as S;
    let mut world = World::new();
    let seen = historian(&mut world);
    let client = reader(&mut world);
    let nodes: Vec<(&str, &[u8])> =
        ["Setpoint", "Secret", "Speed", "Nothing", "Note"].into_iter().map(|name| (name, [].as_slice())).collect();
    let results = ask(&mut world, client, raw(), &nodes).unwrap();
    let statuses: Vec<StatusCode> = results.iter().map(|result| result.0).collect();
    let unknown = S::BadNodeIdUnknown;
    assert_eq!(statuses, [S::GoodMoreData, unknown, S::BadUserAccessDenied, unknown, S::GoodMoreData]);
    assert!(results.iter().all(|result| result.0.is_bad() || result.2 == DATA), "byte for byte");
    assert!(results[1].2 == [0, 0, 0] && results[1].1.is_empty(), "whatever the server says of it");
    let sent = String::from_utf8_lossy(&seen.borrow()[0]).into_owned();
    assert!(sent.contains("Setpoint") && !sent.contains("Secret") && !sent.contains("Speed"));
    let events = ExtensionObject::from_message(ReadAtTimeDetails::default());
    assert!(ask(&mut world, client, events, &nodes[..1]).is_ok(), "at times");
    let processed = ExtensionObject::from_message(ReadProcessedDetails {
        aggregate_type: Some(vec![NodeId::new(0, 2342_u32)]),
        ..ReadProcessedDetails::default()
    });
    assert!(ask(&mut world, client, processed, &nodes[..1]).is_ok(), "processed");
    let hidden = ExtensionObject::from_message(ReadProcessedDetails {
        aggregate_type: Some(vec![id("Secret")]),
        ..ReadProcessedDetails::default()
    });
    assert_eq!(ask(&mut world, client, hidden, &nodes[..1]), Err(S::BadAggregateNotSupported), "by a hidden aggregate");
    let unknown = ExtensionObject::from_message(EventFilter::default());
    let unsupported = S::BadHistoryOperationUnsupported;
    assert_eq!(ask(&mut world, client, unknown, &nodes[..1]), Err(unsupported), "of a kind that is none");
    let mut lying = body(raw(), &nodes[..1]);
    lying[5] += 1;
    assert_eq!(world.raw(client, IDS, lying), Err(S::BadDecodingError));
}

#[test]
fn where_history_goes_on_is_known_to_its_session_and_node_only() {
    use StatusCode as S;
    let mut world = World::new();
    let seen = historian(&mut world);
    let (client, other) = (reader(&mut world), reader(&mut world));
    let point = ask(&mut world, client, raw(), &[("Setpoint", &[])]).unwrap().remove(0).1;
    assert_ne!(point, [0xaa, 0xbb], "the server's own does not leave");
    let invalid = S::BadContinuationPointInvalid;
    for (rule, who, node, point) in [
        ("another session's", other, "Setpoint", point.as_slice()),
        ("another node's", client, "Note", &point),
        ("the server's own", client, "Setpoint", &[0xaa, 0xbb]),
    ] {
        assert_eq!(ask(&mut world, who, raw(), &[(node, point)]).unwrap()[0].0, invalid, "{rule}");
    }
    let next = ask(&mut world, client, raw(), &[("Setpoint", &point)]).unwrap().remove(0);
    assert_eq!(next.0, S::GoodMoreData);
    let sent = seen.borrow().last().cloned().unwrap();
    assert!(sent.ends_with(&[2, 0, 0, 0, 0xaa, 0xbb]), "the server hears its own again");
    assert_eq!(ask(&mut world, client, raw(), &[("Setpoint", &point)]).unwrap()[0].0, invalid, "once");
}

#[test]
fn history_that_is_on_the_way_when_the_grant_ends_is_not_told() {
    let mut world = World::new();
    let _seen = historian(&mut world);
    let client = reader(&mut world);
    world.hold = true;
    let request = crate::client::RawRequest::new(IDS.0, IDS.1, body(raw(), &[("Setpoint", &[])]));
    let call = world.send(client, crate::client::Request::Raw(request));
    world.pass(Duration::from_secs(61));
    world.release();
    assert!(world.answer(client, call).unwrap().is_err());
}

/// The server keeps something for each place where history goes on.
#[test]
fn places_where_history_goes_on_are_given_back_when_nobody_has_them() {
    let seconds = Duration::from_secs;
    for rule in ["come late", "come when the right is gone", "make room", "have another user"] {
        let mut world = World::new();
        let seen = historian(&mut world);
        let client = reader(&mut world);
        let nodes: [(&str, &[u8]); 3] = [("Setpoint", &[]), ("Secret", &[]), ("Note", &[])];
        match rule {
            "make room" => {
                for _ in 0..17 {
                    ask(&mut world, client, raw(), &nodes[..1]).unwrap();
                }
            }
            "have another user" => {
                ask(&mut world, client, raw(), &nodes[..1]).unwrap();
                let other = world.token("bert", vec![(Rights::BROWSE, 1)], seconds(60));
                world.reactivate(client, other);
            }
            _ => {
                world.hold = true;
                let request = crate::client::RawRequest::new(IDS.0, IDS.1, body(raw(), &nodes));
                let call = world.send_for(client, crate::client::Request::Raw(request), seconds(2));
                world.pass(seconds(if rule == "come late" { 3 } else { 1 }));
                if rule == "come when the right is gone" {
                    let poorer = world.token("alice", vec![(Rights::BROWSE, 1)], seconds(60));
                    world.reactivate(client, poorer);
                }
                world.release();
                assert!(world.answer(client, call).is_some(), "{rule}");
            }
        }
        let given_back = seen.borrow().iter().filter(|body| body[body.len() - 1] == 0xbb).cloned().collect::<Vec<_>>();
        let mut count = 0;
        for body in &given_back {
            let mut reader = Reader::new(body);
            reader.extension_object().unwrap();
            assert_eq!(reader.bytes(5).unwrap()[4], 1, "{rule}: they are released");
            count += reader.array_len(1).unwrap();
        }
        // The server of this test gives one for the node that never exists as well.
        let expected = [("come late", 3), ("come when the right is gone", 2)];
        let expected = expected.iter().find(|(of, _)| *of == rule).map_or(1, |(_, count)| *count);
        assert_eq!(count, expected, "{rule}");
        assert!(String::from_utf8_lossy(&given_back[0]).contains("Setpoint"), "{rule}: by the node");
    }
}
