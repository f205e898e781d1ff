//! The methods of the Server object that are about subscriptions, GetMonitoredItems and ResendData (OPC 10000-5 §9.1,
//! §9.2), answered from the guard's books: ids of the upstream server never leave. As with the services for
//! subscriptions, only the session's own can be meant, and no right beside that is needed.

use opcua_types::{Array, Identifier, ObjectId, StatusCode, Variant, VariantScalarTypeId};

use super::publish::set_mode;
use super::{DISABLED, REPORTING};
use crate::guard::change::Item;
use crate::guard::desk::{Desk, encoded};
use crate::server::front::{Reader, write_len};

/// On the Server object and on its type.
const GET_MONITORED_ITEMS: [u32; 2] = [11_492, 11_489];
const RESEND_DATA: [u32; 2] = [12_873, 12_871];

/// Answers a call, if it is one of these, with a CallMethodResult.
pub(in crate::guard) fn answer(desk: &mut Desk<'_>, item: &Item, body: &[u8]) -> Option<Vec<u8>> {
    let [object, method] = item.touched.as_slice() else { return None };
    if object.node != ObjectId::Server || method.node.namespace != 0 {
        return None;
    }
    let Identifier::Numeric(number) = method.node.identifier else { return None };
    let inputs = body.get(item.value.clone()).unwrap_or_default();
    let outcome = if GET_MONITORED_ITEMS.contains(&number) {
        subscription(desk, inputs).and_then(|id| monitored_items(desk, id))
    } else if RESEND_DATA.contains(&number) {
        subscription(desk, inputs).map(|id| {
            resend(desk, id);
            Vec::new()
        })
    } else {
        return None;
    };
    let (status, outputs) = match outcome {
        Ok(outputs) => (StatusCode::Good, outputs),
        Err(status) => (status, Vec::new()),
    };
    let mut out = status.bits().to_le_bytes().to_vec();
    out.extend_from_slice(&[0xff; 8]);
    write_len(&mut out, outputs.len());
    outputs.iter().for_each(|output| out.extend_from_slice(&encoded(output)));
    Some(out)
}

/// The one argument of both, a subscription of this session.
fn subscription(desk: &Desk<'_>, inputs: &[u8]) -> Result<u32, StatusCode> {
    let mut reader = Reader::new(inputs);
    match reader.array_len(1)? {
        0 => return Err(StatusCode::BadArgumentsMissing),
        1 => {}
        _ => return Err(StatusCode::BadTooManyArguments),
    }
    // A scalar UInt32.
    if reader.u8()? != 7 {
        return Err(StatusCode::BadInvalidArgument);
    }
    let id = reader.u32()?;
    let known = desk.link.subs.subscriptions.contains_key(&id);
    if known { Ok(id) } else { Err(StatusCode::BadSubscriptionIdInvalid) }
}

fn monitored_items(desk: &Desk<'_>, id: u32) -> Result<Vec<Variant>, StatusCode> {
    let items = desk.link.subs.subscriptions.get(&id).map(|subscription| &subscription.items);
    let numbers = items.into_iter().flatten().map(|(number, _)| Variant::UInt32(*number)).collect();
    let handles = items.into_iter().flatten().map(|(_, item)| Variant::UInt32(item.client_handle)).collect();
    let array = |values: Vec<Variant>| -> Result<Variant, StatusCode> {
        let array = Array::new(VariantScalarTypeId::UInt32, values).map_err(|_| StatusCode::BadInternalError)?;
        Ok(Variant::Array(Box::new(array)))
    };
    Ok(vec![array(numbers)?, array(handles)?])
}

/// The present values of the items that report come again: the server samples what is disabled and enabled again, so
/// it need not know the method.
fn resend(desk: &mut Desk<'_>, id: u32) {
    let Some(subscription) = desk.link.subs.subscriptions.get(&id) else { return };
    let reports = |item: &super::Item| !item.denied && item.mode == REPORTING && item.fields.is_none();
    let reporting = subscription.items.iter().filter(|(_, item)| reports(item));
    let numbers: Vec<u32> = reporting.map(|(number, _)| *number).collect();
    if !numbers.is_empty() {
        set_mode(desk.link, id, DISABLED, numbers.clone(), desk.now);
        set_mode(desk.link, id, REPORTING, numbers, desk.now);
    }
}
