//! Many states are expanded side by side: their firings, then the immediates behind them step by step, then the numbers of all
//! markings that came out. The memory is waited for once a step, not once a marking.

use super::markings::Markings;
use super::packed::{Cramped, Enabled, Packed};
use super::store::{Full, append, copy};

/// Steps of immediates that are followed, and markings behind one firing, before they are looked at as a graph.
const STEPS: usize = 32;
const BEHIND: u32 = 64;

/// Firings that there is room for at first.
const FIRST: usize = 1 << 11;

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

    fn push(&mut self, words: &[u64], root: u32, part: f64) {
        append(&mut self.words, words);
        self.roots.push((root, part));
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
    /// No immediate was enabled behind any root.
    plain: bool,
    pub(super) roots: Vec<Root>,
    found: Queue,
    vanishing: Queue,
    next: Queue,
    pub(super) fired: Vec<Fired>,
    ids: Vec<u32>,
    ready: Vec<(usize, f64)>,
    /// The marking that is being worked on.
    words: Vec<u64>,
}

impl Batch {
    pub(super) fn clear(&mut self, width: usize) {
        if self.roots.capacity() == 0 {
            // Lists that grow leave behind what they outgrew.
            self.roots.reserve(FIRST);
            for queue in [&mut self.found, &mut self.vanishing, &mut self.next] {
                queue.words.reserve(FIRST * width);
                queue.roots.reserve(FIRST);
            }
        }
        self.width = width;
        self.plain = true;
        self.roots.clear();
        self.fired.clear();
        self.ids.clear();
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
        from: &[u64],
    ) -> Result<(), Halt> {
        copy(&mut self.words, from);
        net.fire(transition, &mut self.words).map_err(|Cramped| Halt::Cramped(transition))?;
        #[expect(clippy::cast_possible_truncation, reason = "a batch is small, and so is a net against 2^32")]
        let (root, named) = (self.roots.len() as u32, transition as u32);
        self.roots.push(Root { state, transition: named, rate, behind: 0, alone: false });
        match net.look(transition, &self.words, 0) {
            0 => self.found.push(&self.words, root, 1.0),
            enabled => {
                self.plain = false;
                self.vanishing.enabled.push(enabled);
                self.vanishing.push(&self.words, root, 1.0);
            }
        }
        Ok(())
    }

    /// Follows the immediates. `counted` holds those whose firings are noted.
    pub(super) fn settle(&mut self, net: &Packed, markings: &mut Markings, counted: &[usize]) -> Result<(), Halt> {
        for step in 0.. {
            if self.vanishing.roots.is_empty() {
                return Ok(());
            }
            markings.vanishing.insert_all(&self.vanishing.words, &mut self.ids, |_| {})?;
            for entry in 0..self.vanishing.roots.len() {
                let (root, part) = self.vanishing.roots[entry];
                let it = &mut self.roots[root as usize];
                it.behind += 1;
                it.alone |= it.behind > BEHIND || step > STEPS;
                if !it.alone {
                    self.branch(net, entry, root, part, counted)?;
                }
            }
            std::mem::swap(&mut self.vanishing, &mut self.next);
            self.next.clear();
        }
        Ok(())
    }

    fn branch(&mut self, net: &Packed, entry: usize, root: u32, part: f64, counted: &[usize]) -> Result<(), Halt> {
        let Self { width, vanishing, next, found, fired, ready, words, .. } = self;
        let (from, before) = (&vanishing.words[entry * *width..(entry + 1) * *width], vanishing.enabled[entry]);
        net.ready(from, before, ready);
        // Not by the sum: to that a weight of 1e-17 beside one of 1 adds nothing.
        let alone = ready.len() == 1;
        let largest = if alone { 1.0 } else { ready.iter().map(|(_, weight)| *weight).fold(0.0, f64::max) };
        let sum: f64 = if alone { 1.0 } else { ready.iter().map(|(_, weight)| weight / largest).sum() };
        for (transition, weight) in ready {
            let part = if alone { part } else { part * (*weight / largest / sum) };
            copy(words, from);
            if net.fire(*transition, words) == Err(Cramped) {
                return Err(Halt::Cramped(*transition));
            }
            if let Some(counted) = counted.iter().position(|counted| counted == transition) {
                fired.push(Fired { root, counted, times: part });
            }
            match net.look(*transition, words, before) {
                0 => found.push(words, root, part),
                enabled => {
                    next.enabled.push(enabled);
                    next.push(words, root, part);
                }
            }
        }
        Ok(())
    }

    /// Numbers the tangible markings that came out. `new` is told the state that each new one was found from.
    pub(super) fn number(&mut self, markings: &mut Markings, mut new: impl FnMut(u32)) -> Result<(), Halt> {
        let Self { found, roots, ids, .. } = self;
        markings.settle(&mut found.words);
        markings.tangible.insert_all(&found.words, ids, |at| new(roots[found.roots[at].0 as usize].state))?;
        Ok(())
    }

    /// The numbers of the markings that the roots led to, where each led to a tangible one.
    pub(super) fn plain(&self) -> Option<&[u32]> {
        self.plain.then_some(&self.ids)
    }

    /// Each tangible marking that came out of a root that is not resolved by itself: root, number of the marking, part.
    pub(super) fn targets(&self) -> impl Iterator<Item = (u32, u32, f64)> + Clone {
        let all = self.found.roots.iter().zip(&self.ids).map(|((root, part), id)| (*root, *id, *part));
        all.filter(|(root, ..)| !self.roots[*root as usize].alone)
    }
}

/// Puts `targets` (root, marking, part) in the order of their `roots`; those of one root stay as they are. `starts` then says where
/// those of each root start, and behind them their count.
pub(super) fn sort(
    targets: impl Iterator<Item = (u32, u32, f64)> + Clone,
    roots: usize,
    sorted: &mut Vec<(u32, u32, f64)>,
    starts: &mut Vec<u32>,
) {
    starts.clear();
    starts.resize(roots + 2, 0);
    let mut count = 0;
    for (root, ..) in targets.clone() {
        starts[root as usize + 2] += 1;
        count += 1;
    }
    for root in 0..roots {
        starts[root + 2] += starts[root + 1];
    }
    // What was there before is written over, or stands behind the last.
    if sorted.len() < count {
        sorted.resize(count, (0, 0, 0.0));
    }
    for target in targets {
        let next = &mut starts[target.0 as usize + 1];
        sorted[*next as usize] = target;
        *next += 1;
    }
}
