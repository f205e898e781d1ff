//! An orderly end: what happened last is in the audit too.

use access_model::{AuditKind, AuditRecord, Outcome};
use client::{Client, ClientOptions};
use gates::opcua::wiring::AuditRequest;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::common::{PATIENCE, Setup, id, listen, options};

/// Fewer than the records of a stop with this many clients, more than their summaries of a second.
const ROOM: usize = 16;
const CLIENTS: usize = 12;

/// A ledger that takes records while `open`, until the last sender is gone.
async fn keep(mut records: mpsc::Receiver<AuditRequest>, mut open: watch::Receiver<bool>) -> Vec<AuditRecord> {
    let mut kept = Vec::new();
    while open.wait_for(|open| *open).await.is_ok()
        && let Some(AuditRequest { record, ack }) = records.recv().await
    {
        kept.push(record);
        if let Some(ack) = ack {
            let _gone = ack.send(Ok(()));
        }
    }
    kept
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_waits_for_room_for_its_last_records() {
    let (sink, records) = mpsc::channel(ROOM);
    let (gate, open) = watch::channel(true);
    let ledger = tokio::spawn(keep(records, open));
    let handle = Setup::new(sink).start(listen());
    let url = format!("opc.tcp://{}", handle.address());
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        // What a client reads of its own accord, to see whether the session lives, would be counted too.
        let options = ClientOptions { keep_alive: PATIENCE * 10, ..options(&url) };
        let client = Client::connect(options).await.unwrap();
        for _ in 0..=number {
            assert!(client.read(&[id("Level")]).await.unwrap()[0].status().is_good());
        }
        clients.push(client);
    }
    gate.send(false).unwrap();
    let stopping = tokio::spawn(async move { handle.stop().await });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!stopping.is_finished(), "it waits for room");
    gate.send(true).unwrap();
    timeout(PATIENCE, stopping).await.unwrap().unwrap();
    let kept = timeout(PATIENCE, ledger).await.expect("a server that has stopped keeps no way to the ledger").unwrap();
    let count = |kind| -> u64 {
        let of_kind = kept.iter().filter(|record| record.kind == kind && record.outcome == Outcome::Allowed);
        of_kind.map(|record| record.count).sum()
    };
    assert_eq!(count(AuditKind::SessionActivated), CLIENTS as u64);
    assert_eq!(count(AuditKind::SessionClosed), CLIENTS as u64);
    assert_eq!(count(AuditKind::ChannelClosed), count(AuditKind::ChannelOpened));
    assert_eq!(count(AuditKind::Read), (1..=CLIENTS as u64).sum::<u64>());
    assert!(!kept.iter().any(|record| record.kind == AuditKind::FailMode), "none is missing");
    for client in clients {
        client.close().await;
    }
}
