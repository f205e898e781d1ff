//! A plant file that changes under running servers.

use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";
const RANGE: &str = "range = { low = 0.0, high = 1500.0 }";

#[test]
fn a_changed_plant_file_reaches_the_servers_that_run() {
    let (scene, ports) = scene();
    let plant = scene.read("plant.toml");
    assert!(plant.contains(RANGE));
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    let next = scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
    assert_eq!(scene.json(&["step", &next])["steps"][0], "charge");
    let write = |value| olga.client("write", &[SPEED, value]);
    assert!(write("900").starts_with("exit 0"), "{}", write("900"));

    scene.write("plant.toml", &plant.replacen(RANGE, "range = { low = 0.0, high = 300.0 }", 1));
    scene.json(&["policy", "reload"]);
    until("the tighter range holds", || write("900").contains("BadOutOfRange"));
    assert!(write("200").starts_with("exit 0"));

    // A scope in front of all others: every position of the map names another scope now.
    let first = "[[server.scope]]";
    let extra = "[[server.scope]]\nname = \"inlet\"\nnodes = [\"ns=1;s=Mixer.Valves.Inlet\"]\n\n";
    scene.write("plant.toml", &plant.replacen(first, &format!("{extra}{first}"), 1));
    scene.json(&["policy", "reload"]);
    until("tokens for the new map are taken", || write("900").starts_with("exit 0"));
    assert!(olga.client("read", &[SPEED]).starts_with("exit 0"));

    let missing = "[[server.scope]]\nname = \"ghost\"\nnodes = [\"ns=1;s=Mixer.Ghost\"]\n\n";
    scene.write("plant.toml", &plant.replacen(first, &format!("{missing}{first}"), 1));
    scene.json(&["policy", "reload"]);
    until("somebody is told what does not fit", || {
        let log = scene.read("up.log");
        log.contains("does not fit") && log.contains("covers `ns=1;s=Mixer.Ghost`")
    });
    scene.write("plant.toml", &plant);
    scene.json(&["policy", "reload"]);
    until("the first file holds again", || write("900").starts_with("exit 0"));
    up.stop();
    assert_eq!(scene.json(&["audit", "verify"])["intact"], true);
}
