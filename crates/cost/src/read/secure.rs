//! Annotations: what should be secured, with all the ways that lists of values make.

use std::collections::{BTreeMap, BTreeSet};

use super::channel;
use super::check::{self, Known};
use super::fields::{Fields, Word};
use super::heeded::{Heeded, Told};
use crate::algorithm::{Cipher, Hash, Key};
use crate::model::{Annotation, Certified, Connector, Property, Setting};
use crate::{Class, Fault, quantity};

/// Ways that one annotation may have.
const MAX_WAYS: usize = 100_000;

/// What is asked for instead of a configuration where no annotation is to count.
const NO_ANNOTATION: &str = "none";

/// Reads one annotation.
pub(super) fn annotation(mut fields: Fields, known: &Known, connectors: &[Connector]) -> Result<Annotation, Fault> {
    let line = fields.line();
    let word = fields.need("property")?;
    let Some(property) = Property::ALL.into_iter().find(|it| it.word() == word.text) else {
        let all: Vec<&str> = Property::ALL.iter().map(|it| it.word()).collect();
        let why = format!("`property` is `{}`; known: {}", word.text, all.join(", "));
        return Err(fields.fault(Class::Unknown, word.line, why));
    };
    let on = target(&mut fields, property, known)?;
    let configurations = configurations(&mut fields)?;
    let optional = fields.value("optional", "`true` or `false`", |text| text.parse::<bool>().ok())?.unwrap_or(false);
    let mut alternatives = match property {
        Property::SecureChannel => channel::settings(&mut fields, known, connectors, on, &channel::PROTOCOLS)?,
        Property::SecureTunnel => channel::settings(&mut fields, known, connectors, on, &channel::TUNNELS)?,
        Property::CertifiedKey => certified(&mut fields, known, connectors, on)?,
        _ => settings(&mut fields, property, known)?,
    };
    fields.end()?;
    if optional {
        alternatives.push(None);
    }
    Ok(Annotation { property, on, alternatives, configurations, line })
}

/// The configurations that it belongs to. A comma separates them in every language, also inside of one value: UML has attributes, in
/// which a list is one text.
fn configurations(fields: &mut Fields) -> Result<Vec<String>, Fault> {
    let Some((values, line)) = fields.list("in") else { return Ok(Vec::new()) };
    if values.is_empty() {
        let why = "`in` is an empty list: without it the annotation belongs to all configurations";
        return Err(fields.fault(Class::Missing, line, why));
    }
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for name in values.iter().flat_map(|value| value.split(',')).map(str::trim) {
        if name.is_empty() {
            let why = "a configuration has no name: a comma stands between two of them";
            return Err(fields.fault(Class::Missing, line, why));
        }
        check::printable("configuration", name, line)?;
        if name == NO_ANNOTATION {
            let why = "no configuration is called `none`: asked for by that name, no annotation counts";
            return Err(fields.fault(Class::Invalid, line, why));
        }
        if !seen.insert(name) {
            return Err(fields.fault(Class::Doubled, line, format!("the configuration `{name}` stands twice")));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// That no name is made of others: `SC1 SC2`, meant as two, would be a third, and the annotation would be in neither.
///
/// # Errors
/// [`Class::Invalid`] for the first such name.
pub(super) fn apart(annotations: &[Annotation]) -> Result<(), Fault> {
    let names: BTreeSet<&str> = annotations.iter().flat_map(|it| &it.configurations).map(String::as_str).collect();
    for annotation in annotations {
        for name in &annotation.configurations {
            let mut words = name.split_whitespace().filter(|word| *word != name);
            let Some(word) = words.find(|word| names.contains(word)) else { continue };
            let listed = name.split_whitespace().collect::<Vec<_>>().join(",");
            let why = format!(
                "`{name}` is the name of one configuration, and `{word}` of another: a comma separates them, `{listed}`, and a name of \
                 several words is made of no other's"
            );
            return Err(Fault::new(Class::Invalid, "secure", why).at(annotation.line));
        }
    }
    Ok(())
}

/// `on = "connector upload"`.
fn target(fields: &mut Fields, property: Property, known: &Known) -> Result<usize, Fault> {
    let on = fields.need("on")?;
    let wanted = property.of();
    let Some((sort, name)) = on.text.split_once(' ') else {
        let why = format!("`on` is `{}`: what and its name, such as `{wanted} x`, are wanted", on.text);
        return Err(fields.fault(Class::Invalid, on.line, why));
    };
    if sort != wanted {
        let why = format!("{} goes with `{wanted} ..`, and this is `{sort} ..`", property.word());
        return Err(fields.fault(Class::Invalid, on.line, why));
    }
    let names = match property {
        Property::DataConfidentiality | Property::SecureChannel | Property::SecureTunnel => &known.connectors,
        Property::DataIntegrity | Property::DataOriginAuthentication => &known.attributes,
        Property::PeerEntityAuthentication | Property::CertifiedKey => &known.components,
    };
    // As it is, for a name that has a space at an end.
    let exact = names.find(fields, &Word { text: name.to_owned(), line: on.line });
    exact.or_else(|_| names.find(fields, &Word { text: name.trim().to_owned(), line: on.line }))
}

/// Every way that the lists make, in the order in which they are written; the first of each list comes first.
fn settings(fields: &mut Fields, property: Property, known: &Known) -> Result<Vec<Option<Setting>>, Fault> {
    let encrypts = property == Property::DataConfidentiality;
    let ciphers =
        many(fields, "cipher", encrypts, "a cipher such as `aes-256-gcm` or `rsa-2048-oaep-sha256`", Cipher::read)?;
    let signatures = many(fields, "signature", !encrypts, "a key such as `rsa-2048` or `ecdsa-p256`", Key::read)?;
    let hashes = many(fields, "hash", !encrypts, "a hash such as `sha-256`", Hash::read)?;
    let exchanges = many(fields, "exchange", encrypts, "an RSA key such as `rsa-2048`", |text| {
        Key::read(text).filter(|key| matches!(key, Key::Rsa(_)))
    })?;
    let reuses = many(fields, "reuse", property.heeds("reuse"), "a probability", quantity::share)?;
    let mut heeded = |key: &'static str| match (fields.share(key)?, property.heeds(key)) {
        (Some(_), false) => Err(fields.fault(Class::Unknown, 0, format!("`{key}` says nothing about this property"))),
        (share, _) => Ok(share.unwrap_or(1.0)),
    };
    let (known_certificates, trusted, valid) = (heeded("known")?, heeded("trusted")?, heeded("valid")?);
    let engine = fields.word("engine")?.map(|it| known.nodes.find(fields, &it)).transpose()?;
    demands(fields, property, &ciphers, &signatures, &exchanges, &reuses)?;
    let heeds = |cipher: Option<&Cipher>, reuse: Option<&f64>| Heeded::of(property, cipher, reuse, known_certificates);
    let of = |cipher| maybe(&reuses).into_iter().map(move |reuse| heeds(cipher, reuse));
    let ways: Vec<Heeded> = maybe(&ciphers).into_iter().flat_map(of).collect();
    let (exchange, hashed) = (!exchanges.is_empty(), hashes.as_slice());
    let told = Told { exchange, known: known_certificates, trusted, valid, hashes: hashed, engine: engine.is_some() };
    if let Some((key, why)) = told.in_vain(&ways) {
        return Err(fields.fault(Class::NoEffect, 0, format!("`{key}` has no effect: {why}")));
    }

    let count = [ciphers.len(), signatures.len(), hashes.len(), exchanges.len(), reuses.len()];
    let count = count.iter().fold(1_usize, |all, list| all.saturating_mul((*list).max(1)));
    if count > MAX_WAYS {
        let why = format!("its lists make {count} ways: at most {MAX_WAYS}");
        return Err(fields.fault(Class::TooLarge, 0, why));
    }
    let mut settings = Vec::with_capacity(count);
    for cipher in maybe(&ciphers) {
        for signature in maybe(&signatures) {
            for (first, hash) in maybe(&hashes).into_iter().enumerate() {
                for (nth, exchange) in maybe(&exchanges).into_iter().enumerate() {
                    for reuse in maybe(&reuses) {
                        let heeded = heeds(cipher, reuse);
                        // Ways that differ in what never happens are one.
                        if (!heeded.exchange && nth > 0) || (!heeded.hash && first > 0) {
                            continue;
                        }
                        let share = |heeded: bool, share: f64| if heeded { share } else { 1.0 };
                        settings.push(Some(Setting {
                            cipher: cipher.cloned(),
                            signature: signature.copied(),
                            hash: hash.copied().unwrap_or(Hash::Sha256),
                            exchange: exchange.copied().filter(|_| heeded.exchange),
                            reuse: reuse.copied().unwrap_or(0.0),
                            known: share(heeded.known, known_certificates),
                            trusted: share(heeded.trusted, trusted),
                            valid: share(heeded.valid, valid),
                            engine: engine.filter(|_| heeded.engine),
                            ..Setting::NOTHING
                        }));
                    }
                }
            }
        }
    }
    Ok(settings)
}

/// A key pair and its certificate: every way that the lists of keys make.
fn certified(
    fields: &mut Fields,
    known: &Known,
    connectors: &[Connector],
    on: usize,
) -> Result<Vec<Option<Setting>>, Fault> {
    let wanted = "a key pair such as `rsa-2048` or `ecdsa-p256`";
    let pair = |text: &str| Key::read(text).filter(|key| !matches!(key, Key::Hmac(_)));
    let keys = many(fields, "signature", true, wanted, pair)?;
    let hash = fields.value("hash", "a hash such as `sha-256`", Hash::read)?.unwrap_or(Hash::Sha256);
    let issuer = fields.value("issuer", wanted, pair)?;
    let trusted = fields.share("trusted")?.unwrap_or(1.0);
    let life = fields.value("life", LIFE, life)?;
    let engine = fields.word("engine")?.map(|it| known.nodes.find(fields, &it)).transpose()?;
    let through = fields.need("through")?;
    let line = through.line;
    let through = known.connectors.find(fields, &through)?;
    let connector = &connectors[through];
    let missing = |why: &str| Err(fields.fault(Class::MissingAnnotation, 0, why));
    let Some(life) = life else { return missing("`life` is missing: how many requests does a key live?") };
    if keys.is_empty() {
        return missing("`signature` is missing: what key pair is made?");
    }
    if connector.from != on && connector.to != on {
        let why =
            format!("`{}` does not end at the component: who certifies its key is at the other end", connector.name);
        return Err(fields.fault(Class::NoSuchName, line, why));
    }
    let way = |key: Key| {
        let certified = Some(Certified { life, through, issuer });
        Some(Setting { signature: Some(key), hash, trusted, engine, certified, ..Setting::NOTHING })
    };
    Ok(keys.into_iter().map(way).collect())
}

pub(super) const LIFE: &str = "a number of requests, at least 1,";

/// Requests in a life.
pub(super) fn life(text: &str) -> Option<f64> {
    quantity::number(text).filter(|life| *life >= 1.0)
}

/// What a property cannot do without.
fn demands(
    fields: &Fields,
    property: Property,
    ciphers: &[Cipher],
    signatures: &[Key],
    exchanges: &[Key],
    reuses: &[f64],
) -> Result<(), Fault> {
    let missing = |why: &str| Err(fields.fault(Class::MissingAnnotation, 0, why));
    if property == Property::DataConfidentiality {
        if ciphers.is_empty() {
            return missing("`cipher` is missing: with what is it encrypted?");
        }
        if reuses.is_empty() {
            return missing(
                "`reuse` is missing: how probable is it that the key, or the receiver's certificate, is there already?",
            );
        }
        let symmetric = ciphers.iter().any(|cipher| matches!(cipher, Cipher::Symmetric { .. }));
        if symmetric && exchanges.is_empty() && reuses.iter().any(|reuse| *reuse < 1.0) {
            return missing("`exchange` is missing: which key pairs agree on a key when none is shared?");
        }
    } else if signatures.is_empty() {
        return missing("`signature` is missing: with what is it signed?");
    }
    Ok(())
}

fn maybe<T>(list: &[T]) -> Vec<Option<&T>> {
    if list.is_empty() { vec![None] } else { list.iter().map(Some).collect() }
}

pub(super) fn many<T: PartialEq>(
    fields: &mut Fields,
    key: &'static str,
    allowed: bool,
    wanted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Fault> {
    let Some((values, line)) = fields.list(key) else { return Ok(Vec::new()) };
    if !allowed {
        return Err(fields.fault(Class::Unknown, line, format!("`{key}` says nothing about this property")));
    }
    if values.is_empty() {
        return Err(fields.fault(Class::Missing, line, format!("`{key}` is an empty list")));
    }
    let mut found = Vec::with_capacity(values.len());
    for text in &values {
        let why = || format!("`{key}` is `{text}`: {wanted} is wanted");
        let value = read(text).ok_or_else(|| fields.fault(Class::Invalid, line, why()))?;
        // Each would be a setting of its own, and the same.
        if found.contains(&value) {
            return Err(fields.fault(Class::Doubled, line, format!("`{key}` has `{text}` twice")));
        }
        found.push(value);
    }
    Ok(found)
}

/// One annotation of a sort for one thing in one configuration.
pub(super) fn once(annotations: &[Annotation]) -> Result<(), Fault> {
    // The configurations of each; without any it is in all of them.
    let mut seen: BTreeMap<(Property, usize), BTreeSet<&str>> = BTreeMap::new();
    for annotation in annotations {
        let seen = seen.entry((annotation.property, annotation.on)).or_default();
        let clash = if annotation.configurations.is_empty() {
            !seen.is_empty() || !seen.insert("")
        } else {
            annotation.configurations.iter().any(|it| seen.contains("") || !seen.insert(it))
        };
        if clash {
            let why = "the same property is asked for the same thing twice in one configuration";
            return Err(Fault::new(Class::Doubled, annotation.property.word(), why).at(annotation.line));
        }
    }
    Ok(())
}
