//! What protocols are made of: counts of operations that follow from the standards and from what Trapkey's ends do.

use cost::algorithm::Key;
use cost::choose::Mode;
use cost::mechanism::Part;
use cost::protocol::capability::{Capability, Path};
use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
use cost::protocol::tls::Tls;
use cost::protocol::tokens::{Asker, Flow, Tokens};
use cost::protocol::{Line, Party, Per, Phase, Protocol, lines, table};

const RSA: [Policy; 3] = [Policy::Basic256Sha256, Policy::Aes128Sha256RsaOaep, Policy::Aes256Sha256RsaPss];
const ENCRYPT: Mode = Mode::SignAndEncrypt;

fn channel(policy: Policy, mode: Mode, key: Key) -> Channel {
    Channel::new(policy, mode, key).unwrap()
}

fn anonymous(channel: Channel) -> OpcUa {
    OpcUa { channel, user: User::Anonymous }
}

/// How often `by` does an operation; all that begin like this.
fn count(phases: &[Phase], by: Party, operation: &str) -> u64 {
    let own = lines(phases).into_iter().filter(|line| line.by == by && line.operation.starts_with(operation));
    own.map(|line| line.times).sum()
}

/// Long-lived private keys: signatures and blocks.
fn private(phases: &[Phase], by: Party) -> (u64, u64) {
    let own: Vec<Line> = lines(phases).into_iter().filter(|line| line.by == by && line.private).collect();
    let of = |verb: &str| own.iter().filter(|line| line.operation.starts_with(verb)).map(|line| line.times).sum();
    (of("sign"), of("decrypt"))
}

#[test]
fn opening_a_channel_is_two_signatures_and_two_encryptions_with_rsa() {
    for policy in RSA {
        for bits in [2048, 3072, 4096] {
            for mode in [Mode::Sign, ENCRYPT] {
                let opened = channel(policy, mode, Key::Rsa(bits)).renew((Party::Client, Party::Server));
                let rule = format!("{policy:?} {bits} {mode:?}");
                // Sequence, body, padding and signature fill two blocks with every size of key and padding.
                for by in [Party::Client, Party::Server] {
                    assert_eq!(private(&opened, by), (1, 2), "{rule}: {by:?}");
                    assert_eq!(count(&opened, by, &format!("encrypt rsa-{bits}")), 2, "{rule}: {by:?}");
                    assert_eq!(count(&opened, by, "derive p-sha256"), 1, "{rule}: {by:?}");
                }
                // The server looks at the client's certificate, too; the client looks at the server's when it connects.
                assert_eq!(count(&opened, Party::Server, &format!("verify rsa-{bits}")), 2, "{rule}");
                assert_eq!(count(&opened, Party::Client, &format!("verify rsa-{bits}")), 1, "{rule}");
            }
        }
    }
}

#[test]
fn elliptic_curves_sign_and_agree_and_encrypt_nothing() {
    for (policy, mode, key, curve, (client, server)) in [
        // Keys that sign and encrypt and a vector for each direction, as far as they are used.
        (Policy::EccNistP256, ENCRYPT, Key::Ecdsa(256), "ecdh-p256", ((2, 2 * (32 + 16 + 16)), (2, 2 * 64))),
        (Policy::EccNistP256, Mode::Sign, Key::Ecdsa(256), "ecdh-p256", ((2, 2 * 32), (2, 2 * 32))),
        // Trapkey's server derives these keys in two layouts, of which one has a key that signs.
        (Policy::EccCurve25519, ENCRYPT, Key::Ed25519, "x25519", ((2, 2 * (32 + 12)), (4, 2 * (44 + 76)))),
    ] {
        let opened = channel(policy, mode, key).renew((Party::Client, Party::Server));
        for (by, (agreed, derived)) in [(Party::Client, client), (Party::Server, server)] {
            assert_eq!(private(&opened, by), (1, 0), "{policy:?} {by:?}");
            assert_eq!(count(&opened, by, &format!("generate {curve}")), 1, "{policy:?} {by:?}");
            assert_eq!(count(&opened, by, &format!("agree {curve}")), agreed, "{policy:?} {by:?}");
            assert_eq!(count(&opened, by, "encrypt"), 0, "{policy:?} {by:?}");
            let all = lines(&opened).into_iter().filter(|it| it.by == by && it.operation == "derive hkdf-sha256");
            let all: Vec<_> = all.map(|it| (it.times, it.bytes)).collect();
            assert_eq!(all, [(agreed, derived)], "{policy:?} {mode:?} {by:?}");
        }
    }
}

/// OPC 10000-4 section 7.40.2.5, as our ends write it. Type and length, URI, certificate, time, both keys with their
/// lengths; nonce of 32 and secret with their lengths, filled up to 16 with two bytes that say how much. Keys are those
/// of the cipher and its vector alone.
#[test]
fn a_secret_for_an_elliptic_curve_is_filled_up_and_derives_no_code() {
    let clear =
        |uri: u64, certificate: u64, public: u64| 5 + 4 + (4 + uri) + (4 + certificate) + 8 + 2 + 2 * (4 + public);
    for (policy, key, cipher, keys, around) in [
        (Policy::EccNistP256, Key::Ecdsa(256), "aes-128-cbc", 16 + 16, clear(55, 473, 64)),
        // With a tag behind what is encrypted.
        (Policy::EccCurve25519, Key::Ed25519, "chacha20-poly1305", 32 + 12, clear(57, 409, 32) + 16),
    ] {
        for (secret, plain) in [
            // 58, 64 and 1,042 with all that stands beside it.
            (16, 64),
            (22, 64),
            (1_000, 1_056),
            // 45 and 48 fit into three blocks, and get a fourth.
            (3, 64),
            (6, 64),
        ] {
            let opcua = OpcUa { channel: channel(policy, Mode::Sign, key), user: User::Password(secret) };
            let activated: Vec<Phase> =
                opcua.connect().into_iter().filter(|phase| phase.name == "session activated").collect();
            let rule = format!("{policy:?} {secret}");
            for (by, verb) in [(Party::Client, "encrypt"), (Party::Server, "decrypt")] {
                let bytes = |operation: &str| {
                    let own = lines(&activated).into_iter().filter(|it| it.by == by && it.operation == operation);
                    own.map(|it| it.bytes).collect::<Vec<_>>()
                };
                assert_eq!(bytes(&format!("{verb} {cipher}")), [plain], "{rule}: {by:?}");
                assert_eq!(bytes("derive hkdf-sha256"), [keys], "{rule}: {by:?}");
                let hash = if key == Key::Ed25519 { "hash sha-512" } else { "hash sha-256" };
                assert!(bytes(hash).contains(&(around + plain)), "{rule}: {by:?} {:?}", bytes(hash));
            }
        }
    }
    // A chain goes with it, but for the authority at its end.
    let shown = |certificates: u32| {
        let channel = Channel { certificates, ..channel(Policy::EccNistP256, Mode::Sign, Key::Ecdsa(256)) };
        let activated = OpcUa { channel, user: User::Password(16) }.connect();
        let sent = lines(&activated).into_iter().find(|it| it.name == "ActivateSession");
        sent.map(|it| it.bytes).unwrap()
    };
    assert_eq!((shown(2) - shown(1), shown(3) - shown(2)), (0, 473));
}

#[test]
fn a_session_is_one_signature_of_each_end() {
    let opcua = anonymous(channel(Policy::Basic256Sha256, Mode::Sign, Key::Rsa(2048)));
    let (connect, channel) = (opcua.connect(), opcua.channel.open((Party::Client, Party::Server)));
    for by in [Party::Client, Party::Server] {
        let (signed, decrypted) = private(&connect, by);
        let (before, blocks) = private(&channel, by);
        assert_eq!((signed - before, decrypted - blocks), (1, 0), "{by:?}");
    }
    // Three records: channel, session, activation.
    assert_eq!(count(&connect, Party::Server, "append audit"), 3);
    let quiet = anonymous(Channel { audited: false, ..opcua.channel });
    assert_eq!(count(&quiet.connect(), Party::Server, "append audit"), 0);
}

#[test]
fn a_policy_takes_its_own_keys_and_modes() {
    for policy in Policy::ALL {
        for key in [Key::Rsa(1024), Key::Rsa(2048), Key::Rsa(4096), Key::Ecdsa(256), Key::Ed25519] {
            let fits = match policy {
                Policy::None => true,
                Policy::EccNistP256 => key == Key::Ecdsa(256),
                Policy::EccCurve25519 => key == Key::Ed25519,
                _ => matches!(key, Key::Rsa(2048 | 4096)),
            };
            for mode in [Mode::None, Mode::Sign, ENCRYPT] {
                let wanted = fits && (mode == Mode::None) == (policy == Policy::None);
                assert_eq!(Channel::new(policy, mode, key).is_some(), wanted, "{policy:?} {mode:?} {key}");
            }
        }
    }
}

/// Without a policy nothing is done that costs anything but sending, records and rights.
#[test]
fn no_policy_no_cryptography() {
    let bare = anonymous(channel(Policy::None, Mode::None, Key::Rsa(2048)));
    let all = [bare.connect(), bare.renew(), bare.request(100, 100, true)].concat();
    let needed: Vec<String> = lines(&all).into_iter().filter(|line| line.needed).map(|line| line.operation).collect();
    assert!(needed.iter().all(|operation| operation == "append audit"), "{needed:?}");
}

/// Sizes of a chunk by hand (OPC 10000-6 section 6.7.2).
#[test]
fn messages_are_as_long_as_on_the_wire() {
    let rsa = |mode| channel(Policy::Basic256Sha256, mode, Key::Rsa(2048));
    let curve = |mode| channel(Policy::EccCurve25519, mode, Key::Ed25519);
    for (channel, body, wire) in [
        (channel(Policy::None, Mode::None, Key::Rsa(2048)), 100, 12 + 4 + 8 + 100),
        (rsa(Mode::Sign), 100, 12 + 4 + 8 + 100 + 32),
        // 8 + 100 + 1 + 32 bytes fill nine blocks of 16.
        (rsa(ENCRYPT), 100, 12 + 4 + 144),
        (curve(Mode::Sign), 100, 12 + 4 + 8 + 100 + 16),
        (curve(ENCRYPT), 100, 12 + 4 + 8 + 100 + 16),
        // A full chunk has 65,536 bytes, and one byte more begins another.
        (channel(Policy::None, Mode::None, Key::Rsa(2048)), 65_512, 65_536),
        (channel(Policy::None, Mode::None, Key::Rsa(2048)), 65_513, 65_536 + 12 + 4 + 8 + 1),
        (rsa(Mode::Sign), 65_480, 65_536),
        (rsa(Mode::Sign), 65_481, 65_536 + 12 + 4 + 8 + 1 + 32),
        (rsa(ENCRYPT), 65_479, 65_536),
        (rsa(ENCRYPT), 65_480, 65_536 + 12 + 4 + 48),
        // 15 full ones, and 17,815 bytes that fill 1,116 blocks with what goes around them.
        (rsa(ENCRYPT), 1_000_000, 15 * 65_536 + 12 + 4 + 1_116 * 16),
        (curve(Mode::Sign), 65_496, 65_536),
        (curve(ENCRYPT), 65_497, 65_536 + 12 + 4 + 8 + 1 + 16),
    ] {
        assert_eq!(channel.wire(body), wire, "{:?} {:?}", channel.policy, channel.mode);
    }
    // Of several chunks each is signed and encrypted by itself.
    let request = anonymous(rsa(ENCRYPT)).request(1_000_000, 100, false);
    for (operation, bytes) in [
        ("hash sha-256", 15 * (65_536 - 32) + 16 + 1_116 * 16 - 32),
        ("encrypt aes-256-cbc", 15 * (65_536 - 16) + 1_116 * 16),
    ] {
        let found: Vec<u64> = lines(&request)
            .iter()
            .filter(|line| line.by == Party::Client && line.operation == operation)
            .map(|line| line.bytes)
            .collect();
        assert!(found.contains(&bytes), "{operation}: {found:?}");
    }
    // Both ends work on what is signed and encrypted.
    let request = anonymous(rsa(ENCRYPT)).request(100, 100, false);
    for (by, operation, bytes) in [
        (Party::Client, "hash sha-256", 16 + 144 - 32),
        (Party::Client, "encrypt aes-256-cbc", 144),
        (Party::Server, "decrypt aes-256-cbc", 144),
        (Party::Server, "hash sha-256", 16 + 144 - 32),
    ] {
        let found = lines(&request).into_iter().find(|line| line.by == by && line.operation == operation);
        assert_eq!(found.map(|line| line.bytes), Some(bytes), "{by:?} {operation}");
    }
    // What fits no chunk goes in several, each with its own signature.
    let large = lines(&anonymous(rsa(Mode::Sign)).request(200_000, 10, false));
    let signed = large.iter().find(|line| line.operation == "sign hmac-sha256").unwrap();
    assert_eq!(signed.times, 4);
}

fn with_tokens(tokens: Tokens) -> OpcUa {
    let user = User::Token(Box::new(tokens));
    OpcUa { channel: channel(Policy::Basic256Sha256, ENCRYPT, Key::Rsa(2048)), user }
}

/// P0: a token that has 1,536 bytes after encryption has six blocks, each of which costs the server an operation with its private
/// key; its two improvements take the second encryption away, and the connection to the authority.
#[test]
fn the_two_improvements_of_the_paper() {
    let authority = channel(Policy::Basic256Sha256, ENCRYPT, Key::Rsa(2048));
    let naive =
        Tokens { bytes: 1_200, encrypted: true, kept: false, ..Tokens::new(Flow::RequestAccessToken(authority)) };
    let (full, single) = (with_tokens(naive.clone()), with_tokens(Tokens { encrypted: false, ..naive.clone() }));
    let kept = with_tokens(Tokens { kept: true, ..naive });
    let (signed, blocks) = private(&full.connect(), Party::Server);
    assert_eq!((signed, blocks - private(&single.connect(), Party::Server).1), (2, 6));
    // Channel and session to the authority, each time, or once in a life.
    assert_eq!(private(&full.connect(), Party::Authority), (3, 2), "channel, session, token");
    assert_eq!(private(&kept.connect(), Party::Authority), (1, 0), "the token");
    assert_eq!(private(&kept.once(), Party::Authority), (2, 2), "channel, session");
    assert!(full.once().is_empty() && kept.once().iter().all(|phase| phase.per == Per::Life));
    // A refresh asks again and activates again; nothing else is opened at the server.
    assert_eq!(private(&kept.refresh(), Party::Server), (0, 6));
    assert!(kept.refresh().iter().all(|phase| phase.per == Per::Token));
    assert!(anonymous(authority).refresh().is_empty());
}

#[test]
fn each_flow_decides_signs_and_records_once() {
    let authority = channel(Policy::EccNistP256, ENCRYPT, Key::Ecdsa(256));
    let tls = Tls::new(Key::Ecdsa(256));
    for (flow, asker, calls, lookups, passwords) in [
        (Flow::RequestAccessToken(authority), Asker::Application, 1, 1, 0),
        (Flow::StartFinish(authority), Asker::Application, 2, 2, 0),
        (Flow::StartFinish(authority), Asker::Explicit(12), 2, 2, 1),
        (Flow::OAuth2(tls), Asker::Application, 1, 1, 0),
        (Flow::OAuth2(tls), Asker::Session(12), 1, 1, 1),
    ] {
        let tokens = Tokens { asker, ..Tokens::new(flow) };
        let fetch = tokens.fetch();
        let at = |operation: &str| count(&fetch, Party::Authority, operation);
        let rule = format!("{} {asker:?}", flow.word());
        assert_eq!((at("decide"), at("sign ed25519"), at("append audit"), at("write journal")), (1, 1, 1, 1), "{rule}");
        assert_eq!((at("message"), at("look up account"), at("check password")), (calls, lookups, passwords), "{rule}");
        // The server believes it by its signature.
        let connect = with_tokens(tokens).connect();
        assert_eq!(count(&connect, Party::Server, "verify ed25519"), 1, "{rule}");
        assert_eq!(count(&connect, Party::Server, "read token"), 1, "{rule}");
    }
}

/// A refresh token is looked up and used up, then the authority does what it did for the first; nobody shows a password again.
#[test]
fn a_refresh_token_saves_a_call_and_the_password() {
    let authority = channel(Policy::Basic256Sha256, ENCRYPT, Key::Rsa(2048));
    let again = Tokens { asker: Asker::Explicit(12), ..Tokens::new(Flow::StartFinish(authority)) };
    let refreshed = Tokens { refresh_token: true, ..again.clone() };
    assert_eq!(refreshed.fetch(), again.fetch(), "the first token is asked for as ever");
    let at = |tokens: &Tokens, operation: &str| count(&tokens.fetch_again(), Party::Authority, operation);
    for (operation, before, after) in [
        ("message", 2, 1),
        ("check password", 1, 0),
        ("decrypt rsa", 1, 0),
        ("look up account", 2, 1),
        ("decide", 1, 1),
        ("sign ed25519", 1, 1),
        // The old token is used up, the new one kept.
        ("write journal", 1, 2),
        ("append audit", 1, 1),
    ] {
        assert_eq!((at(&again, operation), at(&refreshed, operation)), (before, after), "{operation}");
    }
    let opcua = with_tokens(refreshed.clone());
    let names: Vec<&str> = opcua.refresh().iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["RefreshToken", "session refreshed"]);
    assert!(opcua.connect().iter().all(|phase| phase.name != "RefreshToken"));
    // Who gets none asks again.
    let none = [
        Tokens { flow: Flow::RequestAccessToken(authority), ..refreshed.clone() },
        Tokens { flow: Flow::OAuth2(Tls::new(Key::Ecdsa(256))), asker: Asker::Application, ..refreshed.clone() },
    ];
    for tokens in none {
        assert!(tokens.misfit().is_some());
        assert_eq!(tokens.fetch_again(), tokens.fetch());
    }
    let person = Tokens { flow: Flow::OAuth2(Tls::new(Key::Ecdsa(256))), asker: Asker::Session(12), ..refreshed };
    assert_eq!((person.misfit(), at(&person, "check password"), at(&person, "write journal")), (None, 0, 2));
}

/// Over HTTPS each token has a connection of its own; what is kept resumes it. Over OPC UA the session stays open.
#[test]
fn a_kept_way_to_the_authority_is_not_proven_again() {
    let tls = Tls { client: Some(Key::Rsa(2048)), ..Tls::new(Key::Ecdsa(256)) };
    for (kept, signed) in [(true, 0), (false, 1)] {
        let opcua = with_tokens(Tokens { kept, ..Tokens::new(Flow::OAuth2(tls)) });
        for phases in [opcua.connect(), opcua.refresh()] {
            assert_eq!(count(&phases, Party::Authority, "sign ecdsa-p256"), signed, "{kept}");
            // The client's key has its part in the session at the server, too.
            let asked: Vec<Phase> = phases.into_iter().filter(|phase| phase.ends.1 == Party::Authority).collect();
            let mut taken = lines(&asked).into_iter().filter(|line| line.probability > 0.0);
            assert!(taken.any(|line| line.name == "ClientHello"), "{kept}");
            assert_eq!(private(&asked, Party::Client).0, signed, "{kept}");
        }
        assert!(opcua.once().is_empty(), "nothing is opened besides the connection of each token");
    }
}

/// The first token of a client has one connection, as every other one; there is nothing yet that it could resume.
#[test]
fn a_first_token_over_https_has_one_full_handshake() {
    let tls = Tls::ours(Key::Ecdsa(256));
    let first = with_tokens(Tokens { first: 1.0, ..Tokens::new(Flow::OAuth2(tls)) });
    let fetched = [first.once(), first.connect()].concat();
    let to_authority: Vec<Phase> = fetched.into_iter().filter(|phase| phase.ends.1 == Party::Authority).collect();
    let names: Vec<&str> = to_authority.iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["TCP connection", "TLS handshake", "token request", "TLS closed", "TCP closed"]);
    assert_eq!(private(&to_authority, Party::Authority), (2, 0), "the handshake's signature and the token's");
    assert_eq!(count(&to_authority, Party::Authority, "sign ecdsa-p256"), 1);
}

/// Our authority asks with each request over HTTPS whether a certificate of the client's chain was revoked, and checks each signature on
/// it then; in a handshake, full or resumed, it looks at none, for it knows clients by their registration.
#[test]
fn the_clients_chain_is_looked_at_with_each_token() {
    let client = Key::Ecdsa(256);
    for chain in [1, 2, 3] {
        let tls = Tls { client: Some(client), ..Tls::ours(Key::Rsa(2048)) };
        let tokens = Tokens {
            certificates: chain,
            refresh_token: true,
            asker: Asker::Session(9),
            ..Tokens::new(Flow::OAuth2(tls))
        };
        let verified = |phases: &[Phase]| count(phases, Party::Authority, "verify ecdsa-p256");
        // The client proves that it has its key.
        assert_eq!(verified(&tokens.connect()), 1);
        assert_eq!(verified(&tokens.fetch()), u64::from(chain));
        assert_eq!(verified(&tokens.fetch_again()), u64::from(chain));
        // Digests of what is signed, as wherever a certificate is looked at.
        assert_eq!(count(&tokens.fetch(), Party::Authority, "hash sha-256"), u64::from(chain));
    }
    let nobody = Tokens::new(Flow::OAuth2(Tls::ours(client)));
    assert_eq!(count(&nobody.fetch(), Party::Authority, "verify"), 0, "no certificate was shown");
    // Other servers look at a client's chain in the handshake.
    let tls = Tls { client: Some(client), certificates: 2, ..Tls::new(Key::Rsa(2048)) };
    assert_eq!(count(&[tls.connect((Party::Client, Party::Server))], Party::Server, "verify ecdsa-p256"), 3);
}

/// What is made is ended, where it is made; nobody waits for it, and a way that is kept ends with the life of the client.
#[test]
fn what_is_opened_is_closed() {
    let rsa = channel(Policy::Basic256Sha256, ENCRYPT, Key::Rsa(2048));
    let named = |phases: &[Phase]| {
        let closed = phases.iter().filter(|phase| phase.name.ends_with("closed"));
        closed.map(|phase| (phase.name, phase.ends.1, phase.per)).collect::<Vec<_>>()
    };
    let sessions =
        |of: Party, per: Per| ["session closed", "channel closed", "TCP closed"].map(|phase| (phase, of, per)).to_vec();
    // So is the connection over which a client asks for endpoints: each that is made has its end.
    let discovered = |of: Party, per: Per| vec![("TCP closed", of, per)];
    assert_eq!(named(&anonymous(rsa).disconnect()), sessions(Party::Server, Per::Connection));
    assert_eq!(named(&anonymous(rsa).connect()), discovered(Party::Server, Per::Connection));
    for kept in [true, false] {
        let opcua = with_tokens(Tokens { kept, ..Tokens::new(Flow::StartFinish(rsa)) });
        let way = |per| [discovered(Party::Authority, per), sessions(Party::Authority, per)].concat();
        let each = |per| if kept { Vec::new() } else { way(per) };
        assert_eq!(named(&opcua.once()), if kept { way(Per::Life) } else { Vec::new() });
        let own = discovered(Party::Server, Per::Connection);
        assert_eq!(named(&opcua.connect()), [own, each(Per::Connection)].concat(), "{kept}");
        assert_eq!(named(&opcua.refresh()), each(Per::Token), "{kept}");
        let https = with_tokens(Tokens { kept, ..Tokens::new(Flow::OAuth2(Tls::ours(Key::Ecdsa(256)))) });
        let ended = ["TLS closed", "TCP closed"].map(|phase| (phase, Party::Authority, Per::Token));
        assert_eq!(named(&https.refresh()), ended, "{kept}");
        let waits = |part: &Part| matches!(part, Part::Message { .. });
        for phase in https.refresh().iter().filter(|phase| phase.name.ends_with("closed")) {
            assert!(!phase.parts.iter().any(waits), "{:?}", phase.parts);
        }
    }
    // One end for each handshake of TCP, whatever runs over it, each way once and in segments without content.
    let over_tcp = [Protocol::OpcUa(anonymous(rsa)), Protocol::Tls(Tls::new(Key::Ecdsa(256)))];
    for protocol in over_tcp.into_iter().chain([Protocol::Capability(Capability::new(Path::Challenge))]) {
        let all = [protocol.connect(), protocol.disconnect()].concat();
        let of = |name: &str| all.iter().filter(|phase| phase.name == name).cloned().collect::<Vec<_>>();
        assert_eq!(of("TCP closed").len(), of("TCP connection").len(), "{}", protocol.word());
        for phase in of("TCP closed") {
            let sent: Vec<_> = lines(&[phase]).into_iter().map(|line| (line.name, line.by, line.bytes)).collect();
            assert_eq!(sent, [("FIN", Party::Client, 0), ("FIN, ACK", Party::Server, 0)], "{}", protocol.word());
        }
        assert_eq!(protocol.disconnect().last().map(|phase| phase.name), Some("TCP closed"), "{}", protocol.word());
    }
    // An alert of two bytes in a record each way; nothing of it is private, and no chain is looked at.
    let tls = Tls::new(Key::Ecdsa(256)).close((Party::Client, Party::Server));
    let sent: Vec<u64> = lines(&[tls]).iter().filter(|line| line.to.is_some()).map(|line| line.bytes).collect();
    assert_eq!(sent, [5 + 2 + 1 + 16; 2]);
}

/// RFC 8446: a full handshake proves the server's key; a resumed one proves a secret of before, and no certificate is looked at.
#[test]
fn a_resumed_handshake_has_no_signature() {
    let tls = Tls { client: Some(Key::Rsa(2048)), ..Tls::new(Key::Ecdsa(256)) };
    let ends = (Party::Client, Party::Server);
    let full = [tls.connect(ends)];
    assert_eq!(private(&full, Party::Server), (1, 0));
    assert_eq!(private(&full, Party::Client), (1, 0));
    // One signature of the handshake and one of the certificate; nobody checks that of the authority above.
    assert_eq!(count(&full, Party::Client, "verify ecdsa-p256"), 2);
    assert_eq!(count(&full, Party::Server, "verify rsa-2048"), 2);
    let longer = [Tls { certificates: 2, ..tls }.connect(ends)];
    assert_eq!(count(&longer, Party::Client, "verify ecdsa-p256"), 3, "an authority between");
    // Secrets, keys and vectors of the schedule, and two for tickets; a binder's two where one is shown.
    assert_eq!(count(&full, Party::Client, "derive hkdf-sha256"), 23);
    let resumed = [Tls { resumed: 1.0, ..tls }.connect(ends)];
    assert_eq!(count(&resumed, Party::Server, "derive hkdf-sha256"), 25);
    let resumed = [Tls { resumed: 1.0, ..tls }.connect(ends)];
    let taken: Vec<Line> = lines(&resumed).into_iter().filter(|line| line.probability > 0.0).collect();
    assert!(taken.iter().all(|line| !line.private && !line.operation.contains("p256")), "{taken:?}");
    let agreed = |lines: &[Line]| lines.iter().filter(|line| line.operation == "agree x25519").count();
    assert_eq!(agreed(&taken), 2);
    let quick = [Tls { resumed: 1.0, fresh_keys: false, ..tls }.connect(ends)];
    let taken: Vec<Line> = lines(&quick).into_iter().filter(|line| line.probability > 0.0).collect();
    assert_eq!(agreed(&taken), 0);
}

/// The tables of the reference are what the library has.
#[test]
fn the_reference_shows_what_is_done() {
    let reference = include_str!("../../../../docs/reference/cost-model.md");
    let rsa = channel(Policy::Basic256Sha256, ENCRYPT, Key::Rsa(2048));
    let user = |user| OpcUa { channel: rsa, user };
    let tokens = |flow, asker| Tokens { encrypted: true, asker, ..Tokens::new(flow) };
    let started = user(User::Token(Box::new(tokens(Flow::StartFinish(rsa), Asker::Explicit(12)))));
    let mut phases = started.once();
    phases.extend(started.connect().into_iter().filter(|phase| phase.ends.1 == Party::Server));
    phases.extend([started.renew(), started.refresh(), started.request(100, 120, true), started.disconnect()].concat());
    phases.extend(tokens(Flow::RequestAccessToken(rsa), Asker::Application).fetch());
    let refreshed = Tokens { refresh_token: true, ..tokens(Flow::StartFinish(rsa), Asker::Explicit(12)) };
    phases.extend(refreshed.fetch_again());
    let tls = Tls { client: Some(Key::Ecdsa(256)), ..Tls::ours(Key::Ecdsa(256)) };
    let oauth = tokens(Flow::OAuth2(tls), Asker::Application);
    phases.extend([oauth.connect(), oauth.fetch()].concat());
    let ends = (Party::Client, Party::Server);
    let tls = Tls { resumed: 1.0, ..Tls::new(Key::Ecdsa(256)) };
    phases.extend([tls.connect(ends), tls.close(ends)]);
    let table = table(&phases);
    assert!(reference.contains(&table), "the table is\n{table}");
}
