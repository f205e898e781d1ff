//! A space against a naive model: hash maps of ids, under random adds, writes and browses.

use std::collections::{BTreeSet, HashMap};

use access_model::ScopeIndex;
use opcua_types::{BrowseDirection, ByteString, Guid, NodeId, NumericRange, StatusCode, Variant};
use proptest::prelude::*;

use super::{NOW, bare, space};
use crate::space::{AccessLevel, NewVariable, NodeRef, Space, SpaceError, ns0};

#[derive(Clone, Debug)]
enum Step {
    Folder { id: NodeId, under: usize },
    Variable { id: NodeId, under: usize, value: i32, writable: bool },
    Write { node: usize, value: Variant },
    Link { from: usize, to: usize },
    Move { node: usize, scope: u32 },
}

#[derive(Debug, Default)]
struct Model {
    order: Vec<NodeId>,
    nodes: HashMap<NodeId, Expected>,
    children: HashMap<NodeId, BTreeSet<String>>,
}

#[derive(Debug)]
struct Expected {
    node: NodeRef,
    parent: NodeId,
    /// Value and whether it can be written, of variables.
    value: Option<(i32, bool)>,
    scope: u32,
}

impl Model {
    fn pick(&self, nth: usize) -> Option<NodeId> {
        (!self.order.is_empty()).then(|| self.order[nth % self.order.len()].clone())
    }

    fn add(&mut self, id: NodeId, parent: NodeId, node: NodeRef, value: Option<(i32, bool)>) {
        self.children.entry(parent.clone()).or_default().insert(id.to_string());
        self.nodes.insert(id.clone(), Expected { node, parent, value, scope: 1 });
        self.order.push(id);
    }
}

fn ids() -> impl Strategy<Value = NodeId> {
    prop_oneof![
        (1_u16..3, 0_u32..40).prop_map(|(namespace, number)| NodeId::new(namespace, number)),
        (1_u16..3, "[a-c]{0,3}").prop_map(|(namespace, text)| NodeId::new(namespace, text)),
        (1_u16..3, prop::collection::vec(0_u8..3, 0..3))
            .prop_map(|(namespace, bytes)| NodeId::new(namespace, ByteString::from(bytes))),
        (1_u16..3, 0_u8..8).prop_map(|(namespace, byte)| NodeId::new(namespace, Guid::from_bytes([byte; 16]))),
        (0_u16..1).prop_map(|namespace| NodeId::new(namespace, 5)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = prop_oneof![any::<i32>().prop_map(Variant::Int32), any::<u32>().prop_map(Variant::UInt32)];
    let step =
        prop_oneof![
            (ids(), any::<usize>()).prop_map(|(id, under)| Step::Folder { id, under }),
            (ids(), any::<usize>(), any::<i32>(), any::<bool>())
                .prop_map(|(id, under, value, writable)| Step::Variable { id, under, value, writable }),
            (any::<usize>(), value).prop_map(|(node, value)| Step::Write { node, value }),
            (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Step::Link { from, to }),
            (any::<usize>(), 1_u32..9).prop_map(|(node, scope)| Step::Move { node, scope }),
        ];
    prop::collection::vec(step, 1..120)
}

/// The parent a step names: a node of the model, or Objects.
fn parent(space: &Space, model: &Model, nth: usize) -> (NodeId, NodeRef) {
    match model.pick(nth).filter(|_| !nth.is_multiple_of(3)) {
        Some(id) => (id.clone(), model.nodes[&id].node),
        None => (space.id(ns0::OBJECTS), ns0::OBJECTS),
    }
}

fn expect_added(
    model: &mut Model,
    id: NodeId,
    parent: NodeId,
    added: Result<NodeRef, SpaceError>,
    value: Option<(i32, bool)>,
) {
    let expected = if id.namespace == 0 {
        Some(SpaceError::Namespace(0))
    } else {
        model.nodes.contains_key(&id).then(|| SpaceError::Taken(id.clone()))
    };
    match expected {
        Some(error) => assert_eq!(added, Err(error)),
        None => model.add(id, parent, added.unwrap(), value),
    }
}

fn apply(space: &mut Space, model: &mut Model, step: Step) {
    match step {
        Step::Folder { id, under } => {
            let (under_id, under) = parent(space, model, under);
            let added = space.add_folder(under, Some(id.clone()), &id.to_string(), ScopeIndex(1));
            expect_added(model, id, under_id, added, None);
        }
        Step::Variable { id, under, value, writable } => {
            let (under_id, under) = parent(space, model, under);
            let name = id.to_string();
            let new = NewVariable::new(under, Some(id.clone()), &name, Variant::Int32(value), ScopeIndex(1));
            let added = space.add_variable(if writable { new.access(AccessLevel::READ_WRITE) } else { new });
            expect_added(model, id, under_id, added, Some((value, writable)));
        }
        Step::Write { node, value } => {
            let Some(id) = model.pick(node) else { return };
            let expected = model.nodes.get_mut(&id).unwrap();
            let status = match (&mut expected.value, &value) {
                (None, _) => StatusCode::BadAttributeIdInvalid,
                (Some((_, false)), _) => StatusCode::BadNotWritable,
                (Some((old, true)), Variant::Int32(new)) => {
                    *old = *new;
                    StatusCode::Good
                }
                (Some(_), _) => StatusCode::BadTypeMismatch,
            };
            assert_eq!(space.write_value(expected.node, &NumericRange::None, bare(value), NOW), status);
        }
        Step::Link { from, to } => {
            let (Some(from), Some(to)) = (model.pick(from), model.pick(to)) else { return };
            space.add_reference(model.nodes[&from].node, ns0::ORGANIZES, model.nodes[&to].node).unwrap();
            model.children.entry(from).or_default().insert(to.to_string());
        }
        Step::Move { node, scope } => {
            let Some(id) = model.pick(node) else { return };
            let expected = model.nodes.get_mut(&id).unwrap();
            expected.scope = scope;
            space.set_scope(expected.node, ScopeIndex(scope));
        }
    }
}

fn compare(space: &Space, model: &Model, ours: &BTreeSet<NodeRef>) {
    for id in &model.order {
        let expected = &model.nodes[id];
        assert_eq!(space.find(id), Some(expected.node), "{id}");
        assert_eq!(&space.id(expected.node), id);
        assert_eq!(space.browse_name(expected.node).name.to_string(), id.to_string());
        assert_eq!(space.scope(expected.node), ScopeIndex(expected.scope));
        assert_eq!(space.parent(expected.node).map(|parent| space.id(parent)).as_ref(), Some(&expected.parent));
        if let Some((value, _)) = expected.value {
            assert_eq!(space.value(expected.node, NOW).value, Some(Variant::Int32(value)));
        }
    }
    for parent in model.order.iter().cloned().chain([space.id(ns0::OBJECTS)]) {
        let node = space.find(&parent).unwrap();
        let hierarchy = Some(ns0::HIERARCHICAL_REFERENCES);
        let children: BTreeSet<String> = space
            .references(node, BrowseDirection::Forward, hierarchy, true)
            .filter(|found| ours.contains(&found.target))
            .map(|found| space.id(found.target).to_string())
            .collect();
        assert_eq!(children, model.children.get(&parent).cloned().unwrap_or_default(), "children of {parent}");
        for child in space.references(node, BrowseDirection::Forward, hierarchy, true) {
            let mut back = space.references(child.target, BrowseDirection::Inverse, Some(child.type_), false);
            assert!(back.any(|back| back.target == node));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_space_is_what_was_done_to_it(steps in steps()) {
        let (mut space, mut model) = (space(), Model::default());
        for step in steps {
            apply(&mut space, &mut model, step);
        }
        let ours = model.order.iter().map(|id| model.nodes[id].node).collect();
        compare(&space, &model, &ours);
    }

    #[test]
    fn a_range_that_was_written_is_read_back(
        old in prop::collection::vec(any::<i32>(), 2..20),
        from in 0_u32..20,
        len in 1_usize..20,
    ) {
        use crate::space::{read_range, write_range};
        use opcua_types::{Array, VariantScalarTypeId};
        let ints = |values: &[i32]| Variant::Array(Box::new(Array {
            value_type: VariantScalarTypeId::Int32,
            values: values.iter().copied().map(Variant::Int32).collect(),
            dimensions: None,
        }));
        let range = if len == 1 { NumericRange::Index(from) } else { NumericRange::Range(from, from + len as u32 - 1) };
        let part = ints(&vec![7; len]);
        match write_range(&ints(&old), &range, &part) {
            Ok(whole) => {
                prop_assert!(from as usize + len <= old.len());
                prop_assert_eq!(read_range(&whole, &range), Ok(part));
            }
            Err(status) => {
                prop_assert!(from as usize + len > old.len());
                prop_assert_eq!(status, StatusCode::BadIndexRangeNoData);
            }
        }
    }
}
