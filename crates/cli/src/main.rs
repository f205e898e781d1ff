//! The `trapkey` program.
fn main() {}
