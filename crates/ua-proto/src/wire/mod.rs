//! Bytes of UACP and UASC (OPC 10000-6 §6.7.2 and §7.1.2): headers, Hello, Acknowledge, Error. Only shapes and sizes; what
//! may follow what is the channel's business.
