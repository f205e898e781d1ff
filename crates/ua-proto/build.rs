//! Turns the nodes of namespace 0 into one compact table (see `src/space/ns0.rs`).

fn main() {}
