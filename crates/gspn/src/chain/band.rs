//! State reduction (Grassmann, Taksar, Heyman) along a chain that is long and thin: lines, rounds, and grids with a short side.
//!
//! In an order in which states that know of each other stand near each other, what is taken out only ever touches a window of the states
//! behind it. How wide that is, and so what the work and the memory will be, is known before anything is done. As in
//! `elimination`, no two numbers are ever subtracted.

use super::solve::{Component, normalize};
use crate::{Budget, Progress, Refusal};

/// States from which it is worth a look.
const LEAST: usize = 2_000;
/// Work of a state besides that of its window, and the work that is tried before sweeps for each edge and state: about what some
/// tens of sweeps cost.
const STATE: u64 = 100;
const FIRST: u64 = 300;
/// The same where quick sweeps did not settle: about what groups of states take then.
const NEXT: u64 = 8_000;
/// Work that is done where nothing else settled.
const LAST: u64 = 20_000_000_000;
/// Work after which the clock is looked at.
const LOOK: u64 = 1 << 23;
/// Bytes of a state besides its window.
const BYTES: u64 = 72;
/// Weights are kept between one over this and this, as far as they are of one window.
const FAR: i32 = 300;

/// An order of the states, and how far those reach that are taken out.
pub(super) struct Band {
    /// The state at each place, and the place of each state; as they are numbered where there is none.
    order: Option<(Vec<u32>, Vec<u32>)>,
    /// The last place that a state at or before each place leads to or comes from.
    reach: Vec<u32>,
    work: u64,
    /// Places in all windows, and in the widest.
    entries: u64,
    widest: usize,
}

/// The states of a component taken out.
struct Reduced {
    exits: Vec<f64>,
    /// The rates from each place in its window, window after window.
    into: Vec<f64>,
}

impl Band {
    /// Whether so many states are worth a look.
    pub(super) fn suits(states: usize) -> bool {
        states >= LEAST
    }

    /// Where it is less work than some tens of sweeps.
    pub(super) fn first(component: &Component<'_>, budget: &Budget<'_>) -> Option<Self> {
        Self::for_each_edge(component, FIRST, budget)
    }

    /// Where it is less work than groups of states mostly are.
    pub(super) fn next(component: &Component<'_>, budget: &Budget<'_>) -> Option<Self> {
        Self::for_each_edge(component, NEXT, budget)
    }

    fn for_each_edge(component: &Component<'_>, work: u64, budget: &Budget<'_>) -> Option<Self> {
        if !Self::suits(component.nodes.len()) {
            return None;
        }
        let edges: usize = component.nodes.iter().map(|node| component.chain.targets(*node as usize).count()).sum();
        Self::within(component, work * (edges + component.nodes.len()) as u64, budget)
    }

    /// Where it is not too much work for anybody to wait for.
    pub(super) fn last(component: &Component<'_>, budget: &Budget<'_>) -> Option<Self> {
        Self::within(component, LAST, budget)
    }

    /// In the order of the numbers, or else in that in which states are met from the first, or from the one met last.
    fn within(component: &Component<'_>, most: u64, budget: &Budget<'_>) -> Option<Self> {
        let found = Self::of(component, None, most).or_else(|| {
            let order = met(component, 0, most.saturating_mul(8))?;
            let far = order.0.last().map_or(0, |last| *last as usize);
            Self::of(component, Some(order), most)
                .or_else(|| Self::of(component, Some(met(component, far, most)?), most))
        })?;
        let window = 16 * (found.widest as u64 + 1).pow(2);
        let bytes = component.bytes() + BYTES * component.nodes.len() as u64 + 8 * found.entries + window;
        budget.bytes(bytes).is_ok().then_some(found)
    }

    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    fn of(component: &Component<'_>, order: Option<(Vec<u32>, Vec<u32>)>, most: u64) -> Option<Self> {
        let mut found = Self { order, reach: Vec::new(), work: 0, entries: 0, widest: 0 };
        let mut reach = 0;
        for place in 0..component.nodes.len() {
            let state = found.state(place);
            reach = neighbours(component, state).fold(reach.max(place), |reach, other| reach.max(found.place(other)));
            found.reach.push(reach as u32);
            let width = (reach - place) as u64;
            found.work += width * width + STATE;
            found.entries += width;
            found.widest = found.widest.max(reach - place);
            if found.work > most {
                return None;
            }
        }
        Some(found)
    }

    fn state(&self, place: usize) -> usize {
        self.order.as_ref().map_or(place, |(states, _)| states[place] as usize)
    }

    fn place(&self, state: usize) -> usize {
        self.order.as_ref().map_or(state, |(_, places)| places[state] as usize)
    }

    /// The stationary distribution of a component that nothing leaves; `None` where rates become less than a number can say.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn stationary(
        &self,
        component: &Component<'_>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Vec<f64>>, Refusal> {
        let Some(Reduced { exits, into }) = self.reduced(component, None, None, budget)? else { return Ok(None) };
        let count = exits.len();
        if exits.iter().take(count - 1).any(|exit| !exit.is_normal()) {
            return Ok(None);
        }
        let mut weights = vec![0.0; count];
        weights[count - 1] = 1.0;
        // Where all of a window was made larger or smaller: the last place of it, and by which power of two.
        let mut scaled: Vec<(usize, i32)> = Vec::new();
        let mut end = into.len();
        for place in (0..count - 1).rev() {
            let reach = self.reach[place] as usize;
            let start = end - (reach - place);
            let (own, behind) = weights[place..=reach].split_at_mut(1);
            let arriving: f64 = into[start..end].iter().zip(&*behind).map(|(rate, weight)| rate * weight).sum();
            own[0] = arriving / exits[place];
            end = start;
            let power = if own[0] > f64::from(FAR).exp2() {
                -FAR
            } else if own[0] < (-f64::from(FAR)).exp2() && behind.iter().all(|it| *it < (-f64::from(FAR)).exp2()) {
                FAR
            } else {
                continue;
            };
            let factor = f64::from(power).exp2();
            weights[place..=reach].iter_mut().for_each(|weight| *weight *= factor);
            scaled.push((reach, power));
        }
        // What a window was scaled by, all behind it have to be scaled by, too; then by the largest of all.
        let mut powers = scaled.into_iter().rev().peekable();
        let (mut power, mut most) = (0_i64, i64::MIN);
        let mut of_place = Vec::with_capacity(count);
        for (place, weight) in weights.iter().enumerate() {
            while let Some((_, more)) = powers.next_if(|(reach, _)| *reach < place) {
                power += i64::from(more);
            }
            of_place.push(power);
            if *weight > 0.0 {
                #[expect(clippy::cast_possible_truncation, reason = "a logarithm of a number")]
                let size = weight.log2() as i64;
                most = most.max(power + size);
            }
        }
        if most == i64::MIN || weights.iter().any(|weight| !weight.is_finite()) {
            return Ok(None);
        }
        for (weight, power) in weights.iter_mut().zip(of_place) {
            // In two steps: neither power is more than a number can say where what comes of both is not.
            #[expect(clippy::cast_precision_loss, reason = "at most some thousands")]
            let half = (power - most).clamp(-4_000, 4_000) as f64 / 2.0;
            *weight = *weight * half.floor().exp2() * half.ceil().exp2();
        }
        let mut weights = self.by_state(weights);
        normalize(&mut weights);
        Ok(Some(weights))
    }

    /// Time spent in each state when `inflow` comes in from outside. What enters `end` leaves. `None` as above.
    ///
    /// # Errors
    /// When the budget is spent.
    pub(super) fn occupancy(
        &self,
        component: &Component<'_>,
        inflow: &[f64],
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Vec<f64>>, Refusal> {
        let mut time: Vec<f64> = (0..inflow.len()).map(|place| inflow[self.state(place)]).collect();
        let Some(Reduced { exits, into }) = self.reduced(component, Some(&mut time), end, budget)? else {
            return Ok(None);
        };
        let mut until = into.len();
        for place in (0..time.len()).rev() {
            let reach = self.reach[place] as usize;
            let start = until - (reach - place);
            let (own, behind) = time[place..=reach].split_at_mut(1);
            let arriving: f64 = into[start..until].iter().zip(&*behind).map(|(rate, time)| rate * time).sum();
            own[0] = if exits[place] > 0.0 { (own[0] + arriving) / exits[place] } else { 0.0 };
            until = start;
        }
        Ok(Some(self.by_state(time)))
    }

    fn by_state(&self, values: Vec<f64>) -> Vec<f64> {
        match &self.order {
            Some((_, places)) => places.iter().map(|place| values[*place as usize]).collect(),
            None => values,
        }
    }

    /// Takes out all states, and leads `inflow`, by place, onward. `None` where a rate could be less than a number can say: what is lost
    /// of it may be the only way.
    fn reduced(
        &self,
        component: &Component<'_>,
        mut inflow: Option<&mut [f64]>,
        end: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Reduced>, Refusal> {
        let count = self.reach.len();
        let end = end.map(|end| self.place(end));
        let mut window = Window::new(self.widest + 1);
        let mut leaves = vec![0.0; count];
        let mut found = Reduced { exits: Vec::with_capacity(count), into: Vec::new() };
        found.into.reserve_exact(usize::try_from(self.entries).unwrap_or(0));
        let (mut loaded, mut done, mut looked) = (0, 0, 0);
        let mut row = Vec::new();
        for place in 0..count {
            let reach = self.reach[place] as usize;
            while loaded <= reach {
                window.enter(loaded, place);
                leaves[loaded] = self.load(component, loaded, end, &mut window);
                loaded += 1;
            }
            row.clear();
            row.extend_from_slice(window.row(place, place + 1, reach));
            let leaving = leaves[place];
            let exit = row.iter().fold(leaving, |sum, rate| sum + rate);
            found.exits.push(exit);
            let positive = |least: f64, rate: f64| if rate > 0.0 { least.min(rate) } else { least };
            let least = row.iter().copied().fold(positive(f64::INFINITY, leaving), positive);
            let mut least_part = f64::INFINITY;
            for (other, leaves) in (place + 1..=reach).zip(&mut leaves[place + 1..]) {
                let rate = window.rate(other, place);
                found.into.push(rate);
                if rate > 0.0 {
                    let part = rate / exit;
                    least_part = least_part.min(part);
                    *leaves += part * leaving;
                    let others = window.row_mut(other, place + 1, reach);
                    others.iter_mut().zip(&row).for_each(|(sum, rate)| *sum += part * rate);
                }
            }
            if least < f64::MIN_POSITIVE || least_part.min(least_part * least) < f64::MIN_POSITIVE {
                return Ok(None);
            }
            if let Some(inflow) = &mut inflow
                && exit > 0.0
                && inflow[place] != 0.0
            {
                let part = inflow[place] / exit;
                inflow[place + 1..=reach].iter_mut().zip(&row).for_each(|(sum, rate)| *sum += part * rate);
            }
            done += row.len() as u64 * row.len() as u64 + STATE;
            if done - looked > LOOK {
                looked = done;
                #[expect(clippy::cast_precision_loss, reason = "shown only")]
                budget.look(Progress::Solving { sweeps: 0, error: 1.0 - place as f64 / count as f64 })?;
            }
        }
        Ok(Some(found))
    }

    /// Writes the edges between the state at `place` and those before it, and says at what rate it leaves.
    fn load(&self, component: &Component<'_>, place: usize, end: Option<usize>, window: &mut Window) -> f64 {
        if end == Some(place) {
            return 0.0;
        }
        let node = component.nodes[self.state(place)] as usize;
        let mut leaves = 0.0;
        for (to, rate) in component.chain.row(node) {
            match component.local(to).map(|to| self.place(to)).filter(|to| end != Some(*to)) {
                Some(to) if to < place => window.add(place, to, rate),
                Some(_) => {}
                None => leaves += rate,
            }
        }
        for (from, rate) in component.incoming.column(node) {
            if let Some(from) = component.local(from).map(|from| self.place(from))
                && from < place
                && end != Some(from)
            {
                window.add(from, place, rate);
            }
        }
        leaves
    }
}

/// The rates between the states of a window that moves on.
struct Window {
    rates: Vec<f64>,
    /// States at once, and the place of the first column.
    size: usize,
    first: usize,
}

impl Window {
    /// Rows are twice as long as there are states at once: they are moved only every so many states.
    fn new(size: usize) -> Self {
        Self { rates: vec![0.0; 2 * size * size], size, first: 0 }
    }

    fn start(&self, place: usize) -> usize {
        place % self.size * 2 * self.size
    }

    /// Makes room for the row and column of `place`, while those before `done` are no longer needed.
    fn enter(&mut self, place: usize, done: usize) {
        if place - self.first >= 2 * self.size {
            let by = done - self.first;
            for row in self.rates.chunks_exact_mut(2 * self.size) {
                row.copy_within(by.., 0);
                row[2 * self.size - by..].fill(0.0);
            }
            self.first = done;
        }
        let start = self.start(place);
        self.rates[start..start + 2 * self.size].fill(0.0);
    }

    fn row(&self, of: usize, from: usize, to: usize) -> &[f64] {
        let start = self.start(of);
        &self.rates[start + from - self.first..=start + to - self.first]
    }

    fn row_mut(&mut self, of: usize, from: usize, to: usize) -> &mut [f64] {
        let start = self.start(of);
        &mut self.rates[start + from - self.first..=start + to - self.first]
    }

    fn rate(&self, from: usize, to: usize) -> f64 {
        self.rates[self.start(from) + to - self.first]
    }

    fn add(&mut self, from: usize, to: usize, rate: f64) {
        let at = self.start(from) + to - self.first;
        self.rates[at] += rate;
    }
}

/// The states that `state` leads to or comes from.
fn neighbours<'a>(component: &'a Component<'_>, state: usize) -> impl Iterator<Item = usize> + 'a {
    let node = component.nodes[state] as usize;
    let from = component.incoming.column(node).map(|(from, _)| from);
    component.chain.targets(node).chain(from).filter_map(|other| component.local(other))
}

/// The states in the order in which they are met from `start` by edges there and back (Cuthill, McKee), and the place of each; `None` where so
/// many are equally far that it would take more than `most` work.
#[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
fn met(component: &Component<'_>, start: usize, most: u64) -> Option<(Vec<u32>, Vec<u32>)> {
    let count = component.nodes.len();
    let mut places = vec![u32::MAX; count];
    places[start] = 0;
    let mut order = vec![start as u32];
    let (mut at, mut work) = (0, 0_u64);
    while at < order.len() {
        // All that are equally far.
        let level = at..order.len();
        let width = level.len() as u64;
        work = work.saturating_add(width * width * width);
        if work > most {
            return None;
        }
        for place in level {
            for other in neighbours(component, order[place] as usize) {
                if places[other] == u32::MAX {
                    places[other] = order.len() as u32;
                    order.push(other as u32);
                }
            }
            at += 1;
        }
    }
    (order.len() == count).then_some((order, places))
}
