//! What is said of a device's capability.

use super::Words;
use crate::protocol::capability::{Capability, MAX_CAVEATS, MAX_FRAMES, Path};
use crate::{Fault, quantity};

pub(super) const KEYS: &[&str] =
    &["path", "frames", "caveats", "identity", "sent", "seal", "fresh_keys", "cached", "data_signature"];

impl Words<'_> {
    /// Without a look at whether its parts fit together.
    pub(super) fn capability(&self) -> Result<Capability, Fault> {
        let path = |text: &str| Path::ALL.into_iter().find(|path| path.word() == text);
        let usual = Capability::new(self.need("path", "`challenge`, `counter` or `stateless`", path)?);
        let within = |key: &str, least: u32, most: u32| {
            let read = |text: &str| text.parse().ok().filter(|count| (least..=most).contains(count));
            self.value(key, &format!("a whole number from {least} to {most}"), read)
        };
        let seals = ["hmac-sha256", "chacha20-poly1305", "aes-128-gcm"];
        let seal = |text: &str| seals.into_iter().find(|seal| *seal == text);
        let size = |text: &str| quantity::bytes(text).filter(|bytes| bytes.fract() == 0.0 && *bytes <= 65_535.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at just before")]
        let sent = self.value("sent", "a whole size up to 65535 B", size)?.map(|bytes| bytes as u64);
        Ok(Capability {
            frames: within("frames", 1, MAX_FRAMES)?.unwrap_or(usual.frames),
            caveats: within("caveats", 0, MAX_CAVEATS)?.unwrap_or(usual.caveats),
            identity: within("identity", 0, MAX_FRAMES)?.unwrap_or(usual.identity),
            sent,
            seal: self.value("seal", &seals.join(", "), seal)?.unwrap_or(usual.seal),
            fresh_keys: self.truth("fresh_keys")?.unwrap_or(usual.fresh_keys),
            cached: self.share("cached")?.unwrap_or(usual.cached),
            signature: self.pair("data_signature")?,
            valid: self.valid,
            ..usual
        })
    }
}
