//! Calls a method of an object with numbers. `cargo run -p client --example call -- opc.tcp://localhost:4840 'ns=2;s=Line'
//! 'ns=2;s=Line.Add' 1.5 2.25 --none`

mod common;

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client, nodes, words) = common::connect_with_words().await?;
    let [object, method] = &*nodes else { return Err("URL OBJECT METHOD [NUMBER...]".into()) };
    let inputs = words.iter().map(|word| word.parse::<f64>().map(Into::into)).collect::<Result<_, _>>()?;
    let result = client.call(object.clone(), method.clone(), inputs).await?;
    println!("{method}: {}", result.status_code);
    for output in result.output_arguments.unwrap_or_default() {
        println!("  {output}");
    }
    client.close().await;
    Ok(())
}
