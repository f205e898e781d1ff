//! What a client ought to be able to do, by the simplest reckoning.

use std::time::Duration;

use access_model::{Mono, Now, Rights, UnixTime};

/// Rights per scope, as small numbers: none, see and read, everything, see alone.
pub type Held = [u8; 3];

pub fn rights_of(number: u8) -> Rights {
    let see = Rights::BROWSE;
    [Rights::NONE, see | Rights::READ, see | Rights::READ | Rights::WRITE | Rights::CALL, see][usize::from(number)]
}

/// A token as it was minted.
#[derive(Clone, Debug)]
pub struct Minted {
    pub id: String,
    pub held: Held,
    pub issued: UnixTime,
    pub expires: UnixTime,
    pub bytes: Vec<u8>,
}

impl Minted {
    /// Whether its times allow it to be presented now: no slack at the end, 60 s at the start.
    pub fn is_in_time(&self, now: Now) -> bool {
        now.unix < self.expires && self.issued <= now.unix + Duration::from_secs(60)
    }
}

/// The grant behind a session.
#[derive(Clone, Debug)]
pub struct Grant {
    pub token: Minted,
    /// The end on the monotonic clock, fixed when the token was presented.
    pub end: Mono,
    /// What the authority made of it since.
    pub replaced: Option<Held>,
    pub revoked: bool,
    /// The wall clock has shown the end once.
    pub over: bool,
}

impl Grant {
    pub fn presented(token: Minted, replaced: Option<Held>, now: Now) -> Self {
        Self { end: now.deadline(token.expires), token, replaced, revoked: false, over: false }
    }

    /// Time goes on.
    pub fn see(&mut self, now: Now) {
        self.over |= now.unix >= self.token.expires || now.mono >= self.end;
    }

    pub fn is_live(&self) -> bool {
        !self.revoked && !self.over
    }

    /// Rights on a scope, counted from 1.
    pub fn rights(&self, scope: u32) -> Rights {
        let held = self.replaced.unwrap_or(self.token.held);
        rights_of(held[scope as usize - 1])
    }
}
