//! From text and variables to a [`Config`], or to the place of what is wrong.

use std::fmt;
use std::ops::Range;

use toml::Table;

use crate::check::check;
use crate::fault::{Step, place};
use crate::nearest::nearest;
use crate::{Config, Overrides};

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The place.
    pub at: At,
    /// A sentence for a person, without the place.
    pub message: String,
    /// What to write instead, if that is known.
    pub help: Option<String>,
}

/// Where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// In the text: first byte and the byte behind the last, both where a letter begins or the text ends.
    Text(Range<usize>),
    /// In a variable of this name.
    Variable(String),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Text(_) => f.write_str(&self.message),
            At::Variable(name) => write!(f, "the environment variable `{name}` is wrong: {}", self.message),
        }
    }
}

impl std::error::Error for Invalid {}

/// Reads the text, then the variables over it. The text must be whole without them.
///
/// # Errors
/// The first thing that is wrong: syntax, a key that is not known or is missing, a value of another kind.
pub fn read(text: &str, overrides: &Overrides) -> Result<Config, Invalid> {
    let in_text = |error: toml::de::Error| {
        let (message, help) = explained(error.message());
        Invalid { at: At::Text(within(text, error.span().unwrap_or(0..0))), message, help }
    };
    let config = toml::from_str(text).map_err(in_text)?;
    check(&config).map_err(|fault| {
        let at = within(text, place(text, &fault.way));
        fault.into_invalid(At::Text(at))
    })?;
    let table: Table = toml::from_str(text).map_err(in_text)?;
    let config = overrides.over(table, config)?;
    check(&config).map_err(|fault| {
        let at = overrides.behind(&fault.variable());
        fault.into_invalid(At::Variable(at))
    })?;
    Ok(config)
}

impl Config {
    /// The text that reads as this configuration.
    ///
    /// # Errors
    /// A path that is no Unicode text.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

/// Where a key of an entry of a list stands in the text, as `entry(text, "zone", 1, "name")` for the second `[[zone]]`.
#[must_use]
pub fn entry(text: &str, list: &'static str, at: usize, key: &'static str) -> Range<usize> {
    within(text, place(text, &[Step::Key(list), Step::Entry(at), Step::Key(key)]))
}

/// What serde says, and the key that was probably meant.
pub(crate) fn explained(message: &str) -> (String, Option<String>) {
    if message == "invalid type: map, expected a sequence" {
        let help = "write its heading in two pairs of brackets, like `[[server]]`, once for each";
        return ("this is one table where a list of tables belongs".to_owned(), Some(help.to_owned()));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let (word, known) = (quoted.next().unwrap_or_default(), quoted.collect::<Vec<_>>());
        let help = match nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: `{}`", known.join("`, `")),
        };
        return (format!("`{word}` is not known here"), Some(help));
    }
    let Some(rest) = message.strip_prefix("unknown field ") else { return (message.to_owned(), None) };
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let Some(key) = quoted.next() else { return (message.to_owned(), None) };
    let known: Vec<&str> = quoted.collect();
    let help = match nearest(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: `{}`", known.join("`, `")),
    };
    (format!("there is no key `{key}`"), Some(help))
}

/// The range, cut to the text and widened to whole letters.
fn within(text: &str, range: Range<usize>) -> Range<usize> {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = range.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::TEMPLATE;

    fn invalid(text: &str) -> (String, Invalid) {
        let invalid = read(text, &Overrides::default()).expect_err(text);
        let At::Text(place) = invalid.at.clone() else { panic!("{invalid:?}") };
        (text[place].to_owned(), invalid)
    }

    #[test]
    fn the_template_is_whole_and_reads_as_it_is_written() {
        let config = read(TEMPLATE, &Overrides::default()).unwrap();
        assert_eq!(config.server.len(), 3);
        assert_eq!(read(&config.to_text().unwrap(), &Overrides::default()), Ok(config));
    }

    #[test]
    fn faults_have_their_place_and_a_hint() {
        for (from, to, place, help) in [
            ("rotate_mib", "rotate_mb", "rotate_mb", Some("did you mean `rotate_mib`?")),
            ("rotate_mib = 64", "rotate_mib = \"much\"", "\"much\"", None),
            ("rotate_mib = 64", "rotate_mib = 5000000000", "5000000000", None),
            ("on_failure = \"closed\"", "on_failure = \"shut\"", "\"shut\"", Some("known here: `closed`, `open`")),
            ("[log]", "[logs]", "logs", Some("did you mean `log`?")),
            ("127.0.0.1:4850", "mixer:4850", "\"mixer:4850\"", None),
        ] {
            let (found, invalid) = invalid(&TEMPLATE.replacen(from, to, 1));
            assert_eq!(found, place, "{to}: {invalid:?}");
            assert_eq!(invalid.help.as_deref(), help, "{to}: {invalid:?}");
        }
    }

    #[test]
    fn a_table_in_place_of_a_list_is_told_in_words() {
        let (place, invalid) = invalid("[server]\nname = \"mixer\"\n");
        assert_eq!((place.as_str(), invalid.message.contains("list of tables")), ("[server]", true), "{invalid:?}");
        assert!(invalid.help.is_some_and(|help| help.contains("[[server]]")));
    }

    #[test]
    fn a_key_may_not_stand_twice_nor_be_left_out() {
        for (from, to) in [("sync = \"os\"", "sync = \"os\"\nsync = \"os\""), ("file = \"plant.toml\"", "")] {
            assert!(!invalid(&TEMPLATE.replacen(from, to, 1)).1.message.is_empty(), "{to}");
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        for text in [format!("a = {}", "[".repeat(100_000)), format!("{}b = 1", "a.".repeat(100_000))] {
            assert!(read(&text, &Overrides::default()).is_err());
        }
    }

    proptest! {
        /// Wherever the text is cut or another letter stands, the fault lies within it and begins at a letter.
        #[test]
        fn a_fault_lies_in_the_text(at in 0..TEMPLATE.len(), letter in any::<char>(), cut in any::<bool>()) {
            let (before, after) = TEMPLATE.split_at(at);
            let text = if cut { before.to_owned() } else { format!("{before}{letter}{after}") };
            if let Err(Invalid { at: At::Text(place), .. }) = read(&text, &Overrides::default()) {
                prop_assert!(text.get(place).is_some());
            }
        }
    }
}
