//! All tests of decisions from outside, as one program: it is linked once.

mod batch_plant;
mod faults;
mod learn;
mod properties;
