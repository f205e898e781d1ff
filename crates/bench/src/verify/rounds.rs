//! What the rounds say of a row.

use cost::whatif::Row;

use super::answers::Found;
use super::verdict::{Held, MEASURABLE, Renewed};
use crate::Failed;
use crate::record::{half, median};
use crate::state::{self, Beside, Foreseen};

/// What the rounds say of a row.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    pub(super) singles: Vec<Single>,
    /// Sums of the runs.
    renewed: Renewed,
    /// Their seconds, and how many of these count.
    pub(super) seconds: (f64, f64),
}

/// A run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Single {
    /// The round, from 0.
    round: u32,
    /// The state of the machine.
    pub(super) state: usize,
    predicted: Figures,
    measured: Figures,
    /// Requests a second of all of its time.
    whole: f64,
    /// Whether only what was quiet counts.
    quiet: bool,
}

/// Requests a second, and the other figures of [`Held`].
#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: f64,
    p95: f64,
    cpu: f64,
    storm: f64,
}

impl Rounds {
    pub(super) fn add(&mut self, round: u32, state: usize, row: &Row, found: Found) -> Result<(), Failed> {
        if found.all.answered == 0.0 {
            return Err("nothing was answered in the time".into());
        }
        self.renewed.keys += found.renewed.keys;
        self.renewed.tokens += found.renewed.tokens;
        let (storm, all) = (found.storm, found.all.seconds);
        let (whole, quiet) = (found.all.answered / all, found.is_quiet());
        let mut found = found.counting();
        self.seconds = (self.seconds.0 + all, self.seconds.1 + found.seconds);
        found.waits.sort_by(f64::total_cmp);
        let (waits, at) = (&found.waits, (found.waits.len() * 95).div_ceil(100).max(1) - 1);
        let (rate, answered) = (row.throughput.value, found.answered);
        let predicted = Figures {
            rate,
            p95: row.response.p95.value,
            cpu: row.server_busy.value / rate,
            storm: row.storm_here.value,
        };
        let p95 = *waits.get(at).ok_or("nobody waited for an answer")?;
        let measured = Figures { rate: answered / found.seconds, p95, cpu: found.cpu / answered, storm };
        self.singles.push(Single { round, state, predicted, measured, whole, quiet });
        Ok(())
    }

    /// Those of rounds that are `counted`.
    pub(super) fn chosen<'a>(&'a self, counted: &'a [bool]) -> impl Iterator<Item = Single> + 'a {
        let counts = |single: &&Single| counted.get(single.round as usize).is_some_and(|counted| *counted);
        self.singles.iter().filter(counts).copied()
    }

    /// Of the rounds that are `counted`.
    pub(super) fn held(&self, row: &Row, counted: &[bool], common: Option<usize>) -> Option<Held> {
        let chosen = state::quiet(&self.chosen(counted).collect::<Vec<_>>(), |single| single.quiet);
        let groups = state::alike(&chosen, |single| single.state, common);
        let beside = |groups: &[Vec<Single>], of: fn(&Figures) -> f64| {
            let values = |group: &[Single], which: fn(&Single) -> &Figures| {
                group.iter().map(|single| of(which(single))).collect::<Vec<_>>()
            };
            let all = |which: fn(&Single) -> &Figures| groups.iter().map(|it| values(it, which)).collect::<Vec<_>>();
            Beside::of(&all(|single| &single.predicted), &all(|single| &single.measured))
        };
        let both = |of| beside(&groups, of).map(|it| (it.predicted, it.measured));
        let every = |of: fn(&Single) -> f64| [self.singles.iter().map(of).collect::<Vec<_>>()];
        let whole = Beside::of(&every(|it| it.predicted.rate), &every(|it| it.whole))?;
        let rate = beside(&groups, |it| it.rate)?;
        let errors = self.singles.iter().map(|single| single.predicted.rate / single.measured.rate - 1.0);
        let (errors, every): (Vec<f64>, _) = (errors.collect(), self.singles.len() as f64);
        Some(Held {
            setting: row.setting,
            clients: row.clients,
            predicted: rate.predicted,
            measured: rate.measured,
            half_width: rate.half_width,
            error: rate.error,
            all: (whole.error, whole.half_width),
            by_round: (median(&errors)?, half(&errors)?),
            moved: rate.predicted / row.throughput.value - 1.0,
            measurable: rate.measurable(MEASURABLE),
            p95: both(|it| it.p95)?,
            cpu: both(|it| it.cpu)?,
            storm: both(|it| it.storm)?,
            renewed: Renewed { keys: self.renewed.keys / every, tokens: self.renewed.tokens / every },
            runs: rate.runs as u64,
        })
    }
}

/// What each of so many rounds predicted of each row that was run in it.
pub(super) fn foreseen(all: &[Rounds], rounds: u32) -> Vec<Vec<Foreseen>> {
    let mut foreseen = vec![vec![None; all.len()]; rounds as usize];
    for (row, single) in all.iter().enumerate().flat_map(|(row, it)| it.singles.iter().map(move |single| (row, single)))
    {
        if let Some(of) = foreseen.get_mut(single.round as usize).and_then(|round| round.get_mut(row)) {
            *of = Some((single.state, single.predicted.rate));
        }
    }
    foreseen
}

#[cfg(test)]
mod tests {
    use cost::whatif::{Figure, Response, Setting};

    use super::super::answers::Sums;
    use super::*;

    /// Two states of the machine: what is measured in the rarer one widens no interval, and is in no median; all rounds stand beside.
    #[test]
    fn rounds_of_another_state_do_not_count() {
        let figure = |value: f64| Figure { value, error: 0.0 };
        let one = figure(1.0);
        let row = Row {
            setting: Setting::NONE,
            clients: 1,
            throughput: figure(100.0),
            saturation: one,
            response: Response { mean: one, p50: one, p95: one, p99: one },
            server_busy: one,
            storm: one,
            storm_here: one,
            limited_by: "server",
            largest: (String::new(), 1.0),
            difference: None,
        };
        let run = |rounds: &mut Rounds, round: u32, state: usize, (predicted, answered): (f64, u64)| {
            let all = Sums { answered: answered as f64, seconds: 1.0, cpu: 1.0, waits: vec![0.5] };
            let found = Found { all, ..Found::default() };
            rounds.add(round, state, &Row { throughput: figure(predicted), ..row.clone() }, found).unwrap();
        };
        let mut rounds = Rounds::default();
        for round in 0..16 {
            // Predicted too high where it is slow, and measured as slow.
            run(&mut rounds, round, 0, if round % 4 == 3 { (80.0, 70) } else { (101.0, 100) });
        }
        let which = state::counted(&foreseen(std::slice::from_ref(&rounds), 16));
        assert!((0..16).all(|round| which[round] == (round % 4 != 3)));
        let held = rounds.held(&row, &which, Some(0)).unwrap();
        assert_eq!((held.runs, held.measured, held.half_width, held.measurable), (12, 100.0, 0.0, true));
        assert!((held.error - 0.01).abs() < 1e-12 && (held.by_round.0 - 0.01).abs() < 1e-12);
        assert!(held.all.1 > MEASURABLE, "{:?}", held.all);
        let few = which.iter().enumerate().map(|(at, it)| *it && at > 3).collect::<Vec<_>>();
        let few = rounds.held(&row, &few, Some(0)).unwrap();
        assert!(few.runs == 9 && !few.measurable, "nine rounds");
        // Where the distance of the processors tells them apart, each round counts, and the row is of the commoner state.
        let mut rounds = Rounds::default();
        for round in 0..16 {
            let slow = round % 3 == 2;
            run(&mut rounds, round, usize::from(slow), if slow { (80.0, 70) } else { (101.0, 100) });
        }
        let which = state::counted(&foreseen(std::slice::from_ref(&rounds), 16));
        assert_eq!(which, [true; 16]);
        let held = rounds.held(&row, &which, Some(0)).unwrap();
        assert_eq!((held.runs, held.measured, held.half_width, held.measurable), (11, 100.0, 0.0, true));
        // A row that was near its end was not run in some rounds: its runs stay with the rounds in which they were.
        let (mut always, mut seldom) = (Rounds::default(), Rounds::default());
        for round in 0..16 {
            let slow = round % 4 == 3;
            run(&mut always, round, 0, if slow { (80.0, 70) } else { (101.0, 100) });
            if round % 2 == 1 {
                run(&mut seldom, round, 0, if slow { (8.0, 7) } else { (10.0, 10) });
            }
        }
        let which = state::counted(&foreseen(&[always.clone(), always, seldom.clone()], 16));
        assert!((0..16).all(|round| which[round] == (round % 4 != 3)));
        let held = seldom.held(&row, &which, Some(0)).unwrap();
        assert_eq!((held.runs, held.measured, held.measurable), (4, 10.0, false));
        seldom.singles.retain(|single| single.round % 4 == 3);
        assert_eq!(seldom.chosen(&which).count(), 0);
    }
}
