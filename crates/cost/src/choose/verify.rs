//! Settings solved once more in full: the markings of the whole net, without the reduction.

use gspn::Budget;
use gspn::chain::long_run;
use gspn::explore::explore;
use serde::Serialize;

use super::passage::Passage;
use super::times::without;
use super::{Choice, Effort, asked, set};
use crate::model::{Model, Workload};
use crate::net::{self, Laid};
use crate::{Class, Fault, solve, weave};

/// How a setting came out in full, against what was said of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// Its index.
    pub setting: usize,
    /// Requests a second.
    pub throughput: f64,
    /// Mean time.
    pub mean: f64,
    /// 99 % of the requests are faster; none where it was not asked or nobody could say.
    pub p99: Option<f64>,
    /// The largest difference, relative.
    pub off: f64,
}

/// Solves one setting of a choice in full.
///
/// # Errors
/// When the solver refuses its net.
pub fn verify(model: &Model, choice: &Choice, setting: usize, budget: &mut Budget<'_>) -> Result<Verified, Fault> {
    let said =
        choice.settings.get(setting).ok_or_else(|| Fault::new(Class::NoSuchName, "setting", "there is no such"))?;
    let asked_model = asked(model, &choice.wanted)?;
    let mut chosen = set(&asked_model, &said.ways, &said.machines);
    if let Workload::Closed { think, .. } = &mut chosen.workload
        && *think <= 0.0
    {
        // As the reduction has it: who has an answer asks again at once, or nearly.
        *think = said.cores.max(said.mean.unwrap_or(0.0)) * super::MOMENT;
    }
    let laid = net::lay(&weave(&chosen))?;
    let solution = solve::of(&chosen, &laid, budget)?;
    let mut pairs = vec![(solution.throughput, said.throughput)];
    pairs.extend(said.mean.map(|mean| (solution.response, mean)));
    let mut p99 = None;
    if let Some(said) = said.p99.filter(|_| choice.reduced) {
        let found = quantile(&laid, chosen.workload.jobs(), 0.99, budget)?;
        pairs.push((found, said));
        p99 = Some(found);
    }
    let off = pairs.iter().map(|(found, said)| (said / found - 1.0).abs()).fold(0.0, f64::max);
    Ok(Verified { setting, throughput: solution.throughput, mean: solution.response, p99, off })
}

/// First come, first served: whoever comes has left when all that were there have. So the net runs empty, without arrivals, from the
/// markings that arriving requests make.
fn quantile(laid: &Laid, jobs: u32, level: f64, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let space = explore(&laid.net, 1, &[], &[laid.begin], budget)?;
    let chain = space.chain();
    let run = long_run(chain, space.initial(), budget)?;
    let Some(begins) = space.watched(laid.begin).map(|watched| &watched.chain) else {
        return Err(Fault::new(Class::Unanswered, "begin", "the net has no arrivals that take time"));
    };
    let mut initial = vec![0.0; chain.len()];
    for (state, share) in run.distribution.iter().enumerate() {
        begins.row(state).for_each(|(to, rate)| initial[to] += share * rate);
    }
    let most = initial.iter().sum::<f64>() * 1e-14;
    initial.iter_mut().filter(|share| **share < most).for_each(|share| *share = 0.0);
    let mut tokens = vec![0; space.places()];
    let mut empty = |state: usize| {
        space.load(space.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
        tokens[laid.source] == u64::from(jobs)
    };
    let goal: Vec<bool> = (0..chain.len()).map(&mut empty).collect();
    Passage::new(chain.len(), |state| without(chain, begins, state), &initial, &goal).quantile(level, budget)
}

/// Solves so many settings of a choice in full, picked by chance (the same at each call); those that were simulated have nets too large, and so have those that were not solved.
///
/// # Errors
/// When the solver refuses one of the nets.
pub fn check(model: &Model, choice: &Choice, count: usize, effort: &Effort<'_>) -> Result<Vec<Verified>, Fault> {
    let solved: Vec<usize> = (0..choice.settings.len())
        .filter(|index| choice.settings[*index].simulated.is_none() && choice.settings[*index].unsolved.is_none())
        .collect();
    let all = solved.len();
    let (mut picked, mut state) = (std::collections::BTreeSet::new(), 0_u64);
    while picked.len() < count.min(all) {
        // SplitMix64 (Steele, Lea, Flood).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        picked.insert(usize::try_from(mixed >> 33).unwrap_or(0) % all);
    }
    let picked: Vec<usize> = picked.into_iter().map(|index| solved[index]).collect();
    effort.each(picked.len(), |number, budget| verify(model, choice, picked[number], budget))
}
