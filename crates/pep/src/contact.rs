//! How the gate stands with its authority: epoch, last contact, fail mode, and what it must remember.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{Epoch, Mono, Now, UnixTime};
use token::control::{Replacement, Update};

use crate::together::Together;
use crate::{Contact, FailState};

/// What the authority said about one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is revoked.
    Revoked {
        /// Until when it would have lived.
        expires: UnixTime,
    },
    /// It grants something else.
    Replaced(Replacement),
}

impl Word {
    /// From when on nobody can present the token anyway.
    const fn over(&self) -> UnixTime {
        match self {
            Self::Revoked { expires } => *expires,
            Self::Replaced(replacement) => replacement.expires,
        }
    }
}

/// How the gate stands with its authority.
#[derive(Debug)]
pub(crate) struct Standby {
    config: Contact,
    max_remembered: usize,
    /// The epoch of the last update applied; `None` before the first.
    epoch: Option<Epoch>,
    heard: Mono,
    /// Since when contact is lost, once that was noticed.
    lost: Option<Mono>,
    /// What was said about tokens, presented or not.
    words: BTreeMap<String, Word>,
    /// Tokens issued until then may have been revoked by words that found no room.
    distrust: Option<UnixTime>,
}

/// What an update is to this gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The whole truth.
    Full,
    /// The next step.
    Next,
    /// Known already.
    Old,
    /// Steps are missing before it.
    Gap,
}

impl Standby {
    pub(crate) const fn new(config: Contact, max_remembered: usize, now: Now) -> Self {
        Self {
            config,
            max_remembered,
            epoch: None,
            heard: now.mono,
            lost: Some(now.mono),
            words: BTreeMap::new(),
            distrust: None,
        }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// Since when contact is lost, as of `now`.
    fn lost_since(&self, now: Mono) -> Option<Mono> {
        let silent = self.heard + self.config.timeout;
        self.lost.or_else(|| (now >= silent).then_some(silent))
    }

    /// What these modes leave, of which there is one at least.
    pub(crate) fn state(&self, modes: Together, now: Mono) -> FailState {
        let Some(since) = self.lost_since(now) else { return FailState::InStep };
        // A gate that has just started cannot know what was revoked while it was away.
        if self.epoch.is_none() { FailState::Closed } else { modes.after(since, now) }
    }

    /// From when on a check must ask for the state: until then, every grant of the authority is served under these modes.
    pub(crate) fn served_until(&self, modes: Together) -> Mono {
        if self.epoch.is_none() {
            return Mono::ZERO;
        }
        modes.whole_until(self.silence().0)
    }

    /// When contact was lost (`true`), or will be if nothing is heard.
    pub(crate) fn silence(&self) -> (Mono, bool) {
        (self.lost.unwrap_or(self.heard + self.config.timeout), self.lost.is_some())
    }

    /// These modes, or what holds in scopes of no zone where there are none.
    pub(crate) fn instead(&self, modes: Together) -> Together {
        if modes.is_nothing() { Together::of(&[self.config.fail_mode]) } else { modes }
    }

    /// Notices silence.
    pub(crate) fn advance(&mut self, now: Mono) {
        self.lost = self.lost_since(now);
    }

    /// A sign of life. Gives whether the gate must ask for the full list: after silence it cannot know what it missed.
    pub(crate) fn alive(&mut self, now: Mono) -> bool {
        self.lost = self.lost_since(now);
        if self.lost.is_none() {
            self.heard = now;
        }
        self.lost.is_some()
    }

    pub(crate) fn lose(&mut self, now: Mono) {
        self.lost = self.lost_since(now).or(Some(now));
    }

    pub(crate) const fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    pub(crate) fn place(&self, update: &Update) -> Place {
        match (self.epoch, update.previous) {
            (Some(ours), None) if update.epoch < ours => Place::Old,
            (_, None) => Place::Full,
            (Some(ours), Some(previous)) if previous == ours => Place::Next,
            (Some(ours), Some(_)) if update.epoch <= ours => Place::Old,
            (_, Some(_)) => Place::Gap,
        }
    }

    /// Takes in what an update says, at its place in the order.
    pub(crate) fn learn(&mut self, update: &Update, place: Place, now: Now) {
        if place == Place::Full {
            self.words.clear();
            self.distrust = None;
        }
        for entry in &update.revoked {
            self.remember(&entry.id, Word::Revoked { expires: entry.expires }, update, now);
        }
        // Of a delta that does not fit, revocations hold all the same: nothing later can take them back.
        if matches!(place, Place::Full | Place::Next) {
            for entry in &update.replaced {
                self.remember(&entry.id, Word::Replaced(entry.clone()), update, now);
            }
            (self.epoch, self.heard, self.lost) = (Some(update.epoch), now.mono, None);
        } else if place == Place::Gap {
            self.lose(now.mono);
        }
    }

    fn remember(&mut self, id: &str, word: Word, update: &Update, now: Now) {
        if matches!((self.words.get(id), &word), (Some(Word::Revoked { .. }), Word::Replaced(_))) {
            return;
        }
        if !self.words.contains_key(id) && self.words.len() >= self.max_remembered {
            self.words.retain(|_, word| word.over() > now.unix);
            if self.words.len() >= self.max_remembered {
                self.distrust = self.distrust.max(Some(update.issued_at));
                return;
            }
        }
        self.words.insert(id.to_owned(), word);
    }

    /// What was said about this token.
    pub(crate) fn word(&self, id: &str) -> Option<&Word> {
        self.words.get(id)
    }

    /// Whether a token issued then may have been revoked by a word that found no room.
    pub(crate) fn distrusts(&self, issued_at: UnixTime) -> bool {
        self.distrust.is_some_and(|until| issued_at <= until)
    }
}

/// An update older than this is a replay, or was delayed for too long to be the present truth.
pub(crate) const MAX_UPDATE_AGE: Duration = Duration::from_secs(300);
