//! Processed values (OPC 10000-13 §5.4): the aggregates over values as such. Those that weigh by time are not offered.

use opcua_types::{DataValue, Identifier, NodeId, StatusCode, Variant};

use super::bounds::{CALCULATED, PARTIAL, at, with};
use super::raw::Room;
use super::series::{Entry, OVERHEAD, Series};

/// The aggregates there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Interpolative,
    Average,
    Minimum,
    Maximum,
    Range,
    Count,
    Start,
    End,
    Delta,
}

impl Aggregate {
    /// Every aggregate and the number of its node in namespace 0.
    pub(crate) const ALL: [(u32, Self); 9] = [
        (2341, Self::Interpolative),
        (2342, Self::Average),
        (2346, Self::Minimum),
        (2347, Self::Maximum),
        (2350, Self::Range),
        (2352, Self::Count),
        (2357, Self::Start),
        (2358, Self::End),
        (2359, Self::Delta),
    ];

    /// The aggregate that a node stands for.
    pub(crate) fn of(id: &NodeId) -> Option<Self> {
        let Identifier::Numeric(number) = id.identifier else { return None };
        Self::ALL.iter().find(|(known, _)| id.namespace == 0 && *known == number).map(|(_, aggregate)| *aggregate)
    }

    /// Whether it makes sense of numbers only.
    pub(crate) fn takes_numbers(self) -> bool {
        !matches!(self, Self::Interpolative | Self::Count | Self::Start | Self::End)
    }
}

/// What makes values good (OPC 10000-13 §4.2.1.2). The defaults are those of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) uncertain_is_bad: bool,
    pub(crate) percent_bad: u8,
    pub(crate) percent_good: u8,
}

impl Default for Shape {
    fn default() -> Self {
        Self { uncertain_is_bad: true, percent_bad: 100, percent_good: 100 }
    }
}

/// What is to be read. Time flows backward where the end lies before the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Processed {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// In ticks; 0 for one interval.
    pub(crate) interval: i64,
    pub(crate) aggregate: Aggregate,
    pub(crate) shape: Shape,
    /// Between values lies a straight line, not a step.
    pub(crate) sloped: bool,
}

/// One interval: where it begins, in the direction of time, and which instants are its own.
struct Interval {
    start: i64,
    low: i64,
    /// Not part of it.
    high: i64,
    whole: bool,
}

impl Processed {
    /// # Errors
    /// Bad_InvalidArgument where start and end are the same or one is missing, or the interval is negative.
    pub(crate) fn check(&self) -> Result<(), StatusCode> {
        if self.start <= 0 || self.end <= 0 || self.start == self.end || self.interval < 0 {
            return Err(StatusCode::BadInvalidArgument);
        }
        Ok(())
    }

    /// The interval with this number.
    fn nth(&self, number: i64) -> Option<Interval> {
        let range = self.end.abs_diff(self.start);
        let range = i64::try_from(range).ok()?;
        let step = if self.interval == 0 { range } else { self.interval.min(range) };
        let offset = step.checked_mul(number).filter(|offset| *offset < range)?;
        let length = step.min(range - offset);
        let whole = length == step;
        Some(if self.end > self.start {
            let start = self.start + offset;
            Interval { start, low: start, high: start + length, whole }
        } else {
            // The later end belongs to it, the earlier one does not.
            let start = self.start - offset;
            Interval { start, low: start - length + 1, high: start.saturating_add(1), whole }
        })
    }
}

impl Series {
    /// One page of intervals from number `first` on, and the number of the next.
    pub(crate) fn processed(&self, asked: &Processed, first: i64, room: &mut Room) -> (Vec<DataValue>, Option<i64>) {
        let mut values = Vec::new();
        let mut number = first;
        while let Some(interval) = asked.nth(number) {
            if !values.is_empty() && (room.values == 0 || room.bytes < OVERHEAD) {
                return (values, Some(number));
            }
            values.push(self.aggregate(asked, &interval));
            room.values = room.values.saturating_sub(1);
            room.bytes = room.bytes.saturating_sub(OVERHEAD);
            number += 1;
        }
        (values, None)
    }

    fn aggregate(&self, asked: &Processed, interval: &Interval) -> DataValue {
        let outside = match (self.entries.front(), self.entries.back()) {
            (Some(first), Some(last)) => last.at < interval.low || first.at >= interval.high,
            _ => true,
        };
        if asked.aggregate == Aggregate::Interpolative {
            return self.interpolated(interval.start, asked.sloped, false);
        }
        if outside {
            return at(interval.start, None, StatusCode::BadNoData);
        }
        let all: Vec<&Entry> = self.entries.range(self.lower(interval.low)..self.lower(interval.high)).collect();
        let is_good = |entry: &&&Entry| {
            let status = entry.value.status();
            status.is_good() || (status.is_uncertain() && !asked.shape.uncertain_is_bad)
        };
        let mut good: Vec<&Entry> = all.iter().filter(is_good).copied().collect();
        if asked.end < asked.start {
            good.reverse();
        }
        let partial = if interval.whole && self.covers(interval) { 0 } else { PARTIAL };
        let share = asked.shape.status(good.len(), all.len());
        let told = |value: Variant, status: StatusCode, bits: u32| at(interval.start, Some(value), with(status, bits));
        let on_start = |entry: &Entry| if entry.at == interval.start { 0 } else { CALCULATED };
        let none = || at(interval.start, None, StatusCode::BadNoData);
        let least = good.len() < all.len();
        let doubt = if least { StatusCode::UncertainDataSubNormal } else { StatusCode::Good };
        let number = |entry: &Entry| entry.value.value.as_ref().and_then(Variant::as_f64);
        let numbers: Vec<(f64, &Entry)> = good.iter().filter_map(|entry| Some((number(entry)?, *entry))).collect();
        let low = numbers.iter().min_by(|one, other| one.0.total_cmp(&other.0));
        let high = numbers.iter().max_by(|one, other| one.0.total_cmp(&other.0));
        let content = |entry: &Entry| entry.value.value.clone().unwrap_or_default();
        match asked.aggregate {
            Aggregate::Count if all.is_empty() => told(Variant::Int32(0), StatusCode::Good, CALCULATED | partial),
            Aggregate::Count => {
                let count = i32::try_from(good.len()).unwrap_or(i32::MAX);
                told(Variant::Int32(count), share, CALCULATED | partial)
            }
            Aggregate::Average if share.is_bad() || numbers.is_empty() => {
                at(interval.start, None, if all.is_empty() { StatusCode::BadNoData } else { share })
            }
            Aggregate::Average => {
                let sum: f64 = numbers.iter().map(|(number, _)| number).sum();
                told(Variant::Double(sum / numbers.len() as f64), share, CALCULATED)
            }
            Aggregate::Minimum => low.map_or_else(none, |(_, e)| told(content(e), doubt, on_start(e) | partial)),
            Aggregate::Maximum => high.map_or_else(none, |(_, e)| told(content(e), doubt, on_start(e) | partial)),
            Aggregate::Range => match (low, high) {
                (Some(low), Some(high)) => told(Variant::Double(high.0 - low.0), doubt, CALCULATED | partial),
                _ => none(),
            },
            Aggregate::Delta => match (numbers.first(), numbers.last()) {
                (Some(first), Some(last)) => told(Variant::Double(last.0 - first.0), doubt, CALCULATED | partial),
                _ => none(),
            },
            Aggregate::Start => ends(&all, asked, false).map_or_else(none, Clone::clone),
            Aggregate::End | Aggregate::Interpolative => ends(&all, asked, true).map_or_else(none, Clone::clone),
        }
    }

    /// Whether the values begin before an interval and end behind it.
    fn covers(&self, interval: &Interval) -> bool {
        let before = self.entries.front().is_some_and(|first| first.at <= interval.low);
        before && self.entries.back().is_some_and(|last| last.at >= interval.high - 1)
    }
}

impl Shape {
    /// The status of what was computed from so many good values of so many (§5.4.3.2.1).
    fn status(&self, good: usize, all: usize) -> StatusCode {
        let percent = |part: usize| part.saturating_mul(100);
        let bad = all - good.min(all);
        if bad == 0 {
            return if all == 0 { StatusCode::BadNoData } else { StatusCode::Good };
        }
        if percent(bad) >= usize::from(self.percent_bad).saturating_mul(all) {
            StatusCode::Bad
        } else if percent(good) >= usize::from(self.percent_good).saturating_mul(all) {
            StatusCode::Good
        } else {
            StatusCode::UncertainDataSubNormal
        }
    }
}

/// The first or the last value of an interval, in the direction of time, as it was recorded.
fn ends<'a>(all: &[&'a Entry], asked: &Processed, last: bool) -> Option<&'a DataValue> {
    let later = (asked.end > asked.start) == last;
    let entry = if later { all.last() } else { all.first() };
    entry.map(|entry| &entry.value)
}
