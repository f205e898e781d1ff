//! `trapkey config check`: the written example is sound, and every slip is shown in its place.

use super::Scene;

#[test]
fn the_written_configuration_is_sound() {
    let scene = Scene::plant();
    insta::assert_snapshot!(scene.run(&["config", "check"]));
    insta::assert_snapshot!(scene.run(&["config", "show"]));
    insta::assert_snapshot!(scene.run(&["config", "init"]));
}

#[test]
fn no_configuration_says_how_to_get_one() {
    insta::assert_snapshot!(Scene::empty().run(&["config", "check"]));
}

#[test]
fn an_unknown_key_is_shown_in_its_place_with_the_nearest_known_one() {
    let scene = Scene::plant();
    scene.write("trapkey.toml", &scene.read("trapkey.toml").replace("rotate_mib", "rotate_mb"));
    insta::assert_snapshot!(scene.run(&["config", "check"]));
    let error = &scene.json_or_error(&["config", "check"])["error"];
    assert_eq!(error["kind"], "bad_input");
    assert_eq!(error["faults"][0]["help"], "did you mean `rotate_mib`?");
    assert!(error["faults"][0]["line"].as_u64().unwrap() > 10);
}

#[test]
fn a_wrong_value_and_broken_syntax_are_shown_in_their_place() {
    let scene = Scene::plant();
    let sound = scene.read("trapkey.toml");
    scene.write("trapkey.toml", &sound.replace("rotate_mib = 64", "rotate_mib = \"much\""));
    insta::assert_snapshot!(scene.run(&["config", "check"]));
    scene.write("trapkey.toml", &sound.replace("[audit]", "[audit"));
    insta::assert_snapshot!(scene.run(&["config", "check"]));
}

#[test]
fn the_environment_goes_before_the_file_and_is_as_strict() {
    let scene = Scene::plant();
    let check = |name, value| scene.run_with(&["config", "check"], &[(name, value)]);
    insta::assert_snapshot!(check("TRAPKEY__AUDIT__SYNC", "disk"));
    insta::assert_snapshot!(check("TRAPKEY__AUDIT__SINC", "disk"));
    insta::assert_snapshot!(check("TRAPKEY__AUDIT__ROTATE_MIB", "much"));
    insta::assert_snapshot!(check("TRAPKEY__AUDIT__ROTATE_MIB", "0"));
}
