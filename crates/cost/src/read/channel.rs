//! A secure channel: its protocol and parameters, with all the ways that lists of values make.

use super::check::Known;
use super::fields::{Fields, Word};
use super::secure::{LIFE, life, many};
use crate::algorithm::{Cipher, Key};
use crate::choose::Mode;
use crate::model::{Agreed, Connector, Setting};
use crate::protocol::Protocol;
use crate::protocol::opcua::{Channel, OpcUa, Policy, User};
use crate::protocol::tls::{Group, Tls};
use crate::protocol::tokens::{Asker, Flow, Tokens};
use crate::{Class, Fault, quantity};

/// Ways that one annotation may have.
const MAX_WAYS: usize = 100_000;
/// Bytes of a password.
const PASSWORD: u64 = 16;

/// A protocol, as models name it, with the keys that say something about it.
const PROTOCOLS: [(&str, &[&str]); 2] = [
    (
        "opc-ua",
        &[
            "policy",
            "mode",
            "key",
            "user",
            "certificates",
            "discovery",
            "endpoints",
            "token",
            "token_key",
            "token_encryption",
            "authority_policy",
            "authority_key",
            "authority_session",
        ],
    ),
    ("tls-1.3", &["key", "client_key", "certificates", "group", "cipher", "resumed"]),
];

/// Every key of every protocol once, in the order in which ways are made of their lists.
fn keys() -> Vec<&'static str> {
    let mut keys: Vec<&'static str> = Vec::new();
    for key in PROTOCOLS.iter().flat_map(|(_, keys)| *keys) {
        if !keys.contains(key) {
            keys.push(key);
        }
    }
    keys
}

/// Values of a key, and its line.
struct Said {
    key: &'static str,
    values: Vec<String>,
    line: usize,
}

/// Every way that the lists make and that fits: a policy takes its own kinds of keys only.
pub(super) fn settings(
    fields: &mut Fields,
    known: &Known,
    connectors: &[Connector],
    on: usize,
) -> Result<Vec<Option<Setting>>, Fault> {
    let Some((protocols, line)) = fields.list("protocol") else {
        return Err(fields.fault(Class::MissingAnnotation, 0, "`protocol` is missing: which is it?"));
    };
    let reuses = many(fields, "reuse", true, "a probability", quantity::share)?;
    if reuses.is_empty() {
        let why = "`reuse` is missing: how probable is it that a request finds a connection?";
        return Err(fields.fault(Class::MissingAnnotation, 0, why));
    }
    let (renewed, refreshed) = (fields.share("renewed")?.unwrap_or(0.0), fields.share("refreshed")?.unwrap_or(0.0));
    let valid = fields.share("valid")?.unwrap_or(1.0);
    let life = fields.value("life", LIFE, life)?;
    let engine = fields.word("engine")?.map(|it| known.nodes.find(fields, &it)).transpose()?;
    let login = fields.word("login")?.map(|it| login(fields, &it, known, connectors, on)).transpose()?;
    let said: Vec<Said> = keys()
        .into_iter()
        .filter_map(|key| fields.list(key).map(|(values, line)| Said { key, values, line }))
        .collect();
    let mut ways = Vec::new();
    for protocol in &protocols {
        let Some((name, keys)) = PROTOCOLS.iter().find(|(name, _)| name == protocol) else {
            let known = PROTOCOLS.map(|(name, _)| name).join(", ");
            let why = format!("`protocol` is `{protocol}`; known: {known}");
            return Err(fields.fault(Class::Unknown, line, why));
        };
        let lists: Vec<&Said> = said.iter().filter(|said| keys.contains(&said.key)).collect();
        for words in product(fields, &lists)? {
            let read = Words { fields, words: &words, valid };
            let Some(protocol) = read.protocol(name)? else { continue };
            if login.is_none() && asks_authority(&protocol) {
                let why = "`login` is missing: over which connector is the authority asked for tokens?";
                return Err(fields.fault(Class::MissingAnnotation, 0, why));
            }
            let words = words.iter().map(|(key, value, _)| (*key, (*value).to_owned())).collect();
            let agreed = Agreed { protocol, renewed, refreshed, life, login, words };
            // Ways that differ in what does not matter to them are one.
            if !ways.iter().any(|other: &Agreed| other.protocol == agreed.protocol) {
                ways.push(agreed);
            }
        }
    }
    if let Some(said) = said.iter().find(|said| {
        !protocols.iter().any(|it| PROTOCOLS.iter().any(|(name, keys)| name == it && keys.contains(&said.key)))
    }) {
        let why = format!("`{}` says nothing about {}", said.key, protocols.join(", "));
        return Err(fields.fault(Class::Unknown, said.line, why));
    }
    if ways.is_empty() {
        let why = "no policy fits its mode and its kind of key: without a policy the mode is `none`, with one it is not; RSA of 2048 \
                   to 4096 bits, `ecdsa-p256` for ECC_nistP256, `ed25519` for ECC_curve25519";
        return Err(fields.fault(Class::Invalid, 0, why));
    }
    let setting = |agreed: &Agreed, reuse: f64| {
        Some(Setting { reuse, valid, engine, agreed: Some(Box::new(agreed.clone())), ..Setting::NOTHING })
    };
    Ok(ways.iter().flat_map(|agreed| reuses.iter().map(move |reuse| setting(agreed, *reuse))).collect())
}

fn asks_authority(protocol: &Protocol) -> bool {
    matches!(protocol, Protocol::OpcUa(OpcUa { user: User::Token(_), .. }))
}

/// The connector to the authority begins where the channel does.
fn login(fields: &Fields, word: &Word, known: &Known, connectors: &[Connector], on: usize) -> Result<usize, Fault> {
    let login = known.connectors.find(fields, word)?;
    if connectors[login].from == connectors[on].from {
        return Ok(login);
    }
    let why = format!("`{}` does not begin at the client, where `{}` does", word.text, connectors[on].name);
    Err(fields.fault(Class::NoSuchName, word.line, why))
}

/// Key, value, line.
type Chosen<'s> = (&'static str, &'s str, usize);

/// Every combination, the first of each list first.
fn product<'s>(fields: &Fields, lists: &[&'s Said]) -> Result<Vec<Vec<Chosen<'s>>>, Fault> {
    let count = lists.iter().fold(1_usize, |all, said| all.saturating_mul(said.values.len()));
    if count > MAX_WAYS {
        return Err(fields.fault(Class::TooLarge, 0, format!("its lists make {count} ways: at most {MAX_WAYS}")));
    }
    if let Some(empty) = lists.iter().find(|said| said.values.is_empty()) {
        return Err(fields.fault(Class::Missing, empty.line, format!("`{}` is an empty list", empty.key)));
    }
    let mut all: Vec<Vec<Chosen<'s>>> = vec![Vec::new()];
    for said in lists {
        let longer = |words: &Vec<Chosen<'s>>, value: &'s String| {
            words.iter().copied().chain([(said.key, value.as_str(), said.line)]).collect()
        };
        all = all.iter().flat_map(|words| said.values.iter().map(move |value| longer(words, value))).collect();
    }
    Ok(all)
}

/// One value for each key.
struct Words<'w> {
    fields: &'w Fields,
    words: &'w [Chosen<'w>],
    valid: f64,
}

impl Words<'_> {
    fn value<T>(&self, key: &str, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Fault> {
        let Some((_, text, line)) = self.words.iter().find(|(name, ..)| *name == key) else { return Ok(None) };
        let why = || format!("`{key}` is `{text}`: {wanted} is wanted");
        read(text).map(Some).ok_or_else(|| self.fields.fault(Class::Invalid, *line, why()))
    }

    fn need<T>(&self, key: &str, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let missing = || self.fields.fault(Class::MissingAnnotation, 0, format!("`{key}` is missing: {wanted}"));
        self.value(key, wanted, read)?.ok_or_else(missing)
    }

    /// The key of one end's certificate.
    fn pair(&self, key: &str) -> Result<Option<Key>, Fault> {
        let read = |text: &str| Key::read(text).filter(|key| !matches!(key, Key::Hmac(_)));
        self.value(key, "a key pair such as `rsa-2048` or `ecdsa-p256`", read)
    }

    fn count(&self, key: &str) -> Result<Option<u32>, Fault> {
        let read = |text: &str| text.parse().ok().filter(|count| (1..=64).contains(count));
        self.value(key, "a whole number from 1 to 64", read)
    }

    /// None where what is said does not fit together.
    fn protocol(&self, name: &str) -> Result<Option<Protocol>, Fault> {
        match name {
            "opc-ua" => Ok(self.opcua()?.map(Protocol::OpcUa)),
            _ => Ok(Some(Protocol::Tls(self.tls()?))),
        }
    }

    fn opcua(&self) -> Result<Option<OpcUa>, Fault> {
        let policies = Policy::ALL.map(Policy::word).join(", ");
        let policy = |text: &str| Policy::ALL.into_iter().find(|policy| policy.word() == text);
        let asked = self.need("policy", &policies, policy)?;
        let mode = self.value("mode", "`none`, `sign` or `sign-and-encrypt`", mode)?;
        let mode = mode.unwrap_or(if asked == Policy::None { Mode::None } else { Mode::SignAndEncrypt });
        let Some(key) = self.pair("key")?.or_else(|| asked.usual()) else {
            let why = "`key` is missing: how long are the keys of the certificates?";
            return Err(self.fields.fault(Class::MissingAnnotation, 0, why));
        };
        // Without a policy no key counts; ways that differ in it are one.
        let key = if asked == Policy::None { Key::Rsa(2048) } else { key };
        let Some(channel) = Channel::new(asked, mode, key) else { return Ok(None) };
        let channel = self.channel(channel)?;
        let user = self.user(&channel)?;
        Ok(user.map(|user| OpcUa { channel, user }))
    }

    fn channel(&self, channel: Channel) -> Result<Channel, Fault> {
        let truth = "`true` or `false`";
        Ok(Channel {
            certificates: self.count("certificates")?.unwrap_or(channel.certificates),
            endpoints: self.count("endpoints")?.unwrap_or(channel.endpoints),
            discovery: self.value("discovery", truth, |text| text.parse().ok())?.unwrap_or(channel.discovery),
            valid: self.valid,
            ..channel
        })
    }

    fn user(&self, channel: &Channel) -> Result<Option<User>, Fault> {
        let users =
            "`anonymous`, `password`, `certificate`, `request-access-token`, `start-finish`, `explicit` or `oauth2`";
        let word = |text: &str| {
            let all =
                ["anonymous", "password", "certificate", "request-access-token", "start-finish", "explicit", "oauth2"];
            all.into_iter().find(|word| *word == text)
        };
        let word = self.value("user", users, word)?.unwrap_or("anonymous");
        let asker = if word == "explicit" { Asker::Explicit(PASSWORD) } else { Asker::Application };
        let flow = match word {
            "anonymous" => return Ok(Some(User::Anonymous)),
            "password" => return Ok(Some(User::Password(PASSWORD))),
            "certificate" => return Ok(Some(User::Certificate(channel.key))),
            "oauth2" => Flow::OAuth2(Tls::new(self.pair("authority_key")?.unwrap_or(channel.key))),
            _ => {
                let Some(authority) = self.authority(channel)? else { return Ok(None) };
                if word == "request-access-token" {
                    Flow::RequestAccessToken(authority)
                } else {
                    Flow::StartFinish(authority)
                }
            }
        };
        let size = |text: &str| quantity::bytes(text).filter(|bytes| bytes.fract() == 0.0 && *bytes <= 262_144.0);
        let bytes = self.value("token", "a whole size up to `256 KiB`", size)?.unwrap_or(1_000.0);
        let key = self.pair("token_key")?.unwrap_or(Key::Ed25519);
        let encryption = |text: &str| Some(text == "twice").filter(|twice| *twice || text == "channel");
        let encrypted = self.value("token_encryption", "`channel` or `twice`", encryption)?.unwrap_or(false);
        let session = |text: &str| Some(text == "kept").filter(|kept| *kept || text == "each-time");
        let kept = self.value("authority_session", "`kept` or `each-time`", session)?.unwrap_or(true);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at just before")]
        let bytes = bytes as u64;
        let tokens = Tokens { flow, asker, bytes, signature: key, encrypted, kept };
        Ok(Some(User::Token(Box::new(tokens))))
    }

    /// The channel to the authority: encrypted, with the policy of the server's unless another is named.
    fn authority(&self, channel: &Channel) -> Result<Option<Channel>, Fault> {
        let wanted = "a security policy with keys";
        let policy = |text: &str| Policy::ALL.into_iter().find(|it| it.word() == text && *it != Policy::None);
        let other = if channel.policy == Policy::None { Policy::Basic256Sha256 } else { channel.policy };
        let policy = self.value("authority_policy", wanted, policy)?.unwrap_or(other);
        let key = self.pair("authority_key")?.or_else(|| Some(channel.key).filter(|key| policy.takes(*key)));
        let Some(key) = key.or_else(|| policy.usual()) else { return Ok(None) };
        let Some(authority) = Channel::new(policy, Mode::SignAndEncrypt, key) else { return Ok(None) };
        Ok(Some(Channel { certificates: channel.certificates, valid: self.valid, ..authority }))
    }

    fn tls(&self) -> Result<Tls, Fault> {
        let Some(key) = self.pair("key")? else {
            let why = "`key` is missing: what key does the server's certificate have?";
            return Err(self.fields.fault(Class::MissingAnnotation, 0, why));
        };
        let usual = Tls::new(key);
        let group = self.value("group", "`x25519` or `ecdh-p256`", |text| {
            [Group::X25519, Group::EcdhP256].into_iter().find(|group| group.word() == text)
        })?;
        let cipher = |text: &str| match Cipher::read(text) {
            Some(Cipher::Symmetric { name, authenticated: true, bits: 128 | 256 }) => Some(name),
            _ => None,
        };
        let wanted = "`aes-128-gcm`, `aes-256-gcm` or `chacha20-poly1305`";
        Ok(Tls {
            client: self.pair("client_key")?,
            certificates: self.count("certificates")?.unwrap_or(usual.certificates),
            group: group.unwrap_or(usual.group),
            cipher: self.value("cipher", wanted, cipher)?.unwrap_or(usual.cipher),
            resumed: self.value("resumed", "a probability", quantity::share)?.unwrap_or(0.0),
            ..usual
        })
    }
}

fn mode(text: &str) -> Option<Mode> {
    match text {
        "none" => Some(Mode::None),
        "sign" => Some(Mode::Sign),
        "sign-and-encrypt" => Some(Mode::SignAndEncrypt),
        _ => None,
    }
}
