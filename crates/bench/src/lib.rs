//! Load and measurement records.
