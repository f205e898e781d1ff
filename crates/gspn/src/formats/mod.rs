//! Nets in the files of other tools.
//!
//! What a format cannot say is refused by name when it is written, and what this program does not know is refused by name when it
//! is read; nothing is dropped but where things stand on the screen. Which element means what is in `docs/reference/model.md`.

mod classes;
mod document;
mod dot;
mod draft;
mod edspn;
mod encoding;
mod expression;
mod jani;
mod layout;
mod pnml;
mod pnpro;
mod remarks;
mod strays;
mod svg;
mod tables;
mod timing;
mod written;
mod xml;

pub use self::document::{UNDECLARED, declared};
pub use self::encoding::xml_text;
pub use self::tables::{generator, markovian, states};

use crate::json::{self, Document, Timing};
use crate::{Net, Refusal};

/// Bytes that are read at most: a net of a few million nodes.
const MOST: usize = 64 << 20;

/// How many names are told at most.
const TOLD: usize = 8;

/// A way to write nets down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// This program's own; the only one that says everything.
    Json,
    /// Projects of the `GreatSPN` editor.
    Pnpro,
    /// PNML: read are all its dialects that say rates, and ISO/IEC 15909-2 place/transition nets, which need rates beside them; written is the
    /// dialect that Storm reads.
    Pnml,
    /// PNML as PIPE saves it. It is read as [`Format::Pnml`], which is what it looks like.
    Pipe,
    /// Extended deterministic and stochastic nets of `TimeNET`. Read only.
    Edspn,
    /// For Storm and other checkers. Written only.
    Jani,
    /// For Graphviz. Written only.
    Dot,
    /// A drawing. Written only.
    Svg,
}

impl Format {
    /// What the bytes look like; for what looks like no net, which formats are read.
    fn recognized(text: &[u8]) -> Result<Self, Refusal> {
        if let Some(format) = Self::of(text) {
            return Ok(format);
        }
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        let looks = match (first, document::root(text)) {
            (None, _) => "there is nothing in it".to_owned(),
            _ if let Err(refusal) = xml_text(text) => refusal.why,
            (Some(0xff | 0xfe), None) => "it begins like UTF-16: save it as UTF-8".to_owned(),
            (_, Some(root)) => format!("its outermost element is `{}`", root.chars().take(40).collect::<String>()),
            (Some(b'<'), None) if document::typed(text) => document::TYPED.to_owned(),
            (Some(b'<'), None) => "no outermost element is found behind what it begins with".to_owned(),
            _ => "it begins neither with `{` nor with an element".to_owned(),
        };
        Err(no_net(&looks))
    }

    /// What the bytes look like, if they look like a net.
    #[must_use]
    pub fn of(text: &[u8]) -> Option<Self> {
        // With or without a mark of the byte order.
        let marked = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        match marked.iter().find(|byte| !byte.is_ascii_whitespace())? {
            // A list is no net either, and the reader says what is wanted.
            b'{' | b'[' => Some(Self::Json),
            b'<' | 0xfe | 0xff | 0 => match document::root(text)?.as_str() {
                "project" => Some(Self::Pnpro),
                "pnml" => Some(Self::Pnml),
                "net" | "eDSPNNet" | "EDSPNNet" => Some(Self::Edspn),
                _ => None,
            },
            _ => None,
        }
    }
}

fn no_net(looks: &str) -> Refusal {
    Refusal::invalid("document", format!("this is no net: {looks}; nets are read from JSON, PNPRO, PNML and eDSPN"))
}

/// What is said beside a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// When transitions fire for which the file does not say it: those of an ISO PNML net.
    pub rates: &'a [Timing],
    /// What the net is called that is meant: a file may hold several.
    pub net: Option<&'a str>,
    /// Values of constants of the file, which count for those that stand there: numbers, or what the file may say instead.
    pub set: &'a [(String, String)],
}

/// Reads the one net of a file. `rates` says when transitions fire for which the file does not: those of an ISO PNML net.
///
/// # Errors
/// [`crate::Class::Invalid`] for what breaks the rules of the format, [`crate::Class::Unsupported`] for what a net here cannot say;
/// with the name of the place, transition or element.
pub fn read(text: &[u8], format: Format, rates: &[Timing]) -> Result<Document, Refusal> {
    read_beside(text, format, &Beside { rates, ..Beside::default() })
}

/// Reads a net of a file, with what is said beside it.
///
/// # Errors
/// Those of [`read`]; [`crate::Class::Invalid`] with what is said beside the file and does not belong to it.
pub fn read_beside(text: &[u8], format: Format, beside: &Beside<'_>) -> Result<Document, Refusal> {
    if text.len() > MOST {
        return Err(Refusal::new(crate::Class::TooLarge, "document", "more than 64 MiB of text"));
    }
    if format == Format::Json {
        // What looks like nothing that is known may have been meant as something else.
        Format::recognized(text)?;
    }
    // A net without what stands around it is told so by its reader.
    let bare = format == Format::Edspn && document::root(text).as_deref() == Some("net");
    if !(matches!(format, Format::Pnml | Format::Pipe) || bare) {
        none_given(beside.rates)?;
    }
    if let (Format::Json | Format::Pnml | Format::Pipe, Some((name, _))) = (format, beside.set.first()) {
        let why = "a value is set for this constant, and nets of this format have no constants";
        return Err(Refusal::invalid(name, why));
    }
    let net = match format {
        Format::Json => {
            let document = json::read(text)?;
            chosen("net", &[(document.net.name(), ())], beside.net)?;
            return Ok(document);
        }
        Format::Pnml | Format::Pipe => pnml::read(text, beside)?,
        Format::Pnpro => pnpro::read(text, beside)?,
        Format::Edspn => {
            let net = edspn::read(text, beside.set)?;
            none_given(beside.rates)?;
            chosen("net", &[(net.name(), ())], beside.net)?;
            net
        }
        Format::Jani | Format::Dot | Format::Svg => {
            return Err(Refusal::new(
                crate::Class::Unsupported,
                "",
                "nets are not read from this format, only written to it",
            ));
        }
    };
    Ok(Document { net, asks: Vec::new(), limit: None })
}

/// Names, as many as anybody reads.
fn told(names: &[&str]) -> String {
    let first = names.iter().take(TOLD).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > TOLD { format!("{first} and {} more", names.len() - TOLD) } else { first }
}

/// The one of a file's nets, each with what it is called, that is `wanted`; without a wish the only one there is.
fn chosen<T: Copy>(around: &str, nets: &[(&str, T)], wanted: Option<&str>) -> Result<T, Refusal> {
    let meant: Vec<_> = nets.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name)).collect();
    let names = told(&nets.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    match (meant.as_slice(), wanted) {
        ([(_, net)], _) => Ok(*net),
        ([], Some(wanted)) => {
            Err(Refusal::invalid(wanted, format!("no net of the file is called so: there is {names}")))
        }
        (_, Some(wanted)) => {
            let why = format!("{} nets of the file are called so: give each its own name", meant.len());
            Err(Refusal::new(crate::Class::Unsupported, wanted, why))
        }
        (_, None) => {
            let why = format!("there are {} nets ({names}), and one is wanted: choose it by `--net NAME`", nets.len());
            Err(Refusal::new(crate::Class::Unsupported, around, why))
        }
    }
}

fn none_given(rates: &[Timing]) -> Result<(), Refusal> {
    match rates.first() {
        None => Ok(()),
        Some(timing) => Err(Refusal::invalid(&timing.name, "rates are given beside a net that has its own")),
    }
}

/// Writes a net.
///
/// # Errors
/// [`crate::Class::Unsupported`], naming the place or transition that the format has no words for.
pub fn write(net: &Net, format: Format) -> Result<String, Refusal> {
    match format {
        Format::Json => Ok(json::write(net)),
        Format::Pnpro => pnpro::write(net),
        Format::Pnml => written::storm(net),
        Format::Pipe => written::pipe(net),
        Format::Jani => jani::write(net),
        Format::Dot => dot::write(net),
        Format::Svg => svg::write(net),
        Format::Edspn => {
            let why = "nets are not written to this format, only read from it";
            Err(Refusal::new(crate::Class::Unsupported, "edspn", why))
        }
    }
}
