//! Where mechanisms are put, what the net of them is, and how weaving scales.

use std::fmt::Write;

use cost::model::{Property, Step};
use cost::net::lay;
use cost::read::{Language, read};
use cost::solve::solve;
use cost::{Class, Model, print, weave};
use gspn::{Budget, Limits};

const CUSPIS: &str = include_str!("../../models/cuspis.toml");

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// The steps of the first sequence in words.
fn words(model: &Model) -> Vec<String> {
    let steps = weave(model).model().sequences[0].steps.clone();
    let word = |step: Step| match step {
        Step::Operation(it) => format!("{}{}", it.name, if it.critical { "*" } else { "" }),
        Step::Send(it) => format!("{}{}", it.name, if it.critical { "*" } else { "" }),
        Step::Protect(it) => format!("ref {} at {}", it.mechanism.word(), model.components[it.own].name),
        other => format!("{other:?}"),
    };
    steps.into_iter().map(word).collect()
}

/// Figure 6 of the paper, both halves.
#[test]
fn the_two_configurations_of_the_paper_are_woven_as_it_draws_them() {
    let cuspis = model(CUSPIS);
    assert_eq!(words(&cuspis.plain()), ["genGDinfo", "send", "storeGDinfo"]);
    assert_eq!(
        words(&cuspis.configuration("SC1").unwrap()),
        ["genGDinfo*", "ref signature-generation at producer", "send", "storeGDinfo"]
    );
    assert_eq!(
        words(&cuspis.configuration("SC2").unwrap()),
        [
            "genGDinfo*",
            "ref signature-generation at producer",
            "ref encryption at producer",
            "send*",
            "ref decryption at store",
            "storeGDinfo"
        ]
    );
    assert_eq!(cuspis.configuration("SC3").unwrap_err().class, Class::NoSuchName);
}

/// Lines of the printed nets that only one of two models has.
fn differ(one: &str, other: &str) -> Vec<String> {
    let [one, other] = [one, other].map(|text| print::net(&lay(&weave(&model(text))).unwrap()));
    let only = |these: &str, those: &str| -> Vec<String> {
        these.lines().filter(|line| !those.lines().any(|other| other == *line)).map(str::to_owned).collect()
    };
    [only(&one, &other), only(&other, &one)].concat()
}

/// Another setting of an annotation numbers nothing else anew. A signature is encrypted, too, and takes longer if it is longer.
#[test]
fn what_another_setting_changes_of_a_net_is_its_own() {
    let orders = include_str!("../../../../examples/cost/orders.toml");
    for (of, from, to) in [
        (
            "attribute order",
            "\"hmac-sha256\", \"ecdsa-p256\", \"rsa-2048\"",
            "\"rsa-2048\", \"ecdsa-p256\", \"hmac-sha256\"",
        ),
        ("connector wire", "[\"aes-128-gcm\", \"aes-256-gcm\"]", "[\"aes-256-gcm\", \"aes-128-gcm\"]"),
        ("connector wire", "[\"99 %\", \"90 %\"]", "[\"90 %\", \"99 %\"]"),
    ] {
        let differ = differ(orders, &orders.replace(from, to));
        assert!(differ.iter().any(|line| line.contains(&format!("({of})"))), "{from}");
        let timeless = |line: &str| line.split(", after").next().unwrap().to_owned();
        let alone = |line: &&String| differ.iter().filter(|other| timeless(other) == timeless(line)).count() == 1;
        let foreign: Vec<&String> =
            differ.iter().filter(alone).filter(|line| !line.contains(&format!("({of})"))).collect();
        assert!(foreign.is_empty(), "{foreign:#?}");
    }
}

/// What an annotation changes shows in the secured diagram: by what a step is worked on, how often, over how many bytes, and where.
#[test]
fn the_secured_diagram_says_how_much_is_done() {
    let secured = |annotations: &str| {
        let given = GIVEN.replace("of = \"a\"\n", "of = \"a\"\nsize = \"1 kB\"\n");
        let given = given.replace("carries = [\"v\"]\n[[", "carries = [\"v\"]\nbytes = \"200 B\"\n[[");
        format!("{given}\n{annotations}")
    };
    let printed = |text: &str| print::secured(&weave(&model(text)));
    let signs =
        "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"rsa-2048\"\nengine = \"hsm\"\n";
    let encrypts =
        "[[secure]]\nproperty = \"data-confidentiality\"\non = \"connector c\"\ncipher = \"aes-256-cbc\"\nreuse = 1\n";
    let text = secured(&format!("{signs}{encrypts}"));
    let diagram = printed(&text);
    for line in [
        "c0->>c0: generateDigest (hash sha-256, 1000 B)",
        "c0->>c0: encryptAlgorithm (sign rsa-2048, in hsm)",
        "c0->>c0: encryptAlgorithm (encrypt aes-256-cbc, 1456 B)",
        "c0->>c1: out (1488 B) *",
        "c1->>c1: encryptAlgorithm (verify rsa-2048)",
    ] {
        assert!(diagram.lines().any(|it| it.trim() == line), "{line}\n{diagram}");
    }
    assert!(!diagram.contains([';', '#']), "{diagram}");
    let tunnel = secured(
        "[[secure]]\nproperty = \"secure-tunnel\"\non = \"connector c\"\nprotocol = \"wireguard\"\nreuse = 0\nengine = \"hsm\"\npacket = 1420\n",
    );
    assert!(printed(&tunnel).contains("(3 x derive hkdf-blake2s, 96 B in all)"), "{}", printed(&tunnel));
    assert!(printed(&tunnel).contains(", in hsm)"), "{}", printed(&tunnel));
    // What was taken where there are several ways is said, and nothing where there is one.
    let several = text.replace("\"aes-256-cbc\"", "[\"aes-128-gcm\", \"aes-256-cbc\"]");
    assert_eq!(weave(&model(&text)).taken(), Vec::<String>::new());
    assert_eq!(weave(&model(&several)).taken(), ["connector c: aes-128-gcm reuse 1"]);
    assert!(printed(&several).contains("  %% the first of several ways: connector c: aes-128-gcm reuse 1\n"));
    for (text, from, to) in [
        (&text, "engine = \"hsm\"\n", ""),
        (&text, "1 kB", "2 kB"),
        (&text, "200 B", "500 B"),
        (&tunnel, "engine = \"hsm\"\n", ""),
        (&tunnel, "packet = 1420", "packet = 600"),
    ] {
        assert_ne!(printed(text), printed(&text.replacen(from, to, 1)), "{from}");
    }
}

const GIVEN: &str = r#"
[workload]
clients = 1
[node.n]
[node.m]
[node.hsm]
[component.a]
node = "n"
[component.b]
node = "m"
[connector.c]
from = "a"
to = "b"
[attribute.v]
of = "a"
[[sequence.main]]
send = "out"
over = "c"
carries = ["v"]
[[sequence.main]]
send = "back"
over = "c"
from = "b"
carries = ["v"]
"#;

/// What comes of no step is signed by whose it is, whenever it is sent; who passes it on does not.
#[test]
fn an_attribute_that_no_step_returns_is_signed_where_it_is_sent() {
    let text =
        format!("{GIVEN}[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"ed25519\"\n");
    let verified = |by: &str| format!("ref signature-verification at {by}");
    assert_eq!(
        words(&model(&text)),
        ["ref signature-generation at a".to_owned(), "out".into(), verified("b"), "back".into(), verified("a")]
    );
}

/// An engine has the keys of both ends that agree on one.
#[test]
fn one_engine_has_all_private_keys_of_an_exchange() {
    let text = format!(
        "{GIVEN}[[secure]]\nproperty = \"data-confidentiality\"\non = \"connector c\"\ncipher = \"aes-256-gcm\"\nexchange = \"rsa-2048\"\nreuse = 0\nengine = \"hsm\"\n"
    );
    let woven = weave(&model(&text));
    let engine = woven.model().nodes.iter().position(|node| node.name == "hsm");
    let protects = woven.model().sequences[0].steps.iter().filter_map(|step| match step {
        Step::Protect(it) => Some((it.engine, it.peer_engine)),
        _ => None,
    });
    let protects: Vec<_> = protects.collect();
    assert!(protects.len() == 4 && protects.iter().all(|it| *it == (engine, engine)), "{protects:?}");
}

/// Table 1 of the paper, row by row: what weaving puts in is what the row says.
#[test]
fn every_composed_mechanism_is_made_of_its_row() {
    for property in Property::ALL {
        let (on, setting) = match property {
            Property::DataConfidentiality => ("connector c", "cipher = \"aes-128-gcm\"\nreuse = 1"),
            Property::DataIntegrity | Property::DataOriginAuthentication => {
                ("attribute v", "signature = \"ecdsa-p256\"")
            }
            Property::PeerEntityAuthentication => ("component x", "signature = \"ecdsa-p256\""),
            Property::CertifiedKey => ("component x", "signature = \"ecdsa-p256\"\nlife = 1\nthrough = \"c\""),
            Property::SecureChannel => ("connector c", "protocol = \"tls-1.3\"\nkey = \"ecdsa-p256\"\nreuse = 0"),
            Property::SecureTunnel => ("connector c", "protocol = \"wireguard\"\nreuse = 0"),
        };
        let text = format!("{SMALL}\n[[secure]]\nproperty = \"{}\"\non = \"{on}\"\n{setting}\n", property.word());
        let woven = weave(&model(&text));
        let used: Vec<_> = woven.model().sequences[0]
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Protect(it) => Some(it.mechanism),
                _ => None,
            })
            .collect();
        let mut used = used;
        // A channel is its connection and what it does before and after each message.
        used.dedup();
        assert_eq!(used, property.made_of(), "{}", property.word());
    }
}

const SMALL: &str = r#"
[workload]
clients = 1
[node.a]
platform = "p"
[node.b]
platform = "p"
[component.x]
node = "a"
[component.y]
node = "b"
[connector.c]
from = "x"
to = "y"
[attribute.v]
of = "x"
size = "1 kB"
[[sequence.main]]
do = "make"
by = "x"
time = "4 ms"
returns = "v"
[[sequence.main]]
send = "give"
over = "c"
carries = "v"
"#;

fn throughput(text: &str) -> f64 {
    let mut go_on = |_| true;
    solve(&weave(&model(text)), &mut Budget::new(Limits::default(), &mut go_on)).unwrap().throughput
}

/// One client: the times add up, by hand.
#[test]
fn prices_of_each_step_are_added() {
    let prices = |list: &[(&str, &str, &str)]| {
        let mut text = String::new();
        for (operation, each, per_kb) in list {
            let _ = write!(text, "[price.p.\"{operation}\"]\neach = \"{each}\"\nper_kb = \"{per_kb}\"\n");
        }
        text
    };
    let secure = |lines: &str| format!("{SMALL}\n[[secure]]\n{lines}\n");
    let integrity = secure("property = \"data-integrity\"\non = \"attribute v\"\nsignature = \"rsa-2048\"")
        + &prices(&[
            ("hash sha-256", "1 ms", "2 ms"),
            ("sign rsa-2048", "10 ms", "0"),
            ("verify rsa-2048", "1 ms", "0"),
        ]);
    // 4 + (1 + 2) + 10 + (1 + 2) + 1
    assert!((throughput(&integrity) - 1000.0 / 21.0).abs() < 1e-9);

    // A kilobyte in blocks of 256 - 66 = 190 bytes is six blocks, each encrypted and decrypted; half the time a
    // certificate is verified: 589 bytes of it are hashed.
    let asymmetric = secure(
        "property = \"data-confidentiality\"\non = \"connector c\"\ncipher = \"rsa-2048-oaep-sha256\"\nreuse = 0.5",
    ) + &prices(&[
        ("encrypt rsa-2048-oaep-sha256", "1 ms", "0"),
        ("decrypt rsa-2048-oaep-sha256", "10 ms", "0"),
        ("hash sha-256", "1 ms", "2 ms"),
        ("verify rsa-2048", "2 ms", "0"),
    ]);
    assert!((throughput(&asymmetric) - 1000.0 / (4.0 + 6.0 + 60.0 + (1.0 + 2.0 * 0.589 + 2.0) / 2.0)).abs() < 1e-9);

    // On a line the six blocks are 1,536 bytes.
    let slow = asymmetric.replace("to = \"y\"", "to = \"y\"\nrate = \"1 MB/s\"").replace("reuse = 0.5", "reuse = 1");
    assert!((throughput(&slow) - 1000.0 / (4.0 + 6.0 + 60.0 + 1.536)).abs() < 1e-9);

    // ISO/IEC 11770-3: two messages are encrypted and decrypted, in one request of four.
    let symmetric = secure(
        "property = \"data-confidentiality\"\non = \"connector c\"\ncipher = \"aes-256-cbc\"\nexchange = \"rsa-2048\"\nreuse = \"75 %\"",
    ) + &prices(&[
        ("encrypt rsa-2048", "1 ms", "0"),
        ("decrypt rsa-2048", "10 ms", "0"),
        ("verify rsa-2048", "2 ms", "0"),
        ("encrypt aes-256-cbc", "0", "3 ms"),
        ("decrypt aes-256-cbc", "0", "5 ms"),
    ]);
    assert!((throughput(&symmetric) - 1000.0 / (4.0 + 22.0 / 4.0 + 3.0 + 5.0)).abs() < 1e-9);

    // Aborted requests end early: the signature of one in five is wrong.
    let wrong = integrity.replace("signature = \"rsa-2048\"", "signature = \"rsa-2048\"\nvalid = 0.8");
    assert!((throughput(&wrong) - 0.8 * 1000.0 / 21.0).abs() < 1e-9);
}

/// A time that is not exponential has the mean and variation that it was given: M/G/1 in its closed form.
#[test]
fn variation_counts_where_requests_wait() {
    for variation in [0.05, 0.25, 0.4, 0.5, 1.0, 2.0, 9.0] {
        let text = format!(
            "[workload]\narrivals = \"60/s\"\nroom = 150\n[node.a]\n[component.x]\nnode = \"a\"\n[[sequence.main]]\ndo = \"work\"\nby = \"x\"\ntime = \"10 ms\"\nvariation = {variation}\n"
        );
        let mut go_on = |_| true;
        let solution = solve(&weave(&model(&text)), &mut Budget::new(Limits::default(), &mut go_on)).unwrap();
        // Pollaczek and Khinchine; the room is large enough not to matter to six digits where the variation is small.
        let wanted = 0.010 + 0.6 * 0.010 * (1.0 + variation) / 2.0 / 0.4;
        let digits = if variation > 2.0 { 2e-2 } else { 1e-6 };
        assert!((solution.response / wanted - 1.0).abs() < digits, "{variation}: {} for {wanted}", solution.response);
    }
}

#[test]
fn an_operation_without_a_price_is_named() {
    let text = format!(
        "{SMALL}\n[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"rsa-2048\"\n[price.p.\"hash sha-256\"]\neach = \"0\"\n"
    );
    let fault = lay(&weave(&model(&text))).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str()), (Class::NoPrice, "sign rsa-2048"));
    assert!(fault.why.contains("[price.p.\"sign rsa-2048\"]"), "{fault}");
}

/// 100 components and 1,000 annotations are woven and laid; no clock looks on, only the count of what came out.
#[test]
fn a_thousand_annotations_are_woven() {
    let mut text = String::from("[workload]\nclients = 1\n[node.n]\nplatform = \"p\"\n");
    for component in 0..100 {
        let _ = write!(text, "[component.c{component}]\nnode = \"n\"\n");
        let next = (component + 1) % 100;
        let _ = write!(text, "[connector.k{component}]\nfrom = \"c{component}\"\nto = \"c{next}\"\n");
        for attribute in 0..9 {
            let _ = write!(text, "[attribute.v{component}-{attribute}]\nof = \"c{component}\"\nsize = \"1 kB\"\n");
        }
    }
    for component in 0..100 {
        for attribute in 0..9 {
            let name = format!("v{component}-{attribute}");
            let _ = write!(
                text,
                "[[sequence.main]]\ndo = \"make {name}\"\nby = \"c{component}\"\ntime = \"1 ms\"\nreturns = \"{name}\"\n"
            );
            let _ = write!(
                text,
                "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute {name}\"\nsignature = \"rsa-2048\"\n"
            );
        }
        let carried: Vec<String> = (0..9).map(|attribute| format!("\"v{component}-{attribute}\"")).collect();
        let _ = write!(
            text,
            "[[sequence.main]]\nsend = \"send {component}\"\nover = \"k{component}\"\ncarries = [{}]\n",
            carried.join(", ")
        );
        let _ = write!(
            text,
            "[[secure]]\nproperty = \"data-confidentiality\"\non = \"connector k{component}\"\ncipher = \"aes-256-gcm\"\nreuse = 1\n"
        );
    }
    for operation in ["sign rsa-2048", "verify rsa-2048", "hash sha-256", "encrypt aes-256-gcm", "decrypt aes-256-gcm"]
    {
        let _ = write!(text, "[price.p.\"{operation}\"]\neach = \"1 ms\"\n");
    }
    let model = model(&text);
    assert_eq!((model.components.len(), model.annotations.len()), (100, 1000));
    let woven = weave(&model);
    let protected = woven.model().sequences[0].steps.iter().filter(|step| matches!(step, Step::Protect(_)));
    assert_eq!(protected.count(), 900 + 900 + 200);
    let laid = lay(&woven).unwrap();
    // 900 signatures and verifications of two priced steps each, 100 encryptions and decryptions, 900 operations.
    assert_eq!(laid.stages.iter().filter(|stage| stage.mean > 0.0).count(), 900 * 4 + 200 + 900);
}

/// In the diagram the note of a mechanism inside of another one stands over who does its steps, whichever side that is.
#[test]
fn notes_stand_over_who_does_the_steps() {
    let head = "[workload]\nclients = 1\n[node.pc]\n[component.a]\nnode = \"pc\"\ncredentials = \"1 kB\"\n[component.b]\nnode = \"pc\"\n[component.ca]\nnode = \"pc\"\n\
        [connector.wire]\nfrom = \"a\"\nto = \"b\"\n[connector.enrolment]\nfrom = \"b\"\nto = \"ca\"\n\
        [[sequence.main]]\nsend = \"ask\"\nover = \"wire\"\n[[sequence.main]]\nsend = \"answer\"\nover = \"wire\"\nfrom = \"b\"\n[[secure]]\n";
    for (secure, notes) in [
        (
            "property = \"certified-key\"\non = \"component b\"\nsignature = \"rsa-2048\"\nlife = 100\nthrough = \"enrolment\"\n",
            vec!["c1: ref certificate for", "c2: ref signature-generation"],
        ),
        (
            "property = \"secure-tunnel\"\non = \"connector wire\"\nprotocol = \"wireguard\"\nreuse = 0.9\n",
            vec!["c0: ref encryption", "c1: ref encryption", "c0: ref decryption", "c1: ref decryption"],
        ),
        (
            "property = \"secure-channel\"\non = \"connector wire\"\nprotocol = \"opc-ua\"\npolicy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nmode = \"sign-and-encrypt\"\nreuse = 0.9\n",
            vec![
                "c0: ref signature-verification",
                "c1: ref signature-verification",
                "c1: ref decryption",
                "c0: ref messages for",
                "c1: ref messages for",
            ],
        ),
    ] {
        let model = model(&format!("{head}{secure}"));
        let printed = print::secured(&weave(&model));
        let lines: Vec<&str> = printed.lines().map(str::trim).collect();
        for note in notes {
            assert!(lines.iter().any(|line| line.starts_with(&format!("Note over {note}"))), "{note}:\n{printed}");
        }
        for (at, line) in lines.iter().enumerate() {
            let Some((over, mechanism)) = line.strip_prefix("Note over ").and_then(|it| it.split_once(": ref ")) else {
                continue;
            };
            let does = lines[at..].iter().find_map(|it| it.split_once("->>")).map(|(from, _)| from);
            if !mechanism.contains(" for ") {
                assert_eq!(does, Some(over), "{line}:\n{printed}");
            }
        }
    }
}
