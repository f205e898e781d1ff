//! Their clients, when the connection to our server is cut in the middle of a subscription: they connect again by
//! themselves, and the changes go on. Without security no session moves to another channel, so it is not tried here.

use testkit::relay::Relay;

use crate::our_server::serve;
use crate::peers::{Stack, certificate, run_steps};

fn changes_go_on_after_a_cut(stack: Stack, recovered: &str) {
    let Some(program) = stack.program("client") else { return };
    let server = serve(&[]);
    let (policy, mode) = (["--policy", "Basic256Sha256"], ["--mode", "SignAndEncrypt"]);
    let x509 = format!("{},{}", certificate("user.der"), certificate("user.key.pem"));
    let ways = [["--user", "operator:secret"], ["--x509", &x509]];
    for way in ways {
        let relay = Relay::start(&server.url);
        let mut cut = 0;
        let arguments = [policy, mode, way, ["--steps", "connect,watch,recover,write"]].concat();
        let report = run_steps(&program, stack.name(), relay.url(), "trapkey", &arguments, &mut |step| {
            if step.step == "watch" {
                cut = relay.cut();
            }
        });
        let taken: Vec<(&str, bool)> = report.iter().map(|step| (step.step.as_str(), step.ok)).collect();
        let name = stack.name();
        assert_eq!(
            taken,
            ["connect", "watch", "recover", "write"].map(|step| (step, true)),
            "{name} {way:?}: {report:#?}"
        );
        assert!(cut >= 1, "{name} {way:?}: nothing was cut");
        assert_eq!(report[2].detail, recovered, "{name} {way:?}");
    }
}

#[test]
fn asyncua_clients_recover() {
    changes_go_on_after_a_cut(Stack::Asyncua, "60 changes");
}

#[test]
fn milo_clients_recover() {
    changes_go_on_after_a_cut(Stack::Milo, "the same session");
}

#[test]
fn open62541_clients_recover() {
    changes_go_on_after_a_cut(Stack::Open62541, "60 changes");
}

#[test]
fn node_opcua_clients_recover() {
    changes_go_on_after_a_cut(Stack::NodeOpcua, "the same session");
}
