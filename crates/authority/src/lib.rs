//! The authorization service.
