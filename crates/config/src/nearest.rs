//! What somebody probably meant.

/// The known word closest to `word`, if it is close enough to be a slip: few letters changed, added or removed.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let bound = (length / 2).clamp(1, 3);
    let near = known.into_iter().filter(|candidate| candidate.chars().count().abs_diff(length) <= bound);
    let near = near.map(|candidate| (strsim::levenshtein(word, candidate), candidate));
    near.filter(|(steps, _)| *steps <= bound).min().map(|(_, candidate)| candidate)
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
