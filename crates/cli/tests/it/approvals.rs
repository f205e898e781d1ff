//! Changes that need two persons, from the first attempt to the ledger.

use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";
const RANGE: &str = "steps = [\"charge\"]\nrange = { low = 0.0, high = 1500.0 }";

#[test]
fn a_second_person_approves_and_the_same_write_passes_once() {
    let (scene, ports) = scene();
    let plant = scene.read("plant.toml");
    assert!(plant.contains(RANGE));
    let needed = "step = 500.0\napproval = { role = \"administrator\", within = \"10m\" }";
    scene.write("plant.toml", &plant.replace(RANGE, &format!("{RANGE}\n{needed}")));
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    let next = scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
    assert_eq!(scene.json(&["step", &next])["steps"][0], "charge");

    let far = olga.client("write", &[SPEED, "1400"]);
    assert!(far.starts_with("exit 1") && far.contains("BadOutOfRange"), "{far}");
    assert!(far.contains("a step of more than 500 is not allowed"), "{far}");
    assert_eq!(scene.json(&["approvals", "list"])["approvals"].as_array().unwrap().len(), 0);
    let first = olga.client("write", &[SPEED, "12.5"]);
    assert!(first.starts_with("exit 1") && first.contains("BadRequestNotAllowed"), "{first}");
    until("the question is at the authority", || {
        scene.json(&["approvals", "list"])["approvals"].as_array().is_some_and(|all| !all.is_empty())
    });
    let waiting = scene.json(&["approvals", "list"])["approvals"][0].clone();
    assert_eq!((&waiting["subject"], &waiting["change"]), (&"olga".into(), &format!("write to {SPEED}: 12.5").into()));
    let id = waiting["id"].as_str().unwrap();
    assert!(first.contains(id), "the client was told which: {first}");
    let own = scene.run_with(
        &["approvals", "approve", id, "--pki", "pki/controller", "--user", "olga"],
        &[("TRAPKEY_PASSWORD", "olgas password")],
    );
    assert!(own.starts_with("exit 1") && own.contains("cannot be the second person"), "{own}");
    let application = scene.run(&["approvals", "approve", id, "--pki", "pki/controller"]);
    assert!(application.starts_with("exit 1"), "{application}");
    assert_eq!(scene.json(&["approvals", "approve", id])["by"], "ada");
    let again = scene.run(&["approvals", "approve", id]);
    assert!(again.starts_with("exit 1") && again.contains("no such change waits"), "{again}");

    let other = olga.client("write", &[SPEED, "13.5"]);
    assert!(other.starts_with("exit 1") && other.contains("BadRequestNotAllowed"), "another value: {other}");
    until("the gate has heard of it", || olga.client("write", &[SPEED, "12.5"]).starts_with("exit 0"));
    let used = olga.client("write", &[SPEED, "12.5"]);
    assert!(used.starts_with("exit 1") && used.contains("BadRequestNotAllowed"), "used up: {used}");

    up.stop();
    let records = scene.json(&["audit", "tail", "-n", "1000"]);
    let has = |kind: &str, outcome: &str, actor: &str, detail: &str| {
        records.as_array().unwrap().iter().any(|one| {
            let said = one["detail"].as_str().is_some_and(|text| text.contains(detail) && text.contains(id));
            one["kind"] == kind && one["outcome"] == outcome && one["actor"] == actor && said
        })
    };
    assert!(has("write", "denied", "olga", "is needed by a second person"), "{records:#}");
    assert!(has("approval", "allowed", "ada", "for `olga`"), "{records:#}");
    assert!(has("write", "allowed", "olga", "approved by `ada`"), "{records:#}");
}
