//! A mechanism that costs nothing changes nothing, wherever it is put; one that costs something changes what it should.

use std::fmt::Write;

use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Model, weave};
use gspn::{Budget, Limits};
use proptest::prelude::*;

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

fn solved(model: &Model) -> Solution {
    let mut go_on = |_| true;
    solve(&weave(model), &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

/// Kinds of annotations that are drawn: six of Table 1, a key with its certificate, and channels.
const KINDS: u8 = 7 + CHANNELS.len() as u8;
/// Channels; `login` leads to an authority.
const CHANNELS: [&str; 9] = [
    "protocol = \"opc-ua\"\npolicy = \"Basic256Sha256\"\nmode = \"sign\"\nkey = \"rsa-2048\"\nuser = \"password\"\nvalid = 1\nrenewed = 0.2",
    "protocol = \"opc-ua\"\npolicy = \"ECC_curve25519\"\nuser = \"explicit\"\ntoken_encryption = \"twice\"\nlogin = \"l\"\nrefreshed = 0.1\nlife = 9\nrenewed = 0.2",
    "protocol = \"opc-ua\"\npolicy = \"ECC_nistP256\"\nuser = \"oauth2\"\nauthority_session = \"each-time\"\nlogin = \"l\"\nrenewed = 0.2",
    "protocol = \"tls-1.3\"\nkey = \"rsa-2048\"\nclient_key = \"ecdsa-p256\"\nresumed = 0.4\nrenewed = 0.2",
    "protocol = \"capability\"\npath = \"challenge\"\nfresh_keys = true\ncached = 0.5\ncaveats = 2\nlife = 5\nrenewed = 0.2",
    "protocol = \"capability\"\npath = \"stateless\"\nidentity = 3\ncached = 0.3\ndata_signature = \"ed25519\"",
    "protocol = \"wireguard\"\ncookie = 0.3\nstatic_secret = \"each-time\"\nrenewed = 0.2",
    "protocol = \"ipsec\"\nkey = \"rsa-2048\"\nclient_key = \"ecdsa-p256\"\ncipher = \"aes-128-cbc\"\ngroup = \"modp-2048\"\ncookie = 0.2\nrenewed = 0.2",
    "protocol = \"ipsec\"\nauth = \"shared-key\"\nprf = \"hmac-sha384\"\nike_renewed = 1\ntranslated = true\nrenewed = 0.2",
];

/// What was drawn by chance.
#[derive(Debug, Clone)]
struct Drawn {
    steps: Vec<(bool, u8, u8)>,
    cores: (u8, u8),
    workload: u8,
    jobs: u8,
    latency: u8,
    line: bool,
    fork: bool,
    secured: Vec<u8>,
    reuse: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        prop::collection::vec((any::<bool>(), 0_u8..3, 0_u8..4), 1..5),
        (1_u8..3, 1_u8..3),
        0_u8..4,
        1_u8..4,
        0_u8..2,
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(0_u8..KINDS, 1..6),
        0_u8..3,
    )
        .prop_map(|(steps, cores, workload, jobs, latency, line, fork, secured, reuse)| Drawn {
            steps,
            cores,
            workload,
            jobs,
            latency,
            line,
            fork,
            secured,
            reuse,
        })
}

/// The model, with a price of `each` for everything that mechanisms do.
fn written(drawn: &Drawn, each: &str) -> String {
    let workload = match drawn.workload {
        0 => format!("clients = {}", drawn.jobs),
        1 => format!("clients = {}\nthink = \"20 ms\"", drawn.jobs),
        2 => format!("arrivals = \"40/s\"\nroom = {}", drawn.jobs),
        _ => format!("arrivals = \"40/s\"\nroom = {}\nthreads = 1", drawn.jobs + 1),
    };
    let line = if drawn.line { "rate = \"1 MB/s\"" } else { "" };
    let mut text = format!(
        "[workload]\n{workload}\n[node.a]\ncores = {}\nplatform = \"p\"\n[node.b]\ncores = {}\nplatform = \"p\"\n\
         [component.x]\nnode = \"a\"\ncredentials = \"1 kB\"\n[component.y]\nnode = \"b\"\n\
         [connector.c]\nfrom = \"x\"\nto = \"y\"\nlatency = \"{} ms\"\n{line}\n\
         [node.d]\nplatform = \"p\"\n[component.z]\nnode = \"d\"\n[connector.l]\nfrom = \"x\"\nto = \"z\"\n\
         [attribute.v]\nof = \"x\"\nsize = \"2 kB\"\n[attribute.w]\nof = \"y\"\nsize = \"300 B\"\n",
        drawn.cores.0, drawn.cores.1, drawn.latency
    );
    // Something takes time, whatever was drawn.
    text.push_str("[[sequence.main]]\ndo = \"first\"\nby = \"x\"\ntime = \"9 ms\"\nreturns = \"v\"\n");
    if drawn.fork {
        text.push_str("[[sequence.main]]\nchoose = [{ weight = 1, ref = \"side\" }, { weight = 3 }]\n");
    }
    for (index, (sends, who, time)) in drawn.steps.iter().enumerate() {
        let (by, value) = if who % 2 == 0 { ("x", "v") } else { ("y", "w") };
        let step = if *sends {
            format!("send = \"s{index}\"\nover = \"c\"\nfrom = \"{by}\"\ncarries = \"{value}\"")
        } else {
            format!("do = \"d{index}\"\nby = \"{by}\"\ntime = \"{} ms\"\nreturns = \"{value}\"", u32::from(*time) * 4)
        };
        let _ = write!(text, "[[sequence.main]]\n{step}\n");
    }
    if drawn.fork {
        text.push_str("[[sequence.side]]\nsend = \"aside\"\nover = \"c\"\n[[sequence.side]]\ndo = \"there\"\nby = \"y\"\ntime = \"3 ms\"\n");
    }
    // Annotations on what no step uses are refused.
    let talks = drawn.fork || drawn.steps.iter().any(|(sends, ..)| *sends);
    let has_w = drawn.steps.iter().any(|(_, who, _)| who % 2 == 1);
    let mut wanted = drawn.secured.clone();
    wanted.sort_unstable();
    wanted.dedup();
    let reuse = ["0", "0.5", "1"][usize::from(drawn.reuse)];
    // What changes nothing is not said: a key exchange that never happens, and of channels what is done when they connect.
    let exchange = if reuse == "1" { "" } else { "exchange = \"rsa-2048\"\nknown = 0.5\ntrusted = 1\n" };
    let opened = if reuse == "1" { "0.99" } else { reuse };
    let mut channel = false;
    for kind in wanted {
        let annotation = match kind {
            0 | 3 | 4 | 7.. if !talks => continue,
            2 if !has_w => continue,
            0 => format!(
                "property = \"data-confidentiality\"\non = \"connector c\"\ncipher = \"aes-256-cbc\"\n{exchange}reuse = {reuse}"
            ),
            1 => "property = \"data-integrity\"\non = \"attribute v\"\nsignature = \"rsa-2048\"".to_owned(),
            2 => "property = \"data-integrity\"\non = \"attribute w\"\nsignature = \"rsa-2048\"".to_owned(),
            3 => format!(
                "property = \"peer-entity-authentication\"\non = \"component x\"\nsignature = \"rsa-2048\"\nreuse = {reuse}"
            ),
            4 => format!(
                "property = \"peer-entity-authentication\"\non = \"component y\"\nsignature = \"rsa-2048\"\nreuse = {reuse}"
            ),
            6 => "property = \"certified-key\"\non = \"component x\"\nsignature = \"rsa-2048\"\nlife = 5\nthrough = \"l\"".to_owned(),
            7.. if channel => continue,
            7.. => {
                channel = true;
                let protocol = CHANNELS[usize::from(kind - 7)];
                format!("property = \"secure-channel\"\non = \"connector c\"\nreuse = {opened}\n{protocol}")
            }
            _ => "property = \"data-origin-authentication\"\non = \"attribute v\"\nsignature = \"rsa-2048\"".to_owned(),
        };
        let _ = write!(text, "[[secure]]\n{annotation}\n");
    }
    for operation in operations() {
        let _ = write!(text, "[price.p.\"{operation}\"]\neach = \"{each}\"\n");
    }
    text
}

/// Everything that may need a price, or have one.
fn operations() -> impl Iterator<Item = String> {
    let verbs = ["generate", "agree", "sign", "verify", "encrypt", "decrypt", "derive", "hash"];
    let algorithms = [
        "rsa-2048",
        "rsa-2048-pss",
        "rsa-2048-oaep-sha256",
        "ecdsa-p256",
        "ed25519",
        "hmac-sha256",
        "ecdh-p256",
        "x25519",
        "p-sha256",
        "hkdf-sha256",
        "hkdf-sha384",
        "hmac-sha384",
        "sha-256",
        "sha-384",
        "sha-512",
        "aes-256-cbc",
        "aes-128-cbc",
        "aes-128-gcm",
        "aes-256-gcm",
        "chacha20-poly1305",
        "xchacha20-poly1305",
        "blake2s",
        "blake2s-mac",
        "hkdf-blake2s",
        "modp-2048",
        "prf-hmac-sha256",
        "prf-hmac-sha384",
        "sha-1",
    ];
    let others = [
        "append audit",
        "check rights",
        "check password",
        "read token",
        "read capability",
        "judge caveat",
        "keep counter",
        "look up account",
        "decide",
        "write journal",
        "send message",
        "receive message",
        "random",
        "setKeyLength",
        "checkNonce",
    ];
    let crypto = verbs.into_iter().flat_map(move |verb| algorithms.into_iter().map(move |it| format!("{verb} {it}")));
    crypto.chain(others.into_iter().map(str::to_owned))
}

fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * one.abs().max(other.abs()).max(1e-300)
}

/// Messages that a mechanism sends of its own take time on the connector: they are a delay and a demand of the mechanism, too. So
/// the connector is free of both wherever a mechanism may use it.
fn without_messages(mut drawn: Drawn) -> Drawn {
    let talks = |kind: &u8| matches!(kind, 0 | 3 | 4 | 6..);
    // A signature makes its message longer, which counts on a line.
    if drawn.secured.iter().any(talks) {
        drawn.latency = 0;
    }
    drawn.line = false;
    drawn
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_mechanism_that_costs_nothing_leaves_every_measure_as_it_was(drawn in drawn()) {
        let model = model(&written(&without_messages(drawn), "0"));
        let (with, without) = (solved(&model), solved(&model.plain()));
        prop_assert!(same(with.throughput, without.throughput), "{} {}", with.throughput, without.throughput);
        prop_assert!(same(with.response, without.response));
        prop_assert!(same(with.inside, without.inside));
        prop_assert!(same(with.turned_away, without.turned_away));
        prop_assert_eq!(with.states, without.states);
        for (one, other) in with.nodes.iter().zip(&without.nodes) {
            // The share of busy cores is 1 less what was counted as free.
            prop_assert!((one.utilisation - other.utilisation).abs() <= 1e-12);
        }
        for (one, other) in with.spent.iter().zip(&without.spent) {
            prop_assert!((one.seconds - other.seconds).abs() <= 1e-12 * with.response, "{:?} {:?}", one, other);
        }
        prop_assert_eq!(with.spent.len(), without.spent.len());
    }

    #[test]
    fn a_mechanism_that_costs_something_never_gains_anything_for_one_client(drawn in drawn()) {
        let drawn = Drawn { workload: 0, jobs: 1, ..drawn };
        let model = model(&written(&drawn, "2 ms"));
        let (with, without) = (solved(&model), solved(&model.plain()));
        prop_assert!(with.throughput <= without.throughput * (1.0 + 1e-12));
        // One client waits for nobody: the mean time is the sum of what it is spent on.
        let sum: f64 = with.spent.iter().map(|it| it.seconds).sum();
        prop_assert!((sum * with.throughput - 1.0).abs() < 1e-9);
    }
}

#[test]
fn what_goes_to_nothing_changes_less_and_less() {
    let drawn = Drawn {
        steps: vec![(true, 0, 0), (false, 1, 2)],
        cores: (1, 1),
        workload: 0,
        jobs: 1,
        latency: 0,
        line: false,
        fork: true,
        secured: vec![0, 1, 3, 5],
        reuse: 1,
    };
    let plain = solved(&model(&written(&drawn, "0")).plain()).throughput;
    let mut last = f64::MAX;
    for each in ["1 ms", "1e-3 ms", "1e-6 ms", "1e-9 ms", "1e-12 ms"] {
        let off = (solved(&model(&written(&drawn, each))).throughput / plain - 1.0).abs();
        assert!(off < last, "{each}: {off}");
        last = off;
    }
    assert!(last < 1e-12, "{last}");
}
