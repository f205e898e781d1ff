//! Their clients, when the connection to our server is cut in the middle of a subscription: they connect again by
//! themselves, and the changes go on. Without security no session moves to another channel, so it is not tried here.

use std::io::{ErrorKind, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::our_server::serve;
use crate::peers::{Stack, certificate, run_steps};

/// Hands on what comes, both ways, until the connections are cut; takes new ones afterwards.
struct Relay {
    url: String,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// `to` is the address of a server, `opc.tcp://HOST:PORT`.
    fn start(to: &str) -> Self {
        let to = to.trim_start_matches("opc.tcp://").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let ends = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&ends);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let both = [&near, &far].map(|end| end.try_clone().expect("a socket can be shared"));
                kept.lock().expect("nobody panics with the lock").extend(both);
                hand_on(&near, &far);
                hand_on(&far, &near);
            }
        });
        Self { url: format!("opc.tcp://127.0.0.1:{port}"), ends }
    }

    /// Ends every connection under way without a word of OPC UA; says how many there were.
    fn cut(&self) -> usize {
        let ends = std::mem::take(&mut *self.ends.lock().expect("nobody panics with the lock"));
        let cut = ends.iter().filter(|end| match end.shutdown(Shutdown::Both) {
            Ok(()) => true,
            Err(error) => error.kind() != ErrorKind::NotConnected,
        });
        // The second end of a connection may have heard of the first by the time it is its turn.
        cut.count().div_ceil(2)
    }
}

fn hand_on(from: &TcpStream, to: &TcpStream) {
    let mut from = from.try_clone().expect("a socket can be shared");
    let mut to = to.try_clone().expect("a socket can be shared");
    std::thread::spawn(move || {
        let _cut = copy(&mut from, &mut to);
        let _ended_already = to.shutdown(Shutdown::Write);
    });
}

fn changes_go_on_after_a_cut(stack: Stack, recovered: &str) {
    let Some(program) = stack.program("client") else { return };
    let server = serve(&[]);
    let (policy, mode) = (["--policy", "Basic256Sha256"], ["--mode", "SignAndEncrypt"]);
    let x509 = format!("{},{}", certificate("user.der"), certificate("user.key.pem"));
    let ways = [["--user", "operator:secret"], ["--x509", &x509]];
    for way in ways {
        let relay = Relay::start(&server.url);
        let mut cut = 0;
        let arguments = [policy, mode, way, ["--steps", "connect,watch,recover"]].concat();
        let report = run_steps(&program, stack.name(), &relay.url, "trapkey", &arguments, &mut |step| {
            if step.step == "watch" {
                cut = relay.cut();
            }
        });
        let taken: Vec<(&str, bool)> = report.iter().map(|step| (step.step.as_str(), step.ok)).collect();
        let name = stack.name();
        assert_eq!(taken, ["connect", "watch", "recover"].map(|step| (step, true)), "{name} {way:?}: {report:#?}");
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
