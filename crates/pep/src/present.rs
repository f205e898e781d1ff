//! From a token to a grant.

use std::time::Duration;

use access_model::{Now, Reason, Refusal};
use token::{Claims, Expectation};

use crate::contact::Word;
use crate::lives::{Examined, State, Terms};
use crate::{Change, ChannelBinding, DangerWithout, FailState, Gate, GateEvent, GrantFacts, GrantId};

/// A wall clock that is behind by this much was set back; less is drift.
const SET_BACK: Duration = Duration::from_secs(1);

impl Gate {
    /// Verifies a token, compares what it is bound to with the channel it came over, and compiles its rights.
    ///
    /// # Errors
    /// The first thing that is wrong with the token here and now; or no room for one more grant.
    pub fn present(&mut self, token: &[u8], binding: &ChannelBinding, now: Now) -> Result<GrantId, Refusal> {
        if !self.has_room() {
            return Err(Refusal::new(Reason::TooBusy, format!("{} grants are alive", self.len())));
        }
        let examined = self.examine(token, binding, now)?;
        Ok(self.insert(examined))
    }

    /// Gives a grant a new token of the same subject: a refresh, or the revival of one that expired or was revoked.
    /// Until the last check has passed the old rights stand, and then they are swapped at once.
    ///
    /// # Errors
    /// As [`Gate::present`]; also a grant that is gone, or a token of someone else. The old grant stays as it was.
    pub fn represent(
        &mut self,
        grant: GrantId,
        token: &[u8],
        binding: &ChannelBinding,
        now: Now,
    ) -> Result<(), Refusal> {
        if self.slot(grant).is_none() {
            return Err(Refusal::new(Reason::NoGrant, "the grant is gone"));
        }
        let examined = self.examine(token, binding, now)?;
        let Some(slot) = self.slot(grant) else { return Err(Refusal::new(Reason::NoGrant, "the grant is gone")) };
        let same = slot.record.as_ref().is_some_and(|record| {
            record.facts.subject == examined.facts.subject && record.facts.issuer == examined.facts.issuer
        });
        if !same {
            return Err(Refusal::new(Reason::TokenSubject, "the token is of another subject than the grant"));
        }
        let change = slot.table.change_to(&examined.now.table);
        if slot.state != State::Live || change != Change::Renewed {
            self.events.push_back(GateEvent::Changed(grant, change));
        }
        self.replace(grant, examined);
        Ok(())
    }

    fn examine(&mut self, token: &[u8], binding: &ChannelBinding, now: Now) -> Result<Examined, Refusal> {
        let Some(time) = self.stopwatch else { return self.examine_now(token, binding, now) };
        let begun = time();
        let examined = self.examine_now(token, binding, now);
        self.meter.tokens.observe(time().since(begun));
        examined
    }

    fn examine_now(&mut self, token: &[u8], binding: &ChannelBinding, now: Now) -> Result<Examined, Refusal> {
        let behind = self.clock.behind(now);
        // A wall clock that was set back does not make a token of yesterday one of today.
        let now = self.clock.look(now);
        self.examine_at(token, binding, now).map_err(|refusal| {
            if refusal.reason != Reason::TokenExpired || behind < SET_BACK {
                return refusal;
            }
            let seconds = behind.as_secs();
            let why = "the wall clock was set back by";
            let hint = "if it was wrong before, restart the server";
            Refusal::new(
                refusal.reason,
                format!("{}; {why} {seconds} s, which prolongs no token: {hint}", refusal.detail),
            )
        })
    }

    fn examine_at(&mut self, token: &[u8], binding: &ChannelBinding, now: Now) -> Result<Examined, Refusal> {
        let without = match self.config.danger_without {
            DangerWithout::Token(without) => without,
            _ => token::DangerWithout::Nothing,
        };
        // Whom the token names decides which keys and which audience it is held against, and nothing else.
        let named = if self.config.foreign.is_empty() { None } else { token::claimed_issuer(token) };
        let foreign = named.and_then(|name| self.config.foreign(&name));
        let ours = (self.config.issuers.as_slice(), self.config.audience.as_str());
        let (issuers, audience) =
            foreign.map_or(ours, |foreign| (std::slice::from_ref(&foreign.issuer), foreign.audience.as_str()));
        let expected = Expectation { issuers, audience, now: now.unix, max_len: self.config.max_token_len };
        let claims = match foreign {
            Some(foreign) => token::danger_verify_foreign_without(token, &expected, &foreign.roles, without)?,
            None => token::danger_verify_without(token, &expected, without)?,
        };
        if foreign.is_some() && claims.rights.is_some() {
            return Err(Refusal::new(Reason::TokenRights, "an issuer that is not the authority has decided"));
        }
        if self.config.danger_without != DangerWithout::Confirmation {
            check_binding(&claims, binding)?;
        }
        let authority = self.standby.as_ref().is_some_and(|standby| standby.issuer() == claims.issuer);
        let word = if authority { self.word_on(&claims, now)? } else { None };
        let table = match &claims.rights {
            Some(claim) => self.tables.for_claim(claim)?,
            None => self.locals.for_token(&claims, binding, &mut self.tables)?,
        };
        // Fixed here on both clocks: a wall clock that is set back later does not stretch it.
        let minted = Terms { table, until: now.deadline(claims.expires), expires: claims.expires };
        let terms = match word {
            Some(Word::Replaced(replacement)) => {
                if now.unix >= replacement.not_after {
                    return Err(Refusal::new(Reason::TokenExpired, "the authority has ended the token"));
                }
                let table = self.tables.for_claim(&replacement.rights)?;
                minted.narrowed(table, replacement.not_after, now)
            }
            _ => minted.clone(),
        };
        Ok(Examined { facts: facts(claims.into_inner()), authority, minted, now: terms })
    }

    /// What the authority has said about a token since it was minted.
    fn word_on(&self, claims: &Claims, now: Now) -> Result<Option<Word>, Refusal> {
        let Some(standby) = &self.standby else { return Ok(None) };
        if self.authority_left(None, now) == FailState::Closed {
            return Err(Refusal::new(Reason::AuthorityLost, "the gate is not in step with its authority"));
        }
        match standby.word(&claims.id) {
            Some(Word::Revoked { .. }) => {
                Err(Refusal::new(Reason::TokenRevoked, "the authority has revoked the token"))
            }
            None if standby.distrusts(claims.issued_at) => Err(Refusal::new(
                Reason::TokenRevoked,
                "the token is older than the revocations this gate can remember",
            )),
            word => Ok(word.cloned()),
        }
    }
}

impl Terms {
    /// These terms with other rights and an end that may be earlier, never later.
    pub(crate) fn narrowed(
        &self,
        table: std::sync::Arc<crate::table::Table>,
        not_after: access_model::UnixTime,
        now: Now,
    ) -> Self {
        Self { table, until: self.until.min(now.deadline(not_after)), expires: self.expires.min(not_after) }
    }
}

/// What the token is bound to must be what the channel has proven: a stolen token is worthless without the key.
fn check_binding(claims: &Claims, binding: &ChannelBinding) -> Result<(), Refusal> {
    if let Some(bound) = claims.confirmation
        && binding.certificate != Some(bound)
    {
        let shown = binding.certificate.map_or_else(|| "none".to_owned(), |certificate| certificate.to_string());
        let detail = format!("the token is bound to certificate {bound}, the channel shows {shown}");
        return Err(Refusal::new(Reason::TokenConfirmation, detail));
    }
    match (&claims.client, &binding.application) {
        (Some(issued_to), Some(application)) if claims.confirmation.is_some() && issued_to != application => {
            Err(Refusal::new(Reason::TokenConfirmation, "the token was issued to another application"))
        }
        _ => Ok(()),
    }
}

fn facts(claims: Claims) -> GrantFacts {
    GrantFacts {
        subject: claims.subject,
        issuer: Some(claims.issuer),
        client: claims.client,
        roles: claims.roles,
        groups: claims.groups,
        id: Some(claims.id).filter(|id| !id.is_empty()),
        expires: Some(claims.expires),
        epoch: Some(claims.epoch),
        confirmation: claims.confirmation,
    }
}
