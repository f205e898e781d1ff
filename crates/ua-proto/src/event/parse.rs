//! How a filter is read from the bytes it came in. The request decoder leaves it closed: every length, count and literal
//! is checked here before anything is made of it.

use opcua_types::{
    BinaryEncodable, ByteStringBody, ContentFilterElementResult, ContentFilterResult, ContextOwned, EventFilterResult,
    ExtensionObject, NodeClass, NodeId, NumericRange, ObjectId, QualifiedName, StatusCode, Variant,
    VariantScalarTypeId,
};

use super::filter::{EventFilter, FilterOutcome, Selected, Viewer};
use super::like::Pattern;
use super::operator::{Element, Operand, Operator};
use crate::body::{Malformed, Reader};
use crate::server::codec::requests;
use crate::space::{NodeRef, Space, ns0};

/// The most select clauses.
pub(super) const MAX_SELECT: usize = 64;
/// The most elements of a where clause.
pub(super) const MAX_ELEMENTS: usize = 64;
/// The most operands of one element.
pub(super) const MAX_OPERANDS: usize = 64;
/// The most steps of a browse path.
pub(super) const MAX_PATH: usize = 8;
/// The largest literal, in bytes.
pub(super) const MAX_LITERAL: usize = 1_024;
/// The largest filter, in bytes.
pub(super) const MAX_FILTER: usize = 1 << 16;

const NODE_ID: u32 = 1;
const VALUE: u32 = 13;

/// Why there is no filter.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) status: StatusCode,
    /// Which element or operand is at fault.
    pub(crate) result: Option<EventFilterResult>,
}

impl From<StatusCode> for Unusable {
    fn from(status: StatusCode) -> Self {
        Self { status, result: None }
    }
}

impl From<Malformed> for Unusable {
    fn from(malformed: Malformed) -> Self {
        Self::from(malformed.status())
    }
}

impl EventFilter {
    /// Reads the filter of a request.
    ///
    /// # Errors
    /// Bad_EventFilterInvalid without a filter, without a select clause, with a where clause at fault or above a bound;
    /// Bad_MonitoredItemFilterUnsupported for another kind of filter; Bad_DecodingError.
    pub(crate) fn read(filter: &ExtensionObject, viewer: &dyn Viewer) -> Result<FilterOutcome, Unusable> {
        if filter.is_null() {
            return Err(StatusCode::BadEventFilterInvalid.into());
        }
        if let Some(closed) = filter.inner_as::<ByteStringBody>() {
            let kind = closed.encoding_id().as_object_id().ok();
            if kind != Some(ObjectId::EventFilter_Encoding_DefaultBinary) {
                return Err(StatusCode::BadMonitoredItemFilterUnsupported.into());
            }
            return Self::parse(closed.raw_body().as_ref(), viewer);
        }
        let open = filter.inner_as::<opcua_types::EventFilter>();
        let open = open.ok_or(StatusCode::BadMonitoredItemFilterUnsupported)?;
        Self::parse(&open.encode_to_vec(&ContextOwned::default().context()), viewer)
    }

    /// As [`EventFilter::read`], of the bytes of an EventFilter.
    pub(crate) fn parse(bytes: &[u8], viewer: &dyn Viewer) -> Result<FilterOutcome, Unusable> {
        let invalid = StatusCode::BadEventFilterInvalid;
        if bytes.len() > MAX_FILTER {
            return Err(invalid.into());
        }
        let mut reader = Reader::new(bytes);
        let count = bounded(reader.array_len(14)?, MAX_SELECT)?;
        if count == 0 {
            return Err(invalid.into());
        }
        let selected = (0..count).map(|_| simple(&mut reader, viewer)).collect::<Result<Vec<_>, Malformed>>()?;
        let count = bounded(reader.array_len(8)?, MAX_ELEMENTS)?;
        let elements = (0..count).map(|at| element(&mut reader, (at, count), viewer));
        let elements = elements.collect::<Result<Vec<_>, Unusable>>()?;
        if !reader.rest().is_empty() {
            return Err(StatusCode::BadDecodingError.into());
        }
        let faulty = selected.iter().any(Result::is_err) || elements.iter().any(|(_, result)| is_bad(result));
        let result = faulty.then(|| told(&selected, &elements));
        if elements.iter().any(|(_, result)| is_bad(result)) {
            return Err(Unusable { status: invalid, result });
        }
        let clause = elements.into_iter().filter_map(|(element, _)| element).collect();
        let select = selected.into_iter().map(Result::ok).collect();
        Ok(FilterOutcome { filter: Self { select, clause }, result })
    }
}

fn bounded(count: usize, most: usize) -> Result<usize, Unusable> {
    if count > most { Err(StatusCode::BadEventFilterInvalid.into()) } else { Ok(count) }
}

fn is_bad(result: &ContentFilterElementResult) -> bool {
    result.status_code.is_bad()
}

fn told(
    selected: &[Result<Selected, StatusCode>],
    elements: &[(Option<Element>, ContentFilterElementResult)],
) -> EventFilterResult {
    let status = |one: &Result<Selected, StatusCode>| one.as_ref().err().copied().unwrap_or(StatusCode::Good);
    let results: Vec<_> = elements.iter().map(|(_, result)| result.clone()).collect();
    EventFilterResult {
        select_clause_results: Some(selected.iter().map(status).collect()),
        select_clause_diagnostic_infos: None,
        where_clause_result: ContentFilterResult {
            element_results: (!results.is_empty()).then_some(results),
            element_diagnostic_infos: None,
        },
    }
}

/// A SimpleAttributeOperand: read to its end whatever is wrong with it.
fn simple(reader: &mut Reader<'_>, viewer: &dyn Viewer) -> Result<Result<Selected, StatusCode>, Malformed> {
    let type_id = reader.node_id()?;
    let steps = reader.array_len(6)?;
    if steps > MAX_PATH {
        return Err(Malformed::Limit);
    }
    let mut path = Vec::with_capacity(steps);
    for _ in 0..steps {
        let namespace = reader.u16()?;
        path.push(QualifiedName::new(namespace, reader.string()?));
    }
    let attribute = reader.u32()?;
    let range = reader.string()?;
    Ok(selected(&type_id, path, attribute, range, viewer))
}

fn selected(
    type_id: &NodeId,
    mut path: Vec<QualifiedName>,
    attribute: u32,
    range: &str,
    viewer: &dyn Viewer,
) -> Result<Selected, StatusCode> {
    let space = viewer.space();
    let of = if type_id.is_null() {
        ns0::BASE_EVENT_TYPE
    } else {
        event_type(type_id, viewer).ok_or(StatusCode::BadTypeDefinitionInvalid)?
    };
    match attribute {
        VALUE if !path.is_empty() => {}
        // The NodeId of what an event is about: conditions have one, events do not.
        NODE_ID => {}
        _ => return Err(StatusCode::BadAttributeIdInvalid),
    }
    let range = range.parse::<NumericRange>().map_err(|_| StatusCode::BadIndexRangeInvalid)?;
    // BaseEventType stands for any type (§7.22.3): its paths are looked for in the event only.
    if of != ns0::BASE_EVENT_TYPE && !has_path(space, of, &path) {
        return Err(StatusCode::BadNodeIdUnknown);
    }
    let field = path.pop().filter(|_| path.is_empty() && attribute == VALUE);
    Ok(Selected { of, field, range })
}

/// An event type that the viewer may know of.
fn event_type(id: &NodeId, viewer: &dyn Viewer) -> Option<NodeRef> {
    let space = viewer.space();
    let node = space.find(id).filter(|node| viewer.sees(*node))?;
    let fits = space.class(node) == NodeClass::ObjectType && space.is_subtype_of(node, ns0::BASE_EVENT_TYPE);
    fits.then_some(node)
}

/// Whether a path leads from a type, or from one that it is derived from, to a node.
fn has_path(space: &Space, of: NodeRef, path: &[QualifiedName]) -> bool {
    let mut at = Some(of);
    while let Some(type_) = at {
        if path.iter().try_fold(type_, |node, name| space.child(node, name)).is_some() {
            return true;
        }
        at = space.supertype(type_);
    }
    false
}

/// One element, or why there is none, and what is told of it.
fn element(
    reader: &mut Reader<'_>,
    (at, count): (usize, usize),
    viewer: &dyn Viewer,
) -> Result<(Option<Element>, ContentFilterElementResult), Unusable> {
    let number = reader.u32()?;
    let operands = bounded(reader.array_len(3)?, MAX_OPERANDS)?;
    let read = (0..operands).map(|_| operand(reader, (at, count), viewer));
    let read = read.collect::<Result<Vec<Result<Operand, StatusCode>>, Malformed>>()?;
    let status = |one: &Result<Operand, StatusCode>| one.as_ref().err().copied().unwrap_or(StatusCode::Good);
    let mut statuses: Vec<StatusCode> = read.iter().map(status).collect();
    let good: Vec<Operand> = read.into_iter().flatten().collect();
    let made = if good.len() == operands {
        operator(number, &good, viewer, &mut statuses).map(|operator| Element { operator, operands: good })
    } else {
        check_operator(number, operands).and(Err(StatusCode::BadFilterOperandInvalid))
    };
    let result = ContentFilterElementResult {
        status_code: made.as_ref().err().copied().unwrap_or(StatusCode::Good),
        operand_status_codes: Some(statuses),
        operand_diagnostic_infos: None,
    };
    Ok((made.ok(), result))
}

fn operand(
    reader: &mut Reader<'_>,
    (at, count): (usize, usize),
    viewer: &dyn Viewer,
) -> Result<Result<Operand, StatusCode>, Malformed> {
    let (kind, body) = reader.extension_object()?;
    let mut body = Reader::new(body);
    let read = match kind.and_then(|kind| ObjectId::try_from(kind).ok()) {
        Some(ObjectId::ElementOperand_Encoding_DefaultBinary) => {
            let index = usize::try_from(body.u32()?).unwrap_or(usize::MAX);
            // Only later elements: whatever the references, they end.
            if index > at && index < count {
                Ok(Operand::Element(index))
            } else {
                Err(StatusCode::BadFilterOperandInvalid)
            }
        }
        Some(ObjectId::LiteralOperand_Encoding_DefaultBinary) => literal(body.variant()?),
        Some(ObjectId::SimpleAttributeOperand_Encoding_DefaultBinary) => {
            return Ok(simple(&mut body, viewer)?.map(Operand::Field));
        }
        // AttributeOperand has no place in an event filter.
        _ => Err(StatusCode::BadFilterOperandInvalid),
    };
    Ok(read)
}

fn literal(bytes: &[u8]) -> Result<Operand, StatusCode> {
    if bytes.len() > MAX_LITERAL {
        return Err(StatusCode::BadFilterLiteralInvalid);
    }
    requests().decode::<Variant>(bytes).map(Operand::Literal).map_err(|_| StatusCode::BadFilterLiteralInvalid)
}

/// How many operands each operator takes, by its number.
const OPERANDS: [(usize, usize); 18] = [
    (2, 2),
    (1, 1),
    (2, 2),
    (2, 2),
    (2, 2),
    (2, 2),
    (2, 2),
    (1, 1),
    (3, 3),
    (2, MAX_OPERANDS),
    (2, 2),
    (2, 2),
    (2, 2),
    (1, 1),
    (1, 1),
    (6, 6),
    (2, 2),
    (2, 2),
];

fn check_operator(number: u32, operands: usize) -> Result<(), StatusCode> {
    let row = usize::try_from(number).ok().and_then(|number| OPERANDS.get(number));
    let (least, most) = row.ok_or(StatusCode::BadFilterOperatorInvalid)?;
    match number {
        13 | 15 => Err(StatusCode::BadFilterOperatorUnsupported),
        _ if !(*least..=*most).contains(&operands) => Err(StatusCode::BadFilterOperandCountMismatch),
        _ => Ok(()),
    }
}

fn operator(
    number: u32,
    operands: &[Operand],
    viewer: &dyn Viewer,
    statuses: &mut [StatusCode],
) -> Result<Operator, StatusCode> {
    check_operator(number, operands.len())?;
    let mut blame = |at: usize, status: StatusCode| {
        if let Some(place) = statuses.get_mut(at) {
            *place = status;
        }
        StatusCode::BadFilterOperandInvalid
    };
    Ok(match number {
        0 => Operator::Equals,
        1 => Operator::IsNull,
        2 => Operator::GreaterThan,
        3 => Operator::LessThan,
        4 => Operator::GreaterThanOrEqual,
        5 => Operator::LessThanOrEqual,
        6 => match operands.get(1) {
            Some(Operand::Literal(pattern)) => {
                let parsed = super::compare::text(pattern).and_then(Pattern::parse);
                Operator::Like(Some(parsed.ok_or_else(|| blame(1, StatusCode::BadFilterLiteralInvalid))?))
            }
            _ => Operator::Like(None),
        },
        7 => Operator::Not,
        8 => Operator::Between,
        9 => Operator::InList,
        10 => Operator::And,
        11 => Operator::Or,
        12 => {
            let kind = named(operands.get(1)).and_then(|id| built_in(id, viewer));
            Operator::Cast(kind.ok_or_else(|| blame(1, StatusCode::BadFilterOperandInvalid))?)
        }
        14 => {
            let type_ = named(operands.first()).and_then(|id| event_type(id, viewer));
            Operator::OfType(type_.ok_or_else(|| blame(0, StatusCode::BadNodeIdUnknown))?)
        }
        16 => Operator::BitwiseAnd,
        17 => Operator::BitwiseOr,
        _ => return Err(StatusCode::BadFilterOperatorInvalid),
    })
}

/// The node that a literal names.
fn named(operand: Option<&Operand>) -> Option<&NodeId> {
    match operand {
        Some(Operand::Literal(Variant::NodeId(id))) => Some(id),
        Some(Operand::Literal(Variant::ExpandedNodeId(id))) if id.server_index == 0 && id.namespace_uri.is_null() => {
            Some(&id.node_id)
        }
        _ => None,
    }
}

/// The built-in type that a data type is, or is derived from.
fn built_in(id: &NodeId, viewer: &dyn Viewer) -> Option<VariantScalarTypeId> {
    let space = viewer.space();
    let mut at = space.find(id).filter(|node| viewer.sees(*node) && space.class(*node) == NodeClass::DataType);
    while let Some(node) = at {
        let number = space.id(node).as_u32().filter(|_| space.id(node).namespace == 0);
        if let Some(kind) = number.filter(|number| (1..=21).contains(number)) {
            return VariantScalarTypeId::try_from(kind).ok();
        }
        at = space.supertype(node);
    }
    None
}
