//! Places and transitions with names of their own, if they have any.

use std::fmt::Display;

use gspn::ask::{Ask, Question};
use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition};
use hashbrown::HashMap;
use serde_json::{Map, Value, json};

use super::parallel::Around;
use super::{Paid, Stage, What};
use crate::model::{Duration, Model, Price};

/// Steps without time and decisions fire first,
pub(super) const ROUTE: u32 = 5;
/// then requests get threads,
pub(super) const BEGIN: u32 = 4;
/// then cores, lines and units of pools;
pub(super) const ACQUIRE: u32 = 3;
/// who gets none of a pool then gives his core to others;
pub(super) const YIELD: u32 = 2;
/// and who has an answer and does not think asks again last of all, when others have had what he gave back.
pub(super) const AGAIN: u32 = 1;

/// A variation below this has more stages in a row than a net should.
const MIN_CV2: f64 = 0.01;

pub(super) struct Builder {
    places: Vec<Place>,
    transitions: Vec<Transition>,
    stages: Vec<Stage>,
    /// Those that were given, and how often; none where there are no names.
    names: Option<HashMap<String, u32>>,
    /// What comes next is about: a step of the application, or what an annotation is on. Names say it, so that another setting changes only
    /// its own.
    about: Option<String>,
    free: Vec<usize>,
    lines: Vec<Option<usize>>,
    /// Of each pool its place, if requests may wait for it.
    pools: Vec<Option<usize>>,
    /// What a request holds here of pools, by their indices.
    holding: Vec<(usize, u32)>,
    /// Whether what comes next is done beside other things of the same request, and of how many alike it is the first.
    beside: bool,
    copies: u32,
    /// What is paid for the time that comes next: its index in `prices`, and joules of it.
    paid: Option<(usize, f64)>,
    prices: Vec<Paid>,
    /// What takes of each resource.
    takes: HashMap<usize, Vec<usize>>,
}

impl Builder {
    pub(super) fn new(model: &Model, named: bool) -> Self {
        let mut builder = Self {
            places: Vec::new(),
            transitions: Vec::new(),
            stages: Vec::new(),
            names: named.then(HashMap::new),
            about: None,
            free: Vec::new(),
            lines: Vec::new(),
            pools: Vec::new(),
            holding: Vec::new(),
            beside: false,
            copies: 1,
            paid: None,
            prices: Vec::new(),
            takes: HashMap::new(),
        };
        for node in &model.nodes {
            let place = builder.place(format_args!("free {}", node.name), u64::from(node.all_cores()));
            builder.free.push(place);
        }
        for connector in &model.connectors {
            let line = connector.bytes_a_second.map(|_| builder.place(format_args!("line {}", connector.name), 1));
            builder.lines.push(line);
        }
        let requests = model.at_once();
        for pool in &model.pools {
            let short = pool.is_short(requests);
            let place = short.then(|| builder.place(format_args!("pool {}", pool.name), u64::from(pool.size)));
            builder.pools.push(place);
        }
        builder
    }

    pub(super) fn free(&self) -> &[usize] {
        &self.free
    }

    pub(super) fn lines(&self) -> Vec<usize> {
        self.lines.iter().flatten().copied().collect()
    }

    pub(super) fn line(&self, connector: usize) -> Option<usize> {
        self.lines[connector]
    }

    pub(super) fn pools(&self) -> &[Option<usize>] {
        &self.pools
    }

    /// From here on the request holds so much more or less of a pool.
    pub(super) fn hold(&mut self, pool: usize, change: impl FnOnce(u32) -> u32) {
        let before = self.holding.iter().position(|(of, _)| *of == pool).map(|at| self.holding.swap_remove(at).1);
        let now = change(before.unwrap_or(0));
        if now > 0 {
            self.holding.push((pool, now));
        }
    }

    pub(super) fn set_holding(&mut self, holding: Vec<(usize, u32)>) {
        self.holding = holding;
    }

    pub(super) fn holding(&self) -> &[(usize, u32)] {
        &self.holding
    }

    /// What comes next is about this; given back is what it was about.
    pub(super) fn set_about(&mut self, about: impl FnOnce() -> Option<String>) -> Option<String> {
        let about = self.names.as_ref().and_then(|_| about());
        std::mem::replace(&mut self.about, about)
    }

    /// Whether what comes next is done beside other things; given back is what it was.
    pub(super) fn set_beside(&mut self, beside: bool) -> bool {
        std::mem::replace(&mut self.beside, beside)
    }

    /// What comes next stands for so many alike; given back is how many that was.
    pub(super) fn set_copies(&mut self, copies: u32) -> u32 {
        std::mem::replace(&mut self.copies, copies)
    }

    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    pub(super) fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Only the first stages: what came later is as they are.
    pub(super) fn keep_stages(&mut self, many: usize) {
        self.stages.truncate(many);
    }

    pub(super) fn place(&mut self, name: impl Display, tokens: u64) -> usize {
        let name = self.unique(name);
        self.places.push(Place { name, tokens });
        self.places.len() - 1
    }

    pub(super) fn immediate(
        &mut self,
        name: impl Display,
        priority: u32,
        weight: f64,
        from: &[usize],
        to: &[usize],
    ) -> usize {
        self.transition(name, Kind::Immediate { weight, priority, by: None }, from, to)
    }

    pub(super) fn timed(
        &mut self,
        name: impl Display,
        rate: f64,
        servers: Servers,
        from: &[usize],
        to: &[usize],
    ) -> usize {
        self.transition(name, Kind::Timed { rate: Rate::Constant(rate), servers }, from, to)
    }

    /// A time spent in `from`, after which the request is in the place given back. Several requests may be there at once.
    pub(super) fn time(&mut self, name: &str, from: usize, time: Duration, what: &What, on: Option<usize>) -> usize {
        let done = self.place(format_args!("{name} done"), 0);
        let (paid, watts) = self.paid.map_or((None, 0.0), |(paid, joules)| (Some(paid), joules / time.mean));
        let stage = |builder: &mut Self, place, to, mean: f64| {
            builder.stages.push(Stage { on, mean, paid, watts, ..builder.waiting(what.clone(), place) });
            builder.timed(name, 1.0 / mean, Servers::Infinite, &[place], &[to]);
        };
        if (time.cv2 - 1.0).abs() < 1e-9 {
            stage(self, from, done, time.mean);
        } else if time.cv2 > 1.0 {
            // Two exponential times with balanced means: p/r1 = (1-p)/r2.
            let share = 0.5 * (1.0 + ((time.cv2 - 1.0) / (time.cv2 + 1.0)).sqrt());
            for share in [share, 1.0 - share] {
                let place = self.place(name, 0);
                self.immediate(name, ROUTE, share, &[from], &[place]);
                stage(self, place, done, time.mean / (2.0 * share));
            }
        } else {
            // k - 1 stages with probability p, else k, of one rate: both moments fit (Tijms).
            let cv2 = time.cv2.max(MIN_CV2);
            let stages = (1.0 / cv2 - 1e-9).ceil().max(2.0);
            let root = (stages * (1.0 + cv2) - stages * stages * cv2).max(0.0).sqrt();
            let fewer = ((stages * cv2 - root) / (1.0 + cv2)).clamp(0.0, 1.0);
            let mean = time.mean / (stages - fewer);
            let mut at = from;
            if fewer > 1e-12 {
                let (long, short) = (self.place(name, 0), self.place(name, 0));
                self.immediate(name, ROUTE, fewer, &[from], &[short]);
                self.immediate(name, ROUTE, 1.0 - fewer, &[from], &[long]);
                stage(self, long, short, mean);
                at = short;
            } else {
                let next = self.place(name, 0);
                stage(self, at, next, mean);
                at = next;
            }
            let mut left = stages - 1.0;
            while left > 1.5 {
                let next = self.place(name, 0);
                stage(self, at, next, mean);
                (at, left) = (next, left - 1.0);
            }
            stage(self, at, done, mean);
        }
        done
    }

    /// The request in `from` waits for `count` tokens of `resource`.
    pub(super) fn acquire(&mut self, of: &str, from: usize, (resource, count): (usize, u32), to: usize) {
        self.stages.push(self.waiting(What::Waiting(of.to_owned()), from));
        self.take(of, from, (resource, count), to);
    }

    /// A request waits in a place for its branches.
    pub(super) fn wait(&mut self, place: usize, around: &Around) {
        let Around { holds, beside, .. } = around.clone();
        self.stages.push(Stage { holds, beside, ..self.waiting(What::Parallel, place) });
    }

    fn waiting(&self, what: What, place: usize) -> Stage {
        let (beside, copies, holds) = (self.beside, self.copies, self.holding.clone());
        Stage { place, what, on: None, mean: 0.0, paid: None, watts: 0.0, holds, beside, copies }
    }

    /// The request in `from` takes `count` tokens of `resource`, if they are there.
    pub(super) fn take(&mut self, of: &str, from: usize, (resource, count): (usize, u32), to: usize) {
        let kind = Kind::Immediate { weight: 1.0, priority: ACQUIRE, by: Some(from) };
        let index = self.transition(format_args!("take {of}"), kind, &[from, resource], &[to]);
        self.many(index, |it| &mut it.inputs, count);
        self.takes.entry(resource).or_default().push(index);
    }

    /// The request in `from` gives back `count` tokens of `resource`.
    pub(super) fn give(&mut self, from: usize, (resource, count): (usize, u32)) -> usize {
        let next = self.place("left", 0);
        let index = self.immediate("leave", ROUTE, 1.0, &[from], &[next, resource]);
        self.many(index, |it| &mut it.outputs, count);
        next
    }

    /// So many tokens of the resource that a transition takes or gives, which is the last of its places.
    fn many(&mut self, transition: usize, arcs: impl FnOnce(&mut Transition) -> &mut Vec<Arc>, count: u32) {
        let resource = self.transitions.get_mut(transition).and_then(|it| arcs(it).last_mut());
        if let Some(arc) = resource {
            arc.count = u64::from(count);
        }
    }

    /// Where nobody may wait for a pool it changes nothing which of two resources is taken first, and who takes of one alone need not be counted.
    fn alone(&mut self) {
        if self.pools.iter().any(Option::is_some) {
            return;
        }
        for takes in self.takes.values() {
            if let [only] = takes.as_slice()
                && let Some(Kind::Immediate { by, .. }) = self.transitions.get_mut(*only).map(|it| &mut it.kind)
            {
                *by = None;
            }
        }
    }

    fn transition(&mut self, name: impl Display, kind: Kind, from: &[usize], to: &[usize]) -> usize {
        let name = self.unique(name);
        let arcs = |places: &[usize]| places.iter().map(|place| Arc { place: *place, count: 1 }).collect();
        self.transitions.push(Transition { name, kind, inputs: arcs(from), outputs: arcs(to), inhibitors: Vec::new() });
        self.transitions.len() - 1
    }

    /// The name with what it is about, numbered where it was given before; nothing where there are no names.
    fn unique(&mut self, name: impl Display) -> String {
        let Some(names) = &mut self.names else { return String::new() };
        let name = name.to_string();
        let about = self.about.as_deref().filter(|about| !name.starts_with(about));
        let name = about.map_or(name.clone(), |about| format!("{name} ({about})"));
        let Some(mut count) = names.get(&name).copied() else {
            names.insert(name.clone(), 1);
            return name;
        };
        loop {
            count += 1;
            let candidate = format!("{name} #{count}");
            if !names.contains_key(&candidate) {
                names.insert(name, count);
                names.insert(candidate.clone(), 1);
                return candidate;
            }
        }
    }

    /// From here on times are paid by the price of an operation on a platform, so many times; or by none.
    pub(super) fn pay(&mut self, of: Option<(&str, &str, Price)>, times: f64) {
        self.paid = of.map(|(platform, operation, price)| {
            let known = self.prices.iter().position(|it| it.platform == platform && it.operation == operation);
            let index = known.unwrap_or_else(|| {
                let (platform, operation) = (platform.to_owned(), operation.to_owned());
                self.prices.push(Paid { platform, operation, error: price.error });
                self.prices.len() - 1
            });
            (index, price.energy * times)
        });
    }

    pub(super) fn parts(mut self) -> (Vec<Place>, Vec<Transition>, Vec<Stage>, Vec<Paid>) {
        self.alone();
        (self.places, self.transitions, self.stages, self.prices)
    }
}

/// The net as `gspn::json` reads it.
pub(super) fn document(net: &Net, asks: &[Ask]) -> Value {
    let arcs = |arcs: &[Arc]| -> Map<String, Value> {
        arcs.iter().map(|arc| (net.places()[arc.place].name.clone(), json!(arc.count))).collect()
    };
    let places: Vec<Value> = net.places().iter().map(|it| json!({"name": it.name, "tokens": it.tokens})).collect();
    let transitions: Vec<Value> = net
        .transitions()
        .iter()
        .map(|it| {
            let mut members = Map::new();
            members.insert("name".to_owned(), json!(it.name));
            match &it.kind {
                Kind::Timed { rate: Rate::Constant(rate), servers } => {
                    members.insert("kind".to_owned(), json!("timed"));
                    members.insert("rate".to_owned(), json!(rate));
                    let servers = match servers {
                        Servers::Finite(count) => json!(count),
                        Servers::Infinite => json!("inf"),
                    };
                    members.insert("servers".to_owned(), servers);
                }
                Kind::Immediate { weight, priority, by } => {
                    if let Some(by) = by {
                        members.insert("weight_by".to_owned(), json!(net.places()[*by].name));
                    }
                    members.insert("kind".to_owned(), json!("immediate"));
                    members.insert("weight".to_owned(), json!(weight));
                    members.insert("priority".to_owned(), json!(priority));
                }
                // No other kind is laid.
                _ => {}
            }
            members.insert("in".to_owned(), Value::Object(arcs(&it.inputs)));
            members.insert("out".to_owned(), Value::Object(arcs(&it.outputs)));
            Value::Object(members)
        })
        .collect();
    let asks: Vec<Value> = asks.iter().filter_map(|ask| asked(net, ask)).collect();
    json!({"name": net.name(), "net": {"places": places, "transitions": transitions}, "ask": asks})
}

fn asked(net: &Net, ask: &Ask) -> Option<Value> {
    match &ask.question {
        Question::Tangible => Some(json!({"id": ask.id, "kind": "tangible"})),
        Question::MeanTokens { place, .. } => {
            Some(json!({"id": ask.id, "kind": "mean_tokens", "place": net.places()[*place].name}))
        }
        Question::Throughput { transition, .. } => {
            Some(json!({"id": ask.id, "kind": "throughput", "transition": net.transitions()[*transition].name}))
        }
        _ => None,
    }
}
