//! Whether what is said of a channel changes anything that requests meet.

use std::collections::BTreeSet;

use super::{Chosen, Words};
use crate::algorithm::Key;
use crate::choose::Mode;
use crate::mechanism::{Part, Role};
use crate::protocol::{Party, Phase, Protocol, beside};

/// Bytes of messages that ways are held against each other with: short ones, and one of several chunks and packets.
const SIZES: [u64; 4] = [1, 100, 1_000, 100_000];

/// What requests ever meet of a channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub(super) connects: bool,
    pub(super) renews: bool,
    pub(super) refreshes: bool,
    pub(super) lives: bool,
}

/// A message of one size and direction: what its sender does, what its receiver does, its bytes on the wire.
type Message = (Vec<Part>, Vec<Part>, u64);

/// What a protocol does then, and how strong it is.
#[derive(Debug, PartialEq)]
struct Met {
    phases: Vec<Phase>,
    messages: Vec<Message>,
    mode: Mode,
    strength: u32,
    keys: Vec<Key>,
}

impl Met {
    fn of(protocol: &Protocol, when: When) -> Self {
        let phases = [
            (when.lives, Protocol::once as fn(&Protocol) -> Vec<Phase>),
            (when.connects, Protocol::connect),
            (when.connects, |it| beside(it.disconnect())),
            (when.renews, |it| beside(it.renew())),
            (when.refreshes, |it| beside(it.refresh())),
        ];
        let phases = phases.into_iter().filter(|(done, _)| *done).flat_map(|(_, phases)| phases(protocol)).collect();
        let each = SIZES.into_iter().flat_map(|bytes| [(Role::Own, bytes), (Role::Peer, bytes)]);
        let messages = each.map(|(from, bytes)| {
            let (before, after) = protocol.around(from, bytes);
            (before, after, protocol.wire(from, bytes))
        });
        let (messages, mode) = (messages.collect(), protocol.mode());
        Self { phases, messages, mode, strength: protocol.strength(), keys: protocol.keys() }
    }

    /// Steps, each with who does it if that is the own side.
    fn any(&self, found: &dyn Fn(&Part, (Party, Party)) -> bool) -> bool {
        let ends = (Party::Client, Party::Server);
        let messages = self.messages.iter().flat_map(|(before, after, _)| before.iter().chain(after));
        let phases = self.phases.iter().flat_map(|phase| phase.parts.iter().map(|part| (part, phase.ends)));
        phases.chain(messages.map(|part| (part, ends))).any(|(part, ends)| within(part, ends, found))
    }
}

fn within(part: &Part, ends: (Party, Party), found: &dyn Fn(&Part, (Party, Party)) -> bool) -> bool {
    let inside = |parts: &[Part]| parts.iter().any(|part| within(part, ends, found));
    found(part, ends)
        || match part {
            Part::Either { then, otherwise, .. } => inside(then) || inside(otherwise),
            Part::Use { parts, .. } => inside(parts),
            Part::Work { .. } | Part::Message { .. } | Part::Unawaited { .. } | Part::Check { .. } => false,
        }
}

/// What changed something in one of the ways, and what changed nothing though it is not what stands there anyway.
#[derive(Debug, Default)]
pub(super) struct Effects {
    shown: BTreeSet<&'static str>,
    vain: BTreeSet<&'static str>,
}

impl Effects {
    /// Looks at one way: `words` were said of it, those that were `asked` for counted in its `protocol`.
    pub(super) fn look(
        &mut self,
        way: &Words<'_>,
        asked: &BTreeSet<&'static str>,
        protocol: &Protocol,
        (when, engine): (When, bool),
    ) {
        let met = Met::of(protocol, when);
        for (key, ..) in way.words.iter().filter(|(key, ..)| asked.contains(key)) {
            if self.shown.contains(key) {
                continue;
            }
            let others: Vec<Chosen<'_>> = way.words.iter().copied().filter(|(other, ..)| other != key).collect();
            match way.without(&others, protocol.word()) {
                // The same may be said as what stands there anyway.
                Some(other) if other == *protocol => {}
                Some(other) if Met::of(&other, when) == met => {
                    self.vain.insert(key);
                }
                _ => {
                    self.shown.insert(key);
                }
            }
        }
        let fails = |part: &Part, _: (Party, Party)| matches!(part, Part::Check { passes, .. } if *passes < 1.0);
        self.note("valid", way.valid < 1.0, || met.any(&fails));
        let keyed = |part: &Part, ends: (Party, Party)| match part {
            Part::Work { by, work, .. } => {
                work.private && (if *by == Role::Own { ends.0 } else { ends.1 }) == Party::Server
            }
            _ => false,
        };
        self.note("engine", engine, || met.any(&keyed));
    }

    fn note(&mut self, key: &'static str, said: bool, counts: impl FnOnce() -> bool) {
        if said && !self.shown.contains(key) {
            (if counts() { &mut self.shown } else { &mut self.vain }).insert(key);
        }
    }

    /// What changed nothing in any of the ways.
    pub(super) fn in_vain(&self) -> impl Iterator<Item = &'static str> {
        self.vain.difference(&self.shown).copied()
    }
}
