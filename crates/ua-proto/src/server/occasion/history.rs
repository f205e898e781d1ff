//! The audit events of changes of history (OPC 10000-11 §5.8). Values in them are for who may read both
//! the node and its history.

use access_model::Rights;
use opcua_types::{ByteString, DataValue, DateTime, Variant, VariantScalarTypeId};

use super::{Updating, list};
use crate::event::Event;
use crate::history::{Change, Perform};
use crate::space::Space;

impl Updating {
    /// The number of its event type: AuditHistoryUpdateEventType where nothing more is known.
    pub(super) fn kind(&self) -> u32 {
        match &self.change {
            None => 2104,
            Some(Change::Write(..)) => 3006,
            Some(Change::DeleteRange { .. }) => 3014,
            Some(Change::DeleteAt(_)) => 3019,
            Some(Change::DeleteEvents(_)) => 3022,
            Some(Change::PutEvents(..)) => 2999,
        }
    }
}

/// The number of an encoding in ParameterDataTypeId: the type of the details.
const UPDATE_DATA_DETAILS: u32 = 680;
const DELETE_RAW_MODIFIED_DETAILS: u32 = 686;
const DELETE_AT_TIME_DETAILS: u32 = 689;
const DELETE_EVENT_DETAILS: u32 = 692;
const UPDATE_EVENT_DETAILS: u32 = 683;

/// The fields of the event's own type.
pub(super) fn own(event: &mut Event, update: &Updating, space: &Space) {
    let (Some(node), Some(change)) = (update.node, &update.change) else { return };
    let guard = (node, Rights::READ | Rights::READ_HISTORY);
    event.set("UpdatedNode", space.id(node).into());
    // What events were and are is not told here: each field of each would take rights of its own.
    if !matches!(change, Change::DeleteEvents(_) | Change::PutEvents(..)) {
        event.set_guarded("OldValues", values(&update.old), guard);
    }
    let time = |ticks: i64| Variant::DateTime(Box::new(DateTime::from(ticks)));
    let details = match change {
        Change::Write(perform, new) => {
            event.set("PerformInsertReplace", number(*perform));
            event.set_guarded("NewValues", values(new), guard);
            UPDATE_DATA_DETAILS
        }
        Change::PutEvents(perform, _) => {
            event.set("PerformInsertReplace", number(*perform));
            UPDATE_EVENT_DETAILS
        }
        Change::DeleteRange { start, end } => {
            event.set("IsDeleteModified", Variant::Boolean(false));
            event.set("StartTime", time(*start));
            event.set("EndTime", time(*end));
            DELETE_RAW_MODIFIED_DETAILS
        }
        Change::DeleteAt(times) => {
            let times = times.iter().map(|at| time(*at)).collect();
            event.set("ReqTimes", list(VariantScalarTypeId::DateTime, times));
            DELETE_AT_TIME_DETAILS
        }
        Change::DeleteEvents(ids) => {
            let id = |id: &Vec<u8>| Variant::ByteString(ByteString::from(id.clone()));
            event.set("EventIds", list(VariantScalarTypeId::ByteString, ids.iter().map(id).collect()));
            DELETE_EVENT_DETAILS
        }
    };
    event.set("ParameterDataTypeId", opcua_types::NodeId::new(0, details).into());
}

/// A PerformUpdateType.
fn number(perform: Perform) -> Variant {
    Variant::Int32(match perform {
        Perform::Insert => 1,
        Perform::Replace => 2,
        Perform::Update => 3,
    })
}

fn values(values: &[DataValue]) -> Variant {
    let one = |value: &DataValue| Variant::DataValue(Box::new(value.clone()));
    list(VariantScalarTypeId::DataValue, values.iter().map(one).collect())
}
