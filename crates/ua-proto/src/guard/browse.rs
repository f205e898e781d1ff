//! Browse and BrowseNext (OPC 10000-4 §5.9.2 and §5.9.3). References to hidden nodes are left out; pages are filled up
//! from further pages of the server, so that their size tells nothing of what was left out.

use access_model::{Action, AuditKind, Restrictions, ScopeIndex};
use opcua_types::{NodeId, ObjectId, QualifiedName, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, Way, told};
use super::link::{Point, Unwanted};
use super::look::Looking;
use super::read::taken;
use super::subs::Late;
use super::walk::{Expanded, boolean, end, expanded, localized_text, qualified_name, results};
use crate::server::front::{Counted, Malformed, Reader, write_header, write_len, write_no_diagnostics};

pub(super) const BROWSE: (ObjectId, ObjectId) =
    (ObjectId::BrowseRequest_Encoding_DefaultBinary, ObjectId::BrowseResponse_Encoding_DefaultBinary);
pub(super) const NEXT: (ObjectId, ObjectId) =
    (ObjectId::BrowseNextRequest_Encoding_DefaultBinary, ObjectId::BrowseNextResponse_Encoding_DefaultBinary);
/// Pages that are asked for to fill one page; beyond that the page stays short.
const MAX_ROUNDS: u32 = 64;

/// A request under way.
pub(super) struct Asked {
    response: ObjectId,
    nodes: Vec<Node>,
    /// The nodes that the part under way asks about.
    sent: Vec<usize>,
    rounds: u32,
    looking: Looking,
    /// Bytes that it holds.
    weight: usize,
}

/// One reference of an answer.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    target: Named,
    kind: Option<Named>,
    /// None if it is not told.
    type_definition: Option<Named>,
    /// How many of the last bytes name it.
    type_length: usize,
    bytes: Vec<u8>,
    /// It may be told over a channel that does not meet this; none as long as nobody has looked.
    settled: Option<Restrictions>,
}

/// A node that a reference names.
#[derive(Clone, Debug)]
struct Named {
    /// Of this server; none elsewhere, of which nobody here can say anything.
    node: Option<NodeId>,
    scope: ScopeIndex,
}

struct Node {
    id: NodeId,
    scope: ScopeIndex,
    max: usize,
    state: State,
}

impl Node {
    fn found(&self) -> Option<&[Reference]> {
        match &self.state {
            State::Open { found, .. } => Some(found),
            _ => None,
        }
    }
}

enum State {
    Refused(StatusCode),
    Hidden,
    Open {
        found: Vec<Reference>,
        point: Option<Vec<u8>>,
    },
    /// A continuation point was given back.
    Released,
}

/// Browse.
pub(super) fn start(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let view = reader.node_id()?;
    reader.i64()?;
    reader.u32()?;
    if !view.is_null() {
        return Err(StatusCode::BadViewIdUnknown);
    }
    let head = taken(body, &reader)?.to_vec();
    let max = match reader.u32()? {
        0 => desk.config.limits.max_references,
        asked => asked.min(desk.config.limits.max_references),
    };
    let items = items(&mut reader, 17, desk.mapping.limits.browse, Item::read)?;
    end(&reader)?;
    let mut asked = Asked {
        response: BROWSE.1,
        nodes: Vec::new(),
        sent: Vec::new(),
        rounds: 0,
        looking: Looking::default(),
        weight: 0,
    };
    let mut spans = Vec::new();
    for item in items {
        let state = decide(desk, &item, &mut spans);
        if !matches!(state, State::Refused(_)) {
            asked.sent.push(asked.nodes.len());
        }
        let scope = desk.scope(&item.node);
        asked.nodes.push(Node { id: item.node, scope, max: max as usize, state });
    }
    if asked.sent.is_empty() {
        let progress = asked.respond(desk, handle);
        return Ok((asked, progress));
    }
    let mut out = head;
    out.extend_from_slice(&max.to_le_bytes());
    write_len(&mut out, asked.sent.len());
    out.extend_from_slice(&spans);
    desk.send_making(BROWSE, out)?;
    Ok((asked, Progress::Waits))
}

/// The nodes of a BrowseRequest, and the reference types it asks for; none of one that cannot be read.
pub(super) fn nodes(body: &[u8]) -> Vec<NodeId> {
    let mut reader = Reader::new(body);
    let head = reader.node_id().and_then(|_| reader.bytes(16).map(drop));
    let read = head.map_err(Malformed::status).and_then(|()| items(&mut reader, 17, 0, Item::read));
    let of = |item: Item<'_>| std::iter::once(item.node).chain((!item.kind.is_null()).then_some(item.kind));
    read.unwrap_or_default().into_iter().flat_map(of).collect()
}

/// The nodes at which a BrowseNextRequest goes on.
pub(super) fn nodes_of_points(desk: &Desk<'_>, body: &[u8]) -> Vec<NodeId> {
    let mut reader = Reader::new(body);
    let release = boolean(&mut reader).unwrap_or(true);
    let read = items(&mut reader, 4, 0, |reader| Ok(reader.byte_string()?.unwrap_or_default()));
    let points = read.unwrap_or_default().into_iter().filter(|_| !release);
    points.filter_map(|id| desk.link.points.node(id).cloned()).collect()
}

struct Item<'a> {
    node: NodeId,
    node_bytes: &'a [u8],
    kind: NodeId,
    rest: &'a [u8],
}

impl<'a> Item<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let before = reader.rest();
        let node = reader.node_id()?;
        let node_bytes = taken(before, reader)?;
        let before = reader.rest();
        reader.i32()?;
        let kind = reader.node_id()?;
        boolean(reader)?;
        reader.u32()?;
        reader.u32()?;
        Ok(Self { node, node_bytes, kind, rest: taken(before, reader)? })
    }
}

fn decide(desk: &mut Desk<'_>, item: &Item<'_>, spans: &mut Vec<u8>) -> State {
    let scope = desk.scope(&item.node);
    match desk.way(Action::Browse, (&item.node, scope), AuditKind::Browse, Some(Counted::Browse)) {
        Way::Real => {}
        Way::Never(node) => {
            spans.extend_from_slice(&node);
            spans.extend_from_slice(item.rest);
            return State::Hidden;
        }
        Way::Refused(status) => return State::Refused(status),
    }
    let kind = desk.scope(&item.kind);
    if !item.kind.is_null() && (!desk.visible(kind) || desk.restricted_to_browse(&item.kind)) {
        return State::Refused(StatusCode::BadReferenceTypeIdInvalid);
    }
    spans.extend_from_slice(desk.known_as(&item.node, item.node_bytes));
    spans.extend_from_slice(item.rest);
    State::Open { found: Vec::new(), point: None }
}

/// BrowseNext.
pub(super) fn next(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let release = boolean(&mut reader)?;
    let limit = desk.mapping.limits.browse;
    let points = items(&mut reader, 4, limit, |reader| Ok(reader.byte_string()?.unwrap_or_default()))?;
    end(&reader)?;
    let mut asked = Asked {
        response: NEXT.1,
        nodes: Vec::new(),
        sent: Vec::new(),
        rounds: 0,
        looking: Looking::default(),
        weight: 0,
    };
    for id in points {
        let node = resume(desk, id, release);
        asked.nodes.push(node);
    }
    let progress = asked.look(desk, handle);
    asked.weigh();
    Ok((asked, progress))
}

fn resume(desk: &mut Desk<'_>, id: &[u8], release: bool) -> Node {
    let refused =
        |status| Node { id: NodeId::null(), scope: ScopeIndex::NOWHERE, max: 0, state: State::Refused(status) };
    let Some(point) = desk.link.points.take(id) else { return refused(StatusCode::BadContinuationPointInvalid) };
    let Point { node, scope, max, held, upstream, .. } = point;
    if release {
        give_back(desk, upstream);
        return Node { id: node, scope, max, state: State::Released };
    }
    match desk.pass(Action::Browse, (&node, scope), AuditKind::Browse, Some(Counted::Browse)) {
        Ok(()) => {
            // It may have waited for long.
            let found = held.into_iter().map(|reference| Reference { settled: None, ..reference }).collect();
            Node { id: node, scope, max, state: State::Open { found, point: upstream } }
        }
        Err(decision) => {
            give_back(desk, upstream);
            refused(decision.status())
        }
    }
}

/// Frees a continuation point of the server; nobody waits for the answer.
fn give_back(desk: &mut Desk<'_>, point: Option<Vec<u8>>) {
    if let Some(point) = point {
        // Part 1 is nobody's.
        let _lost_with_the_session = desk.send(NEXT, next_body(true, &[point]), 1);
    }
}

pub(super) fn next_body(release: bool, points: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![u8::from(release)];
    write_len(&mut out, points.len());
    for point in points {
        write_len(&mut out, point.len());
        out.extend_from_slice(point);
    }
    out
}

/// Gives back continuation points of the server that nobody has.
pub(super) fn unwanted(points: Vec<Vec<u8>>) -> Option<Unwanted> {
    (!points.is_empty()).then(|| (NEXT, next_body(true, &points)))
}

/// The points in an answer that nobody waits for.
pub(super) fn came_late(body: &[u8], count: usize) -> Option<Unwanted> {
    let mut points = Vec::new();
    let read = results(body, count, |reader| {
        points.extend(result(reader)?.1.map(<[u8]>::to_vec));
        Ok(())
    });
    read.ok().and_then(|_| unwanted(points))
}

impl Asked {
    /// The client does not wait any longer: what is to be done when the answer comes.
    pub(super) fn late(&self) -> Option<Late> {
        (!self.sent.is_empty()).then_some(Late::Browse(self.sent.len()))
    }

    /// The points of the server that it has.
    pub(super) fn held(&mut self) -> Vec<Vec<u8>> {
        let point = |node: &mut Node| if let State::Open { point, .. } = &mut node.state { point.take() } else { None };
        self.nodes.iter_mut().filter_map(point).collect()
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    fn weigh(&mut self) {
        let found: usize = self.nodes.iter().filter_map(Node::found).map(weight).sum();
        self.weight = found.saturating_add(self.looking.weight());
    }

    /// The upstream server answered.
    pub(super) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        part: u32,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        let progress = self.step(desk, part, answer, handle);
        self.weigh();
        progress
    }

    fn step(&mut self, desk: &mut Desk<'_>, part: u32, answer: Result<Vec<u8>, StatusCode>, handle: u32) -> Progress {
        if Looking::owns(part) {
            return match self.looking.answered(desk, part, answer) {
                Ok(true) => self.go_on(desk, handle),
                Ok(false) => Progress::Waits,
                Err(status) => self.fail(desk, status),
            };
        }
        if part != 0 {
            return Progress::Waits;
        }
        let body = match answer {
            Ok(body) => body,
            Err(status) => return self.fail(desk, told(status)),
        };
        let sent = std::mem::take(&mut self.sent);
        let taken = results(&body, sent.len(), |reader| result(reader).map(drop))
            .and_then(|spans| sent.iter().zip(spans).try_for_each(|(at, span)| self.take(desk, *at, span)));
        match taken {
            Ok(()) => self.look(desk, handle),
            Err(status) => {
                let status = desk.misbehaved(status, "the answer to Browse does not fit");
                self.fail(desk, status)
            }
        }
    }

    fn fail(&mut self, desk: &mut Desk<'_>, status: StatusCode) -> Progress {
        desk.link.loose.extend(unwanted(self.held()));
        Progress::Done(Err(status))
    }

    fn take(&mut self, desk: &Desk<'_>, at: usize, span: &[u8]) -> Result<(), StatusCode> {
        let (status, next, references) = result(&mut Reader::new(span))?;
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        let State::Open { found, point } = &mut node.state else {
            if matches!(node.state, State::Hidden) {
                node.state = State::Refused(StatusCode::BadNodeIdUnknown);
            }
            return Ok(());
        };
        *point = None;
        if status.is_bad() && found.is_empty() {
            node.state = State::Refused(told(status));
            return Ok(());
        }
        *point = next.map(<[u8]>::to_vec);
        for reference in references {
            found.push(reference.told(desk));
        }
        Ok(())
    }

    /// Asks what must be known of what was found since the last look, if anything, and goes on.
    fn look(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let unmet = desk.unmet_by_client();
        let found = self.nodes.iter().filter_map(Node::found).flatten();
        let new = found.filter(|reference| !reference.is_settled(unmet) && reference.permitted(desk));
        let named: Vec<NodeId> = new.flat_map(Reference::named).cloned().collect();
        match self.looking.start(desk, named) {
            Ok(true) => Progress::Waits,
            Ok(false) => self.go_on(desk, handle),
            Err(status) => self.fail(desk, status),
        }
    }

    /// Asks for more of those nodes whose page is not full, or answers.
    fn go_on(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let unmet = desk.unmet_by_client();
        let mut points = Vec::new();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let State::Open { found, point } = &mut node.state else { continue };
            found.retain_mut(|reference| reference.permitted(desk) && reference.settle(&self.looking, unmet));
            if found.len() < node.max
                && self.rounds < MAX_ROUNDS
                && let Some(point) = point.take()
            {
                points.push(point);
                self.sent.push(at);
            }
        }
        self.looking = Looking::default();
        if points.is_empty() {
            return self.respond(desk, handle);
        }
        self.rounds += 1;
        match desk.send_making(NEXT, next_body(false, &points)) {
            Ok(()) => Progress::Waits,
            Err(status) => {
                desk.link.loose.extend(unwanted(points));
                self.fail(desk, status)
            }
        }
    }

    fn respond(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let mut out = Vec::new();
        write_header(&mut out, self.response, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.nodes.len());
        for node in std::mem::take(&mut self.nodes) {
            write_node(desk, node, &mut out);
        }
        write_no_diagnostics(&mut out);
        Progress::Done(Ok(out))
    }
}

fn write_node(desk: &mut Desk<'_>, node: Node, out: &mut Vec<u8>) {
    let bare = |out: &mut Vec<u8>, status: StatusCode| {
        out.extend_from_slice(&status.bits().to_le_bytes());
        out.extend_from_slice(&[0xff; 8]);
    };
    let (mut found, point) = match node.state {
        State::Refused(status) => return bare(out, status),
        State::Hidden => return bare(out, StatusCode::BadNodeIdUnknown),
        State::Released => return bare(out, StatusCode::Good),
        State::Open { found, point } => (found, point),
    };
    if !desk.visible(node.scope) {
        give_back(desk, point);
        return bare(out, StatusCode::BadUserAccessDenied);
    }
    let held = found.split_off(found.len().min(node.max));
    let mut id = None;
    if point.is_some() || !held.is_empty() {
        let new = Point { node: node.id, scope: node.scope, max: node.max, held, upstream: point };
        match desk.link.points.add(new) {
            Ok(given) => id = Some(given),
            Err(unkept) => {
                give_back(desk, unkept.upstream);
                return bare(out, StatusCode::BadNoContinuationPoints);
            }
        }
    }
    out.extend_from_slice(&0_u32.to_le_bytes());
    match id {
        Some(id) => {
            write_len(out, id.len());
            out.extend_from_slice(&id);
        }
        None => out.extend_from_slice(&[0xff; 4]),
    }
    write_len(out, found.len());
    found.iter().for_each(|reference| reference.write(desk, out));
}

/// Bytes that references hold.
pub(super) fn weight(found: &[Reference]) -> usize {
    found.iter().map(Reference::weight).sum()
}

/// A BrowseResult: status, continuation point if there is one, references.
#[expect(clippy::type_complexity, reason = "the three fields of one result")]
pub(super) fn result<'a>(
    reader: &mut Reader<'a>,
) -> Result<(StatusCode, Option<&'a [u8]>, Vec<Described<'a>>), Malformed> {
    let status = StatusCode::from(reader.u32()?);
    let point = reader.byte_string()?.filter(|point| !point.is_empty());
    let count = reader.array_len(15)?;
    let mut references = Vec::with_capacity(count.min(1_000));
    for _ in 0..count {
        references.push(Described::read(reader)?);
    }
    Ok((status, point, references))
}

/// A ReferenceDescription.
pub(super) struct Described<'a> {
    whole: &'a [u8],
    pub(super) kind: NodeId,
    pub(super) target: Expanded<'a>,
    pub(super) name: QualifiedName,
    type_definition: Expanded<'a>,
    type_definition_bytes: usize,
}

impl<'a> Described<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let before = reader.rest();
        let kind = reader.node_id()?;
        boolean(reader)?;
        let target = expanded(reader)?;
        let name = qualified_name(reader)?;
        localized_text(reader)?;
        reader.i32()?;
        let behind = reader.rest();
        let type_definition = expanded(reader)?;
        let type_definition_bytes = taken(behind, reader)?.len();
        Ok(Self { whole: taken(before, reader)?, kind, target, name, type_definition, type_definition_bytes })
    }

    fn told(&self, desk: &Desk<'_>) -> Reference {
        let elsewhere = Named { node: None, scope: ScopeIndex::NOWHERE };
        let named = |id: &Expanded<'_>| match desk.mapping.scope_of(id) {
            Some((node, scope)) => Named { node: Some(node), scope },
            None => elsewhere.clone(),
        };
        let kind = || Named { node: Some(self.kind.clone()), scope: desk.scope(&self.kind) };
        Reference {
            target: named(&self.target),
            kind: (!self.kind.is_null()).then(kind),
            type_definition: Some(named(&self.type_definition)).filter(|_| !self.type_definition.id.is_null()),
            type_length: self.type_definition_bytes,
            bytes: self.whole.to_vec(),
            settled: None,
        }
    }
}

impl Reference {
    /// The nodes that it names.
    fn named(&self) -> impl Iterator<Item = &NodeId> {
        let all = std::iter::once(&self.target).chain(&self.kind).chain(&self.type_definition);
        all.filter_map(|named| named.node.as_ref())
    }

    /// Whether the session may know of it at this moment.
    fn permitted(&self, desk: &Desk<'_>) -> bool {
        desk.visible(self.target.scope) && self.kind.as_ref().is_none_or(|kind| desk.visible(kind.scope))
    }

    fn is_settled(&self, unmet: Restrictions) -> bool {
        unmet.is_empty() || self.settled == Some(unmet)
    }

    /// Whether it may be told over a channel that does not meet this, by what was said: once it is settled, that is. A type
    /// definition that may not be is left out of it.
    fn settle(&mut self, looking: &Looking, unmet: Restrictions) -> bool {
        if self.is_settled(unmet) {
            return true;
        }
        let lets = |named: &Named| named.node.as_ref().is_none_or(|node| looking.lets(node, unmet));
        if !lets(&self.target) || !self.kind.as_ref().is_none_or(lets) {
            return false;
        }
        self.type_definition.take_if(|named| !lets(named));
        self.settled = Some(unmet);
        true
    }

    /// What of it may be told: the type definition only if it is visible itself.
    fn write(&self, desk: &Desk<'_>, out: &mut Vec<u8>) {
        if self.type_definition.as_ref().is_some_and(|named| desk.visible(named.scope)) {
            return out.extend_from_slice(&self.bytes);
        }
        let before = self.bytes.len().saturating_sub(self.type_length);
        out.extend_from_slice(self.bytes.get(..before).unwrap_or_default());
        out.extend_from_slice(&[0, 0]);
    }

    /// Bytes that it holds: names that are text are also in what it was read from.
    fn weight(&self) -> usize {
        std::mem::size_of::<Self>().saturating_add(self.bytes.len().saturating_mul(2))
    }
}
