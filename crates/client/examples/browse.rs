//! Lists what nodes lead to. `cargo run -p client --example browse -- opc.tcp://localhost:4840 'i=85' --none`

mod common;

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, nodes) = common::connect().await?;
    for node in &nodes {
        println!("{node}");
        for found in client.browse(node).await? {
            println!("  {}  {:?}  {}", found.browse_name, found.node_class, found.node_id.node_id);
        }
    }
    client.close().await;
    Ok(())
}
