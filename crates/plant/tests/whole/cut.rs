//! Our client, when its connection is cut and the server stands: the session moves to a new channel, and what was on its
//! way comes again.

use std::time::Duration;

use client::{Client, WatchOptions};
use opcua_types::Variant;
use testkit::relay::Relay;
use tokio::time::timeout;

use crate::common::{PATIENCE, Setup, forgetful, id, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_is_lost_or_told_twice_when_connections_are_cut() {
    let listener = testkit::ports::listen();
    let address = listener.local_addr().unwrap();
    let server = Setup::new(forgetful()).start(listener);
    let relay = Relay::start(&format!("opc.tcp://{address}"));
    let client = Client::connect(options(relay.url())).await.unwrap();
    let how = WatchOptions { queue_size: 1_000, publishing_interval: Duration::from_millis(50), ..Default::default() };
    let mut watch = client.watch(&[id("Ticks")], how).await.unwrap();
    let (mut last, mut cut) = (None, 0);
    for round in 0..6 {
        for _ in 0..5 {
            let change = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
            let Some(Variant::UInt32(tick)) = change.value.value else { panic!("{change:?}") };
            assert!(last.is_none_or(|last| tick == last + 1), "round {round}: {tick} after {last:?}");
            last = Some(tick);
        }
        // Messages are under way in most rounds, and then only Republish brings them.
        relay.lose_answers();
        tokio::time::sleep(Duration::from_millis(200)).await;
        // What had come before the last cut may be enough for a round: the client is between connections then.
        cut += relay.cut();
    }
    assert!(cut >= 3, "{cut} connections were cut");
    assert_eq!(client.session_count(), 1, "the session outlives its connections");
    client.close().await;
    server.stop().await;
}
