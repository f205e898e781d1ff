//! Audit events (OPC 10000-5 §6.4): what the ledger is told, clients that may see it are told too, field by field.

use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Outcome, Reason, Rights, ScopeMap};
use opcua_types::*;
use pep::Who;

use super::ask::*;
use super::events::{SERVER, event_filter};
use super::keys::{CLIENT, HOST, SERVER as SERVER_IDENTITY, SERVER_URI, USER};
use super::monitoring::TICK;
use super::world::*;
use crate::server::occasion::{Opening, Told};
use crate::server::{Answer, AuditConfig, Audited, ConnId, Input};

/// What the auditor asks for, in this order.
const FIELDS: [&str; 37] = [
    "EventType",
    "SourceName",
    "SourceNode",
    "Status",
    "ClientUserId",
    "ActionTimeStamp",
    "ServerId",
    "ClientAuditEntryId",
    "StatusCodeId",
    "SecureChannelId",
    "ClientCertificate",
    "ClientCertificateThumbprint",
    "RequestType",
    "SecurityPolicyUri",
    "SecurityMode",
    "RequestedLifetime",
    "SessionId",
    "RevisedSessionTimeout",
    "UserIdentityToken",
    "CurrentRoleIds",
    "RequestHandle",
    "Certificate",
    "AttributeId",
    "IndexRange",
    "OldValue",
    "NewValue",
    "MethodId",
    "InputArguments",
    "EndpointUrl",
    "InvalidUri",
    "InvalidHostname",
    "UpdatedNode",
    "PerformInsertReplace",
    "OldValues",
    "NewValues",
    "ReqTimes",
    "Message",
];

type Heard = Vec<Variant>;

fn get<'a>(event: &'a Heard, name: &str) -> &'a Variant {
    &event[FIELDS.iter().position(|known| *known == name).unwrap()]
}

fn kind(event: &Heard) -> u32 {
    match get(event, "EventType") {
        Variant::NodeId(id) => id.as_u32().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A world with an auditor who listens, and what she may read and receive.
struct Audit {
    world: World,
    conn: ConnId,
    login: Login,
    waiting: Vec<u32>,
    /// Records before she listened.
    before: usize,
}

fn auditor(reactor: Rights) -> Vec<(Rights, &'static str)> {
    vec![(reactor, "reactor"), (Rights::BROWSE | Rights::RECEIVE_EVENTS, "mixer"), (Rights::RECEIVE_EVENTS, "vault")]
}

fn setup(reactor: Rights, events: Option<&str>) -> Setup {
    let alice = grant(Who::User("alice".into()), alice());
    let carol = grant(Who::User("carol".into()), auditor(reactor));
    let audit = AuditConfig { events: events.map(str::to_owned), ..AuditConfig::default() };
    let dora = grant(Who::User("dora".into()), super::history::historian());
    Setup { local: vec![alice, carol, dora], audit, ..Setup::default() }
}

const SEES: Rights =
    match Rights::from_bits(Rights::BROWSE.bits() | Rights::READ.bits() | Rights::RECEIVE_EVENTS.bits()) {
        Some(rights) => rights,
        None => Rights::NONE,
    };

impl Audit {
    fn new() -> Self {
        Self::with(setup(SEES, Some("vault")))
    }

    fn with(setup: Setup) -> Self {
        let mut world = setup.start();
        let (conn, login) = world.log_in(ENCRYPT, "carol");
        let (_, result) = world.listen_as(conn, &login, SERVER, event_filter(&FIELDS, Vec::new()), (1_000, true));
        assert_eq!(result.status_code, StatusCode::Good);
        let before = world.records.len();
        Self { world, conn, login, waiting: Vec::new(), before }
    }

    /// Everything that was told since the last time.
    fn heard(&mut self) -> Vec<Heard> {
        let mut all = Vec::new();
        loop {
            if self.waiting.is_empty() {
                self.waiting.push(self.world.publish(self.conn, &self.login));
            }
            self.world.pass(TICK);
            let Some(part) = self.world.heard(self.conn, self.waiting[0]) else { return all };
            self.waiting.remove(0);
            all.extend(part);
        }
    }

    /// The one event of this type.
    fn one(&mut self, of: u32) -> Heard {
        let heard = self.heard();
        let mut found: Vec<Heard> = heard.iter().filter(|event| kind(event) == of).cloned().collect();
        assert_eq!(found.len(), 1, "of {of}: {heard:?}");
        found.remove(0)
    }
}

fn text(text: &str) -> Variant {
    Variant::from(text)
}

#[test]
fn a_write_is_told_with_its_values() {
    let mut audit = Audit::new();
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    let mut request = audit.world.write_request(&login, vec![(id("Setpoint"), Variant::from(60.0))]);
    request.request_header.audit_entry_id = "work order 7".into();
    let _: WriteResponse = audit.world.ask(conn, &request).unwrap();
    let event = audit.one(2100);
    for (field, expected) in [
        ("SourceName", text("Attribute/Write")),
        ("SourceNode", id("Setpoint").into()),
        ("Status", true.into()),
        ("ClientUserId", text("alice")),
        ("ServerId", text(SERVER_URI)),
        ("ClientAuditEntryId", text("work order 7")),
        ("AttributeId", 13_u32.into()),
        ("OldValue", Variant::from(20.0)),
        ("NewValue", Variant::from(60.0)),
    ] {
        assert_eq!(*get(&event, field), expected, "{field}");
    }
}

#[test]
fn a_change_of_history_is_told_with_the_values_before_and_after() {
    let hears = Rights::BROWSE | Rights::RECEIVE_EVENTS;
    for (rule, reactor, shown) in [
        ("who may read the node and its history", SEES | Rights::READ_HISTORY, true),
        ("who may read the node", SEES, false),
        ("who may read its history", hears | Rights::READ_HISTORY, false),
        ("who may read neither", hears, false),
    ] {
        let mut audit = Audit::with(setup(reactor, Some("vault")));
        let (conn, login) = super::history::begin(&mut audit.world, "dora");
        audit.heard();
        super::history::update(&mut audit.world, conn, &login, "Setpoint", PerformUpdateType::Replace, &[(20, 61.25)]);
        super::history::delete_at(&mut audit.world, conn, &login, "Setpoint", &[30]);
        let heard = audit.heard();
        let one =
            |number| heard.iter().find(|event| kind(event) == number).unwrap_or_else(|| panic!("{rule}: {number}"));
        let (written, deleted) = (one(3006), one(3019));
        let values = |number: f64, at: i64| {
            let value = Variant::DataValue(Box::new(super::history::value(at, number)));
            Variant::from((VariantScalarTypeId::DataValue, vec![value]))
        };
        let denied = || Variant::StatusCode(StatusCode::BadUserAccessDenied);
        let guarded = |values: Variant| if shown { values } else { denied() };
        for (event, field, expected) in [
            (written, "SourceName", text("Attribute/HistoryUpdate")),
            (written, "UpdatedNode", id("Setpoint").into()),
            (written, "SourceNode", id("Setpoint").into()),
            (written, "Status", true.into()),
            (written, "ClientUserId", text("dora")),
            (written, "PerformInsertReplace", Variant::from(2_i32)),
            (written, "NewValues", guarded(values(61.25, 20))),
            (deleted, "UpdatedNode", id("Setpoint").into()),
        ] {
            assert_eq!(*get(event, field), expected, "{rule}: {field}");
        }
        let old = format!("{:?} {:?}", get(written, "OldValues"), get(deleted, "OldValues"));
        assert_eq!(old.contains("200.0") && old.contains("300.0"), shown, "{rule}: {old}");
        assert_eq!(format!("{heard:?}").contains("61.25"), shown, "{rule}: and no message tells");
    }
}

#[test]
fn a_part_of_an_array_is_told_with_its_range() {
    let mut audit = Audit::new();
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    let mut request = audit.world.write_request(&login, vec![(id("Samples"), Variant::from(vec![9_i32]))]);
    request.nodes_to_write.as_mut().unwrap()[0].index_range = "1".parse().unwrap();
    let _: WriteResponse = audit.world.ask(conn, &request).unwrap();
    let event = audit.one(2100);
    assert_eq!(*get(&event, "IndexRange"), text("1"));
    assert_eq!(*get(&event, "OldValue"), Variant::from(vec![2_i32]));
    assert_eq!(*get(&event, "NewValue"), Variant::from(vec![9_i32]));
}

#[test]
fn values_of_a_node_that_the_auditor_may_not_read_are_left_out() {
    let mut audit = Audit::with(setup(Rights::BROWSE | Rights::RECEIVE_EVENTS, Some("vault")));
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    audit.world.write(conn, &login, vec![(id("Setpoint"), Variant::from(61.25))]).unwrap();
    let event = audit.one(2100);
    let denied = Variant::StatusCode(StatusCode::BadUserAccessDenied);
    assert_eq!((get(&event, "OldValue"), get(&event, "NewValue")), (&denied, &denied));
    assert!(!format!("{event:?}").contains("61.25"), "and the message does not tell either");
}

#[test]
fn a_write_that_is_denied_is_told_without_its_value() {
    let mut audit = Audit::new();
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    let values = vec![(id("Speed"), Variant::from(9_i32)), (id("Setpoint"), Variant::from(1e9))];
    audit.world.write(conn, &login, values).unwrap();
    let heard = audit.heard();
    let told: Vec<_> = heard
        .iter()
        .map(|event| (kind(event), get(event, "SourceNode").clone(), get(event, "Status").clone()))
        .collect();
    assert_eq!(told, [(2100, id("Speed").into(), false.into()), (2100, id("Setpoint").into(), false.into())]);
    assert!(heard.iter().all(|event| *get(event, "NewValue") == Variant::Empty));
}

#[test]
fn what_happens_at_a_hidden_node_is_not_heard_of() {
    let mut audit = Audit::with(setup(Rights::BROWSE | Rights::READ, Some("vault")));
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    audit.world.write(conn, &login, vec![(id("Setpoint"), Variant::from(62.0))]).unwrap();
    assert_eq!(audit.heard(), Vec::<Heard>::new(), "no ReceiveEvents on the reactor");
}

#[test]
fn audit_events_take_a_right_of_their_own() {
    for (row, events, heard) in [
        ("none", None, false),
        ("unknown", Some("audit"), false),
        ("public", Some("public"), false),
        ("mixer", Some("mixer"), true),
    ] {
        let mut audit = Audit::with(setup(SEES, events));
        audit.world.log_in(ENCRYPT, "alice");
        assert_eq!(!audit.heard().is_empty(), heard, "{row}");
    }
    let mut without = setup(SEES, Some("vault"));
    without.local[1] = grant(Who::User("carol".into()), vec![(SEES, "reactor")]);
    let mut audit = Audit::with(without);
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.world.write(conn, &login, vec![(id("Setpoint"), Variant::from(62.0))]).unwrap();
    assert_eq!(audit.heard(), Vec::<Heard>::new(), "the right on the source is not enough");
}

#[test]
fn the_scope_of_audit_events_is_found_again_in_another_map() {
    let mut audit = Audit::new();
    let map = ScopeMap::new(["vault", "reactor", "mixer"]).unwrap();
    audit.world.server.lay_out(map, |_| Vec::new(), audit.world.now).unwrap();
    assert_eq!(audit.world.server.audit.scope().0, 1);
    let map = ScopeMap::new(["reactor", "mixer"]).unwrap();
    audit.world.server.audit.find_scope(&map);
    assert_eq!(audit.world.server.audit.scope(), access_model::ScopeIndex::NOWHERE);
}

#[test]
fn a_call_is_told_and_its_texts_are_not() {
    let mut audit = Audit::new();
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    let request = audit.world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(3.5)])]);
    let waiting = audit.world.send(conn, &request);
    let event = audit.one(2127);
    assert_eq!(*get(&event, "SourceName"), text("Attribute/Call"));
    assert_eq!(*get(&event, "SourceNode"), id("Unit").into());
    assert_eq!(*get(&event, "MethodId"), id("Reset").into());
    assert_eq!(*get(&event, "Status"), true.into());
    let Variant::Array(inputs) = get(&event, "InputArguments") else { panic!("no arguments") };
    assert_eq!(inputs.values, [Variant::Variant(Box::new(Variant::from(3.5)))]);
    let (call, _) = audit.world.invoked.pop_front().unwrap();
    let answer = Answer { status: StatusCode::BadOutOfService, input_results: Vec::new(), outputs: Vec::new() };
    audit.world.input(Input::Answer { id: call, answer });
    let event = audit.one(2127);
    assert_eq!(*get(&event, "Status"), false.into(), "it failed after all");
    assert_eq!(*get(&event, "StatusCodeId"), Variant::StatusCode(StatusCode::BadOutOfService));
    assert_eq!(*get(&event, "MethodId"), id("Reset").into());
    assert!(audit.world.answer::<CallResponse>(conn, waiting).is_some());
    let request = audit.world.call_request(&login, vec![(id("Unit"), id("Stir"), Vec::new())]);
    let _: CallResponse = audit.world.ask(conn, &request).unwrap();
    let event = audit.one(2127);
    assert_eq!((get(&event, "Status"), get(&event, "MethodId")), (&false.into(), &id("Stir").into()));
}

#[test]
fn a_channel_and_a_session_are_told_from_their_beginning_to_their_end() {
    let mut audit = Audit::new();
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    let heard = audit.heard();
    assert_eq!(heard.iter().map(kind).collect::<Vec<_>>(), [2060, 2071, 2075]);
    let print = CLIENT.certificate.thumbprint_sha1().iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let certificate = Variant::ByteString(ByteString::from(CLIENT.certificate.der().to_vec()));
    let rows = [
        (0, "SourceName", text("SecureChannel/OpenSecureChannel")),
        (0, "SourceNode", SERVER.into()),
        (0, "ClientUserId", text("System/OpenSecureChannel")),
        (0, "Status", true.into()),
        (0, "ClientCertificate", certificate.clone()),
        (0, "ClientCertificateThumbprint", text(&print)),
        (0, "RequestType", 0_i32.into()),
        (0, "SecurityPolicyUri", text(POLICY.uri())),
        (0, "SecurityMode", (MessageSecurityMode::SignAndEncrypt as i32).into()),
        (1, "SourceName", text("Session/CreateSession")),
        (1, "ClientUserId", text("System/CreateSession")),
        (1, "ClientCertificate", certificate),
        (1, "EndpointUrl", Variant::Empty),
        (2, "SourceName", text("Session/ActivateSession")),
        (2, "ClientUserId", text("alice")),
    ];
    for (at, field, expected) in rows {
        assert_eq!(*get(&heard[at], field), expected, "{at} {field}");
    }
    assert!(matches!(get(&heard[0], "RequestedLifetime"), Variant::Double(asked) if *asked > 0.0));
    assert!(matches!(get(&heard[1], "RevisedSessionTimeout"), Variant::Double(revised) if *revised > 0.0));
    assert_eq!(get(&heard[1], "SessionId"), get(&heard[2], "SessionId"));
    assert_eq!(get(&heard[0], "SecureChannelId"), get(&heard[2], "SecureChannelId"));
    let cancel = CancelRequest { request_header: audit.world.header(&login.token), request_handle: 77 };
    let _: CancelResponse = audit.world.ask(conn, &cancel).unwrap();
    let event = audit.one(2078);
    assert_eq!(*get(&event, "RequestHandle"), 77_u32.into());
    assert_eq!(*get(&event, "SourceName"), text("Session/Cancel"));
    let close = CloseSessionRequest { request_header: audit.world.header(&login.token), delete_subscriptions: true };
    let _: CloseSessionResponse = audit.world.ask(conn, &close).unwrap();
    let event = audit.one(2069);
    assert_eq!(*get(&event, "SourceName"), text("Session/CloseSession"));
    assert_eq!(get(&event, "SessionId"), get(&heard[1], "SessionId"));
    audit.world.input(Input::Disconnected { conn });
    let event = audit.one(2059);
    assert_eq!(*get(&event, "SourceName"), text("SecureChannel/CloseSecureChannel"));
    assert_eq!(get(&event, "SecureChannelId"), get(&heard[0], "SecureChannelId"));
}

#[test]
fn sessions_end_by_time_and_by_the_server() {
    let mut audit = Audit::new();
    let conn = audit.world.connect(ENCRYPT);
    audit.world.create(conn);
    audit.heard();
    audit.world.input(Input::Disconnected { conn });
    assert_eq!(*get(&audit.one(2069), "SourceName"), text("Session/Terminated"));
    let (_, _) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    for _ in 0..200 {
        audit.world.pass(Duration::from_secs(30));
        let told = audit.heard();
        if let Some(event) = told.iter().find(|event| kind(event) == 2069) {
            assert_eq!(*get(event, "SourceName"), text("Session/Timeout"));
            return;
        }
        let read = audit.world.read_one(audit.conn, &audit.login, "Setpoint");
        assert!(read.is_ok(), "the auditor lives");
    }
    panic!("the session did not end");
}

#[test]
fn no_secret_is_told() {
    let mut audit = Audit::new();
    let conn = audit.world.connect(ENCRYPT);
    let mut login = audit.world.create(conn);
    let wrong = audit.world.user(conn, &login, "alice", "hunter2-not-hers");
    assert!(audit.world.activate(conn, &mut login, wrong).is_err());
    let right = audit.world.user(conn, &login, "alice", "alice-password");
    audit.world.activate(conn, &mut login, right).unwrap();
    let token = audit.world.token(Duration::from_secs(100));
    audit.world.log_in_by_token(&token);
    let told = audit.heard();
    let activations: Vec<_> = told.iter().filter(|event| kind(event) == 2075).collect();
    let status: Vec<_> = activations.iter().map(|event| get(event, "Status").clone()).collect();
    assert_eq!(status, [false.into(), true.into(), true.into()]);
    for event in &activations[..2] {
        let Variant::ExtensionObject(token) = get(event, "UserIdentityToken") else { panic!("no token") };
        let user = token.inner_as::<UserNameIdentityToken>().expect("a user");
        assert_eq!((user.user_name.as_ref(), user.password.is_null()), ("alice", true));
    }
    let Variant::ExtensionObject(issued) = get(activations[2], "UserIdentityToken") else { panic!("no token") };
    let issued = issued.inner_as::<IssuedIdentityToken>().expect("a token");
    assert!(issued.token_data.is_null());
    let all = format!("{told:?}");
    assert!(!all.contains("hunter2") && !all.contains("alice-password"));
    assert!(!all.contains(std::str::from_utf8(token.as_bytes()).unwrap()));
}

#[test]
fn a_certificate_at_fault_is_told_beside_the_channel_that_was_refused() {
    let mut audit = Audit::new();
    audit.world.connect_as(ENCRYPT, &USER.clone());
    let heard = audit.heard();
    assert_eq!(heard.iter().map(kind).collect::<Vec<_>>(), [2060, 2087]);
    assert!(heard.iter().all(|event| *get(event, "Status") == false.into()));
    let sent = Variant::ByteString(ByteString::from(USER.certificate.der().to_vec()));
    assert_eq!((get(&heard[0], "ClientCertificate"), get(&heard[1], "Certificate")), (&sent, &sent));
    assert_eq!(*get(&heard[1], "SourceName"), text("Security/Certificate"));
}

/// The subtypes of AuditCertificateEventType (OPC 10000-5 §6.4.12 and following), by their numbers in namespace 0.
#[test]
fn each_fault_of_a_certificate_has_its_own_type_of_event() {
    for (reason, number) in [
        (Reason::CertificateUri, 2082),
        (Reason::CertificateHost, 2082),
        (Reason::CertificateTime, 2085),
        (Reason::CertificateInvalid, 2086),
        (Reason::CertificateKey, 2086),
        (Reason::CertificateUntrusted, 2087),
        (Reason::CertificateRevocationUnknown, 2087),
        (Reason::CertificateRevoked, 2088),
        (Reason::CertificateUse, 2089),
    ] {
        let mut audit = Audit::new();
        let record = AuditRecord {
            at: audit.world.now.unix,
            kind: AuditKind::ChannelOpened,
            actor: Actor::default(),
            object: String::new(),
            outcome: Outcome::Denied(reason),
            detail: String::new(),
            count: 1,
            epoch: None,
            place: None,
        };
        let opening = Opening { certificate: Some(vec![48, 3, 1]), ..Opening::default() };
        audit.world.server.audit.tell(record, || Told::Opened(Box::new(opening)));
        let heard = audit.heard();
        assert_eq!(heard.iter().map(kind).collect::<Vec<_>>(), [2060, number], "{reason:?}");
        assert_eq!(*get(&heard[1], "SourceName"), text("Security/Certificate"), "{reason:?}");
        let sent = Variant::ByteString(ByteString::from(vec![48, 3, 1]));
        assert_eq!((get(&heard[1], "Certificate"), get(&heard[1], "Status")), (&sent, &false.into()), "{reason:?}");
    }
}

#[test]
fn another_uri_than_the_certificates_and_another_url_than_the_servers_are_told_beside_the_session() {
    let mut audit = Audit::new();
    let conn = audit.world.connect(ENCRYPT);
    audit.heard();
    let claimed = "urn:somebody:else";
    let refused = audit.world.try_create(conn, |request| request.client_description.application_uri = claimed.into());
    assert_eq!(refused.err(), Some(StatusCode::BadCertificateUriInvalid));
    let heard = audit.heard();
    assert_eq!(heard.iter().map(kind).collect::<Vec<_>>(), [2071, 2082]);
    assert_eq!(*get(&heard[1], "InvalidUri"), text(claimed));
    let dialled = "opc.tcp://elsewhere:4840";
    audit.world.try_create(conn, |request| request.endpoint_url = dialled.into()).unwrap();
    let heard = audit.heard();
    assert_eq!(heard.iter().map(kind).collect::<Vec<_>>(), [2071, 2748, 2082]);
    assert_eq!(*get(&heard[1], "EndpointUrl"), text(dialled));
    assert_eq!(*get(&heard[1], "SourceName"), text("Session/CreateSession"));
    assert_eq!(*get(&heard[2], "InvalidHostname"), text("elsewhere"), "a client that looks refuses our certificate");
    assert_eq!(*get(&heard[2], "SourceName"), text("Security/Certificate"));
    let own = Variant::ByteString(ByteString::from(SERVER_IDENTITY.certificate.der().to_vec()));
    assert_eq!((get(&heard[2], "Certificate"), get(&heard[2], "InvalidUri")), (&own, &Variant::Empty));
    // Another port of a host that the certificate names is another URL, and no fault of the certificate.
    audit.world.try_create(conn, |request| request.endpoint_url = format!("opc.tcp://{HOST}:1").into()).unwrap();
    let heard = audit.heard();
    assert_eq!(heard.iter().map(kind).collect::<Vec<_>>(), [2071, 2748]);
}

#[test]
fn a_write_is_told_when_its_record_is_kept_and_not_before() {
    let mut audit = Audit::new();
    let (conn, login) = audit.world.log_in(ENCRYPT, "alice");
    audit.heard();
    audit.world.ledger = None;
    let request = audit.world.write_request(&login, vec![(id("Setpoint"), Variant::from(60.0))]);
    audit.world.send(conn, &request);
    assert_eq!(audit.heard(), Vec::<Heard>::new());
    let waits = audit.world.held_audits.remove(0);
    audit.world.input(Input::Audited { id: waits, result: Audited::Kept });
    assert_eq!(*get(&audit.one(2100), "Status"), true.into());
    audit.world.send(conn, &request);
    let waits = audit.world.held_audits.remove(0);
    audit.world.input(Input::Audited { id: waits, result: Audited::Unavailable });
    assert_eq!(audit.heard(), Vec::<Heard>::new(), "what was not written is not told as written");
}

/// The kinds of record that clients are told of, and the type of event.
fn told_as(kind: AuditKind) -> Option<u32> {
    Some(match kind {
        AuditKind::ChannelOpened => 2060,
        AuditKind::ChannelClosed => 2059,
        AuditKind::SessionCreated => 2071,
        AuditKind::SessionActivated | AuditKind::TokenRefreshed => 2075,
        AuditKind::SessionClosed => 2069,
        AuditKind::Cancelled => 2078,
        AuditKind::Write => 2100,
        AuditKind::Call => 2127,
        _ => return None,
    })
}

#[test]
fn events_and_records_tell_the_same_story() {
    let mut audit = Audit::new();
    let world = &mut audit.world;
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for value in [30.0, 1e9, 40.0] {
        world.write(conn, &login, vec![(id("Setpoint"), value.into()), (id("Speed"), 1_i32.into())]).unwrap();
    }
    for _ in 0..20 {
        world.write(conn, &login, vec![(id("Speed"), 2_i32.into())]).unwrap();
    }
    let calls = vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)]), (id("Unit"), id("Stir"), Vec::new())];
    let request = world.call_request(&login, calls);
    world.send(conn, &request);
    let (call, _) = world.invoked.pop_front().unwrap();
    let answer = Answer { status: StatusCode::BadTimeout, input_results: Vec::new(), outputs: Vec::new() };
    world.input(Input::Answer { id: call, answer });
    let mut other = world.create(conn);
    let wrong = world.user(conn, &other, "alice", "wrong");
    assert!(world.activate(conn, &mut other, wrong).is_err());
    let token = world.token(Duration::from_secs(10));
    let (by_token, mut refreshed) = world.log_in_by_token(&token);
    let again = world.token(Duration::from_secs(20));
    world.activate(by_token, &mut refreshed, clear_token(again.as_bytes())).unwrap();
    world.pass(Duration::from_secs(21));
    assert!(world.write(by_token, &refreshed, vec![(id("Setpoint"), 5.0.into())]).is_err(), "it is over");
    world.connect_as(ENCRYPT, &USER.clone());
    let request = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    let _: CloseSessionResponse = world.ask(conn, &request).unwrap();
    world.input(Input::Disconnected { conn });
    world.pass(Duration::from_secs(2));
    let heard = audit.heard();
    let own = |event: &Heard| (2052..2130).contains(&kind(event)) && !(2080..2090).contains(&kind(event));
    let story = |event: &Heard| {
        let Variant::DateTime(at) = get(event, "ActionTimeStamp") else { panic!("no time") };
        (kind(event), get(event, "Status").clone(), at.ticks())
    };
    let told: Vec<_> = heard.iter().filter(|event| own(event)).map(story).collect();
    let recorded = audit.world.records[audit.before..].iter();
    let recorded: Vec<_> = recorded
        .filter_map(|record| {
            let at = crate::space::date_time(record.at).ticks();
            Some((told_as(record.kind)?, Variant::from(record.outcome == Outcome::Allowed), at))
        })
        .collect();
    assert!(recorded.len() > 20, "{recorded:?}");
    assert_eq!(told, recorded);
}

#[test]
fn while_nobody_listens_nothing_is_made() {
    let mut world = setup(SEES, Some("vault")).start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.write(conn, &login, vec![(id("Setpoint"), Variant::from(60.0))]).unwrap();
    assert!(!world.server.audit.heard());
    assert_eq!(world.server.events.next_id()[8..], 1_u64.to_be_bytes(), "not one event was made");
}

#[test]
fn the_server_says_that_it_audits() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let node = ReadValueId { node_id: NodeId::new(0, 2994), attribute_id: 13, ..ReadValueId::default() };
    let read = ReadRequest {
        request_header: world.header(&login.token),
        nodes_to_read: Some(vec![node]),
        ..ReadRequest::default()
    };
    let response: ReadResponse = world.ask(conn, &read).unwrap();
    assert_eq!(response.results.unwrap()[0].value, Some(true.into()));
}
