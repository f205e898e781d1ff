//! Call (OPC 10000-4 §5.12.2): the object and the method are checked, the call is recorded, leaves as an invocation and
//! comes back as an answer.

use access_model::{Action, AuditKind, AuditRecord, Now, Outcome, Reason, Rights};
use opcua_types::{CallMethodResult, CallResponse, DiagnosticInfo, NodeClass, NodeId, StatusCode, UAString, Variant};
use pep::Permit;

use super::write::{audit_open, keep};
use super::{bounds, operations, subscription_methods};
use crate::interlock::{Broken, Holder, Unapproved};
use crate::server::audit::{AuditId, event};
use crate::server::codec::{Codec, response_header, write_message};
use crate::server::desk::Desk;
use crate::server::occasion::{Calling, Told};
use crate::server::reader::{Malformed, Reader};
use crate::space::{NodeRef, ns0};
use crate::subscription::Subscriptions;

/// One method call of a request, decided.
pub(crate) enum Planned {
    /// It does not leave: it was refused, or it is about the session's own subscriptions and was answered here.
    Answered(CallMethodResult),
    /// Allowed and recorded.
    Call(Box<PlannedCall>),
}

/// An allowed call. It holds one permit for the object and one for the method.
pub(crate) struct PlannedCall {
    pub(crate) object: NodeRef,
    pub(crate) method: NodeRef,
    pub(crate) inputs: Vec<Variant>,
    permits: [Option<Permit>; 2],
}

/// What a request comes to.
pub(crate) struct Plan {
    pub(crate) items: Vec<Planned>,
    /// The record to wait for.
    pub(crate) audit: Option<AuditId>,
}

struct Item<'a> {
    object: NodeId,
    method: NodeId,
    inputs: Vec<Variant>,
    /// The bytes of the inputs.
    sent: &'a [u8],
}

impl<'a> Item<'a> {
    const LEAST: usize = 8;

    fn read(codec: &Codec, reader: &mut Reader<'a>) -> Result<Self, StatusCode> {
        let object = reader.node_id()?;
        let method = reader.node_id()?;
        let before = reader.rest();
        let count = reader.array_len(1)?;
        let mut inputs = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            if inputs.len() == 64 {
                return Err(Malformed::Limit.status());
            }
            inputs.push(codec.decode(reader.variant()?)?);
        }
        let sent = before.get(..before.len().saturating_sub(reader.rest().len())).unwrap_or_default();
        Ok(Self { object, method, inputs, sent })
    }
}

/// Decides each call and records those that are allowed.
/// `explain`: the client wants to hear why not.
pub(crate) fn plan(
    desk: &mut Desk<'_>,
    subscriptions: &mut Subscriptions,
    mut reader: Reader<'_>,
    explain: bool,
) -> Result<Plan, StatusCode> {
    let count = reader.array_len(Item::LEAST)?;
    operations(count, desk.config.limits.operations.max_nodes_per_method_call)?;
    let items = (0..count).map(|_| Item::read(desk.codec, &mut reader)).collect::<Result<Vec<_>, _>>()?;
    let mut records = Vec::new();
    let mut planned = Vec::with_capacity(items.len());
    for Item { object, method, inputs, sent } in items {
        planned.push(match subscription_methods::answer(desk, subscriptions, (&object, &method), &inputs) {
            Some(result) => Planned::Answered(result),
            None => match decide(desk, Item { object, method, inputs, sent }, &mut records) {
                Ok(call) => Planned::Call(Box::new(call)),
                Err(result) if explain => Planned::Answered(result),
                Err(result) => Planned::Answered(CallMethodResult { input_argument_diagnostic_infos: None, ..result }),
            },
        });
    }
    let items = planned;
    Ok(Plan { items, audit: keep(desk, records) })
}

/// A result that has a status and nothing else.
pub(crate) fn failed(status_code: StatusCode) -> CallMethodResult {
    CallMethodResult {
        status_code,
        input_argument_results: None,
        input_argument_diagnostic_infos: None,
        output_arguments: None,
    }
}

/// The same, and why. It is told of the call as a whole: see [`respond`].
fn failed_for(status_code: StatusCode, why: &str) -> CallMethodResult {
    let told = DiagnosticInfo { additional_info: Some(UAString::from(why)), ..DiagnosticInfo::default() };
    CallMethodResult { input_argument_diagnostic_infos: Some(vec![told]), ..failed(status_code) }
}

/// Records that an argument is outside of its bounds, and says what the call is told.
fn broke(
    desk: &mut Desk<'_>,
    (object, method): (NodeRef, NodeRef),
    inputs: usize,
    (at, broken): (usize, Broken),
) -> CallMethodResult {
    let told = || called_at((Some(object), Some(method)));
    let shown = format!("argument {} of {}", at.saturating_add(1), desk.space.browse_name(method).name);
    bounds::record(desk, AuditKind::Call, method, (&broken, &shown), told);
    let of = |nth| if nth == at { broken.status() } else { StatusCode::Good };
    let results = (0..inputs).map(of).collect();
    let why = format!("argument {}: {}", at.saturating_add(1), broken.bound);
    CallMethodResult { input_argument_results: Some(results), ..failed_for(StatusCode::BadInvalidArgument, &why) }
}

fn decide(
    desk: &mut Desk<'_>,
    item: Item<'_>,
    records: &mut Vec<(AuditRecord, Told)>,
) -> Result<PlannedCall, CallMethodResult> {
    let object = find(desk, &item.object).map_err(failed)?;
    let method = find(desk, &item.method).map_err(failed)?;
    if desk.space.class(method) != NodeClass::Method || !desk.space.method_on(object, method) {
        return Err(failed(StatusCode::BadMethodInvalid));
    }
    // The object first: a method that everybody may call on a type is not thereby callable on each instance.
    let nodes = (Some(object), Some(method));
    let on_object = permit(desk, object, nodes).map_err(failed)?;
    let on_method = permit(desk, method, nodes).map_err(failed)?;
    if !desk.space.executable(method) {
        return Err(failed(StatusCode::BadNotExecutable));
    }
    check_arguments(desk, method, &item.inputs)?;
    bounds::called(desk, method, &item.inputs, None)
        .map_err(|broken| broke(desk, (object, method), item.inputs.len(), broken))?;
    audit_open(desk, AuditKind::Call, object).map_err(failed)?;
    // Last of all: a consent is used up by asking for it.
    let note = bounds::consented_call(desk, (object, method), (&item.inputs, item.sent)).map_err(
        |Unapproved { detail, no }| {
            let (scope, told) = (desk.space.scope(method), || called_at((Some(object), Some(method))));
            desk.tell_denial(AuditKind::Call, Unapproved::REASON, scope, method, &detail, told);
            failed_for(no.status, no.told.as_deref().unwrap_or_default())
        },
    )?;
    records.push(record(desk, object, method, (&item.inputs, &note)));
    Ok(PlannedCall { object, method, inputs: item.inputs, permits: [on_object, on_method] })
}

/// A node the session may see; hidden and missing ones are told alike.
fn find(desk: &mut Desk<'_>, id: &NodeId) -> Result<NodeRef, StatusCode> {
    let node = desk.space.find(id).ok_or(StatusCode::BadNodeIdUnknown)?;
    if desk.visible(node) {
        return Ok(node);
    }
    permit(desk, node, (Some(node), None)).and(Err(StatusCode::BadNodeIdUnknown))
}

/// Object and method of a call, as far as they are known.
type Nodes = (Option<NodeRef>, Option<NodeRef>);

/// What is told of a call that was not made.
pub(crate) fn called_at((object, method): Nodes) -> Told {
    Told::Called(Box::new(Calling { object, method, ..Calling::default() }))
}

fn permit(desk: &mut Desk<'_>, node: NodeRef, nodes: Nodes) -> Result<Option<Permit>, StatusCode> {
    desk.permit(Action::Call, node)
        .map_err(|denial| desk.denied_and_told(&denial, node, AuditKind::Call, || called_at(nodes)))
}

fn check_arguments(desk: &Desk<'_>, method: NodeRef, inputs: &[Variant]) -> Result<(), CallMethodResult> {
    let (arguments, _) = desk.space.method_arguments(method);
    match inputs.len().cmp(&arguments.len()) {
        std::cmp::Ordering::Less => return Err(failed(StatusCode::BadArgumentsMissing)),
        std::cmp::Ordering::Greater => return Err(failed(StatusCode::BadTooManyArguments)),
        std::cmp::Ordering::Equal => {}
    }
    let fits = |(argument, input): (&opcua_types::Argument, &Variant)| {
        let data_type = desk.space.find(&argument.data_type);
        let fits = data_type.is_none_or(|data_type| argument_fits(desk, input, data_type, argument.value_rank));
        if fits { StatusCode::Good } else { StatusCode::BadTypeMismatch }
    };
    let results: Vec<StatusCode> = arguments.iter().zip(inputs).map(fits).collect();
    if results.iter().all(StatusCode::is_good) {
        return Ok(());
    }
    Err(CallMethodResult { input_argument_results: Some(results), ..failed(StatusCode::BadInvalidArgument) })
}

/// Structures stay the bytes they came in, so of these only that a structure is wanted is checked here; the method looks
/// inside.
fn argument_fits(desk: &Desk<'_>, input: &Variant, data_type: NodeRef, rank: i32) -> bool {
    const STRUCTURE: u32 = 22;
    if matches!(input, Variant::ExtensionObject(_)) {
        return ns0::find_numeric(STRUCTURE).is_some_and(|base| desk.space.is_subtype_of(data_type, base));
    }
    desk.space.value_fits(input, data_type, rank)
}

fn record(
    desk: &Desk<'_>,
    object: NodeRef,
    method: NodeRef,
    (inputs, note): (&[Variant], &str),
) -> (AuditRecord, Told) {
    let object_id = desk.space.id(object).to_string();
    let record = event(desk.now, AuditKind::Call, &desk.session.actor, object_id, Outcome::Allowed);
    let name = desk.space.browse_name(method);
    let record = AuditRecord {
        detail: format!("method {} ({}){note}", name.name, desk.space.id(method)),
        epoch: desk.session.login.as_ref().and_then(|login| login.epoch),
        ..record
    };
    if !desk.audit.heard() {
        return (record, Told::Nothing);
    }
    let told = Calling { object: Some(object), method: Some(method), inputs: inputs.to_vec(), ..Calling::default() };
    (record, Told::Called(Box::new(told)))
}

impl PlannedCall {
    /// Lets the call leave, if it still may: what is allowed by now may have been changed meanwhile.
    pub(crate) fn leave(&mut self, desk: &mut Desk<'_>, by: Holder) -> Result<(), CallMethodResult> {
        if !self.spend(desk) {
            let scope = desk.space.scope(self.object);
            let told = || called_at((Some(self.object), Some(self.method)));
            let text = "the right ended before the call";
            desk.tell_denial(AuditKind::Call, Reason::GrantRevoked, scope, self.object, text, told);
            return Err(failed(StatusCode::BadUserAccessDenied));
        }
        bounds::called(desk, self.method, &self.inputs, Some(by)).map_err(|broken| {
            desk.interlocks.release(by, desk.now);
            let result = broke(desk, (self.object, self.method), self.inputs.len(), broken);
            CallMethodResult { input_argument_diagnostic_infos: None, ..result }
        })
    }

    /// Takes the permits just before the call leaves, if both rights are still there.
    fn spend(&mut self, desk: &Desk<'_>) -> bool {
        let live = |node| desk.rights(node).contains(Rights::CALL);
        let held = self.permits.iter().all(Option::is_some);
        if held && !(live(self.object) && live(self.method)) {
            return false;
        }
        for permit in &mut self.permits {
            let _accounted = permit.take().map(Permit::spend);
        }
        true
    }
}

/// Writes the response. What a result says about itself in place of its arguments is told of the whole call.
pub(crate) fn respond(
    codec: &Codec,
    mut results: Vec<CallMethodResult>,
    now: Now,
    handle: u32,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let take = |result: &mut CallMethodResult| {
        result.input_argument_diagnostic_infos.take().and_then(|told| told.into_iter().next())
    };
    let told: Vec<Option<DiagnosticInfo>> = results.iter_mut().map(take).collect();
    let explained = told.iter().any(Option::is_some);
    let response = CallResponse {
        response_header: response_header(now, handle),
        results: Some(results),
        diagnostic_infos: explained.then(|| told.into_iter().map(Option::unwrap_or_default).collect()),
    };
    write_message(out, &response, &codec.context(0))
}
