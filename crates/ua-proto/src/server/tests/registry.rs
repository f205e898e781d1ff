//! Servers that register here, and who finds them.

use std::time::Duration;

use access_model::{AuditKind, Reason};
use opcua_types::{
    ApplicationType, BuildInfo, DateTime, ExtensionObject, FindServersOnNetworkRequest, FindServersOnNetworkResponse,
    FindServersRequest, FindServersResponse, LocalizedText, MdnsDiscoveryConfiguration, NodeId, RegisterServer2Request,
    RegisterServer2Response, RegisterServerRequest, RegisterServerResponse, RegisteredServer, StatusCode,
};

use super::keys::{CLIENT, SERVER_URI};
use super::world::*;
use crate::server::*;

fn discovering() -> World {
    let mut world = World::new();
    world.server.serve_discovery();
    world
}

fn uri() -> String {
    CLIENT.certificate.application_uri().unwrap().to_owned()
}

fn server(uri: &str) -> RegisteredServer {
    RegisteredServer {
        server_uri: uri.into(),
        product_uri: "urn:product".into(),
        server_names: Some(vec![LocalizedText::new("en", "press")]),
        server_type: ApplicationType::Server,
        gateway_server_uri: Default::default(),
        discovery_urls: Some(vec!["opc.tcp://press:4840".into()]),
        semaphore_file_path: Default::default(),
        is_online: true,
    }
}

fn register(world: &mut World, conn: ConnId, server: RegisteredServer) -> Result<(), StatusCode> {
    let request = RegisterServerRequest { request_header: world.header(&NodeId::null()), server };
    world.ask::<_, RegisterServerResponse>(conn, &request).map(drop)
}

fn register_2(world: &mut World, conn: ConnId, said: Vec<ExtensionObject>) -> Result<Vec<StatusCode>, StatusCode> {
    let request = RegisterServer2Request {
        request_header: world.header(&NodeId::null()),
        server: server(&uri()),
        discovery_configuration: Some(said),
    };
    let answer = world.ask::<_, RegisterServer2Response>(conn, &request)?;
    Ok(answer.configuration_results.unwrap_or_default())
}

fn mdns(name: &str, capabilities: &[&str]) -> ExtensionObject {
    ExtensionObject::from_message(MdnsDiscoveryConfiguration {
        mdns_server_name: name.into(),
        server_capabilities: Some(capabilities.iter().map(|one| (*one).into()).collect()),
    })
}

fn found(world: &mut World, conn: ConnId, uris: &[&str]) -> Vec<String> {
    let request = FindServersRequest {
        request_header: world.header(&NodeId::null()),
        endpoint_url: URL.into(),
        locale_ids: None,
        server_uris: Some(uris.iter().map(|uri| (*uri).into()).collect()),
    };
    let answer: FindServersResponse = world.ask(conn, &request).unwrap();
    answer.servers.unwrap().into_iter().map(|one| one.application_uri.as_ref().to_owned()).collect()
}

/// Time passes; a channel without a session does not outlive it.
fn later(world: &mut World, seconds: u64) -> ConnId {
    world.pass(Duration::from_secs(seconds));
    world.connect(ENCRYPT)
}

/// Names and numbers of the records behind `from`, at most `most`, that have these capabilities.
fn network(
    world: &mut World,
    conn: ConnId,
    (from, most): (u32, u32),
    filter: &[&str],
) -> (DateTime, Vec<(u32, String)>) {
    let request = FindServersOnNetworkRequest {
        request_header: world.header(&NodeId::null()),
        starting_record_id: from,
        max_records_to_return: most,
        server_capability_filter: Some(filter.iter().map(|one| (*one).into()).collect()),
    };
    let answer: FindServersOnNetworkResponse = world.ask(conn, &request).unwrap();
    let records = answer.servers.unwrap().into_iter().map(|one| (one.record_id, one.server_name.as_ref().to_owned()));
    (answer.last_counter_reset_time, records.collect())
}

fn named(records: &[(u32, &str)]) -> Vec<(u32, String)> {
    records.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
}

#[test]
fn no_server_is_a_discovery_server_unasked() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    assert_eq!(register(&mut world, conn, server(&uri())), Err(StatusCode::BadServiceUnsupported));
    assert_eq!(register_2(&mut world, conn, vec![]), Err(StatusCode::BadServiceUnsupported));
    assert_eq!(found(&mut world, conn, &[]), [SERVER_URI]);
    assert_eq!(network(&mut world, conn, (0, 0), &[]).1, named(&[(1, "test")]), "it tells of itself");
}

#[test]
fn what_may_be_registered() {
    let insecure = StatusCode::BadSecurityModeInsufficient;
    let with = |change: &dyn Fn(&mut RegisteredServer)| {
        let mut server = server(&uri());
        change(&mut server);
        server
    };
    let name = |text: &str| Some(vec![LocalizedText::new("", text)]);
    for (rule, security, server, expected) in [
        ("a server with its own certificate", ENCRYPT, server(&uri()), Ok(())),
        ("signed is enough", SIGN, server(&uri()), Ok(())),
        ("nobody without a certificate", BARE, server(&uri()), Err(insecure)),
        ("nobody registers another", ENCRYPT, server("urn:other"), Err(StatusCode::BadServerUriInvalid)),
        ("nobody registers this one", ENCRYPT, server(SERVER_URI), Err(StatusCode::BadServerUriInvalid)),
        ("nobody", ENCRYPT, server(""), Err(StatusCode::BadServerUriInvalid)),
        (
            "a client is no server",
            ENCRYPT,
            with(&|server| server.server_type = ApplicationType::Client),
            Err(StatusCode::BadInvalidArgument),
        ),
        (
            "a server has a name",
            ENCRYPT,
            with(&|server| server.server_names = name("")),
            Err(StatusCode::BadServerNameMissing),
        ),
        (
            "a server is somewhere",
            ENCRYPT,
            with(&|server| server.discovery_urls = None),
            Err(StatusCode::BadDiscoveryUrlMissing),
        ),
        (
            "no file is looked for",
            ENCRYPT,
            with(&|server| server.semaphore_file_path = "/etc/passwd".into()),
            Err(StatusCode::from(0x8052_0000)),
        ),
        (
            "texts are bounded",
            ENCRYPT,
            with(&|server| server.server_names = name(&"n".repeat(1_025))),
            Err(StatusCode::BadInvalidArgument),
        ),
        (
            "lists are bounded",
            ENCRYPT,
            with(&|server| server.discovery_urls = Some(vec!["opc.tcp://press:4840".into(); 17])),
            Err(StatusCode::BadInvalidArgument),
        ),
    ] {
        let mut world = discovering();
        let conn = world.connect(security);
        assert_eq!(register(&mut world, conn, server), expected, "{rule}");
        let seen = found(&mut world, conn, &[]).len();
        assert_eq!(seen, 1 + usize::from(expected.is_ok()), "{rule}");
        if expected == Err(StatusCode::BadServerUriInvalid) {
            assert_eq!(world.last_reason(AuditKind::ConfigurationChanged), Some(Reason::CertificateUri), "{rule}");
        }
    }
}

#[test]
fn a_registration_is_found_until_it_ends_or_is_not_renewed() {
    let mut world = discovering();
    let conn = world.connect(ENCRYPT);
    register(&mut world, conn, server(&uri())).unwrap();
    assert_eq!(found(&mut world, conn, &[]), [SERVER_URI.to_owned(), uri()]);
    assert_eq!(found(&mut world, conn, &[&uri()]), [uri()]);
    assert_eq!(found(&mut world, conn, &["urn:nobody"]), Vec::<String>::new());
    let told = |world: &World| world.outcomes(AuditKind::ConfigurationChanged).len();
    let conn = later(&mut world, 500);
    register(&mut world, conn, server(&uri())).unwrap();
    assert_eq!(told(&world), 1, "a renewal is nothing new");
    let conn = later(&mut world, 500);
    assert_eq!(found(&mut world, conn, &[&uri()]), [uri()], "renewed");
    let conn = later(&mut world, 100);
    assert_eq!(found(&mut world, conn, &[&uri()]), Vec::<String>::new(), "not renewed");
    register(&mut world, conn, server(&uri())).unwrap();
    register(&mut world, conn, RegisteredServer { is_online: false, ..server(&uri()) }).unwrap();
    assert_eq!(found(&mut world, conn, &[&uri()]), Vec::<String>::new(), "it has taken itself off");
}

#[test]
fn records_are_counted_and_filtered() {
    let mut world = discovering();
    let conn = world.connect(ENCRYPT);
    let other = ExtensionObject::from_message(BuildInfo::default());
    let results = register_2(&mut world, conn, vec![mdns("press-1", &["DA", "HD"]), other, mdns("b", &[])]).unwrap();
    let unknown = StatusCode::BadNotSupported;
    assert_eq!(results, [StatusCode::Good, unknown, unknown]);
    let (reset, all) = network(&mut world, conn, (0, 0), &[]);
    assert_eq!(all, named(&[(1, "test"), (2, "press-1")]));
    for (range, filter, expected) in [
        ((1, 0), &[] as &[&str], &[(2_u32, "press-1")] as &[(u32, &str)]),
        ((2, 0), &[], &[]),
        ((0, 1), &[], &[(1, "test")]),
        ((0, 0), &["da"], &[(2, "press-1")]),
        ((0, 0), &["DA", "HD"], &[(2, "press-1")]),
        ((0, 0), &["DA", "AC"], &[]),
        ((0, 0), &["LDS"], &[(1, "test")]),
        ((u32::MAX, 1), &[], &[]),
    ] {
        assert_eq!(network(&mut world, conn, range, filter).1, named(expected), "{range:?} {filter:?}");
    }
    register_2(&mut world, conn, vec![mdns("press-1", &["DA", "HD"])]).unwrap();
    assert_eq!(network(&mut world, conn, (0, 0), &[]).1, all, "the same again is the same record");
    let conn = later(&mut world, 60);
    register_2(&mut world, conn, vec![mdns("press-2", &[])]).unwrap();
    assert_eq!(network(&mut world, conn, (2, 0), &[]), (reset, named(&[(3, "press-2")])), "a change is a new record");
    let bare = world.connect(BARE);
    assert_eq!(network(&mut world, bare, (0, 0), &["NA"]).1, named(&[(3, "press-2")]), "strangers may ask");
}
