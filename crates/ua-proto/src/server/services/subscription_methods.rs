//! The methods of the Server object that are about subscriptions, GetMonitoredItems and ResendData (OPC 10000-5 §9.1 and
//! §9.2). As with the services for subscriptions, only the session's own can be meant, and no right beside that is needed:
//! what is sent again passes the gate like every other notification.

use opcua_types::{Array, CallMethodResult, Identifier, NodeId, ObjectId, StatusCode, Variant, VariantScalarTypeId};

use super::call::failed;
use crate::server::desk::Desk;
use crate::subscription::Subscriptions;

/// On the Server object and on its type.
const GET_MONITORED_ITEMS: [u32; 2] = [11_492, 11_489];
const RESEND_DATA: [u32; 2] = [12_873, 12_871];

/// Answers a call, if it is one of these.
pub(crate) fn answer(
    desk: &mut Desk<'_>,
    subscriptions: &mut Subscriptions,
    (object, method): (&NodeId, &NodeId),
    inputs: &[Variant],
) -> Option<CallMethodResult> {
    let Identifier::Numeric(number) = method.identifier else { return None };
    if *object != ObjectId::Server || method.namespace != 0 {
        return None;
    }
    let outcome = if GET_MONITORED_ITEMS.contains(&number) {
        subscription(inputs).and_then(|id| monitored_items(subscriptions, id))
    } else if RESEND_DATA.contains(&number) {
        let now = desk.now;
        subscription(inputs).and_then(|id| subscriptions.resend(id, desk, now)).map(|()| Vec::new())
    } else {
        return None;
    };
    Some(match outcome {
        Ok(outputs) => CallMethodResult { output_arguments: Some(outputs), ..failed(StatusCode::Good) },
        Err(status) => failed(status),
    })
}

/// The one argument of both.
fn subscription(inputs: &[Variant]) -> Result<u32, StatusCode> {
    match inputs {
        [] => Err(StatusCode::BadArgumentsMissing),
        [Variant::UInt32(id)] => Ok(*id),
        [_] => Err(StatusCode::BadInvalidArgument),
        _ => Err(StatusCode::BadTooManyArguments),
    }
}

fn monitored_items(subscriptions: &Subscriptions, id: u32) -> Result<Vec<Variant>, StatusCode> {
    let items = subscriptions.handles(id).ok_or(StatusCode::BadSubscriptionIdInvalid)?;
    let array = |of: fn(&(u32, u32)) -> u32| {
        let values = items.iter().map(|item| Variant::UInt32(of(item))).collect();
        Variant::Array(Box::new(Array { value_type: VariantScalarTypeId::UInt32, values, dimensions: None }))
    };
    Ok(vec![array(|(id, _)| *id), array(|(_, handle)| *handle)])
}
