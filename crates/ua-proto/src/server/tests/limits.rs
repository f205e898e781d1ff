//! Limits that the server publishes (OPC 10000-5 §6.3.2) are limits that it keeps.

use opcua_types::*;

use super::world::*;

const STRING: usize = 1 << 20;
const ARRAY: usize = 65_535;

fn status(world: &mut World, name: &str, value: Variant) -> StatusCode {
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.write(conn, &login, vec![(id(name), value)]).map_or_else(|fault| fault, |all| all[0])
}

#[test]
fn published_lengths_are_kept_to_the_byte() {
    let limits = crate::space::Limits::default();
    assert_eq!((limits.max_string_length, limits.max_byte_string_length), (STRING as u32, STRING as u32));
    assert_eq!(limits.max_array_length, ARRAY as u32);
    let mut world = World::new();
    let text = |length| Variant::from("a".repeat(length));
    let bytes = |length| Variant::from(ByteString::from(vec![7_u8; length]));
    let array = |length| Variant::from(vec![7_i32; length]);
    // A ByteString does not fit the variable; that it is read at all is what tells.
    let cases = [
        ("String", "Note", text(STRING), text(STRING + 1), StatusCode::Good),
        ("ByteString", "Note", bytes(STRING), bytes(STRING + 1), StatusCode::BadTypeMismatch),
        ("array", "Samples", array(ARRAY), array(ARRAY + 1), StatusCode::Good),
    ];
    for (name, node, longest, beyond, expected) in cases {
        assert_eq!(status(&mut world, node, longest), expected, "the longest {name}");
        let refused = [StatusCode::BadEncodingLimitsExceeded, StatusCode::BadDecodingError];
        assert!(refused.contains(&status(&mut world, node, beyond)), "{name}: one more");
    }
}
