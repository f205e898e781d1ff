//! The plant file as it is written: strict keys, every name with its place in the text.

use serde::Deserialize;
use toml::Spanned;

pub(super) type Name = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub plant: Head,
    #[serde(default)]
    pub site: Vec<Site>,
    #[serde(default)]
    pub zone: Vec<Zone>,
    #[serde(default)]
    pub equipment: Vec<Equipment>,
    #[serde(default)]
    pub role: Vec<Role>,
    #[serde(default)]
    pub group: Vec<Group>,
    #[serde(default)]
    pub person: Vec<Person>,
    #[serde(default)]
    pub application: Vec<Application>,
    #[serde(default)]
    pub server: Vec<Server>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub name: Name,
    pub default_lifetime: Option<Name>,
    pub longest_lifetime: Option<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    pub name: Name,
    #[serde(default)]
    pub labels: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Zone {
    pub name: Name,
    pub site: Name,
    #[serde(default)]
    pub labels: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Equipment {
    pub name: Name,
    pub zone: Option<Name>,
    pub part_of: Option<Name>,
    #[serde(default)]
    pub labels: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    pub name: Name,
    #[serde(default)]
    pub includes: Vec<Name>,
    pub break_glass: Option<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub name: Name,
    #[serde(default)]
    pub roles: Vec<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Person {
    pub name: Name,
    #[serde(default)]
    pub roles: Vec<Name>,
    #[serde(default)]
    pub groups: Vec<Name>,
    #[serde(default)]
    pub assigned: Vec<Name>,
    #[serde(default)]
    pub company: String,
    #[serde(default)]
    pub labels: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Application {
    pub uri: Name,
    pub thumbprint: Option<Name>,
    #[serde(default)]
    pub roles: Vec<Name>,
    #[serde(default)]
    pub assigned: Vec<Name>,
    #[serde(default)]
    pub company: String,
    #[serde(default)]
    pub labels: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub name: Name,
    pub uri: Name,
    pub equipment: Name,
    #[serde(default)]
    pub restrictions: Vec<Name>,
    #[serde(default)]
    pub sign_in: Vec<Name>,
    #[serde(default)]
    pub scope: Vec<Scope>,
    #[serde(default)]
    pub method: Vec<Method>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scope {
    pub name: Name,
    #[serde(default)]
    pub nodes: Vec<Name>,
    #[serde(default)]
    pub subtrees: Vec<Name>,
    pub equipment: Option<Name>,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    pub steps: Vec<Name>,
    pub range: Option<Spanned<Range>>,
    pub step: Option<Spanned<Number>>,
    pub rate: Option<Spanned<Number>>,
    pub approval: Option<Approval>,
    pub restrictions: Option<Vec<Name>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Method {
    pub name: Name,
    #[serde(default)]
    pub nodes: Vec<Name>,
    pub scope: Option<Name>,
    pub equipment: Option<Name>,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    pub steps: Vec<Name>,
    #[serde(default)]
    pub arguments: Vec<Spanned<Argument>>,
    pub approval: Option<Approval>,
    pub restrictions: Option<Vec<Name>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    pub low: Number,
    pub high: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Argument {
    pub position: u32,
    pub range: Option<Spanned<Range>>,
    pub step: Option<Spanned<Number>>,
    pub rate: Option<Spanned<Number>>,
    pub of: Option<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    pub role: Name,
    pub within: Name,
}

/// A bound as it is written. A whole number that a double cannot hold would be kept as another one.
#[derive(Clone, Copy)]
pub(super) struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Number, E> {
                #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "looked at in the next line")]
                let near = number as f64;
                // Saturating, in a type that holds both.
                #[expect(clippy::cast_possible_truncation, clippy::as_conversions, reason = "whole and within reach")]
                let back = near as i128;
                if back == i128::from(number) {
                    return Ok(Number(near));
                }
                Err(E::custom(format!("{number} cannot be kept exactly, the nearest that can is {back}")))
            }
        }
        from.deserialize_any(Visitor)
    }
}
