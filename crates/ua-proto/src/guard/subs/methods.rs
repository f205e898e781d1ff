//! The methods of the Server object that are about subscriptions, GetMonitoredItems and ResendData (OPC 10000-5 §9.1,
//! §9.2), answered from the guard's books: ids of the upstream server never leave. As with the services for
//! subscriptions, only the session's own can be meant, and no right beside that is needed.

use opcua_types::{Array, Identifier, ObjectId, StatusCode, Variant, VariantScalarTypeId};

use super::publish::set_mode;
use super::standing::{Place, Standing};
use super::{DISABLED, REPORTING};
use crate::guard::change::Item;
use crate::guard::desk::{Desk, encoded};
use crate::server::front::{Reader, write_len};

/// On the Server object and on its type.
const GET_MONITORED_ITEMS: [u32; 2] = [11_492, 11_489];
const RESEND_DATA: [u32; 2] = [12_873, 12_871];
/// Methods that the server carries out, by rights, and whose first argument is a subscription: SetSubscriptionDurable on
/// both, ConditionRefresh (OPC 10000-9 §5.5.7); and ConditionRefresh2 with an item behind it (§5.5.8).
const OF_A_SUBSCRIPTION: [u32; 3] = [12_749, 12_746, 3_875];
const OF_AN_ITEM: u32 = 12_912;
/// The kind of a scalar UInt32 in a Variant.
const UINT32: u8 = 7;

/// Answers a call, if it is one of these, with a CallMethodResult. Of other calls that name a subscription the argument
/// becomes the server's id: one that is not this session's goes nowhere, for upstream it may be somebody else's.
pub(in crate::guard) fn answer(desk: &mut Desk<'_>, item: &mut Item, body: &[u8]) -> Option<Vec<u8>> {
    let [object, method] = item.touched.as_slice() else { return None };
    let (object, method) = (desk.real(&object.node), desk.real(&method.node));
    let Identifier::Numeric(number) = method.identifier else { return None };
    if method.namespace != 0 {
        return None;
    }
    let inputs = body.get(item.value.clone()).unwrap_or_default();
    let own = GET_MONITORED_ITEMS.contains(&number) || RESEND_DATA.contains(&number);
    let outcome = if own && object != ObjectId::Server {
        // There is no other Server; a server may not look at the object.
        Err(StatusCode::BadMethodInvalid)
    } else if GET_MONITORED_ITEMS.contains(&number) {
        subscription(desk, inputs).and_then(|id| monitored_items(desk, id))
    } else if own {
        subscription(desk, inputs).map(|id| {
            resend(desk, id);
            Vec::new()
        })
    } else if OF_A_SUBSCRIPTION.contains(&number) || number == OF_AN_ITEM {
        match translated(desk, inputs, number == OF_AN_ITEM) {
            Ok(inputs) => {
                item.replaced = Some(inputs);
                return None;
            }
            Err(status) => Err(status),
        }
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
    let id = number(&mut reader)?;
    let known = desk.link.subs.subscriptions.contains_key(&id);
    if known { Ok(id) } else { Err(StatusCode::BadSubscriptionIdInvalid) }
}

/// A scalar UInt32.
fn number(reader: &mut Reader<'_>) -> Result<u32, StatusCode> {
    if reader.u8()? != UINT32 {
        return Err(StatusCode::BadInvalidArgument);
    }
    Ok(reader.u32()?)
}

/// The arguments with the server's ids in place of the guard's.
fn translated(desk: &Desk<'_>, inputs: &[u8], with_item: bool) -> Result<Vec<u8>, StatusCode> {
    let mut reader = Reader::new(inputs);
    let count = reader.array_len(1)?;
    let mut out = Vec::with_capacity(inputs.len());
    write_len(&mut out, count);
    let mut write = |id: u32| {
        out.push(UINT32);
        out.extend_from_slice(&id.to_le_bytes());
    };
    if count < 1 + usize::from(with_item) {
        return Err(StatusCode::BadArgumentsMissing);
    }
    let unknown = StatusCode::BadSubscriptionIdInvalid;
    let subscription = desk.link.subs.subscriptions.get(&number(&mut reader)?).ok_or(unknown)?;
    if !matches!(subscription.standing, Standing::Live | Standing::Bare) {
        return Err(StatusCode::BadCommunicationError);
    }
    write(subscription.upstream);
    if with_item {
        let item = subscription.items.get(&number(&mut reader)?).filter(|item| item.place == Place::There);
        write(item.ok_or(StatusCode::BadMonitoredItemIdInvalid)?.upstream);
    }
    out.extend_from_slice(reader.rest());
    Ok(out)
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
