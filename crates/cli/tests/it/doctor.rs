//! What `trapkey doctor` sees of programs that run.

use serde_json::{Value, json};

use super::Scene;
use super::processes::apart;
use super::up::{Up, scene, until};

fn finding(scene: &Scene, what: &str) -> Value {
    let said = scene.json(&["doctor", "--config", "mixer.toml"]);
    let found = said["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == what);
    found.cloned().unwrap_or_default()
}

#[test]
fn other_scopes_than_the_authoritys_and_a_clock_that_stepped_back_are_seen() {
    let (scene, _) = scene();
    apart(&scene);
    let plant = scene.read("plant.toml");
    let first = "[[server.scope]]";
    let extra = "[[server.scope]]\nname = \"inlet\"\nnodes = [\"ns=1;s=Mixer.Valves.Inlet\"]\n\n";
    scene.write("other.toml", &plant.replacen(first, &format!("{extra}{first}"), 1));
    scene.write("mixer.toml", &scene.read("mixer.toml").replace("\"plant.toml\"", "\"other.toml\""));
    let authority = Up::start_with(&scene, "authority.toml", 1);
    let mixer = Up::start_with(&scene, "mixer.toml", 1);
    let scopes = || finding(&scene, "scopes of mixer");
    until("the running server is seen", || finding(&scene, "clock of mixer")["standing"] == "ok");
    let differ = scopes();
    assert_eq!(differ["standing"], "failed", "{differ}");
    assert!(differ["detail"].as_str().unwrap().contains("others than the running server"), "{differ}");
    assert!(differ["detail"].as_str().unwrap().contains("scope_map_mismatch"), "{differ}");
    scene.write("other.toml", &plant);
    until("they are the same again", || scopes()["standing"] == "ok");
    mixer.stop();

    scene.write("other.toml", &plant.replacen(first, &format!("{extra}{first}"), 1));
    until("without the server, its plant file counts", || {
        scopes()["detail"].as_str().is_some_and(|detail| detail.contains("others than the plant file"))
    });
    assert_eq!(finding(&scene, "clock of mixer"), Value::Null, "nobody runs");
    // As a server writes it whose clock was set back by an hour; a fresh one each time, for it is soon too old.
    until("a clock that stepped back is told", || {
        let status = json!({
            "at": gates::clock::now().unix.as_seconds(),
            "servers": { "mixer": { "map": "", "clock_behind": 3_600 } },
        });
        scene.write("var/mixer-ledger.status.json", &status.to_string());
        let clock = finding(&scene, "clock of mixer");
        clock["standing"] == "failed" && clock["detail"].as_str().unwrap().contains("stepped back by 3600 s")
    });
    authority.stop();
}
