//! Which structures of a response are opened, and what stands in front of every response.

use std::io::Read;

use opcua_types::{
    Argument, BinaryDecodable, BuildInfo, Context, DynEncodable, EUInformation, EncodingResult, EndpointDescription,
    Error, NodeId, ObjectId, Range, ServerStatusDataType, StatusCode, UAString, UserTokenPolicy, binary_decode_to_enc,
};

pub(super) use crate::body::{Codec, date_time};
use crate::body::{Malformed, Open, Reader};

/// The most elements an array of a response may have.
const MAX_ARRAY: usize = 1 << 20;
/// The most dimensions an argument may have.
const MAX_RANK: i32 = 64;

/// The decoder for responses.
pub(super) fn responses() -> Codec {
    Codec::new(opened, MAX_ARRAY)
}

/// What stands in front of every response.
pub(super) struct Head {
    /// Numeric id of the response's type.
    pub(super) type_id: Option<u32>,
    /// The request's handle, given back.
    pub(super) handle: u32,
    pub(super) status: StatusCode,
    /// The additional header, when it is one of parameters.
    pub(super) parameters: Option<Vec<u8>>,
}

/// Steps over type id and header.
pub(super) fn head(reader: &mut Reader<'_>) -> Result<Head, Malformed> {
    const PARAMETERS: u32 = ObjectId::AdditionalParametersType_Encoding_DefaultBinary as u32;
    let type_id = reader.standard_id()?;
    reader.i64()?;
    let handle = reader.u32()?;
    let status = StatusCode::from(reader.u32()?);
    // Never asked for, so walked and dropped.
    reader.skip_diagnostic_info()?;
    reader.each(4, |reader| reader.byte_string().map(drop))?;
    let (id, body) = reader.extension_object()?;
    let parameters = (id == Some(PARAMETERS)).then(|| body.to_vec());
    Ok(Head { type_id, handle, status, parameters })
}

/// Structures without recursive fields that a client looks into.
fn opened(id: ObjectId) -> Option<Open> {
    Some(match id {
        ObjectId::Argument_Encoding_DefaultBinary => argument,
        ObjectId::Range_Encoding_DefaultBinary => binary_decode_to_enc::<Range>,
        ObjectId::EUInformation_Encoding_DefaultBinary => binary_decode_to_enc::<EUInformation>,
        ObjectId::BuildInfo_Encoding_DefaultBinary => binary_decode_to_enc::<BuildInfo>,
        ObjectId::ServerStatusDataType_Encoding_DefaultBinary => binary_decode_to_enc::<ServerStatusDataType>,
        ObjectId::UserTokenPolicy_Encoding_DefaultBinary => binary_decode_to_enc::<UserTokenPolicy>,
        ObjectId::EndpointDescription_Encoding_DefaultBinary => binary_decode_to_enc::<EndpointDescription>,
        _ => return None,
    })
}

/// An Argument, its ValueRank looked at first: the types crate fills up missing dimensions to any rank, so that 40 bytes
/// of a server could take all memory.
fn argument(stream: &mut dyn Read, ctx: &Context<'_>) -> EncodingResult<Box<dyn DynEncodable>> {
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).map_err(Error::decoding)?;
    let mut head = raw.as_slice();
    UAString::decode(&mut head, ctx)?;
    NodeId::decode(&mut head, ctx)?;
    if i32::decode(&mut head, ctx)? > MAX_RANK {
        return Err(Error::decoding("an argument has more dimensions than any array"));
    }
    binary_decode_to_enc::<Argument>(&mut raw.as_slice(), ctx)
}

#[cfg(test)]
mod tests {
    use opcua_types::{BinaryEncodable, ContextOwned, ExtensionObject};

    use super::*;

    #[test]
    fn an_argument_of_impossible_rank_is_refused() {
        let owned = ContextOwned::default();
        let rank = |rank: i32| {
            let argument = Argument { array_dimensions: Some(vec![0; 2]), value_rank: 2, ..Argument::default() };
            let mut bytes = ExtensionObject::from_message(argument).encode_to_vec(&owned.context());
            // Type id of four bytes, encoding, length, an empty name, and the null data type.
            bytes[4 + 1 + 4 + 4 + 2..][..4].copy_from_slice(&rank.to_le_bytes());
            responses().decode::<ExtensionObject>(&bytes)
        };
        assert!(
            rank(2).is_ok_and(|object| object.inner_as::<Argument>().is_some_and(|argument| argument.value_rank == 2))
        );
        assert!(rank(i32::MAX).is_err());
    }
}
