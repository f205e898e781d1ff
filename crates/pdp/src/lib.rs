//! The policy decision point: decide, explain, lint.
