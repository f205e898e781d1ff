//! The plant file: what stands where, who works with it, and which nodes form a scope. Authority and resource server
//! read the same file, so that both number the scopes of a server alike. Format: `docs/reference/plant.md`.

mod file;
mod interlock;
mod resolve;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{Interlock, InvalidScopeMap, Restrictions, ScopeIndex, ScopeMap, Thumbprint};

use crate::fault::{Faults, Origin, toml_fault};

pub use words::{Covered, InvalidWord, duration_text, parse_duration, parse_thumbprint};

/// The largest plant file that is read, in bytes.
pub const MAX_PLANT_FILE: usize = 64 << 20;

/// A whole plant, checked: every name that one part uses is defined by another, and nothing contains itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Plant {
    /// The plant's name.
    pub name: String,
    /// Lifetime of a grant when no policy that permits it says otherwise.
    pub default_lifetime: Duration,
    /// No grant lives longer, whatever a policy says.
    pub longest_lifetime: Duration,
    /// Sites by name.
    pub sites: BTreeMap<String, Site>,
    /// Zones by name.
    pub zones: BTreeMap<String, Zone>,
    /// Equipment by name.
    pub equipment: BTreeMap<String, Equipment>,
    /// Roles by name.
    pub roles: BTreeMap<String, Role>,
    /// Groups of persons by name.
    pub groups: BTreeMap<String, Group>,
    /// Persons by name (JWT `sub`, user name).
    pub persons: BTreeMap<String, Person>,
    /// Applications by ApplicationUri.
    pub applications: BTreeMap<String, Application>,
    /// Servers by ApplicationUri.
    pub servers: BTreeMap<String, Server>,
}

/// A site: the outermost part of a plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Free words that policies may ask for.
    pub labels: Vec<String>,
}

/// A zone of a site (IEC 62443-3-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The site it belongs to.
    pub site: String,
    /// Free words that policies may ask for.
    pub labels: Vec<String>,
}

/// A piece of equipment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equipment {
    /// Where it stands.
    pub place: EquipmentPlace,
    /// Free words that policies may ask for.
    pub labels: Vec<String>,
}

/// What a piece of equipment belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EquipmentPlace {
    /// It stands in a zone.
    Zone(String),
    /// It is part of other equipment.
    PartOf(String),
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Who has this role also has these.
    pub includes: Vec<String>,
    /// A break-glass role: held only while its holder says why, and no longer than this at a time.
    pub break_glass: Option<Duration>,
}

/// A group of persons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Roles of every member.
    pub roles: Vec<String>,
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Every role, also those from groups and from roles that include others; sorted. Break-glass roles are here too.
    pub roles: Vec<String>,
    /// Groups, sorted.
    pub groups: Vec<String>,
    /// Equipment this person is assigned to, sorted.
    pub assigned: Vec<String>,
    /// The employer; empty when the file does not say.
    pub company: String,
    /// Free words that policies may ask for.
    pub labels: Vec<String>,
}

/// An application: an OPC UA client or server instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// SHA-256 over its DER certificate, when the file pins it.
    pub thumbprint: Option<Thumbprint>,
    /// Every role, also included ones; sorted.
    pub roles: Vec<String>,
    /// Equipment it is assigned to, sorted.
    pub assigned: Vec<String>,
    /// Who runs it; empty when the file does not say.
    pub company: String,
    /// Free words that policies may ask for.
    pub labels: Vec<String>,
}

/// One OPC UA server and its scopes.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Short name: the first half of its scopes' names in policies.
    pub name: String,
    /// The equipment it controls.
    pub equipment: String,
    /// What a channel must be for every scope that does not say otherwise (OPC 10000-3 §8.56).
    pub restrictions: Restrictions,
    /// How clients that cannot carry a token may sign in at the guard that stands for it; not at all where this is empty.
    pub sign_in: Vec<SignIn>,
    /// Scopes and then methods, each in the order of the file: position n here is position n + 1 in the
    /// [`ScopeMap`], after `public`.
    pub scopes: Vec<Scope>,
}

/// How a client without a token says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// Name and password.
    UserName,
    /// A person's certificate.
    X509,
    /// Not at all: the person `anonymous@<server>`.
    Anonymous,
}

impl SignIn {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::UserName, Self::X509, Self::Anonymous];

    /// The word in the plant file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserName => "user_name",
            Self::X509 => "x509",
            Self::Anonymous => "anonymous",
        }
    }
}

/// A named part of a server: some nodes and subtrees, or one method.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// The name in the server's map, unique within the server.
    pub name: String,
    /// Whether this is a set of nodes or a method.
    pub kind: ScopeKind,
    /// The nodes it covers. A node that several scopes cover belongs to the one that names it most closely: by NodeId
    /// before by path, a longer path before a shorter one, the later scope of the file last of all.
    pub covers: Vec<Covered>,
    /// The equipment it belongs to: its own, or the server's.
    pub equipment: String,
    /// Free words that policies may ask for.
    pub labels: Vec<String>,
    /// Workflow steps in which it may be operated, for policies that compare them with the marking.
    pub steps: Vec<String>,
    /// What holds for values that are written here, for arguments, and whether two persons are needed; a method without
    /// an `approval` of its own has that of its scope.
    pub interlock: Interlock,
    /// What a channel must be, instead of what the server asks for; a method without its own has those of its scope.
    pub restrictions: Option<Restrictions>,
}

/// What a scope consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// Variables and objects.
    Nodes,
    /// A method with a scope of its own, part of another scope of the same server when that is named.
    Method {
        /// The scope it is part of.
        part_of: Option<String>,
    },
}

impl Plant {
    /// Reads and checks a plant file.
    ///
    /// # Errors
    /// Every fault of the file with its line: syntax, unknown keys, names used but not defined, names defined twice,
    /// equipment or roles that contain themselves, unusable URIs, thumbprints, node ids, durations and ranges.
    pub fn parse(text: &str) -> Result<Self, Faults> {
        if text.len() > MAX_PLANT_FILE {
            let mut list = crate::fault::FaultList::new(Origin::Plant, "");
            list.add(0..0, format!("the file has {} bytes, at most {MAX_PLANT_FILE} are read", text.len()), None);
            list.finish()?;
        }
        let file: file::File = toml::from_str(text).map_err(|error| toml_fault(Origin::Plant, text, &error))?;
        resolve::resolve(text, file)
    }

    /// The server with this ApplicationUri, or with this short name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<(&str, &Server)> {
        let found = self.servers.get_key_value(name);
        found
            .or_else(|| self.servers.iter().find(|(_, server)| server.name == name))
            .map(|(uri, at)| (uri.as_str(), at))
    }
}

impl Server {
    /// The map that tokens for this server index.
    ///
    /// # Errors
    /// Never for a server of a parsed plant, whose names were checked.
    pub fn scope_map(&self) -> Result<ScopeMap, InvalidScopeMap> {
        ScopeMap::new(self.scopes.iter().map(|scope| scope.name.clone()))
    }

    /// What holds in its scopes, for those where something does.
    #[must_use]
    pub fn interlocks(&self) -> BTreeMap<ScopeIndex, Interlock> {
        let all = self.numbered().filter(|(_, scope)| !scope.interlock.is_empty());
        all.map(|(index, scope)| (index, scope.interlock.clone())).collect()
    }

    /// The scopes with their positions in the map.
    pub fn numbered(&self) -> impl Iterator<Item = (ScopeIndex, &Scope)> {
        (1_u32..).map(ScopeIndex).zip(&self.scopes)
    }
}

/// Whether a text is a NodeId as the plant file writes it.
pub(crate) fn is_node_id(text: &str) -> bool {
    words::node_id(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restrictions_go_from_the_server_to_scopes_and_from_scopes_to_their_methods() {
        const SIGNING: Restrictions = Restrictions::SIGNING;
        const ENCRYPTION: Restrictions = Restrictions::ENCRYPTION;
        let head = "[plant]\nname = \"p\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"z\"\nsite = \"s\"\n\
            [[equipment]]\nname = \"e\"\nzone = \"z\"\n\
            [[server]]\nname = \"m\"\nuri = \"urn:m\"\nequipment = \"e\"\nrestrictions = [\"signing\"]\n";
        let parts = [
            ("scope", "plain", "", None),
            ("scope", "lifted", "restrictions = []", Some(Restrictions::NONE)),
            ("scope", "secret", "restrictions = [\"encryption\", \"browse\"]", Some(ENCRYPTION | Restrictions::BROWSE)),
            ("method", "of plain", "scope = \"plain\"", None),
            ("method", "of secret", "scope = \"secret\"", Some(ENCRYPTION | Restrictions::BROWSE)),
            ("method", "own", "scope = \"secret\"\nrestrictions = [\"signing\"]", Some(SIGNING)),
        ];
        let text = parts.iter().fold(head.to_owned(), |text, (kind, name, line, _)| {
            format!("{text}[[server.{kind}]]\nname = \"{name}\"\nnodes = [\"i=1\"]\n{line}\n")
        });
        let plant = Plant::parse(&text).unwrap();
        let (_, server) = plant.server("m").unwrap();
        assert_eq!(server.restrictions, SIGNING);
        for (scope, (_, name, _, expected)) in server.scopes.iter().zip(parts) {
            assert_eq!((scope.name.as_str(), scope.restrictions), (name, expected));
        }
    }
}
