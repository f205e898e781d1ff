//! Jobs in flight: bounded, with a bounded line of those that wait.

use std::collections::{BTreeMap, VecDeque};

use crate::{Job, JobId};

/// Nothing more can be computed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBusy;

/// The desk that hands out jobs.
#[derive(Debug)]
pub(crate) struct JobDesk {
    running: usize,
    waiting: VecDeque<Job>,
    max_running: usize,
    max_waiting: usize,
    /// Jobs of parked requests. Channels know their own.
    owners: BTreeMap<JobId, u64>,
    sequence: u32,
}

impl JobDesk {
    pub(crate) fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            running: 0,
            waiting: VecDeque::new(),
            max_running: max_running.max(1),
            max_waiting,
            owners: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// An id for a job of the parked request `owner`.
    pub(crate) fn id_for(&mut self, owner: u64) -> JobId {
        loop {
            self.sequence = self.sequence.wrapping_add(1);
            let id = JobId::of_channel(0, self.sequence);
            if let std::collections::btree_map::Entry::Vacant(entry) = self.owners.entry(id) {
                entry.insert(owner);
                return id;
            }
        }
    }

    /// Takes a job: gives it back to be run now, or keeps it, or has no room.
    pub(crate) fn submit(&mut self, job: Job) -> Result<Option<Job>, TooBusy> {
        if self.running < self.max_running {
            self.running += 1;
            return Ok(Some(job));
        }
        if self.waiting.len() >= self.max_waiting {
            self.owners.remove(&job.id);
            return Err(TooBusy);
        }
        self.waiting.push_back(job);
        Ok(None)
    }

    /// A job is done: whose it was, and the next to run.
    pub(crate) fn done(&mut self, id: JobId) -> (Option<u64>, Option<Job>) {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.running = self.running.saturating_sub(1);
        }
        (self.owners.remove(&id), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_up_to_the_bound_then_wait_then_are_refused() {
        let mut desk = JobDesk::new(1, 1);
        let ids: Vec<JobId> = (0..3).map(|owner| desk.id_for(owner)).collect();
        let job = |at: usize| Job::new(ids[at], || ());
        assert!(desk.submit(job(0)).unwrap().is_some());
        assert!(desk.submit(job(1)).unwrap().is_none());
        assert!(desk.submit(job(2)).is_err());
        let (owner, next) = desk.done(ids[0]);
        assert_eq!((owner, next.map(|job| job.id)), (Some(0), Some(ids[1])));
        let (owner, next) = desk.done(ids[1]);
        assert_eq!((owner, next.is_none()), (Some(1), true));
        assert_eq!(desk.done(ids[2]).0, None, "a refused job has no owner");
    }
}
