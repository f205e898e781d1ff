//! From a secured model to a stochastic Petri net.
//!
//! A request is a token. A step that takes time is a timed transition (a few in a row where its time is not exponential), a step that takes
//! none an immediate one. A node is a place with a token for each core: the request takes one, keeps it while its steps stay on that node,
//! and gives it back when it goes elsewhere or waits for a message. A pool is a place with a token for each unit; a request that finds too few
//! gives its core back and waits. In which order those who wait are served, the net does not say (`choose::turns` does). Decisions and steps
//! without time have priority over taking a core, so that a step that costs nothing changes nothing. Where a request does several things at
//! once it is a token in each branch (`parallel`).

mod builder;
mod parallel;
mod steps;

use gspn::net::{Place, Servers, Transition};
use serde::Serialize;

use crate::model::Workload;
use crate::{Class, Fault, Secured};
use builder::Builder;
pub use parallel::Fragment;

/// The priority of decisions and steps without time.
pub(crate) const FIRST: u32 = builder::ROUTE;
/// The priority of taking what is free.
pub(crate) const TAKEN: u32 = builder::ACQUIRE;
/// Steps that a net may come of.
pub(crate) const MAX_STEPS: usize = 250_000;

/// A net and what its parts mean.
#[derive(Debug, Clone)]
pub struct Laid {
    /// The net.
    pub net: gspn::Net,
    /// Places in which a request spends time, and on what.
    pub stages: Vec<Stage>,
    /// The prices that stages are paid by.
    pub prices: Vec<Paid>,
    /// For each node the place of its free cores.
    pub free: Vec<usize>,
    /// For each connector whose bytes take time the place of its free line.
    pub lines: Vec<usize>,
    /// For each pool that requests may wait for, the place of its free units.
    pub pools: Vec<usize>,
    /// The places of all that requests wait for: cores, lines, pools, threads.
    pub resources: Vec<usize>,
    /// Where a closed workload's clients think, or an open one's room is.
    pub source: usize,
    /// Whether requests arrive from outside and may find no room.
    pub open: bool,
    /// Where requests wait for a thread, if that is limited.
    pub queue: Option<usize>,
    /// The transition of a request that comes.
    pub begin: usize,
    /// The transition at the end: its throughput is that of the application.
    pub end: usize,
    /// The transition of a request that was aborted, if a check can fail.
    pub aborted: Option<usize>,
    /// Parallel fragments, those inside of others before them; each slot by itself.
    pub fragments: Vec<Fragment>,
}

/// How the branches of a parallel fragment are laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each request that may be inside at once has places of its own.
    Apart,
    /// All have the same places: for who tells them apart by himself.
    Shared,
    /// One branch after the other: for who wants to know how much work there is.
    InOrder,
}

/// What a net is made of, and what its parts mean: as in [`Laid`].
#[derive(Debug)]
pub(crate) struct Sketch {
    pub(crate) places: Vec<Place>,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) prices: Vec<Paid>,
    pub(crate) free: Vec<usize>,
    pub(crate) lines: Vec<usize>,
    pub(crate) pools: Vec<usize>,
    pub(crate) resources: Vec<usize>,
    pub(crate) source: usize,
    open: bool,
    queue: Option<usize>,
    pub(crate) begin: usize,
    end: usize,
    pub(crate) aborted: Option<usize>,
    fragments: Vec<Fragment>,
}

/// A place in which requests spend time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Index in the net.
    pub place: usize,
    /// What is done there.
    pub what: What,
    /// The place of the cores or of the line whose time it is (a node and a connector may have one name); none for a delay.
    pub on: Option<usize>,
    /// Mean seconds of one visit; 0 for waiting.
    pub mean: f64,
    /// Index in [`Laid::prices`] of the price that says how long it lasts; none of the application's own steps.
    pub paid: Option<usize>,
    /// Watts of energy that the price says it takes, besides those of a busy core.
    pub watts: f64,
    /// The pools of which the request holds units here, by their indices in the model, and how many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<(usize, u32)>,
    /// Whether the request does other things meanwhile, in other branches of a parallel fragment.
    pub beside: bool,
    /// Of how many places alike it is the first: so many slots of a parallel fragment have one each, with as many requests in the mean.
    pub copies: u32,
}

/// A price that times of a net are made of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paid {
    /// The platform.
    pub platform: String,
    /// The operation.
    pub operation: String,
    /// Half of the 95 % interval around it, relative.
    pub error: f64,
}

/// What a request does in a stage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A step of the application, by name.
    Step(String),
    /// A mechanism: the annotation's index and the mechanism.
    Security(usize, crate::mechanism::Basic),
    /// A phase of a protocol: the annotation's index and the phase.
    Phase(usize, &'static str),
    /// It waits for a node or line, by name.
    Waiting(String),
    /// Its branches are under way.
    Parallel,
}

/// Lays the net.
///
/// # Errors
/// [`Class::NoPrice`] when an operation has no price on its platform, [`Class::TooLarge`] for more than 250,000 steps, those of parallel
/// fragments once for each request that may be inside, and more than 16 of those; and what the solver says of a net that it does not take.
pub fn lay(secured: &Secured) -> Result<Laid, Fault> {
    lay_as(secured, Form::Apart)
}

/// Lays the net with parallel fragments in one form or another.
pub(crate) fn lay_as(secured: &Secured, form: Form) -> Result<Laid, Fault> {
    let it = sketch(secured, form, true)?;
    Ok(Laid {
        net: gspn::net::build(&secured.model().name, it.places, it.transitions)?,
        stages: it.stages,
        prices: it.prices,
        free: it.free,
        lines: it.lines,
        pools: it.pools,
        resources: it.resources,
        source: it.source,
        open: it.open,
        queue: it.queue,
        begin: it.begin,
        end: it.end,
        aborted: it.aborted,
        fragments: it.fragments,
    })
}

/// The same without names, which take a good part of the time: for what is walked through once.
pub(crate) fn unnamed(secured: &Secured, form: Form) -> Result<Sketch, Fault> {
    let it = sketch(secured, form, false)?;
    if gspn::net::sound(&it.places, &it.transitions).is_err() {
        // What is wrong is said with its name.
        lay_as(secured, form)?;
    }
    Ok(it)
}

fn sketch(secured: &Secured, form: Form, named: bool) -> Result<Sketch, Fault> {
    let model = secured.model();
    let mut builder = Builder::new(model, named);
    let source = builder.place("source", u64::from(model.workload.jobs()));
    let start = builder.place("start", 0);
    let begin = arrivals(&mut builder, model.workload, source, start);
    let threads = model.threads().map(|threads| builder.place("threads", u64::from(threads)));
    let mut at = start;
    if let Some(threads) = threads {
        at = builder.place("running", 0);
        builder.immediate("thread", builder::BEGIN, 1.0, &[start, threads], &[at]);
    }
    let abort = builder.place("abort", 0);
    let mut front = vec![steps::Cursor { place: at, holds: None }];
    let Some(main) = model.sequences.first() else {
        return Err(Fault::new(Class::Missing, "sequence", "there is no sequence: nothing happens"));
    };
    let (most, fragments) = (model.at_once(), Vec::new());
    let mut layer = steps::Layer { model, builder, abort, aborts: false, laid: 0, form, most, fragments, deep: 0 };
    layer.steps(&main.steps, &mut front)?;
    let last = layer.release(&mut front);
    let (aborts, fragments) = (layer.aborts, layer.fragments);
    let mut builder = layer.builder;
    let back: Vec<usize> = [source].into_iter().chain(threads).collect();
    let end = builder.immediate("end", builder::ROUTE, 1.0, &[last], &back);
    let aborted = aborts.then(|| builder.immediate("aborted", builder::ROUTE, 1.0, &[abort], &back));
    let free = builder.free().to_vec();
    let (lines, pools) = (builder.lines(), builder.pools().iter().flatten().copied().collect::<Vec<_>>());
    let resources = free.iter().chain(&lines).chain(&pools).copied().chain(threads).collect();
    let open = matches!(model.workload, Workload::Open { .. });
    let (places, transitions, stages, prices) = builder.parts();
    Ok(Sketch {
        places,
        transitions,
        stages,
        prices,
        free,
        lines,
        pools,
        resources,
        source,
        open,
        queue: threads.map(|_| start),
        begin,
        end,
        aborted,
        fragments,
    })
}

/// How requests come from `source` to `start`.
fn arrivals(builder: &mut Builder, workload: Workload, source: usize, start: usize) -> usize {
    match workload {
        Workload::Closed { think, .. } if think > 0.0 => {
            builder.timed("think", 1.0 / think, Servers::Infinite, &[source], &[start])
        }
        Workload::Closed { .. } => builder.immediate("begin", builder::AGAIN, 1.0, &[source], &[start]),
        Workload::Open { rate, .. } => builder.timed("arrive", rate, Servers::Finite(1), &[source], &[start]),
    }
}

/// Why a request of which no step takes time has no figures.
pub(crate) const TIMELESS: &str =
    "nothing in it takes time: give a step a time, an operation a price above 0, or a message a latency";

/// Where no step of a request takes time.
pub(crate) fn timeless() -> Fault {
    Fault::new(Class::Invalid, "sequence", TIMELESS)
}

/// The net as the JSON document that `gspn::json` reads, with the questions that [`crate::solve`] asks.
#[must_use]
pub fn document(laid: &Laid, asks: &[gspn::ask::Ask]) -> serde_json::Value {
    builder::document(&laid.net, asks)
}
