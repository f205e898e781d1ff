//! What a record of the audit becomes for clients that listen: one audit event, or two where a certificate was at fault
//! (OPC 10000-5 §6.4.3 and following, OPC 10000-4 §6.5). Everything that record and event share is taken from the record,
//! so the two cannot tell different stories.
//!
//! Secrets stay out: identity tokens lose their password or token before they come here, and of method arguments only
//! numbers, truth values, times and names of nodes are told, as in the record itself.

use access_model::{AuditKind, AuditRecord, Now, Outcome, Reason, Rights};
use opcua_types::{
    ByteString, DataValue, ExtensionObject, IssuedIdentityToken, MessageSecurityMode, NodeId, StatusCode, UAString,
    UserNameIdentityToken, Variant, VariantScalarTypeId,
};

mod history;

use super::config::ServerConfig;
use super::events::EventDesk;
use crate::event::{About, Event};
use crate::history::Change;
use crate::pki::Certificate;
use crate::space::{NodeRef, Space, date_time, ns0};

/// The severity of what succeeded, and of what was turned away.
const SEVERITY: (u16, u16) = (200, 600);

/// What an audit event tells beside its record.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// No audit event belongs to it.
    Nothing,
    /// A channel was opened, or not; or renewed in vain.
    Opened(Box<Opening>),
    /// A channel ended.
    ChannelClosed { channel: u32, certificate: Option<Vec<u8>> },
    /// A session was created, or not.
    Created(Box<Creation>),
    /// A session was activated, or not.
    Activated(Box<Activating>),
    /// A session ended.
    Ended { session: NodeId, how: Ending },
    /// A subscription was taken over from another session, or not.
    Transferred { session: NodeId },
    /// Requests were cancelled.
    Cancelled { session: NodeId, handle: u32 },
    /// A value was written, or not.
    Written(Box<Writing>),
    /// History was changed, or not.
    Updated(Box<Updating>),
    /// A method was called, or not.
    Called(Box<Calling>),
}

/// How a session ended (OPC 10000-4 §6.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    TimedOut,
    Terminated,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) channel: u32,
    /// As the peer sent it.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) renewal: bool,
    pub(crate) policy: String,
    pub(crate) mode: Option<MessageSecurityMode>,
    pub(crate) lifetime_ms: u32,
    pub(crate) status: Option<StatusCode>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Creation {
    /// None when it was refused.
    pub(crate) session: Option<NodeId>,
    pub(crate) channel: u32,
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) timeout_ms: f64,
    pub(crate) status: Option<StatusCode>,
    /// The URL that the client dialled, when it is not one of the server's.
    pub(crate) foreign_url: Option<String>,
    /// The host in it, when the server's certificate does not name that either, and this certificate.
    pub(crate) uncertified: Option<(String, Vec<u8>)>,
    /// The ApplicationUri that the client claimed.
    pub(crate) claimed_uri: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Activating {
    pub(crate) session: Option<NodeId>,
    pub(crate) channel: u32,
    /// Without its secret.
    pub(crate) token: ExtensionObject,
    pub(crate) roles: Vec<NodeId>,
    pub(crate) status: Option<StatusCode>,
    /// ClientAuditEntryId of the request, which may have waited for a while.
    pub(crate) entry: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Writing {
    pub(crate) node: Option<NodeRef>,
    /// A node of the server behind a guard.
    pub(crate) foreign: Option<NodeId>,
    pub(crate) attribute: u32,
    pub(crate) range: String,
    pub(crate) old: Variant,
    pub(crate) new: Variant,
}

/// A change of history. Without one it was turned away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Updating {
    pub(crate) node: Option<NodeRef>,
    pub(crate) change: Option<Change>,
    /// The values that it touched, as they were before.
    pub(crate) old: Vec<DataValue>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Calling {
    pub(crate) object: Option<NodeRef>,
    pub(crate) method: Option<NodeRef>,
    /// Object and method of the server behind a guard.
    pub(crate) foreign: Option<(NodeId, NodeId)>,
    pub(crate) inputs: Vec<Variant>,
    pub(crate) status: Option<StatusCode>,
}

/// A record that clients are told of.
#[derive(Clone, Debug)]
pub(crate) struct Occasion {
    pub(crate) record: AuditRecord,
    pub(crate) told: Told,
    /// ClientAuditEntryId of the request it belongs to.
    pub(crate) entry: String,
}

impl Told {
    /// What belongs to a request that was turned away as a whole.
    pub(crate) fn of_request(kind: AuditKind) -> Self {
        match kind {
            AuditKind::Write => Self::Written(Box::default()),
            AuditKind::Call => Self::Called(Box::default()),
            AuditKind::HistoryChanged => Self::Updated(Box::default()),
            _ => Self::Nothing,
        }
    }

    /// The type, the source's name, the node and who is said to have done it when nobody is known.
    fn frame(&self) -> Option<(u32, &'static str, NodeRef, &'static str)> {
        Some(match self {
            Self::Nothing => return None,
            Self::Opened(_) => (2060, "SecureChannel/OpenSecureChannel", ns0::SERVER, "System/OpenSecureChannel"),
            Self::ChannelClosed { .. } => {
                (2059, "SecureChannel/CloseSecureChannel", ns0::SERVER, "System/CloseSecureChannel")
            }
            Self::Created(_) => (2071, "Session/CreateSession", ns0::SERVER, "System/CreateSession"),
            Self::Activated(_) => (2075, "Session/ActivateSession", ns0::SERVER, ""),
            Self::Ended { how, .. } => (2069, how.name(), ns0::SERVER, ""),
            Self::Transferred { .. } => (2069, "Session/TransferSubscriptions", ns0::SERVER, ""),
            Self::Cancelled { .. } => (2078, "Session/Cancel", ns0::SERVER, ""),
            Self::Written(write) => (2100, "Attribute/Write", write.node.unwrap_or(ns0::SERVER), ""),
            Self::Updated(update) => (update.kind(), "Attribute/HistoryUpdate", update.node.unwrap_or(ns0::SERVER), ""),
            Self::Called(call) => (2127, "Attribute/Call", call.object.unwrap_or(ns0::SERVER), ""),
        })
    }
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Self::Closed => "Session/CloseSession",
            Self::TimedOut => "Session/Timeout",
            Self::Terminated => "Session/Terminated",
        }
    }
}

/// AuditCertificateDataMismatchEventType.
const DATA_MISMATCH: u32 = 2082;

/// Makes the events of an occasion.
pub(crate) fn events(
    occasion: &Occasion,
    config: &ServerConfig,
    space: &Space,
    desk: &mut EventDesk,
    now: Now,
) -> Vec<Event> {
    let Some((kind, name, source, system)) = occasion.told.frame() else { return Vec::new() };
    let mut made = Vec::new();
    let mut make = |kind: u32, name: &str, source: NodeRef| {
        let event_type = ns0::find_numeric(kind)?;
        let about = About { event_type, source, audit: true };
        let record = &occasion.record;
        let severity = if record.outcome == Outcome::Allowed { SEVERITY.0 } else { SEVERITY.1 };
        let mut event = Event::new(space, about, desk.next_id(), severity, &message(record), now);
        event.set("SourceName", text(name));
        shared(&mut event, occasion, config, system);
        Some(event)
    };
    let mut main = make(kind, name, source);
    if let Some(event) = &mut main {
        own(event, &occasion.told, space);
    }
    made.extend(main);
    if let Told::Created(creation) = &occasion.told
        && let Some(url) = &creation.foreign_url
        && let Some(mut event) = make(2748, name, source)
    {
        own(&mut event, &occasion.told, space);
        event.set("EndpointUrl", text(url));
        made.push(event);
    }
    if let Told::Created(creation) = &occasion.told
        && let Some((host, certificate)) = &creation.uncertified
        && let Some(mut event) = make(DATA_MISMATCH, "Security/Certificate", ns0::SERVER)
    {
        event.set("Certificate", bytes(certificate));
        event.set("InvalidHostname", text(host));
        made.push(event);
    }
    if let Some((kind, certificate)) = at_fault(occasion)
        && let Some(mut event) = make(kind, "Security/Certificate", ns0::SERVER)
    {
        event.set("Certificate", bytes(certificate));
        if let (DATA_MISMATCH, Told::Created(creation)) = (kind, &occasion.told) {
            event.set("InvalidUri", text(&creation.claimed_uri));
        }
        made.push(event);
    }
    made
}

/// The certificate that was at fault, and the type of event that says how.
fn at_fault(occasion: &Occasion) -> Option<(u32, &[u8])> {
    let Outcome::Denied(reason) = occasion.record.outcome else { return None };
    let kind = match reason {
        Reason::CertificateTime => 2085,
        Reason::CertificateInvalid | Reason::CertificateKey => 2086,
        Reason::CertificateUntrusted | Reason::CertificateRevocationUnknown => 2087,
        Reason::CertificateRevoked => 2088,
        Reason::CertificateUse => 2089,
        Reason::CertificateUri | Reason::CertificateHost => DATA_MISMATCH,
        _ => return None,
    };
    let certificate = match &occasion.told {
        Told::Opened(opening) => opening.certificate.as_deref(),
        Told::ChannelClosed { certificate, .. } => certificate.as_deref(),
        Told::Created(creation) => creation.certificate.as_deref(),
        Told::Activated(activating) => {
            activating.token.inner_as::<opcua_types::X509IdentityToken>().map(|token| token.certificate_data.as_ref())
        }
        _ => None,
    };
    certificate.map(|certificate| (kind, certificate))
}

fn message(record: &AuditRecord) -> String {
    let how = match record.outcome {
        Outcome::Allowed | Outcome::Observed(_) => String::new(),
        Outcome::Denied(reason) => format!(" denied ({})", reason.word()),
        Outcome::Failed(_) => " failed".to_owned(),
    };
    let count = if record.count > 1 { format!(" {} times", record.count) } else { String::new() };
    let what = record.kind.name();
    // A write's sentence holds values, which only who may read the node may see.
    if matches!(record.kind, AuditKind::Write | AuditKind::Call) || record.detail.is_empty() {
        return format!("{what}{how}{count}");
    }
    format!("{what}{how}{count}: {}", record.detail)
}

/// The fields of AuditEventType and AuditSecurityEventType.
fn shared(event: &mut Event, occasion: &Occasion, config: &ServerConfig, system: &str) {
    let record = &occasion.record;
    let entry = match &occasion.told {
        Told::Activated(activating) => &activating.entry,
        _ => &occasion.entry,
    };
    event.set("ActionTimeStamp", Variant::DateTime(Box::new(date_time(record.at))));
    event.set("Status", Variant::Boolean(matches!(record.outcome, Outcome::Allowed | Outcome::Observed(_))));
    event.set("ServerId", text(&config.application_uri));
    event.set("ClientAuditEntryId", text(entry));
    event.set("ClientUserId", text(if system.is_empty() { &record.actor.name } else { system }));
    event.set("ClientApplicationUri", record.actor.application.as_deref().map_or(Variant::Empty, text));
    event.set("StatusCodeId", Variant::StatusCode(status(occasion)));
}

fn status(occasion: &Occasion) -> StatusCode {
    let told = match &occasion.told {
        Told::Opened(opening) => opening.status,
        Told::Created(creation) => creation.status,
        Told::Activated(activating) => activating.status,
        Told::Called(call) => call.status,
        _ => None,
    };
    told.unwrap_or(match occasion.record.outcome {
        Outcome::Allowed | Outcome::Observed(_) => StatusCode::Good,
        Outcome::Denied(_) => StatusCode::BadUserAccessDenied,
        Outcome::Failed(bits) => StatusCode::from(bits),
    })
}

/// The fields of the event's own type.
fn own(event: &mut Event, told: &Told, space: &Space) {
    match told {
        Told::Nothing => {}
        Told::Opened(opening) => {
            event.set("SecureChannelId", text(&opening.channel.to_string()));
            set_certificate(event, opening.certificate.as_deref());
            event.set("RequestType", Variant::Int32(i32::from(opening.renewal)));
            event.set("SecurityPolicyUri", text(&opening.policy));
            event.set("SecurityMode", Variant::Int32(opening.mode.unwrap_or(MessageSecurityMode::Invalid) as i32));
            event.set("RequestedLifetime", Variant::Double(f64::from(opening.lifetime_ms)));
        }
        Told::ChannelClosed { channel, .. } => event.set("SecureChannelId", text(&channel.to_string())),
        Told::Created(creation) => {
            event.set("SessionId", node_id(creation.session.as_ref()));
            event.set("SecureChannelId", text(&creation.channel.to_string()));
            set_certificate(event, creation.certificate.as_deref());
            event.set("RevisedSessionTimeout", Variant::Double(creation.timeout_ms));
        }
        Told::Activated(activating) => {
            event.set("SessionId", node_id(activating.session.as_ref()));
            event.set("SecureChannelId", text(&activating.channel.to_string()));
            event.set("UserIdentityToken", Variant::ExtensionObject(activating.token.clone()));
            event.set("ClientSoftwareCertificates", list(VariantScalarTypeId::ExtensionObject, Vec::new()));
            let roles = activating.roles.iter().cloned().map(Variant::from).collect();
            event.set("CurrentRoleIds", list(VariantScalarTypeId::NodeId, roles));
        }
        Told::Ended { session, .. } | Told::Transferred { session } => event.set("SessionId", session.clone().into()),
        Told::Cancelled { session, handle } => {
            event.set("SessionId", session.clone().into());
            event.set("RequestHandle", Variant::UInt32(*handle));
        }
        Told::Written(write) => {
            if let Some(node) = &write.foreign {
                event.set("SourceNode", node.clone().into());
            }
            event.set("AttributeId", Variant::UInt32(write.attribute));
            event.set("IndexRange", text(&write.range));
            for (name, value) in [("OldValue", &write.old), ("NewValue", &write.new)] {
                if let Some(node) = write.node.filter(|_| *value != Variant::Empty) {
                    event.set_guarded(name, value.clone(), (node, Rights::READ));
                }
            }
        }
        Told::Updated(update) => history::own(event, update, space),
        Told::Called(call) => {
            event.set("MethodId", call.method.map_or(Variant::Empty, |method| space.id(method).into()));
            if let Some((object, method)) = &call.foreign {
                event.set("SourceNode", object.clone().into());
                event.set("MethodId", method.clone().into());
            }
            let inputs = call.inputs.iter().map(tellable).collect();
            event.set("InputArguments", list(VariantScalarTypeId::Variant, inputs));
        }
    }
}

fn set_certificate(event: &mut Event, certificate: Option<&[u8]>) {
    let leaf = certificate.and_then(|chain| Certificate::from_der(chain).ok());
    let print = leaf.as_ref().map(|leaf| leaf.thumbprint_sha1().iter().map(|byte| format!("{byte:02X}")).collect());
    let print: Option<String> = print;
    event.set("ClientCertificate", certificate.map_or(Variant::Empty, bytes));
    event.set("ClientCertificateThumbprint", print.as_deref().map_or(Variant::Empty, text));
}

/// A method's argument as it may be told: texts, bytes and structures may hold secrets.
fn tellable(argument: &Variant) -> Variant {
    let plain = |value: &Variant| {
        value.is_numeric()
            || matches!(value, Variant::Boolean(_) | Variant::DateTime(_) | Variant::Guid(_) | Variant::NodeId(_))
    };
    let told = match argument {
        Variant::Array(array) => array.values.iter().all(plain),
        scalar => plain(scalar),
    };
    Variant::Variant(Box::new(if told { argument.clone() } else { Variant::Empty }))
}

/// An identity token without its password or token.
pub(crate) fn without_secret(token: &ExtensionObject) -> ExtensionObject {
    if let Some(user) = token.inner_as::<UserNameIdentityToken>() {
        return ExtensionObject::from_message(UserNameIdentityToken { password: ByteString::null(), ..user.clone() });
    }
    if let Some(issued) = token.inner_as::<IssuedIdentityToken>() {
        return ExtensionObject::from_message(IssuedIdentityToken { token_data: ByteString::null(), ..issued.clone() });
    }
    let open = token.inner_as::<opcua_types::AnonymousIdentityToken>().is_some()
        || token.inner_as::<opcua_types::X509IdentityToken>().is_some();
    // Of a kind that nobody knows, nobody knows where its secret is.
    if open { token.clone() } else { ExtensionObject::null() }
}

fn text(text: &str) -> Variant {
    Variant::String(UAString::from(text))
}

fn bytes(bytes: &[u8]) -> Variant {
    Variant::ByteString(ByteString::from(bytes.to_vec()))
}

fn node_id(id: Option<&NodeId>) -> Variant {
    Variant::from(id.cloned().unwrap_or_else(NodeId::null))
}

fn list(kind: VariantScalarTypeId, values: Vec<Variant>) -> Variant {
    Variant::from((kind, values))
}
