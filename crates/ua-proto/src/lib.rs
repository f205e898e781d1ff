//! OPC UA without I/O: wire, secure channel, PKI, sessions, services.

pub mod subscription;

pub mod space;
