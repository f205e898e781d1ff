//! `ua.check.instructions`: what the gate's check adds to a Read, in instructions that callgrind counts.
//!
//! The server core serves reads in memory, without sockets and without protection, so that nothing else hides the
//! check. The program (`examples/in_memory.rs`) is built twice, the second time with `danger-permit-always`; both are
//! counted inside `serve_one` alone.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use access_model::Now;
use gates::clock;
use opcua_types::MessageSecurityMode;
use token::SystemEntropy;
use ua_proto::client::{
    ClientApplication, ClientEvent, ClientSession, ClientSessionConfig, EndpointWish, Response, choose_endpoint,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::server::{Audited, ConnId, Input, Output, Server};

use super::Bench;
use crate::Failed;
use crate::fixture::{self, CLIENT_URI, Fixture, SERVER_URI, USER};
use crate::load;
use crate::random::Random;
use crate::{files, journal, serve};

const NODES: u32 = 100_000;
const READS: u32 = 5_000;

/// Builds both programs, counts both and keeps the ratio.
///
/// # Errors
/// Cargo or valgrind is missing, or a count cannot be read.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let permitting = build(&fixture, "permitting", &["--features", "danger-permit-always"])?;
    let checking = build(&fixture, "checking", &[])?;
    let mut runs = Vec::new();
    for run in 0..bench.runs {
        let here = count(&checking, &fixture)?;
        let there = count(&permitting, &fixture)?;
        eprintln!("  run {}: {here:.1} instructions, without the check {there:.1}", run + 1);
        runs.push(here / there);
    }
    bench.alone("ua.check.instructions", "of a build that always permits", &runs, 1.03, "check.instructions")
}

/// Builds the example and moves it to the fixture, for the next build takes its place.
fn build(fixture: &Fixture, name: &str, features: &[&str]) -> Result<PathBuf, Failed> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(journal::workspace())
        .args(["build", "--release", "--locked", "--quiet", "--package", "bench", "--example", "in_memory"])
        .args(features)
        .status()?;
    if !status.success() {
        return Err(format!("the {name} program could not be built").into());
    }
    let program = fixture.path(name);
    files::copy(&journal::workspace().join("target/release/examples/in_memory"), &program)?;
    Ok(program)
}

/// Instructions for one Read.
fn count(program: &Path, fixture: &Fixture) -> Result<f64, Failed> {
    let out = fixture.path("callgrind.out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*serve_one*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg(fixture.folder())
        .output()?;
    if !output.status.success() {
        return Err(format!("valgrind: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8_lossy(&files::read(&out)?).into_owned();
    let totals = text.lines().find_map(|line| line.strip_prefix("totals:"));
    let total: f64 = totals.and_then(|rest| rest.trim().parse().ok()).ok_or("callgrind counted nothing")?;
    if total == 0.0 { Err("callgrind did not see `serve_one`".into()) } else { Ok(total / f64::from(READS)) }
}

/// Logs in and reads, server and client in one process.
///
/// # Errors
/// A read fails.
pub fn in_memory(folder: &Path) -> Result<(), Failed> {
    let mut pair = Pair::new(folder, NODES)?;
    pair.until(serve, |event| matches!(event, ClientEvent::Activated(_)))?;
    let mut random = Random::new(1);
    for _ in 0..READS {
        let request = load::value_of(fixture::number(random.below(NODES)));
        pair.client.request(request.into(), None, pair.now)?;
        let answer = pair.until(serve_one, |event| matches!(event, ClientEvent::Answer(..)))?;
        let ClientEvent::Answer(_, Ok(Response::Read(answer))) = answer else {
            return Err(format!("not the answer to a read: {answer:?}").into());
        };
        if answer.results.iter().flatten().next().is_none_or(|value| value.value.is_none()) {
            return Err("a read gave no value".into());
        }
    }
    Ok(())
}

/// A client, others that wait for their turn, and the server's core.
pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) conn: ConnId,
    pub(crate) client: ClientSession,
    others: VecDeque<(ConnId, ClientSession)>,
    config: Arc<ClientSessionConfig>,
    pub(crate) entropy: SystemEntropy,
    pub(crate) now: Now,
    answer: Vec<u8>,
}

impl Pair {
    /// The server has so many variables.
    pub(crate) fn new(folder: &Path, nodes: u32) -> Result<Self, Failed> {
        let now = clock::now();
        let (mut server, conn) = (serve::server(folder, nodes, 4840, None)?, ConnId(1));
        server.handle_input(Input::Accepted { conn, peer: "memory".into() }, now);
        let config = Arc::new(config(folder)?);
        let client = ClientSession::new(Arc::clone(&config), load::user(), now)?;
        let (others, entropy, answer) = (VecDeque::new(), SystemEntropy::new(), Vec::new());
        Ok(Self { server, conn, client, others, config, entropy, now, answer })
    }

    /// One more client on a connection of its own, whose turn it is now.
    pub(crate) fn another(&mut self) -> Result<(), Failed> {
        let conn = ConnId(self.others.len() as u64 + 2);
        self.server.handle_input(Input::Accepted { conn, peer: "memory".into() }, self.now);
        self.others.push_front((conn, ClientSession::new(Arc::clone(&self.config), load::user(), self.now)?));
        self.turn();
        Ok(())
    }

    /// It is the next client's turn.
    pub(crate) fn turn(&mut self) {
        if let Some((conn, client)) = self.others.pop_front() {
            let before = (std::mem::replace(&mut self.conn, conn), std::mem::replace(&mut self.client, client));
            self.others.push_back(before);
        }
    }

    /// Carries bytes to and fro until the client tells what is waited for.
    pub(crate) fn until(&mut self, serve: Serve, wanted: impl Fn(&ClientEvent) -> bool) -> Result<ClientEvent, Failed> {
        for _ in 0..1_000 {
            while let Some(event) = self.client.poll_event() {
                match event {
                    ClientEvent::Job(job) => {
                        let (id, outcome) = job.run();
                        self.client.job_done(id, outcome, self.now, &mut self.entropy);
                    }
                    event if wanted(&event) => return Ok(event),
                    _ => {}
                }
            }
            let sent = self.client.outgoing().map(std::mem::take).unwrap_or_default();
            self.now.mono = self.now.mono + Duration::from_micros(50);
            serve(&mut self.server, self.conn, &sent, &mut self.answer, self.now);
            self.client.receive(&self.answer, self.now, &mut self.entropy);
            self.answer.clear();
        }
        Err("the client waits in vain".into())
    }
}

pub(crate) type Serve = fn(&mut Server, ConnId, &[u8], &mut Vec<u8>, Now);

/// Everything the server does for one Read, under a name that callgrind is told to count.
#[inline(never)]
fn serve_one(server: &mut Server, conn: ConnId, bytes: &[u8], answer: &mut Vec<u8>, now: Now) {
    serve(server, conn, bytes, answer, now);
}

/// Everything the server does for one piece of input.
pub(crate) fn serve(server: &mut Server, conn: ConnId, bytes: &[u8], answer: &mut Vec<u8>, now: Now) {
    server.handle_input(Input::Bytes { conn, bytes }, now);
    while let Some(output) = server.poll_output() {
        match output {
            Output::Send { conn } => {
                if let Some(bytes) = server.outgoing(conn) {
                    answer.append(bytes);
                }
            }
            Output::Job(job) => {
                let (id, outcome) = job.run();
                server.handle_input(Input::JobDone { id, outcome }, now);
            }
            Output::Authenticate { id, .. } => {
                let result = Ok(pep::Identity::User { name: USER.into() });
                server.handle_input(Input::Authenticated { id, result }, now);
            }
            Output::Audit { id: Some(id), .. } => {
                server.handle_input(Input::Audited { id, result: Audited::Kept }, now);
            }
            _ => {}
        }
    }
    if server.poll_timeout().is_some_and(|at| at <= now.mono) {
        server.handle_timeout(now);
    }
}

/// The endpoint without protection, as discovery would tell it.
fn config(folder: &Path) -> Result<ClientSessionConfig, Failed> {
    let endpoint = opcua_types::EndpointDescription {
        endpoint_url: "opc.tcp://memory:4840".into(),
        server: opcua_types::ApplicationDescription { application_uri: SERVER_URI.into(), ..Default::default() },
        server_certificate: files::read(&folder.join("server.der"))?.into(),
        security_mode: MessageSecurityMode::None,
        security_policy_uri: SecurityPolicyId::None.uri().into(),
        user_identity_tokens: Some(vec![opcua_types::UserTokenPolicy {
            policy_id: "username_Basic256Sha256".into(),
            token_type: opcua_types::UserTokenType::UserName,
            security_policy_uri: SecurityPolicyId::Basic256Sha256.uri().into(),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let wish = EndpointWish {
        policies: vec![SecurityPolicyId::None],
        modes: vec![MessageSecurityMode::None],
        identities: vec![opcua_types::UserTokenType::UserName],
        ..EndpointWish::default()
    };
    let choice = choose_endpoint(&[endpoint], &wish)?;
    let application =
        ClientApplication { uri: CLIENT_URI.into(), product_uri: "urn:trapkey".into(), name: "bench".into() };
    Ok(ClientSessionConfig::new("opc.tcp://memory:4840", choice, application))
}
