//! The authority over real HTTPS on loopback, with the batch plant of the examples.

mod accounts;
mod approvals;
mod control;
mod guests;
mod https;
mod identity;
mod life;
mod opcua;
mod recorded;
mod refresh;
mod revoked;
mod world;
