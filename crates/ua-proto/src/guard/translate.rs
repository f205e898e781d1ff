//! TranslateBrowsePathsToNodeIds (OPC 10000-4 §5.9.4), one step at a time: the server would walk over hidden nodes, so
//! each node on the way is looked at here. A hidden step is no match.
//!
//! The server is not asked for what a step names, but for all that the node leads to by the step's references, and names
//! are compared here: it gives the same answer to the same question, whether the name is that of a hidden node or of none,
//! and the time that it takes to find a name, or not to, tells nothing.

use std::collections::{HashMap, HashSet};

use access_model::{Action, AuditKind};
use opcua_types::{NodeId, ObjectId, QualifiedName, StatusCode};

use super::batch::items;
use super::browse::{BROWSE, Described, NEXT, next_body, result, unwanted};
use super::desk::{Desk, Progress, Way, encoded, told};
use super::look::Looking;
use super::read::taken;
use super::subs::Late;
use super::walk::{boolean, end, qualified_name, results};
use crate::server::front::{Counted, Malformed, Reader, write_header, write_len, write_no_diagnostics};

const RESPONSE: ObjectId = ObjectId::TranslateBrowsePathsToNodeIdsResponse_Encoding_DefaultBinary;
/// Most nodes in one request upstream.
const AT_ONCE: usize = 500;
/// Most paths in one request, where the server has no bound of its own.
const MOST_PATHS: usize = 10_000;
/// Bytes that one node, name or step costs while it is held.
const COST: usize = 128;
/// No view, and as many references as the server gives at once.
const HEAD: [u8; 18] = [0; 18];
/// Nodes of every class, told by their reference types and names.
const MASKS: [u8; 8] = [0, 0, 0, 0, 9, 0, 0, 0];

/// A request under way.
pub(super) struct Asked {
    paths: Vec<Path>,
    /// What is still to be asked of this step.
    waiting: Waiting,
    /// What the part under way asks.
    sent: Vec<Look>,
    looking: Looking,
}

/// Looks that are still to be taken, each kind the latest first.
#[derive(Default)]
struct Waiting {
    /// The server goes on: places to go on from are few, so these come first.
    paged: Vec<Look>,
    fresh: Vec<Look>,
    /// The server had no place to go on from for them beside others.
    alone: Vec<Look>,
}

/// One node that is looked at, for all paths that go on from it by the same references.
struct Look {
    /// As it is asked for.
    span: Vec<u8>,
    /// The paths that go on by each name.
    named: HashMap<QualifiedName, Vec<usize>>,
    /// Those that go on by any.
    any: Vec<usize>,
    /// Where the server goes on.
    point: Option<Vec<u8>>,
    /// It is asked by itself.
    alone: bool,
}

impl Look {
    fn new(span: Vec<u8>) -> Self {
        Self { span, named: HashMap::new(), any: Vec::new(), point: None, alone: false }
    }

    fn add(&mut self, path: usize, name: &QualifiedName) {
        match name.is_null() {
            true => self.any.push(path),
            false => self.named.entry(name.clone()).or_default().push(path),
        }
    }

    /// The paths that go on by this name.
    fn by(&self, name: &QualifiedName) -> impl Iterator<Item = usize> {
        self.named.get(name).into_iter().chain([&self.any]).flatten().copied()
    }

    fn weight(&self) -> usize {
        COST.saturating_mul(1 + self.named.len()).saturating_add(self.span.len())
    }

    fn paths(&self) -> impl Iterator<Item = usize> {
        #[expect(clippy::disallowed_methods, reason = "each by itself")]
        let named = self.named.values();
        named.chain([&self.any]).flatten().copied()
    }
}

impl Waiting {
    /// What is asked next, up to so many.
    fn next(&mut self, most: usize) -> Vec<Look> {
        let (from, most) = match self {
            Self { paged, .. } if !paged.is_empty() => (paged, most),
            Self { fresh, .. } if !fresh.is_empty() => (fresh, most),
            Self { alone, .. } => (alone, 1),
        };
        from.split_off(from.len().saturating_sub(most))
    }

    fn is_empty(&self) -> bool {
        self.paged.is_empty() && self.fresh.is_empty() && self.alone.is_empty()
    }
}

struct Path {
    elements: Vec<Step>,
    step: usize,
    /// Where it has led so far, as the server writes it.
    reached: Vec<Vec<u8>>,
    next: Vec<Next>,
    seen: HashSet<(NodeId, NodeId)>,
    hidden: bool,
    done: Option<StatusCode>,
}

/// Where a step leads, as far as is known.
struct Next {
    id: NodeId,
    /// By which reference type; null if the server does not say.
    kind: NodeId,
    /// As the server writes it.
    bytes: Vec<u8>,
}

struct Step {
    /// Direction, reference type and whether its subtypes count, and masks: as they are browsed.
    browsed: Vec<u8>,
    name: QualifiedName,
}

/// Reads and decides a request, and asks for the first step.
pub(super) fn start(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let items = items(&mut reader, 6, desk.mapping.limits.translate, Item::read)?;
    end(&reader)?;
    if items.len() > MOST_PATHS {
        return Err(StatusCode::BadTooManyOperations);
    }
    let paths = items.into_iter().map(|item| decide(desk, item)).collect();
    let mut asked = Asked { paths, waiting: Waiting::default(), sent: Vec::new(), looking: Looking::default() };
    asked.look();
    let progress = asked.go_on(desk, handle);
    Ok((asked, progress))
}

/// The nodes where the paths of a request begin, and the reference types they go by; none of one that cannot be read.
pub(super) fn nodes(body: &[u8]) -> Vec<NodeId> {
    let mut reader = Reader::new(body);
    let read = items(&mut reader, 6, 0, Item::read).unwrap_or_default();
    let of = |item: Item<'_>| {
        let kinds = item.elements.into_iter().map(|element| element.kind).filter(|kind| !kind.is_null());
        std::iter::once(item.start).chain(kinds).collect::<Vec<_>>()
    };
    read.into_iter().flat_map(of).collect()
}

struct Item<'a> {
    start: NodeId,
    start_bytes: &'a [u8],
    elements: Vec<Element>,
}

struct Element {
    kind: NodeId,
    step: Step,
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
            let kind_bytes = taken(before, reader)?;
            let (inverse, subtypes) = (boolean(reader)?, boolean(reader)?);
            let direction = i32::from(inverse).to_le_bytes();
            let browsed = [direction.as_slice(), kind_bytes, &[u8::from(subtypes)], &MASKS].concat();
            elements.push(Element { kind, step: Step { browsed, name: qualified_name(reader)? } });
        }
        Ok(Self { start, start_bytes, elements })
    }
}

fn decide(desk: &mut Desk<'_>, item: Item<'_>) -> Path {
    let refusal = refusal(desk, &item);
    let start = desk.known_as(&item.start, item.start_bytes).to_vec();
    let mut path = Path {
        elements: item.elements.into_iter().map(|element| element.step).collect(),
        step: 0,
        reached: vec![start],
        next: Vec::new(),
        seen: HashSet::new(),
        hidden: false,
        done: None,
    };
    let scope = desk.scope(&item.start);
    match desk.way(Action::Browse, (&item.start, scope), AuditKind::Browse, Some(Counted::Browse)) {
        Way::Real => path.done = refusal,
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
    if before_last.iter().any(|element| element.step.name.is_null()) {
        return Some(StatusCode::BadBrowseNameInvalid);
    }
    if item.elements.len() > desk.config.limits.max_path {
        return Some(StatusCode::BadTooManyOperations);
    }
    let hidden = |element: &Element| {
        let kind = &element.kind;
        !kind.is_null() && (!desk.visible(desk.scope(kind)) || desk.restricted_to_browse(kind))
    };
    item.elements.iter().any(hidden).then_some(StatusCode::BadNoMatch)
}

impl Asked {
    /// The client does not wait any longer: what is to be done when the answer comes.
    pub(super) fn late(&self) -> Option<Late> {
        (!self.sent.is_empty()).then_some(Late::Browse(self.sent.len()))
    }

    /// The points of the server that it has.
    pub(super) fn held(&mut self) -> Vec<Vec<u8>> {
        self.waiting.paged.iter_mut().filter_map(|look| look.point.take()).collect()
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        let looks = |looks: &[Look]| looks.iter().map(Look::weight).sum::<usize>();
        let Waiting { paged, fresh, alone } = &self.waiting;
        let paths: usize = self.paths.iter().map(Path::weight).sum();
        [paths, looks(paged), looks(fresh), looks(alone), looks(&self.sent), self.looking.weight()].iter().sum()
    }

    /// What has to be looked at for the next step of every path that is not at its end.
    fn look(&mut self) {
        let fresh = &mut self.waiting.fresh;
        let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
        for (at, path) in self.paths.iter().enumerate().filter(|(_, path)| path.done.is_none()) {
            let Some(step) = path.elements.get(path.step) else { continue };
            for node in &path.reached {
                let span = [node.as_slice(), &step.browsed].concat();
                let place = *known.entry(span).or_insert_with_key(|span| {
                    fresh.push(Look::new(span.clone()));
                    fresh.len() - 1
                });
                if let Some(look) = fresh.get_mut(place) {
                    look.add(at, &step.name);
                }
            }
        }
    }

    /// Asks for what is still to be asked, or answers.
    fn go_on(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        if self.waiting.is_empty() {
            return self.respond(desk, handle);
        }
        let most = match desk.mapping.limits.browse {
            0 => AT_ONCE,
            limit => AT_ONCE.min(limit as usize),
        };
        self.sent = self.waiting.next(most);
        let points: Vec<Vec<u8>> = self.sent.iter().filter_map(|look| look.point.clone()).collect();
        let sent = if points.is_empty() {
            let mut body = HEAD.to_vec();
            write_len(&mut body, self.sent.len());
            self.sent.iter().for_each(|look| body.extend_from_slice(&look.span));
            desk.send_making(BROWSE, body)
        } else {
            desk.send_making(NEXT, next_body(false, &points))
        };
        match sent {
            Ok(()) => Progress::Waits,
            Err(status) => self.fail(desk, status),
        }
    }

    fn fail(&mut self, desk: &mut Desk<'_>, status: StatusCode) -> Progress {
        desk.link.loose.extend(unwanted(self.held()));
        Progress::Done(Err(status))
    }

    /// The upstream server answered.
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
                Err(status) => self.fail(desk, status),
            };
        }
        let body = match answer {
            Ok(body) => body,
            Err(status) => return self.fail(desk, told(status)),
        };
        let sent = std::mem::take(&mut self.sent);
        let taken = results(&body, sent.len(), |reader| result(reader).map(drop))
            .and_then(|spans| sent.into_iter().zip(spans).try_for_each(|(look, span)| self.take(desk, look, span)));
        if let Err(status) = taken {
            let status = desk.misbehaved(status, "the answer to Browse does not fit");
            return self.fail(desk, status);
        }
        if !self.waiting.is_empty() {
            return self.go_on(desk, handle);
        }
        let reached = self.paths.iter().filter(|path| path.done.is_none()).flat_map(|path| &path.next);
        let reached = reached.flat_map(|next| [&next.id, &next.kind]).filter(|node| !node.is_null()).cloned();
        let reached: Vec<NodeId> = reached.collect();
        match self.looking.start(desk, reached) {
            Ok(true) => Progress::Waits,
            Ok(false) => self.settle(desk, handle),
            Err(status) => self.fail(desk, status),
        }
    }

    /// A step is done, and what it led to is known: a node that asks for a better channel is no match.
    fn settle(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let unmet = desk.unmet_by_client();
        for path in self.paths.iter_mut().filter(|path| path.done.is_none()) {
            let lets = |node: &NodeId| node.is_null() || self.looking.lets(node, unmet);
            path.next.retain(|next| lets(&next.id) && lets(&next.kind));
            path.settle(desk.config.limits.max_targets);
        }
        self.look();
        self.go_on(desk, handle)
    }

    fn take(&mut self, desk: &mut Desk<'_>, look: Look, span: &[u8]) -> Result<(), StatusCode> {
        let (status, point, references) = result(&mut Reader::new(span))?;
        if status == StatusCode::BadNoContinuationPoints && !look.alone && look.point.is_none() {
            self.waiting.alone.push(Look { alone: true, ..look });
            return Ok(());
        }
        for at in look.paths() {
            if let Some(path) = self.paths.get_mut(at).filter(|path| path.done.is_none()) {
                path.heard(status);
            }
        }
        for reference in references {
            self.follow(desk, &look, &reference);
        }
        if point.is_some() && !status.is_bad() {
            self.waiting.paged.push(Look { point: point.map(<[u8]>::to_vec), ..look });
        }
        Ok(())
    }

    /// The name of what the session may not know of is not even looked at: whether a path is looking for it tells nothing.
    fn follow(&mut self, desk: &mut Desk<'_>, look: &Look, reference: &Described<'_>) {
        let target = &reference.target;
        let Some((id, scope)) = desk.mapping.scope_of(target) else { return };
        let kind = &reference.kind;
        if !desk.visible(scope) || !kind.is_null() && !desk.visible(desk.scope(kind)) {
            return;
        }
        for at in look.by(&reference.name) {
            let Some(path) = self.paths.get_mut(at).filter(|path| path.done.is_none()) else { continue };
            if !path.seen.insert((id.clone(), kind.clone())) {
                continue;
            }
            desk.observe(AuditKind::Browse, Action::Browse, (&id, scope));
            let bytes = if target.uri.is_some() { encoded(&id) } else { target.plain.to_vec() };
            path.next.push(Next { id: id.clone(), kind: kind.clone(), bytes });
            if path.next.len() > desk.config.limits.max_targets {
                path.done = Some(StatusCode::BadTooManyMatches);
            }
        }
    }

    fn respond(&mut self, desk: &Desk<'_>, handle: u32) -> Progress {
        let mut out = Vec::new();
        write_header(&mut out, RESPONSE, desk.now, handle, StatusCode::Good);
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
    fn weight(&self) -> usize {
        let parts = self.elements.len() + self.next.len() + self.seen.len();
        let reached: usize = self.reached.iter().map(|node| COST / 2 + node.len()).sum();
        COST.saturating_mul(1 + parts).saturating_add(reached)
    }

    /// What the server says of a node from which it goes on.
    fn heard(&mut self, status: StatusCode) {
        if self.hidden {
            self.done = Some(StatusCode::BadNodeIdUnknown);
        } else if status.is_bad() && self.step == 0 {
            self.done = Some(match status {
                StatusCode::BadReferenceTypeIdInvalid => StatusCode::BadNoMatch,
                status => told(status),
            });
        }
    }

    /// All answers of a step are there.
    fn settle(&mut self, most: usize) {
        self.seen.clear();
        let mut once = HashSet::new();
        let next = std::mem::take(&mut self.next).into_iter();
        self.reached = next.filter(|next| once.insert(next.id.clone())).map(|next| next.bytes).collect();
        self.step += 1;
        self.done = match self.reached.len() {
            0 => Some(StatusCode::BadNoMatch),
            many if many > most => Some(StatusCode::BadTooManyMatches),
            _ if self.step >= self.elements.len() => Some(StatusCode::Good),
            _ => None,
        };
    }
}
