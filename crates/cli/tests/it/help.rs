//! The shape of the command line: every command explains itself, wrong words are answered with the nearest right one.

use super::Scene;

/// Every command, with the groups they are in.
pub(crate) const COMMANDS: [&str; 89] = [
    "",
    "application",
    "application list",
    "application set-secret",
    "application remove-secret",
    "application disable",
    "application enable",
    "approvals",
    "approvals list",
    "approvals approve",
    "approvals decline",
    "audit",
    "audit tail",
    "audit verify",
    "audit export",
    "audit rotate-key",
    "audit archive",
    "audit retain",
    "backup",
    "restore",
    "certs",
    "certs init",
    "certs add",
    "certs show",
    "certs renew",
    "certs revoke",
    "certs list",
    "client",
    "client read",
    "client write",
    "client call",
    "client browse",
    "client watch",
    "client history",
    "config",
    "config check",
    "config show",
    "config init",
    "cost",
    "cost weave",
    "cost solve",
    "cost simulate",
    "cost choose",
    "cost measure",
    "cost what-if",
    "cost watch",
    "demo",
    "doctor",
    "drain",
    "model",
    "model solve",
    "model simulate",
    "model transient",
    "model check",
    "model bounds",
    "model fluid",
    "model draw",
    "model convert",
    "model schema",
    "nodeset",
    "nodeset check",
    "nodeset scopes",
    "guard",
    "guard mode",
    "guard propose",
    "policy",
    "policy check",
    "policy test",
    "policy explain",
    "policy what-if",
    "policy reload",
    "reproduce",
    "reproduce p4",
    "step",
    "token",
    "token list",
    "token issue",
    "token inspect",
    "token verify",
    "token revoke",
    "token rotate-keys",
    "up",
    "user",
    "user set",
    "user hash",
    "user certify",
    "user list",
    "user disable",
    "user remove",
];

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        insta::with_settings!({ description => format!("trapkey {command} --help") }, {
            insta::assert_snapshot!(format!("help {command}").trim().replace(' ', "-"), Scene::empty().run(&args));
        });
    }
}

#[test]
fn wrong_arguments_are_exit_code_2_and_name_what_was_probably_meant() {
    insta::assert_snapshot!(Scene::empty().run(&["polcy", "check"]));
    insta::assert_snapshot!(Scene::empty().run(&["audit", "tail", "--outcome", "maybe"]));
}

#[test]
fn wrong_arguments_are_json_where_json_is_asked_for() {
    for args in [
        &["polcy", "--output", "json"][..],
        &["--output=json", "audit", "tail", "--outcome", "maybe"],
        &["token", "--output", "json"],
        &["certs", "revoke", "--days", "0", "--output", "json"],
    ] {
        let said = Scene::empty().run(args);
        let (exit, json) = said.split_once("--- stdout\n").unwrap_or_else(|| panic!("{said}"));
        let json: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(exit, "exit 2\n");
        assert_eq!(json["error"]["kind"], "bad_input");
        insta::with_settings!({ description => args.join(" ") }, {
            insta::assert_snapshot!(said);
        });
    }
    let text = Scene::empty().run(&["audit", "tail", "--outcome", "--", "--output", "json"]);
    assert!(text.contains("--- stderr\nerror: "), "{text}");
}
