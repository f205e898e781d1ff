//! The authority's vote on whose turn it is among guards that stand in for one another ([`access_model::turn`]): one voter for
//! each server, silent at first, for nothing of it is kept over a restart.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use access_model::Now;
use access_model::turn::{Ballot, HolderId, Vote, Voter};

use crate::core::Authority;

/// The voters, by the ApplicationUri of the guards.
#[derive(Debug)]
pub(crate) struct Leases {
    begun: Now,
    voters: BTreeMap<String, Voter>,
}

impl Leases {
    pub(crate) const fn new(begun: Now) -> Self {
        Self { begun, voters: BTreeMap::new() }
    }

    /// Only for audiences that are registered: there are no more voters than servers.
    fn of(&mut self, audience: &str) -> &mut Voter {
        self.voters.entry(audience.to_owned()).or_insert_with(|| Voter::new(self.begun))
    }
}

impl Authority {
    /// A guard asks for this vote.
    pub(crate) fn vote(&self, audience: &str, ballot: Ballot) -> Vote {
        let now = self.now();
        let mut leases = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let voter = leases.of(audience);
        let before = voter.promised(now);
        let vote = voter.ask(ballot, now);
        if vote == Vote::Given && before != Some(ballot.holder) {
            tracing::info!(audience, term = ballot.term, "another guard has this vote for its turn");
        }
        vote
    }

    /// A guard gives its turn back.
    pub(crate) fn release(&self, audience: &str, holder: HolderId, term: u64) {
        let mut leases = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.of(audience).release(holder, term);
    }
}
