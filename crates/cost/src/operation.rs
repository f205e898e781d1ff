//! Names of operations: what a price can be of. Mechanisms and protocols ask for no others, so a price of another name would count nowhere.
//! Left out: what steps of calibrations are called that no mechanism asks for, since other versions of this program measure others.

use crate::algorithm::{Cipher, Key, SYMMETRIC, Scheme};

/// Whole names: what the product does, what costs nothing unless somebody says so, and steps that set parameters.
const NAMES: [&str; 28] = [
    "check rights",
    "read token",
    "check password",
    "look up account",
    "decide",
    "write journal",
    "append audit",
    "read capability",
    "send message",
    "receive message",
    "random",
    "keep counter",
    "judge caveat",
    "setKeyType",
    "setKeyLength",
    "generateSKey",
    "checkEntityInfo",
    "generateCertificate",
    "setAlgorithmType",
    "setPaddingScheme",
    "setAlgorithmMode",
    "extractAlgorithmType",
    "extractKeyLength",
    "generateKey",
    "checkNonce",
    "combineKeys",
    "setHashFunction",
    "verifyDigitSign",
];
const HASHES: [&str; 5] = ["sha-1", "sha-256", "sha-384", "sha-512", "blake2s"];
/// What signs beside the keys of signatures: codes that only protocols have.
const CODES: [&str; 2] = ["blake2s-mac", "chacha20-poly1305"];
const GROUPS: [&str; 5] = ["x25519", "ecdh-p256", "ecdh-p384", "modp-2048", "modp-3072"];
const DERIVED: [&str; 6] =
    ["p-sha256", "hkdf-sha256", "hkdf-sha384", "hkdf-blake2s", "prf-hmac-sha256", "prf-hmac-sha384"];
const VERBS: [&str; 8] = ["hash", "sign", "verify", "encrypt", "decrypt", "generate", "agree", "derive"];
/// Lengths of RSA that are usual.
const RSA: [u32; 4] = [1_024, 2_048, 3_072, 4_096];
const PAIRS: [&str; 5] = ["ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ed25519", "ed448"];
const SHARED: [&str; 2] = ["hmac-sha256", "hmac-sha384"];
const XCHACHA: &str = "xchacha20-poly1305";
/// Letters in which a name differs at most from the one that was meant.
const NEAR: usize = 3;
/// The same, of a name that something else may have.
const VERY_NEAR: usize = 2;
/// A longer name is near to none.
const LONGEST: usize = 60;

/// Whether a mechanism or protocol may ask for an operation of this name.
#[must_use]
pub fn known(name: &str) -> bool {
    if NAMES.contains(&name) {
        return true;
    }
    let Some((verb, algorithm)) = name.split_once(' ') else { return false };
    // Written as it is printed: `rsa-02048` is never asked for.
    let key = Key::read(algorithm).filter(|key| key.to_string() == algorithm);
    match verb {
        "hash" => HASHES.contains(&algorithm),
        "sign" | "verify" => key.is_some() || CODES.contains(&algorithm) || pss(algorithm),
        "encrypt" | "decrypt" => {
            let cipher = Cipher::read(algorithm).is_some_and(|it| it.step() == algorithm);
            cipher || algorithm == XCHACHA || matches!(key, Some(Key::Rsa(_)))
        }
        "generate" => GROUPS.contains(&algorithm) || key.is_some_and(|key| !matches!(key, Key::Hmac(_))),
        "agree" => GROUPS.contains(&algorithm),
        "derive" => DERIVED.contains(&algorithm),
        _ => false,
    }
}

/// RSA with PSS, which has a name of its own.
fn pss(algorithm: &str) -> bool {
    let key = algorithm.strip_suffix("-pss").and_then(Key::read);
    key.is_some_and(|key| matches!(key, Key::Rsa(_)) && Scheme { key, pss: true }.to_string() == algorithm)
}

/// Every name; of RSA with the usual lengths.
#[must_use]
pub fn names() -> Vec<String> {
    all("")
}

/// Why there is no price of this name, and which names may have been meant.
pub(crate) fn unknown(name: &str) -> String {
    let listed = |names: &[String]| names.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    // Of OAEP with SHA-1 prices have no word beside the key.
    let short = name.strip_suffix("-oaep-sha1").filter(|short| known(short));
    let near = short.map_or_else(|| nearest(name, NEAR), |short| vec![short.to_owned()]);
    let verb = name.split(' ').next().unwrap_or_default();
    let own: Vec<String> = all(name).into_iter().filter(|it| it.split(' ').next() == Some(verb)).collect();
    let meant = match (near.as_slice(), own.is_empty()) {
        ([], true) => format!("names begin with {}, or are those of the product", listed(&VERBS.map(str::to_owned))),
        ([], false) => format!("known with `{verb}`: {}", listed(&own)),
        (near, _) => format!("nearest: {}", listed(near)),
    };
    format!("no mechanism asks for an operation `{name}`, so a price of it counts nowhere; {meant}")
}

/// Names that this one is a slip of, if it is none itself: so near that nobody would call something else like this.
#[must_use]
pub fn slip(name: &str) -> Vec<String> {
    if known(name) { Vec::new() } else { nearest(name, VERY_NEAR) }
}

/// The names that differ from this one in the fewest letters, left out, put in, changed or in each other's place, and in no more than so
/// many.
fn nearest(name: &str, most: usize) -> Vec<String> {
    let said = name.to_lowercase();
    if said.chars().count() > LONGEST {
        return Vec::new();
    }
    let far = |known: &String| strsim::osa_distance(&said, &known.to_lowercase());
    let all: Vec<(usize, String)> = all(name).into_iter().map(|known| (far(&known), known)).collect();
    let least = all.iter().map(|(far, _)| *far).min().filter(|least| *least <= most);
    all.into_iter().filter(|(far, _)| Some(*far) == least).map(|(_, known)| known).collect()
}

/// Every name, of RSA with the usual lengths and with the number that stands in `said`.
fn all(said: &str) -> Vec<String> {
    let digits = said.split(|letter: char| !letter.is_ascii_digit()).find(|digits| digits.len() > 2);
    let bits = digits.and_then(|digits| digits.parse().ok()).filter(|bits| !RSA.contains(bits));
    let rsa: Vec<String> = RSA.into_iter().chain(bits).map(|bits| Key::Rsa(bits).to_string()).collect();
    let with = |ends: &[&str]| {
        rsa.iter().flat_map(|key| ends.iter().map(move |end| format!("{key}{end}"))).collect::<Vec<String>>()
    };
    let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<String>>();
    let of = |verb: &str, algorithms: &[Vec<String>]| {
        algorithms.iter().flatten().map(|algorithm| format!("{verb} {algorithm}")).collect::<Vec<String>>()
    };
    let signs = [with(&["", "-pss"]), words(&PAIRS), words(&SHARED), words(&CODES)];
    let ciphers: Vec<&str> = SYMMETRIC.iter().map(|(name, ..)| *name).chain([XCHACHA]).collect();
    let seals = [words(&ciphers), with(&["", "-oaep-sha256", "-pkcs1"])];
    let all = [
        words(&NAMES),
        of("hash", &[words(&HASHES)]),
        of("sign", &signs),
        of("verify", &signs),
        of("encrypt", &seals),
        of("decrypt", &seals),
        of("generate", &[with(&[""]), words(&PAIRS), words(&GROUPS)]),
        of("agree", &[words(&GROUPS)]),
        of("derive", &[words(&DERIVED)]),
    ];
    let known = |name: &String| known(name);
    all.into_iter().flatten().filter(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_suggested_are_known() {
        let all = all("sign rsa-2560");
        assert!(all.contains(&"sign rsa-2560-pss".to_owned()) && all.contains(&"decrypt rsa-2560-pkcs1".to_owned()));
        assert_eq!(all.len(), super::all("").len() + 11, "a length of RSA has eleven names: {all:?}");
        for name in NAMES {
            assert!(all.contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn what_is_no_name_is_not_known() {
        for (name, near) in [
            ("sing rsa-2048", Some("sign rsa-2048")),
            ("Sign RSA-2048", Some("sign rsa-2048")),
            ("sign rsa2048", Some("sign rsa-2048")),
            ("sing rsa-2560", Some("sign rsa-2560")),
            ("sign rsa-02048", Some("sign rsa-2048")),
            ("sign  rsa-2048", Some("sign rsa-2048")),
            ("sign aes-256-gcm", None),
            ("sign ed448-pss", None),
            ("hash sha256", Some("hash sha-256")),
            ("hash sha-255", Some("hash sha-256")),
            ("generate hmac-sha256", None),
            ("agree rsa-2048", None),
            ("encrypt aes-256-cbx", Some("encrypt aes-256-cbc")),
            ("check right", Some("check rights")),
            ("setkeylength", Some("setKeyLength")),
            ("prepare", None),
            ("", None),
        ] {
            assert!(!known(name), "{name}");
            let found = nearest(name, NEAR);
            assert_eq!(found.first().map(String::as_str), near, "{name}: {found:?}");
        }
        assert!(nearest(&"sign rsa-2048 ".repeat(100_000), NEAR).is_empty());
    }
}
