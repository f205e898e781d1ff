//! HistoryRead of events (OPC 10000-11 §6.5.2): what a notifier keeps, for those who may receive it and read what happened.
//!
//! An event takes what it takes alive, ReceiveEvents on its type, its source and the notifier (OPC 10000-3 §8.55), and
//! ReadHistory on its source, for what happened there is its history. The notifier takes ReadHistory too, unless it lies in
//! the scope `public`, on which nobody can be granted anything: the Server object has no history of its own.

use std::sync::Arc;

use access_model::{Action, AuditKind, Denial, Reason, Rights, ScopeIndex};
use opcua_types::{HistoryEventFieldList, ModificationInfo, StatusCode, Variant};

use crate::event::{Event, EventFilter, Exhausted, Steps, Viewer, size};
use crate::history::{Domain, Fit, Mark, Room, page};
use crate::server::desk::Desk;
use crate::space::{NodeRef, Space};
use crate::subscription::ItemSource as _;

/// Events that one response looks at with the filter; what is behind them comes with the next page.
const MAX_LOOKED_AT: usize = 2_000;

/// What one request may have looked at, whatever its number of nodes.
pub(super) struct Patience {
    events: usize,
    steps: Steps,
    /// Nothing was looked at yet.
    fresh: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self { events: MAX_LOOKED_AT, steps: Steps::new(Steps::PAST), fresh: true }
    }
}

/// Lets a filter look at the past through the eyes of a session: values that an event holds are history.
pub(super) struct Past<'a, 'd>(pub(super) &'a Desk<'d>);

impl Viewer for Past<'_, '_> {
    fn space(&self) -> &Space {
        self.0.space
    }

    fn sees(&self, node: NodeRef) -> bool {
        self.0.visible(node)
    }

    fn holds(&self, node: NodeRef, rights: Rights) -> bool {
        self.0.rights(node).contains(rights | Rights::READ_HISTORY)
    }
}

/// Asks for what reading a notifier takes.
pub(super) fn pass(desk: &mut Desk<'_>, notifier: NodeRef) -> Result<(), StatusCode> {
    let scope = desk.space.scope(notifier);
    let action = if scope == ScopeIndex::PUBLIC { Action::Browse } else { Action::ReadHistory };
    desk.pass(action, notifier, AuditKind::Read)?;
    let held = desk.rights(notifier);
    if !held.contains(Rights::RECEIVE_EVENTS) {
        let denial = Denial { reason: Reason::RightMissing, action: Action::ReceiveEvents, scope, held };
        return Err(desk.denied(&denial, notifier, AuditKind::Read));
    }
    Ok(())
}

/// One page of what a notifier keeps.
pub(super) struct Page {
    pub(super) events: Vec<HistoryEventFieldList>,
    /// Of events that clients changed.
    pub(super) infos: Vec<ModificationInfo>,
    pub(super) rest: Option<Mark>,
}

/// Reads a page. What may not be told is passed over without a word, and has no part in where the page ends.
///
/// # Errors
/// Bad_TooManyOperations when the filter takes more steps for one event than a request has.
pub(super) fn read(
    desk: &mut Desk<'_>,
    notifier: NodeRef,
    (domain, modified, mark): (&Domain, bool, Mark),
    filter: &EventFilter,
    (room, patience): (&mut Room, &mut Patience),
) -> Result<Page, StatusCode> {
    let log = desk.space.event_log(notifier).ok_or(StatusCode::BadHistoryOperationUnsupported)?;
    let (mut found, mut infos, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    let mut too_much = false;
    let mut take = |event: &Event, weight: usize, has_place: bool| {
        let about = event.about();
        let past = desk.rights(about.source).contains(Rights::READ_HISTORY);
        if !past || !desk.may_receive(notifier, about) {
            return Fit::Passed;
        }
        if patience.events == 0 {
            return Fit::Full;
        }
        patience.events -= 1;
        let first = std::mem::take(&mut patience.fresh);
        match filter.passes(event, &Past(desk), &mut patience.steps) {
            Ok(true) => {}
            Ok(false) => return Fit::Passed,
            Err(Exhausted) => {
                patience.events = 0;
                too_much = first;
                return Fit::Full;
            }
        }
        if !has_place {
            return Fit::Full;
        }
        let fields = filter.fields(event, &Past(desk));
        let weight = fields.iter().map(|field: &Variant| size(field).saturating_add(32)).sum::<usize>() + weight;
        if !room.take_weight(weight, found.is_empty()) {
            return Fit::Full;
        }
        found.push(HistoryEventFieldList { event_fields: Some(fields) });
        sources.push(about.source);
        Fit::Taken
    };
    let rest = if modified {
        page(log.journal().entries(), domain, mark, |change, has_place| {
            let fit = take(&change.entry, 64, has_place);
            if fit == Fit::Taken {
                infos.push(change.info());
            }
            fit
        })
    } else {
        page(log.entries(), domain, mark, |event: &Arc<Event>, has_place| take(event, 0, has_place))
    };
    if too_much {
        return Err(StatusCode::BadTooManyOperations);
    }
    for source in sources {
        if let Err(denial) = desk.check_past(source) {
            return Err(desk.denied(&denial, source, AuditKind::Read));
        }
    }
    Ok(Page { events: found, infos, rest })
}
