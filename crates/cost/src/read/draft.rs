//! A model as it was written: words with their lines, names not yet resolved.

use super::fields::Fields;

/// What a reader found.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) workload: Option<Fields>,
    pub(crate) money: Option<Fields>,
    /// Each with its name.
    pub(crate) nodes: Vec<(String, Fields)>,
    pub(crate) components: Vec<(String, Fields)>,
    pub(crate) connectors: Vec<(String, Fields)>,
    pub(crate) attributes: Vec<(String, Fields)>,
    pub(crate) pools: Vec<(String, Fields)>,
    pub(crate) sequences: Vec<Written>,
    /// Whether sequences that the first does not refer to are other scenarios.
    pub(crate) scenarios: bool,
    pub(crate) secured: Vec<Fields>,
    /// Platform, operation, price.
    pub(crate) prices: Vec<(String, String, Fields)>,
    /// Number, demands.
    pub(crate) levels: Vec<(String, Fields)>,
}

/// A sequence as it was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) steps: Vec<Line>,
}

/// A step as it was written.
#[derive(Debug)]
pub(crate) enum Line {
    /// `do` = the name, `by`, `time`, `variation`, `returns`.
    Do(Fields),
    /// `send` = the name, `over`, `from`, `to`, `carries`, `bytes`.
    Send(Fields),
    /// `ref` = the sequence, `times`.
    Ref(Fields),
    /// `acquire` = the pool, `units`.
    Acquire(Fields),
    /// `release` = the pool, `units`.
    Release(Fields),
    /// Ways with `weight`.
    Choice(usize, Vec<(Fields, Vec<Line>)>),
    /// Branches that are done at once, and the line of the fragment.
    Par(usize, Vec<Vec<Line>>),
}
