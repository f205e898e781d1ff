//! Accounts, changed at the authority that runs and in its books while none does; always with a record.

use super::Scene;
use super::up::{Olga, Up, scene, until, with_input};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";

fn records(scene: &Scene) -> Vec<serde_json::Value> {
    scene.json(&["audit", "tail", "-n", "1000"]).as_array().unwrap().clone()
}

#[test]
fn a_disabled_person_is_out_at_once_and_every_change_is_in_the_ledger() {
    let (scene, ports) = scene();
    let before = records(&scene);
    let offline = |one: &&serde_json::Value| one["kind"] == "account_changed";
    assert_eq!(before.iter().filter(offline).count(), 2, "made before the start: {before:#?}");
    assert!(before.iter().filter(offline).all(|one| one["actor"].as_str().unwrap().starts_with("command line")));

    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    assert!(olga.client("read", &[SPEED]).starts_with("exit 0"));
    let asked = ["token", "issue", "--application", "urn:trapkey:demo:hmi", "--audience", "urn:trapkey:demo:mixer"];
    let issued = scene.json(&[&asked[..], &["--person", "olga"]].concat());
    scene.write("token", issued["access_token"].as_str().unwrap());
    let by_token = || scene.run(&["client", "read", &olga.url, "--pki", "pki/hmi", "--token", "token", SPEED]);
    assert!(by_token().starts_with("exit 0"), "{}", by_token());

    let refused = scene.run(&["user", "disable", "olga", "--pki", "pki/hmi"]);
    assert!(refused.starts_with("exit 1") && refused.contains("403"), "no administrator: {refused}");
    assert!(by_token().starts_with("exit 0"), "nothing changed");
    let disabled = scene.json(&["user", "disable", "olga"]);
    assert!(disabled["revoked"].as_u64().unwrap() >= 1, "{disabled:#}");
    until("no server takes her token", || by_token().starts_with("exit 1"));
    assert!(olga.client("read", &[SPEED]).starts_with("exit 1"));
    assert!(scene.run(&["user", "disable", "nobody"]).starts_with("exit 1"));

    let set = with_input(&scene, &["user", "set", "olga"], "olgas password\n");
    assert!(set.starts_with("exit 0"), "{set}");
    until("she is let in again", || olga.client("read", &[SPEED]).starts_with("exit 0"));

    // Who hides the authority's address does not get past it.
    let config = scene.read("trapkey.toml");
    scene.write("elsewhere.toml", &config.replace(&format!("https://localhost:{}", ports[0]), "https://localhost:1"));
    let behind = scene.run(&["user", "remove", "olga", "--config", "elsewhere.toml"]);
    assert!(behind.starts_with("exit 3") && behind.contains("--authority"), "{behind}");

    let refused = scene.run(&["application", "disable", "urn:trapkey:demo:hmi", "--pki", "pki/hmi"]);
    assert!(refused.starts_with("exit 1") && refused.contains("403"), "no administrator: {refused}");
    let disabled = scene.json(&["application", "disable", "urn:trapkey:demo:hmi"]);
    assert!(disabled["revoked"].as_u64().unwrap() >= 1 && disabled["enabled"] == false, "{disabled:#}");
    until("no token for the control room", || olga.client("read", &[SPEED]).starts_with("exit 1"));
    let listed = scene.run(&["application", "list"]);
    assert!(listed.lines().any(|line| line.contains("demo:hmi") && line.contains("disabled")), "{listed}");
    assert!(scene.run(&["application", "disable", "urn:nobody"]).starts_with("exit 1"));
    assert_eq!(scene.json(&["application", "enable", "urn:trapkey:demo:hmi"])["enabled"], true);
    until("it gets tokens again", || olga.client("read", &[SPEED]).starts_with("exit 0"));

    let secret = scene.json(&["application", "set-secret", "urn:trapkey:demo:hmi"]);
    let secret = secret["client_secret"].as_str().unwrap();
    assert_eq!(secret.len(), 43, "256 bits");
    let listed = scene.json(&["application", "list"]);
    let hmi = listed.as_array().unwrap().iter().find(|one| one["uri"] == "urn:trapkey:demo:hmi").unwrap();
    assert_eq!((&hmi["secret"], &hmi["enabled"]), (&true.into(), &true.into()));
    up.stop();

    assert_eq!(scene.json(&["application", "remove-secret", "urn:trapkey:demo:hmi"])["secret"], false);
    assert_eq!(scene.json(&["application", "disable", "urn:trapkey:demo:hmi"])["enabled"], false);
    assert_eq!(scene.json(&["user", "remove", "olga"])["removed"], true);
    let after = records(&scene);
    let changes: Vec<(&str, &str)> = after
        .iter()
        .filter(|one| one["kind"] == "account_changed")
        .map(|one| (one["actor"].as_str().unwrap(), one["detail"].as_str().unwrap()))
        .collect();
    let by_ada = [
        "the account was disabled",
        "a password was set",
        "the application was disabled",
        "the application was enabled",
        "a client secret was set",
    ];
    let of_ada: Vec<&str> = changes.iter().filter(|(by, _)| *by == "ada").map(|(_, what)| *what).collect();
    assert_eq!(of_ada, by_ada, "{changes:?}");
    let of_us: Vec<&str> = changes.iter().filter(|(by, _)| by.starts_with("command")).map(|(_, what)| *what).collect();
    assert_eq!(
        of_us[2..],
        ["the client secret was removed", "the application was disabled", "the account was removed"],
        "{changes:?}"
    );
    assert!(!format!("{after:?}").contains(secret));
    assert_eq!(scene.json(&["audit", "verify"])["intact"], true);
}

#[test]
fn the_shown_certificate_is_the_one_that_signs_also_after_rotations() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let url = format!("opc.tcp://127.0.0.1:{}", ports[1]);
    let service = "/2:AuthorizationServices/1:Trapkey";
    let shown = || {
        let node = format!("{service}/2:ServiceCertificate");
        let read = scene.json(&["client", "read", &url, "--pki", "pki/hmi", "--anonymous", &node]);
        assert_eq!(read[0]["status"], "Good", "{read:#}");
        read[0]["value"].as_str().unwrap().to_owned()
    };
    let described = || {
        let method = format!("{service}/2:GetServiceDescription");
        let said = scene.json(&["client", "call", &url, "--pki", "pki/hmi", "--anonymous", service, &method]);
        assert_eq!(said["status"], "Good", "{said:#}");
        said["outputs"][1].as_str().unwrap().to_owned()
    };
    let mut seen = vec![described()];
    assert_eq!(shown(), seen[0]);
    for _ in 0..2 {
        assert_eq!(scene.json(&["token", "rotate-keys"])["rotated"], true);
        let now = described();
        assert!(!seen.contains(&now), "another key signs");
        until("the property follows", || shown() == now);
        seen.push(now);
    }
    up.stop();
}
