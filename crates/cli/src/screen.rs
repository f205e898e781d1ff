//! What the terminal has room for: pages that stay on it, and paragraphs that break between words; and texts that it does not obey.

use std::borrow::Cow;
use std::io::IsTerminal as _;

/// Columns and lines of the terminal that the standard output is; none where it is no terminal.
fn size() -> Option<(usize, usize)> {
    let terminal = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    terminal.map(|(width, height)| (usize::from(width.0), usize::from(height.0)))
}

/// A page that is drawn over the last one: what is too wide or too long is cut, for a terminal would break it or push its head out.
pub(crate) fn page(text: &str) -> String {
    size().map_or_else(|| text.to_owned(), |size| cut(text, size))
}

fn cut(text: &str, (width, height): (usize, usize)) -> String {
    // The last line is left to the cursor.
    let room = height.saturating_sub(1).max(2);
    let all = text.lines().count();
    let kept = if all > room { room - 1 } else { all };
    let mut page = String::with_capacity(text.len());
    for line in text.lines().take(kept) {
        match line.char_indices().nth(width) {
            None => page.push_str(line),
            Some(_) => {
                page.extend(line.chars().take(width.saturating_sub(1)));
                page.push('\u{2026}');
            }
        }
        page.push('\n');
    }
    if all > kept {
        page.push_str(&format!("{} more lines: make the window larger\n", all - kept));
    }
    page
}

/// Text whose long lines break between words, with what follows a little to the right. Tables break badly, and are left as they are.
pub(crate) fn paragraphs(text: &str) -> String {
    size().map_or_else(|| text.to_owned(), |(width, _)| broken(text, width))
}

fn broken(text: &str, width: usize) -> String {
    let width = width.max(30);
    let mut all = String::with_capacity(text.len());
    for line in text.lines() {
        let own = line.len() - line.trim_start().len();
        // Several blanks in a row are columns.
        if line.chars().count() <= width || line.trim_start().contains("  ") {
            all.push_str(line);
        } else {
            let (first, others) = (" ".repeat(own), " ".repeat(own + 4));
            let options = textwrap::Options::new(width).initial_indent(&first).subsequent_indent(&others);
            let options = options.break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation);
            all.push_str(&textwrap::wrap(line.trim_start(), options).join("\n"));
        }
        all.push('\n');
    }
    all
}

/// A text of somebody else's, with signs instead of what a terminal would obey. It is as long.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.chars().any(obeyed) {
        return Cow::Borrowed(text);
    }
    let sign = |letter: char| match letter {
        letter if !obeyed(letter) => letter,
        letter if letter.is_ascii() => '?',
        _ => '\u{bf}',
    };
    Cow::Owned(text.chars().map(sign).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stays_on_the_screen_with_its_head() {
        let page: String = (0..30).map(|nth| format!("{nth}: {}\n", "\u{b5}".repeat(100))).collect();
        let cut = cut(&page, (40, 10));
        let lines: Vec<&str> = cut.lines().collect();
        assert_eq!(lines.len(), 9);
        assert!(lines[0].starts_with("0: ") && lines[0].ends_with('\u{2026}') && lines[0].chars().count() == 40);
        assert_eq!(lines[8], "22 more lines: make the window larger");
        assert_eq!(super::cut("a\nb\n", (40, 10)), "a\nb\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_a_sign() {
        assert_eq!(harmless("a\u{1b}[31m\tb\u{9b}2J\n"), "a?[31m\tb\u{bf}2J\n");
    }

    #[test]
    fn paragraphs_break_between_words_and_tables_do_not() {
        let text = "    full first: the threads, at 177.5/s, which is said in a long line\nA  LONG  TABLE  THAT  HAS  MANY  COLUMNS\n";
        let broken = broken(text, 34);
        let lines: Vec<&str> = broken.lines().collect();
        assert_eq!(lines[0], "    full first: the threads, at");
        assert!(lines[1].starts_with("        177.5/s, which"), "{broken}");
        assert_eq!(lines.last(), Some(&"A  LONG  TABLE  THAT  HAS  MANY  COLUMNS"));
        assert_eq!(broken.split_whitespace().count(), text.split_whitespace().count());
    }
}
