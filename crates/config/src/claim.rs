//! The name of a claim that stands inside others.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// More names than any issuer nests.
const DEEPEST: usize = 8;

/// Names of claims, each inside the one before, written with dots between them: `realm_access.roles`. A name that has a
/// dot itself stands in quotes: `resource_access."plant.mixer".roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName(Vec<String>);

impl Default for ClaimName {
    fn default() -> Self {
        Self(vec!["roles".to_owned()])
    }
}

impl ClaimName {
    /// The names, the outermost first; never none.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let mut names = Vec::new();
        let mut rest = text;
        loop {
            let (name, behind) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => rest.split_at_checked(rest.find('.').unwrap_or(rest.len()))?,
            };
            let odd = |letter: char| letter == '"' || letter.is_control();
            if name.is_empty() || name.chars().any(odd) || names.len() == DEEPEST {
                return None;
            }
            names.push(name.to_owned());
            if behind.is_empty() {
                return Some(Self(names));
            }
            rest = behind.strip_prefix('.')?;
        }
    }
}

impl Serialize for ClaimName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |name: &String| if name.contains('.') { format!("\"{name}\"") } else { name.clone() };
        serializer.serialize_str(&self.0.iter().map(written).collect::<Vec<_>>().join("."))
    }
}

impl<'de> Deserialize<'de> for ClaimName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| Error::custom(format!("`{text}` is no name of a claim, such as `realm_access.roles`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize)]
    struct One {
        key: ClaimName,
    }

    #[test]
    fn claims_are_named_from_the_outermost_in() {
        for (text, names) in [
            ("roles", Some(vec!["roles"])),
            ("realm_access.roles", Some(vec!["realm_access", "roles"])),
            ("resource_access.\"plant.mixer\".roles", Some(vec!["resource_access", "plant.mixer", "roles"])),
            ("\"https://plant.local/roles\"", Some(vec!["https://plant.local/roles"])),
            ("a.b.c.d.e.f.g.h", Some(vec!["a", "b", "c", "d", "e", "f", "g", "h"])),
            ("a.b.c.d.e.f.g.h.i", None),
            ("", None),
            (".", None),
            ("a.", None),
            (".a", None),
            ("a..b", None),
            ("\"a", None),
            ("\"a\"b", None),
            ("\"\"", None),
            ("a\"b", None),
            ("a\nb", None),
        ] {
            let parsed = ClaimName::parse(text);
            assert_eq!(
                parsed.as_ref().map(|name| name.names().to_vec()),
                names.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
                "{text}"
            );
            if let Some(parsed) = parsed {
                let written: toml::Table = toml::to_string(&One { key: parsed }).unwrap().parse().unwrap();
                assert_eq!(written["key"].as_str(), Some(text), "written as it is read");
            }
        }
    }
}
