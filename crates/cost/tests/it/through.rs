//! What goes through a tunnel: sizes worked out by hand, and costs that are those of the tunnel and of what is inside it.

use std::collections::BTreeSet;

use cost::choose::{Effort, Minimum, Wanted, choose};
use cost::mechanism::{Part, Role};
use cost::model::Step;
use cost::net::{document, lay};
use cost::print::annotated;
use cost::protocol::Protocol;
use cost::protocol::wireguard::WireGuard;
use cost::read::{Language, read};
use cost::solve::solve;
use cost::{Class, Model, weave};
use gspn::{Budget, Limits};

use crate::made::{model, priced};

const BASE: &str = r#"
[workload]
clients = 1
[node.a]
platform = "p"
[node.b]
platform = "p"
[component.client]
node = "a"
credentials = "600 B"
[component.server]
node = "b"
[component.authority]
node = "b"
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
send = "ask"
over = "wire"
bytes = "100 B"
[[sequence.main]]
send = "answer"
over = "wire"
from = "server"
bytes = "3 kB"
"#;
const CHANNEL: &str = "[[secure]]\nproperty = \"secure-channel\"\non = \"connector wire\"\n";
const TUNNEL: &str = "[[secure]]\nproperty = \"secure-tunnel\"\non = \"connector wire\"\n";
const OPCUA: &str = "protocol = \"opc-ua\"\npolicy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\nreuse = 0.5\n";
const WIREGUARD: &str = "protocol = \"wireguard\"\nreuse = 0.75\nrenewed = 0.125\n";
const IPSEC: &str =
    "protocol = \"ipsec\"\nkey = \"ecdsa-p256\"\ncipher = \"aes-128-cbc\"\nreuse = 0.75\nrenewed = 0.125\n";

fn milliseconds(text: &str) -> f64 {
    let mut go_on = |_| true;
    let solution = solve(&weave(&model(text)), &mut Budget::new(Limits::default(), &mut go_on));
    1e3 / solution.unwrap_or_else(|fault| panic!("{fault}\n{text}")).throughput
}

/// Phase or name, name, sender is the client or whoever runs it, bytes: of all messages in order.
type Sent = (String, String, u64);

fn messages(model: &Model) -> Vec<Sent> {
    let mut all = Vec::new();
    steps(model, &model.sequences[0].steps, &mut all);
    all
}

fn steps(model: &Model, steps: &[Step], all: &mut Vec<Sent>) {
    for step in steps {
        match step {
            Step::Choice(ways) => ways.iter().for_each(|(_, steps)| self::steps(model, steps, all)),
            Step::Par(branches) => branches.iter().for_each(|steps| self::steps(model, steps, all)),
            Step::Send(send) => all.push((String::new(), send.name.clone(), model.size(send))),
            Step::Protect(it) => parts(it.phase.unwrap_or(it.mechanism.word()), &it.parts, all),
            Step::Operation(_) | Step::Ref { .. } | Step::Acquire(_) | Step::Release(_) => {}
        }
    }
}

fn parts(of: &str, parts: &[Part], all: &mut Vec<Sent>) {
    for part in parts {
        match part {
            Part::Message { name, bytes, .. } | Part::Unawaited { name, bytes, .. } => {
                all.push((of.to_owned(), (*name).to_owned(), *bytes));
            }
            Part::Either { then, otherwise, .. } => {
                self::parts(of, then, all);
                self::parts(of, otherwise, all);
            }
            Part::Use { parts, .. } => self::parts(of, parts, all),
            Part::Work { .. } | Part::Check { .. } => {}
        }
    }
}

/// A tunnel alone is what a channel of its protocol is: the same net.
#[test]
fn a_tunnel_around_nothing_else_is_a_channel() {
    for protocol in [WIREGUARD, IPSEC] {
        let net = |property: &str| {
            let text = priced(&format!("{BASE}{property}{protocol}"), &[]);
            document(&lay(&weave(&model(&text))).unwrap(), &[])
        };
        assert_eq!(net(TUNNEL), net(CHANNEL), "{protocol}");
    }
}

/// Every message but those of the tunnel is as long as the tunnel makes it, and sealed and opened once.
#[test]
fn each_message_inside_pays_for_its_packets() {
    let tunnel = Protocol::WireGuard(WireGuard::default());
    let own = ["WireGuard handshake", "WireGuard rekeyed"];
    let others = "[[secure]]\nproperty = \"peer-entity-authentication\"\non = \"component client\"\nsignature = \"ed25519\"\n\
                  [[secure]]\nproperty = \"data-confidentiality\"\non = \"connector wire\"\ncipher = \"aes-128-gcm\"\n\
                  exchange = \"rsa-2048\"\nreuse = 0.5\nknown = 0.5\n";
    for inside in [
        format!("{CHANNEL}{OPCUA}renewed = 0.25\n"),
        format!("{CHANNEL}protocol = \"tls-1.3\"\nkey = \"ecdsa-p256\"\nreuse = 0.5\nresumed = 0.5\nrenewed = 0.25\n"),
        format!(
            "{CHANNEL}protocol = \"capability\"\npath = \"challenge\"\nseal = \"aes-128-gcm\"\nreuse = 0.5\nrenewed = 0.25\n"
        ),
        format!("{CHANNEL}{IPSEC}"),
        others.to_owned(),
        format!("{others}{CHANNEL}{OPCUA}"),
    ] {
        let without = messages(weave(&model(&format!("{BASE}{inside}"))).model());
        let woven = weave(&model(&format!("{BASE}{inside}{TUNNEL}{WIREGUARD}")));
        let with: Vec<Sent> =
            messages(woven.model()).into_iter().filter(|(phase, ..)| !own.contains(&phase.as_str())).collect();
        let longer: Vec<Sent> = without
            .iter()
            .map(|(phase, name, bytes)| (phase.clone(), name.clone(), tunnel.wire(Role::Own, *bytes)))
            .collect();
        assert!(with.len() > 2 && with == longer, "{inside}: {with:?} {longer:?}");
        // Each price of a packet is paid by either end for each packet: 40 B of headers are in it, 1,420 B at most.
        let packets: u64 = without.iter().map(|(.., bytes)| bytes.div_ceil(1_380).max(1)).sum();
        let mut counted = 0;
        count(&woven.model().sequences[0].steps, &own, &mut counted);
        assert_eq!(counted, 2 * packets, "{inside}");
    }
}

/// How often the cipher of WireGuard is used, outside of its own phases.
fn count(steps: &[Step], own: &[&str], counted: &mut u64) {
    fn within(parts: &[Part], counted: &mut u64) {
        for part in parts {
            match part {
                Part::Work { work, .. } => {
                    let ciphers = ["encrypt chacha20-poly1305", "decrypt chacha20-poly1305"];
                    if work.operation.as_deref().is_some_and(|it| ciphers.contains(&it)) {
                        *counted += work.times;
                    }
                }
                Part::Either { then, otherwise, .. } => {
                    within(then, counted);
                    within(otherwise, counted);
                }
                Part::Use { parts, .. } => within(parts, counted),
                Part::Message { .. } | Part::Unawaited { .. } | Part::Check { .. } => {}
            }
        }
    }
    for step in steps {
        match step {
            Step::Choice(ways) => ways.iter().for_each(|(_, steps)| count(steps, own, counted)),
            Step::Par(branches) => branches.iter().for_each(|steps| count(steps, own, counted)),
            Step::Protect(it) if !it.phase.is_some_and(|phase| own.contains(&phase)) => within(&it.parts, counted),
            Step::Protect(_)
            | Step::Send(_)
            | Step::Operation(_)
            | Step::Ref { .. }
            | Step::Acquire(_)
            | Step::Release(_) => {}
        }
    }
}

/// A SYN is 40 B of headers; OpenSecureChannel 1,482 B, which are two packets; a request of 100 B in a chunk 160 B.
#[test]
fn sizes_are_those_of_chunks_in_packets() {
    let text = format!("{BASE}{CHANNEL}{OPCUA}{TUNNEL}{WIREGUARD}");
    let all = messages(weave(&model(&text)).model());
    let around = 16 + 16 + 8 + 20;
    for (name, bytes) in [
        // 40 are filled up to 48.
        ("SYN", 8 + around),
        // 112 are whole blocks.
        ("Hello", 72 + around),
        // 1,420 are filled up to 1,424, and 142 to 144.
        ("OpenSecureChannel", 1_482 + 4 + 2 + 2 * around),
        // 200 are filled up to 208.
        ("ask", 160 + 8 + around),
        // 3,000 B of an answer are 3,072 of a chunk: 1,420 twice and 352.
        ("answer", 3_072 + 2 * 4 + 3 * around),
    ] {
        let found = all.iter().rfind(|(_, it, _)| it == name).unwrap_or_else(|| panic!("{name}: {all:?}"));
        assert_eq!(found.2, bytes, "{name}");
    }
}

#[test]
fn the_cost_is_that_of_both() {
    let inside = [("sign rsa-2048", "3 ms"), ("encrypt aes-256-cbc", "100 us"), ("verify hmac-sha256", "10 us")];
    let outside = [("agree x25519", "2 ms"), ("encrypt chacha20-poly1305", "200 us"), ("hash blake2s", "20 us")];
    let time =
        |prices: &[(&str, &str)], secured: &str| milliseconds(&priced(&format!("{BASE}{secured}"), prices)) - 4.0;
    let both = format!("{CHANNEL}{OPCUA}{TUNNEL}{WIREGUARD}");
    let channel = time(&inside, &format!("{CHANNEL}{OPCUA}"));
    assert!((time(&inside, &both) / channel - 1.0).abs() < 1e-9, "a tunnel without prices takes no time");
    let all = time(&[inside, outside].concat(), &both);
    assert!((all / (channel + time(&outside, &both)) - 1.0).abs() < 1e-9);
    assert!(time(&outside, &both) > time(&outside, &format!("{TUNNEL}{WIREGUARD}")), "handshakes go through it");
    // A message is sent once: what that costs depends on what goes out.
    let sent = [("send message", "1 ms")];
    assert!((time(&sent, &format!("{TUNNEL}protocol = \"wireguard\"\nreuse = 1\n")) - 2.0).abs() < 1e-9);
    let open = format!("{CHANNEL}{}{TUNNEL}protocol = \"wireguard\"\nreuse = 1\n", OPCUA.replace("0.5", "1"));
    assert!((time(&sent, &open) - 2.0).abs() < 1e-9);
}

/// The tunnel is opened before what goes through it, also on the way to an authority that no message of the application takes.
#[test]
fn a_tunnel_is_opened_first() {
    let tokens = OPCUA.replace("reuse = 0.5", "reuse = 0.5\nuser = \"oauth2\"\nlogin = \"login\"\nrefreshed = 0.1\n");
    let text = format!("{BASE}{CHANNEL}{tokens}{TUNNEL}{WIREGUARD}{}{WIREGUARD}", TUNNEL.replace("wire\"", "login\""));
    let woven = weave(&model(&text));
    let order: Vec<String> = messages(woven.model()).into_iter().map(|(phase, ..)| phase).collect();
    let first = |name: &str| order.iter().position(|it| it == name).unwrap_or_else(|| panic!("{name}: {order:?}"));
    assert_eq!(order.iter().filter(|it| *it == "WireGuard handshake").count(), 2 * 2);
    let last = order.iter().rposition(|it| it == "WireGuard handshake").unwrap();
    assert!(last < first("TCP connection") && first("TCP connection") < first("token request"), "{order:?}");
    let asked = messages(woven.model()).into_iter().find(|(_, name, _)| name == "token request").unwrap();
    // 288 B, and 328 with headers, filled up to 336.
    assert_eq!(asked.2, 288 + 8 + 60);
}

#[test]
fn what_is_no_tunnel_is_refused() {
    for (rule, lines, class, part) in [
        ("a channel", format!("{TUNNEL}{OPCUA}"), Class::Unknown, "known: wireguard, ipsec"),
        ("no protocol", format!("{TUNNEL}reuse = 1"), Class::MissingAnnotation, "`protocol` is missing"),
        ("two channels", format!("{CHANNEL}{OPCUA}{CHANNEL}{WIREGUARD}"), Class::Doubled, "twice"),
        ("two tunnels", format!("{TUNNEL}{IPSEC}{TUNNEL}{WIREGUARD}"), Class::Doubled, "twice"),
        ("tokens", format!("{TUNNEL}{WIREGUARD}refreshed = 0.1"), Class::NoEffect, "`refreshed`"),
        (
            "no message",
            format!("{}{WIREGUARD}", TUNNEL.replace("wire\"", "login\"")),
            Class::NoEffect,
            "no message goes over it",
        ),
        (
            "a component",
            format!("{}{WIREGUARD}", TUNNEL.replace("connector wire", "component client")),
            Class::Invalid,
            "connector",
        ),
    ] {
        let fault = read(&format!("{BASE}{lines}\n"), Language::Toml).expect_err(rule);
        assert_eq!(fault.class, class, "{rule}: {fault}");
        assert!(fault.to_string().contains(part), "{rule}: {fault}");
    }
}

#[test]
fn a_tunnel_is_one_more_thing_to_choose_and_to_print() {
    let text = format!(
        "{BASE}{CHANNEL}{OPCUA}{TUNNEL}protocol = [\"wireguard\", \"ipsec\"]\nauth = \"shared-key\"\nreuse = 0.9\noptional = true\n"
    );
    let all = model(&text);
    let printed = annotated(&all);
    assert!(printed.contains("secure secure-tunnel on=\"connector wire\""), "{printed}");
    let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
    assert_eq!(annotated(&again), printed);
    let mut prices = BTreeSet::new();
    for way in 0..3 {
        let text = priced(&annotated_of(&text, way), &[]);
        prices.extend(text.lines().filter(|line| line.starts_with("[price")).map(str::to_owned));
    }
    let prices: String = prices.iter().map(|line| format!("{line}\neach = \"1 us\"\n")).collect();
    let effort = Effort { limits: Limits::default(), threads: 1, go_on: &|_| true };
    let choice = choose(&model(&format!("{text}{prices}")), &Wanted::default(), &effort).unwrap();
    let words: BTreeSet<&str> = choice.settings.iter().flat_map(|it| &it.setting).map(String::as_str).collect();
    for wanted in ["tunnel on connector wire: wireguard", "tunnel on connector wire: none"] {
        assert!(words.iter().any(|it| it.starts_with(wanted)), "{words:?}");
    }
    // Without the tunnel it is cheapest.
    let best = &choice.settings[choice.ranked[0]];
    assert!(best.setting.contains(&"tunnel on connector wire: none".to_owned()), "{:?}", best.setting);
}

/// The example: three settings of the channel, each without a tunnel and in two. A level that wants signing wants both of it.
#[test]
fn the_example_is_solved_in_every_setting() {
    let model = model(include_str!("../../../../examples/cost/opcua-in-a-tunnel.toml"));
    let effort = Effort { limits: Limits::default(), threads: 2, go_on: &|_| true };
    let left = |level| {
        let wanted = Wanted { minimum: Minimum { level, ..Minimum::default() }, ..Wanted::default() };
        choose(&model, &wanted, &effort).unwrap_or_else(|fault| panic!("{fault}")).ranked.len()
    };
    assert_eq!((left(None), left(Some(1))), (9, 4));
}

/// The text with one of the ways of its tunnel.
fn annotated_of(text: &str, way: usize) -> String {
    match way {
        0 => text.replace("[\"wireguard\", \"ipsec\"]\nauth = \"shared-key\"", "\"wireguard\""),
        1 => text.replace("[\"wireguard\", \"ipsec\"]", "\"ipsec\""),
        _ => text.split(TUNNEL).next().unwrap_or_default().to_owned(),
    }
}
