//! Changes that two persons are needed for: the first asks by trying, the second approves at the authority, and then the
//! very same change passes once.
//!
//! A question belongs to the gate that asked it: its name begins with what tells this run of the gate from every other,
//! and what it is about (whose change, and a digest of it) stays here. So an approval is of use at one gate, for one
//! principal, for one change and once, whoever else hears of it; and a gate that starts anew knows of none.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use access_model::{Mono, Now, TwoPersons};
use token::control::Approved;

use crate::check::ANONYMOUS;
use crate::{Gate, GateEvent, GrantFacts, GrantId};

/// Most questions of one principal that wait, and of all together.
const MOST: (usize, usize) = (8, 1_024);
/// Most tokens that a question remembers; who is revoked loses the latest of them with all others.
const MOST_TOKENS: usize = 8;
/// Who tries again is told the same; the authority is asked again after so long, for it may have forgotten.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Longest description of a change, in bytes.
const MAX_TEXT: usize = 512;

/// A change that two persons are needed for.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Under which grant.
    pub grant: GrantId,
    /// SHA-256 over everything that makes it this change: service, nodes, attribute, part, value.
    pub digest: [u8; 32],
    /// Who must approve: every role of these, within the shortest time of them. Not empty.
    pub terms: &'a [TwoPersons],
    /// The change in words, for who approves. It may show the value.
    pub change: &'a str,
}

/// Whether such a change may be made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Once, now. The question is used up.
    Given {
        /// The question.
        id: String,
        /// Who approved.
        by: String,
    },
    /// Not before a second person has approved.
    Waits {
        /// The question to be answered.
        id: String,
    },
    /// Nobody will be asked; a sentence says why.
    Never(&'static str),
}

/// What a second person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// How the gate calls it.
    pub id: String,
    /// Who wants to make the change.
    pub subject: String,
    /// Who says so; `None` for a local grant.
    pub issuer: Option<String>,
    /// The ApplicationUri of the client, where the grant names one.
    pub client: Option<String>,
    /// The roles that who approves must have, all of them.
    pub roles: Vec<String>,
    /// How long it waits, and how long the change may be made once it is approved.
    pub within: Duration,
    /// The change in words.
    pub change: String,
}

/// Whose change it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Who {
    issuer: Option<String>,
    subject: String,
    client: Option<String>,
}

impl Who {
    fn of(facts: &GrantFacts) -> Self {
        Self { issuer: facts.issuer.clone(), subject: facts.subject.clone(), client: facts.client.clone() }
    }
}

impl Pending {
    fn under(&mut self, token: Option<&String>) {
        let Some(token) = token else { return };
        self.tokens.retain(|known| known != token);
        if self.tokens.len() >= MOST_TOKENS {
            self.tokens.pop_front();
        }
        self.tokens.push_back(token.clone());
    }
}

#[derive(Debug)]
struct Pending {
    who: Who,
    digest: [u8; 32],
    terms: Vec<TwoPersons>,
    within: Duration,
    /// Under which tokens it was asked, and the principal was here since, the latest last.
    tokens: VecDeque<String>,
    /// Until then it waits, or holds.
    until: Mono,
    /// When the authority was asked last.
    asked: Mono,
    /// Who approved.
    by: Option<String>,
}

/// The questions of one gate.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    run: String,
    last: u64,
    pending: BTreeMap<String, Pending>,
    questions: VecDeque<Question>,
}

impl Gate {
    /// What tells the questions of this run of the gate from those of every other: random bytes, given once, before the
    /// first question.
    pub fn set_run(&mut self, run: [u8; 8]) {
        self.approvals.run = run.iter().map(|byte| format!("{byte:02x}")).collect();
    }

    /// Asks whether a change may be made that two persons are needed for. The rights were checked before; this is the last
    /// question, for a `yes` is used up by it.
    pub fn consent(&mut self, asking: &Asking<'_>, now: Now) -> Consent {
        let Some(record) = self.record(asking.grant) else { return Consent::Never("there is no grant") };
        let facts = &record.facts;
        if facts.subject == ANONYMOUS || facts.subject.starts_with("anonymous@") {
            return Consent::Never("who does not say who it is has no second person");
        }
        if self.standby.is_none() || self.approvals.run.is_empty() {
            return Consent::Never("this gate has no authority to ask");
        }
        if !record.authority {
            return Consent::Never("who is not known by its name at the authority may be the second person itself");
        }
        let who = (Who::of(facts), facts.id.clone());
        let (consent, asked) = self.approvals.consent(who, asking, now.mono);
        if asked {
            self.events.push_back(GateEvent::Question);
        }
        consent
    }

    /// The next question for the authority.
    pub fn poll_question(&mut self) -> Option<Question> {
        self.approvals.questions.pop_front()
    }

    /// A grant is gone, its token is not: if that is revoked, the questions of its principal still go with it.
    pub(crate) fn remember_token(&mut self, grant: GrantId) {
        if self.approvals.pending.is_empty() {
            return;
        }
        let Some((who, token)) = self.claims(grant).map(|facts| (Who::of(facts), facts.id.clone())) else { return };
        for pending in self.approvals.pending.values_mut().filter(|pending| pending.who == who) {
            pending.under(token.as_ref());
        }
    }

    /// The authority took a token back, whether or not a grant stands on it here.
    pub(crate) fn forget_questions_under(&mut self, token: &str) {
        self.approvals.pending.retain(|_, pending| !pending.tokens.iter().any(|known| known == token));
    }

    /// Whoever lost a grant starts anew: what was approved for it is not for the next one.
    pub(crate) fn forget_questions(&mut self, grant: GrantId) {
        if let Some(who) = self.claims(grant).map(Who::of) {
            self.approvals.pending.retain(|_, pending| pending.who != who);
        }
    }
}

/// The words of a change as they are sent. Whoever approves sees that some are missing, and by the digest, which change.
fn fitting(words: &str, digest: &[u8; 32]) -> String {
    if words.len() <= MAX_TEXT {
        return words.to_owned();
    }
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let cut = format!("… (cut, digest {digest})");
    let ends = words.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end + cut.len() <= MAX_TEXT).last().unwrap_or(0);
    words.get(..end).unwrap_or_default().to_owned() + &cut
}

impl Approvals {
    /// Gives also whether there is a question to be carried to the authority.
    fn consent(&mut self, (who, token): (Who, Option<String>), asking: &Asking<'_>, now: Mono) -> (Consent, bool) {
        self.pending.retain(|_, pending| now < pending.until);
        // What somebody approved under other terms is another question: another role may be asked for now.
        let same = |(_, pending): &(&String, &mut Pending)| {
            pending.who == who && pending.digest == asking.digest && pending.terms == asking.terms
        };
        if let Some((id, pending)) = self.pending.iter_mut().find(same) {
            let id = id.clone();
            if let Some(by) = pending.by.take() {
                self.pending.remove(&id);
                return (Consent::Given { id, by }, false);
            }
            pending.under(token.as_ref());
            let again = now.since(pending.asked) >= ASK_AGAIN;
            if again {
                pending.asked = now;
                self.ask(&id, who, asking);
            }
            return (Consent::Waits { id }, again);
        }
        let own = self.pending.values().filter(|pending| pending.who == who).count();
        if own >= MOST.0 || self.pending.len() >= MOST.1 {
            return (Consent::Never("too many changes wait for a second person"), false);
        }
        self.last = self.last.saturating_add(1);
        let id = format!("{}-{}", self.run, self.last);
        let within = asking.terms.iter().map(|terms| terms.within).min().unwrap_or_default();
        let (digest, terms) = (asking.digest, asking.terms.to_vec());
        self.ask(&id, who.clone(), asking);
        let tokens = token.into_iter().collect();
        let pending = Pending { who, digest, terms, within, tokens, until: now + within, asked: now, by: None };
        self.pending.insert(id.clone(), pending);
        (Consent::Waits { id }, true)
    }

    fn ask(&mut self, id: &str, who: Who, asking: &Asking<'_>) {
        if self.questions.len() >= MOST.1 {
            return;
        }
        let mut roles: Vec<String> = asking.terms.iter().map(|terms| terms.role.clone()).collect();
        roles.sort_unstable();
        roles.dedup();
        let within = asking.terms.iter().map(|terms| terms.within).min().unwrap_or_default();
        let change = fitting(asking.change, &asking.digest);
        let Who { issuer, subject, client } = who;
        self.questions.push_back(Question { id: id.to_owned(), subject, issuer, client, roles, within, change });
    }

    /// What the authority says was approved. The full list is the whole truth: what it does not name is not approved.
    pub(crate) fn answered(&mut self, approved: &[Approved], full: bool, now: Now) {
        if full {
            for (id, pending) in &mut self.pending {
                if !approved.iter().any(|one| one.id == *id) {
                    pending.by = None;
                }
            }
        }
        for one in approved {
            let Some(pending) = self.pending.get_mut(&one.id) else { continue };
            // Said twice, it does not hold longer.
            let another = one.by != pending.who.subject;
            if another && pending.by.is_none() && now.mono < pending.until && now.unix < one.expires {
                pending.until = now.mono + pending.within.min(one.expires.since(now.unix));
                pending.by = Some(one.by.clone());
            }
        }
    }
}
