//! `pdp.decide.12000` and `pdp.decide.growth`: one decision over a large plant, request building and marking included,
//! with keys drawn at random.

use std::fmt::Write as _;
use std::hint::black_box;

use access_model::{AccessRequest, Action, Epoch, Principal, UnixTime};
use pdp::{Snapshot, Sources};

use super::Bench;
use crate::Failed;
use crate::clock::Stopwatch;
use crate::random::Random;

/// Decisions in one run.
const DECISIONS: u32 = 50_000;

const POLICIES: &str = r#"
@id("assigned-operators-write")
permit (principal in Role::"operator", action in Action::"change", resource in Site::"s")
when { principal.assigned.contains(resource.equipment) && context.steps.containsAny(resource.steps) };
@id("observers-view")
permit (principal in Role::"operator", action in Action::"view", resource in Site::"s")
unless { resource.labels.contains("maintenance") };
"#;

const WORKFLOW: &str = r#"
[[procedure]]
name = "p"
[[phase]]
name = "run"
procedure = "p"
[[step]]
name = "idle"
tokens = 1
[[step]]
name = "charge"
phase = "run"
[[transition]]
name = "start"
from = ["idle"]
to = ["charge"]
[[transition]]
name = "end"
from = ["charge"]
to = ["idle"]
"#;

/// A plant of about `entities` entities: one in ten a person, one in fifty a server with its equipment, the rest scopes.
struct Plant {
    text: String,
    persons: u32,
    servers: u32,
    scopes: u32,
}

fn plant(entities: u32) -> Plant {
    let (persons, servers) = (entities / 10, entities / 50);
    let scopes = (entities - persons - 2 * servers) / servers;
    let mut text = String::from(
        "[plant]\nname = \"bench\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"z\"\nsite = \"s\"\n[[role]]\nname = \"operator\"\n",
    );
    for server in 0..servers {
        let _infallible = write!(text, "[[equipment]]\nname = \"e{server}\"\nzone = \"z\"\n");
    }
    for person in 0..persons {
        let at = person % servers;
        let _infallible =
            write!(text, "[[person]]\nname = \"p{person}\"\nroles = [\"operator\"]\nassigned = [\"e{at}\"]\n");
    }
    for server in 0..servers {
        let _infallible =
            write!(text, "[[server]]\nname = \"v{server}\"\nuri = \"urn:v{server}\"\nequipment = \"e{server}\"\n");
        for scope in 0..scopes {
            let _infallible = write!(
                text,
                "[[server.scope]]\nname = \"c{scope}\"\nnodes = [\"ns=1;i={scope}\"]\nsteps = [\"charge\"]\n"
            );
        }
    }
    Plant { text, persons, servers, scopes }
}

/// A plant under measurement.
pub(crate) struct Subject {
    plant: Plant,
    snapshot: Snapshot,
    random: Random,
}

impl Subject {
    pub(crate) fn new(entities: u32) -> Self {
        let plant = plant(entities);
        let sources = Sources { plant: &plant.text, policies: POLICIES, workflow: Some(WORKFLOW) };
        let snapshot =
            Snapshot::load(sources, &token::map_digest, Epoch(1)).expect("the plant of the measure is valid");
        Self { plant, snapshot, random: Random::new(u64::from(entities)) }
    }

    /// Microseconds a decision, over one run.
    fn run(&mut self) -> f64 {
        let mut snapshot = self.snapshot.clone();
        let stopwatch = Stopwatch::start();
        for step in 0..DECISIONS {
            // The marking moves while decisions are made, as it does in a plant.
            if step.is_multiple_of(1_000) {
                let transition = if step.is_multiple_of(2_000) { "start" } else { "end" };
                snapshot = snapshot.fire(transition, Epoch(u64::from(step))).expect("the transition is enabled");
            }
            self.decide(&snapshot, step);
        }
        stopwatch.seconds() * 1e6 / f64::from(DECISIONS)
    }

    /// The plant as it is at first.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// One decision about somebody, something and a server drawn at random.
    pub(crate) fn decide(&mut self, snapshot: &Snapshot, step: u32) {
        let server = self.random.below(self.plant.servers);
        let request = AccessRequest {
            principal: Principal {
                person: Some(format!("p{}", self.random.below(self.plant.persons))),
                roles: vec!["operator".into()],
                ..Principal::default()
            },
            action: if step.is_multiple_of(2) { Action::Write } else { Action::Read },
            server: format!("urn:v{server}"),
            scope: format!("c{}", self.random.below(self.plant.scopes)),
            at: UnixTime::from_seconds(1_800_000_000),
            break_glass: None,
        };
        black_box(pdp::decide(snapshot, black_box(&request)));
    }
}

/// Takes both measures.
///
/// # Errors
/// They cannot be kept.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let (mut many, mut few) = (Subject::new(12_000), Subject::new(120));
    // The first run warms caches and is not counted; then they take turns, so that a busy moment meets both.
    many.run();
    few.run();
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for run in 0..bench.runs {
        if run % 2 == 0 {
            large.push(many.run());
            small.push(few.run());
        } else {
            small.push(few.run());
            large.push(many.run());
        }
    }
    let growth: Vec<f64> = large.iter().zip(&small).map(|(large, small)| large / small).collect();
    bench.alone("pdp.decide.12000", "us", &large, 8.0, "pdp")?;
    bench.alone("pdp.decide.growth", "of the 120-entity figure", &growth, 1.2, "pdp")
}
