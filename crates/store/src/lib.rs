//! SQL and the audit ledger.
