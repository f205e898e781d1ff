//! The register of predictions and runs: a ledger of the store crate, chained by hashes and signed, beside the files that it vouches for. A
//! prediction stands in it, with the SHA-256 of its file, before its run begins; `trapkey audit verify` finds any change made later. What was
//! predicted and not run, or begun and not ended, stays in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use access_model::{Actor, AuditKind, AuditRecord, Outcome};
use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};

use crate::{Failed, files};

/// Who stands in its records.
const ACTOR: &str = "reproduce p4";

/// An open register.
#[derive(Debug)]
pub struct Register {
    folder: PathBuf,
    ledger: Ledger,
    /// Number of the next prediction or run.
    next: u64,
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A series begins.
    Series,
    /// Steps were measured.
    Calibrated,
    /// Something is predicted.
    Predicted,
    /// A run of something that was predicted begins.
    Begun,
    /// It ended.
    Ended,
    /// It will not be, or failed.
    Abandoned,
}

impl Event {
    const fn word(self) -> &'static str {
        match self {
            Self::Series => "series",
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Begun => "begun",
            Self::Ended => "ended",
            Self::Abandoned => "abandoned",
        }
    }
}

/// A line of the file that stands beside the ledger.
#[derive(Debug, Serialize)]
struct Line<'a, T> {
    event: Event,
    id: &'a str,
    of: &'a str,
    #[serde(flatten)]
    more: &'a T,
}

/// What the ledger says of one id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Of a prediction (`p17`) or a run (`r17`).
    pub id: String,
    /// The row, or the series.
    pub of: String,
    /// Its last event.
    pub state: String,
    /// Numbers of its records in the ledger.
    pub records: Vec<u64>,
    /// SHA-256 of the line in `register.jsonl`, of its first event.
    pub hash: String,
}

impl Register {
    /// Opens the register of a folder, or begins one.
    ///
    /// # Errors
    /// The folder cannot be used, somebody else writes there, or its ledger and its lines are not of the same events.
    pub fn open(folder: &Path) -> Result<Self, Failed> {
        files::folder(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let key = CheckpointKey::load_or_create(&folder.join("register.pem"), KeyKind::Ed25519)?;
        // To open a ledger cuts off what is behind damage: one that can be read as it is is looked at before.
        if let Ok(hashes) = hashes(folder) {
            vouched(folder, &hashes)?;
        }
        let ledger = Ledger::open(&folder.join("ledger"), LedgerConfig::default(), key)?;
        let mut register = Self { folder: folder.to_owned(), ledger, next: 1 };
        vouched(folder, &hashes(folder)?)?;
        let (known, text) = (entries(folder)?, text(folder)?);
        let of_lines = lines(&text).filter_map(|line| Some(parsed(line)?["id"].as_str()?.to_owned()));
        let ids = known.into_iter().map(|entry| entry.id).chain(of_lines);
        let numbers = ids.filter_map(|id| id.get(1..)?.parse::<u64>().ok());
        register.next = numbers.max().unwrap_or(0) + 1;
        Ok(register)
    }

    /// A number that no prediction and no run of this folder has.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Writes what happened to a line of `register.jsonl` and its hash into the ledger; it is there when this comes back.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write<T: Serialize>(&self, event: Event, id: &str, of: &str, more: &T) -> Result<String, Failed> {
        let line = serde_json::to_string(&Line { event, id, of, more })?;
        let hash = hex(digest(&SHA256, line.as_bytes()).as_ref());
        files::append_line(&self.folder.join("register.jsonl"), &line)?;
        let record = AuditRecord {
            at: gates::clock::now().unix,
            kind: AuditKind::ConfigurationChanged,
            actor: Actor { name: ACTOR.into(), application: None, address: None, session: None },
            object: id.into(),
            outcome: Outcome::Allowed,
            detail: format!("{} {of}; sha256 {hash}", event.word()),
            count: 1,
            epoch: None,
            place: None,
        };
        self.ledger.append(record).wait_blocking()?;
        Ok(hash)
    }

    /// Signs what was written.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn sign(&self) -> Result<(), Failed> {
        self.ledger.checkpoint().wait_blocking()?;
        Ok(())
    }

    /// Everything that the ledger of a folder lists, by id.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, Failed> {
        self.sign()?;
        entries(&self.folder)
    }
}

/// What the ledger of a folder lists, in order of the first record of each.
///
/// # Errors
/// It cannot be read.
pub fn entries(folder: &Path) -> Result<Vec<Entry>, Failed> {
    let (mut found, mut places): (Vec<Entry>, BTreeMap<String, usize>) = (Vec::new(), BTreeMap::new());
    let ledger = folder.join("ledger");
    if !ledger.exists() {
        return Ok(found);
    }
    for entry in store::tail(&ledger, usize::MAX)? {
        let Some((state, rest)) = entry.detail.split_once(' ') else { continue };
        let (of, hash) = rest.split_once("; sha256 ").unwrap_or((rest, ""));
        let place = *places.entry(entry.object.clone()).or_insert(found.len());
        if place == found.len() {
            let (id, hash) = (entry.object.clone(), hash.to_owned());
            found.push(Entry { id, of: of.to_owned(), state: String::new(), records: Vec::new(), hash });
        }
        found[place].state = state.to_owned();
        found[place].records.push(entry.sequence);
    }
    Ok(found)
}

/// Whether the ledger has each line, in their order, and nothing else: what stands in one of them alone would be missing from every report. A
/// series that was killed may leave a line at its end that is broken off, or that the ledger has not come to.
fn vouched(folder: &Path, records: &[String]) -> Result<(), Failed> {
    let text = text(folder)?;
    let lines: Vec<&[u8]> = lines(&text).collect();
    let mut records = records.iter().map(String::as_str).peekable();
    for (place, line) in lines.iter().enumerate() {
        let is = hex(digest(&SHA256, line).as_ref());
        if records.next_if_eq(&is.as_str()).is_some() {
            continue;
        }
        let next = lines.get(place + 1);
        let begins = |line: &&[u8]| parsed(line).is_some_and(|it| it["event"] == Event::Series.word());
        if next.is_some_and(|next| !begins(next)) {
            return Err(damaged(folder, &format!("line {} of register.jsonl is none of its ledger's", place + 1)));
        }
        // Of a line that was not written to its end the ledger may have come to disk all the same.
        let next = next.map(|next| hex(digest(&SHA256, next).as_ref()));
        if parsed(line).is_none() && records.peek().is_some_and(|it| Some(*it) != next.as_deref()) {
            records.next();
        }
    }
    match records.count() {
        0 => Ok(()),
        more => Err(damaged(folder, &format!("its ledger has {more} events without a line in register.jsonl"))),
    }
}

fn text(folder: &Path) -> Result<Vec<u8>, Failed> {
    let path = folder.join("register.jsonl");
    Ok(if path.exists() { files::read(&path)? } else { Vec::new() })
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn parsed(line: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_slice(line).ok()
}

/// The hashes of lines that the ledger of a folder has.
fn hashes(folder: &Path) -> Result<Vec<String>, store::ReadError> {
    let ledger = folder.join("ledger");
    let records = if ledger.exists() { store::tail(&ledger, usize::MAX)? } else { Vec::new() };
    let hash = |entry: &store::Entry| Some(entry.detail.split_once("; sha256 ")?.1.to_owned());
    Ok(records.iter().filter_map(hash).collect())
}

fn damaged(folder: &Path, why: &str) -> Failed {
    format!(
        "the register in `{}` is damaged: {why}; keep that folder as it is, and take another one for new series",
        folder.display()
    )
    .into()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prediction_stands_before_its_run_and_what_was_left_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut register = Register::open(folder.path()).unwrap();
        let (one, two) = (register.number(), register.number());
        for number in [one, two] {
            register
                .write(Event::Predicted, &format!("p{number}"), "SC0 - sqlite 1", &json!({"throughput": 1}))
                .unwrap();
        }
        register.write(Event::Begun, &format!("r{one}"), "SC0 - sqlite 1", &json!({})).unwrap();
        register.write(Event::Ended, &format!("r{one}"), "SC0 - sqlite 1", &json!({"tags": 3})).unwrap();
        let entries = register.entries().unwrap();
        let state = |id: &str| entries.iter().find(|entry| entry.id == id).map(|entry| entry.state.clone());
        assert_eq!((state("p1").as_deref(), state("r1").as_deref()), (Some("predicted"), Some("ended")));
        assert_eq!((state("p2").as_deref(), state("r2")), (Some("predicted"), None));
        let first = |id: &str| entries.iter().find(|entry| entry.id == id).unwrap().records[0];
        assert!(first("p1") < first("r1"));
        // The hash is that of the line.
        let lines = String::from_utf8(files::read(&folder.path().join("register.jsonl")).unwrap()).unwrap();
        let hash = hex(digest(&SHA256, lines.lines().next().unwrap().as_bytes()).as_ref());
        assert_eq!(entries[0].hash, hash);
        drop(register);
        let mut again = Register::open(folder.path()).unwrap();
        assert_eq!(again.number(), 3, "numbers are given once");
    }

    #[test]
    fn a_register_that_is_not_whole_is_not_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("register.jsonl");
        let series = |runs: u32| {
            let mut register = Register::open(folder.path())?;
            let id = format!("s{}", register.number());
            register.write(Event::Series, &id, "series", &json!({}))?;
            for _ in 0..runs {
                let id = format!("p{}", register.number());
                register.write(Event::Predicted, &id, "SC0 - sqlite 1", &json!({"throughput": 1}))?;
            }
            register.sign()
        };
        let read = || String::from_utf8(files::read(&path).unwrap()).unwrap();
        series(2).unwrap();
        // Killed while a line was written, or before the ledger had it.
        let whole = read();
        files::write(&path, &whole[..whole.len() - 9]).unwrap();
        series(1).unwrap();
        files::append_line(&path, "{\"event\": \"predicted\"}").unwrap();
        series(1).unwrap();
        let whole = read();
        assert_eq!(whole.lines().count(), 3 + 2 + 1 + 2, "each on a line of its own: {whole}");
        let mut lines: Vec<&str> = whole.lines().collect();
        lines.remove(1);
        for (rule, text) in [
            ("a line is another one", whole.replacen("throughput", "thrOughput", 1)),
            ("a line is lost", lines.join("\n")),
            ("all are", String::new()),
        ] {
            files::write(&path, text).unwrap();
            let why = series(1).unwrap_err().to_string();
            assert!(why.contains("is damaged") && why.contains("take another"), "{rule}: {why}");
        }
        files::write(&path, &whole).unwrap();
        series(1).unwrap();
        // The ledger loses what stands behind a damaged record.
        let segment = files::folders(folder.path(), "ledger").unwrap().remove(0);
        let segment = std::fs::read_dir(segment)
            .unwrap()
            .flatten()
            .find(|it| it.path().extension().is_some_and(|it| it == "ledger"));
        let segment = segment.unwrap().path();
        let mut bytes = files::read(&segment).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        files::write(&segment, bytes).unwrap();
        assert!(series(1).is_err_and(|why| why.to_string().contains("is damaged")));
    }
}
