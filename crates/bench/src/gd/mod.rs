//! GD generation, the scenario of P4 (section 5), as real programs on this machine: an organisation generates tag data, signs and encrypts
//! it and sends it over TCP; a store decrypts it and puts it into SQLite or PostgreSQL. What it does is predicted from timings of single
//! steps ([`steps`], [`predict`]), the prediction is written into a ledger ([`register`]), and only then it is run ([`run`]).
//!
//! The organisation and the store are the two nodes of the model: each is one process with one thread that works, kept to one processor
//! of its own. The organisation serves its clients in turn; the store has one connection to the database, its single writer.

pub mod accounts;
pub mod calibrate;
pub mod crypt;
pub mod database;
pub mod disturb;
pub mod launch;
mod lost;
pub mod message;
pub mod organisation;
pub mod part;
pub mod postgres;
pub mod predict;
pub mod queue;
pub mod register;
pub mod report;
pub mod run;
pub mod steps;
pub mod store;
pub mod tag;
pub mod waker;
pub mod wire;

use serde::{Deserialize, Serialize};

/// Sizes of RSA keys that are measured. 1024 bits, which the paper has too, our library refuses.
pub const KEYS: [u32; 3] = [2048, 3072, 4096];
/// Numbers of clients that are measured.
pub const CLIENTS: [u32; 3] = [1, 8, 64];

/// P4's configurations (section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Configuration {
    /// No security.
    #[serde(rename = "SC0")]
    Sc0,
    /// Tags are signed: data origin authentication.
    #[serde(rename = "SC1")]
    Sc1,
    /// They are encrypted on their way, too: data confidentiality.
    #[serde(rename = "SC2")]
    Sc2,
}

/// Where tags are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// In the store's own process.
    Sqlite,
    /// In processes of its own.
    Postgres,
}

impl Kind {
    /// As it is printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// One row: what is predicted and run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scenario {
    /// What is secured.
    pub configuration: Configuration,
    /// Bits of the RSA keys; 0 in SC0.
    pub key: u32,
    /// Where tags are kept.
    pub database: Kind,
    /// Clients that each want their next tag as soon as their last one is stored.
    pub clients: u32,
}

impl Scenario {
    /// `SC2 rsa-2048 sqlite 8`.
    #[must_use]
    pub fn name(&self) -> String {
        let configuration = match self.configuration {
            Configuration::Sc0 => "SC0 -".to_owned(),
            Configuration::Sc1 => format!("SC1 rsa-{}", self.key),
            Configuration::Sc2 => format!("SC2 rsa-{}", self.key),
        };
        format!("{configuration} {} {}", self.database.word(), self.clients)
    }

    /// All rows with these databases, keys and numbers of clients.
    #[must_use]
    pub fn all(databases: &[Kind], keys: &[u32], clients: &[u32]) -> Vec<Self> {
        let mut rows = Vec::new();
        for database in databases {
            for clients in clients {
                let row = |configuration, key| Self { configuration, key, database: *database, clients: *clients };
                rows.push(row(Configuration::Sc0, 0));
                for configuration in [Configuration::Sc1, Configuration::Sc2] {
                    rows.extend(keys.iter().map(|key| row(configuration, *key)));
                }
            }
        }
        rows
    }
}

/// How often a shared key is used again before a new one is agreed on: `reuse` is the share of messages that need no exchange, so that
/// each `1 / (1 - reuse)`-th message of a connection does. 0 means that none ever does.
#[must_use]
pub fn period(reuse: f64) -> u64 {
    if reuse >= 1.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share below 1 was asked for")]
    let period = (1.0 / (1.0 - reuse.max(0.0))).round() as u64;
    period.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_stands_once_and_keys_are_agreed_on_as_often_as_was_asked() {
        let rows = Scenario::all(&[Kind::Sqlite, Kind::Postgres], &KEYS, &CLIENTS);
        assert_eq!(rows.len(), 42);
        let mut names: Vec<String> = rows.iter().map(Scenario::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 42);
        for (reuse, wanted) in [(1.0, 0), (0.9, 10), (0.5, 2), (0.0, 1)] {
            assert_eq!(period(reuse), wanted, "{reuse}");
        }
    }
}
