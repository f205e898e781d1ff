//! What a server counts, beside its gate. Labels are words of our own; nothing that a peer sends becomes one.

use access_model::meter::{Counter, Histogram, LONG};
use access_model::{Outcome, Reason};

/// What a server counts; written by the thread that drives it.
#[derive(Debug)]
pub struct ServerMeters {
    /// By their reasons, in the order of [`Reason::ALL`].
    denials: Box<[Counter]>,
    /// From the connection to its Hello.
    pub hello: Histogram,
    /// From Hello to the open channel.
    pub open: Histogram,
    /// From CreateSession to its answer.
    pub create: Histogram,
    /// From ActivateSession to the answer that it succeeded.
    pub activate: Histogram,
    /// The same without what the authority was asked meanwhile.
    pub activate_here: Histogram,
    /// From an ask for a grant to what the authority says.
    pub authority: Histogram,
    /// Of a guard: from the call to its server until a session there is active; of those that become so.
    pub upstream_open: Histogram,
    /// Of a guard: from a request to its server to the answer.
    pub upstream: Histogram,
}

impl Default for ServerMeters {
    fn default() -> Self {
        let long = || Histogram::new(LONG);
        Self {
            denials: Reason::ALL.iter().map(|_| Counter::default()).collect(),
            hello: long(),
            open: long(),
            create: long(),
            activate: long(),
            activate_here: long(),
            authority: long(),
            upstream_open: long(),
            upstream: long(),
        }
    }
}

impl ServerMeters {
    /// How often something was denied or refused, by the reason: as often as the audit says. Equal denials that the audit
    /// sums up show within a second.
    pub fn denials(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.iter().copied().zip(self.denials.iter().map(Counter::get))
    }

    /// A record is written.
    pub(super) fn recorded(&self, outcome: &Outcome, count: u64) {
        if let Outcome::Denied(reason) = outcome
            && let Some(at) = Reason::ALL.iter().position(|known| known == reason)
            && let Some(counter) = self.denials.get(at)
        {
            counter.add(count);
        }
    }
}
