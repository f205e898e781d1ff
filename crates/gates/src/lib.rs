//! Sockets for the protocol cores.
