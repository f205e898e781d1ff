//! What requests hold beside cores and lines: pools that are acquired and released.

use cost::choose::{Effort, Wanted, choose};
use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Class, Model, print, weave};
use gspn::{Budget, Limits};

const MODEL: &str = r#"
[workload]
clients = 5
think = "20 ms"
[node.pc]
cores = 8
[component.service]
node = "pc"
[pool.db]
size = 2
[[sequence.main]]
acquire = "db"
[[sequence.main]]
do = "query"
by = "service"
time = "10 ms"
[[sequence.main]]
release = "db"
"#;

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"))
}

fn solved(text: &str) -> Solution {
    let mut go_on = |_| true;
    solve(&weave(&model(text)), &mut Budget::new(Limits::default(), &mut go_on))
        .unwrap_or_else(|fault| panic!("{fault}"))
}

fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

fn close(what: &str, got: f64, wanted: f64) {
    assert!((got - wanted).abs() <= 1e-9 * wanted.abs(), "{what}: {got} {wanted}");
}

/// Throughput of a birth and death chain of so many clients that think, and this many who are served at once.
fn repaired(clients: u32, think: f64, service: f64, served: u32) -> f64 {
    let rate = |inside: u32| f64::from(inside.min(served)) / service;
    let (mut weight, mut all, mut through) = (1.0, 1.0, 0.0);
    for inside in 1..=clients {
        weight *= f64::from(clients - inside + 1) / think / rate(inside);
        all += weight;
        through += weight * rate(inside);
    }
    through / all
}

#[test]
fn a_pool_serves_as_many_as_it_has() {
    for size in [1, 2, 3, 4] {
        let found = solved(&changed(MODEL, &[("size = 2", &format!("size = {size}"))]));
        let wanted = repaired(5, 0.02, 0.01, size);
        close("throughput", found.throughput, wanted);
        close("held", found.pools[0].utilisation * f64::from(size), wanted * 0.01);
        let waited = found.spent.iter().find(|it| it.on == "waiting for db").map_or(0.0, |it| it.seconds);
        close("waiting", waited, found.response - 0.01);
    }
    // Two units a request halve it.
    let two = changed(MODEL, &[("size = 2", "size = 4"), ("= \"db\"", "= \"db\"\nunits = 2")]);
    close("units", solved(&two).throughput, repaired(5, 0.02, 0.01, 2));
}

/// Whoever holds a unit waits for a core that those who wait for the unit do not keep.
#[test]
fn who_waits_for_a_pool_keeps_no_core() {
    let one = changed(
        MODEL,
        &[
            ("cores = 8", "cores = 1"),
            ("size = 2", "size = 1"),
            (
                "[[sequence.main]]\nacquire",
                "[[sequence.main]]\ndo = \"parse\"\nby = \"service\"\ntime = \"3 ms\"\n[[sequence.main]]\nacquire",
            ),
        ],
    );
    let found = solved(&one);
    // One core does all of it, and nobody keeps it from doing so.
    close("one core", found.throughput, busy_core(5, 0.02, 0.003, 0.01));
    close("busy", found.nodes[0].utilisation, found.throughput * 0.013);
}

/// Clients that think, parse on the only core, then query on it while they hold the only unit; who waits for the core is picked by chance, who
/// has parsed goes on if the unit is free. Markings: parsing or querying on the core, and how many wait where; solved by power iteration.
fn busy_core(clients: usize, think: f64, parse: f64, query: f64) -> f64 {
    // (waiting to parse, waiting for the unit, holding it and waiting for the core, on the core: 0 nobody, 1 parses, 2 queries)
    type State = (usize, usize, usize, usize);
    let settle = |state: State| -> Vec<(State, f64)> {
        let (mut ends, mut open) = (Vec::new(), vec![(state, 1.0)]);
        while let Some(((parsing, wants, has, core), share)) = open.pop() {
            let unit_free = has == 0 && core != 2;
            let mut ways: Vec<State> = Vec::new();
            if unit_free && wants > 0 {
                ways.push((parsing, wants - 1, has + 1, core));
            }
            if core == 0 && parsing > 0 {
                ways.push((parsing - 1, wants, has, 1));
            }
            if core == 0 && has > 0 {
                ways.push((parsing, wants, has - 1, 2));
            }
            if ways.is_empty() {
                ends.push(((parsing, wants, has, core), share));
            }
            let each = share / ways.len().max(1) as f64;
            open.extend(ways.into_iter().map(|way| (way, each)));
        }
        ends
    };
    let mut shares = std::collections::BTreeMap::from([((0, 0, 0, 0), 1.0_f64)]);
    let fastest = clients as f64 / think + 1.0 / parse + 1.0 / query;
    let mut rate = 0.0;
    for _ in 0..20_000 {
        let mut next: std::collections::BTreeMap<State, f64> = std::collections::BTreeMap::new();
        rate = 0.0;
        for (state, share) in &shares {
            let (parsing, wants, has, core) = *state;
            let thinking = clients - parsing - wants - has - usize::from(core > 0);
            let mut stay = 1.0;
            let mut go = |to: Vec<(State, f64)>, speed: f64| {
                if speed <= 0.0 {
                    return;
                }
                stay -= speed / fastest;
                for (to, part) in to {
                    *next.entry(to).or_default() += share * part * speed / fastest;
                }
            };
            go(settle((parsing + 1, wants, has, core)), thinking as f64 / think);
            if core == 1 {
                // Who has parsed takes the unit where it is free and keeps the core.
                let to = if has == 0 && wants == 0 {
                    vec![((parsing, wants, has, 2), 1.0)]
                } else {
                    settle((parsing, wants + 1, has, 0))
                };
                go(to, 1.0 / parse);
            }
            if core == 2 {
                rate += share / query;
                go(settle((parsing, wants, has, 0)), 1.0 / query);
            }
            *next.entry(*state).or_default() += share * stay;
        }
        shares = next;
    }
    rate
}

#[test]
fn a_pool_that_is_never_short_changes_nothing() {
    let plain =
        changed(MODEL, &[("[[sequence.main]]\nacquire = \"db\"\n", ""), ("[[sequence.main]]\nrelease = \"db\"\n", "")]);
    let plain = changed(&plain, &[("[pool.db]\nsize = 2\n", ""), ("cores = 8", "cores = 2")]);
    let enough = changed(MODEL, &[("size = 2", "size = 5"), ("cores = 8", "cores = 2")]);
    let (without, with) = (solved(&plain), solved(&enough));
    assert!((without.throughput / with.throughput - 1.0).abs() < 1e-12);
    assert!((without.response / with.response - 1.0).abs() < 1e-12);
    assert_eq!(without.states, with.states);
    close("held", with.pools[0].utilisation * 5.0, with.throughput * (with.response));
}

#[test]
fn who_is_aborted_gives_back_what_he_holds() {
    let text = r#"
[workload]
clients = 6
think = "5 ms"
[node.pc]
platform = "p"
cores = 8
[component.client]
node = "pc"
[component.service]
node = "pc"
[connector.wire]
from = "client"
to = "service"
latency = "2 ms"
[attribute.order]
of = "client"
[pool.db]
size = 2
[pool.licence]
size = 3
[[sequence.main]]
acquire = "licence"
[[sequence.main]]
acquire = "db"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
do = "store"
by = "service"
time = "3 ms"
[[sequence.main]]
release = "db"
[[sequence.main]]
release = "licence"
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = "ed25519"
valid = 0.7
[price.p]
"hash sha-256" = { each = "0.2 ms" }
"sign ed25519" = { each = "0.3 ms" }
"verify ed25519" = { each = "0.5 ms" }
"#;
    let found = solved(text);
    close("aborted", found.aborted / (found.aborted + found.throughput), 0.3);
    // Two hashes, a signature, its verification and the way of all, the store of those that go on.
    let held = (found.aborted + found.throughput) * 0.0032 + found.throughput * 0.003;
    close("held", found.pools[0].utilisation * 2.0, held);
    assert!(found.pools[1].utilisation * 3.0 > held, "{:?}", found.pools);
}

/// A net with a pool, followed and simulated: percentiles of both.
#[test]
fn percentiles_and_what_is_full_first() {
    let text = changed(
        MODEL,
        &[
            ("clients = 5\nthink = \"20 ms\"", "arrivals = \"120/s\"\nroom = 7"),
            ("cores = 8", "cores = 9\nplatform = \"p\""),
        ],
    ) + "[attribute.order]\nof = \"service\"\n[[sequence.main]]\ndo = \"sum up\"\nby = \"service\"\ntime = \"2 ms\"\nreturns = \"order\"\n\
        [[secure]]\nproperty = \"data-origin-authentication\"\non = \"attribute order\"\nsignature = [\"rsa-2048\", \"ed25519\"]\n\
        [price.p]\n\"hash sha-256\" = { each = \"0.1 ms\" }\n\"sign ed25519\" = { each = \"0.2 ms\" }\n\"sign rsa-2048\" = { each = \"1 ms\" }\n";
    let wanted = Wanted { p99: Some(10.0), ..Wanted::default() };
    let effort = Effort { limits: Limits::default(), threads: 2, go_on: &|_| true };
    let chosen = choose(&model(&text), &wanted, &effort).unwrap_or_else(|fault| panic!("{fault}"));
    let best = &chosen.settings[chosen.ranked[0]];
    assert!(best.bottleneck.starts_with("full first: `db`,"), "{}", best.bottleneck);
    assert!(best.bottleneck.contains("100 % of what it does is `query`"), "{}", best.bottleneck);
    // Two connections of 10 ms each.
    assert!((best.carried / 200.0 - 1.0).abs() < 0.05, "{best:?}");
}

#[test]
fn what_cannot_be_held_is_refused() {
    let nested = "[[sequence.main]]\nacquire = \"db\"\n[[sequence.main]]\nacquire = \"lock\"\n[[sequence.main]]\nrelease = \"lock\"\n";
    let other = "[[sequence.main]]\nacquire = \"lock\"\n[[sequence.main]]\nacquire = \"db\"\n[[sequence.main]]\nrelease = \"db\"\n[[sequence.main]]\nrelease = \"lock\"\n";
    let lock = "[pool.lock]\nsize = 1\n";
    let acquire = "[[sequence.main]]\nacquire = \"db\"\n";
    let release = "[[sequence.main]]\nrelease = \"db\"\n";
    let with = |changes: &[(&str, &str)]| changed(MODEL, changes);
    let choice = "[[sequence.main]]\nchoose = [ { weight = 0.5, ref = \"some\" }, { weight = 0.5 } ]\n[[sequence.some]]\nrelease = \"db\"\n";
    let again = "[[sequence.main]]\nref = \"some\"\ntimes = 2\n[[sequence.some]]\nrelease = \"db\"\n";
    for (what, text, class, line, words) in [
        ("no size", with(&[("size = 2", "")]), Class::MissingAnnotation, 9, "how many are there"),
        ("size 0", with(&[("size = 2", "size = 0")]), Class::Invalid, 10, "from 1 to"),
        (
            "unknown",
            with(&[(acquire, "[[sequence.main]]\nacquire = \"dp\"\n")]),
            Class::NoSuchName,
            12,
            "there is no pool `dp`",
        ),
        ("too many", with(&[("= \"db\"", "= \"db\"\nunits = 3")]), Class::Invalid, 12, "hold 3 of it and there are 2"),
        ("kept", with(&[(release, "")]), Class::Invalid, 12, "1 of it is still held"),
        ("not held", with(&[(acquire, "")]), Class::Invalid, 16, "1 is released here and 0 are held"),
        ("one way", with(&[(release, choice)]), Class::Invalid, 12, "after another 1"),
        ("each time", with(&[(release, again)]), Class::Invalid, 12, "leaves 0 held for 1"),
        (
            "more while some",
            with(&[(acquire, &format!("{acquire}{acquire}")), (release, &format!("{release}{release}"))]),
            Class::Invalid,
            14,
            "acquire all at once",
        ),
        (
            "both ways",
            with(&[
                ("[[sequence.main]]\nacquire", &format!("{lock}[[sequence.main]]\nacquire")),
                (acquire, nested),
                (release, &format!("{release}{other}")),
            ]),
            Class::Invalid,
            16,
            "acquire them in one order",
        ),
        (
            "two kinds",
            with(&[("acquire = \"db\"", "acquire = \"db\"\nrelease = \"db\"")]),
            Class::Missing,
            12,
            "exactly one",
        ),
    ] {
        let fault = read(&text, Language::Toml).expect_err(what);
        assert_eq!((fault.class, fault.line), (class, Some(line)), "{what}: {fault}");
        assert!(fault.why.contains(words), "{what}: {fault}");
    }
    // Where there is enough for all, nobody waits.
    let enough = changed(
        MODEL,
        &[
            ("size = 2", "size = 9"),
            (acquire, &format!("{acquire}{acquire}")),
            (release, &format!("{release}{release}")),
        ],
    );
    assert_eq!(model(&enough).pools[0].most, 2);
}

#[test]
fn what_is_printed_is_read_back() {
    let first = model(&changed(MODEL, &[("size = 2", "size = 4"), ("= \"db\"", "= \"db\"\nunits = 2")]));
    let printed = print::annotated(&first);
    let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
    assert_eq!(print::annotated(&again), printed);
    assert_eq!(again.pools, first.pools);
    assert!(printed.contains("%% trapkey: acquire db units=2"), "{printed}");
    assert!(print::secured(&weave(&first)).contains("acquire 2 of db"));
}

/// Two hold a unit at any time and wait for the one core: a closed network of two, which carries less than the core or the units alone could.
#[test]
fn those_who_hold_a_unit_wait_for_each_other() {
    let text = "[workload]\narrivals = \"100/s\"\nroom = 9\n[node.pc]\nplatform = \"p\"\n[node.far]\ncores = 99\n\
        [component.x]\nnode = \"pc\"\n[component.y]\nnode = \"far\"\n[connector.w]\nfrom = \"x\"\nto = \"y\"\nlatency = \"5 ms\"\n\
        [attribute.v]\nof = \"x\"\n[pool.db]\nsize = 2\n[[sequence.main]]\nacquire = \"db\"\n\
        [[sequence.main]]\ndo = \"ask\"\nby = \"x\"\ntime = \"2.9 ms\"\nreturns = \"v\"\n[[sequence.main]]\nsend = \"it\"\nover = \"w\"\ncarries = \"v\"\n\
        [[sequence.main]]\nrelease = \"db\"\n[[secure]]\nproperty = \"data-origin-authentication\"\non = \"attribute v\"\nsignature = \"ed25519\"\n\
        [price.p]\n\"hash sha-256\" = { each = \"0.05 ms\" }\n\"sign ed25519\" = { each = \"0.05 ms\" }\n";
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let wanted = Wanted { mean: Some(1.0), ..Wanted::default() };
    let chosen = choose(&model(text), &wanted, &effort).unwrap_or_else(|fault| panic!("{fault}"));
    let best = &chosen.settings[0];
    // One who is alone there carries 1/8 ms; of two one finds the other at the core in 3 of 8 cases.
    let wanted = 2.0 / (0.003 * (1.0 + 3.0 / 8.0) + 0.005);
    assert!((best.carried / wanted - 1.0).abs() < 0.02, "{} {wanted}", best.carried);
    assert!(
        best.bottleneck.starts_with("scarcest: `db`, at ") && best.bottleneck.contains("/s (4"),
        "{}",
        best.bottleneck
    );
    // How much of that is the core's: a part of its own 3 ms, and of what one waits for another there.
    let limit = best.limit.as_ref().unwrap_or_else(|| panic!("{best:?}"));
    let felt = 0.0029 * (1.0 + 2.0 * 3.0 / 8.0 - 9.0 / 64.0) / (0.003 * (1.0 + 3.0 / 8.0) + 0.005);
    assert_eq!((limit.what.as_str(), limit.waits), ("`ask`", true));
    assert!((limit.share / felt - 1.0).abs() < 0.1, "{} {felt}", limit.share);
}

/// Closed by hand: many units with a long way, holders who would all wait if more came, and nodes as scarce as each other.
#[test]
fn what_many_requests_carry_is_no_more_and_no_less_than_they_do() {
    let head = "[workload]\nLOAD\n[node.pc]\ncores = CORES\nplatform = \"p\"\n[node.far]\ncores = CORES\n[component.x]\nnode = \"pc\"\n\
        [component.y]\nnode = \"far\"\n[connector.wan]\nfrom = \"x\"\nto = \"y\"\nlatency = \"WAY\"\n[pool.db]\nsize = SIZE\n\
        [attribute.v]\nof = \"x\"\n[[secure]]\nproperty = \"data-origin-authentication\"\non = \"attribute v\"\nsignature = \"ed25519\"\n\
        [price.p]\n\"hash sha-256\" = { each = \"10 us\" }\n\"sign ed25519\" = { each = \"10 us\" }\n";
    let step = |what: &str| format!("[[sequence.main]]\n{what}\n");
    let work = |by: &str, time: &str| step(&format!("do = \"work of {by}\"\nby = \"{by}\"\ntime = \"{time}\""));
    let (acquire, release) = (step("acquire = \"db\""), step("release = \"db\""));
    let make = step("do = \"make\"\nby = \"x\"\ntime = \"1 ms\"\nreturns = \"v\"");
    let ask = step("send = \"ask\"\nover = \"wan\"");
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let found = |load: &str, cores: &str, way: &str, size: &str, steps: &[&str]| {
        let head = head.replace("LOAD", load).replace("CORES", cores).replace("WAY", way).replace("SIZE", size);
        let wanted = Wanted { mean: Some(100.0), ..Wanted::default() };
        let chosen =
            choose(&model(&(head + &steps.concat())), &wanted, &effort).unwrap_or_else(|fault| panic!("{fault}"));
        chosen.settings.into_iter().next().unwrap_or_else(|| panic!("no setting"))
    };
    // A thousand units, each held for half a second and a bit.
    let far = found("arrivals = \"500/s\"\nroom = 2000", "8", "500 ms", "1000", &[&make, &acquire, &ask, &release]);
    assert!((far.carried / 2000.0 - 1.0).abs() < 0.03 && far.fails.is_empty(), "{} {}", far.carried, far.bottleneck);
    assert!(
        far.bottleneck.starts_with("full first: `db`, at ") && far.bottleneck.contains("/s (2"),
        "{}",
        far.bottleneck
    );
    // Seven would all wait, of four each gets its second.
    let (one, other) = (work("x", "10 ms"), work("y", "10 ms"));
    let twice = [&make, &acquire, &one, &acquire, &other, &release, &release].map(String::as_str);
    let few = found("clients = 4\nthink = \"20 ms\"", "8", "0", "7", &twice);
    assert!(few.carried > 150.0, "{} {}", few.carried, few.bottleneck);
    // Two nodes that are full at the same rate, and a pool that is not.
    let even = found(
        "clients = 1500\nthink = \"20 ms\"",
        "1",
        "0",
        "5",
        &[&make, &acquire, &one, &release, &ask, &work("y", "11.02 ms")],
    );
    assert!(!even.bottleneck.starts_with("full first: `db`"), "{}", even.bottleneck);
    assert!((even.carried * 0.01102 - 1.0).abs() < 0.02, "{} {}", even.carried, even.bottleneck);
}

/// Who is alone waits for nobody; three pools in a ring; more pools than anybody has.
#[test]
fn what_is_acquired_in_parts_is_looked_at_part_by_part() {
    let step =
        |what: &str, pool: &str, units: u32| format!("[[sequence.main]]\n{what} = \"{pool}\"\nunits = {units}\n");
    let (a, r) = (|units| step("acquire", "db", units), |units| step("release", "db", units));
    let with = |steps: &str, size: &str| {
        changed(
            MODEL,
            &[
                ("[[sequence.main]]\nrelease = \"db\"\n", ""),
                ("[[sequence.main]]\nacquire = \"db\"\n", steps),
                ("size = 2", size),
            ],
        )
    };
    let in_turn = [a(1), a(4), r(1), a(1), r(5)].concat();
    let alone = changed(&with(&in_turn, "size = 5"), &[("clients = 5", "clients = 1")]);
    assert_eq!(model(&alone).pools[0].most, 5);
    // Five hold one each and want four more of nine: four are left.
    let parts = [a(1), a(4), r(5)].concat();
    read(&with(&parts, "size = 9"), Language::Toml).unwrap_or_else(|fault| panic!("{fault}"));
    let fault = read(&with(&parts, "size = 8"), Language::Toml).unwrap_err();
    assert!(fault.class == Class::Invalid && fault.why.starts_with("4 of it are acquired while 1 is held"), "{fault}");
    let both = |one: &str, other: &str| {
        [step("acquire", one, 1), step("acquire", other, 1), step("release", other, 1), step("release", one, 1)]
            .concat()
    };
    let ring = ["a", "b", "c"].map(|name| format!("[pool.{name}]\nsize = 1\n")).concat()
        + &both("a", "b")
        + &both("b", "c")
        + &both("c", "a");
    let fault = read(&changed(MODEL, &[("[pool.db]\nsize = 2\n", &(ring + "[pool.db]\nsize = 2\n"))]), Language::Toml)
        .unwrap_err();
    assert!(fault.why.contains("`a`, then `b`, then `c`, then `a`"), "{fault}");
    let many: String = (0..65).map(|number| format!("[pool.n{number}]\nsize = 1\n")).collect();
    let fault = read(&changed(MODEL, &[("[pool.db]", &(many + "[pool.db]"))]), Language::Toml).unwrap_err();
    assert_eq!(fault.class, Class::TooLarge, "{fault}");
}

/// Near to what is carried an interval reaches far to one side; a run has it from prices that are all off, towards both.
#[test]
fn what_is_simulated_has_both_ends_of_its_interval() {
    let text = |sign: &str, room: &str| {
        format!(
            "[workload]\narrivals = \"80/s\"\nroom = {room}\n[node.a]\nplatform = \"p\"\n[node.b]\n[component.x]\nnode = \"a\"\n\
             [component.y]\nnode = \"b\"\n[pool.p]\nsize = 3\n[attribute.v]\nof = \"x\"\n[connector.w]\nfrom = \"x\"\nto = \"y\"\n\
             latency = \"1 ms\"\n[[sequence.main]]\ndo = \"s1\"\nby = \"x\"\ntime = \"1 ms\"\nreturns = \"v\"\n[[sequence.main]]\n\
             send = \"m\"\nover = \"w\"\ncarries = \"v\"\n[[sequence.main]]\nacquire = \"p\"\n[[sequence.main]]\ndo = \"s3\"\nby = \"y\"\n\
             time = \"1 ms\"\n[[sequence.main]]\nrelease = \"p\"\n[[secure]]\nproperty = \"data-origin-authentication\"\n\
             on = \"attribute v\"\nsignature = \"ed25519\"\n[price.p]\n\"hash sha-256\" = {{ each = \"1 ms\", variation = 0.3 }}\n\
             \"sign ed25519\" = {{ each = \"{sign}\", variation = 0.2, error = \"10 %\" }}\n"
        )
    };
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let wanted = Wanted { p99: Some(10.0), ..Wanted::default() };
    let solved = |sign: &str| {
        let chosen = choose(&model(&text(sign, "60")), &wanted, &effort).unwrap_or_else(|fault| panic!("{fault}"));
        chosen.settings.into_iter().next().unwrap_or_else(|| panic!("{sign}"))
    };
    let (middle, cheap, dear) = (solved("8 ms"), solved("7.2 ms"), solved("8.8 ms"));
    assert!(middle.simulated.is_some());
    for (name, own, low, high) in
        [("mean", middle.mean, cheap.mean, dear.mean), ("p99", middle.p99, cheap.p99, dear.p99)]
    {
        let ([Some(from), Some(to)], Some(own)) = (middle.ends[name], own) else { panic!("{:?}", middle.ends) };
        let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(0.0));
        assert!((from / low - 1.0).abs() < 0.1 && (to / high - 1.0).abs() < 0.1, "{name}: {from} {low}, {to} {high}");
        assert!(to - own > 1.3 * (own - from), "{name}: {from} {own} {to}");
    }
    // Where the dear end saturates, there is none.
    let busy = text("9.8 ms", "400");
    let chosen = choose(&model(&busy), &wanted, &effort).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(chosen.settings[0].ends["p99"][1], None, "{:?}", chosen.settings[0].ends);
}

/// What lies near to what is wanted of it has both ends of its interval, of what is simulated as of what is solved, and however straight it is.
#[test]
fn what_is_simulated_has_both_ends_beside_what_is_wanted() {
    let text = |load: &str| {
        format!(
            "[workload]\n{load}\n[node.a]\nplatform = \"p\"\n[node.b]\n[component.x]\nnode = \"a\"\n[component.y]\nnode = \"b\"\n\
             [pool.p]\nsize = 3\n[attribute.v]\nof = \"x\"\n[connector.w]\nfrom = \"x\"\nto = \"y\"\nlatency = \"1 ms\"\n\
             [[sequence.main]]\ndo = \"s1\"\nby = \"x\"\ntime = \"1 ms\"\nreturns = \"v\"\n[[sequence.main]]\nsend = \"m\"\n\
             over = \"w\"\ncarries = \"v\"\n[[sequence.main]]\nacquire = \"p\"\n[[sequence.main]]\ndo = \"s3\"\nby = \"y\"\n\
             time = \"1 ms\"\n[[sequence.main]]\nrelease = \"p\"\n[[secure]]\nproperty = \"data-origin-authentication\"\n\
             on = \"attribute v\"\nsignature = \"ed25519\"\n[price.p]\n\"hash sha-256\" = {{ each = \"1 ms\", variation = 0.3 }}\n\
             \"sign ed25519\" = {{ each = \"6 ms\", variation = 0.2, error = \"1 %\" }}\n"
        )
    };
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let solved = |load: &str, wanted: &Wanted| {
        let chosen = choose(&model(&text(load)), wanted, &effort).unwrap_or_else(|fault| panic!("{fault}"));
        chosen.settings.into_iter().next().unwrap_or_else(|| panic!("{load}"))
    };
    for (load, figures) in [
        ("arrivals = \"70/s\"\nroom = 60", ["mean", "p99", "cpu"].as_slice()),
        ("clients = 30\nthink = \"300 ms\"", ["mean", "p99", "cpu", "throughput"].as_slice()),
    ] {
        let first = solved(load, &Wanted { p99: Some(10.0), ..Wanted::default() });
        assert!(first.simulated.is_some() && first.ends.is_empty(), "{:?}", first.ends);
        let wanted = Wanted {
            mean: first.mean,
            p99: first.p99,
            cpu: Some(first.cpu.1),
            rate: figures.contains(&"throughput").then_some(first.throughput),
            ..Wanted::default()
        };
        let found = solved(load, &wanted);
        let value = |name: &str| match name {
            "mean" => found.mean.unwrap_or(f64::NAN),
            "p99" => found.p99.unwrap_or(f64::NAN),
            "cpu" => found.cpu.1,
            _ => found.throughput,
        };
        for name in figures {
            let [Some(low), Some(high)] = found.ends[name] else { panic!("{name}: {:?}", found.ends) };
            let half = found.plus_minus[name];
            assert!((low..high).contains(&value(name)), "{name}: {low} {high}");
            assert!(((high - low) / (2.0 * half) - 1.0).abs() < 0.1, "{name}: {low} {high}, \u{b1} {half}");
        }
    }
}

/// What the guide says of its example: processors that wait, and a signature whose making nobody's connection waits for.
#[test]
fn the_example_is_as_the_guide_says() {
    let text = include_str!("../../../../examples/cost/connection-pool.toml");
    let found = solved(text);
    let busy: Vec<f64> = found.nodes.iter().map(|node| (node.utilisation * 100.0).round()).collect();
    assert_eq!((busy, (found.pools[0].utilisation * 100.0).round()), (vec![10.0, 30.0], 68.0));
    let most = |signature: &str| {
        let busy = changed(
            text,
            &[("think = \"20 ms\"", "think = 0"), ("[\"ed25519\", \"rsa-2048\", \"rsa-4096\"]", signature)],
        );
        solved(&busy).throughput
    };
    assert!(most("\"rsa-2048\"") > most("\"ed25519\""));
}
