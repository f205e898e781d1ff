//! Checking a whole ledger, streaming, up to the first break.

use std::io;
use std::path::Path;
use std::time::Duration;

use access_model::UnixTime;

use super::body::{Checkpoint, Gap, Handover, Recovered, Start, signed_message};
use super::entry;
use super::folder::{self, Head, HeadFile, SegmentFile};
use super::frame::{Chain, Frame, FrameKind, Unchained};
use super::key::{CheckpointPublicKey, SIGNATURE};
use super::rekey::{KeySince, Rekey, in_force};
use super::report::{Break, BreakKind, End, Recovery, Report};
use super::scan::{Frames, Next, Opening};
use super::stub::{self, StubFile};

/// Reads the whole ledger and checks everything; `key` must be one of the keys that signed it, if the caller knows one: the first,
/// or any that was handed over to. Works beside a program that writes, and beside one that removes segments.
///
/// # Errors
/// A file cannot be read.
pub fn verify(folder: &Path, key: Option<&CheckpointPublicKey>) -> io::Result<Report> {
    for _ in 0..SECOND_LOOKS {
        let stub = stub::read(folder)?;
        let found = with_rekeys(folder, key, &stub);
        // Segments that are removed meanwhile look like missing ones.
        let sound = found.as_ref().is_ok_and(|(report, _)| report.first_break.is_none());
        if sound || stub::read(folder)? == stub {
            return found.map(|(report, _)| report);
        }
    }
    with_rekeys(folder, key, &stub::read(folder)?).map(|(report, _)| report)
}

/// As [`verify`], once, behind a stub, and with every hand-over of the key.
pub(super) fn with_rekeys(
    folder: &Path,
    key: Option<&CheckpointPublicKey>,
    stub: &StubFile,
) -> io::Result<(Report, Vec<Rekey>)> {
    let mut check = Check::new(key);
    let head = folder::read_head(folder)?;
    let mut segments = folder::segments(folder)?;
    if !check.stub(stub) {
        return Ok((check.report, check.rekeys));
    }
    // What a removal that was killed left over: the stub vouches for it already.
    segments.retain(|segment| segment.first > check.chain.sequence);
    let last = segments.len().saturating_sub(1);
    let mut whole = true;
    for (position, segment) in segments.iter().enumerate() {
        whole = check.segment(segment, position == last, &head)?;
        if !whole {
            break;
        }
    }
    if whole {
        check.head(&head, segments.is_empty());
    }
    if segments.is_empty() {
        // The last segment is never removed, so a stub alone is no ledger.
        check.broken(0, BreakKind::NoSegment);
    }
    check.keys(segments.first());
    Ok((check.report, check.rekeys))
}

/// A record that is being written while we read is whole a moment later.
const SECOND_LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

struct Check<'k> {
    report: Report,
    pinned: Option<&'k CheckpointPublicKey>,
    chain: Chain,
    start: Option<Start>,
    first_of_segment: u64,
    /// Signature of the seal at the end of the segment before, once there is one.
    sealed: Option<[u8; SIGNATURE]>,
    rekeys: Vec<Rekey>,
    file: String,
}

impl<'k> Check<'k> {
    fn new(pinned: Option<&'k CheckpointPublicKey>) -> Self {
        let report = Report {
            segments: 0,
            records: 0,
            checkpoints: 0,
            sequence: 0,
            unsigned: 0,
            key: None,
            keys: Vec::new(),
            key_pinned: pinned.is_some(),
            removed: None,
            recoveries: Vec::new(),
            first_break: None,
            end: End::Whole,
        };
        let (chain, start, sealed) = (Chain::GENESIS, None, None);
        Self { report, pinned, chain, start, first_of_segment: 0, sealed, rekeys: Vec::new(), file: String::new() }
    }

    /// Notes the first break; later ones say nothing new.
    fn broken(&mut self, offset: u64, kind: BreakKind) {
        let place = Break { file: self.file.clone(), offset, sequence: self.chain.sequence + 1, kind };
        self.report.first_break.get_or_insert(place);
    }

    /// Takes up behind the segments that a stub vouches for; whether it is worth going on.
    fn stub(&mut self, file: &StubFile) -> bool {
        self.file = stub::STUB.into();
        let stub = match file {
            StubFile::Missing => return true,
            StubFile::There(stub) => stub,
            StubFile::Unreadable => {
                self.broken(0, BreakKind::StubUnreadable);
                return false;
            }
        };
        let Some(line) = stub.verified() else {
            self.broken(0, BreakKind::StubSignature);
            return false;
        };
        self.chain = stub.through;
        self.sealed = Some(stub.seal);
        self.start = line.last().map(|last| Start { ledger: stub.ledger, key: last.key.clone(), at: last.at });
        self.report.key = line.last().map(|last| last.key.clone());
        self.report.keys = line;
        let gone = stub.rekeys.iter().filter(|rekey| rekey.covers.sequence < stub.through.sequence);
        self.rekeys = gone.cloned().collect();
        self.report.sequence = stub.through.sequence;
        self.report.removed = Some(stub.removed());
        true
    }

    /// Checks that the key the caller named is among those that really signed; one that a stub only promises is not enough.
    fn keys(&mut self, first: Option<&SegmentFile>) {
        let Some(first) = first else { return };
        let known = |pinned: &CheckpointPublicKey| self.report.keys.iter().any(|since| since.key == *pinned);
        if !self.pinned.is_none_or(known) {
            self.file.clone_from(&first.name);
            self.broken(0, BreakKind::OtherKey);
        }
    }

    /// Checks one segment; whether it is worth going on.
    fn segment(&mut self, segment: &SegmentFile, last: bool, head: &HeadFile) -> io::Result<bool> {
        self.file.clone_from(&segment.name);
        let expected = self.chain.sequence + 1;
        if segment.first != expected {
            self.broken(0, BreakKind::SegmentMissing { expected, found: segment.first });
            return Ok(false);
        }
        let Some(mut frames) = Frames::open(&segment.path)? else {
            self.broken(0, BreakKind::Header);
            return Ok(false);
        };
        self.report.segments += 1;
        self.first_of_segment = segment.first;
        let (mut opened, mut looks) = (false, 0);
        loop {
            let place = frames.offset();
            let problem = match frames.next()? {
                Next::End if last || self.sealed.is_some() => return Ok(true),
                Next::End => BreakKind::Unsealed,
                Next::Frame(frame, _) => match self.frame(&frame, !opened, head) {
                    Ok(()) => {
                        (opened, looks) = (true, 0);
                        continue;
                    }
                    Err(kind) => kind,
                },
                Next::Incomplete => BreakKind::Incomplete,
                Next::Not(why) => BreakKind::NotARecord(why),
            };
            if last && problem == BreakKind::Incomplete && looks < SECOND_LOOKS {
                let length = crate::files::length(&segment.path)?;
                std::thread::park_timeout(BETWEEN_LOOKS);
                looks = if crate::files::length(&segment.path)? == length { SECOND_LOOKS } else { looks + 1 };
                frames = Frames::at(&segment.path, place)?;
                continue;
            }
            self.bad(segment, place, problem, last && opened, head)?;
            return Ok(false);
        }
    }

    /// Something unsound at `place`: behind everything that is signed, it may be what a killed writer left.
    fn bad(
        &mut self,
        segment: &SegmentFile,
        place: u64,
        kind: BreakKind,
        at_end: bool,
        head: &HeadFile,
    ) -> io::Result<()> {
        let torn = matches!(kind, BreakKind::Incomplete | BreakKind::NotARecord(_));
        if at_end && torn {
            self.head(head, false);
            if self.report.first_break.is_none() {
                let bytes = crate::files::length(&segment.path)?.saturating_sub(place);
                self.report.end = End::Torn { segment: segment.name.clone(), offset: place, bytes };
                return Ok(());
            }
            self.report.first_break = None;
        }
        self.file.clone_from(&segment.name);
        self.broken(place, kind);
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>, first: bool, head: &HeadFile) -> Result<(), BreakKind> {
        let next = self.chain.follow(frame).map_err(|unchained| match unchained {
            Unchained::Sequence { found, .. } => BreakKind::Sequence { found },
            Unchained::Hash => BreakKind::Hash,
        })?;
        if first {
            self.opening(frame)?;
        } else {
            self.content(frame)?;
        }
        if let HeadFile::There(head) = head
            && head.checkpoint.covers.sequence == next.sequence
            && head.checkpoint.covers.hash != next.hash
        {
            return Err(BreakKind::Replaced);
        }
        self.chain = next;
        self.report.sequence = next.sequence;
        Ok(())
    }

    fn opening(&mut self, frame: &Frame<'_>) -> Result<(), BreakKind> {
        let opening = Opening::read(frame).ok_or(BreakKind::Misplaced)?;
        match (&opening, &self.start) {
            (Opening::First(start), None) => {
                self.key(frame.sequence, start.at, &start.key);
                self.start = Some(start.clone());
            }
            (Opening::Later(handover), Some(start)) => self.handover(handover, start)?,
            _ => return Err(BreakKind::Misplaced),
        }
        self.sealed = None;
        self.report.unsigned += 1;
        Ok(())
    }

    fn handover(&self, handover: &Handover, start: &Start) -> Result<(), BreakKind> {
        if handover.start.key != start.key || handover.start.ledger != start.ledger {
            return Err(BreakKind::OtherKey);
        }
        let names_it = self.sealed == Some(handover.signature) && handover.last == self.chain;
        if names_it { Ok(()) } else { Err(BreakKind::Handover) }
    }

    fn content(&mut self, frame: &Frame<'_>) -> Result<(), BreakKind> {
        if self.sealed.is_some() {
            return Err(BreakKind::Misplaced);
        }
        self.report.unsigned += 1;
        match frame.kind {
            FrameKind::Audit => {
                entry::read(frame).ok_or(BreakKind::Content)?;
                self.report.records += 1;
            }
            FrameKind::Checkpoint => self.checkpoint(frame).map(drop)?,
            FrameKind::Seal => self.sealed = Some(self.checkpoint(frame)?.signature),
            FrameKind::Rekey => self.rekey(frame)?,
            FrameKind::Recovered => {
                let note = Recovered::read(frame.body).ok_or(BreakKind::Content)?;
                self.recovered(frame.sequence, &note);
            }
            FrameKind::Gap => {
                let gap = Gap::read(frame.body).ok_or(BreakKind::Content)?;
                let text = format!("writing failed ({}); {} records were turned away", gap.cause, gap.refused);
                self.report.recoveries.push(Recovery { sequence: frame.sequence, at: gap.until, text });
            }
            FrameKind::Start | FrameKind::Handover => return Err(BreakKind::Misplaced),
        }
        Ok(())
    }

    fn checkpoint(&mut self, frame: &Frame<'_>) -> Result<Checkpoint, BreakKind> {
        let checkpoint = Checkpoint::read(frame.body).ok_or(BreakKind::Content)?;
        let start = self.start.as_ref().ok_or(BreakKind::Misplaced)?;
        let message = signed_message(&start.ledger, &checkpoint.covers, checkpoint.at);
        if checkpoint.covers != self.chain || !start.key.verifies(&message, &checkpoint.signature) {
            return Err(BreakKind::Checkpoint);
        }
        self.report.checkpoints += 1;
        self.report.unsigned = 0;
        Ok(checkpoint)
    }

    fn rekey(&mut self, frame: &Frame<'_>) -> Result<(), BreakKind> {
        let rekey = Rekey::read(frame.body).ok_or(BreakKind::Content)?;
        let start = self.start.as_mut().ok_or(BreakKind::Misplaced)?;
        if rekey.covers != self.chain || !rekey.is_signed_by(&start.ledger, &start.key) {
            return Err(BreakKind::Rekey);
        }
        start.key = rekey.key.clone();
        self.key(frame.sequence, rekey.at, &rekey.key);
        self.rekeys.push(rekey);
        self.report.unsigned = 1;
        Ok(())
    }

    fn key(&mut self, sequence: u64, at: UnixTime, key: &CheckpointPublicKey) {
        self.report.key = Some(key.clone());
        self.report.keys.push(KeySince { sequence, at, key: key.clone() });
    }

    fn recovered(&mut self, sequence: u64, note: &Recovered) {
        let text = format!("a start cut off {} bytes of an unfinished record", note.torn);
        self.report.recoveries.push(Recovery { sequence, at: note.at, text });
        if note.lost > 0 {
            self.broken(0, BreakKind::Lost { lost: note.lost });
        } else if note.headless {
            self.broken(0, BreakKind::Headless);
        }
    }

    /// Checks that everything the head file vouches for was there.
    fn head(&mut self, head: &HeadFile, nothing: bool) {
        let segment = std::mem::replace(&mut self.file, folder::HEAD.into());
        match head {
            HeadFile::Missing if nothing => self.broken(0, BreakKind::NoSegment),
            HeadFile::Missing => self.broken(0, BreakKind::HeadMissing),
            HeadFile::Unreadable => self.broken(0, BreakKind::HeadUnreadable),
            HeadFile::There(head) => self.signed_head(head),
        }
        self.file = segment;
    }

    fn signed_head(&mut self, head: &Head) {
        let signed = head.checkpoint.covers.sequence;
        let ours = self.start.as_ref().is_none_or(|start| {
            let key = in_force(&self.report.keys, signed);
            start.ledger == head.ledger && key.is_some_and(|key| head.is_signed_by(key))
        });
        if !ours {
            self.broken(0, BreakKind::HeadSignature);
        } else if signed > self.chain.sequence {
            self.broken(0, BreakKind::CutOff { signed });
        }
    }
}
