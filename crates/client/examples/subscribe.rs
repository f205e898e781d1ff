//! Prints sixty changes of values. `cargo run -p client --example subscribe -- opc.tcp://localhost:4840 'ns=2;s=Line.Ticks' --none`

mod common;

use std::error::Error;

use client::WatchOptions;

const CHANGES: usize = 60;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, nodes) = common::connect().await?;
    let mut watch = client.watch(&nodes, WatchOptions::default()).await?;
    for (node, status) in nodes.iter().zip(watch.results()) {
        if status.is_bad() {
            println!("{node} cannot be watched: {status}");
        }
    }
    for _ in 0..CHANGES {
        let Some(change) = watch.next().await else { break };
        let node = nodes.get(change.item).map(ToString::to_string).unwrap_or_default();
        match &change.value.value {
            Some(shown) => println!("{node} = {shown}"),
            None => println!("{node}: {}", change.value.status()),
        }
    }
    drop(watch);
    client.close().await;
    Ok(())
}
