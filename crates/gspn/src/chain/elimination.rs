//! State reduction (Grassmann, Taksar, Heyman) on sparse rows, fewest new edges first.
//!
//! A state is taken out by leading what comes in past it: no two numbers are ever subtracted, so each result is right in nearly
//! all its digits however far the rates are apart. Who has it done looks at the clock and at the memory meanwhile.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;

use super::number::Number;
use crate::product::wide::Wide;

/// Edge operations after which the clock and the memory are looked at.
const LOOK: u64 = 1 << 20;
/// Bytes of a state that is there or taken out, and of an edge in the list of those that lead somewhere.
const STATE: u64 = 160;
const EDGE: usize = 8;

/// A row that becomes longer gets room for one in so many edges more.
const SPARE: usize = 8;

/// A rate below which others may have lost digits, or may have been lost.
const LITTLE: f64 = 1e-290;

/// A part of a chain: edges between its states, and the rate at which each state leaves the part.
#[derive(Debug, Default)]
pub(super) struct Part<T> {
    pub(super) rows: Vec<Vec<(u32, T)>>,
    pub(super) leaves: Vec<T>,
}

/// A part whose states were taken out one by one.
#[derive(Debug)]
pub(super) struct Eliminated<T> {
    steps: Vec<Step<T>>,
    /// Where the edges of each step start in `into` and `out`.
    into: Vec<(u32, T)>,
    out: Vec<(u32, T)>,
}

/// The state taken out, the rate at which it was left then, and its edges from and to states taken out later.
#[derive(Debug)]
struct Step<T> {
    state: u32,
    exit: T,
    into: (usize, usize),
    out: (usize, usize),
}

impl<T: Number> Eliminated<T> {
    /// Takes out all states of a part that is so small that no clock need be looked at. `None` when it would take more than `work` edge
    /// operations.
    pub(super) fn new(part: Part<T>, work: u64) -> Option<Self> {
        match Self::watched(part, work, |_| Ok::<(), Infallible>(())) {
            Ok(found) => found,
            Err(never) => match never {},
        }
    }

    /// Bytes of a part with so many states and edges before any of them is taken out.
    pub(super) fn bytes(states: usize, edges: usize) -> u64 {
        // An edge stands in its row, and in what it becomes.
        states as u64 * STATE + (edges * (EDGE + 2 * size_of::<(u32, T)>())) as u64
    }

    /// The same of those that are left, without what was taken out. Rows become shorter, too, and keep their memory.
    fn held(states: usize, edges: usize) -> u64 {
        let row = size_of::<(u32, T)>() + size_of::<(u32, T)>() / (SPARE / 2);
        states as u64 * STATE + (edges * (EDGE + row)) as u64
    }

    /// The same of any size. `look` is told every so often how many bytes are held, or will be soon.
    ///
    /// # Errors
    /// When `look` says so.
    #[expect(clippy::cast_possible_truncation, reason = "a part has fewer than `u32::MAX` states")]
    pub(super) fn watched<E>(
        part: Part<T>,
        mut work: u64,
        mut look: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<Self>, E> {
        let Part { mut rows, mut leaves } = part;
        let count = rows.len();
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (from, row) in rows.iter_mut().enumerate() {
            row.sort_unstable_by_key(|(to, _)| *to);
            for (to, _) in row.iter() {
                sources[*to as usize].push(from as u32);
            }
        }
        let fill = |rows: &[Vec<(u32, T)>], sources: &[Vec<u32>], state: usize| {
            rows[state].len() as u64 * sources[state].len() as u64
        };
        let mut queue: BinaryHeap<Reverse<(u64, u32)>> =
            (0..count).map(|state| Reverse((fill(&rows, &sources, state), state as u32))).collect();
        let mut done = vec![false; count];
        let mut result = Self { steps: Vec::with_capacity(count), into: Vec::new(), out: Vec::new() };
        let mut merged = Vec::new();
        let mut edges: usize = rows.iter().map(Vec::len).sum();
        let mut looks = work.saturating_sub(LOOK);
        while let Some(Reverse((cost, state))) = queue.pop() {
            let at = state as usize;
            if done[at] {
                continue;
            }
            let now = fill(&rows, &sources, at);
            if now != cost {
                queue.push(Reverse((now, state)));
                continue;
            }
            done[at] = true;
            if work < looks {
                looks = work.saturating_sub(LOOK);
                // No state that is left costs less. As long as they are not all each other's neighbours it hardly gets less than a third of that,
                // either: what will take too much is not gone on with.
                let wide = cost.isqrt();
                let left = ((count - result.steps.len()) as u64).saturating_sub(2 * wide);
                if left.saturating_mul(cost * 2 / 3) > work {
                    return Ok(None);
                }
                let taken = (result.into.len() + result.out.len()) as u64 + left * wide;
                look(Self::held(count, edges) + taken * size_of::<(u32, T)>() as u64)?;
            }
            let row = std::mem::take(&mut rows[at]);
            edges -= row.len();
            let exit = row.iter().fold(leaves[at], |sum, (_, rate)| sum + *rate);
            let into = result.into.len();
            for source in std::mem::take(&mut sources[at]) {
                let from = source as usize;
                let Ok(position) = rows[from].binary_search_by_key(&state, |(to, _)| *to) else { continue };
                let (_, rate) = rows[from].remove(position);
                result.into.push((source, rate));
                let part = rate / exit;
                let leaving = part * leaves[at];
                leaves[from] += leaving;
                let Some(left) = work.checked_sub((rows[from].len() + row.len()) as u64) else { return Ok(None) };
                work = left;
                let before = rows[from].len() + 1;
                merge(&mut rows[from], &row, source, part, &mut merged, |to| sources[to as usize].push(source));
                edges = edges + rows[from].len() - before;
            }
            for (to, _) in &row {
                sources[*to as usize].retain(|from| *from != state);
            }
            let out = result.out.len();
            result.out.extend_from_slice(&row);
            result.steps.push(Step { state, exit, into: (into, result.into.len()), out: (out, result.out.len()) });
        }
        Ok(Some(result))
    }

    /// Time spent in each state when `inflow` comes in from outside: `x exit = inflow + x Q`. For a part that nothing leaves: some
    /// solution, if `inflow` adds up to 0.
    pub(super) fn occupancy(&self, mut inflow: Vec<T>) -> Vec<T> {
        let none = T::default();
        for step in &self.steps {
            let part = inflow[step.state as usize] / step.exit;
            if part != none {
                for (to, rate) in &self.out[step.out.0..step.out.1] {
                    inflow[*to as usize] += part * *rate;
                }
            }
        }
        let mut time = inflow;
        for step in self.steps.iter().rev() {
            let state = step.state as usize;
            let into = &self.into[step.into.0..step.into.1];
            let arriving = into.iter().fold(none, |sum, (from, rate)| sum + time[*from as usize] * *rate);
            time[state] = if step.exit == none { none } else { (time[state] + arriving) / step.exit };
        }
        time
    }

    /// What each state collects until the part is left, `right` each time unit: `x exit = right + Q x`. For a part that nothing leaves:
    /// the solution that is 0 in one state, if there is one.
    pub(super) fn backward(&self, mut right: Vec<T>) -> Vec<T> {
        let none = T::default();
        for step in &self.steps {
            let each = right[step.state as usize] / step.exit;
            if each != none {
                for (from, rate) in &self.into[step.into.0..step.into.1] {
                    right[*from as usize] += each * *rate;
                }
            }
        }
        let mut worth = right;
        for step in self.steps.iter().rev() {
            let state = step.state as usize;
            let out = &self.out[step.out.0..step.out.1];
            let onward = out.iter().fold(none, |sum, (to, rate)| sum + worth[*to as usize] * *rate);
            worth[state] = if step.exit == none { none } else { (worth[state] + onward) / step.exit };
        }
        worth
    }

    /// How many edges it holds.
    pub(super) fn entries(&self) -> usize {
        self.into.len() + self.out.len()
    }
}

impl Eliminated<f64> {
    /// Whether some rate came near the least or the most that a number can say: then others may be lost.
    pub(super) fn doubtful(&self) -> bool {
        let exits = self.steps.iter().take(self.steps.len().saturating_sub(1)).map(|step| step.exit);
        let rates = self.into.iter().chain(&self.out).map(|(_, rate)| *rate);
        exits.chain(rates).any(|rate| !(LITTLE..f64::INFINITY).contains(&rate))
    }

    /// The stationary distribution of a part that nothing leaves.
    pub(super) fn stationary(&self) -> Vec<f64> {
        let mut weights = vec![0.0; self.steps.len()];
        let mut steps = self.steps.iter().rev();
        if let Some(last) = steps.next() {
            weights[last.state as usize] = 1.0;
        }
        for step in steps {
            let arriving: f64 =
                self.into[step.into.0..step.into.1].iter().map(|(from, rate)| weights[*from as usize] * rate).sum();
            let weight = arriving / step.exit;
            weights[step.state as usize] = weight;
            if weight > 1e250 {
                weights.iter_mut().for_each(|weight| *weight *= 1e-250);
            }
        }
        super::solve::normalize(&mut weights);
        weights
    }
}

impl Eliminated<Wide> {
    /// The stationary distribution of a part that nothing leaves; what is less than a number can say is 0.
    pub(super) fn stationary(&self) -> Vec<f64> {
        let mut weights = vec![Wide::ZERO; self.steps.len()];
        let mut steps = self.steps.iter().rev();
        if let Some(last) = steps.next() {
            weights[last.state as usize] = Wide::ONE;
        }
        for step in steps {
            let into = &self.into[step.into.0..step.into.1];
            let arriving = into.iter().fold(Wide::ZERO, |sum, (from, rate)| sum + weights[*from as usize] * *rate);
            weights[step.state as usize] = arriving / step.exit;
        }
        let all = weights.iter().fold(Wide::ZERO, |sum, weight| sum + *weight);
        weights.into_iter().map(|weight| weight.over(all)).collect()
    }
}

/// Adds `part` times `other` to `row`, without an edge to `own`; tells `new` each state that `row` did not lead to.
fn merge<T: Number>(
    row: &mut Vec<(u32, T)>,
    other: &[(u32, T)],
    own: u32,
    part: T,
    merged: &mut Vec<(u32, T)>,
    mut new: impl FnMut(u32),
) {
    merged.clear();
    let mut old = row.iter().copied().peekable();
    for (to, rate) in other.iter().filter(|(to, _)| *to != own) {
        while let Some(entry) = old.next_if(|(at, _)| at < to) {
            merged.push(entry);
        }
        match old.next_if(|(at, _)| at == to) {
            Some((_, before)) => merged.push((*to, before + part * *rate)),
            None => {
                merged.push((*to, part * *rate));
                new(*to);
            }
        }
    }
    merged.extend(old);
    if merged.len() > row.capacity() {
        // What is there is written anew. Rows that took over the memory of longer ones would have several times what they need.
        row.clear();
        row.reserve_exact(merged.len() + merged.len() / SPARE);
    }
    row.clear();
    row.extend_from_slice(merged);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows are merged by way of one vector, which becomes as long as the longest.
    #[test]
    fn a_short_row_has_no_memory_of_a_long_one() {
        let long: Vec<(u32, f64)> = (10..1_010).map(|to| (to, 1.0)).collect();
        let (mut first, mut second, mut merged) = (vec![(1, 1.0)], vec![(1, 1.0)], Vec::new());
        merge(&mut first, &long, 0, 0.5, &mut merged, |_| ());
        merge(&mut second, &[(0, 1.0), (1, 1.0), (2, 4.0)], 0, 0.5, &mut merged, |_| ());
        assert_eq!((first.len(), &second), (1_001, &vec![(1, 1.5), (2, 2.0)]));
        assert!(first.capacity() <= 1_001 + 1_001 / SPARE && second.capacity() <= 4, "{}", second.capacity());
    }

    /// States that know some others all over.
    fn wide(count: u32, each: u32) -> Part<f64> {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as u32 % count
        };
        let row = |state: u32| {
            let mut row: Vec<u32> = (0..each).map(|_| next()).chain([(state + 1) % count]).collect();
            row.sort_unstable();
            row.dedup();
            row.into_iter().filter(|to| *to != state).map(|to| (to, 1.0)).collect()
        };
        Part { rows: (0..count).map(row).collect(), leaves: vec![0.0; count as usize] }
    }

    #[test]
    fn who_looks_is_told_what_is_held_and_may_say_stop() {
        let (mut most, mut looks) = (0, 0_u64);
        let found = Eliminated::watched(wide(600, 4), u64::MAX, |bytes| {
            (most, looks) = (bytes.max(most), looks + 1);
            Ok::<(), ()>(())
        });
        let held = found.unwrap().unwrap().entries() * size_of::<(u32, f64)>();
        assert!(looks > 5 && most >= held as u64, "{looks} looks, {most} of {held} bytes");
        let mut left = 3;
        let stopped = Eliminated::watched(wide(600, 4), u64::MAX, |_| {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(()) }
        });
        assert!(stopped.is_err() && left == 0, "{left}");
    }

    #[test]
    fn what_will_take_too_much_is_not_gone_on_with() {
        let work = 400 * LOOK;
        let mut looks = 0;
        let found = Eliminated::watched(wide(3_000, 4), work, |_| {
            looks += 1;
            Ok::<(), ()>(())
        });
        assert!(found.unwrap().is_none() && looks < 300, "{looks} looks at a four-hundredth each");
    }
}
