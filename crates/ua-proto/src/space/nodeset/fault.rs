//! What can be wrong with a node set, each with its line and what to do about it.

use std::fmt;

use super::super::SpaceError;

/// A node set cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSetError {
    /// The line of the file, from 1.
    pub line: u32,
    /// What is wrong.
    pub fault: NodeSetFault,
}

/// What is wrong with a node set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeSetFault {
    /// It is larger than allowed.
    #[error("the file has more than {0} bytes")]
    FileTooLarge(usize),
    /// It is no XML.
    #[error("the file is no well-formed XML: {0}")]
    Xml(String),
    /// It has a document type.
    #[error("the file has a document type declaration")]
    DocumentType,
    /// It has more parts than allowed.
    #[error("the file has more elements and texts than allowed")]
    TooManyParts,
    /// It has more nodes than allowed.
    #[error("the file has more than {0} nodes")]
    TooManyNodes(usize),
    /// Elements nest too deeply.
    #[error("elements are nested more than {0} deep")]
    TooDeep(usize),
    /// A text or attribute is too long.
    #[error("a text has more than {0} bytes")]
    TextTooLong(usize),
    /// The document is something else.
    #[error("the document element is `{0}`, not `UANodeSet`")]
    NotANodeSet(String),
    /// An attribute is missing.
    #[error("the attribute `{0}` is missing")]
    Missing(&'static str),
    /// An attribute or text cannot be read.
    #[error("`{text}` is no {what}")]
    Unreadable {
        /// What was expected.
        what: &'static str,
        /// What is there, cut short.
        text: String,
    },
    /// An id names neither an id nor an alias.
    #[error("`{0}` is neither a node id nor an alias of this file")]
    Alias(String),
    /// A namespace index has no URI.
    #[error("the namespace index {0} is not in NamespaceUris")]
    NamespaceIndex(u16),
    /// A reference leads to another server.
    #[error("`{0}` lies on another server")]
    OtherServer(String),
    /// A model that is needed is not there.
    #[error("the model `{0}` is required and not there")]
    RequiredModel(String),
    /// The standard's own nodes.
    #[error("the file adds `{0}` to the namespace of the standard")]
    StandardNamespace(String),
    /// A node is there twice.
    #[error("the node `{0}` is there already")]
    Taken(String),
    /// A reference leads nowhere.
    #[error("`{from}` refers to `{to}`, which is neither in the file nor in the space")]
    Unknown {
        /// The node that refers.
        from: String,
        /// What it refers to.
        to: String,
    },
    /// A node is of the wrong class for its part.
    #[error("`{0}` is not {1}")]
    WrongClass(String, &'static str),
    /// Nodes need each other before any of them can be.
    #[error("`{0}` depends on itself through its parents or types")]
    Cycle(String),
    /// A value of a kind that cannot be read.
    #[error("a value of the kind `{0}` cannot be read")]
    ValueKind(String),
    /// A structure nobody knows.
    #[error("the structure `{0}` is not known here")]
    Structure(String),
    /// A value does not fit its variable.
    #[error("the value of `{0}` does not fit its data type and rank")]
    Value(String),
    /// The space refuses.
    #[error("`{0}` cannot be added: {1}")]
    Space(String, SpaceError),
}

impl NodeSetFault {
    pub(super) fn at(self, line: u32) -> NodeSetError {
        NodeSetError { line, fault: self }
    }

    pub(super) fn unreadable(what: &'static str, text: &str) -> Self {
        Self::Unreadable { what, text: text.chars().take(60).collect() }
    }

    /// What to do about it, when that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::DocumentType => "remove the `<!DOCTYPE>`: node sets need none, and entities are not expanded",
            Self::RequiredModel(_) | Self::Unknown { .. } => "import the node sets that this one builds on first",
            Self::NamespaceIndex(_) => "index 1 is the first entry of NamespaceUris",
            Self::StandardNamespace(_) => "namespace 0 is built in",
            Self::Taken(_) => "the node set may have been imported before",
            Self::Structure(_) | Self::Value(_) => "leave unfit values empty, or take the value out of the file",
            Self::NotANodeSet(_) => "export the model as NodeSet2",
            Self::FileTooLarge(_)
            | Self::TooManyParts
            | Self::TooManyNodes(_)
            | Self::TooDeep(_)
            | Self::TextTooLong(_) => "raise the bound if the file is to be trusted",
            _ => return None,
        })
    }
}

impl fmt::Display for NodeSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)?;
        self.fault.hint().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for NodeSetError {}

impl From<roxmltree::Error> for NodeSetError {
    fn from(error: roxmltree::Error) -> Self {
        let line = error.pos().row;
        match error {
            roxmltree::Error::DtdDetected => NodeSetFault::DocumentType.at(line),
            roxmltree::Error::NodesLimitReached => NodeSetFault::TooManyParts.at(line),
            other => NodeSetFault::Xml(other.to_string()).at(line),
        }
    }
}
