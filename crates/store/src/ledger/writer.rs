//! The thread that writes: numbers and hashes frames, writes a batch at once, signs, rotates, and mends itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use access_model::UnixTime;

use super::body::{Checkpoint, Gap, Handover, Start, signed_message};
use super::folder::{HEAD, Head, segment_name};
use super::frame::{self, Chain, FrameKind, MAGIC};
use super::key::CheckpointKey;
use super::queue::{Batch, Queue};
use super::rekey::Rekey;
use super::{LedgerConfig, Unavailable};
use crate::{Sync, clock, files};

/// The segment that is written.
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Bytes that are written for certain; what lies behind them is cut off before the next write.
    pub(super) good: u64,
    /// Its seal, once it has one; then the next segment is to be begun.
    pub(super) sealed: Option<Checkpoint>,
}

pub(super) struct Writer {
    pub(super) folder: PathBuf,
    pub(super) config: LedgerConfig,
    pub(super) key: CheckpointKey,
    pub(super) start: Start,
    pub(super) chain: Chain,
    pub(super) segment: Segment,
    /// Frames to be written before any other: notes, and records kept while writing failed.
    pub(super) pending: Vec<u8>,
    /// How many of these are records.
    pub(super) kept: usize,
    /// Records since the last checkpoint.
    pub(super) open_records: u64,
    /// When the next checkpoint is due.
    pub(super) checkpoint_due: Option<Instant>,
    pub(super) failure: Option<Failure>,
    /// Keeps other programs out for as long as it lives.
    pub(super) _lock: File,
}

/// A while in which nothing could be written.
pub(super) struct Failure {
    since: UnixTime,
    retry: Instant,
    cause: Arc<str>,
    refused_before: u64,
}

/// Tells the queue when the thread ends, however it ends.
struct Alive<'a>(&'a Queue);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Serves the queue until it is closed.
pub(super) fn run(mut writer: Writer, queue: &Queue) {
    let _alive = Alive(queue);
    if let Err(error) = writer.settle() {
        writer.fail(queue, &error, Batch::default());
    }
    let mut spare = Vec::new();
    loop {
        let mut work = queue.wait(writer.deadline(), spare);
        let checkpoints = std::mem::take(&mut work.batch.checkpoints);
        let mut batch = work.batch;
        if writer.failure.is_some() {
            writer.keep(queue, &mut batch);
            writer.retry(queue);
        } else {
            if let Err(error) = writer.commit(queue, &mut batch) {
                writer.fail(queue, &error, std::mem::take(&mut batch));
            }
        }
        writer.sign(queue, checkpoints, work.closing);
        queue.kept.store(writer.kept, Ordering::Release);
        if work.closing {
            return;
        }
        batch.frames.clear();
        batch.frames.shrink_to(1024 * 1024);
        spare = batch.frames;
    }
}

impl Writer {
    pub(super) fn sequence(&self) -> u64 {
        self.chain.sequence
    }

    fn deadline(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.retry).or(self.checkpoint_due)
    }

    /// Writes a batch and answers who awaits it.
    fn commit(&mut self, queue: &Queue, batch: &mut Batch) -> io::Result<()> {
        if batch.records == 0 {
            return Ok(());
        }
        self.settle()?;
        let before = self.chain.sequence;
        self.write(&mut batch.frames)?;
        queue.set_written(self.chain.sequence);
        for (position, answer) in batch.waiters.drain(..) {
            let _ = answer.send(Ok(before + 1 + position as u64));
        }
        Ok(())
    }

    /// Brings the folder into a state in which frames can be appended: rotated where due, nothing pending.
    fn settle(&mut self) -> io::Result<()> {
        if self.segment.sealed.is_none() && self.segment.good >= self.config.rotate_bytes {
            self.seal()?;
        }
        if self.segment.sealed.is_some() {
            self.begin_segment()?;
        }
        if !self.pending.is_empty() {
            let mut frames = std::mem::take(&mut self.pending);
            let written = self.write(&mut frames);
            if written.is_err() {
                self.pending = frames;
            }
            written?;
            self.kept = 0;
        }
        Ok(())
    }

    /// Appends frames: all of them or none.
    fn write(&mut self, frames: &mut [u8]) -> io::Result<()> {
        let mut chain = self.chain;
        frame::split_mut(frames, |frame| chain.link(frame));
        let segment = &mut self.segment;
        let mut written = segment.file.write_all_at(frames, segment.good);
        if written.is_ok() && self.config.sync == Sync::Disk {
            written = segment.file.sync_data();
        }
        if written.is_err() {
            let _ = segment.file.set_len(segment.good);
            return written;
        }
        segment.good += frames.len() as u64;
        self.open_records += chain.sequence - self.chain.sequence;
        self.chain = chain;
        if self.checkpoint_due.is_none() {
            self.checkpoint_due = Some(clock::instant() + self.config.checkpoint_interval);
        }
        Ok(())
    }

    fn signed(&self) -> io::Result<Checkpoint> {
        let (covers, at) = (self.chain, clock::unix());
        let message = signed_message(&self.start.ledger, &covers, at);
        let signature = self.key.sign(&message).map_err(io::Error::other)?;
        Ok(Checkpoint { covers, at, signature })
    }

    /// Signs everything written so far, in the segment and in the head file.
    pub(super) fn checkpoint(&mut self) -> io::Result<u64> {
        let checkpoint = self.signed()?;
        let mut frames = Vec::new();
        frame::push(&mut frames, FrameKind::Checkpoint, |out| checkpoint.put(out));
        self.write(&mut frames)?;
        let covered = checkpoint.covers.sequence;
        self.replace_head(checkpoint)?;
        (self.open_records, self.checkpoint_due) = (0, None);
        Ok(covered)
    }

    /// Hands the ledger over to another key, which signs all there is so far.
    pub(super) fn rekey(&mut self, new: CheckpointKey) -> io::Result<u64> {
        self.settle()?;
        let (covers, at) = (self.chain, clock::unix());
        let rekey = Rekey::sign(&self.start.ledger, covers, at, &self.key, &new).map_err(io::Error::other)?;
        let mut frames = Vec::new();
        frame::push(&mut frames, FrameKind::Rekey, |out| rekey.put(out));
        self.write(&mut frames)?;
        // The old key may be destroyed when this returns.
        self.segment.file.sync_data()?;
        self.start.key = rekey.key;
        self.key = new;
        self.checkpoint()
    }

    fn replace_head(&self, checkpoint: Checkpoint) -> io::Result<()> {
        let head = Head { ledger: self.start.ledger, checkpoint };
        files::replace(&self.folder.join(HEAD), &head.to_bytes(), self.config.sync == Sync::Disk)
    }

    /// Ends the segment with a seal; nothing follows it in this file.
    fn seal(&mut self) -> io::Result<()> {
        let seal = self.signed()?;
        let mut frames = Vec::new();
        frame::push(&mut frames, FrameKind::Seal, |out| seal.put(out));
        self.write(&mut frames)?;
        self.segment.file.sync_data()?;
        self.segment.sealed = Some(seal);
        Ok(())
    }

    /// Begins the segment behind a sealed one. Its first record names the seal; it appears under its name only when
    /// that record is in it.
    fn begin_segment(&mut self) -> io::Result<()> {
        let Some(seal) = &self.segment.sealed else { return Ok(()) };
        let handover = Handover {
            start: Start { at: clock::unix(), ..self.start.clone() },
            first: self.segment.first,
            last: self.chain,
            signature: seal.signature,
        };
        let mut frames = Vec::new();
        frame::push(&mut frames, FrameKind::Handover, |out| handover.put(out));
        let (chain, segment) = new_segment(&self.folder, self.chain, frames)?;
        (self.chain, self.segment) = (chain, segment);
        self.checkpoint().map(drop)
    }
}

/// Makes a segment file with one first frame in it.
pub(super) fn new_segment(
    folder: &std::path::Path,
    mut chain: Chain,
    mut frames: Vec<u8>,
) -> io::Result<(Chain, Segment)> {
    frame::split_mut(&mut frames, |frame| chain.link(frame));
    let first = chain.sequence;
    let path = folder.join(segment_name(first));
    let beside = files::beside(&path, "new");
    let file = files::create(&beside)?;
    file.write_all_at(MAGIC, 0)?;
    file.write_all_at(&frames, MAGIC.len() as u64)?;
    file.sync_all()?;
    files::rename(&beside, &path)?;
    files::sync_folder_of(&path)?;
    let good = (MAGIC.len() + frames.len()) as u64;
    Ok((chain, Segment { first, path, file, good, sealed: None }))
}

/// When writing fails.
impl Writer {
    /// Signs when it is due, asked for, or the end.
    fn sign(&mut self, queue: &Queue, asked: Vec<tokio::sync::oneshot::Sender<super::queue::Answer>>, closing: bool) {
        let due = self.open_records >= self.config.checkpoint_records
            || self.checkpoint_due.is_some_and(|due| due <= clock::instant());
        let wanted = !asked.is_empty() || (closing && self.open_records > 0) || due;
        let mut answer = Ok(self.chain.sequence);
        if let Some(failure) = &self.failure {
            answer = Err(Unavailable::Write(failure.cause.clone()));
        } else if wanted {
            answer = self.settle().and_then(|()| self.checkpoint()).map_err(|error| {
                self.fail(queue, &error, Batch::default());
                Unavailable::Write(error.to_string().into())
            });
            queue.set_written(self.chain.sequence);
        }
        for waiter in asked {
            let _ = waiter.send(answer.clone());
        }
    }

    /// Turns away what is awaited, keeps the rest, and tries again later.
    fn fail(&mut self, queue: &Queue, error: &io::Error, mut batch: Batch) {
        let cause: Arc<str> = error.to_string().into();
        tracing::error!(folder = %self.folder.display(), %cause, "the audit ledger cannot be written");
        let (_, refused_before) = queue.trouble();
        let mut queued = queue.fail(&cause, batch.waiters.len() as u64);
        let retry = clock::instant() + self.config.retry;
        self.failure = Some(Failure { since: clock::unix(), retry, cause, refused_before });
        self.keep(queue, &mut batch);
        self.keep(queue, &mut queued);
    }

    /// Keeps what nobody awaits, up to the bound of the queue, and answers the others.
    fn keep(&mut self, queue: &Queue, batch: &mut Batch) {
        let Some(failure) = &self.failure else { return };
        let why = Unavailable::Write(failure.cause.clone());
        let awaited: Vec<usize> = batch.waiters.iter().map(|(position, _)| *position).collect();
        let (mut position, mut dropped) = (0, 0);
        let (pending, bound, kept) = (&mut self.pending, self.config.queue_bytes, &mut self.kept);
        frame::split_mut(&mut batch.frames, |frame| {
            if awaited.binary_search(&position).is_err() {
                if pending.len() + frame.len() <= bound && *kept < queue.room() {
                    pending.extend_from_slice(frame);
                    *kept += 1;
                } else {
                    dropped += 1;
                }
            }
            position += 1;
        });
        queue.count_refused(dropped);
        queue.kept.store(self.kept, Ordering::Release);
        for (_, answer) in batch.waiters.drain(..) {
            let _ = answer.send(Err(why.clone()));
        }
        for answer in batch.checkpoints.drain(..) {
            let _ = answer.send(Err(why.clone()));
        }
    }

    /// Tries to write again, once it is time; the first thing written is a note about the gap.
    fn retry(&mut self, queue: &Queue) {
        let Some(failure) = &mut self.failure else { return };
        let now = clock::instant();
        if failure.retry > now {
            return;
        }
        failure.retry = now + self.config.retry;
        let gap = Gap {
            from: failure.since,
            until: clock::unix(),
            refused: queue.trouble().1 - failure.refused_before,
            cause: failure.cause.to_string(),
        };
        if self.reopen_and_note(&gap).is_ok() {
            tracing::info!(folder = %self.folder.display(), refused = gap.refused, "the audit ledger can be written again");
            self.failure = None;
            queue.set_written(self.chain.sequence);
            queue.mend();
        }
    }

    fn reopen_and_note(&mut self, gap: &Gap) -> io::Result<()> {
        self.segment.file = files::open_write(&self.segment.path)?;
        self.segment.file.set_len(self.segment.good)?;
        if self.segment.sealed.is_some() {
            self.begin_segment()?;
        }
        let mut note = Vec::new();
        frame::push(&mut note, FrameKind::Gap, |out| gap.put(out));
        self.write(&mut note)?;
        self.settle()?;
        self.checkpoint().map(drop)
    }
}
