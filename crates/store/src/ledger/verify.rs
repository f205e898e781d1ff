//! Checking a whole ledger, streaming, up to the first break.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use access_model::UnixTime;

use super::body::{Checkpoint, Gap, Handover, Recovered, Start, signed_message};
use super::entry;
use super::folder::{self, Head, HeadFile, SegmentFile};
use super::frame::{Chain, Frame, FrameKind, Unchained};
use super::key::CheckpointPublicKey;
use super::scan::{Frames, Next, Opening};

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Segments read.
    pub segments: u64,
    /// Audit records read.
    pub records: u64,
    /// Checkpoints whose signatures verified.
    pub checkpoints: u64,
    /// Number of the last sound record of any kind.
    pub sequence: u64,
    /// Records of any kind behind the last checkpoint: protected by the chain, not by a signature.
    pub unsigned: u64,
    /// The key named in the ledger.
    pub key: Option<CheckpointPublicKey>,
    /// Whether the caller said which key it must be.
    pub key_pinned: bool,
    /// What starts found, in order.
    pub recoveries: Vec<Recovery>,
    /// The first thing that is wrong.
    pub first_break: Option<Break>,
    /// How the last segment ends.
    pub end: End,
}

impl Report {
    /// Whether nothing is wrong and nothing is left over.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.first_break.is_none() && self.end == End::Whole
    }
}

/// How the last segment ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a whole record.
    Whole,
    /// With something that is no whole record: a killed writer leaves this, and its next start notes it.
    Torn {
        /// The segment file.
        segment: String,
        /// Where the last whole record ends.
        offset: u64,
        /// Bytes behind it.
        bytes: u64,
    },
}

/// A note in the ledger about a start or a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The note's number.
    pub sequence: u64,
    /// When it was written.
    pub at: UnixTime,
    /// What it says.
    pub text: String,
}

/// Where and how a ledger is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The file.
    pub file: String,
    /// The byte in the file at which the bad record begins.
    pub offset: u64,
    /// The number that the record there should have.
    pub sequence: u64,
    /// What is wrong.
    pub kind: BreakKind,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}, record {}: {}", self.file, self.offset, self.sequence, self.kind)
    }
}

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BreakKind {
    /// There is no ledger.
    #[error("there is no segment")]
    NoSegment,
    /// The file that names the last checkpoint is not there.
    #[error("the head file is missing")]
    HeadMissing,
    /// The head file holds something else, or not in the way it is written.
    #[error("the head file is unreadable")]
    HeadUnreadable,
    /// The head file belongs to another ledger or is not signed by its key.
    #[error("the head file is not signed by this ledger's key")]
    HeadSignature,
    /// The end was cut off.
    #[error("the records up to {signed}, which a checkpoint had signed, are missing")]
    CutOff {
        /// The last record under the checkpoint.
        signed: u64,
    },
    /// The record differs from the one that a checkpoint signed.
    #[error("the record is not the one that the last checkpoint signed")]
    Replaced,
    /// A segment is missing.
    #[error("the segment that begins with record {expected} is missing, the next one there begins with {found}")]
    SegmentMissing {
        /// First record of the missing segment.
        expected: u64,
        /// First record of the segment found instead.
        found: u64,
    },
    /// The file does not begin as a segment.
    #[error("the file does not begin as a segment")]
    Header,
    /// A segment that others follow does not end with a seal.
    #[error("the segment ends without its seal")]
    Unsealed,
    /// What stands there is no record.
    #[error("no record: {0}")]
    NotARecord(&'static str),
    /// The file ends within a record.
    #[error("the file ends within a record")]
    Incomplete,
    /// A record is missing, doubled or in the wrong place.
    #[error("the record there has number {found}")]
    Sequence {
        /// Its number.
        found: u64,
    },
    /// The record, or one before it, was changed.
    #[error("the hash does not chain to the record before")]
    Hash,
    /// The record's content cannot be read.
    #[error("the content of the record is unreadable")]
    Content,
    /// A record that belongs at the beginning or the end of a segment stands elsewhere.
    #[error("a record of this kind does not belong there")]
    Misplaced,
    /// The hand-over does not name the end of the segment before.
    #[error("the hand-over does not name the end of the segment before")]
    Handover,
    /// The segment names another key or ledger.
    #[error("the segment belongs to another ledger or key")]
    OtherKey,
    /// A checkpoint does not cover the record before it, or its signature does not verify.
    #[error("the checkpoint does not verify")]
    Checkpoint,
    /// A start found that records under a checkpoint were gone.
    #[error("a start noted that {lost} signed records before it were gone")]
    Lost {
        /// How many.
        lost: u64,
    },
    /// A start found no usable head file, so an end may have been cut off before it.
    #[error("a start noted that the head file was missing, records before it may be gone")]
    Headless,
}

/// Reads the whole ledger and checks everything; `key` is the key it must be signed with, if the caller knows.
/// Works beside a program that writes.
///
/// # Errors
/// A file cannot be read.
pub fn verify(folder: &Path, key: Option<&CheckpointPublicKey>) -> io::Result<Report> {
    let mut check = Check::new(key);
    let head = folder::read_head(folder)?;
    let segments = folder::segments(folder)?;
    let last = segments.len().saturating_sub(1);
    for (position, segment) in segments.iter().enumerate() {
        if !check.segment(segment, position == last, &head)? {
            return Ok(check.report);
        }
    }
    check.head(&head, segments.is_empty());
    Ok(check.report)
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
    sealed: Option<Checkpoint>,
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
            key_pinned: pinned.is_some(),
            recoveries: Vec::new(),
            first_break: None,
            end: End::Whole,
        };
        let (chain, start, sealed) = (Chain::GENESIS, None, None);
        Self { report, pinned, chain, start, first_of_segment: 0, sealed, file: String::new() }
    }

    /// Notes the first break; later ones say nothing new.
    fn broken(&mut self, offset: u64, kind: BreakKind) {
        let place = Break { file: self.file.clone(), offset, sequence: self.chain.sequence + 1, kind };
        self.report.first_break.get_or_insert(place);
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
                if self.pinned.is_some_and(|pinned| *pinned != start.key) {
                    return Err(BreakKind::OtherKey);
                }
                self.report.key = Some(start.key.clone());
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
        let seal = self.sealed.as_ref().map(|seal| seal.signature);
        let names_it = seal == Some(handover.signature) && handover.last == self.chain;
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
            FrameKind::Seal => self.sealed = Some(self.checkpoint(frame)?),
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
        let ours = self.start.as_ref().is_none_or(|start| start.ledger == head.ledger && head.is_signed_by(&start.key));
        if !ours {
            self.broken(0, BreakKind::HeadSignature);
        } else if signed > self.chain.sequence {
            self.broken(0, BreakKind::CutOff { signed });
        }
    }
}
