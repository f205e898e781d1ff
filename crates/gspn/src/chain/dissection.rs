//! An order in which states are taken out: cut in two, and in two again, by states that keep the two sides apart (George). What is on
//! a side then only touches its own cut and those around it, which on a grid are short.

/// States that are not cut any more.
const LEAF: usize = 48;
/// States of a set before which it is asked whether to go on.
const MANY: usize = 100_000;
/// The larger side of a cut has at most so many tenths of the states, or they are not cut.
const LARGER: usize = 9;

/// Tells the states that a state leads to or comes from.
type Neighbours<'a> = dyn Fn(u32, &mut dyn FnMut(u32)) + 'a;

/// States that are taken out together, and what was before them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) states: Vec<u32>,
    /// Indices of the pieces on its sides, which come before it.
    pub(super) sides: Vec<usize>,
}

/// The pieces of so many states, each behind its sides; `None` where one of them has more than `most` states. `neighbours` tells the
/// states that a state leads to or comes from, and `goes_on` is asked before each look at many states; where it says no there are none.
pub(super) fn pieces(
    count: usize,
    most: usize,
    neighbours: &Neighbours<'_>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Piece>> {
    let (of, depth) = (vec![0; count], vec![u32::MAX; count]);
    let mut cut = Cut { neighbours, of, sets: 1, depth, pieces: Vec::new(), most, sound: true, goes_on };
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    let roots = cut.pieces((0..count as u32).collect());
    if roots.len() > 1 {
        cut.pieces.push(Piece { states: Vec::new(), sides: roots });
    }
    cut.sound.then_some(cut.pieces)
}

struct Cut<'a> {
    neighbours: &'a Neighbours<'a>,
    /// The set that each state is in, and how many sets there were.
    of: Vec<u32>,
    sets: u32,
    /// How far each state is from where the last search began; all of them are outside of a search.
    depth: Vec<u32>,
    pieces: Vec<Piece>,
    /// States of a piece at most, and whether none had more.
    most: usize,
    sound: bool,
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl Cut<'_> {
    /// Cuts `set`, the states of one number in `of`; the pieces that lie in no other of them.
    fn pieces(&mut self, set: Vec<u32>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut small = Vec::new();
        self.sound = self.sound && (set.len() < MANY || (self.goes_on)());
        for part in self.connected(set) {
            if !self.sound {
                return Vec::new();
            }
            if part.len() <= LEAF {
                // Small ones that have nothing to do with each other cost no more together.
                small.extend(part);
                if small.len() >= LEAF {
                    found.push(self.piece(std::mem::take(&mut small), Vec::new()));
                }
                continue;
            }
            let Some((states, sides)) = self.sides(&part) else {
                found.push(self.piece(part, Vec::new()));
                continue;
            };
            // Before all that lies on its sides is cut for nothing.
            self.sound &= states.len() <= self.most;
            let sides = sides.into_iter().flat_map(|side| self.pieces(side)).collect();
            found.push(self.piece(states, sides));
        }
        if !small.is_empty() {
            found.push(self.piece(small, Vec::new()));
        }
        found
    }

    fn piece(&mut self, states: Vec<u32>, sides: Vec<usize>) -> usize {
        self.sound &= states.len() <= self.most;
        self.pieces.push(Piece { states, sides });
        self.pieces.len() - 1
    }

    /// The parts of a set that have nothing to do with each other, each a set of its own now.
    fn connected(&mut self, set: Vec<u32>) -> Vec<Vec<u32>> {
        let Some(old) = set.first().map(|state| self.of[*state as usize]) else { return Vec::new() };
        let mut parts = Vec::new();
        for state in set {
            if self.of[state as usize] == old {
                let part = self.search(state).0;
                let new = self.sets;
                self.sets += 1;
                part.iter().for_each(|state| self.of[*state as usize] = new);
                parts.push(part);
            }
        }
        parts
    }

    /// The states of its set that are reached from `start`, the nearest first, and where each distance begins.
    fn search(&mut self, start: u32) -> (Vec<u32>, Vec<usize>) {
        let set = self.of[start as usize];
        let (mut met, mut levels) = (vec![start], vec![0]);
        self.depth[start as usize] = 0;
        let mut at = 0;
        while at < met.len() {
            let until = met.len();
            for place in at..until {
                let Self { neighbours, of, depth, .. } = self;
                let next = depth[met[place] as usize] + 1;
                neighbours(met[place], &mut |other| {
                    if of[other as usize] == set && depth[other as usize] == u32::MAX {
                        depth[other as usize] = next;
                        met.push(other);
                    }
                });
            }
            at = until;
            if at < met.len() {
                levels.push(at);
            }
        }
        met.iter().for_each(|state| self.depth[*state as usize] = u32::MAX);
        (met, levels)
    }

    /// A cut of connected states: those of one distance from a far end, as few as lie near the middle, and the two sides of them.
    fn sides(&mut self, part: &[u32]) -> Option<(Vec<u32>, [Vec<u32>; 2])> {
        let (mut met, mut levels) = self.search(part[0]);
        for _ in 0..2 {
            let far = *met.last()?;
            let (again, others) = self.search(far);
            let farther = others.len() > levels.len();
            (met, levels) = (again, others);
            if !farther {
                break;
            }
        }
        let all = met.len();
        let end = |level: usize| levels.get(level + 1).copied().unwrap_or(all);
        let size = |level: usize| end(level) - levels[level];
        let larger = |level: usize| levels[level].max(all - end(level));
        // There is something on both sides.
        let inner = 1..levels.len().saturating_sub(1);
        let most = |part: usize| inner.clone().filter(move |level| larger(*level) * 10 <= all * part);
        let level =
            most(6).min_by_key(|level| size(*level)).or_else(|| most(LARGER).min_by_key(|level| larger(*level)))?;
        // Of that distance those that know of none farther belong to the near side.
        let (mut near, mut cut) = (met[..levels[level]].to_vec(), Vec::new());
        let far = met[end(level)..].to_vec();
        far.iter().for_each(|state| self.depth[*state as usize] = 0);
        for state in &met[levels[level]..end(level)] {
            let mut touches = false;
            let depth = &self.depth;
            (self.neighbours)(*state, &mut |other| touches |= depth[other as usize] == 0);
            if touches { cut.push(*state) } else { near.push(*state) }
        }
        far.iter().for_each(|state| self.depth[*state as usize] = u32::MAX);
        for set in [&near, &far] {
            set.iter().for_each(|state| self.of[*state as usize] = self.sets);
            self.sets += 1;
        }
        cut.iter().for_each(|state| self.of[*state as usize] = u32::MAX);
        Some((cut, [near, far]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state is in one piece, and a piece touches itself, what is on its sides and what lies around it, but no other.
    #[test]
    fn sides_know_of_each_other_through_their_cut_alone() {
        for (wide, long, hub) in [(1, 400, false), (30, 40, false), (7, 100, true), (1, 3, false)] {
            let count = wide * long;
            let at = |state: usize| (state / wide, state % wide);
            let beside = |one: usize, other: usize| {
                let ((x, y), (z, w)) = (at(one), at(other));
                one != other && (x.abs_diff(z) + y.abs_diff(w) == 1 || hub && (one == 0 || other == 0))
            };
            let known: Vec<Vec<u32>> = (0..count)
                .map(|one| (0..count).filter(|other| beside(one, *other)).map(|other| other as u32).collect())
                .collect();
            let neighbours =
                |state: u32, tell: &mut dyn FnMut(u32)| known[state as usize].iter().for_each(|other| tell(*other));
            assert!(super::pieces(count, 2, &neighbours, &mut || true).is_none());
            let pieces = pieces(count, count, &neighbours, &mut || true).unwrap();
            let mut of = vec![usize::MAX; count];
            for (piece, it) in pieces.iter().enumerate() {
                assert!(it.sides.iter().all(|side| *side < piece));
                for state in &it.states {
                    assert_eq!(std::mem::replace(&mut of[*state as usize], piece), usize::MAX);
                }
            }
            let mut around = vec![usize::MAX; pieces.len()];
            pieces.iter().enumerate().for_each(|(piece, it)| it.sides.iter().for_each(|side| around[*side] = piece));
            assert!(around[..pieces.len() - 1].iter().all(|piece| *piece < pieces.len()), "one root");
            let inside = |mut low: usize, high: usize| {
                while low < high {
                    low = around[low];
                }
                low == high
            };
            for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))) {
                if beside(one, other) {
                    let (low, high) = (of[one].min(of[other]), of[one].max(of[other]));
                    assert!(inside(low, high), "{one} {other}");
                }
            }
            // Where all know of one, nothing is cut.
            let widest = pieces.iter().map(|it| it.states.len()).max().unwrap();
            assert!(if hub { widest == count } else { widest <= LEAF.max(2 * wide) }, "{widest}");
        }
    }

    /// Of many states it is asked before each cut whether to go on.
    #[test]
    fn many_states_are_cut_while_it_goes_on() {
        let neighbours = |state: u32, tell: &mut dyn FnMut(u32)| {
            [state.wrapping_sub(1), state + 1].into_iter().filter(|it| *it < 500_000).for_each(tell);
        };
        for left in [1, 3] {
            let mut asked = 0;
            let mut goes_on = || {
                asked += 1;
                asked < left
            };
            assert!(super::pieces(500_000, 500_000, &neighbours, &mut goes_on).is_none());
            assert_eq!(asked, left);
        }
        assert!(super::pieces(500_000, 500_000, &neighbours, &mut || true).is_some());
    }
}
