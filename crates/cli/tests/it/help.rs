//! The shape of the command line: every command explains itself, wrong words are answered with the nearest right one.

use super::Scene;

/// Every command, with the groups they are in.
pub(crate) const COMMANDS: [&str; 36] = [
    "",
    "audit",
    "audit tail",
    "audit verify",
    "audit export",
    "backup",
    "restore",
    "certs",
    "certs init",
    "certs add",
    "certs show",
    "client",
    "client read",
    "client write",
    "client call",
    "client browse",
    "client watch",
    "config",
    "doctor",
    "policy",
    "policy check",
    "policy test",
    "policy explain",
    "policy reload",
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
    "user certify",
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
