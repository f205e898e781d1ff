//! Parallel fragments: a request does several things at once, and goes on when the last of them has ended.

use std::collections::BTreeMap;

use cost::choose::{Choice, Effort, Outcome, SEED, Wanted, choose, trial};
use cost::solve::{Solution, solve};
use cost::{Class, print, weave};
use gspn::Limits;

use crate::branches::{TWO, changed, close, loaded, model, sequences, signed, within};

fn solved(text: &str) -> Solution {
    within(|budget| solve(&weave(&model(text)), budget)).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Twelve inside at once are more markings than could be looked at one by one; nobody waits, so that all take as long as one alone.
#[test]
fn many_at_once_are_looked_at_by_markings_that_are_alike() {
    let free = changed(TWO, &[("[node.a]", "[node.a]\ncores = 50"), ("[node.b]", "[node.b]\ncores = 50")]);
    let loads = ["clients = 1\nthink = \"20 ms\"", "clients = 12\nthink = \"20 ms\""];
    let [one, twelve] = loads.map(|load| solved(&free.replace("clients = 1", load)));
    close("response", twelve.response, one.response);
    close("throughput", twelve.throughput, 12.0 * one.throughput);
    assert_eq!((one.states, twelve.states), (Some(4), None));
}

#[test]
fn two_branches_take_as_long_as_the_longer_one() {
    let (one, other) = (0.01, 0.02);
    let longer = one + other - 1.0 / (1.0 / one + 1.0 / other);
    let found = solved(TWO);
    close("response", found.response, longer);
    close("inside", found.inside, 1.0);
    close("throughput", found.throughput, 1.0 / longer);
    close("a", found.nodes[0].utilisation, one / longer);
    close("b", found.nodes[1].utilisation, other / longer);
    let spent = |on: &str| found.spent.iter().find(|it| it.on == on).unwrap();
    close("both", spent("parallel branches").seconds, longer);
    assert!(!spent("parallel branches").beside && spent("one").beside);
    close("one", spent("one").seconds, one);
    // What takes no time ends at once; on one core one waits for the other, and takes the core that is given back.
    close("nothing", solved(&changed(TWO, &[("10 ms", "0 ms")])).response, other);
    close("one core", solved(&changed(TWO, &[("node = \"b\"", "node = \"a\"")])).response, one + other);
    let before = "[[sequence.main]]\ndo = \"before\"\nby = \"x\"\ntime = \"5 ms\"\n[[sequence.main]]\npar";
    let before = changed(TWO, &[("[[sequence.main]]\npar", before), ("node = \"b\"", "node = \"a\"")]);
    close("before", solved(&before).response, 0.005 + one + other);
}

/// The mean of the longest of n is 1 + 1/2 + .. + 1/n of one.
#[test]
fn equal_branches_take_a_harmonic_number() {
    for many in 2..=5 {
        let branches = vec!["{ ref = \"one\" }"; many].join(", ");
        let text = format!(
            "[workload]\nclients = 1\n[node.a]\ncores = {many}\n[component.x]\nnode = \"a\"\n\
             [[sequence.main]]\npar = [ {branches} ]\n[[sequence.one]]\ndo = \"one\"\nby = \"x\"\ntime = \"10 ms\"\n"
        );
        let harmonic: f64 = (1..=many).map(|it| 0.01 / it as f64).sum();
        close("response", solved(&text).response, harmonic);
        // Twice in a row, the second time in a branch of another one.
        let inner =
            format!("par = [ {{ ref = \"inner\" }}, {{ ref = \"idle\" }} ]\n[[sequence.inner]]\npar = [ {branches} ]");
        let idle = "[[sequence.idle]]\ndo = \"idle\"\nby = \"x\"\ntime = \"0 ms\"\n";
        let nested = text.replace(&format!("par = [ {branches} ]"), &inner) + idle;
        close("nested", solved(&nested).response, harmonic);
    }
}

/// What a branch of a request does.
const WAITS: u8 = 0;
const RUNS: u8 = 1;
const ENDED: u8 = 2;

/// Clients that think, then have two branches on one core each; who waits is picked by chance. Of each client whether it thinks, or what its
/// branches do; solved by power iteration, without exchanging clients: throughput, and the mean number of those that do not think.
fn forked(clients: usize, think: f64, times: [f64; 2]) -> (f64, f64) {
    type State = Vec<Option<[u8; 2]>>;
    /// Whoever can have a core has it.
    fn settle(state: State) -> Vec<(State, f64)> {
        let (mut ends, mut open) = (Vec::new(), vec![(state, 1.0)]);
        while let Some((state, share)) = open.pop() {
            let branch = (0..2).find(|branch| {
                let has = |now: u8| state.iter().flatten().any(|it| it[*branch] == now);
                !has(RUNS) && has(WAITS)
            });
            let Some(branch) = branch else {
                ends.push((state, share));
                continue;
            };
            let waiting: Vec<usize> =
                (0..state.len()).filter(|it| state[*it].is_some_and(|it| it[branch] == WAITS)).collect();
            for client in &waiting {
                let mut next = state.clone();
                next[*client].as_mut().unwrap()[branch] = RUNS;
                open.push((next, share / waiting.len() as f64));
            }
        }
        ends
    }
    let fastest = clients as f64 / think + 1.0 / times[0] + 1.0 / times[1];
    let mut shares = BTreeMap::from([(vec![None; clients], 1.0_f64)]);
    let (mut rate, mut inside) = (0.0, 0.0);
    for _ in 0..3000 {
        let mut next: BTreeMap<State, f64> = BTreeMap::new();
        (rate, inside) = (0.0, 0.0);
        for (state, share) in &shares {
            let mut stay = 1.0;
            for (client, own) in state.iter().enumerate() {
                let mut go = |to: Option<[u8; 2]>, speed: f64| {
                    let mut then = state.clone();
                    then[client] = to;
                    stay -= speed / fastest;
                    for (to, part) in settle(then) {
                        *next.entry(to).or_default() += share * part * speed / fastest;
                    }
                };
                let Some(branches) = own else {
                    go(Some([WAITS; 2]), 1.0 / think);
                    continue;
                };
                inside += share;
                for branch in (0..2).filter(|branch| branches[*branch] == RUNS) {
                    let mut then = *branches;
                    then[branch] = ENDED;
                    let last = then == [ENDED; 2];
                    rate += if last { share / times[branch] } else { 0.0 };
                    go((!last).then_some(then), 1.0 / times[branch]);
                }
            }
            *next.entry(state.clone()).or_default() += share * stay;
        }
        shares = next;
    }
    (rate, inside)
}

#[test]
fn branches_of_one_request_are_joined_with_each_other() {
    for clients in 1..=4 {
        let text = changed(TWO, &[("clients = 1", &format!("clients = {clients}\nthink = \"30 ms\""))]);
        let found = solved(&text);
        let (rate, inside) = forked(clients, 0.03, [0.01, 0.02]);
        close(&format!("{clients} clients: throughput"), found.throughput, rate);
        close(&format!("{clients} clients: inside"), found.inside, inside);
        close("busy", found.nodes[1].utilisation, rate * 0.02);
    }
}

fn chosen(text: &str, wanted: &Wanted) -> Outcome {
    let choice = all(text, wanted);
    choice.settings[0].clone()
}

fn all(text: &str, wanted: &Wanted) -> Choice {
    // Something to choose from.
    let text = format!("{text}[node.spare]\nmachines = [1, 2]\n");
    let effort = Effort { limits: Limits::default(), threads: 2, go_on: &|_| true };
    choose(&model(&text), wanted, &effort).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

fn percentiles() -> Wanted {
    Wanted { p50: Some(10.0), p95: Some(10.0), p99: Some(10.0), ..Wanted::default() }
}

/// The time in which a share of what has this distribution is done.
fn quantile(level: f64, within: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if within(middle) < level { low = middle } else { high = middle }
    }
    low
}

/// Of one client who waits for nobody: the product of what both branches do.
#[test]
fn percentiles_are_those_of_the_longest_branch() {
    let found = chosen(TWO, &percentiles());
    assert!(found.simulated.is_some());
    let both = |time: f64| (1.0 - (-time / 0.01_f64).exp()) * (1.0 - (-time / 0.02_f64).exp());
    for (name, level, got) in [("p50", 0.5, found.p50), ("p95", 0.95, found.p95), ("p99", 0.99, found.p99)] {
        let (got, wanted, half) = (got.unwrap(), quantile(level, both), found.plus_minus[name]);
        assert!((got - wanted).abs() <= 2.0 * half && half <= 0.02 * wanted, "{name}: {got} {wanted} {half}");
    }
}

/// Loads of the two branches: a choice and a message in one of them, a step behind both.
const LOADS: [&str; 6] = [
    "clients = 1",
    "clients = 3\nthink = \"20 ms\"",
    "clients = 3\nthink = \"20 ms\"\nthreads = 2",
    "arrivals = \"20/s\"\nroom = 3",
    "arrivals = \"20/s\"\nroom = 4\nthreads = 1",
    "arrivals = \"15/s\"\nroom = 1",
];

/// Requests that are followed one by one do what the markings of the net say.
#[test]
fn runs_agree_with_the_net() {
    for load in LOADS {
        let text = loaded(load);
        let (exact, run) = (chosen(&text, &Wanted::default()), chosen(&text, &percentiles()));
        let plain = solved(&text);
        assert!(exact.simulated.is_none() && run.simulated.is_some());
        close("mean", exact.mean.unwrap(), plain.response);
        close("throughput", exact.throughput, plain.throughput);
        let (mean, half) = (run.mean.unwrap(), run.plus_minus["mean"]);
        assert!((mean - plain.response).abs() <= 2.0 * half && half <= 0.01 * mean, "{load}: {mean} {plain:?}");
        assert!((run.throughput / plain.throughput - 1.0).abs() < 0.02, "{load}: {} {plain:?}", run.throughput);
        close("carried", run.carried, exact.carried);
        close("cores", exact.cores, 0.033 + 0.5 * 0.004);
    }
}

/// With one thread, and with room for one, as many are carried as one after the other; with two threads as many as three clients get of them
/// who do not think; without any as many as the busiest node can do.
#[test]
fn what_is_carried_is_what_the_net_says() {
    let one = solved(&loaded("clients = 1"));
    let carried = |load: &str| chosen(&loaded(load), &Wanted::default());
    close("one thread", carried(LOADS[4]).carried, one.throughput);
    close("room for one", carried(LOADS[5]).carried, one.throughput);
    let two = chosen(&loaded(LOADS[2]), &Wanted::default());
    close("two threads", two.carried, solved(&loaded("clients = 3\nthreads = 2")).throughput);
    let limit = two.limit.unwrap();
    assert!(limit.beside && limit.waits && limit.at_most && limit.resource == "threads", "{limit:?}");
    assert!(two.bottleneck.contains("wait for the longest of their branches"), "{}", two.bottleneck);
    let open = carried(LOADS[3]);
    // Three at once do not keep `b` busy all the time.
    close("room for three", open.carried, solved(&loaded("clients = 3")).throughput);
    assert!(open.carried < 1.0 / (0.023 + 0.5 * 0.004));
    assert_eq!(open.limit.unwrap().resource, "request");
}

/// 1 % less of a branch carries as much more as the net with that says.
#[test]
fn what_counts_most_is_what_brings_most() {
    let faster = |by: f64| changed(TWO, &[("20 ms", &format!("{} ms", 20.0 * by))]);
    let found = chosen(TWO, &Wanted::default()).limit.unwrap();
    assert_eq!((found.what.as_str(), found.resource.as_str()), ("`other`", "request"));
    let (less, more) = (solved(&faster(1.0 - 1e-5)).throughput, solved(&faster(1.0 + 1e-5)).throughput);
    let slope = (less - more) / 2e-5 / solved(TWO).throughput;
    assert!((found.share - slope).abs() < 1e-6, "{} {slope}", found.share);
    // Without it the other one is left.
    assert!(found.bound.unwrap() >= 100.0 && found.at_most);
}

#[test]
fn a_request_whose_branch_fails_is_aborted_at_the_join() {
    let after = "[[sequence.main]]\ndo = \"after\"\nby = \"x\"\ntime = \"7 ms\"\n";
    for load in ["clients = 1", "clients = 2\nthink = \"20 ms\""] {
        let text = signed(load) + after;
        let found = solved(&text);
        let well = 0.9 * 0.8;
        close("aborted", found.aborted / (found.throughput + found.aborted), 1.0 - well);
        let spent = |on: &str| found.spent.iter().filter(|it| it.on == on).map(|it| it.seconds).sum::<f64>();
        // Both are verified, whatever comes of the other.
        close("verified", spent("signature-verification"), 2.0 * 0.002 + 2e-6);
        close("after", spent("after"), well * 0.007);
        let whole = found.spent.iter().filter(|it| !it.beside).map(|it| it.seconds).sum();
        close("response", found.response, whole);
        let run = chosen(&text, &percentiles());
        let half = run.plus_minus["mean"];
        assert!((run.mean.unwrap() - found.response).abs() <= 2.0 * half, "{:?} {found:?}", run.mean);
        let exact = chosen(&text, &Wanted::default());
        close("throughput", exact.throughput, found.throughput);
        close("cores", exact.cores, 0.03 + 2.0 * (0.001 + 2e-6 + 0.002) + well * 0.007);
        close("energy", exact.energy.unwrap(), 4.0);
        assert!(exact.plus_minus["mean"] > 0.0 && run.plus_minus["p99"] > 0.0);
    }
    // Behind both, and within another fragment.
    let nested = signed("clients = 1").replace(
        "par = [ { ref = \"one\" }, { ref = \"other\" } ]",
        "par = [ { ref = \"both\" }, { ref = \"idle\" } ]",
    ) + "[[sequence.both]]\npar = [ { ref = \"one\" }, { ref = \"other\" } ]\n[[sequence.both]]\ndo = \"late\"\nby = \"x\"\ntime = \"9 ms\"\n\
           [[sequence.idle]]\ndo = \"idle\"\nby = \"y\"\ntime = \"1 ms\"\n";
    let found = solved(&nested);
    close("nested", found.aborted / (found.throughput + found.aborted), 1.0 - 0.72);
    close("late", found.spent.iter().find(|it| it.on == "late").unwrap().seconds, 0.72 * 0.009);
    let run = chosen(&nested, &percentiles());
    assert!((run.mean.unwrap() - found.response).abs() <= 2.0 * run.plus_minus["mean"], "{:?} {found:?}", run.mean);
}

/// The run that `choose --verify` makes sees what was worked out.
#[test]
fn a_trial_sees_what_was_worked_out() {
    let text = loaded(LOADS[2]) + "[node.more]\nmachines = [1, 2]\n";
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let choice = choose(&model(&text), &Wanted::default(), &effort).unwrap();
    let seen = within(|budget| trial(&model(&text), &choice, SEED, budget)).unwrap().unwrap();
    for it in &seen.figures {
        assert!((it.seen - it.predicted).abs() <= 2.0 * it.plus_minus, "{it:?}");
    }
}

/// A pool around a fragment lets in as many as it has units, and as many slots there are; units are held once, not by each branch.
#[test]
fn a_pool_around_a_fragment_is_held_once() {
    let main = [("main", "take p, par a b, give p"), ("a", "one"), ("b", "other")];
    let text =
        sequences(&main).replace("clients = 2", "clients = 4\nthink = \"2 ms\"").replace("[pool.q]\nsize = 2\n", "");
    let slots = |text: &str| {
        let net = print::net(&cost::net::lay(&weave(&model(text))).unwrap());
        net.lines().filter(|line| line.contains("slot") && line.starts_with("place")).count()
    };
    assert_eq!(slots(&text), 2);
    assert_eq!(slots(&text.replace("size = 2", "size = 1")), 0);
    assert_eq!(slots(&text.replace("size = 2", "size = 9")), 4);
    assert_eq!(slots(&text.replace("think = \"2 ms\"", "threads = 3").replace("size = 2", "size = 9")), 3);
    let found = solved(&text);
    // Two are inside, with two cores for four branches: who is inside holds one unit.
    let inside = found.spent.iter().find(|it| it.on == "parallel branches").unwrap().seconds;
    close("held", found.pools[0].utilisation * 2.0, inside * found.throughput);
    let run = chosen(&text, &percentiles());
    assert!((run.mean.unwrap() - found.response).abs() <= 2.0 * run.plus_minus["mean"], "{:?} {found:?}", run.mean);
    let carried = chosen(&text, &Wanted::default());
    let most = solved(&text.replace("clients = 4\nthink = \"2 ms\"", "clients = 6"));
    assert!((carried.carried / most.throughput - 1.0).abs() < 0.02, "{carried:?} {most:?}");
}

#[test]
fn too_many_slots_are_refused_and_simulated() {
    let refused = |text: &str, part: &str| {
        let fault = within(|budget| solve(&weave(&model(text)), budget)).unwrap_err();
        let line = fault.line.and_then(|line| text.lines().nth(line - 1)).unwrap_or("");
        assert!(line.contains("par = ["), "{fault}: {line}");
        assert_eq!((fault.class, fault.name.as_str()), (Class::TooLarge, "par"), "{fault}");
        assert!(fault.why.contains(part) && fault.why.contains("fewer clients"), "{fault}");
    };
    let clients = |many: u32| changed(TWO, &[("clients = 1", &format!("clients = {many}\nthink = \"{many} s\""))]);
    refused(&clients(17), "17 requests may be inside of a parallel fragment at once");
    let long = "{ ref = \"one\", times = 20000 }";
    refused(&changed(&clients(16), &[("{ ref = \"one\" }", long)]), "more than 250000 in all");
    let many = clients(100_000);
    let found = chosen(&many, &Wanted::default());
    assert!(found.simulated.is_some() && found.plus_minus["mean"] < 0.01 * found.mean.unwrap());
}
