//! The random numbers of a run: streams of their own for what happens to all and for each request.

use gspn::simulate::Stream;

/// What the runs of a setting are drawn from, unless another number is said.
pub const SEED: u64 = 1;

/// A run among those of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance {
    pub(super) seed: u64,
    pub(super) run: u64,
}

/// What a stream decides.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// When somebody comes.
    Arrivals = 1,
    /// Who is served first.
    Order,
    /// The times and ways of a request.
    Request,
    /// When a client asks for the first time.
    Client,
    /// The times and ways of a branch of a request.
    Branch,
}

impl Chance {
    /// Names that are kept for each run.
    const KINDS: u64 = 8;

    /// The stream of the request or client of a number.
    pub(super) fn stream(self, of: Of, number: u64) -> Stream {
        Stream::new(self.seed, number, Self::KINDS * self.run + of as u64)
    }
}
