//! What somebody probably meant.

/// The known word closest to `word`, if it is close enough to be a slip.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (word.chars().count() / 2).clamp(1, 3);
    let near = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    near.filter(|(steps, _)| *steps <= bound).min().map(|(_, candidate)| candidate)
}

/// Letters to change, add or remove (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut next = vec![above + 1];
        for ((known, diagonal), up) in other.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or(usize::MAX);
            next.push((diagonal + usize::from(letter != *known)).min(up + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        for (word, expected) in [
            ("ledgre", Some("ledger")),
            ("databse", Some("database")),
            ("key", Some("key")),
            ("sync", Some("sync")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, ["database", "key", "ledger", "sync"]), expected, "{word}");
        }
    }
}
