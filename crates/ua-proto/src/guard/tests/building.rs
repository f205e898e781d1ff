//! Node management takes each right that OPC 10000-3 §8.55 names, and no other will do for it.

use std::time::Duration;

use access_model::Rights;
use opcua_types::*;

use super::changes::*;
use super::world::*;

#[test]
fn each_service_of_node_management_takes_its_own_rights_and_no_others() {
    let add = new_node("Unit", ExpandedNodeId::null());
    let node = DeleteNodesItem { node_id: id("Setpoint"), delete_target_references: true };
    let rows: [(&str, Ids, Vec<u8>, usize, Rights); 4] = [
        (
            "AddNodes: AddNode, and AddReference on the parent",
            ADD_NODES,
            body_of(&AddNodesRequest { nodes_to_add: Some(vec![add]), ..Default::default() }),
            6,
            Rights::ADD_NODE | Rights::ADD_REFERENCE,
        ),
        (
            "AddReferences: AddReference",
            ADD_REFERENCES,
            body_of(&AddReferencesRequest {
                references_to_add: Some(vec![new_reference("Unit", "Pressure")]),
                ..Default::default()
            }),
            4,
            Rights::ADD_REFERENCE,
        ),
        (
            "DeleteReferences: RemoveReference",
            DELETE_REFERENCES,
            body_of(&DeleteReferencesRequest {
                references_to_delete: Some(vec![old_reference("Unit", "Pressure")]),
                ..Default::default()
            }),
            4,
            Rights::REMOVE_REFERENCE,
        ),
        (
            "DeleteNodes: DeleteNode",
            DELETE_NODES,
            body_of(&DeleteNodesRequest { nodes_to_delete: Some(vec![node]), ..Default::default() }),
            4,
            Rights::DELETE_NODE,
        ),
    ];
    for (rule, ids, body, length, needed) in rows {
        let singles = (0..17).filter_map(|bit| Rights::from_bits(1 << bit)).filter(|one| needed.contains(*one));
        let without = singles.map(|one| (Rights::from_bits(Rights::ALL.bits() & !one.bits()).unwrap(), false));
        let cases: Vec<(Rights, bool)> = without.chain([(needed | Rights::BROWSE, true)]).collect();
        for (held, allowed) in cases {
            let mut world = World::new();
            world.script = Some(obliging());
            let client = world.client_by_token(vec![(held, 1), (Rights::BROWSE, 2)], Duration::from_secs(600));
            world.reached.clear();
            let response = world.raw(client, ids, body.clone()).unwrap();
            let expected = if allowed { StatusCode::Good } else { StatusCode::BadUserAccessDenied };
            assert_eq!(statuses(&response, length), [expected], "{rule} with {held}");
            assert_eq!(world.at_plant(ids.0).len(), usize::from(allowed), "{rule} with {held}");
        }
    }
}
