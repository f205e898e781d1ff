//! Settings by more than their times: how sure prices are, energy, money, machines that fail, several threads.

use cost::choose::{Choice, Effort, Wanted, check, choose, csv, svg, text};
use cost::read::{Language, read};
use cost::{Class, Fault, Model, print};
use gspn::Limits;

const MODEL: &str = r#"
[workload]
arrivals = "40/s"
room = 40
threads = 1
[node.pc]
platform = "p"
idle = "30 W"
busy = "10 W"
money = "0.05/h"
[node.server]
platform = "p"
speed = 2
money = "0.2/h"
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
size = "4 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "3 ms"
returns = "order"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
do = "store"
by = "service"
time = "4 ms"
variation = 0.5
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = ["ed25519", "rsa-2048", "rsa-3072", "rsa-4096"]
[price.p."hash sha-256"]
each = "0.1 ms"
error = "2 %"
[price.p."sign ed25519"]
each = "0.3 ms"
[price.p."verify ed25519"]
each = "0.4 ms"
[price.p."sign rsa-2048"]
each = "4 ms"
variation = 0.5
interval = ["3.8 ms", "4.2 ms"]
[price.p."verify rsa-2048"]
each = "0.4 ms"
n = 400
energy = "3 mJ"
[price.p."sign rsa-3072"]
each = "7 ms"
error = 0.1
[price.p."verify rsa-3072"]
each = "0.6 ms"
[price.p."sign rsa-4096"]
each = "30 ms"
error = "10 %"
[price.p."verify rsa-4096"]
each = "0.8 ms"
[money]
energy = 100
"#;

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"))
}

fn effort() -> Effort<'static> {
    Effort { limits: Limits::default(), threads: 2, go_on: &|_| true }
}

fn chosen(model: &Model, wanted: &Wanted) -> Result<Choice, Fault> {
    choose(model, wanted, &effort())
}

/// Normal deviates (Box, Muller) of a small generator.
struct Normal(u64);

impl Normal {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Drawn prices, each run solved anew, spread as far as the intervals say.
#[test]
fn intervals_are_those_of_drawn_prices() {
    let model = model(MODEL);
    let wanted = Wanted { p50: Some(1.0), p99: Some(1.0), ..Wanted::default() };
    let said = chosen(&model, &wanted).unwrap();
    let mut normal = Normal(7);
    let mut drawn: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); 5]; said.settings.len()];
    for _ in 0..400 {
        let mut other = model.clone();
        for price in other.prices.values_mut().flat_map(|prices| prices.values_mut()) {
            price.each *= 1.0 + price.error / 1.96 * normal.next();
            price.error = 0.0;
        }
        for (it, drawn) in chosen(&other, &wanted).unwrap().settings.iter().zip(&mut drawn) {
            assert!(it.plus_minus.is_empty());
            let all = [it.saturation, it.cores, it.mean.unwrap_or(0.0), it.p50.unwrap_or(0.0), it.p99.unwrap_or(0.0)];
            drawn.iter_mut().zip(all).for_each(|(list, value)| list.push(value));
        }
    }
    for (it, drawn) in said.settings.iter().zip(&drawn) {
        for (name, list) in ["saturation", "cores", "mean", "p50", "p99"].into_iter().zip(drawn) {
            if it.saturated && !["saturation", "cores"].contains(&name) {
                assert!(!it.plus_minus.contains_key(name), "{it:?}");
                continue;
            }
            let mean = list.iter().sum::<f64>() / list.len() as f64;
            let sd = (list.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (list.len() - 1) as f64).sqrt();
            let half = it.plus_minus[name];
            // 400 draws know their spread to 7 %; times near saturation bend.
            assert!((half / (1.96 * sd) - 1.0).abs() < 0.2, "{name} of {:?}: {half} {}", it.setting, 1.96 * sd);
        }
    }
    let words = text(&said);
    assert!(words.contains(" ± "), "{words}");
    assert!(svg(&said).contains("stroke-opacity"));
    assert!(csv(&said).lines().next().unwrap().contains("p99_s,p99_s_plus_minus"));
}

#[test]
fn a_constraint_that_an_interval_reaches_over_is_not_sure() {
    let all = chosen(&model(MODEL), &Wanted { p99: Some(1.0), ..Wanted::default() }).unwrap();
    let (p99, half) = (all.settings[2].p99.unwrap(), all.settings[2].plus_minus["p99"]);
    let near = Wanted { p99: Some(p99 + half / 2.0), ..Wanted::default() };
    let choice = chosen(&model(MODEL), &near).unwrap();
    assert_eq!((choice.settings[2].fails.len(), choice.settings[2].unsure.as_slice()), (0, &["p99".to_owned()][..]));
    assert!(text(&choice).contains("within its intervals it may fail p99"));
    let far = chosen(&model(MODEL), &Wanted { p99: Some(p99 + 2.0 * half), ..Wanted::default() }).unwrap();
    assert!(far.settings[2].unsure.is_empty());
}

/// The model near to what RSA 3072 carries, whose signature is the least sure; with room for many.
fn crowded(arrivals: &str) -> String {
    MODEL.replace("40/s", arrivals).replace("room = 40", "room = 400").replace("\"ed25519\", \"rsa-2048\", ", "")
}

/// Near saturation times grow faster than any slope says: of drawn prices as many are beyond each end as there should be, and not so of
/// the ends that slopes make.
#[test]
fn ends_are_those_of_drawn_prices() {
    const DRAWS: usize = 2000;
    let text = crowded("66/s").replace("\"rsa-3072\", \"rsa-4096\"", "\"rsa-3072\"");
    let text = text.replace("each = \"0.1 ms\"\nerror = \"2 %\"", "each = \"1 ms\"\nerror = \"20 %\"");
    let model = model(&text.replace("time = \"4 ms\"", "time = \"2 ms\""));
    let wanted = Wanted { p99: Some(10.0), ..Wanted::default() };
    let said = chosen(&model, &wanted).unwrap().settings.remove(0);
    let mut normal = Normal(11);
    let mut draw = || {
        let mut other = model.clone();
        for price in other.prices.values_mut().flat_map(|prices| prices.values_mut()) {
            price.each *= 1.0 + price.error / 1.96 * normal.next();
            price.error = 0.0;
        }
        let it = chosen(&other, &wanted).unwrap().settings.remove(0);
        [it.mean, it.p99].map(|time| time.unwrap_or(f64::INFINITY))
    };
    let drawn: Vec<[f64; 2]> = (0..DRAWS).map(|_| draw()).collect();
    for (at, (name, value)) in [("mean", said.mean.unwrap()), ("p99", said.p99.unwrap())].into_iter().enumerate() {
        let [Some(low), Some(high)] = said.ends[name] else { panic!("{said:?}") };
        let beyond = |low: f64, high: f64| {
            let share = |of: &dyn Fn(f64) -> bool| drawn.iter().filter(|it| of(it[at])).count() as f64 / DRAWS as f64;
            (share(&|time| time < low), share(&|time| time > high))
        };
        // 2000 draws know a share of 2.5 % to 0.7 %.
        let (below, above) = beyond(low, high);
        assert!((below - 0.025).abs() < 0.01 && (above - 0.025).abs() < 0.01, "{name}: {below} {above}, {said:?}");
        let half = said.plus_minus[name];
        let (below, above) = beyond(value - half, value + half);
        assert!(below < 0.01 && above > 0.04, "{name}: {below} {above}, {said:?}");
    }
}

/// Where one price alone is not sure, the ends are what it says at its borders; what just fits between them is not sure, and slopes do
/// not say so.
#[test]
fn the_far_end_decides_where_times_bend() {
    let only = "[price.p.\"sign rsa-3072\"]\neach = \"7 ms\"\nerror = 0.1\n";
    let sure: String = crowded("64/s").replace("error = 0.1\n", "").replace("error = \"2 %\"\n", "");
    let with = |price: &str| sure.replace("[price.p.\"sign rsa-3072\"]\neach = \"7 ms\"\n", price);
    let all = |text: &str, p99: f64| chosen(&model(text), &Wanted { p99: Some(p99), ..Wanted::default() }).unwrap();
    let it = all(&with(only), 10.0).settings.remove(0);
    let [low, high] = it.ends["p99"].map(Option::unwrap);
    for (end, each) in [(low, "6.3 ms"), (high, "7.7 ms")] {
        let border =
            all(&with(&only.replace("7 ms", each).replace("error = 0.1\n", "")), 10.0).settings[0].p99.unwrap();
        assert!((border / end - 1.0).abs() < 1e-6, "{border} {end}");
    }
    let (p99, half) = (it.p99.unwrap(), it.plus_minus["p99"]);
    assert!(high > p99 + 1.3 * half && low > p99 - 0.8 * half, "{it:?}");
    let unsure = |p99: f64| all(&with(only), p99).settings.remove(0).unsure;
    assert_eq!(unsure(p99 + 1.2 * half), ["p99"]);
    assert_eq!(unsure(high * 0.999), ["p99"]);
    assert!(unsure(high * 1.001).is_empty());
    let said = text(&all(&with(only), 10.0));
    assert!(said.contains("its ends, where they are not as far") && said.contains(" ms (from "), "{said}");
}

/// At the far end more comes than is carried: no time has an upper end there, and each form says so.
#[test]
fn what_may_saturate_has_no_upper_end() {
    let choice = chosen(&model(&crowded("71/s")), &Wanted { p99: Some(10.0), ..Wanted::default() }).unwrap();
    let it = &choice.settings[0];
    assert!(!it.saturated && it.fails.is_empty(), "{it:?}");
    assert!(it.ends["p99"][0].is_some_and(|low| low > 0.0 && low < it.p99.unwrap()), "{it:?}");
    assert_eq!((it.ends["p99"][1], it.unsure.as_slice()), (None, &["p99".to_owned(), "rate".to_owned()][..]));
    let words = text(&choice);
    assert!(words.contains(" ms; may saturate)"), "{words}");
    let csv = csv(&choice);
    let mut lines = csv.lines().map(|line| line.replace('"', "").split(',').map(str::to_owned).collect::<Vec<_>>());
    let (heads, first) = (lines.next().unwrap(), lines.next().unwrap());
    let column = |name: &str| first[heads.iter().position(|head| head == name).unwrap()].clone();
    assert_eq!(column("p99_s_high"), "inf");
    assert_eq!(column("p99_s_low").parse::<f64>().unwrap(), it.ends["p99"][0].unwrap());
    assert!(column("core_s_low").parse::<f64>().unwrap() < it.cores);
    let picture = svg(&choice);
    assert!(picture.contains("stroke-opacity") && !picture.contains("NaN") && !picture.contains("inf"), "{picture}");
}

#[test]
fn energy_and_money_are_added_up_as_they_are_said() {
    let choice = chosen(&model(MODEL), &Wanted::default()).unwrap();
    let it = &choice.settings[1];
    let rate = it.throughput;
    let client = 0.003 + 0.0001 + 0.004;
    // 30 W all the time, 10 W while its core works, and 3 mJ of each verification.
    let joules = 30.0 / rate + 10.0 * client + 0.003;
    assert!((it.energy.unwrap() / joules - 1.0).abs() < 1e-9, "{it:?} {joules}");
    let money = 0.05 + 0.2 + joules * rate * 100.0 / 1e6;
    assert!((it.money.unwrap() / money - 1.0).abs() < 1e-9, "{it:?} {money}");

    let most = joules * 1.0001;
    let wanted = Wanted { energy: Some(most), money: Some(1.0), ..Wanted::default() };
    let choice = chosen(&model(MODEL), &wanted).unwrap();
    assert_eq!(choice.ranked, [0, 1]);
    let fail = &choice.settings[2].fails[0];
    assert!(fail.constraint == "energy" && fail.why.contains("above"), "{fail:?}");
    let plain = MODEL.replace("idle = \"30 W\"\nbusy = \"10 W\"\nmoney = \"0.05/h\"", "");
    let plain = plain.replace("money = \"0.2/h\"", "").replace("energy = \"3 mJ\"", "");
    for wanted in [
        Wanted { energy: Some(1.0), ..Wanted::default() },
        Wanted { money: Some(1.0), ..Wanted::default() },
        Wanted { availability: Some(0.9), ..Wanted::default() },
        Wanted { one_down: true, ..Wanted::default() },
    ] {
        assert_eq!(chosen(&model(&plain), &wanted).unwrap_err().class, Class::Missing, "{wanted:?}");
    }
}

/// Machines of the server, each with a thread, against what signatures cost.
fn several() -> String {
    let text =
        MODEL.replace("[node.server]", "[node.server]\nmachines = [1, 2, 3]\nfails = \"1000 h\"\nrepair = \"10 h\"");
    let text = text.replace("threads = 1", "threads = 1\nthreads_on = \"server\"");
    text.replace("[node.pc]", "[node.pc]\ncores = 3").replace("room = 40", "room = 15").replace("variation = 0.5\n", "")
}

/// With one of two down a setting is what it is with one machine, its intervals and what they leave open included.
#[test]
fn with_one_down_figures_have_the_intervals_of_one_fewer() {
    let servers = several().replace("error = 0.1", "error = 0.3").replace("[1, 2, 3]", "[1, 2]");
    let wanted = Wanted { p99: Some(1.0), rate: Some(66.0), one_down: true, ..Wanted::default() };
    let choice = chosen(&model(&servers), &wanted).unwrap();
    for pair in choice.settings.chunks(2) {
        let (one, down) = (&pair[0], &pair[1].down[0]);
        assert_eq!((down.left, down.carried, down.p99), (1, one.carried, one.p99));
        assert!(
            down.plus_minus.contains_key("carried") && down.plus_minus.contains_key("p99") != one.saturated,
            "{down:?}"
        );
        for (name, half) in &one.plus_minus {
            assert!((down.plus_minus[name] - half).abs() <= 1e-9 * half, "{name} {half} {down:?}");
        }
        assert_eq!(one.ends.keys().collect::<Vec<_>>(), down.ends.keys().collect::<Vec<_>>());
        for (name, ends) in &one.ends {
            for (one, other) in ends.iter().zip(down.ends[name]) {
                assert!(one.zip(other).is_none_or(|(one, other)| (one / other - 1.0).abs() < 1e-9), "{name} {ends:?}");
            }
        }
    }
    // RSA 3072 carries more than comes with one machine, but may not.
    let (alone, two) = (&choice.settings[4], &choice.settings[5]);
    assert!(!alone.saturated && alone.ends["p99"][1].is_none(), "{alone:?}");
    assert_eq!(two.down[0].unsure, ["p99", "rate"]);
    assert_eq!(two.unsure, ["p99 with one machine of `server` down", "rate with one machine of `server` down"]);
    let lost = "with one machine of `server` down (1 left) it saturates at ";
    let said = text(&choice);
    assert!(said.lines().any(|it| it.contains(lost) && it.contains(" \u{b1} ")), "{said}");
}

/// Time that is over while a machine is down takes nothing along where nobody asks for that, and where somebody does it is said what was
/// not finished.
#[test]
fn what_is_not_known_of_a_machine_down_is_said() {
    let servers = several().replace("machines = [1, 2, 3]", "machines = [2]");
    let servers = servers.replace("\"ed25519\", \"rsa-2048\", \"rsa-3072\", \"rsa-4096\"", "\"rsa-3072\"");
    let model = model(&servers);
    // Time is over after so many looks: somewhere each part of the setting is the one that is not finished.
    let mut seen = std::collections::BTreeSet::new();
    for one_down in [false, true] {
        let wanted = Wanted { mean: Some(1.0), one_down, ..Wanted::default() };
        for most in (0..4000).step_by(7) {
            let looks = std::sync::atomic::AtomicU32::new(0);
            let go_on = |_| looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < most;
            match choose(&model, &wanted, &Effort { limits: Limits::default(), threads: 1, go_on: &go_on }) {
                Err(fault) => {
                    assert!(fault.name == "time" && fault.why.contains("limit of time"), "{fault}");
                    seen.insert((one_down, "nothing"));
                }
                Ok(choice) => {
                    let it = &choice.settings[0];
                    let Some(why) = &it.down[0].unsolved else {
                        seen.insert((one_down, "all"));
                        break;
                    };
                    assert!(why.starts_with("with one machine of `server` down: not solved when the time was over"));
                    assert!(it.unsolved.is_none() && text(&choice).contains(why.as_str()), "{it:?}");
                    assert_eq!(it.fails.iter().any(|fail| fail.why == *why), one_down, "{it:?}");
                    seen.insert((one_down, "down"));
                }
            }
        }
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

/// Two threads that wait for nobody: the ends are those of the net with the price at its borders.
#[test]
fn nets_are_solved_at_both_ends() {
    let text =
        MODEL.replace("threads = 1", "threads = 2").replace("error = \"2 %\"\n", "").replace("room = 40", "room = 12");
    let text =
        text.replace("40/s", "75/s").replace("\"ed25519\", \"rsa-2048\", \"rsa-3072\", \"rsa-4096\"", "\"rsa-3072\"");
    let wanted = Wanted { p95: Some(1.0), ..Wanted::default() };
    let at = |price: &str| {
        let text = text.replace("each = \"7 ms\"\nerror = 0.1", price);
        let it = chosen(&model(&text), &wanted).unwrap().settings.remove(0);
        assert!(it.simulated.is_none());
        it
    };
    let (middle, [low, high]) =
        (at("each = \"7 ms\"\nerror = 0.3"), ["4.9 ms", "9.1 ms"].map(|it| at(&format!("each = \"{it}\""))));
    for (name, of) in [("mean", (|it| it.mean) as fn(&cost::choose::Outcome) -> Option<f64>), ("p95", |it| it.p95)] {
        let ends = [of(&low), of(&high)];
        for (end, border) in middle.ends[name].into_iter().zip(ends) {
            assert_eq!(end.is_some(), border.is_some(), "{name} {middle:?}");
            assert!(
                end.zip(border).is_none_or(|(end, border)| (end / border - 1.0).abs() < 1e-5),
                "{name}: {end:?} {border:?}"
            );
        }
    }
}

#[test]
fn machines_are_weighed_against_signatures() {
    let model = model(&several());
    let wanted = Wanted { p99: Some(0.3), rate: Some(60.0), ..Wanted::default() };
    let choice = chosen(&model, &wanted).unwrap();
    assert_eq!(choice.settings.len(), 12);
    assert!(!choice.reduced);
    let carried: Vec<f64> = choice.settings.iter().map(|it| it.saturation).collect();
    assert!((carried[1] / carried[0] - 2.0).abs() < 1e-9 && (carried[2] / carried[0] - 3.0).abs() < 1e-9);
    // RSA-4096 needs three machines, Ed25519 one, which costs less.
    let can = |index: usize| choice.settings[index].fails.is_empty();
    assert_eq!([can(0), can(9), can(10), can(11)], [true, false, false, true], "{}", text(&choice));
    assert_eq!(choice.ranked[0], 0);
    assert!(choice.settings[9].fails[0].why.starts_with("this saturates at"), "{:?}", choice.settings[9]);
    assert_eq!(choice.settings[11].machines, [1, 3]);
    assert!(choice.settings[11].setting.contains(&"node server: 3 machines".to_owned()));
    // More machines are dearer and more available, so neither beats the other; of the same number, the dearer signature is beaten.
    assert!(choice.settings[0].on_front && choice.settings[2].on_front);
    assert_eq!(choice.settings[11].beaten_by, Some(2));

    // One machine is up 1000 of 1010 hours; of two, one is, but for both being down (one crew).
    let share = |index: usize| choice.settings[index].availability.unwrap();
    let ratio = 0.01;
    assert!((share(0) - 1.0 / (1.0 + ratio)).abs() < 1e-12);
    assert!((share(1) - (1.0 + 2.0 * ratio) / (1.0 + 2.0 * ratio + 2.0 * ratio * ratio)).abs() < 1e-12);
    let wanted = Wanted { availability: Some(0.999), ..wanted };
    let choice = chosen(&model, &wanted).unwrap();
    assert_eq!(choice.settings[choice.ranked[0]].machines, [1, 2]);
    assert!(
        choice.settings[0].fails[0].why.starts_with("enough machines are up 99.0"),
        "{:?}",
        choice.settings[0].fails
    );

    // With RSA-4096 two machines are not enough: losing one of three is a loss.
    let wanted = Wanted { one_down: true, ..wanted };
    let choice = chosen(&model, &wanted).unwrap();
    assert!(
        choice.settings[11]
            .fails
            .iter()
            .any(|it| it.why.starts_with("with one machine of `server` down this saturates at"))
    );
    assert!(choice.settings[0].fails.iter().any(|it| it.why.ends_with("there is nothing that goes on")));
    assert!(text(&choice).contains("with one machine of `server` down (1 left) it saturates at"), "{}", text(&choice));
    let down = &choice.settings[11].down[0];
    assert!((down.left, down.stops) == (2, false) && (down.saturation - carried[10]).abs() < 1e-9);
}

/// Two machines serve one exponential step: response times of the queue M/M/2.
#[test]
fn percentiles_of_two_threads_are_those_of_the_closed_form() {
    let text = "[workload]\narrivals = \"120/s\"\nroom = 80\nthreads = 2\n[node.n]\ncores = 2\nplatform = \"p\"\n[component.c]\nnode = \"n\"\n[attribute.a]\nof = \"c\"\n\
        [[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"10 ms\"\nreturns = \"a\"\n\
        [[secure]]\nproperty = \"data-origin-authentication\"\non = \"attribute a\"\nsignature = \"ed25519\"\noptional = true\n\
        [price.p]\n\"hash sha-256\" = { each = \"0.1 ms\" }\n\"sign ed25519\" = { each = \"0.1 ms\", error = 0.1 }\n";
    let model = model(text);
    let wanted = Wanted { p50: Some(1.0), p95: Some(1.0), p99: Some(1.0), ..Wanted::default() };
    let choice = chosen(&model, &wanted).unwrap();
    let plain = choice.settings.iter().find(|it| it.strength.is_none()).unwrap();
    let (serve, load) = (100.0_f64, 1.2_f64);
    let busy = load * load / 2.0 / (1.0 - load / 2.0);
    let wait = busy / (1.0 + load + busy);
    let tail = |t: f64| {
        let rest = 1.0 - load;
        (-serve * t).exp() * (1.0 + wait * (1.0 - (-serve * t * rest).exp()) / rest)
    };
    for (time, wanted) in [(plain.p50, 0.5), (plain.p95, 0.05), (plain.p99, 0.01)] {
        let off = tail(time.unwrap()) / wanted - 1.0;
        assert!(off.abs() < 1e-5, "{time:?}: {off}");
    }
    let signed = choice.settings.iter().find(|it| it.strength.is_some()).unwrap();
    assert!(signed.p99 > plain.p99 && signed.plus_minus["p99"] > 0.0, "{signed:?}");
}

/// Stations of one core each: where one is waited for in one place, requests are served as they came, and where in two, in no order.
/// Percentiles against a simulation of just that.
#[test]
fn percentiles_of_requests_that_wait_for_each_other_are_those_of_a_simulation() {
    let text = |workload: &str, again: &str| {
        format!(
            "[workload]\n{workload}\n[node.n]\nplatform = \"p\"\n[node.m]\n[component.c]\nnode = \"n\"\n[component.d]\nnode = \"m\"\n\
            [attribute.a]\nof = \"c\"\n[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"10 ms\"\nreturns = \"a\"\n\
            [[sequence.main]]\ndo = \"store\"\nby = \"d\"\ntime = \"8 ms\"\n{again}[[secure]]\nproperty = \"data-origin-authentication\"\n\
            on = \"attribute a\"\nsignature = \"ed25519\"\noptional = true\n\
            [price.p]\n\"hash sha-256\" = {{ each = \"0.1 ms\" }}\n\"sign ed25519\" = {{ each = \"0.1 ms\", error = 0.1 }}\n"
        )
    };
    let wanted = Wanted { p50: Some(1.0), p99: Some(1.0), ..Wanted::default() };
    let (once, again) = ("", "[[sequence.main]]\ndo = \"tell\"\nby = \"c\"\ntime = \"3 ms\"\n");
    for (workload, more, clients, arrivals, room, threads) in [
        ("clients = 6\nthink = \"20 ms\"", once, 6, None, 6, 6),
        ("clients = 6\nthink = \"20 ms\"", again, 6, None, 6, 6),
        ("clients = 6\nthink = \"20 ms\"\nthreads = 3", once, 6, None, 6, 3),
        ("arrivals = \"70/s\"\nroom = 8", once, 0, Some(70.0), 8, 8),
        ("arrivals = \"70/s\"\nroom = 8\nthreads = 2", once, 0, Some(70.0), 8, 2),
        ("arrivals = \"60/s\"\nroom = 8\nthreads = 4", again, 0, Some(60.0), 8, 4),
    ] {
        let choice = chosen(&model(&text(workload, more)), &wanted).unwrap();
        let plain = choice.settings.iter().find(|it| it.strength.is_none()).unwrap();
        let stages: &[(usize, f64)] = &[(0, 0.01), (1, 0.008), (0, 0.003)];
        let mut times = simulated(if more == again { stages } else { &stages[..2] }, clients, arrivals, room, threads);
        times.sort_by(f64::total_cmp);
        for (name, got, level) in [("p50", plain.p50, 0.5), ("p99", plain.p99, 0.99)] {
            let seen = times[(times.len() as f64 * level) as usize];
            let off = got.unwrap() / seen - 1.0;
            assert!(off.abs() < 0.015, "{name} of {workload}{more}: {got:?}, {seen} in {} requests", times.len());
        }
        let signed = choice.settings.iter().find(|it| it.strength.is_some()).unwrap();
        assert!(signed.p99 > plain.p99 && signed.plus_minus["p99"] > 0.0, "{signed:?}");
    }
}

/// Requests that wait for threads as they came, then go through stages: each on a station, and how long it takes on the mean. Who waits for a
/// station is served as he came where there is one stage on it, else in no order.
fn simulated(stages: &[(usize, f64)], clients: usize, arrivals: Option<f64>, room: usize, threads: usize) -> Vec<f64> {
    let mut random = Normal(11);
    let mut exponential = |mean: f64| -mean * random.uniform().ln();
    let mut pick = Normal(12);
    // Events: when, and who, and in which stage; stations hold who is served and who waits.
    let mut now = 0.0;
    let mut thinks: Vec<f64> = (0..clients).map(|_| exponential(0.02)).collect();
    let mut next_arrival = arrivals.map(|rate| exponential(1.0 / rate));
    let (mut gate, mut inside) = (std::collections::VecDeque::new(), 0);
    let mut served: [Option<(f64, f64, usize)>; 2] = [None; 2];
    let mut waits: [Vec<(f64, usize)>; 2] = [Vec::new(), Vec::new()];
    let mut times = Vec::new();
    while times.len() < 300_000 {
        let think = thinks.iter().copied().fold(f64::INFINITY, f64::min);
        let ends = served.map(|it| it.map_or(f64::INFINITY, |(end, ..)| end));
        let arrival = next_arrival.unwrap_or(f64::INFINITY);
        now = think.min(ends[0]).min(ends[1]).min(arrival).max(now);
        let mut came = false;
        if ends[0] <= now || ends[1] <= now {
            let station = usize::from(ends[0] > now);
            let (_, since, stage) = served[station].take().unwrap();
            if let Some((next, _)) = stages.get(stage + 1) {
                waits[*next].push((since, stage + 1));
            } else {
                times.push(now - since);
                inside -= 1;
                if clients > 0 {
                    thinks.push(now + exponential(0.02));
                }
            }
        } else if think <= now {
            thinks.retain(|it| *it > now);
            came = true;
        } else {
            next_arrival = arrivals.map(|rate| now + exponential(1.0 / rate));
            came = gate.len() + inside < room;
        }
        if came {
            gate.push_back(now);
        }
        while inside < threads && !gate.is_empty() {
            waits[stages[0].0].extend(gate.pop_front().map(|since| (since, 0)));
            inside += 1;
        }
        for station in 0..2 {
            if served[station].is_none() && !waits[station].is_empty() {
                let places = stages.iter().filter(|(at, _)| *at == station).count();
                let who = if places > 1 { (pick.uniform() * waits[station].len() as f64) as usize } else { 0 };
                let (since, stage) = waits[station].remove(who);
                served[station] = Some((now + exponential(stages[stage].1), since, stage));
            }
        }
    }
    times.split_off(1000)
}

/// More markings than are solved, where no fewer are allowed.
#[test]
fn nets_that_are_too_large_are_simulated() {
    let many = MODEL.replace("threads = 1\n", "").replace("room = 40", "room = 9000");
    // Prices that are sure: what is left is the simulation's.
    let unsure = |line: &&str| ["error = ", "interval = ", "n = "].iter().all(|start| !line.starts_with(start));
    let many: Vec<&str> = many.lines().filter(unsure).collect();
    let (many, wanted) = (model(&many.join("\n")), Wanted { p99: Some(1.0), ..Wanted::default() });
    let few = Limits { markings: 1000, ..Limits::default() };
    let refused = choose(&many, &wanted, &Effort { limits: few, threads: 2, go_on: &|_| true }).unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unanswered, "markings"));
    let choice = chosen(&many, &wanted).unwrap();
    let text = text(&choice);
    assert!(text.contains(" requests simulated, ") || text.contains(" requests simulated\n"), "{text}");
    assert!(check(&many, &choice, 3, &effort()).unwrap().is_empty());
    for it in choice.settings {
        assert!(it.simulated.is_some_and(|requests| requests >= 32_768), "{it:?}");
        for (name, value) in [("mean", it.mean), ("p99", it.p99)] {
            let half = it.plus_minus.get(name).copied().unwrap_or(0.0);
            assert!(value.is_none_or(|value| half > 0.0 && half < 0.02 * value), "{name}: {half} {it:?}");
        }
    }
}

/// What is said of a limit is what happens: a price that is 1 % smaller, and one that is nothing.
#[test]
fn the_bottleneck_says_what_less_of_it_brings() {
    let model = model(MODEL);
    let wanted = Wanted { p99: Some(0.06), rate: Some(60.0), ..Wanted::default() };
    let choice = chosen(&model, &wanted).unwrap();
    let it = &choice.settings[3];
    assert!(it.fails[0].why.starts_with("this saturates at") && it.fails[0].why.ends_with("60/s are asked for"));
    let limit = it.limit.as_ref().unwrap();
    assert!(limit.what.starts_with("signature-generation") && limit.resource == "threads", "{limit:?}");
    let with = |factor: f64| {
        let mut other = model.clone();
        // The mechanism is the hash and the signature.
        for (operation, price) in other.prices.get_mut("p").unwrap().iter_mut() {
            if operation == "sign rsa-4096" {
                price.each *= factor;
            }
        }
        chosen(&other, &wanted).unwrap().settings[3].saturation
    };
    let elasticity = (with(0.99) / it.saturation).ln() / -(0.99_f64.ln());
    let hash = 0.0001 / 0.0301;
    assert!((elasticity / (limit.share * (1.0 - hash)) - 1.0).abs() < 0.01, "{elasticity} {limit:?}");
    let bound = limit.bound.unwrap();
    assert!(with(1e-9) < bound && with(1e-9) > bound * 0.98, "{limit:?}");
    assert_eq!(limit.instead, Some(0));
    assert!(it.bottleneck.contains("with `attribute order: ed25519 sha-256` instead"), "{}", it.bottleneck);
}

#[test]
fn who_asks_too_much_hears_what_could_be_had() {
    let wanted = Wanted { p99: Some(0.001), money: Some(0.3), ..Wanted::default() };
    let choice = chosen(&model(MODEL), &wanted).unwrap();
    assert!(choice.ranked.is_empty());
    assert_eq!(choice.rejected[0], 0);
    let words = text(&choice);
    assert!(words.contains("no setting meets all constraints\nthe nearest: attribute order: ed25519"), "{words}");
    assert!(words.contains("the best p99 of all is "), "{words}");
    assert_eq!(choice.best["p99"], 0);
}

#[test]
fn what_is_said_of_machines_and_prices_is_printed_and_read_back() {
    let model = model(&several());
    let printed = print::annotated(&model);
    let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
    assert_eq!(again.nodes, model.nodes);
    assert_eq!((again.energy, again.threads_on), (model.energy, model.threads_on));
    for (one, other) in model.prices["p"].values().zip(again.prices["p"].values()) {
        assert!((one.error - other.error).abs() < 1e-15 && (one.energy - other.energy).abs() < 1e-15);
    }
    for (from, to, class) in [
        ("n = 400", "n = 400\nerror = 0.1", Class::Doubled),
        ("interval = [\"3.8 ms\", \"4.2 ms\"]", "interval = [\"4.1 ms\", \"4.2 ms\"]", Class::Invalid),
        ("machines = [1, 2, 3]", "machines = [1, 2, 2]", Class::Doubled),
        ("machines = [1, 2, 3]", "machines = [0]", Class::Invalid),
        ("machines = [1, 2, 3]", "needed = 2", Class::Invalid),
        ("repair = \"10 h\"", "crews = 2", Class::Missing),
        ("threads_on = \"server\"", "threads_on = \"nobody\"", Class::NoSuchName),
        ("energy = \"3 mJ\"", "energy = \"3\"", Class::Invalid),
        ("money = \"0.2/h\"", "money = \"0.2\"", Class::Invalid),
        ("idle = \"30 W\"", "idle = \"30 J\"", Class::Invalid),
    ] {
        let text = several();
        assert!(text.contains(from), "{from}");
        let fault = read(&text.replace(from, to), Language::Toml).unwrap_err();
        assert_eq!(fault.class, class, "{to}: {fault}");
    }
}

/// Settings of several threads are solved by whole nets; so is the check, which says so.
#[test]
fn a_check_of_whole_nets_finds_them_again() {
    let model = model(&several());
    let wanted = Wanted { mean: Some(1.0), ..Wanted::default() };
    let choice = chosen(&model, &wanted).unwrap();
    assert!(check(&model, &choice, 12, &effort()).unwrap().iter().all(|it| it.off < 1e-9));
}

/// Three machines of 0.2 an hour cost 0.6, whatever numbers make of it.
#[test]
fn what_is_just_allowed_is_allowed() {
    let servers = model(include_str!("../../../../examples/cost/servers-that-fail.toml"));
    let wanted = Wanted { money: Some(0.6), rate: Some(40.0), ..Wanted::default() };
    let choice = chosen(&servers, &wanted).unwrap();
    assert_eq!(choice.ranked.len(), choice.settings.len(), "{:?}", choice.settings.last().unwrap().fails);
    let less = chosen(&servers, &Wanted { money: Some(0.599), ..wanted }).unwrap();
    assert_eq!(less.rejected.len(), 3);
    assert!(less.settings[less.rejected[0]].fails[0].why.ends_with("% above 0.599 an hour"));
    // As much as can be carried is not more.
    let full = MODEL.replace("arrivals = \"40/s\"", "arrivals = \"SATURATION/s\"");
    let carried = chosen(&model(MODEL), &Wanted::default()).unwrap().settings[3].carried;
    let at = |rate: f64| {
        let wanted = Wanted { rate: Some(rate), ..Wanted::default() };
        chosen(&model(&full.replace("SATURATION", "1")), &wanted).unwrap().settings.remove(3)
    };
    let just = at(carried);
    assert!(just.fails.is_empty() && !just.saturated && just.mean.is_some(), "{just:?}");
    assert_eq!(at(carried * 1.000_001).fails[0].constraint, "rate");
}

/// Nobody asked for a rate, but more comes than is carried: whatever else is wanted, that is no choice.
#[test]
fn what_cannot_carry_what_comes_is_rejected() {
    let plant = include_str!("../../../../examples/cost/servers-that-fail.toml").replace("60/s", "130/s");
    for wanted in [Wanted::default(), Wanted { energy: Some(1e3), cpu: Some(1.0), ..Wanted::default() }] {
        let choice = chosen(&model(&plant), &wanted).unwrap();
        assert!(choice.ranked.iter().all(|index| !choice.settings[*index].saturated), "{}", text(&choice));
        assert!(choice.rejected.iter().all(|index| choice.settings[*index].saturated), "{}", text(&choice));
        let it = &choice.settings[choice.rejected[0]];
        assert_eq!((it.fails.len(), it.fails[0].constraint.as_str()), (1, "rate"), "{it:?}");
        let (why, end) = (&it.fails[0].why, ", and 130/s come");
        assert!(why.starts_with("this saturates at ") && why.ends_with(end), "{why}");
    }
    let more = chosen(&model(&plant.replace("130/s", "1300/s")), &Wanted::default()).unwrap();
    let said = text(&more);
    assert!(
        more.ranked.is_empty() && said.contains("and 1300/s come") && said.contains("the best rate of all is"),
        "{said}"
    );
}

/// Of times that are not told, because more comes than is carried, the one is nearest that carries the most.
#[test]
fn of_what_saturates_the_one_that_carries_most_is_nearest() {
    let wanted = Wanted { p99: Some(0.06), rate: Some(1000.0), ..Wanted::default() };
    let choice = chosen(&model(MODEL), &wanted).unwrap();
    let carried: Vec<f64> = choice.rejected.iter().map(|index| choice.settings[*index].carried).collect();
    assert!(carried.len() == 4 && carried.is_sorted_by(|one, other| one >= other), "{carried:?}");
    let text = include_str!("../../../../examples/cost/servers-that-fail.toml")
        .replace("machines = [1, 2, 3]", "machines = [3]");
    let three = chosen(&model(&text), &Wanted { rate: Some(10.0), mean: Some(1.0), ..Wanted::default() }).unwrap();
    // Three threads and one plant computer: without what takes most of it, threads still wait for each other.
    for it in &three.settings {
        assert!(it.limit.as_ref().is_some_and(|limit| limit.at_most), "{it:?}");
        assert!(it.bottleneck.contains("/s at most"), "{}", it.bottleneck);
    }
}

/// Few requests keep one long step busy for as good as all the time. Without it they wait for each other, and what is full first then is not full.
#[test]
fn what_is_left_without_the_longest_step_is_an_upper_bound_where_few_are_there() {
    const TWO: &str = r#"
[workload]
clients = 3
think = "10 ms"
[node.a]
platform = "pc"
[node.b]
platform = "pc"
[component.c]
node = "a"
[component.s]
node = "b"
[connector.w]
from = "c"
to = "s"
[attribute.o]
of = "c"
[[sequence.main]]
do = "p"
by = "c"
time = "1 ms"
returns = "o"
[[sequence.main]]
send = "d"
over = "w"
[[sequence.main]]
do = "big"
by = "s"
time = "300 ms"
[[sequence.main]]
do = "small"
by = "s"
time = "1 ms"
[[secure]]
property = "data-origin-authentication"
on = "attribute o"
signature = ["hmac-sha256"]
[price.pc]
"hash sha-256" = { each = "1 us" }
"sign hmac-sha256" = { each = "1 us" }
"#;
    let of = |text: &str| chosen(&model(text), &Wanted::default()).unwrap().settings.remove(0);
    let without = of(&TWO.replace("300 ms", "1 ns")).carried;
    assert!((without / 750.0 - 1.0).abs() < 2e-3, "{without}");
    let few = of(TWO);
    let limit = few.limit.as_ref().unwrap();
    assert!(!limit.waits && limit.at_most && limit.bound.is_some_and(|bound| bound > without), "{limit:?}");
    assert!(few.bottleneck.contains("/s at most"), "{}", few.bottleneck);
    // With cores for all of them nobody waits for anybody, whatever is done.
    let cores = TWO.replace("platform = \"pc\"\n", "platform = \"pc\"\ncores = 8\n");
    let (limit, without) = (of(&cores).limit.unwrap(), of(&cores.replace("300 ms", "1 ns")).carried);
    assert!(!limit.at_most && (limit.bound.unwrap() / without - 1.0).abs() < 1e-5, "{limit:?} {without}");
    // Of very many so many are always there, and one alone waits for nobody.
    for other in ["12000", "1"] {
        let text = TWO.replace("clients = 3", &format!("clients = {other}"));
        let (limit, without) = (of(&text).limit.unwrap(), of(&text.replace("300 ms", "1 ns")).carried);
        assert!(!limit.at_most && (limit.bound.unwrap() / without - 1.0).abs() < 1e-3, "{other}: {limit:?} {without}");
    }
}

/// The farther end counts.
#[test]
fn a_lopsided_interval_is_as_wide_as_its_farther_end() {
    let with = |interval: &str| {
        let text = MODEL.replace("interval = [\"3.8 ms\", \"4.2 ms\"]", interval);
        assert!(text != MODEL || interval.contains("3.8"));
        chosen(&model(&text), &Wanted::default()).unwrap().settings[1].plus_minus["mean"]
    };
    let even = with("interval = [\"3.8 ms\", \"4.2 ms\"]");
    for interval in ["interval = [\"3.99 ms\", \"4.2 ms\"]", "interval = [\"3.8 ms\", \"4.0 ms\"]", "error = \"5 %\""] {
        assert!((with(interval) / even - 1.0).abs() < 1e-9, "{interval}");
    }
}

/// Room for thirty thousand that hardly anybody comes to makes a net too large; what is simulated then is what a net with less room says,
/// and so are its intervals.
#[test]
fn what_is_simulated_is_what_a_smaller_net_says() {
    for threads in [2, 3] {
        let text = MODEL.replace("threads = 1", &format!("threads = {threads}"));
        let wanted = Wanted { p50: Some(1.0), p99: Some(1.0), ..Wanted::default() };
        let small = chosen(&model(&text.replace("room = 40", "room = 14")), &wanted).unwrap();
        let large = chosen(&model(&text.replace("room = 40", "room = 30000")), &wanted).unwrap();
        // The slower ways have hardly enough room with 14.
        for (small, large) in small.settings.iter().zip(&large.settings).take(2) {
            assert!(small.simulated.is_none() && large.simulated.is_some(), "{large:?}");
            let figures = |it: &cost::choose::Outcome| {
                let times =
                    [("mean", it.mean), ("p50", it.p50), ("p99", it.p99)].map(|(name, time)| (name, time.unwrap()));
                let rates = [
                    ("throughput", it.throughput),
                    ("carried", it.carried),
                    ("cpu", it.cpu.1),
                    ("money", it.money.unwrap()),
                ];
                times.into_iter().chain(rates).collect::<Vec<_>>()
            };
            for ((name, one), (_, other)) in figures(small).into_iter().zip(figures(large)) {
                let half = |it: &cost::choose::Outcome| it.plus_minus.get(name).copied().unwrap_or(0.0);
                assert!((one - other).abs() <= 0.02 * one, "{threads} threads, {name}: {one} {other}");
                // That of the run comes on top, at most a hundredth of the figure.
                let (least, most) = (0.85 * half(small) - 1e-9 * one, 1.15 * half(small) + 0.012 * one);
                assert!(
                    (least..=most).contains(&half(large)),
                    "{threads} threads, {name}: {} {}",
                    half(small),
                    half(large)
                );
            }
            let (one, other) = (small.limit.as_ref().unwrap(), large.limit.as_ref().unwrap());
            assert_eq!((&one.what, &one.resource, one.waits), (&other.what, &other.resource, other.waits));
            assert!((one.share - other.share).abs() < 0.05, "{one:?} {other:?}");
        }
    }
}

/// More come than three machines can serve, and the room for them is not full before a part of the run is over: who leaves is counted, and of those
/// that are turned away is known what is known of these.
#[test]
fn who_fills_a_large_room_is_not_served() {
    let text = "[workload]\narrivals = \"256/s\"\nroom = 45000\n[node.a]\nmachines = [3, 4]\n[component.c]\nnode = \"a\"\n\
                [[sequence.main]]\ndo = \"x\"\nby = \"c\"\ntime = \"12 ms\"\n";
    let choice = chosen(&model(text), &Wanted::default()).unwrap();
    let full = &choice.settings[0];
    assert!(full.saturated && full.simulated.is_some(), "{full:?}");
    let half = |name: &str| full.plus_minus[name];
    assert!((full.throughput - 250.0).abs() < 1.5 * half("throughput"), "{full:?}");
    assert!(half("throughput") < 0.01 * full.throughput, "{full:?}");
    assert!((full.loss - 6.0 / 256.0).abs() < 1.5 * half("loss"), "{full:?}");
    assert!((half("loss") * 256.0 / half("throughput") - 1.0).abs() < 1e-6, "{full:?}");
}

/// Runs whose requests wait in another order are apart by chance: that is no part of what a price does, and a price that does something
/// is seen through it.
#[test]
fn what_prices_do_is_told_from_chance() {
    let text = MODEL.replace("threads = 1\n", "").replace("room = 40", "room = 6000").replace("40/s", "90/s");
    let text = text.replace("\"ed25519\", \"rsa-2048\", \"rsa-3072\", \"rsa-4096\"", "\"ed25519\"");
    let unsure = |line: &&str| ["error = ", "interval = ", "n = "].iter().all(|start| !line.starts_with(start));
    let sure: String = text.lines().filter(unsure).map(|line| format!("{line}\n")).collect();
    let wanted = Wanted { p99: Some(1.0), ..Wanted::default() };
    let p99 = |text: &str| {
        let it = chosen(&model(text), &wanted).unwrap().settings.remove(0);
        assert!(it.simulated.is_some());
        (it.p99.unwrap(), it.plus_minus["p99"])
    };
    let (value, half) = p99(&sure);
    let of_hash = "[price.p.\"hash sha-256\"]\neach = \"0.1 ms\"\n";
    let nothing = sure.replace(of_hash, &of_hash.replace("0.1 ms", "1 us"));
    let (_, same) = p99(&nothing.replace("each = \"1 us\"\n", "each = \"1 us\"\nerror = 0.5\n"));
    assert!(same < 1.3 * half, "{half} {same}");
    // A step of 4 ms that may take 10 % more or less.
    let sign = "[price.p.\"sign ed25519\"]\neach = \"0.3 ms\"\n";
    let (_, unsure) = p99(&sure.replace(sign, "[price.p.\"sign ed25519\"]\neach = \"4 ms\"\nerror = 0.1\n"));
    let at = |time: &str| p99(&sure.replace(sign, &sign.replace("0.3 ms", time))).0;
    let wide = (at("4.4 ms") - at("3.6 ms")) / 2.0;
    assert!(unsure > 0.8 * wide && unsure < 1.6 * wide + half, "{value} {unsure} {wide}");
}
