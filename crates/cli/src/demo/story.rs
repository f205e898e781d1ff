//! What the demo tries and what must come of it: one table, checked in every step of the recipe.

use plant::Step;
use plant::equipment::Station;

/// A person, or the controller, with the application they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    /// The person's name in the plant file; `None` for an application that acts for itself.
    pub(crate) person: Option<&'static str>,
    /// The ApplicationUri.
    pub(crate) application: &'static str,
    /// How the screen calls them.
    pub(crate) title: &'static str,
    /// The stations they work with.
    pub(crate) stations: &'static [Station],
}

impl Cast {
    /// Who it is in the ledger.
    #[must_use]
    pub(crate) fn principal(&self) -> &'static str {
        self.person.unwrap_or(self.application)
    }

    /// The name on the screen and of the password.
    #[must_use]
    pub(crate) fn name(&self) -> &'static str {
        self.person.unwrap_or("controller")
    }
}

/// Everybody who takes part.
pub(crate) const CAST: [Cast; 5] = [
    Cast {
        person: Some("olga"),
        application: "urn:trapkey:demo:hmi",
        title: "operator",
        stations: &[Station::Mixer, Station::Filler],
    },
    Cast {
        person: Some("petra"),
        application: "urn:trapkey:demo:engineering",
        title: "process engineer",
        stations: &[Station::Reactor],
    },
    Cast {
        person: Some("victor"),
        application: "urn:trapkey:demo:vendor-laptop",
        title: "vendor technician",
        stations: &[Station::Reactor],
    },
    Cast {
        person: Some("quinn"),
        application: "urn:trapkey:demo:dashboard",
        title: "quality observer",
        stations: &[Station::Reactor],
    },
    Cast {
        person: None,
        application: "urn:trapkey:demo:controller",
        title: "batch controller",
        stations: &[Station::Reactor],
    },
];

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// Read the value.
    Read,
    /// Write this number.
    Write(f64),
    /// Call the method on its object.
    Call,
}

impl Act {
    /// What it is in the ledger.
    #[must_use]
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write(_) => "write",
            Self::Call => "call",
        }
    }
}

/// One thing somebody tries in every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probe {
    /// Who: position in [`CAST`].
    pub(crate) who: usize,
    /// Where.
    pub(crate) station: Station,
    /// The node's path; for a call `object.method`.
    pub(crate) path: &'static str,
    /// What.
    pub(crate) act: Act,
    /// The steps in which it must succeed; in all others it is denied.
    pub(crate) steps: &'static [Step],
}

/// The vendor's technician, position in [`CAST`].
const VENDOR: usize = 2;
const ALWAYS: &[Step] = &Step::ALL;

/// The table.
pub(crate) const PROBES: [Probe; 9] = [
    Probe {
        who: 0,
        station: Station::Mixer,
        path: "Mixer.Setpoints.Speed",
        act: Act::Write(240.0),
        steps: &[Step::Charge],
    },
    Probe {
        who: 0,
        station: Station::Mixer,
        path: "Mixer.Valves.Inlet",
        act: Act::Write(100.0),
        steps: &[Step::Charge, Step::Clean],
    },
    Probe { who: 0, station: Station::Mixer, path: "Mixer.Recipe.Stop", act: Act::Call, steps: ALWAYS },
    Probe {
        who: 0,
        station: Station::Filler,
        path: "Filler.Setpoints.Rate",
        act: Act::Write(45.0),
        steps: &[Step::Discharge],
    },
    Probe {
        who: 1,
        station: Station::Reactor,
        path: "Reactor.Temperature.Setpoint",
        act: Act::Write(80.0),
        steps: &[Step::Heat, Step::React],
    },
    Probe {
        who: 2,
        station: Station::Reactor,
        path: "Reactor.Drive.MaxTorque",
        act: Act::Write(90.0),
        steps: &[Step::Idle],
    },
    Probe {
        who: 3,
        station: Station::Reactor,
        path: "Reactor.Measurements.Temperature",
        act: Act::Read,
        steps: ALWAYS,
    },
    Probe {
        who: 3,
        station: Station::Reactor,
        path: "Reactor.Temperature.Setpoint",
        act: Act::Write(119.0),
        steps: &[],
    },
    Probe { who: 4, station: Station::Reactor, path: "Reactor.Recipe.Start", act: Act::Call, steps: ALWAYS },
];

impl Probe {
    /// What it is done to: the node, for a call the object.
    #[must_use]
    pub(crate) fn target(&self) -> &'static str {
        match self.act {
            Act::Call => self.path.rsplit_once('.').map_or(self.path, |(object, _)| object),
            Act::Read | Act::Write(_) => self.path,
        }
    }

    /// Why it is refused when it is. The vendor's technician has no right at all outside of his step: his token is
    /// revoked then, and requests are turned away as a whole.
    #[must_use]
    pub(crate) fn denial(&self) -> &'static str {
        if self.who == VENDOR { "grant_revoked" } else { "right_missing" }
    }

    /// Whether it must succeed in this step.
    #[must_use]
    pub(crate) fn allowed(&self, step: Step) -> bool {
        self.steps.contains(&step)
    }
}
