//! Long runs and first passages of a few states beside one clock of a fixed time, by renewal: dense, and by sums of what is positive only.

type Matrix = Vec<Vec<f64>>;

/// A chain with a clock that runs in some of its states: what leaves these stops it, and its end leads on.
pub(crate) struct Clocked {
    /// By state and state; 0 on the diagonal.
    pub(crate) rates: Matrix,
    /// Whether the clock runs in a state.
    pub(crate) runs: Vec<bool>,
    /// Where the end of the clock leads from a state.
    pub(crate) led: Vec<usize>,
    pub(crate) delay: f64,
}

/// What happens from where the clock is new, or does not run, to the next such state; by state.
struct Rounds {
    to: Matrix,
    /// Time in each state.
    stay: Matrix,
    /// How likely the clock ends in each state.
    ends: Matrix,
}

/// `exp(time * generator)` and its integral from 0, of a part of a generator whose rows may lose: by the series over a short time, which
/// is made twice as long ten times.
fn over(generator: &Matrix, time: f64) -> (Matrix, Matrix) {
    let size = generator.len();
    let product = |one: &Matrix, other: &Matrix| -> Matrix {
        let entry = |row: &Vec<f64>, to: usize| row.iter().zip(other).map(|(part, line)| part * line[to]).sum();
        one.iter().map(|row| (0..size).map(|to| entry(row, to)).collect()).collect()
    };
    let sum = |one: &Matrix, other: &Matrix, factor: f64| -> Matrix {
        one.iter().zip(other).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + factor * b).collect()).collect()
    };
    let short = time / 1024.0;
    let mut term: Matrix = (0..size).map(|at| (0..size).map(|to| f64::from(u8::from(at == to))).collect()).collect();
    let (mut power, mut stay) = (vec![vec![0.0; size]; size], vec![vec![0.0; size]; size]);
    for count in 1..30 {
        power = sum(&power, &term, 1.0);
        stay = sum(&stay, &term, short / f64::from(count));
        term = product(&term, generator);
        term.iter_mut().flatten().for_each(|it| *it *= short / f64::from(count));
    }
    for _ in 0..10 {
        stay = sum(&stay, &product(&power, &stay), 1.0);
        power = product(&power, &power);
    }
    (power, stay)
}

impl Clocked {
    /// `goal`: what is in there stays there.
    fn rounds(&self, goal: &[bool]) -> Rounds {
        let size = self.runs.len();
        let inside = |at: usize| self.runs[at] && !goal[at];
        let running: Matrix = (0..size)
            .map(|from| {
                let mut row: Vec<f64> =
                    (0..size).map(|to| if inside(from) && inside(to) { self.rates[from][to] } else { 0.0 }).collect();
                row[from] = if inside(from) { -self.rates[from].iter().sum::<f64>() } else { 0.0 };
                row
            })
            .collect();
        let (ends, stay) = over(&running, self.delay);
        let mut rounds = Rounds { to: vec![vec![0.0; size]; size], stay, ends };
        for (from, in_goal) in goal.iter().enumerate() {
            if inside(from) {
                for at in (0..size).filter(|at| inside(*at)) {
                    rounds.to[from][self.led[at]] += rounds.ends[from][at];
                    for to in (0..size).filter(|to| !inside(*to)) {
                        rounds.to[from][to] += rounds.stay[from][at] * self.rates[at][to];
                    }
                }
                (0..size).filter(|at| !inside(*at)).for_each(|at| rounds.stay[from][at] = 0.0);
            } else {
                let all: f64 = if *in_goal { 0.0 } else { self.rates[from].iter().sum() };
                rounds.ends[from].fill(0.0);
                rounds.stay[from].fill(0.0);
                rounds.stay[from][from] = if all > 0.0 { 1.0 / all } else { 1.0 };
                (0..size).filter(|_| all > 0.0).for_each(|to| rounds.to[from][to] = self.rates[from][to] / all);
            }
        }
        rounds
    }

    /// States that are come back to from all that follows them.
    pub(crate) fn lasting(&self) -> Vec<bool> {
        let mut next = self.rates.clone();
        (0..next.len()).filter(|at| self.runs[*at]).for_each(|at| next[at][self.led[at]] = 1.0);
        let reached = reached(&next);
        let lasts = |at: usize| (0..next.len()).all(|to| !reached[at][to] || reached[to][at]);
        (0..next.len()).map(lasts).collect()
    }

    /// The mean time from `begin` to where `goal` is; it has to be certain.
    pub(crate) fn passage(&self, begin: usize, goal: &[bool]) -> f64 {
        if goal[begin] {
            return 0.0;
        }
        let rounds = self.rounds(goal);
        let reached = reached(&rounds.to)[begin].clone();
        let among: Vec<usize> = (0..goal.len()).filter(|at| reached[*at] && !goal[*at]).collect();
        let columns = (0..goal.len())
            .map(|at| {
                let there = (0..goal.len()).filter(|to| goal[*to]).map(|to| rounds.to[at][to]).sum();
                vec![there, rounds.stay[at].iter().sum()]
            })
            .collect();
        let last = reduced(rounds.to, begin, &among, columns);
        last[1] / last[0]
    }

    /// How much is gained in a time unit in the long run: by the time in a state, and by each end of the clock there.
    pub(crate) fn long_run(&self, begin: usize, by_time: &[f64], by_end: &[f64]) -> f64 {
        let size = self.runs.len();
        let rounds = self.rounds(&vec![false; size]);
        let reached = reached(&rounds.to);
        let lasts = |at: usize| (0..size).all(|to| !reached[at][to] || reached[to][at]);
        let weighted = |row: &[f64], by: &[f64]| row.iter().zip(by).map(|(part, by)| part * by).sum::<f64>();
        let transient: Vec<usize> = (0..size).filter(|at| reached[begin][*at] && !lasts(*at)).collect();
        let (mut all, mut gained) = (0.0, 0.0);
        for first in (0..size).filter(|at| reached[begin][*at] && lasts(*at)) {
            let class: Vec<usize> = (0..size).filter(|at| reached[first][*at]).collect();
            if class[0] != first {
                continue;
            }
            let columns = (0..size)
                .map(|at| {
                    let gain = weighted(&rounds.stay[at], by_time) + weighted(&rounds.ends[at], by_end);
                    vec![0.0, rounds.stay[at].iter().sum(), gain]
                })
                .collect();
            let cycle = reduced(rounds.to.clone(), first, &class, columns);
            let likely = if lasts(begin) {
                1.0
            } else {
                let to = |at: usize, within: &dyn Fn(usize) -> bool| {
                    (0..size).filter(|to| within(*to)).map(|to| rounds.to[at][to]).sum::<f64>()
                };
                let columns = (0..size).map(|at| vec![to(at, &lasts), to(at, &|to| class.contains(&to))]).collect();
                reduced(rounds.to.clone(), begin, &transient, columns)[1]
            };
            all += likely;
            gained += likely * cycle[2] / cycle[1];
        }
        gained / all
    }
}

/// Which states can be reached from which; each from itself.
fn reached(to: &Matrix) -> Vec<Vec<bool>> {
    let size = to.len();
    let mut reached: Vec<Vec<bool>> =
        (0..size).map(|from| (0..size).map(|at| at == from || to[from][at] > 0.0).collect()).collect();
    for over in 0..size {
        for from in 0..size {
            for at in 0..size {
                reached[from][at] |= reached[from][over] && reached[over][at];
            }
        }
    }
    reached
}

/// Sums of `columns` from `keep` until it is left for good or comes back, all others of `among` eliminated. The first column says how
/// likely a state leaves `among`.
fn reduced(mut to: Matrix, keep: usize, among: &[usize], mut columns: Matrix) -> Vec<f64> {
    let mut left = among.to_vec();
    while let Some(at) = left.iter().position(|at| *at != keep) {
        let gone = left.swap_remove(at);
        let out = columns[gone][0] + left.iter().map(|next| to[gone][*next]).sum::<f64>();
        for from in left.clone() {
            let share = to[from][gone] / out;
            left.iter().for_each(|next| to[from][*next] += share * to[gone][*next]);
            (0..columns[gone].len()).for_each(|column| columns[from][column] += share * columns[gone][column]);
        }
    }
    columns[keep].clone()
}
