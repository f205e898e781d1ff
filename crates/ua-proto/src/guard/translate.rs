//! TranslateBrowsePathsToNodeIds (OPC 10000-4 §5.9.4), one step at a time: the server would walk over hidden nodes, so
//! each node on the way is looked at here. A hidden step is no match.

use std::collections::HashSet;

use access_model::{Action, AuditKind};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, Way, encoded, told};
use super::look::Looking;
use super::read::taken;
use super::walk::{Expanded, boolean, end, expanded, qualified_name, results};
use crate::server::front::{Counted, Malformed, Reader, write_header, write_len, write_no_diagnostics};

const IDS: (ObjectId, ObjectId) = (
    ObjectId::TranslateBrowsePathsToNodeIdsRequest_Encoding_DefaultBinary,
    ObjectId::TranslateBrowsePathsToNodeIdsResponse_Encoding_DefaultBinary,
);
/// Most paths in one request upstream.
const AT_ONCE: usize = 500;

/// A request under way.
pub(super) struct Asked {
    paths: Vec<Path>,
    /// The paths that each part asks about.
    parts: Vec<Vec<usize>>,
    open: usize,
    looking: Looking,
}

struct Path {
    elements: Vec<Vec<u8>>,
    step: usize,
    /// Where it has led so far, as the server writes it.
    reached: Vec<Vec<u8>>,
    next: Vec<(NodeId, Vec<u8>)>,
    seen: HashSet<NodeId>,
    hidden: bool,
    done: Option<StatusCode>,
}

/// Reads and decides a request, and asks for the first step.
pub(super) fn start(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let items = items(&mut reader, 6, desk.mapping.limits.translate, Item::read)?;
    end(&reader)?;
    let paths = items.iter().map(|item| decide(desk, item)).collect();
    let mut asked = Asked { paths, parts: Vec::new(), open: 0, looking: Looking::default() };
    let progress = asked.step(desk, handle);
    Ok((asked, progress))
}

/// The nodes where the paths of a request begin; none of one that cannot be read.
pub(super) fn nodes(body: &[u8]) -> Vec<NodeId> {
    let mut reader = Reader::new(body);
    let read = items(&mut reader, 6, 0, Item::read).unwrap_or_default();
    read.into_iter().map(|item| item.start).collect()
}

struct Item<'a> {
    start: NodeId,
    start_bytes: &'a [u8],
    elements: Vec<Element<'a>>,
}

struct Element<'a> {
    kind: NodeId,
    named: bool,
    bytes: &'a [u8],
}

impl<'a> Item<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let before = reader.rest();
        let start = reader.node_id()?;
        let start_bytes = taken(before, reader)?;
        let count = reader.array_len(10)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            let before = reader.rest();
            let kind = reader.node_id()?;
            boolean(reader)?;
            boolean(reader)?;
            let named = !qualified_name(reader)?.is_null();
            elements.push(Element { kind, named, bytes: taken(before, reader)? });
        }
        Ok(Self { start, start_bytes, elements })
    }
}

fn decide(desk: &mut Desk<'_>, item: &Item<'_>) -> Path {
    let elements = item.elements.iter().map(|element| element.bytes.to_vec()).collect();
    let start = desk.known_as(&item.start, item.start_bytes).to_vec();
    let mut path = Path {
        elements,
        step: 0,
        reached: vec![start],
        next: Vec::new(),
        seen: HashSet::new(),
        hidden: false,
        done: None,
    };
    let scope = desk.scope(&item.start);
    match desk.way(Action::Browse, (&item.start, scope), AuditKind::Browse, Some(Counted::Browse)) {
        Way::Real => path.done = refusal(desk, item),
        Way::Never(_) if path.elements.is_empty() => path.done = Some(StatusCode::BadNodeIdUnknown),
        Way::Never(node) => {
            path.elements.truncate(1);
            path.reached = vec![node];
            path.hidden = true;
        }
        Way::Refused(status) => path.done = Some(status),
    }
    path
}

fn refusal(desk: &Desk<'_>, item: &Item<'_>) -> Option<StatusCode> {
    let Some((_, before_last)) = item.elements.split_last() else { return Some(StatusCode::BadNothingToDo) };
    if before_last.iter().any(|element| !element.named) {
        return Some(StatusCode::BadBrowseNameInvalid);
    }
    if item.elements.len() > desk.config.limits.max_path {
        return Some(StatusCode::BadTooManyOperations);
    }
    let hidden = |element: &Element<'_>| !element.kind.is_null() && !desk.visible(desk.scope(&element.kind));
    item.elements.iter().any(hidden).then_some(StatusCode::BadNoMatch)
}

impl Asked {
    /// Asks for the next step of every path that is not at its end, or answers.
    fn step(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let mut spans: Vec<(usize, Vec<u8>)> = Vec::new();
        for (at, path) in self.paths.iter().enumerate().filter(|(_, path)| path.done.is_none()) {
            let Some(element) = path.elements.get(path.step) else { continue };
            for node in &path.reached {
                spans.push((at, [node, [1, 0, 0, 0].as_slice(), element].concat()));
            }
        }
        if spans.is_empty() {
            return self.respond(desk, handle);
        }
        let most = match desk.mapping.limits.translate {
            0 => AT_ONCE,
            limit => AT_ONCE.min(limit as usize),
        };
        self.parts.clear();
        for (part, chunk) in (0_u32..).zip(spans.chunks(most)) {
            let mut body = Vec::new();
            write_len(&mut body, chunk.len());
            chunk.iter().for_each(|(_, span)| body.extend_from_slice(span));
            if let Err(status) = desk.send(IDS, body, part) {
                return Progress::Done(Err(status));
            }
            self.parts.push(chunk.iter().map(|(at, _)| *at).collect());
            self.open += 1;
        }
        Progress::Waits
    }

    /// The upstream server answered one part of a step.
    pub(super) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        part: u32,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        if Looking::owns(part) {
            return match self.looking.answered(desk, part, answer) {
                Ok(true) => self.settle(desk, handle),
                Ok(false) => Progress::Waits,
                Err(status) => Progress::Done(Err(desk.misbehaved(status, "the answer to Read does not fit"))),
            };
        }
        let sent = self.parts.get_mut(part as usize).map(std::mem::take).unwrap_or_default();
        self.open = self.open.saturating_sub(1);
        let body = match answer {
            Ok(body) => body,
            Err(status) => return Progress::Done(Err(told(status))),
        };
        let taken = results(&body, sent.len(), |reader| result(reader).map(drop))
            .and_then(|spans| sent.iter().zip(spans).try_for_each(|(at, span)| self.take(desk, *at, span)));
        if let Err(status) = taken {
            return Progress::Done(Err(desk.misbehaved(status, "the answer to TranslateBrowsePaths does not fit")));
        }
        if self.open > 0 {
            return Progress::Waits;
        }
        let reached = self.paths.iter().filter(|path| path.done.is_none()).flat_map(|path| &path.next);
        let reached: Vec<NodeId> = reached.map(|(id, _)| id.clone()).collect();
        match self.looking.start(desk, reached) {
            Ok(true) => Progress::Waits,
            Ok(false) => self.settle(desk, handle),
            Err(status) => Progress::Done(Err(status)),
        }
    }

    /// A step is done, and what it led to is known: a node that asks for a better channel is no match.
    fn settle(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        for path in self.paths.iter_mut().filter(|path| path.done.is_none()) {
            path.next.retain(|(id, _)| !desk.restricted_to_browse(id));
            path.settle(desk.config.limits.max_targets);
        }
        self.step(desk, handle)
    }

    fn take(&mut self, desk: &mut Desk<'_>, at: usize, span: &[u8]) -> Result<(), StatusCode> {
        let (status, targets) = result(&mut Reader::new(span))?;
        let Some(path) = self.paths.get_mut(at).filter(|path| path.done.is_none()) else { return Ok(()) };
        if path.hidden {
            path.done = Some(StatusCode::BadNodeIdUnknown);
        } else if status.is_bad() && path.step == 0 && status != StatusCode::BadNoMatch {
            path.done = Some(told(status));
        }
        for (target, remaining) in targets {
            let Some((id, scope)) = desk.mapping.scope_of(&target) else { continue };
            if remaining == u32::MAX && desk.visible(scope) && path.seen.insert(id.clone()) {
                desk.observe(AuditKind::Browse, Action::Browse, (&id, scope));
                let bytes = if target.uri.is_some() { encoded(&id) } else { target.plain.to_vec() };
                path.next.push((id, bytes));
            }
        }
        Ok(())
    }

    fn respond(&mut self, desk: &Desk<'_>, handle: u32) -> Progress {
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.paths.len());
        for path in &self.paths {
            let status = path.done.unwrap_or(StatusCode::BadInternalError);
            out.extend_from_slice(&status.bits().to_le_bytes());
            if status.is_bad() {
                out.extend_from_slice(&[0xff; 4]);
                continue;
            }
            write_len(&mut out, path.reached.len());
            for target in &path.reached {
                out.extend_from_slice(target);
                out.extend_from_slice(&u32::MAX.to_le_bytes());
            }
        }
        write_no_diagnostics(&mut out);
        Progress::Done(Ok(out))
    }
}

impl Path {
    /// All answers of a step are there.
    fn settle(&mut self, most: usize) {
        self.reached = std::mem::take(&mut self.next).into_iter().map(|(_, bytes)| bytes).collect();
        self.seen.clear();
        self.step += 1;
        self.done = match self.reached.len() {
            0 => Some(StatusCode::BadNoMatch),
            many if many > most => Some(StatusCode::BadTooManyMatches),
            _ if self.step >= self.elements.len() => Some(StatusCode::Good),
            _ => None,
        };
    }
}

/// A BrowsePathResult.
fn result<'a>(reader: &mut Reader<'a>) -> Result<(StatusCode, Vec<(Expanded<'a>, u32)>), Malformed> {
    let status = StatusCode::from(reader.u32()?);
    let count = reader.array_len(6)?;
    let mut targets = Vec::with_capacity(count.min(1_000));
    for _ in 0..count {
        targets.push((expanded(reader)?, reader.u32()?));
    }
    Ok((status, targets))
}
