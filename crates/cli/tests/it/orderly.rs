//! An orderly end of the whole program.

use std::process::{Command, Stdio};

use super::Scene;
use super::up::{Olga, Up, scene, until};

const NODES: [&str; 3] = ["ns=1;s=Mixer.Setpoints.Speed", "ns=1;s=Mixer.Setpoints.Dose", "ns=1;s=Mixer.Valves.Inlet"];

/// A client that watches values which nothing changes; what it is shown goes to `file`.
fn watch(olga: &Olga<'_>, file: &str) -> Up {
    let child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(["client", "watch", &olga.url, "--pki", "pki/hmi", "--user", "olga", "--interval", "50"])
        .args(NODES)
        .env("TRAPKEY_PASSWORD", "olgas password")
        .current_dir(olga.scene.folder.path())
        .stdout(std::fs::File::create(olga.scene.path(file)).unwrap())
        .stderr(Stdio::null())
        .spawn();
    Up(child.unwrap())
}

fn lines(scene: &Scene, file: &str) -> usize {
    scene.read(file).lines().count()
}

#[test]
fn events_of_the_plant_are_printed() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(NODES[0]);
    let listen = |more: &[&str], file: &str| {
        let child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
            .args(["client", "watch", &olga.url, "--pki", "pki/hmi", "--user", "olga", "--events", "--interval", "50"])
            .args(more)
            .env("TRAPKEY_PASSWORD", "olgas password")
            .current_dir(scene.folder.path())
            .stdout(std::fs::File::create(scene.path(file)).unwrap())
            .stderr(Stdio::null())
            .spawn();
        Up(child.unwrap())
    };
    let _listening =
        [listen(&["--output", "json"], "json"), listen(&["--select", "Message", "--select", "Severity"], "text")];
    assert_eq!(scene.json(&["step", "start"])["steps"][0], "charge");
    // Nobody says when they listen: the agitator is stopped and started until both have heard of it.
    let call = |method: &str| {
        let said = olga.client("call", &["ns=1;s=Mixer.Recipe", &format!("ns=1;s=Mixer.Recipe.{method}")]);
        assert!(said.starts_with("exit 0"), "{said}");
        std::thread::sleep(std::time::Duration::from_secs(5));
    };
    until("both hear of it", || {
        call("Stop");
        call("Start");
        ["json", "text"].iter().all(|file| scene.read(file).contains("the agitator turns"))
    });
    let event: serde_json::Value = serde_json::from_str(scene.read("json").lines().next().unwrap()).unwrap();
    assert_eq!((&event["SourceName"], &event["Severity"]), (&"Speed".into(), &100.into()), "{event:#}");
    assert!(scene.read("text").lines().any(|line| line == "Message = the agitator turns, Severity = 100"));
    let past = olga.client("history", &["--events", "--select", "Message", "--count", "100"]);
    assert!(past.starts_with("exit 0") && past.contains("Message = the agitator turns"), "{past}");
    let json = olga.client("history", &["--events", "--newest-first", "--count", "1", "--output", "json"]);
    assert!(json.contains("\"SourceName\"") && json.contains("\"Severity\""), "{json}");
    let values = olga.client("history", &["/1:Mixer/1:Measurements/1:Level", "--count", "3"]);
    assert!(values.starts_with("exit 0") && !values.contains("nothing"), "{values}");
    let changed = olga.client("history", &[NODES[0], "--modified"]);
    assert!(changed.starts_with("exit 0") && changed.contains("nothing"), "nobody has: {changed}");
    let two = olga.client("watch", &["--events", "i=2253", "i=2253"]);
    assert!(two.starts_with("exit 2"), "{two}");
    up.stop();
}

#[test]
fn an_orderly_stop_loses_no_record() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(NODES[0]);
    assert!(olga.client("read", &NODES).starts_with("exit 0"));
    let files = ["first", "second"];
    let watching = files.map(|file| watch(&olga, file));
    until("each sees every value", || files.iter().all(|file| lines(&scene, file) >= NODES.len()));
    up.stop();
    drop(watching);
    let log = scene.read("up.log");
    assert!(!log.contains("audit record"), "{log}");
    let report = scene.json(&["audit", "verify"]);
    assert_eq!((&report["intact"], &report["unsigned"]), (&true.into(), &0.into()), "{report:#}");
    let records = scene.json(&["audit", "tail", "-n", "10000"]);
    let count = |kind: &str| -> u64 {
        let records = records.as_array().unwrap().iter();
        let of_kind = records.filter(|one| one["kind"] == kind && one["outcome"] == "allowed");
        of_kind.map(|one| one["count"].as_u64().unwrap()).sum()
    };
    let seen: usize = files.iter().map(|file| lines(&scene, file)).sum();
    assert_eq!(count("notify"), seen as u64, "as many values as the clients were shown");
    assert!(count("session_created") >= 3 && count("channel_opened") >= 3);
    assert_eq!(count("session_closed"), count("session_created"));
    // That of the client that had come and gone too.
    assert_eq!(count("channel_closed"), count("channel_opened"));
}
