//! Which structures of a request are opened, and how responses are written.

use access_model::Now;
use opcua_types::{
    AnonymousIdentityToken, DataChangeFilter, DiagnosticInfo, ExtensionObject, IssuedIdentityToken,
    MdnsDiscoveryConfiguration, ObjectId, ResponseHeader, StatusCode, UserNameIdentityToken, X509IdentityToken,
    binary_decode_to_enc,
};

pub(crate) use crate::body::{Codec, date_time, write_message};
use crate::body::{Open, ticks};
use crate::space::Limits;

/// The decoder for requests, which keeps MaxArrayLength, MaxStringLength and MaxByteStringLength as the server publishes
/// them; the operation limits of each service lie below.
pub(crate) fn requests_within(limits: &Limits) -> Codec {
    let number = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
    Codec::new(opened, number(limits.max_array_length))
        .with_longest(number(limits.max_string_length), number(limits.max_byte_string_length))
}

/// The same with the usual limits.
pub(crate) fn requests() -> Codec {
    requests_within(&Limits::default())
}

/// Identity tokens and data-change filters are opened. A written structure is stored as it was sent.
fn opened(id: ObjectId) -> Option<Open> {
    Some(match id {
        ObjectId::AnonymousIdentityToken_Encoding_DefaultBinary => binary_decode_to_enc::<AnonymousIdentityToken>,
        ObjectId::UserNameIdentityToken_Encoding_DefaultBinary => binary_decode_to_enc::<UserNameIdentityToken>,
        ObjectId::X509IdentityToken_Encoding_DefaultBinary => binary_decode_to_enc::<X509IdentityToken>,
        ObjectId::IssuedIdentityToken_Encoding_DefaultBinary => binary_decode_to_enc::<IssuedIdentityToken>,
        ObjectId::MdnsDiscoveryConfiguration_Encoding_DefaultBinary => {
            binary_decode_to_enc::<MdnsDiscoveryConfiguration>
        }
        ObjectId::DataChangeFilter_Encoding_DefaultBinary => binary_decode_to_enc::<DataChangeFilter>,
        _ => return None,
    })
}

/// The header of a response, for the types of the types crate.
pub(crate) fn response_header(now: Now, handle: u32) -> ResponseHeader {
    ResponseHeader {
        timestamp: date_time(now),
        request_handle: handle,
        service_result: StatusCode::Good,
        service_diagnostics: DiagnosticInfo::default(),
        string_table: None,
        additional_header: ExtensionObject::null(),
    }
}

/// Writes the type id and the header of a response; what follows is the response's own.
pub(crate) fn write_header(out: &mut Vec<u8>, id: ObjectId, now: Now, handle: u32, status: StatusCode) {
    let id = (id as u32).to_le_bytes();
    let [low, high, ..] = id;
    out.extend_from_slice(&[1, 0, low, high]);
    out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    out.extend_from_slice(&handle.to_le_bytes());
    out.extend_from_slice(&status.bits().to_le_bytes());
    // No diagnostics, no string table, no additional header.
    out.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]);
}

/// Writes an array length.
pub(crate) fn write_len(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
}

/// Writes the null array that stands for "no diagnostics".
pub(crate) fn write_no_diagnostics(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1_i32).to_le_bytes());
}

/// Writes what is told of each item: nothing, or one sentence (AdditionalInfo).
pub(crate) fn write_diagnostics<'a>(out: &mut Vec<u8>, told: impl ExactSizeIterator<Item = Option<&'a str>> + Clone) {
    if told.clone().all(|one| one.is_none()) {
        return write_no_diagnostics(out);
    }
    write_len(out, told.len());
    for one in told {
        match one {
            None => out.push(0),
            Some(text) => {
                out.push(0x10);
                write_len(out, text.len());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access_model::{Mono, UnixTime};

    #[test]
    fn the_handwritten_header_is_the_one_of_the_types_crate() {
        let now = Now { mono: Mono::ZERO, unix: UnixTime::from_seconds(1_790_000_000) };
        let codec = requests();
        let ctx = codec.context(1000);
        let fault = opcua_types::ServiceFault { response_header: response_header(now, 7) };
        let mut theirs = Vec::new();
        write_message(&mut theirs, &fault, &ctx).unwrap();
        let mut ours = Vec::new();
        write_header(&mut ours, ObjectId::ServiceFault_Encoding_DefaultBinary, now, 7, StatusCode::Good);
        assert_eq!(ours, theirs);
    }
}
