//! `trapkey client`: any OPC UA server from the command line.

mod history;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Client, EventOptions, WatchOptions};
use opcua_types::{AttributeId, NodeId, ReadValueId, ReferenceDescription, StatusCode, Variant};
use serde_json::{Value, json};

use super::encoded::{to_json, to_text};
use super::login::{Session, failed};
use super::values::{parse, read_json, read_text, status_name, type_name};
use super::{Common, audit, block_on};
use crate::answer::{Answer, Output, line};
use crate::failure::Failure;

/// The Server object.
const SERVER: u32 = 2253;

/// The fields of an event as text.
fn fields_text<'a>(names: impl IntoIterator<Item = &'a String>, event: &[Variant]) -> String {
    let shown = names.into_iter().zip(event).map(|(name, value)| format!("{name} = {}", to_text(value)));
    shown.collect::<Vec<_>>().join(", ")
}

/// The same as JSON.
fn fields_json<'a>(names: impl IntoIterator<Item = &'a String>, event: &[Variant]) -> Value {
    Value::Object(names.into_iter().zip(event).map(|(name, value)| (name.clone(), to_json(value))).collect())
}

/// What to do at the server.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read values; exit code 1 when one cannot be read
    Read(Read),
    /// Write a value; exit code 1 when it is refused
    Write(Write),
    /// Call a method; exit code 1 when it is refused
    Call(Call),
    /// List what a node leads to
    Browse(Browse),
    /// Print values whenever they change, or events whenever they happen
    Watch(Watch),
    /// Print values or events of the past
    History(history::History),
}

#[derive(Debug, Args)]
pub(crate) struct Read {
    #[command(flatten)]
    session: Session,
    /// NodeIds (`ns=2;s=Mixer.Speed`, `nsu=urn:mixer;i=7`) or browse paths from Objects (`/2:Mixer/2:Speed`)
    #[arg(required = true)]
    nodes: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Write {
    #[command(flatten)]
    session: Session,
    /// NodeId or browse path
    node: String,
    /// The value; `[1, 2]` for an array
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Its type [default: what the server says]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    #[command(flatten)]
    session: Session,
    /// NodeId or browse path of the object
    object: String,
    /// NodeId or browse path of the method
    method: String,
    /// Inputs as `Type:value`, e.g. `Double:-7.5`
    inputs: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Browse {
    #[command(flatten)]
    session: Session,
    /// NodeId or browse path
    #[arg(default_value = "i=85")]
    node: String,
    /// How many levels below it
    #[arg(long, default_value_t = 1, value_name = "LEVELS")]
    depth: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    session: Session,
    /// NodeIds or browse paths; with --events one that notifies of events [default there: the Server object]
    #[arg(required_unless_present = "events")]
    nodes: Vec<String>,
    /// Print events in place of values
    #[arg(long)]
    events: bool,
    /// A field of each event, as a browse path from its type; may be repeated [default: Time, SourceName, Severity,
    /// Message, EventType]
    #[arg(long = "select", value_name = "FIELD", requires = "events")]
    fields: Vec<String>,
    /// End after this many changes or events
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Milliseconds between two messages of the server
    #[arg(long, default_value_t = 500, value_name = "MS")]
    interval: u64,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    block_on(async {
        match command {
            Command::Read(args) => {
                let client = args.session.connect(common).await?;
                leave(client, async |client| read(client, &args.nodes).await).await
            }
            Command::Write(args) => {
                let client = args.session.connect(common).await?;
                leave(client, async |client| write(client, &args).await).await
            }
            Command::Call(args) => {
                let client = args.session.connect(common).await?;
                leave(client, async |client| call(client, &args).await).await
            }
            Command::Browse(args) => {
                let client = args.session.connect(common).await?;
                leave(client, async |client| browse(client, &args).await).await
            }
            Command::History(args) => {
                let client = args.session.connect(common).await?;
                leave(client, async |client| history::read(client, &args).await).await
            }
            Command::Watch(args) => {
                let client = args.session.connect(common).await?;
                leave(client, async |client| {
                    if args.events {
                        events(client, &args, common.output).await
                    } else {
                        watch(client, &args, common.output).await
                    }
                })
                .await
            }
        }
    })
}

/// Does the work and closes the session, however the work went.
async fn leave(client: Client, work: impl AsyncFnOnce(&Client) -> Result<Answer, Failure>) -> Result<Answer, Failure> {
    let done = work(&client).await;
    client.close().await;
    done
}

/// A NodeId, or the node at the end of a browse path from Objects.
async fn node(client: &Client, text: &str) -> Result<NodeId, Failure> {
    let found = if text.starts_with('/') {
        client.translate(&NodeId::new(0, 85_u32), text).await.map_err(|error| failed(&error))?
    } else {
        client.node_id(text).await.map_err(|error| failed(&error))?
    };
    found.ok_or_else(|| {
        let what = if text.starts_with('/') { "leads nowhere" } else { "is no NodeId of this server" };
        Failure::bad_input(format!("`{text}` {what}"))
    })
}

async fn nodes(client: &Client, texts: &[String]) -> Result<Vec<NodeId>, Failure> {
    let mut found = Vec::with_capacity(texts.len());
    for text in texts {
        found.push(node(client, text).await?);
    }
    Ok(found)
}

async fn read(client: &Client, texts: &[String]) -> Result<Answer, Failure> {
    let nodes = nodes(client, texts).await?;
    let values = client.read(&nodes).await.map_err(|error| failed(&error))?;
    let mut json = Vec::new();
    let mut text = String::new();
    for ((name, node), value) in texts.iter().zip(&nodes).zip(&values) {
        text += &format!("{name} = {}\n", read_text(value));
        let mut read = read_json(value);
        if let Value::Object(read) = &mut read {
            read.insert("node".into(), node.to_string().into());
        }
        json.push(read);
    }
    let all = values.iter().all(|value| !value.status().is_bad());
    Ok(Answer::verdict(all, text, json.into()))
}

async fn write(client: &Client, args: &Write) -> Result<Answer, Failure> {
    let node = node(client, &args.node).await?;
    let kind = match &args.kind {
        Some(kind) => kind.clone(),
        None => data_type(client, &node).await?,
    };
    let value = parse(&args.value, &kind)?;
    let results = client.write_and_hear(vec![(node.clone(), value)]).await.map_err(|error| failed(&error))?;
    let (status, told) = results.into_iter().next().unwrap_or((StatusCode::BadUnexpectedError, None));
    let mut json = json!({"node": node.to_string(), "status": status_name(status)});
    let mut text = format!("{} = {}: {status}", args.node, args.value);
    if let Some(told) = told {
        text += &format!("\n{told}");
        json["told"] = told.into();
    }
    Ok(Answer::verdict(status.is_good(), text, json))
}

/// The name of the type that a variable holds.
async fn data_type(client: &Client, node: &NodeId) -> Result<String, Failure> {
    let attribute_id = AttributeId::DataType as u32;
    let item = ReadValueId { node_id: node.clone(), attribute_id, ..ReadValueId::default() };
    let read = client.read_attributes(vec![item]).await.map_err(|error| failed(&error))?;
    let read = read.into_iter().next().unwrap_or_default();
    let id = match &read.value {
        Some(Variant::NodeId(id)) if id.namespace == 0 => id.as_u32(),
        _ => None,
    };
    let unknown = || Failure::bad_input(format!("the type of `{node}` is not known")).help("name it with `--type`");
    id.and_then(type_name).map(str::to_owned).ok_or_else(unknown)
}

async fn call(client: &Client, args: &Call) -> Result<Answer, Failure> {
    let (object, method) = (node(client, &args.object).await?, node(client, &args.method).await?);
    let input = |text: &String| match text.split_once(':') {
        Some((kind, value)) => parse(value, kind),
        None => Err(Failure::bad_input(format!("`{text}` has no type")).help("write inputs as `Double:7.5`")),
    };
    let inputs: Vec<Variant> = args.inputs.iter().map(input).collect::<Result<_, _>>()?;
    let result = client.call(object, method, inputs).await.map_err(|error| failed(&error))?;
    let outputs = result.output_arguments.unwrap_or_default();
    let mut text = result.status_code.to_string();
    let infos = result.input_argument_diagnostic_infos.into_iter().flatten();
    let told: Vec<String> = infos.filter_map(|info| info.additional_info).map(|told| told.to_string()).collect();
    for told in &told {
        text += &format!("\n{told}");
    }
    for output in &outputs {
        text += &format!("\n{}", to_text(output));
    }
    let json: Vec<Value> = outputs.iter().map(to_json).collect();
    let mut json = json!({"status": status_name(result.status_code), "outputs": json});
    if let Some(told) = told.into_iter().next() {
        json["told"] = told.into();
    }
    Ok(Answer::verdict(result.status_code.is_good(), text, json))
}

async fn browse(client: &Client, args: &Browse) -> Result<Answer, Failure> {
    let start = node(client, &args.node).await?;
    let (mut text, mut listed) = (String::new(), Vec::new());
    // A stack, the next line on top; a node is shown wherever it is reached, and entered once.
    let mut waiting = children(client, &start, 1).await?;
    let mut entered = BTreeSet::from([start.to_string()]);
    while let Some(found) = waiting.pop() {
        let (reference, id) = (&found.reference, &found.reference.node_id.node_id);
        let class = format!("{:?}", reference.node_class);
        text += &format!("{}{}  {class}  {id}\n", "  ".repeat(found.depth as usize - 1), reference.browse_name);
        listed.push(json!({"parent": found.parent.to_string(), "node": id.to_string(), "class": class,
            "browse_name": reference.browse_name.to_string(), "display_name": reference.display_name.text.as_ref()}));
        if found.depth < args.depth && entered.insert(id.to_string()) {
            waiting.extend(children(client, id, found.depth + 1).await?);
        }
    }
    let text = if text.is_empty() { "nothing that this session may see".to_owned() } else { text };
    Ok(Answer::ok(text, listed.into()))
}

struct Found {
    parent: NodeId,
    reference: ReferenceDescription,
    depth: u32,
}

/// What a node leads to, the last first.
async fn children(client: &Client, parent: &NodeId, depth: u32) -> Result<Vec<Found>, Failure> {
    let found = client.browse(parent).await.map_err(|error| failed(&error))?;
    Ok(found.into_iter().rev().map(|reference| Found { parent: parent.clone(), reference, depth }).collect())
}

async fn watch(client: &Client, args: &Watch, output: Output) -> Result<Answer, Failure> {
    let nodes = nodes(client, &args.nodes).await?;
    let options =
        WatchOptions { publishing_interval: Duration::from_millis(args.interval.max(10)), ..WatchOptions::default() };
    let mut watch = client.watch(&nodes, options).await.map_err(|error| failed(&error))?;
    if let Some(refused) = watch.results().iter().position(|status| status.is_bad()) {
        let (name, status) = (&args.nodes[refused], watch.results()[refused]);
        return Err(Failure::denied(format!("`{name}` cannot be watched: {status}")));
    }
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let change = tokio::select! {
            change = watch.next() => change,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(change) = change else { break };
        let name = &args.nodes[change.item];
        let now = audit::shown(gates::clock::now().unix);
        let said = match output {
            Output::Text => format!("{now} {name} = {}", read_text(&change.value)),
            Output::Json => {
                let mut read = read_json(&change.value);
                read["node"] = nodes[change.item].to_string().into();
                read.to_string()
            }
        };
        if !line(&said) {
            break;
        }
        left -= 1;
    }
    Ok(Answer::silent())
}

async fn events(client: &Client, args: &Watch, output: Output) -> Result<Answer, Failure> {
    let notifier = match &*args.nodes {
        [] => NodeId::new(0, SERVER),
        [one] => node(client, one).await?,
        _ => return Err(Failure::bad_input("events are watched at one node at a time")),
    };
    let mut options =
        EventOptions { publishing_interval: Duration::from_millis(args.interval.max(10)), ..EventOptions::default() };
    if !args.fields.is_empty() {
        options.fields.clone_from(&args.fields);
    }
    let fields = options.fields.clone();
    let mut watch = client.watch_events(&notifier, options).await.map_err(|error| failed(&error))?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let event = tokio::select! {
            event = watch.next() => event,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(event) = event else { break };
        let said = match output {
            Output::Text => fields_text(&fields, &event),
            Output::Json => fields_json(&fields, &event).to_string(),
        };
        if !line(&said) {
            break;
        }
        left -= 1;
    }
    Ok(Answer::silent())
}
