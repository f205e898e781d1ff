//! `trapkey cost watch` beside real programs of which one stage becomes slower, by what happens in plants: that stage is named, before any
//! other. `upstream` is in `watch`, what computes in `inside`; stages that nothing slows by itself are listed in
//! `docs/guides/watch-the-cost.md`.
//!
//! Machines of tests are busy, and what else runs on them slows all stages, or leaves them alone again. So references are taken on the busy
//! machine, what happens to a stage is far more than that, and what is asked is that no other stage is slower by a third as much.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, ClientOptions, Login};
use gates::pki::PkiStore;
use opcua_types::Variant;
use serde_json::Value;
use testkit::relay::Relay;
use ua_proto::pki::TrustSettings;

use super::guard::{Guarded, SPEED, speed, user};
use super::health::Health;
use super::processes::apart;
use super::up::{Up, scene, until};
use super::watch::Watching;

/// A band of three times: computers of tests are shared, and their load is no stage. What follows is slower by far more.
pub(super) const BAND: [&str; 6] = ["--learn", "3s", "--band", "200", "--false-alarms", "1h"];

/// Clients that go on until the test is over.
pub(super) struct Clients {
    over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Clients {
    pub(super) fn new() -> Self {
        Self { over: Arc::default(), tasks: Vec::new() }
    }

    /// So many who log in, leave, and come back after a pause.
    pub(super) fn log_in(&mut self, count: usize, pause: u64, options: &ClientOptions) {
        for nth in 0..count {
            let first = Duration::from_millis(pause * nth as u64 / count as u64);
            let (over, options) = (Arc::clone(&self.over), options.clone());
            self.tasks.push(tokio::spawn(async move {
                // Not all at once, or they stay together.
                tokio::time::sleep(first).await;
                while !over.load(Ordering::Acquire) {
                    if let Ok(client) = Client::connect(options.clone()).await {
                        client.close().await;
                    }
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }));
        }
    }

    /// So many who log in, read the speed, leave, and come back after a pause.
    pub(super) fn visit(&mut self, count: usize, pause: u64, options: &ClientOptions) {
        for _ in 0..count {
            let (over, options) = (Arc::clone(&self.over), options.clone());
            self.tasks.push(tokio::spawn(async move {
                while !over.load(Ordering::Acquire) {
                    if let Ok(client) = Client::connect(options.clone()).await {
                        if let Ok(Some(node)) = client.node_id(SPEED).await {
                            let _read = client.read(&[node]).await;
                        }
                        client.close().await;
                    }
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }));
        }
    }

    /// Somebody who stays, reads the speed often, and changes it.
    pub(super) async fn work(&mut self, options: &ClientOptions) {
        let mut client = Client::connect(options.clone()).await;
        for _ in 0..240 {
            match client {
                Ok(_) => break,
                Err(_) => tokio::time::sleep(Duration::from_millis(125)).await,
            }
            client = Client::connect(options.clone()).await;
        }
        let client = client.unwrap();
        let (over, node) = (Arc::clone(&self.over), speed(&client).await);
        self.tasks.push(tokio::spawn(async move {
            // One decision in 64 is timed.
            let many = vec![node.clone(); 128];
            while !over.load(Ordering::Acquire) {
                let _read = client.read(&many).await;
                let _written = client.write(vec![(node.clone(), Variant::Double(12.5))]).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            client.close().await;
        }));
    }

    pub(super) async fn end(self) {
        self.over.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Waits until all of these have a reference.
pub(super) fn learned(watching: &mut Watching, stages: &[&str]) {
    watching.until(&format!("{stages:?} are learned"), |look| {
        let seen = look["report"]["stages"].as_array().unwrap().iter();
        let known: Vec<&Value> = seen.filter(|seen| !seen["reference"].is_null()).map(|seen| &seen["stage"]).collect();
        stages.iter().all(|stage| known.contains(&&Value::from(*stage)))
    });
}

/// The stages with an alarm for being slower, each with how many times as long it takes; the farthest first.
pub(super) fn slower(look: &Value) -> Vec<(String, f64)> {
    let seen = look["report"]["stages"].as_array().unwrap().iter().filter(|seen| seen["alarm"] == "slower");
    let mean = |of: &Value| of["mean"].as_f64().unwrap();
    let factor = |seen: &Value| mean(&seen["now"]) / mean(&seen["reference"]);
    let mut all: Vec<(String, f64)> =
        seen.map(|seen| (seen["stage"].as_str().unwrap().to_owned(), factor(seen))).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all
}

/// Something has become slow: this stage is named, and no other is slower by a third as much.
pub(super) fn names(watching: &mut Watching, stage: &str) {
    let (_, mut look) = watching.until(&format!("{stage} is slower"), |look| {
        let named = slower(look);
        named.iter().any(|(name, _)| name == stage)
    });
    for _ in 0..8 {
        let named = slower(&look);
        let ((first, factor), rest) = named.split_first().expect("the alarm stands");
        assert!(first == stage && rest.iter().all(|(_, other)| other * 3.0 < *factor), "{stage}: {named:?} {look:#}");
        look = watching.look();
    }
}

/// It is quick again.
pub(super) fn clears(watching: &mut Watching, stage: &str) {
    watching.until(&format!("{stage} is quick again"), |look| slower(look).iter().all(|(name, _)| name != stage));
}

/// A guard, its server and the authority as programs of their own, with networks between them that can be late.
pub(super) struct Line {
    pub(super) plant: Guarded,
    /// Clients, the guard.
    near: Relay,
    /// The guard, the authority.
    behind: Relay,
    pub(super) gate: Up,
    _authority: Up,
    _old: Up,
}

impl Line {
    pub(super) fn start() -> Self {
        let mut plant = Guarded::new("sign_in = [\"x509\"]", "");
        let near = Relay::start(&plant.url);
        plant.url = near.url().to_owned();
        plant.scene.json(&["certs", "add", "olga", "urn:olga"]);
        plant.scene.json(&["user", "certify", "olga", "pki/olga/own/certs/own.der"]);
        let whole = plant.scene.read("trapkey.toml");
        let https = whole.lines().find_map(|line| line.strip_prefix("https = \"")).unwrap().trim_end_matches('"');
        let behind = Relay::start(https);
        let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
        let told = format!("https://localhost:{}", port(https));
        let whole = whole.replace(&told, &format!("https://localhost:{}", port(behind.url())));
        let (rest, guard) = whole.split_at(whole.find("\n[[guard]]\nname = \"gate\"").unwrap());
        let (common, roles) = rest.split_once("\n[authority]").unwrap();
        let (authority, server) = roles.split_at(roles.find("\n[[server]]").unwrap());
        let value = |key: &str| server.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        let address =
            format!("\ncontact_timeout = \"10m\"\n{}\n{}\nname = ", value("authority = "), value("authority_opcua = "));
        for (name, role) in
            [("authority", format!("\n[authority]{authority}")), ("gate", guard.replacen("\nname = ", &address, 1))]
        {
            let common = common.replace("var/ledger", &format!("var/{name}-ledger"));
            plant
                .scene
                .write(&format!("{name}.toml"), &(common.replace("var/audit.pem", &format!("var/{name}.pem")) + &role));
        }
        plant.scene.write("trapkey.toml", &whole);
        let health = Health::of(&plant.scene, "gate.toml");
        let _figures = Health::of(&plant.scene, "authority.toml");
        let authority = Up::start_with(&plant.scene, "authority.toml", 2);
        let old = Up::start_with(&plant.scene, "old.toml", 1);
        let gate = Up::start_with(&plant.scene, "gate.toml", 2);
        health.wait(200);
        plant.step();
        Self { plant, near, behind, gate, _authority: authority, _old: old }
    }

    /// Olga with her certificate: no password is hashed.
    pub(super) fn olga(&self) -> ClientOptions {
        let own = PkiStore::new(self.plant.scene.path("pki/olga"), TrustSettings::default()).identity().unwrap();
        self.plant.options("pki/hmi", Login::Certificate(Arc::new(own)))
    }

    pub(super) fn watch(&self) -> Watching {
        Watching::start(&self.plant.scene, &[&["--config", "gate.toml"][..], &BAND].concat())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes the machine for itself: beside compilers too few clients come to tell in time"]
async fn a_late_network_is_named_by_whose_way_it_is_on() {
    let line = Line::start();
    let mut clients = Clients::new();
    // Many who come seldom: the more of them wait, the sooner it shows.
    clients.log_in(40, 1_500, &line.olga());
    clients.work(&line.olga()).await;
    let mut watching = line.watch();
    let stages = ["hello", "open_channel", "create", "activate", "authority", "token"];
    learned(&mut watching, &stages.map(|stage| format!("gate {stage}")).each_ref().map(String::as_str));

    // A firewall that looks at who begins to talk.
    line.near.delay_first(Duration::from_secs(3));
    names(&mut watching, "gate hello");
    line.near.delay_first(Duration::ZERO);
    clears(&mut watching, "gate hello");

    // The way to the clients.
    line.near.delay(Duration::from_millis(2_000));
    names(&mut watching, "gate open_channel");
    line.near.delay(Duration::ZERO);

    // The way to the authority.
    line.behind.delay(Duration::from_secs(4));
    names(&mut watching, "gate authority");
    assert_eq!(watching.end(), 1, "an alarm stands");
    line.behind.delay(Duration::ZERO);
    clients.end().await;
}

/// System calls of some threads of a program that take longer than they did.
pub(super) struct Held(Child);

impl Held {
    /// The threads whose names begin so, held for 400 ms at each of these calls. `None`, with a line that says so, where nobody may do that
    /// to a program.
    pub(super) fn at(program: &Up, thread: &str, calls: &str) -> Option<Self> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", program.0.id())).unwrap();
        let named = |path: &std::path::Path| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with(thread))
        };
        let tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).filter(|path| named(path)).collect();
        assert!(!tasks.is_empty(), "a thread of this name: {thread}");
        let mut strace = Command::new("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        strace.args(["-e", &format!("inject={calls}:delay_enter=400000")]);
        for task in &tasks {
            strace.args(["-p", &task.file_name().unwrap().to_string_lossy()]);
        }
        let Ok(strace) = strace.stderr(Stdio::null()).spawn() else {
            println!("SKIPPED: there is no strace");
            return None;
        };
        let mut held = Self(strace);
        let traced = |task: &std::path::PathBuf| {
            std::fs::read_to_string(task.join("status")).is_ok_and(|it| !it.contains("TracerPid:\t0\n"))
        };
        let mut ended = false;
        until("strace holds the threads, or may not", || {
            ended = held.0.try_wait().unwrap().is_some();
            ended || tasks.iter().all(traced)
        });
        if ended {
            println!("SKIPPED: strace may not look at the program");
            return None;
        }
        Some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It lets the threads go by itself, which it could not if it were killed.
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_becomes_slow_is_the_ledger_that_moved() {
    let line = Line::start();
    let mut clients = Clients::new();
    clients.log_in(16, 600, &line.olga());
    for _ in 0..2 {
        clients.work(&line.olga()).await;
    }
    let mut watching = line.watch();
    let stages = ["ledger_write", "gate upstream", "gate create", "gate activate", "gate authority"];
    learned(&mut watching, &stages);
    // A disk that takes long for each write: the thread that writes the ledger waits at its system calls.
    let Some(disk) = Held::at(&line.gate, "audit-ledger", "pwrite64,fdatasync,fsync") else {
        return clients.end().await;
    };
    names(&mut watching, "ledger_write");
    drop(disk);
    clears(&mut watching, "ledger_write");
    assert_eq!(watching.end(), 0);
    clients.end().await;
}

/// As the plant keeps it, with this many passes over this much memory in KiB.
fn hash(password: &str, memory: u32, passes: u32) -> String {
    use argon2::password_hash::{PasswordHasher, SaltString};
    let params = argon2::Params::new(memory, passes, 1, None).unwrap();
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let salt = SaltString::encode_b64(b"salt of a test..").unwrap();
    argon2.hash_password(password.as_bytes(), &salt).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes the machine for itself: beside compilers too few clients come to tell in time"]
async fn passwords_that_are_kept_with_more_work_are_the_activation_that_moved() {
    let (scene, ports) = scene();
    apart(&scene);
    let person = |name: &str, hash: &str| format!("\n[[server.user]]\nname = \"{name}\"\npassword = \"{hash}\"\n");
    let local = "\n[[server.local]]\nrole = \"vendor\"\nrights = [\"browse\", \"read\"]\n";
    let mixer = scene.read("mixer.toml")
        + &person("victor", &hash("secret words", 64, 1))
        + &person("vera", &hash("secret words", 19_456, 60));
    scene.write("mixer.toml", &(mixer + local));
    scene.write("plant.toml", &(scene.read("plant.toml") + "\n[[person]]\nname = \"vera\"\nroles = [\"vendor\"]\n"));
    let health = Health::of(&scene, "mixer.toml");
    let _mixer = Up::start_with(&scene, "mixer.toml", 2);
    until("it answers", || health.ask("GET /livez").0 == 200);
    let plant = Guarded { scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]), old: String::new() };
    let options = |name: &str| plant.options("pki/hmi", user(name, "secret words"));

    let mut clients = Clients::new();
    clients.log_in(4, 50, &options("victor"));
    let mut watching = Watching::start(&plant.scene, &[&["--config", "mixer.toml"][..], &BAND].concat());
    learned(
        &mut watching,
        &["hello", "open_channel", "create", "activate"]
            .map(|stage| format!("mixer {stage}"))
            .each_ref()
            .map(String::as_str),
    );
    // The persons of the next shift have passwords that are kept as one does today.
    clients.end().await;
    let mut clients = Clients::new();
    clients.log_in(3, 50, &options("vera"));
    names(&mut watching, "mixer activate");
    clients.end().await;
    assert_eq!(watching.end(), 1, "an alarm stands");
}

/// Policies that nobody needs, and that each decision looks at.
fn policies(count: usize) -> String {
    let one = |nth: usize| {
        format!(
            "@id(\"extra-{nth}\")\npermit (principal in Role::\"operator\", action in Action::\"view\", resource in Zone::\"line-1\") \
             when {{ resource.labels.contains(\"extra-{nth}\") }};\n"
        )
    };
    (0..count).map(one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes the machine for itself"]
async fn policies_that_become_many_times_as_many_are_the_issuing_of_tokens_that_moved() {
    let line = Line::start();
    let scene = &line.plant.scene;
    let mut clients = Clients::new();
    clients.log_in(2, 100, &line.olga());
    // Who only comes and goes at the authority itself notices nothing.
    let url = scene.read("authority.toml").lines().find_map(|line| line.strip_prefix("opcua = \"").map(str::to_owned));
    let mut options = line.plant.options("pki/hmi", Login::Anonymous);
    options.url = format!("opc.tcp://{}", url.unwrap().trim_end_matches('"'));
    clients.log_in(2, 100, &options);
    let mut watching = Watching::start(scene, &[&["--config", "authority.toml"][..], &BAND].concat());
    let stages = ["issue", "authority hello", "authority open_channel", "authority create", "authority activate"];
    learned(&mut watching, &stages);
    let few = scene.read("policies.cedar");
    scene.write("policies.cedar", &(few + &policies(500)));
    // On a busy machine it takes longer than one waits for the answer: that they are in force shows below.
    scene.json_or_error(&["policy", "reload"]);
    names(&mut watching, "issue");
    assert_eq!(watching.end(), 1, "an alarm stands");
    clients.end().await;
}
