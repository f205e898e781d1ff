//! The twin of a running Trapkey: it is told what the program's figures say, keeps what its stages take current, and says which stage has
//! left its band, since when, and what that does to predictions.
//!
//! Nothing is read from a network here and no clock is looked at: a shell brings texts and times.

pub mod detect;
pub mod exposition;
pub mod reading;

#[cfg(test)]
mod random;
