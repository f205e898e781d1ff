//! The equipment of the line as OPC UA nodes: which variables and methods each of its three servers has.

use opcua_types::{Argument, DataTypeId, NodeId, ObjectTypeId, Variant};
use ua_proto::space::{AccessLevel, NewMethod, NewVariable, NodeRef, Space, SpaceError, ns0};

use access_model::ScopeIndex;

/// How many values of each number are kept: ten minutes of the line.
const HISTORY: usize = 6_000;

/// One of the three servers of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Station {
    /// Charges and stirs.
    Mixer,
    /// Heats and reacts.
    Reactor,
    /// Fills bottles.
    Filler,
}

/// A first value, which also gives the variable its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum First {
    /// A Double.
    Number(f64),
    /// A UInt32.
    Count(u32),
    /// A String.
    Text(&'static str),
}

/// One variable: its path below `Objects`, its first value, and whether it can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The NodeId's string and the browse path, joined by dots: `Mixer.Setpoints.Speed`. In namespace 1, the server's own.
    pub path: &'static str,
    /// Its first value.
    pub first: First,
    /// Whether the variable itself allows writing; who may is the gate's business.
    pub settable: bool,
}

const fn set(path: &'static str, first: First) -> Point {
    Point { path, first, settable: true }
}

const fn measured(path: &'static str, first: First) -> Point {
    Point { path, first, settable: false }
}

const MIXER: [Point; 6] = [
    measured("Mixer.Measurements.Level", First::Number(0.0)),
    measured("Mixer.Measurements.Speed", First::Number(0.0)),
    set("Mixer.Setpoints.Speed", First::Number(120.0)),
    set("Mixer.Setpoints.Dose", First::Number(400.0)),
    set("Mixer.Valves.Inlet", First::Number(0.0)),
    set("Mixer.Valves.Outlet", First::Number(0.0)),
];

const REACTOR: [Point; 9] = [
    measured("Reactor.Measurements.Level", First::Number(0.0)),
    measured("Reactor.Measurements.Temperature", First::Number(20.0)),
    measured("Reactor.Measurements.Pressure", First::Number(1.0)),
    measured("Reactor.Measurements.Conversion", First::Number(0.0)),
    set("Reactor.Temperature.Setpoint", First::Number(78.0)),
    set("Reactor.Valves.Relief", First::Number(0.0)),
    set("Reactor.Valves.Outlet", First::Number(0.0)),
    set("Reactor.Drive.Firmware", First::Text("4.1.0")),
    set("Reactor.Drive.MaxTorque", First::Number(85.0)),
];

const FILLER: [Point; 3] = [
    measured("Filler.Measurements.Bottles", First::Count(0)),
    set("Filler.Setpoints.Rate", First::Number(40.0)),
    set("Filler.Valves.Nozzle", First::Number(0.0)),
];

impl Station {
    /// The three stations, in the direction of flow.
    pub const ALL: [Self; 3] = [Self::Mixer, Self::Reactor, Self::Filler];

    /// The name: of the object below `Objects`, and in lower case of the server in the plant file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mixer => "Mixer",
            Self::Reactor => "Reactor",
            Self::Filler => "Filler",
        }
    }

    /// The variables.
    #[must_use]
    pub const fn points(self) -> &'static [Point] {
        match self {
            Self::Mixer => &MIXER,
            Self::Reactor => &REACTOR,
            Self::Filler => &FILLER,
        }
    }

    /// The objects that hold the methods of the recipe, `Start` and `Stop`.
    #[must_use]
    pub const fn recipe(self) -> &'static str {
        match self {
            Self::Mixer => "Mixer.Recipe",
            Self::Reactor => "Reactor.Recipe",
            Self::Filler => "Filler.Recipe",
        }
    }
}

/// The NodeId of a path.
#[must_use]
pub fn node_id(path: &str) -> NodeId {
    NodeId::new(1, path.to_owned())
}

/// Adds a station's objects, variables and methods below `Objects`. They lie in no scope until a plant file says so.
///
/// # Errors
/// The space is full or already has a node of that name.
pub fn add(space: &mut Space, station: Station) -> Result<(), SpaceError> {
    let objects = well_known(85)?;
    for point in station.points() {
        let parent = object(space, objects, parent_of(point.path))?;
        let value = match point.first {
            First::Number(value) => Variant::Double(value),
            First::Count(value) => Variant::UInt32(value),
            First::Text(value) => Variant::from(value),
        };
        let access = if point.settable { AccessLevel::READ_WRITE } else { AccessLevel::READ };
        let id = Some(node_id(point.path));
        let variable = NewVariable::new(parent, id, last_of(point.path), value, ScopeIndex::NOWHERE);
        let node = space.add_variable(variable.access(access))?;
        if !matches!(point.first, First::Text(_)) {
            space.historize(node, HISTORY, false)?;
        }
    }
    let path = station.recipe();
    let parent = object(space, objects, path)?;
    for name in ["Start", "Stop"] {
        let done = argument("Done", DataTypeId::Boolean);
        let id = node_id(&format!("{path}.{name}"));
        let outputs = vec![done];
        let argument_ids = [None, Some(node_id(&format!("{path}.{name}.OutputArguments")))];
        let mut method = NewMethod::new(parent, Some(id), name, ScopeIndex::NOWHERE);
        method.argument_ids = argument_ids;
        method.outputs = outputs;
        space.add_method(method)?;
    }
    Ok(())
}

fn argument(name: &str, data_type: DataTypeId) -> Argument {
    Argument {
        name: name.into(),
        data_type: data_type.into(),
        value_rank: -1,
        array_dimensions: None,
        description: opcua_types::LocalizedText::null(),
    }
}

fn well_known(id: u32) -> Result<NodeRef, SpaceError> {
    ns0::find_numeric(id).ok_or(SpaceError::Full)
}

fn parent_of(path: &'static str) -> &'static str {
    path.rsplit_once('.').map_or(path, |(parent, _)| parent)
}

fn last_of(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}

/// The object at `path`, made with its parents when it is not there yet.
fn object(space: &mut Space, objects: NodeRef, path: &str) -> Result<NodeRef, SpaceError> {
    let id = node_id(path);
    if let Some(there) = space.find(&id) {
        return Ok(there);
    }
    // That there is a mixer everybody may know; what is in it lies in no scope until the plant file says so.
    let (parent, scope) = match path.rsplit_once('.') {
        Some((parent, _)) => (object(space, objects, parent)?, ScopeIndex::NOWHERE),
        None => (objects, ScopeIndex::PUBLIC),
    };
    let base = well_known(ObjectTypeId::BaseObjectType as u32)?;
    space.add_object(parent, Some(id), last_of(path), base, scope)
}
