//! Capabilities of devices: counts that follow from the chain (one HMAC a frame), sizes that follow from MQTT 5.

use cost::algorithm::Key;
use cost::choose::Mode;
use cost::mechanism::Role;
use cost::protocol::capability::{Capability, Path};
use cost::protocol::{Per, Phase, Protocol, lines, table};

use crate::counted::{CLIENT, ENDS, SERVER, count, messages};

/// One message from a side, with all that is done for it.
fn sent(capability: &Capability, from: Role, bytes: u64) -> [Phase; 1] {
    let (before, after) = capability.around(from, bytes);
    [Phase { name: "message", source: "", per: Per::Request, ends: ENDS, parts: [before, after].concat() }]
}

/// A guard makes the code of each frame again; with the proof's key and two proofs that is three more. The device starts from the last.
#[test]
fn a_chain_costs_the_guard_one_code_a_frame_when_it_is_shown() {
    for path in [Path::Challenge, Path::Counter] {
        for frames in [1, 3, 8] {
            let phases = [Capability { frames, ..Capability::new(path) }.connect(ENDS)];
            let rule = format!("{path:?} {frames}");
            let both = u64::from(path == Path::Challenge);
            assert_eq!(count(&phases, SERVER, "sign hmac-sha256"), u64::from(frames) + 1 + both, "{rule}");
            assert_eq!(count(&phases, SERVER, "verify hmac-sha256"), 1, "{rule}");
            assert_eq!(count(&phases, CLIENT, "sign hmac-sha256"), 2, "{rule}");
            assert_eq!(count(&phases, CLIENT, "verify hmac-sha256"), both, "{rule}");
            // Both make keys of two directions: to extract, and one each.
            assert_eq!((count(&phases, CLIENT, "derive"), count(&phases, SERVER, "derive")), (3, 3), "{rule}");
            // The guard's own key is used once, for the first frame, and the last code for the key of proofs.
            let private = |by| lines(&phases).iter().filter(|line| line.by == by && line.private).count();
            assert_eq!((private(SERVER), private(CLIENT)), (2, 1), "{rule}");
            assert_eq!(count(&phases, SERVER, "append audit"), 1, "{rule}");
            assert_eq!(count(&phases, CLIENT, "agree") + count(&phases, SERVER, "agree"), 0, "{rule}");
        }
    }
}

/// Three frames are 92 bytes: with their nonces and proofs 140 in three messages, or 120 in one, which is Base64 of 160.
#[test]
fn a_session_is_opened_with_less_than_200_bytes_of_security() {
    let challenge = Capability::new(Path::Challenge);
    // Header of 2 bytes or 3, CONNECT of 28 or AUTH of 1, length of properties, method of 14, data of 3 and what they are.
    assert_eq!(
        messages(&[challenge.connect(ENDS)]),
        [
            ("CONNECT", CLIENT, 3 + 28 + 1 + 14 + 3 + 92 + 8),
            ("AUTH", SERVER, 2 + 1 + 1 + 14 + 3 + 8 + 16),
            ("AUTH", CLIENT, 2 + 1 + 1 + 14 + 3 + 16),
            ("CONNACK", SERVER, 2 + 2 + 1 + 14),
        ]
    );
    let fresh = Capability { fresh_keys: true, ..challenge };
    let sizes = |capability: &Capability| messages(&[capability.connect(ENDS)]).iter().map(|it| it.2).sum::<u64>();
    // One length of properties needs a second byte.
    assert_eq!(sizes(&fresh) - sizes(&challenge), 2 * 32 + 1);
    let counter = Capability::new(Path::Counter);
    let connect = messages(&[counter.connect(ENDS)]);
    assert_eq!(connect[0], ("CONNECT", CLIENT, 3 + 28 + 1 + 2 + 123 + 2 + 38));
    assert_eq!(connect.len(), 2);
}

#[test]
fn ephemeral_keys_are_one_more_pair_and_secret_on_each_side() {
    for path in [Path::Challenge, Path::Counter] {
        let phases = [Capability { fresh_keys: true, ..Capability::new(path) }.connect(ENDS)];
        // With a counter the guard has no turn to send a new key: its static one serves.
        let own = u64::from(path == Path::Challenge);
        assert_eq!((count(&phases, CLIENT, "generate"), count(&phases, SERVER, "generate")), (1, own), "{path:?}");
        assert_eq!((count(&phases, CLIENT, "agree"), count(&phases, SERVER, "agree")), (1, 1), "{path:?}");
    }
    let renewed = Capability { fresh_keys: true, ..Capability::new(Path::Challenge) }.renew(ENDS);
    assert_eq!(
        (count(&renewed, SERVER, "agree"), count(&renewed, SERVER, "read capability")),
        (1, 0),
        "no chain again"
    );
    assert_eq!(count(&Capability::new(Path::Counter).renew(ENDS), SERVER, "read capability"), 1, "a new connection");
    assert!(Capability::new(Path::Stateless).renew(ENDS).is_empty());
}

/// After that a message is one seal and 21 bytes, and the guard looks at the rights of each, in both directions.
#[test]
fn a_message_of_a_session_is_one_seal() {
    for (seal, mode, operation) in [
        ("chacha20-poly1305", Mode::SignAndEncrypt, ("encrypt", "decrypt")),
        ("aes-128-gcm", Mode::SignAndEncrypt, ("encrypt", "decrypt")),
        ("hmac-sha256", Mode::Sign, ("sign", "verify")),
    ] {
        let capability = Capability { seal, ..Capability::new(Path::Challenge) };
        for (from, by, other) in [(Role::Own, CLIENT, SERVER), (Role::Peer, SERVER, CLIENT)] {
            let phases = sent(&capability, from, 64);
            let (verb, reverse) = operation;
            assert_eq!(count(&phases, by, &format!("{verb} {seal}")), 1, "{seal} {by:?}");
            assert_eq!(count(&phases, other, &format!("{reverse} {seal}")), 1, "{seal} {by:?}");
            assert_eq!(count(&phases, SERVER, "check rights"), 1, "{seal} {by:?}");
            assert_eq!(capability.wire(from, 64), 64 + 21);
        }
        assert_eq!(Protocol::Capability(capability).mode(), mode);
        assert_eq!(Protocol::Capability(capability).strength(), 128);
    }
}

/// FACTS: each message shows the chain. Two tokens with three codes each, the message's among them, and some 530 bytes.
#[test]
fn without_a_session_each_message_shows_the_chain() {
    let ours = Capability::new(Path::Stateless);
    assert_eq!(ours.wire(Role::Own, 8), 8 + 92 + 21);
    assert_eq!(count(&sent(&ours, Role::Own, 8), SERVER, "sign hmac-sha256"), 3);
    let paper = Capability { frames: 2, identity: 3, sent: Some(530 - 21), ..ours };
    assert_eq!(paper.wire(Role::Own, 8), 8 + 530);
    let phases = sent(&paper, Role::Own, 8);
    assert_eq!(count(&phases, SERVER, "sign hmac-sha256") + count(&phases, SERVER, "verify hmac-sha256"), 6);
    assert_eq!((count(&phases, CLIENT, "sign hmac-sha256"), count(&phases, SERVER, "check rights")), (1, 1));
    // A guard that still has the last codes makes the message's only.
    let cached = lines(&sent(&Capability { cached: 0.75, ..paper }, Role::Own, 8));
    let made = cached.iter().filter(|line| line.operation == "sign hmac-sha256" && line.by == SERVER);
    let mean: f64 = made.map(|line| line.probability).sum();
    assert!((mean - 5.0 * 0.25).abs() < 1e-12, "{mean}");
    // Nothing that goes to the device is protected, so no minimum is met.
    assert_eq!((paper.wire(Role::Peer, 8), count(&sent(&paper, Role::Peer, 8), SERVER, "")), (8, 1));
    assert_eq!((Protocol::Capability(paper).mode(), Protocol::Capability(paper).strength()), (Mode::None, 0));
    // Data may be signed besides.
    let signed = Capability { signature: Some(Key::Ed25519), ..ours };
    assert_eq!(signed.wire(Role::Own, 8) - ours.wire(Role::Own, 8), 64);
    let phases = sent(&signed, Role::Own, 8);
    assert_eq!((count(&phases, CLIENT, "sign ed25519"), count(&phases, SERVER, "verify ed25519")), (1, 1));
    assert_eq!(count(&sent(&signed, Role::Peer, 8), CLIENT, "verify"), 0);
}

/// A frame is added by one code, without anybody; what was added binds each message that shows it.
#[test]
fn narrowing_is_a_code_a_frame_and_no_message() {
    let narrowed = Capability { frames: 5, ..Capability::new(Path::Challenge) }.once(ENDS);
    assert_eq!((count(&narrowed, CLIENT, "sign hmac-sha256"), messages(&narrowed).len()), (4, 0));
    assert!(narrowed.iter().all(|phase| phase.per == Per::Life));
    assert!(Capability { frames: 1, ..Capability::new(Path::Challenge) }.once(ENDS).is_empty());
    let caveats = Capability { caveats: 4, ..Capability::new(Path::Stateless) };
    assert_eq!(count(&sent(&caveats, Role::Own, 8), SERVER, "judge caveat"), 4);
    assert_eq!(caveats.wire(Role::Own, 8), 8 + 92 + 4 * 6 + 21);
}

#[test]
fn what_keeps_nothing_has_no_keys_to_seal_with() {
    let stateless = Capability::new(Path::Stateless);
    assert_eq!(stateless.misfit(), None);
    assert!(Capability { seal: "aes-128-gcm", ..stateless }.misfit().unwrap().contains("`seal`"));
    assert!(Capability { fresh_keys: true, ..stateless }.misfit().unwrap().contains("`fresh_keys`"));
}

/// The tables of the reference are what the library has.
#[test]
fn the_reference_shows_what_is_done() {
    let reference = include_str!("../../../../docs/reference/cost-model.md");
    let challenge = Capability { fresh_keys: true, ..Capability::new(Path::Challenge) };
    let mut phases = challenge.once(ENDS);
    phases.push(challenge.connect(ENDS));
    phases.extend(challenge.renew(ENDS));
    phases.push(Capability::new(Path::Counter).connect(ENDS));
    phases.extend(sent(&Capability::new(Path::Challenge), Role::Own, 100).map(|it| Phase {
        name: "message",
        source: "MQTT 5.0 3.3",
        ..it
    }));
    let paper = Capability { frames: 2, identity: 3, sent: Some(509), ..Capability::new(Path::Stateless) };
    phases.extend(sent(&paper, Role::Own, 100).map(|it| Phase {
        name: "message, stateless",
        source: "FACTS III",
        ..it
    }));
    phases.push(challenge.disconnect(ENDS));
    let table = table(&phases);
    assert!(reference.contains(&table), "the table is\n{table}");
}
