//! What prices do to figures that are simulated, against long runs with other random numbers.

use gspn::{Budget, Limits};

use super::*;
use crate::choose::Wanted;
use crate::choose::figures::{self, LEVELS};
use crate::model::Model;
use crate::read::{Language, read};
use crate::{net, weave};

/// A client and a server that sign and encrypt, whose times hardly vary.
fn model(load: &str, cores: [u32; 2], error: u32, pool: bool) -> Model {
    let [client, server] = cores;
    let (first, last) = if pool {
        ("[pool.db]\nsize = 3\n[[sequence.main]]\nacquire = \"db\"\n", "[[sequence.main]]\nrelease = \"db\"\n")
    } else {
        ("", "")
    };
    let text = format!(
        r#"
[workload]
{load}
[node.pc]
platform = "p"
cores = {client}
[node.server]
platform = "p"
cores = {server}
[component.client]
node = "pc"
[component.service]
node = "server"
[connector.wire]
from = "client"
to = "service"
latency = "1 ms"
[attribute.order]
of = "client"
size = "20 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "1 ms"
variation = 0.1
returns = "order"
{first}
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
do = "store"
by = "service"
time = "2 ms"
variation = 0.1
{last}
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = "ecdsa-p256"
[[secure]]
property = "data-confidentiality"
on = "connector wire"
cipher = "aes-128-gcm"
exchange = "rsa-2048"
reuse = 0.8
[price.p]
"hash sha-256" = {{ each = "0.1 ms", per_kb = "0.01 ms", variation = 0.05, error = "{error} %" }}
"sign ecdsa-p256" = {{ each = "2 ms", variation = 0.05, error = "{error} %" }}
"verify ecdsa-p256" = {{ each = "3 ms", variation = 0.05, error = "{error} %" }}
"encrypt aes-128-gcm" = {{ each = "0.2 ms", per_kb = "0.02 ms", variation = 0.05, error = "{error} %" }}
"decrypt aes-128-gcm" = {{ each = "0.2 ms", per_kb = "0.02 ms", variation = 0.05, error = "{error} %" }}
"encrypt rsa-2048" = {{ each = "0.3 ms", variation = 0.05, error = "{error} %" }}
"decrypt rsa-2048" = {{ each = "6 ms", variation = 0.05, error = "{error} %" }}
"#
    );
    read(&text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Mean and percentiles with their intervals.
fn said(model: &Model, budget: &mut Budget<'_>) -> [Figure; 4] {
    let wanted = Wanted { p50: Some(1.0), p95: Some(1.0), p99: Some(1.0), ..Wanted::default() };
    let solved = figures::solve(model, &wanted, budget).unwrap();
    assert!(solved.simulated().is_some());
    let off = figures::intervals(model, &solved, &wanted, budget).unwrap();
    let of = |name: &str, value: f64| Figure { value, half: off.plus_minus[name] };
    let [p50, p95, p99] = solved.times.map(Option::unwrap);
    [of("mean", solved.plain.mean), of("p50", p50), of("p95", p95), of("p99", p99)]
}

/// Mean and percentiles of a run.
fn times(seen: &Simulated) -> [Figure; 4] {
    let [p50, p95, p99] = LEVELS.map(|(_, level)| seen.quantile(level));
    [seen.mean(), p50, p95, p99]
}

/// Half of each interval, from long runs of every price a little above and below.
fn long(model: &Model, requests: usize, seeds: std::ops::RangeInclusive<u64>, budget: &mut Budget<'_>) -> [f64; 4] {
    const STEP: f64 = 0.03;
    let laid = net::lay_as(&weave(model), net::Form::Shared).unwrap();
    let own = times(&known(&laid, model.workload, &LEVELS.map(|(_, level)| level), budget).unwrap());
    let mut squares = own.map(|it| it.half * it.half);
    for (index, price) in laid.prices.iter().enumerate().filter(|(_, price)| price.error > 0.0) {
        let mut sums = [0.0; 4];
        for seed in seeds.clone() {
            let mut run = |factor: f64| {
                let plan = Plan::new(&laid, |stage| if stage.paid == Some(index) { factor } else { 1.0 }).unwrap();
                let (mut run, mut left) = (Run::new(&plan, model.workload, Chance { seed, run: 0 }), Vec::new());
                run.until(requests, &mut left, budget).unwrap();
                times(&Simulated::new(model.workload, left.len(), vec![Seen::new(&left, &run.marks, model.workload)]))
            };
            let (low, high) = (run(1.0 - STEP), run(1.0 + STEP));
            for (sum, (low, high)) in sums.iter_mut().zip(low.iter().zip(&high)) {
                *sum += (high.value - low.value) / (2.0 * STEP) * price.error;
            }
        }
        let count = seeds.clone().count() as f64;
        squares.iter_mut().zip(sums).for_each(|(square, sum)| *square += (sum / count).powi(2));
    }
    squares.map(f64::sqrt)
}

fn within(of: f64, what: &str, said: f64, wanted: f64) {
    assert!((said / wanted - 1.0).abs() < of, "{what}: {said}, and runs say {wanted}");
}

/// So little that two runs which had nothing to do with each other would be further apart by chance. What all prices do together, in seconds for each part
/// of them, is what long runs said: `what_prices_do_is_what_long_runs_say`.
#[test]
fn what_little_errors_of_prices_do_is_in_the_interval() {
    let mut go_on = |_| true;
    let mut budget = Budget::new(Limits::default(), &mut go_on);
    for (load, slopes) in [
        ("arrivals = \"100/s\"\nroom = 40", [0.0095, 0.0054, 0.0306, 0.0541]),
        ("clients = 6\nthink = \"30 ms\"", [0.0075, 0.0050, 0.0237, 0.0327]),
    ] {
        let model = model(load, [1, 2], 3, false);
        let laid = net::lay_as(&weave(&model), net::Form::Shared).unwrap();
        let own = times(&known(&laid, model.workload, &LEVELS.map(|(_, level)| level), &mut budget).unwrap());
        for ((it, own), slope) in said(&model, &mut budget).iter().zip(own).zip(slopes) {
            within(0.15, load, it.half, own.half.hypot(0.03 * slope));
        }
    }
}

#[test]
#[ignore = "minutes: long runs of each price"]
fn what_prices_do_is_what_long_runs_say() {
    let mut go_on = |_| true;
    let mut budget = Budget::new(Limits::default(), &mut go_on);
    for (load, cores, error, pool) in [
        ("arrivals = \"100/s\"\nroom = 40", [1, 2], 15, false),
        ("arrivals = \"150/s\"\nroom = 40\nthreads = 8", [2, 2], 10, false),
        ("arrivals = \"100/s\"\nroom = 30", [1, 2], 10, true),
        ("clients = 6\nthink = \"30 ms\"", [1, 2], 20, false),
        ("clients = 30\nthink = \"100 ms\"", [2, 2], 10, false),
        ("clients = 12\nthink = \"40 ms\"", [2, 2], 10, true),
        ("arrivals = \"20/s\"\nroom = 20", [2, 3], 20, false),
    ] {
        let model = model(load, cores, error, pool);
        let said = said(&model, &mut budget);
        let wanted = long(&model, 1 << 18, 11..=15, &mut budget);
        println!("{load}: {said:?} {wanted:?}");
        for (said, wanted) in said.iter().zip(wanted) {
            within(0.15, load, said.half, wanted);
        }
    }
}
