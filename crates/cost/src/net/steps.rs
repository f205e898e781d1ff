//! The steps of a sequence, one after the other, with the node that the request holds.

use super::builder::{self, Builder};
use super::{MAX_STEPS, What};
use crate::mechanism::{Part, Role, Work};
use crate::model::{Duration, Model, Price, Protect, Send, Step};
use crate::{Class, Fault};

/// Sequences and ways inside each other: each takes its part of the stack.
const MAX_DEEP: usize = 500;

/// Where a request is, and the node of which it holds a core.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub(super) place: usize,
    pub(super) holds: Option<usize>,
}

pub(super) struct Layer<'a> {
    pub(super) model: &'a Model,
    pub(super) builder: Builder,
    /// Where aborted requests go, holding nothing.
    pub(super) abort: usize,
    pub(super) aborts: bool,
    pub(super) laid: usize,
    /// Sequences and ways that are inside each other here.
    pub(super) deep: usize,
}

impl Layer<'_> {
    pub(super) fn steps(&mut self, steps: &[Step], at: &mut Cursor) -> Result<(), Fault> {
        self.deep += 1;
        if self.deep > MAX_DEEP {
            let why = format!("sequences refer to each other more than {MAX_DEEP} deep: put some of them into one");
            return Err(Fault::new(Class::TooLarge, "sequence", why));
        }
        for step in steps {
            self.count()?;
            match step {
                Step::Operation(it) => {
                    let node = self.model.components[it.by].node;
                    self.compute(&it.name, node, it.time, &What::Step(it.name.clone()), at);
                }
                Step::Send(send) => self.send(send, at),
                Step::Ref { sequence, times } => {
                    let model = self.model;
                    for _ in 0..*times {
                        self.steps(&model.sequences[*sequence].steps, at)?;
                    }
                }
                Step::Choice(ways) => {
                    self.fork(
                        ways.iter().map(|(probability, steps)| (*probability, steps)),
                        at,
                        |layer, steps, at| layer.steps(steps, at),
                    )?;
                }
                Step::Protect(protect) => self.parts(&protect.parts, protect, at)?,
            }
        }
        self.deep -= 1;
        Ok(())
    }

    fn count(&mut self) -> Result<(), Fault> {
        self.laid += 1;
        if self.laid <= MAX_STEPS {
            return Ok(());
        }
        let why = format!("more than {MAX_STEPS} steps in all, repetitions included: repeat less");
        Err(Fault::new(Class::TooLarge, "sequence", why))
    }

    /// Work on a node: with the core that is held, or after one was waited for.
    fn compute(&mut self, name: &str, node: usize, time: Duration, what: &What, at: &mut Cursor) {
        let model = self.model;
        let node_of = &model.nodes[node];
        if time.mean <= 0.0 {
            let next = self.builder.place(&format!("{name} done"), 0);
            self.builder.immediate(name, builder::ROUTE, 1.0, &[at.place], &[next]);
            at.place = next;
            return;
        }
        if at.holds != Some(node) {
            self.release(at);
            let runs = self.builder.place(&format!("{name} runs"), 0);
            let free = self.builder.free()[node];
            self.builder.acquire(&node_of.name, at.place, free, runs);
            *at = Cursor { place: runs, holds: Some(node) };
        }
        let time = Duration { mean: time.mean / node_of.speed, ..time };
        at.place = self.builder.time(name, at.place, time, what, Some(&node_of.name));
    }

    /// Gives back the core that is held.
    pub(super) fn release(&mut self, at: &mut Cursor) {
        let Some(node) = at.holds.take() else { return };
        let free = self.builder.free()[node];
        let next = self.builder.place("left", 0);
        self.builder.immediate("leave", builder::ROUTE, 1.0, &[at.place], &[next, free]);
        at.place = next;
    }

    fn send(&mut self, send: &Send, at: &mut Cursor) {
        let bytes = self.model.size(send);
        self.message(&send.name, send.over, bytes, &What::Step(send.name.clone()), at);
    }

    /// A message: the line for its bytes, where it has a rate, then the latency. What takes no time keeps the core.
    fn message(&mut self, name: &str, over: usize, bytes: u64, what: &What, at: &mut Cursor) {
        let model = self.model;
        let connector = &model.connectors[over];
        #[expect(clippy::cast_precision_loss, reason = "bytes of a message")]
        let on_line = connector.bytes_a_second.map_or(0.0, |rate| bytes as f64 / rate);
        if on_line <= 0.0 && connector.latency <= 0.0 {
            let next = self.builder.place(&format!("{name} done"), 0);
            self.builder.immediate(name, builder::ROUTE, 1.0, &[at.place], &[next]);
            at.place = next;
            return;
        }
        self.release(at);
        if let (Some(line), true) = (self.builder.line(over), on_line > 0.0) {
            let runs = self.builder.place(&format!("{name} on line"), 0);
            self.builder.acquire(&connector.name, at.place, line, runs);
            let time = Duration { mean: on_line, cv2: 1.0 };
            let sent = self.builder.time(name, runs, time, what, Some(&connector.name));
            let next = self.builder.place("left", 0);
            self.builder.immediate("leave", builder::ROUTE, 1.0, &[sent], &[next, line]);
            at.place = next;
        }
        if connector.latency > 0.0 {
            let time = Duration { mean: connector.latency, cv2: 1.0 };
            at.place = self.builder.time(name, at.place, time, what, None);
        }
    }

    /// One of several ways. Where they end holding different nodes, they all end holding none.
    fn fork<'b, T: ?Sized + 'b>(
        &mut self,
        ways: impl Iterator<Item = (f64, &'b T)>,
        at: &mut Cursor,
        mut lay: impl FnMut(&mut Self, &'b T, &mut Cursor) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let from = *at;
        let mut ends = Vec::new();
        for (probability, way) in ways {
            if probability <= 0.0 {
                continue;
            }
            let entry = self.builder.place("way", 0);
            self.builder.immediate("choose", builder::ROUTE, probability, &[from.place], &[entry]);
            let mut end = Cursor { place: entry, ..from };
            lay(self, way, &mut end)?;
            ends.push(end);
        }
        let Some(first) = ends.first() else { return Ok(()) };
        let holds = if ends.iter().all(|end| end.holds == first.holds) { first.holds } else { None };
        let exit = self.builder.place("joined", 0);
        for mut end in ends {
            if end.holds != holds {
                self.release(&mut end);
            }
            self.builder.immediate("join", builder::ROUTE, 1.0, &[end.place], &[exit]);
        }
        *at = Cursor { place: exit, holds };
        Ok(())
    }

    fn parts(&mut self, parts: &[Part], protect: &Protect, at: &mut Cursor) -> Result<(), Fault> {
        let what = match protect.phase {
            Some(phase) => What::Phase(protect.annotation, phase),
            None => What::Security(protect.annotation, protect.mechanism),
        };
        for part in parts {
            self.count()?;
            match part {
                Part::Work { name, by, work } => {
                    let node = self.node(*by, work, protect);
                    let time = self.price(node, work)?;
                    self.compute(name, node, time, &what, at);
                    self.builder.pay(None, 0.0);
                }
                Part::Message { name, bytes, .. } => {
                    // Without a connector both ends are one component, and nothing is sent.
                    if let Some((over, _)) = protect.over {
                        self.message(name, over, *bytes, &what, at);
                    }
                }
                Part::Either { probability, then, otherwise, .. } => {
                    let ways = [(*probability, then), (1.0 - *probability, otherwise)];
                    self.fork(ways.into_iter(), at, |layer, parts, at| layer.parts(parts, protect, at))?;
                }
                Part::Use { parts, .. } => self.parts(parts, protect, at)?,
                Part::Check { name, passes } => self.check(name, *passes, at),
            }
        }
        Ok(())
    }

    /// Whose core a step needs.
    fn node(&self, by: Role, work: &Work, protect: &Protect) -> usize {
        let (component, engine) = match by {
            Role::Own => (protect.own, protect.engine),
            Role::Peer => (protect.peer, protect.peer_engine),
        };
        let own = self.model.components[component].node;
        if work.private { engine.unwrap_or(own) } else { own }
    }

    /// How long a step of a mechanism lasts on a node of speed 1; it is paid by its price from here on.
    fn price(&mut self, node: usize, work: &Work) -> Result<Duration, Fault> {
        let nothing = Duration { mean: 0.0, cv2: 1.0 };
        let Some(operation) = &work.operation else { return Ok(nothing) };
        let model = self.model;
        let node = &model.nodes[node];
        let price = node.platform.as_ref().and_then(|platform| model.prices.get(platform)?.get(operation));
        match price {
            #[expect(clippy::cast_precision_loss, reason = "bytes and counts of a message")]
            Some(price @ Price { each, per_byte, cv2, .. }) => {
                let times = work.times as f64;
                self.builder.pay(Some((node.platform.as_deref().unwrap_or(""), operation, *price)), times);
                let mean = each * times + per_byte * work.bytes as f64;
                // Independent repetitions vary less than one.
                Ok(Duration { mean, cv2: cv2 / times.max(1.0) })
            }
            None if !work.needed => Ok(nothing),
            None => {
                let of = node.platform.as_deref().unwrap_or(&node.name);
                let why = if node.platform.is_some() {
                    format!(
                        "`{operation}` has no price on the platform `{of}`: measure it, and write `[price.{of}.\"{operation}\"]`"
                    )
                } else {
                    format!("`{operation}` runs on the node `{of}`, which has no platform, and so no prices")
                };
                Err(Fault::new(Class::NoPrice, operation.clone(), why))
            }
        }
    }

    /// The request is aborted unless a check passes.
    fn check(&mut self, name: &str, passes: f64, at: &mut Cursor) {
        if passes >= 1.0 {
            return;
        }
        self.aborts = true;
        let mut lost = Cursor { place: self.builder.place(&format!("{name}: no"), 0), holds: at.holds };
        self.builder.immediate(&format!("{name}: no"), builder::ROUTE, 1.0 - passes, &[at.place], &[lost.place]);
        self.release(&mut lost);
        self.builder.immediate("abort", builder::ROUTE, 1.0, &[lost.place], &[self.abort]);
        if passes > 0.0 {
            let next = self.builder.place(name, 0);
            self.builder.immediate(name, builder::ROUTE, passes, &[at.place], &[next]);
            at.place = next;
        } else {
            // Nothing goes on from here: what follows has a place that is never reached.
            at.place = self.builder.place(name, 0);
        }
    }
}
