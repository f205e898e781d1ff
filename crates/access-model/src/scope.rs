//! Scopes: the named parts of one server to which rights are granted.

use std::fmt;

/// Position of a scope in its server's [`ScopeMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeIndex(pub u32);

impl ScopeIndex {
    /// The scope at position 0 of every map, called `public`: what every activated session may browse, read and
    /// receive events of (types, the Server object). Never writable or callable through a grant.
    pub const PUBLIC: Self = Self(0);
    /// In no scope: no grant reaches it, so it stays hidden from everyone.
    pub const NOWHERE: Self = Self(u32::MAX);
}

/// The first 16 bytes of the SHA-256 over a map's canonical bytes ([`ScopeMap::canonical_bytes`]). A token names the
/// digest of the map that its scope positions index; a server with another map refuses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapDigest(pub [u8; 16]);

impl fmt::Debug for MapDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The ordered scopes of one server. Position 0 is always `public`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeMap {
    names: Vec<Box<str>>,
}

/// Why a list of names is no scope map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScopeMap {
    /// Two scopes share a name.
    #[error("scope `{0}` is listed twice")]
    Duplicate(String),
    /// A name is empty, longer than 256 bytes or holds a control character.
    #[error("scope name `{0}` is empty, longer than 256 bytes or holds a control character")]
    Name(String),
    /// More scopes than a position can number.
    #[error("{0} scopes are too many, at most 16777216 fit a map")]
    TooMany(usize),
}

impl ScopeMap {
    /// The most scopes a map may hold, `public` included.
    pub const MAX: usize = 1 << 24;

    /// A map of `public` followed by `names`, in this order.
    ///
    /// # Errors
    /// A duplicate (also of `public`), an unusable name, or too many.
    pub fn new<I, S>(names: I) -> Result<Self, InvalidScopeMap>
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let mut all: Vec<Box<str>> = vec!["public".into()];
        for name in names {
            let name: String = name.into();
            if name.is_empty() || name.len() > 256 || name.chars().any(char::is_control) {
                return Err(InvalidScopeMap::Name(name));
            }
            all.push(name.into_boxed_str());
        }
        if all.len() > Self::MAX {
            return Err(InvalidScopeMap::TooMany(all.len()));
        }
        let mut sorted: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
        sorted.sort_unstable();
        if let Some((twice, _)) = sorted.iter().zip(sorted.iter().skip(1)).find(|(one, next)| one == next) {
            return Err(InvalidScopeMap::Duplicate((*twice).to_owned()));
        }
        Ok(Self { names: all })
    }

    /// Number of scopes, `public` included; at least 1.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a map is never empty")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The name of a scope.
    #[must_use]
    pub fn name(&self, scope: ScopeIndex) -> Option<&str> {
        self.names.get(usize::try_from(scope.0).ok()?).map(AsRef::as_ref)
    }

    /// The position of a name: a linear search, for set-up and administration only.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<ScopeIndex> {
        let at = self.names.iter().position(|known| &**known == name)?;
        u32::try_from(at).ok().map(ScopeIndex)
    }

    /// Scopes in order, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (ScopeIndex, &str)> {
        (0_u32..).map(ScopeIndex).zip(self.names.iter().map(AsRef::as_ref))
    }

    /// What the digest is taken over: each name, preceded by its length as four little-endian bytes.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.names.iter().map(|name| name.len() + 4).sum());
        for name in &self.names {
            bytes.extend_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_comes_first_and_cannot_be_named_again() {
        let map = ScopeMap::new(["reactor", "mixer"]).unwrap();
        assert_eq!(map.name(ScopeIndex::PUBLIC), Some("public"));
        assert_eq!(map.position("mixer"), Some(ScopeIndex(2)));
        assert_eq!(map.name(ScopeIndex::NOWHERE), None);
        assert_eq!(ScopeMap::new(["a", "public"]), Err(InvalidScopeMap::Duplicate("public".into())));
    }

    #[test]
    fn canonical_bytes_keep_neighbours_apart() {
        let one = ScopeMap::new(["ab", "c"]).unwrap();
        let other = ScopeMap::new(["a", "bc"]).unwrap();
        assert_ne!(one.canonical_bytes(), other.canonical_bytes());
    }

    #[test]
    fn unusable_names_are_refused() {
        for name in ["", "a\nb"] {
            assert_eq!(ScopeMap::new([name]), Err(InvalidScopeMap::Name(name.into())));
        }
    }
}
