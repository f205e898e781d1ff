//! JSON as a security boundary reads it: one meaning or none.
//!
//! Two readers that pick different members of the same name can be played against each other, so an object with a
//! duplicate member is refused at every level.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// The members of an object.
pub(crate) type Object = BTreeMap<String, Json>;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Object),
}

/// Why text is not such JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidJson {
    /// A member appears twice.
    Duplicate,
    /// Anything else.
    Syntax,
}

impl Json {
    /// The object that is the whole of `text`. Nesting is bounded by the parser (128 levels), memory by the length.
    pub(crate) fn parse_object(text: &[u8]) -> Result<Object, InvalidJson> {
        match serde_json::from_slice(text) {
            Ok(Self::Object(members)) => Ok(members),
            Ok(_) => Err(InvalidJson::Syntax),
            // The visitor takes every kind of value, so the only error that is not one of syntax is its own.
            Err(error) if error.is_data() => Err(InvalidJson::Duplicate),
            Err(_) => Err(InvalidJson::Syntax),
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) const fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }

    pub(crate) const fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        #[expect(clippy::cast_precision_loss, reason = "a number beyond i64 is only compared as a far future")]
        Ok(i64::try_from(value).map_or(Json::Real(value as f64), Json::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut members = Object::new();
        while let Some(name) = access.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom("a member appears twice"));
            }
            let value = access.next_value()?;
            members.insert(name, value);
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_refused_at_every_level() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":[0,{"b":[{"c":null,"c":null}]}]}"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            assert_eq!(Json::parse_object(text.as_bytes()), Err(InvalidJson::Duplicate), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for text in ["", "[]", "1", r#"{"a":1}x"#, r#"{"a":1,}"#, r#"{a:1}"#, r#"{"a":1"#, "{\"a\":\"\u{1}\"}", &deep] {
            assert_eq!(Json::parse_object(text.as_bytes()), Err(InvalidJson::Syntax), "{text}");
        }
        assert_eq!(Json::parse_object(b"{\"a\":\"\xff\"}"), Err(InvalidJson::Syntax), "not UTF-8");
        assert_eq!(Json::parse_object(br#"{"a":1e999}"#), Err(InvalidJson::Syntax), "a number out of range");
    }

    #[test]
    fn values_keep_their_kind() {
        let text = br#"{"n":null,"b":true,"i":-1,"u":18446744073709551615,"r":1.5,"t":"\u00e9","a":[1],"o":{}}"#;
        let members = Json::parse_object(text).unwrap();
        assert_eq!(members["n"], Json::Null);
        assert_eq!(members["b"], Json::Bool(true));
        assert_eq!(members["i"].whole(), Some(-1));
        assert!(matches!(members["u"], Json::Real(_)));
        assert_eq!(members["r"], Json::Real(1.5));
        assert_eq!(members["t"].text(), Some("é"));
        assert_eq!(members["a"].array().map(<[Json]>::len), Some(1));
        assert!(members["o"].object().is_some());
    }
}
