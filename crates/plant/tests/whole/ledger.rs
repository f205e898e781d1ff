//! A disk that is full under a running server.

use std::process::Command;

use client::Client;
use opcua_types::StatusCode;

use crate::common::{client, eventually, id, options, server};
use crate::process::{Process, ledger};

/// The kernel refuses to let a file of the process grow beyond some kilobytes, as a full disk does.
const SMALL: &str = "trap '' XFSZ; ulimit -S -f 40";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_writes_and_calls_but_no_reads_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    server().write(folder.path(), "server");
    client().write(folder.path(), "client");
    let process = Process::spawn(folder.path(), testkit::ports::free(), SMALL);
    let client = Client::connect(options(process.url())).await.unwrap();
    let mut good = 0;
    let refused = loop {
        let status = client.write(vec![(id("Level"), 2.0.into())]).await.unwrap()[0];
        if status.is_bad() {
            break status;
        }
        good += 1;
        assert!(good < 10_000, "the disk does not fill up");
    };
    assert_eq!(refused, StatusCode::BadResourceUnavailable);
    for _ in 0..3 {
        let status = client.write(vec![(id("Level"), 3.0.into())]).await.unwrap()[0];
        assert_eq!(status, StatusCode::BadResourceUnavailable, "writes stay refused");
        let called = client.call(id("Line"), id("Do"), Vec::new()).await.unwrap();
        assert_eq!(called.status_code, StatusCode::BadResourceUnavailable, "calls too");
        let value = &client.read(&[id("Level")]).await.unwrap()[0];
        assert_eq!(value.value, Some(2.0.into()), "reads go on, and no refused write was carried out");
    }
    let pid = process.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status().unwrap().success());
    eventually("writes are taken again", async || {
        client.write(vec![(id("Level"), 4.0.into())]).await.unwrap()[0].is_good()
    })
    .await;
    good += 1;
    assert!(client.call(id("Line"), id("Do"), Vec::new()).await.unwrap().status_code.is_good());
    client.close().await;
    process.end();
    let report = store::verify(&ledger(folder.path()), None).unwrap();
    assert!(report.is_intact(), "{report:?}");
    let entries = store::tail(&ledger(folder.path()), usize::MAX).unwrap();
    let writes = entries.iter().filter(|entry| entry.kind == "write" && entry.outcome == "allowed").count();
    assert_eq!(writes, good, "what was answered well is there, and nothing else");
    let modes: Vec<_> = entries.iter().filter(|entry| entry.kind == "fail_mode").map(|entry| entry.outcome).collect();
    assert_eq!(modes, ["denied", "allowed"], "the fail mode is visible, and its end");
}
