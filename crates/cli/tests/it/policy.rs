//! `trapkey policy`: the example is checked and tested, answers are explained, faults are shown in their place.

use super::Scene;

#[test]
fn the_example_is_checked_and_tested() {
    let scene = Scene::plant();
    insta::assert_snapshot!(scene.run(&["policy", "check", "--strict"]));
    let tested = scene.json(&["policy", "test"]);
    assert_eq!(tested["ok"], true);
    assert!(tested["cases"].as_array().unwrap().len() > 5);
}

#[test]
fn an_answer_is_explained() {
    let scene = Scene::plant();
    let question =
        ["policy", "explain", "--person", "olga", "--application", "urn:trapkey:demo:hmi", "--action", "write"];
    let place = ["--server", "mixer", "--scope", "setpoints", "--steps"];
    insta::assert_snapshot!(scene.run(&[&question[..], &place, &["charge"]].concat()));
    insta::assert_snapshot!(scene.run(&[&question[..], &place, &["heat"]].concat()));
    let json = scene.json(&[&question[..], &place, &["heat"]].concat());
    assert_eq!(json["effect"], "forbid");
    assert!(!json["allowed_if"].as_array().unwrap().is_empty());
}

#[test]
fn unknown_words_in_a_question_are_bad_input() {
    let scene = Scene::plant();
    let ask = |action, server, scope| {
        scene.run(&["policy", "explain", "--person", "olga", "--action", action, "--server", server, "--scope", scope])
    };
    insta::assert_snapshot!(ask("wirte", "mixer", "setpoints"));
    insta::assert_snapshot!(ask("write", "mixr", "setpoints"));
    insta::assert_snapshot!(ask("write", "mixer", "setpoint"));
}

#[test]
fn faults_in_policies_and_plants_are_shown_in_their_place() {
    let scene = Scene::plant();
    let policies = scene.read("policies.cedar");
    scene.write("policies.cedar", &format!("{policies}\npermit (principal in Role::\"opertor\", action, resource);\n"));
    insta::assert_snapshot!(scene.run(&["policy", "check"]));
    scene.write("policies.cedar", &policies.replacen("when {", "wehn {", 1));
    insta::assert_snapshot!(scene.run(&["policy", "check"]));
    scene.write("policies.cedar", &policies);
    scene.write("plant.toml", &scene.read("plant.toml").replacen("zone = \"line-1\"", "zone = \"line-7\"", 1));
    insta::assert_snapshot!(scene.run(&["policy", "check"]));
}

#[test]
fn a_failed_case_is_exit_code_1() {
    let scene = Scene::plant();
    let cases = scene.read("cases.toml").replacen("expect = \"permit\"", "expect = \"forbid\"", 1);
    let until = cases.match_indices("[[case]]").nth(1).map_or(cases.len(), |(at, _)| at);
    let one: String = cases[..until]
        .lines()
        .filter(|line| !line.starts_with("policy") && !line.starts_with("depends") && !line.starts_with("lifetime"))
        .map(|line| format!("{line}\n"))
        .collect();
    scene.write("one.toml", &one);
    insta::assert_snapshot!(scene.run(&["policy", "test", "--cases", "one.toml"]));
}
