//! Keys and values of one thing, each with its line, taken one by one; what is left at the end is unknown.

use crate::{Class, Fault, quantity};

/// One thing and what is said of it.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    what: String,
    line: usize,
    entries: Vec<Entry>,
    known: Vec<&'static str>,
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    values: Vec<String>,
    line: usize,
}

/// One value and its line.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Fields {
    /// Of `what` (`node plant-pc`), at a line from 1, or 0.
    pub(crate) fn new(what: impl Into<String>, line: usize) -> Self {
        Self { what: what.into(), line, entries: Vec::new(), known: Vec::new() }
    }

    /// The same words, of a text whose lines mean nothing to the reader of a fault.
    pub(crate) fn without_lines(mut self) -> Self {
        self.line = 0;
        self.entries.iter_mut().for_each(|entry| entry.line = 0);
        self
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// Whether nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn put(&mut self, key: &str, values: Vec<String>, line: usize) -> Result<(), Fault> {
        if self.entries.iter().any(|entry| entry.key == key) {
            return Err(self.fault(Class::Doubled, line, format!("`{key}` stands twice")));
        }
        self.entries.push(Entry { key: key.to_owned(), values, line });
        Ok(())
    }

    /// A fault; of what is missing with the key by which it may be meant.
    pub(crate) fn fault(&self, class: Class, line: usize, why: impl Into<String>) -> Fault {
        let (mut why, mut line) = (why.into(), if line > 0 { line } else { self.line });
        if matches!(class, Class::Missing | Class::MissingAnnotation)
            && let Some(entry) = self.meant(&why)
        {
            why.push_str(&format!(" (is it meant by `{}`?)", entry.key));
            line = entry.line;
        }
        Fault::new(class, self.what.clone(), why).at(line)
    }

    pub(crate) fn list(&mut self, key: &'static str) -> Option<(Vec<String>, usize)> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let entry = self.entries.remove(index);
        Some((entry.values, entry.line))
    }

    pub(crate) fn word(&mut self, key: &'static str) -> Result<Option<Word>, Fault> {
        let Some((values, line)) = self.list(key) else { return Ok(None) };
        match <[String; 1]>::try_from(values) {
            Ok([text]) => Ok(Some(Word { text, line })),
            Err(_) => Err(self.fault(Class::Invalid, line, format!("`{key}` is a list, and one value is wanted"))),
        }
    }

    pub(crate) fn need(&mut self, key: &'static str) -> Result<Word, Fault> {
        let word = self.word(key)?;
        word.ok_or_else(|| self.fault(Class::Missing, 0, format!("`{key}` is missing")))
    }

    /// What is left over and called nearly like what stands in backticks in a sentence of what is missing.
    fn meant(&self, why: &str) -> Option<&Entry> {
        const LONG: usize = 32;
        let names = || why.split('`').skip(1).step_by(2).filter(|name| name.len() <= LONG);
        let is_near = |key: &str, name: &str| {
            key.chars().next() == name.chars().next() && strsim::osa_distance(key, name) <= name.len().div_ceil(3)
        };
        let left = self.entries.iter().filter(|entry| entry.key.len() <= LONG);
        left.into_iter().find(|entry| names().any(|name| entry.key != name && is_near(&entry.key, name)))
    }

    /// A value that `read` understands.
    pub(crate) fn value<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(word) = self.word(key)? else { return Ok(None) };
        match read(&word.text) {
            Some(value) => Ok(Some(value)),
            None => {
                let why = format!("`{key}` is `{}`: {wanted} is wanted", word.text);
                Err(self.fault(Class::Invalid, word.line, why))
            }
        }
    }

    pub(crate) fn seconds(&mut self, key: &'static str) -> Result<Option<f64>, Fault> {
        self.value(key, "a time such as `57 ms`", quantity::seconds)
    }

    pub(crate) fn bytes(&mut self, key: &'static str) -> Result<Option<u64>, Fault> {
        let read = |text: &str| {
            let bytes = quantity::bytes(text)?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at just before")]
            (bytes.fract() == 0.0 && bytes < 1e15).then_some(bytes as u64)
        };
        self.value(key, "a whole size such as `2 kB`", read)
    }

    pub(crate) fn count(&mut self, key: &'static str, most: u32) -> Result<Option<u32>, Fault> {
        let read = |text: &str| text.trim().parse().ok().filter(|count| (1..=most).contains(count));
        self.value(key, &format!("a whole number from 1 to {most}"), read)
    }

    pub(crate) fn share(&mut self, key: &'static str) -> Result<Option<f64>, Fault> {
        self.value(key, "a probability from 0 to 1, or in %,", quantity::share)
    }

    /// A variation, squared coefficient: 0.01 to 100.
    pub(crate) fn variation(&mut self) -> Result<f64, Fault> {
        let read = |text: &str| quantity::number(text).filter(|it| (0.01..=100.0).contains(it));
        Ok(self.value("variation", "a squared coefficient of variation from 0.01 to 100", read)?.unwrap_or(1.0))
    }

    /// What was not taken is unknown.
    pub(crate) fn end(self) -> Result<(), Fault> {
        self.known_so_far()
    }

    /// As [`Self::end`], before the last of them are used.
    pub(crate) fn known_so_far(&self) -> Result<(), Fault> {
        let Some(entry) = self.entries.first() else { return Ok(()) };
        let why = format!("`{}` is unknown here; known: {}", entry.key, self.known.join(", "));
        Err(self.fault(Class::Unknown, entry.line, why))
    }
}
