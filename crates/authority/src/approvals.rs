//! Changes that wait for a second person: gates ask here, persons with the right role answer, and the answer goes to the
//! gate that asked with its next update.
//!
//! Nothing of it is kept over a restart: questions are asked again by whoever tries again, and what was approved before and
//! not used is void, for the first full list after the restart does not name it.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use access_model::{Actor, AuditKind, Mono, Outcome, Reason, Refusal};
use token::control::Approved;

use crate::core::{Authority, to_the_end, unavailable};
use crate::error::AuthorityError;
use crate::live::Delta;

/// Most questions of one principal, of one server, and of all.
const MOST: (usize, usize, usize) = (16, 256, 4_096);
/// The longest that one waits, whatever its gate says.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A change that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How its gate calls it.
    pub id: String,
    /// The server that it is a change of.
    pub audience: String,
    /// Who wants to make it.
    pub subject: String,
    /// The application through which.
    pub client: Option<String>,
    /// The roles that who approves must have, all of them.
    pub roles: Vec<String>,
    /// How long it waits, and how long it may be made once it is approved.
    pub within: Duration,
    /// The change in words.
    pub change: String,
}

/// A person who proved who it is, and how.
#[derive(Clone, Debug)]
pub struct Second {
    /// The person.
    pub person: String,
    /// The application whose certificate the connection proves; none where it is the person's own.
    pub application: Option<String>,
    /// The network address.
    pub address: String,
}

/// The questions, each with the time until which it waits.
///
/// One that was declined is kept for as long as it would have waited, and takes its place in the bounds: asked again in
/// that time, it is not put to anybody a second time. Its gate asks under the same name until its own time for it is over,
/// so who was told no cannot have others asked until somebody says yes.
#[derive(Debug, Default)]
pub(crate) struct Questions(BTreeMap<String, Question>);

#[derive(Debug)]
struct Question {
    until: Mono,
    asked: Waiting,
    declined: bool,
}

impl Questions {
    fn add(&mut self, question: Waiting, now: Mono) -> Result<bool, Refusal> {
        self.0.retain(|_, one| now < one.until);
        if let Some(Question { asked: known, .. }) = self.0.get(&question.id) {
            // Two gates do not call their questions alike; one gate does not change its mind.
            let same = *known == question;
            return if same { Ok(false) } else { Err(Refusal::new(Reason::ProtocolMisbehavior, "the id is taken")) };
        }
        let of = |fits: &dyn Fn(&Waiting) -> bool| self.0.values().filter(|one| fits(&one.asked)).count();
        let own = of(&|one| one.audience == question.audience && one.subject == question.subject);
        let server = of(&|one| one.audience == question.audience);
        if own >= MOST.0 || server >= MOST.1 || self.0.len() >= MOST.2 {
            return Err(Refusal::new(Reason::TooBusy, "too many changes wait for a second person"));
        }
        let until = now + question.within;
        self.0.insert(question.id.clone(), Question { until, asked: question, declined: false });
        Ok(true)
    }

    /// A question that waits.
    fn open(&self, id: &str) -> Option<&Waiting> {
        self.0.get(id).filter(|one| !one.declined).map(|one| &one.asked)
    }

    /// It is answered: of two who answer, one does.
    fn answer(&mut self, id: &str, yes: bool) -> Option<Waiting> {
        if yes {
            return self.0.remove(id).map(|one| one.asked);
        }
        let one = self.0.get_mut(id)?;
        one.declined = true;
        Some(one.asked.clone())
    }
}

impl Waiting {
    /// Why this person may not answer; none if it may.
    fn refuses(&self, second: &Second, held: &[String]) -> Option<String> {
        let lacks: Vec<String> =
            self.roles.iter().filter(|role| !held.contains(role)).map(|role| format!("`{role}`")).collect();
        if second.person.eq_ignore_ascii_case(&self.subject) {
            return Some(format!("`{}` asked and cannot be the second person as well", self.subject));
        }
        if second.application.is_some() && second.application == self.client {
            let client = self.client.as_deref().unwrap_or_default();
            return Some(format!(
                "the change was asked for through `{client}`, which cannot be the second one as well"
            ));
        }
        if self.roles.is_empty() || !lacks.is_empty() {
            return Some(format!("`{}` lacks the role {}", second.person, lacks.join(" and ")));
        }
        None
    }

    fn words(&self) -> String {
        format!("{}: {} at {} for `{}`", self.id, self.change, self.audience, self.subject)
    }
}

impl Authority {
    /// Takes a question of the gate of a server. Asked again, it changes nothing, also when it was declined.
    ///
    /// # Errors
    /// Too many wait, it is not in its form, or the audit cannot be written.
    pub async fn ask_second(&self, question: Waiting) -> Result<(), Refusal> {
        let fits = |text: &str| !text.is_empty() && text.len() <= 1_024;
        let named = [&question.id, &question.subject, &question.change].into_iter().all(|text| fits(text));
        let roles = !question.roles.is_empty() && question.roles.len() <= 16;
        if !named || !roles || question.within.is_zero() || question.within > LONGEST {
            return Err(Refusal::new(Reason::ProtocolMisbehavior, "the question is not in its form"));
        }
        if !self.questions().add(question.clone(), self.now().mono)? {
            return Ok(());
        }
        let actor = Actor { name: question.subject.clone(), application: question.client.clone(), ..Actor::default() };
        let (object, outcome) = (&question.audience, Outcome::Denied(Reason::ApprovalNeeded));
        self.record(AuditKind::Approval, &actor, object, outcome, &question.words()).await.map_err(unavailable)
    }

    /// The questions that a person may answer.
    #[must_use]
    pub fn waiting_for(&self, second: &Second) -> Vec<Waiting> {
        let held = self.roles_of_second(second);
        let now = self.now().mono;
        let questions = self.questions();
        let open = questions.0.values().filter(|one| now < one.until && !one.declined);
        open.filter(|one| one.asked.refuses(second, &held).is_none()).map(|one| one.asked.clone()).collect()
    }

    /// Approves of a change, or declines. Returns when every gate that listens was told; the change, unless no such
    /// question waits.
    ///
    /// # Errors
    /// The person may not answer, the audit cannot be written, or the journal cannot be used; then the question waits on or
    /// is gone, but nothing was approved.
    pub async fn answer_second(&self, id: &str, second: &Second, yes: bool) -> Result<Option<Waiting>, AnswerError> {
        let (authority, id, second) = (self.clone(), id.to_owned(), second.clone());
        to_the_end(async move { authority.answer_now(&id, &second, yes).await }).await
    }

    async fn answer_now(&self, id: &str, second: &Second, yes: bool) -> Result<Option<Waiting>, AnswerError> {
        let actor = Actor {
            name: second.person.clone(),
            application: second.application.clone(),
            address: Some(second.address.clone()),
            ..Actor::default()
        };
        let held = self.roles_of_second(second);
        let now = self.now();
        let taken = {
            let mut questions = self.questions();
            questions.0.retain(|_, one| now.mono < one.until);
            match questions.open(id).map(|one| one.refuses(second, &held)) {
                None => return Ok(None),
                Some(Some(why)) => Err(why),
                Some(None) => Ok(questions.answer(id, yes)),
            }
        };
        let question = match taken {
            Ok(Some(question)) => question,
            Ok(None) => return Ok(None),
            Err(why) => {
                let outcome = Outcome::Denied(Reason::PolicyNoPermit);
                self.record(AuditKind::Approval, &actor, id, outcome, &why).await.map_err(AuthorityError::from)?;
                return Err(AnswerError::Refused(Refusal::new(Reason::PolicyNoPermit, why)));
            }
        };
        let (object, words) = (&question.audience, question.words());
        if !yes {
            let outcome = Outcome::Denied(Reason::ApprovalNeeded);
            let detail = format!("declined {words}");
            self.record(AuditKind::Approval, &actor, object, outcome, &detail).await.map_err(AuthorityError::from)?;
            return Ok(Some(question));
        }
        let detail = format!("approved {words}");
        let kept = self.record(AuditKind::Approval, &actor, object, Outcome::Allowed, &detail).await;
        kept.map_err(AuthorityError::from)?;
        let approved =
            Approved { id: question.id.clone(), by: second.person.clone(), expires: now.unix + question.within };
        self.tell_approved(&question.audience, approved).await?;
        Ok(Some(question))
    }

    async fn tell_approved(&self, audience: &str, approved: Approved) -> Result<(), AuthorityError> {
        let _one = self.inner.change.lock().await;
        let epoch = self.inner.db.next_epoch().await?;
        let delta = Delta { approved: vec![approved], ..Delta::default() };
        let keys = self.inner.keys.load();
        self.live().publish(audience, epoch, delta, &keys.current, self.now().unix)?;
        Ok(())
    }

    fn roles_of_second(&self, second: &Second) -> Vec<String> {
        self.snapshot().principal(Some(&second.person), None, false).roles
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, Questions> {
        self.inner.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// This person may not give it.
    #[error(transparent)]
    Refused(Refusal),
    /// It could not be recorded or told.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}
