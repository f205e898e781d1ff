//! What `trapkey cost watch` ends with, and the calibration that it keeps: figures come from a listener of the test, so that it knows
//! what they say.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Scene;
use super::up::until;

/// Shows figures of a guard whose server is used ten times between two looks.
struct Shown {
    url: String,
    /// Microseconds that each use takes.
    takes: Arc<AtomicU64>,
    /// Uses between two looks.
    uses: Arc<AtomicU64>,
    /// What is said in place of the figures.
    instead: Arc<Mutex<Option<String>>>,
}

impl Shown {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (takes, uses) = (Arc::new(AtomicU64::new(1_000)), Arc::new(AtomicU64::new(10)));
        let instead = Arc::<Mutex<Option<String>>>::default();
        let (took, used, said) = (Arc::clone(&takes), Arc::clone(&uses), Arc::clone(&instead));
        std::thread::spawn(move || {
            let (mut count, mut micros) = (0, 0);
            for (nth, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { continue };
                let _asked = stream.read(&mut [0; 4_096]);
                let uses = used.load(Ordering::Acquire);
                count += uses;
                // No two batches are quite alike.
                micros += uses * took.load(Ordering::Acquire) * (90 + 7 * (nth as u64 % 4)) / 100;
                let body = said.lock().unwrap().clone().unwrap_or_else(|| figures(count, micros));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _nobody_waits = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { url, takes, uses, instead }
    }

    fn say(&self, instead: Option<&str>) {
        *self.instead.lock().unwrap() = instead.map(str::to_owned);
    }

    /// One look that ends with an exit code.
    fn once(&self, scene: &Scene, more: &[&str]) -> String {
        let asked = ["cost", "watch", &self.url, "--interval", "100ms", "--calibration", "normal.json", "--once"];
        scene.run(&[&asked[..], more].concat())
    }
}

fn figures(count: u64, micros: u64) -> String {
    let name = "trapkey_upstream_latency_seconds";
    let of = "listener=\"gate\",kind=\"guard\"";
    format!(
        "# TYPE trapkey_build info\ntrapkey_build_info{{version=\"1\"}} 1\n# TYPE {name} histogram\n# UNIT {name} seconds\n\
         {name}_sum{{{of}}} {}\n{name}_count{{{of}}} {count}\n{name}_bucket{{{of},le=\"0.1\"}} {count}\n\
         {name}_bucket{{{of},le=\"+Inf\"}} {count}\n# EOF\n",
        micros as f64 / 1e6
    )
}

/// A reference in `normal.json`.
fn learn(shown: &Shown, scene: &Scene) {
    let learned = scene.run(&[
        "cost",
        "watch",
        &shown.url,
        "--interval",
        "100ms",
        "--learn",
        "1s",
        "--for",
        "3500ms",
        "--out",
        "normal.json",
    ]);
    assert!(learned.starts_with("exit 0") && learned.contains("gate upstream: learned"), "{learned}");
}

#[test]
fn one_look_ends_with_a_code_for_each_thing_that_can_be() {
    let (scene, shown) = (Scene::empty(), Shown::start());
    learn(&shown, &scene);
    let quiet = shown.once(&scene, &[]);
    assert!(
        quiet.starts_with("exit 0") && quiet.contains("in its band") && !quiet.contains("nothing is judged"),
        "{quiet}"
    );
    assert!(!quiet.contains("warning"), "{quiet}");
    let (looked, ended) = said_once(&shown, &scene, &[]);
    assert_eq!(looked["state"], "in_band", "{looked:#}");
    assert!(ended["judged"] == 1 && ended["quiet"] == true, "{ended:#}");

    // The page, its row, the figures and the exit code say the same.
    for (takes, code, word) in [(50_000, 1, "slower"), (20, 1, "faster"), (1_900, 0, "above")] {
        shown.takes.store(takes, Ordering::Release);
        let moved = shown.once(&scene, &[]);
        assert!(moved.starts_with(&format!("exit {code}")) && !moved.contains("in its band"), "{moved}");
        let (headline, row, last) = match code {
            1 => ("1 STAGE IS OUTSIDE OF ITS BAND", word.to_uppercase(), format!("is {word} than its band allows")),
            _ => (
                "no stage is outside of its band for certain, 1 may be",
                format!("{word}, not certain"),
                format!("is {word} its band, and one look is not certain of that"),
            ),
        };
        let last = format!("gate upstream {last}");
        assert!([headline, &row, &last].iter().all(|said| moved.contains(said)), "{takes}: {moved}");
        let (looked, ended) = said_once(&shown, &scene, &[]);
        assert_eq!((&looked["state"], looked["alarm"] == word), (&word.into(), code == 1), "{looked:#}");
        let (list, way) = if code == 1 { ("alarms", "side") } else { ("uncertain", "state") };
        let moved = serde_json::json!([{ "program": shown.url, "stage": "gate upstream", way: word }]);
        assert_eq!((&ended[list], &ended["quiet"]), (&moved, &(code == 0).into()), "{ended:#}");
    }

    // Of a stage that is hardly used one look says nothing, and says so.
    shown.uses.store(2, Ordering::Release);
    let idle = shown.once(&scene, &[]);
    assert!(idle.starts_with("exit 0") && idle.contains("between the two looks: nothing is judged"), "{idle}");
    assert!(idle.contains("\nnothing is judged: ") && idle.contains("gate upstream  not judged"), "{idle}");
    assert!(!idle.contains("in its band") && !idle.contains("outside of its band"), "{idle}");
    assert!(idle.contains(" -> none now"), "nobody asks: {idle}");
    shown.uses.store(10, Ordering::Release);
    shown.takes.store(1_000, Ordering::Release);

    for (instead, why) in [
        ("<html>login</html>\n", "out of reach"),
        ("# TYPE up gauge\nup 1\n# EOF\n", "this is not a Trapkey"),
        ("# TYPE trapkey_build info\ntrapkey_build_info{version=\"1\"} 1\n", "EOF"),
        ("", "EOF"),
    ] {
        shown.say(Some(instead));
        let strange = shown.once(&scene, &[]);
        assert!(strange.starts_with("exit 3") && strange.contains(why), "{instead:?}: {strange}");
        assert!(strange.contains(&format!("the figures of `{}` are out of reach: ", shown.url)), "{strange}");
    }
    shown.say(None);
    let nobody = scene.run(&[
        "cost",
        "watch",
        "http://127.0.0.1:1",
        "--interval",
        "100ms",
        "--calibration",
        "normal.json",
        "--once",
    ]);
    assert!(nobody.starts_with("exit 3") && nobody.contains("refused"), "{nobody}");

    // A reference of another machine is used, with a warning that says what differs, and changes no code.
    let mut other: serde_json::Value = serde_json::from_str(&scene.read("normal.json")).unwrap();
    other["machine"]["cpu"] = "a processor of another time".into();
    scene.write("normal.json", &other.to_string());
    let quiet = shown.once(&scene, &[]);
    assert!(quiet.starts_with("exit 0") && quiet.contains("warning: ") && quiet.contains("another time"), "{quiet}");
    shown.takes.store(50_000, Ordering::Release);
    let moved = shown.once(&scene, &[]);
    assert!(moved.starts_with("exit 1") && moved.contains("warning: "), "{moved}");

    scene.write("normal.json", "{");
    let broken = shown.once(&scene, &[]);
    assert!(broken.starts_with("exit 2") && broken.contains("`normal.json`"), "{broken}");
}

/// Every line that is printed, each of which is one value.
fn lines(said: &str) -> Vec<serde_json::Value> {
    let (_, printed) = said.split_once("--- stdout\n").unwrap_or_else(|| panic!("{said}"));
    let printed = printed.split("--- stderr\n").next().unwrap_or_default();
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}: {said}"));
    printed.lines().map(read).collect()
}

/// The stage as the last look at it has it, and what stands at the end.
fn said_once(shown: &Shown, scene: &Scene, more: &[&str]) -> (serde_json::Value, serde_json::Value) {
    let mut lines = lines(&shown.once(scene, &[&["--output", "json"], more].concat()));
    let ended = lines.pop().unwrap();
    let looks = lines.iter().rev().filter(|look| look["program"] == shown.url.as_str());
    let looked = looks.map(|look| look["report"]["stages"][0].clone()).next().unwrap();
    (looked, ended)
}

#[test]
fn who_is_silent_keeps_neither_the_page_nor_the_alarm_of_another_back() {
    let (scene, shown) = (Scene::empty(), Shown::start());
    learn(&shown, &scene);
    let silent = "http://127.0.0.1:1";
    let both = |urls: [&str; 2]| {
        let asked = ["--interval", "100ms", "--calibration", "normal.json", "--once"];
        scene.run(&[&["cost", "watch"], &urls[..], &asked].concat())
    };
    for (takes, code, row, kind) in [(1_000, 3, "in its band", "error"), (50_000, 1, "SLOWER", "warning")] {
        shown.takes.store(takes, Ordering::Release);
        for urls in [[&*shown.url, silent], [silent, &shown.url]] {
            let said = both(urls);
            assert!(said.starts_with(&format!("exit {code}")) && said.contains(row), "{said}");
            assert!(said.contains(&format!("{kind}: the figures of `{silent}` are out of reach: ")), "{said}");
        }
        let (_, ended) = said_once(&shown, &scene, &[silent]);
        assert_eq!(ended["alarms"].as_array().unwrap().len(), usize::from(code == 1), "{ended:#}");
        assert_eq!(ended["out_of_reach"][0]["program"], silent, "{ended:#}");
    }
}

#[test]
fn whatever_ends_a_watch_is_one_value_a_line() {
    let (scene, shown) = (Scene::empty(), Shown::start());
    let json = ["--interval", "100ms", "--for", "500ms", "--output", "json"];
    for more in [&["http://127.0.0.1:1"][..], &[&shown.url, "--out", "no/such/folder.json"]] {
        let said = scene.run(&[&["cost", "watch"], more, &json].concat());
        let last = lines(&said).pop().unwrap();
        assert!(said.starts_with("exit 3") && last["error"]["kind"] == "unavailable", "{said}");
    }
}

#[test]
fn a_reference_that_can_not_be_used_ends_the_watch_before_it_begins() {
    let (scene, shown) = (Scene::empty(), Shown::start());
    learn(&shown, &scene);
    let good: serde_json::Value = serde_json::from_str(&scene.read("normal.json")).unwrap();
    for (member, value, said) in [
        ("/steps/0/algorithm", "gate upstreams".into(), "`stage gate upstreams` is no stage"),
        ("/steps/0/bytes", 7.into(), "`stage gate upstream` has a size"),
        ("/steps/0/wall/n", 2.into(), "`stage gate upstream` has 2 batches"),
    ] {
        let mut wrong = good.clone();
        *wrong.pointer_mut(member).unwrap() = value;
        scene.write("normal.json", &wrong.to_string());
        let refused = shown.once(&scene, &[]);
        assert!(refused.starts_with("exit 2") && refused.contains(said), "{member}: {refused}");
    }
}

/// The mean of the stage in a file, and what the file has besides.
fn kept(scene: &Scene, file: &str) -> (f64, usize) {
    let text = scene.read(file);
    let read: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let steps = read["steps"].as_array().unwrap();
    let of = steps.iter().find(|step| step["algorithm"] == "gate upstream");
    (of.map_or(0.0, |step| step["wall"]["mean"].as_f64().unwrap()), steps.len() - usize::from(of.is_some()))
}

#[test]
fn the_calibration_follows_a_drift_and_is_whole_whenever_the_watch_is_killed() {
    let (scene, shown) = (Scene::empty(), Shown::start());
    let only = ["--only", "read", "--only", "exchange", "--only", "append audit/"];
    let measured = scene.run(&[&["cost", "measure", "--quick", "--out", "here.json"], &only[..]].concat());
    assert!(measured.starts_with("exit 0"), "{measured}");
    let others = kept(&scene, "here.json").1;
    assert!(others > 0);
    let start = || {
        let files = ["--calibration", "here.json", "--out", "here.json"];
        let asked = ["cost", "watch", &shown.url, "--interval", "100ms", "--learn", "1s"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_trapkey"));
        command.args(asked).args(files).current_dir(scene.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        super::up::Up(command.spawn().unwrap())
    };
    let watching = start();
    until("the stage is in the file", || kept(&scene, "here.json").0 > 0.0);
    let first = kept(&scene, "here.json").0;
    assert!((0.0009..0.0012).contains(&first), "{first}");
    // Within the band, and the file goes with it.
    shown.takes.store(1_250, Ordering::Release);
    until("the file has the drift", || kept(&scene, "here.json").0 > 1.15 * first);
    drop(watching);

    // Killed at any moment it leaves a file that can be read, and the next watch goes on from it.
    for nth in 0..8 {
        let watching = start();
        std::thread::sleep(Duration::from_millis(250 + 37 * nth));
        drop(watching);
        let (mean, rest) = kept(&scene, "here.json");
        assert!((1.1 * first..1.4 * first).contains(&mean) && rest == others, "{nth}: {mean} {rest}");
    }

    // A jump is an alarm and no reference, however long it lasts.
    let before = kept(&scene, "here.json").0;
    shown.takes.store(20_000, Ordering::Release);
    let asked = ["cost", "watch", &shown.url, "--interval", "100ms", "--learn", "1s", "--for", "5s"];
    let jumped = scene.run(&[&asked[..], &["--calibration", "here.json", "--out", "here.json"]].concat());
    assert!(jumped.starts_with("exit 1") && jumped.contains("ALARM gate upstream is slower"), "{jumped}");
    assert_eq!(kept(&scene, "here.json").0, before);

    let asked = ["cost", "what-if", "--calibration", "here.json", "--mode", "none", "--clients", "1"];
    let predicted = scene.run(&asked);
    assert!(predicted.starts_with("exit 0"), "{predicted}");
}

#[test]
fn a_full_disk_leaves_the_calibration_that_was_there() {
    let (scene, shown) = (Scene::empty(), Shown::start());
    learn(&shown, &scene);
    let before = scene.read("normal.json");
    // No file of the program may grow beyond 256 bytes, as on a full disk.
    let program = env!("CARGO_BIN_EXE_trapkey");
    let script = format!(
        "trap '' XFSZ; prlimit --pid $$ --fsize=256: && exec {program} cost watch {} --interval 100ms --learn 1s --for 3s \
         --calibration normal.json --out normal.json",
        shown.url
    );
    shown.takes.store(1_200, Ordering::Release);
    let done = Command::new("sh").args(["-c", &script]).current_dir(scene.folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(
        said.contains("cannot write `normal.json`") && said.matches("the next look tries again").count() == 1,
        "{said}"
    );
    assert_eq!(scene.read("normal.json"), before, "whole, as it was");
    let left = std::fs::read_dir(scene.folder.path()).unwrap().count();
    assert_eq!(left, 1, "and nothing beside it");

    // A link stays a link, and who may read it is as before.
    std::fs::rename(scene.path("normal.json"), scene.path("real.json")).unwrap();
    std::os::unix::fs::symlink("real.json", scene.path("normal.json")).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(scene.path("real.json"), std::fs::Permissions::from_mode(0o640)).unwrap();
    learn(&shown, &scene);
    assert!(scene.path("normal.json").symlink_metadata().unwrap().is_symlink());
    assert_eq!(scene.path("real.json").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(kept(&scene, "real.json").0 > 1.1e-3, "the new one is there");
}
