//! The end of a program that clients use, and their return.

use std::process::{Command, Stdio};
use std::time::Duration;

use client::{Client, Login, Watch, WatchOptions};
use opcua_types::{MessageSecurityMode, NodeId, Variant};
use ua_proto::crypto::SecurityPolicyId;

use super::guard::{Guarded, speed, user};
use super::health::Health;
use super::lost::becomes;
use super::up::{Up, until};

const STATE: u32 = 2259;
const SECONDS: u32 = 2992;
const LEVEL: u32 = 2267;
const RETURN: u32 = 12_885;

/// A guard with health, and so long to drain.
fn plant(sign_in: &str, more: &str, drain: &str) -> (Guarded, Health) {
    let plant = Guarded::new(sign_in, more);
    let config = plant.scene.read("trapkey.toml");
    let known = "drain = \"0s\"";
    assert!(config.contains(known));
    plant.scene.write("trapkey.toml", &config.replacen(known, &format!("drain = \"{drain}\""), 1));
    let health = Health::of(&plant.scene, "trapkey.toml");
    (plant, health)
}

async fn of_server(client: &Client, id: u32) -> Option<Variant> {
    client.read(&[NodeId::new(0, id)]).await.ok()?.remove(0).value
}

/// The next value that is told.
async fn told(watch: &mut Watch) -> Option<Variant> {
    let next = tokio::time::timeout(Duration::from_secs(60), watch.next()).await;
    next.expect("something is told").expect("the client is there").value.value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_drains_tells_its_clients_and_ends_when_they_have_left() {
    let (plant, health) = plant("sign_in = [\"user_name\"]", "", "10m");
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let mut up = Up::start(&plant.scene, 5);
    health.wait(200);
    let olga = || user("olga", "olgas password");
    let client = Client::connect(plant.options("pki/hmi", olga())).await.unwrap();
    let node = speed(&client).await;
    assert_eq!(of_server(&client, STATE).await, Some(Variant::Int32(0)));
    let mut level = client.watch(&[NodeId::new(0, LEVEL)], WatchOptions::default()).await.unwrap();
    assert_eq!(told(&mut level).await, Some(Variant::Byte(255)), "all is well");
    let mut drain = Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .arg("drain")
        .current_dir(plant.scene.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("it drains", || health.ready().1["state"] == "draining");
    assert_eq!((health.ready().0, health.ask("GET /livez").0), (503, 200));
    assert_eq!(health.metrics().get("trapkey_state", &[("state", "draining")]), 1.0);
    assert_eq!(of_server(&client, STATE).await, Some(Variant::Int32(4)), "ServerState Shutdown");
    let Some(Variant::UInt32(seconds)) = of_server(&client, SECONDS).await else { panic!("no SecondsTillShutdown") };
    assert!((1..=600).contains(&seconds), "{seconds}");
    assert_eq!(told(&mut level).await, Some(Variant::Byte(0)), "who monitors ServiceLevel hears of the maintenance");
    assert!(matches!(of_server(&client, RETURN).await, Some(Variant::DateTime(_))), "EstimatedReturnTime");
    assert!(client.read(&[node]).await.unwrap()[0].status().is_good(), "who is there goes on");
    assert!(Client::connect(plant.options("pki/hmi", olga())).await.is_err(), "nobody new comes in");
    assert!(drain.try_wait().unwrap().is_none() && up.0.try_wait().unwrap().is_none(), "it waits");
    client.close().await;
    assert!(drain.wait().unwrap().success());
    assert!(up.0.wait().unwrap().success());
    assert!(plant.scene.read("up.log").contains("every client has left"));
    let report = plant.scene.json(&["audit", "verify"]);
    assert_eq!((&report["intact"], &report["unsigned"]), (&true.into(), &0.into()), "{report:#}");
    let none = plant.scene.run(&["drain"]);
    assert!(none.starts_with("exit 3") && none.contains("no program"), "{none}");
    old.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_drains_is_offline_at_the_discovery_server_while_its_clients_go_on() {
    let (plant, health) = plant("sign_in = [\"user_name\"]", "", "10m");
    let (known, with) = ("discovery_server = false", "discovery_server = true");
    plant.scene.write("old.toml", &plant.scene.read("old.toml").replacen(known, with, 1));
    let with = format!("register_with = [\"{}\"]", plant.old);
    plant.scene.write("trapkey.toml", &plant.scene.read("trapkey.toml").replacen("register_with = []", &with, 1));
    let url = plant.old.clone();
    let listed = async || {
        let all = client::servers(&url, Duration::from_secs(20)).await.expect("the discovery server answers");
        all.iter().any(|server| server.application_uri.as_ref() == "urn:trapkey:demo:gate")
    };
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    assert!(!listed().await, "nobody has registered yet");
    let mut up = Up::start(&plant.scene, 4);
    health.wait(200);
    becomes("the guard is listed", &listed).await;
    let client = Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await.unwrap();
    let node = speed(&client).await;
    assert!(Command::new("kill").args(["-TERM", &up.0.id().to_string()]).status().unwrap().success());
    until("it drains", || health.ready().1["state"] == "draining");
    becomes("it is listed no more", async || !listed().await).await;
    assert!(client.read(&[node]).await.unwrap()[0].status().is_good(), "who is there goes on");
    assert!(up.0.try_wait().unwrap().is_none(), "it was taken off before the end");
    client.close().await;
    assert!(up.0.wait().unwrap().success());
    old.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_signal_ends_at_once_and_a_time_that_is_over_too() {
    for (drain, why) in [("10m", "asked to end at once"), ("1s", "their clients did not leave")] {
        let (plant, health) = plant("sign_in = [\"user_name\"]", "", drain);
        let old = Up::start_with(&plant.scene, "old.toml", 1);
        let mut up = Up::start(&plant.scene, 5);
        health.wait(200);
        let _stays = Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await.unwrap();
        let terminate = |up: &Up| {
            let pid = up.0.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        };
        terminate(&up);
        if drain == "10m" {
            until("it drains", || health.ready().1["state"] == "draining");
            terminate(&up);
        }
        assert!(up.0.wait().unwrap().success());
        let log = plant.scene.read("up.log");
        assert!(log.contains(why) && log.contains("sessions=1"), "{log}");
        assert_eq!(plant.scene.json(&["audit", "verify"])["intact"], true);
        old.stop();
    }
}

/// So many clients without security at `url`, each with a session.
async fn connected(plant: &Guarded, url: &str, clients: usize) -> Vec<Client> {
    let options = || {
        let mut options = plant.options("pki/hmi", Login::Anonymous);
        options.url = url.to_owned();
        (options.policies, options.modes) = (vec![SecurityPolicyId::None], vec![MessageSecurityMode::None]);
        (options.identity, options.trust) = (None, None);
        options.request_timeout = Duration::from_secs(120);
        options
    };
    let mut there = Vec::new();
    while there.len() < clients {
        let mut connecting = tokio::task::JoinSet::new();
        (there.len()..clients).take(20).for_each(|_| drop(connecting.spawn(Client::connect(options()))));
        there.extend(connecting.join_all().await.into_iter().map(Result::unwrap));
    }
    there
}

fn end(mut up: Up) {
    let pid = up.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(up.0.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_restarted_and_all_of_500_clients_come_back() {
    let (plant, _) = plant("", "", "1s");
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let clients = connected(&plant, &plant.old, 500).await;
    let node = speed(&clients[0]).await;
    end(old);
    assert!(plant.scene.read("old.toml.log").contains("sessions=500"), "{}", plant.scene.read("old.toml.log"));
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    all_read(&clients, &node).await;
    drop(clients);
    old.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_is_restarted_and_all_of_500_clients_come_back_through_the_authority() {
    let more = "danger_without_security = true\nidentities = [\"anonymous\"]\n";
    let (plant, health) = plant("sign_in = [\"anonymous\"]", more, "1s");
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let up = Up::start(&plant.scene, 5);
    health.wait(200);
    let clients = connected(&plant, &plant.url, 500).await;
    let node = speed(&clients[0]).await;
    assert!(health.metrics().get("trapkey_sessions", &[("listener", "gate")]) >= 500.0);
    end(up);
    let up = Up::start(&plant.scene, 5);
    all_read(&clients, &node).await;
    let labels = [("listener", "gate"), ("stage", "authority")];
    assert!(health.metrics().get("trapkey_session_setup_seconds_count", &labels) >= 500.0);
    drop(clients);
    up.stop();
    old.stop();
}

/// Waits until each of them has read a value.
async fn all_read(clients: &[Client], node: &NodeId) {
    let mut left: Vec<&Client> = clients.iter().collect();
    for _ in 0..1_200 {
        let mut still = Vec::new();
        for client in left {
            let read = tokio::time::timeout(Duration::from_secs(5), client.read(std::slice::from_ref(node))).await;
            match read {
                Ok(Ok(values)) if values[0].status().is_good() => {}
                _ => still.push(client),
            }
            if still.len() > 10 && still.len().is_multiple_of(10) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        left = still;
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let said = left[0].read(std::slice::from_ref(node)).await;
    panic!("{} clients did not come back; one hears {said:?}", left.len());
}

#[test]
fn nothing_to_drain_is_told() {
    let (plant, _) = plant("", "", "1s");
    assert!(plant.scene.run(&["drain"]).starts_with("exit 3"));
    // A number that a killed program has left behind is nobody's.
    std::fs::create_dir_all(plant.scene.path("var")).unwrap();
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    plant.scene.write("var/ledger.pid", &bystander.id().to_string());
    assert!(plant.scene.run(&["drain"]).starts_with("exit 3"));
    assert!(bystander.try_wait().unwrap().is_none(), "it goes on");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
