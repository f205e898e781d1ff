//! XML as a whole: its outermost element, and whether it can be read. Left out: what stands in it.

use roxmltree::{Document, Error};

use super::encoding::xml_text;
use super::xml::in_xml;
use crate::Refusal;

/// Letters of a number that are more than any character has.
const LONG: usize = 40;

/// Reads a document. One with a document type is refused: entities could make it grow without end.
pub(super) fn parse(text: &str) -> Result<Document<'_>, Refusal> {
    let refused = |why: String| Refusal::invalid("document", format!("this is not XML that can be read: {why}"));
    let no_letter = |(line, reference)| refused(format!("`{reference}` in line {line} is no character of XML"));
    let early = || {
        let line = text.trim_end().lines().count();
        refused(format!("it ends in line {line} in the midst of an element: is the file whole?"))
    };
    if !declared(text) {
        return Err(refused(UNDECLARED.to_owned()));
    }
    let document = Document::parse(text).map_err(|error| match error {
        Error::DtdDetected => Refusal::invalid("document", TYPED),
        Error::UnexpectedEndOfStream | Error::UnclosedRootNode => early(),
        Error::NoRootNode if root(text.as_bytes()).is_some() => early(),
        Error::MalformedEntityReference(_) if let Some(found) = self::no_letter(text) => no_letter(found),
        // The last tag has no end.
        _ if text.rfind('<') > text.rfind('>') => early(),
        error => refused(error.to_string()),
    })?;
    self::no_letter(text).map_or(Ok(document), |found| Err(no_letter(found)))
}

/// What is said of a text that is not [`declared`].
pub const UNDECLARED: &str = "its first line is no declaration of XML (`<?xml version=\"1.0\"?>`)";

/// Whether a declaration of XML at the beginning of a text, if there is one, begins as one does: the parser passes over what stands in it.
#[must_use]
pub fn declared(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    // Others have longer names, such as `<?xml-stylesheet`.
    let own = |rest: &&str| !rest.starts_with(|next: char| next.is_alphanumeric() || "-._:".contains(next));
    let Some(rest) = text.strip_prefix("<?xml").filter(own) else { return true };
    let version =
        rest.trim_start().strip_prefix("version").map(str::trim_start).and_then(|rest| rest.strip_prefix('='));
    version.is_some_and(|rest| rest.trim_start().starts_with(['"', '\'']))
}

/// What is said of a document type.
pub(super) const TYPED: &str =
    "it has a document type, and could have entities that grow without end: take the `<!DOCTYPE ..>` out";

/// The first reference to what is no character of XML, with its line. The parser has U+FFFD for those that are no characters at all.
fn no_letter(text: &str) -> Option<(usize, &str)> {
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        rest = rest.get(at..)?;
        if let Some(end) = quoted(rest) {
            rest = rest.split_once(end)?.1;
        } else if let Some((number, after)) = rest.strip_prefix("&#").and_then(|after| after.split_once(';')) {
            let code = match number.strip_prefix('x') {
                Some(number) => u32::from_str_radix(number, 16),
                None => number.parse(),
            };
            if number.len() < LONG && !code.ok().and_then(char::from_u32).is_some_and(in_xml) {
                let before = text.len() - rest.len();
                let line = text.get(..before)?.matches('\n').count() + 1;
                return Some((line, rest.get(..rest.len() - after.len())?));
            }
            rest = after;
        } else {
            rest = rest.get(1..)?;
        }
    }
    None
}

/// The end of what begins here, if it is a part in which nothing is a reference.
fn quoted(text: &str) -> Option<&'static str> {
    let parts = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    parts.into_iter().find(|(begins, _)| text.starts_with(begins)).map(|(_, ends)| ends)
}

/// The name of the outermost element; none is looked for behind the declarations that a document type may have in itself.
pub(super) fn root(text: &[u8]) -> Option<String> {
    let text = xml_text(text).ok()?;
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        rest = rest.trim_start();
        if let Some(end) = quoted(rest) {
            rest = rest.split_once(end)?.1;
        } else if rest.starts_with("<!") {
            rest = rest.split_once('>')?.1;
        } else {
            break;
        }
    }
    let name = rest.strip_prefix('<')?;
    let name = name
        .split(|next: char| next.is_whitespace() || matches!(next, '>' | '/'))
        .next()
        .filter(|name| !name.is_empty())?;
    Some(name.rsplit(':').next().unwrap_or(name).to_owned())
}

/// Whether a document type stands in front of everything else that says something.
pub(super) fn typed(text: &[u8]) -> bool {
    let Ok(text) = xml_text(text) else { return false };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while let Some(end) = quoted(rest) {
        match rest.split_once(end) {
            Some((_, after)) => rest = after.trim_start(),
            None => return false,
        }
    }
    rest.starts_with("<!DOCTYPE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_type_is_known_and_passed_over_where_it_declares_nothing() {
        for head in
            ["", "<?xml version=\"1.0\"?>\n<!-- <a> -->", "<!DOCTYPE pnml>", "<!-- --> <!DOCTYPE pnml SYSTEM \"a\">"]
        {
            assert_eq!(root(format!("{head}<x:pnml a=\"1\">").as_bytes()).as_deref(), Some("pnml"), "{head}");
            assert_eq!(typed(head.as_bytes()), head.contains("DOCTYPE"), "{head}");
        }
        for none in
            ["", "<", "<!DOCTYPE pnml [<!ENTITY", "<!DOCTYPE pnml [<!ENTITY a \"]>\">]><pnml/>", "<!-- <pnml>", "pnml"]
        {
            assert_eq!(root(none.as_bytes()), None, "{none}");
            assert_eq!(typed(none.as_bytes()), none.contains("DOCTYPE"), "{none}");
        }
    }

    #[test]
    fn references_to_no_character_are_found_where_they_are_references() {
        let first = |text| no_letter(text).map(|(line, reference)| (line, reference.to_owned()));
        assert_eq!(first("<a>\n<b c='&#xD800;'/></a>"), Some((2, "&#xD800;".to_owned())));
        assert_eq!(first("<a>&#1114112;</a>"), Some((1, "&#1114112;".to_owned())));
        assert_eq!(first("<a>&#99999999999;</a>"), Some((1, "&#99999999999;".to_owned())));
        assert_eq!(first("<a><!-- &#xD800; --><?x &#xD800;?><![CDATA[&#xD800;]]>&#x41;&#9;&amp;</a>"), None);
    }
}
