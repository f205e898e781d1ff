//! The data change filter: which of two values in a row is worth a notification (OPC 10000-4 §7.22.2, OPC 10000-8 §6.2).

use opcua_types::{
    ByteStringBody, DataChangeFilter, DataChangeTrigger, DataValue, DeadbandType, ExtensionObject, ObjectId,
    StatusCode, Variant,
};

use super::Target;

/// A checked filter, ready to compare values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Filter {
    trigger: DataChangeTrigger,
    /// Smallest difference that counts as a change of the value, exclusive; `None`: any difference counts.
    deadband: Option<f64>,
}

const VALUE_ATTRIBUTE: u32 = 13;

impl Default for Filter {
    /// What the standard prescribes when the client sends no filter.
    fn default() -> Self {
        Self { trigger: DataChangeTrigger::StatusValue, deadband: None }
    }
}

impl Filter {
    /// Reads the filter of a request for `target`.
    ///
    /// # Errors
    /// Bad_MonitoredItemFilterUnsupported, Bad_FilterNotAllowed or Bad_DeadbandFilterInvalid.
    pub(super) fn read(filter: &ExtensionObject, target: &Target) -> Result<Self, StatusCode> {
        if filter.is_null() {
            return Ok(Self::default());
        }
        if filter.inner_as::<ByteStringBody>().is_some_and(is_event_filter) {
            return Err(StatusCode::BadFilterNotAllowed);
        }
        let filter = filter.inner_as::<DataChangeFilter>().ok_or(StatusCode::BadMonitoredItemFilterUnsupported)?;
        if target.attribute != VALUE_ATTRIBUTE {
            return Err(StatusCode::BadFilterNotAllowed);
        }
        Ok(Self { trigger: filter.trigger, deadband: deadband(filter, target)? })
    }

    /// Whether `new` is to be reported after `old` was.
    pub(super) fn passes(&self, old: &DataValue, new: &DataValue) -> bool {
        if old.status() != new.status() {
            return true;
        }
        match self.trigger {
            DataChangeTrigger::Status => false,
            DataChangeTrigger::StatusValue => self.value_differs(old, new),
            DataChangeTrigger::StatusValueTimestamp => {
                old.source_timestamp != new.source_timestamp
                    || old.source_picoseconds != new.source_picoseconds
                    || self.value_differs(old, new)
            }
        }
    }

    fn value_differs(&self, old: &DataValue, new: &DataValue) -> bool {
        match (&old.value, &new.value) {
            (None, None) => false,
            (Some(old), Some(new)) => match self.deadband {
                None => differs(old, new),
                Some(band) => leaves(old, new, band),
            },
            _ => true,
        }
    }
}

fn is_event_filter(closed: &ByteStringBody) -> bool {
    closed.encoding_id().as_object_id().ok() == Some(ObjectId::EventFilter_Encoding_DefaultBinary)
}

/// The absolute band of a filter: a percent band is a part of the node's EURange.
fn deadband(filter: &DataChangeFilter, target: &Target) -> Result<Option<f64>, StatusCode> {
    let invalid = StatusCode::BadDeadbandFilterInvalid;
    let kind = i32::try_from(filter.deadband_type).map_err(|_| invalid)?;
    let kind = DeadbandType::try_from(kind).map_err(|_| invalid)?;
    if kind == DeadbandType::None {
        return Ok(None);
    }
    let value = filter.deadband_value;
    if !value.is_finite() || value < 0.0 || (kind == DeadbandType::Percent && value > 100.0) {
        return Err(invalid);
    }
    if !target.numeric {
        return Err(StatusCode::BadFilterNotAllowed);
    }
    if kind == DeadbandType::Absolute {
        return Ok(Some(value));
    }
    match target.range {
        Some((low, high)) if high > low => Ok(Some(value / 100.0 * (high - low))),
        _ => Err(StatusCode::BadMonitoredItemFilterUnsupported),
    }
}

/// Inequality, except that a floating-point value with the same bits is the same value: NaN after NaN is no change.
fn differs(old: &Variant, new: &Variant) -> bool {
    match (old, new) {
        (Variant::Double(old), Variant::Double(new)) => old != new && old.to_bits() != new.to_bits(),
        (Variant::Float(old), Variant::Float(new)) => old != new && old.to_bits() != new.to_bits(),
        (Variant::Array(a), Variant::Array(b)) => {
            a.value_type != b.value_type
                || a.dimensions != b.dimensions
                || a.values.len() != b.values.len()
                || a.values.iter().zip(&b.values).any(|(old, new)| differs(old, new))
        }
        _ => old != new,
    }
}

/// Whether the difference exceeds the band; for an array, whether that of any element does or the shape changed.
fn leaves(old: &Variant, new: &Variant, band: f64) -> bool {
    if let (Variant::Array(a), Variant::Array(b)) = (old, new) {
        return a.dimensions != b.dimensions
            || a.values.len() != b.values.len()
            || a.values.iter().zip(&b.values).any(|(old, new)| leaves(old, new, band));
    }
    match (old.as_f64(), new.as_f64()) {
        (Some(a), Some(b)) if !a.is_nan() && !b.is_nan() => (a - b).abs() > band,
        _ => differs(old, new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::NodeRef;
    use opcua_types::DateTime;

    fn target() -> Target {
        Target { node: NodeRef(1), attribute: 13, computed: false, numeric: true, range: Some((0.0, 200.0)) }
    }

    fn filter(trigger: DataChangeTrigger, kind: DeadbandType, value: f64) -> ExtensionObject {
        ExtensionObject::from_message(DataChangeFilter { trigger, deadband_type: kind as u32, deadband_value: value })
    }

    fn at(value: impl Into<Variant>, status: StatusCode, ticks: i64) -> DataValue {
        DataValue { source_timestamp: Some(DateTime::from(ticks)), ..status_value(value, status) }
    }

    fn status_value(value: impl Into<Variant>, status: StatusCode) -> DataValue {
        DataValue { value: Some(value.into()), status: Some(status), ..DataValue::null() }
    }

    #[test]
    fn each_trigger_sees_what_it_names() {
        use DataChangeTrigger as T;
        let (good, bad) = (StatusCode::Good, StatusCode::BadSensorFailure);
        let cases = [
            (T::Status, at(1.0, good, 1), at(2.0, good, 2), false),
            (T::Status, at(1.0, good, 1), at(1.0, bad, 1), true),
            (T::StatusValue, at(1.0, good, 1), at(1.0, good, 2), false),
            (T::StatusValue, at(1.0, good, 1), at(2.0, good, 1), true),
            (T::StatusValue, at(1.0, good, 1), at(1.0, bad, 1), true),
            (T::StatusValueTimestamp, at(1.0, good, 1), at(1.0, good, 2), true),
            (T::StatusValueTimestamp, at(1.0, good, 1), at(1.0, good, 1), false),
        ];
        for (trigger, old, new, expected) in cases {
            let parsed = Filter::read(&filter(trigger, DeadbandType::None, 0.0), &target()).unwrap();
            assert_eq!(parsed.passes(&old, &new), expected, "{trigger:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn a_difference_of_exactly_the_deadband_is_no_change() {
        use DeadbandType::{Absolute, Percent};
        let good = StatusCode::Good;
        // 5 % of 200 is 10.
        for (kind, band, step, expected) in [
            (Absolute, 2.0, 2.0, false),
            (Absolute, 2.0, -2.5, true),
            (Percent, 5.0, 10.0, false),
            (Percent, 5.0, 10.5, true),
        ] {
            let parsed = Filter::read(&filter(DataChangeTrigger::StatusValue, kind, band), &target()).unwrap();
            assert_eq!(parsed.passes(&at(50.0, good, 1), &at(50.0 + step, good, 1)), expected, "{kind:?} {step}");
            let (old, new) = (vec![1.0, 50.0], vec![1.0, 50.0 + step]);
            assert_eq!(parsed.passes(&at(old, good, 1), &at(new, good, 1)), expected, "array {kind:?} {step}");
        }
        let parsed = Filter::read(&filter(DataChangeTrigger::StatusValue, Absolute, 9.0), &target()).unwrap();
        assert!(parsed.passes(&at(vec![1.0], good, 1), &at(vec![1.0, 1.0], good, 1)), "length changed");
    }

    #[test]
    fn nan_after_nan_is_no_change() {
        let good = StatusCode::Good;
        for deadband in [DeadbandType::None, DeadbandType::Absolute] {
            let parsed = Filter::read(&filter(DataChangeTrigger::StatusValue, deadband, 1.0), &target()).unwrap();
            assert!(!parsed.passes(&at(f64::NAN, good, 1), &at(f64::NAN, good, 1)));
            assert!(parsed.passes(&at(1.0, good, 1), &at(f64::NAN, good, 1)));
        }
    }

    #[test]
    fn filters_that_make_no_sense_are_refused_by_name() {
        let t = DataChangeTrigger::StatusValue;
        let text = Target { numeric: false, ..target() };
        let name = Target { attribute: 4, ..target() };
        let no_range = Target { range: None, ..target() };
        let cases = [
            (filter(t, DeadbandType::Absolute, -1.0), target(), StatusCode::BadDeadbandFilterInvalid),
            (filter(t, DeadbandType::Absolute, f64::NAN), target(), StatusCode::BadDeadbandFilterInvalid),
            (filter(t, DeadbandType::Percent, 100.5), target(), StatusCode::BadDeadbandFilterInvalid),
            (filter(t, DeadbandType::Percent, 5.0), no_range, StatusCode::BadMonitoredItemFilterUnsupported),
            (filter(t, DeadbandType::Absolute, 1.0), text, StatusCode::BadFilterNotAllowed),
            (filter(t, DeadbandType::None, 0.0), name, StatusCode::BadFilterNotAllowed),
            (
                ExtensionObject::from_message(opcua_types::EventFilter::default()),
                target(),
                StatusCode::BadMonitoredItemFilterUnsupported,
            ),
        ];
        for (filter, target, expected) in cases {
            assert_eq!(Filter::read(&filter, &target), Err(expected), "{filter:?}");
        }
        let unknown = DataChangeFilter { trigger: t, deadband_type: 9, deadband_value: 0.0 };
        assert_eq!(
            Filter::read(&ExtensionObject::from_message(unknown), &target()),
            Err(StatusCode::BadDeadbandFilterInvalid)
        );
    }
}
