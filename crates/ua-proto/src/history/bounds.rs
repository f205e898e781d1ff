//! Values between values (OPC 10000-13 §3.1.8, §3.1.9 and §5.4.3.4; OPC 10000-11 §6.5.5).

use opcua_types::{DataValue, DateTime, StatusCode, Variant};

use super::series::{Entry, Series};

/// InfoType DataValue, and the historian bits of a status code (OPC 10000-4 §7.39).
pub(super) const CALCULATED: u32 = 0x401;
pub(super) const INTERPOLATED: u32 = 0x402;
pub(super) const PARTIAL: u32 = 0x404;

/// A status code with bits of the historian.
pub(super) fn with(status: StatusCode, bits: u32) -> StatusCode {
    StatusCode::from(status.bits() | bits)
}

/// A value of one instant.
pub(super) fn at(time: i64, value: Option<Variant>, status: StatusCode) -> DataValue {
    let time = Some(DateTime::from(time));
    DataValue {
        value,
        status: (status.bits() != 0).then_some(status),
        source_timestamp: time,
        server_timestamp: time,
        ..DataValue::null()
    }
}

impl Series {
    /// The value of an instant: the recorded one, or what lies between its neighbours: on the straight line for numbers
    /// where `sloped`, else what was before. Behind the last value, that one goes on. `simple`: the neighbours are the
    /// next ones whatever their quality, else the next good ones.
    pub(crate) fn interpolated(&self, time: i64, sloped: bool, simple: bool) -> DataValue {
        let good = |entry: &&Entry| entry.value.status().is_good();
        if let Some(entry) = self.exact(time).and_then(|place| self.entries.get(place))
            && (simple || good(&entry))
        {
            return entry.value.clone();
        }
        let place = self.lower(time);
        let behind = place + usize::from(self.exact(time).is_some());
        let mut down = self.entries.range(..place).rev();
        let mut up = self.entries.range(behind.min(self.entries.len())..);
        let (before, after) = if simple { (down.next(), up.next()) } else { (down.find(good), up.find(good)) };
        let Some(before) = before.filter(|before| !before.value.status().is_bad()) else {
            return at(time, None, StatusCode::BadNoData);
        };
        let skipped = self.entries.range(place..behind.min(self.entries.len())).next().is_some()
            || self.between(before, after) > 0;
        let usable = after.filter(|after| good(after));
        let doubt = skipped || usable.is_none() || !good(&before);
        let status = if doubt { StatusCode::UncertainDataSubNormal } else { StatusCode::Good };
        let value = match usable {
            Some(after) if sloped => line(before, after, time),
            _ => before.value.value.clone(),
        };
        at(time, value, with(status, INTERPOLATED))
    }

    /// How many values lie between two others.
    fn between(&self, before: &Entry, after: Option<&Entry>) -> usize {
        let first = self.lower(before.at) + 1;
        let last = after.map_or(self.entries.len(), |after| self.lower(after.at));
        last.saturating_sub(first)
    }
}

/// The value at `time` on the straight line between two values, in the type of the first.
fn line(before: &Entry, after: &Entry, time: i64) -> Option<Variant> {
    let first = before.value.value.as_ref()?;
    let ends = first.as_f64().zip(after.value.value.as_ref().and_then(Variant::as_f64));
    let Some((low, high)) = ends else { return Some(first.clone()) };
    let span = (after.at - before.at) as f64;
    let value = low + (high - low) * ((time - before.at) as f64 / span);
    Some(match first {
        Variant::Float(_) => Variant::Float(value as f32),
        Variant::Double(_) => Variant::Double(value),
        _ => first.clone(),
    })
}
