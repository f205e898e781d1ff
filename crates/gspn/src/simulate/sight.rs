//! What looks at the runs of a net have shown, and what is said of its long run.

use super::Estimate;
use super::Meter;
use super::balance::Drift;
use super::known::{self, Known, LOOKS};
use super::long_run::Runs;
use super::model::Model;
use super::passing::{self, LIMITS, Passing};
use super::walk::{End, Ends};
use crate::ask::Ask;
use crate::net::Net;
use crate::{Class, Refusal};

/// Runs that ended alike and show that all do.
pub(super) const SAME: usize = 1_024;

/// A measure after a look.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) estimate: Estimate,
    /// More runs say more than longer ones.
    pub(super) mixed: bool,
}

/// What has been seen.
#[derive(Debug)]
pub(super) struct Sight<'a> {
    net: &'a Net,
    asks: &'a [Ask],
    model: &'a Model,
    /// What each half-width is to be of its mean.
    relative: f64,
    /// The most runs.
    most: usize,
    passing: Passing,
    ends: Option<Ends>,
    known: Option<Known>,
    /// By measure.
    looks: Vec<Look>,
    /// There was none before.
    first: bool,
    drifts: Vec<Drift>,
    /// How many of the runs that were looked at were on their way to where the net stays, and how many these were.
    on_the_way: usize,
    looked: usize,
    /// What a walk came to that the net never comes back from.
    end: Option<End>,
    /// There may be ends that none of the runs has come to,
    unseen: bool,
    /// and a few more may.
    few: bool,
}

impl<'a> Sight<'a> {
    pub(super) fn of((net, asks): (&'a Net, &'a [Ask]), model: &'a Model, relative: f64, most: usize) -> Self {
        Self {
            net,
            asks,
            model,
            relative,
            most,
            passing: Passing::of(net),
            ends: None,
            known: None,
            looks: Vec::new(),
            first: true,
            drifts: Vec::new(),
            on_the_way: 0,
            looked: 0,
            end: None,
            unseen: false,
            few: false,
        }
    }

    /// Whether all runs end in one closed class, so that they cannot have ended differently.
    pub(super) fn is_one(&self) -> bool {
        self.passing.is_one()
    }

    /// Looks at runs that have come as far as they were to, or, if not `done`, not all of them.
    pub(super) fn look(&mut self, all: &mut Runs<'_>, done: bool, meter: &mut Meter<'_, '_>) {
        self.first = self.looks.is_empty();
        if done || self.first {
            all.weigh();
            let machines = all.machines(usize::MAX);
            let seen = self.passing.ends(machines.iter().copied());
            let seen = seen.unwrap_or_else(|| self.ends().seen(&machines));
            (self.on_the_way, self.looked) = (self.passing.count(machines.iter().copied()), machines.len());
            all.seen = seen;
            self.looks = (0..all.measures.len()).map(|measure| all.look(measure, self.relative)).collect();
            self.drifts = all.balance.drifts(self.relative);
        }
        if done && self.known.is_none() {
            // Once, and not where the limit came before.
            self.known = Some(Known::of(self.net, self.asks, LIMITS, LOOKS, meter));
        }
        // An end that no run has come to: what is known has it in it, for the rest there are to be more runs.
        let open = |(measure, look)| !self.has(measure) || self.against(measure, look).is_some();
        self.unseen = all.seen.unseen && !all.dead() && self.looks.iter().enumerate().any(open);
        self.few = self.unseen && all.runs.len() < SAME.min(self.most);
    }

    fn ends(&mut self) -> &Ends {
        self.ends.get_or_insert_with(|| Ends::of(self.net, self.model))
    }

    /// Whether the markings say what a measure is,
    fn has(&self, measure: usize) -> bool {
        self.known.as_ref().is_some_and(|it| it.has(measure))
    }

    /// and that the runs show something else.
    fn against(&self, measure: usize, look: &Look) -> Option<f64> {
        self.known.as_ref()?.against(measure, &look.estimate)
    }

    /// What goes on leaving or filling a place that a measure is about.
    fn hidden(&self, all: &Runs<'_>, measure: usize) -> Option<&Drift> {
        self.drifts.iter().find(|drift| drift.hides(all.level(measure)))
    }

    /// Whether an end that no run has come to would say something else of a measure.
    fn is_lacking(&self, all: &Runs<'_>, measure: usize) -> bool {
        self.unseen && !self.has(measure) && (self.few || all.seen.sure)
    }

    /// Whether each interval is as narrow as is wanted, and nothing is against it.
    pub(super) fn is_enough(&self, all: &Runs<'_>) -> bool {
        let sure = |(measure, look): (usize, &Look)| {
            look.estimate.reached
                && !self.is_lacking(all, measure)
                && self.hidden(all, measure).is_none()
                && self.against(measure, look).is_none()
        };
        self.on_the_way == 0 && all.running().is_none() && self.looks.iter().enumerate().all(sure)
    }

    /// Before anything is said of a net that is too large to know where it stays: whether nothing is found beyond the markings that are known
    /// which speaks against it. Runs that have begun since the look are none of what is said.
    pub(super) fn stands(&mut self, all: &Runs<'_>, meter: &Meter<'_, '_>) -> bool {
        if all.dead() || self.on_the_way > 0 || !self.passing.is_open() {
            return true;
        }
        let machines = all.machines(self.looked);
        if !self.passing.further(self.net, meter.firings) {
            let model = self.model;
            self.end = self.ends().search(model, all.seed, &machines, meter.firings);
            return self.end.is_none();
        }
        (self.on_the_way, self.end) = (self.passing.count(machines.iter().copied()), None);
        // What the next look finds of them, if it is not what this one knew.
        let seen = self.passing.ends(machines.iter().copied()).unwrap_or_default();
        self.on_the_way == 0 && !seen.unseen && seen.differently <= all.seen.differently
    }

    /// Whether no more runs than there may be say what a measure is.
    pub(super) fn is_hopeless(&self, all: &Runs<'_>) -> bool {
        let lacking = (0..self.looks.len()).any(|measure| self.is_lacking(all, measure));
        !self.few && lacking || all.dead() && all.runs.len() >= self.most
    }

    /// Whether more runs are wanted rather than longer ones. They would begin at the start again, where those that there are have not left
    /// it yet: none then.
    pub(super) fn wants_runs(&self, all: &Runs<'_>, round: usize) -> bool {
        let may = all.runs.len() < self.most && self.on_the_way == 0 && self.end.is_none();
        may && (all.dead() || self.few || !round.is_multiple_of(3) && self.looks.iter().any(|look| look.mixed))
    }

    /// What is said, by measure; `done` of runs that have come as far as they were to.
    pub(super) fn answers(&self, all: &Runs<'_>, done: bool) -> Vec<Result<Estimate, Refusal>> {
        let of = |(measure, look)| self.answer(all, done || !self.first, measure, look);
        self.looks.iter().enumerate().map(of).collect()
    }

    /// `long` enough for a drift not to be that of the start.
    fn answer(&self, all: &Runs<'_>, long: bool, measure: usize, look: &Look) -> Result<Estimate, Refusal> {
        if self.on_the_way > 0 {
            return Err(passing::refusal((self.on_the_way, self.looked)));
        }
        if let Some((transition, time)) = all.running() {
            return Err(still(&self.model.names[transition], time));
        }
        let hidden = self.hidden(all, measure);
        if let Some(drift) = hidden.filter(|_| long) {
            return Err(drift.refusal(self.model));
        }
        if let Some(end) = self.end {
            return Err(end.refusal(self.model));
        }
        if self.is_lacking(all, measure) {
            return Err(passing::unseen(all.runs.len()));
        }
        if hidden.is_some() {
            return Ok(Estimate { reached: false, ..look.estimate });
        }
        if let Some(value) = self.against(measure, look) {
            return Err(known::refusal(&look.estimate, value));
        }
        let level = all.level(measure).filter(|_| long && !look.estimate.reached);
        match level.and_then(|level| all.balance.moves(level)) {
            Some(drift) => Err(drift.refusal(self.model)),
            None => Ok(look.estimate),
        }
    }
}

/// Why there is no long run where a fixed time has been running for so long.
fn still(transition: &str, time: f64) -> Refusal {
    let why = format!(
        "`{transition}` had been running for {time:.3e} time units when the limit of firings or of time was reached, and what follows on it was \
         hardly seen: allow more, or ask `solve`"
    );
    Refusal::new(Class::TooLarge, "", why)
}
