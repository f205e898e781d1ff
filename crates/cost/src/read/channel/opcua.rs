//! What is said of OPC UA, its users and their tokens.

use super::Words;
use crate::algorithm::Key;
use crate::choose::Mode;
use crate::protocol::opcua::{Channel, OpcUa, Policy, User};
use crate::protocol::tls::Tls;
use crate::protocol::tokens::{Asker, Flow, Tokens};
use crate::{Class, Fault, quantity};

pub(super) const KEYS: &[&str] = &[
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
    "token_refresh",
];
pub(super) const MISFIT: &str = "no policy fits its mode and its kind of key: without a policy the mode is `none`, with one it is \
                                 not; RSA of 2048 to 4096 bits, `ecdsa-p256` for ECC_nistP256, `ed25519` for ECC_curve25519";
const BARE: &str = "a token has no place on a channel without a policy: the server could not tell who shows it";
const READABLE: &str = "a channel that only signs shows a token to everybody: `token_encryption` is `twice` there";
/// Bytes of a password.
const PASSWORD: u64 = 16;

impl Words<'_> {
    /// Why not, where what is said does not fit together.
    pub(super) fn opcua(&self) -> Result<Result<OpcUa, &'static str>, Fault> {
        let policies = Policy::ALL.map(Policy::word).join(", ");
        let policy = |text: &str| Policy::ALL.into_iter().find(|policy| policy.word() == text);
        let asked = self.need("policy", &policies, policy)?;
        let mode = self.value("mode", "`none`, `sign` or `sign-and-encrypt`", mode)?;
        let mode = mode.unwrap_or(if asked == Policy::None { Mode::None } else { Mode::SignAndEncrypt });
        // Without a policy no key counts but for what users prove; ways that differ in it are one.
        let named = self.value("user", "a user", |user| Some(user != "anonymous"))?.unwrap_or(false);
        let said = if asked != Policy::None || named { self.pair("key")? } else { None };
        let Some(key) = said.or_else(|| asked.usual()) else {
            let why = "`key` is missing: how long are the keys of the certificates?";
            return Err(self.fields.fault(Class::MissingAnnotation, 0, why));
        };
        let rsa = matches!(key, Key::Rsa(2_048..=4_096));
        let Some(channel) = Channel::new(asked, mode, key).filter(|_| rsa || asked != Policy::None) else {
            return Ok(Err(MISFIT));
        };
        let channel = self.channel(channel)?;
        Ok(match self.user(&channel)? {
            None => Err(MISFIT),
            Some(User::Token(_)) if channel.policy == Policy::None => Err(BARE),
            Some(User::Token(tokens)) if channel.mode == Mode::Sign && !tokens.encrypted => Err(READABLE),
            Some(User::Token(tokens)) if tokens.misfit().is_some() => Err(tokens.misfit().unwrap_or(MISFIT)),
            Some(user) => Ok(OpcUa { channel, user }),
        })
    }

    fn channel(&self, channel: Channel) -> Result<Channel, Fault> {
        // Without a policy only certificates of users are looked at, and those on the way to the authority.
        let shown = |user: &str| Some(!matches!(user, "anonymous" | "password"));
        let counted = channel.policy != Policy::None || self.value("user", "a user", shown)?.unwrap_or(false);
        let certificates = if counted { self.count("certificates")? } else { None };
        Ok(Channel {
            certificates: certificates.unwrap_or(channel.certificates),
            endpoints: self.count("endpoints")?.unwrap_or(channel.endpoints),
            discovery: self.truth("discovery")?.unwrap_or(channel.discovery),
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
            // The client proves there that it has the key of its certificate (RFC 8705).
            "oauth2" => {
                let tls = Tls::ours(self.pair("authority_key")?.unwrap_or(channel.key));
                // OPC UA checks the signature of the authority's own certificate, too.
                let certificates = channel.certificates.saturating_sub(1).max(1);
                Flow::OAuth2(Tls { client: Some(channel.key), certificates, ..tls })
            }
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
        let refresh = |text: &str| Some(text == "refresh-token").filter(|refresh| *refresh || text == "again");
        let refresh_token = self.value("token_refresh", "`again` or `refresh-token`", refresh)?.unwrap_or(false);
        let first = if kept && word == "oauth2" { self.first } else { 0.0 };
        let certificates = channel.certificates;
        let tokens = Tokens { flow, asker, bytes, signature: key, encrypted, kept, first, refresh_token, certificates };
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
}

fn mode(text: &str) -> Option<Mode> {
    match text {
        "none" => Some(Mode::None),
        "sign" => Some(Mode::Sign),
        "sign-and-encrypt" => Some(Mode::SignAndEncrypt),
        _ => None,
    }
}
