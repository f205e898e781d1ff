//! What is left of a guard while its ledger, its server or its authority is lost: as the zone says, with everything that shows
//! it.

use std::process::{Child, Command, Stdio};

use client::Client;
use opcua_types::{NodeId, StatusCode, Variant};

use super::guard::{Guarded, speed, user};
use super::health::Health;
use super::up::{Up, until};

/// A program whose files the kernel can refuse to let grow, as a full disk does.
fn start(plant: &Guarded) -> Child {
    let log = std::fs::File::create(plant.scene.path("up.log")).unwrap();
    let script = format!("trap '' XFSZ; exec {} up", env!("CARGO_BIN_EXE_trapkey"));
    let folder = plant.scene.folder.path();
    Command::new("sh").args(["-c", &script]).current_dir(folder).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Lets no file of the program grow beyond this.
fn limit(program: &Child, bytes: &str) {
    let args = ["--pid".to_owned(), program.id().to_string(), format!("--fsize={bytes}:")];
    assert!(Command::new("prlimit").args(args).status().unwrap().success());
}

/// A guard in a zone with this mode, whose ledger has room for few records that wait.
fn plant(mode: &str, on_failure: &str) -> (Guarded, Health) {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "");
    let config = plant
        .scene
        .read("trapkey.toml")
        .replacen("queue_records = 65536", "queue_records = 256", 1)
        .replacen("denials_per_second = 5", "denials_per_second = 100000", 1)
        .replacen("on_failure = \"closed\"", &format!("on_failure = \"{on_failure}\""), 1)
        .replacen("# [[zone]]\n", &format!("[[zone]]\nname = \"line-1\"\nfail_mode = \"{mode}\"\n"), 1);
    plant.scene.write("trapkey.toml", &config);
    let health = Health::of(&plant.scene, "trapkey.toml");
    (plant, health)
}

async fn olga(plant: &Guarded) -> Client {
    let options = || plant.options("pki/hmi", user("olga", "olgas password"));
    for _ in 0..480 {
        if let Ok(client) = Client::connect(options()).await {
            return client;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    panic!("nobody gets in: {}", plant.scene.read("up.log"));
}

/// Whether a whole request was denied, or failed for another reason.
fn code(error: &client::ClientError) -> StatusCode {
    let denied = format!("{error:?}").contains("BadUserAccessDenied");
    if denied { StatusCode::BadUserAccessDenied } else { StatusCode::BadUnexpectedError }
}

async fn read(client: &Client, node: &NodeId) -> StatusCode {
    match client.read(std::slice::from_ref(node)).await {
        Ok(values) => values[0].status(),
        Err(error) => code(&error),
    }
}

async fn write(client: &Client, node: &NodeId, count: usize) -> StatusCode {
    match client.write(vec![(node.clone(), Variant::Double(12.5)); count]).await {
        Ok(statuses) => statuses[0],
        Err(error) => code(&error),
    }
}

pub(super) async fn becomes(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..480 {
        if holds().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    panic!("it never happened: {what}");
}

/// The zone's line in `/readyz`.
fn zone(health: &Health) -> serde_json::Value {
    health.part("zone", "gate")
}

/// Everything that has a place in the ledger before it is lost.
fn segment(plant: &Guarded) -> u64 {
    let folder = std::fs::read_dir(plant.scene.path("var/ledger")).unwrap();
    folder.map(|entry| entry.unwrap().metadata().unwrap().len()).max().unwrap()
}

async fn without_its_ledger(mode: &str, on_failure: &str, left: (bool, bool)) {
    let (plant, health) = plant(mode, on_failure);
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let mut up = start(&plant);
    let client = olga(&plant).await;
    becomes("the guard knows its server", async || client.node_id(SPEED).await.is_ok_and(|found| found.is_some()))
        .await;
    let node = speed(&client).await;
    let next = plant.scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
    plant.scene.json(&["step", &next]);
    becomes("olga may write", async || write(&client, &node, 1).await.is_good()).await;
    until("everything is there", || health.ready().0 == 200);
    let before = health.metrics();
    assert_eq!((zone(&health)["ledger"].as_str(), before.get("trapkey_ledger_up", &[])), (Some("in_step"), 1.0));

    limit(&up, &segment(&plant).to_string());
    let state = if mode == "last_known_good" { "last_known_good" } else { mode };
    becomes(&format!("the zone is {state}"), async || {
        read(&client, &node).await;
        write(&client, &node, 1).await;
        zone(&health)["ledger"] == state
    })
    .await;
    assert_eq!((read(&client, &node).await.is_good(), write(&client, &node, 1).await.is_good()), left, "{mode}");
    let ledger = health.part("ledger", "ledger");
    assert!(ledger["ready"] == false && ledger["since"].is_string() && ledger["cause"].is_string(), "{ledger:#}");
    assert_eq!((health.ready().0, health.ask("GET /livez").0), (503, 200));
    let figures = health.metrics();
    assert_eq!(figures.get("trapkey_ledger_up", &[]), 0.0);
    assert_eq!(figures.get("trapkey_zone", &[("zone", "line-1"), ("listener", "gate"), ("state", state)]), 1.0);
    assert_eq!(figures.get("trapkey_recording", &[("listener", "gate"), ("state", state)]), 1.0);
    until("what waits is counted", || health.metrics().get("trapkey_ledger_backlog", &[]) > 0.0);
    until("so is what was turned away", || {
        health.metrics().get("trapkey_ledger_refused_total", &[]) > before.get("trapkey_ledger_refused_total", &[])
    });
    assert!(plant.scene.read("up.log").contains("nothing can be recorded"), "{}", plant.scene.read("up.log"));

    if on_failure == "closed" {
        // Denials fill the room for records that wait; then nothing passes at all, and what nobody awaited is lost.
        becomes("there is no room left", async || {
            write(&client, &node, 200).await;
            health.part("ledger", "ledger")["crowded"] == true && zone(&health)["ledger"] == "closed"
        })
        .await;
        assert!(!read(&client, &node).await.is_good(), "{mode}: no read that cannot be recorded, now or later");
        becomes("what is lost is counted", async || {
            write(&client, &node, 200).await;
            health.metrics().get("trapkey_ledger_lost_total", &[]) > 0.0
        })
        .await;
    }

    limit(&up, "unlimited");
    becomes("it goes on by itself", async || write(&client, &node, 1).await.is_good()).await;
    until("everything is well again", || health.ready().0 == 200 && zone(&health)["ledger"] == "in_step");
    client.close().await;
    assert!(Command::new("kill").args(["-TERM", &up.id().to_string()]).status().unwrap().success());
    assert!(up.wait().unwrap().success());
    let report = plant.scene.json(&["audit", "verify"]);
    assert_eq!((&report["intact"], &report["unsigned"]), (&true.into(), &0.into()), "{report:#}");
    let modes = plant.scene.json(&["audit", "tail", "-n", "4000"]);
    let told =
        modes.as_array().unwrap().iter().filter(|entry| entry["kind"] == "fail_mode" && entry["object"] == "ledger");
    assert!(told.count() >= 2, "its loss and its return are recorded, once they can be");
    old.stop();
}

const SPEED: &str = "nsu=urn:trapkey:demo:mixer;s=Mixer.Setpoints.Speed";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_zone_serves_nothing_that_cannot_be_recorded() {
    without_its_ledger("closed", "closed", (false, false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_is_read_only_keeps_reads_to_be_recorded_while_there_is_room() {
    without_its_ledger("read_only", "closed", (true, false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_goes_on_as_known_last_goes_on_where_gaps_are_accepted() {
    without_its_ledger("last_known_good", "open", (true, true)).await;
}

/// No mode makes up for the server: nothing is answered from memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_passes_without_the_server_in_any_mode_and_sessions_wait_for_it() {
    for mode in ["closed", "read_only", "last_known_good"] {
        let (plant, health) = plant(mode, "closed");
        let old = Up::start_with(&plant.scene, "old.toml", 1);
        let up = Up::start(&plant.scene, 5);
        let client = olga(&plant).await;
        becomes("a read gets through", async || client.node_id(SPEED).await.is_ok_and(|found| found.is_some())).await;
        let node = speed(&client).await;
        assert!(health.part("upstream", "gate")["since"].is_null());
        drop(old);
        becomes("nothing is read any more", async || !read(&client, &node).await.is_good()).await;
        until("it shows", || health.part("upstream", "gate")["since"].is_string());
        let gone = read(&client, &node).await;
        assert!(gone.is_bad() && gone != StatusCode::BadUserAccessDenied, "{mode}: {gone}");
        assert!(write(&client, &node, 1).await.is_bad(), "{mode}");
        assert_eq!((health.ready().0, health.ask("GET /livez").0), (503, 200), "{mode}");
        assert_eq!(health.metrics().get("trapkey_upstream_up", &[("listener", "gate")]), 0.0);
        assert_eq!(zone(&health)["authority"], "in_step", "rights are as they were");
        assert!(plant.scene.read("up.log").contains("the server behind the guard is not known"), "{mode}");
        let old = Up::start_with(&plant.scene, "old.toml", 1);
        becomes("it goes on in the same session", async || read(&client, &node).await.is_good()).await;
        assert_eq!(client.session_count(), 1, "{mode}");
        health.wait(200);
        client.close().await;
        up.stop();
        old.stop();
    }
}

#[test]
fn a_zone_that_the_plant_does_not_have_is_shown_where_it_stands() {
    let scene = super::Scene::plant();
    let config = scene.read("trapkey.toml");
    let written = config.replacen("# [[zone]]\n", "[[zone]]\nname = \"line-l\"\nfail_mode = \"closed\"\n", 1);
    scene.write("trapkey.toml", &written);
    let line = written.lines().position(|line| line == "name = \"line-l\"").unwrap() + 1;
    let said = scene.run(&["config", "check"]);
    assert!(said.starts_with("exit 2"), "{said}");
    for part in ["the plant file has no zone `line-l`", "did you mean `line-1`?", &format!("trapkey.toml:{line}:")] {
        assert!(said.contains(part), "{part}: {said}");
    }
    scene.write("trapkey.toml", &written.replacen("line-l", "line-1", 1));
    assert!(scene.run(&["config", "check"]).starts_with("exit 0"));
}
