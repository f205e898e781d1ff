//! `[operation]`: how a program that runs is watched and ended.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::words::Period;

/// How long sessions may go on once the program is to end.
pub type Drain = Period<0, 3_600_000>;

/// How a program that runs is watched and ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operation {
    /// Where `/livez`, `/readyz` and `/metrics` are served; nowhere without the key.
    pub listen: Option<SocketAddr>,
    /// Whether that may be an address that other computers reach.
    pub danger_beyond_loopback: bool,
    /// How long sessions may go on once the program is to end.
    pub drain: Drain,
}

impl Default for Operation {
    fn default() -> Self {
        Self { listen: None, danger_beyond_loopback: false, drain: Period::near(10_000) }
    }
}
