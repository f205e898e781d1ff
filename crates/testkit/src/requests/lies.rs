//! Parts of requests that two decoders may read differently.

use opcua_types::{BinaryEncodable, ContextOwned, NodeId, ObjectId, UAString};

use super::{Dice, Request};
use crate::world::{method_id, variable_id};

fn encoded(value: &impl BinaryEncodable) -> Vec<u8> {
    value.encode_to_vec(&ContextOwned::default().context())
}

fn length(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes()
}

/// A name for a node: one of the plant's in some number of bytes, or what only looks like one.
pub(super) fn node(dice: &mut Dice) -> Vec<u8> {
    let number = 1_000 * (1 + dice.below(3)) + dice.below(2);
    let number = u32::try_from(number).unwrap_or(0);
    let short = [&[1, 1][..], &number.to_le_bytes()[..2]].concat();
    match dice.below(16) {
        0..4 => short,
        4 | 5 => [&[2, 1, 0][..], &number.to_le_bytes()].concat(),
        6 => [&[2, 0, 0][..], &number.to_le_bytes()].concat(),
        7 => encoded(&NodeId::new(1, *dice.one(&["reactor", "mixer", "vault", ""]).unwrap_or(&""))),
        8 => encoded(&NodeId::new(1, UAString::null())),
        9 => [&[3, 1, 0][..], &length(7), b"reactor"].concat(),
        10 => [&[3, 1, 0][..], &length(4), &[0xff, 0xfe, b'x', 0x80]].concat(),
        11 => [&[3, 1, 0][..], &length(8), b"vault\0xy"].concat(),
        12 => [&[5, 1, 0][..], &length(2), &[1, 2]].concat(),
        13 => [&[4, 1, 0][..], &[7; 16]].concat(),
        // Flags that only an ExpandedNodeId has, with what they announce.
        14 => [&[0x81][..], &short[1..], &length(1), b"u"].concat(),
        _ => [&[0x41][..], &short[1..], &[3, 0, 0, 0]].concat(),
    }
}

/// A value that is written in an unusual or a wrong way.
pub(super) fn variant(dice: &mut Dice) -> Vec<u8> {
    let number = |kind: u8, bytes: &[u8]| [&[kind][..], bytes].concat();
    match dice.below(20) {
        0 => number(13, &i64::MAX.to_le_bytes()),
        1 => number(13, &i64::MIN.to_le_bytes()),
        2 => number(11, &0x7ff0_0000_dead_beef_u64.to_le_bytes()),
        3 => number(10, &0x7fa0_1234_u32.to_le_bytes()),
        4 => number(1, &[2]),
        5 => [&[12][..], &length(3), &[0xff, b'a', 0xc0]].concat(),
        6 => number(12, &(-1_i32).to_le_bytes()),
        7 => number(12, &0_i32.to_le_bytes()),
        8 => number(0x86, &(-1_i32).to_le_bytes()),
        9 => [&[0x86][..], &length(2), &[1, 0, 0, 0, 2, 0, 0, 0]].concat(),
        // Dimensions that say something else than the count.
        10 => [&[0xc6][..], &length(2), &[1, 0, 0, 0, 2, 0, 0, 0], &length(2), &[3, 0, 0, 0, 0xff, 0, 0, 0]].concat(),
        11 => [&[0xc6][..], &length(2), &[1, 0, 0, 0, 2, 0, 0, 0], &length(1), &[2, 0, 0, 0]].concat(),
        12 => number(0x46, &[1, 0, 0, 0]),
        13 => [&[0x98][..], &length(2), &[6, 1, 0, 0, 0, 24, 3, 9]].concat(),
        14 => {
            vec![24, 23, 0x3f, 6, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        }
        15 => [&[25, 0x7f][..], &[0; 16], &length(1), b"i", &[0, 0, 0, 0], &[0]].concat(),
        16 => [&[17][..], &node(dice)].concat(),
        17 => [&[20, 1, 0][..], &length(1), b"q"].concat(),
        18 => vec![21, 3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        _ => {
            let (kind, size) = *dice.one(&STRUCTURES).unwrap_or(&STRUCTURES[0]);
            let lie = dice.below(LIES);
            [&[22][..], &structure(kind, size, lie)].concat()
        }
    }
}

/// Structures that every stack knows, of a size that does not change.
const STRUCTURES: [(ObjectId, usize); 4] = [
    (ObjectId::ReadRawModifiedDetails_Encoding_DefaultBinary, 22),
    (ObjectId::SamplingIntervalDiagnosticsDataType_Encoding_DefaultBinary, 20),
    (ObjectId::ServerDiagnosticsSummaryDataType_Encoding_DefaultBinary, 48),
    (ObjectId::DataChangeFilter_Encoding_DefaultBinary, 16),
];
/// How many ways there are to tell the length of one.
const LIES: usize = 9;

/// An ExtensionObject with this type id that tells its length one way or another; what its body takes follows only where
/// somebody who believes it needs it.
fn structure(kind: ObjectId, size: usize, lie: usize) -> Vec<u8> {
    let head = |encoding: u8, told: i32| [&encoded(&NodeId::from(kind))[..], &[encoding], &told.to_le_bytes()].concat();
    let size = i32::try_from(size).unwrap_or(0);
    let zeros = |count: i32| vec![0; usize::try_from(count).unwrap_or(0)];
    match lie {
        0 => head(1, -1),
        1 => head(1, 0),
        2 => [head(1, 1), zeros(1)].concat(),
        3 => [head(1, size - 4), zeros(size - 4)].concat(),
        4 => [head(1, size + 4), zeros(size + 4)].concat(),
        5 => head(2, -1),
        6 => [head(2, 4), b"<a/>".to_vec()].concat(),
        7 => [encoded(&NodeId::from(kind)), vec![0]].concat(),
        _ => [head(1, size), zeros(size)].concat(),
    }
}

/// Requests with two items of which the first ends with a structure that lies about its length, and the second holds in
/// a text or in a value an item about something hidden: what a decoder finds who ends the first elsewhere.
#[must_use]
pub fn smuggled() -> Vec<Request> {
    let mut requests = Vec::new();
    for (kind, size) in STRUCTURES {
        for lie in 0..LIES {
            for padding in 0..32 {
                let structure = structure(kind, size, lie);
                requests.push(smuggled_write(&structure, padding));
                requests.push(smuggled_call(&structure, padding));
                requests.push(smuggled_argument(&structure, padding));
            }
        }
    }
    requests.push(smuggled_type());
    requests
}

fn request(service: ObjectId, body: Vec<u8>) -> Request {
    Request { service: u16::try_from(service as u32).unwrap_or(0), body }
}

fn text(padding: usize) -> Vec<u8> {
    if padding == 0 { vec![0xff; 4] } else { [&length(padding)[..], &vec![b'1'; padding]].concat() }
}

fn write(node: &NodeId, part: &[u8], value: &[u8]) -> Vec<u8> {
    [&encoded(node)[..], &13_u32.to_le_bytes(), part, &[1], value].concat()
}

fn smuggled_write(structure: &[u8], padding: usize) -> Request {
    let none = [0xff; 4];
    let hidden = write(&variable_id(3, 0), &none, &[6, 99, 0, 0, 0]);
    let first = write(&variable_id(1, 0), &none, &[&[22], structure].concat());
    let carrier = [&[15][..], &length(hidden.len()), &hidden].concat();
    let second = write(&variable_id(1, 1), &text(padding), &carrier);
    request(ObjectId::WriteRequest_Encoding_DefaultBinary, [&length(2)[..], &first, &second].concat())
}

fn call(object: &NodeId, method: &NodeId, inputs: &[Vec<u8>]) -> Vec<u8> {
    [&encoded(object)[..], &encoded(method), &length(inputs.len()), &inputs.concat()].concat()
}

fn smuggled_call(structure: &[u8], padding: usize) -> Request {
    let hidden = call(&NodeId::new(1, "vault"), &method_id(3), &[]);
    let first = call(&variable_id(1, 0), &method_id(1), &[[&[22], structure].concat()]);
    let carrier = [&[15][..], &length(hidden.len() + padding), &vec![0; padding], &hidden].concat();
    let second = call(&variable_id(1, 1), &method_id(1), &[carrier]);
    request(ObjectId::CallRequest_Encoding_DefaultBinary, [&length(2)[..], &first, &second].concat())
}

/// One call whose second argument is another one for who ends the first elsewhere.
fn smuggled_argument(structure: &[u8], padding: usize) -> Request {
    let carrier = [&[15][..], &length(padding + 5), &vec![0; padding], &[6, 99, 0, 0, 0]].concat();
    let inputs = [[&[22], structure].concat(), carrier.clone(), carrier];
    let call = call(&NodeId::new(1, "reactor"), &method_id(1), &inputs);
    request(ObjectId::CallRequest_Encoding_DefaultBinary, [&length(1)[..], &call].concat())
}

/// A node to be added whose attributes are XML: who does not read them takes their length for the type definition.
fn smuggled_type() -> Request {
    let head = [&encoded(&NodeId::new(1, "reactor"))[..], &[0, 35], &[0, 0], &[1, 0], &text(3), &1_u32.to_le_bytes()];
    let attributes = encoded(&NodeId::from(ObjectId::ObjectAttributes_Encoding_DefaultBinary));
    let mut xml = vec![0; 0x0102];
    xml[0] = 0x0c;
    let item = [&head.concat()[..], &attributes, &[2], &length(xml.len()), &xml, &encoded(&variable_id(1, 0))].concat();
    request(ObjectId::AddNodesRequest_Encoding_DefaultBinary, [&length(1)[..], &item].concat())
}
