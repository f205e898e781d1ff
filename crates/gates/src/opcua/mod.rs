//! OPC UA over TCP: the shells around the server and client cores.

pub mod client;
mod connection;
mod core;
pub mod guard;
pub mod server;
mod turns;
mod upstream;
pub mod wiring;

pub use self::core::{Core, Enforcing, Outside};
