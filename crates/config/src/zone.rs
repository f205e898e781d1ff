//! `[[zone]]`: what is left in a part of the plant while something is lost.

use serde::{Deserialize, Serialize};

use crate::server::{Contact, FailMode};

/// A zone of the plant file, and what holds in it while the authority or the ledger is lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Its name in the plant file.
    pub name: String,
    /// What is left of rights to what stands in it.
    pub fail_mode: FailMode,
    /// How long `last_known_good` lasts.
    #[serde(default = "crate::server::default_grace")]
    pub last_known_good_for: Contact,
}
