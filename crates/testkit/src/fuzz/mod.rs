//! What the fuzz targets do with their bytes. They live here, so that the corpora are replayed as ordinary tests.
//!
//! Each function must return for every input: a panic, an assertion, a hang or an allocation without bound is a find.

mod channel;
mod config;
mod figures;
mod guard;
mod model_readers;
mod net_readers;
mod nodeset;
mod policy;
pub(crate) mod services;
mod tokens;
mod transport;

pub use channel::channel;
pub use config::config;
pub use figures::figures;
pub use guard::{guard_client, guard_server};
pub use model_readers::model_readers;
pub use net_readers::net_readers;
pub use nodeset::nodeset;
pub use policy::policy;
pub use services::services;
pub use tokens::tokens;
pub use transport::transport;

/// A target: takes any bytes and returns.
pub type Target = fn(&[u8]);

/// Every target with the name of its corpus.
pub const TARGETS: [(&str, Target); 12] = [
    ("transport", transport),
    ("channel", channel),
    ("services", services),
    ("tokens", tokens),
    ("policy", policy),
    ("config", config),
    ("nodeset", nodeset),
    ("guard_client", guard_client),
    ("guard_server", guard_server),
    ("net_readers", net_readers),
    ("model_readers", model_readers),
    ("figures", figures),
];

/// Reads the fuzzer's bytes from the front; past the end everything is zero or empty.
struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        head
    }

    /// As many bytes as the next number says.
    fn part(&mut self) -> &'a [u8] {
        let count = self.number();
        self.take(count.into())
    }
}
