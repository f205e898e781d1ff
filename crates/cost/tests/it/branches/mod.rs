//! Models whose requests do several things at once.

use cost::Model;
use cost::read::{Language, read};
use gspn::{Budget, Limits};

/// Two branches on machines of their own, 10 ms and 20 ms.
pub(crate) const TWO: &str = r#"
[workload]
clients = 1
[node.a]
[node.b]
[component.x]
node = "a"
[component.y]
node = "b"
[[sequence.main]]
par = [ { ref = "one" }, { ref = "other" } ]
[[sequence.one]]
do = "one"
by = "x"
time = "10 ms"
[[sequence.other]]
do = "other"
by = "y"
time = "20 ms"
"#;

pub(crate) fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

pub(crate) fn within<T>(work: impl FnOnce(&mut Budget<'_>) -> T) -> T {
    let mut go_on = |_| true;
    work(&mut Budget::new(Limits::default(), &mut go_on))
}

pub(crate) fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

pub(crate) fn close(what: &str, got: f64, wanted: f64) {
    assert!((got - wanted).abs() <= 1e-9 * wanted.abs(), "{what}: {got} {wanted}");
}

/// Loads of the two branches: a choice and a message in one of them, a step behind both.
pub(crate) fn loaded(workload: &str) -> String {
    let more = "[connector.wire]\nfrom = \"x\"\nto = \"y\"\nlatency = \"2 ms\"\nrate = \"1 MB/s\"\n\
        [[sequence.main]]\ndo = \"after\"\nby = \"y\"\ntime = \"3 ms\"\nvariation = 0.4\n\
        [[sequence.one]]\nchoose = [ { weight = 1, ref = \"far\" }, { weight = 1 } ]\n\
        [[sequence.far]]\nsend = \"ask\"\nover = \"wire\"\nbytes = \"3 kB\"\n\
        [[sequence.far]]\ndo = \"there\"\nby = \"y\"\ntime = \"4 ms\"\n";
    changed(TWO, &[("clients = 1", workload)]) + more
}

const SIGNED: &str = r#"
[connector.wire]
from = "x"
to = "y"
[attribute.v]
of = "x"
size = "1 kB"
[attribute.w]
of = "x"
[[sequence.one]]
send = "give"
over = "wire"
carries = ["v"]
[[sequence.other]]
send = "tell"
over = "wire"
carries = ["w"]
[[secure]]
property = "data-integrity"
on = "attribute v"
signature = "ed25519"
valid = 0.9
[[secure]]
property = "data-integrity"
on = "attribute w"
signature = "ed25519"
valid = 0.8
[price.p]
"sign ed25519" = { each = "1 ms", error = "10 %", energy = "2 J" }
"verify ed25519" = { each = "2 ms" }
"hash sha-256" = { each = "1 us" }
"#;

pub(crate) fn signed(load: &str) -> String {
    let platform = [("[node.a]", "[node.a]\nplatform = \"p\""), ("[node.b]", "[node.b]\nplatform = \"p\"")];
    changed(TWO, &platform).replace("clients = 1", load) + SIGNED
}

/// A check that fails in a branch ends that branch; the request is aborted when the others have ended, too, and does no more.
pub(crate) const SMALL: &str = r#"
[workload]
clients = 2
[node.n]
cores = 2
[component.x]
node = "n"
[component.y]
node = "n"
[connector.wire]
from = "x"
to = "y"
[attribute.v]
of = "x"
"#;

/// Steps as words, each sequence by its name; pools are those that somebody takes.
pub(crate) fn sequences(text: &[(&str, &str)]) -> String {
    let step = |word: &str| match word.split_once(' ') {
        Some(("take", pool)) => format!("acquire = \"{pool}\""),
        Some(("give", pool)) => format!("release = \"{pool}\""),
        Some(("par", names)) => {
            let branches: Vec<String> = names.split(' ').map(|it| format!("{{ ref = \"{it}\" }}")).collect();
            format!("par = [ {} ]", branches.join(", "))
        }
        Some(("make", value)) => format!("do = \"make\"\nby = \"x\"\ntime = \"1 ms\"\nreturns = \"{value}\""),
        Some(("send", value)) => format!("send = \"send\"\nover = \"wire\"\ncarries = [\"{value}\"]"),
        Some((other, _)) => panic!("{other}"),
        None => format!("do = \"{word}\"\nby = \"x\"\ntime = \"1 ms\""),
    };
    let sequence = |(name, steps): &(&str, &str)| {
        steps.split(", ").map(|it| format!("[[sequence.{name}]]\n{}\n", step(it))).collect::<String>()
    };
    let taken = |pool: &&str| text.iter().any(|(_, steps)| steps.contains(&format!("take {pool}")));
    let pools = ["p", "q"].into_iter().filter(taken).map(|pool| format!("[pool.{pool}]\nsize = 2\n"));
    SMALL.to_owned() + &pools.collect::<String>() + &text.iter().map(sequence).collect::<String>()
}
