//! Events that a client writes into history (OPC 10000-11 §6.9.4): what the filter calls their fields, and where among these
//! stand the fields by which anybody may decide about an event. One reading for the server, which keeps them, and the
//! guard, which sends them on.

use opcua_types::{NodeId, QualifiedName, StatusCode, Variant};

use super::series::Perform;
use super::update::Walk;
use crate::body::{Codec, Malformed, Reader};
use crate::event::NEEDED;

/// The most select clauses, steps of one path, and elements of a where clause that are looked at.
const MOST: usize = 64;
/// The most events of one item.
pub(crate) const MOST_EVENTS: usize = 1_000;
/// The Value attribute.
const VALUE: u32 = 13;
/// BaseEventType.
const BASE_EVENT_TYPE: u32 = 2041;

/// One select clause.
#[derive(Debug, PartialEq)]
pub(crate) struct Clause<'a> {
    /// The event type that it is of.
    pub(crate) kind: NodeId,
    /// Namespace and name of each step.
    pub(crate) path: Vec<(u16, &'a str)>,
    pub(crate) attribute: u32,
    pub(crate) range: &'a str,
}

impl<'a> Clause<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = reader.node_id()?;
        let steps = bounded(reader.array_len(6)?)?;
        let path = (0..steps).map(|_| Ok((reader.u16()?, reader.string()?))).collect::<Result<_, Malformed>>()?;
        Ok(Self { kind, path, attribute: reader.u32()?, range: reader.string()? })
    }

    /// The browse name of a field that is the value of one property, whole.
    pub(crate) fn field(&self) -> Option<(u16, &'a str)> {
        match self.path.as_slice() {
            [name] if self.attribute == VALUE && self.range.is_empty() => Some(*name),
            _ => None,
        }
    }

    /// Whether every server takes it for this field of BaseEventType.
    fn is_plainly(&self, name: &str) -> bool {
        self.field() == Some((0, name)) && self.kind == NodeId::new(0, BASE_EVENT_TYPE)
    }

    /// Whether some server may take it for this field.
    fn resembles(&self, name: &str) -> bool {
        self.path.iter().any(|(_, step)| step.eq_ignore_ascii_case(name))
    }
}

fn bounded(count: usize) -> Result<usize, Malformed> {
    at_most(MOST, count)
}

fn at_most(most: usize, count: usize) -> Result<usize, Malformed> {
    if count > most { Err(Malformed::Limit) } else { Ok(count) }
}

/// Where in each event these fields stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) id: Option<usize>,
    pub(crate) source: Option<usize>,
    pub(crate) kind: Option<usize>,
}

/// Events as they are to be, as they came.
#[derive(Debug)]
pub(crate) struct Put<'a> {
    pub(crate) clauses: Vec<Clause<'a>>,
    /// The filter has a where clause.
    conditional: bool,
    /// The filter, as it is encoded.
    pub(crate) filter: &'a [u8],
    /// The fields of each event.
    pub(crate) events: Vec<Vec<&'a [u8]>>,
}

impl<'a> Put<'a> {
    /// Reads an EventFilter and a list of HistoryEventFieldLists.
    pub(super) fn read(reader: &mut Reader<'a>, variant: Walk<'a>) -> Result<Self, Malformed> {
        let start = reader.rest();
        let clauses = bounded(reader.array_len(14)?)?;
        let clauses = (0..clauses).map(|_| Clause::read(reader)).collect::<Result<_, _>>()?;
        let elements = bounded(reader.array_len(8)?)?;
        for _ in 0..elements {
            reader.u32()?;
            reader.each(3, |reader| reader.extension_object().map(drop))?;
        }
        let filter = start.get(..start.len().saturating_sub(reader.rest().len())).ok_or(Malformed::Truncated)?;
        let events = at_most(MOST_EVENTS, reader.array_len(4)?)?;
        let fields = |reader: &mut Reader<'a>| (0..bounded(reader.array_len(1)?)?).map(|_| variant(reader)).collect();
        let events = (0..events).map(|_| fields(reader)).collect::<Result<_, _>>()?;
        Ok(Self { clauses, conditional: elements > 0, filter, events })
    }

    /// Where id, source and type of each event stand. `replaces`: they say which event is meant, and not what it is to be.
    ///
    /// # Errors
    /// Bad_EventFilterInvalid with a where clause, which has no place here, or where one of these fields is named twice or in
    /// a way that another server may read otherwise; Bad_ArgumentsMissing where one of them is missing.
    pub(crate) fn places(&self, replaces: bool) -> Result<Places, StatusCode> {
        if self.conditional {
            return Err(StatusCode::BadEventFilterInvalid);
        }
        let place = |name: &str| {
            let mut alike = self.clauses.iter().enumerate().filter(|(_, clause)| clause.resembles(name));
            match (alike.next(), alike.next()) {
                (None, _) => Ok(None),
                (Some((at, clause)), None) if clause.is_plainly(name) => Ok(Some(at)),
                _ => Err(StatusCode::BadEventFilterInvalid),
            }
        };
        let places = Places { id: place("EventId")?, source: place("SourceNode")?, kind: place("EventType")? };
        let complete = if replaces { places.id.is_some() } else { places.source.and(places.kind).is_some() };
        if complete { Ok(places) } else { Err(StatusCode::BadArgumentsMissing) }
    }
}

/// Events as they are to be, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Puts {
    /// The field that each place holds, where it can be one.
    pub(crate) names: Vec<Option<QualifiedName>>,
    pub(crate) places: Places,
    pub(crate) events: Vec<Vec<Variant>>,
}

impl Puts {
    /// Looks at the filter, and decodes the fields.
    ///
    /// # Errors
    /// As [`Put::places`]; Bad_ArgumentsMissing without a field that every event has and the server cannot know;
    /// Bad_DecodingError.
    pub(crate) fn of(put: &Put<'_>, perform: Perform, codec: &Codec) -> Result<Self, StatusCode> {
        let replaces = perform == Perform::Replace;
        let places = put.places(replaces)?;
        let name = |field: Option<(u16, &str)>| field.map(|(namespace, name)| QualifiedName::new(namespace, name));
        let names: Vec<_> = put.clauses.iter().map(|clause| name(clause.field())).collect();
        let has = |name: &&str| names.contains(&Some(QualifiedName::new(0, *name)));
        if !replaces && !NEEDED.iter().all(has) {
            return Err(StatusCode::BadArgumentsMissing);
        }
        // One with another number of fields is none: it is not decoded.
        let decode = |fields: &Vec<&[u8]>| match fields.len() == names.len() {
            true => fields.iter().map(|field| codec.decode(field)).collect(),
            false => Ok(Vec::new()),
        };
        let events = put.events.iter().map(decode).collect::<Result<_, _>>()?;
        Ok(Self { names, places, events })
    }
}

#[cfg(test)]
mod tests {
    use opcua_types::{
        AttributeId, BinaryEncodable, ContentFilter, ContentFilterElement, ContextOwned, EventFilter, NumericRange,
        SimpleAttributeOperand,
    };

    use super::*;

    fn clause(kind: u32, path: &[(u16, &str)]) -> SimpleAttributeOperand {
        SimpleAttributeOperand {
            type_definition_id: NodeId::new(0, kind),
            browse_path: Some(path.iter().map(|(namespace, name)| QualifiedName::new(*namespace, *name)).collect()),
            attribute_id: AttributeId::Value as u32,
            index_range: NumericRange::None,
        }
    }

    fn places(
        clauses: Vec<SimpleAttributeOperand>,
        elements: Vec<ContentFilterElement>,
        replaces: bool,
    ) -> Result<Places, StatusCode> {
        let filter = EventFilter {
            select_clauses: Some(clauses),
            where_clause: ContentFilter { elements: (!elements.is_empty()).then_some(elements) },
        };
        let mut body = filter.encode_to_vec(&ContextOwned::default().context());
        body.extend_from_slice(&[0xff; 4]);
        Put::read(&mut Reader::new(&body), Reader::variant).unwrap().places(replaces)
    }

    #[test]
    fn events_and_fields_of_one_item_are_bounded() {
        for (rule, events, fields, expected) in [
            ("as many as there may be", MOST_EVENTS, 1, Ok(())),
            ("one event more", MOST_EVENTS + 1, 1, Err(Malformed::Limit)),
            ("as many fields as there may be clauses", 1, MOST, Ok(())),
            ("one field more", 1, MOST + 1, Err(Malformed::Limit)),
        ] {
            // No clauses, no where clause.
            let mut body = vec![0xff; 8];
            body.extend_from_slice(&u32::try_from(events).unwrap().to_le_bytes());
            for _ in 0..events {
                body.extend_from_slice(&u32::try_from(fields).unwrap().to_le_bytes());
                body.extend(vec![0; fields]);
            }
            assert_eq!(Put::read(&mut Reader::new(&body), Reader::variant).map(drop), expected, "{rule}");
        }
    }

    #[test]
    fn an_event_with_another_number_of_fields_is_not_decoded() {
        let codec = Codec::new(|_| None, 1_000);
        let names = ["EventId", "Message"].map(|name| clause(BASE_EVENT_TYPE, &[(0, name)]));
        let filter =
            EventFilter { select_clauses: Some(names.to_vec()), where_clause: ContentFilter { elements: None } };
        let mut body = filter.encode_to_vec(&ContextOwned::default().context());
        // One field, two, three: each a Byte.
        body.extend_from_slice(&3_u32.to_le_bytes());
        for fields in 1..=3_u8 {
            body.extend_from_slice(&u32::from(fields).to_le_bytes());
            (0..fields).for_each(|_| body.extend_from_slice(&[3, 7]));
        }
        let put = Put::read(&mut Reader::new(&body), Reader::variant).unwrap();
        let puts = Puts::of(&put, Perform::Replace, &codec).unwrap();
        assert_eq!(puts.events, [Vec::new(), vec![Variant::Byte(7); 2], Vec::new()]);
    }

    #[test]
    fn a_filter_names_source_and_type_once_and_so_that_nobody_reads_them_otherwise() {
        let base = |name: &'static str| clause(BASE_EVENT_TYPE, &[(0, name)]);
        let full = || vec![base("Message"), base("SourceNode"), base("EventType"), base("EventId")];
        let with = |more: SimpleAttributeOperand| [full(), vec![more]].concat();
        let invalid = Err(StatusCode::BadEventFilterInvalid);
        let all = Places { id: Some(3), source: Some(1), kind: Some(2) };
        let node_id = SimpleAttributeOperand { attribute_id: AttributeId::NodeId as u32, ..base("SourceNode") };
        let part = SimpleAttributeOperand { index_range: NumericRange::Index(0), ..base("EventId") };
        for (rule, clauses, expected) in [
            ("each once", full(), Ok(all)),
            ("other fields are anybody's", with(clause(2130, &[(1, "Level")])), Ok(all)),
            ("the source twice", with(base("SourceNode")), invalid),
            ("the type twice", with(base("EventType")), invalid),
            ("the id twice", with(base("EventId")), invalid),
            ("of another namespace beside it", with(clause(BASE_EVENT_TYPE, &[(1, "SourceNode")])), invalid),
            ("written otherwise beside it", with(base("sourcenode")), invalid),
            ("below another field", with(clause(BASE_EVENT_TYPE, &[(0, "A"), (0, "EventType")])), invalid),
            ("of a type that the event may not have", vec![clause(2130, &[(0, "SourceNode")])], invalid),
            ("of no type", vec![clause(0, &[(0, "EventType")])], invalid),
            ("another attribute", vec![node_id], invalid),
            ("a part of it", vec![part], invalid),
        ] {
            assert_eq!(places(clauses, Vec::new(), false), expected, "{rule}");
        }
        let element = ContentFilterElement::default();
        assert_eq!(places(full(), vec![element], false), invalid, "§6.9.4.2: the where clause shall be empty");
        for (rule, names, inserts, replaces) in [
            ("nothing", &[][..], false, false),
            ("§6.9.4.2: the type; and the source, by which it is decided", &["SourceNode", "EventType"], true, false),
            ("a source that is left to the server", &["EventType", "EventId"], false, true),
            ("§6.9.4.3: the id", &["EventId"], false, true),
        ] {
            for (replacing, complete) in [(false, inserts), (true, replaces)] {
                let found = places(names.iter().map(|name| base(name)).collect(), Vec::new(), replacing);
                let missing = found == Err(StatusCode::BadArgumentsMissing);
                assert_eq!((found.is_ok(), missing), (complete, !complete), "{rule}, {replacing}");
            }
        }
    }
}
