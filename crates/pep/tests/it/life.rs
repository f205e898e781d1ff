//! Random lives of a gate against a simple model: after every step the two agree on every grant, scope and action,
//! and on why.

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Action, Mono, Now, Reason, Rights, ScopeIndex, UnixTime};
use pep::{FailMode, Gate, GateEvent, GrantId, Standing};
use proptest::prelude::*;
use token::Claims;
use token::control::{Replacement, Update};

use crate::common::{
    Authority, READ, binding, claims, denied, events, full, replacement, revocation, rights, seconds, start,
};

const GRACE: u64 = 60_000;
const SILENCE: u64 = 10_000;
const LAST_KNOWN: u64 = 5_000;
const SCOPES: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    /// A token that lives so many seconds, with these rights (scope by scope), for this subject.
    Present {
        life: u64,
        held: [u8; 3],
        subject: u8,
    },
    /// A token that was minted earlier, once more.
    PresentOld {
        which: usize,
    },
    Represent {
        grant: usize,
        life: u64,
        held: [u8; 3],
        subject: u8,
    },
    Release {
        grant: usize,
    },
    /// Time goes by, in milliseconds.
    Wait {
        millis: u64,
    },
    /// The wall clock is set, by so many seconds.
    Jump {
        by: i64,
    },
    /// The authority revokes a token; the update arrives or is lost.
    Revoke {
        which: usize,
        arrives: bool,
    },
    /// The authority replaces what a token grants, and perhaps ends it in so many seconds.
    Replace {
        which: usize,
        held: [u8; 3],
        ends: Option<u64>,
        arrives: bool,
    },
    FullList,
    Heartbeat,
    Contact,
    ContactLost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let held = proptest::array::uniform3(0..4_u8);
    let step = prop_oneof![
        3 => (1..100_u64, held.clone(), 0..2_u8).prop_map(|(life, held, subject)| Step::Present { life, held, subject }),
        1 => any::<usize>().prop_map(|which| Step::PresentOld { which }),
        2 => (any::<usize>(), 1..100_u64, held.clone(), 0..2_u8)
            .prop_map(|(grant, life, held, subject)| Step::Represent { grant, life, held, subject }),
        1 => any::<usize>().prop_map(|grant| Step::Release { grant }),
        4 => (0..30_000_u64).prop_map(|millis| Step::Wait { millis }),
        2 => (-90..90_i64).prop_map(|by| Step::Jump { by }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, arrives)| Step::Revoke { which, arrives }),
        3 => (any::<usize>(), held, proptest::option::of(0..60_u64), any::<bool>())
            .prop_map(|(which, held, ends, arrives)| Step::Replace { which, held, ends, arrives }),
        3 => Just(Step::FullList),
        3 => Just(Step::Heartbeat),
        1 => Just(Step::Contact),
        1 => Just(Step::ContactLost),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Rights that a number stands for.
fn rights_of(number: u8) -> Rights {
    [Rights::NONE, READ, READ | Rights::WRITE, Rights::CALL][usize::from(number)]
}

fn entries(held: [u8; 3]) -> Vec<(Rights, Vec<u32>)> {
    held.iter().zip(1..).map(|(number, scope)| (rights_of(*number), vec![scope])).collect()
}

fn claim(held: [u8; 3]) -> token::RightsClaim {
    let owned = entries(held);
    let borrowed: Vec<(Rights, &[u32])> = owned.iter().map(|(held, scopes)| (*held, scopes.as_slice())).collect();
    rights(&borrowed)
}

fn held_on(held: [u8; 3], scope: u32) -> Rights {
    match scope {
        0 => Rights::BROWSE | READ,
        1..=3 => rights_of(held[scope as usize - 1]),
        _ => Rights::NONE,
    }
}

#[derive(Clone, Debug)]
struct Minted {
    bytes: Vec<u8>,
    id: String,
    held: [u8; 3],
    subject: u8,
    expires: UnixTime,
}

#[derive(Clone, Debug)]
struct Change {
    held: [u8; 3],
    not_after: UnixTime,
    sealed: Replacement,
}

/// What the model knows of a grant.
#[derive(Clone, Debug)]
struct Held {
    token: Minted,
    /// The end of the token on the monotonic clock, moved up when the wall clock has shown it to be over.
    end: Mono,
    change: Option<(Change, Mono)>,
    revoked: bool,
    /// Since when it is not live.
    over: Option<Mono>,
}

impl Held {
    fn held(&self) -> [u8; 3] {
        self.change.as_ref().map_or(self.token.held, |(change, _)| change.held)
    }

    fn until(&self) -> Mono {
        self.change.as_ref().map_or(self.end, |(_, end)| self.end.min(*end))
    }

    fn time_is_over(&self, now: Now) -> bool {
        let ends =
            self.change.as_ref().map_or(self.token.expires, |(change, _)| self.token.expires.min(change.not_after));
        now.mono >= self.until() || now.unix >= ends
    }
}

/// The authority, the gate, and what the gate ought to know.
struct Life {
    authority: Authority,
    gate: Gate,
    now: Now,
    /// The latest time that the wall clock has shown, and when.
    seen: Now,
    fail_mode: FailMode,
    minted: Vec<Minted>,
    epoch: u64,
    revoked: BTreeSet<String>,
    replaced: BTreeMap<String, Change>,
    known_epoch: u64,
    known_revoked: BTreeSet<String>,
    known_replaced: BTreeMap<String, Change>,
    heard: Mono,
    lost: Option<Mono>,
    grants: BTreeMap<GrantId, Held>,
    gone: Vec<GrantId>,
}

impl Life {
    fn new(fail_mode: FailMode) -> Self {
        let authority = Authority::new();
        let gate = authority.listening(fail_mode);
        let now = start();
        Self {
            authority,
            gate,
            now,
            seen: now,
            fail_mode,
            minted: vec![],
            epoch: 1,
            revoked: BTreeSet::new(),
            replaced: BTreeMap::new(),
            known_epoch: 1,
            known_revoked: BTreeSet::new(),
            known_replaced: BTreeMap::new(),
            heard: now.mono,
            lost: None,
            grants: BTreeMap::new(),
            gone: vec![],
        }
    }

    /// The present for tokens: the wall clock, but never behind the latest time it has shown.
    fn present_time(&self) -> Now {
        let carried_on = self.seen.unix + self.now.mono.since(self.seen.mono);
        Now { unix: self.now.unix.max(carried_on), ..self.now }
    }

    fn lost_since(&self) -> Option<Mono> {
        let silent = self.heard + std::time::Duration::from_millis(SILENCE);
        self.lost.or_else(|| (self.now.mono >= silent).then_some(silent))
    }

    /// What the fail mode leaves: everything, what changes nothing, or nothing.
    fn serves(&self) -> (bool, bool) {
        match (self.lost_since(), self.fail_mode) {
            (None, _) => (true, true),
            (Some(_), FailMode::Closed) => (false, false),
            (Some(_), FailMode::ReadOnly) => (true, false),
            (Some(since), FailMode::LastKnownGood(span)) => {
                let known = self.now.mono < since + span;
                (known, known)
            }
        }
    }

    fn mint(&mut self, life: u64, held: [u8; 3], subject: u8) -> Minted {
        let id = format!("token-{}", self.minted.len());
        let expires = UnixTime::from_seconds((self.now.unix + seconds(life)).as_seconds());
        let claims =
            Claims { subject: format!("user-{subject}"), rights: Some(claim(held)), expires, ..claims(&id, self.now) };
        let minted = Minted { bytes: self.authority.token(&claims), id, held, subject, expires };
        self.minted.push(minted.clone());
        minted
    }

    /// Whether the gate ought to take this token now, and as what.
    fn taken(&self, token: &Minted, issued_ok: bool) -> Result<Held, Reason> {
        let now = self.present_time();
        if now.unix >= token.expires {
            return Err(Reason::TokenExpired);
        }
        if !issued_ok {
            return Err(Reason::TokenNotYetValid);
        }
        if !self.serves().0 {
            return Err(Reason::AuthorityLost);
        }
        if self.known_revoked.contains(&token.id) {
            return Err(Reason::TokenRevoked);
        }
        let change = self.known_replaced.get(&token.id).cloned();
        if change.as_ref().is_some_and(|change| now.unix >= change.not_after) {
            return Err(Reason::TokenExpired);
        }
        let change = change.map(|change| (change.clone(), now.deadline(change.not_after)));
        Ok(Held { end: now.deadline(token.expires), token: token.clone(), change, revoked: false, over: None })
    }

    fn pick(&self, which: usize) -> Option<GrantId> {
        let all: Vec<GrantId> = self.grants.keys().copied().chain(self.gone.iter().copied()).collect();
        (!all.is_empty()).then(|| all[which % all.len()])
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Present { life, held, subject } => {
                let token = self.mint(life, held, subject);
                self.present(&token, true);
            }
            Step::PresentOld { which } => {
                if let Some(token) = (!self.minted.is_empty()).then(|| self.minted[which % self.minted.len()].clone()) {
                    let issued = token::danger_peek_unverified(&token.bytes).unwrap().claims.unwrap().issued_at;
                    self.present(&token, issued <= self.present_time().unix + seconds(60));
                }
            }
            Step::Represent { grant, life, held, subject } => {
                let Some(id) = self.pick(grant) else { return };
                let token = self.mint(life, held, subject);
                let result =
                    self.gate.represent(id, &token.bytes, &binding(), self.now).map_err(|refusal| refusal.reason);
                let wanted = match self.grants.get(&id).map(|held| held.token.subject) {
                    None => Err(Reason::NoGrant),
                    Some(before) => self
                        .taken(&token, true)
                        .and_then(|held| if before == subject { Ok(held) } else { Err(Reason::TokenSubject) }),
                };
                assert_eq!(result, wanted.as_ref().map(|_| ()).map_err(|reason| *reason));
                self.grants.extend(wanted.ok().map(|held| (id, held)));
            }
            Step::Release { grant } => {
                let Some(id) = self.pick(grant) else { return };
                self.gate.release(id);
                if self.grants.remove(&id).is_some() {
                    self.gone.push(id);
                }
            }
            Step::Wait { millis } => self.now = self.now.after(std::time::Duration::from_millis(millis)),
            Step::Jump { by } => self.now.unix = UnixTime::from_micros(self.now.unix.as_micros() + by * 1_000_000),
            Step::Revoke { which, arrives } => {
                let Some(id) = self.which(which) else { return };
                self.revoked.insert(id.clone());
                self.replaced.remove(&id);
                let entry = revocation(&id, self.now);
                self.delta(arrives, |update| update.revoked.push(entry), Some(id), None);
            }
            Step::Replace { which, held, ends, arrives } => {
                let Some(id) = self.which(which).filter(|id| !self.revoked.contains(id)) else { return };
                let mut sealed = replacement(&id, &[], self.now);
                sealed.rights = claim(held);
                let end = self.now.unix + seconds(ends.unwrap_or(10_000));
                sealed.not_after = UnixTime::from_seconds(end.as_seconds());
                let change = Change { held, not_after: sealed.not_after, sealed: sealed.clone() };
                self.replaced.insert(id.clone(), change.clone());
                self.delta(arrives, |update| update.replaced.push(sealed), None, Some((id, change)));
            }
            Step::FullList => self.full_list(),
            Step::Heartbeat => {
                let heartbeat =
                    Update { previous: Some(access_model::Epoch(self.epoch)), ..full(self.epoch, self.now) };
                self.gate.on_update(&self.authority.seal(&heartbeat), self.now).unwrap();
                if self.epoch == self.known_epoch {
                    self.in_step();
                } else {
                    self.lost = self.lost_since().or(Some(self.now.mono));
                }
            }
            Step::Contact => {
                self.gate.on_contact(self.now);
                self.lost = self.lost_since();
                if self.lost.is_none() {
                    self.heard = self.now.mono;
                }
            }
            Step::ContactLost => {
                self.gate.on_contact_lost(self.now);
                self.lost = self.lost_since().or(Some(self.now.mono));
            }
        }
    }

    fn which(&self, which: usize) -> Option<String> {
        (!self.minted.is_empty()).then(|| self.minted[which % self.minted.len()].id.clone())
    }

    fn present(&mut self, token: &Minted, issued_ok: bool) {
        let result = self.gate.present(&token.bytes, &binding(), self.now).map_err(|refusal| refusal.reason);
        let wanted = self.taken(token, issued_ok);
        assert_eq!(result.map(|_| ()), wanted.as_ref().map(|_| ()).map_err(|reason| *reason));
        if let (Ok(id), Ok(held)) = (result, wanted) {
            assert!(!self.gone.contains(&id), "an id was used again");
            assert!(self.grants.insert(id, held).is_none());
        }
    }

    fn in_step(&mut self) {
        (self.heard, self.lost) = (self.now.mono, None);
    }

    fn delta(
        &mut self,
        arrives: bool,
        fill: impl FnOnce(&mut Update),
        revoked: Option<String>,
        replaced: Option<(String, Change)>,
    ) {
        self.epoch += 1;
        let mut update = Update { previous: Some(access_model::Epoch(self.epoch - 1)), ..full(self.epoch, self.now) };
        fill(&mut update);
        if !arrives {
            return;
        }
        self.gate.on_update(&self.authority.seal(&update), self.now).unwrap();
        let fits = self.known_epoch == self.epoch - 1;
        // Revocations hold whether or not the delta fits.
        if let Some(id) = revoked {
            self.known_replaced.remove(&id);
            self.grants.values_mut().filter(|held| held.token.id == id).for_each(|held| held.revoked = true);
            self.known_revoked.insert(id);
        }
        if !fits {
            self.lost = self.lost_since().or(Some(self.now.mono));
            return;
        }
        if let Some((id, change)) = replaced {
            self.change(&id, Some(&change));
            self.known_replaced.insert(id, change);
        }
        self.known_epoch = self.epoch;
        self.in_step();
    }

    fn change(&mut self, id: &str, change: Option<&Change>) {
        let (now, present) = (self.now, self.present_time());
        for held in self.grants.values_mut().filter(|held| held.token.id == id && !held.revoked) {
            let before = (held.change.clone(), held.over);
            held.change = change.map(|change| (change.clone(), present.deadline(change.not_after)));
            match (held.over, held.time_is_over(now)) {
                // Over by its own time, or still by the new terms: as it was.
                (Some(_), true) => (held.change, held.over) = before,
                (_, over) => held.over = over.then_some(now.mono),
            }
        }
    }

    fn full_list(&mut self) {
        let update = Update {
            revoked: self.revoked.iter().map(|id| revocation(id, self.now)).collect(),
            replaced: self.replaced.values().map(|change| change.sealed.clone()).collect(),
            ..full(self.epoch, self.now)
        };
        self.gate.on_update(&self.authority.seal(&update), self.now).unwrap();
        self.known_epoch = self.epoch;
        (self.known_revoked, self.known_replaced) = (self.revoked.clone(), self.replaced.clone());
        let ids: BTreeSet<String> = self.grants.values().map(|held| held.token.id.clone()).collect();
        for id in ids {
            if self.revoked.contains(&id) {
                self.grants.values_mut().filter(|held| held.token.id == id).for_each(|held| held.revoked = true);
            } else {
                let change = self.replaced.get(&id).cloned();
                self.change(&id, change.as_ref());
            }
        }
        self.in_step();
    }

    /// Lets time do its work in both, and compares them.
    fn settle(&mut self) {
        let now = self.now;
        if self.present_time().unix == now.unix {
            self.seen = now;
        }
        if self.gate.is_due(now) {
            self.gate.handle_timeout(now);
        }
        assert!(!self.gate.is_due(now), "something that is due is left");
        assert!(self.gate.poll_timeout().is_none_or(|next| next > now.mono), "a time-out that is due is left");
        let mut ended = vec![];
        for (id, held) in &mut self.grants {
            if now.unix >= held.token.expires {
                held.end = held.end.min(now.mono);
            }
            if held.over.is_none() && (held.revoked || held.time_is_over(now)) {
                held.over = Some(if held.revoked { now.mono } else { held.until().min(now.mono) });
            }
            if held.over.is_some_and(|since| now.mono >= since + std::time::Duration::from_millis(GRACE)) {
                ended.push(*id);
            }
        }
        for id in ended {
            self.grants.remove(&id);
            self.gone.push(id);
        }
        let gone: Vec<GrantId> = events(&mut self.gate)
            .into_iter()
            .filter_map(|event| if let GateEvent::Ended(id) = event { Some(id) } else { None })
            .collect();
        assert!(gone.iter().all(|id| self.gone.contains(id)), "a grant ended that the model holds");
        assert_eq!(self.gate.len(), self.grants.len());
        self.compare();
    }

    fn compare(&self) {
        let (reads, writes) = self.serves();
        for id in &self.gone {
            assert_eq!(self.gate.standing(*id, self.now), Standing::Gone);
            assert_eq!(denied(&self.gate, *id, Action::Read, 0, self.now), Some(Reason::NoGrant));
        }
        for (id, held) in &self.grants {
            for scope in 0..SCOPES {
                let rights = held_on(held.held(), scope);
                for action in [Action::Browse, Action::Read, Action::Write, Action::Call] {
                    let wanted = if held.revoked {
                        Some(Reason::GrantRevoked)
                    } else if held.over.is_some() {
                        Some(Reason::GrantExpired)
                    } else if !reads {
                        Some(Reason::AuthorityLost)
                    } else if rights.is_empty() {
                        Some(Reason::ScopeNotGranted)
                    } else if !rights.contains(action.needed()) {
                        Some(Reason::RightMissing)
                    } else if !writes && action.changes() {
                        Some(Reason::AuthorityLost)
                    } else {
                        None
                    };
                    assert_eq!(
                        denied(&self.gate, *id, action, scope, self.now),
                        wanted,
                        "{action:?} on {scope}: {held:?}"
                    );
                    let shown = self.gate.rights(*id, ScopeIndex(scope), self.now);
                    assert_eq!(
                        shown.contains(action.needed()),
                        wanted.is_none(),
                        "shown rights of {action:?} on {scope}"
                    );
                }
            }
        }
    }
}

fn fail_modes() -> impl Strategy<Value = FailMode> {
    let last_known = FailMode::LastKnownGood(std::time::Duration::from_millis(LAST_KNOWN));
    prop_oneof![Just(FailMode::Closed), Just(FailMode::ReadOnly), Just(last_known)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn gate_and_model_agree(fail_mode in fail_modes(), steps in steps()) {
        let mut life = Life::new(fail_mode);
        for step in steps {
            life.run(step);
            life.settle();
        }
    }
}
