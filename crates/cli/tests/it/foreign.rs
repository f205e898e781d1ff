//! `trapkey client` against servers that other people wrote: every verb, its JSON and its exit codes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Scene;
use super::guides::peers;
use super::up::Up;

const LINE: &str = "nsu=urn:trapkey:interop;s=Line";
const SETPOINT: &str = "nsu=urn:trapkey:interop;s=Line.Setpoint";
const TICKS: &str = "nsu=urn:trapkey:interop;s=Line.Ticks";
const ADD: &str = "nsu=urn:trapkey:interop;s=Line.Add";

/// A server program of `interop/README.md`; ends with the test.
struct Foreign {
    scene: Scene,
    url: String,
    _program: Up,
}

impl Foreign {
    /// None, with a line that says so, when it is not installed.
    fn start(stack: &str) -> Option<Self> {
        let program = peers(&format!("bin/{stack}-server"))?;
        let certs = program.ancestors().nth(2)?.join("certs");
        let port = testkit::ports::free();
        let file = |name: &str| certs.join(name).display().to_string();
        let mut child = Command::new(&program)
            .args(["--port", &port.to_string(), "--user", "operator:secret", "--trust", &file("trapkey.der")])
            .args(["--cert", &file(&format!("{stack}-server.der"))])
            .args(["--key", &file(&format!("{stack}-server.key.pem"))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).next();
        let foreign = Self { scene: Scene::empty(), url: format!("opc.tcp://127.0.0.1:{port}"), _program: Up(child) };
        assert!(said.as_ref().is_some_and(|said| said.contains("listening")), "{stack}: {said:?}");
        foreign.folder(&certs, stack);
        Some(foreign)
    }

    /// Our folder of certificates, which trusts the server.
    fn folder(&self, certs: &Path, stack: &str) {
        for (from, to) in [
            ("trapkey.der".to_owned(), "pki/own/certs/own.der"),
            ("trapkey.key.pem".to_owned(), "pki/own/private/own.pem"),
            (format!("{stack}-server.der"), "pki/trusted/certs/server.der"),
        ] {
            let to: PathBuf = self.scene.path(to);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            if to.ends_with("own.pem") {
                gates::pki::write_private(&to, &std::fs::read(certs.join(from)).unwrap()).unwrap();
            } else {
                std::fs::copy(certs.join(from), to).unwrap();
            }
        }
    }

    fn client_as(&self, password: &str, verb: &str, rest: &[&str]) -> String {
        let session =
            ["client", verb, &self.url, "--pki", "pki", "--user", "operator", "--to-server", "--timeout", "60"];
        self.scene.run_with(&[&session[..], rest].concat(), &[("TRAPKEY_PASSWORD", password)])
    }

    /// The exit code and what stands on the standard output, as one value or one a line.
    fn json(&self, verb: &str, rest: &[&str]) -> (i32, Vec<Value>) {
        let said = self.client_as("secret", verb, &[rest, &["--output", "json"]].concat());
        let code = said.lines().next().unwrap().strip_prefix("exit ").unwrap().parse().unwrap();
        let out = said.split_once("--- stdout\n").map_or("", |(_, out)| out.split("--- stderr").next().unwrap());
        let values = serde_json::Deserializer::from_str(out).into_iter().collect::<Result<_, _>>();
        (code, values.unwrap_or_else(|error| panic!("{error}: {said}")))
    }
}

fn every_verb_works(stack: &str) {
    let Some(foreign) = Foreign::start(stack) else { return };
    let id = |text: &str| text.replace("nsu=urn:trapkey:interop", "ns=2");
    let (code, written) = foreign.json("write", &[SETPOINT, "42.5"]);
    assert_eq!((code, &written[0]["status"]), (0, &json!("Good")), "{stack}: the type is the server's: {written:?}");
    let (code, read) = foreign.json("read", &[SETPOINT, TICKS]);
    assert_eq!((code, &read[0][0]["value"], &read[0][0]["status"]), (0, &json!(42.5), &json!("Good")), "{stack}");
    assert_eq!(read[0][0]["node"], id(SETPOINT), "{stack}");
    assert!(read[0][1]["value"].is_u64(), "{stack}: {read:?}");
    let (code, read) = foreign.json("read", &[SETPOINT, "nsu=urn:trapkey:interop;s=Line.Nothing"]);
    assert_eq!((code, &read[0][0]["status"]), (1, &json!("Good")), "{stack}: one of two cannot be read");
    assert_eq!(read[0][1]["status"], "BadNodeIdUnknown", "{stack}");
    let (code, written) = foreign.json("write", &[TICKS, "1"]);
    assert_eq!(code, 1, "{stack}: {written:?}");
    assert_ne!(written[0]["status"], "Good", "{stack}: {written:?}");
    for (rule, verb, rest) in [
        ("no number", "write", &[SETPOINT, "fast"][..]),
        ("no such type", "write", &[SETPOINT, "1", "--type", "Number"]),
        ("no such namespace", "read", &["nsu=urn:none;s=a"]),
        ("a path that leads nowhere", "read", &["/2:Line/2:Nothing"]),
        ("an input without its type", "call", &[LINE, ADD, "1.5"]),
    ] {
        assert_eq!(foreign.json(verb, rest).0, 2, "{stack}: {rule}");
    }

    let (code, called) = foreign.json("call", &[LINE, ADD, "Double:1.5", "Double:-2.25"]);
    assert_eq!((code, &called[0]["status"], &called[0]["outputs"]), (0, &json!("Good"), &json!([-0.75])), "{stack}");
    let (code, called) = foreign.json("call", &[LINE, ADD, "Double:1.5"]);
    assert_eq!(code, 1, "{stack}: an input is missing: {called:?}");
    assert_eq!(called[0]["outputs"], json!([]), "{stack}");

    let (code, seen) = foreign.json("browse", &["--depth", "2"]);
    let names: Vec<(&str, &str)> = seen[0].as_array().unwrap().iter().map(named).collect();
    assert_eq!(code, 0, "{stack}");
    for found in [("2:Line", "Object"), ("2:Ticks", "Variable"), ("2:Setpoint", "Variable"), ("2:Add", "Method")] {
        assert!(names.contains(&found), "{stack}: {found:?} is not among {names:?}");
    }
    let parent = seen[0].as_array().unwrap().iter().find(|one| one["browse_name"] == "2:Setpoint").unwrap();
    assert_eq!((&parent["parent"], &parent["node"]), (&json!(id(LINE)), &json!(id(SETPOINT))), "{stack}");

    let (code, changes) = foreign.json("watch", &[TICKS, "--count", "5", "--interval", "50"]);
    let values: Vec<u64> = changes.iter().map(|one| one["value"].as_u64().unwrap()).collect();
    assert_eq!((code, values.len()), (0, 5), "{stack}: {changes:?}");
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{stack}: {values:?}");
    assert!(changes.iter().all(|one| one["node"] == id(TICKS) && one["status"] == "Good"), "{stack}: {changes:?}");
    assert_eq!(foreign.json("watch", &["nsu=urn:trapkey:interop;s=Line.Nothing", "--count", "1"]).0, 1, "{stack}");

    let wrong = foreign.client_as("guessed", "read", &[SETPOINT]);
    assert!(wrong.starts_with("exit 1"), "{stack}: {wrong}");
    let unreachable = Foreign { url: format!("opc.tcp://127.0.0.1:{}", testkit::ports::free()), ..foreign };
    assert_eq!(unreachable.json("read", &[SETPOINT]).0, 3, "{stack}: nobody listens");
}

fn named(one: &Value) -> (&str, &str) {
    (one["browse_name"].as_str().unwrap(), one["class"].as_str().unwrap())
}

#[test]
fn every_verb_works_with_an_asyncua_server() {
    every_verb_works("asyncua");
}

#[test]
fn every_verb_works_with_an_open62541_server() {
    every_verb_works("open62541");
}
