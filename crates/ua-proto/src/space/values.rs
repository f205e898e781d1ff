//! Values: reading, writing by a client, setting by the application.

use access_model::UnixTime;
use opcua_types::{DataValue, DateTime, NodeClass, NumericRange, StatusCode, Variant};

use super::range::write_range;
use super::{AccessLevel, Changes, NodeRef, Space, ns0};

/// How many changes are remembered between two calls of [`Space::take_changes`].
const MAX_CHANGES: usize = 1 << 16;

/// 100-nanosecond ticks from 1601 to 1970.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;

/// A wall-clock time as OPC UA writes it.
#[must_use]
pub fn date_time(time: UnixTime) -> DateTime {
    DateTime::from(time.as_micros().saturating_mul(10).saturating_add(UNIX_EPOCH_TICKS))
}

impl Space {
    /// The current value, whoever asks: source timestamp as written, server timestamp `now`, no status when it is
    /// Good. A variable of namespace 0 that nobody gave a value has `Variant::Empty`.
    #[must_use]
    pub fn value(&self, node: NodeRef, now: UnixTime) -> DataValue {
        let mut value = match Self::added_at(node) {
            Some(at) => self.added_value(at),
            None => self.table_value(node, now),
        };
        value.server_timestamp = Some(date_time(now));
        value
    }

    /// The content, status and source time in ticks of an added variable, without the detour over calendar types: for
    /// Read, which writes them out at once. None for nodes of namespace 0.
    pub(crate) fn plain_value(&self, node: NodeRef) -> Option<(Variant, StatusCode, Option<i64>)> {
        let at = Self::added_at(node)?;
        Some((self.added.value(at), self.added.status(at), self.added.ticks(at)))
    }

    /// Writes as a client does: the variable's own AccessLevel, its data type, rank and dimensions, and the rules for
    /// status and timestamps are checked; rights are the gate's. A written server timestamp is not kept.
    #[must_use]
    pub fn write_value(&mut self, node: NodeRef, range: &NumericRange, value: DataValue, now: UnixTime) -> StatusCode {
        match self.writable(node, &value).and_then(|()| self.merged(node, range, value, now)) {
            Ok(value) => self.store(node, value, now),
            Err(status) => return status,
        }
        StatusCode::Good
    }

    /// Sets a value as the application does: its type is checked, the variable's AccessLevel is not. A value without
    /// content is accepted with a status that is Bad.
    #[must_use]
    pub fn set_value(&mut self, node: NodeRef, value: DataValue, now: UnixTime) -> StatusCode {
        if self.class(node) != NodeClass::Variable {
            return if self.contains(node) { StatusCode::BadAttributeIdInvalid } else { StatusCode::BadNodeIdUnknown };
        }
        let fits = match &value.value {
            None | Some(Variant::Empty) => value.status.is_some_and(|status| status.is_bad()),
            Some(content) => self.value_fits_node(content, node),
        };
        if !fits {
            return StatusCode::BadTypeMismatch;
        }
        self.store(node, value, now);
        StatusCode::Good
    }

    /// Sets what a variable of namespace 0 answers, unchecked. An added variable takes it as its value.
    pub fn set_overlay(&mut self, node: NodeRef, value: DataValue) {
        match Self::added_at(node) {
            None => {
                self.overlay.insert(node, value);
                self.changed(node);
            }
            Some(_) => self.store(node, value, UnixTime::default()),
        }
    }

    /// The nodes whose value changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn added_value(&self, at: u32) -> DataValue {
        let status = self.added.status(at);
        let value = match self.added.value(at) {
            Variant::Empty if status.is_bad() => None,
            value => Some(value),
        };
        DataValue {
            value,
            status: (status != StatusCode::Good).then_some(status),
            source_timestamp: self.added.time(at),
            ..DataValue::null()
        }
    }

    fn table_value(&self, node: NodeRef, now: UnixTime) -> DataValue {
        if let Some(overlay) = self.overlay.get(&node) {
            return overlay.clone();
        }
        let value = self.server_value(node, now).or_else(|| ns0::value(node, &self.context.context()));
        DataValue {
            value: Some(value.unwrap_or_default()),
            source_timestamp: self.facts.as_ref().map(|facts| date_time(facts.started)),
            ..DataValue::null()
        }
    }

    fn writable(&self, node: NodeRef, value: &DataValue) -> Result<(), StatusCode> {
        match self.class(node) {
            NodeClass::Variable => {}
            NodeClass::Unspecified => return Err(StatusCode::BadNodeIdUnknown),
            _ => return Err(StatusCode::BadAttributeIdInvalid),
        }
        let access = self.access_level(node);
        if !access.contains(AccessLevel::CURRENT_WRITE) {
            return Err(StatusCode::BadNotWritable);
        }
        let has_status = value.status.is_some_and(|status| status != StatusCode::Good);
        let has_time = value.source_timestamp.is_some() || value.server_timestamp.is_some();
        if has_status && !access.contains(AccessLevel::STATUS_WRITE)
            || has_time && !access.contains(AccessLevel::TIMESTAMP_WRITE)
            || value.value.is_none()
        {
            return Err(StatusCode::BadWriteNotSupported);
        }
        Ok(())
    }

    /// The whole value to store.
    fn merged(
        &self,
        node: NodeRef,
        range: &NumericRange,
        mut new: DataValue,
        now: UnixTime,
    ) -> Result<DataValue, StatusCode> {
        let content = new.value.take().unwrap_or_default();
        let content = if range.is_none() {
            self.adapt(content, node)
        } else {
            let old = self.value(node, now).value.unwrap_or_default();
            write_range(&old, range, &content)?
        };
        if !self.value_fits_node(&content, node) {
            return Err(StatusCode::BadTypeMismatch);
        }
        new.value = Some(content);
        Ok(new)
    }

    fn store(&mut self, node: NodeRef, value: DataValue, now: UnixTime) {
        let time = value.source_timestamp.unwrap_or_else(|| date_time(now));
        self.remember(node, &value, time, now);
        match Self::added_at(node) {
            Some(at) => {
                self.added.set_status(at, value.status.unwrap_or(StatusCode::Good));
                self.added.set_time(at, Some(&time));
                self.added.set_value(at, value.value.unwrap_or_default());
            }
            None => {
                self.overlay.insert(node, DataValue { source_timestamp: Some(time), ..value });
            }
        }
        self.changed(node);
    }

    fn changed(&mut self, node: NodeRef) {
        if self.changes.nodes.last() == Some(&node) {
            return;
        }
        if self.changes.nodes.len() < MAX_CHANGES {
            self.changes.nodes.push(node);
        } else {
            self.changes.overflow = true;
        }
    }
}
