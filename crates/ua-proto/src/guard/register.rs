//! RegisterNodes and UnregisterNodes (OPC 10000-4 §5.9.5 and §5.9.6). The server may hand out aliases; each keeps the
//! scope of its node for as long as the session lives.

use access_model::{Action, AuditKind, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, encoded, told};
use super::link::Alias;
use super::read::taken;
use super::walk::{end, span};
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
    desk.send(REGISTER, out, 0)?;
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

impl Asked {
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
    let mut reader = Reader::new(body);
    if reader.array_len(2)? != registered.len() {
        return Err(StatusCode::BadUnknownResponse);
    }
    let mut aliases = Vec::new();
    for (node, scope, real) in registered {
        let before = reader.rest();
        span(&mut reader, |reader| reader.node_id().map(drop))?;
        let alias = Reader::new(before).node_id()?;
        if alias == *node {
            continue;
        }
        aliases.push((alias, Alias { scope: *scope, real: real.clone(), session: desk.link.session }));
    }
    end(&reader)?;
    desk.link.aliases.extend(aliases);
    Ok(())
}
