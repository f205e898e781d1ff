//! Runs against nets that are small enough to be solved.

use gspn::{Budget, Limits};

use super::*;
use crate::choose::service::service;
use crate::choose::times::{self, Task};
use crate::model::Model;
use crate::read::{Language, read};
use crate::{net, weave};

const MODEL: &str = r#"
[workload]
arrivals = "150/s"
room = 6
threads = 2
[node.pc]
platform = "p"
cores = 2
[node.server]
platform = "p"
cores = 2
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
size = "5 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "2 ms"
variation = 0.5
returns = "order"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
choose = [ { weight = 0.3, ref = "hit" }, { weight = 0.7, ref = "miss" } ]
[[sequence.hit]]
do = "look up"
by = "client"
time = "2 ms"
[[sequence.miss]]
do = "store"
by = "service"
time = "8 ms"
variation = 0.7
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = "ed25519"
valid = 0.9
[price.p]
"hash sha-256" = { each = "0.2 ms" }
"sign ed25519" = { each = "0.3 ms" }
"verify ed25519" = { each = "0.3 ms" }
"#;

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"))
}

fn near(what: &str, seen: Figure, exact: f64) {
    let off = (seen.value - exact).abs();
    assert!(off <= 2.0 * seen.half + 1e-12, "{what}: {} \u{b1} {}, exactly {exact}", seen.value, seen.half);
    assert!(seen.half <= 0.02 * exact + 1e-3, "{what}: {} \u{b1} {}", seen.value, seen.half);
}

/// Threads that wait for nobody and for cores and lines, rooms and clients, checks that fail.
#[test]
fn figures_are_those_of_the_net() {
    let pool = "[pool.db]\nsize = 1\n[[sequence.main]]\nacquire = \"db\"\n[[sequence.main]]\ndo = \"prepare\"";
    let last = "[[sequence.main]]\nrelease = \"db\"\n[[sequence.hit]]";
    let two =
        "[pool.db]\nsize = 3\n[[sequence.main]]\nacquire = \"db\"\nunits = 2\n[[sequence.main]]\ndo = \"prepare\"";
    let in_two = "[[sequence.main]]\nrelease = \"db\"\n[[sequence.main]]\ndo = \"sum up\"\nby = \"service\"\ntime = \"1 ms\"\n\
        [[sequence.main]]\nrelease = \"db\"\n[[sequence.hit]]";
    let late = "[[sequence.miss]]\nacquire = \"db\"\n[[sequence.miss]]\ndo = \"store\"\nby = \"service\"\ntime = \"8 ms\"\nvariation = 0.7\n\
        [[sequence.miss]]\ndo = \"log\"\nby = \"client\"\ntime = \"1 ms\"\n[[sequence.miss]]\nrelease = \"db\"\n[[secure]]";
    let changes: [(&str, &[(&str, &str)]); 12] = [
        ("two threads", &[]),
        ("one thread", &[("threads = 2", "threads = 1"), ("150/s", "70/s")]),
        ("threads that wait for cores", &[("threads = 2", "threads = 3"), ("cores = 2", "")]),
        ("a line", &[("latency = \"1 ms\"", "rate = \"1 MB/s\"")]),
        ("as many threads as come", &[("threads = 2\n", ""), ("room = 6", "room = 4"), ("cores = 2", "")]),
        ("clients that think", &[("arrivals = \"150/s\"\nroom = 6", "clients = 5\nthink = \"20 ms\"")]),
        ("clients that do not", &[("arrivals = \"150/s\"\nroom = 6", "clients = 4\nthink = 0"), ("cores = 2", "")]),
        ("little to do", &[("150/s", "2/s")]),
        ("a pool", &[("[[sequence.main]]\ndo = \"prepare\"", pool), ("[[sequence.hit]]", last), ("150/s", "70/s")]),
        (
            "a pool in parts, and cores",
            &[
                ("[[sequence.main]]\ndo = \"prepare\"", two),
                ("[[sequence.hit]]", in_two),
                ("cores = 2", ""),
                ("150/s", "70/s"),
            ],
        ),
        (
            "a pool in the midst of what a core does",
            &[
                ("[[sequence.main]]\ndo = \"prepare\"", "[pool.db]\nsize = 1\n[[sequence.main]]\ndo = \"prepare\""),
                (
                    "[[sequence.miss]]\ndo = \"store\"",
                    "[[sequence.miss]]\ndo = \"hash\"\nby = \"service\"\ntime = \"2 ms\"\n[[sequence.miss]]\ndo = \"store\"",
                ),
                (
                    "[[sequence.miss]]\ndo = \"store\"\nby = \"service\"\ntime = \"8 ms\"\nvariation = 0.7\n[[secure]]",
                    late,
                ),
                ("threads = 2", "threads = 3"),
                ("cores = 2", ""),
                ("150/s", "70/s"),
            ],
        ),
        (
            "a pool and clients",
            &[
                ("[[sequence.main]]\ndo = \"prepare\"", pool),
                ("[[sequence.hit]]", last),
                ("arrivals = \"150/s\"\nroom = 6\nthreads = 2", "clients = 4\nthink = \"9 ms\""),
            ],
        ),
    ];
    for (what, changes) in changes {
        let text = changes.iter().fold(MODEL.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{what}: {from}");
            text.replace(from, to)
        });
        let model = model(&text);
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let (service, _) = service(&model, &mut budget).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let levels = [0.5, 0.99];
        let task = Task { model: &model, one: false, levels: &levels, asked: &levels };
        let (flow, times) = times::solve(task, &service, &mut budget).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let laid = net::lay(&weave(&model)).unwrap();
        let seen = known(&laid, model.workload, &levels, &mut budget).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let (now, half) = seen.flow();
        let pair = |of: fn(&Flow) -> f64| (Figure { value: of(&now), half: of(&half) }, of(&flow));
        for (name, (seen, exact)) in [("rate", pair(|it| it.rate)), ("mean", pair(|it| it.mean))] {
            near(&format!("{what}, {name}"), seen, exact);
        }
        let (lost, exact) = pair(|it| it.turned_away);
        assert!((lost.value - exact).abs() <= 2.0 * lost.half + 1e-12, "{what}: lost {lost:?}, exactly {exact}");
        assert!((now.served / flow.served - 1.0).abs() < 0.02, "{what}: {} {}", now.served, flow.served);
        for level in levels {
            let exact = times.quantile(&service, level, flow.mean, &mut budget).unwrap();
            near(&format!("{what}, {level}"), seen.quantile(level), exact);
            assert!((seen.within(exact) - level).abs() < 0.01, "{what}: {}", seen.within(exact));
        }
    }
}

/// What a longer time does: against nets that are solved.
#[test]
fn slopes_are_those_of_the_net() {
    let rate = |text: &str| {
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        crate::solve::solve(&weave(&model(text)), &mut budget).unwrap()
    };
    for cores in ["cores = 2", "cores = 1"] {
        let text = MODEL.replace("cores = 2", cores);
        let (now, then) = (rate(&text), rate(&text.replace("time = \"8 ms\"", "time = \"8.4 ms\"")));
        let laid = net::lay(&weave(&model(&text))).unwrap();
        let store = |stage: &Stage| stage.what == crate::net::What::Step("store".to_owned());
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let mut run = |factor: f64| {
            longer(&laid, model(&text).workload, FOR_MOST, |it| if store(it) { factor } else { 1.0 }, &mut budget)
                .unwrap()
                .mean()
        };
        let (slope, exact) = ((run(1.0 + STEP).value / run(1.0).value).ln(), (then.response / now.response).ln());
        assert!((slope / exact - 1.0).abs() < 0.25, "{cores}: {slope} {exact}");
    }
}

#[test]
fn too_little_time_or_memory_is_refused() {
    let model = model(MODEL);
    let laid = net::lay(&weave(&model)).unwrap();
    let mut stops = |_| false;
    let fault = known(&laid, model.workload, &[0.5], &mut Budget::new(Limits::default(), &mut stops)).unwrap_err();
    assert_eq!(fault.name, "time");
    let (mut go_on, limits) = (|_| true, Limits { bytes: 1 << 10, ..Limits::default() });
    let fault = known(&laid, model.workload, &[0.5], &mut Budget::new(limits, &mut go_on)).unwrap_err();
    assert_eq!(fault.name, "memory");
}

/// A step frees a core and a unit at once, and both are waited for: which comes first counts.
#[test]
fn what_is_free_at_once_is_had_in_the_order_of_the_net() {
    let text = |load: &str| {
        format!(
            "[workload]\n{load}\n[node.a]\n[node.b]\n[component.x]\nnode = \"a\"\n[component.y]\nnode = \"b\"\n\
             [pool.p]\nsize = 1\n[[sequence.main]]\nacquire = \"p\"\n[[sequence.main]]\ndo = \"s3\"\nby = \"y\"\ntime = \"8 ms\"\n\
             [[sequence.main]]\ndo = \"s5\"\nby = \"x\"\ntime = \"4 ms\"\n[[sequence.main]]\nrelease = \"p\"\n\
             [[sequence.main]]\ndo = \"s7\"\nby = \"y\"\ntime = \"3 ms\"\n"
        )
    };
    for load in ["arrivals = \"68/s\"\nroom = 40", "clients = 9\nthink = \"1 ms\"", "clients = 9\nthink = 0"] {
        let model = model(&text(load));
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let exact = crate::solve::solve(&weave(&model), &mut budget).unwrap();
        let seen = known(&net::lay(&weave(&model)).unwrap(), model.workload, &[], &mut budget).unwrap();
        near(load, seen.mean(), exact.response);
    }
}

/// Of what only grows, batches say that it is known.
#[test]
fn a_run_that_is_not_in_its_long_run_is_told_from_one_that_is() {
    let load = Workload::Closed { clients: 1, think: 1.0, threads: None };
    let marks = vec![Counts::default(); 1 + (1 << 15) / MARK];
    let of = |time: fn(f64) -> f64| {
        let left: Vec<f64> = (0..1 << 15).map(|number| time(f64::from(number))).collect();
        Simulated::new(load, left.len(), vec![Seen::new(&left, &marks, load)])
    };
    assert!(of(|number| 1.0 + (number * 12.9898).sin()).is_settled());
    assert!(!of(|number| 1000.0 + number).is_settled());
    assert!(!of(|number| 1.0 - (-number / 3e4).exp() + 0.01 * (number * 12.9898).sin()).is_settled());
}
