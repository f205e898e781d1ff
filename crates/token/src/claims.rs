//! What an access token says.

use std::collections::BTreeMap;

use access_model::{Epoch, GrantSpec, MapDigest, Rights, ScopeMap, Thumbprint, UnixTime};
use aws_lc_rs::digest::{SHA256, digest};
use zeroize::Zeroizing;

use crate::ScopeSet;

/// The digest that tokens name: the first 16 bytes of SHA-256 over [`ScopeMap::canonical_bytes`].
#[must_use]
pub fn map_digest(map: &ScopeMap) -> MapDigest {
    let whole = digest(&SHA256, &map.canonical_bytes());
    let mut first = [0; 16];
    first.iter_mut().zip(whole.as_ref()).for_each(|(to, from)| *to = *from);
    MapDigest(first)
}

/// What a token grants on the scopes of one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightsClaim {
    /// The map that the sets index.
    pub map: MapDigest,
    /// Rights, and the scopes that have exactly these. Sorted by rights; no rights twice; no scope in two sets.
    pub entries: Vec<(Rights, ScopeSet)>,
}

impl From<&GrantSpec> for RightsClaim {
    fn from(spec: &GrantSpec) -> Self {
        Self::new(spec.map, spec.rights.iter().map(|(rights, scopes)| (*rights, scopes.iter().map(|scope| scope.0))))
    }
}

/// What an access token says. Times are kept in whole seconds: `mint` rounds them down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// `iss`: who signed it.
    pub issuer: String,
    /// `sub`: the principal's name.
    pub subject: String,
    /// `aud`: the server it is for.
    pub audience: String,
    /// `exp`: from this moment on it is worthless.
    pub expires: UnixTime,
    /// `nbf`: before this moment it is worthless; left out when it equals `issued_at`.
    pub not_before: UnixTime,
    /// `iat`: when it was issued.
    pub issued_at: UnixTime,
    /// `jti`: its id, by which it is revoked. Empty if a foreign issuer gave none.
    pub id: String,
    /// `client_id`: the ApplicationUri of the client it was issued to.
    pub client: Option<String>,
    /// `cnf`: the client certificate it is bound to.
    pub confirmation: Option<Thumbprint>,
    /// `roles`, for servers that map roles to rights.
    pub roles: Vec<String>,
    /// `groups`.
    pub groups: Vec<String>,
    /// `tk.m`, `tk.g`: the decision itself. Absent in tokens of foreign issuers.
    pub rights: Option<RightsClaim>,
    /// `tk.e`: the snapshot it was decided under.
    pub epoch: Epoch,
    /// Length of the `pad` claim, which only makes the token longer, for experiments.
    pub padding: usize,
}

/// A signed token: a secret. Printing it for debugging shows its length alone.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedToken(Zeroizing<String>);

impl SealedToken {
    pub(crate) fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The compact JWS. Whoever holds it and the client's key holds the rights.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The compact JWS as bytes, as OPC UA carries it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for SealedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealedToken({} bytes)", self.0.len())
    }
}

/// Something whose signature was checked. Only [`verify`](crate::verify) and [`control::open`](crate::control::open)
/// make one.
///
/// ```compile_fail
/// fn forge(claims: token::Claims) -> token::Verified<token::Claims> {
///     token::Verified(claims)
/// }
/// ```
///
/// ```compile_fail
/// fn forge(claims: token::Claims) -> token::Verified<token::Claims> {
///     token::Verified::new(claims)
/// }
/// ```
///
/// ```
/// fn use_it(verified: &token::Verified<token::Claims>) -> &str {
///     &verified.subject
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<C>(C);

impl<C> Verified<C> {
    pub(crate) fn new(inner: C) -> Self {
        Self(inner)
    }

    /// What was verified, without the proof.
    #[must_use]
    pub fn into_inner(self) -> C {
        self.0
    }
}

impl<C> std::ops::Deref for Verified<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl RightsClaim {
    /// The claim for these rights and positions, in any order. Scopes named twice get the union of their rights;
    /// empty rights are left out.
    pub fn new<S: IntoIterator<Item = u32>>(map: MapDigest, rights: impl IntoIterator<Item = (Rights, S)>) -> Self {
        let mut union: BTreeMap<u32, Rights> = BTreeMap::new();
        for (held, scopes) in rights {
            for scope in scopes {
                *union.entry(scope).or_default() |= held;
            }
        }
        let mut sorted: BTreeMap<Rights, Vec<u32>> = BTreeMap::new();
        for (scope, held) in union.into_iter().filter(|(_, held)| !held.is_empty()) {
            sorted.entry(held).or_default().push(scope);
        }
        Self { map, entries: sorted.into_iter().map(|(held, scopes)| (held, ScopeSet::from_sorted(scopes))).collect() }
    }
}
