//! What browsing finds out over a channel that is weaker than the guard's own, and what it makes the guard hold.

use std::collections::BTreeMap;

use access_model::{AuditKind, Outcome, Reason, Restrictions, ScopeIndex};
use opcua_types::*;

use super::services::browse;
use super::world::*;
use crate::server::{ConnId, ServerLimits};
use crate::space::{NewNode, NewVariable, NodeRef, ns0};

const READ: ObjectId = ObjectId::ReadRequest_Encoding_DefaultBinary;

/// A guard that signs towards the plant, with more rules; its clients do not.
fn world(entries: &[(u32, &str)]) -> World {
    bounded(entries, ServerLimits::default())
}

fn bounded(entries: &[(u32, &str)], limits: ServerLimits) -> World {
    World::bounded_with(limits, |config| {
        config.upstream[0].session = std::sync::Arc::new(session_config(SIGN, "anonymous"));
        let entry = |(scope, prefix): &(u32, &str)| crate::guard::ScopeEntry {
            scope: ScopeIndex(*scope),
            namespace: PLANT.into(),
            rule: crate::guard::ScopeRule::Prefix((*prefix).into()),
        };
        config.rules.entries.extend(entries.iter().map(entry));
    })
}

/// A folder beside the unit.
fn folder(world: &mut World, name: &str) -> NodeRef {
    let objects = ns0::find_numeric(85).unwrap();
    world.plant.space_mut().add_folder(objects, Some(id(name)), name, ScopeIndex(1)).unwrap()
}

fn variable(world: &mut World, folder: NodeRef, name: &str) {
    let new = NewVariable::new(folder, Some(id(name)), name, Variant::from(1_i32), ScopeIndex(1));
    world.plant.space_mut().add_variable(new).unwrap();
}

/// A reference leads to a node by way of a reference type, and says of what type the node is: each of the three may ask
/// for a better channel.
#[test]
fn what_a_reference_names_is_held_to_restrictions_like_the_node_it_leads_to() {
    let mut world = world(&[(1, "Lot")]);
    let lot = folder(&mut world, "Lot");
    {
        let space = world.plant.space_mut();
        let of = |class, parent, name: &str, restricted: bool| {
            let scope = ScopeIndex(if restricted { 2 } else { 1 });
            let parent = ns0::find_numeric(parent).unwrap();
            let reference = ns0::find_numeric(45).unwrap();
            let object = NewNode::object(parent, Some(id(name)), "", scope);
            (NewNode { class, type_definition: None, reference, ..object }, name.to_owned())
        };
        let mut add = |(node, name): (NewNode<'_>, String)| space.add_node(NewNode { name: &name, ..node }).unwrap();
        let open_type = add(of(NodeClass::ObjectType, 58, "Lot.OpenType", false));
        let closed_type = add(of(NodeClass::ObjectType, 58, "Lot.ClosedType", true));
        let open_way = add(of(NodeClass::ReferenceType, 47, "Lot.OpenWay", false));
        let closed_way = add(of(NodeClass::ReferenceType, 47, "Lot.ClosedWay", true));
        for (name, way, type_) in [
            ("Lot.plain", open_way, open_type),
            ("Lot.typed", open_way, closed_type),
            ("Lot.wayward", closed_way, open_type),
        ] {
            let object = NewNode::object(lot, Some(id(name)), name, ScopeIndex(1));
            space.add_node(NewNode { reference: way, type_definition: Some(type_), ..object }).unwrap();
        }
    }
    for (restrictions, hides) in [
        (Restrictions::SIGNING | Restrictions::BROWSE, true),
        (Restrictions::SIGNING, false),
        (Restrictions::NONE, false),
    ] {
        world.plant.space_mut().set_restrictions(Restrictions::NONE, [(ScopeIndex(2), restrictions)]);
        world.pass(std::time::Duration::from_secs(61));
        let weak = world.client();
        let response: BrowseResponse = world.ask(weak, browse(&["Lot"], 0)).unwrap();
        let references = response.results.unwrap().remove(0).references.unwrap_or_default();
        let told = |reference: ReferenceDescription| {
            (reference.browse_name.name.as_ref().to_owned(), reference.type_definition.node_id)
        };
        let told: BTreeMap<String, NodeId> = references.into_iter().map(told).collect();
        let expected = |name: &str| match name {
            "Lot.plain" => Some(id("Lot.OpenType")),
            "Lot.typed" => Some(if hides { NodeId::null() } else { id("Lot.ClosedType") }),
            _ => (!hides).then(|| id("Lot.OpenType")),
        };
        for name in ["Lot.plain", "Lot.typed", "Lot.wayward"] {
            assert_eq!(told.get(name), expected(name).as_ref(), "{name} with {restrictions:?}");
        }
        // By its supertype it is not found either, and who asks for it by its name hears that there is none.
        let path = |kind: NodeId| BrowsePath {
            starting_node: id("Lot"),
            relative_path: RelativePath {
                elements: Some(vec![RelativePathElement {
                    reference_type_id: kind,
                    is_inverse: false,
                    include_subtypes: true,
                    target_name: QualifiedName::new(1, "Lot.wayward"),
                }]),
            },
        };
        let request = TranslateBrowsePathsToNodeIdsRequest {
            browse_paths: Some(vec![path(NodeId::new(0, 47_u32)), path(id("Lot.ClosedWay"))]),
            ..Default::default()
        };
        let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(weak, request).unwrap();
        let status: Vec<_> = response.results.unwrap().iter().map(|result| result.status_code).collect();
        let expected = if hides { StatusCode::BadNoMatch } else { StatusCode::Good };
        assert_eq!(status, [expected; 2], "paths with {restrictions:?}");
        let mut by_kind = browse(&["Lot"], 0);
        by_kind.nodes_to_browse.as_mut().unwrap()[0].reference_type_id = id("Lot.ClosedWay");
        let response: BrowseResponse = world.ask(weak, by_kind).unwrap();
        let expected = if hides { StatusCode::BadReferenceTypeIdInvalid } else { StatusCode::Good };
        assert_eq!(response.results.unwrap()[0].status_code, expected, "browsed with {restrictions:?}");
    }
}

/// Hidden references make the guard ask for more than one page; there are more nodes than it remembers.
#[test]
fn each_node_that_browsing_finds_is_asked_about_once() {
    let mut world = world(&[(1, "Lot"), (3, "Lost")]);
    let folders: Vec<String> = (0..6).map(|number| format!("Lot{number}")).collect();
    for name in &folders {
        let of = folder(&mut world, name);
        (0..100).for_each(|number| variable(&mut world, of, &format!("Lost.{name}.{number}")));
        (0..300).for_each(|number| variable(&mut world, of, &format!("{name}.{number}")));
    }
    let weak = world.client();
    world.reached.clear();
    let names: Vec<&str> = folders.iter().map(String::as_str).collect();
    let response: BrowseResponse = world.ask(weak, browse(&names, 350)).unwrap();
    let told = |result: BrowseResult| result.references.unwrap_or_default().len();
    assert_eq!(response.results.unwrap().into_iter().map(told).collect::<Vec<_>>(), [300; 6]);
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for body in world.at_plant(READ) {
        for item in field::<ReadValueId>(&body[12..]) {
            *asked.entry(item.node_id.to_string()).or_default() += 1;
        }
    }
    let found = asked.keys().filter(|name| name.contains("s=Lot") && name.contains('.')).count();
    assert_eq!(found, 1_800);
    assert!(asked.keys().all(|name| !name.contains("Lost")), "of hidden nodes it is not asked");
    assert!(asked.values().all(|times| *times == 1), "{:?}", asked.iter().find(|(_, times)| **times > 1));
}

fn closed(world: &World) -> usize {
    let turned_away = |outcome: &Outcome| *outcome == Outcome::Denied(Reason::TooBusy);
    let closed = world.records.iter().filter(|record| record.kind == AuditKind::ChannelClosed);
    closed.filter(|record| turned_away(&record.outcome)).count()
}

/// What is held when the guard next looks.
fn held(world: &mut World) -> usize {
    let (link, event) = (crate::guard::LinkId(u64::MAX), crate::guard::Upstream::Connected);
    world.guard.handle_input(crate::guard::Input::Up { link, event }, world.now);
    world.guard.front().held()
}

/// What was found waits until the server has said what it asks of channels for it.
#[test]
fn what_browsing_gathers_counts_for_whoever_browses() {
    let limits = ServerLimits { max_held: 2 << 20, ..ServerLimits::default() };
    let mut world = bounded(&[(1, "Lot")], limits);
    let lot = folder(&mut world, "Lot");
    (0..1_000).for_each(|number| variable(&mut world, lot, &format!("Lot.{number}")));
    let (weak, other) = (world.client(), world.client());
    // The server says what it asks of channels for the folder, and what there is in it; then nothing more.
    let gather = |world: &mut World, conn: ConnId, times: usize| {
        world.hold = true;
        for _ in 0..times {
            world.send(conn, browse(&["Lot"], 0));
        }
        for _ in 0..2 {
            for (link, bytes) in std::mem::take(&mut world.held) {
                let event = crate::guard::Upstream::Bytes(&bytes);
                world.guard.handle_input(crate::guard::Input::Up { link, event }, world.now);
                assert!(held(world) < 3 << 20, "{}", held(world));
            }
            world.run();
        }
    };
    let before = held(&mut world);
    gather(&mut world, other, 1);
    let more = held(&mut world) - before;
    assert!(more > 1_000 * 100, "{more}");
    assert_eq!(closed(&world), 0);
    gather(&mut world, weak, 20);
    assert!(held(&mut world) < 2 << 20);
    assert_eq!(closed(&world), 1, "whoever asks for more and more");
    world.release();
    let response: ReadResponse = world.ask(other, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good);
    assert!(held(&mut world) < 512 << 10, "{}", held(&mut world));
}
