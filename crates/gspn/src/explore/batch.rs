//! Many states are expanded side by side: their firings, then the immediates behind them step by step, then the numbers of all
//! markings that came out. The memory is waited for once a step, not once a marking.

use super::layout::Words;
use super::markings::Markings;
use super::packed::{Cramped, Enabled, Packed};
use super::store::Full;
use super::vanishing::End;

/// Steps of immediates that are followed, and markings behind one firing, before they are looked at as a graph.
pub(super) const STEPS: usize = 32;
const BEHIND: u32 = 64;

/// No marking.
const NONE: u32 = u32::MAX;
/// Added to the position of a marking that is vanishing itself.
const BEYOND: u32 = 1 << 31;
/// Markings that there is room for at first.
const FIRST: usize = 1 << 10;
/// Room for so many firings is taken once and given back: so much that it is a mapping of its own. An allocator that saw one come and go
/// does not give each smaller block back to the system, to be handed it again page by page. It is not kept, because what is touched of it
/// would be of no use to what comes later.
const FIRINGS: usize = 1 << 15;

/// A firing of a timed transition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root {
    pub(super) state: u32,
    transition: u32,
    pub(super) rate: f64,
    /// Vanishing markings behind it so far.
    behind: u32,
    /// There are too many: it is resolved by itself.
    pub(super) alone: bool,
}

impl Root {
    /// The index in the net of what fires.
    pub(super) fn transition(&self) -> usize {
        self.transition as usize
    }
}

/// Markings that firings led to, each with the number of its root and its part of the root's rate.
#[derive(Debug, Default)]
pub(super) struct Queue {
    words: Vec<u64>,
    /// Of vanishing markings the immediates that are enabled.
    enabled: Vec<Enabled>,
    roots: Vec<(u32, f64)>,
}

impl Queue {
    fn clear(&mut self) {
        self.words.clear();
        self.enabled.clear();
        self.roots.clear();
    }

    fn reserve(&mut self, width: usize) {
        self.words.reserve(FIRST * width);
        self.roots.reserve(FIRST);
    }

    #[inline(always)]
    fn push(&mut self, words: &(impl Words + ?Sized), root: u32, part: f64) {
        words.append(&mut self.words);
        self.roots.push((root, part));
    }
}

/// A firing to be followed: of `transition` where `before` is enabled, behind `root` with this part of its rate.
#[derive(Debug, Clone, Copy)]
struct Step {
    transition: usize,
    before: Enabled,
    root: u32,
    part: f64,
}

impl Step {
    /// From the marking `from` to `found` or, where immediates are enabled, to `beyond`, and says which; `scratch` is as long as a marking.
    #[inline(always)]
    fn follow(
        self,
        net: &Packed,
        from: &(impl Words + ?Sized),
        scratch: &mut [u64],
        found: &mut Queue,
        beyond: &mut Queue,
    ) -> Result<bool, Halt> {
        let words = from.copied(scratch);
        // What does not fit is left as it was.
        let enabled =
            net.fire(self.transition, words, self.before).map_err(|Cramped| Halt::Cramped(self.transition))?;
        if enabled == 0 {
            found.push(words, self.root, self.part);
        } else {
            beyond.enabled.push(enabled);
            beyond.push(words, self.root, self.part);
        }
        Ok(enabled == 0)
    }
}

/// An immediate that fires behind a root: which, by its position among those that are counted, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fired {
    pub(super) root: u32,
    pub(super) counted: usize,
    pub(super) times: f64,
}

/// Why a batch must be begun again or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// Firing this transition in this marking (in words of the present layout) puts in more tokens than fit.
    Cramped(usize),
    Full,
}

impl From<Full> for Halt {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    width: usize,
    pub(super) roots: Vec<Root>,
    found: Queue,
    vanishing: Queue,
    next: Queue,
    /// All vanishing markings.
    passed: Vec<u64>,
    /// Of each of them the last of the immediates that may fire, and the position of what it leads to: in `found` or, with [`BEYOND`], among them.
    /// [`NONE`] where nothing was fired.
    leads: Vec<(u32, u32)>,
    /// Where the ways of these end.
    ends: Vec<End>,
    pub(super) fired: Vec<Fired>,
    /// The numbers of the markings in `found`.
    ids: Vec<u32>,
    /// Of each root the first of these, and of each of these the next of the same root, or [`NONE`].
    firsts: Vec<u32>,
    nexts: Vec<u32>,
    ready: Vec<(usize, f64)>,
    /// The marking that is being worked on.
    words: Vec<u64>,
}

impl Batch {
    pub(super) fn clear(&mut self, width: usize) {
        if self.roots.capacity() == 0 {
            drop(std::hint::black_box(Vec::<Root>::with_capacity(FIRINGS)));
            // Lists that grow leave behind what they outgrew.
            self.roots.reserve(FIRST);
            [&mut self.ids, &mut self.firsts, &mut self.nexts].into_iter().for_each(|list| list.reserve(FIRST));
            [&mut self.found, &mut self.vanishing, &mut self.next].into_iter().for_each(|queue| queue.reserve(width));
            [&mut self.vanishing, &mut self.next].into_iter().for_each(|queue| queue.enabled.reserve(FIRST));
        }
        self.width = width;
        self.roots.clear();
        self.fired.clear();
        self.ids.clear();
        self.passed.clear();
        self.leads.clear();
        [&mut self.found, &mut self.vanishing, &mut self.next].into_iter().for_each(Queue::clear);
        self.words.resize(width, 0);
    }

    /// The marking in which a firing did not fit.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Notes that `transition` fires in the state `state`, whose marking is `from`.
    #[inline(always)]
    pub(super) fn fire(
        &mut self,
        net: &Packed,
        state: u32,
        transition: usize,
        rate: f64,
        from: &(impl Words + ?Sized),
    ) -> Result<(), Halt> {
        #[expect(clippy::cast_possible_truncation, reason = "a batch is small, and so is a net against 2^32")]
        let (root, named) = (self.roots.len() as u32, transition as u32);
        self.roots.push(Root { state, transition: named, rate, behind: 0, alone: false });
        let step = Step { transition, before: 0, root, part: 1.0 };
        step.follow(net, from, &mut self.words, &mut self.found, &mut self.vanishing).map(drop)
    }

    /// Follows the immediates. `counted` holds those whose firings are noted.
    pub(super) fn settle(&mut self, net: &Packed, counted: &[usize]) -> Result<(), Halt> {
        if self.width == 1 { self.settle_each::<u64>(net, counted) } else { self.settle_each::<[u64]>(net, counted) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a batch is small, and so is a net against 2^32")]
    #[inline(always)]
    fn settle_each<W: Words + ?Sized>(&mut self, net: &Packed, counted: &[usize]) -> Result<(), Halt> {
        let Self { width, roots, found, vanishing, next, passed, leads, fired, ready, words, .. } = self;
        for step in 0.. {
            if vanishing.roots.is_empty() {
                return Ok(());
            }
            passed.extend_from_slice(&vanishing.words);
            let behind = leads.len() + vanishing.roots.len();
            let markings = W::each(&vanishing.words, *width).zip(&vanishing.enabled);
            for ((from, before), (root, part)) in markings.zip(&vanishing.roots) {
                let it = &mut roots[*root as usize];
                it.behind += 1;
                it.alone |= it.behind > BEHIND || step > STEPS;
                if it.alone {
                    leads.push((0, NONE));
                    continue;
                }
                net.ready(from, *before, ready);
                share(ready);
                let mut tangible = false;
                for (transition, share) in &*ready {
                    let it = Step { transition: *transition, before: *before, root: *root, part: part * share };
                    if let Some(counted) = counted.iter().position(|counted| counted == transition) {
                        fired.push(Fired { root: *root, counted, times: it.part });
                    }
                    tangible = it.follow(net, from, words, found, next)?;
                }
                let last = ready.last().map_or(0, |(transition, _)| *transition as u32);
                let to = if tangible { found.roots.len() } else { behind + next.roots.len() };
                leads.push((last, (to as u32).wrapping_sub(1) | if tangible { 0 } else { BEYOND }));
            }
            std::mem::swap(vanishing, next);
            next.clear();
        }
        Ok(())
    }

    /// Counts the vanishing markings, when the tangible ones have their numbers. What is behind a root that is resolved by itself is left
    /// to that.
    pub(super) fn count(&mut self, markings: &mut Markings) -> Result<(), Full> {
        let Self { width, passed, leads, ends, ids, .. } = self;
        markings.settle(passed);
        let vanishing = &mut markings.vanishing;
        vanishing.cover(markings.tangible.len());
        ends.clear();
        ends.resize(leads.len(), End::NONE);
        for (at, (transition, to)) in leads.iter().enumerate().rev() {
            let end = match *to {
                NONE => continue,
                to if to >= BEYOND => ends[(to - BEYOND) as usize],
                to => End::at(ids[to as usize]),
            };
            if end.is_none() {
                continue;
            }
            let end = vanishing.before(end, *transition);
            ends[at] = end;
            if !vanishing.note(end) {
                vanishing.kept.insert(&passed[at * *width..(at + 1) * *width])?;
            }
        }
        Ok(())
    }

    /// Numbers the tangible markings that came out. `new` is told the state that each new one was found from.
    pub(super) fn number(&mut self, markings: &mut Markings, mut new: impl FnMut(u32)) -> Result<(), Halt> {
        let Self { found, roots, ids, .. } = self;
        markings.settle(&mut found.words);
        markings.tangible.insert_all(&found.words, ids, |at| new(roots[found.roots[at].0 as usize].state))?;
        self.link();
        Ok(())
    }

    /// Finds the targets of each root.
    #[expect(clippy::cast_possible_truncation, reason = "a batch is small")]
    fn link(&mut self) {
        let Self { roots, found, firsts, nexts, .. } = self;
        firsts.clear();
        firsts.resize(roots.len(), NONE);
        nexts.clear();
        nexts.resize(found.roots.len(), NONE);
        for (at, (next, (root, _))) in nexts.iter_mut().zip(&found.roots).enumerate().rev() {
            *next = std::mem::replace(&mut firsts[*root as usize], at as u32);
        }
    }

    /// The tangible markings that came out of a root, each with its part.
    #[inline(always)]
    pub(super) fn targets(&self, root: usize) -> impl Iterator<Item = (u32, f64)> {
        let mut at = self.firsts[root];
        std::iter::from_fn(move || {
            let own = at as usize;
            let id = *self.ids.get(own)?;
            at = self.nexts[own];
            Some((id, self.found.roots[own].1))
        })
    }

    /// Puts others in the place of the targets of a root.
    #[expect(clippy::cast_possible_truncation, reason = "a batch is small")]
    pub(super) fn replace(&mut self, root: usize, targets: &[(u32, f64)]) {
        self.firsts[root] = NONE;
        for (id, part) in targets.iter().rev() {
            self.nexts.push(std::mem::replace(&mut self.firsts[root], self.ids.len() as u32));
            self.ids.push(*id);
            self.found.roots.push((root as u32, *part));
        }
    }
}

/// Makes of weights the parts that they are of their sum.
fn share(weights: &mut [(usize, f64)]) {
    if let [(_, weight)] = weights {
        *weight = 1.0;
        return;
    }
    // Not by the sum: to that a weight of 1e-17 beside one of 1 adds nothing.
    let largest = weights.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
    let sum: f64 = weights.iter().map(|(_, weight)| weight / largest).sum();
    weights.iter_mut().for_each(|(_, weight)| *weight = *weight / largest / sum);
}
