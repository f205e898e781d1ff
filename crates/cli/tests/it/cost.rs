//! `trapkey cost` and `trapkey reproduce`: models in, nets and numbers out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Scene;

const MODEL: &str = r#"
[workload]
clients = 1
[node.plant-pc]
platform = "pc"
[component.client]
node = "plant-pc"
[component.server]
node = "plant-pc"
[connector.wire]
from = "client"
to = "server"
[attribute.order]
of = "client"
size = "1 kB"
[[sequence.main]]
do = "prepare"
by = "client"
time = "8 ms"
returns = "order"
[[sequence.main]]
send = "deliver"
over = "wire"
carries = "order"
[[secure]]
property = "data-integrity"
on = "attribute order"
signature = "rsa-2048"
in = ["signed"]
[price.pc."hash sha-256"]
per_kb = "1 ms"
[price.pc."sign rsa-2048"]
each = "9 ms"
[price.pc."verify rsa-2048"]
each = "1 ms"
"#;

fn json_of(said: &str) -> Value {
    let json = said.split_once("--- stdout\n").unwrap().1.split("--- stderr").next().unwrap();
    serde_json::from_str(json).unwrap()
}

/// A slip of the tab key would cost the model, or what an hour of watching has learned.
#[test]
fn nothing_that_is_read_is_replaced_and_two_results_need_two_files() {
    let scene = Scene::empty();
    scene.write("model.toml", MODEL);
    scene.write("queue.json", r#"{"net": {"places": [{"name": "p"}], "transitions": []}}"#);
    calibration(&scene, &[("sign rsa-2048", 9.0)]);
    std::os::unix::fs::symlink("model.toml", scene.path("link.csv")).unwrap();
    std::os::unix::fs::symlink("here.json", scene.path("w.round-3.json")).unwrap();
    for (args, wanted) in [
        (&["cost", "choose", "model.toml", "--csv", "./model.toml"][..], "`--csv ./model.toml` would replace a file"),
        (&["cost", "choose", "model.toml", "--csv", "link.csv"], "would replace a file that is read here"),
        (
            &["cost", "choose", "model.toml", "--prices", "pc=here.json", "--svg", "here.json"],
            "`--svg here.json` would",
        ),
        (&["cost", "choose", "model.toml", "--csv", "a", "--svg", "./a"], "`--csv` and `--svg` are both `./a`"),
        (&["cost", "what-if", "--calibration", "here.json", "--out", "here.json"], "`--out here.json` would replace"),
        (
            &["cost", "what-if", "--calibration", "w.round-3.json", "--out", "w.json", "--verify"],
            "`--out w.round-3.json` would replace",
        ),
        (&["model", "solve", "queue.json", "--states", "queue.json"], "`--states queue.json` would replace"),
        (&["model", "convert", "queue.json", "--to", "pnml", "--out", "queue.json"], "name another file"),
        (&["model", "draw", "queue.json", "--ask", "model.toml", "--out", "model.toml"], "would replace a file"),
        (&["reproduce", "p4", "--svg", "a", "--html", "a"], "`--svg` and `--html` are both `a`: give each a file"),
    ] {
        let (model, calibration) = (scene.read("model.toml"), scene.read("here.json"));
        let said = scene.run(args);
        assert!(said.starts_with("exit 2") && said.contains(wanted), "{args:?}: {said}");
        assert!(model == scene.read("model.toml") && calibration == scene.read("here.json"), "{args:?}");
        assert!(!scene.path("a").exists(), "{args:?}");
    }
    // What was learned stays where nobody answers.
    let learned = scene.read("here.json");
    let said = scene.run(&["cost", "watch", "http://127.0.0.1:1", "--for", "200ms", "--out", "here.json"]);
    assert!(said.starts_with("exit 3") && learned == scene.read("here.json"), "{said}");
    // A link to nothing yet is followed, and a new file is as readable as others that the user makes.
    std::os::unix::fs::symlink("target.svg", scene.path("new.svg")).unwrap();
    assert!(scene.run(&["model", "draw", "queue.json", "--out", "new.svg"]).starts_with("exit 0"));
    assert!(scene.path("new.svg").is_symlink() && scene.read("target.svg").starts_with("<svg"));
    scene.write("usual", "");
    let mode = |name: &str| std::fs::metadata(scene.path(name)).unwrap().permissions();
    assert_eq!(mode("target.svg"), mode("usual"));
}

/// Keys of measurements are nobody else's, and go with them however they end.
#[test]
fn a_measurement_that_is_stopped_leaves_no_keys_behind() {
    let scene = Scene::empty();
    std::fs::create_dir(scene.path("scratch")).unwrap();
    let left = || std::fs::read_dir(scene.path("scratch")).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(["cost", "measure", "--quick"])
        .current_dir(scene.folder.path())
        .env("TMPDIR", scene.path("scratch"))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first line says that a step is measured: its keys are there.
    let mut first = String::new();
    let mut told = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut first).unwrap();
    assert!(first.contains("  0 %"), "{first}");
    let there = left();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&there[0]).unwrap().permissions());
    assert_eq!((there.len(), mode & 0o777), (1, 0o700), "{there:?}");
    assert!(std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(left(), [] as [std::path::PathBuf; 0]);
}

/// What takes minutes is refused before, not after, where its result has no place.
#[test]
fn what_cannot_be_written_is_not_measured() {
    let scene = Scene::empty();
    for words in [&["cost", "measure", "--out"][..], &["cost", "what-if", "--out"]] {
        for (file, why) in [("none/here.json", "No such file"), ("/", "a directory")] {
            let said = scene.run(&[words, &[file]].concat());
            assert!(said.starts_with("exit 3") && said.contains("cannot write") && said.contains(why), "{said}");
            assert!(!said.contains(" %") && !said.contains("measured first"), "{said}");
        }
    }
}

#[test]
fn a_limit_of_time_is_a_number_of_seconds_or_has_a_unit() {
    let scene = Scene::empty();
    scene.write("model.toml", MODEL);
    for (time, exit, why) in [
        ("30", "exit 0", ""),
        ("30 s", "exit 0", ""),
        ("0.5 min", "exit 0", ""),
        ("0 s", "exit 2", "`--time 0`: above 0"),
        ("-1", "exit 2", "`--time -1`: above 0"),
        ("soon", "exit 2", "`soon` is no time such as `30 s`"),
        ("1e-9", "exit 3", "allows more than 0.000000001 s"),
    ] {
        let said = scene.run(&["cost", "solve", "model.toml", "--time", time]);
        assert!(said.starts_with(exit) && said.contains(why), "{time}: {said}");
    }
}

#[test]
fn a_model_is_woven_in_three_steps_and_its_net_is_one_that_model_solve_takes() {
    let scene = Scene::empty();
    scene.write("model.toml", MODEL);
    let annotated = scene.run(&["cost", "weave", "model.toml", "--as", "annotated"]);
    assert!(annotated.contains("%% trapkey: secure data-integrity on=\"attribute order\""), "{annotated}");
    let secured = scene.run(&["cost", "weave", "model.toml"]);
    assert!(secured.contains("ref signature-verification for data-integrity on attribute order"), "{secured}");
    assert!(secured.contains("prepare *"), "{secured}");

    let net = json_of(&scene.run(&["cost", "weave", "model.toml", "--as", "net", "--output", "json"]));
    scene.write("net.json", &net.to_string());
    let solved = json_of(&scene.run(&["model", "solve", "net.json", "--output", "json"]));
    let own = json_of(&scene.run(&["cost", "solve", "model.toml", "--output", "json"]));
    assert_eq!(solved["values"]["throughput"], own["throughput"]);
    // 8 + (1 + 9) + (1 + 1) ms
    assert!((own["throughput"].as_f64().unwrap() - 50.0).abs() < 1e-9, "{own}");
    let plain = json_of(&scene.run(&["cost", "solve", "model.toml", "--configuration", "none", "--output", "json"]));
    assert!((plain["throughput"].as_f64().unwrap() - 125.0).abs() < 1e-9, "{plain}");
}

#[test]
fn a_wrong_model_is_refused_by_class_line_and_name() {
    let scene = Scene::empty();
    scene.write("model.toml", &MODEL.replace("over = \"wire\"", "over = \"wir\""));
    let said = scene.run(&["cost", "solve", "model.toml"]);
    assert!(said.starts_with("exit 2"), "{said}");
    assert!(said.contains("no-such-name") && said.contains("there is no connector `wir`"), "{said}");
    assert!(said.contains("model.toml:23"), "{said}");
    let said = scene.run(&["cost", "solve", "model.toml", "--scenario", "main"]);
    assert!(said.starts_with("exit 2") && said.contains("only UML has several in one file"), "{said}");
    scene.write("model.toml", &MODEL.replace("[price.pc.\"sign rsa-2048\"]", "[price.pc.\"sign rsa-3072\"]"));
    let said = scene.run(&["cost", "solve", "model.toml"]);
    assert!(said.starts_with("exit 2") && said.contains("no-price"), "{said}");
}

#[test]
fn what_configurations_secure_each_in_its_own_way_is_not_secured_twice() {
    let scene = Scene::empty();
    let other = "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute order\"\nsignature = \"ed25519\"\nin = [\"quick\"]\n";
    scene.write(
        "model.toml",
        &MODEL.replace("[price.pc.\"hash sha-256\"]", &format!("{other}[price.pc.\"hash sha-256\"]")),
    );
    for words in
        [&["cost", "solve", "model.toml"][..], &["cost", "weave", "model.toml"], &["cost", "choose", "model.toml"]]
    {
        let said = scene.run(words);
        assert!(said.starts_with("exit 2") && said.contains("in one way in signed and in another in quick"), "{said}");
        assert!(said.contains("`--configuration`"), "{said}");
    }
    let annotated = scene.run(&["cost", "weave", "model.toml", "--as", "annotated"]);
    assert!(annotated.starts_with("exit 0") && annotated.contains("in=quick"), "{annotated}");
    let signed = json_of(&scene.run(&["cost", "solve", "model.toml", "--configuration", "signed", "--output", "json"]));
    assert!((signed["throughput"].as_f64().unwrap() - 50.0).abs() < 1e-9, "{signed}");
}

#[test]
fn the_paper_is_reproduced_with_its_page_and_picture() {
    let scene = Scene::empty();
    let said = scene.run(&["reproduce", "p4", "--output", "json", "--svg", "figure.svg", "--html", "page.html"]);
    assert!(said.starts_with("exit 0"), "{said}");
    let found = json_of(&said);
    assert_eq!(found["count"], json!({"fitted": 8, "predicted": 4}));
    assert!(found["worst"].as_f64().unwrap() <= 0.3, "{found}");
    assert!(found["worst_degradation"].as_f64().unwrap() <= 0.02, "{found}");
    assert!(scene.read("figure.svg").starts_with("<svg"));
    assert!(scene.read("page.html").contains("<polyline"));
}

#[test]
fn the_paper_is_measured_here_and_the_ledger_has_what_was_predicted() {
    let scene = Scene::empty();
    let said = scene.run(&["reproduce", "p4", "--measure", "--reuse", "1.5"]);
    assert!(said.starts_with("exit 2") && said.contains("`--reuse 1.5`: 0 to 1"), "{said}");
    let words = ["reproduce", "p4", "--measure", "--quick", "--rounds", "1", "--clients", "2", "--output", "json"];
    let said = scene.run(&words);
    assert!(said.starts_with("exit 0"), "{said}");
    let found = json_of(&said);
    let unmeasured = found["series"]["unmeasured"].to_string();
    if unmeasured.contains("one processor") {
        println!("SKIPPED: {unmeasured}");
        return;
    }
    // SC0, and SC1 and SC2 with three sizes of keys, for each database; one run has no interval.
    let rows = found["rows"].as_array().unwrap();
    // What the machine did not let come to its end in three tries is no row, and is listed: `r6 (SC1 rsa-2048 sqlite 2, abandoned)`.
    let left = found["abandoned"].as_array().unwrap().iter().filter_map(|it| it.as_str()?.split(['(', ',']).nth(1));
    let all: BTreeSet<&str> = rows.iter().filter_map(|row| row["name"].as_str()).chain(left).collect();
    assert!(all.len() == 7 || all.len() == 14, "{all:?}: {said}");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["throughput"]["measurable"] == json!(false)), "{said}");
    assert!(scene.read("p4-measured/report.html").contains("<svg"), "{said}");
    let said = scene.run(&["audit", "verify", "--ledger", "p4-measured/ledger"]);
    assert!(said.starts_with("exit 0"), "{said}");
}

/// What was measured of an operation, as a file.
fn calibration(scene: &Scene, steps: &[(&str, f64)]) {
    use cost::calibration::{Calibration, Machine, SCHEMA, Sample, Step, Unit, Versions};
    let step = |(name, seconds): &(&str, f64)| {
        let (operation, algorithm) = name.split_once(' ').unwrap();
        let (n, mean, sd) = (100, *seconds, seconds / 10.0);
        let sample =
            Sample { n, mean, sd, min: mean / 2.0, p50: mean, p95: mean, p99: mean, max: mean * 2.0, below_p99: None };
        Step {
            operation: operation.into(),
            algorithm: algorithm.into(),
            bits: None,
            bytes: 32,
            unit: Unit::Seconds,
            batch: 1,
            left_out: 0,
            cpu: sample,
            wall: sample,
            moments: Vec::new(),
        }
    };
    let measured = Calibration {
        schema: SCHEMA,
        taken: "2026-11-22T12:00:00Z".into(),
        machine: Machine { cpu: "a processor".into(), cores: 2, kernel: "a kernel".into() },
        versions: Versions { program: "1".into(), library: "2".into(), build: "release".into() },
        quick: false,
        others: 0.0,
        steps: steps.iter().map(step).collect(),
        laws: Vec::new(),
    };
    scene.write("here.json", &measured.write().unwrap());
}

#[test]
fn what_was_measured_here_stands_in_the_place_of_a_models_prices() {
    let scene = Scene::empty();
    let lists = MODEL.replace("signature = \"rsa-2048\"", "signature = [\"rsa-2048\", \"ed25519\"]");
    scene.write("model.toml", &lists);
    let measured = [("sign ed25519", 1e-4), ("verify ed25519", 2e-4), ("sign rsa-2048", 9.0)];
    calibration(&scene, &measured);
    // What is solved is the first way, and is said.
    let orders = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cost/orders.toml");
    for command in ["solve", "simulate"] {
        let said = scene.run(&["cost", command, orders]);
        assert!(said.contains("the first of several ways: attribute order: hmac-sha256"), "{said}");
        let found = scene.json(&["cost", command, orders]);
        assert_eq!(found["taken"].as_array().map(Vec::len), Some(2), "{found}");
    }
    let choose = |prices: &str| scene.run(&["cost", "choose", "model.toml", "--prices", prices, "--output", "json"]);
    for given in ["here.json", "pc=here.json"] {
        let said = choose(given);
        assert!(said.starts_with("exit 0"), "{said}");
        assert!(said.contains("as measured on a processor") && said.contains("1 of 3"), "{said}");
        // It is another machine's, and whoever uses it hears so.
        assert!(said.contains("warning: `here.json`: ") && said.contains("a processor"), "{said}");
        let found = json_of(&said);
        let of = |index: usize| &found["settings"][found["ranked"][index].as_u64().unwrap() as usize];
        assert!(of(0)["setting"].to_string().contains("ed25519"), "{found:#}");
        // Nine seconds are nobody's guess.
        assert!(of(1)["cores"].as_f64().unwrap() > 9.0, "{found:#}");
    }
    for (given, wanted) in [
        ("mac=here.json", "no node of the model is of the platform `mac`; there are `pc`"),
        ("none.json", "none.json"),
        ("pc=prices.toml", "`PLATFORM=` stands before a calibration"),
        ("model.json", "model.json"),
    ] {
        scene.write("model.json", &lists);
        let said = choose(given);
        assert!(said.starts_with("exit 2") && said.contains(wanted), "{given}: {said}");
    }
    scene.write(
        "two.toml",
        &format!("{lists}\n[node.other]\nplatform = \"mac\"\n[price.mac.\"sign ed25519\"]\neach = \"1 ms\"\n"),
    );
    let said = scene.run(&["cost", "choose", "two.toml", "--prices", "here.json"]);
    assert!(said.starts_with("exit 2") && said.contains("`--prices mac=here.json`"), "{said}");
    // One size says nothing of what each byte takes, which the model has a price of.
    calibration(&scene, &[("hash sha-256", 0.01)]);
    let said = choose("here.json");
    assert!(said.starts_with("exit 2") && said.contains("`hash sha-256` was measured with one size"), "{said}");
    calibration(&scene, &measured);
    // What is refused is refused before anything is said of prices.
    let twice = ["cost", "solve", "model.toml", "--prices", "here.json", "--prices", "pc=here.json"];
    let said = scene.run(&twice);
    assert!(said.starts_with("exit 2") && said.contains("two calibrations of the platform `pc`"), "{said}");
    assert!(!said.contains("note: ") && !said.contains("warning: "), "{said}");
    // Steps that are no operations are no prices; a slip of an operation is no step of another kind.
    calibration(&scene, &[("sign ed25519", 1e-4), ("sign token-es256", 1e-3), ("append audit-disk", 1e-2)]);
    let said = scene.run(&["cost", "weave", "model.toml", "--as", "annotated", "--prices", "here.json"]);
    assert!(
        said.starts_with("exit 0") && said.contains("price pc \"sign ed25519\"") && !said.contains("token"),
        "{said}"
    );
    calibration(&scene, &[("sign ed25519", 1e-4), ("sing rsa-2048", 9.0)]);
    let said = choose("here.json");
    assert!(
        said.starts_with("exit 2") && said.contains("`here.json`: no-such-name: steps[1]: `sing rsa-2048`"),
        "{said}"
    );
}

#[test]
fn requests_are_followed_where_a_net_is_too_large() {
    let scene = Scene::empty();
    scene.write("model.toml", MODEL);
    let [solved, simulated, again] = [&["solve"][..], &["simulate"], &["simulate", "--seed", "2"]].map(|verb| {
        let said = scene.run(&[&["cost"], verb, &["model.toml", "--output", "json"]].concat());
        assert!(said.starts_with("exit 0"), "{said}");
        json_of(&said)
    });
    for (name, wanted) in [("mean", &solved["response"]), ("throughput", &solved["throughput"])] {
        let [got, off] = ["value", "plus_minus"].map(|it| simulated[name][it].as_f64().unwrap());
        assert!((got - wanted.as_f64().unwrap()).abs() <= 1.5 * off, "{name}: {got} +- {off}, and {wanted} is wanted");
    }
    assert_ne!(simulated["mean"], again["mean"]);
    assert_eq!((&simulated["seed"], &again["seed"]), (&json!(1), &json!(2)));
    let text = scene.run(&["cost", "simulate", "model.toml"]);
    assert!(text.contains("\np99 ") && text.contains("rates and times with their 95 % intervals"), "{text}");
    // What the solver refuses says where to go.
    let few = scene.run(&["cost", "solve", "model.toml", "--markings", "1"]);
    assert!(few.starts_with("exit 3") && few.contains("too-large: markings: "), "{few}");
    assert!(few.contains("`trapkey cost simulate` follows requests one by one instead"), "{few}");
    let crowd = MODEL.replace("clients = 1", "clients = 40").replace("[[sequence.main]]", "[[sequence.one]]");
    let begin = "[[sequence.main]]\npar = [ { ref = \"one\" }, { ref = \"beside\" } ]\n\
        [[sequence.beside]]\ndo = \"beside\"\nby = \"client\"\ntime = \"1 ms\"\n[[sequence.one]]";
    let crowd = crowd.replacen("[[sequence.one]]", begin, 1);
    scene.write("crowd.toml", &crowd);
    let refused = scene.run(&["cost", "solve", "crowd.toml"]);
    assert!(refused.starts_with("exit 3") && refused.contains("`trapkey cost simulate` follows requests"), "{refused}");
    let followed = scene.run(&["cost", "simulate", "crowd.toml"]);
    assert!(followed.starts_with("exit 0"), "{followed}");
}

#[test]
fn a_setting_is_chosen_and_a_diagram_is_a_model() {
    let scene = Scene::empty();
    let lists = MODEL.replace("clients = 1", "arrivals = \"20/s\"\nroom = 8\nthreads = 1");
    let lists = lists.replace("signature = \"rsa-2048\"", "signature = [\"rsa-2048\", \"ed25519\"]\noptional = true");
    scene.write("model.toml", &lists);
    scene.write(
        "prices.toml",
        "[price.pc.\"sign ed25519\"]\neach = \"0.1 ms\"\n[price.pc.\"verify ed25519\"]\neach = \"0.2 ms\"\n",
    );
    let missing = scene.run(&["cost", "choose", "model.toml"]);
    assert!(missing.starts_with("exit 2") && missing.contains("`sign ed25519` has no price"), "{missing}");
    let choose = |args: &[&str]| {
        let fixed = ["cost", "choose", "model.toml", "--prices", "prices.toml", "--output", "json"];
        let all: Vec<&str> = fixed.into_iter().chain(args.iter().copied()).collect();
        scene.run(&all)
    };
    let said = choose(&["--p99", "60", "--min-mode", "sign", "--check", "3", "--csv", "all.csv", "--svg", "front.svg"]);
    assert!(said.starts_with("exit 0"), "{said}");
    let found = json_of(&said);
    assert_eq!(found["ranked"], json!([1]), "{found}");
    assert_eq!(found["settings"][2]["fails"][0]["constraint"], "min-mode", "{found}");
    for checked in found["checked"].as_array().unwrap() {
        assert!(checked["off"].as_f64().unwrap() < 1e-3, "{found}");
    }
    assert_eq!(scene.read("all.csv").lines().count(), 4);
    assert!(scene.read("front.svg").starts_with("<svg"));
    for (option, value, wanted) in [
        ("--p99", "20 furlongs", "a time above 0 such as `20 ms`"),
        ("--p99", "0", "a time above 0 such as `20 ms`"),
        ("--load", "500/fortnight", "a rate above 0 such as `500/s`"),
        ("--cpu", "-3 %", "percent above 0 and at most 100 such as `70 %`"),
        ("--energy", "3 W", "an energy above 0 such as `2 J`"),
        ("--money", "3/parsec", "money above 0 such as `0.3/h`"),
        ("--availability", "100 %", "a share above 0 and below 1 such as `99.9 %`"),
    ] {
        let said = choose(&[&format!("{option}={value}")]);
        assert!(said.starts_with("exit 2") && said.contains(wanted), "{said}");
    }
    // A value that begins like an option is a value all the same.
    for (option, value, wanted) in [
        ("--p99", "-5 ms", "`-5 ms`: a time above 0 such as `20 ms`"),
        ("--mean", "-5", "`-5`: a time above 0 such as `20 ms`"),
        ("--rate", "-3/s", "`-3/s`: a rate above 0 such as `500/s`"),
        ("--cpu", "-3 %", "`-3 %`: percent above 0 and at most 100"),
        ("--loss", "-3", "`-3`: percent above 0 and at most 100"),
        ("--energy", "-2 J", "`-2 J`: an energy above 0"),
        ("--money", "-2/h", "`-2/h`: money above 0"),
        ("--availability", "-99 %", "`-99 %`: a share above 0"),
        ("--p95", "--one-down", "`--one-down`: a time above 0"),
        ("--min-strength", "-112", "-112 is not in 0.."),
    ] {
        let said = choose(&[option, value]);
        assert!(said.starts_with("exit 2") && said.contains(wanted) && !said.contains("unexpected"), "{said}");
    }
    let ranked = |args: &[&str]| json_of(&choose(args))["wanted"].clone();
    let plain = ranked(&["--p99", "60", "--rate", "30", "--cpu", "70"]);
    assert_eq!(ranked(&["--p99", "0.06 s", "--load", "1800/min", "--cpu", "70 %"]), plain);
    for (option, value) in [("--energy", "2 J"), ("--money", "40/month"), ("--availability", "99.9 %")] {
        let said = choose(&[option, value]);
        assert!(said.starts_with("exit 2") && said.contains("the model says of no node"), "{said}");
    }
    let said = choose(&["--rate", "100000"]);
    assert!(said.starts_with("exit 1") && said.contains("this saturates at"), "{said}");
    let found = json_of(&said);
    assert_eq!(
        (found["ranked"].as_array().unwrap().len(), found["rejected"].as_array().unwrap().len()),
        (0, 3),
        "{found}"
    );
    assert!(found["best"]["rate"].is_number(), "{found}");

    scene.write("model.toml", MODEL);
    let diagram = scene.run(&["cost", "weave", "model.toml", "--as", "annotated"]);
    scene.write("model.mmd", diagram.split_once("--- stdout\n").unwrap().1.split("--- stderr").next().unwrap());
    let solved = |file: &str| {
        let mut solved = json_of(&scene.run(&["cost", "solve", file, "--output", "json"]));
        let of = solved.as_object_mut().unwrap().remove("of").unwrap();
        assert_eq!((&of["model"], &of["left_out"], &of["configuration"]), (&json!(file), &json!([]), &json!(null)));
        solved
    };
    assert_eq!(solved("model.mmd"), solved("model.toml"));
}

#[test]
fn steps_are_measured_in_processes_of_the_program_and_a_calibration_is_written() {
    let scene = Scene::empty();
    let args =
        ["cost", "measure", "--quick", "--only", "hash sha-256", "--only", "verify ed25519", "--out", "here.json"];
    let said = scene.run(&args);
    assert!(said.starts_with("exit 0"), "{said}");
    for wanted in ["verify ed25519", "hash sha-256", "16384", "PROCESSOR", "PER KB", "  0 %  "] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let written: Value = serde_json::from_str(&scene.read("here.json")).unwrap();
    assert_eq!((&written["schema"], &written["quick"]), (&json!(1), &json!(true)));
    assert_eq!(written["steps"].as_array().unwrap().len(), 4);
    let none = scene.run(&["cost", "measure", "--only", "juggling"]);
    let listed =
        none.contains("no step begins with `juggling`: ") && none.contains("`generate`, ") && none.contains("`verify`");
    assert!(none.starts_with("exit 2") && listed, "{none}");
    let one =
        scene.run(&["cost", "measure", "--quick", "--only", "hash sha-256", "--only", "hsah", "--out", "none.json"]);
    assert!(one.starts_with("exit 2") && one.contains("no step begins with `hsah`"), "one word of two: {one}");
    assert!(!scene.path("none.json").exists());
    let unknown = scene.run(&["cost", "step", ".", "juggling/3", "1000"]);
    assert!(unknown.starts_with("exit 3") && unknown.contains("there is no step `juggling/3`"), "{unknown}");
}

#[test]
fn settings_are_predicted_from_a_calibration_and_held_against_runs() {
    let scene = Scene::empty();
    let only = ["--only", "read", "--only", "exchange", "--only", "append audit/"];
    let measured = scene.run(&[&["cost", "measure", "--quick", "--out", "here.json"], &only[..]].concat());
    assert!(measured.starts_with("exit 0"), "{measured}");
    let from = ["cost", "what-if", "--calibration", "here.json", "--mode", "none"];
    let run =
        [&from[..], &["--clients", "1,2", "--verify", "--rounds", "2", "--run-time", "50 ms", "--out", "told.json"]]
            .concat();
    let said = scene.run(&[&run[..], &["--output", "json"]].concat());
    assert!(said.starts_with("exit 0"), "{said}");
    assert!(said.contains("warning: the calibration is a quick one"), "{said}");
    let found = json_of(&said);
    let hash = found["sha256"].as_str().unwrap();
    assert_eq!(bench::verify::fingerprint(&scene.read("told.json")), hash, "the file is what was told");
    assert!(said.contains(&format!("predicted, before anything is run: sha256 {hash}")), "{said}");
    assert_eq!(found["prediction"]["fitted"], json!(0));
    let rounds = found["verified"]["sha256"].as_array().unwrap();
    for (round, hash) in (1..).zip(rounds) {
        let hash = hash.as_str().unwrap();
        assert_eq!(bench::verify::fingerprint(&scene.read(&format!("told.round-{round}.json"))), hash);
        let (told, run) =
            (said.find(&format!("predicted, sha256 {hash}")), said.find(&format!("round {} of", round + 1)));
        assert!(told.is_some() && (round == 2 || told < run), "{said}");
    }
    assert!(rounds.len() == 2 && rounds[0] != rounds[1], "each round measures and predicts anew");
    let rows = found["verified"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["predicted"].as_f64().unwrap() > 0.0 && row["measured"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["runs"] == 2 && row["measurable"] == false, "two runs are too few: {row}");
    }
    let text = scene.run(&from);
    assert!(text.contains("measured steps, 0 fitted") && text.contains("SERVER'S LIMIT"), "{text}");
    let tables = text.split("--- stderr").next().unwrap();
    assert!(tables.lines().all(|line| line.chars().count() <= 120), "nobody has to turn lines round: {text}");
    assert_eq!(text.matches("\nnone\n").count(), 1 + 1, "a line over its rows in each table: {text}");

    let unmeasured = scene.run(&["cost", "what-if", "--calibration", "here.json", "--mode", "sign"]);
    assert!(unmeasured.starts_with("exit 2") && unmeasured.contains("no-price"), "{unmeasured}");
    let nobody = scene.run(&[&from[..], &["--present", "rot13"]].concat());
    assert!(nobody.starts_with("exit 2") && nobody.contains("there are: none"), "{nobody}");
    scene.write("other.json", &scene.read("here.json").replace("\"cores\": ", "\"cores\": 7"));
    let foreign = scene.run(&["cost", "what-if", "--calibration", "other.json", "--mode", "none", "--clients", "1"]);
    assert!(foreign.contains("the calibration is from another machine: its cores is"), "{foreign}");
    scene.write("broken.json", "{}");
    let broken = scene.run(&["cost", "what-if", "--calibration", "broken.json"]);
    assert!(broken.starts_with("exit 2") && broken.contains("is no calibration"), "{broken}");
    assert!(broken.contains("cost measure --out FILE") && broken.matches("line 1").count() == 1, "{broken}");
}

/// Who did not renew keys would be disconnected: a server takes none that are older than they may be.
#[test]
fn keys_and_tokens_that_live_briefly_are_renewed_in_runs() {
    let scene = Scene::empty();
    let steps = ["read", "exchange", "seal basic", "open basic", "append audit", "derive p-sha256", "hash sha-"];
    let keys = ["sign", "verify", "encrypt", "decrypt"].map(|operation| format!("{operation} rsa-2048"));
    let others =
        ["sign hmac-sha256", "verify hmac-sha256", "encrypt aes-256-cbc", "decrypt aes-256-cbc", "verify ed25519"];
    let steps: Vec<&str> = steps.into_iter().chain(others).chain(keys.iter().map(String::as_str)).collect();
    let only: Vec<&str> = steps.iter().flat_map(|step| ["--only", step]).collect();
    let measured = scene.run(&[&["cost", "measure", "--quick", "--out", "here.json"], &only[..]].concat());
    assert!(measured.starts_with("exit 0"), "{measured}");
    let from = ["cost", "what-if", "--calibration", "here.json", "--mode", "sign-and-encrypt", "--key", "2048"];
    let tokens = ["--token", "start-finish", "--encrypted", "once", "--clients", "2"];
    let run = ["--verify", "--rounds", "2", "--run-time", "50 ms", "--output", "json"];
    let said = scene.run(&[&from[..], &tokens[..], &["--lifetime", "6 s"], &run].concat());
    assert!(said.starts_with("exit 0") && said.contains("keys and tokens are renewed: 18 s"), "{said}");
    let row = &json_of(&said)["verified"]["rows"][0];
    assert!(row["measured"].as_f64().unwrap() > 0.0 && row["runs"] == 2, "{row}");
    let [keys, shown] = ["keys", "tokens"].map(|it| row["renewed"][it].as_f64().unwrap());
    // Of each of two clients, every 4.5 and every 4.8 s. A crowded machine may stand still for a second, and who renews too late is sent away.
    assert!((6.0..=10.0).contains(&keys) && (6.0..=8.0).contains(&shown), "{row}");
}
