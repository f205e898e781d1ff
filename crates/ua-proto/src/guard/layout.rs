//! Changes while the guard runs: other scopes for the nodes behind it, and other ways to the upstream server.

use std::collections::BTreeMap;

use access_model::{Interlock, Now, Restrictions, ScopeIndex, ScopeMap};
use pep::InvalidGate;

use super::config::UpstreamIdentity;
use super::link::Link;
use super::links::Owner;
use super::scopes::ScopeRules;
use super::{Guard, own};

/// The scopes of the nodes behind a guard, as one plant file has them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The map that tokens index.
    pub map: ScopeMap,
    /// Which node lies in which scope.
    pub rules: ScopeRules,
    /// What holds for values in each scope.
    pub interlocks: BTreeMap<ScopeIndex, Interlock>,
    /// What a channel must be, for every scope that does not say otherwise and for those that do.
    pub restrictions: (Restrictions, Vec<(ScopeIndex, Restrictions)>),
}

impl Guard {
    /// Lays another set of scopes over the upstream server. Until it was looked at again nothing is forwarded; what was
    /// obtained under the old scopes does not leave any more. When the map is another too, every grant ends until its
    /// client brings a token that indexes it. Gives whether it is.
    ///
    /// # Errors
    /// As [`pep::Gate::set_map`]; then nothing changes.
    pub fn lay_out(&mut self, layout: Layout, now: Now) -> Result<bool, InvalidGate> {
        let Layout { map, rules, interlocks, restrictions: (default, own) } = layout;
        let arrange = |space: &mut crate::space::Space| {
            space.set_restrictions(default, own);
            Vec::new()
        };
        let another = self.front.lay_out(map, arrange, now)?;
        self.config.rules = own::shown(rules, self.config.paired);
        self.front.set_interlocks(interlocks);
        for owner in self.sessions() {
            if let Owner::Session(key) = owner
                && let Some(mut link) = self.links.remove(&owner)
            {
                link.put_nowhere();
                self.put_off(key, &mut link, now);
                self.recheck(key, &mut link, true, now);
                self.put_back(owner, link, now);
            }
        }
        self.look_anew(now);
        self.take_over(now);
        Ok(another)
    }

    /// Reaches the upstream server in another way, or for the first time. Sessions upstream that were made in the old way
    /// are closed.
    pub fn reach(&mut self, upstream: Vec<UpstreamIdentity>, now: Now) {
        self.config.upstream = upstream;
        self.look_anew(now);
        for key in self.front.session_keys() {
            self.changed(key, now);
        }
        self.take_over(now);
    }

    pub(super) fn sessions(&self) -> Vec<Owner> {
        self.links.keys().copied().filter(|owner| matches!(owner, Owner::Session(_))).collect()
    }

    /// A look that is under way was for something else.
    fn look_anew(&mut self, now: Now) {
        self.survey = None;
        if let Some(survey) = self.links.remove(&Owner::Survey) {
            self.arm(Owner::Survey, None);
            self.close_link(Owner::Survey, survey, now);
        }
        self.survey_pause = std::time::Duration::ZERO;
        self.start_survey(now);
    }
}

impl Link {
    /// Until the server was looked at again, nothing that the session holds lies anywhere.
    fn put_nowhere(&mut self) {
        self.points.forget();
        #[expect(clippy::disallowed_methods, reason = "each by itself")]
        for alias in self.aliases.values_mut() {
            alias.scope = ScopeIndex::NOWHERE;
        }
        self.subs.rescope(|_| ScopeIndex::NOWHERE);
    }
}
