//! A proof of endless growth where more tokens stop a firing: what is done once for each token is done more often each time.
//!
//! A way leads from a marking to one with more tokens. Both lie on a line of markings, `earlier + n · growth`. Where the way leads from each
//! marking of the line to one further up, for all n from 0, there is no end. Along the way places hold `at + by · n` tokens. Firings that
//! follow each other again and again, until they have used up a place that grows with n, are done `times + more · n` times.

use super::compiled::{Compiled, Immediate, Timed};
use super::proof::{Step, is_dead};
use crate::net::{Arc, Rate};

/// Firings that are done again and again together, at most.
const LONGEST: usize = 8;
/// Firings of a way, at most.
const FIRINGS: usize = 10_000;

/// What is left of a place for which firings are done again and again: less than they need, or as much as there is at the end, which may
/// be too few for something else to be stopped.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    UsedUp,
    Few,
}

/// `at + by · n`, for n from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    at: i64,
    by: i64,
}

impl Line {
    fn plus(self, tokens: i64) -> Option<Self> {
        Some(Self { at: self.at.checked_add(tokens)?, ..self })
    }

    /// Whether it is so many at least, whatever n is.
    fn holds(self, tokens: u64) -> bool {
        self.by >= 0 && u64::try_from(self.at).is_ok_and(|at| at >= tokens)
    }

    /// Whether it is fewer, whatever n is.
    fn lacks(self, tokens: u64) -> bool {
        self.by <= 0 && u64::try_from(self.at).map_or(true, |at| at < tokens)
    }
}

/// What a place holds when a firing happens for the first and for the last time in a row; in between it lies between both.
#[derive(Clone, Copy)]
struct Ends([Line; 2]);

impl Ends {
    fn holds(self, tokens: u64) -> bool {
        self.0.iter().all(|line| line.holds(tokens))
    }

    fn lacks(self, tokens: u64) -> bool {
        self.0.iter().all(|line| line.lacks(tokens))
    }
}

/// Whether the way of `steps` to the marking `later`, which holds more than the first one, leads up from each marking of their line.
pub(crate) fn climbs(net: &Compiled, steps: &[&Step], later: &[u64]) -> bool {
    let climbs = |until| climb(net, steps, later, until).is_some();
    steps.len() <= FIRINGS && (climbs(Until::UsedUp) || climbs(Until::Few))
}

fn climb(net: &Compiled, steps: &[&Step], later: &[u64], until: Until) -> Option<()> {
    let earlier = &steps.first()?.marking;
    let line = |(earlier, later): (&u64, &u64)| {
        let at = i64::try_from(*earlier).ok()?;
        Some(Line { at, by: i64::try_from(*later).ok()?.checked_sub(at)? })
    };
    let start: Vec<Line> = earlier.iter().zip(later).map(line).collect::<Option<_>>()?;
    let mut tokens = start.clone();
    let firings: Vec<usize> = steps.iter().map(|step| step.transition).collect();
    let mut done = 0;
    while done < firings.len() {
        done += again(net, &firings[done..], &mut tokens, until).or_else(|| once(net, firings[done], &mut tokens))?;
    }
    // With n = 0 the way ends at `later`, one further up. It must go up wherever it begins, and stay on the line.
    let (first, grown) = start.iter().zip(&tokens).find(|(start, _)| start.by > 0)?;
    let factor = grown.by / first.by;
    let on_line = |(start, end): (&Line, &Line)| Some(end.by) == start.by.checked_mul(factor);
    (factor >= 1 && start.iter().zip(&tokens).all(on_line)).then_some(())
}

/// One firing, which happens once whatever n is.
fn once(net: &Compiled, firing: usize, tokens: &mut Vec<Line>) -> Option<usize> {
    *tokens = repeated(net, &[firing], tokens, Line { at: 1, by: 0 })?;
    Some(1)
}

/// Firings that use up a place which holds more the larger n is: how many of `firings` they are.
fn again(net: &Compiled, firings: &[usize], tokens: &mut Vec<Line>, until: Until) -> Option<usize> {
    (1..=LONGEST.min(firings.len())).find_map(|long| {
        let word = &firings[..long];
        let times = firings.chunks_exact(long).take_while(|other| *other == word).count();
        if long > 1 && times == 1 {
            return None;
        }
        let changes = changes(net, word)?;
        let at = i64::try_from(times).ok()?;
        let used_up = |(tokens, change): (&Line, &i64)| {
            let left = tokens.at.checked_add(at.checked_mul(*change)?)?;
            let whole = *change < 0 && tokens.by > 0 && tokens.by % change == 0;
            (whole && (until == Until::Few || left < change.checked_neg()?)).then(|| tokens.by / -change)
        };
        let more = tokens.iter().zip(&changes).filter_map(used_up).min()?;
        *tokens = repeated(net, word, tokens, Line { at, by: more })?;
        Some(long * times)
    })
}

/// What firing `word` changes in each place.
fn changes(net: &Compiled, word: &[usize]) -> Option<Vec<i64>> {
    let mut changes = vec![0; net.places];
    word.iter().try_for_each(|firing| change(net, *firing, &mut changes))?;
    Some(changes)
}

fn change(net: &Compiled, firing: usize, changes: &mut [i64]) -> Option<()> {
    let add = |changes: &mut [i64], arc: &Arc, sign: i64| {
        let count = i64::try_from(arc.count).ok()?.checked_mul(sign)?;
        changes[arc.place] = changes[arc.place].checked_add(count)?;
        Some(())
    };
    let fire = &net.fires[firing];
    fire.inputs.iter().try_for_each(|arc| add(changes, arc, -1))?;
    fire.outputs.iter().try_for_each(|arc| add(changes, arc, 1))
}

/// What places hold after `word` was fired so many times, if it can be, whatever n is.
fn repeated(net: &Compiled, word: &[usize], tokens: &[Line], times: Line) -> Option<Vec<Line>> {
    let changes = changes(net, word)?;
    let after = |times: Line| {
        let after = |(tokens, change): (&Line, &i64)| {
            let at = tokens.at.checked_add(times.at.checked_mul(*change)?)?;
            Some(Line { at, by: tokens.by.checked_add(times.by.checked_mul(*change)?)? })
        };
        tokens.iter().zip(&changes).map(after).collect::<Option<Vec<Line>>>()
    };
    let last = after(times.plus(-1)?)?;
    let mut within = vec![0; net.places];
    for firing in word {
        let at = |place: usize| Some(Ends([tokens[place].plus(within[place])?, last[place].plus(within[place])?]));
        if !fires(net, *firing, &at)? {
            return None;
        }
        change(net, *firing, &mut within)?;
    }
    after(times)
}

/// Whether a transition may fire at both ends of a row, and between them.
fn fires(net: &Compiled, firing: usize, at: &impl Fn(usize) -> Option<Ends>) -> Option<bool> {
    let fire = &net.fires[firing];
    let every = |arcs: &[Arc], is: fn(Ends, u64) -> bool| {
        arcs.iter().map(|arc| Some(is(at(arc.place)?, arc.count))).collect::<Option<Vec<bool>>>()
    };
    if every(&fire.inputs, Ends::holds)?.contains(&false) || every(&fire.inhibitors, Ends::lacks)?.contains(&false) {
        return Some(false);
    }
    if let Some(timed) = net.timed.iter().find(|timed| timed.transition == firing)
        && !has_rate(timed, at)?
    {
        return Some(false);
    }
    // One and the same arc stops each immediate that would come first.
    let own = net.immediates.iter().find(|immediate| immediate.transition == firing);
    let first = |other: &&Immediate| own.is_none_or(|own| other.priority > own.priority);
    for other in net.immediates.iter().filter(first) {
        let other = &net.fires[other.transition];
        if !is_dead(other)
            && !every(&other.inputs, Ends::lacks)?.contains(&true)
            && !every(&other.inhibitors, Ends::holds)?.contains(&true)
        {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether no number of tokens that its place may hold makes its rate 0.
fn has_rate(timed: &Timed, at: &impl Fn(usize) -> Option<Ends>) -> Option<bool> {
    let Rate::ByTokens { place, rates } = &timed.rate else { return Some(true) };
    let Ends(ends) = at(*place)?;
    let last = rates.len() - 1;
    let entry = |tokens: i64| usize::try_from(tokens).map_or(last, |tokens| tokens.min(last));
    let least = ends.iter().map(|line| entry(line.at)).min()?;
    let most = ends.iter().map(|line| if line.by == 0 { entry(line.at) } else { last }).max()?;
    Some(ends.iter().all(|line| line.by >= 0) && timed.is_above_zero(least..=most))
}
