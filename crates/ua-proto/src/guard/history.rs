//! History (OPC 10000-4 §5.11.5) through the guard: updates are changes of the plant like others. Each kind of update
//! takes rights of its own (facts section 8), and its body is read to its end, for its length may lie.

use access_model::{Action, AuditKind};
use opcua_types::{ObjectId, StatusCode};

use super::change::{Cursor, Form, Item, Outcome, never_own, unchecked};
use super::walk::{boolean, data_value, diagnostics, span};
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
    check: unchecked,
    own: never_own,
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
    let known = [
        ObjectId::UpdateDataDetails_Encoding_DefaultBinary,
        ObjectId::DeleteRawModifiedDetails_Encoding_DefaultBinary,
        ObjectId::DeleteAtTimeDetails_Encoding_DefaultBinary,
        ObjectId::DeleteEventDetails_Encoding_DefaultBinary,
    ];
    let kind = kind.as_object_id().ok().filter(|kind| known.contains(kind));
    let Some(kind) = kind else {
        // Structures and events that are written into history hold what nobody here can decide about.
        cursor.reader.bytes(length)?;
        item.refused = Some(StatusCode::BadHistoryOperationUnsupported);
        return Ok(item);
    };
    item.length();
    let place = cursor.at();
    let node = cursor.reader.node_id()?;
    let behind = cursor.at();
    let mut count = 0;
    let (action, words, values): Update = match kind {
        ObjectId::UpdateDataDetails_Encoding_DefaultBinary => update(cursor, &mut count)?,
        ObjectId::DeleteRawModifiedDetails_Encoding_DefaultBinary => {
            let range = cursor.range(|reader| {
                boolean(reader)?;
                reader.bytes(16).map(drop)
            })?;
            (Action::DeleteHistory, "values of a span of time are deleted", (range, [0; 17].as_slice()))
        }
        ObjectId::DeleteAtTimeDetails_Encoding_DefaultBinary => {
            let range = cursor.range(|reader| {
                count = reader.array_len(8)?;
                reader.bytes(count.saturating_mul(8)).map(drop)
            })?;
            (Action::DeleteHistory, "values are deleted", (range, [0xff; 4].as_slice()))
        }
        _ => {
            let range = cursor.range(|reader| {
                count = reader.array_len(4)?;
                for _ in 0..count {
                    reader.byte_string()?;
                }
                Ok(())
            })?;
            (Action::DeleteHistory, "events are deleted", (range, [0xff; 4].as_slice()))
        }
    };
    if cursor.at() != end {
        return Err(Malformed::Invalid);
    }
    item.touch(node, action, place..behind);
    item.only_real(values.0, values.1);
    item.text = if count > 0 { format!("{count} {words}") } else { words.to_owned() };
    Ok(item)
}

type Update = (Action, &'static str, (std::ops::Range<usize>, &'static [u8]));

/// What is behind the node in UpdateDataDetails: what to do, and the values.
fn update(cursor: &mut Cursor<'_>, count: &mut usize) -> Result<Update, Malformed> {
    let mut kind = 0;
    let range = cursor.range(|reader| {
        kind = reader.u32()?;
        *count = reader.array_len(1)?;
        for _ in 0..*count {
            data_value(reader, &mut false)?;
        }
        Ok(())
    })?;
    let (action, words) = match kind {
        1 => (Action::InsertHistory, "values are inserted"),
        2 => (Action::ModifyHistory, "values are replaced"),
        3 => (Action::UpdateHistory, "values are inserted or replaced"),
        // What it takes to delete values takes the right to, whatever service it comes by (OPC 10000-3 §8.55).
        4 => (Action::DeleteHistory, "values are removed"),
        _ => return Err(Malformed::Invalid),
    };
    Ok((action, words, (range, &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])))
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
