//! History from outside: time in ticks that are easy to read, values that are numbers.

mod changes;
mod journal;
mod processed;
mod raw;

use opcua_types::{DataValue, DateTime, StatusCode, Variant};

use super::*;

/// A good value of this instant.
fn value(at: i64, number: f64) -> DataValue {
    with_status(at, number, StatusCode::Good)
}

fn with_status(at: i64, number: f64, status: StatusCode) -> DataValue {
    DataValue {
        value: Some(Variant::Double(number)),
        status: (status != StatusCode::Good).then_some(status),
        source_timestamp: Some(DateTime::from(at)),
        ..DataValue::null()
    }
}

/// Values at 10, 20, 30, 40 and 50, ten times as large.
fn five() -> Series {
    let mut series = Series::new(100);
    (1..=5).for_each(|at| series.record(value(at * 10, at as f64 * 100.0)));
    series
}

fn by(name: &str, at: i64) -> Author<'_> {
    Author { name, at: DateTime::from(at) }
}

fn room() -> Room {
    Room { values: 1_000, bytes: 1 << 30 }
}

/// Instants and whether there is a value.
fn seen(values: &[DataValue]) -> Vec<(i64, bool)> {
    let one = |value: &DataValue| (value.source_timestamp.map_or(0, |time| time.ticks()), value.value.is_some());
    values.iter().map(one).collect()
}
