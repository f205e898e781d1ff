//! The parts of the product put together: what runs behind `trapkey up` and `trapkey demo`.

pub(crate) mod audit;
pub(crate) mod authority;
