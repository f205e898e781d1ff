//! A secure channel: its protocol and parameters, with all the ways that lists of values make.

mod edge;
mod effect;
mod opcua;
mod tunnel;

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::check::Known;
use super::fields::{Fields, Word};
use super::secure::{LIFE, life, many};
use crate::algorithm::Key;
use crate::model::{Agreed, Connector, Setting};
use crate::protocol::opcua::{OpcUa, User};
use crate::protocol::{Phase, Protocol};
use crate::{Class, Fault, quantity};
use effect::{Effects, When};

/// Ways that one annotation may have.
const MAX_WAYS: usize = 100_000;

/// A protocol, as models name it, with the keys that say something about it.
type Keyed = (&'static str, &'static [&'static str]);
pub(super) const PROTOCOLS: [Keyed; 5] = [
    ("opc-ua", opcua::KEYS),
    ("tls-1.3", tunnel::TLS),
    ("capability", edge::KEYS),
    ("wireguard", tunnel::WIREGUARD),
    ("ipsec", tunnel::IPSEC),
];
/// Those that other protocols go through.
pub(super) const TUNNELS: [Keyed; 2] = [("wireguard", tunnel::WIREGUARD), ("ipsec", tunnel::IPSEC)];

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
    among: &[Keyed],
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
    let (connects, refreshes) = (reuses.iter().any(|reuse| *reuse < 1.0), refreshed > 0.0);
    // Of all tokens of a life one is the first.
    let first = |reuse: f64| match (life, 1.0 - reuse + refreshed) {
        (Some(life), tokens) if tokens > 0.0 => f64::min(1.0 / (life * tokens), 1.0),
        _ => 0.0,
    };
    let least = reuses.iter().copied().fold(1.0, f64::min);
    let when = When { connects, renews: renewed > 0.0, refreshes, lives: life.is_some() };
    let (mut ways, mut misfit, mut heard, mut effects) = (Vec::new(), None, BTreeSet::new(), Effects::default());
    for protocol in &protocols {
        let Some((name, keys)) = among.iter().find(|(name, _)| name == protocol) else {
            let known = among.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let why = format!("`protocol` is `{protocol}`; known: {known}");
            return Err(fields.fault(Class::Unknown, line, why));
        };
        let lists: Vec<&Said> = said.iter().filter(|said| keys.contains(&said.key)).collect();
        if *name == "ipsec" {
            tunnel::contradiction(fields, &lists)?;
        }
        for words in product(fields, &lists)? {
            let read = Words { fields, words: &words, valid, first: first(least), asked: RefCell::default() };
            let protocol = read.protocol(name)?;
            heard.extend(read.asked.borrow().iter().copied());
            let protocol = match protocol {
                Ok(protocol) => protocol,
                Err(why) => {
                    misfit.get_or_insert(why);
                    continue;
                }
            };
            if login.is_none() && asks_authority(&protocol) {
                let why = "`login` is missing: over which connector is the authority asked for tokens?";
                return Err(fields.fault(Class::MissingAnnotation, 0, why));
            }
            // What was not asked for says nothing here, as keys of certificates beside a shared key.
            let asked = read.asked.take();
            effects.look(&read, &asked, &protocol, (when, engine.is_some()));
            let told = words.iter().filter(|(key, ..)| asked.contains(key));
            let words = told.map(|(key, value, _)| (*key, (*value).to_owned())).collect();
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
    if let (true, Some(why)) = (ways.is_empty(), misfit) {
        return Err(fields.fault(Class::Invalid, 0, why));
    }
    if let Some(said) = said.iter().find(|said| !heard.contains(said.key)) {
        let why = format!("`{}` says nothing beside what else is said here", said.key);
        return Err(fields.fault(Class::NoEffect, said.line, why));
    }
    let some = |phases: fn(&Protocol) -> Vec<Phase>| ways.iter().any(|way: &Agreed| !phases(&way.protocol).is_empty());
    let (tokens, resumes) = (connects || refreshes, |way: &Agreed| way.protocol.clone().resuming().is_some());
    for (key, counts) in [
        ("renewed", renewed <= 0.0 || some(Protocol::renew)),
        ("refreshed", refreshed <= 0.0 || some(Protocol::refresh)),
        ("life", life.is_none() || some(Protocol::once) || (tokens && ways.iter().any(resumes))),
        ("login", login.is_none() || ways.iter().any(|way| asks_authority(&way.protocol))),
    ] {
        if !counts {
            let why =
                format!("`{key}` says nothing beside what else is said here: there is nothing that it would be about");
            return Err(fields.fault(Class::NoEffect, 0, why));
        }
    }
    if let Some(key) = effects.in_vain().next() {
        let line = said.iter().find(|said| said.key == key).map_or(0, |said| said.line);
        let why = format!("`{key}` has no effect: nothing that requests meet here, as often as is said, depends on it");
        return Err(fields.fault(Class::NoEffect, line, why));
    }
    let setting = |agreed: &Agreed, reuse: f64| {
        let mut agreed = agreed.clone();
        if let Some(tokens) = agreed.protocol.resuming() {
            tokens.first = first(reuse);
        }
        Some(Setting { reuse, valid, engine, agreed: Some(Box::new(agreed)), ..Setting::NOTHING })
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

/// One value for each key. A protocol asks for those only that say something about it.
struct Words<'w> {
    fields: &'w Fields,
    words: &'w [Chosen<'w>],
    valid: f64,
    /// Share of the first tokens of clients among all.
    first: f64,
    /// Keys whose values had a part in the protocol.
    asked: RefCell<BTreeSet<&'static str>>,
}

impl Words<'_> {
    fn value<T>(&self, key: &str, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Fault> {
        let Some((name, text, line)) = self.words.iter().find(|(name, ..)| *name == key) else { return Ok(None) };
        self.asked.borrow_mut().insert(name);
        let why = || format!("`{key}` is `{text}`: {wanted} is wanted");
        read(text).map(Some).ok_or_else(|| self.fields.fault(Class::Invalid, *line, why()))
    }

    fn need<T>(&self, key: &str, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let missing = || self.fields.fault(Class::MissingAnnotation, 0, format!("`{key}` is missing: {wanted}"));
        self.value(key, wanted, read)?.ok_or_else(missing)
    }

    /// A key that a protocol signs with. Ed448 hashes with SHAKE256, which has no price.
    fn pair(&self, key: &str) -> Result<Option<Key>, Fault> {
        let read = |text: &str| Key::read(text).filter(|key| !matches!(key, Key::Hmac(_) | Key::Ed448));
        self.value(key, "a key pair such as `rsa-2048`, `ecdsa-p256` or `ed25519`", read)
    }

    fn count(&self, key: &str) -> Result<Option<u32>, Fault> {
        let read = |text: &str| text.parse().ok().filter(|count| (1..=64).contains(count));
        self.value(key, "a whole number from 1 to 64", read)
    }

    fn truth(&self, key: &str) -> Result<Option<bool>, Fault> {
        self.value(key, "`true` or `false`", |text| text.parse().ok())
    }

    fn share(&self, key: &str) -> Result<Option<f64>, Fault> {
        self.value(key, "a probability", quantity::share)
    }

    /// The protocol when only these words are said of it; none where something is missing then, or does not fit.
    fn without(&self, words: &[Chosen<'_>], name: &str) -> Option<Protocol> {
        let Self { fields, valid, first, .. } = *self;
        let read = Words { fields, words, valid, first, asked: RefCell::default() };
        read.protocol(name).ok()?.ok()
    }

    /// Why not, where what is said does not fit together.
    fn protocol(&self, name: &str) -> Result<Result<Protocol, &'static str>, Fault> {
        match name {
            "opc-ua" => Ok(self.opcua()?.map(Protocol::OpcUa)),
            "capability" => {
                let capability = self.capability()?;
                Ok(capability.misfit().map_or(Ok(Protocol::Capability(capability)), Err))
            }
            "wireguard" => Ok(Ok(Protocol::WireGuard(self.wireguard()?))),
            "ipsec" => Ok(Ok(Protocol::Ipsec(self.ipsec()?))),
            _ => Ok(Ok(Protocol::Tls(self.tls()?))),
        }
    }
}
