//! The steps of a sequence, one after the other, with the node that the request holds.

use super::builder::{self, Builder};
use super::parallel::Fragment;
use super::{Form, MAX_STEPS, What};
use crate::mechanism::{Part, Role, Work};
use crate::model::{Duration, Model, Price, Protect, Send, Step, Units};
use crate::{Class, Fault};

/// Sequences and ways inside each other: each takes its part of the stack.
const MAX_DEEP: usize = 500;

/// Where a request is, and the node of which it holds a core.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub(super) place: usize,
    pub(super) holds: Option<usize>,
}

/// Where a request may be between two steps: one place for each node of which it may hold a core, and one for none. It is one place but
/// after a choice whose ways end on different nodes.
pub(super) type Front = Vec<Cursor>;

pub(super) struct Layer<'a> {
    pub(super) model: &'a Model,
    pub(super) builder: Builder,
    /// Where aborted requests go, holding nothing.
    pub(super) abort: usize,
    pub(super) aborts: bool,
    pub(super) laid: usize,
    /// How branches that are done at once are laid, the most requests that are here at once, and what was laid of them.
    pub(super) form: Form,
    pub(super) most: u32,
    pub(super) fragments: Vec<Fragment>,
    /// Sequences and ways that are inside each other here.
    pub(super) deep: usize,
}

impl Layer<'_> {
    pub(super) fn steps(&mut self, steps: &[Step], at: &mut Front) -> Result<(), Fault> {
        self.deep += 1;
        if self.deep > MAX_DEEP {
            let why = format!("sequences refer to each other more than {MAX_DEEP} deep: put some of them into one");
            return Err(Fault::new(Class::TooLarge, "sequence", why));
        }
        let around = self.builder.set_about(|| None);
        for step in steps {
            self.count(at.len())?;
            let model = self.model;
            self.builder.set_about(|| about(model, step));
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
                Step::Par(branches) => self.parallel(branches, at)?,
                Step::Acquire(units) => self.acquire(*units, at),
                Step::Release(units) => self.give_back(*units, at),
                Step::Protect(protect) => self.parts(&protect.parts, protect, at)?,
            }
        }
        self.builder.set_about(|| around);
        self.deep -= 1;
        Ok(())
    }

    /// A step more, laid once for each place of the front.
    fn count(&mut self, front: usize) -> Result<(), Fault> {
        self.laid += front.max(1);
        if self.laid <= MAX_STEPS {
            return Ok(());
        }
        let why = format!(
            "more than {MAX_STEPS} steps in all, repetitions included, and ways that end on many nodes: repeat less"
        );
        Err(Fault::new(Class::TooLarge, "sequence", why))
    }

    /// Work on a node: with the core that is held, or after one was waited for.
    fn compute(&mut self, name: &str, node: usize, time: Duration, what: &What, at: &mut Front) {
        let model = self.model;
        let node_of = &model.nodes[node];
        if time.mean <= 0.0 {
            self.at_once(name, at);
            return;
        }
        let free = self.builder.free()[node];
        let held = at.iter().position(|it| it.holds == Some(node)).map(|held| at.swap_remove(held).place);
        let mut place = held;
        if !at.is_empty() {
            let waits = self.release(at);
            let runs = self.builder.place(format_args!("{name} runs"), 0);
            self.builder.acquire(&node_of.name, waits, (free, 1), runs);
            if let Some(held) = held {
                self.builder.immediate("keep", builder::ROUTE, 1.0, &[held], &[runs]);
            }
            place = Some(runs);
        }
        let Some(place) = place else { return };
        let time = Duration { mean: time.mean / node_of.speed, ..time };
        let place = self.builder.time(name, place, time, what, Some(free));
        *at = vec![Cursor { place, holds: Some(node) }];
    }

    /// A step without time, wherever the request is.
    fn at_once(&mut self, name: &str, at: &mut Front) {
        for it in at {
            let next = self.builder.place(format_args!("{name} done"), 0);
            self.builder.immediate(name, builder::ROUTE, 1.0, &[it.place], &[next]);
            it.place = next;
        }
    }

    /// Gives back the core that is held: the one place in which the request is then.
    pub(super) fn release(&mut self, at: &mut Front) -> usize {
        for it in at.iter_mut() {
            let Some(node) = it.holds.take() else { continue };
            let free = self.builder.free()[node];
            it.place = self.builder.give(it.place, (free, 1));
        }
        let ends = std::mem::take(at);
        let [one] = ends[..] else {
            let place = self.join(&ends);
            at.push(Cursor { place, holds: None });
            return place;
        };
        at.push(one);
        one.place
    }

    /// Units of a pool: who finds them goes on with his core; who does not gives that back, and waits.
    fn acquire(&mut self, units: Units, at: &mut Front) {
        let pool = &self.model.pools[units.of];
        if let Some(free) = self.builder.pools()[units.of] {
            let (mut had, mut waiting) = (Vec::new(), Vec::new());
            for it in std::mem::take(at) {
                let Some(node) = it.holds else {
                    waiting.push(it);
                    continue;
                };
                let place = self.builder.place(format_args!("{} had", pool.name), 0);
                self.builder.take(&pool.name, it.place, (free, units.count), place);
                had.push(Cursor { place, holds: it.holds });
                let left = self.builder.place("left", 0);
                let core = self.builder.free()[node];
                self.builder.immediate("yield", builder::YIELD, 1.0, &[it.place], &[left, core]);
                waiting.push(Cursor { place: left, holds: None });
            }
            let waits = self.release(&mut waiting);
            let place = self.builder.place(format_args!("{} had", pool.name), 0);
            self.builder.acquire(&pool.name, waits, (free, units.count), place);
            had.push(Cursor { place, holds: None });
            *at = had;
        }
        self.builder.hold(units.of, |held| held.saturating_add(units.count));
    }

    fn give_back(&mut self, units: Units, at: &mut Front) {
        self.builder.hold(units.of, |held| held.saturating_sub(units.count));
        if let Some(free) = self.builder.pools()[units.of] {
            for it in at {
                it.place = self.builder.give(it.place, (free, units.count));
            }
        }
    }

    /// One place for several.
    fn join(&mut self, ends: &[Cursor]) -> usize {
        let place = self.builder.place("joined", 0);
        for end in ends {
            self.builder.immediate("join", builder::ROUTE, 1.0, &[end.place], &[place]);
        }
        place
    }

    fn send(&mut self, send: &Send, at: &mut Front) {
        let bytes = self.model.size(send);
        self.message(&send.name, send.over, bytes, true, &What::Step(send.name.clone()), at);
    }

    /// A message: the line for its bytes, where it has a rate, then the latency if somebody waits for it. What takes no time keeps the core.
    fn message(&mut self, name: &str, over: usize, bytes: u64, awaited: bool, what: &What, at: &mut Front) {
        let model = self.model;
        let connector = &model.connectors[over];
        #[expect(clippy::cast_precision_loss, reason = "bytes of a message")]
        let on_line = connector.bytes_a_second.map_or(0.0, |rate| bytes as f64 / rate);
        let latency = if awaited { connector.latency } else { 0.0 };
        if on_line <= 0.0 && latency <= 0.0 {
            self.at_once(name, at);
            return;
        }
        let mut place = self.release(at);
        if let (Some(line), true) = (self.builder.line(over), on_line > 0.0) {
            let runs = self.builder.place(format_args!("{name} on line"), 0);
            self.builder.acquire(&connector.name, place, (line, 1), runs);
            let time = Duration { mean: on_line, cv2: 1.0 };
            let sent = self.builder.time(name, runs, time, what, Some(line));
            place = self.builder.give(sent, (line, 1));
        }
        if latency > 0.0 {
            let time = Duration { mean: latency, cv2: 1.0 };
            place = self.builder.time(name, place, time, what, None);
        }
        *at = vec![Cursor { place, holds: None }];
    }

    /// One of several ways. Where they end on different nodes, each keeps what it holds until something is done that takes time.
    fn fork<'b, T: ?Sized + 'b>(
        &mut self,
        ways: impl Iterator<Item = (f64, &'b T)>,
        at: &mut Front,
        mut lay: impl FnMut(&mut Self, &'b T, &mut Front) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let from = std::mem::take(at);
        let mut ends: Front = Vec::new();
        let holding = self.builder.holding().to_vec();
        for (probability, way) in ways {
            if probability <= 0.0 {
                continue;
            }
            self.count(from.len())?;
            let mut end = Vec::with_capacity(from.len());
            for it in &from {
                let place = self.builder.place("way", 0);
                self.builder.immediate("choose", builder::ROUTE, probability, &[it.place], &[place]);
                end.push(Cursor { place, holds: it.holds });
            }
            // All ways end with as much as each other.
            self.builder.set_holding(holding.clone());
            lay(self, way, &mut end)?;
            ends.append(&mut end);
        }
        if ends.is_empty() {
            *at = from;
            return Ok(());
        }
        while let Some(first) = ends.first().map(|it| it.holds) {
            let (same, others): (Front, Front) = ends.into_iter().partition(|it| it.holds == first);
            let place = self.join(&same);
            at.push(Cursor { place, holds: first });
            ends = others;
        }
        Ok(())
    }

    fn parts(&mut self, parts: &[Part], protect: &Protect, at: &mut Front) -> Result<(), Fault> {
        let what = match protect.phase {
            Some(phase) => What::Phase(protect.annotation, phase),
            None => What::Security(protect.annotation, protect.mechanism),
        };
        for part in parts {
            self.count(at.len())?;
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
                        self.message(name, over, *bytes, true, &what, at);
                    }
                }
                Part::Unawaited { name, bytes, .. } => {
                    if let Some((over, _)) = protect.over {
                        self.message(name, over, *bytes, false, &what, at);
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
                if mean <= 0.0 && price.energy * times > 0.0 {
                    let why = "it takes energy and no time here: give its price an `each`";
                    return Err(Fault::new(Class::Invalid, operation.clone(), why));
                }
                if mean <= 0.0 && *per_byte > 0.0 && work.needed && work.bytes == 0 {
                    let why = "it has a price by the kB alone, or an `each` of 0, and works on no bytes here: give its price an `each` above 0";
                    return Err(Fault::new(Class::NoPrice, operation.clone(), why));
                }
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
    pub(super) fn check(&mut self, name: &str, passes: f64, at: &mut Front) {
        if passes >= 1.0 {
            return;
        }
        for it in at {
            let lost = self.builder.place(format_args!("{name}: no"), 0);
            self.builder.immediate(format_args!("{name}: no"), builder::ROUTE, 1.0 - passes, &[it.place], &[lost]);
            self.abort_from(Cursor { place: lost, holds: it.holds });
            // Where nothing goes on from here, what follows has a place that is never reached.
            let next = self.builder.place(name, 0);
            if passes > 0.0 {
                self.builder.immediate(name, builder::ROUTE, passes, &[it.place], &[next]);
            }
            it.place = next;
        }
    }

    /// A request that is here gives back all that it holds, and is aborted.
    pub(super) fn abort_from(&mut self, at: Cursor) {
        self.aborts = true;
        let mut lost = self.release(&mut vec![at]);
        for (pool, count) in self.builder.holding().to_vec() {
            if let Some(free) = self.builder.pools()[pool] {
                lost = self.builder.give(lost, (free, count));
            }
        }
        self.builder.immediate("abort", builder::ROUTE, 1.0, &[lost], &[self.abort]);
    }
}

/// What the names of a step are about; what holds other steps is about nothing.
fn about(model: &Model, step: &Step) -> Option<String> {
    match step {
        Step::Operation(it) => Some(it.name.clone()),
        Step::Send(it) => Some(it.name.clone()),
        Step::Acquire(units) | Step::Release(units) => Some(model.pools[units.of].name.clone()),
        Step::Protect(it) => Some(model.target(&model.annotations[it.annotation])),
        // Whether something is reused, as weaving puts it there: nothing but mechanisms.
        Step::Choice(ways) => {
            let mut steps = ways.iter().flat_map(|(_, steps)| steps);
            let is_woven = |step: &Step| matches!(step, Step::Protect(_) | Step::Choice(_));
            let first = steps.clone().next().filter(|_| steps.all(is_woven));
            first.and_then(|first| about(model, first))
        }
        Step::Ref { .. } | Step::Par(_) => None,
    }
}
