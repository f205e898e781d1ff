//! All tests of the client but its own, as one program: it is linked once.

mod authority;
mod denials;
mod events;
mod examples;
mod history;
mod https;
mod old_authority;
mod support;
mod tokens;
#[path = "support/world.rs"]
#[allow(dead_code, reason = "lengths of tokens are for another crate")]
mod world;
