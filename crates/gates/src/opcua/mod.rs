//! OPC UA over TCP: the shells around the server and client cores.

pub mod client;
mod connection;
pub mod server;
pub mod wiring;
