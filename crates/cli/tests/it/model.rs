//! `trapkey model`: nets in, numbers or reasons out.

use serde_json::{Value, json};

use super::Scene;

fn queue() -> Value {
    json!({"net": {
    "places": [{"name": "queue"}, {"name": "room", "tokens": 3}],
    "transitions": [
        {"name": "arrive", "kind": "timed", "rate": 1, "in": {"room": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "rate": 1, "in": {"queue": 1}, "out": {"room": 1}},
    ]},
    "ask": [
        {"id": "mean", "kind": "mean_tokens", "place": "queue"},
        {"id": "states", "kind": "tangible"},
        {"id": "never", "kind": "passage_mean", "where": [["queue", ">", 9]]},
    ]})
}

/// What `model solve` says about `net`, and its exit code.
fn said(net: &Value, args: &[&str]) -> (String, Value) {
    let scene = Scene::empty();
    scene.write("net.json", &net.to_string());
    of(&scene, &[&["solve", "net.json"], args].concat())
}

/// What a verb of `model` says, and its exit code. The words that end in `.json` and `.xml` are files of the scene.
fn of(scene: &Scene, args: &[&str]) -> (String, Value) {
    let file = |arg: &str| [".json", ".xml", ".csv", ".mtx"].iter().any(|end| arg.ends_with(end));
    let args: Vec<String> = args
        .iter()
        .map(|arg| if file(arg) { scene.path(arg).to_str().unwrap().to_owned() } else { (*arg).to_owned() })
        .collect();
    let mut all = vec!["model"];
    all.extend(args.iter().map(String::as_str));
    all.extend(["--output", "json"]);
    let text = scene.run(&all);
    let (exit, rest) = text.split_once('\n').unwrap();
    let json = rest.strip_prefix("--- stdout\n").unwrap().split("--- stderr").next().unwrap();
    (exit.to_owned(), serde_json::from_str(json).unwrap())
}

#[test]
fn a_net_is_answered_with_its_checks() {
    let (exit, answer) = said(&queue(), &[]);
    assert_eq!(exit, "exit 0");
    assert_eq!(answer["values"]["states"], 4);
    let mean = answer["values"]["mean"].as_f64().unwrap();
    assert!((mean - 1.5).abs() < 1e-9, "{mean}");
    assert_eq!(answer["unanswered"]["never"]["refused"], "unsupported");
    for check in ["residual", "flow_balance", "invariants"] {
        assert!(answer["checks"][check].as_f64().unwrap() < 1e-9, "{answer}");
    }
}

#[test]
fn what_cannot_be_answered_is_refused_by_class_and_name() {
    let mut net = queue();
    net["net"]["transitions"][1]["out"] = json!({"room": 2});
    let (exit, answer) = said(&net, &[]);
    assert_eq!((exit.as_str(), &answer["refused"], &answer["where"]), ("exit 3", &json!("unbounded"), &json!("room")));
    assert_eq!(answer["trace"], json!(["arrive", "serve"]));

    // Its mean is known without the markings, their number is not.
    let mut net = queue();
    net["ask"] = json!([{"id": "states", "kind": "tangible"}]);
    let (exit, answer) = said(&net, &["--markings", "3"]);
    assert_eq!(
        (exit.as_str(), &answer["refused"], &answer["where"]),
        ("exit 3", &json!("too-large"), &json!("markings"))
    );

    let mut net = queue();
    net["net"]["transitions"][0]["rate"] = json!(0);
    let (exit, answer) = said(&net, &[]);
    assert_eq!((exit.as_str(), &answer["refused"], &answer["where"]), ("exit 3", &json!("invalid"), &json!("arrive")));
}

#[test]
fn a_file_that_is_not_there_is_the_callers_fault() {
    let said = Scene::empty().run(&["model", "solve", "missing.json"]);
    assert!(said.starts_with("exit 2"), "{said}");
    assert!(said.contains("missing.json"), "{said}");
}

#[test]
fn a_simulation_says_how_sure_it_is() {
    let scene = Scene::empty();
    scene.write("net.json", &queue().to_string());
    let (exit, answer) = of(&scene, &["simulate", "net.json", "--relative", "0.02", "--seed", "5"]);
    assert_eq!(exit, "exit 0");
    let mean = &answer["estimates"]["mean"];
    let (low, high) = (mean["low"].as_f64().unwrap(), mean["high"].as_f64().unwrap());
    assert!(low < 1.55 && high > 1.45 && high - low < 0.07 && mean["reached"] == json!(true), "{answer}");
    assert_eq!((&answer["seed"], &answer["unanswered"]["states"]["refused"]), (&json!(5), &json!("unsupported")));
    let (exit, _) = of(&scene, &["solve", "net.json", "--time", "5", "--memory", "64"]);
    assert_eq!(exit, "exit 0");
}

#[test]
fn points_in_time_are_asked_for_on_the_command_line() {
    let scene = Scene::empty();
    let mut net = queue();
    net["ask"] = json!([{"id": "mean", "kind": "mean_tokens", "place": "queue"}]);
    scene.write("net.json", &net.to_string());
    let (exit, answer) = of(&scene, &["transient", "net.json", "--at", "0,1000"]);
    assert_eq!((exit.as_str(), &answer["values"]["mean at 0"]), ("exit 0", &json!(0.0)));
    let late = answer["values"]["mean at 1000"].as_f64().unwrap();
    assert!((late - 1.5).abs() < 1e-6, "{answer}");

    // A derivative is one of the long run, too, until it is asked for at a time: at 0 no rate matters yet.
    net["ask"] = json!([{"id": "slope", "kind": "sensitivity", "wrt": "serve",
        "of": {"kind": "mean_tokens", "place": "queue"}}]);
    scene.write("net.json", &net.to_string());
    let (_, long_run) = of(&scene, &["solve", "net.json"]);
    let (_, answer) = of(&scene, &["transient", "net.json", "--at", "0,1000"]);
    let late = answer["values"]["slope at 1000"].as_f64().unwrap();
    assert!((late - long_run["values"]["slope"].as_f64().unwrap()).abs() < 1e-6, "{answer}");
    assert_eq!(answer["values"]["slope at 0"], json!(0.0));
}

#[test]
fn bounds_hold_the_exact_values_between_them() {
    let scene = Scene::empty();
    let mut net = queue();
    net["ask"] =
        json!([{"id": "served", "kind": "throughput", "transition": "serve"}, {"id": "states", "kind": "tangible"}]);
    scene.write("net.json", &net.to_string());
    let (exit, answer) = of(&scene, &["bounds", "net.json"]);
    assert_eq!(exit, "exit 0");
    let bound = &answer["bounds"]["served"];
    let (low, high) = (bound["low"].as_f64().unwrap(), bound["high"].as_f64().unwrap());
    assert!(low <= 0.75 && (0.75..=1.0).contains(&high), "{answer}");
    assert_eq!(answer["unanswered"]["states"]["refused"], "unsupported");
    assert_eq!(answer.get("values"), None);
}

#[test]
fn flows_are_printed_with_the_populations_that_check_them() {
    let scene = Scene::empty();
    let mut net = queue();
    net["net"]["places"][1]["tokens"] = json!(400);
    net["net"]["transitions"][0]["servers"] = json!("inf");
    net["net"]["transitions"][1]["servers"] = json!(100);
    net["ask"] = json!([{"id": "mean", "kind": "mean_tokens", "place": "queue"}, {"id": "states", "kind": "tangible"}]);
    scene.write("net.json", &net.to_string());
    let (exit, answer) = of(&scene, &["fluid", "net.json", "--at", "3"]);
    assert_eq!(exit, "exit 0");
    let fluid = &answer["fluid"]["mean"];
    assert_eq!(fluid["checked"].as_array().unwrap().len(), 2, "{answer}");
    assert!(fluid["error"].as_f64().unwrap() < 0.1, "{answer}");
    assert_eq!(answer["unanswered"]["states"]["refused"], "unsupported");
    assert_eq!(answer.get("values"), None);
}

#[test]
fn nets_go_from_one_format_to_another_and_nothing_is_lost_on_the_way() {
    let scene = Scene::empty();
    scene.write("net.json", &queue().to_string());
    let (exit, said) = of(&scene, &["convert", "net.json", "--to", "pnpro"]);
    assert_eq!(exit, "exit 0");
    scene.write("net.xml", said["text"].as_str().unwrap());
    let (_, answer) = of(&scene, &["solve", "net.xml"]);
    assert!((answer["values"]["tokens of queue"].as_f64().unwrap() - 1.5).abs() < 1e-9, "{answer}");
    scene.write("ask.json", r#"{"ask": [{"id": "n", "kind": "tangible"}]}"#);
    let (_, answer) = of(&scene, &["solve", "net.xml", "--ask", "ask.json"]);
    assert_eq!(answer["values"], json!({"n": 4}));

    let mut net = queue();
    net["net"]["transitions"][0] =
        json!({"name": "arrive", "kind": "deterministic", "delay": 1, "in": {"room": 1}, "out": {"queue": 1}});
    scene.write("net.json", &net.to_string());
    let (exit, said) = of(&scene, &["convert", "net.json", "--to", "pnml"]);
    assert_eq!((exit.as_str(), &said["refused"], &said["where"]), ("exit 3", &json!("unsupported"), &json!("arrive")));
    let (exit, said) = of(&scene, &["draw", "net.json"]);
    assert!(exit == "exit 0" && said["text"].as_str().unwrap().starts_with("<svg"), "{said}");
    let (_, said) = of(&scene, &["draw", "net.json", "--dot", "--out", "drawn.json"]);
    assert!(said["written"].is_string() && scene.read("drawn.json").starts_with("digraph"));
}

#[test]
fn states_and_generator_are_exported() {
    let scene = Scene::empty();
    scene.write("net.json", &queue().to_string());
    let (exit, _) = of(&scene, &["solve", "net.json", "--states", "states.csv", "--generator", "q.mtx"]);
    assert_eq!(exit, "exit 0");
    let states = scene.read("states.csv");
    assert_eq!(
        states.lines().collect::<Vec<_>>(),
        [r#"state,initial,"queue","room""#, "1,1,0,3", "2,0,1,2", "3,0,2,1", "4,0,3,0"]
    );
    let matrix = scene.read("q.mtx");
    let lines: Vec<&str> = matrix.lines().collect();
    assert_eq!((lines[0], lines[1], lines.len()), ("%%MatrixMarket matrix coordinate real general", "4 4 10", 12));
    assert!(lines.contains(&"2 2 -2e0") && lines.contains(&"1 2 1e0"), "{matrix}");

    // With two phases a service is two states of each marking in which it runs; with a fixed time there is no generator.
    let mut net = queue();
    let serve = net["net"]["transitions"].as_array_mut().unwrap().iter_mut().find(|it| it["name"] == "serve").unwrap();
    serve.as_object_mut().unwrap().remove("rate");
    serve
        .as_object_mut()
        .unwrap()
        .extend([("kind".into(), json!("phase")), ("erlang".into(), json!({"k": 2, "rate": 2}))]);
    scene.write("net.json", &net.to_string());
    let (exit, _) = of(&scene, &["solve", "net.json", "--states", "states.csv", "--generator", "q.mtx"]);
    assert_eq!(exit, "exit 0");
    let states = scene.read("states.csv");
    let lines: Vec<&str> = states.lines().collect();
    assert_eq!((lines[0], lines[1], lines.len()), (r#"state,initial,"queue","room","phase of serve""#, "1,1,0,3,0", 8));
    assert!(lines[2..].iter().all(|line| line.ends_with(",1") || line.ends_with(",2")), "{states}");
    assert!(scene.read("q.mtx").lines().nth(1).is_some_and(|line| line.starts_with("7 7 ")));
    let serve = net["net"]["transitions"].as_array_mut().unwrap().iter_mut().find(|it| it["name"] == "serve").unwrap();
    serve.as_object_mut().unwrap().remove("erlang");
    serve.as_object_mut().unwrap().extend([("kind".into(), json!("deterministic")), ("delay".into(), json!(1))]);
    scene.write("net.json", &net.to_string());
    let (exit, said) = of(&scene, &["solve", "net.json", "--generator", "q.mtx"]);
    assert_eq!((exit.as_str(), &said["refused"], &said["where"]), ("exit 3", &json!("unsupported"), &json!("serve")));
}

#[test]
fn a_net_of_several_and_its_constants_are_said_on_the_command_line() {
    let scene = Scene::empty();
    let net = |name: &str| {
        format!(
            r#"<gspn name="{name}"><nodes><constant consttype="INTEGER" name="N"/><place name="p" marking="N"/></nodes><edges/></gspn>"#
        )
    };
    scene.write("nets.xml", &format!("<project>{}{}</project>", net("one"), net("two")));
    let said = |args: &[&str]| of(&scene, &[&["solve", "nets.xml"], args].concat());
    let (exit, answer) = said(&["--net", "two", "--set", "N=5"]);
    assert_eq!((exit.as_str(), &answer["values"]["tokens of p"]), ("exit 0", &json!(5.0)));
    for (args, class, name) in [
        (["--set", "N=5"].as_slice(), "unsupported", "project"),
        (&["--net", "three"], "invalid", "three"),
        (&["--net", "one"], "unsupported", "N"),
        (&["--net", "one", "--set", "M=5", "--set", "N=5"], "invalid", "M"),
    ] {
        let (exit, answer) = said(args);
        let expected = ("exit 3", &json!(class), &json!(name));
        assert_eq!((exit.as_str(), &answer["refused"], &answer["where"]), expected, "{args:?}");
    }
    let refused = scene.run(&["model", "solve", "nets.xml", "--net", "three"]);
    assert!(refused.starts_with("exit 3") && refused.contains("refused: invalid: `three`: no net"), "{refused}");
    let wrong = scene.run(&["model", "solve", "nets.xml", "--set", "N"]);
    assert!(wrong.starts_with("exit 2") && wrong.contains("N=5"), "{wrong}");
}

/// Who gives the model of an application is told which command reads it.
#[test]
fn a_model_of_an_application_is_no_net() {
    let scene = Scene::empty();
    for (name, text) in [("m.toml", "[nodes]"), ("m.mmd", "sequenceDiagram"), ("m.uml", "<uml:Model/>")] {
        scene.write(name, text);
        let said = scene.run(&["model", "solve", name]);
        assert!(said.starts_with("exit 3") && said.contains("`trapkey cost solve` solves it"), "{said}");
    }
    // What looks like a net is one, whatever it is called.
    scene.write("net.toml", r#"{"net": {"places": [{"name": "p", "tokens": 1}], "transitions": []}}"#);
    assert!(scene.run(&["model", "solve", "net.toml"]).starts_with("exit 0"));
}

#[test]
fn what_is_no_file_of_a_net_is_refused_before_it_is_read_for_ever() {
    let scene = Scene::empty();
    let pipe = scene.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for (net, why) in [
        ("/", "Is a directory"),
        ("/dev/zero", "is no file, but a pipe or a device"),
        (pipe, "is no file, but a pipe or a device"),
        ("none.json", "No such file"),
    ] {
        let said = scene.run(&["model", "solve", net]);
        let name = net.rsplit('/').next().unwrap_or(net);
        assert!(said.starts_with("exit 2") && said.contains(why) && said.contains(name), "{said}");
    }
    scene.write("net.json", r#"{"net": {"places": [], "transitions": []}}"#);
    for (args, why) in [
        (["--ask", pipe].as_slice(), "is no file, but a pipe or a device"),
        (&["--markings", "0"], "--markings"),
        (&["--markings", "-1"], "invalid value '-1' for '--markings"),
        (&["--memory", "0"], "invalid value '0' for '--memory"),
        (&["--time", "-1"], "`--time -1`: above 0"),
        (&["--states", "one", "--generator", "one"], "`--states` and `--generator` are both `one`"),
    ] {
        let said = scene.run(&[&["model", "solve", "net.json"], args].concat());
        assert!(said.starts_with("exit 2") && said.contains(why), "{said}");
    }
    let said = scene.run(&["model", "simulate", "net.json", "--relative", "-1"]);
    assert!(said.starts_with("exit 2") && said.contains("`--relative -1`: above 0"), "{said}");
}

#[test]
fn check_says_what_the_arcs_say() {
    let scene = Scene::empty();
    let mut net = queue();
    net["net"]["places"].as_array_mut().unwrap().push(json!({"name": "at once"}));
    let more = ["one", "other"].map(|name| json!({"name": name, "kind": "immediate", "in": {"at once": 1}}));
    net["net"]["transitions"].as_array_mut().unwrap().extend(more);
    scene.write("net.json", &net.to_string());
    let (exit, said) = of(&scene, &["check", "net.json"]);
    assert_eq!(exit, "exit 0");
    assert_eq!(
        said["invariants"],
        json!({"places": [{"weights": {"queue": 1, "room": 1}, "tokens": 3}], "transitions": [{"arrive": 1, "serve": 1}],
            "all": {"places": true, "transitions": true}})
    );
    assert_eq!(said["conflicts"], json!([["one", "other"]]));
    let text = scene.run(&["model", "check", scene.path("net.json").to_str().unwrap()]);
    for part in ["  queue + room = 3\n", "  arrive, serve\n", "  one, other\n"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_net_without_questions_says_that_nothing_was_asked() {
    let scene = Scene::empty();
    let mut net = queue();
    net.as_object_mut().unwrap().remove("ask");
    scene.write("net.json", &net.to_string());
    let text = scene.run(&["model", "solve", scene.path("net.json").to_str().unwrap()]);
    assert!(text.starts_with("exit 0") && text.contains("nothing was asked"), "{text}");
    // Who reads it by a program gets what there always was.
    let (exit, said) = of(&scene, &["solve", "net.json"]);
    assert_eq!((exit.as_str(), &said["values"], &said["unanswered"]), ("exit 0", &json!({}), &json!({})));
}
