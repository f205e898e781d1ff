//! Keys of the configuration, and what clients notice of them.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use opcua_types::{EndpointDescription, MessageSecurityMode};

use super::Scene;
use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";
const TEMPERATURE: &str = "ns=1;s=Reactor.Measurements.Temperature";

/// Adds keys to the server of this name.
pub(super) fn give(scene: &Scene, server: &str, keys: &str) {
    let config = scene.read("trapkey.toml");
    let name = format!("\nname = \"{server}\"\n");
    assert!(config.contains(&name), "{server}");
    scene.write("trapkey.toml", &config.replacen(&name, &format!("{name}{keys}"), 1));
}

/// Replaces a key that the template has.
fn set(scene: &Scene, from: &str, to: &str) {
    let config = scene.read("trapkey.toml");
    let (before, servers) = config.split_at(config.find("\n[[server]]").unwrap());
    assert!(servers.contains(from), "{from}");
    scene.write("trapkey.toml", &format!("{before}{}", servers.replacen(from, to, 1)));
}

pub(super) fn endpoints(url: &str) -> Vec<EndpointDescription> {
    let ask = async { client::endpoints(url, Duration::from_secs(60)).await };
    tokio::runtime::Runtime::new().unwrap().block_on(ask).unwrap()
}

fn ids(endpoint: &EndpointDescription) -> Vec<&str> {
    endpoint.user_identity_tokens.iter().flatten().map(|policy| policy.policy_id.as_ref()).collect()
}

#[test]
fn policies_identities_and_forms_are_those_that_are_configured() {
    let (scene, ports) = scene();
    for (name, curves) in [
        ("mixer", &["--curve", "p256", "--curve", "ed25519"][..]),
        ("authority", &["--curve", "p256"]),
        ("hmi", &["--curve", "p256"]),
    ] {
        scene.json(&[&["certs", "renew", name], curves].concat());
    }
    let config = scene.read("trapkey.toml");
    scene.write("trapkey.toml", &config.replacen("\npolicies = [", "\npolicies = [\"ECC_nistP256\", ", 1));
    set(
        &scene,
        "policies = [\"Aes256_Sha256_RsaPss\", \"Aes128_Sha256_RsaOaep\", \"Basic256Sha256\"]",
        "policies = [\"ECC_nistP256\", \"ECC_curve25519\"]",
    );
    set(&scene, "modes = [\"sign_and_encrypt\"]", "modes = [\"sign\", \"sign_and_encrypt\"]");
    set(&scene, "[\"clear\", \"encrypted_secret\", \"legacy_rsa\"]", "[\"encrypted_secret\"]");
    set(&scene, "# [server.limits]", "[server.limits]\nnodes_per_read = 2");
    let anonymous = "anonymous = [{ rights = [\"browse\", \"read\"], scopes = [\"measurements\"] }]\n";
    give(&scene, "reactor", &format!("danger_without_security = true\nidentities = [\"anonymous\"]\n{anonymous}"));
    assert!(scene.run(&["config", "check"]).starts_with("exit 0"), "{}", scene.run(&["config", "check"]));
    let up = Up::start(&scene, 4);

    let mixer = format!("opc.tcp://127.0.0.1:{}", ports[2]);
    let offered = endpoints(&mixer);
    let encrypt = |one: &&EndpointDescription| one.security_mode == MessageSecurityMode::SignAndEncrypt;
    assert_eq!((offered.len(), offered.iter().filter(encrypt).count()), (4, 2), "{offered:?}");
    for endpoint in &offered {
        let policy = endpoint.security_policy_uri.as_ref().rsplit('#').next().unwrap();
        assert!(["ECC_nistP256", "ECC_curve25519"].contains(&policy), "{policy}");
        assert_eq!(ids(endpoint), [format!("jwt_{policy}")], "one form, and persons of its own has it none");
    }
    let olga = Olga { scene: &scene, url: mixer };
    let read = olga.client("read", &[SPEED]);
    assert!(read.starts_with("exit 0"), "over an elliptic curve: {read}");
    let level = "ns=1;s=Mixer.Measurements.Level";
    let many = olga.client("read", &[SPEED, level, SPEED]);
    assert!(many.contains("BadTooManyOperations"), "{many}");

    let reactor = format!("opc.tcp://127.0.0.1:{}", ports[3]);
    let offered = endpoints(&reactor);
    assert_eq!(offered.len(), 4, "three policies and none: {offered:?}");
    assert!(offered.iter().all(|one| ids(one) == ["anonymous"]), "{offered:?}");
    let bare = |rest: &[&str]| scene.run(&[&["client"], rest, &["--danger-without-security", "--anonymous"]].concat());
    let seen = bare(&["read", &reactor, TEMPERATURE]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let hidden = bare(&["read", &reactor, "ns=1;s=Reactor.Temperature.Setpoint"]);
    assert!(hidden.contains("BadNodeIdUnknown"), "{hidden}");
    let nobody =
        scene.run(&["client", "read", &reactor, "--pki", "pki/hmi", "--user", "olga", "--to-server", TEMPERATURE]);
    assert!(!nobody.starts_with("exit 0"), "{nobody}");
    let mixed = bare(&["read", &olga.url, SPEED]);
    assert!(!mixed.starts_with("exit 0"), "the mixer wants security: {mixed}");
    up.stop();
}

#[test]
fn a_policy_without_a_certificate_for_it_is_told() {
    let (scene, _) = scene();
    set(&scene, "policies = [", "policies = [\"ECC_nistP256\", ");
    let said = scene.run(&["up"]);
    assert!(said.starts_with("exit 2") && said.contains("own-p256.der") && said.contains("--curve p256"), "{said}");
}

#[test]
fn clients_are_told_the_host_they_dialled_and_no_address_has_every_place() {
    let (scene, ports) = scene();
    let port = ports[4];
    let config = scene.read("trapkey.toml");
    scene.write("trapkey.toml", &config.replace(&format!("\"127.0.0.1:{port}\""), &format!("\"0.0.0.0:{port}\"")));
    let limits = "limits = { connections_per_address = 2, hello_timeout = \"10m\", half_open_time = \"10m\" }\n";
    give(&scene, "filler", &format!("url = \"opc.tcp://filler.plant.test:{port}\"\nnames = [\"127.0.0.3\"]\n{limits}"));
    let (mixer, quiet) = (ports[2], ports[3]);
    let config = scene.read("trapkey.toml").replace(&format!("\"127.0.0.1:{mixer}\""), &format!("\"0.0.0.0:{mixer}\""));
    scene.write("trapkey.toml", &config);
    let up = Up::start(&scene, 4);
    for (dialled, told) in [
        (format!("opc.tcp://127.0.0.1:{port}"), format!("opc.tcp://127.0.0.1:{port}")),
        (format!("opc.tcp://localhost:{port}"), format!("opc.tcp://localhost:{port}")),
        (format!("opc.tcp://127.0.0.3:{port}"), format!("opc.tcp://127.0.0.3:{port}")),
        (format!("opc.tcp://127.0.0.2:{port}"), format!("opc.tcp://filler.plant.test:{port}")),
        (format!("opc.tcp://127.0.0.2:{mixer}"), format!("opc.tcp://localhost:{mixer}")),
        (format!("opc.tcp://localhost:{quiet}"), format!("opc.tcp://localhost:{quiet}")),
    ] {
        let urls: Vec<String> = endpoints(&dialled).iter().map(|one| one.endpoint_url.to_string()).collect();
        assert!(!urls.is_empty() && urls.iter().all(|url| *url == told), "{dialled}: {urls:?}");
    }
    let connect = || TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    let mut first = connect();
    let (_second, _third) = (connect(), connect());
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut heard = Vec::new();
    first.read_to_end(&mut heard).unwrap();
    assert!(heard.starts_with(b"ERR"), "the oldest made room: {heard:?}");
    up.stop();
}

#[test]
fn what_is_logged_is_what_the_filter_says() {
    let (scene, _) = scene();
    let config = scene.read("trapkey.toml");
    for (filter, silent) in [("debug", false), ("off", true)] {
        assert!(config.contains("filter = \"info\""));
        scene.write("trapkey.toml", &config.replace("filter = \"info\"", &format!("filter = \"{filter}\"")));
        Up::start(&scene, 4).stop();
        assert_eq!(scene.read("up.log").is_empty(), silent, "{filter}: {}", scene.read("up.log"));
    }
}

#[test]
fn a_session_ends_with_its_token_where_it_has_no_grace() {
    let (scene, ports) = scene();
    set(&scene, "expiry_grace = \"1m\"", "expiry_grace = \"0s\"");
    let up = Up::start(&scene, 4);
    let url = format!("opc.tcp://127.0.0.1:{}", ports[2]);
    let asked = ["token", "issue", "--application", "urn:trapkey:demo:hmi", "--person", "olga", "--audience"];
    let issued = scene.json(&[&asked[..], &["urn:trapkey:demo:mixer"]].concat());
    scene.write("token", issued["access_token"].as_str().unwrap());
    let log = std::fs::File::create(scene.path("watch.log")).unwrap();
    let watching = std::process::Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(["client", "watch", &url, "--pki", "pki/hmi", "--token", "token", SPEED])
        .env("TRAPKEY_LOG", "off")
        .current_dir(scene.folder.path())
        .stdout(log)
        .stderr(std::process::Stdio::null())
        .spawn();
    let _watching = Up(watching.unwrap());
    until("it sees a value", || scene.read("watch.log").contains(SPEED));
    scene.json(&["token", "revoke", issued["id"].as_str().unwrap()]);
    // With the grace of the template, the session would be there for a minute.
    until("the session is closed", || {
        let records = scene.json(&["audit", "tail", "-n", "1000"]);
        let closed = |one: &serde_json::Value| {
            one["kind"] == "session_closed" && one["detail"] == "its grant ended and no new token came"
        };
        records.as_array().unwrap().iter().any(closed)
    });
    up.stop();
}

#[test]
fn a_certificate_of_unknown_standing_comes_in_only_where_that_is_configured() {
    let (scene, ports) = scene();
    let rights = "identities = [\"anonymous\"]\nanonymous = [{ rights = [\"browse\", \"read\"] }]\n";
    give(&scene, "reactor", &format!("missing_crl = \"accept\"\n{rights}"));
    give(&scene, "filler", rights);
    for name in ["reactor", "filler"] {
        std::fs::remove_file(scene.path("pki").join(name).join("trusted/crl/ca.crl")).unwrap();
    }
    let up = Up::start(&scene, 4);
    let browse = |port: u16| {
        let url = format!("opc.tcp://127.0.0.1:{port}");
        scene.run(&["client", "browse", &url, "--pki", "pki/hmi", "--anonymous"])
    };
    let accepted = browse(ports[3]);
    assert!(accepted.starts_with("exit 0"), "{accepted}");
    let refused = browse(ports[4]);
    assert!(!refused.starts_with("exit 0"), "{refused}");
    until("the ledger says why", || {
        scene.run(&["audit", "tail", "-n", "1000", "--output", "json"]).contains("certificate_revocation_unknown")
    });
    up.stop();
}
