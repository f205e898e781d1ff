//! What the server answered to a service of subscriptions and items: ids are exchanged, what was asked for is so.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use opcua_types::StatusCode;

use super::super::links::{self, Links};
use super::super::standing::Standing;
use super::super::{ORDER, PUBLISHED, REPORTING, Subscription, events};
use super::items::item_result;
use super::{Asked, Plan, What};
use crate::guard::desk::{Desk, Progress, told};
use crate::guard::walk::{end, results};
use crate::guard::write::statuses;
use crate::server::front::{Reader, write_header, write_len, write_no_diagnostics};

impl Asked {
    /// The upstream server answered.
    pub(in crate::guard) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        let body = match answer {
            Ok(body) => body,
            Err(status) => {
                self.forget(&mut desk.link.subs);
                return Progress::Done(Err(told(status)));
            }
        };
        let answered = self.respond(desk, &body, handle);
        Progress::Done(answered.map_err(|status| {
            self.forget(&mut desk.link.subs);
            desk.misbehaved(status, "the answer to a subscription service does not fit the request")
        }))
    }

    pub(super) fn respond(&mut self, desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<Vec<u8>, StatusCode> {
        let mut out = Vec::new();
        write_header(&mut out, self.ids.1, desk.now, handle, StatusCode::Good);
        match self.what {
            What::Create { order } => created(desk, order, body, &mut out)?,
            What::Modify { id, order } => modified(desk, (id, order), body, &mut out)?,
            What::CreateItems { id } => self.items_created(desk, id, body, &mut out)?,
            What::ModifyItems { id, timestamps } => self.items_modified(desk, (id, timestamps), body, &mut out)?,
            What::Triggering { id, item, added } => self.triggered(desk, (id, item, added), body, &mut out)?,
            What::Delete | What::Publishing { .. } | What::DeleteItems { .. } | What::Mode { .. } => {
                self.statuses(desk, body, &mut out)?;
            }
        }
        Ok(out)
    }

    fn statuses(&mut self, desk: &mut Desk<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<(), StatusCode> {
        let mut given = if self.forwarded == 0 { Vec::new() } else { statuses(body, self.forwarded)? }.into_iter();
        write_len(out, self.plan.len());
        for plan in &self.plan {
            let status = match plan {
                Plan::Refused(status) => *status,
                Plan::Ask(number) => {
                    let status = given.next().unwrap_or(StatusCode::BadUnknownResponse);
                    if status.is_good() {
                        self.done(desk, *number);
                    }
                    status
                }
                Plan::Known(number) => {
                    self.done(desk, *number);
                    StatusCode::Good
                }
                Plan::Make(_) | Plan::Modify { .. } | Plan::Hidden => StatusCode::BadInternalError,
            };
            out.extend_from_slice(&status.bits().to_le_bytes());
        }
        write_no_diagnostics(out);
        Ok(())
    }

    /// Statuses of the links that were added, then of those that were removed.
    fn triggered(
        &self,
        desk: &mut Desk<'_>,
        (id, item, added): (u32, u32, usize),
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StatusCode> {
        let given = if self.forwarded == 0 { Vec::new() } else { links::statuses(body, self.forwarded)? };
        let mut given = given.into_iter();
        let (links, others) = self.plan.split_at_checked(added).unwrap_or((&self.plan, &[]));
        for (list, linked) in [(links, true), (others, false)] {
            write_len(out, list.len());
            for plan in list {
                let status = match plan {
                    Plan::Refused(status) => *status,
                    _ => given.next().unwrap_or(StatusCode::BadUnknownResponse),
                };
                if let (Plan::Ask(to), true) = (plan, status.is_good())
                    && let Some(subscription) = desk.link.subs.subscriptions.get_mut(&id)
                {
                    subscription.links.set((item, *to), linked);
                }
                out.extend_from_slice(&status.bits().to_le_bytes());
            }
            write_no_diagnostics(out);
        }
        Ok(())
    }

    /// What was asked about one subscription or item is so.
    fn done(&self, desk: &mut Desk<'_>, number: u32) {
        match self.what {
            What::Delete => desk.link.subs.remove(number),
            What::Publishing { enabled } => {
                if let Some(subscription) = desk.link.subs.subscriptions.get_mut(&number)
                    && let Some(published) = subscription.order.get_mut(PUBLISHED)
                {
                    *published = enabled;
                }
            }
            What::DeleteItems { id } => desk.link.subs.remove_item(id, number),
            What::Mode { id, mode } => {
                let subscription = desk.link.subs.subscriptions.get_mut(&id);
                if let Some(item) = subscription.and_then(|subscription| subscription.items.get_mut(&number)) {
                    item.denial_waits = item.denied
                        && mode == REPORTING
                        && item.fields.is_none()
                        && (item.denial_waits || item.mode != REPORTING);
                    item.mode = mode;
                }
            }
            _ => {}
        }
    }

    /// What the server said of each item; with an id of those that are made.
    fn of_items<'a>(&self, body: &'a [u8], id: bool) -> Result<std::vec::IntoIter<&'a [u8]>, StatusCode> {
        if self.forwarded == 0 {
            return Ok(Vec::new().into_iter());
        }
        results(body, self.forwarded, |reader| item_result(reader, id)).map(Vec::into_iter)
    }

    fn items_created(
        &mut self,
        desk: &mut Desk<'_>,
        id: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StatusCode> {
        let mut given = self.of_items(body, true)?;
        write_len(out, self.plan.len());
        for plan in std::mem::take(&mut self.plan) {
            let bare = |out: &mut Vec<u8>, status: StatusCode| {
                out.extend_from_slice(&status.bits().to_le_bytes());
                out.extend_from_slice(&[0; 19]);
            };
            let mut item = match plan {
                Plan::Make(item) => item,
                Plan::Refused(status) => {
                    bare(out, status);
                    continue;
                }
                Plan::Hidden | Plan::Ask(_) | Plan::Known(_) | Plan::Modify { .. } => {
                    given.next();
                    bare(out, StatusCode::BadNodeIdUnknown);
                    continue;
                }
            };
            let span = given.next().unwrap_or_default();
            let mut reader = Reader::new(span);
            let (status, upstream) = (StatusCode::from(reader.u32()?), reader.u32()?);
            let subscription = desk.link.subs.subscriptions.get_mut(&id);
            let Some(subscription) = subscription else {
                bare(out, StatusCode::BadSubscriptionIdInvalid);
                continue;
            };
            if status.is_bad() {
                subscription.handles.remove(&item.handle);
                bare(out, status);
                continue;
            }
            item.upstream = upstream;
            subscription.last_item += 1;
            let number = subscription.last_item;
            subscription.handles.insert(item.handle, number);
            out.extend_from_slice(&status.bits().to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(reader.bytes(12)?);
            write_filter_result(out, reader.rest(), item.fields);
            subscription.items.insert(number, *item);
        }
        write_no_diagnostics(out);
        Ok(())
    }

    fn items_modified(
        &mut self,
        desk: &mut Desk<'_>,
        (id, timestamps): (u32, i32),
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StatusCode> {
        let mut given = self.of_items(body, false)?;
        write_len(out, self.plan.len());
        for plan in &self.plan {
            let Plan::Modify { item, client_handle, fields, own_events, parameters } = plan else {
                let status = if let Plan::Refused(status) = plan { *status } else { StatusCode::BadInternalError };
                out.extend_from_slice(&status.bits().to_le_bytes());
                out.extend_from_slice(&[0; 15]);
                continue;
            };
            let mut reader = Reader::new(given.next().unwrap_or_default());
            let revised = reader.bytes(16)?;
            let status = StatusCode::from(Reader::new(revised).u32()?);
            let subscription = desk.link.subs.subscriptions.get_mut(&id);
            if let Some(item) = subscription.and_then(|subscription| subscription.items.get_mut(item))
                && status.is_good()
            {
                item.client_handle = *client_handle;
                item.fields = *fields;
                item.own_events.clone_from(own_events);
                item.wanted.parameters.clone_from(parameters);
                item.wanted.timestamps = timestamps;
            }
            out.extend_from_slice(revised);
            write_filter_result(out, reader.rest(), *fields);
        }
        write_no_diagnostics(out);
        Ok(())
    }
}

/// The result of a filter: of a data change as it came, of an event without the guard's own clauses.
fn write_filter_result(out: &mut Vec<u8>, result: &[u8], fields: Option<usize>) {
    match fields {
        None => out.extend_from_slice(result),
        Some(fields) => out.extend_from_slice(&events::result(result, fields)),
    }
}

/// A subscription was made: its id is exchanged for one of the guard's.
fn created(desk: &mut Desk<'_>, order: [u8; ORDER], body: &[u8], out: &mut Vec<u8>) -> Result<(), StatusCode> {
    let mut reader = Reader::new(body);
    let upstream = reader.u32()?;
    let rest = reader.rest();
    let (first, silence) = revised(&mut reader)?;
    end(&reader)?;
    if desk.link.subs.by_upstream(upstream).is_some() {
        return Err(StatusCode::BadUnknownResponse);
    }
    let id = desk.front.next_subscription();
    let subscription = Subscription {
        upstream,
        made: 0,
        standing: Standing::Live,
        order,
        expected: None,
        sequence: 1,
        last_item: 0,
        items: BTreeMap::new(),
        handles: HashMap::new(),
        last_handle: desk.link.subs.first_handle,
        first_handle: desk.link.subs.first_handle,
        links: Links::default(),
        retained: VecDeque::new(),
        ready: VecDeque::new(),
        silence,
        // The client hears of it for the first time when the first interval is over (OPC 10000-4 §5.14.1.1).
        quiet_at: desk.now.mono + first,
    };
    desk.link.subs.hold(id, Box::new(subscription));
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(rest);
    Ok(())
}

fn modified(
    desk: &mut Desk<'_>,
    (id, order): (u32, [u8; ORDER]),
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let mut reader = Reader::new(body);
    let (_, silence) = revised(&mut reader)?;
    end(&reader)?;
    if let Some(subscription) = desk.link.subs.subscriptions.get_mut(&id) {
        (subscription.silence, subscription.order) = (silence, order);
        subscription.quiet_at = desk.now.mono + silence;
    }
    out.extend_from_slice(body);
    Ok(())
}

/// Revised interval, lifetime and keep-alive counts: how long the subscription may be silent at first, and later. Half an
/// interval is for the way: what the server has to say comes first.
pub(in crate::guard::subs) fn revised(reader: &mut Reader<'_>) -> Result<(Duration, Duration), StatusCode> {
    let interval = reader.f64()?;
    reader.u32()?;
    let count = reader.u32()?;
    let time = |count: u32| {
        let time = interval * (f64::from(count.max(1)) + 0.5) / 1_000.0;
        if !time.is_finite() || time <= 0.0 {
            return Err(StatusCode::BadUnknownResponse);
        }
        Ok(Duration::try_from_secs_f64(time.clamp(0.1, 86_400.0)).unwrap_or(Duration::from_secs(86_400)))
    };
    Ok((time(1)?, time(count)?))
}
