//! From the text of the file and the environment to a [`Config`], or to the place of what is wrong.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::{Table, Value};

use super::sections::Config;
use crate::failure::{Failure, SourceFault};
use crate::files;
use crate::nearest::nearest;

const PREFIX: &str = "TRAPKEY__";

/// Variables that override keys, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides(BTreeMap<String, String>);

impl Overrides {
    pub(crate) fn from_environment() -> Self {
        let all = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let ours = all.filter(|(name, _)| name.starts_with(PREFIX));
        Self(ours.map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect())
    }

    /// The names, for people.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Reads the file, then the environment over it.
pub(crate) fn load(path: &Path, overrides: &Overrides) -> Result<Config, Failure> {
    if !files::exists(path) {
        return Err(Failure::bad_input(format!("there is no configuration `{}`", path.display()))
            .help("name it with `--config`, or write one with `trapkey config init`"));
    }
    let text = files::text(path)?;
    let mut config = parse(path, &text)?;
    if !overrides.0.is_empty() {
        config = overridden(&text, overrides)?;
    }
    config.relative_to(path.parent().unwrap_or(Path::new("")));
    Ok(config)
}

/// The text alone, so that faults have a place in it.
fn parse(path: &Path, text: &Arc<str>) -> Result<Config, Failure> {
    toml::from_str(text).map_err(|error| {
        let (message, help) = explained(error.message());
        let span = error.span().unwrap_or(0..0);
        let (file, text, span) = (path.to_owned(), text.clone(), (span.start, span.end));
        let fault = SourceFault { file, text, span, message, help };
        Failure::in_files("the configuration is not used", vec![fault])
    })
}

/// What serde says, and the key that was probably meant.
fn explained(message: &str) -> (String, Option<String>) {
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

/// Applies one variable after the other, so that a fault can name its variable.
fn overridden(text: &str, overrides: &Overrides) -> Result<Config, Failure> {
    let mut table: Table = toml::from_str(text).map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let mut config = None;
    for (name, value) in &overrides.0 {
        let (changed, read) = with_variable(&table, name, value)?;
        table = changed;
        config = Some(read);
    }
    config.ok_or_else(|| Failure::bad_input("there is nothing to override"))
}

/// A value is TOML (`true`, `7`, `["a"]`) where the key takes that, and text otherwise.
fn with_variable(table: &Table, name: &str, value: &str) -> Result<(Table, Config), Failure> {
    let keys: Vec<String> = name.trim_start_matches(PREFIX).split("__").map(str::to_lowercase).collect();
    let as_toml = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let as_toml = as_toml.and_then(|mut table| table.remove("value"));
    let readings = as_toml.into_iter().chain([Value::String(value.to_owned())]);
    let mut refused = None;
    for reading in readings {
        let mut changed = table.clone();
        set(&mut changed, &keys, reading)
            .ok_or_else(|| Failure::bad_input(format!("`{name}` names no key of the configuration")))?;
        match Config::deserialize(changed.clone()) {
            Ok(config) => return Ok((changed, config)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let (message, help) = refused.map_or_else(|| (String::new(), None), |error| explained(error.message()));
    let failure = Failure::bad_input(format!("the environment variable `{name}` is wrong: {message}"));
    Err(match help {
        Some(help) => failure.help(help),
        None => failure,
    })
}

/// Sets the value at a path of keys, and makes tables on the way; an entry of a list is named by its position.
fn set(table: &mut Table, keys: &[String], value: Value) -> Option<()> {
    let (last, way) = keys.split_last()?;
    let mut here = table;
    let mut way = way.iter();
    while let Some(key) = way.next() {
        here = match here.entry(key.clone()).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(table) => table,
            Value::Array(list) => list.get_mut(way.next()?.parse::<usize>().ok()?)?.as_table_mut()?,
            _ => return None,
        };
    }
    here.insert(last.clone(), value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[plant]\nfile = \"p.toml\"\npolicies = \"p.cedar\"\n[audit]\nrotate_mib = 7\n";

    fn with(name: &str, value: &str) -> Result<Config, Failure> {
        overridden(TEXT, &Overrides(BTreeMap::from([(name.to_owned(), value.to_owned())])))
    }

    #[test]
    fn variables_override_keys_as_what_the_key_takes() {
        assert_eq!(with("TRAPKEY__AUDIT__ROTATE_MIB", "9").unwrap().audit.rotate_mib, 9);
        assert_eq!(with("TRAPKEY__LOG__FILTER", "7").unwrap().log.filter, "7");
        assert_eq!(with("TRAPKEY__PLANT__FILE", "a b.toml").unwrap().plant.file, Path::new("a b.toml"));
        assert_eq!(with("TRAPKEY__STORE__SYNC", "disk").unwrap().store.sync, super::super::sections::Sync::Disk);
        assert_eq!(with("TRAPKEY__STORE__SYNC", "\"disk\"").unwrap().audit.rotate_mib, 7);
    }

    #[test]
    fn variables_that_mean_nothing_are_refused() {
        for (name, value) in [
            ("TRAPKEY__AUDIT__ROTATE", "9"),
            ("TRAPKEY__AUDIT__ROTATE_MIB", "many"),
            ("TRAPKEY__AUDITS__LEDGER", "x"),
            ("TRAPKEY__AUDIT__ROTATE_MIB__DEEPER", "x"),
            ("TRAPKEY__STORE__SYNC", "sometimes"),
        ] {
            assert!(with(name, value).is_err(), "{name}={value}");
        }
    }
}
