//! Tunnels: counts and sizes that follow from the white paper of WireGuard, from RFC 7296 and from RFC 4303, worked out by hand.

use cost::algorithm::Key;
use cost::choose::Mode;
use cost::mechanism::Role;
use cost::protocol::ipsec::{Auth, Group, Ipsec, Prf};
use cost::protocol::wireguard::WireGuard;
use cost::protocol::{Line, Party, Per, Phase, Protocol, lines, table};

use crate::counted::{CLIENT, ENDS, SERVER, count, messages};

fn private(phases: &[Phase], by: Party) -> u64 {
    lines(phases).iter().filter(|line| line.by == by && line.private).map(|line| line.times).sum()
}

fn signed(key: Key) -> Ipsec {
    Ipsec::new(Auth::Signature(key, key))
}

/// Section 5.4: four secrets on each side, of which that of both static keys may be kept; an HKDF has one run to extract and one for
/// each key. KDF1 to KDF3 are used 2 + 3 + 3 (initiation), 2 + 2 + 2 + 4 (response) and 3 (transport) runs.
#[test]
fn a_handshake_of_wireguard_is_three_secrets_with_one_new_key_on_each_side() {
    for kept in [true, false] {
        let phases = WireGuard { kept, ..WireGuard::default() }.connect(ENDS);
        let fourth = u64::from(!kept);
        for by in [CLIENT, SERVER] {
            assert_eq!(count(&phases, by, "generate x25519"), 1, "{by:?}");
            assert_eq!(count(&phases, by, "agree x25519"), 3 + fourth, "{by:?}");
            // Each has one secret of its static key and the other's new one.
            assert_eq!(private(&phases, by), 1 + fourth, "{by:?}");
            assert_eq!(count(&phases, by, "derive hkdf-blake2s"), 8 + 10 + 3, "{by:?}");
            // Hi takes in: the static key, the new one, the sealed static key, the sealed timestamp; new key, tau, nothing sealed.
            assert_eq!(count(&phases, by, "hash blake2s"), 4 + 3, "{by:?}");
        }
        for (by, seals, opens) in [(CLIENT, 2, 1), (SERVER, 1, 2)] {
            assert_eq!(count(&phases, by, "encrypt chacha20-poly1305"), seals, "{by:?}");
            assert_eq!(count(&phases, by, "decrypt chacha20-poly1305"), opens, "{by:?}");
            assert_eq!(count(&phases, by, "sign blake2s-mac"), 1, "{by:?}");
            assert_eq!(count(&phases, by, "verify blake2s-mac"), 1, "{by:?}");
        }
        // Type, own index; new key; sealed static key, sealed timestamp; two codes. Both indices and nothing sealed in the response.
        let initiation = 4 + 4 + 32 + (32 + 16) + (12 + 16) + 2 * 16;
        let response = 4 + 2 * 4 + 32 + 16 + 2 * 16;
        assert_eq!((initiation, response), (148, 92));
        let sent = [("handshake initiation", CLIENT, initiation), ("handshake response", SERVER, response)];
        assert_eq!(messages(&phases), sent);
        // New keys are a new handshake, done by all the same steps.
        let (again, first): (Vec<Line>, Vec<Line>) =
            (lines(&[WireGuard { kept, ..WireGuard::default() }.renew(ENDS)]), lines(&phases));
        assert_eq!(again.len(), first.len());
        assert!(again.iter().zip(&first).all(|(one, other)| (&one.operation, one.by) == (&other.operation, other.by)));
        assert!(again.iter().all(|line| line.per == Per::Renewal));
    }
}

/// Under load a stranger costs the responder two codes and one sealed cookie, and no secret.
#[test]
fn a_cookie_keeps_secrets_from_strangers() {
    let loaded = WireGuard { cookie: 0.25, ..WireGuard::default() }.connect(ENDS);
    let (cookie, rest) = loaded.split_at(1);
    assert_eq!(count(cookie, SERVER, "agree"), 0);
    assert_eq!(count(cookie, SERVER, "encrypt xchacha20-poly1305"), 1);
    assert_eq!(count(cookie, CLIENT, "agree"), 1, "the initiation that was in vain");
    // Type, index, nonce, sealed cookie.
    assert_eq!(4 + 4 + 24 + (16 + 16), 64);
    assert_eq!(messages(cookie), [("handshake initiation", CLIENT, 148), ("cookie reply", SERVER, 64)]);
    assert!(lines(cookie).iter().all(|line| (line.probability - 0.25).abs() < 1e-12));
    assert_eq!(rest.len(), 1);
    assert_eq!(WireGuard::default().connect(ENDS).len(), 1);
    // A renewal begins with the same initiation (section 6.2), and the responder cannot tell it from a first one.
    let renewed = WireGuard { cookie: 0.25, ..WireGuard::default() }.renew(ENDS);
    let steps = |phases: &[Phase]| {
        let line = |it: Line| (it.operation, it.by, it.times, it.bytes, it.probability.to_bits());
        lines(phases).into_iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(steps(&[renewed]), steps(&loaded));
}

/// A packet has 16 bytes of header and 16 of tag and is filled up to 16; outside are UDP and IP.
#[test]
fn packets_are_as_long_as_on_the_wire() {
    let wireguard = Protocol::WireGuard(WireGuard::default());
    let gcm = signed(Key::Ecdsa(256));
    let cbc = Ipsec { cipher: "aes-128-cbc", ..gcm };
    let ipsec = Protocol::Ipsec;
    for (protocol, bytes, wire) in [
        // 140 of the inner packet are 144 with filling.
        (&wireguard, 100, 100 + 4 + 32 + 28),
        (&wireguard, 0, 8 + 32 + 28),
        // 1,420 are 1,424, twice; 40 + 240 are 288.
        (&wireguard, 3_000, 3_000 + 2 * (4 + 60) + 8 + 60),
        // 140 and 2 are 144 with filling; SPI, number and vector are 16, the tag 16, IP 20.
        (&ipsec(gcm), 100, 100 + 4 + 16 + 16 + 20),
        (&ipsec(Ipsec { translated: true, ..gcm }), 100, 100 + 4 + 16 + 16 + 28),
        // A vector of 16 bytes, blocks of 16.
        (&ipsec(cbc), 100, 100 + 4 + 24 + 16 + 20),
        (&ipsec(Ipsec { packet: 600, ..cbc }), 1_120, 1_120 + 2 * (8 + 60)),
    ] {
        assert_eq!(protocol.wire(Role::Own, bytes), wire, "{} {bytes}", protocol.word());
    }
}

/// What is encrypted holds the inner headers; a code besides goes over what was encrypted, and is looked at first.
#[test]
fn ends_work_on_what_is_encrypted() {
    let work = |protocol: &Protocol| {
        let (before, after) = protocol.around(Role::Own, 3_000);
        let phase = Phase { name: "", source: "", per: Per::Request, ends: ENDS, parts: [before, after].concat() };
        let lines = lines(&[phase]).into_iter().filter(|line| line.needed);
        lines.map(|line| (line.by, line.operation, line.times, line.bytes)).collect::<Vec<_>>()
    };
    let line = |by, operation: &str, times, bytes| (by, operation.to_owned(), times, bytes);
    assert_eq!(
        work(&Protocol::WireGuard(WireGuard::default())),
        [
            line(CLIENT, "encrypt chacha20-poly1305", 3, 2 * 1_424 + 288),
            line(SERVER, "decrypt chacha20-poly1305", 3, 2 * 1_424 + 288),
        ]
    );
    let (plain, coded) = (2 * 1_424 + 288, 2 * 1_424 + 288 + 3 * 24);
    assert_eq!(
        work(&Protocol::Ipsec(Ipsec { cipher: "aes-128-cbc", ..signed(Key::Rsa(2048)) })),
        [
            line(CLIENT, "encrypt aes-128-cbc", 3, plain),
            line(CLIENT, "hash sha-256", 3, coded),
            line(CLIENT, "sign hmac-sha256", 3, 0),
            line(SERVER, "hash sha-256", 3, coded),
            line(SERVER, "verify hmac-sha256", 3, 0),
            line(SERVER, "decrypt aes-128-cbc", 3, plain),
        ]
    );
}

/// Sections 2.14, 2.15 and 2.17 of RFC 7296. Keys of IKE with AES-128-GCM: SK_d, two SK_p of 32 bytes and two SK_e of 20 are 136, five
/// runs; KEYMAT of 40 is two. With AES-128-CBC: 96 and two of 16 + 32 are 192, six; 96, three.
#[test]
fn ike_agrees_once_signs_once_and_derives_by_the_length_of_its_keys() {
    for (cipher, prf, seed, ike, esp) in [
        ("aes-128-gcm", Prf::HmacSha256, 1, 5, 2),
        ("aes-256-gcm", Prf::HmacSha256, 1, 6, 3),
        ("aes-128-cbc", Prf::HmacSha256, 1, 6, 3),
        // 3 × 48 and two of 36 are 216 in 48s; 72.
        ("chacha20-poly1305", Prf::HmacSha384, 1, 5, 2),
    ] {
        let signed = Ipsec { cipher, prf, ..Ipsec::new(Auth::Signature(Key::Rsa(3072), Key::Ecdsa(256))) };
        let phases = signed.connect(ENDS);
        let derive = format!("derive prf-{}", prf.word());
        for (by, own, other) in [(CLIENT, "ecdsa-p256", "rsa-3072"), (SERVER, "rsa-3072", "ecdsa-p256")] {
            assert_eq!((count(&phases, by, "generate x25519"), count(&phases, by, "agree x25519")), (1, 1), "{by:?}");
            assert_eq!((private(&phases, by), count(&phases, by, &format!("sign {own}"))), (1, 1), "{cipher} {by:?}");
            // The signature of the other, and that of its certificate.
            assert_eq!(count(&phases, by, &format!("verify {other}")), 2, "{cipher} {by:?}");
            // Codes over both IDs besides.
            assert_eq!(count(&phases, by, &derive), seed + ike + esp + 2, "{cipher} {by:?}");
        }
        // With a shared key each end makes both AUTHs: a key of the secret, and a code of all that a signature would be of.
        let shared = Ipsec { auth: Auth::Shared, ..signed }.connect(ENDS);
        for by in [CLIENT, SERVER] {
            assert_eq!(count(&shared, by, &derive), seed + ike + esp + 2 * 3, "{cipher} {by:?}");
            assert_eq!(
                (private(&shared, by), count(&shared, by, "verify rsa"), count(&shared, by, "sign e")),
                (0, 0, 0)
            );
        }
    }
}

/// Four messages; their lengths by the formats of sections 3.1 to 3.14.
#[test]
fn messages_of_ike_are_as_long_as_their_payloads() {
    let shared = Ipsec { group: Group::EcdhP256, ..Ipsec::new(Auth::Shared) };
    // Header; SA of one proposal with a cipher that names its key's length, PRF and group; KE; nonce; two NAT_DETECTIONs.
    let init = 28 + (4 + 8 + 12 + 8 + 8) + (8 + 64) + (4 + 32) + 2 * 28;
    // ID; AUTH; SA with SPI, cipher and sequence numbers; two TS. Outside: header, payload, vector, length of filling, tag.
    let auth = (8 + 24) + (8 + 32) + (4 + 8 + 4 + 12 + 8) + 2 * 24;
    let sealed = |content: u64| 28 + 4 + 8 + content + 1 + 16;
    assert_eq!(
        messages(&shared.connect(ENDS)),
        [
            ("IKE_SA_INIT", CLIENT, init),
            ("IKE_SA_INIT answer", SERVER, init),
            ("IKE_AUTH", CLIENT, sealed(auth)),
            ("IKE_AUTH answer", SERVER, sealed(auth)),
        ]
    );
    // A cookie is one more round, and no key is used for it.
    let loaded = Ipsec { cookie: 1.0, ..shared }.connect(ENDS);
    assert_eq!(messages(&loaded[..1]), [("IKE_SA_INIT", CLIENT, init), ("cookie", SERVER, 28 + 8 + 36)]);
    // RFC 7296 section 2.6: the second has it in front of all else, and section 2.15: that one is what a code or signature is over.
    let cookie = 8 + 36;
    assert_eq!(messages(&loaded[1..])[0], ("IKE_SA_INIT", CLIENT, init + cookie));
    let coded = |phases: &[Phase]| lines(phases).into_iter().find(|it| it.name == "codeIdentity").unwrap().bytes;
    assert_eq!(coded(&loaded), coded(&shared.connect(ENDS)) + cookie);
    let often = Ipsec { cookie: 0.5, ..shared }.connect(ENDS);
    assert_eq!(messages(&often[1..])[0], ("IKE_SA_INIT", CLIENT, init + cookie / 2), "the mean of both");
    assert_eq!(count(&loaded[..1], SERVER, "agree") + count(&loaded[..1], CLIENT, "generate"), 0);
    assert_eq!(count(&loaded[..1], SERVER, "hash sha-256"), 2);
    // Certificates go both ways, each with the signature of an authority; where none is above it, they are as long.
    let certified = messages(&Ipsec { certificates: 1, ..signed(Key::Rsa(2048)) }.connect(ENDS));
    assert_eq!(certified, messages(&signed(Key::Rsa(2048)).connect(ENDS)));
    // ID; CERT; AUTH with the name of its algorithm and how long that is (RFC 7427); SA; two TS. The initiator's wish for a certificate
    // goes here, the responder's with IKE_SA_INIT (CERTREQ); both tell their hashes there.
    for (key, certificate, algorithm, signature) in
        [(Key::Rsa(2048), 869, 15, 256), (Key::Ecdsa(256), 473, 12, 71), (Key::Ed25519, 409, 7, 64)]
    {
        let (wish, hashes) = (5 + 20, 8 + 6);
        let init = 28 + (4 + 8 + 12 + 8 + 8) + (8 + 32) + (4 + 32) + 2 * 28 + hashes;
        let proof = (5 + certificate) + (8 + 1 + algorithm + signature);
        let auth = (8 + 24) + proof + (4 + 8 + 4 + 12 + 8) + 2 * 24;
        assert_eq!(
            messages(&signed(key).connect(ENDS)),
            [
                ("IKE_SA_INIT", CLIENT, init),
                ("IKE_SA_INIT answer", SERVER, init + wish),
                ("IKE_AUTH", CLIENT, sealed(auth + wish)),
                ("IKE_AUTH answer", SERVER, sealed(auth)),
            ],
            "{key}"
        );
    }
    // In UDP for ESP's sake a marker stands in front, once the port has changed.
    let translated = messages(&Ipsec { translated: true, ..shared }.connect(ENDS));
    assert_eq!((translated[1].2, translated[3].2), (init, sealed(auth) + 4));
}

/// Section 2.8: renewed keys of ESP have a key exchange of their own, or not; those of IKE always. What was replaced is deleted.
#[test]
fn renewals_are_exchanges_without_signatures() {
    let usual = signed(Key::Rsa(2048));
    for (fresh_keys, ike_renewed, agreed) in [(true, 0.0, 1), (false, 0.0, 0), (true, 1.0, 2), (false, 1.0, 1)] {
        let phases = Ipsec { fresh_keys, ike_renewed, ..usual }.renew(ENDS);
        for by in [CLIENT, SERVER] {
            assert_eq!(count(&phases, by, "agree x25519"), agreed, "{fresh_keys} {ike_renewed} {by:?}");
            assert_eq!(count(&phases, by, "generate x25519"), agreed, "{fresh_keys} {ike_renewed} {by:?}");
            assert_eq!((private(&phases, by), count(&phases, by, "verify rsa")), (0, 0));
        }
        assert_eq!(messages(&phases).len(), if ike_renewed > 0.0 { 8 } else { 4 });
        assert!(phases.iter().all(|phase| phase.per == Per::Renewal));
    }
    let sometimes = lines(&Ipsec { ike_renewed: 0.25, ..usual }.renew(ENDS)[1..]);
    assert!(sometimes.iter().all(|line| (line.probability - 0.25).abs() < 1e-12));
}

/// Payloads of sections 3.3 to 3.13 and 1.3.3: REKEY_SA, SA with the group, nonce, KE, two TS; the answer names nothing that it replaces.
/// What was replaced is deleted by its SPI, which IKE's own has not.
#[test]
fn messages_of_renewals_are_as_long_as_their_payloads() {
    let sealed = |content: u64| 28 + 4 + 8 + content + 1 + 16;
    let esp = (4 + 8 + 4 + 12 + 8 + 8) + (4 + 32) + (8 + 32) + 2 * 24;
    let ike = (4 + 8 + 8 + 12 + 8 + 8) + (4 + 32) + (8 + 32);
    let phases = Ipsec { ike_renewed: 1.0, ..signed(Key::Rsa(2048)) }.renew(ENDS);
    assert_eq!(
        messages(&phases),
        [
            ("CREATE_CHILD_SA", CLIENT, sealed(8 + 4 + esp)),
            ("CREATE_CHILD_SA answer", SERVER, sealed(esp)),
            ("INFORMATIONAL", CLIENT, sealed(8 + 4)),
            ("INFORMATIONAL answer", SERVER, sealed(8 + 4)),
            ("CREATE_CHILD_SA", CLIENT, sealed(ike)),
            ("CREATE_CHILD_SA answer", SERVER, sealed(ike)),
            ("INFORMATIONAL", CLIENT, sealed(8)),
            ("INFORMATIONAL answer", SERVER, sealed(0)),
        ]
    );
}

/// RFC 7296 sections 1.4.1 and 3.11: a Delete payload of eight bytes that has no SPI takes the keys of IKE and all that came of them; the
/// answer is empty. WireGuard has no message for its end.
#[test]
fn a_tunnel_of_ipsec_is_deleted_and_one_of_wireguard_is_forgotten() {
    for (ipsec, vector, around) in [
        (signed(Key::Rsa(2048)), 8, 1 + 16),
        (Ipsec { translated: true, ..signed(Key::Ed25519) }, 8, 1 + 16 + 4),
        // Filled up to blocks of 16.
        (Ipsec { cipher: "aes-256-cbc", ..signed(Key::Rsa(2048)) }, 16, 16),
    ] {
        let closed = Protocol::Ipsec(ipsec).disconnect();
        let names: Vec<_> = closed.iter().map(|phase| (phase.name, phase.per)).collect();
        assert_eq!(names, [("IKE closed", Per::Connection)]);
        let sealed = |content: u64| match vector {
            8 => 28 + 4 + 8 + content + around,
            _ => 28 + 4 + 16 + 16 + around,
        };
        let sent = [("INFORMATIONAL", CLIENT, sealed(8)), ("INFORMATIONAL answer", SERVER, sealed(0))];
        assert_eq!(messages(&closed), sent, "{ipsec:?}");
        for by in [CLIENT, SERVER] {
            assert_eq!((private(&closed, by), count(&closed, by, "derive"), count(&closed, by, "agree")), (0, 0, 0));
            let (sealed, opened) = (count(&closed, by, "encrypt"), count(&closed, by, "decrypt"));
            assert_eq!((sealed, opened), (1, 1), "{ipsec:?} {by:?}");
        }
    }
    assert_eq!(Protocol::WireGuard(WireGuard::default()).disconnect(), []);
}

/// The weakest of keys, group and cipher decides; packets are encrypted and authenticated with every cipher.
#[test]
fn strength_is_that_of_the_weakest_part() {
    let strength = |ipsec| Protocol::Ipsec(ipsec).strength();
    let strong = Ipsec { group: Group::EcdhP384, cipher: "aes-256-gcm", ..signed(Key::Ecdsa(384)) };
    for (ipsec, bits) in [
        (strong, 192),
        (Ipsec { group: Group::X25519, ..strong }, 128),
        (Ipsec { group: Group::Modp2048, ..strong }, 112),
        (Ipsec { cipher: "aes-128-gcm", ..strong }, 128),
        // HMAC-SHA256 with 128 bits of code.
        (Ipsec { cipher: "aes-256-cbc", ..strong }, 128),
        (Ipsec { auth: Auth::Signature(Key::Ecdsa(384), Key::Rsa(2048)), ..strong }, 112),
        (Ipsec { auth: Auth::Shared, ..strong }, 192),
    ] {
        assert_eq!(strength(ipsec), bits, "{ipsec:?}");
        assert_eq!(Protocol::Ipsec(ipsec).mode(), Mode::SignAndEncrypt);
    }
    assert_eq!(Protocol::WireGuard(WireGuard::default()).strength(), 128);
    assert_eq!(Protocol::Ipsec(signed(Key::Rsa(4096))).keys(), [Key::Rsa(4096), Key::Rsa(4096)]);
}

/// The tables of the reference are what the library has.
#[test]
fn the_reference_shows_what_is_done() {
    let reference = include_str!("../../../../docs/reference/cost-model.md");
    let wireguard = WireGuard { cookie: 1.0, ..WireGuard::default() };
    let ipsec = Ipsec { cookie: 1.0, ike_renewed: 1.0, ..signed(Key::Ecdsa(256)) };
    let shared = Ipsec { cipher: "aes-128-cbc", ..Ipsec::new(Auth::Shared) }.connect(ENDS);
    let mut phases = wireguard.connect(ENDS);
    phases.extend([ipsec.connect(ENDS), ipsec.renew(ENDS), vec![ipsec.disconnect(ENDS)]].concat());
    phases.extend(shared.into_iter().filter(|phase| phase.name == "IKE_AUTH"));
    let table = table(&phases);
    assert!(reference.contains(&table), "the table is\n{table}");
}
