//! `trapkey nodeset`: what a model states of roles becomes scopes and policies, and a simulated server has its nodes.

use super::Scene;
use super::up::{Olga, Up, scene};

/// A press whose model lets everybody who observes read; its force has permissions and restrictions of its own, one method is
/// reached from two objects, and one object states that nobody may do anything.
const PRESS: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd" xmlns:uax="http://opcfoundation.org/UA/2008/02/Types.xsd">
  <NamespaceUris><Uri>urn:test:a%3Bpress</Uri></NamespaceUris>
  <Models><Model ModelUri="urn:test:a%3Bpress" Version="1.0" PublicationDate="2026-01-01T00:00:00Z">
    <RequiredModel ModelUri="http://opcfoundation.org/UA/"/>
    <RolePermissions><RolePermission Permissions="2081">i=15668</RolePermission></RolePermissions></Model></Models>
  <Aliases><Alias Alias="HasComponent">i=47</Alias><Alias Alias="Organizes">i=35</Alias></Aliases>
<UAObject NodeId="ns=1;s=Press" BrowseName="1:HydraulicPress"><DisplayName>Press</DisplayName>
  <References><Reference ReferenceType="Organizes" IsForward="false">i=85</Reference></References></UAObject>
<UAVariable NodeId="ns=1;s=Force" BrowseName="1:Force" ParentNodeId="ns=1;s=Press" DataType="i=11" AccessLevel="3" AccessRestrictions="3">
  <DisplayName>Force</DisplayName>
  <References><Reference ReferenceType="HasComponent" IsForward="false">ns=1;s=Press</Reference></References>
  <RolePermissions><RolePermission Permissions="33">i=15668</RolePermission><RolePermission Permissions="97">i=15680</RolePermission></RolePermissions>
  <Value><uax:Double>120</uax:Double></Value></UAVariable>
<UAVariable NodeId="ns=1;s=Odd;Name" BrowseName="1:Odd" ParentNodeId="ns=1;s=Press" DataType="i=11">
  <DisplayName>Odd</DisplayName>
  <References><Reference ReferenceType="HasComponent" IsForward="false">ns=1;s=Press</Reference></References>
  <RolePermissions><RolePermission Permissions="33">i=15668</RolePermission></RolePermissions>
  <Value><uax:Double>1</uax:Double></Value></UAVariable>
<UAObject NodeId="ns=1;s=Locked" BrowseName="1:Locked"><DisplayName>Locked</DisplayName>
  <References><Reference ReferenceType="HasComponent" IsForward="false">ns=1;s=Press</Reference>
    <Reference ReferenceType="HasComponent">ns=1;s=Stroke</Reference></References>
  <RolePermissions><RolePermission Permissions="0">i=15644</RolePermission></RolePermissions></UAObject>
<UAMethod NodeId="ns=1;s=Stroke" BrowseName="1:Stroke" ParentNodeId="ns=1;s=Press"><DisplayName>Stroke</DisplayName>
  <References><Reference ReferenceType="HasComponent" IsForward="false">ns=1;s=Press</Reference></References></UAMethod>
</UANodeSet>"#;

#[test]
fn permissions_of_a_model_become_scopes_and_policies() {
    let scene = Scene::empty();
    scene.write("press.xml", PRESS);
    insta::assert_snapshot!(scene.run(&["nodeset", "check", "press.xml"]));
    let made = ["nodeset", "scopes", "press.xml", "--server", "press", "--uri", "urn:press"];
    insta::assert_snapshot!(scene.run(&made));
    let into = [&made[..], &["--into", "made"]].concat();
    assert!(scene.run(&into).starts_with("exit 0"));
    assert!(scene.run(&["policy", "check", "--folder", "made"]).starts_with("exit 0"));
    let again = scene.run(&into);
    assert!(again.starts_with("exit 2") && again.contains("plant.toml"), "{again}");
}

#[test]
fn a_node_set_that_cannot_be_used_is_shown_in_its_line() {
    let scene = Scene::empty();
    scene.write(
        "press.xml",
        &PRESS.replace("ReferenceType=\"HasComponent\">ns=1;s=Stroke", "ReferenceType=\"HasComponent\">ns=1;s=Strike"),
    );
    insta::assert_snapshot!(scene.run(&["nodeset", "check", "press.xml"]));
    scene.write("press.xml", &PRESS.replace("Permissions=\"97\"", "Permissions=\"131072\""));
    let unknown = scene.run(&["nodeset", "scopes", "press.xml", "--server", "press", "--uri", "urn:press"]);
    assert!(unknown.starts_with("exit 2") && unknown.contains("131072") && unknown.contains("s=Force"), "{unknown}");
}

#[test]
fn a_simulated_server_has_the_nodes_of_its_node_sets() {
    let (scene, ports) = scene();
    scene.write("press.xml", PRESS);
    let config = scene.read("trapkey.toml").replacen(
        "simulate = \"mixer\"",
        "simulate = \"mixer\"\nnode_sets = [\"press.xml\"]",
        1,
    );
    scene.write("trapkey.toml", &config);
    let scope = "[[server.scope]]\nname = \"press\"\nsubtrees = [\"nsu=urn:test:a%253Bpress;s=Press\"]\n\
                 range = { low = 0.0, high = 400.0 }\n\n[[server.scope]]\nname = \"setpoints\"";
    let plant = scene.read("plant.toml");
    assert!(plant.contains("[[server.scope]]\nname = \"setpoints\""));
    scene.write("plant.toml", &plant.replacen("[[server.scope]]\nname = \"setpoints\"", scope, 1));
    let policies = scene.read("policies.cedar");
    let sets = "@id(\"press\") permit (principal, action == Action::\"write\", resource == Scope::\"mixer/press\");";
    scene.write("policies.cedar", &format!("{policies}\n{sets}\n"));
    let up = Up::start(&scene, 4);
    let force = "nsu=urn:test:a%253Bpress;s=Force";
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(force);
    assert!(olga.client("read", &[force]).contains("= 120"));
    assert!(olga.client("write", &[force, "390"]).starts_with("exit 0"));
    let outside = olga.client("write", &[force, "401"]);
    assert!(outside.starts_with("exit 1") && outside.contains("BadOutOfRange"), "{outside}");
    up.stop();

    scene.write("press.xml", &PRESS.replace("ns=1;s=Locked\" BrowseName", "ns=1;s=Force\" BrowseName"));
    let refused = scene.run(&["up"]);
    assert!(
        refused.starts_with("exit 2") && refused.contains("press.xml:") && refused.contains("s=Force"),
        "{refused}"
    );
}
