//! `trapkey audit`: the ledger on disk, also while another process writes it.

mod upkeep;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use access_model::UnixTime;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use store::{CheckpointPublicKey, End, Entry, ExportFormat, Follower, ReadError, Report, Selection, Syslog};

use super::Common;
use crate::answer::{Answer, Output, line, table};
use crate::failure::Failure;
use crate::files;

/// How often a followed ledger is looked at.
const FOLLOW: Duration = Duration::from_millis(200);

/// What to do with the ledger.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the last records
    Tail(Tail),
    /// Check every record, the chain and all signatures; exit code 1 and the exact place when something is broken
    Verify(Verify),
    /// Write records as JSON lines or syslog (RFC 5424)
    Export(Export),
    /// Give the ledger another signing key; the program that writes it must be stopped
    RotateKey(upkeep::RotateKey),
    /// Copy old segments to another folder, then remove them and leave a signed stub
    Archive(upkeep::Archive),
    /// Remove old segments and leave a signed stub
    Retain(upkeep::Retain),
}

/// Which ledger.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The ledger folder, instead of the one in the configuration
    #[arg(long, value_name = "FOLDER")]
    ledger: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    which: Which,
    /// How many records
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    lines: usize,
    /// Go on with new records as they are written
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    select: Select,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    which: Which,
    /// A key that must have signed the ledger, the first or one it was handed over to: `ed25519:…`, `es256:…` or a file
    /// that holds it [default: `.pub` beside the key in the configuration, if it is there]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    which: Which,
    /// The form of the records
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// Where to write them [default: the standard output]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// HOSTNAME of syslog lines
    #[arg(long, default_value = "-", value_name = "NAME")]
    host: String,
    /// Structured-data id of syslog lines: a name, `@` and your private enterprise number
    #[arg(long, default_value = "trapkey@32473", value_name = "ID")]
    sd_id: String,
    /// From this record number on
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    #[command(flatten)]
    select: Select,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One JSON object a line
    Json,
    /// One RFC 5424 message a line
    Syslog,
}

/// Which records.
#[derive(Debug, Args)]
struct Select {
    /// Only records of this kind, e.g. `write`, `token_issued`
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only records that ended so
    #[arg(long, value_name = "OUTCOME", value_parser = ["allowed", "denied", "failed", "observed"])]
    outcome: Option<String>,
    /// Only records of this person or application
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Not before this time: RFC 3339 (2026-11-21T12:00:00Z) or how long ago (90s, 15m, 8h, 2d)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Select {
    fn selection(&self, from: Option<u64>) -> Result<Selection, Failure> {
        Ok(Selection {
            from,
            since: self.since.as_deref().map(time).transpose()?,
            until: self.until.as_deref().map(time).transpose()?,
            kind: self.kind.clone(),
            outcome: self.outcome.clone(),
            actor: self.actor.clone(),
        })
    }
}

/// RFC 3339, or a duration before now.
pub(crate) fn time(text: &str) -> Result<UnixTime, Failure> {
    if let Ok(ago) = pdp::plant::parse_duration(text) {
        let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
        return Ok(UnixTime::from_micros(gates::clock::now().unix.as_micros().saturating_sub(micros)));
    }
    let parsed = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    let nanos = parsed.map(time::OffsetDateTime::unix_timestamp_nanos).map_err(|_| {
        Failure::bad_input(format!("`{text}` is no time")).help("write `2026-11-21T12:00:00Z`, or how long ago: `15m`")
    })?;
    Ok(UnixTime::from_micros(i64::try_from(nanos / 1_000).unwrap_or(i64::MAX)))
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::Tail(args) => tail(&args, common),
        Command::Verify(args) => verify(&args, common),
        Command::Export(args) => export(&args, common),
        Command::RotateKey(args) => upkeep::rotate(&args, common),
        Command::Archive(args) => upkeep::archive(&args, common),
        Command::Retain(args) => upkeep::remove(&args, common),
    }
}

impl Which {
    fn folder(&self, common: &Common) -> Result<PathBuf, Failure> {
        let folder = match &self.ledger {
            Some(folder) => folder.clone(),
            None => common.config.load()?.audit.ledger,
        };
        if files::exists(&folder) {
            return Ok(folder);
        }
        Err(Failure::bad_input(format!("there is no ledger in `{}`", folder.display()))
            .help("name its folder with `--ledger`, or in `[audit]` of the configuration"))
    }
}

fn unread(error: &ReadError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        ReadError::Damaged { .. } => failure.help("`trapkey audit verify` says what is wrong"),
        _ => failure,
    }
}

fn tail(args: &Tail, common: &Common) -> Result<Answer, Failure> {
    let folder = args.which.folder(common)?;
    let selection = args.select.selection(None)?;
    let mut follower = args.follow.then(|| Follower::from_end(&folder)).transpose().map_err(|error| unread(&error))?;
    let all = store::tail(&folder, if args.select.is_empty() { args.lines } else { usize::MAX });
    let mut found: Vec<Entry> = all.map_err(|error| unread(&error))?;
    found.retain(|entry| selection.matches(entry));
    found.drain(..found.len().saturating_sub(args.lines));
    let Some(follower) = &mut follower else {
        let json = serde_json::to_value(&found).unwrap_or_default();
        return Ok(Answer::ok(found.iter().map(|entry| for_people(entry) + "\n").collect::<String>(), json));
    };
    // What was written between the two looks at the ledger is in both.
    let mut shown = 0;
    loop {
        for entry in found.iter().filter(|entry| entry.sequence > shown && selection.matches(entry)) {
            let text = match common.output {
                Output::Text => for_people(entry),
                Output::Json => ExportFormat::JsonLines.line(entry),
            };
            if !line(&text) {
                return Ok(Answer::silent());
            }
        }
        shown = found.last().map_or(shown, |entry| entry.sequence.max(shown));
        std::thread::park_timeout(FOLLOW);
        found = follower.poll().map_err(|error| unread(&error))?;
    }
}

impl Select {
    fn is_empty(&self) -> bool {
        let words = [&self.kind, &self.outcome, &self.actor, &self.since, &self.until];
        words.iter().all(|word| word.is_none())
    }
}

/// One record on one line.
fn for_people(entry: &Entry) -> String {
    let time = ExportTime(entry.at);
    let outcome = match (&entry.reason, entry.status) {
        (Some(reason), _) => format!("{} ({reason})", entry.outcome),
        (None, Some(status)) => format!("failed (0x{status:08X})"),
        (None, None) => entry.outcome.to_owned(),
    };
    let times = if entry.count > 1 { format!(" ×{}", entry.count) } else { String::new() };
    let dash = if entry.detail.is_empty() { "" } else { " - " };
    let Entry { sequence, kind, actor, object, detail, .. } = entry;
    format!("{sequence:>8} {time} {kind} {outcome}{times} {actor} {object}{dash}{detail}")
}

/// A time as people read it.
pub(crate) fn shown(at: UnixTime) -> String {
    store::rfc3339(at)
}

struct ExportTime(UnixTime);

impl std::fmt::Display for ExportTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&store::rfc3339(self.0))
    }
}

fn verify(args: &Verify, common: &Common) -> Result<Answer, Failure> {
    let folder = args.which.folder(common)?;
    let key = match &args.key {
        Some(key) => Some(public_key(key)?),
        None if args.which.ledger.is_none() => configured_key(common)?,
        None => None,
    };
    let report = store::verify(&folder, key.as_ref()).map_err(|error| {
        Failure::unavailable(format!("cannot read the ledger `{}`", folder.display())).because_of(Some(&error))
    })?;
    Ok(Answer::verdict(report.is_intact(), report_text(&report), report_json(&report)))
}

/// A key as text, or the name of a file that holds it.
pub(crate) fn public_key(text: &str) -> Result<CheckpointPublicKey, Failure> {
    let parsed = match text.parse() {
        Ok(key) => return Ok(key),
        Err(error) if text.contains(':') && !files::exists(text.as_ref()) => Err(error),
        Err(_) => files::text(text.as_ref())?.parse(),
    };
    parsed.map_err(|error| Failure::from_error(&error).into_bad_input())
}

/// The public half beside the configured key, if there is one.
pub(crate) fn configured_key(common: &Common) -> Result<Option<CheckpointPublicKey>, Failure> {
    let mut path = common.config.load()?.audit.key.into_os_string();
    path.push(".pub");
    let path = PathBuf::from(path);
    if files::exists(&path) { public_key(&path.to_string_lossy()).map(Some) } else { Ok(None) }
}

fn report_text(report: &Report) -> String {
    let mut text = match (&report.first_break, &report.end) {
        (Some(place), _) => format!("BROKEN: {place}\n"),
        (None, End::Torn { segment, offset, bytes }) => format!(
            "NOT WHOLE: {segment} ends at byte {offset} with {bytes} bytes that are no record; the next start of its \
             writer cuts them off and notes it\n"
        ),
        (None, End::Whole) => "the ledger is intact\n".to_owned(),
    };
    let key = report.key.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    let pinned = if report.key_pinned { "as expected" } else { "named by the ledger itself; pin it with --key" };
    text += &format!("  records      {}\n  segments     {}\n", report.records, report.segments);
    text += &format!("  checkpoints  {}\n  unsigned     {} at the end\n", report.checkpoints, report.unsigned);
    text += &format!("  key          {key} ({pinned})\n");
    for since in report.keys.iter().skip(1) {
        text += &format!("  handed over  record {}, {}: to {}\n", since.sequence, ExportTime(since.at), since.key);
    }
    if let Some(removed) = &report.removed {
        let (segments, records, at) = (removed.segments, removed.records, ExportTime(removed.at));
        text += &format!(
            "  removed      {segments} segments with {records} records, up to record {}, {at}\n",
            removed.sequence
        );
    }
    for note in &report.recoveries {
        text += &format!("  note         record {}, {}: {}\n", note.sequence, ExportTime(note.at), note.text);
    }
    text
}

fn report_json(report: &Report) -> serde_json::Value {
    let broken = report.first_break.as_ref().map(|place| {
        let what = place.kind.to_string();
        json!({"file": place.file, "offset": place.offset, "sequence": place.sequence, "what": what})
    });
    let torn = match &report.end {
        End::Whole => None,
        End::Torn { segment, offset, bytes } => Some(json!({"file": segment, "offset": offset, "bytes": bytes})),
    };
    let note =
        |note: &store::Recovery| json!({"sequence": note.sequence, "at": store::rfc3339(note.at), "text": note.text});
    let notes: Vec<serde_json::Value> = report.recoveries.iter().map(note).collect();
    let since = |since: &store::KeySince| {
        let at = store::rfc3339(since.at);
        json!({"sequence": since.sequence, "at": at, "key": since.key.to_string()})
    };
    let keys: Vec<serde_json::Value> = report.keys.iter().map(since).collect();
    let removed = report.removed.as_ref().map(|removed| {
        let (segments, records, at) = (removed.segments, removed.records, store::rfc3339(removed.at));
        json!({"segments": segments, "records": records, "sequence": removed.sequence, "at": at})
    });
    json!({
        "intact": report.is_intact(),
        "records": report.records,
        "segments": report.segments,
        "checkpoints": report.checkpoints,
        "sequence": report.sequence,
        "unsigned": report.unsigned,
        "key": report.key.as_ref().map(ToString::to_string),
        "keys": keys,
        "key_pinned": report.key_pinned,
        "removed": removed,
        "first_break": broken,
        "torn": torn,
        "notes": notes,
    })
}

fn export(args: &Export, common: &Common) -> Result<Answer, Failure> {
    let folder = args.which.folder(common)?;
    let selection = args.select.selection(args.from)?;
    let format = match args.format {
        Format::Json => ExportFormat::JsonLines,
        Format::Syslog => {
            ExportFormat::Syslog(Syslog { host: args.host.clone(), sd_id: args.sd_id.clone(), ..Syslog::default() })
        }
    };
    let to_file = |path: &PathBuf| files::overwrite(path).map(|file| Box::new(file) as Box<dyn Write>);
    let out = args.to.as_ref().map_or_else(|| Ok(Box::new(std::io::stdout()) as Box<dyn Write>), to_file)?;
    let count = store::export(&folder, &format, &selection, &mut std::io::BufWriter::new(out));
    let count = match count {
        Err(ReadError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(Answer::silent()),
        other => other.map_err(|error| unread(&error))?,
    };
    Ok(match &args.to {
        Some(path) => {
            let path = path.display().to_string();
            Answer::ok(format!("{count} records in {path}"), json!({"records": count, "file": path}))
        }
        None => Answer::silent(),
    })
}

/// Keeps `table` for the lists of other commands in one place.
pub(crate) fn list(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() { "none".to_owned() } else { table(head, rows) }
}
