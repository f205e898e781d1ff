//! Their clients against our server, `examples/interop_server.rs`: each security policy, each kind of identity, every step.

use std::path::PathBuf;

use crate::peers::{STEPS, Serving, Stack, Step, certificate, run_client, run_steps};

const TRUSTED: [&str; 5] = ["asyncua", "node-opcua", "milo", "open62541", "user"];

/// One way to connect.
struct Way {
    rule: &'static str,
    arguments: Vec<String>,
}

fn way(rule: &'static str, policy: &str, mode: &str, identity: &[&str]) -> Way {
    let words = ["--policy", policy, "--mode", mode].into_iter().chain(identity.iter().copied());
    Way { rule, arguments: words.map(str::to_owned).collect() }
}

fn ordinary_ways() -> Vec<Way> {
    let user = ["--user", "operator:secret"];
    let certificate = format!("{},{}", certificate("user.der"), certificate("user.key.pem"));
    let x509 = ["--x509", certificate.as_str()];
    vec![
        way("None, anonymous", "None", "None", &["--anonymous"]),
        way("Basic256Sha256 encrypted, user name", "Basic256Sha256", "SignAndEncrypt", &user),
        way("Basic256Sha256 signed, user certificate", "Basic256Sha256", "Sign", &x509),
        way("Aes128_Sha256_RsaOaep encrypted, user certificate", "Aes128_Sha256_RsaOaep", "SignAndEncrypt", &x509),
        way("Aes256_Sha256_RsaPss encrypted, user name", "Aes256_Sha256_RsaPss", "SignAndEncrypt", &user),
    ]
}

/// The example stands beside this test's own folder in the target directory; cargo builds it before tests run.
pub(crate) fn example() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows where it is");
    let target = own.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
    target.join("examples/interop_server")
}

/// Our server with an RSA certificate, trusting the clients.
pub(crate) fn serve(more: &[&str]) -> Serving {
    Serving::start(&example(), "trapkey", &TRUSTED, more)
}

/// Our server with these certificates, trusting those.
pub(crate) fn serve_with(own: &[&str], trusted: &[&str]) -> Serving {
    Serving::start_with(&example(), own, trusted, &[])
}

pub(crate) fn assert_every_step(stack: Stack, rule: &str, report: &[Step]) {
    let taken: Vec<(&str, bool)> = report.iter().map(|step| (step.step.as_str(), step.ok)).collect();
    assert_eq!(taken, STEPS.map(|step| (step, true)), "{} with {rule}: {report:#?}", stack.name());
}

fn every_ordinary_way_works(stack: Stack) {
    let Some(program) = stack.program("client") else { return };
    let server = serve(&[]);
    for Way { rule, arguments } in ordinary_ways() {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let report = run_client(&program, stack, &server.url, "trapkey", &arguments);
        assert_every_step(stack, rule, &report);
    }
}

fn a_wrong_password_is_refused(stack: Stack) {
    let Some(program) = stack.program("client") else { return };
    let server = serve(&[]);
    let arguments = ["--policy", "Basic256Sha256", "--mode", "SignAndEncrypt", "--user", "operator:guess"];
    let report = run_client(&program, stack, &server.url, "trapkey", &arguments);
    assert!(!report[0].ok && report.len() == 1, "{}: {report:#?}", stack.name());
    // Bad_IdentityTokenRejected or Bad_UserAccessDenied; a client that hides the code shows none.
    let told = report[0].status.as_deref();
    assert!(matches!(told, None | Some("0x80210000" | "0x801F0000")), "{}: {report:#?}", stack.name());
}

fn a_token_is_taken(stack: Stack) {
    let Some(program) = stack.program("client") else { return };
    let folder = tempfile::tempdir().expect("a folder for the token");
    let (token, forged) = (folder.path().join("token.jwt"), folder.path().join("forged.jwt"));
    let token_path = token.display().to_string();
    let server = serve(&["--jwt", &token_path]);
    let encrypted = ["--policy", "Basic256Sha256", "--mode", "SignAndEncrypt"];
    for form in ["--legacy", "--clear"] {
        let arguments = [&encrypted[..], &["--jwt", token_path.as_str(), form]].concat();
        assert_every_step(stack, form, &run_client(&program, stack, &server.url, "trapkey", &arguments));
    }

    // The same token with another signature.
    let text = std::fs::read_to_string(&token).expect("the server wrote a token");
    let (signed, signature) = text.trim().rsplit_once('.').expect("a compact JWS");
    let flipped = if signature.starts_with('A') { "B" } else { "A" };
    let rest = signature.get(1..).expect("a signature is ASCII");
    std::fs::write(&forged, format!("{signed}.{flipped}{rest}")).expect("the folder takes a file");
    let forged = forged.display().to_string();
    let arguments = [&encrypted[..], &["--jwt", forged.as_str(), "--clear"]].concat();
    let report = run_client(&program, stack, &server.url, "trapkey", &arguments);
    assert!(!report[0].ok && report.len() == 1, "{} with a forged token: {report:#?}", stack.name());
}

/// History and linked items, by the clients that know them.
#[test]
fn their_clients_read_and_change_history_and_link_items() {
    for (stack, steps) in
        [(Stack::Asyncua, "connect,subscribe,history"), (Stack::NodeOpcua, "connect,subscribe,history,trigger")]
    {
        let Some(program) = stack.program("client") else { continue };
        let server = serve(&[]);
        let identity = ["--policy", "Basic256Sha256", "--mode", "SignAndEncrypt", "--user", "operator:secret"];
        let arguments = [&identity[..], &["--steps", steps]].concat();
        let report = run_steps(&program, stack.name(), &server.url, "trapkey", &arguments, &mut |_| ());
        let taken: Vec<(&str, bool)> = report.iter().map(|step| (step.step.as_str(), step.ok)).collect();
        let expected: Vec<(&str, bool)> = steps.split(',').map(|step| (step, true)).collect();
        assert_eq!(taken, expected, "{}: {report:#?}", stack.name());
    }
}

#[test]
fn asyncua_clients_work() {
    every_ordinary_way_works(Stack::Asyncua);
}

#[test]
fn node_opcua_clients_work() {
    every_ordinary_way_works(Stack::NodeOpcua);
}

#[test]
fn milo_clients_work() {
    every_ordinary_way_works(Stack::Milo);
}

#[test]
fn open62541_clients_work() {
    every_ordinary_way_works(Stack::Open62541);
}

#[test]
fn milo_presents_tokens() {
    a_token_is_taken(Stack::Milo);
}

#[test]
fn open62541_presents_tokens() {
    a_token_is_taken(Stack::Open62541);
}

#[test]
fn nobody_gets_in_with_a_wrong_password() {
    for stack in [Stack::Asyncua, Stack::NodeOpcua, Stack::Milo, Stack::Open62541] {
        a_wrong_password_is_refused(stack);
    }
}
