//! Peers that ask and do not listen.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason};
use client::{Client, ClientApplication, Request, Response};
use gates::clock;
use gates::opcua::wiring::AuditRequest;
use opcua_types::{
    AttributeId, EndpointDescription, MessageSecurityMode, ReadRequest, ReadValueId, TimestampsToReturn,
};
use token::SystemEntropy;
use tokio::sync::mpsc;
use tokio::time::timeout;
use ua_proto::channel::TransportLimits;
use ua_proto::client::{ClientEvent, ClientSession, ClientSessionConfig, Credential, EndpointWish, choose_endpoint};
use ua_proto::crypto::SecurityPolicyId;

use crate::common::{BIG, CLIENT, PATIENCE, Setup, client, eventually, forgetful, id, listen, options, server, trust};
use crate::process::{Growth, Process};

/// A session whose bytes move only when the test says so.
struct Peer {
    stream: TcpStream,
    machine: ClientSession,
    answered: usize,
    /// Bytes of values in the answers.
    bytes: usize,
}

impl Peer {
    /// Logs in as anybody, over a channel with or without security.
    fn connect(url: &str, endpoints: &[EndpointDescription], secure: bool) -> Self {
        let (policy, mode) = if secure {
            (crate::common::POLICY, MessageSecurityMode::SignAndEncrypt)
        } else {
            (SecurityPolicyId::None, MessageSecurityMode::None)
        };
        let wish = EndpointWish { policies: vec![policy], modes: vec![mode], ..EndpointWish::default() };
        let application = ClientApplication { uri: CLIENT.into(), product_uri: "urn:test".into(), name: "deaf".into() };
        let mut config = ClientSessionConfig::new(url, choose_endpoint(endpoints, &wish).unwrap(), application);
        config.identity = Some(Arc::clone(&client().identity));
        config.trust = Some(trust(&[&server().identity]));
        config.max_in_flight = 100_000;
        config.request_timeout = Duration::from_secs(600);
        config.keep_alive = Duration::from_secs(600);
        config.session_timeout = Duration::from_secs(3_600);
        let stream = TcpStream::connect(url.trim_start_matches("opc.tcp://")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let machine = ClientSession::new(Arc::new(config), Credential::Anonymous, clock::now()).unwrap();
        let mut peer = Self { stream, machine, answered: 0, bytes: 0 };
        while !peer.machine.is_active() {
            peer.events();
            peer.say();
            if !peer.machine.is_active() {
                assert!(peer.hear(), "the server ends the connection");
            }
        }
        peer
    }

    fn events(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                ClientEvent::Job(job) => {
                    let (id, outcome) = job.run();
                    self.machine.job_done(id, outcome, clock::now(), &mut SystemEntropy::new());
                }
                ClientEvent::Answer(_, Ok(Response::Read(response))) => {
                    self.answered += 1;
                    let values = response.results.unwrap_or_default();
                    self.bytes += values.iter().filter(|value| value.status().is_good()).count() * BIG;
                }
                ClientEvent::Answer(_, Err(status)) | ClientEvent::Disconnected(status) => panic!("{status}"),
                _ => {}
            }
        }
    }

    fn say(&mut self) {
        let out = self.machine.outgoing().map(std::mem::take).unwrap_or_default();
        self.stream.write_all(&out).unwrap();
    }

    /// Reads once; `false` at the end.
    fn hear(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1_024];
        let count = self.stream.read(&mut buffer).unwrap();
        self.machine.receive(&buffer[..count], clock::now(), &mut SystemEntropy::new());
        self.events();
        count > 0
    }

    /// Asks for the big value so many times in one request.
    fn ask(&mut self, times: usize) {
        let item =
            ReadValueId { node_id: id("Big"), attribute_id: AttributeId::Value as u32, ..ReadValueId::default() };
        let request = ReadRequest {
            request_header: Default::default(),
            max_age: 0.0,
            timestamps_to_return: TimestampsToReturn::Neither,
            nodes_to_read: Some(vec![item; times]),
        };
        self.machine.request(Request::Read(request), None, clock::now()).unwrap();
    }

    /// Writes without ever reading until nothing more is taken for a second; how much was taken, and whether the
    /// connection was cut off.
    fn shout(&mut self) -> (usize, bool) {
        let out = self.machine.outgoing().map(std::mem::take).unwrap_or_default();
        self.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut at = 0;
        while at < out.len() {
            match self.stream.write(&out[at..]) {
                Ok(count) => at += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return (at, false);
                }
                Err(_) => return (at, true),
            }
        }
        (at, false)
    }
}

async fn endpoints(url: &str) -> Vec<EndpointDescription> {
    client::endpoints(url, PATIENCE).await.unwrap()
}

/// Thousands of questions with an answer of almost 2 MB each, or of 60 kB each.
async fn never_reads(secure: bool, times: usize) {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path());
    let url = process.url();
    let honest = Client::connect(options(&url)).await.unwrap();
    honest.read(&[id("Big")]).await.unwrap();
    let growth = Growth::of(&process);
    let (at, offered) = (url.clone(), endpoints(&url).await);
    let shouting = tokio::task::spawn_blocking(move || {
        let mut deaf = Peer::connect(&at, &offered, secure);
        for _ in 0..4_000 {
            deaf.ask(times);
        }
        let outcome = deaf.shout();
        (deaf, outcome)
    });
    let mut reads = 0;
    while !shouting.is_finished() {
        let value = timeout(PATIENCE, honest.read(&[id("Level")])).await.unwrap().unwrap();
        assert!(value[0].status().is_good(), "others are served meanwhile");
        reads += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (deaf, (taken, cut)) = shouting.await.unwrap();
    println!("{taken} bytes of questions were taken, cut off: {cut}; {reads} reads of others");
    growth.is_bounded("a peer that never reads");
    drop(deaf);
    let late = timeout(PATIENCE, Client::connect(options(&url))).await.unwrap().unwrap();
    assert!(late.read(&[id("Big")]).await.unwrap()[0].status().is_good(), "nothing is stuck afterwards");
    assert_eq!(honest.session_count(), 1);
    process.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_costs_little_and_others_are_served() {
    never_reads(true, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_costs_little_without_security_too() {
    never_reads(false, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_takes_nothing_is_cut_off_and_others_are_served() {
    let (sink, mut records) = mpsc::channel::<AuditRequest>(8_192);
    let mut setup = Setup::new(sink);
    setup.limits.deaf_time = Duration::from_millis(300);
    let handle = setup.start(listen());
    let url = format!("opc.tcp://{}", handle.address());
    let offered = endpoints(&url).await;
    let honest = Client::connect(options(&url)).await.unwrap();
    let at = url.clone();
    let shouting = tokio::task::spawn_blocking(move || {
        let mut deaf = Peer::connect(&at, &offered, true);
        (0..1_000).for_each(|_| deaf.ask(30));
        deaf.shout();
        deaf
    });
    let cut = async {
        while let Some(AuditRequest { record, .. }) = records.recv().await {
            if record.kind == AuditKind::ChannelClosed && record.outcome != Outcome::Allowed {
                return record;
            }
        }
        panic!("the server has ended");
    };
    let record = timeout(PATIENCE, cut).await.expect("it is cut off");
    assert_eq!(record.outcome, Outcome::Denied(Reason::PeerNotReading), "{record:?}");
    assert!(record.actor.session.is_some(), "an authenticated peer, by its session: {record:?}");
    let left = async || handle.with(|server, _| server.load()).await.unwrap().0 == 1;
    eventually("only the honest one is left", left).await;
    assert!(honest.read(&[id("Big")]).await.unwrap()[0].status().is_good());
    let mut deaf = shouting.await.unwrap();
    let end = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; 1 << 20];
        while deaf.stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    timeout(PATIENCE, end).await.expect("its socket is closed").unwrap();
    handle.stop().await;
}

/// Asks `questions` of `times` values at once, waits until the server holds the connection back, then reads.
async fn held_back(transport: TransportLimits, questions: usize, times: usize) {
    let mut setup = Setup::new(forgetful());
    setup.transport = transport;
    let handle = setup.start(listen());
    let url = format!("opc.tcp://{}", handle.address());
    let offered = endpoints(&url).await;
    let asking = tokio::task::spawn_blocking(move || {
        let mut peer = Peer::connect(&url, &offered, true);
        for _ in 0..questions {
            peer.ask(times);
        }
        let out = peer.machine.outgoing().map(std::mem::take).unwrap_or_default();
        let mut writing = peer.stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || writing.write_all(&out));
        std::thread::sleep(Duration::from_millis(500));
        while peer.answered < questions {
            assert!(peer.hear(), "cut off after {} answers", peer.answered);
        }
        writer.join().unwrap().unwrap();
        peer.bytes
    });
    let bytes = timeout(PATIENCE * 2, asking).await.expect("every question is answered in the end").unwrap();
    assert_eq!(bytes, questions * times * BIG);
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_held_back_is_read_again_after_it_drained() {
    held_back(TransportLimits::default(), 400, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_those_under_way_wait_and_are_answered_without_another_byte() {
    held_back(TransportLimits { max_pending: 4, ..TransportLimits::default() }, 50, 1).await;
}
