//! Settings chosen: constraints, the front, and the reduction against whole nets.

use cost::choose::{Choice, Effort, Minimum, Mode, SEED, Wanted, check, choose, csv, svg, text, trial};
use cost::read::{Language, read};
use cost::{Class, Fault, Model};
use gspn::{Budget, Limits};

const MODEL: &str = r#"
[workload]
arrivals = "30/s"
room = 12
threads = 1
[node.pc]
platform = "p"
cores = 2
[node.server]
platform = "p"
speed = 2
[component.client]
node = "pc"
credentials = "1 kB"
[component.service]
node = "server"
[connector.wire]
from = "client"
to = "service"
latency = "1 ms"
[attribute.order]
of = "client"
size = "3 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "3 ms"
variation = 0.5
returns = "order"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
choose = [{ weight = 0.1, ref = "archive" }, { weight = 0.9 }]
[[sequence.archive]]
do = "archive"
by = "service"
time = "9 ms"
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = ["hmac-sha256", "ecdsa-p256", "rsa-2048", "rsa-3072", "rsa-4096"]
hash = ["sha-256", "sha-512"]
optional = true
valid = 0.99
[[secure]]
property = "data-confidentiality"
on = "connector wire"
cipher = ["aes-128-gcm", "aes-256-gcm", "aes-256-cbc"]
exchange = ["rsa-2048", "rsa-4096"]
reuse = ["50 %", "90 %", "99 %"]
optional = true
[[secure]]
property = "peer-entity-authentication"
on = "component client"
signature = ["ecdsa-p256", "rsa-2048", "rsa-4096"]
reuse = ["0", "90 %"]
optional = true
[level.1]
mode = "sign"
[level.2]
mode = "sign-and-encrypt"
strength = 112
rsa = 3072
"#;

/// Prices of the sort that a small computer has, milliseconds.
fn prices() -> String {
    let mut text = String::new();
    for (operation, each) in [
        ("sign hmac-sha256", 0.02),
        ("verify hmac-sha256", 0.02),
        ("sign ecdsa-p256", 0.4),
        ("verify ecdsa-p256", 0.9),
        ("sign rsa-2048", 4.0),
        ("verify rsa-2048", 0.2),
        ("sign rsa-3072", 12.0),
        ("verify rsa-3072", 0.3),
        ("sign rsa-4096", 28.0),
        ("verify rsa-4096", 0.5),
        ("encrypt rsa-2048", 0.2),
        ("decrypt rsa-2048", 4.0),
        ("encrypt rsa-4096", 0.5),
        ("decrypt rsa-4096", 28.0),
        ("hash sha-256", 0.05),
        ("hash sha-512", 0.04),
        ("encrypt aes-128-gcm", 0.1),
        ("decrypt aes-128-gcm", 0.1),
        ("encrypt aes-256-gcm", 0.13),
        ("decrypt aes-256-gcm", 0.13),
        ("encrypt aes-256-cbc", 0.2),
        ("decrypt aes-256-cbc", 0.2),
    ] {
        text.push_str(&format!("[price.p.\"{operation}\"]\neach = \"{each} ms\"\nvariation = 0.5\n"));
    }
    text
}

fn model(text: &str) -> Model {
    plain(&format!("{text}\n{}", prices()))
}

fn plain(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"))
}

fn with(threads: usize) -> Effort<'static> {
    Effort { limits: Limits::default(), threads, go_on: &|_| true }
}

fn chosen(model: &Model, wanted: &Wanted) -> Result<Choice, Fault> {
    choose(model, wanted, &with(2))
}

/// A hundred settings picked by chance are solved by their whole nets, markings of the queue and all.
#[test]
fn the_reduction_agrees_with_whole_nets() {
    let closed = MODEL.replace("arrivals = \"30/s\"\nroom = 12", "clients = 9\nthink = \"200 ms\"");
    for text in [MODEL, &closed] {
        let model = model(text);
        let choice = chosen(&model, &Wanted::default()).unwrap();
        assert!(choice.reduced);
        assert_eq!(choice.settings.len(), 11 * 19 * 7);
        let checked = check(&model, &choice, 100, &with(2)).unwrap();
        assert_eq!(checked.len(), 100);
        for full in checked {
            assert!(full.off < 1e-3, "{full:?} for {:?}", choice.settings[full.setting]);
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let model = model(MODEL);
    let wanted = Wanted { p99: Some(0.080), ..Wanted::default() };
    let one = choose(&model, &wanted, &with(1)).unwrap();
    for threads in [2, 5] {
        assert_eq!(json(&choose(&model, &wanted, &with(threads)).unwrap()), json(&one));
    }
    // So does a search that fails: the first setting without a price is named, whoever comes to it.
    let unpriced = read(MODEL, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"));
    let fault = choose(&unpriced, &wanted, &with(1)).unwrap_err();
    assert_eq!(choose(&unpriced, &wanted, &with(4)).unwrap_err(), fault);
}

#[test]
fn what_is_left_out_has_no_strength_and_no_key_that_is_long_enough() {
    let model = model(MODEL);
    let minima = [
        ("min-strength", Minimum { strength: Some(112), ..Minimum::default() }),
        ("min-rsa", Minimum { rsa: Some(2048), ..Minimum::default() }),
    ];
    for (constraint, minimum) in minima {
        let choice = chosen(&model, &Wanted { minimum, ..Wanted::default() }).unwrap();
        let leaves_out = |index: &usize| choice.settings[*index].setting.iter().any(|word| word.ends_with(": none"));
        assert!(!choice.ranked.is_empty() && !choice.ranked.iter().any(leaves_out), "{constraint}");
        let left = choice.rejected.iter().find(|index| leaves_out(index)).unwrap();
        let fails = &choice.settings[*left].fails;
        let fail = fails.iter().find(|fail| fail.constraint == constraint && fail.why.contains("is left out"));
        assert!(fail.is_some_and(|fail| fail.got == Some(0.0)), "{fails:?}");
    }
}

/// Whoever can make the signature of an issuer makes certificates: a certified key is no stronger than that.
#[test]
fn a_certified_key_is_as_strong_as_its_issuer() {
    let of = |issuer: &str| {
        let prices: String = ["rsa-1024", "rsa-2048", "rsa-4096"]
            .iter()
            .flat_map(|key| {
                ["generate", "sign", "verify"].map(|what| format!("\"{what} {key}\" = {{ each = \"1 ms\" }}\n"))
            })
            .collect();
        plain(&format!(
            "[workload]\nclients = 1\n[node.a]\nplatform = \"p\"\n[node.ca]\nplatform = \"p\"\n[component.c]\nnode = \"a\"\n[component.ca]\n\
             node = \"ca\"\n[connector.w]\nfrom = \"c\"\nto = \"ca\"\n[[sequence.main]]\ndo = \"d\"\nby = \"c\"\ntime = \"1 ms\"\n[[secure]]\n\
             property = \"certified-key\"\non = \"component c\"\nsignature = [\"rsa-4096\"]\nissuer = \"{issuer}\"\nlife = 10\nthrough = \"w\"\n\
             hash = \"sha-512\"\n[price.p]\n\"hash sha-512\" = {{ each = \"1 us\" }}\n\"hash sha-256\" = {{ each = \"1 us\" }}\n{prices}\
             [level.1]\nstrength = 112\n"
        ))
    };
    for (issuer, bits) in [("rsa-1024", 80), ("rsa-2048", 112), ("rsa-4096", 128)] {
        let model = of(issuer);
        let strength = chosen(&model, &Wanted::default()).unwrap().settings[0].strength;
        assert_eq!(strength, Some(bits), "{issuer}");
        for (minimum, wanted) in [
            (Minimum { strength: Some(128), ..Minimum::default() }, 128),
            (Minimum { level: Some(1), ..Minimum::default() }, 112),
        ] {
            let choice = chosen(&model, &Wanted { minimum, ..Wanted::default() }).unwrap();
            assert_eq!(!choice.ranked.is_empty(), bits >= wanted, "{issuer} for {wanted} bits");
        }
    }
}

/// One client of 10 ms gets 100 answers a second, and who asks for just those gets them; what is annotated twice is told by its property.
#[test]
fn what_is_just_met_is_met_and_two_annotations_of_one_thing_have_names() {
    let secure = |property: &str| {
        format!(
            "[[secure]]\nproperty = \"{property}\"\non = \"attribute o\"\nsignature = \"ed25519\"\noptional = true\n"
        )
    };
    let model = plain(&format!(
        "[workload]\nclients = 1\n[node.n]\nplatform = \"p\"\n[component.c]\nnode = \"n\"\n[component.s]\nnode = \"n\"\n[connector.w]\nfrom = \"c\"\nto = \"s\"\n\
         latency = \"1 ms\"\n[attribute.o]\nof = \"c\"\nsize = \"1 kB\"\n[[sequence.main]]\ndo = \"make\"\nby = \"c\"\ntime = \"6 ms\"\nreturns = \"o\"\n\
         [[sequence.main]]\nsend = \"m\"\nover = \"w\"\ncarries = \"o\"\n[[sequence.main]]\ndo = \"use\"\nby = \"s\"\ntime = \"3 ms\"\n{}{}[price.p]\n\
         \"sign ed25519\" = {{ each = \"1 ms\" }}\n\"verify ed25519\" = {{ each = \"1 ms\" }}\n\"hash sha-256\" = {{ each = \"1 us\" }}\n",
        secure("data-integrity"),
        secure("data-origin-authentication")
    ));
    for (rate, met) in [(100.0, true), (100.001, false)] {
        let choice = chosen(&model, &Wanted { rate: Some(rate), ..Wanted::default() }).unwrap();
        assert_eq!(!choice.ranked.is_empty(), met, "{rate}");
        let words = choice.settings.iter().map(|it| it.setting.join("; ")).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(words.len(), choice.settings.len(), "{words:?}");
        assert!(
            words.iter().any(|it| it.starts_with(
                "data-integrity of attribute o: none; data-origin-authentication of attribute o: ed25519"
            )),
            "{words:?}"
        );
    }
}

/// However few come to their end, the share of them is no difference of two numbers near one.
#[test]
fn what_is_aborted_nearly_always_is_carried_at_the_rate_of_the_net() {
    let of = |valid: &str| {
        let workload = "[workload]\nclients = 1\n[node.n]\nplatform = \"p\"\n[component.c]\nnode = \"n\"\n[component.d]\nnode = \"n\"\n";
        let rest = format!(
            "[connector.w]\nfrom = \"c\"\nto = \"d\"\nlatency = \"1 ms\"\n[attribute.a]\nof = \"c\"\nsize = \"1 kB\"\n[[sequence.main]]\ndo = \"make\"\n\
             by = \"c\"\ntime = \"2 ms\"\nreturns = \"a\"\n[[sequence.main]]\nsend = \"m\"\nover = \"w\"\ncarries = \"a\"\n[[sequence.main]]\ndo = \"use\"\n\
             by = \"d\"\ntime = \"1 ms\"\n[[secure]]\nproperty = \"data-integrity\"\non = \"attribute a\"\nsignature = [\"ecdsa-p256\", \"rsa-2048\"]\n\
             valid = {valid}\n[price.p]\n\"hash sha-256\" = {{ each = \"1 us\" }}\n\"sign ecdsa-p256\" = {{ each = \"1 ms\" }}\n\
             \"verify ecdsa-p256\" = {{ each = \"1 ms\" }}\n\"sign rsa-2048\" = {{ each = \"2 ms\" }}\n\"verify rsa-2048\" = {{ each = \"1 ms\" }}\n"
        );
        let choice = chosen(&plain(&format!("{workload}{rest}")), &Wanted::default()).unwrap();
        choice.settings.iter().map(|it| it.throughput).collect::<Vec<_>>()
    };
    // With one client the rate at which requests leave hardly changes from one to the other.
    let few = of("1e-9");
    assert_eq!(few.len(), 2);
    for (valid, part) in [("1e-12", 1e-3), ("1e-15", 1e-6), ("1e-17", 1e-8)] {
        for (found, few) in of(valid).into_iter().zip(&few) {
            assert!((found / (few * part) - 1.0).abs() < 1e-8, "{valid}: {found} and {}", few * part);
        }
    }
}

/// One at a time, several side by side, and clients that wait for each other: none of the three ways to solve looks at a single request.
#[test]
fn a_run_of_the_first_choice_shows_what_was_worked_out() {
    // Few ways: with several threads each is a net.
    let few =
        MODEL.replace("[\"hmac-sha256\", \"ecdsa-p256\", \"rsa-2048\", \"rsa-3072\", \"rsa-4096\"]", "\"ecdsa-p256\"");
    let few =
        few.replace("[\"sha-256\", \"sha-512\"]", "\"sha-256\"").replace("[\"50 %\", \"90 %\", \"99 %\"]", "\"99 %\"");
    let few = few.replace("[\"aes-128-gcm\", \"aes-256-gcm\", \"aes-256-cbc\"]", "\"aes-128-gcm\"");
    let few = few
        .replace("[\"ecdsa-p256\", \"rsa-2048\", \"rsa-4096\"]", "\"ecdsa-p256\"")
        .replace("[\"0\", \"90 %\"]", "\"90 %\"");
    let few = few.replace("[\"rsa-2048\", \"rsa-4096\"]", "\"rsa-2048\"");
    let closed = few.replace("arrivals = \"30/s\"\nroom = 12", "clients = 5\nthink = \"60 ms\"");
    let two = |text: &str| text.replace("threads = 1", "threads = 2");
    let run = |text: &str, wanted: Wanted| {
        let model = model(text);
        let choice = chosen(&model, &wanted).unwrap();
        let mut go_on = |_| true;
        let run = trial(&model, &choice, SEED, &mut Budget::new(Limits::default(), &mut go_on));
        (choice.ranked.first().copied(), run)
    };
    for text in [&few, &closed, &two(&few), &two(&closed)] {
        let (first, run) = run(text, Wanted { p99: Some(10.0), p50: Some(10.0), ..Wanted::default() });
        let run = run.unwrap().unwrap();
        let names: Vec<&str> = run.figures.iter().map(|it| it.figure).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| *name != "throughput").collect();
        assert_eq!((Some(run.setting), names), (first, vec!["mean", "p50", "p99"]));
        for it in run.figures {
            let off = (it.seen - it.predicted).abs();
            assert!(it.error.abs() < 0.02 && off <= 1.5 * it.plus_minus, "{text}: {it:?}");
        }
    }
    let nothing = run(&few, Wanted { rate: Some(1e6), ..Wanted::default() });
    assert_eq!(nothing, (None, Ok(None)));
    // Nothing is chosen that cannot carry what comes.
    assert_eq!(run(&few.replace("30/s", "3000/s"), Wanted::default()), (None, Ok(None)));
}

#[test]
fn a_picture_in_which_nothing_has_a_time_says_so() {
    let model = model(MODEL);
    let choice = chosen(&model, &Wanted { rate: Some(1e6), p99: Some(0.01), ..Wanted::default() }).unwrap();
    assert!(choice.settings.iter().all(|it| it.saturated));
    let picture = svg(&choice);
    assert!(picture.contains("no setting has a time") && picture.contains("cannot carry what comes"), "{picture}");
    assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
}

/// With prices that are the same for several ways, whatever the order in which those are written.
#[test]
fn whoever_beats_another_is_ranked_before_it() {
    let same = |text: &str| text.replace("aes-128-gcm\"]\neach = \"0.1 ms", "aes-128-gcm\"]\neach = \"0.13 ms");
    // A key exchange would be the weaker part of both.
    let kept =
        MODEL.replace("exchange = [\"rsa-2048\", \"rsa-4096\"]\nreuse = [\"50 %\", \"90 %\", \"99 %\"]", "reuse = 1");
    let text = format!("{}\n{}", kept.replace("30/s", "10/s"), same(&prices()));
    let model = read(&text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"));
    let choice = chosen(&model, &Wanted::default()).unwrap();
    let rank = |index: usize| choice.ranked.iter().position(|it| *it == index);
    let mut equals = 0;
    for (index, it) in choice.settings.iter().enumerate().filter(|(_, it)| it.setting[1].contains("aes-128-gcm")) {
        let words: Vec<String> = it.setting.iter().map(|word| word.replace("aes-128-gcm", "aes-256-gcm")).collect();
        let other = choice.settings.iter().position(|it| it.setting == words).unwrap();
        assert!(rank(other) < rank(index), "{:?} after its equal", choice.settings[other].setting);
        assert_eq!(it.cores.to_bits(), choice.settings[other].cores.to_bits());
        equals += 1;
    }
    assert_eq!(equals, 11 * 7, "each of the other ways");
    for (index, it) in choice.settings.iter().enumerate() {
        let Some(by) = it.beaten_by.filter(|by| rank(*by).is_some()) else { continue };
        assert!(rank(by) < rank(index), "{:?} before {:?}", it.setting, choice.settings[by].setting);
    }
}

fn json(choice: &Choice) -> String {
    serde_json::to_string(choice).unwrap()
}

#[test]
fn constraints_are_met_or_the_one_that_fails_is_named() {
    let model = model(MODEL);
    let wanted = Wanted {
        p99: Some(0.080),
        rate: Some(30.0),
        cpu: Some(0.7),
        minimum: Minimum { level: Some(2), ..Minimum::default() },
        ..Wanted::default()
    };
    let choice = chosen(&model, &wanted).unwrap();
    assert!(choice.ranked.len() > 1, "{}", text(&choice));
    for (index, it) in choice.settings.iter().enumerate() {
        let good = !it.saturated
            && it.p99.is_some_and(|p99| p99 <= 0.080)
            && it.cpu.1 <= 0.7
            && it.strength.is_some_and(|bits| bits >= 112)
            && it.setting.iter().all(|word| !word.contains("none") && !word.contains("rsa-2048"));
        assert_eq!(good, choice.ranked.contains(&index), "{it:?}");
        assert_eq!(good, it.fails.is_empty(), "{it:?}");
        assert!(it.fails.iter().all(|fail| fail.by.is_none_or(f64::is_finite)), "{it:?}");
    }
    let cores: Vec<f64> = choice.ranked.iter().map(|index| choice.settings[*index].cores).collect();
    assert!(cores.is_sorted());
    let slow = choice.settings.iter().find(|it| it.saturated).expect("some setting saturates");
    assert!(slow.fails.iter().any(|fail| fail.why.contains("this saturates at")), "{slow:?}");
    assert!(text(&choice).contains("runner-up: "));
    assert_eq!(csv(&choice).lines().count(), choice.settings.len() + 1);
    assert!(svg(&choice).contains("first choice"));
}

#[test]
fn nobody_can_meet_an_impossible_constraint_and_that_is_said() {
    let choice = chosen(&model(MODEL), &Wanted { p99: Some(1e-6), ..Wanted::default() }).unwrap();
    assert!(choice.ranked.is_empty());
    assert!(text(&choice).contains("no setting meets all constraints"));
    let level = Wanted { minimum: Minimum { level: Some(3), ..Minimum::default() }, ..Wanted::default() };
    assert_eq!(chosen(&model(MODEL), &level).unwrap_err().class, Class::NoSuchName);
}

/// Level 1 wants signatures, and so does level 2: leaving one out is one failure, however many levels it fails.
#[test]
fn what_two_levels_demand_counts_once() {
    let wanted = Wanted { minimum: Minimum { level: Some(2), ..Minimum::default() }, ..Wanted::default() };
    let choice = chosen(&model(MODEL), &wanted).unwrap();
    let nothing = choice.settings.iter().find(|it| it.strength.is_none()).unwrap();
    let mut said: Vec<&str> = nothing.fails.iter().map(|fail| fail.why.as_str()).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn more_settings_than_a_number_holds_are_not_given_a_number() {
    let mut model = model(MODEL);
    let one = model.annotations[0].clone();
    model.annotations.extend(std::iter::repeat_n(one, 60));
    let fault = chosen(&model, &Wanted::default()).unwrap_err();
    assert_eq!(fault.class, Class::TooLarge);
    assert!(fault.why.contains("make uncountable settings"), "{fault}");
}

/// Clients of a closed workload wait for their answers: a bound of those that are turned away would always hold.
#[test]
fn of_a_closed_workload_nobody_is_turned_away() {
    let closed = MODEL.replacen("arrivals = \"30/s\"\nroom = 12\n", "clients = 2\n", 1);
    let fault = chosen(&model(&closed), &Wanted { loss: Some(0.01), ..Wanted::default() }).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str()), (Class::Missing, "loss"));
}

/// No setting on the front is beaten, and every other is, by one that is as secure, as fast and as cheap.
#[test]
fn the_front_is_what_nothing_beats() {
    let model = model(MODEL);
    let choice =
        chosen(&model, &Wanted { minimum: Minimum { mode: Mode::None, ..Minimum::default() }, ..Wanted::default() })
            .unwrap();
    assert!(!choice.front.is_empty());
    for (index, it) in choice.settings.iter().enumerate().filter(|(_, it)| !it.saturated) {
        assert_eq!(it.on_front, choice.front.contains(&index));
        if let Some(other) = it.beaten_by {
            let other = &choice.settings[other];
            assert!(other.p99.unwrap() <= it.p99.unwrap() && other.cores <= it.cores);
            assert!(other.strength.unwrap_or(0) >= it.strength.unwrap_or(0), "{it:?} {other:?}");
        }
    }
    // Leaving everything out is the cheapest, and so never beaten.
    let nothing = choice.settings.iter().position(|it| it.strength.is_none()).unwrap();
    assert!(choice.front.contains(&nothing));
}

/// Room for a million, most of whom wait: the clock is looked at on the way, and the first levels do not go through the memory again
/// and again.
#[test]
fn a_queue_of_a_million_ends_when_its_time_is_over() {
    let text = MODEL.replace("room = 12", "room = 1000000").replace("30/s", "3000/s");
    let model = model(&text);
    let looks = std::sync::atomic::AtomicU32::new(0);
    let go_on = |_| looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 60;
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &go_on };
    let wanted = Wanted { mean: Some(1.0), ..Wanted::default() };
    let fault = choose(&model, &wanted, &effort).unwrap_err();
    assert_eq!(fault.class, Class::Unanswered, "{fault}");
    assert!(fault.why.contains("limit of time"), "{fault}");
}

/// A setting whose net is more than there is time for is named, and says what to do; the others have their answers, in every form.
#[test]
fn what_takes_too_long_takes_no_answer_along() {
    let text = MODEL.replace("room = 12", "room = 60").replace("threads = 1", "threads_on = \"server\"\nthreads = 1");
    let text = text.replace("[node.server]", "[node.server]\nmachines = [1, 3]");
    let mut model = model(&text);
    model.annotations.drain(..2);
    let wanted = Wanted { p99: Some(1.0), mean: Some(1.0), ..Wanted::default() };
    let looks = std::sync::atomic::AtomicU32::new(0);
    let go_on = |_| looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 20_000;
    let effort = Effort { limits: Limits { markings: 500, ..Limits::default() }, threads: 2, go_on: &go_on };
    let choice = choose(&model, &wanted, &effort).unwrap();
    let (solved, not): (Vec<_>, Vec<_>) = choice.settings.iter().partition(|it| it.unsolved.is_none());
    let alone = choice.settings.iter().filter(|it| it.machines[1] == 1).count();
    assert!(!not.is_empty() && alone > 1, "{choice:?}");
    assert_eq!(solved.iter().filter(|it| it.machines[1] == 1).count(), alone);
    for it in &not {
        assert!(it.machines[1] == 3 && it.fails.len() == 1 && !it.on_front && it.beaten_by.is_none(), "{it:?}");
        assert!(it.fails[0].why.contains("`--markings COUNT` allows"), "{it:?}");
    }
    let last: Vec<bool> = choice.rejected.iter().map(|index| choice.settings[*index].unsolved.is_some()).collect();
    assert!(last.is_sorted());
    let said = cost::choose::text(&choice);
    assert!(
        said.contains(&format!(", {} not solved", not.len())) && said.contains("\nnot solved, so nobody"),
        "{said}"
    );
    assert!(!said.contains("NaN") && !cost::choose::csv(&choice).contains("NaN"), "{said}");
    let json = serde_json::to_value(&choice).unwrap();
    assert!(
        json["settings"].as_array().unwrap().iter().any(|it| it["throughput"].is_null() && it["unsolved"].is_string())
    );
    assert!(cost::choose::svg(&choice).contains(&format!(">{} were not solved<", not.len())));
}

/// Twice as many as can be carried, in a room where the weights of levels go far beyond a number.
#[test]
fn far_above_saturation_the_room_is_full() {
    let text = MODEL.replace("room = 12", "room = 5000").replace("30/s", "3000/s");
    let mut model = model(&text);
    model.annotations.drain(..2);
    let choice = chosen(&model, &Wanted { mean: Some(1.0), ..Wanted::default() }).unwrap();
    for setting in &choice.settings {
        assert!(setting.saturated);
        assert!((setting.throughput / setting.saturation - 1.0).abs() < 1e-9, "{setting:?}");
        assert!((setting.loss - (1.0 - setting.throughput / 3000.0)).abs() < 1e-9, "{setting:?}");
    }
}

/// The line carries ten messages a second, however many cores there are.
#[test]
fn a_line_saturates_too() {
    let text = MODEL.replace("latency = \"1 ms\"", "rate = \"30 kB/s\"").replace("threads = 1", "threads = 3");
    let mut model = model(&text);
    model.annotations.drain(..2);
    let choice = chosen(&model, &Wanted { rate: Some(20.0), ..Wanted::default() }).unwrap();
    let plain = choice.settings.last().unwrap();
    // Three threads hardly ever leave it idle.
    assert!(plain.saturation < 10.0 && plain.saturation > 9.999, "{plain:?}");
    assert!(plain.saturated && plain.fails.iter().any(|it| it.constraint == "rate"), "{plain:?}");
    assert_eq!(plain.limit.as_ref().unwrap().resource, "wire");
    assert!(plain.throughput <= 10.0 && plain.throughput > 9.0, "{plain:?}");
}

/// Two ways with the same sum of times, in another order: rounding neither ranks them nor puts the weaker one on the front.
#[test]
fn what_only_rounding_tells_apart_is_the_same() {
    let text = r#"
[workload]
arrivals = "60/s"
room = 10
[node.n]
platform = "p"
[node.m]
platform = "p"
[component.client]
node = "n"
[component.service]
node = "m"
[connector.wire]
from = "client"
to = "service"
[attribute.order]
of = "client"
size = "1 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "5 ms"
returns = "order"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
do = "store"
by = "service"
time = "2 ms"
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = ["ecdsa-p256", "rsa-2048"]
[price.p]
"hash sha-256" = { each = "1 ns" }
"sign ecdsa-p256" = { each = "3.5 ms" }
"verify ecdsa-p256" = { each = "5.4 ms" }
"sign rsa-2048" = { each = "5.4 ms" }
"verify rsa-2048" = { each = "3.5 ms" }
"#;
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let chosen = |text: &str| {
        let wanted = Wanted { mean: Some(10.0), ..Wanted::default() };
        choose(&read(text, Language::Toml).unwrap(), &wanted, &effort).unwrap()
    };
    let choice = chosen(text);
    assert!(choice.settings[0].mean < choice.settings[1].mean);
    assert_eq!((&choice.ranked[..], &choice.front[..]), (&[0, 1][..], &[0][..]));
    assert_eq!(choice.settings[1].beaten_by, Some(0));
    // On one node all figures are the same, and the more secure one is better.
    for threads in ["", "threads = 1\n"] {
        let text =
            text.replace("room = 10\n", &format!("room = 10\n{threads}")).replace("node = \"m\"", "node = \"n\"");
        for (from, to) in [("5 ms", "5 ms"), ("\"5 ms\"", "\"5.7 ms\""), ("\"3.5 ms\"", "\"2.9 ms\"")] {
            let choice = chosen(&text.replace(from, to));
            assert_eq!((choice.ranked[0], &choice.front[..]), (0, &[0][..]), "{from} {to}");
        }
    }
}
