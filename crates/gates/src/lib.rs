//! The shells around the protocol cores: sockets, TLS, timers, files. They move bytes and keep no rule of their own.

pub mod clock;
pub mod control;
pub mod https;
pub mod opcua;
pub mod peer;
pub mod pki;
pub mod pool;
pub mod questions;
