//! What the rest of the program holds of the ledger.

use std::borrow::Borrow;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use access_model::{AuditRecord, UnixTime};
use tokio::sync::{oneshot, watch};

use super::open;
use super::queue::{Answer, Queue};
use super::{CheckpointKey, CheckpointPublicKey, LedgerConfig, LedgerError, Unavailable, writer};

/// An open ledger. Clones share one writer thread; with the last of them it finishes, signs a checkpoint and goes.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    folder: PathBuf,
    key: CheckpointPublicKey,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

/// How a ledger is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Why records are turned away, if they are.
    pub trouble: Option<Unavailable>,
    /// The last record written.
    pub sequence: u64,
    /// Since when they are.
    pub since: Option<UnixTime>,
    /// Records that wait to be written.
    pub waiting: usize,
    /// Whether there is room for hardly more of them: less than an eighth.
    pub is_crowded: bool,
    /// Records turned away since the ledger was opened.
    pub refused: u64,
}

impl Health {
    /// Whether records are taken.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.trouble.is_none()
    }
}

impl Ledger {
    /// Opens the ledger in `folder`, or begins one. What a killed program left behind the last whole record is cut off
    /// and noted. Blocks for as long as reading the last segment takes.
    ///
    /// # Errors
    /// The folder cannot be used, is in use, belongs to another key, or lost all its segments.
    pub fn open(folder: &Path, config: LedgerConfig, key: CheckpointKey) -> Result<Self, LedgerError> {
        let public = key.public();
        let writer = open::open(folder, config, key)?;
        let queue = Arc::new(Queue::new(&config, writer.sequence()));
        let io = |source| LedgerError::Io { path: folder.to_owned(), source };
        let thread = std::thread::Builder::new().name("audit-ledger".into());
        let of_thread = queue.clone();
        let thread = thread.spawn(move || writer::run(writer, &of_thread)).map_err(io)?;
        let shared = Shared { queue, folder: folder.to_owned(), key: public, thread: Mutex::new(Some(thread)) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Queues a record; the acknowledgement comes when it is written. Never blocks.
    pub fn append(&self, record: impl Borrow<AuditRecord>) -> Ack {
        Ack::from(self.shared.queue.push_awaited(record.borrow()))
    }

    /// Queues a record that nobody awaits; it is written within 10 ms. While writing fails it is kept, up to the
    /// bound of the queue. Never blocks.
    ///
    /// # Errors
    /// The queue is full or the ledger closed; the record is then not kept.
    pub fn note(&self, record: impl Borrow<AuditRecord>) -> Result<(), Unavailable> {
        self.shared.queue.push(record.borrow())
    }

    /// Signs a checkpoint over everything appended before.
    pub fn checkpoint(&self) -> Ack {
        Ack::from(self.shared.queue.push_checkpoint())
    }

    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        let (cause, refused) = self.shared.queue.trouble();
        let (waiting, is_crowded) = self.shared.queue.waiting();
        let closed = self.shared.queue.is_closed().then_some(Unavailable::Closed);
        let trouble = cause.map(Unavailable::Write).or(closed);
        Health {
            trouble,
            sequence: self.shared.queue.written.load(Ordering::Acquire),
            since: self.shared.queue.since(),
            waiting,
            is_crowded,
            refused,
        }
    }

    /// Whether awaited records are taken, as it changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.shared.queue.watch()
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// The key that verifies its checkpoints.
    #[must_use]
    pub fn key(&self) -> &CheckpointPublicKey {
        &self.shared.key
    }

    /// Writes what is queued, signs a last checkpoint and ends the writer thread. Later records are turned away.
    pub async fn close(&self) {
        self.shared.queue.close();
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Comes true when the record is written, with its number. Dropping it does not take the record back.
#[must_use = "what depends on the record must wait for it"]
#[derive(Debug)]
pub struct Ack(Inner);

#[derive(Debug)]
enum Inner {
    Refused(Unavailable),
    Waiting(oneshot::Receiver<Answer>),
}

impl From<Result<oneshot::Receiver<Answer>, Unavailable>> for Ack {
    fn from(queued: Result<oneshot::Receiver<Answer>, Unavailable>) -> Self {
        Self(queued.map_or_else(Inner::Refused, Inner::Waiting))
    }
}

impl Ack {
    /// Waits on this thread; not for use inside a runtime.
    ///
    /// # Errors
    /// The record was not written.
    pub fn wait_blocking(self) -> Answer {
        match self.0 {
            Inner::Refused(why) => Err(why),
            Inner::Waiting(receiver) => receiver.blocking_recv().unwrap_or(Err(Unavailable::Closed)),
        }
    }
}

impl Future for Ack {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        match &mut self.0 {
            Inner::Refused(why) => Poll::Ready(Err(why.clone())),
            Inner::Waiting(receiver) => {
                Pin::new(receiver).poll(context).map(|answer| answer.unwrap_or(Err(Unavailable::Closed)))
            }
        }
    }
}
