//! The operators of a where clause (OPC 10000-4 §7.7.3) in three-valued logic: null is neither true nor false.

use std::cmp::Ordering;

use opcua_types::{Variant, VariantScalarTypeId};

use super::compare::{bitwise, equal, is_null, order, text, truth};
use super::filter::{Selected, Viewer};
use super::like::Pattern;
use super::steps::{Exhausted, Steps};
use super::{Event, size};
use crate::space::NodeRef;

/// What an element costs, and each of its operands, in steps: a field is looked for by its name.
const ELEMENT: usize = 4;
const OPERAND: usize = 4;
/// So many bytes are copied or compared in a step.
const STEP: usize = 16;

/// One element.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Element {
    pub(super) operator: Operator,
    pub(super) operands: Vec<Operand>,
}

/// What an element does with its operands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operator {
    Equals,
    IsNull,
    GreaterThan,
    LessThan,
    GreaterThanOrEqual,
    LessThanOrEqual,
    /// With the pattern taken apart, when it is a literal.
    Like(Option<Pattern>),
    Not,
    Between,
    InList,
    And,
    Or,
    /// To this built-in type.
    Cast(VariantScalarTypeId),
    /// Of this type.
    OfType(NodeRef),
    BitwiseAnd,
    BitwiseOr,
}

/// Where an operand comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// The result of a later element.
    Element(usize),
    Literal(Variant),
    Field(Selected),
}

impl Operand {
    fn value(&self, event: &Event, viewer: &dyn Viewer, results: &[Variant]) -> Variant {
        match self {
            Self::Element(at) => results.get(*at).cloned().unwrap_or(Variant::Empty),
            Self::Literal(value) => value.clone(),
            Self::Field(selected) => selected.value(event, viewer).unwrap_or(Variant::Empty),
        }
    }
}

impl Element {
    /// The result; `results` holds those of the elements behind this one.
    ///
    /// # Errors
    /// It takes more steps than are left.
    pub(super) fn evaluate(
        &self,
        event: &Event,
        viewer: &dyn Viewer,
        results: &[Variant],
        steps: &mut Steps,
    ) -> Result<Variant, Exhausted> {
        steps.take(ELEMENT)?;
        if let Operator::OfType(wanted) = self.operator {
            return Ok(Variant::Boolean(viewer.space().is_subtype_of(event.about().event_type, wanted)));
        }
        let mut operands = Vec::with_capacity(self.operands.len());
        let mut first = None;
        for operand in &self.operands {
            let value = operand.value(event, viewer, results);
            let bytes = size(&value);
            // The first is compared with each of the others.
            let compared = first.map_or(0, |first: usize| first / STEP);
            first = first.or(Some(bytes));
            steps.take((OPERAND + bytes / STEP).saturating_add(compared))?;
            operands.push(value);
        }
        self.operator.apply(&operands, steps)
    }
}

impl Operator {
    /// The result for these operands; too few of them are nulls.
    pub(super) fn apply(&self, operands: &[Variant], steps: &mut Steps) -> Result<Variant, Exhausted> {
        const NULL: Variant = Variant::Empty;
        let nth = |at: usize| operands.get(at).unwrap_or(&NULL);
        let ordered = |fits: fn(Ordering) -> bool| logic(compared(nth(0), nth(1), fits));
        Ok(match self {
            Self::Equals => logic(equals(nth(0), nth(1))),
            Self::IsNull => Variant::Boolean(is_null(nth(0))),
            Self::GreaterThan => ordered(Ordering::is_gt),
            Self::LessThan => ordered(Ordering::is_lt),
            Self::GreaterThanOrEqual => ordered(Ordering::is_ge),
            Self::LessThanOrEqual => ordered(Ordering::is_le),
            Self::Like(pattern) => logic(like(nth(0), nth(1), pattern.as_ref(), steps)?),
            Self::Not => logic(truth(nth(0)).map(|truth| !truth)),
            Self::Between => {
                let low = compared(nth(0), nth(1), Ordering::is_ge);
                logic(and(low, compared(nth(0), nth(2), Ordering::is_le)))
            }
            Self::InList => {
                let list = operands.get(1..).unwrap_or_default();
                let found: Vec<Option<bool>> = list.iter().map(|one| equals(nth(0), one)).collect();
                match found.contains(&Some(true)) {
                    false if found.contains(&None) => NULL,
                    found => Variant::Boolean(found),
                }
            }
            Self::And => logic(and(truth(nth(0)), truth(nth(1)))),
            Self::Or => logic(or(truth(nth(0)), truth(nth(1)))),
            Self::Cast(kind) => cast(nth(0), *kind),
            Self::OfType(_) => NULL,
            Self::BitwiseAnd => bitwise(nth(0), nth(1), |one, other| one & other),
            Self::BitwiseOr => bitwise(nth(0), nth(1), |one, other| one | other),
        })
    }
}

fn logic(truth: Option<bool>) -> Variant {
    truth.map_or(Variant::Empty, Variant::Boolean)
}

fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    and(one.map(|truth| !truth), other.map(|truth| !truth)).map(|truth| !truth)
}

fn equals(one: &Variant, other: &Variant) -> Option<bool> {
    if is_null(one) || is_null(other) { None } else { Some(equal(one, other)) }
}

/// Values that have no order among each other are in none: false, as Equals is when there is no conversion.
fn compared(one: &Variant, other: &Variant, fits: fn(Ordering) -> bool) -> Option<bool> {
    if is_null(one) || is_null(other) { None } else { Some(order(one, other).is_some_and(fits)) }
}

fn like(
    value: &Variant,
    pattern: &Variant,
    parsed: Option<&Pattern>,
    steps: &mut Steps,
) -> Result<Option<bool>, Exhausted> {
    if is_null(value) || is_null(pattern) {
        return Ok(None);
    }
    let Some(value) = text(value) else { return Ok(None) };
    match parsed {
        Some(pattern) => pattern.matches(value, steps).map(Some),
        None => match text(pattern).and_then(Pattern::parse) {
            Some(pattern) => pattern.matches(value, steps).map(Some),
            None => Ok(None),
        },
    }
}

/// Null where there is no conversion.
fn cast(value: &Variant, kind: VariantScalarTypeId) -> Variant {
    if is_null(value) || matches!(value, Variant::Array(_)) { Variant::Empty } else { value.cast(kind) }
}
