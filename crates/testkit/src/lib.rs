//! What other crates are tested with: a virtual clock, fixed keys, an in-memory network between a server and its
//! clients, free ports of the real one and a relay that cuts it, and the functions that the fuzz targets and the replay of their corpora share.
//!
//! Nothing here is random by itself: the same calls give the same life, byte for byte, except where a signature or a
//! cipher draws its own numbers.

pub mod attackers;
pub mod clock;
pub mod fuzz;
pub mod keys;
pub mod oracle;
pub mod ports;
pub mod relay;
pub mod requests;
pub mod world;

mod entropy;

pub use entropy::Counting;
