//! History (OPC 10000-4 §5.11.5) through the guard: updates are changes of the plant like others. Each kind of update
//! takes rights of its own (facts section 8), and its body is read to its end, for its length may lie.

use access_model::AuditKind;
use opcua_types::{ObjectId, StatusCode};

use super::bounds;
use super::change::{Cursor, Form, Item, Outcome};
use super::desk::Desk;
use super::history_events::{DELETES, NO_EVENTS, PUTS, narrow, sift, walks};
use super::walk::{data_value, diagnostics, span};
use super::write::shown;
use crate::history::{Details, Update};
use crate::interlock::No;
use crate::server::front::{Malformed, Reader, Told};

pub(super) const UPDATE: Form = Form {
    ids: (
        ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary,
        ObjectId::HistoryUpdateResponse_Encoding_DefaultBinary,
    ),
    kind: AuditKind::HistoryChanged,
    least: 3,
    limit: |limits| limits.history_update,
    read,
    check,
    own,
    result,
    bare: &[0xff; 8],
    unknown: StatusCode::BadNodeIdUnknown,
    told: |_, _| Told::Nothing,
};

/// An ExtensionObject with one of the kinds of HistoryUpdateDetails, of which each begins with its node.
fn read(cursor: &mut Cursor<'_>) -> Result<Item, Malformed> {
    let mut item = Item::default();
    item.structures = true;
    let start = cursor.at();
    let kind = cursor.reader.node_id()?;
    if cursor.reader.u8()? != 1 {
        return Err(Malformed::Invalid);
    }
    item.bytes(start..cursor.at());
    let length = usize::try_from(cursor.reader.i32()?).map_err(|_| Malformed::Invalid)?;
    let end = cursor.at().saturating_add(length);
    let kind = kind.as_u32().filter(|_| kind.namespace == 0).and_then(Details::of);
    let refused = match kind {
        Some(details) => refused(details, cursor, length),
        None => Some(StatusCode::BadHistoryOperationUnsupported),
    };
    let Some(details) = kind.filter(|_| refused.is_none()) else {
        cursor.reader.bytes(length)?;
        item.refused = refused;
        return Ok(item);
    };
    item.length();
    let place = cursor.at();
    let node = cursor.reader.node_id()?;
    let behind = cursor.at();
    let start = cursor.at();
    let update = Update::read(details, &mut cursor.reader, walks())?;
    let behind_all = start..cursor.at();
    if cursor.at() != end {
        return Err(Malformed::Invalid);
    }
    item.touch(node, update.rule.action, place..behind);
    item.only_real(behind_all.clone(), nothing(details));
    let words = update.rule.words;
    item.text = if update.count() > 0 { format!("{} {words}", update.count()) } else { words.to_owned() };
    item.number = match details {
        Details::DeleteEvents => DELETES,
        Details::Events => PUTS,
        _ => 0,
    };
    if item.number != 0 || update.rule.puts_values() {
        item.value = behind_all;
    }
    Ok(item)
}

/// What is refused whatever the rights.
fn refused(details: Details, cursor: &Cursor<'_>, length: usize) -> Option<StatusCode> {
    let mut body = Reader::new(cursor.reader.rest().get(..length)?);
    body.node_id().ok()?;
    details.refused(body.rest())
}

/// Events that are deleted or written are looked at; where nothing is left of them, the guard answers itself.
fn own(desk: &mut Desk<'_>, item: &mut Item, body: &[u8]) -> Option<Vec<u8>> {
    let answer = match item.number {
        DELETES => {
            narrow(desk, item, body);
            None
        }
        PUTS => sift(desk, item, body),
        _ => return None,
    };
    item.name_sources();
    answer
}

/// What a node that never exists is asked with: nothing to put, nothing to delete.
fn nothing(details: Details) -> &'static [u8] {
    match details {
        Details::Data | Details::Structures => &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        Details::Events => &NO_EVENTS,
        Details::DeleteRaw => &[0; 17],
        Details::DeleteAtTime | Details::DeleteEvents => &[0xff; 4],
    }
}

/// Holds values that become history to the range of their node and of its scope: the past is read by those who decide
/// about the present. Step and rate are of changes of the present value, which this is not.
fn check(desk: &mut Desk<'_>, item: &Item, body: &[u8]) -> Result<(), No> {
    if bounds::unbounded(desk) || item.number != 0 {
        return Ok(());
    }
    let mut reader = Reader::new(body.get(item.value.clone()).unwrap_or_default());
    if reader.u32().is_err() {
        return Ok(());
    }
    let count = reader.array_len(1).map_err(Malformed::status)?;
    for _ in 0..count {
        let bytes = span(&mut reader, |reader| data_value(reader, &mut false)).map_err(Malformed::status)?;
        let value = bounds::value(bytes).and_then(|value| value.value);
        let Err(broken) = bounds::ranged(desk, item, value.as_ref()) else { continue };
        if desk.doubts(item, broken.reason) {
            return Ok(());
        }
        return Err(bounds::broke(desk, item, AuditKind::HistoryChanged, (&broken, &shown(bytes)), || Told::Nothing));
    }
    Ok(())
}

/// A HistoryUpdateResult without its diagnostics.
fn result(reader: &mut Reader<'_>) -> Outcome {
    let status = reader.u32()?;
    let operations = span(reader, |reader| {
        let count = reader.array_len(4)?;
        reader.bytes(count.saturating_mul(4)).map(drop)
    })?;
    diagnostics(reader)?;
    let bytes = [&status.to_le_bytes(), operations, &[0xff; 4]].concat();
    Ok((StatusCode::from(status), bytes))
}
