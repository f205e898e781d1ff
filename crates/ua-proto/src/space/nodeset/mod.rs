//! NodeSet2 files (OPC 10000-6 Annex F): a `UANodeSet` becomes nodes of a [`Space`], whole or not at all.
//!
//! Kept are ids, names, classes, references from either end, data types, values of the built-in types and of the structures
//! that everybody uses (Argument, EnumValueType, EUInformation, Range), access levels and event notifiers. RolePermissions
//! and AccessRestrictions are handed to the caller, for scopes and policies are not the space's. Left out are
//! DataTypeDefinitions, write masks, sampling intervals, documentation and extensions.
//!
//! A file may come from anywhere: its size, nodes, depth and texts are bounded, and a document type, with which entities
//! could grow without end, is refused.

mod apply;
mod fault;
mod order;
mod read;
mod value;

use access_model::ScopeIndex;
use opcua_types::NodeId;
use roxmltree::{Document, ParsingOptions};

use super::{NodeRef, Space};

pub use fault::{NodeSetError, NodeSetFault};

/// The bounds of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSetLimits {
    /// Longest file in bytes.
    pub bytes: usize,
    /// Most elements, texts and comments in it.
    pub parts: u32,
    /// Most nodes of the address space in it.
    pub nodes: usize,
    /// Deepest element.
    pub depth: usize,
    /// Longest text or attribute in bytes.
    pub text: usize,
}

impl Default for NodeSetLimits {
    fn default() -> Self {
        Self { bytes: 32 << 20, parts: 4_000_000, nodes: 200_000, depth: 64, text: 4 << 20 }
    }
}

/// What happens to a value that is a structure nobody here knows, or does not fit its variable: some published sets have
/// such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnfitValue {
    /// The file is refused; the error names the structure or the variable.
    #[default]
    Refuse,
    /// The variable has no value until one is written; it is among [`Imported::without_value`].
    LeaveEmpty,
}

/// How a file is taken in.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// The scope of the new nodes; nowhere by default, where nobody sees them.
    pub scope: ScopeIndex,
    /// Values that cannot be taken.
    pub unfit_values: UnfitValue,
    /// Bounds.
    pub limits: NodeSetLimits,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { scope: ScopeIndex::NOWHERE, unfit_values: UnfitValue::default(), limits: NodeSetLimits::default() }
    }
}

/// A role and its permissions, as a file states them.
pub type StatedPermissions = Vec<(NodeId, u32)>;

/// What a file brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The new nodes, in the order in which they were added.
    pub nodes: Vec<NodeRef>,
    /// The models of the file: URI, version, publication date as it is written.
    pub models: Vec<(String, String, String)>,
    /// RolePermissions of nodes that state them.
    pub permissions: Vec<(NodeRef, StatedPermissions)>,
    /// RolePermissions that a model states for all its nodes, by its URI.
    pub default_permissions: Vec<(String, StatedPermissions)>,
    /// AccessRestrictions of nodes that state them.
    pub restrictions: Vec<(NodeRef, u16)>,
    /// Variables whose value was left out.
    pub without_value: Vec<NodeRef>,
}

impl Space {
    /// Adds what a NodeSet2 file describes. Models that it requires must be there already; the order of nodes
    /// inside the file does not matter.
    ///
    /// # Errors
    /// The file is no node set, breaks a bound, requires or refers to what is not there, or adds what is there already.
    /// Nothing of it was added then.
    pub fn import(&mut self, xml: &str, options: &ImportOptions) -> Result<Imported, NodeSetError> {
        let limits = &options.limits;
        if xml.len() > limits.bytes {
            return Err(NodeSetFault::FileTooLarge(limits.bytes).at(1));
        }
        let parsing = ParsingOptions { allow_dtd: false, nodes_limit: limits.parts, ..ParsingOptions::default() };
        let xml = xml.strip_prefix('\u{feff}').unwrap_or(xml);
        let document = Document::parse_with_options(xml, parsing).map_err(NodeSetError::from)?;
        let before = self.snapshot();
        let done = read::read(self, &document, options).and_then(|set| apply::apply(self, set, options));
        if done.is_err() {
            self.restore(before);
        }
        done
    }
}
