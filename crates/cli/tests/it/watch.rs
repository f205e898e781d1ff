//! `trapkey cost watch` beside a real guard: a server that becomes slow is named as the stage that moved, and nothing else is.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::Client;
use serde_json::Value;

use super::Scene;
use super::guard::{Guarded, speed, user};
use super::health::Health;
use super::slower::{Clients, learned, slower};
use super::up::Up;

/// A watch that runs, and what it says.
pub(super) struct Watching(Child, BufReader<Box<dyn Read>>);

impl Watching {
    pub(super) fn start(scene: &Scene, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
            .args(["cost", "watch", "--interval", "250ms", "--output", "json"])
            .args(args)
            .current_dir(scene.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = child.stdout.take().unwrap();
        Self(child, BufReader::new(Box::new(lines)))
    }

    /// What one look has said.
    pub(super) fn look(&mut self) -> Value {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the watch has ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Looks until one holds, for two minutes at most; gives all alarms on the way, and that look.
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> (Vec<String>, Value) {
        let (mut alarms, mut last) = (Vec::new(), Value::Null);
        for _ in 0..480 {
            let look = self.look();
            alarms.extend(events(&look, "alarm"));
            if holds(&look) {
                return (alarms, look);
            }
            last = look;
        }
        panic!("it never happened: {what}; alarms: {alarms:?}; at last: {last}");
    }

    /// Ends it as a person does; its exit code.
    pub(super) fn end(mut self) -> i32 {
        assert!(Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap().success());
        self.0.wait().unwrap().code().unwrap()
    }

    /// Reads no more; its exit code.
    fn unread(mut self) -> i32 {
        self.1 = BufReader::new(Box::new(std::io::empty()));
        self.0.wait().unwrap().code().unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The stages of events of a kind.
pub(super) fn events(look: &Value, kind: &str) -> Vec<String> {
    let all = look["events"].as_array().unwrap().iter().filter(|event| event["event"] == kind);
    all.map(|event| event["stage"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Four clients that read without pause until they are told to stop.
async fn readers(plant: &Guarded, over: &Arc<AtomicBool>) -> Vec<tokio::task::JoinHandle<()>> {
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut found = None;
        for _ in 0..480 {
            match Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await {
                Ok(client) => found = Some(client),
                Err(_) => tokio::time::sleep(Duration::from_millis(125)).await,
            }
            if found.is_some() {
                break;
            }
        }
        let client = found.expect("nobody gets in");
        let node = speed(&client).await;
        let over = Arc::clone(over);
        readers.push(tokio::spawn(async move {
            while !over.load(Ordering::Acquire) {
                let _read = client.read(std::slice::from_ref(&node)).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }));
    }
    readers
}

/// What stands between the guard and its server, and can keep what is said waiting.
fn late(plant: &Guarded) -> testkit::relay::Relay {
    let relay = testkit::relay::Relay::start(&plant.old);
    let upstream = |url: &str| format!("upstream = {{ url = \"{url}\"");
    let config = plant.scene.read("trapkey.toml").replacen(&upstream(&plant.old), &upstream(relay.url()), 1);
    plant.scene.write("trapkey.toml", &config);
    relay
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_becomes_slow_is_the_stage_that_moved_and_no_other_is() {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "");
    let relay = late(&plant);
    let health = Health::of(&plant.scene, "trapkey.toml");
    let (scene, over) = (&plant.scene, Arc::new(AtomicBool::new(false)));

    let nobody = scene.run(&["cost", "watch", "--for", "100ms", "--output", "json"]);
    assert!(nobody.starts_with("exit 3") && nobody.contains("out of reach"), "{nobody}");
    let old = Up::start_with(scene, "old.toml", 1);
    let up = Up::start(scene, 4);
    health.wait(200);
    let readers = readers(&plant, &over).await;

    // A band of ten times: this machine is shared, and its load is no stage of the guard.
    let args = ["--learn", "3s", "--band", "900", "--out", "calibration.json"];
    let mut watching = Watching::start(scene, &args);
    let learned = |look: &Value| events(look, "learned").iter().any(|stage| stage == "gate upstream");
    let (alarms, _) = watching.until("the guard's server is learned", learned);
    assert_eq!(alarms, [""; 0]);
    for _ in 0..40 {
        assert_eq!(events(&watching.look(), "alarm"), [""; 0], "nothing has changed");
    }
    let mut unread = Watching::start(scene, &[]);
    unread.look();
    assert_eq!(unread.unread(), 3, "nobody reads, as for every command");
    // What cannot be kept keeps nothing of what was seen back.
    let unkept = ["--interval", "250ms", "--for", "3s", "--out", "nowhere/calibration.json"];
    let unkept = scene.run(&[&["cost", "watch"], &unkept[..]].concat());
    assert!(!unkept.starts_with("exit 0") && unkept.contains("nowhere/calibration.json"), "{unkept}");
    assert!(unkept.contains("gate upstream"), "{unkept}");

    relay.delay(Duration::from_millis(400));
    let alarm = |look: &Value| !events(look, "alarm").is_empty();
    let (alarms, look) = watching.until("the slow server is noticed", alarm);
    assert_eq!(alarms, ["gate upstream"], "{look:#}");
    let told = look["events"].as_array().unwrap().iter().find(|event| event["event"] == "alarm").unwrap();
    assert!(told["side"] == "slower" && told["factor"].as_f64().unwrap() > 10.0, "{told:#}");
    assert!(told["since"].as_f64().unwrap() < 120.0, "{told:#}");
    let outlook = look["report"]["outlook"].as_array().unwrap();
    let request = outlook.iter().find(|one| one["listener"] == "gate" && one["way"] == "request").unwrap();
    let p99 = |when: &str| request[when]["p99"].as_f64().unwrap();
    assert!(p99("now") > 5.0 * p99("before"), "{request:#}");
    for _ in 0..20 {
        assert_eq!(events(&watching.look(), "alarm"), [""; 0], "no other stage is named");
    }

    relay.delay(Duration::ZERO);
    let cleared = |look: &Value| events(look, "cleared").iter().any(|stage| stage == "gate upstream");
    let (alarms, _) = watching.until("it is over", cleared);
    assert_eq!(alarms, [""; 0]);
    relay.delay(Duration::from_millis(400));
    watching.until("it is slow again", |look| events(look, "alarm") == ["gate upstream"]);
    assert_eq!(watching.end(), 1, "an alarm stands");

    // What was learned is the reference of the next watch.
    let mut watching = Watching::start(scene, &["--calibration", "calibration.json", "--band", "900"]);
    let (alarms, _) = watching.until("nothing is learned first", alarm);
    assert_eq!(alarms, ["gate upstream"]);
    over.store(true, Ordering::Release);
    for reader in readers {
        reader.await.unwrap();
    }
    up.stop();
    drop(old);
    watching.until("its figures are gone", |look| look["events"].to_string().contains("\"gone\""));
    assert_eq!(watching.end(), 3);
}

/// A guard has a session at its server for each of its clients. Who comes and goes asks the server for little else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_those_waiting_who_come_is_named() {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "");
    let relay = late(&plant);
    let health = Health::of(&plant.scene, "trapkey.toml");
    let _old = Up::start_with(&plant.scene, "old.toml", 1);
    let _up = Up::start(&plant.scene, 4);
    health.wait(200);
    let mut clients = Clients::new();
    clients.visit(6, 300, &plant.options("pki/hmi", user("olga", "olgas password")));
    let mut watching = Watching::start(&plant.scene, &["--learn", "3s", "--band", "900"]);
    learned(&mut watching, &["gate upstream_open"]);
    relay.delay_first(Duration::from_secs(3));
    let (_, look) = watching.until("it is named", |look| !slower(look).is_empty());
    let named: Vec<String> = slower(&look).into_iter().map(|(stage, _)| stage).collect();
    assert_eq!(named, ["gate upstream_open"], "{look:#}");
    assert_eq!(watching.end(), 1, "an alarm stands");
    relay.delay_first(Duration::ZERO);
    clients.end().await;
}

#[test]
fn wrong_arguments_are_refused_in_words() {
    let scene = Scene::empty();
    for (args, said) in [
        (&["ftp://127.0.0.1:1"][..], "`http://HOST:PORT` is wanted"),
        (&["http://127.0.0.1"], "`http://HOST:PORT` is wanted"),
        (&["http://a:1", "http://A:1/metrics"], "`http://a:1` is named twice"),
        (&["http://127.0.0.1:1", "--learn", "soon"], "`soon` is no time such as `10s`"),
        (&["http://127.0.0.1:1", "--interval", "1ms"], "100 ms to 30 years"),
        (&["http://127.0.0.1:1", "--band", "1"], "5 to 100000"),
        (&["http://127.0.0.1:1", "--once"], "--calibration"),
        (&["http://127.0.0.1:1", "--calibration", "none.json"], "none.json"),
        (&[], "there is no configuration"),
    ] {
        let answer = scene.run(&[&["cost", "watch"], args].concat());
        assert!(answer.starts_with("exit 2") && answer.contains(said), "{args:?}: {answer}");
    }
    // A time may be written as in the configuration, or as `--time` and models have it.
    for learn in ["5m", "5 min", "1.5h", "1 year"] {
        let gone = scene.run(&["cost", "watch", "http://127.0.0.1:1", "--learn", learn, "--for", "100 ms"]);
        assert!(gone.starts_with("exit 3") && gone.contains("figures are out of reach"), "{learn}: {gone}");
    }
    let gone = scene.run(&["cost", "watch", "http://127.0.0.1:1", "--for", "100ms"]);
    assert!(gone.starts_with("exit 3") && gone.contains("figures are out of reach"), "{gone}");
}
