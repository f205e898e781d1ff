//! The letters of an XML document: UTF-8, UTF-16, and the two encodings of one byte a letter that tools write who name them (ISO-8859-1:
//! PIPE, windows-1252: tools that run on Windows). Any other is refused by its name, unless all is ASCII.

use std::borrow::Cow;

use crate::Refusal;

/// Bytes of a declaration at most.
const DECLARATION: usize = 256;
/// The letters of windows-1252 that are not those of ISO-8859-1, from 0x80 on; what it leaves open is a control letter (WHATWG Encoding,
/// index windows-1252).
const WINDOWS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}',
    '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}',
    '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}',
    '\u{17e}', '\u{178}',
];

/// The text of an XML document, without a mark of the byte order.
///
/// # Errors
/// [`crate::Class::Invalid`] for bytes that are no letters of the encoding that the document says it has.
pub fn xml_text(bytes: &[u8]) -> Result<Cow<'_, str>, Refusal> {
    // Its mark begins with that of UTF-16.
    if matches!(bytes, [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] | [b'<', 0, 0, 0, ..] | [0, 0, 0, b'<', ..]) {
        return Err(Refusal::invalid("document", "its encoding is UTF-32, which is not read: save it as UTF-8"));
    }
    if let Some(pair) = utf_16(bytes) {
        return wide(bytes, pair).map(Cow::Owned);
    }
    // A mark of the byte order is one of UTF-8, whatever the document says.
    let (bytes, marked) = bytes.strip_prefix(b"\xef\xbb\xbf").map_or((bytes, false), |rest| (rest, true));
    let declared = declared(bytes).filter(|_| !marked).map(str::to_ascii_lowercase);
    let high = |byte: u8, letters: &[char]| letters.get(usize::from(byte) & 0x7f).copied().unwrap_or(char::from(byte));
    match declared.as_deref() {
        Some("iso-8859-1" | "latin1" | "latin-1" | "iso8859-1") => {
            return Ok(bytes.iter().map(|byte| char::from(*byte)).collect());
        }
        Some("windows-1252" | "cp1252" | "cp-1252") => {
            let letter = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { high(*byte, &WINDOWS) };
            return Ok(bytes.iter().map(letter).collect());
        }
        None | Some("utf-8" | "utf8" | "us-ascii" | "ascii") => {}
        Some(other) if !bytes.is_ascii() => {
            let is_wide = other.starts_with("utf-16");
            let but = if is_wide { "and its bytes are not" } else { "which is not read" };
            let why = format!("it says that its encoding is `{other}`, {but}: save it as UTF-8");
            return Err(Refusal::invalid("document", why));
        }
        Some(_) => {}
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
        Refusal::invalid("document", format!("this is not UTF-8 text, first in line {line}: save it as UTF-8"))
    })?;
    Ok(text.into())
}

/// How two bytes of UTF-16 are one unit: by the mark of the byte order, or by how a document begins without one (XML 1.0 appendix F.1).
fn utf_16(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match bytes {
        [0xff, 0xfe, ..] | [b'<', 0, b'?', 0, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] | [0, b'<', 0, b'?', ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

fn wide(bytes: &[u8], pair: fn([u8; 2]) -> u16) -> Result<String, Refusal> {
    let refused = |why: &str| Refusal::invalid("document", format!("it begins like UTF-16, {why}: save it as UTF-8"));
    if !bytes.len().is_multiple_of(2) {
        return Err(refused("and has an odd number of bytes"));
    }
    let units = bytes.chunks_exact(2).map(|two| pair([two[0], two[1]])).skip_while(|unit| *unit == 0xfeff);
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.map_err(|_| refused("and has half of a letter in it"))
}

/// The encoding that a document begins with (XML 1.0 section 2.8).
fn declared(text: &[u8]) -> Option<&str> {
    let rest = text.strip_prefix(b"<?xml")?;
    let end = rest.iter().take(DECLARATION).position(|byte| *byte == b'>')?;
    let (_, value) = std::str::from_utf8(&rest[..end]).ok()?.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let (named, _) = value.strip_prefix(quote)?.split_once(quote)?;
    Some(named)
}
