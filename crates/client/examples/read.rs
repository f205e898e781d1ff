//! Reads values once. `cargo run -p client --example read -- opc.tcp://localhost:4840 'ns=2;s=Line.Ticks' --none`

mod common;

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, nodes) = common::connect().await?;
    for (node, value) in nodes.iter().zip(client.read(&nodes).await?) {
        match &value.value {
            Some(shown) if !value.status().is_bad() => println!("{node} = {shown}"),
            _ => println!("{node}: {}", value.status()),
        }
    }
    client.close().await;
    Ok(())
}
