//! Where the events of a notifier come from, as the server says, by their ids. What is not asked for is not taken in, so a
//! server that tells of everything fills nothing up.

use std::collections::HashMap;

use opcua_types::NodeId;

use crate::guard::subs::About;

/// The most events of which a session's link knows where they come from.
pub(in crate::guard) const MOST: usize = 1_000;
/// About how many bytes one of them takes, beside its id and names that are text.
const COST: usize = 192;

/// What the server has said of one event.
enum Word {
    Nothing,
    From(About),
    /// Two things.
    Doubtful,
}

impl Word {
    fn weight(&self) -> usize {
        if let Self::From(about) = self { about.weight() } else { 0 }
    }
}

/// What is known of events, by notifiers as the server names them: two may have events of the same id.
#[derive(Default)]
pub(in crate::guard) struct Origins {
    of: HashMap<NodeId, HashMap<Vec<u8>, Word>>,
    count: usize,
    weight: usize,
}

impl Origins {
    /// Where this event of this notifier comes from.
    pub(super) fn of(&self, notifier: &NodeId, id: &[u8]) -> Option<&About> {
        match self.of.get(notifier)?.get(id)? {
            Word::From(about) => Some(about),
            Word::Nothing | Word::Doubtful => None,
        }
    }

    /// This many will be asked for. Where there is no place for them, all is forgotten.
    pub(super) fn make_room(&mut self, count: usize) {
        if self.count.saturating_add(count) > MOST {
            *self = Self::default();
        }
    }

    /// It is asked for: what was said of it before is forgotten.
    pub(super) fn ask(&mut self, notifier: &NodeId, id: &[u8]) {
        if let Some(word) = self.of.get_mut(notifier).and_then(|ids| ids.get_mut(id)) {
            self.weight = self.weight.saturating_sub(word.weight());
            *word = Word::Nothing;
        } else if self.count < MOST {
            self.count += 1;
            self.weight = self.weight.saturating_add(id.len()).saturating_add(COST);
            self.of.entry(notifier.clone()).or_default().insert(id.to_vec(), Word::Nothing);
        }
    }

    /// The server says where one comes from. One of which it says two things comes from nowhere.
    pub(in crate::guard) fn learn(&mut self, notifier: &NodeId, id: &[u8], about: About) {
        let Some(word) = self.of.get_mut(notifier).and_then(|ids| ids.get_mut(id)) else { return };
        let before = word.weight();
        match word {
            Word::Nothing => *word = Word::From(about),
            Word::From(known) if *known != about => *word = Word::Doubtful,
            Word::From(_) | Word::Doubtful => {}
        }
        self.weight = self.weight.saturating_sub(before).saturating_add(word.weight());
    }

    /// Bytes that it holds.
    pub(in crate::guard) fn weight(&self) -> usize {
        self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(source: &str) -> About {
        About::told(NodeId::new(2, source), NodeId::new(0, 2041))
    }

    #[test]
    fn what_is_known_of_an_event_is_of_one_notifier_and_as_new_as_the_question() {
        let [line, other] = ["line", "other"].map(|name| NodeId::new(2, name));
        let source =
            |origins: &Origins, notifier: &NodeId| origins.of(notifier, b"7").map(|about| about.source().clone());
        let mut origins = Origins::default();
        origins.learn(&line, b"7", from("mine"));
        assert_eq!(source(&origins, &line), None, "nobody asked");
        origins.ask(&line, b"7");
        assert_eq!(source(&origins, &line), None, "asked and not answered");
        origins.learn(&line, b"7", from("mine"));
        assert_eq!(source(&origins, &line), Some(NodeId::new(2, "mine")));
        assert_eq!(source(&origins, &other), None, "of another notifier");
        origins.ask(&other, b"7");
        origins.learn(&other, b"7", from("hidden"));
        assert_eq!(source(&origins, &line), Some(NodeId::new(2, "mine")), "as it was");
        origins.learn(&line, b"7", from("mine"));
        assert_eq!(source(&origins, &line), Some(NodeId::new(2, "mine")), "said twice");
        for said in ["hidden", "mine"] {
            origins.learn(&line, b"7", from(said));
            assert_eq!(source(&origins, &line), None, "two things were said");
        }
        origins.ask(&other, b"7");
        assert_eq!(source(&origins, &other), None, "asked anew");
    }

    #[test]
    fn what_is_known_of_events_is_bounded_and_weighs_what_it_takes() {
        let mut origins = Origins::default();
        let line = NodeId::new(2, "line");
        origins.ask(&line, b"7");
        let before = origins.weight();
        origins.learn(&line, b"7", from(&"x".repeat(4_000)));
        assert!((4_000..5_000).contains(&(origins.weight() - before)));
        origins.ask(&line, b"7");
        assert_eq!(origins.weight(), before);
        for id in 0..2 * MOST {
            origins.ask(&line, &id.to_le_bytes());
        }
        assert_eq!(origins.count, MOST);
        origins.make_room(1);
        assert_eq!((origins.count, origins.weight()), (0, 0));
    }
}
