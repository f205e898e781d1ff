//! The order in which the values of a list stood, told from the ways that lists have made: not all of them need fit each other.

use std::collections::{BTreeMap, BTreeSet};

/// Keys and values of a way.
type Words = Vec<(&'static str, String)>;

/// The values of a key, each once. Of ways that have all else in common, the earlier has the earlier value.
pub(super) fn listed(ways: &[Words], key: &str) -> Vec<String> {
    let mut values: Vec<&str> = Vec::new();
    let (mut latest, mut before) = (BTreeMap::new(), BTreeSet::new());
    for way in ways {
        let Some((_, value)) = way.iter().find(|(name, _)| *name == key) else { continue };
        let index = values.iter().position(|known| known == value).unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        });
        let rest: Vec<_> = way.iter().filter(|(name, _)| *name != key).collect();
        if let Some(earlier) = latest.insert(rest, index) {
            before.insert((earlier, index));
        }
    }
    let mut left: Vec<usize> = (0..values.len()).collect();
    let mut listed = Vec::with_capacity(values.len());
    while !left.is_empty() {
        let is_next = |index: &usize| left.iter().all(|other| other == index || !before.contains(&(*other, *index)));
        let at = left.iter().position(is_next).unwrap_or_default();
        listed.push(values[left.remove(at)].to_owned());
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_as_they_did_where_some_ways_are_left_out() {
        let of = |pairs: &[(&str, &str)]| {
            let way = |(mode, token): &(&str, &str)| vec![("mode", (*mode).to_owned()), ("token", (*token).to_owned())];
            pairs.iter().map(way).collect::<Vec<_>>()
        };
        let ways = of(&[("sign", "twice"), ("encrypt", "channel"), ("encrypt", "twice")]);
        assert_eq!(listed(&ways, "token"), ["channel", "twice"]);
        assert_eq!(listed(&ways, "mode"), ["sign", "encrypt"]);
        assert_eq!(listed(&of(&[("a", "2"), ("b", "1"), ("a", "2")]), "token"), ["2", "1"]);
        assert!(listed(&ways, "key").is_empty());
        // What no list makes has an order all the same.
        assert_eq!(listed(&of(&[("a", "1"), ("a", "2"), ("b", "2"), ("b", "1")]), "token"), ["1", "2"]);
    }
}
