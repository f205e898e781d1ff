//! What can be wrong with an authority.

use std::path::PathBuf;

/// What can be wrong with an authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be used.
    #[error("cannot use the file `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: std::io::Error,
    },
    /// Plant, policies or workflow are broken; nothing changed.
    #[error(transparent)]
    Faults(#[from] pdp::Faults),
    /// The new workflow has no place for a token of the old one; nothing changed.
    #[error("the workflow stands where the new one has no step: {0}")]
    LostStep(#[source] pdp::InvalidStep),
    /// A transition did not fire.
    #[error(transparent)]
    Step(#[from] pdp::InvalidStep),
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] store::DbError),
    /// The ledger does not take a record that must be written first.
    #[error(transparent)]
    Audit(#[from] store::Unavailable),
    /// A signing key is unusable.
    #[error("a signing key cannot be used")]
    Key(#[from] token::InvalidKey),
    /// Who has read the keys can sign tokens: a file that others can read is not used.
    #[error("`{path}` can be read by others: run `chmod 600 {path}`", path = .0.display())]
    OpenToOthers(PathBuf),
    /// The list of signing keys cannot be read.
    #[error("`{}` is no list of signing keys", .0.display())]
    KeyList(PathBuf),
    /// The certificate of a signing key cannot be made.
    #[error("cannot make the certificate of a signing key: {0}")]
    Certificate(String),
    /// An update to the gates cannot be signed.
    #[error("cannot sign an update")]
    Sign(#[from] token::MintError),
    /// Work on another thread did not end.
    #[error("work on another thread did not end")]
    Thread,
}
