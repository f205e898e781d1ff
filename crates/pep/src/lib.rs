//! The policy enforcement point: grants and sessions.
