//! Prints ten events of a node, of the Server object if none is named. `cargo run -p client --example events --
//! opc.tcp://localhost:4840 --none`

mod common;

use std::error::Error;

use client::EventOptions;
use opcua_types::ObjectId;

const EVENTS: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, nodes) = common::connect().await?;
    let notifier = nodes.first().cloned().unwrap_or_else(|| ObjectId::Server.into());
    let options = EventOptions::default();
    let fields = options.fields.clone();
    let mut watch = client.watch_events(&notifier, options).await?;
    for _ in 0..EVENTS {
        let Some(event) = watch.next().await else { break };
        let shown: Vec<String> = fields.iter().zip(&event).map(|(name, value)| format!("{name}: {value}")).collect();
        println!("{}", shown.join(", "));
    }
    drop(watch);
    client.close().await;
    Ok(())
}
