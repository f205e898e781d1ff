//! Writes a number and reads it back. `cargo run -p client --example write -- opc.tcp://localhost:4840 'ns=2;s=Line.Setpoint' 42.5 --none`

mod common;

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, nodes, words) = common::connect_with_words().await?;
    let (Some(node), Some(number)) = (nodes.first(), words.first()) else { return Err("URL NODE NUMBER".into()) };
    let number: f64 = number.parse()?;
    let results = client.write(vec![(node.clone(), number.into())]).await?;
    for status in results {
        println!("{node} = {number}: {status}");
    }
    for value in client.read(&nodes).await? {
        println!("{node} is {}", value.value.as_ref().map(ToString::to_string).unwrap_or_default());
    }
    client.close().await;
    Ok(())
}
