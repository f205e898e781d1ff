//! Whose turn it is among two guards that stand in for one another: a lease that a majority of three voters gives, the
//! authority and the two guards themselves.
//!
//! A [`Voter`] promises its vote to one holder for a while, by its own monotonic clock, from the moment at which it was asked. A
//! [`Candidate`] counts a vote from the moment before it asked, for seven eighths of that while, on both of its clocks. So
//! a candidate stops to count on a vote before its voter may give it to another, as long as no clock runs an eighth
//! faster than another. Two majorities of three share a voter, so two candidates never hold the lease at a time, whatever
//! is lost, late or cut off. A voter that has started anew does not know what it has promised, and is silent for the
//! longest while that a promise can last.
//!
//! With the authority away the guards have a majority between them; with one guard gone, or cut off, the other has one
//! together with the authority. Whoever reaches neither has none and stops. Two that cannot both be reached stop the third.
//!
//! There are two guards and no third: a guard's vote is for itself and for the program that it finds where the other should
//! be; the authority's is for two that vouch for one another ([`Members`]).
//!
//! It leaves out: sockets, and when to ask.

use std::time::Duration;

use crate::{Mono, Now, UnixTime};

/// The longest while for which votes are given.
pub const LONGEST_TURN: Duration = Duration::from_secs(6);

/// One run of one guard: a random number, so that a guard that was started anew is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u64);

/// What a candidate asks a voter for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ballot {
    /// Who asks.
    pub holder: HolderId,
    /// The number of its turn: each new one is greater.
    pub term: u64,
    /// For how long; at most [`LONGEST_TURN`].
    pub span: Duration,
}

/// What a voter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It promises its vote for the span of the ballot, from when it was asked.
    Given,
    /// It does not.
    Refused {
        /// Who has its promise.
        to: Option<HolderId>,
        /// The latest term that it knows of.
        term: u64,
    },
    /// It votes for two others: whoever asks is a third.
    Third,
}

/// One that gives its vote to one holder at a time.
#[derive(Debug)]
pub struct Voter {
    /// What it promised before it started is over by then.
    silent_until: Mono,
    promised: Option<(HolderId, Mono)>,
    term: u64,
    /// The two that it votes for, if not for everybody.
    between: Option<(HolderId, Option<HolderId>)>,
}

impl Voter {
    /// One that has just started.
    #[must_use]
    pub fn new(now: Now) -> Self {
        Self { silent_until: now.mono + LONGEST_TURN, promised: None, term: 0, between: None }
    }

    /// One that knows it never promised anything, or that nobody gave it a longer while than this.
    #[must_use]
    pub fn after(longest: Duration, now: Now) -> Self {
        Self { silent_until: now.mono + longest.min(LONGEST_TURN), ..Self::new(now) }
    }

    /// From now on it votes for its own guard and the one that this knows for the other, and for nobody else.
    pub fn between(&mut self, own: HolderId, other: Option<HolderId>) {
        self.between = Some((own, other));
    }

    /// A candidate asks for its vote.
    pub fn ask(&mut self, ballot: Ballot, now: Now) -> Vote {
        if self.between.is_some_and(|(own, other)| ballot.holder != own && Some(ballot.holder) != other) {
            return Vote::Third;
        }
        let promised = self.promised.filter(|(_, until)| now.mono < *until).map(|(holder, _)| holder);
        let refused = Vote::Refused { to: promised, term: self.term };
        if now.mono < self.silent_until || ballot.span > LONGEST_TURN {
            return refused;
        }
        if promised.is_some_and(|holder| holder != ballot.holder) {
            return refused;
        }
        // A request that was under way for long asks for a turn that is over.
        let renews = self.promised.is_some_and(|(holder, _)| holder == ballot.holder) && ballot.term == self.term;
        if !renews && ballot.term <= self.term {
            return refused;
        }
        self.term = ballot.term;
        self.promised = Some((ballot.holder, now.mono + ballot.span));
        Vote::Given
    }

    /// A holder gives its turn back. A word about another turn than the present one changes nothing; says whether it did.
    pub fn release(&mut self, holder: HolderId, term: u64) -> bool {
        let present = self.term == term && self.promised.is_some_and(|(promised, _)| promised == holder);
        if present {
            self.promised = None;
        }
        present
    }

    /// Who has its promise.
    #[must_use]
    pub fn promised(&self, now: Now) -> Option<HolderId> {
        self.promised.filter(|(_, until)| now.mono < *until).map(|(holder, _)| holder)
    }
}

/// One that wants its turn.
#[derive(Debug)]
pub struct Candidate {
    me: HolderId,
    span: Duration,
    term: u64,
    /// The latest term that a voter told of.
    seen: u64,
    /// Until when it counts on each vote.
    votes: [Option<(Mono, UnixTime)>; VOTERS],
}

/// The authority and two guards.
pub const VOTERS: usize = 3;
const MAJORITY: usize = 2;

impl Candidate {
    /// One without any vote.
    #[must_use]
    pub const fn new(me: HolderId, span: Duration) -> Self {
        Self { me, span, term: 0, seen: 0, votes: [None; VOTERS] }
    }

    /// Begins a new turn, unless it has one: what it was given before is given up, and has to be released.
    pub fn begin(&mut self, now: Now) {
        if self.until(now).is_none() {
            let clock = u64::try_from(now.unix.as_seconds()).unwrap_or(0);
            self.term = self.term.max(self.seen).saturating_add(1).max(clock);
            self.votes = [None; VOTERS];
        }
    }

    /// What to ask each voter for now.
    #[must_use]
    pub const fn ballot(&self) -> Ballot {
        Ballot { holder: self.me, term: self.term, span: self.span }
    }

    /// A voter has answered a ballot that was made at `asked`.
    pub fn heard(&mut self, voter: usize, ballot: Ballot, vote: Vote, asked: Now) {
        match vote {
            Vote::Given if ballot == self.ballot() => {
                let counted = self.span - self.span / 8;
                if let Some(place) = self.votes.get_mut(voter) {
                    let until = (asked.mono + counted, asked.unix + counted);
                    *place = Some(place.map_or(until, |before| before.max(until)));
                }
            }
            Vote::Given => {}
            Vote::Refused { term, .. } => self.seen = self.seen.max(term),
            Vote::Third => {}
        }
    }

    /// Whether a vote of this voter is counted on.
    #[must_use]
    pub fn counts_on(&self, voter: usize, now: Now) -> bool {
        self.votes.get(voter).copied().flatten().is_some_and(|(mono, unix)| now.mono < mono && now.unix < unix)
    }

    /// Until when it has its turn, on both clocks: as long as a majority of votes.
    #[must_use]
    pub fn until(&self, now: Now) -> Option<Now> {
        let counted = |voter: &usize| self.counts_on(*voter, now);
        let mut votes: Vec<(Mono, UnixTime)> =
            (0..VOTERS).filter(counted).filter_map(|voter| self.votes.get(voter).copied().flatten()).collect();
        votes.sort_unstable();
        let least = votes.get(votes.len().checked_sub(MAJORITY)?..)?;
        let unix = least.iter().map(|(_, unix)| *unix).min()?;
        least.first().map(|(mono, _)| Now { mono: *mono, unix })
    }

    /// Gives the turn up: from now on it is over. The ballot names what is to be released.
    pub fn give_up(&mut self) -> Ballot {
        let ballot = self.ballot();
        self.votes = [None; VOTERS];
        // What is answered late is for a turn that is over.
        self.term = self.term.saturating_add(1);
        ballot
    }
}

/// How long a guard is one of the two that the authority votes for after it was heard last: longer than any turn.
pub const REMEMBERED: Duration = Duration::from_secs(8);
/// Most programs remembered that asked and were none of the two.
const MOST_OUTSIDE: usize = 8;

/// The two guards that the authority votes for. Who is in says who the other is; who is not is let in when neither of the
/// two was heard for [`REMEMBERED`] and it is clear who that would be, or together with the other, if each vouches for the
/// other and those who are in do not.
#[derive(Debug, Default)]
pub struct Members {
    inside: Vec<Member>,
    outside: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    holder: HolderId,
    other: Option<HolderId>,
    first: Mono,
    heard: Mono,
}

impl Members {
    /// A guard asks for a vote and says whom it found where the other should be.
    ///
    /// # Errors
    /// It is none of the two; since when it asks.
    pub fn admit(&mut self, holder: HolderId, other: Option<HolderId>, now: Now) -> Result<(), Mono> {
        let now = now.mono;
        for list in [&mut self.inside, &mut self.outside] {
            list.retain(|member| now.since(member.heard) < REMEMBERED);
        }
        let asks = Member { holder, other: other.filter(|other| *other != holder), first: now, heard: now };
        if self.inside.iter().any(|member| member.holder == holder) {
            self.take_in(asks);
            return Ok(());
        }
        let known = self.outside.iter().position(|member| member.holder == holder);
        let first = known.map_or(now, |at| self.outside.remove(at).first);
        self.outside.push(Member { first, ..asks });
        if self.outside.len() > MOST_OUTSIDE {
            self.outside.remove(0);
        }
        let alone = self.inside.is_empty() && self.outside.len() <= 2;
        let pair = vouch(asks, &self.outside) && !self.inside.iter().any(|member| vouch(*member, &self.inside));
        if alone || pair {
            self.inside.clear();
            self.take_in(asks);
            return Ok(());
        }
        Err(first)
    }

    /// One that is in was heard: it, and whom it vouches for, are the two.
    fn take_in(&mut self, asks: Member) {
        let stays = |member: &Member| match asks.other {
            Some(other) => member.holder == other,
            None => member.holder != asks.holder,
        };
        self.inside.retain(stays);
        if let Some(other) = asks.other.filter(|_| self.inside.is_empty()) {
            self.inside.push(Member { holder: other, other: None, ..asks });
        }
        self.inside.push(asks);
        self.outside.retain(|member| self.inside.iter().all(|inside| inside.holder != member.holder));
    }
}

/// Whether one of these and this one vouch for each other.
fn vouch(one: Member, among: &[Member]) -> bool {
    among.iter().any(|member| Some(member.holder) == one.other && member.other == Some(one.holder))
}

/// When a guard that does not reach its server leaves the turn to the other.
#[derive(Debug)]
pub struct Yielding {
    patience: Duration,
    since: Option<Mono>,
}

impl Yielding {
    /// After so long.
    #[must_use]
    pub const fn new(patience: Duration) -> Self {
        Self { patience, since: None }
    }

    /// The other was asked: whether each of the two reaches the server. Says whether this guard gives its turn back and asks
    /// for none. Giving back is always safe; what the other says of itself gives it nothing but the chance to ask.
    pub fn look(&mut self, reaches: bool, other_reaches: bool, now: Now) -> bool {
        if reaches || !other_reaches {
            self.since = None;
            return false;
        }
        now.mono.since(*self.since.get_or_insert(now.mono)) >= self.patience
    }
}
