//! From a plan to nodes of the space.

use opcua_types::{NodeClass, Variant};

use super::super::added::{NO_PARENT, Shape, Texts};
use super::super::grow::Common;
use super::super::{AccessLevel, NodeRef, Space, ns0};
use super::order::{Edge, End, Place, order};
use super::read::{NodeSet, Planned};
use super::{ImportOptions, Imported, NodeSetError, NodeSetFault, UnfitValue};

pub(super) fn apply(space: &mut Space, mut set: NodeSet, options: &ImportOptions) -> Result<Imported, NodeSetError> {
    let ordered = order(space, &set)?;
    let mut added: Vec<Option<NodeRef>> = vec![None; set.nodes.len()];
    let mut imported = Imported {
        models: std::mem::take(&mut set.models),
        default_permissions: std::mem::take(&mut set.default_permissions),
        ..Imported::default()
    };
    for (at, place) in ordered.order {
        let Some(node) = set.nodes.get_mut(at) else { continue };
        let reference = add(space, node, place, &added, options)?;
        if let Some(slot) = added.get_mut(at) {
            *slot = Some(reference);
        }
        imported.nodes.push(reference);
        imported.permissions.extend(node.permissions.take().map(|stated| (reference, stated)));
        imported.restrictions.extend(node.restrictions.map(|bits| (reference, bits)));
        if node.value_left_out {
            imported.without_value.push(reference);
        }
    }
    for edge in &ordered.edges {
        connect(space, edge, &added)?;
    }
    Ok(imported)
}

/// The space's node behind an end, once it is there.
fn node_of(end: End, added: &[Option<NodeRef>]) -> Option<NodeRef> {
    match end {
        End::Known(node) => Some(node),
        End::New(at) => added.get(at).copied().flatten(),
    }
}

fn add(
    space: &mut Space,
    node: &mut Planned,
    place: Place,
    added: &[Option<NodeRef>],
    options: &ImportOptions,
) -> Result<NodeRef, NodeSetError> {
    let id = node.id.to_string();
    let line = node.line;
    let end = |end: End| node_of(end, added).ok_or_else(|| NodeSetFault::Cycle(id.clone()).at(line));
    let parent = place.parent.map(end).transpose()?.unwrap_or(NO_PARENT);
    let reference = end(place.reference)?;
    let type_definition = place.type_definition.map(end).transpose()?;
    let data_type = place.data_type.map(end).transpose()?;
    if let (Some(value), Some(data_type)) = (&node.value, data_type)
        && *value != Variant::Empty
        && !space.value_fits(value, data_type, node.rank)
    {
        if options.unfit_values == UnfitValue::Refuse {
            return Err(NodeSetFault::Value(id).at(line));
        }
        (node.value, node.value_left_out) = (None, true);
    }
    let (name_namespace, name) = (node.name.0, std::mem::take(&mut node.name.1));
    let shape = Shape {
        class: node.class as u8,
        flags: flags(node),
        access: AccessLevel(node.access),
        name_namespace,
        reference,
        type_definition,
        data_type,
        rank: node.rank,
        dimensions: std::mem::take(&mut node.dimensions).into(),
    };
    let common = Common {
        id: Some(node.id.clone()),
        parent,
        name: &name,
        name_namespace: Some(name_namespace),
        scope: options.scope,
    };
    let reference = space.push(common, shape).map_err(|error| NodeSetFault::Space(id, error).at(line))?;
    if let Some(at) = Space::added_at(reference) {
        if let Some(value) = node.value.take() {
            space.added.set_value(at, value);
        }
        // A display name like the browse name's needs no place of its own.
        let display = node.display.take().filter(|text| !(text.text.as_ref() == name && text.locale.is_empty()));
        let texts = Texts { display, description: node.description.take(), inverse: node.inverse.take() };
        if texts != Texts::default() {
            space.added.texts.insert(at, texts);
        }
    }
    Ok(reference)
}

fn flags(node: &Planned) -> u8 {
    let executable = node.class == NodeClass::Method && node.executable;
    let all = [
        (node.is_abstract, ns0::ABSTRACT),
        (node.symmetric, ns0::SYMMETRIC),
        (executable, ns0::EXECUTABLE),
        (node.historizing, ns0::HISTORIZING),
    ];
    all.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag)
}

fn connect(space: &mut Space, edge: &Edge, added: &[Option<NodeRef>]) -> Result<(), NodeSetError> {
    let ends = [edge.0, edge.1, edge.2].map(|end| node_of(end, added));
    let [Some(source), Some(type_), Some(target)] = ends else { return Ok(()) };
    let id = space.id(source).to_string();
    space.add_reference(source, type_, target).map_err(|error| NodeSetFault::Space(id, error).at(1))
}
