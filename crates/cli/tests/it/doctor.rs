//! What `trapkey doctor` sees of files, ports and programs that run.

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

/// A finding of the doctor who looks at a whole plant where nothing runs.
fn at_rest(scene: &Scene, what: &str) -> (String, String) {
    let said = scene.json(&["doctor"]);
    let findings = said["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"].as_str().unwrap().starts_with(what));
    let found = found.unwrap_or_else(|| panic!("nothing about `{what}`: {said:#}"));
    let healthy = findings.iter().all(|finding| finding["standing"] != "failed");
    assert_eq!(said["healthy"], healthy, "{said:#}");
    (found["standing"].as_str().unwrap().to_owned(), found["detail"].as_str().unwrap().to_owned())
}

#[test]
fn zones_that_are_not_in_the_plant_file_or_in_which_nothing_stands_are_seen() {
    let (scene, _) = scene();
    let said = scene.json(&["doctor"]);
    let about = |one: &Value| one["what"].as_str().is_some_and(|what| what.starts_with("zone "));
    assert!(!said["findings"].as_array().unwrap().iter().any(about), "who names no zone means none");
    let plant = scene.read("plant.toml");
    let known = "[[zone]]\nname = \"line-1\"";
    assert!(plant.contains(known));
    scene.write(
        "plant.toml",
        &plant.replacen(known, &format!("[[zone]]\nname = \"yard\"\nsite = \"north\"\n\n{known}"), 1),
    );
    let config = scene.read("trapkey.toml");
    let with = |names: &[&str]| {
        let zones: String =
            names.iter().map(|name| format!("[[zone]]\nname = \"{name}\"\nfail_mode = \"closed\"\n")).collect();
        scene.write("trapkey.toml", &config.replacen("# [[zone]]\n", &zones, 1));
    };
    with(&["line-1", "yard", "line-2"]);
    for (zone, standing, says) in [
        ("zone line-1", "ok", "holds for what stands in it of filler, mixer, reactor"),
        ("zone yard", "warning", "nothing that is configured here stands in it"),
        ("zone line-2", "failed", "the plant file has no such zone; did you mean `line-1`?"),
    ] {
        assert_eq!(at_rest(&scene, zone), (standing.to_owned(), says.to_owned()));
    }
    with(&["yard"]);
    let (standing, says) = at_rest(&scene, "zone line-1");
    assert_eq!(
        (standing.as_str(), says.as_str()),
        ("warning", "has no `[[zone]]`: the `fail_mode` of filler, mixer, reactor holds there alone")
    );
}

#[test]
fn an_ended_certificate_a_taken_port_an_absent_authority_and_a_ledger_that_cannot_be_written_are_seen() {
    let (scene, ports) = scene();
    let of = |what: &str| at_rest(&scene, what);
    assert_eq!(of("certificate of mixer").0, "ok");
    assert_eq!(of("audit ledger").0, "ok");
    assert_eq!(of("mixer OPC UA at"), ("ok".into(), "free".into()));
    let (standing, detail) = of("reach https://");
    assert_eq!(standing, "warning", "there is no authority yet: {detail}");
    let (standing, _) = of("reach opc.tcp://");
    assert_eq!(standing, "warning");

    // It has the port, and answers nobody.
    let _other = std::net::TcpListener::bind(("127.0.0.1", ports[2])).unwrap();
    let (standing, detail) = of("mixer OPC UA at");
    assert_eq!(standing, "failed", "{detail}");
    assert!(detail.contains("another program"), "{detail}");

    let long_ago = access_model::UnixTime::from_seconds(1_000_000_000);
    let application = gates::pki::make::Application::local("mixer", "urn:trapkey:demo:mixer");
    let made = gates::pki::make::self_signed(&application, long_ago).unwrap();
    std::fs::write(scene.path("pki/mixer/own/certs/own.der"), &made.der).unwrap();
    std::fs::write(scene.path("pki/mixer/own/private/own.pem"), made.key_pem.as_bytes()).unwrap();
    let (standing, detail) = of("certificate of mixer");
    assert_eq!(standing, "failed", "{detail}");
    assert!(detail.starts_with("ended 20"), "{detail}");

    scene.write("in-the-way", "");
    let config = scene.read("trapkey.toml");
    scene.write("trapkey.toml", &config.replace("\"var/ledger\"", "\"in-the-way/ledger\""));
    let (standing, detail) = of("audit ledger");
    assert_eq!(standing, "failed", "{detail}");
    assert!(detail.contains("cannot be written"), "{detail}");
}
