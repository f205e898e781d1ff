//! The evaluator against one that is written without a thought for time: recursive, with its own values.

use opcua_types::{ContentFilterElement, FilterOperator as F};
use proptest::prelude::*;

use super::*;

/// A value as the reference has it.
#[derive(Clone, Debug)]
enum Plain {
    Null,
    Truth(bool),
    Whole(i64),
    Real(f64),
    Text(String),
}

#[derive(Clone, Debug)]
enum Tree {
    Value(Plain),
    /// The field of this number.
    Field(usize),
    Node(F, Vec<Tree>),
}

const FIELDS: [&str; 4] = ["A", "B", "C", "D"];

fn plain() -> impl Strategy<Value = Plain> {
    prop_oneof![
        Just(Plain::Null),
        any::<bool>().prop_map(Plain::Truth),
        (-3_i64..4).prop_map(Plain::Whole),
        (-6_i32..7).prop_map(|half| Plain::Real(f64::from(half) / 2.0)),
        "-?[0-3]|true|ab?".prop_map(Plain::Text),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![plain().prop_map(Tree::Value), (0..FIELDS.len()).prop_map(Tree::Field)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let two = prop::sample::select(vec![
            F::Equals,
            F::GreaterThan,
            F::LessThan,
            F::GreaterThanOrEqual,
            F::LessThanOrEqual,
            F::And,
            F::Or,
        ]);
        let one = prop::sample::select(vec![F::Not, F::IsNull]);
        prop_oneof![
            (two, inner.clone(), inner.clone()).prop_map(|(by, left, right)| Tree::Node(by, vec![left, right])),
            (one, inner.clone()).prop_map(|(by, of)| Tree::Node(by, vec![of])),
            prop::collection::vec(inner.clone(), 3).prop_map(|of| Tree::Node(F::Between, of)),
            prop::collection::vec(inner, 2..4).prop_map(|of| Tree::Node(F::InList, of)),
        ]
    })
}

fn variant(value: &Plain) -> Variant {
    match value {
        Plain::Null => Variant::Empty,
        Plain::Truth(truth) => Variant::from(*truth),
        Plain::Whole(whole) => Variant::from(*whole),
        Plain::Real(real) => Variant::from(*real),
        Plain::Text(text) => Variant::from(text.as_str()),
    }
}

/// Lays a tree out as elements, each in front of those it refers to.
fn flatten(tree: &Tree, out: &mut Vec<ContentFilterElement>) -> ExtensionObject {
    match tree {
        Tree::Value(value) => literal(variant(value)),
        Tree::Field(at) => field(FIELDS[*at]),
        Tree::Node(operator, operands) => {
            let at = out.len();
            out.push(element(*operator, Vec::new()));
            let operands = operands.iter().map(|operand| flatten(operand, out)).collect();
            out[at].filter_operands = Some(operands);
            later(at as u32)
        }
    }
}

fn evaluate(tree: &Tree, fields: &[Plain]) -> Plain {
    let truth = |value: Option<bool>| value.map_or(Plain::Null, Plain::Truth);
    match tree {
        Tree::Value(value) => value.clone(),
        Tree::Field(at) => fields[*at].clone(),
        Tree::Node(operator, operands) => {
            let of: Vec<Plain> = operands.iter().map(|operand| evaluate(operand, fields)).collect();
            match operator {
                F::IsNull => Plain::Truth(matches!(of[0], Plain::Null)),
                F::Not => truth(as_truth(&of[0]).map(|truth| !truth)),
                F::And => truth(all(&[as_truth(&of[0]), as_truth(&of[1])])),
                F::Or => truth(some(&[as_truth(&of[0]), as_truth(&of[1])])),
                F::Equals => truth(test(&of[0], &of[1], |order| order == 0)),
                F::GreaterThan => truth(test(&of[0], &of[1], |order| order > 0)),
                F::LessThan => truth(test(&of[0], &of[1], |order| order < 0)),
                F::GreaterThanOrEqual => truth(test(&of[0], &of[1], |order| order >= 0)),
                F::LessThanOrEqual => truth(test(&of[0], &of[1], |order| order <= 0)),
                F::Between => {
                    truth(all(&[test(&of[0], &of[1], |order| order >= 0), test(&of[0], &of[2], |order| order <= 0)]))
                }
                F::InList => {
                    let found: Vec<_> = of[1..].iter().map(|one| test(&of[0], one, |order| order == 0)).collect();
                    truth(some(&found))
                }
                other => panic!("{other:?} is not part of the reference"),
            }
        }
    }
}

fn all(of: &[Option<bool>]) -> Option<bool> {
    if of.contains(&Some(false)) {
        Some(false)
    } else if of.contains(&None) {
        None
    } else {
        Some(true)
    }
}

fn some(of: &[Option<bool>]) -> Option<bool> {
    if of.contains(&Some(true)) {
        Some(true)
    } else if of.contains(&None) {
        None
    } else {
        Some(false)
    }
}

fn as_truth(value: &Plain) -> Option<bool> {
    match value {
        Plain::Truth(truth) => Some(*truth),
        Plain::Text(text) if text == "true" || text == "1" => Some(true),
        Plain::Text(text) if text == "false" || text == "0" => Some(false),
        _ => None,
    }
}

/// Null with null; false where there is no order; texts among each other by their letters, else all as Double.
fn test(one: &Plain, other: &Plain, fits: fn(i8) -> bool) -> Option<bool> {
    if matches!(one, Plain::Null) || matches!(other, Plain::Null) {
        return None;
    }
    let order = |order: Option<std::cmp::Ordering>| Some(order.is_some_and(|order| fits(order as i8)));
    if let (Plain::Text(one), Plain::Text(other)) = (one, other) {
        return order(Some(one.cmp(other)));
    }
    let (one, other) = (as_number(one, other), as_number(other, one));
    order(one.zip(other).and_then(|(one, other)| one.partial_cmp(&other)))
}

fn as_number(value: &Plain, beside: &Plain) -> Option<f64> {
    match (value, beside) {
        (Plain::Truth(truth), _) => Some(f64::from(u8::from(*truth))),
        (Plain::Whole(whole), _) => Some(*whole as f64),
        (Plain::Real(real), _) => Some(*real),
        (Plain::Text(_), Plain::Truth(_)) => as_truth(value).map(|truth| f64::from(u8::from(truth))),
        (Plain::Text(text), _) => text.parse().ok(),
        (Plain::Null, _) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_evaluator_says_what_the_reference_says(tree in tree(), fields in prop::collection::vec(plain(), 4)) {
        let mut elements = Vec::new();
        flatten(&tree, &mut elements);
        prop_assume!(!elements.is_empty() && elements.len() <= 64);
        let eyes = eyes();
        let held: Vec<(&str, Variant)> = FIELDS.into_iter().zip(fields.iter().map(variant)).collect();
        let event = event(&eyes, 2041, &held);
        let expected = as_truth(&evaluate(&tree, &fields)) == Some(true);
        prop_assert_eq!(clause(&eyes, elements).passes(&event, &eyes, &mut plenty()).unwrap(), expected);
    }
}
