//! The application: its static side (nodes, components, connectors, attributes), its dynamic side (sequences), the work that arrives,
//! what operations of security cost on its platforms, and the annotations that ask for security.

mod parallel;
mod pool;
mod setting;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::choose::Mode;
use crate::mechanism::{Basic, Part};
use crate::plant::Machines;
use crate::{Class, Fault};

pub use parallel::Branches;
pub use pool::{Pool, Units};
pub use setting::{Agreed, Certified, Setting};

/// A model whose names are resolved: every index in it points at something. Made by [`crate::read`] only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Computers and other things that one must wait for.
    pub nodes: Vec<Node>,
    /// Parts of the software.
    pub components: Vec<Component>,
    /// Ways between components.
    pub connectors: Vec<Connector>,
    /// Values that components hold and send.
    pub attributes: Vec<Attribute>,
    /// What requests hold beside cores and lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
    /// Whether more requests than there are could wait for each other in pools for ever.
    #[serde(skip)]
    pub(crate) embraces: bool,
    /// Sequences of steps; the first is the one that a request runs through.
    pub sequences: Vec<Sequence>,
    /// How requests come.
    pub workload: Workload,
    /// What should be secured, and how.
    pub annotations: Vec<Annotation>,
    /// Prices of operations, by platform and operation (`sign rsa-2048`).
    pub prices: Prices,
    /// Money for a MWh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<f64>,
    /// The node of each of whose machines the threads of the workload are meant; without it they are all there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_on: Option<usize>,
    /// What the plant demands of each of its security levels (SL-T of IEC 62443, or its own).
    pub levels: BTreeMap<u32, Level>,
}

/// What a security level demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Level {
    /// How much of what is annotated must be done.
    pub mode: Mode,
    /// Bits of strength.
    pub strength: Option<u32>,
    /// Bits of each RSA key.
    pub rsa: Option<u32>,
}

/// Prices of operations, by platform and operation.
pub type Prices = BTreeMap<String, BTreeMap<String, Price>>;

/// A computer, or an engine beside one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// How many requests it works on at once, at least 1.
    pub cores: u32,
    /// How fast it is against the platform whose prices it uses, above 0; times are divided by it.
    pub speed: f64,
    /// Whose prices are used.
    pub platform: Option<String>,
    /// How many of it there are, and what they take.
    pub machines: Machines,
}

impl Node {
    /// The cores of all its machines.
    #[must_use]
    pub fn all_cores(&self) -> u32 {
        self.cores.saturating_mul(self.machines.count())
    }
}

/// A part of the software, on a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub node: usize,
    /// Bytes of what it shows to prove who it is.
    pub credentials: u64,
}

/// A way from one component to another, in both directions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Connector {
    /// Its name.
    pub name: String,
    /// One end.
    pub from: usize,
    /// The other.
    pub to: usize,
    /// Seconds that each message is on the way.
    pub latency: f64,
    /// Bytes a second of the line, which carries one message at a time; without it only the latency counts.
    pub bytes_a_second: Option<f64>,
}

/// A value that a component holds and sends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub of: usize,
    /// How large it is.
    pub bytes: u64,
}

/// Steps with a name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sequence {
    /// Its name.
    pub name: String,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Something that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Duration {
    /// Mean seconds, from 0.
    pub mean: f64,
    /// Variance over the squared mean, above 0: 1 is exponential, 0.25 four stages in a row.
    pub cv2: f64,
}

/// What happens in a sequence.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A component computes.
    Operation(Operation),
    /// A message goes over a connector.
    Send(Send),
    /// Another sequence, so many times.
    Ref {
        /// Index of the sequence.
        sequence: usize,
        /// At least 1.
        times: u32,
    },
    /// One of these, with its probability; they add up to 1.
    Choice(Vec<(f64, Vec<Step>)>),
    /// A parallel fragment: all branches begin together, and the request goes on when the last of them has ended.
    Par(Branches),
    /// The request has units of a pool from here on, and waits until they are free.
    Acquire(Units),
    /// It gives them back.
    Release(Units),
    /// A mechanism of the library, put here by weaving: a `ref` to a sequence of the library.
    Protect(Protect),
}

/// A component computes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// Who computes.
    pub by: usize,
    /// For how long, on a node of speed 1.
    pub time: Duration,
    /// The attribute that comes of it.
    pub returns: Option<usize>,
    /// Whether an annotation is about it: the star of P4's Figure 6.
    pub critical: bool,
}

/// A message goes over a connector.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Send {
    /// Its name.
    pub name: String,
    /// Over which connector.
    pub over: usize,
    /// From its far end to its near one.
    pub back: bool,
    /// The attributes in it.
    pub carries: Vec<usize>,
    /// Bytes beside the attributes.
    pub bytes: u64,
    /// Whether an annotation is about it.
    pub critical: bool,
}

/// One use of a basic mechanism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Protect {
    /// Which.
    pub mechanism: Basic,
    /// For which property.
    pub property: Property,
    /// Index of the annotation that asked for it.
    pub annotation: usize,
    /// Who runs it.
    pub own: usize,
    /// Who is at the other end.
    pub peer: usize,
    /// Over which connector its messages go, and whether from its far end.
    pub over: Option<(usize, bool)>,
    /// Where private keys are used, if not on the node of their owner.
    pub engine: Option<usize>,
    /// Where those of the other end are used, if not on its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_engine: Option<usize>,
    /// The phase of a protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// Its steps.
    pub parts: Vec<Part>,
}

/// What security adds up to: the composed mechanisms of P4's Table 1, keys, and channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// What goes over a *connector* can be read by its ends only.
    DataConfidentiality,
    /// An *attribute* was not changed on its way.
    DataIntegrity,
    /// A *component* proves to its peers who it is.
    PeerEntityAuthentication,
    /// Where an *attribute* comes from can be proven, then or later.
    DataOriginAuthentication,
    /// A *component* has a key pair, and a certificate for it, both made once in the life of the key.
    CertifiedKey,
    /// Messages over a *connector* go through a channel of a protocol of today.
    SecureChannel,
    /// All that goes over a *connector*, its channel included, goes in packets of a tunnel.
    SecureTunnel,
}

impl Property {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::DataConfidentiality,
        Self::DataIntegrity,
        Self::PeerEntityAuthentication,
        Self::DataOriginAuthentication,
        Self::CertifiedKey,
        Self::SecureChannel,
        Self::SecureTunnel,
    ];

    /// As models write it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::DataConfidentiality => "data-confidentiality",
            Self::DataIntegrity => "data-integrity",
            Self::PeerEntityAuthentication => "peer-entity-authentication",
            Self::DataOriginAuthentication => "data-origin-authentication",
            Self::CertifiedKey => "certified-key",
            Self::SecureChannel => "secure-channel",
            Self::SecureTunnel => "secure-tunnel",
        }
    }

    /// Whether a probability counts with it: that something is there already (`reuse`), that a certificate is known (`known`) or trusted
    /// (`trusted`), that a signature is right (`valid`).
    pub(crate) fn heeds(self, key: &str) -> bool {
        match self {
            Self::DataConfidentiality => matches!(key, "reuse" | "known" | "trusted"),
            Self::DataIntegrity => key == "valid",
            Self::PeerEntityAuthentication => matches!(key, "reuse" | "valid"),
            Self::DataOriginAuthentication => false,
            Self::CertifiedKey => key == "trusted",
            Self::SecureChannel | Self::SecureTunnel => matches!(key, "reuse" | "valid"),
        }
    }

    /// What can be annotated with it.
    #[must_use]
    pub const fn of(self) -> &'static str {
        match self {
            Self::DataConfidentiality | Self::SecureChannel | Self::SecureTunnel => "connector",
            Self::DataIntegrity | Self::DataOriginAuthentication => "attribute",
            Self::PeerEntityAuthentication | Self::CertifiedKey => "component",
        }
    }

    /// The mechanisms that it is made of: of the first four a row of Table 1.
    #[must_use]
    pub const fn made_of(self) -> &'static [Basic] {
        match self {
            Self::DataConfidentiality => &[Basic::Encryption, Basic::Decryption],
            Self::DataIntegrity | Self::PeerEntityAuthentication => {
                &[Basic::SignatureGeneration, Basic::SignatureVerification]
            }
            Self::DataOriginAuthentication => &[Basic::SignatureGeneration],
            Self::CertifiedKey => &[Basic::KeyGeneration, Basic::Certificate],
            Self::SecureChannel | Self::SecureTunnel => &[Basic::Protocol],
        }
    }
}

/// One thing that should be secured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Annotation {
    /// What it should be.
    pub property: Property,
    /// Index of the connector, attribute or component, as the property says.
    pub on: usize,
    /// The ways to do it, at least one; `None` leaves it out. The first is meant where nothing is chosen.
    pub alternatives: Vec<Option<Setting>>,
    /// The configurations that it belongs to; empty means all of them.
    pub configurations: Vec<String>,
    /// Line of the model.
    #[serde(skip)]
    pub line: usize,
}

/// What one operation costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Price {
    /// Seconds each time.
    pub each: f64,
    /// Seconds for each byte.
    pub per_byte: f64,
    /// Variance over the squared mean.
    pub cv2: f64,
    /// Half of the 95 % interval around it, relative: 0.01 is 1 %; 0 where it is known or nobody says.
    pub error: f64,
    /// Joules each time, besides what the power of busy cores says.
    pub energy: f64,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// So many clients; each waits for its answer, then thinks.
    Closed {
        /// At least 1.
        clients: u32,
        /// Seconds between an answer and the next request.
        think: f64,
        /// Requests that are served side by side; the others wait.
        threads: Option<u32>,
    },
    /// Requests arrive by chance; those that find no room are turned away.
    Open {
        /// Requests a second, above 0.
        rate: f64,
        /// Requests that are there at once, those that are served included; at least 1.
        room: u32,
        /// Requests that are served side by side; the others wait.
        threads: Option<u32>,
    },
}

impl Workload {
    /// The most requests that are there at once.
    #[must_use]
    pub const fn jobs(self) -> u32 {
        match self {
            Self::Closed { clients, .. } => clients,
            Self::Open { room, .. } => room,
        }
    }

    /// Requests that are served side by side, where that is limited.
    #[must_use]
    pub const fn threads(self) -> Option<u32> {
        match self {
            Self::Closed { threads, .. } | Self::Open { threads, .. } => threads,
        }
    }
}

impl Model {
    /// The names of its configurations, sorted.
    #[must_use]
    pub fn configurations(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.annotations.iter().flat_map(|it| &it.configurations).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The model with the annotations of one configuration only.
    ///
    /// # Errors
    /// [`Class::NoSuchName`] when no annotation belongs to it.
    pub fn configuration(&self, name: &str) -> Result<Self, Fault> {
        let known = self.configurations();
        if !known.contains(&name) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("no annotation belongs to the configuration `{name}`; known: {known}");
            return Err(Fault::new(Class::NoSuchName, "configuration", why));
        }
        let mut model = self.clone();
        model.annotations.retain(|it| it.configurations.is_empty() || it.configurations.iter().any(|own| own == name));
        Ok(model)
    }

    /// That no two annotations ask for the same property of the same thing: those of different configurations may, and woven together they
    /// would be done one after the other.
    ///
    /// # Errors
    /// [`Class::Doubled`] at the second of the first two that do.
    pub fn undivided(&self) -> Result<(), Fault> {
        let mut seen = BTreeMap::new();
        for annotation in &self.annotations {
            let Some(first) = seen.insert((annotation.property, annotation.on), annotation) else { continue };
            let names = |it: &Annotation| it.configurations.join(", ");
            let why = format!(
                "`{}` is secured in one way in {} and in another in {}: which configuration is meant?",
                self.target(annotation),
                names(first),
                names(annotation)
            );
            return Err(Fault::new(Class::Doubled, annotation.property.word(), why).at(annotation.line));
        }
        Ok(())
    }

    /// The model without annotations: P4's SC0.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { annotations: Vec::new(), ..self.clone() }
    }

    /// The model in which each annotation is done in one way: entry `choices[annotation]`, the first where there is none.
    #[must_use]
    pub fn chosen(&self, choices: &[usize]) -> Self {
        let mut model = self.clone();
        for (index, annotation) in model.annotations.iter_mut().enumerate() {
            let choice = choices.get(index).copied().unwrap_or(0).min(annotation.alternatives.len().saturating_sub(1));
            annotation.alternatives = annotation.alternatives.drain(choice..=choice).collect();
        }
        model
    }

    /// Machines of a node that are left when one is down.
    pub(crate) fn machines_left(&self, node: usize) -> u32 {
        self.nodes[node].machines.count().saturating_sub(1)
    }

    /// Requests that are served side by side, on all machines together, where that is limited.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        let machines = self.threads_on.map_or(1, |node| self.nodes[node].machines.count());
        self.workload.threads().map(|threads| threads.saturating_mul(machines))
    }

    /// Requests that are there at once and may have taken something.
    #[must_use]
    pub fn at_once(&self) -> u32 {
        self.threads().map_or(self.workload.jobs(), |threads| threads.min(self.workload.jobs()))
    }

    /// The name of what an annotation is about: `connector upload`.
    #[must_use]
    pub fn target(&self, annotation: &Annotation) -> String {
        let name = match annotation.property {
            Property::DataConfidentiality | Property::SecureChannel | Property::SecureTunnel => {
                &self.connectors[annotation.on].name
            }
            Property::DataIntegrity | Property::DataOriginAuthentication => &self.attributes[annotation.on].name,
            Property::PeerEntityAuthentication | Property::CertifiedKey => &self.components[annotation.on].name,
        };
        format!("{} {name}", annotation.property.of())
    }

    /// Who sends and who receives a message.
    #[must_use]
    pub fn ends(&self, send: &Send) -> (usize, usize) {
        let connector = &self.connectors[send.over];
        if send.back { (connector.to, connector.from) } else { (connector.from, connector.to) }
    }

    /// Bytes of a message.
    #[must_use]
    pub fn size(&self, send: &Send) -> u64 {
        let carried = send.carries.iter().map(|it| self.attributes[*it].bytes);
        carried.fold(send.bytes, u64::saturating_add)
    }
}
