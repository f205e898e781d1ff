//! Interoperation with unmodified stacks of other people: their clients against our server, our client against their servers. The programs
//! are those of `interop/`; `make peers` installs them. A stack that is not there is passed over with a line that says so, and fails the
//! test when `TRAPKEY_PEERS` is `required`.

mod peers;

mod called;
mod cut;
mod decoders;
mod ecc;
mod found;
mod front;
mod full;
mod guarded;
mod history;
mod identities;
mod killed;
mod matrix;
mod our_client;
mod our_server;
mod renewed;
