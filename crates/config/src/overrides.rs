//! Variables over the text: `TRAPKEY__AUDIT__SYNC=disk` sets `sync` in `[audit]`, `TRAPKEY__SERVER__0__LISTEN` a key of the
//! first `[[server]]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use crate::Config;
use crate::read::{At, Invalid, explained};

/// What the name of a variable begins with that overrides a key.
pub const PREFIX: &str = "TRAPKEY__";

/// Variables that override keys, by name.
#[derive(Clone, Debug, Default)]
pub struct Overrides(BTreeMap<String, String>);

impl Overrides {
    /// The names, for people.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The variable that is to blame for a fault of the key with this name: the one that sets it or something in it, or the
    /// last, without which it was sound.
    pub(crate) fn behind(&self, name: &str) -> String {
        let name = format!("{PREFIX}{name}");
        let mut sets = self.0.keys().filter(|known| known.eq_ignore_ascii_case(&name) || known.starts_with(&name));
        sets.next().or_else(|| self.0.keys().next_back()).cloned().unwrap_or(name)
    }

    /// Applies one variable after the other in the order of their names, so that a fault can name its variable.
    pub(crate) fn over(&self, mut table: Table, mut config: Config) -> Result<Config, Invalid> {
        for (name, value) in &self.0 {
            (table, config) = with_variable(&table, name, value)?;
        }
        Ok(config)
    }
}

/// Of any variables those whose name begins with [`PREFIX`]; of two with one name the later.
impl FromIterator<(String, String)> for Overrides {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(all: T) -> Self {
        Self(all.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect())
    }
}

/// A value is TOML (`true`, `7`, `["a"]`) where the key takes that, and text otherwise.
fn with_variable(table: &Table, name: &str, value: &str) -> Result<(Table, Config), Invalid> {
    let keys: Vec<String> = name.trim_start_matches(PREFIX).split("__").map(str::to_lowercase).collect();
    let readings = as_toml(value).into_iter().chain([Value::String(value.to_owned())]);
    let mut refused = None;
    for reading in readings {
        let mut changed = table.clone();
        let invalid = |message, help| Invalid { at: At::Variable(name.to_owned()), message, help };
        set(&mut changed, &keys, reading).ok_or_else(|| invalid("there is no such key".to_owned(), None))?;
        match Config::deserialize(changed.clone()) {
            Ok(config) => return Ok((changed, config)),
            Err(error) => {
                let (message, help) = explained(error.message());
                refused.get_or_insert(invalid(message, help));
            }
        }
    }
    Err(refused.unwrap_or_else(|| Invalid {
        at: At::Variable(name.to_owned()),
        message: "there is no value".to_owned(),
        help: None,
    }))
}

fn as_toml(value: &str) -> Option<Value> {
    toml::from_str::<Table>(&format!("value = {value}")).ok()?.remove("value")
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
    use std::path::Path;

    use super::*;
    use crate::{Sync, read};

    const TEXT: &str = "[plant]\nfile = \"p.toml\"\npolicies = \"p.cedar\"\n[audit]\nrotate_mib = 7\n";

    fn with(name: &str, value: &str) -> Result<Config, Invalid> {
        read(TEXT, &[(name.to_owned(), value.to_owned())].into_iter().collect())
    }

    #[test]
    fn variables_override_keys_as_what_the_key_takes() {
        assert_eq!(with("TRAPKEY__AUDIT__ROTATE_MIB", "9").unwrap().audit.rotate_mib, 9);
        assert_eq!(with("TRAPKEY__LOG__FILTER", "7").unwrap().log.filter, "7");
        assert_eq!(with("TRAPKEY__PLANT__FILE", "a b.toml").unwrap().plant.file, Path::new("a b.toml"));
        assert_eq!(with("TRAPKEY__STORE__SYNC", "disk").unwrap().store.sync, Sync::Disk);
        assert_eq!(with("TRAPKEY__STORE__SYNC", "\"disk\"").unwrap().audit.rotate_mib, 7);
        assert_eq!(with("OTHER__STORE__SYNC", "never").unwrap().store.sync, Sync::Os);
    }

    #[test]
    fn variables_that_mean_nothing_are_refused_by_name() {
        for (name, value) in [
            ("TRAPKEY__AUDIT__ROTATE", "9"),
            ("TRAPKEY__AUDIT__ROTATE_MIB", "many"),
            ("TRAPKEY__AUDITS__LEDGER", "x"),
            ("TRAPKEY__AUDIT__ROTATE_MIB__DEEPER", "x"),
            ("TRAPKEY__STORE__SYNC", "sometimes"),
            ("TRAPKEY__SERVER__0__LISTEN", "127.0.0.1:1"),
            ("TRAPKEY__", ""),
        ] {
            let invalid = with(name, value).expect_err(name);
            assert_eq!(invalid.at, At::Variable(name.to_owned()), "{invalid:?}");
            assert!(!invalid.message.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_entry_of_a_list_is_named_by_its_position() {
        let second: Overrides =
            [("TRAPKEY__SERVER__1__LISTEN".to_owned(), "127.0.0.1:9".to_owned())].into_iter().collect();
        let config = read(crate::TEMPLATE, &second).unwrap();
        assert_eq!(config.server[1].listen.port(), 9);
        assert_eq!(config.server[0].listen.port(), 4850);
    }
}
