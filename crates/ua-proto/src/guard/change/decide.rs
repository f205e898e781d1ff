//! Whether an item of a service that changes the plant may go on.

use std::collections::BTreeMap;

use opcua_types::StatusCode;

use super::{Form, Item, Plan, Unrecorded};
use crate::guard::bounds;
use crate::guard::desk::Desk;
use crate::interlock::No;

/// Every node an item touches is asked about. One that is hidden is hidden also where another one is denied.
pub(super) fn decide(
    desk: &mut Desk<'_>,
    form: &Form,
    (at, item): (usize, &mut Item),
    body: &[u8],
    (hidden, why): (&mut Unrecorded, &mut BTreeMap<usize, String>),
) -> Plan {
    if let Some(status) = item.refused {
        return Plan::Status(status);
    }
    if let Some(bytes) = (form.own)(desk, item, body) {
        return Plan::Own(bytes);
    }
    for touched in &mut item.touched {
        touched.scope = desk.scope(&touched.node);
    }
    let mut permits = Vec::with_capacity(item.touched.len());
    for only_hidden in [true, false] {
        for touched in &item.touched {
            if only_hidden && desk.visible(touched.scope) {
                continue;
            }
            match desk.ask(touched.action, (&touched.node, touched.scope), form.kind) {
                Ok(permit) if !only_hidden => permits.push(permit),
                Ok(_) => {}
                Err(denial) if denial.hides() && desk.config.hide_timing => {
                    hidden.push((at, touched.node.clone(), denial));
                    return Plan::Hidden;
                }
                Err(denial) => {
                    let status = desk.turned_away(form.kind, &denial, &touched.node, || (form.told)(&*item, &[]));
                    return Plan::Status(if denial.hides() { form.unknown } else { status });
                }
            }
        }
    }
    if let Err(No { status, told }) = (form.check)(desk, item, body) {
        why.extend(told.map(|told| (at, told)));
        return Plan::Status(status);
    }
    if let Some(Err(status)) = item.touched.first().map(|touched| desk.audit_open(form.kind, &touched.node)) {
        return Plan::Status(status);
    }
    // Last of all: a consent is used up by asking for it.
    match bounds::consented(desk, form, item, body) {
        Ok(()) => match desk.doubt.take() {
            Some(denial) if !desk.in_spite_of(&mut permits, denial) => Plan::Status(StatusCode::BadUserAccessDenied),
            _ => Plan::Allowed(permits),
        },
        Err(No { status, told }) => {
            why.extend(told.map(|told| (at, told)));
            Plan::Status(status)
        }
    }
}
