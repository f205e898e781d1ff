//! Restrictions: what a channel must be to reach a node at all (OPC 10000-3 §8.56, `AccessRestrictionType`, ns0 i=95),
//! whoever is at its other end.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of restrictions, numbered as in OPC 10000-3 §8.56.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Restrictions(u8);

/// Bit and its name in the plant file.
const NAMES: [(Restrictions, &str); 4] = [
    (Restrictions::SIGNING, "signing"),
    (Restrictions::ENCRYPTION, "encryption"),
    (Restrictions::SESSION, "session"),
    (Restrictions::BROWSE, "browse"),
];

impl Restrictions {
    /// Every channel will do.
    pub const NONE: Self = Self(0);
    /// SigningRequired: the channel signs its messages.
    pub const SIGNING: Self = Self(1);
    /// EncryptionRequired: the channel signs and encrypts them.
    pub const ENCRYPTION: Self = Self(1 << 1);
    /// SessionRequired: not without a session.
    pub const SESSION: Self = Self(1 << 2);
    /// ApplyRestrictionsToBrowse: the other bits hold for browsing too, else they do not.
    pub const BROWSE: Self = Self(1 << 3);

    /// The bits, numbered as in OPC 10000-3 §8.56.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0 as u16
    }

    /// The set with these bits; bits that the standard does not name are left out.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self((bits & 0x0f) as u8)
    }

    /// Whether nothing is restricted.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the sets have a restriction in common.
    #[must_use]
    #[inline]
    pub const fn touches(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The single restriction with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(one, _)| *one)
    }

    /// The names, in bit order: what a plant file may hold.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        NAMES.into_iter().map(|(_, name)| name)
    }
}

impl BitOr for Restrictions {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Restrictions {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Restrictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Vec<&str> = NAMES.into_iter().filter(|(one, _)| self.touches(*one)).map(|(_, name)| name).collect();
        f.write_str(if held.is_empty() { "none".to_owned() } else { held.join("|") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_standard_and_names_lead_back() {
        for (bit, name) in [(1, "signing"), (2, "encryption"), (4, "session"), (8, "browse")] {
            let one = Restrictions::from_name(name).unwrap();
            assert_eq!((one.bits(), one.to_string()), (bit, name.to_owned()));
        }
        assert_eq!(Restrictions::from_name("none"), None);
        assert_eq!((Restrictions::SIGNING | Restrictions::BROWSE).to_string(), "signing|browse");
    }
}
