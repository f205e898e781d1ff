//! Authority and servers as programs of their own, one of which is killed; and a server that lets persons in by itself.

use std::sync::Arc;

use arc_swap::ArcSwap;
use client::{Client, ClientApplication, ClientOptions, Login};
use gates::pki::PkiStore;
use opcua_types::MessageSecurityMode;
use ua_proto::pki::TrustSettings;

use super::Scene;
use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";
const RATE: &str = "ns=1;s=Filler.Setpoints.Rate";

/// Cuts the configuration into one for each program: the authority, the mixer, the filler.
pub(super) fn apart(scene: &Scene) {
    let whole = scene.read("trapkey.toml");
    let (common, roles) = whole.split_once("\n[authority]").unwrap();
    let mut roles = roles.split("\n[[server]]");
    let authority = roles.next().unwrap();
    let servers: Vec<&str> = roles.collect();
    for (name, role) in [
        ("authority", format!("\n[authority]{authority}")),
        ("mixer", format!("\n[[server]]{}", servers[0])),
        ("filler", format!("\n[[server]]{}", servers[2])),
    ] {
        // Each has a ledger of its own.
        let common = common.replace("var/ledger", &format!("var/{name}-ledger"));
        let common = common.replace("var/audit.pem", &format!("var/{name}-audit.pem"));
        scene.write(&format!("{name}.toml"), &format!("{common}{role}"));
    }
}

#[test]
fn three_programs_are_one_plant_and_a_killed_server_learns_what_was_revoked_before_it_serves() {
    let (scene, ports) = scene();
    apart(&scene);
    let start = |name: &str| Up::start_with(&scene, &format!("{name}.toml"), 1);
    let (authority, mixer, filler) = (start("authority"), start("mixer"), start("filler"));
    let at = |port: u16| Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{port}") };
    let (olga, olga_fills) = (at(ports[2]), at(ports[4]));

    until("the mixer is in step with its authority", || olga.client("read", &[SPEED]).starts_with("exit 0"));
    until("and the filler", || olga_fills.client("read", &[RATE]).starts_with("exit 0"));
    assert!(olga.client("write", &[SPEED, "12.5"]).contains("BadUserAccessDenied"));
    let next = || scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
    scene.json(&["step", &next()]);
    let written = olga.client("write", &[SPEED, "12.5"]);
    assert!(written.starts_with("exit 0"), "{written}");
    scene.json(&["step", &next()]);
    assert!(olga.client("write", &[SPEED, "12.5"]).contains("BadUserAccessDenied"), "the step is over");

    // A token for each server; its revocation reaches the server that it is for.
    let issue = |server: &str| {
        let audience = format!("urn:trapkey:demo:{server}");
        let asked = ["token", "issue", "--application", "urn:trapkey:demo:hmi", "--person", "olga", "--audience"];
        let issued = scene.json(&[&asked[..], &[&audience]].concat());
        scene.write(&format!("{server}.token"), issued["access_token"].as_str().unwrap());
        issued["id"].as_str().unwrap().to_owned()
    };
    let by_token = |olga: &Olga<'_>, server: &str, node: &str| {
        let token = format!("{server}.token");
        scene.run(&["client", "read", &olga.url, "--pki", "pki/hmi", "--token", &token, node])
    };
    let (one, two) = (issue("mixer"), issue("filler"));
    assert!(by_token(&olga, "mixer", SPEED).starts_with("exit 0"));
    assert!(by_token(&olga_fills, "filler", RATE).starts_with("exit 0"));
    let revoke = |id: &str| {
        until("it is revoked", || {
            let said = scene.json_or_error(&["token", "revoke", id]);
            let trouble = &said["error"]["kind"];
            assert!(trouble.is_null() || trouble == "unavailable", "{said:#}");
            said["revoked"] == true
        });
    };
    revoke(&one);
    until("the mixer knows", || by_token(&olga, "mixer", SPEED).starts_with("exit 1"));
    assert!(by_token(&olga_fills, "filler", RATE).starts_with("exit 0"), "the other token is good");

    // Dropped is killed: no farewell, no last words.
    drop(filler);
    revoke(&two);
    let filler = start("filler");
    let mut answers = Vec::new();
    until("the filler serves again", || {
        answers.push(by_token(&olga_fills, "filler", RATE));
        olga_fills.client("read", &[RATE]).starts_with("exit 0")
    });
    answers.push(by_token(&olga_fills, "filler", RATE));
    assert!(answers.iter().all(|answer| !answer.starts_with("exit 0")), "it took the revoked token: {answers:?}");
    assert!(answers.last().unwrap().starts_with("exit 1"), "{answers:?}");

    mixer.stop();
    filler.stop();
    authority.stop();
    for name in ["authority", "mixer", "filler"] {
        let report = scene.json(&["audit", "verify", "--config", &format!("{name}.toml")]);
        assert_eq!(report["intact"], true, "{name}: {report:#}");
    }
    let filled = scene.run(&["audit", "tail", "-n", "1000", "--config", "filler.toml"]);
    assert!(filled.contains("token_revoked"), "{filled}");
}

/// What `trapkey user hash` says about a password.
fn hash(scene: &Scene, password: &str) -> String {
    scene.write("input", password);
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(["user", "hash"])
        .stdin(std::fs::File::open(scene.path("input")).unwrap())
        .output()
        .unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn persons_of_its_own_come_in_while_there_is_no_authority() {
    let (scene, ports) = scene();
    apart(&scene);
    scene.json(&["certs", "add", "victor", "urn:victor"]);
    let hash = hash(&scene, "victors password\n");
    let mixer = scene.read("mixer.toml").replace("[\"sign_and_encrypt\"]", "[\"sign_and_encrypt\", \"sign\"]");
    let local = |name: &str, scope: &str| {
        format!(
            "{mixer}\n[[server.user]]\nname = \"{name}\"\npassword = \"{hash}\"\n\
             certificate = \"pki/victor/own/certs/own.der\"\n\
             [[server.local]]\nrole = \"vendor\"\nrights = [\"browse\", \"read\"]\nscopes = [\"{scope}\"]\n"
        )
    };
    for (name, scope, why) in
        [("viktor", "measurements", "did you mean `victor`?"), ("victor", "measures", "no scope of this server")]
    {
        scene.write("mixer.toml", &local(name, scope));
        let said = scene.run(&["config", "check", "--config", "mixer.toml"]);
        assert!(said.starts_with("exit 2") && said.contains(why), "{said}");
    }
    scene.write("mixer.toml", &local("victor", "measurements"));
    let up = Up::start_with(&scene, "mixer.toml", 1);
    let url = format!("opc.tcp://127.0.0.1:{}", ports[2]);
    let victor = |verb: &str, rest: &[&str], password: &str| {
        let login = ["client", verb, &url, "--pki", "pki/hmi", "--user", "victor", "--to-server"];
        scene.run_with(&[&login[..], rest].concat(), &[("TRAPKEY_PASSWORD", password)])
    };
    let level = "ns=1;s=Mixer.Measurements.Level";
    let read = victor("read", &[level], "victors password");
    assert!(read.starts_with("exit 0"), "{read}");
    assert!(victor("read", &[level], "guessed").starts_with("exit 1"));
    let written = victor("write", &[level, "1"], "victors password");
    assert!(written.starts_with("exit 1") && written.contains("BadUserAccessDenied"), "{written}");
    assert!(victor("read", &[SPEED], "victors password").contains("BadNodeIdUnknown"), "what is not his is hidden");
    let own = |part: &str| scene.path("pki/victor/own").join(part).display().to_string();
    let shown = |key: &str| {
        let login = ["client", "read", &url, "--pki", "pki/hmi", "--to-server", level];
        let certificate = ["--certificate", &own("certs/own.der"), "--key", key];
        scene.run(&[&login[..], &certificate].concat())
    };
    assert!(shown(&own("private/own.pem")).starts_with("exit 0"), "by user certificate");
    assert!(shown("pki/hmi/own/private/own.pem").starts_with("exit 2"), "with another's key");
    let signed = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(by_certificate(&scene, &url)).await.unwrap();
        let level = client.node_id(level).await.unwrap().unwrap();
        let read = client.read(&[level]).await.unwrap()[0].status();
        client.close().await;
        read
    });
    assert!(signed.is_good(), "by certificate, over a channel that only signs: {signed}");
    up.stop();
}

/// Victor with his certificate, from the hmi's computer, over a channel that does not encrypt.
fn by_certificate(scene: &Scene, url: &str) -> ClientOptions {
    let store = |name: &str| PkiStore::new(scene.path("pki").join(name), TrustSettings::default());
    let uri = "urn:trapkey:demo:hmi".to_owned();
    let application = ClientApplication { uri, product_uri: "urn:test".into(), name: "test".into() };
    let mut options = ClientOptions::new(url, application);
    options.identity = Some(Arc::new(store("hmi").identity().unwrap()));
    options.trust = Some(Arc::new(ArcSwap::from_pointee(store("hmi").load().unwrap())));
    options.modes = vec![MessageSecurityMode::Sign];
    options.login = Login::Certificate(Arc::new(store("victor").identity().unwrap()));
    options
}

#[test]
fn a_url_that_is_no_opc_ua_server_is_a_wrong_argument() {
    for url in ["http://127.0.0.1:4840", "127.0.0.1:4840", "opc.tcp://127.0.0.1:port"] {
        let said = Scene::empty().run(&["client", "read", url, "--danger-without-security", "i=2258"]);
        assert!(said.starts_with("exit 2") && said.contains("opc.tcp://host:port"), "{said}");
    }
}
