//! Connections that never get anywhere: silent, half a Hello, half an OPN, and those that begin in the middle.

use std::io::Write;
use std::net::TcpStream;

use client::Client;
use tokio::time::timeout;

use crate::common::{PATIENCE, id, options};
use crate::process::{Growth, Process};

const CONNECTIONS: usize = 1_000;

fn hello(url: &str) -> Vec<u8> {
    let mut out = b"HELF".to_vec();
    out.extend(u32::try_from(32 + url.len()).unwrap().to_le_bytes());
    for number in [0_u32, 65_536, 65_536, 0, 0, url.len().try_into().unwrap()] {
        out.extend(number.to_le_bytes());
    }
    out.extend(url.as_bytes());
    out
}

/// The head of an OPN of `size` bytes, and `sent` bytes of it.
fn open(size: u32, sent: usize) -> Vec<u8> {
    let mut out = b"OPNF".to_vec();
    out.extend(size.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    let policy = b"http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256";
    out.extend(u32::try_from(policy.len()).unwrap().to_le_bytes());
    out.extend(policy);
    out.resize(sent, 0x55);
    out
}

/// What the connection says before it falls silent.
fn opening(number: usize, url: &str) -> Vec<u8> {
    let after_hello = |rest: Vec<u8>| [hello(url), rest].concat();
    match number % 6 {
        0 => Vec::new(),
        1 => hello(url)[..9].to_vec(),
        2 => hello(url),
        3 => after_hello(open(16_000, 15_900)),
        4 => after_hello(open(65_000, 60_000)),
        _ => after_hello(b"MSGF\x20\0\0\0\x01\0\0\0\x01\0\0\0".to_vec()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_half_open_connections_cost_little_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path());
    let url = process.url();
    let inside = Client::connect(options(&url)).await.unwrap();
    inside.read(&[id("Level")]).await.unwrap();
    let growth = Growth::of(&process);
    let mut flood = Vec::new();
    for number in 0..CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", process.port())) else {
            panic!("connection {number} is not taken; is the limit of open files below 1,100?")
        };
        stream.set_nonblocking(true).unwrap();
        // Whoever began in the middle may be cut off already.
        let _written = stream.write(&opening(number, &url));
        flood.push(stream);
        if number % 100 == 99 {
            let value = timeout(PATIENCE, inside.read(&[id("Level")])).await.unwrap().unwrap();
            assert!(value[0].status().is_good(), "who is in is served");
            let late = timeout(PATIENCE, Client::connect(options(&url))).await.unwrap().unwrap();
            assert!(late.read(&[id("Level")]).await.unwrap()[0].status().is_good(), "who comes later gets in");
            late.close().await;
        }
    }
    growth.is_bounded("1,000 half-open connections");
    assert_eq!(inside.session_count(), 1, "and keeps its session");
    drop(flood);
    let after = timeout(PATIENCE, Client::connect(options(&url))).await.unwrap().unwrap();
    assert!(after.read(&[id("Level")]).await.unwrap()[0].status().is_good());
    process.end();
}
