//! Settings chosen where a reduction, an order or an interval is easily wrong.

use cost::choose::{Choice, Effort, Minimum, Outcome, Wanted, check, choose, text};
use cost::read::{Language, read};
use cost::{Class, Fault, Model};
use gspn::Limits;

/// One component on one node; `[workload]` comes first, the sequence last.
const SIGNED: &str = r#"
[component.c]
node = "n"
[attribute.a]
of = "c"
[[secure]]
property = "data-origin-authentication"
on = "attribute a"
signature = "ed25519"
optional = true
[price.p]
"hash sha-256" = { each = "1 us" }
"sign ed25519" = { each = "1 us" }
"#;
/// Half of the requests have nothing to do.
const HALF: &str = r#"
[[sequence.main]]
choose = [{ weight = 0.5, ref = "work" }, { weight = 0.5 }]
[[sequence.work]]
do = "work"
by = "c"
time = "10 ms"
returns = "a"
"#;

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

fn effort() -> Effort<'static> {
    Effort { limits: Limits::default(), threads: 1, go_on: &|_| true }
}

fn chosen(text: &str, wanted: &Wanted) -> Result<Choice, Fault> {
    choose(&model(text), wanted, &effort())
}

fn the<'a>(choice: &'a Choice, words: &str) -> &'a Outcome {
    choice.settings.iter().find(|it| it.setting.join("; ").contains(words)).unwrap()
}

fn near(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 1e-6, "{got}, not {wanted}");
}

/// An M/G/1 queue of which half of the services take no time: the mean by Pollaczek and Khinchine.
#[test]
fn requests_that_take_no_time_are_requests() {
    let workload = "[workload]\narrivals = \"100/s\"\nroom = 200\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let text = format!("{workload}{SIGNED}{HALF}");
    let choice = chosen(&text, &Wanted::default()).unwrap();
    let none = the(&choice, "none");
    near(none.cores, 5e-3);
    near(none.saturation, 200.0);
    near(none.cpu.1, 0.5);
    // The second moment of a service is half of that of an exponential time: 1e-4.
    near(none.mean.unwrap(), 5e-3 + 100.0 * 1e-4 / (2.0 * 0.5));
    for checked in check(&model(&text), &choice, 2, &effort()).unwrap() {
        assert!(checked.off < 1e-6, "{checked:?}");
    }
}

/// Two threads that hardly ever are both at work: half of the requests are done at once, the other times are exponential.
#[test]
fn percentiles_know_of_requests_that_take_no_time() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 2\n[node.n]\nplatform = \"p\"\ncores = 2\n";
    let asked = Wanted { p50: Some(1.0), p99: Some(1.0), ..Wanted::default() };
    let choice = chosen(&format!("{workload}{SIGNED}{HALF}"), &asked).unwrap();
    let none = the(&choice, "none");
    near(none.saturation, 400.0);
    let (p50, p99) = (none.p50.unwrap(), none.p99.unwrap());
    assert!(p50 < 5e-5 && (p99 / (0.01 * 50.0_f64.ln()) - 1.0).abs() < 1e-3, "{p50} {p99}");
}

/// Clients that ask again at once, and arrivals far beyond what can be carried, of times that hardly vary.
#[test]
fn a_queue_that_is_never_empty_has_numbers() {
    let work = "[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"10 ms\"\nvariation = 0.05\nreturns = \"a\"\n";
    let closed = "[workload]\nclients = 8\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let choice = chosen(&format!("{closed}{SIGNED}{work}"), &Wanted::default()).unwrap();
    let none = the(&choice, "none");
    near(none.throughput, 100.0);
    near(none.mean.unwrap(), 0.08);
    // Seven services and one's own, each of a variation of 0.05: a little more than the mean.
    assert!((0.08..0.1).contains(&none.p99.unwrap()), "{none:?}");
    let open = "[workload]\narrivals = \"1e7/s\"\nroom = 20\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let strict = Wanted { cpu: Some(0.01), loss: Some(1e-5), ..Wanted::default() };
    let choice = chosen(&format!("{open}{SIGNED}{work}"), &strict).unwrap();
    let none = the(&choice, "none");
    near(none.throughput, 100.0);
    near(none.loss, 1.0 - 1e-5);
    assert!(choice.ranked.is_empty() && none.fails.len() == 3, "{none:?}");
}

/// A second of work is ten requests, and of every two one is aborted by a check: 10/s may come, and 5/s come to their end.
const ABORTS: &str = r#"
[node.n]
platform = "p"
[component.c]
node = "n"
[component.d]
node = "n"
[connector.k]
from = "c"
to = "d"
[attribute.a]
of = "c"
[[secure]]
property = "data-integrity"
on = "attribute a"
signature = "ed25519"
valid = 0.5
[[sequence.main]]
do = "work"
by = "c"
time = "100 ms"
returns = "a"
[[sequence.main]]
send = "m"
over = "k"
carries = ["a"]
[price.p]
"hash sha-256" = { each = "0 s" }
"sign ed25519" = { each = "0 s" }
"verify ed25519" = { each = "0 s" }
"#;

/// A rate that is asked for is one of arrivals: it is held against what is carried, and both are named.
#[test]
fn requests_that_are_aborted_are_carried() {
    let either = ABORTS.replace("valid = 0.5", "valid = 0.5\noptional = true");
    let open = format!("[workload]\narrivals = \"1/s\"\nroom = 50\nthreads = 1\n{either}");
    let at = |rate: f64| chosen(&open, &Wanted { rate: Some(rate), ..Wanted::default() }).unwrap();
    let below = at(9.0);
    let signed = the(&below, "ed25519");
    near(signed.carried, 10.0);
    near(signed.saturation, 5.0);
    assert!(signed.fails.is_empty() && !signed.saturated, "{signed:?}");
    assert!(signed.bottleneck.contains(", at 10/s ("), "{}", signed.bottleneck);
    let said = text(&below);
    assert!(said.contains("saturates at 10/s, of which 5/s come to their end"), "{said}");
    // Nothing is aborted where nothing is looked at, and so much may come all the same.
    assert!(said.contains("saturates at 10/s, 0.05178 % turned away\n") && !said.contains("instead"), "{said}");
    let above = at(11.0);
    let fail = &the(&above, "ed25519").fails[0];
    assert_eq!((fail.constraint.as_str(), fail.got), ("rate", Some(the(&above, "ed25519").carried)));
    let why = "this saturates at 10/s, of which 5/s come to their end, and 11/s are asked for";
    assert_eq!(fail.why, why);
    assert!(text(&above).contains("the best rate of all is 10/s"), "{}", text(&above));
}

/// What clients get is less than what could be carried, since they wait before they ask again; and a full room is named.
#[test]
fn the_best_rate_is_what_clients_get() {
    let either = ABORTS.replace("valid = 0.5", "optional = true");
    let far = either.replace("to = \"d\"", "to = \"d\"\nlatency = \"100 ms\"");
    let closed = format!("[workload]\nclients = 1\nthink = \"800 ms\"\n{far}");
    let choice = chosen(&closed, &Wanted { rate: Some(4.0), ..Wanted::default() }).unwrap();
    let said = text(&choice);
    assert!(said.contains("these clients get 1/s, and 4/s are asked for"), "{said}");
    assert!(said.contains("the best rate of all is 1/s"), "{said}");
    assert!(said.contains("full first: the one request that can be there, at 5/s (20 % busy now)"), "{said}");
    let open = format!("[workload]\narrivals = \"9/s\"\nroom = 1\nthreads = 1\n{either}");
    let said = text(&chosen(&open, &Wanted::default()).unwrap());
    // Of an exponential service with no room to wait: 0.9 / 1.9.
    assert!(said.contains("47.37 % turned away"), "{said}");
}

/// Only where requests are served one at a time is a percentile given that nobody has asked for.
#[test]
fn a_percentile_is_not_compared_with_a_mean() {
    let text = r#"
[workload]
arrivals = "20/s"
room = 20
[node.n]
platform = "p"
[component.c]
node = "n"
[component.d]
node = "n"
[connector.w]
from = "c"
to = "d"
rate = "10 kB/s"
[[sequence.main]]
send = "ping"
over = "w"
[[sequence.main]]
do = "work"
by = "d"
time = "10 ms"
[[secure]]
property = "data-confidentiality"
on = "connector w"
cipher = "aes-128-gcm"
reuse = 1
optional = true
[price.p]
"encrypt aes-128-gcm" = { each = "0" }
"decrypt aes-128-gcm" = { each = "0" }
"#;
    let free = chosen(text, &Wanted::default()).unwrap();
    let asked = chosen(text, &Wanted { p99: Some(10.0), ..Wanted::default() }).unwrap();
    assert_eq!((&free.ranked, &free.front), (&asked.ranked, &asked.front));
    assert!(the(&free, "none").mean < the(&free, "aes").mean && the(&free, "none").on_front);
}

#[test]
fn a_single_machine_is_down_too() {
    let text = "[workload]\narrivals = \"60/s\"\nroom = 30\nthreads = 1\nthreads_on = \"n\"\n[node.n]\nmachines = [1, 2]\nmoney = \"1/h\"\n[component.c]\nnode = \"n\"\n[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"10 ms\"\n";
    let choice = chosen(text, &Wanted { one_down: true, ..Wanted::default() }).unwrap();
    assert_eq!(choice.ranked, [1], "{}", text_of(&choice));
    assert!(choice.settings[0].down[0].stops);
}

fn text_of(choice: &Choice) -> String {
    text(choice)
}

#[test]
fn what_the_far_end_of_an_interval_does_not_carry_is_unsure() {
    let closed = "[workload]\nclients = 2\nthink = \"100 ms\"\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let open = "[workload]\narrivals = \"47.6165/s\"\nroom = 400\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let sure = SIGNED.replace("optional = true\n", "");
    let signed = sure
        .replace("\"sign ed25519\" = { each = \"1 us\" }", "\"sign ed25519\" = { each = \"20 ms\", error = \"30 %\" }");
    let work = "[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"1 ms\"\nreturns = \"a\"\n";
    let chosen = |workload: &str, wanted: &Wanted| {
        chosen(&format!("{workload}{signed}{work}"), wanted).unwrap().settings.swap_remove(0)
    };
    let it = chosen(closed, &Wanted { rate: Some(15.5), ..Wanted::default() });
    assert!(it.fails.is_empty() && it.unsure == ["rate"], "{it:?}");
    let it = chosen(open, &Wanted { mean: Some(1000.0), ..Wanted::default() });
    assert!(it.fails.is_empty() && it.unsure == ["mean", "rate"] && it.plus_minus["mean"] > 0.0, "{it:?}");
}

#[test]
fn machines_that_are_up_more_come_first_and_beat_others() {
    let text = "[workload]\narrivals = \"10/s\"\nroom = 10\nthreads = 1\n[node.n]\n[node.spare]\nmachines = [1, 2, 3]\nfails = \"1000 h\"\nrepair = \"10 h\"\n[component.c]\nnode = \"n\"\n[component.d]\nnode = \"spare\"\n[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"1 ms\"\n";
    let choice = chosen(text, &Wanted::default()).unwrap();
    assert_eq!((&choice.ranked[..], &choice.front[..]), (&[2, 1, 0][..], &[2][..]), "{}", text_of(&choice));
}

#[test]
fn a_weak_hash_is_not_made_good_by_a_long_key() {
    let one = |name: &str| format!("\"{name}\" = {{ each = \"1 ms\" }}\n");
    let names = ["hash sha-1", "hash sha-256", "sign ecdsa-p256", "sign rsa-2048", "sign rsa-3072", "sign rsa-4096"];
    let prices: String = names.into_iter().map(one).collect();
    let signed = SIGNED.replace("optional = true\n", "hash = [\"sha-1\", \"sha-256\"]\n");
    let signed = signed
        .replace("signature = \"ed25519\"", "signature = [\"ecdsa-p256\", \"rsa-2048\", \"rsa-3072\", \"rsa-4096\"]");
    let signed = &signed[..signed.find("\"hash").unwrap()];
    let workload = "[workload]\narrivals = \"10/s\"\nroom = 10\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let work = "[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"1 ms\"\nreturns = \"a\"\n";
    let choice = chosen(&format!("{workload}{signed}{prices}{work}"), &Wanted::default()).unwrap();
    let rank = |words: &str| {
        choice.ranked.iter().position(|it| choice.settings[*it].setting[0].contains(words)).unwrap_or_else(|| {
            panic!("{words}: {}", text_of(&choice));
        })
    };
    assert!(rank("ecdsa-p256 sha-256") < rank("ecdsa-p256 sha-1") && rank("rsa-2048 sha-256") < rank("rsa-2048 sha-1"));
}

#[test]
fn energy_without_time_is_refused() {
    let workload = "[workload]\narrivals = \"10/s\"\nroom = 10\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let work = "[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"1 ms\"\nreturns = \"a\"\n";
    let joules = SIGNED.replace(
        "\"sign ed25519\" = { each = \"1 us\" }",
        "\"sign ed25519\" = { energy = \"3 J\", per_kb = \"20 ms\" }",
    );
    let fault = chosen(&format!("{workload}{joules}{work}"), &Wanted::default()).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str()), (Class::Invalid, "sign ed25519"), "{fault}");
}

#[test]
fn a_check_that_nobody_passes_has_numbers() {
    let dear = ABORTS.replace("valid = 0.5", "valid = 0").replace("100 ms", "1 ms");
    let dear = dear.replace("sha-256\" = { each = \"0 s\"", "sha-256\" = { each = \"1 us\"");
    let dear =
        dear.replace("sign ed25519\" = { each = \"0 s\"", "sign ed25519\" = { each = \"20 ms\", error = \"30 %\"");
    let dear = dear.replace("\"0 s\"", "\"20 ms\"");
    let text = format!("[workload]\narrivals = \"10/s\"\nroom = 10\nthreads = 1\n{dear}");
    let choice = chosen(&text, &Wanted::default()).unwrap();
    let limit = choice.settings[0].limit.as_ref().unwrap();
    assert!((limit.utilisation - 0.41).abs() < 0.01, "{limit:?}");
    assert!(!text_of(&choice).contains("NaN"), "{}", text_of(&choice));
}

/// What counts most to how many can come is the same whether a few of them come to their end or none.
#[test]
fn a_check_that_nobody_passes_leaves_what_counts_most() {
    let said = |valid: &str| {
        let model = ABORTS.replace("valid = 0.5", valid).replace("\"0 s\"", "\"10 ms\"");
        let model = model.replace("from = \"c\"", "from = \"c\"\nlatency = \"70 ms\"");
        let choice =
            chosen(&format!("[workload]\narrivals = \"1/s\"\nroom = 4\nthreads = 2\n{model}"), &Wanted::default());
        choice.unwrap().settings[0].limit.clone().unwrap()
    };
    let (none, few) = (said("valid = 0"), said("valid = 1e-9"));
    assert!(none.waits && none.share > 0.1 && none.what == few.what && none.then == few.then, "{none:?}");
    near(none.share, few.share);
    near(none.bound.unwrap(), few.bound.unwrap());
}

/// Names end up in terminals, tables and pictures.
#[test]
fn a_name_with_a_control_character_is_refused() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let model = format!("{workload}{SIGNED}{HALF}");
    for (from, to, name) in [
        ("do = \"work\"", "do = \"w\\u001b[2J\"", "step w\\u{1b}[2J"),
        ("[node.n]", "[node.\"n\\n\"]", "node n\\n"),
        ("[workload]", "name = \"a\\u0085\"\n[workload]", "model a\\u{85}"),
    ] {
        let changed = model.replace(from, to);
        assert_ne!(changed, model, "{from}");
        let fault = read(&changed, Language::Toml).unwrap_err();
        assert_eq!((fault.class, fault.name.as_str()), (Class::Invalid, name), "{fault}");
        assert!(fault.why.contains("control character U+00"), "{fault}");
    }
}

/// Few timings say little, by Student's distribution; so few that they say nothing are refused.
#[test]
fn an_interval_of_few_timings_is_students() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let priced = |n: u32, variation: f64| {
        let price = format!("\"sign ed25519\" = {{ each = \"1 ms\", variation = {variation}, n = {n} }}");
        let signed = SIGNED.replace("\"sign ed25519\" = { each = \"1 us\" }", &price);
        read(&format!("{workload}{signed}{HALF}"), Language::Toml)
    };
    for (n, variation, error) in [(2, 0.01, 12.706_205 * 0.005_f64.sqrt()), (100, 1.0, 0.198_422)] {
        let model = priced(n, variation).unwrap();
        let found = model.prices["p"]["sign ed25519"].error;
        assert!((found / error - 1.0).abs() < 1e-4, "{n}: {found}");
    }
    for (n, variation) in [(1, 0.01), (2, 1.0)] {
        let fault = priced(n, variation).unwrap_err();
        assert!(fault.class == Class::Invalid && fault.why.contains("more timings are needed"), "{fault}");
    }
}

#[test]
fn a_value_twice_in_a_list_is_no_second_setting() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let twice = SIGNED.replace("signature = \"ed25519\"", "signature = [\"ed25519\", \"ed25519\"]");
    let fault = read(&format!("{workload}{twice}{HALF}"), Language::Toml).unwrap_err();
    assert!(fault.class == Class::Doubled && fault.to_string().contains("twice"), "{fault}");
}

/// Without its only step nothing takes time: there is no number at which it would be full.
#[test]
fn what_would_never_be_full_has_no_bound() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let work = "[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"3 ms\"\nreturns = \"a\"\n";
    let choice = chosen(&format!("{workload}{SIGNED}{work}"), &Wanted::default()).unwrap();
    let none = the(&choice, "none");
    assert_eq!(none.limit.as_ref().unwrap().bound, None);
    assert!(none.bottleneck.ends_with("without it nothing would ever be full"), "{}", none.bottleneck);
}

/// What takes no time in one setting has no figures there, and the others have theirs; where none takes any there is no answer.
#[test]
fn a_setting_without_any_time_is_no_fault_of_the_others() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 1\n[node.n]\nplatform = \"p\"\n";
    let work = "[[sequence.main]]\ndo = \"work\"\nby = \"c\"\ntime = \"0 s\"\nreturns = \"a\"\n";
    let model = format!("{workload}{SIGNED}{work}");
    let choice = chosen(&model, &Wanted::default()).unwrap();
    let none = the(&choice, "none");
    assert!(
        none.unsolved.as_ref().unwrap().starts_with("not solved: nothing in it takes time: give a step"),
        "{none:?}"
    );
    assert_eq!((choice.ranked.len(), choice.rejected.len()), (1, 1));
    near(choice.settings[choice.ranked[0]].cores, 2e-6);
    assert!(none.is_unknown() && text(&choice).contains("1 not solved (each of which may come before"));
    // How secure it is needs no figure.
    let minimum = Minimum { strength: Some(256), ..Minimum::default() };
    let choice = chosen(&model, &Wanted { minimum, ..Wanted::default() }).unwrap();
    let none = the(&choice, "none");
    let failed: Vec<&str> = none.fails.iter().map(|fail| fail.constraint.as_str()).collect();
    assert_eq!((none.is_unknown(), failed), (false, vec!["unsolved", "min-strength"]));
    let told = text(&choice);
    assert!(told.contains("1 not solved (which are less secure") && told.contains("no setting meets all"), "{told}");
    let fault = chosen(&model.replace("1 us", "0 s"), &Wanted::default()).unwrap_err();
    assert!(fault.class == Class::Invalid && fault.why.starts_with("nothing in it takes time"), "{fault}");
}

/// Two threads share a core, so that a request is followed through the net, whose second places must have names of their own.
#[test]
fn a_step_may_have_any_name() {
    let workload = "[workload]\narrivals = \"1/s\"\nroom = 20\nthreads = 2\n[node.n]\nplatform = \"p\"\ncores = 1\n";
    let asked = Wanted { p99: Some(1.0), ..Wanted::default() };
    let p99 = |name: &str| {
        let step = |name: &str| format!("[[sequence.main]]\ndo = \"{name}\"\nby = \"c\"\ntime = \"3 ms\"\n");
        let work = format!("{}{}returns = \"a\"\n", step(name), step("last"));
        the(&chosen(&format!("{workload}{SIGNED}{work}"), &asked).unwrap(), "none").p99.unwrap()
    };
    let plain = p99("work");
    for name in ["\u{25b8} 1", "\u{25b8} behind", "\u{25b8}\u{25b8} 3"] {
        near(p99(name), plain);
    }
}
