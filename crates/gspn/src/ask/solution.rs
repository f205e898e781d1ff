//! An explored chain and what is known of it so far. Here alone conditions are looked at state by state, whether a state is one marking
//! or stands for replicas that were exchanged.

use hashbrown::HashMap;

use super::derivatives::Known;
use super::{Answer, Ask, Checks, Condition, Value, invariant_error};
use crate::chain::{self, At, LongRun, Reached};
use crate::explore::Space;
use crate::lump::Symmetry;
use crate::net::Net;
use crate::{Budget, Class, Refusal};

/// What a check may be off.
const OFF: f64 = 1e-8;
/// What is known is kept while it is less than this part of the limit of memory; else the next is found in its place.
pub(super) const PART_KEPT: u64 = 16;

pub(crate) struct Solution {
    pub(crate) space: Space,
    /// Once it was asked for.
    pub(crate) known: Option<Result<LongRun, Refusal>>,
    /// Why rare states are not known as well as others, once that was tried.
    unsettled: Option<Refusal>,
    /// Questions that hang on rare states are put off, and whether the last one was.
    pub(crate) puts_off: bool,
    pub(crate) put_off: bool,
    at: HashMap<u64, Result<At, Refusal>>,
    /// The values of the questions, and what the edges count for those, whose derivatives were asked for.
    pub(super) worth: Vec<Known>,
    /// How the last value was found, where that is worth saying, and how far it may be off, relatively.
    method: Option<(String, f64)>,
}

impl Solution {
    pub(crate) fn new(space: Space) -> Self {
        Self {
            space,
            known: None,
            unsettled: None,
            puts_off: false,
            put_off: false,
            at: HashMap::new(),
            worth: Vec::new(),
            method: None,
        }
    }

    /// Bytes of what is kept beside the chain.
    pub(crate) fn held(&self) -> u64 {
        let run = if matches!(self.known, Some(Ok(_))) { 16 * self.space.chain().len() as u64 } else { 0 };
        self.space.beside_chain() + run + self.at_times()
    }

    /// Forgets other times than `at` (its bits) where they take much.
    pub(crate) fn make_room(&mut self, at: u64, budget: &Budget<'_>) {
        if self.at_times() > budget.limits().bytes / PART_KEPT && !self.at.contains_key(&at) {
            self.at.clear();
        }
    }

    fn at_times(&self) -> u64 {
        self.at.values().flatten().map(At::bytes).sum()
    }

    /// Puts the value that was just found, or why there is none, into `answer`.
    pub(crate) fn put(&mut self, answer: &mut Answer, ask: &Ask, value: Result<Value, Refusal>) {
        if let (Some((method, error)), Ok(_)) = (self.method.take(), &value) {
            answer.method.insert(ask.id.clone(), method);
            answer.error.insert(ask.id.clone(), error);
        }
        match value {
            Ok(Value::Number(value)) if !value.is_finite() => {
                let why = "the value is more than a number can say";
                answer.unanswered.insert(ask.id.clone(), Refusal::new(Class::TooLarge, &ask.id, why));
            }
            Ok(value) => drop(answer.values.insert(ask.id.clone(), value)),
            Err(mut refusal) => {
                refusal.name.clone_from(&ask.id);
                answer.unanswered.insert(ask.id.clone(), refusal);
            }
        }
    }

    /// The long run with each state as well known as any other. Where that is not had, common states stay known.
    pub(crate) fn long_run(&mut self, budget: &mut Budget<'_>) -> Result<&LongRun, Refusal> {
        if self.common_run(budget)?.least > 0.0 {
            if self.puts_off {
                self.put_off = true;
                return Err(Refusal::new(Class::TooLarge, "", "it hangs on rare states, and others are asked first"));
            }
            if let Some(refusal) = &self.unsettled {
                return Err(refusal.clone());
            }
            if let Some(Ok(found)) = &self.known {
                match chain::settled(self.space.chain(), self.space.initial(), found, budget) {
                    Ok(whole) => self.known = Some(Ok(whole)),
                    Err(refusal) => {
                        self.unsettled = Some(refusal.clone());
                        return Err(refusal);
                    }
                }
            }
        }
        self.common_run(budget)
    }

    /// The long run, where rare states may be less well known.
    fn common_run(&mut self, budget: &mut Budget<'_>) -> Result<&LongRun, Refusal> {
        let Self { space, known, .. } = self;
        let solved = known.get_or_insert_with(|| chain::common(space.chain(), space.initial(), budget));
        solved.as_ref().map_err(Clone::clone)
    }

    /// The mean of `rewards` in the long run; rare states are solved for only where it may hang on them.
    fn in_the_long_run(&mut self, rewards: &[f64], budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let found = self.common_run(budget)?;
        let rare = found.least * chain::sum(rewards.iter().map(|reward| reward.abs()));
        if rare > 0.0 {
            let counts = found.distribution.iter().zip(rewards).map(|(share, reward)| share * reward.abs());
            if chain::sum(counts) < rare {
                return Ok(dot(&self.long_run(budget)?.distribution, rewards));
            }
        }
        Ok(dot(&found.distribution, rewards))
    }

    /// Closed classes of states; no long run is solved for them.
    pub(crate) fn bottoms(&self) -> usize {
        match &self.known {
            Some(Ok(long_run)) => long_run.bottoms,
            _ => chain::bottoms(self.space.chain()),
        }
    }

    /// Mean time until a closed class is entered. Where the long run inside of these cannot be solved, this may be known all the same.
    pub(crate) fn time_to_bottom(&mut self, budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let refusal = match self.common_run(budget) {
            Ok(long_run) => return Ok(long_run.time_to_bottom),
            Err(refusal) => refusal,
        };
        if refusal.class != Class::Unsupported {
            return Err(refusal);
        }
        let (closed, _) = chain::closed(self.space.chain());
        let reached = chain::passage(self.space.chain(), self.space.initial(), &closed, budget)?;
        // Nothing is lost on the way: a closed class is entered for certain.
        if (reached.probability - 1.0).abs() <= OFF { Ok(reached.mean) } else { Err(refusal) }
    }

    /// The mean of `rewards` at a time, or in the long run.
    pub(crate) fn mean(&mut self, at: Option<f64>, rewards: &[f64], budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let Some(at) = at else { return self.in_the_long_run(rewards, budget) };
        let Self { space, at: known, method, .. } = self;
        let (chain, initial) = (space.chain(), space.initial());
        let solved = known.entry(at.to_bits()).or_insert_with(|| chain::at(chain, initial, at, budget));
        let mean = solved.as_mut().map_err(|refusal| refusal.clone())?.mean(chain, rewards, budget)?;
        *method = mean.method;
        Ok(mean.value)
    }

    /// How far the value that was just found may be off, relatively.
    pub(crate) fn off(&mut self) -> f64 {
        self.method.take().map_or(0.0, |(_, error)| error)
    }

    /// Notes that this much of the value that is being found may be rounding, relatively.
    pub(crate) fn rounded(&mut self, error: f64) {
        let (_, known) = self.method.get_or_insert_with(|| ("what rounding leaves of a small one".to_owned(), 0.0));
        *known = known.max(error);
    }

    /// The probability that a condition holds at the start.
    pub(crate) fn initially(&self, condition: &Condition) -> f64 {
        let holds = self.holds(condition);
        let initial = self.space.initial().iter().filter(|(state, _)| holds[*state as usize]);
        // An empty sum is -0.0.
        initial.map(|(_, probability)| probability).sum::<f64>() + 0.0
    }

    /// The mean time until a condition holds.
    pub(crate) fn passage(&self, condition: &Condition, budget: &mut Budget<'_>) -> Result<Reached, Refusal> {
        chain::passage(self.space.chain(), self.space.initial(), &self.holds(condition), budget)
    }

    /// The time by which a condition has held with probability `level`.
    pub(crate) fn quantile(
        &mut self,
        condition: &Condition,
        level: f64,
        budget: &mut Budget<'_>,
    ) -> Result<f64, Refusal> {
        let goal = self.holds(condition);
        let found = chain::quantile(self.space.chain(), self.space.initial(), &goal, level, budget)?;
        self.method = found.method;
        Ok(found.value)
    }

    pub(crate) fn holds(&self, condition: &Condition) -> Vec<bool> {
        self.markings().map(|tokens| condition.holds_by(tokens)).collect()
    }

    /// The tokens of one place in each state.
    pub(crate) fn tokens(&self, place: usize) -> Vec<f64> {
        self.markings().map(|tokens| float(tokens(place))).collect()
    }

    /// Of the marking of each state, how many tokens a place has. To unpack all places takes long where there are thousands, each asked
    /// about by itself.
    pub(crate) fn markings(&self) -> impl Iterator<Item = impl Fn(usize) -> u64> {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let marking = |state: usize| self.space.marking_of(state as u32);
        (0..self.space.chain().len()).map(marking).map(move |marking| move |place| self.space.tokens(marking, place))
    }

    /// What `value` says of the marking of each state.
    pub(crate) fn map<T>(&self, mut value: impl FnMut(&[u64]) -> T) -> Vec<T> {
        let mut tokens = vec![0; self.space.places()];
        (0..self.space.chain().len())
            .map(|state| {
                self.load(state, &mut tokens);
                value(&tokens)
            })
            .collect()
    }

    pub(crate) fn load(&self, state: usize, tokens: &mut [u64]) {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        self.space.load(self.space.marking_of(state as u32), tokens);
    }

    /// Checks what is known of the long run, if it was asked for. With `symmetry` a marking stands for all that it can be exchanged
    /// into, and a place holds the mean of those that it can be exchanged with.
    ///
    /// # Errors
    /// It does not pass, or time is over.
    pub(crate) fn check(
        &self,
        net: &Net,
        symmetry: Option<&Symmetry>,
        budget: &mut Budget<'_>,
    ) -> Result<Checks, Refusal> {
        let Some(Ok(long_run)) = &self.known else { return Ok(Checks::default()) };
        self.passed(net, &self.flows(long_run), symmetry, budget)
    }

    /// [`Self::check`] of a long run that was found otherwise; a marking stands for itself.
    ///
    /// # Errors
    /// It does not pass, or time is over.
    pub(crate) fn balanced(&self, net: &Net, flows: &Flows<'_>, budget: &mut Budget<'_>) -> Result<Checks, Refusal> {
        self.passed(net, flows, None, budget)
    }

    fn passed(
        &self,
        net: &Net,
        flows: &Flows<'_>,
        symmetry: Option<&Symmetry>,
        budget: &mut Budget<'_>,
    ) -> Result<Checks, Refusal> {
        let checks = self.checks(net, flows, symmetry, budget)?;
        let Checks { residual, flow_balance, invariants } = checks;
        if [residual, flow_balance, invariants].iter().any(|off| off.is_nan() || *off > OFF) {
            let each = [
                ("flows into and out of a state", residual),
                ("what a place gets and gives away", flow_balance),
                ("sums of tokens that no firing changes", invariants),
            ];
            let failed: Vec<String> = each
                .into_iter()
                .filter(|(_, off)| off.is_nan() || *off > OFF)
                .map(|(what, off)| format!("{what} are {off:.1e} off"))
                .collect();
            let why = format!(
                "the solution does not pass its checks: relatively, {}, and {OFF:e} is let pass; {}",
                failed.join(", "),
                chain::apart(self.space.chain())
            );
            return Err(Refusal::new(Class::Unsupported, "", why));
        }
        Ok(checks)
    }

    /// What flows into each state less what flows out, and that.
    fn flows<'a>(&self, long_run: &'a LongRun) -> Flows<'a> {
        let chain = self.space.chain();
        let out: Vec<f64> = (0..chain.len()).map(|state| long_run.distribution[state] * chain.exit(state)).collect();
        let mut gains: Vec<f64> = out.iter().map(|out| -out).collect();
        for state in 0..chain.len() {
            chain.row(state).for_each(|(to, rate)| gains[to] += long_run.distribution[state] * rate);
        }
        Flows { distribution: &long_run.distribution, residual: long_run.residual, gains, out }
    }

    fn checks(
        &self,
        net: &Net,
        flows: &Flows<'_>,
        symmetry: Option<&Symmetry>,
        budget: &mut Budget<'_>,
    ) -> Result<Checks, Refusal> {
        // What flows into each state less what flows out, times the tokens there, says what a place gains.
        let weights = flows.gains.iter().zip(&flows.out).zip(flows.distribution);
        let sums = self.space.sums(weights.map(|((gain, flow), share)| [*gain, *flow, *share]));
        let sums = match symmetry {
            Some(symmetry) => (0..sums.len()).map(|place| mean(&sums, symmetry.orbit(place))).collect(),
            None => sums,
        };
        let balance = sums.iter().filter(|[_, gross, _]| *gross > 0.0).map(|[gain, gross, _]| (gain / gross).abs());
        let means: Vec<f64> = sums.iter().map(|[.., mean]| *mean).collect();
        Ok(Checks {
            residual: flows.residual,
            flow_balance: balance.fold(0.0, f64::max),
            invariants: invariant_error(net, &means, budget)?,
        })
    }
}

/// The mean of the sums of these places.
fn mean(sums: &[[f64; 3]], places: &[usize]) -> [f64; 3] {
    let all = places.iter().fold([0.0; 3], |all, place| std::array::from_fn(|at| all[at] + sums[*place][at]));
    all.map(|sum| sum / float(places.len() as u64))
}

/// A long run, and how it flows.
pub(crate) struct Flows<'a> {
    /// Share of time spent in each state.
    pub(crate) distribution: &'a [f64],
    /// The largest gain over the largest flow.
    pub(crate) residual: f64,
    /// What flows into each state less what flows out, and that.
    pub(crate) gains: Vec<f64>,
    pub(crate) out: Vec<f64>,
}

fn dot(distribution: &[f64], reward: &[f64]) -> f64 {
    chain::sum(distribution.iter().zip(reward).map(|(share, reward)| share * reward))
}

#[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
pub(crate) fn float(count: u64) -> f64 {
    // A number with a sign is turned by one instruction.
    i64::try_from(count).map_or(count as f64, |count| count as f64)
}
