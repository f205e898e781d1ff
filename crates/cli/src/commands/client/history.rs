//! `trapkey client history`: values of one variable, what clients changed of them, or events of one notifier.

use access_model::UnixTime;
use clap::Args;
use client::{Client, EventOptions};
use opcua_types::{DataValue, DateTime, HistoryUpdateType, ModificationInfo, NodeId};
use serde_json::{Value, json};

use super::{SERVER, Session, fields_json, fields_text, node};
use crate::answer::Answer;
use crate::commands::audit;
use crate::commands::encoded::time;
use crate::commands::login::failed;
use crate::commands::values::{read_json, read_text};
use crate::failure::Failure;

/// Ticks of 100 ns between 1601 and 1970.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub(super) session: Session,
    /// NodeId or browse path; with --events one that keeps events [default there: the Server object]
    #[arg(required_unless_present = "events")]
    node: Option<String>,
    /// From when on: RFC 3339, or how long ago, e.g. `15m`
    #[arg(long, default_value = "1h", value_name = "TIME")]
    since: String,
    /// Up to when [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Begin with the newest; with --count, the last ones
    #[arg(long)]
    newest_first: bool,
    /// Print no more than this many
    #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
    count: usize,
    /// Print what clients changed in place of the values, and who changed it
    #[arg(long, conflicts_with = "events")]
    modified: bool,
    /// Print events in place of values
    #[arg(long)]
    events: bool,
    /// A field of each event, as a browse path from its type; may be repeated [default: Time, SourceName, Severity,
    /// Message, EventType]
    #[arg(long = "select", value_name = "FIELD", requires = "events")]
    fields: Vec<String>,
}

/// Reads and prints; exit code 0 also where there is nothing.
pub(super) async fn read(client: &Client, args: &History) -> Result<Answer, Failure> {
    let since = audit::time(&args.since)?;
    let until = args.until.as_deref().map_or_else(|| Ok(gates::clock::now().unix), audit::time)?;
    if until <= since {
        return Err(Failure::bad_input("`--until` is not after `--since`"));
    }
    let (since, until) = (instant(since), instant(until));
    let span = if args.newest_first { (until, since) } else { (since, until) };
    let of = match &args.node {
        Some(text) => node(client, text).await?,
        None => NodeId::new(0, SERVER),
    };
    if args.events {
        return events(client, args, &of, span).await;
    }
    if args.modified {
        let changes = client.modified_history(&of, span, args.count).await.map_err(|error| failed(&error))?;
        return Ok(listed(changes.iter().map(|(value, info)| modified(value, info))));
    }
    let values = client.history(&of, span, args.count).await.map_err(|error| failed(&error))?;
    Ok(listed(values.iter().map(|value| (format!("{} {}", at(value), read_text(value)), read_json(value)))))
}

async fn events(
    client: &Client,
    args: &History,
    notifier: &NodeId,
    span: (DateTime, DateTime),
) -> Result<Answer, Failure> {
    let fields = if args.fields.is_empty() { EventOptions::default().fields } else { args.fields.clone() };
    let events = client.past_events(notifier, &fields, span, args.count).await.map_err(|error| failed(&error))?;
    Ok(listed(events.iter().map(|event| (fields_text(&fields, event), fields_json(&fields, event)))))
}

fn modified(value: &DataValue, info: &ModificationInfo) -> (String, Value) {
    let what = match info.update_type {
        HistoryUpdateType::Insert => "insert",
        HistoryUpdateType::Replace => "replace",
        HistoryUpdateType::Update => "update",
        HistoryUpdateType::Delete => "delete",
    };
    let (by, when) = (info.user_name.as_ref(), plain(time(&info.modification_time)));
    let shown = if by.is_empty() { "somebody" } else { by };
    let text = format!("{} {}: {what} by {shown} at {when}", at(value), read_text(value));
    let mut json = read_json(value);
    json["change"] = json!({"kind": what, "by": (!by.is_empty()).then_some(by), "at": when});
    (text, json)
}

/// The instant of a value.
fn at(value: &DataValue) -> String {
    value.source_timestamp.as_ref().map_or_else(|| "-".to_owned(), |at| plain(time(at)))
}

fn plain(text: Value) -> String {
    text.as_str().map_or_else(|| text.to_string(), str::to_owned)
}

fn listed(found: impl Iterator<Item = (String, Value)>) -> Answer {
    let (lines, json): (Vec<String>, Vec<Value>) = found.unzip();
    let text = if lines.is_empty() { "nothing that this session may see".to_owned() } else { lines.join("\n") };
    Answer::ok(text, json.into())
}

fn instant(at: UnixTime) -> DateTime {
    DateTime::from(at.as_micros().saturating_mul(10).saturating_add(UNIX_EPOCH))
}
