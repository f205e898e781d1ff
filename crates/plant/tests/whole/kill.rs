//! The server process dies without a word; its clients come back by themselves.

use client::{Client, WatchOptions};
use opcua_types::{StatusCode, Variant};
use tokio::time::timeout;

use crate::common::{PATIENCE, id, options};
use crate::process::{Process, ledger};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_clients_watch_on_and_every_answered_write_is_in_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path());
    let port = process.port();
    let client = Client::connect(options(process.url())).await.unwrap();
    let mut watch = client.watch(&[id("Ticks")], WatchOptions::default()).await.unwrap();
    let mut answered = 0;
    for round in 1..=3_u64 {
        for _ in 0..5 {
            let change = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
            assert!(matches!(change.value.value, Some(Variant::UInt32(_))), "{change:?}");
        }
        for number in 0..10 {
            let statuses = client.write(vec![(id("Level"), f64::from(number).into())]).await.unwrap();
            assert_eq!(statuses, [StatusCode::Good]);
            answered += 1;
        }
        process.kill();
        process = Process::spawn(folder.path(), port, "true");
        // Changes that were on their way may still come; the new session's begin where the new process does.
        let fresh = async {
            while client.session_count() == round {
                watch.next().await.unwrap();
            }
        };
        timeout(PATIENCE, fresh).await.expect("the client comes back and its watch with it");
        client.ready().await.unwrap();
    }
    client.close().await;
    process.end();
    let report = store::verify(&ledger(folder.path()), None).unwrap();
    assert!(report.is_intact(), "{report:?}");
    let entries = store::tail(&ledger(folder.path()), usize::MAX).unwrap();
    let kept = entries.iter().filter(|entry| entry.kind == "write" && entry.outcome == "allowed").count();
    assert_eq!(kept, answered);
}
