//! Where in a token the roles stand.

use access_model::Refusal;

use crate::json::Object;
use crate::payload::{texts, wrong};

/// The claim with the roles of a token: names, each inside the object before it. Keycloak has them in `realm_access`,
/// `roles`; others, and our authority, in `roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPath(Vec<String>);

impl Default for ClaimPath {
    fn default() -> Self {
        Self(vec!["roles".to_owned()])
    }
}

impl ClaimPath {
    /// The claim at the end of these names. None when there are no names.
    #[must_use]
    pub fn new(names: Vec<String>) -> Option<Self> {
        if names.is_empty() { None } else { Some(Self(names)) }
    }

    /// The texts that stand there; none where nothing stands.
    pub(crate) fn read(&self, payload: &Object) -> Result<Vec<String>, Refusal> {
        let Some((last, outer)) = self.0.split_last() else { return Ok(Vec::new()) };
        let mut inside = payload;
        for name in outer {
            let Some(value) = inside.get(name.as_str()) else { return Ok(Vec::new()) };
            inside = value.object().ok_or_else(|| wrong(name))?;
        }
        texts(inside, last)
    }
}
