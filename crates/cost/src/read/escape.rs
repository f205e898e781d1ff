//! Letters by their numbers, `#59;`: Mermaid's way to say in a name what would end it. The reader and the printer share it.

use std::fmt::Write;

/// Digits that a number may have: the largest letter has seven.
const MAX_DIGITS: usize = 7;

/// A text with each `#NUMBER;` replaced by its letter; what is the number of no letter stands as it is.
pub(crate) fn read(text: &str) -> String {
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('#') {
        read.push_str(before);
        let found = after.split_once(';').and_then(|(number, after)| Some((letter(number)?, after)));
        if let Some((letter, after)) = found {
            read.push(letter);
            rest = after;
        } else {
            read.push('#');
            rest = after;
        }
    }
    read + rest
}

fn letter(number: &str) -> Option<char> {
    is_number(number).then(|| number.parse().ok().and_then(char::from_u32)).flatten()
}

fn is_number(text: &str) -> bool {
    (1..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// A line of a diagram up to the semicolon that ends its first statement, and what stands behind it. One that ends `#NUMBER;` or `#name;`
/// ends no statement.
pub(super) fn statement(line: &str) -> (&str, &str) {
    let ends = line.match_indices(';').filter_map(|(at, _)| Some((line.get(..at)?, line.get(at + 1..)?)));
    let mut ends = ends.filter(|(before, _)| !before.rsplit_once('#').is_some_and(|(_, word)| is_word(word)));
    ends.next().unwrap_or((line, ""))
}

/// Whether a `#` is there that begins neither `#NUMBER;` nor `#name;`: to Mermaid it begins a comment.
pub(super) fn has_comment(statement: &str) -> bool {
    let is_letter = |behind: &str| behind.split_once(';').is_some_and(|(word, _)| is_word(word));
    statement.split('#').skip(1).any(|behind| !is_letter(behind))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// A name for a line of a diagram: nothing in it ends the line, is trimmed or looks like a comment.
pub(crate) fn for_line(name: &str) -> String {
    let inside = name.trim();
    let before = name.len() - name.trim_start().len();
    let mut written = String::with_capacity(name.len());
    let ends = if name.contains("%%") { ";#%" } else { ";#" };
    for (at, letter) in name.char_indices() {
        let at_an_end = at < before || at >= before + inside.len();
        put(&mut written, letter, at_an_end || ends.contains(letter) || letter.is_control());
    }
    written
}

/// A name for a word in quotes: nothing in it ends the quote or the line, or is read as a number.
pub(crate) fn for_quotes(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    for (at, found) in name.char_indices() {
        let behind = name.get(at..).and_then(|rest| rest.strip_prefix('#')).and_then(|rest| rest.split_once(';'));
        let number = behind.is_some_and(|(number, _)| letter(number).is_some());
        put(&mut written, found, number || found == '"' || found.is_control());
    }
    written
}

fn put(written: &mut String, letter: char, by_number: bool) {
    if by_number {
        let _ = write!(written, "#{};", u32::from(letter));
    } else {
        written.push(letter);
    }
}
