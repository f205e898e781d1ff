//! Everybody's client, through a guard, at everybody's server: its token is renewed while changes come. A last token with
//! less in it takes away what it does not give, and nothing else. node-opcua has no tokens: its name is presented again.

use std::time::Instant;

use access_model::Rights;
use gates::opcua::guard::GuardHandle;

use crate::matrix::{CLIENTS, Guarded, at_each_server, protection, run, sign_in};
use crate::peers::Stack;

const STEPS: [&str; 4] = ["connect", "renew", "read", "write"];

/// Its way to sign in, with tokens in files of this folder.
fn tokens(guarded: &Guarded, client: Stack, folder: &std::path::Path) -> Vec<String> {
    if matches!(client, Stack::NodeOpcua) {
        return sign_in(client, true);
    }
    let few = Rights::READ | Rights::BROWSE;
    let files = [Rights::ALL, Rights::ALL, Rights::ALL, few].into_iter().enumerate().map(|(number, rights)| {
        let file = folder.join(format!("{}-{number}.jwt", client.name()));
        std::fs::write(&file, guarded.tokens.mint(rights)).expect("the folder takes a file");
        file.display().to_string()
    });
    let files: Vec<String> = files.collect();
    let (first, fresh) = files.split_first().expect("four files");
    let form = if matches!(client, Stack::Milo) { "--legacy" } else { "--clear" };
    let given = ["--jwt", first, form, "--renew", &fresh.join(",")].map(str::to_owned);
    protection(client).into_iter().chain(given).collect()
}

/// One after the other, for each hears of what it wrote.
async fn renewed(guarded: Guarded, (guarding, url): (GuardHandle, String)) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder for the tokens");
    let (mut failed, began) = (Vec::new(), Instant::now());
    for client in CLIENTS {
        let arguments = tokens(&guarded, client, folder.path());
        let Some(report) = run(client, &url, arguments, &STEPS, |_| ()).await else { continue };
        let rule = format!("{} at {}", client.name(), guarded.name());
        println!("{:5.1} s {rule}: {report:?}", began.elapsed().as_secs_f32());
        let taken = report.iter().map(|step| (step.step.as_str(), step.status.as_deref()));
        let denied = (!matches!(client, Stack::NodeOpcua)).then_some("0x801F0000");
        let expected = [("connect", None), ("renew", None), ("read", None), ("write", denied)];
        let all = report.iter().all(|step| step.ok == (step.step != "write" || denied.is_none()));
        if !taken.eq(expected) || !all {
            failed.push(format!("{rule}: {report:#?}"));
        }
    }
    guarding.stop().await;
    failed
}

#[test]
fn their_changes_go_on_while_they_present_fresh_tokens() {
    let failed = at_each_server(renewed);
    assert!(failed.is_empty(), "not all changes come:\n{}", failed.join("\n"));
}
