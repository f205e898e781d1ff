//! The scenario of the paper on the machine at hand, predicted from timings of single steps.
//!
//! The steps get their places in the annotated model (`models/here.toml`), the library adds those of the mechanisms, and the net that comes
//! of it is solved exactly for one client: how many tags are stored a second, and what a tag demands of the two nodes. Several clients wait
//! for each other; the net serves them in no order, the program in turn. So what they get is found by going through the same steps in the
//! order of the program (`in_order`), and [`by_net`] says what the net has for it. Nothing is fitted.

mod in_order;
mod pause;
mod prices;
mod spread;

use gspn::Budget;
use gspn::ask::{Ask, Question};
use gspn::simulate::{Plan, simulate};
use serde::{Deserialize, Serialize};

use crate::algorithm::Key;
use crate::calibration::Calibration;
use crate::model::{Duration, Model, Step, Workload};
use crate::read::{Language, read};
use crate::{Class, Fault, net, solve, weave};

pub use pause::{Pause, among};
pub use prices::INTERRUPTED;
use prices::Steps;

/// The annotated model.
const MODEL: &str = include_str!("../../models/here.toml");
/// No step of the net varies less than this: a variance over a squared mean has as many phases as its inverse, and a few dozen in a row are
/// as good as a fixed time for a queue.
const LEAST_CV2: f64 = 0.1;
/// How exactly the simulated net is known, relative.
const RELATIVE: f64 = 0.002;
/// The most firings in a simulation.
const FIRINGS: u64 = 6_000_000;

/// How often it is gone through to see how much time lies between two of each step.
const LOOKS: u32 = 4;

/// What is predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// `SC0`, `SC1` or `SC2`.
    pub configuration: String,
    /// Bits of the RSA keys; of no account in SC0.
    pub key: u32,
    /// The algorithm of the step `store`: `sqlite` or `postgres`.
    pub database: String,
    /// At least 1.
    pub clients: u32,
    /// Messages between two exchanges of keys; 0: none is made.
    pub period: u64,
    /// Bytes of a tag without its signature.
    pub tag: u64,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Tags a second.
    pub throughput: f64,
    /// Processor seconds of one tag: both programs and the database's.
    pub processor: f64,
    /// Of these, the store's and the database's.
    pub at_store: f64,
    /// Seconds from one stored tag of a client to its next, which 95 of 100 do not exceed.
    pub p95: f64,
    /// Share of the time that the organisation works.
    pub organisation: f64,
    /// Share of the time that the store works.
    pub store: f64,
    /// The measured steps that it was made of, by name.
    pub parameters: Vec<String>,
}

/// Predicts a setting from steps, whose names `docs/reference/cost-model.md` lists.
///
/// # Errors
/// [`Class::NoPrice`] for a step that was not measured, [`Class::Unknown`] for one that was measured after a pause that nothing looks for,
/// [`Class::NoSuchName`] for an unknown configuration, and what the solver says.
pub fn predict(calibration: &Calibration, setting: &Setting, budget: &mut Budget<'_>) -> Result<Prediction, Fault> {
    let mut steps = settled(calibration, setting)?;
    // What a tag demands of a node does not depend on how many clients there are; alone, it is found exactly.
    let alone = Setting { clients: 1, ..setting.clone() };
    let model = model(&mut steps, &alone)?;
    let solution = solve::solve(&weave(&model), budget)?;
    let demands: Vec<f64> = solution.nodes.iter().map(|node| node.utilisation / solution.throughput).collect();
    let [organisation, store] = *demands.as_slice() else {
        return Err(Fault::new(Class::Invalid, "node", "the model has two nodes"));
    };
    let order = in_order::run(&in_order::Work::of(&mut steps, setting)?, setting);
    let alone = setting.clients == 1;
    let throughput = if alone { solution.throughput } else { order.throughput };
    let (organisation, store) = if alone { (organisation, store) } else { order.worked };
    // Who waits for the medium, or has lost the processor to another process, does not compute; one that slept pays for waking up.
    let (counted, (sleep_organisation, sleep_store)) = (1.0 - steps.uncounted()?, steps.sleeps()?);
    // Where one insert in very many takes nearly all the time, tags that are drawn may meet it less often than it came.
    let at_store = (store * counted - steps.store_waits()?).max(0.0) + order.slept.1 * sleep_store;
    let processor = organisation * counted + order.slept.0 * sleep_organisation + at_store;
    let (p95, parameters) = (order.p95, steps.used());
    let (organisation, store) = (organisation * throughput, store * throughput);
    Ok(Prediction { throughput, processor, at_store, p95, organisation, store, parameters })
}

/// Tags a second by the net, simulated where there are several clients: what [`predict`] says but for the order of service. It takes a second
/// where that takes milliseconds.
///
/// # Errors
/// As [`predict`].
pub fn by_net(calibration: &Calibration, setting: &Setting, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let model = model(&mut settled(calibration, setting)?, setting)?;
    if setting.clients == 1 { Ok(solve::solve(&weave(&model), budget)?.throughput) } else { simulated(&model, budget) }
}

/// The steps, each as long as it takes where it is done once for each tag: what was done long ago takes longer, and then more time lies
/// between two of it.
fn settled<'a>(calibration: &'a Calibration, setting: &'a Setting) -> Result<Steps<'a>, Fault> {
    pause::check(calibration)?;
    let mut steps = Steps::new(calibration, setting);
    for _ in 0..LOOKS {
        let found = in_order::run(&in_order::Work::of(&mut steps, setting)?, setting);
        if found.throughput > 0.0 {
            steps.every(1.0 / found.throughput);
        }
    }
    Ok(steps)
}

/// The model with measured times and this setting.
fn model(steps: &mut Steps<'_>, setting: &Setting) -> Result<Model, Fault> {
    let all = read(MODEL, Language::Toml)?;
    let mut model =
        if setting.configuration == "SC0" { all.plain() } else { all.configuration(&setting.configuration)? };
    model.workload = Workload::Closed { clients: setting.clients, think: 0.0, threads: None };
    for node in &mut model.nodes {
        node.speed = 1.0 - steps.lost()?;
    }
    for attribute in &mut model.attributes {
        attribute.bytes = setting.tag;
    }
    for connector in &mut model.connectors {
        connector.latency = steps.latency()?;
    }
    for annotation in &mut model.annotations {
        for ways in annotation.alternatives.iter_mut().flatten() {
            ways.signature = ways.signature.map(|_| Key::Rsa(setting.key));
            let encrypts = ways.cipher.is_some() && setting.period > 0;
            ways.exchange = encrypts.then_some(Key::Rsa(setting.key));
            ways.reuse = 1.0 - fresh(setting);
        }
    }
    for step in model.sequences.iter_mut().flat_map(|sequence| &mut sequence.steps) {
        if let Step::Operation(operation) = step {
            operation.time = time(steps.operation(&operation.name)?, setting.clients);
        }
    }
    let mut prices = steps.prices()?;
    for price in prices.values_mut() {
        price.cv2 = if setting.clients == 1 { 1.0 } else { price.cv2.max(LEAST_CV2) };
    }
    model.prices.insert("here".to_owned(), prices);
    Ok(model)
}

/// For one client only means count.
fn time(time: Duration, clients: u32) -> Duration {
    Duration { cv2: if clients == 1 { 1.0 } else { time.cv2.max(LEAST_CV2) }, ..time }
}

/// The share of messages for which a key is agreed on.
#[expect(clippy::cast_precision_loss, reason = "a small number of messages")]
fn fresh(setting: &Setting) -> f64 {
    if setting.period == 0 { 0.0 } else { 1.0 / setting.period as f64 }
}

/// Throughput of a net that is too large to be solved.
fn simulated(model: &Model, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let laid = net::lay(&weave(model))?;
    let id = "throughput";
    let ask = Ask { id: id.to_owned(), question: Question::Throughput { transition: laid.end, at: None } };
    let plan = Plan { seed: 1, relative: RELATIVE, firings: FIRINGS };
    let found = simulate(&laid.net, &[ask], plan, budget)?;
    let estimate = found.estimates.get(id).map(|it| it.mean).filter(|mean| mean.is_finite());
    estimate.ok_or_else(|| Fault::new(Class::Unanswered, id, "the simulation found nothing"))
}
