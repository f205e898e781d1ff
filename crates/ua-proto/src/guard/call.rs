//! Call (OPC 10000-4 §5.12.2): object and method are both decided. The methods of the Server object that are about
//! subscriptions are answered here, for ids are the guard's own.

use access_model::{Action, AuditKind};
use opcua_types::{ObjectId, StatusCode};

use super::bounds;
use super::change::{Cursor, Form, Item, Outcome};
use super::subs::methods;
use super::walk::{asked_variant, diagnostics, span, variant};
use crate::server::front::{Calling, Malformed, Reader, Told};

pub(super) const FORM: Form = Form {
    ids: (ObjectId::CallRequest_Encoding_DefaultBinary, ObjectId::CallResponse_Encoding_DefaultBinary),
    kind: AuditKind::Call,
    least: 8,
    limit: |limits| limits.call,
    read,
    check: bounds::called,
    own: methods::answer,
    result,
    bare: &[0xff; 12],
    unknown: StatusCode::BadNodeIdUnknown,
    told: tell,
};
/// Most arguments of one call.
const MAX_INPUTS: usize = 64;

/// The object first: a method that everybody may call on a type is not thereby callable on each instance.
fn read(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    item.node(cursor, Action::Call)?;
    item.node(cursor, Action::Call)?;
    let mut structures = false;
    let inputs = cursor.range(|reader| {
        let inputs = reader.array_len(1)?;
        if inputs > MAX_INPUTS {
            return Err(Malformed::Limit);
        }
        for _ in 0..inputs {
            asked_variant(reader, &mut structures)?;
        }
        Ok(())
    })?;
    item.only_real(inputs.clone(), &[0xff; 4]);
    (item.structures, item.value) = (structures, inputs);
    if let Some(method) = item.touched.get(1) {
        item.text = format!("method {}", method.node);
    }
    Ok(item)
}

/// A CallMethodResult without its diagnostics.
fn result(reader: &mut Reader<'_>) -> Outcome {
    let status = reader.u32()?;
    let arguments = span(reader, |reader| {
        let count = reader.array_len(4)?;
        reader.bytes(count.saturating_mul(4)).map(drop)
    })?;
    diagnostics(reader)?;
    let outputs = span(reader, |reader| {
        for _ in 0..reader.array_len(1)? {
            variant(reader, &mut false)?;
        }
        Ok(())
    })?;
    let bytes = [&status.to_le_bytes(), arguments, &[0xff; 4], outputs].concat();
    Ok((StatusCode::from(status), bytes))
}

/// What is told of a call: the nodes, and no argument.
fn tell(item: &Item, _: &[u8]) -> Told {
    let node = |at: usize| item.touched.get(at).map(|touched| touched.node.clone());
    Told::Called(Box::new(Calling { foreign: node(0).zip(node(1)), ..Calling::default() }))
}
