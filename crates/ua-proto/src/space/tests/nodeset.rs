//! NodeSet2 import: what is read, what is refused and where, and the sets of the companion specifications.

use std::collections::BTreeMap;
use std::path::PathBuf;

use access_model::{ScopeIndex, UnixTime};
use opcua_types::{
    Argument, AttributeId, BrowseDirection, NodeClass, NodeId, QualifiedName, Range, Variant, VariantScalarTypeId,
};

use crate::space::{
    AccessLevel, ImportOptions, NodeRef, NodeSetFault, NodeSetLimits, Space, SpaceConfig, UnfitValue, ns0,
};

const URI: &str = "urn:test:model";

fn space() -> Space {
    Space::new(SpaceConfig { application_uri: "urn:test:server".into(), namespaces: vec!["urn:test:other".into()] })
        .unwrap()
}

/// A file whose namespace 1 is the model's; it becomes namespace 3 of the space.
fn file(nodes: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd" xmlns:uax="http://opcfoundation.org/UA/2008/02/Types.xsd">
  <NamespaceUris><Uri>{URI}</Uri><Uri>urn:test:other</Uri></NamespaceUris>
  <Models><Model ModelUri="{URI}" Version="1.0" PublicationDate="2026-01-01T00:00:00Z">
    <RequiredModel ModelUri="http://opcfoundation.org/UA/"/></Model></Models>
  <Aliases><Alias Alias="Double">i=11</Alias><Alias Alias="HasComponent">i=47</Alias><Alias Alias="Organizes">i=35</Alias>
    <Alias Alias="HasSubtype">i=45</Alias><Alias Alias="HasTypeDefinition">i=40</Alias><Alias Alias="HasProperty">i=46</Alias></Aliases>
{nodes}
</UANodeSet>"#
    )
}

fn options() -> ImportOptions {
    ImportOptions { scope: ScopeIndex(7), ..ImportOptions::default() }
}

const UNDER_OBJECTS: &str =
    r#"<References><Reference ReferenceType="Organizes" IsForward="false">i=85</Reference></References>"#;

fn id(text: &str) -> NodeId {
    NodeId::new(3, text)
}

/// An object below Objects with a variable, a method and a type of its own, each before what it needs.
fn boiler() -> String {
    file(&format!(
        r#"<UAVariable NodeId="ns=1;s=Level" BrowseName="1:Level" ParentNodeId="ns=1;s=Boiler" DataType="Double" AccessLevel="3" AccessRestrictions="3">
  <DisplayName Locale="de">Füllstand</DisplayName><Description>How full it is</Description>
  <References><Reference ReferenceType="HasComponent" IsForward="false">ns=1;s=Boiler</Reference>
    <Reference ReferenceType="ns=1;i=7">ns=1;s=Boiler</Reference></References>
  <RolePermissions><RolePermission Permissions="33">i=15680</RolePermission></RolePermissions>
  <Value><uax:Double>12.5</uax:Double></Value>
</UAVariable>
<UAMethod NodeId="ns=1;s=Fill" BrowseName="1:Fill"><DisplayName>Fill</DisplayName></UAMethod>
<UAVariable NodeId="ns=1;s=FillIn" BrowseName="InputArguments" DataType="i=296" ValueRank="1" ArrayDimensions="1">
  <DisplayName>InputArguments</DisplayName>
  <References><Reference ReferenceType="HasProperty" IsForward="false">ns=1;s=Fill</Reference>
    <Reference ReferenceType="HasTypeDefinition">i=68</Reference></References>
  <Value><uax:ListOfExtensionObject><uax:ExtensionObject><uax:TypeId><uax:Identifier>i=297</uax:Identifier></uax:TypeId>
    <uax:Body><uax:Argument><uax:Name>speed</uax:Name><uax:DataType><uax:Identifier>i=11</uax:Identifier></uax:DataType>
    <uax:ValueRank>-1</uax:ValueRank></uax:Argument></uax:Body></uax:ExtensionObject></uax:ListOfExtensionObject></Value>
</UAVariable>
<UAObject NodeId="ns=1;s=Boiler" BrowseName="1:Boiler" EventNotifier="1"><DisplayName>Boiler</DisplayName>
  <References><Reference ReferenceType="HasTypeDefinition">ns=1;i=100</Reference>
    <Reference ReferenceType="HasComponent">ns=1;s=Fill</Reference>
    <Reference ReferenceType="HasComponent">ns=1;s=Level</Reference>
    <Reference ReferenceType="Organizes" IsForward="false">i=85</Reference></References>
</UAObject>
<UAObjectType NodeId="ns=1;i=100" BrowseName="1:BoilerType" IsAbstract="true"><DisplayName>BoilerType</DisplayName>
  <References><Reference ReferenceType="HasSubtype" IsForward="false">i=58</Reference></References></UAObjectType>
<UAReferenceType NodeId="ns=1;i=7" BrowseName="1:Measures" Symmetric="true"><DisplayName>Measures</DisplayName>
  <References><Reference ReferenceType="HasSubtype" IsForward="false">i=32</Reference></References>
  <InverseName>MeasuredBy</InverseName></UAReferenceType>
<UAObject NodeId="ns=1;s=Second" BrowseName="2:Second"><DisplayName>Second</DisplayName>{UNDER_OBJECTS}</UAObject>"#
    ))
}

#[test]
fn a_file_becomes_nodes_whatever_its_order() {
    let mut space = space();
    let imported = space.import(&boiler(), &options()).unwrap();
    assert_eq!(imported.nodes.len(), 7);
    assert_eq!(imported.models, [(URI.to_owned(), "1.0".to_owned(), "2026-01-01T00:00:00Z".to_owned())]);
    assert_eq!(space.namespaces(), ["http://opcfoundation.org/UA/", "urn:test:server", "urn:test:other", URI]);
    let find = |text: &str| space.find(&id(text)).unwrap_or_else(|| panic!("{text}"));
    let (boiler, level, fill) = (find("Boiler"), find("Level"), find("Fill"));
    let type_ = space.find(&NodeId::new(3, 100_u32)).unwrap();
    assert_eq!(space.type_definition(boiler), Some(type_));
    assert_eq!(space.supertype(type_), Some(ns0::BASE_OBJECT_TYPE));
    assert_eq!(space.attribute(type_, AttributeId::IsAbstract), Ok(Variant::Boolean(true)));
    assert_eq!(space.attribute(boiler, AttributeId::EventNotifier), Ok(Variant::Byte(1)));
    assert_eq!(space.parent(boiler), Some(ns0::OBJECTS));
    assert_eq!((space.parent(level), space.parent(fill)), (Some(boiler), Some(boiler)));
    assert!(imported.nodes.iter().all(|node| space.scope(*node) == ScopeIndex(7)));

    assert_eq!(space.value(level, UnixTime::default()).value, Some(Variant::Double(12.5)));
    assert_eq!(space.access_level(level), AccessLevel(3));
    assert_eq!(space.display_name(level).text.as_ref(), "Füllstand");
    let Ok(Variant::LocalizedText(about)) = space.attribute(level, AttributeId::Description) else { panic!() };
    assert_eq!(about.text.as_ref(), "How full it is");
    assert_eq!(imported.permissions, [(level, vec![(NodeId::new(0, 15_680_u32), 33)])]);
    assert_eq!(imported.restrictions, [(level, 3)]);
    assert_eq!(space.browse_name(find("Second")), QualifiedName::new(2, "Second"));

    let (inputs, outputs) = space.method_arguments(fill);
    let expected =
        Argument { name: "speed".into(), data_type: NodeId::new(0, 11_u32), value_rank: -1, ..Default::default() };
    assert_eq!((inputs, outputs.len()), (vec![expected], 0));
    assert!(space.executable(fill) && space.method_on(boiler, fill));

    let measures = space.find(&NodeId::new(3, 7_u32)).unwrap();
    assert_eq!(space.class(measures), NodeClass::ReferenceType);
    let Ok(Variant::LocalizedText(inverse)) = space.attribute(measures, AttributeId::InverseName) else { panic!() };
    assert_eq!(inverse.text.as_ref(), "MeasuredBy");
    let seen = |node, direction| -> Vec<NodeRef> {
        space.references(node, direction, Some(measures), false).map(|reference| reference.target).collect()
    };
    assert_eq!(seen(level, BrowseDirection::Forward), [boiler]);
    assert_eq!(seen(boiler, BrowseDirection::Inverse), [level]);
    // A reference that is stated at both ends is one reference.
    let components = space.references(boiler, BrowseDirection::Forward, Some(ns0::HAS_COMPONENT), false).count();
    assert_eq!(components, 2);
}

fn value(data_type: &str, rank: i32, xml: &str) -> Result<Variant, NodeSetFault> {
    let node = format!(
        r#"<UAVariable NodeId="ns=1;s=V" BrowseName="1:V" DataType="{data_type}" ValueRank="{rank}">{UNDER_OBJECTS}<Value>{xml}</Value></UAVariable>"#
    );
    let mut space = space();
    space.import(&file(&node), &options()).map_err(|error| error.fault)?;
    let node = space.find(&id("V")).unwrap();
    Ok(space.value(node, UnixTime::default()).value.unwrap_or_default())
}

#[test]
fn values_of_the_built_in_types_are_read() {
    let rows = [
        ("i=1", "<Boolean>true</Boolean>", Variant::Boolean(true)),
        ("i=2", "<SByte>-3</SByte>", Variant::SByte(-3)),
        ("i=9", "<UInt64>18446744073709551615</UInt64>", Variant::UInt64(u64::MAX)),
        ("i=11", "<Double>-INF</Double>", Variant::Double(f64::NEG_INFINITY)),
        ("i=12", "<String> a &amp; b </String>", Variant::from(" a & b ")),
        ("i=15", "<ByteString>AQ\n ID</ByteString>", Variant::ByteString(vec![1_u8, 2, 3].into())),
        ("i=17", "<NodeId><Identifier>ns=1;i=5</Identifier></NodeId>", Variant::from(NodeId::new(3, 5_u32))),
        (
            "i=20",
            "<QualifiedName><NamespaceIndex>2</NamespaceIndex><Name>N</Name></QualifiedName>",
            Variant::from(QualifiedName::new(2, "N")),
        ),
        ("i=19", "<StatusCode><Code>2147483648</Code></StatusCode>", Variant::StatusCode(0x8000_0000.into())),
        ("i=24", "<Variant><Value><Int32>4</Int32></Value></Variant>", Variant::Variant(Box::new(Variant::Int32(4)))),
    ];
    for (data_type, xml, expected) in rows {
        assert_eq!(value(data_type, -1, xml), Ok(expected), "{xml}");
    }
    let list = value("i=6", 1, "<ListOfInt32><Int32>1</Int32><Int32>2</Int32></ListOfInt32>").unwrap();
    assert_eq!(list, Variant::from(vec![1_i32, 2]));
    let matrix = "<Matrix><Dimensions><UInt32>2</UInt32><UInt32>1</UInt32></Dimensions>\
                  <Elements><Float>1</Float><Float>2</Float></Elements></Matrix>";
    let Ok(Variant::Array(matrix)) = value("i=10", 2, matrix) else { panic!() };
    assert_eq!((matrix.value_type, matrix.dimensions), (VariantScalarTypeId::Float, Some(vec![2, 1])));
    let range = "<ExtensionObject><TypeId><Identifier>i=885</Identifier></TypeId><Body><Range><Low>1</Low>\
                 <High>9</High></Range></Body></ExtensionObject>";
    let Ok(Variant::ExtensionObject(range)) = value("i=884", -1, range) else { panic!() };
    assert_eq!(range.inner_as::<Range>(), Some(&Range { low: 1.0, high: 9.0 }));
}

#[test]
fn a_structure_that_nobody_knows_is_refused_by_name_or_left_out() {
    let xml =
        "<ExtensionObject><TypeId><Identifier>ns=1;i=5007</Identifier></TypeId><Body><X/></Body></ExtensionObject>";
    assert_eq!(value("i=22", -1, xml), Err(NodeSetFault::Structure("ns=3;i=5007".into())));
    let node = format!(
        r#"<UAVariable NodeId="ns=1;s=V" BrowseName="1:V" DataType="i=22">{UNDER_OBJECTS}<Value>{xml}</Value></UAVariable>"#
    );
    let mut space = space();
    let options = ImportOptions { unfit_values: UnfitValue::LeaveEmpty, ..options() };
    let imported = space.import(&file(&node), &options).unwrap();
    assert_eq!(imported.without_value, imported.nodes);
}

#[test]
fn a_node_that_nothing_leads_to_is_there_and_cannot_be_browsed_to() {
    let mut space = space();
    let below = r#"<References><Reference ReferenceType="HasComponent" IsForward="false">ns=1;s=Island</Reference></References>"#;
    let nodes = format!(
        r#"<UAObject NodeId="ns=1;s=Hut" BrowseName="1:Hut">{below}</UAObject><UAObject NodeId="ns=1;s=Island" BrowseName="1:Island"/>"#
    );
    space.import(&file(&nodes), &options()).unwrap();
    let (island, hut) = (space.find(&id("Island")).unwrap(), space.find(&id("Hut")).unwrap());
    assert_eq!((space.parent(island), space.parent(hut)), (None, Some(island)));
    let all = |direction| space.references(island, direction, None, true).map(|found| found.target).collect::<Vec<_>>();
    assert_eq!(
        (all(BrowseDirection::Inverse), all(BrowseDirection::Forward)),
        (vec![], vec![ns0::BASE_OBJECT_TYPE, hut])
    );
}

fn variable(attributes: &str, rest: &str) -> String {
    format!(r#"<UAVariable NodeId="ns=1;s=V" BrowseName="1:V" {attributes}>{rest}</UAVariable>"#)
}

/// Each row is a file with one thing wrong, and what is said about it.
#[test]
fn what_is_wrong_is_named_with_its_line_and_nothing_is_added() {
    let object = |id: &str, references: &str| {
        format!(r#"<UAObject NodeId="{id}" BrowseName="1:O"><References>{references}</References></UAObject>"#)
    };
    let up = r#"<Reference ReferenceType="Organizes" IsForward="false">i=85</Reference>"#;
    let good = object("ns=1;s=Good", up);
    let cycle = [("A", "B"), ("B", "A")].map(|(one, other)| {
        let reference =
            format!(r#"<Reference ReferenceType="HasComponent" IsForward="false">ns=1;s={other}</Reference>"#);
        object(&format!("ns=1;s={one}"), &reference)
    });
    let rows = [
        ("no id", r#"<UAObject BrowseName="1:O"/>"#.to_owned(), "the attribute `NodeId` is missing"),
        ("no name", r#"<UAObject NodeId="ns=1;s=O"/>"#.to_owned(), "the attribute `BrowseName` is missing"),
        ("a bad id", object("ns=x", up), "`ns=x` is neither a node id nor an alias of this file"),
        ("a foreign index", object("ns=9;i=1", up), "the namespace index 9 is not in NamespaceUris"),
        ("the standard's", object("i=85", up), "the file adds `i=85` to the namespace of the standard"),
        ("twice", [good.as_str(), &good].concat(), "the node `ns=3;s=Good` is there already"),
        ("a circle", cycle.concat(), "`ns=3;s=A` depends on itself through its parents or types"),
        (
            "an unknown target",
            object("ns=1;s=O", r#"<Reference ReferenceType="Organizes" IsForward="false">ns=2;i=1</Reference>"#),
            "`ns=3;s=O` refers to `ns=2;i=1`, which is neither in the file nor in the space",
        ),
        (
            "another server",
            object("ns=1;s=O", r#"<Reference ReferenceType="Organizes">svr=1;i=85</Reference>"#),
            "`svr=1;i=85` lies on another server",
        ),
        (
            "no reference type",
            object("ns=1;s=O", r#"<Reference ReferenceType="i=85" IsForward="false">i=85</Reference>"#),
            "`i=85` is not a reference type",
        ),
        (
            "typed by an object",
            object("ns=1;s=O", &format!(r#"{up}<Reference ReferenceType="HasTypeDefinition">i=85</Reference>"#)),
            "`ns=3;s=O` is not typed by a type of its own kind",
        ),
        ("a data type that is none", variable(r#"DataType="i=85""#, UNDER_OBJECTS), "`i=85` is not a data type"),
        ("a rank of millions", variable(r#"ValueRank="2000000000""#, UNDER_OBJECTS), "`2000000000` is no value rank"),
        (
            "a value of another type",
            variable(r#"DataType="Double""#, &format!("{UNDER_OBJECTS}<Value><String>a</String></Value>")),
            "the value of `ns=3;s=V` does not fit its data type and rank",
        ),
        (
            "a value that is no number",
            variable(r#"DataType="Double""#, &format!("{UNDER_OBJECTS}<Value><Double>a</Double></Value>")),
            "`a` is no number",
        ),
        (
            "a value of no kind",
            variable("", &format!("{UNDER_OBJECTS}<Value><Thing>a</Thing></Value>")),
            "a value of the kind `Thing` cannot be read",
        ),
        (
            "a name that is too long",
            object("ns=1;s=O", up).replace("1:O", &"x".repeat(256)),
            "`ns=3;s=O` cannot be added",
        ),
    ];
    for (rule, nodes, expected) in rows {
        let mut space = space();
        let before = (space.len(), space.namespaces().to_vec());
        // What is good comes first, and goes again.
        let nodes = if rule == "twice" { nodes } else { format!("{good}\n{nodes}") };
        let error = space.import(&file(&nodes), &options()).unwrap_err();
        assert!(error.to_string().contains(expected), "{rule}: {error}");
        assert!((8..14).contains(&error.line), "{rule}: {error}");
        assert_eq!((space.len(), space.namespaces().to_vec()), before, "{rule}");
        assert_eq!(space.find(&id("Good")), None, "{rule}");
        // And the space takes the next file.
        assert!(space.import(&boiler(), &options()).is_ok(), "{rule}");
    }
}

#[test]
fn required_models_must_be_there() {
    let needs = file("").replace("http://opcfoundation.org/UA/\"/>", "urn:test:missing\"/>");
    let error = space().import(&needs, &options()).unwrap_err();
    assert_eq!(error.fault, NodeSetFault::RequiredModel("urn:test:missing".into()));
    let listed = needs.replace("<Uri>urn:test:other</Uri>", "<Uri>urn:test:missing</Uri>");
    assert!(space().import(&listed, &options()).is_err(), "to be named is not to be there");
    assert!(space().import(&needs.replace("urn:test:missing", "urn:test:other"), &options()).is_ok());
}

#[test]
fn a_document_that_could_grow_without_end_is_refused() {
    let laughs = r#"<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;">]>
<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"><NamespaceUris><Uri>&lol2;</Uri></NamespaceUris></UANodeSet>"#;
    let error = space().import(laughs, &options()).unwrap_err();
    assert_eq!((error.fault, error.line), (NodeSetFault::DocumentType, 1));

    let bounded = |limits: NodeSetLimits, xml: &str| {
        space().import(xml, &ImportOptions { limits, ..options() }).map(drop).map_err(|error| error.fault)
    };
    let usual = NodeSetLimits::default();
    let xml = boiler();
    assert_eq!(bounded(usual, &xml), Ok(()));
    assert_eq!(bounded(NodeSetLimits { bytes: 100, ..usual }, &xml), Err(NodeSetFault::FileTooLarge(100)));
    assert_eq!(bounded(NodeSetLimits { parts: 50, ..usual }, &xml), Err(NodeSetFault::TooManyParts));
    assert_eq!(bounded(NodeSetLimits { nodes: 6, ..usual }, &xml), Err(NodeSetFault::TooManyNodes(6)));
    assert_eq!(bounded(NodeSetLimits { text: 20, ..usual }, &xml), Err(NodeSetFault::TextTooLong(20)));
    assert_eq!(bounded(NodeSetLimits { depth: 4, ..usual }, &xml), Err(NodeSetFault::TooDeep(4)));
    let deep = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
    assert_eq!(bounded(usual, &deep), Err(NodeSetFault::TooDeep(64)));
    assert_eq!(bounded(usual, "<a/>"), Err(NodeSetFault::NotANodeSet("a".into())));
    assert!(matches!(bounded(usual, "<a"), Err(NodeSetFault::Xml(_))));
}

/// A long chain of nodes, each before its parent, is put in order without asking again and again.
#[test]
fn a_long_chain_in_the_wrong_order_is_added_in_one_pass() {
    let count = 5_000;
    let nodes: String = (0..count)
        .map(|at| {
            let parent = if at + 1 == count { "i=85".to_owned() } else { format!("ns=1;i={}", at + 1) };
            format!(
                r#"<UAObject NodeId="ns=1;i={at}" BrowseName="1:O{at}"><References><Reference ReferenceType="Organizes" IsForward="false">{parent}</Reference></References></UAObject>"#
            )
        })
        .collect();
    assert_eq!(space().import(&file(&nodes), &options()).unwrap().nodes.len(), count);
}

/// The node sets of the companion specifications, as an npm package of the peers ships them.
fn published() -> Option<BTreeMap<String, String>> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../peers");
    let peers = std::env::var_os("TRAPKEY_PEERS_DIR").map_or(default, PathBuf::from);
    let folder = peers.join("node-opcua/node_modules/node-opcua-nodesets/nodesets");
    #[allow(clippy::disallowed_methods, reason = "reads the peers' files")]
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("SKIPPED: {} is not there; `make peers` installs it", folder.display());
        return None;
    };
    let files = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?.to_owned();
        #[allow(clippy::disallowed_methods, reason = "reads the peers' files")]
        let text =
            (name.ends_with(".xml") && name != "Opc.Ua.NodeSet2.xml").then(|| std::fs::read_to_string(&path).ok());
        Some((name, text??))
    });
    Some(files.collect())
}

#[test]
fn published_node_sets_are_imported_in_the_order_of_their_needs() {
    let Some(mut files) = published() else { return };
    let mut space = space();
    let options = ImportOptions { unfit_values: UnfitValue::LeaveEmpty, ..options() };
    let mut taken = Vec::new();
    loop {
        let mut refused = BTreeMap::new();
        let before = taken.len();
        for (name, text) in &files {
            let (nodes, namespaces) = (space.len(), space.namespaces().len());
            match space.import(text, &options) {
                Ok(imported) => {
                    println!("{name}: {} nodes, {} without value", imported.nodes.len(), imported.without_value.len());
                    assert_eq!(space.len(), nodes + imported.nodes.len() + metadata(&space, namespaces));
                    taken.push(name.clone());
                }
                Err(error) => {
                    assert_eq!(space.len(), nodes, "{name}: something of it was added");
                    refused.insert(name.clone(), error);
                }
            }
        }
        files.retain(|name, _| refused.contains_key(name));
        if taken.len() == before {
            refused.iter().for_each(|(name, error)| println!("REFUSED {name}: {error}"));
            break;
        }
    }
    for name in ["Di", "Machinery", "PackML", "IA", "Robotics", "Gds"] {
        assert!(taken.iter().any(|file| file.contains(&format!("Ua.{name}."))), "{name} is not among {taken:?}");
    }
    assert!(taken.len() >= 30, "{} of {}: {taken:?}", taken.len(), taken.len() + files.len());
}

/// Nodes that came with the namespaces after the first `before`.
fn metadata(space: &Space, before: usize) -> usize {
    let per_namespace = {
        let mut one = self::space();
        let nodes = one.len();
        one.add_namespace("urn:another").unwrap();
        one.len() - nodes
    };
    (space.namespaces().len() - before) * per_namespace
}
