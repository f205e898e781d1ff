//! How servers and guards are found and reached where that is configured: reverse connect and registration.

use std::time::Duration;

use super::guard::Guarded;
use super::up::{Olga, Up, scene, until};

const SPEED: &str = "nsu=urn:trapkey:demo:mixer;s=Mixer.Setpoints.Speed";

/// Nobody can dial the server: what it says of itself is an address at which nobody listens.
#[test]
fn a_server_that_calls_its_guard_is_guarded_and_never_dialled() {
    let plant = Guarded::new("", "");
    let (calls, nobody) = (testkit::ports::free(), testkit::ports::free());
    let old = plant.scene.read("old.toml").replacen(
        "# reverse_connect = [\"opc.tcp://scada.plant.local:4845\"]",
        &format!("url = \"opc.tcp://127.0.0.1:{nobody}\"\nreverse_connect = [\"opc.tcp://127.0.0.1:{calls}\"]"),
        1,
    );
    assert!(old.contains("\nreverse_connect"));
    plant.scene.write("old.toml", &old);
    // Who calls proves who it is.
    let dialled = format!("url = \"{}\", security = \"none\"", plant.old);
    let called = |uri: &str| {
        format!(
            "url = \"opc.tcp://127.0.0.1:{nobody}\", listen = \"127.0.0.1:{calls}\", server_uri = \"{uri}\", \
             certificate = \"pki/mixer/own/certs/own.der\""
        )
    };
    let config = plant.scene.read("trapkey.toml");
    assert!(config.contains(&dialled));
    let olga = Olga { scene: &plant.scene, url: plant.url.clone() };

    plant.scene.write("trapkey.toml", &config.replace(&dialled, &called("urn:trapkey:demo:other")));
    let (old, up) = (Up::start_with(&plant.scene, "old.toml", 1), Up::start(&plant.scene, 4));
    until("who says to be another is refused", || {
        plant.scene.read("up.log").contains("a server that calls was refused")
    });
    let read = olga.client("read", &[SPEED]);
    assert!(!read.starts_with("exit 0"), "{read}");
    up.stop();

    plant.scene.write("trapkey.toml", &config.replace(&dialled, &called("urn:trapkey:demo:mixer")));
    let up = Up::start(&plant.scene, 4);
    until("the server has called", || olga.client("read", &[SPEED]).starts_with("exit 0"));
    up.stop();
    old.stop();
}

#[test]
fn servers_are_found_at_the_discovery_server_that_they_are_to_register_with() {
    let (scene, ports) = scene();
    let config = scene.read("trapkey.toml");
    let url = format!("opc.tcp://127.0.0.1:{}", ports[2]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listed = || {
        let asked = runtime.block_on(client::servers(&url, Duration::from_secs(20)));
        let mut all: Vec<String> = asked
            .map(|servers| servers.into_iter().map(|server| server.application_uri.as_ref().to_owned()).collect())
            .unwrap_or_default();
        all.sort();
        all
    };
    let registering = config.replacen("register_with = []", &format!("register_with = [\"{url}\"]"), 1);
    assert!(config != registering);
    scene.write("trapkey.toml", &registering);
    let up = Up::start(&scene, 4);
    until("a server that is no discovery server says no", || scene.read("up.log").contains("not registered"));
    assert_eq!(listed(), ["urn:trapkey:demo:mixer"]);
    up.stop();

    // The first is the mixer.
    scene.write("trapkey.toml", &registering.replacen("discovery_server = false", "discovery_server = true", 1));
    let up = Up::start(&scene, 4);
    until("all have registered", || {
        listed() == ["urn:trapkey:demo:filler", "urn:trapkey:demo:mixer", "urn:trapkey:demo:reactor"]
    });
    up.stop();
}
