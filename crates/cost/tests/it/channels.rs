//! Channels of today's protocols, and keys with their certificates, woven into models.

use std::fmt::Write;

use cost::choose::{Effort, Minimum, Mode, Wanted, choose};
use cost::model::{Property, Step};
use cost::net::lay;
use cost::print::annotated;
use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Class, Model, weave};
use gspn::{Budget, Limits};

use crate::made::{model, priced};

fn solved(text: &str) -> Solution {
    let mut go_on = |_| true;
    solve(&weave(&model(text)), &mut Budget::new(Limits::default(), &mut go_on))
        .unwrap_or_else(|fault| panic!("{fault}"))
}

const SMALL: &str = r#"
[workload]
clients = 1
[node.a]
platform = "p"
[node.b]
platform = "p"
[node.c]
platform = "p"
[node.hsm]
platform = "p"
[component.client]
node = "a"
[component.server]
node = "b"
[component.authority]
node = "c"
[connector.wire]
from = "client"
to = "server"
[connector.login]
from = "client"
to = "authority"
[[sequence.main]]
do = "think"
by = "client"
time = "4 ms"
[[sequence.main]]
ref = "asking"
[[sequence.main]]
send = "again"
over = "wire"
from = "server"
bytes = "100 B"
[[sequence.asking]]
send = "ask"
over = "wire"
bytes = "100 B"
"#;

fn secured(lines: &str) -> String {
    format!("{SMALL}[[secure]]\n{lines}\n")
}

fn words(model: &Model, steps: &[Step]) -> Vec<String> {
    let word = |step: &Step| match step {
        Step::Operation(it) => it.name.clone(),
        Step::Send(it) => format!("{} {} B", it.name, it.bytes),
        Step::Protect(it) => {
            let (own, peer) = (&model.components[it.own].name, &model.components[it.peer].name);
            format!("{} {own} {peer}", it.phase.unwrap_or(it.mechanism.word()))
        }
        Step::Choice(ways) => format!("{} of {:?}", ways[0].0, words(model, &ways[0].1)),
        Step::Par(branches) => format!("par of {:?}", branches.iter().map(|it| words(model, it)).collect::<Vec<_>>()),
        Step::Ref { sequence, .. } => format!("ref {}", model.sequences[*sequence].name),
        Step::Acquire(units) | Step::Release(units) => model.pools[units.of].name.clone(),
    };
    steps.iter().map(word).collect()
}

const OPCUA: &str = "property = \"secure-channel\"\non = \"connector wire\"\nprotocol = \"opc-ua\"\n";

#[test]
fn a_connection_is_opened_before_it_may_be_used_and_messages_are_protected() {
    let text = secured(&format!(
        "{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = \"75 %\"\nrenewed = 0.125\ndiscovery = false"
    ));
    let woven = weave(&model(&text));
    let model = woven.model();
    let opened = ["TCP connection", "transport", "channel opened", "session created", "session activated"];
    let opened = opened.into_iter().chain(["session closed", "channel closed", "TCP closed"]);
    let opened: Vec<String> = opened.map(|phase| format!("{phase} client server")).collect();
    assert_eq!(
        words(model, &model.sequences[0].steps),
        [
            "think".to_owned(),
            format!("0.25 of {opened:?}"),
            "0.125 of [\"channel renewed client server\"]".to_owned(),
            "ref asking".to_owned(),
            "messages client server".to_owned(),
            "again 160 B".to_owned(),
            "messages client server".to_owned(),
        ]
    );
    assert_eq!(
        words(model, &model.sequences[1].steps),
        ["messages client server", "ask 160 B", "messages client server"]
    );
}

/// Of what is closed nothing is needed any more, and while keys and tokens are renewed the old ones hold: what turns out wrong there stops no
/// request, in a tunnel neither.
#[test]
fn what_nobody_waits_for_aborts_nothing() {
    let opcua = "policy = \"Aes256_Sha256_RsaPss\"\nkey = \"rsa-4096\"\nmode = \"sign\"";
    let share = |lines: &str| {
        let solved = solved(&priced(&secured(lines), &[]));
        solved.throughput / (solved.throughput + solved.aborted)
    };
    let channel = |more: &str| format!("{OPCUA}{opcua}\n{more}");
    let tunnel = "[[secure]]\nproperty = \"secure-tunnel\"\non = \"connector wire\"\nprotocol = \"ipsec\"\nauth = \"shared-key\"\ncipher = \"aes-128-cbc\"\nvalid = 0.9";
    let twice = channel("reuse = 1\nrenewed = 1");
    for (what, lines, checks) in [
        // OPN, CreateSession with its signature, ActivateSession with that of the client: of each the request and the answer; two messages.
        ("opened and closed", channel("reuse = 0\ndiscovery = false\nvalid = 0.9"), 10),
        ("renewed", channel("reuse = 1\nrenewed = 1\nvalid = 0.9"), 2),
        ("a channel renewed in a tunnel", format!("{twice}\n{tunnel}\nreuse = 1"), 2),
        ("a tunnel renewed", format!("{twice}\n{tunnel}\nreuse = 1\nrenewed = 1"), 2),
    ] {
        let (found, wanted) = (share(&lines), 0.9_f64.powi(checks));
        assert!((found - wanted).abs() < 1e-9, "{what}: {found} instead of {wanted}");
    }
    // Where nothing else is looked at, the word says nothing.
    let curve = format!("{OPCUA}policy = \"ECC_curve25519\"\nreuse = 1\nrenewed = 0.5\nvalid = 0.9");
    assert_eq!(read(&secured(&curve), Language::Toml).unwrap_err().class, Class::NoEffect);
}

/// Nothing takes time but the way of messages, 10 ms each, and 4 ms of work; `ask` and `again` are one way each.
#[test]
fn round_trips_are_those_of_the_standards() {
    let time = |text: &str| {
        let text = text.replace("to = \"server\"", "to = \"server\"\nlatency = \"10 ms\"");
        (1e5 / solved(&priced(&text, &[])).throughput).round() / 100.0 - 4.0 - 20.0
    };
    let tls = |more: &str| {
        secured(&format!(
            "property = \"secure-channel\"\non = \"connector wire\"\nprotocol = \"tls-1.3\"\nkey = \"ecdsa-p256\"\n{more}"
        ))
    };
    let opcua = |more: &str| secured(&format!("{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\n{more}"));
    // TCP, and RFC 8446 figure 1: data goes behind the client's Finished.
    assert_eq!(time(&tls("reuse = 0")), 2.0 * 20.0);
    assert_eq!(time(&tls("reuse = 0\nresumed = 1")), 2.0 * 20.0);
    assert_eq!(time(&tls("reuse = 1\nrenewed = 1")), 0.0, "nobody waits for new keys");
    // TCP, Hello, OPN, CreateSession, ActivateSession; discovery is TCP, Hello, OPN and GetEndpoints besides.
    assert_eq!(time(&opcua("reuse = 0\ndiscovery = false")), 5.0 * 20.0);
    assert_eq!(time(&opcua("reuse = 0")), 9.0 * 20.0);
    assert_eq!(time(&opcua("reuse = 1\nrenewed = 1")), 0.0, "the old keys hold meanwhile");
}

/// The model's own messages are sent and received as those of a protocol are.
#[test]
fn what_sending_costs_counts_for_every_message() {
    let opcua = secured(&format!("{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = 1"));
    let text = priced(&opcua, &[("send message", "1 ms"), ("receive message", "3 ms")]);
    let each = 1000.0 / solved(&text).throughput;
    assert!((each - (4.0 + 2.0 * 4.0)).abs() < 1e-9, "{each}");
}

#[test]
fn a_price_by_the_kb_is_no_price_of_what_has_no_bytes() {
    let opcua = secured(&format!("{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = 0"));
    let each = |by: &str| format!("[price.p.\"sign rsa-2048\"]\n{by} = \"");
    let text = priced(&opcua, &[]).replace(&each("each"), &each("per_kb")).replace("per_kb = \"0", "per_kb = \"1 ms");
    let mut go_on = |_| true;
    let fault = solve(&weave(&model(&text)), &mut Budget::new(Limits::default(), &mut go_on)).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str()), (Class::NoPrice, "sign rsa-2048"), "{fault}");
}

/// One client: times add up. Opening has two signatures and two blocks for each end, a session one signature more.
#[test]
fn prices_of_a_connection_are_added() {
    let opcua = |more: &str| secured(&format!("{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\n{more}"));
    let time = |text: &str| 1000.0 / solved(text).throughput;
    let prices = [("sign rsa-2048", "10 ms"), ("decrypt rsa-2048", "20 ms"), ("append audit", "1 ms")];
    // Client: 10 + 40 + 10; server: 40 + 10 + 10, three records, and two when channel and session end.
    let each = time(&priced(&opcua("reuse = 0"), &prices));
    assert!((each - (4.0 + 60.0 + 60.0 + 5.0)).abs() < 1e-9, "{each}");
    let seldom = time(&priced(&opcua("reuse = 0.9"), &prices));
    assert!((seldom - (4.0 + 12.5)).abs() < 1e-9, "{seldom}");
    // A renewal is one signature and two blocks for each end.
    let renewed = time(&priced(&opcua("reuse = 1\nrenewed = 0.1"), &prices));
    assert!((renewed - (4.0 + 10.0)).abs() < 1e-9, "{renewed}");
    // A message each way: 144 bytes encrypted and decrypted.
    let kb = "[price.p.\"encrypt aes-256-cbc\"]\nper_kb = \"1 ms\"\n";
    let messages = time(&priced(&(opcua("reuse = 1") + kb), &[]));
    assert!((messages - (4.0 + 2.0 * 0.144)).abs() < 1e-9, "{messages}");
}

/// The two improvements of P0 in a model: P0's flow, then with the session kept, then without the second encryption.
#[test]
fn tokens_cost_what_their_flow_does() {
    let token = |more: &str| {
        let lines = format!(
            "{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = 0\nuser = \"request-access-token\"\nlogin = \"login\"\ntoken = \"1200 B\"\n{more}"
        );
        let prices =
            [("sign rsa-2048", "10 ms"), ("decrypt rsa-2048", "20 ms"), ("decide", "5 ms"), ("verify ed25519", "1 ms")];
        1000.0 / solved(&priced(&secured(&lines), &prices)).throughput
    };
    let (channel, session) = (60.0 + 60.0, 4.0 + 5.0 + 1.0);
    let paper = token("token_encryption = \"twice\"\nauthority_session = \"each-time\"");
    assert!((paper - (session + channel + channel + 6.0 * 20.0)).abs() < 1e-9, "{paper}");
    let kept = token("token_encryption = \"twice\"");
    assert!((kept - (session + channel + 6.0 * 20.0)).abs() < 1e-9, "{kept}");
    let both = token("");
    assert!((both - (session + channel)).abs() < 1e-9, "{both}");
    // Once in the life of a client the session to the authority is opened, too.
    let life = token("life = 4");
    assert!((life - (session + channel + channel / 4.0)).abs() < 1e-9, "{life}");
    // A refresh: a decision, a signature of the client, the token looked at.
    let refreshed = token("refreshed = 0.5");
    assert!((refreshed - (session + channel + 0.5 * (10.0 + 5.0 + 1.0))).abs() < 1e-9, "{refreshed}");
}

/// An engine has the keys of the server, not those of the client, of the session or of the authority.
#[test]
fn an_engine_has_the_keys_of_the_server() {
    let lines = format!(
        "{OPCUA}policy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = 0\nengine = \"hsm\"\nuser = \"start-finish\"\nlogin = \"login\"\nauthority_session = \"each-time\""
    );
    let text = priced(
        &secured(&lines),
        &[("sign rsa-2048", "10 ms"), ("decrypt rsa-2048", "20 ms"), ("sign hmac-sha256", "1 ms")],
    );
    let solution = solved(&text);
    let busy = |node: &str| {
        let found = solution.nodes.iter().find(|busy| busy.node == node).unwrap();
        found.utilisation / solution.throughput * 1000.0
    };
    // Channel and session at the server; the server's own node has its codes only: three answers and the message of the model.
    assert!((busy("hsm") - (40.0 + 10.0 + 10.0)).abs() < 1e-6, "{}", busy("hsm"));
    assert!((busy("b") - 4.0).abs() < 1e-6, "{}", busy("b"));
}

/// Figures 2a and 2b: once in the life of a key it is made and certified; whom the authority does not trust gets none.
#[test]
fn a_key_is_made_and_certified_once_in_its_life() {
    let lines = "property = \"certified-key\"\non = \"component server\"\nsignature = \"rsa-2048\"\nlife = 10\nthrough = \"mail\"\nissuer = \"rsa-4096\"";
    let mail = "[connector.mail]\nfrom = \"authority\"\nto = \"server\"\nlatency = \"2 ms\"\n";
    let prices = [("generate rsa-2048", "300 ms"), ("sign rsa-4096", "50 ms"), ("checkEntityInfo", "6 ms")];
    let text = priced(&(secured(lines) + mail), &prices);
    let woven = weave(&model(&text));
    let steps = words(woven.model(), &woven.model().sequences[0].steps);
    assert_eq!(
        steps[1],
        "0.1 of [\"key-generation server server\", \"certificate server authority\"]"
            .replace("server server", "server authority")
    );
    let each = 1000.0 / solved(&text).throughput;
    assert!((each - (4.0 + (300.0 + 2.0 + 6.0 + 50.0 + 2.0) / 10.0)).abs() < 1e-9, "{each}");
    // Nine in ten keys are trusted: one request in a hundred is aborted.
    let doubtful = text.replace("life = 10", "life = 10\ntrusted = 0.9");
    let solution = solved(&doubtful);
    assert!((solution.aborted / (solution.aborted + solution.throughput) - 0.01).abs() < 1e-12);
}

#[test]
fn every_parameter_is_printed_and_read_back() {
    for lines in [
        format!("{OPCUA}policy = [\"None\", \"Basic256Sha256\", \"ECC_nistP256\"]\nmode = [\"none\", \"sign\", \"sign-and-encrypt\"]\nkey = [\"rsa-2048\", \"rsa-4096\", \"ecdsa-p256\"]\nreuse = [0.5, 1]\nuser = [\"anonymous\", \"explicit\", \"oauth2\"]\nlogin = \"login\"\ntoken = \"1200 B\"\ntoken_encryption = [\"channel\", \"twice\"]\nrenewed = 0.01\nrefreshed = 0.02\nlife = 1000\nengine = \"hsm\"\nvalid = 0.9\ncertificates = 2"),
        "property = \"secure-channel\"\non = \"connector wire\"\nprotocol = [\"tls-1.3\", \"opc-ua\"]\npolicy = \"Aes256_Sha256_RsaPss\"\nkey = \"rsa-3072\"\ncipher = \"chacha20-poly1305\"\ngroup = \"ecdh-p256\"\nresumed = 0.3\nreuse = 0".to_owned(),
        "property = \"certified-key\"\non = \"component client\"\nsignature = [\"rsa-2048\", \"ed25519\"]\nlife = 7\nthrough = \"login\"\ntrusted = 0.5\nhash = \"sha-384\"\noptional = true\nin = \"SC1\"".to_owned(),
    ] {
        let model = model(&secured(&lines));
        let printed = annotated(&model);
        let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
        assert_eq!(again.annotations.len(), 1);
        let ways = |model: &Model| model.annotations[0].alternatives.clone();
        assert_eq!(ways(&again), ways(&model), "{printed}");
        assert_eq!(annotated(&again), printed);
    }
}

/// Lists make the ways that fit: RSA sizes for RSA policies, one way without a policy.
#[test]
fn only_what_fits_is_a_way() {
    let text = secured(&format!(
        "{OPCUA}policy = [\"None\", \"Basic256Sha256\", \"ECC_nistP256\"]\nmode = [\"none\", \"sign\", \"sign-and-encrypt\"]\nkey = [\"rsa-2048\", \"rsa-4096\", \"ecdsa-p256\"]\nreuse = 0.9"
    ));
    let model = model(&text);
    let ways: Vec<String> = model.annotations[0]
        .alternatives
        .iter()
        .map(|way| way.as_ref().unwrap().agreed.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(ways.len(), 1 + 4 + 2, "{ways:#?}");
    // What is chosen among them heeds mode, strength and keys.
    let all = [
        "sign rsa-4096",
        "verify rsa-4096",
        "encrypt rsa-4096",
        "decrypt rsa-4096",
        "sign ecdsa-p256",
        "verify ecdsa-p256",
    ];
    let rest = [
        "generate ecdh-p256",
        "agree ecdh-p256",
        "derive hkdf-sha256",
        "derive p-sha256",
        "encrypt aes-128-cbc",
        "decrypt aes-128-cbc",
        "hash sha-256",
        "sign hmac-sha256",
        "verify hmac-sha256",
        "sign rsa-2048",
        "verify rsa-2048",
        "encrypt rsa-2048",
        "decrypt rsa-2048",
        "encrypt aes-256-cbc",
        "decrypt aes-256-cbc",
        "append audit",
    ];
    let mut text = text;
    for operation in all.into_iter().chain(rest) {
        let _ = write!(text, "[price.p.\"{operation}\"]\neach = \"0\"\n");
    }
    let model = self::model(&text);
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    for (minimum, left) in [
        (Minimum { mode: Mode::Sign, ..Minimum::default() }, 6),
        (Minimum { mode: Mode::SignAndEncrypt, ..Minimum::default() }, 3),
        (Minimum { strength: Some(128), ..Minimum::default() }, 4),
        (Minimum { mode: Mode::SignAndEncrypt, rsa: Some(3072), ..Minimum::default() }, 2),
    ] {
        let choice = choose(&model, &Wanted { minimum, ..Wanted::default() }, &effort).unwrap();
        let chosen: Vec<_> = choice.ranked.iter().map(|at| choice.settings[*at].setting.clone()).collect();
        assert_eq!(chosen.len(), left, "{minimum:?}: {chosen:#?}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    let channel = |lines: &str| format!("{OPCUA}{lines}");
    for (rule, lines, class, word) in [
        ("no protocol", "property = \"secure-channel\"\non = \"connector wire\"\nreuse = 1".to_owned(), Class::MissingAnnotation, "protocol"),
        ("an unknown one", channel("reuse = 1").replace("opc-ua", "ssh"), Class::Unknown, "tls-1.3"),
        ("no reuse", channel("policy = \"None\""), Class::MissingAnnotation, "reuse"),
        ("no policy", channel("reuse = 1"), Class::MissingAnnotation, "policy"),
        ("no key", channel("policy = \"Basic256Sha256\"\nreuse = 1"), Class::MissingAnnotation, "key"),
        ("a short key", channel("policy = \"Basic256Sha256\"\nkey = \"rsa-1024\"\nreuse = 1"), Class::Invalid, "fits"),
        ("a mode too much", channel("policy = \"None\"\nmode = \"sign\"\nreuse = 1"), Class::Invalid, "fits"),
        ("no authority", channel("policy = \"ECC_nistP256\"\nuser = \"oauth2\"\nreuse = 1"), Class::MissingAnnotation, "login"),
        ("a login from elsewhere", channel("policy = \"None\"\nlogin = \"mail\"\nreuse = 1"), Class::NoSuchName, "mail"),
        ("a key of another", channel("policy = \"None\"\nresumed = 1\nreuse = 1"), Class::Unknown, "resumed"),
        ("a key of nobody", channel("policy = \"None\"\ncolour = 1\nreuse = 1"), Class::Unknown, "colour"),
        ("on a component", channel("policy = \"None\"\nreuse = 1").replace("connector wire", "component client"), Class::Invalid, "connector"),
        ("an empty list", channel("policy = []\nreuse = 1"), Class::Missing, "policy"),
        ("a short life", "property = \"certified-key\"\non = \"component client\"\nsignature = \"ed25519\"\nlife = 0.5\nthrough = \"login\"".to_owned(), Class::Invalid, "life"),
        ("no way", "property = \"certified-key\"\non = \"component client\"\nsignature = \"ed25519\"\nlife = 5".to_owned(), Class::Missing, "through"),
        ("a way elsewhere", "property = \"certified-key\"\non = \"component client\"\nsignature = \"ed25519\"\nlife = 5\nthrough = \"mail\"".to_owned(), Class::NoSuchName, "mail"),
        ("a shared key", "property = \"certified-key\"\non = \"component client\"\nsignature = \"hmac-sha256\"\nlife = 5\nthrough = \"login\"".to_owned(), Class::Invalid, "hmac-sha256"),
    ] {
        let text = secured(&lines) + "[connector.mail]\nfrom = \"authority\"\nto = \"server\"\n";
        let fault = read(&text, Language::Toml).expect_err(rule);
        assert_eq!(fault.class, class, "{rule}: {fault}");
        assert!(fault.to_string().contains(word), "{rule}: {fault}");
    }
}

/// The example for a server: every setting has its prices, and the plant's levels leave what they should.
#[test]
fn the_example_of_a_server_is_solved_in_every_setting() {
    let model = model(include_str!("../../../../examples/cost/opcua-server.toml"));
    let effort = Effort { limits: Limits::default(), threads: 2, go_on: &|_| true };
    let wanted = |level| Wanted { minimum: Minimum { level, ..Minimum::default() }, ..Wanted::default() };
    let count = |level| choose(&model, &wanted(level), &effort).unwrap().ranked.len();
    // No policy, for nobody; six policies and keys that sign, for nobody and with tokens encrypted twice; the same that encrypt, with tokens
    // encrypted once, too. Keys of 2048 bits have 112 bits of strength: they are enough for level 2.
    assert_eq!((count(None), count(Some(2))), (1 + 6 * 2 + 6 * 3, 6 * 3));
}

/// As many channels as a plant has: nothing is laid twice, and the count of what comes out grows with what goes in.
#[test]
fn many_channels_are_woven() {
    let mut text = String::from("[workload]\nclients = 1\n[node.n]\nplatform = \"p\"\n[component.c]\nnode = \"n\"\n");
    for server in 0..100 {
        let _ = write!(text, "[component.s{server}]\nnode = \"n\"\n");
        for wire in 0..10 {
            let name = format!("w{server}-{wire}");
            let _ = write!(
                text,
                "[connector.{name}]\nfrom = \"c\"\nto = \"s{server}\"\n[[sequence.main]]\nsend = \"{name}\"\nover = \"{name}\"\nbytes = \"50 B\"\n[[secure]]\nproperty = \"secure-channel\"\non = \"connector {name}\"\nprotocol = \"opc-ua\"\npolicy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = 0.9\n"
            );
        }
    }
    let woven = weave(&model(&text));
    let steps = &woven.model().sequences[0].steps;
    let protects =
        steps.iter().filter(|step| matches!(step, Step::Protect(it) if it.property == Property::SecureChannel));
    assert_eq!((steps.len(), protects.count()), (4_000, 2_000));
    let laid = lay(&weave(&model(&priced(&text, &[])))).unwrap();
    assert!(laid.net.transitions().len() > 50_000, "{}", laid.net.transitions().len());
}

/// Each token over HTTPS has one connection: the first one of a client's life with a full handshake, the others resume it. 4 ms are
/// those of the application, a second is a signature of the authority's certificate, a millisecond a new key of either end.
#[test]
fn tokens_over_https_have_as_many_handshakes_as_there_are_tokens() {
    let time = |lines: &str| {
        let text = secured(&format!(
            "{OPCUA}policy = \"ECC_nistP256\"\nuser = \"oauth2\"\nlogin = \"login\"\nauthority_key = \"rsa-2048\"\n{lines}"
        ));
        1e3 / solved(&priced(&text, &[("sign rsa-2048-pss", "1 s"), ("generate x25519", "1 ms")])).throughput - 4.0
    };
    for (lines, tokens, full) in [
        ("reuse = 0.75\nrefreshed = 0.05\nlife = 1000", 0.3, 0.001),
        ("reuse = 0.75\nrefreshed = 0.05", 0.3, 0.0),
        ("reuse = 0.75\nlife = 10", 0.25, 0.1),
        ("reuse = 1\nrefreshed = 0.125\nlife = 16", 0.125, 1.0 / 16.0),
        // A client that asks once in its life asks for the first one.
        ("reuse = 0.75\nlife = 4", 0.25, 0.25),
        ("reuse = 0.75\nlife = 2", 0.25, 0.25),
        ("reuse = 0.75\nrefreshed = 0.05\nauthority_session = \"each-time\"", 0.3, 0.3),
    ] {
        let wanted = 1e3 * full + 2.0 * tokens;
        let got = time(lines);
        assert!((got / wanted - 1.0).abs() < 1e-9, "{lines}: {got} {wanted}");
    }
    let never = secured(&format!(
        "{OPCUA}policy = \"ECC_nistP256\"\nuser = \"oauth2\"\nlogin = \"login\"\nreuse = 1\nrenewed = 0.1\nlife = 9"
    ));
    let fault = read(&never, Language::Toml).unwrap_err();
    assert_eq!(fault.class, Class::NoEffect, "{fault}");
    assert!(fault.why.contains("`life` says nothing"), "{fault}");
}
