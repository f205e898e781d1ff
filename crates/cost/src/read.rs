//! Models from text: TOML, Mermaid sequence diagrams, UML XMI. Each reader makes the same draft, words with their lines; one check
//! resolves the names and makes the [`Model`].

mod check;
mod draft;
mod fields;
mod secure;
mod toml;

use crate::{Class, Fault, Model};

/// The language of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The schema of `docs/reference/cost-model.md`.
    Toml,
}

/// Bytes that a model may have.
const MAX_BYTES: usize = 16 << 20;

impl Language {
    /// By the end of a file's name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let end = name.rsplit('.').next()?.to_ascii_lowercase();
        match end.as_str() {
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Reads a model.
///
/// # Errors
/// The first fault that is found, with its class, line and name.
pub fn read(text: &str, language: Language) -> Result<Model, Fault> {
    if text.len() > MAX_BYTES {
        return Err(Fault::new(Class::TooLarge, "", format!("the model has more than {} MiB", MAX_BYTES >> 20)));
    }
    let draft = match language {
        Language::Toml => toml::draft(text)?,
    };
    check::check(draft)
}
