//! Exports: JSON lines, and syslog lines after RFC 5424.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use access_model::UnixTime;

use super::entry::Entry;
use super::folder::segments;
use super::read::{ReadError, for_each};
use super::rfc3339;

/// How exported records look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line.
    JsonLines,
    /// One RFC 5424 message a line.
    Syslog(Syslog),
}

/// What a syslog line says about its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// HOSTNAME.
    pub host: String,
    /// APP-NAME.
    pub app: String,
    /// SD-ID of the structured element, `name@<private enterprise number>`.
    pub sd_id: String,
}

impl Default for Syslog {
    /// No host name; the element carries the number that RFC 5612 reserves for examples.
    fn default() -> Self {
        Self { host: "-".into(), app: "trapkey".into(), sd_id: "trapkey@32473".into() }
    }
}

/// Which records are exported; everything that is `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// From this number on.
    pub from: Option<u64>,
    /// Not before this time.
    pub since: Option<UnixTime>,
    /// Before this time.
    pub until: Option<UnixTime>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only with this outcome.
    pub outcome: Option<String>,
    /// Only of this principal.
    pub actor: Option<String>,
}

impl Selection {
    /// Whether it selects the entry.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        self.from.is_none_or(|from| entry.sequence >= from)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
            && self.kind.as_ref().is_none_or(|kind| *kind == entry.kind)
            && self.outcome.as_ref().is_none_or(|outcome| *outcome == entry.outcome)
            && self.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
    }
}

/// Writes the selected records to `out`, the oldest first; how many there were.
///
/// # Errors
/// A file cannot be read or is damaged, or `out` refuses.
pub fn export(
    folder: &Path,
    format: &ExportFormat,
    selection: &Selection,
    out: &mut dyn Write,
) -> Result<u64, ReadError> {
    let mut count = 0;
    each(folder, selection, &mut |entry| {
        count += 1;
        writeln!(out, "{}", format.line(&entry)).map_err(ReadError::Output)
    })?;
    out.flush().map_err(ReadError::Output)?;
    Ok(count)
}

/// Gives the selected records to `take`, the oldest first, without holding more than one of them.
///
/// # Errors
/// A file cannot be read or is damaged, or what `take` says.
pub fn each(
    folder: &Path,
    selection: &Selection,
    take: &mut dyn FnMut(Entry) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let files = segments(folder).map_err(|source| ReadError::Io { path: folder.to_owned(), source })?;
    let last = files.len().saturating_sub(1);
    for (position, segment) in files.iter().enumerate() {
        let next = files.get(position + 1).map_or(u64::MAX, |next| next.first);
        if selection.from.is_some_and(|from| next <= from) {
            continue;
        }
        for_each(segment, position == last, &mut |entry| if selection.matches(&entry) { take(entry) } else { Ok(()) })?;
    }
    Ok(())
}

impl ExportFormat {
    /// One record as one line, without its end.
    #[must_use]
    pub fn line(&self, entry: &Entry) -> String {
        match self {
            Self::JsonLines => serde_json::to_string(entry).unwrap_or_default(),
            Self::Syslog(sender) => sender.line(entry),
        }
    }
}

/// Facility "log audit" (RFC 5424 section 6.2.1, table 1).
const FACILITY: u8 = 13;

impl Syslog {
    fn line(&self, entry: &Entry) -> String {
        let severity = match entry.outcome {
            "allowed" => 6,
            "denied" | "observed" => 4,
            _ => 3,
        };
        let mut line = format!(
            "<{}>1 {} {} {} - {} [{}",
            FACILITY * 8 + severity,
            rfc3339::format(entry.at),
            header_word(&self.host, 255),
            header_word(&self.app, 48),
            header_word(&entry.kind, 32),
            header_word(&self.sd_id, 64),
        );
        parameter(&mut line, "seq", &entry.sequence.to_string());
        parameter(&mut line, "outcome", entry.outcome);
        let optional = [
            ("reason", entry.reason.clone()),
            ("status", entry.status.map(|status| format!("0x{status:08X}"))),
            ("actor", Some(entry.actor.clone())),
            ("application", entry.application.clone()),
            ("address", entry.address.clone()),
            ("session", entry.session.clone()),
            ("object", Some(entry.object.clone())),
            ("count", Some(entry.count.to_string())),
            ("epoch", entry.epoch.map(|epoch| epoch.to_string())),
            ("server", entry.place.as_ref().map(|place| place.server.clone())),
            ("scope", entry.place.as_ref().map(|place| place.scope.clone())),
            ("action", entry.place.as_ref().map(|place| place.action.clone())),
            ("steps", entry.place.as_ref().map(|place| place.steps.clone()).filter(|steps| !steps.is_empty())),
            ("roles", entry.place.as_ref().map(|place| place.roles.clone()).filter(|roles| !roles.is_empty())),
            ("hash", Some(entry.hash.clone())),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                parameter(&mut line, name, &value);
            }
        }
        line.push(']');
        if !entry.detail.is_empty() {
            line.push_str(" \u{feff}");
            line.extend(entry.detail.chars().map(|letter| if letter.is_control() { ' ' } else { letter }));
        }
        line
    }
}

/// A header field: printable ASCII without spaces, `-` when nothing is left (RFC 5424 section 6.2).
fn header_word(text: &str, longest: usize) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(longest).collect();
    if word.is_empty() { "-".into() } else { word }
}

/// A parameter of the structured element: `"`, `\` and `]` are escaped (RFC 5424 section 6.3.3); line ends, which a
/// reader of lines would take for the end of the message, become spaces.
fn parameter(line: &mut String, name: &str, value: &str) {
    let _ = write!(line, " {name}=\"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' | ']' => line.extend(['\\', letter]),
            letter if letter.is_control() => line.push(' '),
            letter => line.push(letter),
        }
    }
    line.push('"');
}
