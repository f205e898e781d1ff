//! What is wrong with a plant, policy, workflow or case file, and where. Every check of this crate that refuses a
//! file collects faults; a file with one fault is refused whole, so that nothing is ever half applied.

use std::fmt;
use std::ops::Range;

/// The file a fault was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The plant file (TOML).
    Plant,
    /// The policies (Cedar).
    Policies,
    /// The workflow (TOML or JSON).
    Workflow,
    /// The test cases (TOML).
    Cases,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plant => "plant",
            Self::Policies => "policies",
            Self::Workflow => "workflow",
            Self::Cases => "cases",
        })
    }
}

/// One thing that is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Which file.
    pub origin: Origin,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The bytes of the file that are meant.
    pub span: (usize, usize),
    /// What is wrong: a sentence without capital or full stop.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}, column {}: {}", self.origin, self.line, self.column, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " (help: {hint})"))
    }
}

/// Everything that is wrong with the files of one load, in the order of file and place; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

/// Collects the faults of one file.
pub(crate) struct FaultList<'a> {
    origin: Origin,
    text: &'a str,
    faults: Vec<Fault>,
}

impl<'a> FaultList<'a> {
    pub(crate) fn new(origin: Origin, text: &'a str) -> Self {
        Self { origin, text, faults: Vec::new() }
    }

    pub(crate) fn add(&mut self, span: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        let (line, column) = place(self.text, span.start);
        let span = (span.start, span.end);
        self.faults.push(Fault { origin: self.origin, line, column, span, message: message.into(), hint });
    }

    pub(crate) fn finish(mut self) -> Result<(), Faults> {
        if self.faults.is_empty() {
            return Ok(());
        }
        self.faults.sort();
        self.faults.dedup();
        Err(Faults(self.faults))
    }
}

/// Line and column (from 1) of a byte position; a position past the end counts as the end.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let mut end = at.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = text.get(..end).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// The faults of a TOML text that does not fit its structure.
pub(crate) fn toml_fault(origin: Origin, text: &str, error: &toml::de::Error) -> Faults {
    let mut list = FaultList::new(origin, text);
    let message = error.message().to_owned();
    let hint = unknown_key(&message)
        .and_then(|(key, known)| nearest(key, known.iter().copied()).map(|near| format!("did you mean `{near}`?")));
    list.add(error.span().unwrap_or(0..0), message, hint);
    Faults(list.faults)
}

/// The key and the known keys in serde's "unknown field `a`, expected one of `b`, `c`".
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let key = quoted.next()?;
    Some((key, quoted.collect()))
}

/// The known word closest to `word`, when it is close enough to be a slip of the pen.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let bound = (length / 2).clamp(1, 3);
    known
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= bound)
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(steps, _)| *steps <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "did you mean" for a name that nothing carries, or the list of what there is when it is short.
pub(crate) fn suggest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(near) = nearest(word, known.clone()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let all: Vec<&str> = known.take(9).collect();
    (1..=8).contains(&all.len()).then(|| format!("there is `{}`", all.join("`, `")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_survive_any_position() {
        let text = "ab\ncä\n";
        for (at, want) in [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (5, (2, 2)), (6, (2, 3)), (99, (3, 1))] {
            assert_eq!(place(text, at), want, "position {at}");
        }
    }

    #[test]
    fn a_slip_of_the_pen_gets_a_suggestion_and_nonsense_does_not() {
        assert_eq!(nearest("operater", ["operator", "observer"]), Some("operator"));
        assert_eq!(nearest("zzz", ["operator"]), None);
        assert_eq!(suggest("zzz", ["operator"].into_iter()), Some("there is `operator`".into()));
    }
}
