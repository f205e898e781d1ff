//! Models from texts, with a price for all that they ask for.

use std::fmt::Write;

use cost::net::lay;
use cost::read::{Language, read};
use cost::{Class, Model, weave};

pub(crate) fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// A price for everything that the net asks for: those named, and nothing for the rest.
pub(crate) fn priced(text: &str, prices: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (operation, each) in prices {
        let _ = write!(text, "[price.p.\"{operation}\"]\neach = \"{each}\"\n");
    }
    while let Err(fault) = lay(&weave(&model(&text))) {
        assert_eq!(fault.class, Class::NoPrice, "{fault}");
        let _ = write!(text, "[price.p.\"{}\"]\neach = \"0\"\n", fault.name);
    }
    text
}
