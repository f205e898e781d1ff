//! What requests wait for: cores, lines and threads, whatever their names are and however seldom somebody comes.

use cost::choose::{Effort, Outcome, Wanted, choose};
use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Model, weave};
use gspn::{Budget, Limits};

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
rate = "1 MB/s"
[attribute.order]
of = "client"
size = "5 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "1 ms"
returns = "order"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[sequence.main]]
do = "store"
by = "service"
time = "1 ms"
[[secure]]
property = "data-origin-authentication"
on = "attribute order"
signature = "ed25519"
[price.p]
"hash sha-256" = { each = "1 us" }
"sign ed25519" = { each = "1 us" }
"#;

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"))
}

fn solved(text: &str) -> Solution {
    let mut go_on = |_| true;
    solve(&weave(&model(text)), &mut Budget::new(Limits::default(), &mut go_on))
        .unwrap_or_else(|fault| panic!("{fault}"))
}

fn chosen(text: &str, wanted: &Wanted) -> Outcome {
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    choose(&model(text), wanted, &effort).unwrap_or_else(|fault| panic!("{fault}")).settings.remove(0)
}

/// Two threads have two cores, but one line: who is asked how long that takes must not take the line for the node of its name.
#[test]
fn a_line_that_has_the_name_of_a_node_is_waited_for_all_the_same() {
    let wanted = Wanted { p50: Some(1.0), p99: Some(1.0), ..Wanted::default() };
    let own = chosen(MODEL, &wanted);
    let same = chosen(&MODEL.replace("wire", "server"), &wanted);
    for (one, other) in [(own.p50, same.p50), (own.p99, same.p99), (own.mean, same.mean)] {
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!((one / other - 1.0).abs() < 1e-9, "{one} and {other}");
    }
}

/// A request in thirty thousand years finds a thousand places free: what it takes is not lost among them.
#[test]
fn a_request_that_seldom_comes_takes_as_long_as_it_does_alone() {
    for (arrivals, room) in [("1e-3/s", 10), ("1e-6/h", 30), ("1e-12/s", 10)] {
        let text = MODEL.replace("150/s", arrivals).replace("room = 6", &format!("room = {room}"));
        let text = text.replace("threads = 2", "threads = 1");
        let solution = solved(&text);
        // 1 ms, hash and signature, 5,064 B on the line, 1 ms.
        let alone = 1e-3 + 2e-6 + 5.064e-3 + 1e-3;
        let off = solution.response / alone - 1.0;
        assert!((0.0..1e-5).contains(&(off + 1e-12)), "{arrivals}: {} s", solution.response);
        let spent: f64 = solution.spent.iter().map(|it| it.seconds).sum();
        assert!((spent / solution.response - 1.0).abs() < 1e-12, "{arrivals}");
        let busy = solution.nodes[0].utilisation / solution.throughput * 2.0;
        assert!((busy / 1.002e-3 - 1.0).abs() < 1e-9, "{arrivals}: {busy}");
    }
}

/// Who need not agree on a key stays where it is: that one request in a billion goes away must not have all others wait for their core
/// once more.
#[test]
fn a_way_that_is_hardly_ever_taken_changes_nothing() {
    let text = MODEL.replace("threads = 2", "").replace("cores = 2", "").replace("time = \"1 ms\"", "time = \"6 ms\"");
    let secure = r#"
property = "data-confidentiality"
on = "connector wire"
cipher = "aes-128-gcm"
"#;
    let a = text.find("\nproperty = ").unwrap();
    let b = text.find("[price.p]").unwrap();
    let text = format!("{}{secure}REUSE\n{}", &text[..a], &text[b..]);
    let text = text
        + "\"encrypt aes-128-gcm\" = { each = \"9 us\" }\n\"decrypt aes-128-gcm\" = { each = \"9 us\" }\n"
        + "\"encrypt rsa-2048\" = { each = \"9 us\" }\n\"decrypt rsa-2048\" = { each = \"9 us\" }\n";
    let never = solved(&text.replace("REUSE", "reuse = 1"));
    let hardly = solved(&text.replace("REUSE", "reuse = 0.999999999\nexchange = \"rsa-2048\""));
    for (one, other) in [
        (never.response, hardly.response),
        (never.turned_away, hardly.turned_away),
        (never.nodes[0].utilisation, hardly.nodes[0].utilisation),
    ] {
        assert!((one / other - 1.0).abs() < 1e-6, "{one} and {other}");
    }
}

/// Two threads and two computers of 5 ms each: with both threads at work, two thirds of what a computer could do by itself.
#[test]
fn threads_that_wait_for_each_other_carry_less_than_any_computer() {
    let text =
        MODEL.replace("cores = 2", "").replace("rate = \"1 MB/s\"", "").replace("time = \"1 ms\"", "time = \"5 ms\"");
    let text = text.replace("room = 6", "room = 30").replace("\"1 us\"", "\"0 us\"");
    let it = chosen(&text, &Wanted { rate: Some(150.0), mean: Some(1.0), ..Wanted::default() });
    assert!((it.saturation / (200.0 * 2.0 / 3.0) - 1.0).abs() < 1e-9, "{it:?}");
    assert!(it.saturated && it.mean.is_none(), "{it:?}");
    assert_eq!(it.fails[0].why, "this saturates at 133.3/s, and 150/s are asked for");
    let limit = it.limit.clone().unwrap();
    assert!(limit.waits && limit.resource == "threads" && limit.utilisation > 0.99, "{limit:?}");
    // Both computers count the same, and all times together count as they should.
    assert!((limit.share - 0.5).abs() < 1e-6, "{limit:?}");
    // What the sentence says is what happens.
    let faster = chosen(&text.replacen("5 ms", "4.95 ms", 1), &Wanted::default());
    assert!(
        ((faster.saturation / it.saturation).ln() / (1.0_f64 / 0.99).ln() - limit.share).abs() < 0.01,
        "{faster:?}"
    );
    // Below, it is carried, and the threads are as busy as they are.
    let less = chosen(&text, &Wanted { rate: Some(100.0), ..Wanted::default() });
    assert!(less.fails.is_empty() && less.throughput > 99.0, "{less:?}");
    let busy = less.limit.unwrap().utilisation;
    assert!(busy > 100.0 * 0.010 / 2.0 && busy < 0.75, "{busy}");
    // Without a limit of threads there is always somebody for each computer, or nearly, of the thirty that can be there.
    let alone = chosen(&text.replace("threads = 2", ""), &Wanted::default());
    assert!((alone.saturation / (200.0 * 30.0 / 31.0) - 1.0).abs() < 1e-9, "{alone:?}");
    let many = chosen(&text.replace("threads = 2", "").replace("room = 30", "room = 20000"), &Wanted::default());
    assert!((many.saturation - 200.0).abs() < 1e-6 && !many.limit.unwrap().waits);
}

/// What it is, what of the model is another way there, and what is full.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// What can be carried is what the whole net carries when far more come: also where room or clients are fewer than cores or threads.
#[test]
fn what_can_be_carried_is_what_is_when_everybody_comes() {
    let few = ("arrivals = \"150/s\"\nroom = 6\nthreads = 2", "clients = 3\nthink = \"50 ms\"");
    let pool = [
        (
            "[[sequence.main]]\ndo = \"store\"",
            "[pool.db]\nsize = 1\n[[sequence.main]]\nacquire = \"db\"\n[[sequence.main]]\ndo = \"store\"",
        ),
        ("[[secure]]", "[[sequence.main]]\nrelease = \"db\"\n[[secure]]"),
    ];
    let (cores, one) = (("cores = 2", "cores = 4"), ("cores = 2", "cores = 1"));
    let of = |room: &'static str| ("room = 6\nthreads = 2", room);
    let cases: [Case<'_>; 9] = [
        ("threads", &[], "threads"),
        ("room for two", &[of("room = 2"), cores, ("rate = \"1 MB/s\"", "")], "request"),
        ("room for two and a line", &[of("room = 2"), cores], "request"),
        ("room for five", &[of("room = 5"), one], "request"),
        ("fewer than threads", &[of("room = 2\nthreads = 3"), one], "request"),
        ("as many as threads", &[of("room = 3\nthreads = 3"), one], "threads"),
        ("clients", &[few, cores, ("rate = \"1 MB/s\"", "")], "request"),
        ("clients that wait", &[few, one], "request"),
        ("a pool in a room", &[of("room = 4"), one, pool[0], pool[1]], "request"),
    ];
    for (what, changes, full) in cases {
        let text = changes.iter().fold(MODEL.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{what}: {from}");
            text.replace(from, to)
        });
        let everybody = solved(&text.replace("150/s", "1e7/s").replace("think = \"50 ms\"", "think = \"1 ns\""));
        let it = chosen(&text, &Wanted::default());
        let carried = everybody.throughput + everybody.aborted;
        assert!((it.carried / carried - 1.0).abs() < 1e-3, "{what}: {} {carried}", it.carried);
        let limit = it.limit.unwrap_or_else(|| panic!("{what}"));
        assert_eq!(limit.resource, full, "{what}: {}", it.bottleneck);
    }
    let two = MODEL.replace("room = 6\nthreads = 2", "room = 2").replace("rate = \"1 MB/s\"", "");
    let said = chosen(&two, &Wanted::default()).bottleneck;
    assert!(said.starts_with("full first: the 2 requests that can be there, "), "{said}");
}

/// Mean value analysis (Reiser and Lavenberg): requests come to two nodes again and again, and whoever waits for one is as likely to be
/// next, at whichever of its steps he is.
#[test]
fn who_comes_again_counts_no_more_than_who_comes_first() {
    const EACH: f64 = 2e-3;
    const THINK: f64 = 20e-3;
    for (visits, clients) in [(1, 4), (2, 6), (3, 8)] {
        let head = format!(
            "[workload]\nclients = {clients}\nthink = \"20 ms\"\n[node.n]\n[node.m]\n[component.x]\nnode = \"n\"\n\
             [component.y]\nnode = \"m\"\n[connector.w]\nfrom = \"x\"\nto = \"y\"\n"
        );
        let work = |by: &str| format!("[[sequence.main]]\ndo = \"work\"\nby = \"{by}\"\ntime = \"2 ms\"\n");
        let send = |from: &str| format!("[[sequence.main]]\nsend = \"go\"\nover = \"w\"\nfrom = \"{from}\"\n");
        let visit = [work("x"), send("x"), work("y"), send("y")].concat();
        let solution = solved(&[head, visit.repeat(visits), work("x")].concat());

        let demands = [EACH * (visits + 1) as f64, EACH * visits as f64];
        let (mut inside, mut throughput) = ([0.0; 2], 0.0);
        for there in 1..=clients {
            let times = [0, 1].map(|node: usize| demands[node] * (1.0 + inside[node]));
            throughput = f64::from(there) / (THINK + times.iter().sum::<f64>());
            inside = times.map(|time| throughput * time);
        }
        let response = f64::from(clients) / throughput - THINK;
        assert!(
            (solution.throughput / throughput - 1.0).abs() < 1e-9,
            "{visits}: {solution:?}, and {throughput} is wanted"
        );
        assert!((solution.response / response - 1.0).abs() < 1e-9, "{visits}: {solution:?}, and {response} is wanted");
    }
}
