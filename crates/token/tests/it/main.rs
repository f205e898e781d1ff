//! All tests of tokens from outside, as one program: it is linked once.

mod common;
mod control;
mod profile;
mod size;
mod vectors;
