//! How the program shows how it is: over HTTP, part by part, and as figures that move when the thing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::Scene;
use super::guard::Guarded;
use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";

/// Where a program tells of itself.
pub(super) struct Health(u16);

impl Health {
    /// Adds it to the configuration.
    pub(super) fn of(scene: &Scene, config: &str) -> Self {
        let port = testkit::ports::free();
        let text = scene.read(config);
        let known = "# listen = \"127.0.0.1:9480\"";
        assert!(text.contains(known));
        scene.write(config, &text.replacen(known, &format!("listen = \"127.0.0.1:{port}\""), 1));
        Self(port)
    }

    pub(super) fn ask(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.0)).unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    /// Status and parts of `/readyz`.
    pub(super) fn ready(&self) -> (u16, serde_json::Value) {
        let (status, _, body) = self.ask("GET /readyz");
        (status, serde_json::from_str(&body).unwrap())
    }

    pub(super) fn part(&self, part: &str, name: &str) -> serde_json::Value {
        self.found(part, name).unwrap_or_else(|said| panic!("no {part} {name}: {said:#}"))
    }

    /// The part, or all that is said where a program that starts does not have it yet.
    fn found(&self, part: &str, name: &str) -> Result<serde_json::Value, serde_json::Value> {
        let (_, said) = self.ready();
        let mut parts = said["parts"].as_array().unwrap().iter();
        let found = parts.find(|one| one["part"] == part && one["name"] == name).cloned();
        found.ok_or(said)
    }

    pub(super) fn wait(&self, status: u16) {
        until(&format!("/readyz says {status}"), || self.ready().0 == status);
    }

    pub(super) fn metrics(&self) -> Metrics {
        let (status, head, body) = self.ask("GET /metrics");
        assert_eq!(status, 200);
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        Metrics::parse(&body).unwrap_or_else(|fault| panic!("{fault}\n{body}"))
    }
}

type Labels = BTreeMap<String, String>;

/// An exposition, read strictly.
#[derive(Debug)]
pub(super) struct Metrics {
    samples: BTreeMap<(String, Labels), f64>,
    families: BTreeMap<String, (String, Option<String>)>,
}

impl Metrics {
    /// OpenMetrics 1.0, the text format: families one after the other, each with its metadata first, each sample with a name
    /// that its type allows, histograms cumulative and whole, and the end marked.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let body = text.strip_suffix("# EOF\n").ok_or("the end is not marked")?;
        let mut read = Self { samples: BTreeMap::new(), families: BTreeMap::new() };
        let mut family = String::new();
        for line in body.lines() {
            let fault = |why: &str| format!("{why}: {line}");
            if let Some(metadata) = line.strip_prefix("# ") {
                let mut words = metadata.splitn(3, ' ');
                let (word, name, rest) = (words.next(), words.next(), words.next());
                let (Some(word), Some(name), Some(rest)) = (word, name, rest) else { return Err(fault("no metadata")) };
                match word {
                    "HELP" if read.families.contains_key(name) => return Err(fault("a family stands twice")),
                    "HELP" => {
                        family = name.to_owned();
                        read.families.insert(family.clone(), (String::new(), None));
                    }
                    "TYPE" | "UNIT" if name != family => return Err(fault("metadata of another family")),
                    "TYPE" => read.families.get_mut(name).unwrap().0 = rest.to_owned(),
                    "UNIT" if !name.ends_with(&format!("_{rest}")) => return Err(fault("the name lacks the unit")),
                    "UNIT" => read.families.get_mut(name).unwrap().1 = Some(rest.to_owned()),
                    _ => return Err(fault("unknown metadata")),
                }
                continue;
            }
            let (name, labels, value) = sample(line).ok_or_else(|| fault("no sample"))?;
            let suffixes: &[&str] = match read.families.get(&family).map(|(kind, _)| kind.as_str()) {
                Some("gauge") => &[""],
                Some("counter") => &["_total"],
                Some("histogram") => &["_bucket", "_sum", "_count"],
                Some("info") => &["_info"],
                _ => return Err(fault("a sample without a type")),
            };
            if !suffixes.iter().any(|suffix| name == format!("{family}{suffix}")) {
                return Err(fault("not a name of this family"));
            }
            if read.samples.insert((name, labels), value).is_some() {
                return Err(fault("the sample stands twice"));
            }
        }
        read.histograms_are_whole()?;
        Ok(read)
    }

    fn histograms_are_whole(&self) -> Result<(), String> {
        for family in self.families.iter().filter(|(_, (kind, _))| kind == "histogram").map(|(name, _)| name) {
            let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for ((name, labels), value) in &self.samples {
                if name == &format!("{family}_bucket") {
                    let mut labels = labels.clone();
                    let bound = labels.remove("le").ok_or_else(|| format!("{family}: a bucket without a bound"))?;
                    let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().map_err(|_| bound)? };
                    series.entry(labels).or_default().push((bound, *value));
                }
            }
            for (labels, mut buckets) in series {
                buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
                let count = self.samples.get(&(format!("{family}_count"), labels.clone()));
                let sum = self.samples.get(&(format!("{family}_sum"), labels));
                let last = buckets.last().filter(|(bound, _)| bound.is_infinite()).map(|(_, count)| count);
                if sum.is_none() || count.is_none() || last != count || !buckets.is_sorted_by(|a, b| a.1 <= b.1) {
                    return Err(format!("{family}: not a whole histogram"));
                }
            }
        }
        Ok(())
    }

    /// The sum of all samples of this name that have these labels.
    pub(super) fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |has: &Labels| labels.iter().all(|(key, value)| has.get(*key).is_some_and(|has| has == value));
        let found: Vec<f64> =
            self.samples.iter().filter(|((n, has), _)| n == name && fits(has)).map(|(_, value)| *value).collect();
        assert!(!found.is_empty(), "there is no {name} {labels:?}");
        found.iter().sum()
    }

    fn label_values(&self) -> BTreeSet<&str> {
        self.samples.keys().flat_map(|(_, labels)| labels.values().map(String::as_str)).collect()
    }
}

fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    if !name.starts_with(letter) || !name.chars().all(|c| letter(c) || c.is_ascii_digit()) {
        return None;
    }
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (key, quoted) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut letters = quoted.char_indices();
            let end = loop {
                match letters.next()? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match letters.next()?.1 {
                        'n' => '\n',
                        escaped @ ('\\' | '"') => escaped,
                        _ => return None,
                    }),
                    (_, letter) => value.push(letter),
                }
            };
            if labels.insert(key.to_owned(), value).is_some() {
                return None;
            }
            rest = &quoted[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    Some((name.to_owned(), labels, rest.strip_prefix(' ')?.parse().ok()?))
}

#[test]
fn the_parser_of_these_tests_takes_no_broken_text() {
    let good = "# HELP a_seconds x\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\na_seconds_sum 1.5\n\
                a_seconds_count 2\na_seconds_bucket{le=\"0.1\"} 1\na_seconds_bucket{le=\"+Inf\"} 2\n# EOF\n";
    assert_eq!(Metrics::parse(good).unwrap().get("a_seconds_count", &[]), 2.0);
    for (from, to) in [
        ("# EOF\n", ""),
        ("# TYPE a_seconds histogram\n", ""),
        ("a_seconds_sum 1.5\n", ""),
        ("_count 2", "_count 3"),
        ("le=\"0.1\"} 1", "le=\"0.1\"} 3"),
        ("UNIT a_seconds seconds", "UNIT a_seconds bytes"),
        ("a_seconds_sum", "b_seconds_sum"),
        ("le=\"0.1\"", "le=\"+Inf\""),
        ("a_seconds_count 2", "a_seconds_count two"),
    ] {
        assert!(Metrics::parse(&good.replacen(from, to, 1)).is_err(), "{from} → {to}");
    }
}

#[test]
fn each_part_has_its_line_and_each_figure_moves_when_the_thing_happens() {
    let (scene, ports) = scene();
    let health = Health::of(&scene, "trapkey.toml");
    let up = Up::start(&scene, 5);
    health.wait(200);
    assert_eq!(health.ask("GET /livez").0, 200);
    assert_eq!((health.ask("GET /").0, health.ask("POST /livez").0), (404, 405));
    assert_eq!(health.ask("HEAD /readyz").2, "");
    for name in ["mixer", "reactor", "filler"] {
        assert_eq!(health.part("listener", name)["ready"], true);
        assert_eq!(health.part("authority_link", name)["fail_state"], "in_step");
    }
    assert!(health.part("policy", "authority")["epoch"].is_u64() && health.part("ledger", "ledger")["ready"] == true);

    let before = health.metrics();
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) };
    assert!(olga.client("read", &[SPEED]).starts_with("exit 0"));
    assert!(olga.client("write", &[SPEED, "1"]).contains("BadUserAccessDenied"));
    let next = scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
    scene.json(&["step", &next]);
    assert!(olga.client("write", &[SPEED, "12.5"]).starts_with("exit 0"));
    let stranger =
        ["client", "read", &olga.url, "--pki", "pki/hmi", "--user", "evil\"} 1\nevil 2", "--to-server", SPEED];
    assert!(!scene.run_with(&stranger, &[("TRAPKEY_PASSWORD", "evil")]).starts_with("exit 0"));
    let asked = ["token", "issue", "--application", "urn:trapkey:demo:hmi", "--person", "olga", "--audience"];
    let issued = scene.json(&[&asked[..], &["urn:trapkey:demo:mixer"]].concat());
    scene.json(&["token", "revoke", issued["id"].as_str().unwrap()]);
    let mixer = ("listener", "mixer");
    let moved = |name: &str, labels: &[(&str, &str)]| {
        until(&format!("{name} {labels:?} moves"), || health.metrics().get(name, labels) > before.get(name, labels));
    };
    for stage in ["hello", "open_channel", "create", "activate", "activate_here"] {
        moved("trapkey_session_setup_seconds_count", &[mixer, ("stage", stage)]);
    }
    moved("trapkey_decisions_total", &[mixer]);
    moved("trapkey_permits_total", &[mixer]);
    moved("trapkey_decision_seconds_count", &[]);
    moved("trapkey_denials_total", &[mixer, ("reason", "right_missing")]);
    moved("trapkey_token_seconds_count", &[mixer]);
    moved("trapkey_listener_cpu_seconds_total", &[mixer]);
    moved("trapkey_authority_issue_seconds_count", &[]);
    moved("trapkey_authority_tokens_total", &[("outcome", "issued")]);
    moved("trapkey_ledger_write_seconds_count", &[]);
    moved("trapkey_ledger_sequence", &[]);
    moved("trapkey_authority_policy_epoch", &[]);
    moved("trapkey_revocation_lag_seconds_count", &[mixer]);
    moved("trapkey_epoch", &[mixer]);
    let now = health.metrics();
    assert_eq!(now.get("trapkey_denials_total", &[("listener", "filler"), ("reason", "right_missing")]), 0.0);
    assert!(!now.label_values().iter().any(|value| value.contains("evil")), "nothing that a peer sends is a label");
    assert_eq!(now.get("trapkey_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    for gauge in ["trapkey_ledger_up", "trapkey_listener_up"] {
        assert!(now.get(gauge, &[]) >= 1.0, "{gauge}");
    }
    let watching = Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(["client", "watch", &olga.url, "--pki", "pki/hmi", "--user", "olga", SPEED])
        .env("TRAPKEY_PASSWORD", "olgas password")
        .current_dir(scene.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let watching = Up(watching.unwrap());
    for gauge in ["trapkey_connections", "trapkey_sessions", "trapkey_subscriptions", "trapkey_grants"] {
        until(gauge, || health.metrics().get(gauge, &[mixer]) >= 1.0);
    }
    drop(watching);
    until("the connection is gone", || health.metrics().get("trapkey_connections", &[mixer]) == 0.0);
    python_agrees(&health.ask("GET /metrics").2);
    up.stop();
}

/// The reference parser, where it is installed.
fn python_agrees(text: &str) {
    let script = "import sys\ntry:\n    from prometheus_client.openmetrics.parser import text_string_to_metric_families as f\n\
                  except ImportError:\n    sys.exit(9)\nprint(len(list(f(sys.stdin.read()))))\n";
    let python = Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else { return println!("SKIPPED: there is no python3") };
    // One that lacks the parser has gone already.
    let _ = python.stdin.take().unwrap().write_all(text.as_bytes());
    let done = python.wait_with_output().unwrap();
    match done.status.code() {
        Some(0) => assert!(String::from_utf8(done.stdout).unwrap().trim().parse::<usize>().unwrap() > 20),
        Some(9) => println!("SKIPPED: python3 has no prometheus_client"),
        code => panic!("the reference parser refuses it: {code:?}"),
    }
}

#[test]
fn a_guard_tells_of_its_server_and_a_listener_beyond_loopback_must_be_wanted() {
    let plant = Guarded::new("", "");
    let health = Health::of(&plant.scene, "trapkey.toml");
    let up = Up::start(&plant.scene, 5);
    assert_eq!((health.ready().0, health.ask("GET /livez").0), (503, 200));
    let upstream = health.part("upstream", "gate");
    assert!(upstream["ready"] == false && upstream["cause"].is_string(), "{upstream:#}");
    assert_eq!(health.metrics().get("trapkey_upstream_up", &[("listener", "gate")]), 0.0);
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    health.wait(200);
    let olga = Olga { scene: &plant.scene, url: plant.url.clone() };
    let node = "nsu=urn:trapkey:demo:mixer;s=Mixer.Setpoints.Speed";
    until("a read gets through", || olga.client("read", &[node]).starts_with("exit 0"));
    let figures = health.metrics();
    assert!(figures.get("trapkey_upstream_open_seconds_count", &[("listener", "gate")]) >= 1.0);
    assert!(figures.get("trapkey_upstream_latency_seconds_count", &[("listener", "gate")]) >= 1.0);
    assert_eq!(figures.get("trapkey_upstream_up", &[("listener", "gate")]), 1.0);
    drop(old);
    until("the guard finds its server gone", || {
        olga.client("read", &[node]);
        health.part("upstream", "gate")["ready"] == false
    });
    assert_eq!(health.ready().0, 503);
    up.stop();
    let config = plant.scene.read("trapkey.toml").replacen("listen = \"127.0.0.1:", "listen = \"0.0.0.0:", 1);
    plant.scene.write("trapkey.toml", &config);
    let said = plant.scene.run(&["config", "check"]);
    assert!(said.starts_with("exit 2") && said.contains("danger_beyond_loopback"), "{said}");
}

#[test]
fn a_lost_authority_shows_at_servers_and_guards_as_their_fail_mode_says() {
    let plant = Guarded::new("", "");
    let scene = &plant.scene;
    // The authority, a server and the guard as programs of their own; the guard's server need not be there.
    let whole = scene.read("trapkey.toml");
    let (rest, guard) = whole.split_at(whole.find("\n[[guard]]\nname = \"gate\"").unwrap());
    let (common, roles) = rest.split_once("\n[authority]").unwrap();
    let (authority, server) = roles.split_at(roles.find("\n[[server]]").unwrap());
    let server = server[..1 + server[1..].find("\n[[server]]").unwrap()].to_owned();
    let value = |key: &str| server.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    let address = format!("{}\n{}\n", value("authority = "), value("authority_opcua = "));
    let write = |name: &str, role: &str| {
        let common = common.replace("var/ledger", &format!("var/{name}-ledger"));
        scene.write(
            &format!("{name}.toml"),
            &format!("{}{role}", common.replace("var/audit.pem", &format!("var/{name}.pem"))),
        );
    };
    write("authority", &format!("\n[authority]{authority}"));
    let name = server.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned();
    for (mode, state, ready) in
        [("closed", "closed", false), ("read_only", "read_only", false), ("last_known_good", "last_known_good", true)]
    {
        let mode = format!("fail_mode = \"{mode}\"\ncontact_timeout = \"10m\"\n");
        let without = |role: &str| {
            let kept =
                role.lines().filter(|line| !line.starts_with("fail_mode") && !line.starts_with("contact_timeout"));
            kept.collect::<Vec<_>>().join("\n") + "\n"
        };
        let server = without(&server);
        write("one", &server.replacen("\nname = ", &format!("\n{mode}name = "), 1));
        // The guard does as its zone says, the server as it says itself.
        let (zoned, rest) = mode.split_once('\n').unwrap();
        let zone = format!("[[zone]]\nname = \"line-1\"\n{zoned}\n");
        write("gate", &(zone + &guard.replacen("\nname = ", &format!("\n{rest}{address}name = "), 1)));
        let authority = Up::start_with(scene, "authority.toml", 1);
        let parts = [("one", name.as_str()), ("gate", "gate")].map(|(file, name)| {
            let health = Health::of(scene, &format!("{file}.toml"));
            (Up::start_with(scene, &format!("{file}.toml"), 2), health, name, format!("{file}.toml.log"))
        });
        for (_, health, name, _) in &parts {
            let in_step = |it: serde_json::Value| it["fail_state"] == "in_step";
            until("it is in step", || health.found("authority_link", name).is_ok_and(in_step));
            assert_eq!(health.metrics().get("trapkey_authority_link", &[("state", "in_step")]), 1.0);
        }
        drop(authority);
        for (up, health, name, log) in parts {
            until(&format!("{name} is {state}"), || health.part("authority_link", name)["fail_state"] == state);
            assert!(health.part("authority_link", name)["since"].is_string(), "{name} {state}");
            if name == "gate" {
                let zone = health.part("zone", name);
                assert_eq!(
                    (&zone["zone"], &zone["authority"], &zone["ready"]),
                    (&"line-1".into(), &state.into(), &ready.into())
                );
            }
            assert_eq!(health.part("authority_link", name)["ready"], ready, "{name} {state}");
            let figures = health.metrics();
            assert_eq!(figures.get("trapkey_authority_link", &[("listener", name), ("state", state)]), 1.0);
            assert_eq!(figures.get("trapkey_authority_link", &[("listener", name), ("state", "in_step")]), 0.0);
            assert!(scene.read(&log).contains("contact with the authority is lost"), "{}", scene.read(&log));
            up.stop();
        }
    }
}
