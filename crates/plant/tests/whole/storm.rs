//! Many at once.

use client::{CallError, Client, ClientError, DialError};
use opcua_types::StatusCode;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::common::{PATIENCE, id, options};
use crate::process::{Growth, Process};

const CLIENTS: usize = 100;

fn too_busy(error: &ClientError) -> bool {
    let busy = |status: StatusCode| {
        [StatusCode::BadTcpServerTooBusy, StatusCode::BadServerTooBusy, StatusCode::BadTooManySessions]
            .contains(&status)
    };
    match error {
        ClientError::Dial(DialError::Fault(status)) | ClientError::Call(CallError::Service(status)) => busy(*status),
        _ => false,
    }
}

#[tokio::test]
async fn a_connect_storm_with_real_handshakes_leaves_nobody_hanging() {
    LocalSet::new().run_until(storm()).await;
}

async fn storm() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path());
    let url = process.url();
    let inside = Client::connect(options(&url)).await.unwrap();
    let growth = Growth::of(&process);
    let mut storm = JoinSet::new();
    for _ in 0..CLIENTS {
        let options = options(&url);
        storm.spawn_local(async move {
            let client = Client::connect(options).await?;
            let value = client.read(&[id("Level")]).await?;
            assert!(value[0].status().is_good());
            Ok::<_, ClientError>(client)
        });
    }
    let mut served = Vec::new();
    let mut refused = 0;
    let all = async {
        while let Some(outcome) = storm.join_next().await {
            match outcome.unwrap() {
                Ok(client) => served.push(client),
                Err(error) => {
                    assert!(too_busy(&error), "a clear answer: {error}");
                    refused += 1;
                }
            }
        }
    };
    timeout(PATIENCE * 2, all).await.expect("nobody hangs");
    assert!(inside.read(&[id("Level")]).await.unwrap()[0].status().is_good(), "who was in is served");
    println!("{} served, {refused} told that the server is busy", served.len());
    assert!(served.len() >= CLIENTS / 2, "{refused} of {CLIENTS} were turned away");
    growth.is_bounded("a connect storm");
    for client in served {
        assert!(client.read(&[id("Level")]).await.unwrap()[0].status().is_good(), "all of them at the same time");
        client.close().await;
    }
    process.end();
}
