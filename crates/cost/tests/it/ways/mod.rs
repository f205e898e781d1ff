//! Every way to annotate one thing of a small application, as texts: connector `c` from `x` to `y`, `l` from `x` to an authority,
//! attributes `v` and `w`, an engine `h`. What they are put into is left to who asks.

use std::fmt::Write;
use std::sync::OnceLock;

use cost::Class;
use cost::protocol::capability::Path;
use cost::protocol::ipsec::Group;
use cost::protocol::opcua::Policy;
use cost::read::{Language, read};

/// A way to annotate something: lines that must be there, and lines that are left out where they would have no effect
/// or do not fit. In them stand `REUSE`, `RENEWED` and `VALID`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    needs: String,
    pub(crate) may: Vec<String>,
}

impl Way {
    fn new(property: &str, on: &str, needs: &str) -> Self {
        Self { needs: format!("[[secure]]\nproperty = \"{property}\"\non = \"{on}\"\n{needs}\n"), may: Vec::new() }
    }

    fn may(mut self, lines: &[&str]) -> Self {
        self.may.extend(lines.iter().map(|line| (*line).to_owned()));
        self
    }

    /// The tunnel around all else.
    fn around(self) -> Self {
        Self { needs: self.needs.replace("secure-channel", "secure-tunnel"), ..self }
    }

    /// What the reader takes of it behind `base` where it is filled like that, with its places still open.
    pub(crate) fn taken(&self, base: &str, filled: &Filled) -> String {
        let mut may = self.may.clone();
        loop {
            let open = format!("{}{}\n", self.needs, may.join("\n"));
            let text = filled.fill(&open);
            let Err(fault) = read(&format!("{base}{text}"), Language::Toml) else { return open };
            assert!(matches!(fault.class, Class::NoEffect | Class::Invalid), "{fault}\n{base}{text}");
            let key = |line: &String| format!("`{}`", line.split(" =").next().unwrap_or(line));
            let vain = may.iter().position(|line| fault.why.contains(&key(line)));
            may.remove(vain.unwrap_or_else(|| panic!("{fault}\n{base}{text}")));
        }
    }
}

/// What stands in the open places of a way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    pub(crate) reuse: f64,
    pub(crate) renewed: f64,
    pub(crate) valid: f64,
}

impl Filled {
    pub(crate) fn fill(&self, text: &str) -> String {
        let Self { reuse, renewed, valid } = self;
        // A life is what is done once in it, turned round.
        let life = 1.0 / renewed.max(1e-300);
        [("REUSE", *reuse), ("RENEWED", *renewed), ("VALID", *valid), ("LIFE", life)]
            .into_iter()
            .fold(text.to_owned(), |text, (open, number)| text.replace(open, &format!("{number:?}")))
    }
}

pub(crate) const USUAL: Filled = Filled { reuse: 0.5, renewed: 0.2, valid: 1.0 };

pub(crate) const ENGINE: &str = "engine = \"h\"";
const SIGNATURES: [&str; 8] =
    ["rsa-2048", "rsa-4096", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ed25519", "hmac-sha256", "hmac-sha384"];
const CIPHERS: [&str; 12] = [
    "aes-128-cbc",
    "aes-192-cbc",
    "aes-256-cbc",
    "aes-128-ctr",
    "aes-256-ctr",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
    "chacha20-poly1305",
    "rsa-1024-oaep-sha1",
    "rsa-2048-oaep-sha256",
    "rsa-3072-pkcs1",
];
const AEAD: [&str; 3] = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];
const USERS: [&str; 7] =
    ["anonymous", "password", "certificate", "request-access-token", "start-finish", "explicit", "oauth2"];

/// Confidentiality of the connector, signatures of what the other end returns and of both ends, channels, and tunnels around all of it,
/// in [`ways`].
pub(crate) const CIPHER: usize = 0;
pub(crate) const OF_W: usize = 2;
pub(crate) const PEERS: [usize; 2] = [4, 5];
pub(crate) const CERTIFIED: usize = 6;
pub(crate) const CHANNEL: usize = 7;
pub(crate) const TUNNEL: usize = 8;

/// All ways, those for one thing together, in the order of the numbers above.
pub(crate) fn ways() -> &'static [Vec<Way>] {
    static WAYS: OnceLock<Vec<Vec<Way>>> = OnceLock::new();
    WAYS.get_or_init(|| {
        let hashes = ["sha-256", "sha-1", "sha-384", "sha-512"].into_iter().cycle();
        let signed = |property: &str, on: &str, more: &[&str]| -> Vec<Way> {
            let way = |(key, hash)| {
                let way = Way::new(property, on, &format!("signature = \"{key}\""));
                way.may(&[&format!("hash = \"{hash}\""), ENGINE]).may(more)
            };
            SIGNATURES.into_iter().zip(hashes.clone()).map(way).collect()
        };
        let ciphers = CIPHERS.map(|cipher| {
            let way = Way::new("data-confidentiality", "connector c", &format!("cipher = \"{cipher}\"\nreuse = REUSE"));
            way.may(&["exchange = \"rsa-1024\"", "trusted = VALID", "known = 0.5", ENGINE])
        });
        let certified = |(key, issuer): (&str, &str)| {
            let needs = format!("signature = \"{key}\"\nlife = LIFE\nthrough = \"l\"\ntrusted = VALID");
            let way = Way::new("certified-key", "component x", &needs);
            way.may(&[&format!("issuer = \"{issuer}\""), "hash = \"sha-512\"", ENGINE])
        };
        let pairs = ["rsa-2048", "ecdsa-p384", "ed25519", "ed448"].into_iter();
        let pairs = pairs.zip(["rsa-4096", "rsa-2048", "ed25519", "ecdsa-p256"]);
        vec![
            ciphers.to_vec(),
            signed("data-integrity", "attribute v", &["valid = VALID"]),
            signed("data-integrity", "attribute w", &["valid = VALID"]),
            signed("data-origin-authentication", "attribute v", &[]),
            signed("peer-entity-authentication", "component x", &["valid = VALID", "reuse = REUSE"]),
            signed("peer-entity-authentication", "component y", &["valid = VALID", "reuse = REUSE"]),
            pairs.map(certified).collect(),
            [opcua(), tls(), capability(), tunnels()].concat(),
            tunnels().into_iter().map(Way::around).collect(),
        ]
    })
}

/// A channel that may be there, whose keys may be due.
fn channel(needs: &str) -> Way {
    let way = Way::new("secure-channel", "connector c", &format!("reuse = REUSE\n{needs}"));
    way.may(&["renewed = RENEWED", "valid = VALID", ENGINE])
}

fn opcua() -> Vec<Way> {
    let mut ways = Vec::new();
    for policy in Policy::ALL {
        let bare = policy == Policy::None;
        let modes: &[&str] = if bare { &["none"] } else { &["sign", "sign-and-encrypt"] };
        for mode in modes {
            for (nth, user) in USERS.into_iter().enumerate() {
                let token = nth > 2;
                // A token has no place on a channel without a policy, and one that only signs would show it.
                if token && bare {
                    continue;
                }
                let (word, twice) = (policy.word(), *mode == "sign" || nth % 2 == 0);
                let mut needs =
                    format!("protocol = \"opc-ua\"\npolicy = \"{word}\"\nmode = \"{mode}\"\nuser = \"{user}\"");
                if !bare && !word.starts_with("ECC") {
                    needs.push_str("\nkey = \"rsa-2048\"");
                }
                if !token {
                    ways.push(channel(&needs));
                    continue;
                }
                let encryption = if twice { "twice" } else { "channel" };
                let _ = write!(needs, "\nlogin = \"l\"\nrefreshed = RENEWED\ntoken_encryption = \"{encryption}\"");
                let way = channel(&needs).may(&["life = LIFE", "token_refresh = \"refresh-token\""]);
                ways.push(if nth % 3 == 0 { way.may(&["authority_session = \"each-time\""]) } else { way });
            }
        }
    }
    ways
}

fn tls() -> Vec<Way> {
    let mut ways = Vec::new();
    for cipher in AEAD {
        for (group, key) in [("x25519", "client_key = \"ed25519\""), ("ecdh-p256", "certificates = 3")] {
            let needs = format!(
                "protocol = \"tls-1.3\"\nkey = \"ecdsa-p384\"\ncipher = \"{cipher}\"\ngroup = \"{group}\"\n{key}"
            );
            ways.push(channel(&format!("{needs}\nresumed = 0.4")));
        }
    }
    ways
}

fn capability() -> Vec<Way> {
    let mut ways = Vec::new();
    for path in Path::ALL {
        let seals: &[&str] = if path == Path::Stateless {
            &["hmac-sha256"]
        } else {
            &["hmac-sha256", "chacha20-poly1305", "aes-128-gcm"]
        };
        for seal in seals {
            let needs = format!("protocol = \"capability\"\npath = \"{}\"\nseal = \"{seal}\"", path.word());
            let way = channel(&needs).may(&["fresh_keys = true", "life = LIFE"]);
            ways.push(way.clone());
            ways.push(way.may(&["cached = 0.5", "caveats = 2", "identity = 3", "data_signature = \"ed25519\""]));
        }
    }
    ways
}

fn tunnels() -> Vec<Way> {
    let mut ways: Vec<Way> = ["kept", "each-time"]
        .map(|secret| channel(&format!("protocol = \"wireguard\"\nstatic_secret = \"{secret}\"\ncookie = 0.3")))
        .to_vec();
    let ciphers = AEAD.into_iter().chain(["aes-128-cbc", "aes-256-cbc"]);
    for (nth, (cipher, group)) in ciphers.zip(Group::ALL).enumerate() {
        let prf = ["hmac-sha256", "hmac-sha384"][nth % 2];
        for auth in ["auth = \"shared-key\"", "key = \"rsa-2048\"\nclient_key = \"ecdsa-p256\""] {
            let needs = format!(
                "protocol = \"ipsec\"\n{auth}\ncipher = \"{cipher}\"\ngroup = \"{}\"\nprf = \"{prf}\"",
                group.word()
            );
            ways.push(channel(&needs).may(&[
                "cookie = 0.2",
                "ike_renewed = 1",
                "translated = true",
                "fresh_keys = false",
            ]));
        }
    }
    ways
}
