//! Clients that cannot carry a token sign in at a guard with the certificate of a user: the guard sees that the key was
//! used, and the authority says whose the certificate is and what that person may do.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use client::{Client, Login};
use gates::pki::PkiStore;
use opcua_types::StatusCode;
use ua_proto::pki::{OwnIdentity, TrustSettings};

use super::guard::{Guarded, becomes, records, refused, speed};
use super::guides::peers;
use super::up::{Up, until};

/// The guard of [`Guarded`], where olga has a certificate, and so has somebody whom the authority does not know.
fn plant() -> Guarded {
    let plant = Guarded::new("sign_in = [\"x509\"]", "");
    for name in ["olga", "stranger"] {
        plant.scene.json(&["certs", "add", name, &format!("urn:{name}")]);
    }
    assert_eq!(plant.scene.json(&["user", "certify", "olga", "pki/olga/own/certs/own.der"])["name"], "olga");
    plant
}

fn identity(plant: &Guarded, name: &str) -> OwnIdentity {
    PkiStore::new(plant.scene.path(&format!("pki/{name}")), TrustSettings::default()).identity().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authority_knows_whose_certificate_signs_in_at_the_guard() {
    let plant = plant();
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let up = Up::start(&plant.scene, 4);
    let with = |own: OwnIdentity| plant.options("pki/hmi", Login::Certificate(Arc::new(own)));
    let client = Client::connect(with(identity(&plant, "olga"))).await.unwrap();
    becomes("the guard has found the old server", &client, 12.5, StatusCode::BadUserAccessDenied).await;
    plant.step();
    becomes("her rights come with the step", &client, 12.5, StatusCode::Good).await;

    let of_nobody = Client::connect(with(identity(&plant, "stranger"))).await;
    assert!(of_nobody.is_err(), "it is nobody's");
    let mut without_key = identity(&plant, "stranger");
    without_key.certificate = identity(&plant, "olga").certificate;
    let stolen = Client::connect(with(without_key)).await;
    assert!(stolen.is_err(), "who has seen a certificate does not have its key");

    let node = speed(&client).await;
    plant.scene.json(&["user", "disable", "olga"]);
    refused("who is disabled is out, and the running session with her", &client, node).await;
    assert!(Client::connect(with(identity(&plant, "olga"))).await.is_err());
    client.close().await;
    up.stop();
    old.stop();
    let records = records(&plant.scene);
    let has = |kind: &str, outcome: &str, what: &str| {
        records.iter().any(|one| one["kind"] == kind && one["outcome"] == outcome && one.to_string().contains(what))
    };
    assert!(has("session_activated", "allowed", "olga"), "{records:#?}");
    assert!(has("token_issued", "allowed", "by guest") && has("write", "allowed", "12.5"));
    assert!(has("session_activated", "denied", "user_credentials"), "the authority was asked of the stranger");
    assert!(has("session_activated", "denied", "signature"), "and of nobody whose key was not there: {records:#?}");
}

/// A server of somebody else, in place of the old mixer, behind the guard.
fn foreign(plant: &Guarded) -> Option<(Up, PathBuf)> {
    let program = peers("bin/open62541-server")?;
    let certs = program.ancestors().nth(2)?.join("certs");
    let file = |name: &str| certs.join(name).display().to_string();
    let port = testkit::ports::free();
    let mut child = Command::new(&program)
        .args(["--port", &port.to_string(), "--user", "operator:secret", "--trust", &file("trapkey.der")])
        .args(["--cert", &file("open62541-server.der"), "--key", &file("open62541-server.key.pem")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).next();
    let server = Up(child);
    assert!(said.as_ref().is_some_and(|said| said.contains("listening")), "{said:?}");
    let config = plant.scene.read("trapkey.toml");
    plant.scene.write("trapkey.toml", &config.replace(&plant.old, &format!("opc.tcp://127.0.0.1:{port}")));
    let (line, setpoint) = ("nsu=urn:trapkey:interop;s=Line", "nsu=urn:trapkey:interop;s=Line.Setpoint");
    let file = plant.scene.read("plant.toml");
    let (rest, gate) = file.split_at(file.find("name = \"gate\"").unwrap());
    let gate = gate
        .replace("\"/Objects/1:Mixer\"", &format!("\"{line}\""))
        .replace("\"nsu=urn:trapkey:demo:mixer;s=Mixer.Setpoints.Speed\"", &format!("\"{setpoint}\""));
    plant.scene.write("plant.toml", &(rest.to_owned() + &gate));
    Some((server, certs))
}

/// Every stack that is there, as olga: it reads and follows changes, and writes in the step in which she may.
#[test]
fn stacks_of_other_people_sign_in_with_a_users_certificate() {
    let plant = plant();
    let Some((_server, certs)) = foreign(&plant) else { return };
    let stacks =
        ["asyncua", "node-opcua", "milo", "open62541"].map(|name| (name, peers(&format!("bin/{name}-client"))));
    for (name, _) in &stacks {
        let to = plant.scene.path(&format!("pki/gate/trusted/certs/{name}.der"));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(certs.join(format!("{name}.der")), to).unwrap();
    }
    let up = Up::start(&plant.scene, 4);
    let guard = plant.scene.path("pki/gate/own/certs/own.der").display().to_string();
    // Milo and open62541 trust no certificate whose issuer they do not have.
    let issued = format!("{guard},{}", plant.scene.path("pki/ca/ca.der").display());
    let take = |name: &str, program: &PathBuf, user: &str, steps: &str| -> Vec<serde_json::Value> {
        let own = |file: &str| plant.scene.path(&format!("pki/{user}/own/{file}")).display().to_string();
        let trusted = if matches!(name, "milo" | "open62541") { &issued } else { &guard };
        let done = Command::new(program)
            .args(["--url", &plant.url, "--policy", "Basic256Sha256", "--mode", "SignAndEncrypt"])
            .args(["--x509", &format!("{},{}", own("certs/own.der"), own("private/own.pem"))])
            .arg("--cert")
            .arg(certs.join(format!("{name}.der")))
            .arg("--key")
            .arg(certs.join(format!("{name}.key.pem")))
            .args(["--trust", trusted, "--steps", steps])
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let went = |report: &[serde_json::Value]| report.iter().map(|step| step["ok"] == true).collect::<Vec<_>>();
    let mut first = true;
    for (name, program) in &stacks {
        let Some(program) = program else { continue };
        if first {
            until("the guard has found the server", || went(&take(name, program, "olga", "connect")) == [true]);
            let early = take(name, program, "olga", "connect,read,write");
            assert_eq!(went(&early), [true, true, false], "{name}: she changes nothing in this step: {early:#?}");
            plant.step();
            until("the step gives her the setpoint", || {
                went(&take(name, program, "olga", "connect,write")) == [true, true]
            });
            first = false;
        }
        let report = take(name, program, "olga", "connect,browse,read,write,subscribe,reconnect");
        assert_eq!(went(&report), [true; 6], "{name}: {report:#?}");
        let stranger = take(name, program, "stranger", "connect,read");
        assert_eq!(went(&stranger), [false], "{name}: {stranger:#?}");
    }
    up.stop();
}
