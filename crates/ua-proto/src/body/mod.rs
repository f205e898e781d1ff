//! Bodies of messages, as both sides read and write them: a checked cursor, and the types crate behind it.

mod codec;
mod reader;

pub(crate) use codec::{Codec, Open, date_time, ticks, write_message};
pub(crate) use reader::{Malformed, Reader};
