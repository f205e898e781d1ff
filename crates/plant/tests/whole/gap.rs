//! A way to the ledger that is full: what is lost is counted where it is missing.

use gates::opcua::wiring::AuditRequest;
use tokio::sync::mpsc;

use crate::common::{PATIENCE, Setup, listen};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_find_no_room_are_counted_in_the_ledger() {
    let (sink, mut records) = mpsc::channel::<AuditRequest>(2);
    let listener = listen();
    let url = format!("opc.tcp://{}", listener.local_addr().unwrap());
    let handle = Setup::new(sink).start(listener);
    for _ in 0..5 {
        gates::opcua::client::endpoints(&url, PATIENCE).await.unwrap();
    }
    // Each discovery opens and closes a channel; two of these records found room.
    while records.try_recv().is_ok() {}
    let gap = async {
        loop {
            gates::opcua::client::endpoints(&url, PATIENCE).await.unwrap();
            while let Ok(request) = records.try_recv() {
                if request.record.object == "audit" {
                    return request.record;
                }
            }
        }
    };
    let gap = tokio::time::timeout(PATIENCE, gap).await.expect("the gap is told");
    assert!(gap.count >= 3, "{gap:?}");
    assert_eq!(gap.kind.name(), "fail_mode");
    handle.stop().await;
}
