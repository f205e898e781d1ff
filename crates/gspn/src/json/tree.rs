//! JSON as it was written: keys in their order, doubled ones seen, numbers whole or not.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::Refusal;

/// A JSON value whose objects have no key twice. Strings without an escape are those of the document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree<'a> {
    Null,
    Bool(bool),
    Whole(u64),
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Object(Vec<(Cow<'a, str>, Self)>),
}

impl<'a> Tree<'a> {
    /// Reads one JSON value: a `document` with a net, or what stands beside one.
    pub(super) fn read(text: &'a [u8], what: &str) -> Result<Self, Refusal> {
        // Editors put a mark of the byte order before UTF-8, where it says nothing.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
            let why = "this begins with the byte order mark of UTF-16: save it as UTF-8";
            return Err(Refusal::invalid(what, why));
        }
        let read = serde_json::from_slice(text);
        let read = read.or_else(|error| {
            marked(text).map_or(Err(error), |marked| serde_json::from_slice(&marked).map(Tree::into_owned))
        });
        let of = if what == "document" { "a net" } else { what };
        let tree: Self =
            read.map_err(|error| Refusal::invalid(what, format!("this is not the JSON of {of}: {error}")))?;
        tree.once(None, None)?;
        Ok(tree)
    }

    /// The same with strings of its own.
    pub(super) fn into_owned(self) -> Tree<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Null => Tree::Null,
            Self::Bool(value) => Tree::Bool(value),
            Self::Whole(value) => Tree::Whole(value),
            Self::Number(value) => Tree::Number(value),
            Self::Text(text) => Tree::Text(own(text)),
            Self::List(items) => Tree::List(items.into_iter().map(Tree::into_owned).collect()),
            Self::Object(members) => {
                Tree::Object(members.into_iter().map(|(key, value)| (own(key), value.into_owned())).collect())
            }
        }
    }

    /// No key twice; `owner` is the name of the nearest object around that has one.
    fn once(&self, before: Option<&Way<'_>>, owner: Option<&str>) -> Result<(), Refusal> {
        match self {
            Self::Object(members) => {
                let owner = self.own_name().or(owner);
                let mut seen = hashbrown::HashSet::new();
                for (index, (key, value)) in members.iter().enumerate() {
                    let way = Way { before, step: Step::Member(key) };
                    // A few are looked through faster than they are hashed.
                    let twice = if members.len() <= FEW {
                        members[..index].iter().any(|(other, _)| other == key)
                    } else {
                        !seen.insert(key)
                    };
                    if twice {
                        let path = way.path();
                        let why = format!("the key `{path}` stands twice: keep one");
                        return Err(Refusal::invalid(owner.unwrap_or(&path), why));
                    }
                    value.once(Some(&way), owner)?;
                }
                Ok(())
            }
            Self::List(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| item.once(Some(&Way { before, step: Step::Item(index) }), owner)),
            _ => Ok(()),
        }
    }

    /// What a place, a transition or a question calls itself; a document's own name is not meant.
    fn own_name(&self) -> Option<&str> {
        let Self::Object(members) = self else { return None };
        if members.iter().any(|(key, _)| key == "net") {
            return None;
        }
        members.iter().find_map(|(key, value)| match value {
            Self::Text(name) if matches!(&**key, "name" | "id") => Some(&**name),
            _ => None,
        })
    }

    /// What it is, for an error.
    pub(super) fn sort(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Whole(_) | Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Members up to which each is compared with those before it.
const FEW: usize = 8;

/// The way to a value, which is put into words only for an error.
struct Way<'a> {
    before: Option<&'a Way<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

impl Way<'_> {
    fn path(&self) -> String {
        let before = self.before.map(Self::path).unwrap_or_default();
        match self.step {
            Step::Member(key) if before.is_empty() => key.to_owned(),
            Step::Member(key) => format!("{before}.{key}"),
            Step::Item(index) => format!("{before}[{index}]"),
        }
    }
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// Stands for a number that is not finite, which JSON has no way to say.
const NOT_FINITE: &str = "\0not finite";

/// The text with [`NOT_FINITE`] for every number beyond a double, and for `Infinity` and `NaN`, so that the one who wrote it is
/// told which member it is. `None` where there is none.
fn marked(text: &[u8]) -> Option<Vec<u8>> {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let (mut marked, mut found, mut rest) = (Vec::with_capacity(text.len()), false, text);
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => string(rest),
            byte if word(byte) => rest.iter().take_while(|byte| word(byte)).count(),
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        if not_finite(token) {
            found = true;
            marked.extend_from_slice(b"\"\\u0000not finite\"");
        } else {
            marked.extend_from_slice(token);
        }
        rest = after;
    }
    found.then_some(marked)
}

/// How long the string at the start of `text` is, with its quotes.
fn string(text: &[u8]) -> usize {
    let mut escaped = true;
    let inner = text.iter().take_while(|byte| {
        let end = **byte == b'"' && !escaped;
        escaped = !escaped && **byte == b'\\';
        !end
    });
    (inner.count() + 1).min(text.len())
}

fn not_finite(token: &[u8]) -> bool {
    let Ok(token) = std::str::from_utf8(token) else { return false };
    let digits = token.strip_prefix('-').unwrap_or(token);
    matches!(digits, "Infinity" | "NaN")
        || digits.starts_with(|first: char| first.is_ascii_digit()) && token.parse().is_ok_and(f64::is_infinite)
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Whole(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "negative numbers are refused wherever they stand")]
    fn visit_i64<E>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree<'de>, E> {
        Ok(if value == NOT_FINITE { Tree::Number(f64::INFINITY) } else { Tree::Text(Cow::Owned(value.to_owned())) })
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree<'de>, A::Error> {
        // Most have one member or two, and a list that grows by itself begins with room for four.
        let mut object = Vec::with_capacity(2);
        while let Some((Key(key), value)) = members.next_entry()? {
            object.push((key, value));
        }
        Ok(Tree::Object(object))
    }
}

/// A key of an object: a `Cow` by itself would be read into a string of its own.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyReader).map(Key)
    }
}

struct KeyReader;

impl<'de> Visitor<'de> for KeyReader {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, value: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(value.to_owned()))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(value))
    }
}
