//! The patterns of the Like operator (OPC 10000-4 §7.7.3): `%`, `_`, `[abc]`, `[a-f]`, `[^abc]`, and `\` before a
//! character that means itself.
//!
//! A pattern is matched by two positions that go forward and one that remembers the last `%`: at most pattern length ×
//! text length steps, both bounded, whatever the pattern is. That is a million of them: they are counted.

use super::steps::{Exhausted, Steps};

/// The longest pattern, in characters.
const MAX_PATTERN: usize = 256;

/// As much of a text is looked at, in characters; a longer text matches nothing.
const MAX_TEXT: usize = 4_096;

/// A pattern, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Any text, also none.
    Any,
    /// Any one character.
    One,
    /// This character.
    Char(char),
    /// One character that lies, or does not lie, in one of these ranges.
    List { outside: bool, ranges: Vec<(char, char)> },
}

impl Token {
    /// What comparing it with a character costs, in steps.
    fn cost(&self) -> usize {
        match self {
            Self::List { ranges, .. } => ranges.len().saturating_add(1),
            _ => 1,
        }
    }

    fn takes(&self, character: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Char(own) => *own == character,
            Self::List { outside, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                inside != *outside
            }
        }
    }
}

impl Pattern {
    /// Takes a pattern apart; `None` for one that is too long or not complete.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.chars().count() > MAX_PATTERN {
            return None;
        }
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            let token = match character {
                '%' => Token::Any,
                '_' => Token::One,
                '\\' => Token::Char(rest.next()?),
                '[' => list(&mut rest)?,
                other => Token::Char(other),
            };
            if token != Token::Any || tokens.last() != Some(&Token::Any) {
                tokens.push(token);
            }
        }
        Some(Self { tokens })
    }

    /// Whether the whole text fits, if that can be told within the steps that are left.
    pub(super) fn matches(&self, text: &str, steps: &mut Steps) -> Result<bool, Exhausted> {
        let text: Vec<char> = text.chars().take(MAX_TEXT + 1).collect();
        if text.len() > MAX_TEXT {
            return Ok(false);
        }
        let (mut at, mut token) = (0, 0);
        // Behind the last `%`: the token after it, and how much of the text the `%` takes.
        let mut back: Option<(usize, usize)> = None;
        while let Some(character) = text.get(at) {
            let current = self.tokens.get(token);
            steps.take(current.map_or(1, Token::cost))?;
            match current {
                Some(Token::Any) => {
                    token += 1;
                    back = Some((token, at));
                }
                Some(one) if one.takes(*character) => {
                    at += 1;
                    token += 1;
                }
                _ => {
                    let Some((after, taken)) = back else { return Ok(false) };
                    back = Some((after, taken + 1));
                    (token, at) = (after, taken + 1);
                }
            }
        }
        Ok(self.tokens.get(token..).is_some_and(|rest| rest.iter().all(|token| *token == Token::Any)))
    }
}

/// What stands between brackets, the first of which is read already.
fn list(rest: &mut std::str::Chars<'_>) -> Option<Token> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut next = rest.next()?;
    let outside = next == '^';
    if outside {
        next = rest.next()?;
    }
    loop {
        let low = match next {
            ']' => break,
            '\\' => rest.next()?,
            other => other,
        };
        next = rest.next()?;
        let mut high = low;
        if next == '-' {
            let end = rest.next()?;
            if end == ']' {
                ranges.push((low, low));
                ranges.push(('-', '-'));
                break;
            }
            high = if end == '\\' { rest.next()? } else { end };
            next = rest.next()?;
        }
        ranges.push((low, high));
    }
    (!ranges.is_empty()).then_some(Token::List { outside, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits(pattern: &Pattern, text: &str) -> bool {
        pattern.matches(text, &mut Steps::new(usize::MAX)).unwrap()
    }

    #[test]
    fn patterns_of_the_standard_and_their_edges() {
        for (pattern, text, expected) in [
            ("main%", "main.en", true),
            ("main%", "main", true),
            ("main%", "Main", false),
            ("%en%", "Pencil", true),
            ("%en%", "en", true),
            ("ab_", "abc", true),
            ("ab_", "ab", false),
            ("abc[13-68]", "abc1", true),
            ("abc[13-68]", "abc5", true),
            ("abc[13-68]", "abc2", false),
            ("ABC[^13-5]", "ABC2", true),
            ("ABC[^13-5]", "ABC4", false),
            ("100\\%", "100%", true),
            ("100\\%", "100x", false),
            ("[a-]", "-", true),
            ("[\\]]", "]", true),
            ("", "", true),
            ("", "x", false),
            ("%", "", true),
            ("%%%x", "aax", true),
            ("_%_", "a", false),
            ("ü_", "üä", true),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            assert_eq!(fits(&parsed, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_that_are_none() {
        for pattern in ["[abc", "[", "[]", "[^]", "abc\\", "[a-", &"x".repeat(257)] {
            assert_eq!(Pattern::parse(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_of_many_wildcards_takes_steps_by_the_product_only() {
        let pattern = Pattern::parse(&"%a".repeat(128)).unwrap();
        assert!(!fits(&pattern, &"aaab".repeat(32)));
        assert!(!fits(&pattern, &"b".repeat(4_096)));
        assert!(!fits(&Pattern::parse("%").unwrap(), &"b".repeat(4_097)), "longer than is looked at");
    }

    #[test]
    fn the_steps_of_a_pattern_are_counted_and_end() {
        for (pattern, text, least) in [
            (format!("%{}b", "a".repeat(254)), "a".repeat(4_096), 900_000),
            (format!("%[{}]b", "ac".repeat(100)), "b".repeat(4_096), 800_000),
            ("main%".to_owned(), "main.en".to_owned(), 5),
        ] {
            let pattern = Pattern::parse(&pattern).unwrap();
            let mut steps = Steps::new(1 << 22);
            let _ = pattern.matches(&text, &mut steps).unwrap();
            let used = (1 << 22) - steps.left();
            assert!((least..1 << 21).contains(&used), "{used}");
            assert_eq!(pattern.matches(&text, &mut Steps::new(used)).err(), None);
            assert_eq!(pattern.matches(&text, &mut Steps::new(used - 1)).err(), Some(Exhausted));
        }
    }

    /// What the operator means, without a thought for time.
    fn naive(tokens: &[Token], text: &[char]) -> bool {
        match tokens.split_first() {
            None => text.is_empty(),
            Some((Token::Any, rest)) => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
            Some((one, rest)) => text.split_first().is_some_and(|(first, left)| one.takes(*first) && naive(rest, left)),
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_the_naive_matcher_says(pattern in "[ab%_]{0,8}|[ab%]{0,3}\\[\\^?[a-c]{1,3}\\][ab%]{0,3}", text in "[abc]{0,9}") {
            let parsed = Pattern::parse(&pattern).unwrap();
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(fits(&parsed, &text), naive(&parsed.tokens, &characters));
        }

        #[test]
        fn no_pattern_panics(pattern in "\\PC{0,40}", text in "\\PC{0,40}") {
            if let Some(parsed) = Pattern::parse(&pattern) {
                fits(&parsed, &text);
            }
        }
    }
}
