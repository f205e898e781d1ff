//! The bounded queue between those who append and the writer thread.
//!
//! Callers lay their frames into one buffer under a short lock; the writer takes the whole buffer. Nobody waits for
//! room: a full queue is an answer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use access_model::{AuditRecord, UnixTime};
use tokio::sync::{oneshot, watch};

use super::frame::{self, FrameKind};
use super::{GROUP_COMMIT, LedgerConfig, Unavailable, entry};
use crate::clock;

/// What an appended record's acknowledgement carries: its number.
pub(super) type Answer = Result<u64, Unavailable>;

pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    max_records: usize,
    max_bytes: usize,
    linger: Duration,
    /// The last record that was written.
    pub(super) written: AtomicU64,
    available: watch::Sender<bool>,
    /// Records that are kept until writing works again.
    pub(super) kept: AtomicUsize,
}

struct State {
    batch: Batch,
    /// Somebody awaits a record.
    urgent: bool,
    closing: bool,
    /// The writer is gone.
    closed: bool,
    failed: Option<Arc<str>>,
    since: Option<UnixTime>,
    refused: u64,
    rest: Rest,
}

/// Frames in order, and who awaits which of them.
#[derive(Default)]
pub(super) struct Batch {
    /// Frames without number and hash.
    pub(super) frames: Vec<u8>,
    pub(super) records: usize,
    /// Position in the batch and where to answer, by position.
    pub(super) waiters: Vec<(usize, oneshot::Sender<Answer>)>,
    /// Who awaits a checkpoint.
    pub(super) checkpoints: Vec<oneshot::Sender<Answer>>,
}

/// How the writer rests, and so who has to wake it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Working, or about to look.
    Busy,
    /// Waiting for anything.
    Idle,
    /// Waiting for something urgent; what is queued can wait until the end of its time.
    Lazy,
}

/// What the writer has to do next.
pub(super) struct Work {
    pub(super) batch: Batch,
    pub(super) closing: bool,
}

impl Queue {
    pub(super) fn new(config: &LedgerConfig, written: u64) -> Self {
        Self {
            state: Mutex::new(State {
                batch: Batch::default(),
                urgent: false,
                closing: false,
                closed: false,
                failed: None,
                since: None,
                refused: 0,
                rest: Rest::Busy,
            }),
            wake: Condvar::new(),
            max_records: config.queue_records,
            max_bytes: config.queue_bytes,
            linger: config.linger.min(GROUP_COMMIT),
            written: AtomicU64::new(written),
            available: watch::Sender::new(true),
            kept: AtomicUsize::new(0),
        }
    }

    /// Queues a record that nobody awaits.
    pub(super) fn push(&self, record: &AuditRecord) -> Result<(), Unavailable> {
        let mut state = self.lock();
        state.accept(self)?;
        state.lay(record);
        self.wake_for(&state);
        Ok(())
    }

    /// Queues a record and gives where its answer will come.
    pub(super) fn push_awaited(&self, record: &AuditRecord) -> Result<oneshot::Receiver<Answer>, Unavailable> {
        let mut state = self.lock();
        if let Some(cause) = &state.failed {
            let cause = cause.clone();
            state.refused += 1;
            return Err(Unavailable::Write(cause));
        }
        state.accept(self)?;
        let (answer, receiver) = oneshot::channel();
        let position = state.batch.records;
        state.batch.waiters.push((position, answer));
        state.lay(record);
        state.urgent = true;
        self.wake_for(&state);
        Ok(receiver)
    }

    /// Asks for a checkpoint over everything queued before.
    pub(super) fn push_checkpoint(&self) -> Result<oneshot::Receiver<Answer>, Unavailable> {
        let mut state = self.lock();
        if state.closing {
            return Err(Unavailable::Closed);
        }
        if let Some(cause) = &state.failed {
            return Err(Unavailable::Write(cause.clone()));
        }
        let (answer, receiver) = oneshot::channel();
        state.batch.checkpoints.push(answer);
        state.urgent = true;
        self.wake_for(&state);
        Ok(receiver)
    }

    fn wake_for(&self, state: &State) {
        let pressing = state.urgent || state.batch.frames.len() > self.max_bytes / 2;
        if state.rest == Rest::Idle || (state.rest == Rest::Lazy && pressing) {
            self.wake.notify_one();
        }
    }

    /// Makes the writer finish and go.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    /// Why writing fails at the moment, and how many records were turned away so far.
    pub(super) fn trouble(&self) -> (Option<Arc<str>>, u64) {
        let state = self.lock();
        (state.failed.clone(), state.refused)
    }

    /// Since when writing fails.
    pub(super) fn since(&self) -> Option<UnixTime> {
        self.lock().since
    }

    /// Records that wait to be written, and whether there is hardly room for more.
    pub(super) fn waiting(&self) -> (usize, bool) {
        let state = self.lock();
        let waiting = state.batch.records + self.kept.load(Ordering::Acquire);
        let most = |bound: usize| bound - bound / 8;
        (waiting, waiting >= most(self.max_records) || state.batch.frames.len() >= most(self.max_bytes))
    }

    /// How many records may be kept.
    pub(super) const fn room(&self) -> usize {
        self.max_records
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closing
    }

    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.available.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn accept(&mut self, queue: &Queue) -> Result<(), Unavailable> {
        if self.closing || self.closed {
            return Err(Unavailable::Closed);
        }
        let full = self.batch.records + queue.kept.load(Ordering::Acquire) >= queue.max_records
            || self.batch.frames.len() + frame::MAX_BODY > queue.max_bytes.max(2 * frame::MAX_BODY);
        if full {
            self.refused += 1;
            return Err(Unavailable::QueueFull);
        }
        Ok(())
    }

    fn lay(&mut self, record: &AuditRecord) {
        frame::push(&mut self.batch.frames, FrameKind::Audit, |out| entry::put(out, record));
        self.batch.records += 1;
    }
}

/// The writer's side.
impl Queue {
    /// Waits until there is something to do, at the latest until `deadline`. `spare` becomes the next buffer.
    pub(super) fn wait(&self, deadline: Option<Instant>, spare: Vec<u8>) -> Work {
        let mut state = self.lock();
        let mut lazy: Option<Instant> = None;
        loop {
            let now = clock::instant();
            let over = |end: Option<Instant>| end.is_some_and(|end| end <= now);
            let failing = state.failed.is_some();
            if state.closing || state.urgent || over(deadline) || over(lazy) {
                break;
            }
            if state.batch.records > 0 && !failing {
                lazy.get_or_insert(now + GROUP_COMMIT);
            }
            state.rest = if failing || lazy.is_some() { Rest::Lazy } else { Rest::Idle };
            let end = [deadline, lazy].into_iter().flatten().min();
            state = match end {
                Some(end) => {
                    let (guard, _) = self
                        .wake
                        .wait_timeout(state, end.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner);
                    guard
                }
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.rest = Rest::Busy;
        if state.urgent && !state.closing && !self.linger.is_zero() {
            (state, _) = self.wake.wait_timeout(state, self.linger).unwrap_or_else(PoisonError::into_inner);
        }
        state.urgent = false;
        let batch = std::mem::replace(&mut state.batch, Batch { frames: spare, ..Batch::default() });
        Work { batch, closing: state.closing }
    }

    /// Turns awaited records away from now on. Returns what was queued meanwhile.
    pub(super) fn fail(&self, cause: &Arc<str>, refused: u64) -> Batch {
        let mut state = self.lock();
        state.failed = Some(cause.clone());
        state.since.get_or_insert_with(clock::unix);
        state.urgent = false;
        let batch = std::mem::take(&mut state.batch);
        state.refused += refused + batch.waiters.len() as u64;
        drop(state);
        self.available.send_if_modified(|available| std::mem::replace(available, false));
        batch
    }

    /// Takes awaited records again.
    pub(super) fn mend(&self) {
        {
            let mut state = self.lock();
            (state.failed, state.since) = (None, None);
        }
        self.available.send_if_modified(|available| !std::mem::replace(available, true));
    }

    pub(super) fn count_refused(&self, more: u64) {
        self.lock().refused += more;
    }

    /// The writer is gone; nothing queued will be written.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.closed = true;
        state.batch = Batch::default();
        drop(state);
        self.available.send_if_modified(|available| std::mem::replace(available, false));
    }

    pub(super) fn set_written(&self, sequence: u64) {
        self.written.store(sequence, Ordering::Release);
    }
}
