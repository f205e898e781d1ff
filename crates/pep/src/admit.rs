//! Clients that bring no token, or one without a decision: rights from the server's own configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use access_model::{Mono, Now, Reason, Rights};
use token::Claims;

use crate::check::ANONYMOUS;
use crate::lives::{Examined, FOREVER, Terms};
use crate::table::{Table, Tables};
use crate::{
    ChannelBinding, Gate, GateConfig, GrantFacts, GrantId, Identity, InvalidGate, LocalGrant, LocalScopes, Refusal, Who,
};

/// Tables of combinations of local grants that are kept ready.
const MAX_READY: usize = 256;

/// What becomes of an identity without a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has a local grant.
    Granted(GrantId),
    /// The shell asks the authority for a token and presents it.
    Ask(GrantRequest),
    /// It is turned away.
    Refused(Refusal),
}

/// What the shell asks the authority for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    /// Who asks.
    pub identity: Identity,
    /// Over which channel.
    pub binding: ChannelBinding,
    /// For which server.
    pub audience: String,
}

impl Gate {
    /// What the authority is asked about this identity, when it is one that the gate asks about: a password need not be
    /// checked here then.
    #[must_use]
    pub fn asks(&self, identity: &Identity, binding: &ChannelBinding) -> Option<GrantRequest> {
        let asks = self.config.ask && self.locals.matching(binding, |who| applies(who, identity)).is_empty();
        let (identity, binding) = (identity.clone(), binding.clone());
        asks.then(|| GrantRequest { identity, binding, audience: self.config.audience.clone() })
    }

    /// Grants what the server's own configuration gives this identity, whose proof the caller has checked.
    pub fn admit(&mut self, identity: &Identity, binding: &ChannelBinding, _now: Now) -> Admission {
        if !self.has_room() {
            return Admission::Refused(Refusal::new(Reason::TooBusy, format!("{} grants are alive", self.len())));
        }
        let matching = self.locals.matching(binding, |who| applies(who, identity));
        if matching.is_empty() {
            if self.config.ask {
                let (identity, binding) = (identity.clone(), binding.clone());
                return Admission::Ask(GrantRequest { identity, binding, audience: self.config.audience.clone() });
            }
            let detail = format!("nothing is granted here to `{}` without a token", identity.name());
            return Admission::Refused(Refusal::new(Reason::IdentityNotAccepted, detail));
        }
        let roles = self.locals.roles(&matching);
        match self.locals.table(matching, &mut self.tables) {
            Err(refusal) => Admission::Refused(refusal),
            Ok(table) => {
                let terms = Terms { table, until: Mono::NEVER, expires: FOREVER };
                let facts = facts(identity, roles, binding);
                let examined = Examined { facts, authority: false, minted: terms.clone(), now: terms };
                Admission::Granted(self.insert(examined))
            }
        }
    }
}

fn facts(identity: &Identity, roles: Vec<String>, binding: &ChannelBinding) -> GrantFacts {
    let subject = match identity {
        Identity::Anonymous => ANONYMOUS.to_owned(),
        named => named.name().to_owned(),
    };
    GrantFacts {
        subject,
        issuer: None,
        client: binding.application.clone(),
        roles,
        groups: Vec::new(),
        id: None,
        expires: None,
        epoch: None,
        confirmation: None,
    }
}

fn applies(who: &Who, identity: &Identity) -> bool {
    match (who, identity) {
        (Who::Anonymous, Identity::Anonymous) => true,
        (Who::Authenticated, Identity::User { .. } | Identity::Certificate { .. }) => true,
        (Who::User(name), Identity::User { name: proven }) => name == proven,
        (Who::Certificate(thumbprint), Identity::Certificate { thumbprint: proven, .. }) => thumbprint == proven,
        (Who::CertificateSubject(subject), Identity::Certificate { subject: proven, .. }) => subject == proven,
        _ => false,
    }
}

/// The local grants of a gate, with positions for names.
#[derive(Debug)]
pub(crate) struct Locals {
    grants: Vec<Local>,
    /// Tables by the positions of the grants they join.
    ready: BTreeMap<Vec<usize>, Arc<Table>>,
}

#[derive(Debug)]
struct Local {
    grant: LocalGrant,
    rights: Vec<(Rights, Vec<u32>)>,
}

impl Locals {
    pub(crate) fn new(config: &GateConfig) -> Result<Self, InvalidGate> {
        let resolve = |grant: &LocalGrant| {
            let rights = grant.rights.iter().map(|(held, scopes)| Ok((*held, positions(config, scopes)?)));
            Ok(Local { grant: grant.clone(), rights: rights.collect::<Result<_, _>>()? })
        };
        Ok(Self { grants: config.local.iter().map(resolve).collect::<Result<_, _>>()?, ready: BTreeMap::new() })
    }

    /// The table for a token that carries no decision: what local grants give its roles and groups, which may be
    /// nothing but `public`.
    pub(crate) fn for_token(
        &mut self,
        claims: &Claims,
        binding: &ChannelBinding,
        tables: &mut Tables,
    ) -> Result<Arc<Table>, Refusal> {
        let matching = self.matching(binding, |who| match who {
            Who::TokenRole { issuer, role } => *issuer == claims.issuer && claims.roles.contains(role),
            Who::TokenGroup { issuer, group } => *issuer == claims.issuer && claims.groups.contains(group),
            _ => false,
        });
        self.table(matching, tables)
    }

    fn matching(&self, binding: &ChannelBinding, applies: impl Fn(&Who) -> bool) -> Vec<usize> {
        let fits = |grant: &LocalGrant| applies(&grant.who) && (binding.encrypted || !grant.require_encryption);
        self.grants.iter().enumerate().filter(|(_, local)| fits(&local.grant)).map(|(at, _)| at).collect()
    }

    fn roles(&self, matching: &[usize]) -> Vec<String> {
        let mut roles: Vec<String> =
            matching.iter().filter_map(|at| self.grants.get(*at)).flat_map(|local| local.grant.roles.clone()).collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    fn table(&mut self, matching: Vec<usize>, tables: &mut Tables) -> Result<Arc<Table>, Refusal> {
        if let Some(table) = self.ready.get(&matching) {
            return Ok(Arc::clone(table));
        }
        let rights =
            matching.iter().filter_map(|at| self.grants.get(*at)).flat_map(|local| local.rights.iter().cloned());
        let table = tables.for_local(rights)?;
        if self.ready.len() < MAX_READY {
            self.ready.insert(matching, Arc::clone(&table));
        }
        Ok(table)
    }
}

fn positions(config: &GateConfig, scopes: &LocalScopes) -> Result<Vec<u32>, InvalidGate> {
    match scopes {
        LocalScopes::All => Ok(config.map.iter().map(|(scope, _)| scope.0).collect()),
        LocalScopes::Named(names) => {
            let position = |name: &String| {
                config.map.position(name).map(|scope| scope.0).ok_or_else(|| InvalidGate::UnknownScope(name.clone()))
            };
            names.iter().map(position).collect()
        }
    }
}
