//! Authorities that may be given a password or a secret. An endpoint names its authority before anybody has authenticated
//! the server, and a server of the plant may be hostile too: a certificate that is good enough to talk to is not good
//! enough to be told a password.

use std::fmt;
use std::str::FromStr;

use access_model::Thumbprint;
use ua_proto::pki::Certificate;

/// An authority that may be given a password or a secret, known by one of three marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownAuthority {
    /// Its URL, `https://host[:port][/path]` or `opc.tcp://host[:port]`, as endpoints name it. Who answers there is
    /// checked as for any server: the trust list, and the host in the certificate.
    Url(String),
    /// The ApplicationUri in its certificate; for authorities that are OPC UA servers.
    Application(String),
    /// SHA-256 of its certificate (DER).
    Certificate(Thumbprint),
}

/// The text names no authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no authority; write its URL, its ApplicationUri or the SHA-256 of its certificate (64 hex digits)"
)]
pub struct InvalidAuthority(pub String);

impl FromStr for KnownAuthority {
    type Err = InvalidAuthority;

    /// Reads a URL (`https:` or `opc.tcp:`), a thumbprint (64 hex digits, colons between them or not) or any other URI.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Some(thumbprint) = thumbprint(text) {
            return Ok(Self::Certificate(thumbprint));
        }
        let (scheme, rest) = text.split_once(':').ok_or_else(|| InvalidAuthority(text.to_owned()))?;
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each));
        match (scheme.to_ascii_lowercase().as_str(), rest.strip_prefix("//")) {
            ("https" | "opc.tcp", Some(host)) if !host.is_empty() => Ok(Self::Url(text.to_owned())),
            ("https" | "opc.tcp" | "http", _) => Err(InvalidAuthority(text.to_owned())),
            _ if is_scheme && !rest.is_empty() => Ok(Self::Application(text.to_owned())),
            _ => Err(InvalidAuthority(text.to_owned())),
        }
    }
}

impl fmt::Display for KnownAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(text) | Self::Application(text) => f.write_str(text),
            Self::Certificate(thumbprint) => thumbprint.fmt(f),
        }
    }
}

impl KnownAuthority {
    /// Whether this is the authority at `url`.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        let plain = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
        matches!(self, Self::Url(known) if plain(known) == plain(url))
    }

    /// Whether this is the authority with this certificate, of which its possession is still to be proven.
    pub(crate) fn shows(&self, certificate: &Certificate) -> bool {
        match self {
            Self::Url(_) => false,
            Self::Application(uri) => certificate.application_uri() == Some(uri),
            Self::Certificate(thumbprint) => certificate.thumbprint() == *thumbprint,
        }
    }
}

fn thumbprint(text: &str) -> Option<Thumbprint> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(Thumbprint(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_named_by_url_uri_or_thumbprint() {
        let hex = "0aff".repeat(16);
        let colons: Vec<String> =
            hex.as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two).to_uppercase()).collect();
        let certificate = KnownAuthority::Certificate(Thumbprint(std::array::from_fn(|at| [0x0a, 0xff][at % 2])));
        for (text, known) in [
            ("https://as:8443/auth", KnownAuthority::Url("https://as:8443/auth".into())),
            (" opc.tcp://as:4840 ", KnownAuthority::Url("opc.tcp://as:4840".into())),
            ("urn:plant:authority", KnownAuthority::Application("urn:plant:authority".into())),
            (hex.as_str(), certificate.clone()),
            (colons.join(":").as_str(), certificate),
        ] {
            assert_eq!(text.parse(), Ok(known), "{text}");
        }
        for text in ["", "authority", "https:", "https://", "http://as", "opc.tcp:as", &hex[1..], ":x", "a b:c"] {
            assert!(text.parse::<KnownAuthority>().is_err(), "{text}");
        }
    }
}
