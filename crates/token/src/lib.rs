//! Access tokens and signed control updates: mint and verify.
