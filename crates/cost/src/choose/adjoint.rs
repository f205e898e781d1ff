//! What every price does to the probability of a time, at once: from the transform of a time backwards to all that it is made of.
//!
//! With the names of [`super::queue`]: `f = w (p0 + sum p(n) g w^(n-1))` with `(s I - T) g = t` and `w = a g`; or, where requests come at the rate `l` at
//! every level, `f = w (p0 + l (p0 a - w^K p) (x + c u))` with `z = l (1 - w)`, `(z I - T) x = g`, `(z I - T) u = 1`, `c = l a x / (1 - l a u)`, and `p` the
//! last level. A phase that takes longer by `e`, relative, has its row of `T` divided by `1 + e`: so `(s I - T) dg = -s e g`,
//! and `(z I - T) dv = dg - dz v - e (z v - g - c)` for `v = x + c u` with `c` held. Each of these systems is solved once for all phases, transposed. What prices do to `p0` and the
//! levels the queue says, which is solved with each of them anyway.

use gspn::{Budget, Progress};

use super::complex::Complex;
use super::invert;
use super::queue::{Entered, Others, power, weighted, weighted_both};
use super::service::Service;
use crate::Fault;

/// What the probability of a time changes by, for each part by which something grows.
#[derive(Debug)]
pub(super) struct Felt {
    /// Each phase takes longer, relative.
    phases: Vec<f64>,
    /// More find nobody there.
    alone: f64,
    /// More find others: those of [`Others`], in their order.
    levels: Vec<f64>,
}

/// What the probability of at most `time` feels, for which so many terms were summed.
pub(super) fn felt(
    service: &Service,
    entered: &Entered,
    (time, plain): (f64, u32),
    budget: &mut Budget<'_>,
) -> Result<Felt, Fault> {
    let levels = entered.others.levels().len();
    let mut felt = Felt { phases: vec![0.0; service.begin.len()], alone: 0.0, levels: vec![0.0; levels] };
    let (mut g, mut desk) = (Vec::new(), Desk::default());
    for (s, weight) in invert::weights(time, plain) {
        budget.look(Progress::Solving { sweeps: 0, error: 0.0 })?;
        service.transform(s, &mut g);
        let at = Point { service, alone: entered.alone, g: &g, own: weighted(&service.begin, &g), weight };
        let of_own = match &entered.others {
            Others::Levels { first, levels, .. } => at.of_levels(*first, levels, &mut felt, &mut desk.back),
            Others::Alike { rate, many, last } => at.of_alike((*rate, *many, last), &mut felt, &mut desk),
        };
        let back = &mut desk.back;
        back.iter_mut().zip(service.begin.iter()).for_each(|(back, b)| *back = back.plus(of_own.times(*b)));
        service.ahead(back, s);
        for ((felt, back), g) in felt.phases.iter_mut().zip(back).zip(&g) {
            *felt -= real(back.by(s).by(*g));
        }
    }
    Ok(felt)
}

/// Where transforms are worked out, one after the other: `x` and `u`, and what comes back.
#[derive(Default)]
struct Desk {
    both: Vec<(Complex, Complex)>,
    back: Vec<Complex>,
}

/// The transform at some points, and how much each of them counts.
struct Point<'a> {
    service: &'a Service,
    alone: f64,
    g: &'a [Complex],
    own: Complex,
    weight: Complex,
}

impl Point<'_> {
    /// What `w` feels, and in `back` what `g` does besides.
    fn of_levels(&self, first: usize, levels: &[f64], felt: &mut Felt, back: &mut Vec<Complex>) -> Complex {
        let Self { g, own, weight, .. } = self;
        let down = weight.by(*own);
        felt.alone += real(down);
        back.clear();
        back.resize(g.len(), Complex::default());
        // The sum over the levels so far, and what it changes by with `w`.
        let (mut sum, mut slope) = (Complex::default(), Complex::default());
        let before = power(*own, first.saturating_sub(1));
        let (mut all, mut before) = if first > 0 { (before.by(*own), before) } else { (before, Complex::default()) };
        for ((level, felt), there) in
            levels.chunks_exact(g.len()).zip(felt.levels.chunks_exact_mut(g.len())).zip(first..)
        {
            let found = weighted(level, *g);
            sum = sum.plus(found.by(all));
            #[expect(clippy::cast_precision_loss, reason = "requests")]
            let more = found.by(before).times(there as f64);
            slope = slope.plus(more);
            let share = down.by(all);
            for (((back, felt), level), g) in back.iter_mut().zip(felt).zip(level).zip(*g) {
                *back = back.plus(share.times(*level));
                *felt += real(share.by(*g));
            }
            (before, all) = (all, all.by(*own));
        }
        weight.by(sum.plus(Complex::real(self.alone))).plus(down.by(slope))
    }

    /// The same where requests come at one rate.
    fn of_alike(&self, (rate, many, last): (f64, usize, &[f64]), felt: &mut Felt, desk: &mut Desk) -> Complex {
        let Self { service, g, own, weight, .. } = self;
        let Desk { both, back } = desk;
        let (one, alone) = (Complex::real(1.0), Complex::real(self.alone));
        let z = one.plus(own.times(-1.0)).times(rate);
        service.backward(g, z, both);
        let ((bx, bu), (lx, lu)) = (weighted_both(&service.begin, both), weighted_both(last, both));
        let left = one.plus(bu.times(-rate)).inverse();
        let again = bx.times(rate).by(left);
        let before = power(*own, many.saturating_sub(1));
        let full = before.by(*own);
        // Of v at the beginning and beyond the room, and what comes of each.
        let (begun, beyond) = (bx.plus(again.by(bu)), lx.plus(again.by(lu)));
        let sum = |begun: Complex, beyond: Complex| begun.by(alone).plus(full.by(beyond).times(-1.0)).times(rate);
        let down = weight.by(*own);
        let of_begun = down.by(alone.plus(sum(bu, lu).by(left))).times(rate);
        let of_beyond = down.by(full).times(-rate);
        felt.alone += real(down.by(begun.times(rate).plus(one)));
        back.clear();
        back.extend(service.begin.iter().zip(last).map(|(b, l)| of_begun.times(*b).plus(of_beyond.times(*l))));
        service.ahead(back, z);
        let mut of_z = Complex::default();
        for (phase, (back, (x, u))) in back.iter().zip(&*both).enumerate() {
            let v = x.plus(again.by(*u));
            of_z = of_z.plus(back.by(v).times(-1.0));
            felt.phases[phase] -= real(back.by(z.by(v).plus(g[phase].plus(again).times(-1.0))));
            felt.levels[phase] += real(of_beyond.by(v));
        }
        #[expect(clippy::cast_precision_loss, reason = "requests")]
        let of_full = down.by(beyond).times(-rate).by(before).times(many as f64);
        weight.by(sum(begun, beyond).plus(alone)).plus(of_full).plus(of_z.times(-rate))
    }
}

fn real(value: Complex) -> f64 {
    value.re.iter().sum()
}

impl Felt {
    /// The same for each part by which a price grows; `then` is where requests come to when it has grown by `step`. Nothing where they are of
    /// another kind there.
    pub(super) fn slope(
        &self,
        service: &Service,
        price: usize,
        now: &Entered,
        then: &Entered,
        step: f64,
    ) -> Option<f64> {
        if !now.others.is_like(&then.others) {
            return None;
        }
        let paid = self.phases.iter().enumerate().filter(|(phase, _)| service.is_paid(*phase, price));
        let paid: f64 = paid.map(|(_, felt)| felt).sum();
        let moved = self.levels.iter().zip(then.others.levels().iter().zip(now.others.levels()));
        let moved: f64 = moved.map(|(felt, (then, now))| felt * (then - now)).sum();
        Some(paid + (self.alone * (then.alone - now.alone) + moved) / step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::queue::{Desk, transform};
    use crate::choose::service::service;
    use crate::read::{Language, read};
    use gspn::Limits;

    const MODEL: &str = r#"
[workload]
arrivals = "RATE"
room = 40
threads = 1
[node.n]
platform = "p"
[component.a]
node = "n"
[component.b]
node = "n"
[connector.w]
from = "a"
to = "b"
latency = "1 ms"
[attribute.v]
of = "a"
size = "2 kB"
[[sequence.main]]
do = "make"
by = "a"
time = "2 ms"
variation = 0.3
returns = "v"
[[sequence.main]]
send = "give"
over = "w"
carries = "v"
[[secure]]
property = "data-integrity"
on = "attribute v"
signature = "rsa-2048"
valid = 0.9
[[secure]]
property = "peer-entity-authentication"
on = "component a"
signature = "ecdsa-p256"
reuse = 0.5
[price.p]
"hash sha-256" = { each = "0.5 ms", error = "5 %" }
"sign rsa-2048" = { each = "3 ms", variation = 0.1, error = "5 %" }
"verify rsa-2048" = { each = "0.4 ms", variation = 3, error = "5 %" }
"sign ecdsa-p256" = { each = "0.3 ms", variation = 0.4, error = "5 %" }
"verify ecdsa-p256" = { each = "0.9 ms", variation = 0.1, error = "5 %" }
"#;

    /// Against the transform with longer times, of few requests and of nearly as many as are carried.
    #[test]
    fn slopes_are_what_longer_times_do() {
        for (rate, times) in [
            ("5/s", [0.004, 0.01, 0.03]),
            ("60/s", [0.01, 0.03, 0.1]),
            ("90/s", [0.01, 0.03, 0.1]),
            ("115/s", [0.02, 0.05, 0.1]),
        ] {
            let model = read(&MODEL.replace("RATE", rate), Language::Toml).unwrap_or_else(|fault| panic!("{fault}"));
            let mut go_on = |_| true;
            let mut budget = Budget::new(Limits::default(), &mut go_on);
            let (now, _) = service(&model, &mut budget).unwrap();
            let mut entered = |it: &Service| it.queue(model.workload, &mut budget).unwrap().entered();
            let likely = |it: &Service, entered: &Entered, time: f64| {
                invert::likely(time, |s| transform(it, entered, s, &mut Desk::default())).unwrap()
            };
            let at = entered(&now);
            assert_eq!(matches!(at.others, Others::Alike { .. }), rate != "5/s");
            for price in 0..now.prices.len() {
                const STEP: f64 = 1e-3;
                let [more, less] = [1.0 + STEP, 1.0 - STEP].map(|factor| {
                    let then = now.scaled(price, factor);
                    let entered = entered(&then);
                    (then, entered)
                });
                for time in times {
                    let found = likely(&now, &at, time);
                    let mut go_on = |_| true;
                    let mut budget = Budget::new(Limits::default(), &mut go_on);
                    let felt = felt(&now, &at, (time, found.plain), &mut budget).unwrap();
                    let [up, down] = [(&more, STEP), (&less, -STEP)]
                        .map(|((_, entered), step)| felt.slope(&now, price, &at, entered, step).unwrap());
                    let slope = f64::midpoint(up, down);
                    let exact = likely(&more.0, &more.1, time).within - likely(&less.0, &less.1, time).within;
                    let off = (slope - exact / (2.0 * STEP)).abs();
                    // Each probability is right to about 1e-7, and less where other terms are summed for one than for the other.
                    assert!(
                        off < 2e-4 + 1e-3 * slope.abs(),
                        "{rate}, {time}, price {price}: {slope} {}",
                        exact / (2.0 * STEP)
                    );
                }
            }
        }
    }
}
