//! Tests of the address space.

mod model;
mod nodeset;
mod standard;
mod writes;

use access_model::{ScopeIndex, UnixTime};
use opcua_types::{DataValue, NodeId, Variant};

use super::{NewVariable, NodeRef, Space, SpaceConfig};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn space() -> Space {
    Space::new(SpaceConfig { application_uri: "urn:test".into(), namespaces: vec!["urn:plant".into()] }).unwrap()
}

fn i(number: u32) -> NodeRef {
    super::ns0::find_numeric(number).unwrap()
}

fn id(number: u32) -> NodeId {
    NodeId::new(2, number)
}

fn bare(value: impl Into<Variant>) -> DataValue {
    DataValue { value: Some(value.into()), ..DataValue::null() }
}

fn variable(space: &mut Space, number: u32, value: impl Into<Variant>) -> NodeRef {
    let new = NewVariable::new(super::ns0::OBJECTS, Some(id(number)), "v", value.into(), ScopeIndex(1));
    space.add_variable(new.access(super::AccessLevel::READ_WRITE)).unwrap()
}
