//! What is said of TLS, of tunnels of WireGuard and of `IPsec`.

use super::{Said, Words};
use crate::algorithm::Cipher;
use crate::protocol::ipsec::{self, Auth, Ipsec, Prf};
use crate::protocol::tls::{Group, Tls};
use crate::protocol::wireguard::WireGuard;
use crate::read::fields::Fields;
use crate::{Class, Fault};

pub(super) const TLS: &[&str] = &["key", "client_key", "certificates", "group", "cipher", "resumed"];
pub(super) const WIREGUARD: &[&str] = &["cookie", "static_secret", "packet"];
pub(super) const IPSEC: &[&str] = &[
    "auth",
    "key",
    "client_key",
    "certificates",
    "group",
    "prf",
    "cipher",
    "cookie",
    "fresh_keys",
    "ike_renewed",
    "translated",
    "packet",
];

/// Keys of certificates beside a shared key would count for nothing.
pub(super) fn contradiction(fields: &Fields, lists: &[&Said]) -> Result<(), Fault> {
    let shared = |said: &&&Said| said.key == "auth" && said.values.iter().all(|value| value == "shared-key");
    let of_signatures = |said: &&&Said| matches!(said.key, "key" | "client_key" | "certificates");
    let (Some(_), Some(said)) = (lists.iter().find(shared), lists.iter().find(of_signatures)) else { return Ok(()) };
    let why = format!("`{}` says nothing where `auth` is `shared-key`: there are no certificates", said.key);
    Err(fields.fault(Class::Invalid, said.line, why))
}

impl Words<'_> {
    pub(super) fn tls(&self) -> Result<Tls, Fault> {
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
            resumed: self.share("resumed")?.unwrap_or(0.0),
            ..usual
        })
    }
    pub(super) fn wireguard(&self) -> Result<WireGuard, Fault> {
        let usual = WireGuard::default();
        let secret = |text: &str| Some(text == "kept").filter(|kept| *kept || text == "each-time");
        Ok(WireGuard {
            cookie: self.share("cookie")?.unwrap_or(usual.cookie),
            kept: self.value("static_secret", "`kept` or `each-time`", secret)?.unwrap_or(usual.kept),
            packet: self.packet()?.unwrap_or(usual.packet),
        })
    }

    pub(super) fn ipsec(&self) -> Result<Ipsec, Fault> {
        let auth = |text: &str| Some(text == "shared-key").filter(|shared| *shared || text == "signature");
        let shared = self.value("auth", "`signature` or `shared-key`", auth)?.unwrap_or(false);
        let auth = if shared { Auth::Shared } else { self.signatures()? };
        let usual = Ipsec::new(auth);
        let groups = ipsec::Group::ALL.map(ipsec::Group::word).join(", ");
        let group = |text: &str| ipsec::Group::ALL.into_iter().find(|group| group.word() == text);
        let prf = |text: &str| [Prf::HmacSha256, Prf::HmacSha384].into_iter().find(|prf| prf.word() == text);
        let cipher = |text: &str| match (text, Cipher::read(text)) {
            ("aes-128-cbc" | "aes-256-cbc" | "aes-128-gcm" | "aes-256-gcm" | "chacha20-poly1305", Some(it)) => {
                let Cipher::Symmetric { name, .. } = it else { return None };
                Some(name)
            }
            _ => None,
        };
        let ciphers = "`aes-128-gcm`, `aes-256-gcm`, `chacha20-poly1305`, `aes-128-cbc` or `aes-256-cbc`";
        // Without certificates none is checked: ways that differ in that are one.
        let certificates = if shared { None } else { self.count("certificates")? };
        Ok(Ipsec {
            certificates: certificates.unwrap_or(usual.certificates),
            group: self.value("group", &groups, group)?.unwrap_or(usual.group),
            prf: self.value("prf", "`hmac-sha256` or `hmac-sha384`", prf)?.unwrap_or(usual.prf),
            cipher: self.value("cipher", ciphers, cipher)?.unwrap_or(usual.cipher),
            cookie: self.share("cookie")?.unwrap_or(usual.cookie),
            fresh_keys: self.truth("fresh_keys")?.unwrap_or(usual.fresh_keys),
            ike_renewed: self.share("ike_renewed")?.unwrap_or(usual.ike_renewed),
            translated: self.truth("translated")?.unwrap_or(usual.translated),
            packet: self.packet()?.unwrap_or(usual.packet),
            valid: self.valid,
            ..usual
        })
    }

    fn signatures(&self) -> Result<Auth, Fault> {
        let (responder, initiator) = (self.pair("key")?, self.pair("client_key")?);
        let Some(responder) = responder else {
            let why = "`key` is missing: what key does the responder's certificate have?";
            return Err(self.fields.fault(Class::MissingAnnotation, 0, why));
        };
        Ok(Auth::Signature(responder, initiator.unwrap_or(responder)))
    }

    fn packet(&self) -> Result<Option<u32>, Fault> {
        let read = |text: &str| text.parse().ok().filter(|bytes| (576..=9_000).contains(bytes));
        self.value("packet", "a number of bytes from 576 to 9000", read)
    }
}
