//! What each kind of HistoryUpdateDetails is, and which right it takes (OPC 10000-11 §6.9, OPC 10000-3 §8.55): one table
//! for the server, which carries changes out, and the guard, which sends them on.
//!
//! Inserting takes InsertHistory, replacing ModifyHistory, inserting or replacing both. Whatever ends with entries gone
//! takes DeleteHistory: also Remove, which deletes (§6.9.3.6), whatever structure it comes in.

use access_model::Action;
use opcua_types::{ObjectId, StatusCode};

use super::put::Put;
use crate::body::{Malformed, Reader};

/// A kind of HistoryUpdateDetails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Details {
    /// Values.
    Data,
    /// Annotations and other structures, of which several can share an instant.
    Structures,
    /// Events as a client tells them.
    Events,
    /// What was recorded in a span of time.
    DeleteRaw,
    /// What was recorded at given instants.
    DeleteAtTime,
    /// Events by their ids.
    DeleteEvents,
}

/// What is done to history: PerformUpdateType, and deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Insert,
    Replace,
    /// Insert or replace.
    Update,
    /// An entry that is named by its content is deleted.
    Remove,
    Delete,
}

/// One kind of change.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) details: Details,
    pub(crate) deed: Deed,
    pub(crate) action: Action,
    /// Behind the number of entries, in a record.
    pub(crate) words: &'static str,
}

const fn rule(details: Details, deed: Deed, words: &'static str) -> Rule {
    let action = match deed {
        Deed::Insert => Action::InsertHistory,
        Deed::Replace => Action::ModifyHistory,
        Deed::Update => Action::UpdateHistory,
        Deed::Remove | Deed::Delete => Action::DeleteHistory,
    };
    Rule { details, deed, action, words }
}

/// Every kind of change that the standard knows.
pub(crate) const TABLE: [Rule; 14] = [
    rule(Details::Data, Deed::Insert, "values are inserted"),
    rule(Details::Data, Deed::Replace, "values are replaced"),
    rule(Details::Data, Deed::Update, "values are inserted or replaced"),
    rule(Details::Data, Deed::Remove, "values are removed"),
    rule(Details::Structures, Deed::Insert, "structures are inserted"),
    rule(Details::Structures, Deed::Replace, "structures are replaced"),
    rule(Details::Structures, Deed::Update, "structures are inserted or replaced"),
    rule(Details::Structures, Deed::Remove, "structures are removed"),
    rule(Details::Events, Deed::Insert, "events are inserted"),
    rule(Details::Events, Deed::Replace, "events are replaced"),
    rule(Details::Events, Deed::Update, "events are inserted or replaced"),
    rule(Details::DeleteRaw, Deed::Delete, "values of a span of time are deleted"),
    rule(Details::DeleteAtTime, Deed::Delete, "values are deleted"),
    rule(Details::DeleteEvents, Deed::Delete, "events are deleted"),
];

impl Details {
    /// The kind that an encoding of namespace 0 is.
    pub(crate) fn of(encoding: u32) -> Option<Self> {
        Some(match ObjectId::try_from(encoding).ok()? {
            ObjectId::UpdateDataDetails_Encoding_DefaultBinary => Self::Data,
            ObjectId::UpdateStructureDataDetails_Encoding_DefaultBinary => Self::Structures,
            ObjectId::UpdateEventDetails_Encoding_DefaultBinary => Self::Events,
            ObjectId::DeleteRawModifiedDetails_Encoding_DefaultBinary => Self::DeleteRaw,
            ObjectId::DeleteAtTimeDetails_Encoding_DefaultBinary => Self::DeleteAtTime,
            ObjectId::DeleteEventDetails_Encoding_DefaultBinary => Self::DeleteEvents,
            _ => return None,
        })
    }

    /// What is refused whatever the rights, with this behind the node: structures that are written into history hold what
    /// a right on one node says nothing of, and events are not removed so (§6.9.4.1).
    pub(crate) fn refused(self, behind: &[u8]) -> Option<StatusCode> {
        match self {
            Self::Structures => Some(StatusCode::BadHistoryOperationUnsupported),
            Self::Events => {
                let perform = Reader::new(behind).u32().ok()?;
                let known = perform != 0 && Rule::find(self, perform).is_some();
                (!known).then_some(StatusCode::BadInvalidArgument)
            }
            _ => None,
        }
    }
}

impl Rule {
    /// The row of a kind of details with this PerformUpdateType; 0 for those that have none.
    pub(crate) fn find(details: Details, perform: u32) -> Option<&'static Self> {
        let deed = match perform {
            0 => Deed::Delete,
            1 => Deed::Insert,
            2 => Deed::Replace,
            3 => Deed::Update,
            4 => Deed::Remove,
            _ => return None,
        };
        TABLE.iter().find(|rule| rule.details == details && rule.deed == deed)
    }

    /// Whether values become part of the history.
    pub(crate) fn puts_values(&self) -> bool {
        self.details == Details::Data && matches!(self.deed, Deed::Insert | Deed::Replace | Deed::Update)
    }
}

/// What stands behind the node in the details.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    pub(crate) rule: &'static Rule,
    pub(crate) content: Content<'a>,
}

/// What is to be put or deleted.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// DataValues, each as it is encoded.
    Values(Vec<&'a [u8]>),
    /// A span of time in ticks; `modified`: of entries that were modified.
    Span { modified: bool, start: i64, end: i64 },
    /// Instants in ticks.
    Times(Vec<i64>),
    /// Ids of events.
    Events(Vec<&'a [u8]>),
    /// Events as they are to be.
    Put(Put<'a>),
}

/// Steps over something and gives its bytes.
pub(crate) type Walk<'a> = fn(&mut Reader<'a>) -> Result<&'a [u8], Malformed>;

impl<'a> Update<'a> {
    /// Reads it. `value` steps over a DataValue, `variant` over a Variant.
    ///
    /// # Errors
    /// Not one of the table, or not to be decided about.
    pub(crate) fn read(
        details: Details,
        reader: &mut Reader<'a>,
        (value, variant): (Walk<'a>, Walk<'a>),
    ) -> Result<Self, Malformed> {
        let perform = match details {
            Details::Data | Details::Events => {
                reader.u32().and_then(|perform| if perform == 0 { Err(Malformed::Invalid) } else { Ok(perform) })?
            }
            _ => 0,
        };
        let rule = Rule::find(details, perform).ok_or(Malformed::Invalid)?;
        let content = match details {
            Details::Data => {
                Content::Values((0..reader.array_len(1)?).map(|_| value(reader)).collect::<Result<_, _>>()?)
            }
            Details::DeleteRaw => {
                Content::Span { modified: reader.u8()? != 0, start: reader.i64()?, end: reader.i64()? }
            }
            Details::DeleteAtTime => {
                Content::Times((0..reader.array_len(8)?).map(|_| reader.i64()).collect::<Result<_, _>>()?)
            }
            Details::DeleteEvents => {
                let id = |reader: &mut Reader<'a>| reader.byte_string().map(Option::unwrap_or_default);
                Content::Events((0..reader.array_len(4)?).map(|_| id(reader)).collect::<Result<_, _>>()?)
            }
            Details::Events => Content::Put(Put::read(reader, variant)?),
            Details::Structures => return Err(Malformed::Invalid),
        };
        Ok(Self { rule, content })
    }

    /// The number of entries it names; 0 where it names none.
    pub(crate) fn count(&self) -> usize {
        match &self.content {
            Content::Values(entries) | Content::Events(entries) => entries.len(),
            Content::Times(times) => times.len(),
            Content::Put(put) => put.events.len(),
            Content::Span { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use access_model::Rights;

    use super::*;

    #[test]
    fn each_kind_of_change_takes_the_rights_that_the_standard_names() {
        let (insert, modify, delete) = (Rights::INSERT_HISTORY, Rights::MODIFY_HISTORY, Rights::DELETE_HISTORY);
        use ObjectId::{
            DeleteAtTimeDetails_Encoding_DefaultBinary as AtTime, DeleteEventDetails_Encoding_DefaultBinary as Events,
            DeleteRawModifiedDetails_Encoding_DefaultBinary as Raw, UpdateDataDetails_Encoding_DefaultBinary as Data,
            UpdateEventDetails_Encoding_DefaultBinary as Event,
            UpdateStructureDataDetails_Encoding_DefaultBinary as Structure,
        };
        let rows = [
            ("§6.9.2.2 insert data", Data, 1, insert),
            ("§6.9.2.3 replace data", Data, 2, modify),
            ("§6.9.2.4 update data: both, for it does either", Data, 3, insert | modify),
            ("remove in UpdateDataDetails: it deletes", Data, 4, delete),
            ("§6.9.3.3 insert structures", Structure, 1, insert),
            ("§6.9.3.4 replace structures", Structure, 2, modify),
            ("§6.9.3.5 update structures", Structure, 3, insert | modify),
            ("§6.9.3.6 remove structures: \"it is deleted\"", Structure, 4, delete),
            ("§6.9.4.2 insert events", Event, 1, insert),
            ("§6.9.4.3 replace events", Event, 2, modify),
            ("§6.9.4.4 update events", Event, 3, insert | modify),
            ("§6.9.5 delete raw and modified", Raw, 0, delete),
            ("§6.9.6 delete at time", AtTime, 0, delete),
            ("§6.9.7 delete events", Events, 0, delete),
        ];
        assert_eq!(rows.len(), TABLE.len());
        for (rule, encoding, perform, expected) in rows {
            let row = Rule::find(Details::of(encoding as u32).unwrap(), perform).unwrap();
            assert_eq!(row.action.needed(), expected, "{rule}");
        }
        for (rule, encoding, perform) in
            [("§6.9.4.1 events are not removed", Event, 4), ("no such PerformUpdateType", Data, 5), ("a span", Raw, 1)]
        {
            assert!(Rule::find(Details::of(encoding as u32).unwrap(), perform).is_none(), "{rule}");
        }
        assert_eq!(Details::of(ObjectId::ReadRawModifiedDetails_Encoding_DefaultBinary as u32), None);
    }

    #[test]
    fn values_are_not_written_without_saying_how() {
        let body = [0_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat();
        assert!(Update::read(Details::Data, &mut Reader::new(&body), (Reader::data_value, Reader::variant)).is_err());
    }
}
