//! All tests of the guard but its own, as one program: it is linked once.

mod approval;
mod common;
mod foreign;
mod gate;
mod life;
mod many_zones;
mod mode;
mod turn;
mod zones;
