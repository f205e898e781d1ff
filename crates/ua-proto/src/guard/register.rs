//! RegisterNodes and UnregisterNodes (OPC 10000-4 §5.9.5 and §5.9.6). The server may hand out aliases; each keeps the
//! scope of its node for as long as the session lives.

use access_model::{Action, AuditKind, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, encoded, told};
use super::link::{Alias, Link, Unwanted};
use super::read::taken;
use super::subs::Late;
use super::walk::end;
use crate::server::front::{Counted, Reader, write_header, write_len};

const REGISTER: (ObjectId, ObjectId) =
    (ObjectId::RegisterNodesRequest_Encoding_DefaultBinary, ObjectId::RegisterNodesResponse_Encoding_DefaultBinary);
const UNREGISTER: (ObjectId, ObjectId) =
    (ObjectId::UnregisterNodesRequest_Encoding_DefaultBinary, ObjectId::UnregisterNodesResponse_Encoding_DefaultBinary);

/// A request under way.
pub(super) enum Asked {
    Register(Vec<(NodeId, ScopeIndex, Vec<u8>)>),
    Unregister,
}

fn nodes<'a>(desk: &Desk<'_>, body: &'a [u8]) -> Result<Vec<(NodeId, &'a [u8])>, StatusCode> {
    let mut reader = Reader::new(body);
    let nodes = items(&mut reader, 2, desk.mapping.limits.register, |reader| {
        let before = reader.rest();
        Ok((reader.node_id()?, taken(before, reader)?))
    })?;
    end(&reader)?;
    Ok(nodes)
}

/// The nodes of a RegisterNodesRequest; none of one that cannot be read.
pub(super) fn nodes_of(desk: &Desk<'_>, body: &[u8]) -> Vec<NodeId> {
    nodes(desk, body).unwrap_or_default().into_iter().map(|(node, _)| node).collect()
}

/// RegisterNodes. The service has no result for each node: one that is hidden or missing fails the call, both alike.
pub(super) fn register(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut registered = Vec::new();
    for (node, bytes) in nodes(desk, body)? {
        let scope = desk.scope(&node);
        desk.pass(Action::Browse, (&node, scope), AuditKind::Browse, Some(Counted::Browse))
            .map_err(|decision| decision.status())?;
        let real = match desk.link.aliases.get(&node) {
            Some(alias) => alias.real.clone(),
            None => bytes.to_vec(),
        };
        registered.push((node, scope, real));
    }
    if desk.link.aliases.len().saturating_add(registered.len()) > desk.config.limits.max_aliases {
        return Err(StatusCode::BadTooManyOperations);
    }
    let mut out = Vec::new();
    write_len(&mut out, registered.len());
    if desk.link.berth.is_some() {
        // What the server would hand out is good for all who share the session; the ids go on by themselves.
        registered.iter().for_each(|(node, ..)| out.extend_from_slice(&encoded(node)));
        let mut answer = Vec::new();
        write_header(&mut answer, REGISTER.1, desk.now, handle, StatusCode::Good);
        answer.extend_from_slice(&out);
        return Ok((Asked::Unregister, Progress::Done(Ok(answer))));
    }
    registered.iter().for_each(|(_, _, real)| out.extend_from_slice(real));
    desk.send_making(REGISTER, out)?;
    Ok((Asked::Register(registered), Progress::Waits))
}

/// UnregisterNodes: what the session cannot know of is not sent on and not complained of.
pub(super) fn unregister(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut known = Vec::new();
    for (node, bytes) in nodes(desk, body)? {
        let alias = desk.link.aliases.remove(&node);
        let scope = alias.as_ref().map_or_else(|| desk.scope(&node), |alias| alias.scope);
        if desk.visible(scope) && alias.is_none_or(|alias| alias.session == desk.link.session) {
            known.push(bytes);
        }
    }
    if known.is_empty() || desk.link.berth.is_some() {
        return Ok((Asked::Unregister, Progress::Done(Ok(unregistered(desk, handle)))));
    }
    let mut out = Vec::new();
    write_len(&mut out, known.len());
    known.iter().for_each(|bytes| out.extend_from_slice(bytes));
    desk.send(UNREGISTER, out, 0)?;
    Ok((Asked::Unregister, Progress::Waits))
}

fn unregistered(desk: &Desk<'_>, handle: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_header(&mut out, UNREGISTER.1, desk.now, handle, StatusCode::Good);
    out
}

/// The aliases in an answer that nobody waits for. One that the session has by another request stays.
pub(super) fn came_late(link: &Link, nodes: &[NodeId], body: &[u8]) -> Option<Unwanted> {
    let aliases = aliases(nodes.iter(), body).ok()?;
    let mut unwanted: Vec<NodeId> = aliases.into_iter().flatten().collect();
    unwanted.retain(|alias| !link.aliases.contains_key(alias));
    let mut out = Vec::new();
    write_len(&mut out, unwanted.len());
    unwanted.iter().for_each(|alias| out.extend_from_slice(&encoded(alias)));
    (!unwanted.is_empty()).then_some((UNREGISTER, out))
}

/// What each node is called from now on, if it is not by its own id.
fn aliases<'a>(
    nodes: impl ExactSizeIterator<Item = &'a NodeId>,
    body: &[u8],
) -> Result<Vec<Option<NodeId>>, StatusCode> {
    let mut reader = Reader::new(body);
    if reader.array_len(2)? != nodes.len() {
        return Err(StatusCode::BadUnknownResponse);
    }
    let mut aliases = Vec::with_capacity(nodes.len());
    for node in nodes {
        let alias = reader.node_id()?;
        aliases.push(Some(alias).filter(|alias| alias != node));
    }
    end(&reader)?;
    Ok(aliases)
}

impl Asked {
    /// The client does not wait any longer: what is to be done when the answer comes.
    pub(super) fn late(&mut self) -> Option<Late> {
        let Self::Register(registered) = self else { return None };
        Some(Late::Register(registered.drain(..).map(|(node, ..)| node).collect()))
    }

    /// The upstream server answered.
    pub(super) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        let body = match answer {
            Ok(body) => body,
            Err(status) => return Progress::Done(Err(told(status))),
        };
        match self {
            Self::Unregister => Progress::Done(Ok(unregistered(desk, handle))),
            Self::Register(registered) => {
                let taken = take(desk, registered, &body);
                let taken = taken.map_err(|status| desk.misbehaved(status, "the answer to RegisterNodes does not fit"));
                Progress::Done(taken.map(|()| {
                    let mut out = Vec::new();
                    write_header(&mut out, REGISTER.1, desk.now, handle, StatusCode::Good);
                    out.extend_from_slice(&body);
                    out
                }))
            }
        }
    }
}

/// Remembers what each alias stands for: in this session the server means that node by it, whatever else has its id.
fn take(desk: &mut Desk<'_>, registered: &[(NodeId, ScopeIndex, Vec<u8>)], body: &[u8]) -> Result<(), StatusCode> {
    let aliases = aliases(registered.iter().map(|(node, ..)| node), body)?;
    for (alias, (_, scope, real)) in aliases.into_iter().zip(registered) {
        let meant = Alias { scope: *scope, real: real.clone(), session: desk.link.session };
        desk.link.aliases.extend(alias.map(|alias| (alias, meant)));
    }
    Ok(())
}
