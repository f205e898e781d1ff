//! Which scopes a link goes by: the server is looked at, each session is compared with what was found, and requests wait
//! until both are of the same server.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::StatusCode;

use super::Guard;
use super::link::{Link, Stage};
use super::links::Owner;
use super::survey::Survey;
use crate::client::Response;
use crate::server::front::SessionKey;

impl Guard {
    /// Looks at the upstream server (again).
    pub(super) fn start_survey(&mut self, now: Now) {
        self.mapping = None;
        if self.links.contains_key(&Owner::Survey) {
            return;
        }
        let Some(identity) = self.config.identity(&[]).cloned() else { return };
        let mut link = Box::new(Link::new(identity, now.mono, 0, 0));
        link.stage = Stage::Down { at: now.mono + self.survey_pause };
        link.pause = self.survey_pause;
        self.survey_pause =
            (self.survey_pause * 2).clamp(self.config.limits.shortest_pause, self.config.limits.longest_pause);
        if matches!(link.stage, Stage::Down { at } if at <= now.mono) {
            self.dial(Owner::Survey, &mut link, now);
        }
        self.put_back(Owner::Survey, link, now);
    }

    /// Whether the session sees the server for which the scopes were made.
    pub(super) fn compare(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        let mapping = self.mapping.clone().filter(|mapping| mapping.fits(&link.namespaces, link.started));
        let Some(mapping) = mapping else {
            link.stage = Stage::Unmapped;
            return self.start_survey(now);
        };
        if !self.is_bound(link) {
            link.bind(mapping);
            self.recheck(key, link, false, now);
        }
        let mut take_over = false;
        if std::mem::take(&mut link.fresh) {
            // Ids count from one again after a restart, and may be another session's by now.
            let same_run = link.run.zip(link.started).is_some_and(|(then, now)| now.same_run(then));
            let survivors = link.subs.survivors();
            take_over = same_run && !self.links.values().any(|other| other.subs.hold_any(&survivors));
            if !take_over {
                link.subs.vanish();
            }
        }
        self.restore(key, link, take_over, now);
    }

    /// Whether a link's names and scopes are those of the present mapping.
    pub(super) fn is_bound(&self, link: &Link) -> bool {
        self.mapping.as_ref().zip(link.bound.as_ref()).is_some_and(|(mapping, bound)| Arc::ptr_eq(mapping, bound))
    }

    /// Everything is as the client has it: requests go on.
    pub(super) fn ready(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        link.stage = Stage::Ready;
        link.run = link.started;
        link.pause = Duration::ZERO;
        (link.down_since, link.trouble) = (None, None);
        link.subs.reconnected();
        self.survey_pause = Duration::ZERO;
        self.begin_waiting(key, link, now);
        self.refill(key, link, now);
        self.pump_publish(key, link, now);
    }

    pub(super) fn surveyed(&mut self, link: &mut Link, answer: Response, now: Now) -> Result<(), StatusCode> {
        match &mut self.survey {
            Some(survey) => survey.answered(answer)?,
            None => {
                let room = self.config.limits.max_surveyed_nodes;
                self.survey = Some(Survey::new(&answer, &self.config.rules, &self.front, room)?);
            }
        }
        if let Some(question) = self.survey.as_mut().and_then(Survey::question) {
            self.ask(link, question, now);
            return Ok(());
        }
        let Some(survey) = self.survey.take() else { return Ok(()) };
        let mut never = [0; 16];
        self.entropy.fill(&mut never);
        let mapping = survey.finish(&self.config.rules, never);
        self.front.set_namespaces_behind(mapping.table.namespaces());
        self.mapping = Some(Arc::new(mapping));
        self.newly_mapped = true;
        Ok(())
    }

    /// When the scopes are known, the survey's session ends and sessions that have waited go on.
    pub(super) fn mapped(&mut self, now: Now) {
        if !std::mem::take(&mut self.newly_mapped) {
            return;
        }
        if let Some(survey) = self.links.remove(&Owner::Survey) {
            self.arm(Owner::Survey, None);
            self.close_link(Owner::Survey, survey, now);
        }
        let sessions = self.links.keys().copied().filter(|owner| matches!(owner, Owner::Session(_)));
        for owner in sessions.collect::<Vec<_>>() {
            let (Owner::Session(key), Some(mut link)) = (owner, self.links.remove(&owner)) else { continue };
            match link.stage {
                Stage::Down { at: Mono::NEVER } => self.dial(owner, &mut link, now),
                Stage::Unmapped | Stage::Ready => self.compare(key, &mut link, now),
                Stage::Down { .. } | Stage::Dialing { .. } => {}
                Stage::Opening | Stage::Checking | Stage::Restoring => {}
            }
            self.put_back(owner, link, now);
        }
    }

    /// The server cannot be looked at: sessions that wait for it are told.
    pub(super) fn refuse_waiting(&mut self, trouble: StatusCode, now: Now) {
        for owner in self.links.keys().copied().collect::<Vec<_>>() {
            let (Owner::Session(key), Some(mut link)) = (owner, self.links.remove(&owner)) else { continue };
            if link.stage == (Stage::Down { at: Mono::NEVER }) {
                link.trouble = Some(trouble);
                self.lost_upstream(key, &mut link, now);
            }
            self.put_back(owner, link, now);
        }
    }
}
