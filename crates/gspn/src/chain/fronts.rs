//! State reduction (Grassmann, Taksar, Heyman) piece by piece: in an order by [`dissection`], with the rates between a piece and what it
//! touches in one square. Nets over two populations that are too wide for a [`band`](super::band) are reduced so in some seconds,
//! and as in `elimination` no two numbers are ever subtracted.

use std::ops::Range;

use super::dissection::{Piece, pieces};
use super::number::Number;
use super::solve::{Component, normalize};
use crate::product::wide::Wide;
use crate::{Budget, Progress, Refusal};

/// States from which it is worth a look.
const LEAST: usize = 5_000;
/// Work of an edge and state that groups of states mostly are, of so many at most: of more, cycles over groups take less than an order does.
const NEXT: u64 = 10_000;
const MOST: usize = 700_000;
/// What nobody waits longer for.
const LAST: u64 = 100_000_000_000;
/// Work after which the clock is looked at.
const LOOK: u64 = 1 << 25;
/// Pieces of which is found what they touch before the clock is looked at.
const PIECES: usize = 4_096;
/// Bytes of a state, of its neighbours and of its part of the order.
const STATE: u64 = 64;
/// States that are taken out at once.
const AT_ONCE: usize = 4;
/// Where something was lost of rates, states are left at so much at least, and at so much of the largest rate at which one is.
const PLAIN: (f64, f64) = (1e-100, 1e-20);

/// In which order the states are taken out, and what each piece touches.
pub(super) struct Fronts {
    pieces: Vec<Piece>,
    /// Of each piece the states that are taken out later and that it, or what lies on its sides, leads to or comes from.
    around: Vec<Vec<u32>>,
    entries: u64,
    work: u64,
}

/// The states of a component taken out.
pub(super) struct Reduced {
    fronts: Fronts,
    steps: Steps,
}

/// What taking them out came to.
#[derive(Default)]
struct Steps {
    /// Of each state, in the order in which they are taken out, the rate at which it was left.
    exits: Vec<f64>,
    /// The rates from the states behind it in its front, and to them.
    into: Vec<f64>,
    out: Vec<f64>,
    /// Whether a rate was less than a number can say.
    lost: bool,
    /// The least rate at which a state was left, and the largest.
    least: f64,
    most: f64,
}

impl Fronts {
    /// Where it is not more work than groups of states mostly are; for a distribution `alone`, or for any number of right sides.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn next(
        component: &Component<'_>,
        alone: bool,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Self>, Refusal> {
        if component.nodes.len() > MOST {
            return Ok(None);
        }
        let edges: usize = component.nodes.iter().map(|node| component.chain.targets(*node as usize).count()).sum();
        Self::within(component, NEXT * (edges + component.nodes.len()) as u64, alone, budget)
    }

    /// Where it is not more than anybody waits for, for a distribution alone.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn last(component: &Component<'_>, budget: &mut Budget<'_>) -> Result<Option<Self>, Refusal> {
        Self::within(component, LAST, true, budget)
    }

    fn within(
        component: &Component<'_>,
        most: u64,
        alone: bool,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Self>, Refusal> {
        let count = component.nodes.len();
        if count < LEAST || budget.bytes(component.bytes() + STATE * count as u64).is_err() {
            return Ok(None);
        }
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        let neighbours = |state: u32, tell: &mut dyn FnMut(u32)| {
            let node = component.nodes[state as usize] as usize;
            let from = component.incoming.column(node).map(|(from, _)| from);
            let others = component.chain.targets(node).chain(from).filter_map(|other| component.local(other));
            others.for_each(|other| tell(other as u32));
        };
        // A third of the cube of its states is the work of a piece alone.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a root of a count"
        )]
        let widest = (3.0 * most as f64).cbrt() as usize;
        let mut spent = None;
        let mut goes_on = || {
            spent = budget.look(Progress::Solving { sweeps: 0, error: 1.0 }).err();
            spent.is_none()
        };
        let Some(pieces) = pieces(count, widest, &neighbours, &mut goes_on) else {
            return spent.map_or(Ok(None), Err);
        };
        // The place of each state in the order.
        let mut places = vec![u32::MAX; count];
        for (state, place) in pieces.iter().flat_map(|piece| &piece.states).zip(0..) {
            places[*state as usize] = place;
        }
        let mut found = Self { pieces, around: Vec::new(), entries: 0, work: 0 };
        let (mut first, mut held, mut largest) = (0_u32, 0_u64, 0_u64);
        for (index, piece) in found.pieces.iter().enumerate() {
            if index.is_multiple_of(PIECES) {
                budget.look(Progress::Solving { sweeps: 0, error: 1.0 })?;
            }
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            let next = first + piece.states.len() as u32;
            let mut around: Vec<u32> =
                piece.sides.iter().flat_map(|side| found.around[*side].iter().copied()).collect();
            piece.states.iter().for_each(|state| neighbours(*state, &mut |other| around.push(other)));
            around.retain(|state| places[*state as usize] >= next);
            around.sort_unstable_by_key(|state| places[*state as usize]);
            around.dedup();
            let (own, all) = (piece.states.len() as u64, (piece.states.len() + around.len()) as u64);
            found.work += own * all * all;
            found.entries += own * all;
            held += all * all;
            largest = largest.max(held);
            held -= all * all - (all - own) * (all - own);
            held -= piece.sides.iter().map(|side| (found.around[*side].len() as u64).pow(2)).sum::<u64>().min(held);
            found.around.push(around);
            first = next;
            if found.work > most {
                return Ok(None);
            }
        }
        let entries = if alone { found.entries } else { 2 * found.entries };
        let bytes = component.bytes() + STATE * count as u64 + 8 * (entries + largest + largest / 4);
        Ok(budget.bytes(bytes).is_ok().then_some(found))
    }

    /// The stationary distribution of a component that nothing leaves; `None` where rates become less than a number can say.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn stationary(
        self,
        component: &Component<'_>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Vec<f64>>, Refusal> {
        let Some(reduced) = self.taken_out(component, None, (false, |_| false), budget)? else {
            return Ok(None);
        };
        // The range of weights may be larger than that of numbers.
        let mut weights = vec![Wide::ZERO; component.nodes.len()];
        reduced.backward(&reduced.steps.into, &mut weights, |weights, state, exit, arriving| {
            // The one that is taken out last is not left.
            weights[state] = if exit > 0.0 { arriving / exit.into() } else { Wide::ONE };
        });
        let all = weights.iter().fold(Wide::ZERO, |sum, weight| sum + *weight);
        let mut weights: Vec<f64> = weights.into_iter().map(|weight| weight.over(all)).collect();
        normalize(&mut weights);
        Ok(weights.iter().all(|weight| weight.is_finite()).then_some(weights))
    }

    /// Takes out all states; what enters `end` leaves. `None` where a rate is less than a number can say: what is lost of it may be the only way.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn reduced(
        self,
        component: &Component<'_>,
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Reduced>, Refusal> {
        self.taken_out(component, end, (true, |_| false), budget)
    }

    /// The same for what states collect: where all are left soon, no more can hang on what is lost than 1e-323 over the least rate at which
    /// one is, times what is collected.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn reduced_to_collect(
        self,
        component: &Component<'_>,
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Reduced>, Refusal> {
        let plain = |Steps { least, most, .. }: &Steps| *least >= PLAIN.0 && *least >= PLAIN.1 * most;
        self.taken_out(component, end, (true, plain), budget)
    }

    /// Takes out all states, and keeps the rates into them, or those `both` ways. `None` where one is not left at a rate that a number can say,
    /// and where something is lost that is not `let_pass`.
    fn taken_out(
        self,
        component: &Component<'_>,
        end: Option<usize>,
        (both, let_pass): (bool, fn(&Steps) -> bool),
        budget: &mut Budget<'_>,
    ) -> Result<Option<Reduced>, Refusal> {
        let count = component.nodes.len();
        let mut found = Steps { exits: Vec::with_capacity(count), least: f64::INFINITY, ..Steps::default() };
        let entries = usize::try_from(self.entries).unwrap_or(0);
        found.into.reserve_exact(entries);
        if both {
            found.out.reserve_exact(entries);
        }
        let mut at = vec![u32::MAX; count];
        let mut squares: Vec<Square> = Vec::new();
        let (mut done, mut looked) = (0_u64, 0_u64);
        for (index, piece) in self.pieces.iter().enumerate() {
            let around = &self.around[index];
            let mut square = Square::new(piece.states.len() + around.len());
            piece.states.iter().chain(around).zip(0..).for_each(|(state, place)| at[*state as usize] = place);
            for side in &piece.sides {
                square.take(&std::mem::take(&mut squares[*side]), &self.around[*side], &at);
            }
            square.load(component, &piece.states, &at, end);
            piece.states.iter().chain(around).for_each(|state| at[*state as usize] = u32::MAX);
            for place in (0..piece.states.len()).step_by(AT_ONCE) {
                let places = place..piece.states.len().min(place + AT_ONCE);
                // What is taken out last is not left, or by what leaves alone.
                let before = found.exits.len() - place;
                let without = |place| before + place + 1 == count || end == Some(piece.states[place] as usize);
                done += places.len() as u64 * (square.size - place).pow(2) as u64;
                if !square.take_out(places, &mut found, both, without) || found.lost && !let_pass(&found) {
                    return Ok(None);
                }
                if done - looked > LOOK {
                    looked = done;
                    #[expect(clippy::cast_precision_loss, reason = "shown only")]
                    let error = 1.0 - (done as f64 / self.work as f64).min(1.0);
                    budget.look(Progress::Solving { sweeps: 0, error })?;
                }
            }
            square.keep(piece.states.len());
            squares.push(square);
        }
        Ok(Some(Reduced { fronts: self, steps: found }))
    }
}

impl Reduced {
    /// Time spent in each state when `inflow` comes in from outside.
    pub(super) fn occupancy(&self, mut inflow: Vec<f64>) -> Vec<f64> {
        self.forward(&self.steps.out, &mut inflow);
        self.backward(&self.steps.into, &mut inflow, |time, state, exit, arriving| {
            time[state] = if exit > 0.0 { (time[state] + arriving) / exit } else { 0.0 };
        });
        inflow
    }

    /// What each state collects until the component is left, `right` each time unit. Where nothing leaves: the solution that is 0 in one
    /// state, if there is one.
    pub(super) fn collected(&self, mut right: Vec<f64>) -> Vec<f64> {
        self.forward(&self.steps.into, &mut right);
        self.backward(&self.steps.out, &mut right, |worth, state, exit, onward| {
            worth[state] = if exit > 0.0 { (worth[state] + onward) / exit } else { 0.0 };
        });
        right
    }

    /// Leads what is in each state onward to those behind it, by these rates.
    fn forward(&self, rates: &[f64], values: &mut [f64]) {
        let (mut start, mut exits) = (0, self.steps.exits.iter());
        for (piece, around) in self.fronts.pieces.iter().zip(&self.fronts.around) {
            for (place, (state, exit)) in piece.states.iter().zip(&mut exits).enumerate() {
                let behind = || piece.states[place + 1..].iter().chain(around);
                let each = values[*state as usize] / exit;
                let end = start + piece.states.len() - place - 1 + around.len();
                if *exit > 0.0 && each != 0.0 {
                    behind().zip(&rates[start..end]).for_each(|(to, rate)| values[*to as usize] += each * rate);
                }
                start = end;
            }
        }
    }

    /// Comes to each state behind all those that are behind it, with what comes from them by these rates.
    fn backward<T: Number + From<f64>>(
        &self,
        rates: &[f64],
        values: &mut [T],
        mut set: impl FnMut(&mut [T], usize, f64, T),
    ) {
        let (mut end, mut exits) = (rates.len(), self.steps.exits.iter().rev());
        for (piece, around) in self.fronts.pieces.iter().zip(&self.fronts.around).rev() {
            for (place, state) in piece.states.iter().enumerate().rev() {
                let Some(exit) = exits.next() else { return };
                let start = end - (piece.states.len() - place - 1 + around.len());
                let behind = piece.states[place + 1..].iter().chain(around);
                let arriving = behind.zip(&rates[start..end]);
                let arriving =
                    arriving.fold(T::default(), |sum, (from, rate)| sum + values[*from as usize] * (*rate).into());
                set(values, *state as usize, *exit, arriving);
                end = start;
            }
        }
    }
}

/// The rates between the states of a front, row by row, with one column more for what leaves.
#[derive(Default)]
struct Square {
    size: usize,
    rates: Vec<f64>,
}

impl Square {
    fn new(size: usize) -> Self {
        Self { size, rates: vec![0.0; size * (size + 1)] }
    }

    /// The row of a state.
    fn row(&mut self, place: usize) -> &mut [f64] {
        &mut self.rates[place * (self.size + 1)..(place + 1) * (self.size + 1)]
    }

    /// Adds what is left of a piece on a side, whose states stand `at` these places now.
    fn take(&mut self, side: &Self, states: &[u32], at: &[u32]) {
        let leaves = self.size;
        for (from, rates) in states.iter().zip(side.rates.chunks_exact(side.size + 1)) {
            let row = self.row(at[*from as usize] as usize);
            states.iter().zip(rates).for_each(|(to, rate)| row[at[*to as usize] as usize] += rate);
            row[leaves] += rates[side.size];
        }
    }

    /// Adds the edges of states to each other, and between them and those that are taken out later.
    fn load(&mut self, component: &Component<'_>, states: &[u32], at: &[u32], end: Option<usize>) {
        let (own, leaves) = (states.len(), self.size);
        for (place, state) in states.iter().enumerate() {
            let node = component.nodes[*state as usize] as usize;
            for (to, rate) in component.chain.row(node).filter(|_| end != Some(*state as usize)) {
                match component.local(to).filter(|to| end != Some(*to)) {
                    Some(to) if at[to] != u32::MAX => self.row(place)[at[to] as usize] += rate,
                    // Taken out before.
                    Some(_) => {}
                    None => self.row(place)[leaves] += rate,
                }
            }
            if end == Some(*state as usize) {
                continue;
            }
            for (from, rate) in component.incoming.column(node) {
                if let Some(from) = component.local(from).filter(|from| end != Some(*from))
                    && at[from] != u32::MAX
                    && at[from] as usize >= own
                {
                    self.row(at[from] as usize)[place] += rate;
                }
            }
        }
    }

    /// Takes out the states at `places`, and notes the rates into them and, where `both` are wanted, out, and at which they are left; whether
    /// each is. What comes by way of them is added to the rows behind them at once. One of `without` need not have an exit.
    fn take_out(
        &mut self,
        places: Range<usize>,
        found: &mut Steps,
        both: bool,
        without: impl Fn(usize) -> bool,
    ) -> bool {
        let (wide, end) = (self.size + 1, places.end);
        let behind = self.size - end;
        let mut parts = vec![0.0; behind * places.len()];
        for place in places.clone() {
            let (above, below) = self.rates.split_at_mut((place + 1) * wide);
            let row = &above[place * wide + place + 1..];
            let exit: f64 = row.iter().sum();
            let positive = |least: f64, rate: f64| if rate > 0.0 { least.min(rate) } else { least };
            let least = row.iter().copied().fold(f64::INFINITY, positive);
            let mut least_part = f64::INFINITY;
            for (other, at) in below.chunks_exact_mut(wide).zip(place + 1..) {
                let rate = other[place];
                found.into.push(rate);
                if rate > 0.0 {
                    let part = rate / exit;
                    least_part = least_part.min(part);
                    // Of the rows that are not taken out now only what decides of the other places.
                    let until = if at < end { wide } else { end };
                    other[place + 1..until].iter_mut().zip(row).for_each(|(sum, rate)| *sum += part * rate);
                    if at >= end {
                        parts[(at - end) * places.len() + place - places.start] = part;
                    }
                }
            }
            if both {
                found.out.extend_from_slice(&row[..row.len() - 1]);
            }
            found.exits.push(exit);
            found.lost |= least < f64::MIN_POSITIVE || least_part.min(least_part * least) < f64::MIN_POSITIVE;
            if !without(place) {
                (found.least, found.most) = (found.least.min(exit), found.most.max(exit));
                if !exit.is_normal() {
                    return false;
                }
            }
        }
        let (above, below) = self.rates.split_at_mut(end * wide);
        let rows: Vec<&[f64]> = places.clone().map(|place| &above[place * wide + end..(place + 1) * wide]).collect();
        for (other, parts) in below.chunks_exact_mut(wide).zip(parts.chunks_exact(places.len())) {
            let sums = &mut other[end..];
            if let ([one, two, three, four], [first, second, third, fourth]) = (parts, rows.as_slice()) {
                let rates = first.iter().zip(*second).zip(*third).zip(*fourth);
                for (sum, (((first, second), third), fourth)) in sums.iter_mut().zip(rates) {
                    *sum += one * first + two * second + (three * third + four * fourth);
                }
            } else {
                for (part, row) in parts.iter().zip(&rows) {
                    sums.iter_mut().zip(*row).for_each(|(sum, rate)| *sum += part * rate);
                }
            }
        }
        true
    }

    /// Keeps what lies behind the first `own` states.
    fn keep(&mut self, own: usize) {
        let (wide, left) = (self.size + 1, self.size - own);
        for row in 0..left {
            let from = (own + row) * wide + own;
            self.rates.copy_within(from..from + left + 1, row * (left + 1));
        }
        self.rates.truncate(left * (left + 1));
        self.rates.shrink_to_fit();
        self.size = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::chain::Chain;

    /// A walk on a rectangle, with rates that go by the place: the chain, and its distribution where it is one of both ways by themselves.
    fn walk(long: usize, wide: usize, leaves: f64) -> Chain {
        let (mut rows, mut columns, mut rates) = (vec![0], Vec::new(), Vec::new());
        let at = |x: usize, y: usize| (x * wide + y) as u32;
        for (x, y) in (0..long).flat_map(|x| (0..wide).map(move |y| (x, y))) {
            let mut to = |there: bool, other: &dyn Fn() -> u32, rate: f64| {
                if there {
                    columns.push(other());
                    rates.push(rate);
                }
            };
            to(x > 0, &|| at(x - 1, y), 1.0 + (x % 7) as f64);
            to(y > 0, &|| at(x, y - 1), 0.5 + (y % 5) as f64);
            to(y + 1 < wide, &|| at(x, y + 1), 2.0);
            to(x + 1 < long, &|| at(x + 1, y), 3.0);
            to(leaves > 0.0 && x + 1 == long, &|| (long * wide) as u32, leaves);
            rows.push(columns.len() as u32);
        }
        if leaves > 0.0 {
            rows.push(columns.len() as u32);
        }
        Chain::from_rows(rows, columns, rates)
    }

    /// What it comes to is what taking out state by state comes to.
    #[test]
    fn piece_by_piece_is_as_state_by_state() {
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        for (long, wide, leaves, end) in
            [(80, 70, 0.0, None), (80, 70, 0.0, Some(17)), (90, 60, 0.25, None), (2_600, 2, 0.25, None)]
        {
            let chain = walk(long, wide, leaves);
            let incoming = chain.incoming();
            let nodes: Vec<u32> = (0..(long * wide) as u32).collect();
            let component = Component { chain: &chain, incoming: &incoming, nodes: &nodes };
            let fronts = Fronts::within(&component, LAST, false, &mut budget).unwrap().unwrap();
            let reduced = fronts.reduced(&component, end, &mut budget);
            let reduced = reduced.unwrap().unwrap();
            let single = component.eliminate_at_any_price(end, &mut budget).unwrap();
            let inflow: Vec<f64> = nodes.iter().map(|state| f64::from(state % 11 == 3)).collect();
            let mut pairs = Vec::new();
            if leaves > 0.0 || end.is_some() {
                pairs.push((reduced.occupancy(inflow.clone()), single.occupancy(inflow.clone())));
                pairs.push((reduced.collected(inflow.clone()), single.backward(inflow)));
            } else {
                let found = Fronts::last(&component, &mut budget).unwrap().unwrap().stationary(&component, &mut budget);
                pairs.push((found.unwrap().unwrap(), single.stationary()));
            }
            for (one, other) in pairs {
                for (one, other) in one.iter().zip(&other) {
                    assert!((one - other).abs() <= 1e-11 * other.abs(), "{long} by {wide}: {one:e} {other:e}");
                }
            }
        }
    }

    /// Two populations that have nothing to do with each other, with their rates down and up: the chain, and its distribution.
    fn apart(long: usize, wide: usize, rates_at: [&dyn Fn(usize) -> [f64; 2]; 2]) -> (Chain, Vec<f64>) {
        let at = |x: usize, y: usize| (x * wide + y) as u32;
        let (mut rows, mut columns, mut rates) = (vec![0], Vec::new(), Vec::new());
        for (x, y) in (0..long).flat_map(|x| (0..wide).map(move |y| (x, y))) {
            let ([left, right], [down, up]) = (rates_at[0](x), rates_at[1](y));
            let mut to = |there: bool, other: &dyn Fn() -> u32, rate: f64| {
                if there {
                    columns.push(other());
                    rates.push(rate);
                }
            };
            to(x > 0, &|| at(x - 1, y), left);
            to(y > 0, &|| at(x, y - 1), down);
            to(y + 1 < wide, &|| at(x, y + 1), up);
            to(x + 1 < long, &|| at(x + 1, y), right);
            rows.push(columns.len() as u32);
        }
        let line = |count: usize, of: &dyn Fn(usize) -> [f64; 2]| {
            let mut weights = vec![Wide::ONE];
            (1..count).for_each(|at| weights.push(weights[at - 1] * Wide::of(of(at - 1)[1]) / Wide::of(of(at)[0])));
            let all = weights.iter().fold(Wide::ZERO, |sum, weight| sum + *weight);
            weights.into_iter().map(|weight| weight.over(all)).collect::<Vec<_>>()
        };
        let (one, other) = (line(long, rates_at[0]), line(wide, rates_at[1]));
        let weights = one.iter().flat_map(|one| other.iter().map(move |other| one * other)).collect();
        (Chain::from_rows(rows, columns, rates), weights)
    }

    fn stationary(chain: &Chain) -> Option<Vec<f64>> {
        let (incoming, nodes) = (chain.incoming(), (0..chain.len() as u32).collect::<Vec<_>>());
        let component = Component { chain, incoming: &incoming, nodes: &nodes };
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        Fronts::last(&component, &mut budget).unwrap().unwrap().stationary(&component, &mut budget).unwrap()
    }

    /// Most states may be held less than a number can say: the others come out as they are.
    #[test]
    fn states_that_are_hardly_ever_met_are_in_no_ones_way() {
        for (rare, [x, y]) in [(1e-3, [30, 70]), (1e-9, [0, 99]), (1e-40, [50, 50]), (0.03, [99, 3])] {
            let to = |wanted: usize| {
                move |at: usize| [at > wanted, at < wanted].map(|yes| if yes { 2.0 } else { 2.0 * rare })
            };
            let (chain, expected) = apart(100, 100, [&to(x), &to(y)]);
            let Some(found) = stationary(&chain) else {
                assert!(rare < 0.03, "{rare}");
                continue;
            };
            for (state, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(
                    (found - expected).abs() <= 1e-11 * expected + 1e-300,
                    "{rare} {state}: {found:e} {expected:e}"
                );
            }
        }
    }

    /// What a state is worth hangs on the one population that is asked about, however rare most states are.
    #[test]
    fn worth_does_not_hang_on_states_that_are_hardly_ever_met() {
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        for (rare, [x, y]) in [(1e-3, [30, 70]), (1e-9, [0, 99]), (0.03, [99, 3])] {
            let to = |wanted: usize| {
                move |at: usize| [at > wanted, at < wanted].map(|yes| if yes { 2.0 } else { 2.0 * rare })
            };
            let (chain, weights) = apart(100, 100, [&to(x), &to(y)]);
            let mean: f64 = weights.iter().enumerate().map(|(state, weight)| (state / 100) as f64 * weight).sum();
            let incoming = chain.incoming();
            let nodes: Vec<u32> = (0..10_000).collect();
            let component = Component { chain: &chain, incoming: &incoming, nodes: &nodes };
            let fronts = Fronts::within(&component, LAST, false, &mut budget).unwrap().unwrap();
            let reduced = fronts.reduced_to_collect(&component, Some(x * 100 + y), &mut budget).unwrap().unwrap();
            assert!(reduced.steps.lost || rare > 1e-3);
            let found = reduced.collected((0..10_000).map(|state| (state / 100) as f64 - mean).collect());
            // Of the one population: by how much more a place is worth than the one before, from both ends.
            let (mut more, right) = (vec![0.0; 101], |at: usize| at as f64 - mean);
            (x + 1..100).rev().for_each(|at| more[at] = (right(at) + to(x)(at)[1] * more[at + 1]) / to(x)(at)[0]);
            (0..x).for_each(|at| more[at + 1] = (to(x)(at)[0] * more[at] - right(at)) / to(x)(at)[1]);
            let sums: Vec<f64> = (0..100).map(|at| more[1..=at].iter().sum()).collect();
            for (state, found) in found.iter().enumerate() {
                let expected = sums[state / 100] - sums[x];
                assert!(
                    (found - expected).abs() <= 1e-9 * (1.0 + expected.abs()),
                    "{rare} {state}: {found} {expected}"
                );
            }
        }
    }

    /// Between common states may lie such that are hardly ever held: what is beyond is as it is, or nothing is told.
    #[test]
    fn what_is_beyond_a_hill_is_not_lost() {
        let even = |_: usize| [1.0, 1.0];
        for top in [30, 50, 75] {
            for (rare, share) in
                [(1e-3_f64, 1.0), (1e-5, 0.3), (1e-12, 1.0), (1e-12, 1e-3), (1e-30, 1.0), (1e-30, 1e-5), (1e-90, 7.0)]
            {
                // Both sides as far down as the hill is high, but for a `share`.
                let near = 10_f64.powf(rare.log10() * (100 - top) as f64 / top as f64);
                let ends = |at: usize| {
                    let [down, up] = if at < top { [1.0, near] } else { [rare, 1.0] };
                    if at + 1 == 100 { [rare * share, up] } else { [down, up] }
                };
                let (chain, expected) = apart(100, 60, [&ends, &even]);
                match stationary(&chain) {
                    Some(found) => {
                        let wrong =
                            |(found, expected): (&f64, &f64)| (found - expected).abs() > 1e-9 * expected + 1e-300;
                        let worst = found.iter().zip(&expected).enumerate().find(|(_, pair)| wrong(*pair));
                        assert!(worst.is_none(), "{top} {rare} {share}: {worst:?}");
                    }
                    None => assert!(rare < 1e-3 || top != 50, "{top} {rare} {share}"),
                }
            }
        }
    }

    /// It asks for the memory before, and stops in the middle where the clock says so.
    #[test]
    fn limits_are_kept() {
        let chain = walk(300, 300, 0.0);
        let incoming = chain.incoming();
        let nodes: Vec<u32> = (0..90_000).collect();
        let component = Component { chain: &chain, incoming: &incoming, nodes: &nodes };
        let mut looks = 0;
        let mut some = |_| {
            looks += 1;
            looks < 4
        };
        let mut budget = Budget::new(Limits::default(), &mut some);
        let fronts = Fronts::last(&component, &mut budget).unwrap().unwrap();
        let bytes = component.bytes() + 8 * fronts.entries;
        assert!(fronts.reduced(&component, None, &mut budget).is_err());
        assert_eq!(looks, 4);
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits { bytes, ..Limits::default() }, &mut go_on);
        assert!(Fronts::last(&component, &mut budget).unwrap().is_none());
    }
}
