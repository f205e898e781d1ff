//! The authority's vote on whose turn it is among guards that stand in for one another ([`access_model::turn`]): one voter for
//! each server, silent at first, for nothing of it is kept over a restart.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use access_model::turn::{Ballot, HolderId, LONGEST_TURN, Members, Vote, Voter};
use access_model::{Actor, AuditKind, Mono, Now, Outcome, Reason};

use crate::core::Authority;

/// The voters, by the ApplicationUri of the guards.
#[derive(Debug)]
pub(crate) struct Leases {
    begun: Now,
    voters: BTreeMap<String, Lease>,
}

/// The vote on one server.
#[derive(Debug)]
struct Lease {
    voter: Voter,
    members: Members,
    /// Since when the third asked that was recorded last.
    recorded: Option<Mono>,
}

impl Leases {
    pub(crate) const fn new(begun: Now) -> Self {
        Self { begun, voters: BTreeMap::new() }
    }

    /// Only for audiences that are registered: there are no more voters than servers.
    fn of(&mut self, audience: &str) -> &mut Lease {
        let begun = self.begun;
        let new = || Lease { voter: Voter::new(begun), members: Members::default(), recorded: None };
        self.voters.entry(audience.to_owned()).or_insert_with(new)
    }
}

impl Authority {
    /// A guard asks for this vote, and says whom it found where the other should be. A third is recorded when it does not
    /// turn out to be one of the two within a turn.
    pub(crate) fn vote(&self, by: &Actor, audience: &str, (ballot, other): (Ballot, Option<HolderId>)) -> Vote {
        let now = self.now();
        let mut leases = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = leases.of(audience);
        if let Err(since) = lease.members.admit(ballot.holder, other, now) {
            let news = now.mono.since(since) >= LONGEST_TURN && lease.recorded != Some(since);
            if news {
                lease.recorded = Some(since);
            }
            drop(leases);
            if news {
                let detail = "a third program with the certificate of two guards asks for their turn";
                tracing::error!(audience, address = by.address, detail);
                self.note(AuditKind::Contact, by, audience, Outcome::Denied(Reason::StandingBy), detail);
            }
            return Vote::Third;
        }
        let before = lease.voter.promised(now);
        let vote = lease.voter.ask(ballot, now);
        if vote == Vote::Given && before != Some(ballot.holder) {
            tracing::info!(audience, term = ballot.term, "another guard has this vote for its turn");
        }
        vote
    }

    /// A guard gives its turn back.
    pub(crate) fn release(&self, audience: &str, (holder, other): (HolderId, Option<HolderId>), term: u64) {
        let now = self.now();
        let mut leases = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = leases.of(audience);
        // One that leaves the turn to the other is one of the two all the same.
        let _third = lease.members.admit(holder, other, now);
        lease.voter.release(holder, term);
    }
}
