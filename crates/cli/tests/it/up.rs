//! The product as one process and its commands as others: authority, servers, client, administration, audit.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::Scene;

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";

/// A running `trapkey up`; ended with the test, however that ends.
pub(super) struct Up(pub(super) Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Up {
    /// Starts it and waits until each role has said where it is.
    pub(super) fn start(scene: &Scene, roles: usize) -> Self {
        Self::start_with(scene, "trapkey.toml", roles)
    }

    /// With another configuration than the usual.
    pub(super) fn start_with(scene: &Scene, config: &str, roles: usize) -> Self {
        // Programs beside it write elsewhere.
        let log = if config == "trapkey.toml" { "up.log".to_owned() } else { format!("{config}.log") };
        let log = std::fs::File::create(scene.path(&log)).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
            .args(["up", "--config", config])
            .current_dir(scene.folder.path())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let up = Self(child);
        for _ in 0..roles {
            let line = lines
                .next()
                .unwrap_or_else(|| panic!("it ended; see its log in {}", scene.folder.path().display()))
                .unwrap();
            assert!(line.contains(" at "), "{line}");
        }
        up
    }

    /// As an operator stops it.
    pub(super) fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

/// The batch plant with free ports, certificates, an operator with a password and an administrator with a certificate.
pub(super) fn scene() -> (Scene, Vec<u16>) {
    let scene = Scene::plant();
    let ports: Vec<u16> = (0..5).map(|_| testkit::ports::free()).collect();
    let mut config = scene.read("trapkey.toml");
    for (known, free) in ["8443", "4841", "4850", "4851", "4852"].iter().zip(&ports) {
        config = config.replace(&format!(":{known}\""), &format!(":{free}\""));
    }
    // A gate that hears nothing for three seconds is right to close; a busy computer is no reason.
    let config = config.replace("contact_timeout = \"3s\"", "contact_timeout = \"10m\"");
    // Clients of these tests do not look for the end and would be waited for.
    let config = config.replace("drain = \"10s\"", "drain = \"0s\"");
    scene.write("trapkey.toml", &config.replace("pki/controller", "pki/ada"));
    scene.json(&["certs", "init"]);
    scene.json(&["certs", "add", "ada", "urn:ada"]);
    assert_eq!(scene.json(&["user", "certify", "ada", "pki/ada/own/certs/own.der"])["name"], "ada");
    assert!(with_input(&scene, &["user", "set", "olga"], "short\n").starts_with("exit 2"));
    assert!(with_input(&scene, &["user", "set", "olga"], "olgas password\n").starts_with("exit 0"));
    (scene, ports)
}

pub(super) fn with_input(scene: &Scene, args: &[&str], input: &str) -> String {
    scene.write("input", input);
    let done = Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(args)
        .current_dir(scene.folder.path())
        .stdin(std::fs::File::open(scene.path("input")).unwrap())
        .output()
        .unwrap();
    format!("exit {}\n{}", done.status.code().unwrap(), String::from_utf8_lossy(&done.stderr))
}

pub(super) struct Olga<'a> {
    pub(super) scene: &'a Scene,
    pub(super) url: String,
}

impl Olga<'_> {
    pub(super) fn client(&self, verb: &str, rest: &[&str]) -> String {
        let args = [&["client", verb, &self.url, "--pki", "pki/hmi", "--user", "olga"], rest].concat();
        self.scene.run_with(&args, &[("TRAPKEY_PASSWORD", "olgas password")])
    }

    /// Waits until the server's gate has heard of its authority: before that it serves nobody.
    pub(super) fn served(self, node: &str) -> Self {
        until("the server is in step with its authority", || self.client("read", &[node]).starts_with("exit 0"));
        self
    }
}

#[test]
fn rights_come_and_go_with_the_step_and_everything_is_in_the_ledger() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let health = scene.json(&["doctor"]);
    assert_eq!(health["healthy"], true, "{health:#}");
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    let speed = SPEED;

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
    until("the mixer knows", || by_token("read").starts_with("exit 1"));
    let nobody = scene.run(&["token", "revoke", id, "--pki", "pki/hmi"]);
    assert!(nobody.starts_with("exit 1") && nobody.contains("403"), "{nobody}");
    // An id of base64url may begin as an option does.
    let unknown = scene.run(&["token", "revoke", "-9never4issued5before0A"]);
    assert!(unknown.starts_with("exit 1") && unknown.contains("no such token"), "{unknown}");

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
pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..480 {
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
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
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

#[test]
fn a_revoked_certificate_loses_its_channel_while_it_is_used() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    let level = "ns=1;s=Mixer.Setpoints.Speed";
    let watch = |pki: &str, file: &str| {
        let child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
            .args(["client", "watch", &olga.url, "--pki", pki, "--user", "olga", level])
            .env("TRAPKEY_PASSWORD", "olgas password")
            .env("TRAPKEY_LOG", "off")
            .current_dir(scene.folder.path())
            .stdout(std::fs::File::create(scene.path(file)).unwrap())
            .stderr(Stdio::null())
            .spawn();
        until("it sees a value", || scene.read(file).contains(level));
        Up(child.unwrap())
    };
    let _watching = watch("pki/hmi", "hmi.log");

    let refused = scene.run(&["certs", "revoke", "nobody"]);
    assert!(refused.starts_with("exit 2"), "{refused}");
    let revoked = scene.json(&["certs", "revoke", "hmi", "--reason", "key-compromise"]);
    assert_eq!((&revoked["number"], &revoked["revoked"]), (&2.into(), &1.into()), "{revoked:#}");
    let records = || scene.run(&["audit", "tail", "-n", "1000", "--output", "json"]);
    until("the channel is closed for its certificate", || records().contains("certificate_revoked"));
    until("nothing more comes in with it", || {
        let said = olga.client("read", &[level]);
        said.starts_with("exit 3") || said.starts_with("exit 1")
    });
    let listed = scene.json(&["certs", "list"]);
    let hmi = listed.as_array().unwrap().iter().find(|line| line["name"] == "hmi").unwrap();
    assert_eq!(hmi["revoked"], true);
    let other = scene.run_with(
        &["client", "read", &olga.url, "--pki", "pki/dashboard", "--user", "olga", level],
        &[("TRAPKEY_PASSWORD", "olgas password")],
    );
    assert!(other.starts_with("exit 0"), "others notice nothing: {other}");
    up.stop();
}

#[test]
fn a_password_goes_to_pinned_authorities_only() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    let reads = |more: &[&str]| olga.client("read", &[&["ns=1;s=Mixer.Setpoints.Speed"], more].concat());
    assert!(reads(&[]).starts_with("exit 0"), "the configuration names the authority");
    let config = scene.read("trapkey.toml");
    scene.write("trapkey.toml", &config.replace("authorities = [", "authorities = [] # ["));
    let refused = reads(&[]);
    assert!(refused.starts_with("exit 2") && refused.contains("--authority opc.tcp://localhost:"), "{refused}");
    let authority = format!("opc.tcp://localhost:{}", ports[1]);
    assert!(reads(&["--authority", &authority]).starts_with("exit 0"), "by its URL");
    assert!(reads(&["--authority", "urn:trapkey:authority"]).starts_with("exit 0"), "by its name");
    let shown = scene.json(&["certs", "show", "pki/authority/own/certs/own.der"]);
    assert!(reads(&["--authority", shown["thumbprint"].as_str().unwrap()]).starts_with("exit 0"), "by certificate");
    assert!(reads(&["--authority", "urn:somebody:else"]).starts_with("exit 2"));
    scene.write("trapkey.toml", &config.replace("authorities = [", "authorities = [\"nonsense\", "));
    assert!(scene.run(&["config", "check"]).starts_with("exit 2"));
    up.stop();
}
