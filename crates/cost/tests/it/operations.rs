//! Names of operations: those that price lists may have are those that mechanisms ask for.

#[allow(dead_code, reason = "others put ways together by their numbers")]
use std::collections::BTreeSet;

use cost::Class;
use cost::operation::{known, names};
use cost::read::{Language, read, read_priced};

use crate::asked;
use crate::ways::{USUAL, ways};

const BASE: &str = r#"
[workload]
clients = 1
[node.a]
platform = "p"
[node.h]
platform = "p"
[component.x]
node = "a"
[component.y]
node = "a"
[component.z]
node = "a"
[connector.c]
from = "x"
to = "y"
[connector.l]
from = "x"
to = "z"
[attribute.v]
of = "x"
[attribute.w]
of = "y"
[[sequence.main]]
do = "make"
by = "x"
time = "1 ms"
returns = "v"
[[sequence.main]]
send = "give"
over = "c"
carries = ["v"]
[[sequence.main]]
send = "answer"
over = "c"
from = "y"
carries = ["w"]
"#;

/// Ways that are not among all others, for the names that only they ask for.
const MORE: &str = r#"
[[secure]]
property = "data-origin-authentication"
on = "attribute v"
signature = "ed448"
in = ["A"]
[[secure]]
property = "data-integrity"
on = "attribute v"
signature = "ed448"
in = ["A"]
[[secure]]
property = "certified-key"
on = "component x"
signature = ["ecdsa-p256", "ecdsa-p521"]
life = 10
through = "l"
[[secure]]
property = "secure-channel"
on = "connector c"
protocol = "tls-1.3"
key = "rsa-2048"
reuse = 0
"#;

/// What all ways of a text ask for.
fn of_text(text: &str, all: &mut BTreeSet<String>) {
    let model = read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let most = model.annotations.iter().map(|it| it.alternatives.len()).max().unwrap_or(0);
    for way in 0..most {
        asked::asked(&model.chosen(&vec![way; model.annotations.len()]), all);
    }
}

/// The same name for each length of RSA.
fn shortened(name: &str) -> String {
    let Some((before, after)) = name.split_once(" rsa-") else { return name.to_owned() };
    format!("{before} rsa-N{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
}

#[test]
fn names_of_prices_are_those_that_mechanisms_ask_for() {
    let mut all = BTreeSet::new();
    for way in ways().iter().flatten() {
        let text = USUAL.fill(&way.taken(BASE, &USUAL));
        of_text(&format!("{BASE}{text}"), &mut all);
    }
    of_text(&format!("{BASE}{MORE}"), &mut all);
    for name in &all {
        assert!(known(name), "`{name}` is asked for, and its price would be refused");
    }
    let all: BTreeSet<String> = all.iter().map(|name| shortened(name)).collect();
    let named: BTreeSet<String> = names().iter().map(|name| shortened(name)).collect();
    assert_eq!(named.difference(&all).collect::<Vec<_>>(), Vec::<&String>::new(), "nothing asks for these");
}

#[test]
fn a_price_that_nothing_can_ask_for_is_refused() {
    let mermaid = "sequenceDiagram\n  %% trapkey: workload clients=1\n  %% trapkey: node n platform=pc\n  \
                   %% trapkey: component a node=n\n  %% trapkey: step time=1ms\n  a->>a: work\n";
    for (name, meant) in [
        ("sing rsa-2048", "nearest: `sign rsa-2048`"),
        ("sign rsa2048", "nearest: `sign rsa-2048`"),
        ("encrypt rsa-2048-oaep-sha1", "nearest: `encrypt rsa-2048`"),
        ("agree rsa-2048", "known with `agree`: `agree x25519`, "),
        ("make", "names begin with `hash`, `sign`, "),
    ] {
        let check = |fault: cost::Fault, line| {
            assert_eq!((fault.class, fault.line), (Class::NoSuchName, line), "{fault}");
            assert!(fault.name.contains(name) && fault.name.contains("pc"), "{fault}");
            assert!(fault.why.contains(&format!("`{name}`")) && fault.why.contains(meant), "{fault}");
        };
        let priced = format!("[price.pc.\"{name}\"]\neach = \"1 ms\"\n");
        let lines = BASE.lines().count();
        check(read(&format!("{BASE}{priced}"), Language::Toml).unwrap_err(), Some(lines + 1));
        check(read_priced(BASE, Language::Toml, &priced).unwrap_err(), None);
        let diagram = format!("{mermaid}  %% trapkey: price pc \"{name}\" each=\"1 ms\"\n");
        check(read(&diagram, Language::Mermaid).unwrap_err(), Some(7));
    }
    for name in ["sign rsa-2048", "sign rsa-2560-pss", "verify hmac-sha384", "hash sha-1", "setKeyLength", "decide"] {
        let priced = format!("[price.pc.\"{name}\"]\neach = \"1 ms\"\n");
        let base = BASE.replace("\"p\"", "\"pc\"");
        assert!(read(&format!("{base}{priced}"), Language::Toml).is_ok(), "{name}");
    }
}

#[test]
fn prices_of_a_platform_that_no_node_is_of_are_refused() {
    let lines = BASE.lines().count();
    let priced = |platform: &str| format!("[price.{platform}.\"hash sha-512\"]\neach = \"1 ms\"\n");
    let check = |fault: cost::Fault, line, why: &str| {
        assert_eq!((fault.class, fault.line), (Class::NoSuchName, line), "{fault}");
        assert_eq!((fault.name.as_str(), fault.why.as_str()), ("price of zz hash sha-512", why));
    };
    let why = "no node of the model is of the platform `zz`; there are `p`";
    let both = format!("{BASE}{}{}", priced("p"), priced("zz"));
    check(read(&both, Language::Toml).unwrap_err(), Some(lines + 3), why);
    let both = priced("p") + &priced("zz");
    check(read_priced(BASE, Language::Toml, &both).unwrap_err(), None, &format!("in the prices: {why}"));
    assert!(read_priced(BASE, Language::Toml, &priced("p")).is_ok());
    let none = read_priced(BASE, Language::Toml, "# none yet\n").unwrap_err();
    assert_eq!((none.class, none.why.as_str()), (Class::NoEffect, "the list of prices has none"));
    // In a diagram, and where no node is of any.
    let diagram = "sequenceDiagram\n  %% trapkey: workload clients=1\n  %% trapkey: node n\n  %% trapkey: component a node=n\n  \
                   %% trapkey: step time=1ms\n  a->>a: work\n  %% trapkey: price zz \"hash sha-512\" each=\"1 ms\"\n";
    let fault = read(diagram, Language::Mermaid).unwrap_err();
    assert_eq!((fault.class, fault.line), (Class::NoSuchName, Some(7)), "{fault}");
    assert!(fault.why.contains("platform `zz`; no node has a platform"), "{fault}");
    // A node whose own platform has a slip is named first.
    let slip = format!("{}{}", BASE.replacen("platform = \"p\"", "platform = \"pp\"", 1), priced("p"));
    assert!(read(&slip, Language::Toml).unwrap_err().name.starts_with("node "));
}
