//! The server, driven in memory by channels of our own client: no sockets, a clock that the test moves.

mod access;
mod activation;
mod ask;
mod asking;
mod audit_events;
mod budget;
mod bypass;
mod calling;
mod ecc;
mod events;
mod expiry;
mod history;
mod interlocks;
mod keys;
mod layout;
mod lifecycle;
mod limits;
mod monitoring;
mod pressure;
mod records;
mod registry;
mod restrictions;
mod services;
mod transfer;
mod world;
