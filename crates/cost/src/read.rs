//! Models from text: TOML, Mermaid sequence diagrams, UML XMI. Each reader makes the same draft, words with their lines; one check
//! resolves the names and makes the [`Model`].

mod block;
mod channel;
mod check;
mod draft;
mod effect;
pub(crate) mod escape;
mod fields;
mod heeded;
mod held;
mod lines;
mod mermaid;
mod order;
mod plant;
mod ring;
mod secure;
mod toml;
mod xmi;

use crate::{Class, Fault, Model};

/// The language of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The schema of `docs/reference/cost-model.md`.
    Toml,
    /// A Mermaid sequence diagram with `%% trapkey:` comments.
    Mermaid,
    /// UML in XMI, as Papyrus writes it.
    Xmi,
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
            "mmd" | "mermaid" => Some(Self::Mermaid),
            "uml" | "xmi" => Some(Self::Xmi),
            _ => None,
        }
    }
}

/// What is said beside the text of a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// A TOML text that has nothing but prices.
    pub prices: Option<&'a str>,
    /// Of UML: the name of the interaction that is the scenario.
    pub scenario: Option<&'a str>,
    /// Of UML: stereotypes that are not read and say nothing that counts here.
    pub left_out: &'a [String],
}

/// Reads a model.
///
/// # Errors
/// The first fault that is found, with its class, line and name.
pub fn read(text: &str, language: Language) -> Result<Model, Fault> {
    read_beside(text, language, Beside::default())
}

/// Reads a model, and beside its own prices those of a TOML text that has nothing but prices.
///
/// # Errors
/// As [`read`]; [`Class::Doubled`] for a price that both have.
pub fn read_priced(text: &str, language: Language, prices: &str) -> Result<Model, Fault> {
    read_beside(text, language, Beside { prices: Some(prices), ..Beside::default() })
}

/// Reads a model with what is said beside it.
///
/// # Errors
/// As [`read_priced`]; [`Class::NoSuchName`] for a scenario or a stereotype that is not there, or that the language has no word for,
/// [`Class::Invalid`] for a stereotype that is read and cannot be left out.
pub fn read_beside(text: &str, language: Language, beside: Beside<'_>) -> Result<Model, Fault> {
    let mut draft = draft(text, language, &beside)?;
    if let Some(list) = beside.prices {
        let of_list = |fault: Fault| Fault { line: None, why: format!("in the prices: {}", fault.why), ..fault };
        let list = toml::prices(list).map_err(of_list)?;
        if list.is_empty() {
            return Err(Fault::new(Class::NoEffect, "", "the list of prices has none"));
        }
        let known = |(platform, operation, _): &toml::Priced| {
            draft.prices.iter().any(|(other, priced, _)| (other, priced) == (platform, operation))
        };
        if let Some((platform, operation, _)) = list.iter().find(|it| known(it)) {
            let why = format!("the list of prices has it for `{platform}`, and so has the model: take one of both out");
            return Err(Fault::new(Class::Doubled, format!("price {operation}"), why));
        }
        // Their lines are not those of the model.
        let no_line = |(platform, operation, fields): toml::Priced| (platform, operation, fields.without_lines());
        draft.prices.extend(list.into_iter().map(no_line));
    }
    check::check(draft)
}

/// Looks through a TOML text that has nothing but prices.
///
/// # Errors
/// The first fault in it, with its class, line and name.
pub fn price_list(text: &str) -> Result<(), Fault> {
    check::prices(toml::prices(text)?).map(drop)
}

fn draft(text: &str, language: Language, beside: &Beside<'_>) -> Result<draft::Draft, Fault> {
    if text.len() > MAX_BYTES {
        return Err(Fault::new(Class::TooLarge, "", format!("the model has more than {} MiB", MAX_BYTES >> 20)));
    }
    let only_uml = |what: String, why: &str| Err(Fault::new(Class::NoSuchName, what, why));
    match (language, beside.scenario, beside.left_out.first()) {
        (Language::Xmi, scenario, _) => xmi::draft(text, scenario, beside.left_out),
        (_, Some(name), _) => only_uml(
            format!("scenario {name}"),
            "only UML has several in one file: what is done begins with the first sequence",
        ),
        (_, _, Some(name)) => only_uml(format!("stereotype {name}"), "only UML has stereotypes"),
        (Language::Toml, ..) => toml::draft(text),
        (Language::Mermaid, ..) => mermaid::draft(text),
    }
}
