//! Security as a partial order: what is protected, how, with how strong a key. Two settings may be such that neither is more secure; no
//! score is made up to decide between them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::algorithm::{Cipher, Key};
use crate::model::{Annotation, Model, Property, Setting};
use crate::protocol::Protocol;
use crate::protocol::capability::Path;
use crate::protocol::ipsec::Auth;
use crate::protocol::opcua::User;
use crate::{Class, Fault};

/// How much of what is annotated must be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Optional annotations may be left out.
    #[default]
    None,
    /// Integrity, origin and peers are protected wherever it is annotated.
    Sign,
    /// Confidentiality, too.
    SignAndEncrypt,
}

/// The least security.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Minimum {
    /// How much of what is annotated must be done.
    pub mode: Mode,
    /// Bits of strength (NIST SP 800-57) of everything that is annotated; what is left out has none.
    pub strength: Option<u32>,
    /// Bits of each RSA key; what is left out is below any.
    pub rsa: Option<u32>,
    /// A level that the model declares: all its demands, and those of the levels below.
    pub level: Option<u32>,
}

/// A constraint that nobody could judge is refused.
pub(super) fn check(minimum: &Minimum, model: &Model) -> Result<(), Fault> {
    let Some(level) = minimum.level else { return Ok(()) };
    if model.levels.contains_key(&level) {
        return Ok(());
    }
    let known: Vec<String> = model.levels.keys().map(ToString::to_string).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let why = format!("the model does not say what level {level} demands: `[level.{level}]`; known: {known}");
    Err(Fault::new(Class::NoSuchName, "level", why))
}

/// Why a setting is below the minimum, one sentence each: the constraint, what is wanted, what there is.
pub(super) fn below(minimum: &Minimum, model: &Model, ways: &[usize]) -> Vec<(&'static str, f64, Option<f64>, String)> {
    let mut below = Vec::new();
    // Whoever asks for a strength asks for protection; a level of the model says by its mode what must be done.
    for (constraint, wanted, bits) in
        [("min-strength", minimum.strength, "bits"), ("min-rsa", minimum.rsa, "bits of RSA")]
    {
        let Some(wanted) = wanted.filter(|wanted| *wanted > 0) else { continue };
        for (it, way) in model.annotations.iter().zip(ways) {
            let does = match way_of(it, *way).map(|setting| &setting.agreed) {
                None => "is left out",
                // Its strength is 0, which is said below.
                Some(Some(agreed)) if constraint == "min-rsa" && agreed.protocol.mode() == Mode::None => {
                    "protects nothing"
                }
                Some(_) => continue,
            };
            let why = format!("{} {does}, and {wanted} {bits} are wanted", about(it, model));
            below.push((constraint, f64::from(wanted), Some(0.0), why));
        }
    }
    demands("min-mode", minimum.mode, minimum.strength, minimum.rsa, model, ways, &mut below);
    let levels = minimum.level.map(|most| model.levels.range(..=most)).into_iter().flatten();
    for (_, level) in levels {
        demands("min-level", level.mode, level.strength, level.rsa, model, ways, &mut below);
    }
    below
}

fn about(annotation: &Annotation, model: &Model) -> String {
    format!("{} on {}", annotation.property.word(), model.target(annotation))
}

/// What is done, unless it is left out.
fn way_of(annotation: &Annotation, way: usize) -> Option<&Setting> {
    annotation.alternatives.get(way)?.as_ref()
}

fn demands(
    mode_name: &'static str,
    mode: Mode,
    strength: Option<u32>,
    rsa: Option<u32>,
    model: &Model,
    ways: &[usize],
    below: &mut Vec<(&'static str, f64, Option<f64>, String)>,
) {
    let level = mode_name == "min-level";
    for (annotation, way) in model.annotations.iter().zip(ways) {
        let about = about(annotation, model);
        let Some(setting) = way_of(annotation, *way) else {
            let needed = match annotation.property {
                Property::DataConfidentiality => Mode::SignAndEncrypt,
                _ => Mode::Sign,
            };
            if mode >= needed {
                below.push((mode_name, 1.0, Some(0.0), format!("{about} is left out")));
            }
            continue;
        };
        if let Some(agreed) = &setting.agreed
            && agreed.protocol.mode() < mode
        {
            let does = match agreed.protocol.mode() {
                Mode::None => "protects nothing",
                Mode::Sign => "only signs",
                Mode::SignAndEncrypt => "signs and encrypts",
            };
            let wanted = if mode == Mode::Sign { "signing" } else { "encryption" };
            below.push((
                mode_name,
                1.0,
                Some(0.0),
                format!("{about} {does} with this setting, and {wanted} is wanted"),
            ));
        }
        if let Some(wanted) = strength
            && of(setting) < wanted
        {
            let name = if level { mode_name } else { "min-strength" };
            let why = format!("{about} has a strength of {} bits, and {wanted} are wanted", of(setting));
            below.push((name, f64::from(wanted), Some(f64::from(of(setting))), why));
        }
        for bits in rsa_keys(setting) {
            if let Some(wanted) = rsa.filter(|wanted| bits < *wanted) {
                let name = if level { mode_name } else { "min-rsa" };
                let why = format!("{about} has an RSA key of {bits} bits, and {wanted} are wanted");
                below.push((name, f64::from(wanted), Some(f64::from(bits)), why));
            }
        }
    }
}

/// The strength of the weakest part of what is done.
pub(super) fn strength(model: &Model, ways: &[usize]) -> Option<u32> {
    let settings = model.annotations.iter().zip(ways).filter_map(|(it, way)| it.alternatives.get(*way)?.as_ref());
    settings.map(of).min()
}

fn of(setting: &Setting) -> u32 {
    if let Some(agreed) = &setting.agreed {
        return agreed.protocol.strength();
    }
    let cipher = setting.cipher.as_ref().map(Cipher::strength);
    // Who never agrees on a key here does so elsewhere.
    let exchange = setting.exchange.filter(|_| setting.reuse < 1.0).map(Key::strength);
    // A collision of the hash forges a signature, and the code of a shared key as well: it is of the digest.
    let hash = setting.signature.map(|_| match setting.hash {
        crate::algorithm::Hash::Sha1 => 0,
        hash => hash.bytes() * 4,
    });
    let signature = setting.signature.map(Key::strength);
    // Who can make the issuer's signature makes certificates.
    let issuer = setting.certified.and_then(|certified| certified.issuer).map(Key::strength);
    [cipher, exchange, hash, signature, issuer].into_iter().flatten().min().unwrap_or(0)
}

fn rsa_keys(setting: &Setting) -> Vec<u32> {
    let cipher = match &setting.cipher {
        Some(Cipher::Asymmetric { key, .. }) => Some(*key),
        _ => None,
    };
    let agreed = setting.agreed.iter().flat_map(|agreed| agreed.protocol.keys());
    let certified = setting.certified.and_then(|certified| certified.issuer);
    let keys = [cipher, setting.exchange, setting.signature, certified].into_iter().flatten().chain(agreed);
    keys.filter(|key| matches!(key, Key::Rsa(_))).map(Key::bits).collect()
}

/// What of a way counts beside other ways of its annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    strength: u32,
    /// The shortest RSA key; without one nothing is short.
    rsa: u32,
    mode: Option<Mode>,
    authenticated: bool,
    /// How it is proven who somebody is: of two ways neither is more secure, but of one and of [`NOBODY`].
    proof: u8,
    /// Whether keys are agreed on anew, so that who comes to know one later reads nothing from before.
    fresh: bool,
    /// Whether there is something more: a signature on the data of a device, a token that is encrypted for its server.
    more: bool,
}

/// The proof of who proves nothing.
const NOBODY: u8 = 0;

/// What of a protocol counts besides strength and mode: see [`Rank`].
const fn proven(protocol: &Protocol) -> (u8, bool, bool) {
    match protocol {
        Protocol::OpcUa(it) => match &it.user {
            User::Anonymous => (NOBODY, false, false),
            User::Password(_) => (1, false, false),
            User::Certificate(_) => (2, false, false),
            User::Token(tokens) => (3, false, tokens.encrypted),
        },
        Protocol::Tls(it) => (if it.client.is_some() { 1 } else { NOBODY }, it.fresh_keys, false),
        Protocol::Capability(it) => {
            let path = match it.path {
                Path::Challenge => 1,
                Path::Counter => 2,
                Path::Stateless => 3,
            };
            (path, it.fresh_keys, it.signature.is_some())
        }
        // Both prove that they have a key of their own, and agree on new ones each time.
        Protocol::WireGuard(_) => (1, true, false),
        Protocol::Ipsec(it) => (if matches!(it.auth, Auth::Signature(..)) { 1 } else { 2 }, it.fresh_keys, false),
    }
}

impl Rank {
    fn of(setting: &Setting) -> Self {
        let (proof, fresh, more) =
            setting.agreed.as_ref().map_or((NOBODY, false, false), |agreed| proven(&agreed.protocol));
        Self {
            proof,
            fresh,
            more,
            strength: of(setting),
            rsa: rsa_keys(setting).into_iter().min().unwrap_or(u32::MAX),
            mode: setting.agreed.as_ref().map(|agreed| agreed.protocol.mode()),
            authenticated: matches!(setting.cipher, Some(Cipher::Symmetric { authenticated: true, .. })),
        }
    }

    /// As strong, with RSA keys as long, authenticated if the other is, with the same proof or any where the other has none, and with keys as fresh.
    fn covers(self, other: Self) -> bool {
        self.strength >= other.strength
            && self.rsa >= other.rsa
            && self.mode >= other.mode
            && self.authenticated >= other.authenticated
            && (self.proof == other.proof || other.proof == NOBODY)
            && self.fresh >= other.fresh
            && self.more >= other.more
    }
}

/// The partial order of the settings of a model.
pub(super) struct Order {
    /// Of each annotation and each of its ways; none where it is left out.
    ranks: Vec<Vec<Option<Rank>>>,
    /// In the same way, of how many ways it is at least as secure.
    covered: Vec<Vec<usize>>,
}

impl Order {
    pub(super) fn of(model: &Model) -> Self {
        let ranks = |it: &Annotation| it.alternatives.iter().map(|way| way.as_ref().map(Rank::of)).collect();
        let ranks: Vec<Vec<Option<Rank>>> = model.annotations.iter().map(ranks).collect();
        let covered = |ranks: &Vec<Option<Rank>>| {
            // There are few sorts of ways, however many ways there are.
            let mut sorts: BTreeMap<Option<Rank>, usize> = BTreeMap::new();
            ranks.iter().for_each(|rank| *sorts.entry(*rank).or_default() += 1);
            let count = |one: Option<Rank>| -> usize {
                sorts.iter().filter(|(other, _)| way_covers(one, **other)).map(|(_, count)| count).sum()
            };
            let counts: BTreeMap<Option<Rank>, usize> = sorts.keys().map(|rank| (*rank, count(*rank))).collect();
            ranks.iter().map(|rank| counts.get(rank).copied().unwrap_or(0)).collect()
        };
        let covered = ranks.iter().map(covered).collect();
        Self { ranks, covered }
    }

    /// Whether one setting is at least as secure as another in every annotation.
    pub(super) fn at_least(&self, one: &[usize], other: &[usize]) -> bool {
        self.ranks.iter().zip(one.iter().zip(other)).all(|(ranks, (one, other))| {
            let ways = (ranks.get(*one), ranks.get(*other));
            one == other || matches!(ways, (Some(one), Some(other)) if way_covers(*one, *other))
        })
    }

    /// Of how many ways those of a setting are at least as secure, all annotations together. Where one setting is more secure than another
    /// it is more; of two of which neither is, it says nothing.
    pub(super) fn covered(&self, ways: &[usize]) -> usize {
        self.covered.iter().zip(ways).filter_map(|(of, way)| of.get(*way)).sum()
    }
}

fn way_covers(one: Option<Rank>, other: Option<Rank>) -> bool {
    match (one, other) {
        (_, None) => true,
        (Some(one), Some(other)) => one.covers(other),
        (None, Some(_)) => false,
    }
}

/// What is done of each annotation that has several ways where nothing is chosen, in words.
pub(crate) fn first(model: &Model) -> Vec<String> {
    let ways = vec![0; model.annotations.len()];
    let words = words(model, &ways).into_iter().zip(&model.annotations);
    words.filter(|(_, annotation)| annotation.alternatives.len() > 1).map(|(words, _)| words).collect()
}

/// What each annotation does, in words; only what differs between its ways.
pub(super) fn words(model: &Model, ways: &[usize]) -> Vec<String> {
    let targets: Vec<String> = model.annotations.iter().map(|it| model.target(it)).collect();
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    targets.iter().for_each(|target| *counts.entry(target).or_default() += 1);
    let word = |(index, (annotation, way)): (usize, (&Annotation, &usize))| {
        let target = &targets[index];
        let alone = counts.get(target) == Some(&1);
        let about = match annotation.property {
            Property::SecureTunnel => format!("tunnel on {target}"),
            _ if alone => target.clone(),
            property => format!("{} of {target}", property.word()),
        };
        match annotation.alternatives.get(*way).and_then(Option::as_ref) {
            None => format!("{about}: none"),
            Some(it) => {
                let cipher = it.cipher.as_ref().map(ToString::to_string);
                let signature = it.signature.map(|key| key.to_string());
                let hash = it.signature.map(|_| it.hash.to_string());
                let exchange = it.exchange.map(|key| format!("exchange {key}"));
                let reuse = (it.reuse > 0.0).then(|| format!("reuse {}", it.reuse));
                let agreed = it.agreed.as_ref().map(|agreed| agreed.to_string());
                let all: Vec<String> =
                    [agreed, cipher, signature, hash, exchange, reuse].into_iter().flatten().collect();
                format!("{about}: {}", all.join(" "))
            }
        }
    };
    model.annotations.iter().zip(ways).enumerate().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Language, read};

    /// Which ways of an annotation are at least as secure as which, by their words.
    fn order(property: &str, lists: &str) -> Vec<(String, String)> {
        let text = format!(
            "[workload]\nclients = 1\n[node.a]\nplatform = \"p\"\n[component.c]\nnode = \"a\"\n[component.s]\nnode = \"a\"\n[connector.w]\nfrom = \"c\"\nto = \"s\"\n\
             latency = \"1 ms\"\n[[sequence.main]]\nsend = \"m\"\nover = \"w\"\nbytes = \"100 B\"\n[[secure]]\nproperty = \"{property}\"\non = \"connector w\"\n\
             reuse = \"90 %\"\n{lists}\n"
        );
        let model = read(&text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}"));
        let (order, count) = (Order::of(&model), model.annotations[0].alternatives.len());
        let called = |way: usize| words(&model, &[way]).join("; ");
        let pairs = (0..count).flat_map(|one| (0..count).map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| one != other && order.at_least(&[*one], &[*other]))
            .map(|(one, other)| (called(one), called(other)))
            .collect()
    }

    /// Ways to prove who somebody is are more secure than none and not than each other; keys that are agreed on anew are more secure.
    #[test]
    fn who_proves_less_does_not_beat_who_proves_more() {
        let says = |of: &(String, String), one: &str, other: &str| of.0.contains(one) && of.1.contains(other);
        let opcua = "protocol = \"opc-ua\"\npolicy = \"Basic256Sha256\"\nkey = \"rsa-2048\"\n";
        let users = order("secure-channel", &format!("{opcua}user = [\"anonymous\", \"certificate\", \"password\"]"));
        assert!(users.iter().all(|of| of.1.contains("anonymous")) && users.len() == 2, "{users:?}");
        let ipsec = "protocol = \"ipsec\"\nkey = \"ed25519\"\nrenewed = 0.1\n";
        let auth = order("secure-tunnel", &format!("{ipsec}auth = [\"signature\", \"shared-key\"]"));
        assert!(auth.is_empty(), "{auth:?}");
        let fresh = order("secure-tunnel", &format!("{ipsec}auth = \"signature\"\nfresh_keys = [false, true]"));
        assert!(fresh.len() == 1 && says(&fresh[0], "fresh_keys=true", "fresh_keys=false"), "{fresh:?}");
        let paths =
            order("secure-channel", "protocol = \"capability\"\npath = [\"challenge\", \"counter\", \"stateless\"]");
        assert!(paths.is_empty(), "{paths:?}");
    }
}
