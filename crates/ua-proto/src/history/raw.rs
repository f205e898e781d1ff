//! Values as they were recorded, by page (OPC 10000-11 §6.5.3.2 and §4.4).

use opcua_types::{DataValue, DateTime, StatusCode};

use super::series::{Entry, Series, weight};

/// What a request reads: the time domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    from: i64,
    /// Not part of it, unless it is the same as `from`.
    to: Option<i64>,
    reverse: bool,
    bounds: bool,
    /// Most values of one response; 0 for no opinion.
    most: u32,
}

/// Where a read goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    Start,
    /// Behind the value of this instant, in the direction of the read.
    Behind(i64),
    EndBound,
    /// So many values are wanted still, for the domain has one end only.
    Few(Option<i64>, u32),
}

/// How much one response takes. A first value is never too much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) values: usize,
    pub(crate) bytes: usize,
}

impl Room {
    /// Whether another value has a place; it is taken.
    pub(crate) fn take(&mut self, value: &DataValue, first: bool) -> bool {
        self.take_weight(weight(value), first)
    }

    /// The same for something of about so many bytes.
    pub(crate) fn take_weight(&mut self, weight: usize, first: bool) -> bool {
        if !first && (self.values == 0 || self.bytes < weight) {
            return false;
        }
        self.values = self.values.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(weight);
        true
    }
}

impl Domain {
    /// Start and end in ticks, of which 0 and less is "not specified".
    ///
    /// # Errors
    /// Bad_HistoryOperationInvalid: two of start, end and number are needed.
    pub(crate) fn new(start: i64, end: i64, most: u32, bounds: bool) -> Result<Self, StatusCode> {
        let known = |time: i64| (time > 0).then_some(time);
        let (from, to, reverse) = match (known(start), known(end)) {
            (Some(start), Some(end)) => (start, Some(end), end < start),
            (Some(start), None) if most > 0 => (start, None, false),
            (None, Some(end)) if most > 0 => (end, None, true),
            _ => return Err(StatusCode::BadHistoryOperationInvalid),
        };
        Ok(Self { from, to, reverse, bounds, most })
    }

    pub(super) fn start(&self) -> i64 {
        self.from
    }

    pub(super) fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// The number that is wanted altogether, where the domain has one end only.
    pub(super) fn wanted(&self) -> Option<u32> {
        self.to.is_none().then_some(self.most)
    }

    /// The most of one response.
    pub(super) fn most(&self) -> Option<u32> {
        (self.most > 0).then_some(self.most)
    }

    fn is_instant(&self) -> bool {
        self.to == Some(self.from)
    }

    pub(super) fn contains(&self, at: i64) -> bool {
        match (self.to, self.reverse) {
            _ if self.is_instant() => at == self.from,
            (None, false) => at >= self.from,
            (None, true) => at <= self.from,
            (Some(to), false) => at >= self.from && at < to,
            (Some(to), true) => at <= self.from && at > to,
        }
    }
}

impl Series {
    /// One page of a domain, and where the next one begins.
    pub(crate) fn page(&self, domain: &Domain, resume: Resume, room: &mut Room) -> (Vec<DataValue>, Option<Resume>) {
        let mut page = Page { values: Vec::new(), most: usize::MAX, room };
        let (mut behind, few) = match resume {
            Resume::Start => (None, domain.to.is_none().then_some(domain.most)),
            Resume::Behind(at) => (Some(at), None),
            Resume::Few(at, few) => (at, Some(few)),
            Resume::EndBound => (None, None),
        };
        page.most = few.or((domain.most > 0).then_some(domain.most)).map_or(usize::MAX, |most| most as usize);
        let stopped = 'read: {
            if resume == Resume::Start && domain.bounds && self.exact(domain.from).is_none() {
                page.push(self.before(domain).unwrap_or_else(|| not_found(domain.from)));
            }
            if resume != Resume::EndBound {
                for entry in self.walk(domain, behind) {
                    if !page.push(entry.value.clone()) {
                        break 'read Some(behind.map_or(Resume::Start, Resume::Behind));
                    }
                    behind = Some(entry.at);
                }
            }
            if let Some(bound) = self.end_bound(domain)
                && !page.push(bound)
            {
                break 'read Some(Resume::EndBound);
            }
            None
        };
        let told = u32::try_from(page.values.len()).unwrap_or(u32::MAX);
        let stopped = match (stopped, few) {
            // The number that was wanted is there, or the response is full before.
            (Some(_), Some(few)) => (few > told).then(|| Resume::Few(behind.or(Some(domain.from)), few - told)),
            // The bound alone filled the page.
            (Some(Resume::Start), None) => Some(Resume::Behind(just_before(domain))),
            (stopped, _) => stopped,
        };
        (page.values, stopped)
    }

    fn walk(&self, domain: &Domain, behind: Option<i64>) -> impl Iterator<Item = &Entry> {
        let reverse = domain.reverse;
        let first = behind.unwrap_or(domain.from);
        let new = move |entry: &&Entry| behind.is_none_or(|at| if reverse { entry.at < at } else { entry.at > at });
        let upward = self.entries.range(self.lower(first).min(self.entries.len())..);
        let downward = self.entries.range(..self.lower(first.saturating_add(1)).min(self.entries.len())).rev();
        let forward = (!reverse).then_some(upward).into_iter().flatten();
        let backward = reverse.then_some(downward).into_iter().flatten();
        let domain = *domain;
        forward.chain(backward).filter(new).take_while(move |entry| domain.contains(entry.at))
    }

    /// The value in front of a domain.
    fn before(&self, domain: &Domain) -> Option<DataValue> {
        let place = self.lower(domain.from);
        let place = if domain.reverse { Some(place) } else { place.checked_sub(1) };
        place.and_then(|place| self.entries.get(place)).map(|entry| entry.value.clone())
    }

    fn end_bound(&self, domain: &Domain) -> Option<DataValue> {
        let to = domain.to.filter(|_| domain.bounds)?;
        if domain.is_instant() && self.exact(to).is_some() {
            return None;
        }
        let place = match self.exact(to) {
            Some(place) => Some(place),
            None if domain.reverse => self.lower(to).checked_sub(1),
            None => Some(self.lower(to)),
        };
        let found = place.and_then(|place| self.entries.get(place)).map(|entry| entry.value.clone());
        Some(found.unwrap_or_else(|| not_found(to)))
    }
}

struct Page<'a> {
    values: Vec<DataValue>,
    most: usize,
    room: &'a mut Room,
}

impl Page<'_> {
    fn push(&mut self, value: DataValue) -> bool {
        if self.values.len() >= self.most || !self.room.take(&value, self.values.is_empty()) {
            return false;
        }
        self.values.push(value);
        true
    }
}

/// An instant behind which the first value of the domain stands.
fn just_before(domain: &Domain) -> i64 {
    if domain.reverse { domain.from.saturating_add(1) } else { domain.from.saturating_sub(1) }
}

/// What stands for a bound that is not there.
fn not_found(at: i64) -> DataValue {
    let time = Some(DateTime::from(at));
    DataValue {
        status: Some(StatusCode::BadBoundNotFound),
        source_timestamp: time,
        server_timestamp: time,
        ..DataValue::null()
    }
}
