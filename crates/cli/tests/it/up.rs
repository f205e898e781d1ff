//! The product as one process and its commands as others: authority, servers, client, administration, audit.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::Scene;

/// A running `trapkey up`; ended with the test, however that ends.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Up {
    /// Starts it and waits until each role has said where it is.
    fn start(scene: &Scene, roles: usize) -> Self {
        let log = std::fs::File::create(scene.path("up.log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
            .arg("up")
            .current_dir(scene.folder.path())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let up = Self(child);
        for _ in 0..roles {
            let line = lines.next().unwrap_or_else(|| panic!("it ended: {}", scene.read("up.log"))).unwrap();
            assert!(line.contains(" at "), "{line}");
        }
        up
    }

    /// As an operator stops it.
    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

/// The batch plant with free ports, certificates, an operator with a password and an administrator with a certificate.
fn scene() -> (Scene, Vec<u16>) {
    let scene = Scene::plant();
    let sockets: Vec<TcpListener> = (0..5).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
    let mut config = scene.read("trapkey.toml");
    for (known, free) in ["8443", "4841", "4850", "4851", "4852"].iter().zip(&ports) {
        config = config.replace(&format!(":{known}\""), &format!(":{free}\""));
    }
    scene.write("trapkey.toml", &config.replace("pki/controller", "pki/ada"));
    scene.json(&["certs", "init"]);
    scene.json(&["certs", "add", "ada", "urn:ada"]);
    assert_eq!(scene.json(&["user", "certify", "ada", "pki/ada/own/certs/own.der"])["name"], "ada");
    assert!(with_input(&scene, &["user", "set", "olga"], "short\n").starts_with("exit 2"));
    assert!(with_input(&scene, &["user", "set", "olga"], "olgas password\n").starts_with("exit 0"));
    (scene, ports)
}

fn with_input(scene: &Scene, args: &[&str], input: &str) -> String {
    scene.write("input", input);
    let done = Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(args)
        .current_dir(scene.folder.path())
        .stdin(std::fs::File::open(scene.path("input")).unwrap())
        .output()
        .unwrap();
    format!("exit {}\n{}", done.status.code().unwrap(), String::from_utf8_lossy(&done.stderr))
}

struct Olga<'a> {
    scene: &'a Scene,
    url: String,
}

impl Olga<'_> {
    fn client(&self, verb: &str, rest: &[&str]) -> String {
        let args = [&["client", verb, &self.url, "--pki", "pki/hmi", "--user", "olga"], rest].concat();
        self.scene.run_with(&args, &[("TRAPKEY_PASSWORD", "olgas password")])
    }
}

#[test]
fn rights_come_and_go_with_the_step_and_everything_is_in_the_ledger() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let health = scene.json(&["doctor"]);
    assert_eq!(health["healthy"], true, "{health:#}");
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) };
    let speed = "ns=1;s=Mixer.Setpoints.Speed";

    let seen = olga.client("browse", &["/1:Mixer", "--depth", "2"]);
    assert!(seen.contains("\n1:Setpoints  Object  ns=1;s=Mixer.Setpoints\n  1:Speed  Variable"), "{seen}");
    let read = olga.client("read", &[speed, "/1:Mixer/1:Measurements/1:Level"]);
    assert!(read.starts_with("exit 0") && read.contains(&format!("{speed} = ")), "{read}");
    let denied = olga.client("write", &[speed, "12.5"]);
    assert!(denied.starts_with("exit 1") && denied.contains("BadUserAccessDenied"), "{denied}");

    assert_eq!(scene.json(&["step"])["steps"][0], "idle");
    let next = scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
    assert_eq!(scene.json(&["step", &next])["steps"][0], "charge");
    let written = olga.client("write", &[speed, "12.5"]);
    assert!(written.starts_with("exit 0"), "{written}");
    let outside = olga.client("write", &[speed, "1e9"]);
    assert!(outside.starts_with("exit 1") && outside.contains("BadOutOfRange"), "{outside}");
    assert!(olga.client("read", &[speed]).contains(&format!("{speed} = 12.5")));
    let wrong = scene.run_with(
        &["client", "read", &olga.url, "--pki", "pki/hmi", "--user", "olga", speed],
        &[("TRAPKEY_PASSWORD", "guessed")],
    );
    assert!(wrong.starts_with("exit 1") && wrong.contains("BadUserAccessDenied"), "{wrong}");

    let issue = [
        "token",
        "issue",
        "--application",
        "urn:trapkey:demo:hmi",
        "--audience",
        "urn:trapkey:demo:mixer",
        "--person",
        "olga",
    ];
    let issued = scene.json(&issue);
    scene.write("token", issued["access_token"].as_str().unwrap());
    let by_token = |verb: &str| scene.run(&["client", verb, &olga.url, "--pki", "pki/hmi", "--token", "token", speed]);
    assert!(by_token("read").starts_with("exit 0"), "{}", by_token("read"));
    let stolen = scene.run(&["client", "read", &olga.url, "--pki", "pki/dashboard", "--token", "token", speed]);
    assert!(stolen.starts_with("exit 1"), "{stolen}");
    let id = issued["id"].as_str().unwrap();
    assert!(scene.json(&["token", "list"]).as_array().unwrap().iter().any(|token| token["id"] == id));
    assert_eq!(scene.json(&["token", "revoke", id, "--reason", "left"])["already"], false);
    assert_eq!(scene.json(&["token", "revoke", id])["already"], true);
    assert!(by_token("read").starts_with("exit 1"), "{}", by_token("read"));
    let nobody = scene.run(&["token", "revoke", id, "--pki", "pki/hmi"]);
    assert!(nobody.starts_with("exit 1") && nobody.contains("403"), "{nobody}");

    up.stop();
    let report = scene.json(&["audit", "verify"]);
    assert_eq!((&report["intact"], &report["unsigned"]), (&true.into(), &0.into()), "{report:#}");
    let records = scene.json(&["audit", "tail", "-n", "1000"]);
    let has = |kind: &str, outcome: &str, reason: Option<&str>| {
        let mut records = records.as_array().unwrap().iter();
        records.any(|one| one["kind"] == kind && one["outcome"] == outcome && one["reason"].as_str() == reason)
    };
    for (kind, outcome, reason) in [
        ("write", "denied", Some("right_missing")),
        ("write", "denied", Some("value_out_of_range")),
        ("write", "allowed", None),
        ("step_changed", "allowed", None),
        ("token_issued", "allowed", None),
        ("token_revoked", "allowed", None),
        ("session_activated", "denied", Some("user_credentials")),
        ("session_activated", "denied", Some("token_confirmation")),
        ("session_activated", "denied", Some("token_revoked")),
    ] {
        assert!(has(kind, outcome, reason), "no record {kind} {outcome} {reason:?}");
    }
}

/// Waits for what a running program notices by itself, a few seconds after it happened.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..120 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(250));
    }
    panic!("it never happened: {what}");
}

#[test]
fn keys_trust_and_policies_are_followed_while_it_runs() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) };
    let reads = || olga.client("read", &["ns=1;s=Mixer.Setpoints.Speed"]).starts_with("exit 0");
    assert!(reads());
    // The key after the next is one that the servers have never seen.
    assert_eq!(scene.json(&["token", "rotate-keys"])["rotated"], true);
    assert!(reads(), "the next key was published before");
    assert_eq!(scene.json(&["token", "rotate-keys"])["rotated"], true);
    until("the servers know the new key", reads);

    let (trusted, aside) = (scene.path("pki/mixer/trusted/certs/ca.der"), scene.path("ca.der"));
    std::fs::rename(&trusted, &aside).unwrap();
    until("the mixer trusts nobody", || !reads());
    std::fs::rename(&aside, &trusted).unwrap();
    until("the mixer trusts again", reads);

    let policies = scene.read("policies.cedar");
    scene.write("policies.cedar", &policies.replacen("when {", "wehn {", 1));
    let refused = scene.run(&["policy", "reload"]);
    assert!(
        refused.starts_with("exit 1") && refused.contains("policies line 21: invalid policy condition"),
        "{refused}"
    );
    assert!(reads(), "a broken file changes nothing");
    scene.write("policies.cedar", &format!("{policies}\n@id(\"stop\") forbid (principal, action, resource);\n"));
    assert!(scene.json(&["policy", "reload"])["epoch"].as_u64().unwrap() > 1);
    assert!(!reads());
    up.stop();
    assert_eq!(scene.json(&["audit", "verify"])["intact"], true);
}

#[test]
fn what_cannot_run_says_why() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let again = scene.run(&["up"]);
    assert!(again.starts_with("exit 3") && again.contains("is in use by another program"), "{again}");
    up.stop();
    let _taken = TcpListener::bind(("127.0.0.1", ports[2])).unwrap();
    let busy = scene.run(&["up"]);
    assert!(busy.starts_with("exit 3") && busy.contains("cannot listen at 127.0.0.1"), "{busy}");
    scene.write("trapkey.toml", &scene.read("trapkey.toml").replace("name = \"mixer\"", "name = \"mixr\""));
    let unknown = scene.run(&["up"]);
    assert!(unknown.starts_with("exit 2") && unknown.contains("did you mean `mixer`?"), "{unknown}");
    let mut file = std::fs::File::options().append(true).open(scene.path("policies.cedar")).unwrap();
    file.write_all(b"permit (principal, action, resource) when { nothing };\n").unwrap();
    assert!(scene.run(&["up"]).starts_with("exit 2"));
}
