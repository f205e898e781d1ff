//! Values of the Server object that are the guard's own: who it is, how well it serves (OPC 10000-4 §6.6.2.4.2), that it
//! is about to end, and who stands in for it (OPC 10000-5 §6.3.7). What the server behind it says of other servers would
//! lead clients past the guard.

use std::time::Duration;

use access_model::{Now, ScopeIndex, UnixTime};
use opcua_types::{
    Array, ExtensionObject, Identifier, NodeId, RedundancySupport, RedundantServerDataType, ServerState, UAString,
    Variant, VariantScalarTypeId,
};

use super::desk::Desk;
use super::link::{Link, Stage};
use super::{Guard, ScopeEntry, ScopeRule, ScopeRules};
use crate::server::Server;
use crate::space::{UA_NAMESPACE, date_time, ns0};

/// Server_ServerArray.
const SERVER_ARRAY: u32 = 2_254;
/// Server_ServiceLevel.
pub(super) const SERVICE_LEVEL: u32 = 2_267;
/// Server_ServerRedundancy: RedundancySupport, CurrentServerId, RedundantServerArray, ServerUriArray, ServerNetworkGroups.
const SUPPORT: u32 = 3_709;
const CURRENT: u32 = 11_312;
const SERVERS: u32 = 11_313;
const URIS: u32 = 11_314;
const NETWORKS: u32 = 14_415;
/// Server_EstimatedReturnTime.
const RETURN: u32 = 12_885;
/// ServerStatus and its SecondsTillShutdown: what is left until the end.
const LEFT: [u32; 2] = [2_256, 2_992];
/// State, ShutdownReason and EstimatedReturnTime.
const ENDING: [u32; 3] = [2_259, 2_993, RETURN];

/// The ServiceLevel of a guard whose server is away: NoData.
const NO_DATA: u8 = 1;

/// How the guard stands, as one session sees it.
#[derive(Clone, Copy)]
pub(super) struct Face<'a> {
    pub(super) front: &'a Server,
    /// It is one of two that stand in for one another.
    paired: bool,
    /// The session's own session at the server behind is away.
    away: bool,
}

/// What of it was told last to those who monitor it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    level: u8,
    /// When it was said last that the guard ends soon.
    ending: Option<UnixTime>,
}

impl Look {
    /// The values that are others since `before`.
    pub(super) fn differs(self, before: Self, number: u32) -> bool {
        match number {
            SERVICE_LEVEL | SERVERS => self.level != before.level,
            _ if LEFT.contains(&number) => self.ending != before.ending,
            _ if ENDING.contains(&number) => self.ending.is_some() != before.ending.is_some(),
            _ => false,
        }
    }
}

impl Guard {
    /// How it stands for the session of this link.
    pub(super) fn face(&self, link: &Link) -> Face<'_> {
        Face { front: &self.front, paired: self.config.paired, away: link.stage != Stage::Ready }
    }

    /// Those who monitor how it stands are told what changed.
    pub(super) fn show_all(&mut self, now: Now) {
        for owner in self.sessions() {
            if let Some(link) = self.links.remove(&owner) {
                self.put_back(owner, link, now);
            }
        }
    }

    /// As it stands while nothing is known to be amiss between it and the server behind: values that came are told so.
    pub(super) fn fair_face(&self) -> Face<'_> {
        Face { front: &self.front, paired: self.config.paired, away: false }
    }
}

impl Desk<'_> {
    /// How the guard stands for this session.
    pub(super) fn face(&self) -> Face<'_> {
        Face { front: self.front, paired: self.config.paired, away: self.link.stage != Stage::Ready }
    }
}

impl Face<'_> {
    /// The guard's own value of a node of namespace 0, whatever the server behind it says; `None` where that counts.
    pub(super) fn value(&self, number: u32) -> Option<Variant> {
        match number {
            SERVER_ARRAY => strings(&[&self.front.front_config().application_uri]),
            SERVICE_LEVEL if self.away || self.front.draining().is_some() => Some(Variant::Byte(self.level())),
            SUPPORT => Some(Variant::Int32(self.support() as i32)),
            CURRENT => Some(Variant::String(UAString::null())),
            SERVERS => {
                list(VariantScalarTypeId::ExtensionObject, self.paired.then(|| self.serving()).into_iter().collect())
            }
            URIS if self.paired => strings(&[&self.front.front_config().application_uri]),
            URIS => strings(&[]),
            NETWORKS => list(VariantScalarTypeId::ExtensionObject, Vec::new()),
            _ if LEFT.contains(&number) || ENDING.contains(&number) => self.ending(number),
            _ => None,
        }
    }

    /// ServiceLevel: what is left of the level that the server behind has.
    pub(super) fn level(&self) -> u8 {
        match (self.front.space().server_facts(), self.away) {
            (Some(facts), true) => facts.service_level.min(NO_DATA),
            (Some(facts), false) => facts.service_level,
            (None, _) => NO_DATA,
        }
    }

    /// What is to be told when something of it changes.
    pub(super) fn look(&self) -> Look {
        Look { level: self.level(), ending: self.front.draining() }
    }

    /// ServiceLevel as the server behind said it, in binary, cut to what the guard leaves of it.
    pub(super) fn cut(&self, theirs: &[u8]) -> Vec<u8> {
        match theirs {
            [kind, level] => vec![*kind, (*level).min(self.level())],
            other => other.to_vec(),
        }
    }

    /// Of two guards one serves at a time, and the other takes no connection.
    const fn support(&self) -> RedundancySupport {
        if self.paired { RedundancySupport::Cold } else { RedundancySupport::None }
    }

    /// The entry of RedundantServerArray for the one ApplicationUri that both guards have: whoever is asked serves.
    fn serving(&self) -> Variant {
        let state = self.front.space().server_facts().map_or(ServerState::Unknown, |facts| facts.state);
        Variant::ExtensionObject(ExtensionObject::from_message(RedundantServerDataType {
            server_id: self.front.front_config().application_uri.as_str().into(),
            service_level: self.level(),
            server_state: state,
        }))
    }

    /// What is told of the end, once it is near.
    fn ending(&self, number: u32) -> Option<Variant> {
        let said = self.front.draining()?;
        let space = self.front.space();
        if number == RETURN {
            let (seconds, _) = space.server_facts()?.shutdown.as_ref()?;
            // Before it has ended it cannot be back.
            return Some(Variant::DateTime(Box::new(date_time(said + Duration::from_secs((*seconds).into())))));
        }
        ns0::find_numeric(number).and_then(|node| space.value(node, said).value)
    }
}

/// The number of a node that may have a value of the guard's own.
pub(super) const fn number_of(node: &NodeId) -> Option<u32> {
    match (node.namespace, &node.identifier) {
        (0, Identifier::Numeric(number)) => Some(*number),
        _ => None,
    }
}

/// Nodes that the guard answers and that namespace 0 hides are there for everybody, unless a rule says otherwise.
pub(super) fn shown(mut rules: ScopeRules, paired: bool) -> ScopeRules {
    let numbers: &[u32] = if paired { &[RETURN, SERVERS, URIS] } else { &[RETURN] };
    let entry = |number: &u32| ScopeEntry {
        scope: ScopeIndex::PUBLIC,
        namespace: UA_NAMESPACE.to_owned(),
        rule: ScopeRule::Node(Identifier::Numeric(*number)),
    };
    rules.entries.splice(0..0, numbers.iter().map(entry));
    rules
}

fn strings(texts: &[&str]) -> Option<Variant> {
    list(VariantScalarTypeId::String, texts.iter().map(|text| Variant::String((*text).into())).collect())
}

fn list(kind: VariantScalarTypeId, values: Vec<Variant>) -> Option<Variant> {
    Array::new(kind, values).ok().map(|array| Variant::Array(Box::new(array)))
}
