//! Every parameter of an annotation: where it changes something it is read, and the net is another one; where it changes nothing it is
//! refused by name.

use std::fmt::Write;

use cost::net::{document, lay};
use cost::read::{Language, read};
use cost::{Class, Model, print, solve, weave};

/// `sent` is returned and carried, `kept` only returned, `given` only carried, as is `other`, which is not whose component sends it.
const MODEL: &str = r#"
[workload]
clients = 1
[node.n]
platform = "p"
[node.hsm]
platform = "p"
[component.a]
node = "n"
credentials = "1 kB"
[component.b]
node = "n"
[component.c]
node = "n"
[connector.wire]
from = "a"
to = "b"
rate = "1 MB/s"
[connector.login]
from = "a"
to = "c"
rate = "1 MB/s"
[attribute.sent]
of = "a"
[attribute.kept]
of = "a"
[attribute.given]
of = "a"
[attribute.other]
of = "c"
[[sequence.main]]
do = "make"
by = "a"
time = "1 ms"
returns = "sent"
[[sequence.main]]
do = "keep"
by = "a"
time = "1 ms"
returns = "kept"
[[sequence.main]]
send = "give"
over = "wire"
carries = ["sent", "given", "other"]
"#;

fn secured(annotation: &str) -> String {
    format!("{MODEL}[[secure]]\n{annotation}\n")
}

/// The net, with another price for each operation.
fn net(text: &str) -> String {
    let mut text = text.to_owned();
    loop {
        let model = read(&text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        match lay(&weave(&model)) {
            Ok(laid) => return document(&laid, &solve::questions(&laid)).to_string(),
            Err(fault) => {
                assert_eq!(fault.class, Class::NoPrice, "{fault}");
                let each: u32 = fault.name.bytes().zip(1..).map(|(byte, at)| u32::from(byte) * at).sum();
                let _ = write!(text, "[price.p.\"{}\"]\neach = \"{each} us\"\nper_kb = \"{each} us\"\n", fault.name);
            }
        }
    }
}

/// Whether this changes something beside that.
fn check(annotation: &str, parameter: &str, counts: bool) {
    let (key, _) = parameter.split_once(" =").expect("a key and its value");
    let text = secured(&format!("{annotation}\n{parameter}"));
    let rule = format!("{annotation}\n{parameter}");
    if counts {
        assert!(net(&text) != net(&secured(annotation)), "{rule}");
        let read =
            |text: &str, language| -> Model { read(text, language).unwrap_or_else(|fault| panic!("{fault}\n{text}")) };
        let printed = print::annotated(&read(&text, Language::Toml));
        assert_eq!(print::annotated(&read(&printed, Language::Mermaid)), printed, "{rule}");
    } else {
        let fault = read(&text, Language::Toml).expect_err(&rule);
        assert_eq!(fault.class, Class::NoEffect, "{fault}\n{rule}");
        assert!(fault.why.contains(&format!("`{key}`")), "{fault}\n{rule}");
    }
}

#[test]
fn parameters_of_mechanisms() {
    let secret = "property = \"data-confidentiality\"\non = \"connector wire\"";
    let (shared, some) =
        ("cipher = \"aes-256-gcm\"\nreuse = 1", "cipher = \"aes-256-gcm\"\nexchange = \"rsa-2048\"\nreuse = 0.5");
    let (rsa, always) =
        ("cipher = \"rsa-2048-oaep-sha256\"\nreuse = 0.5", "cipher = \"rsa-2048-oaep-sha256\"\nreuse = 1");
    for (words, parameter, counts) in [
        (shared, "exchange = \"rsa-2048\"", false),
        (rsa, "exchange = \"rsa-2048\"", false),
        (some, "known = 0.5", true),
        (shared, "known = 0.5", false),
        (rsa, "known = 0.5", false),
        (&format!("{some}\nknown = 0.5"), "trusted = 0.5", true),
        (some, "trusted = 0.5", false),
        (shared, "trusted = 0.5", false),
        (rsa, "trusted = 0.5", true),
        (always, "trusted = 0.5", false),
        (some, "engine = \"hsm\"", true),
        (shared, "engine = \"hsm\"", false),
        (always, "engine = \"hsm\"", true),
    ] {
        check(&format!("{secret}\n{words}"), parameter, counts);
    }
    let signature = "signature = \"rsa-2048\"";
    let of = |attribute: &str| format!("property = \"data-integrity\"\non = \"attribute {attribute}\"\n{signature}");
    let origin = |attribute: &str| of(attribute).replace("data-integrity", "data-origin-authentication");
    let peer = format!("property = \"peer-entity-authentication\"\non = \"component a\"\n{signature}");
    let key = format!("property = \"certified-key\"\non = \"component a\"\n{signature}\nlife = 9\nthrough = \"login\"");
    let (hash, valid, engine) = ("hash = \"sha-384\"", "valid = 0.5", "engine = \"hsm\"");
    for (annotation, parameter, counts) in [
        (of("sent"), hash, true),
        (of("given"), hash, true),
        (of("sent"), valid, true),
        (of("kept"), valid, false),
        (of("given"), valid, true),
        (of("kept"), engine, true),
        (of("given"), engine, true),
        (of("other"), valid, true),
        (of("other"), engine, false),
        (origin("sent"), hash, true),
        (origin("kept"), engine, true),
        (peer.clone(), hash, true),
        (peer.clone(), valid, true),
        (peer.clone(), engine, true),
        (peer.clone(), "reuse = 0.5", true),
        (format!("{peer}\nreuse = 1"), hash, false),
        (format!("{peer}\nreuse = 1"), valid, false),
        (format!("{peer}\nreuse = 1"), engine, false),
        (format!("{peer}\nreuse = [1, 0.5]"), "optional = true", true),
        (key.clone(), hash, true),
        (key.clone(), "issuer = \"rsa-4096\"", true),
        (key.clone(), "trusted = 0.5", true),
        (key, engine, true),
    ] {
        // `optional` makes one way more, and weaving takes the first.
        if parameter.starts_with("optional") {
            let ways = |text: &str| read(text, Language::Toml).unwrap().annotations[0].alternatives.len();
            assert_eq!(ways(&secured(&format!("{annotation}\n{parameter}"))), ways(&secured(&annotation)) + 1);
            continue;
        }
        check(&annotation, parameter, counts);
    }
}

#[test]
fn parameters_of_channels() {
    let opcua = "protocol = \"opc-ua\"\npolicy = \"Basic256Sha256\"\nkey = \"rsa-2048\"";
    let bare = "protocol = \"opc-ua\"\npolicy = \"None\"";
    let token = &format!("{opcua}\nuser = \"start-finish\"\nlogin = \"login\"");
    let tls = "protocol = \"tls-1.3\"\nkey = \"rsa-2048\"";
    let device = "protocol = \"capability\"\npath = \"challenge\"";
    let guard = "protocol = \"wireguard\"";
    let ipsec = "protocol = \"ipsec\"\nkey = \"rsa-2048\"";
    let shared = "protocol = \"ipsec\"\nauth = \"shared-key\"";
    for (words, parameter, connecting, kept) in [
        (opcua, "mode = \"sign\"", true, true),
        (opcua, "user = \"password\"", true, false),
        (opcua, "certificates = 2", true, false),
        (opcua, "discovery = false", true, false),
        (opcua, "endpoints = 9", true, false),
        (opcua, "valid = 0.5", true, true),
        (bare, "valid = 0.5", false, false),
        (opcua, "engine = \"hsm\"", true, false),
        (bare, "engine = \"hsm\"", false, false),
        (token, "token = \"9 kB\"", true, false),
        (token, "token_encryption = \"twice\"", true, false),
        (token, "authority_session = \"each-time\"", true, false),
        (token, "token_refresh = \"refresh-token\"", false, false),
        (token, "authority_policy = \"Aes128_Sha256_RsaOaep\"", true, false),
        // Messages to the authority are the same, and the session there is kept.
        (token, "authority_policy = \"Aes256_Sha256_RsaPss\"", false, false),
        (tls, "group = \"ecdh-p256\"", true, false),
        (tls, "cipher = \"chacha20-poly1305\"", true, true),
        (tls, "certificates = 3", true, false),
        (tls, "resumed = 0.5", true, false),
        (tls, "valid = 0.5", false, false),
        (tls, "engine = \"hsm\"", true, false),
        (device, "frames = 5", true, false),
        (device, "caveats = 2", true, false),
        (device, "identity = 2", true, false),
        (device, "fresh_keys = true", true, false),
        (device, "cached = 0.5", true, false),
        (device, "seal = \"aes-128-gcm\"", true, true),
        (device, "data_signature = \"ed25519\"", true, true),
        (guard, "cookie = 0.5", true, false),
        (guard, "static_secret = \"each-time\"", true, false),
        (guard, "valid = 0.5", false, false),
        (ipsec, "group = \"ecdh-p384\"", true, false),
        (ipsec, "prf = \"hmac-sha384\"", true, false),
        (ipsec, "cipher = \"aes-128-cbc\"", true, true),
        (ipsec, "fresh_keys = false", false, false),
        (ipsec, "ike_renewed = 0.5", false, false),
        (ipsec, "certificates = 3", true, false),
        (shared, "engine = \"hsm\"", false, false),
    ] {
        for (reuse, counts) in [("0.5", connecting), ("1", kept)] {
            let annotation =
                format!("property = \"secure-channel\"\non = \"connector wire\"\nreuse = {reuse}\n{words}");
            check(&annotation, parameter, counts);
        }
    }
    // What only renewals heed counts where there are some.
    for (words, parameter) in [
        (format!("{token}\nrefreshed = 0.5"), "token_refresh = \"refresh-token\""),
        (format!("{ipsec}\nrenewed = 0.5"), "fresh_keys = false"),
        (format!("{ipsec}\nrenewed = 0.5"), "ike_renewed = 0.5"),
        (format!("{ipsec}\nrenewed = 0.5"), "group = \"ecdh-p384\""),
        (format!("{opcua}\nrenewed = 0.5"), "engine = \"hsm\""),
        (format!("{guard}\nrenewed = 0.5"), "cookie = 0.5"),
        (format!("{guard}\nrenewed = 0.5"), "static_secret = \"each-time\""),
    ] {
        check(&format!("property = \"secure-channel\"\non = \"connector wire\"\nreuse = 1\n{words}"), parameter, true);
    }
}

/// What stands there anyway may be said, too, and what counts in one way of several.
#[test]
fn what_is_usual_may_be_said() {
    let secret = "property = \"data-confidentiality\"\non = \"connector wire\"\ncipher = \"aes-256-gcm\"\n";
    let channel = "property = \"secure-channel\"\non = \"connector wire\"\nreuse = 1\n";
    for annotation in [
        format!("{secret}reuse = 1\nknown = 1\ntrusted = 1"),
        format!("{secret}exchange = \"rsa-2048\"\nreuse = [1, 0.5]\nknown = 0.5\ntrusted = 0.5\nengine = \"hsm\""),
        "property = \"peer-entity-authentication\"\non = \"component a\"\nsignature = \"ed25519\"\nhash = [\"sha-256\", \"sha-384\"]\nvalid = 0.5\nreuse = [1, 0]".to_owned(),
        format!("{channel}protocol = \"tls-1.3\"\nkey = \"rsa-2048\"\ngroup = \"x25519\"\nresumed = 0\nvalid = 1"),
        format!("{channel}protocol = [\"ipsec\", \"opc-ua\"]\npolicy = \"None\"\nkey = \"rsa-2048\"\ncipher = [\"aes-128-cbc\", \"aes-128-gcm\"]\nvalid = 0.5"),
    ] {
        let model = read(&secured(&annotation), Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{annotation}"));
        let printed = print::annotated(&model);
        let again = read(&printed, Language::Mermaid).unwrap_or_else(|fault| panic!("{fault}\n{printed}"));
        assert_eq!(again.annotations[0].alternatives, model.annotations[0].alternatives, "{printed}");
    }
}
