//! A net as flows: tokens are quantities, and each transition moves them at the rate that its tokens allow.

use crate::net::{Kind, Net, Rate, Servers, Transition};
use crate::product::{Held, without_servers};
use crate::{Class, Refusal};

/// Places and transitions up to which equations are made.
const LARGEST: usize = 400;

/// How much of each place, or how often each transition.
type Amounts = Vec<(usize, f64)>;

/// A timed transition.
#[derive(Debug)]
struct Pump {
    transition: usize,
    rate: f64,
    servers: f64,
    /// Place and multiplicity.
    inputs: Vec<(usize, f64)>,
    /// What one firing, and the immediates behind it, change: place and tokens.
    effect: Vec<(usize, f64)>,
    /// How often each immediate fires behind one firing.
    behind: Vec<(usize, f64)>,
}

/// The equations of a net.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) start: Vec<f64>,
    pumps: Vec<Pump>,
    /// For each place, whether it belongs to a queue with tokens as servers: they are no flow, and what they serve is one.
    held: Vec<Option<Held>>,
}

#[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

impl Flow {
    /// # Errors
    /// [`Class::Unsupported`], naming a transition that is no flow; [`Class::TooLarge`] for a net of many nodes.
    pub(super) fn new(net: &Net) -> Result<Self, Refusal> {
        if net.places().len() > LARGEST || net.transitions().len() > LARGEST {
            let why = format!("more than {LARGEST} places or transitions make equations that take too long");
            let which = if net.places().len() > LARGEST { "places" } else { "transitions" };
            return Err(Refusal::new(Class::TooLarge, which, why));
        }
        let (apart, held) = without_servers(net).unzip();
        let (net, held) = (apart.as_ref().unwrap_or(net), held.unwrap_or_else(|| vec![None; net.places().len()]));
        let routes = Routes::new(net)?;
        let mut start = vec![0.0; net.places().len()];
        for (place, it) in net.places().iter().enumerate() {
            for (to, tokens) in routes.from(net, vec![(place, float(it.tokens))]).0 {
                start[to] += tokens;
            }
        }
        let mut pumps = Vec::new();
        for (transition, it) in net.transitions().iter().enumerate() {
            let (rate, servers) = match &it.kind {
                Kind::Immediate { .. } => continue,
                Kind::Timed { rate: Rate::Constant(rate), servers } if it.inhibitors.is_empty() => (*rate, *servers),
                _ => return Err(no_flow(it)),
            };
            let servers = if let Servers::Finite(servers) = servers { float(servers) } else { f64::INFINITY };
            let inputs: Vec<(usize, f64)> = it.inputs.iter().map(|arc| (arc.place, float(arc.count))).collect();
            let outputs = it.outputs.iter().map(|arc| (arc.place, float(arc.count))).collect();
            let (mut effect, behind) = routes.from(net, outputs);
            effect.extend(inputs.iter().map(|(place, count)| (*place, -count)));
            pumps.push(Pump { transition, rate, servers, inputs, effect: merged(effect), behind });
        }
        Ok(Self { start, pumps, held })
    }

    /// Firings per time unit of one transition, and the place and the slope that it depends on just now.
    fn speed(pump: &Pump, marking: &[f64]) -> (f64, Option<(usize, f64)>) {
        let mut least = (pump.servers, None);
        for (place, count) in &pump.inputs {
            let degree = marking[*place].max(0.0) / count;
            if degree < least.0 {
                least = (degree, Some((*place, pump.rate / count)));
            }
        }
        (pump.rate * least.0, least.1)
    }

    /// How the marking changes per time unit.
    pub(super) fn change(&self, marking: &[f64]) -> Vec<f64> {
        let mut change = vec![0.0; marking.len()];
        for pump in &self.pumps {
            let (speed, _) = Self::speed(pump, marking);
            pump.effect.iter().for_each(|(place, by)| change[*place] += by * speed);
        }
        change
    }

    /// How the change of each place depends on each: rows of places.
    pub(super) fn slopes(&self, marking: &[f64]) -> Vec<Vec<f64>> {
        let mut slopes = vec![vec![0.0; marking.len()]; marking.len()];
        for pump in &self.pumps {
            if let (_, Some((of, slope))) = Self::speed(pump, marking) {
                pump.effect.iter().for_each(|(place, by)| slopes[*place][of] += by * slope);
            }
        }
        slopes
    }

    /// Tokens of a place.
    pub(super) fn tokens(&self, place: usize, marking: &[f64]) -> f64 {
        match &self.held[place] {
            Some(held) => held.quantity(marking[held.station].max(0.0)),
            None => marking[place].max(0.0),
        }
    }

    /// Firings per time unit of a transition, an immediate one too.
    pub(super) fn throughput(&self, transition: usize, marking: &[f64]) -> f64 {
        let part = |pump: &Pump| {
            let own = if pump.transition == transition { 1.0 } else { 0.0 };
            let behind: f64 = pump.behind.iter().filter(|(it, _)| *it == transition).map(|(_, times)| times).sum();
            own + behind
        };
        self.pumps.iter().map(|pump| part(pump) * Self::speed(pump, marking).0).sum()
    }
}

fn no_flow(it: &Transition) -> Refusal {
    let why = "is no flow: only constant rates without inhibitors are, and immediates that take one token of a place that is only theirs, and with it \
               one that is a server of theirs alone";
    Refusal::new(Class::Unsupported, &it.name, why)
}

/// Where tokens go that immediates take.
struct Routes {
    /// For each place its immediates with their parts.
    ways: Vec<Vec<(usize, f64)>>,
    /// Places with immediates, each before those it leads to.
    order: Vec<usize>,
}

impl Routes {
    fn new(net: &Net) -> Result<Self, Refusal> {
        let mut ways: Vec<Vec<(usize, f64, u32)>> = vec![Vec::new(); net.places().len()];
        for (index, it) in net.transitions().iter().enumerate() {
            if let Kind::Immediate { weight, priority, .. } = it.kind {
                match (it.inputs.as_slice(), it.inhibitors.as_slice()) {
                    ([arc], []) if arc.count == 1 => ways[arc.place].push((index, weight, priority)),
                    _ => return Err(no_flow(it)),
                }
            }
        }
        // Weights times the tokens of the one place that they are taken from share them as the weights alone do, where all are such.
        let by = |index: usize| matches!(net.transitions()[index].kind, Kind::Immediate { by: Some(_), .. });
        let mixed = ways.iter().flat_map(|ways| ways.windows(2)).find(|pair| by(pair[0].0) != by(pair[1].0));
        if let Some([(one, ..), (other, ..)]) = mixed {
            return Err(no_flow(&net.transitions()[if by(*one) { *one } else { *other }]));
        }
        let ways: Vec<Vec<(usize, f64)>> = ways
            .into_iter()
            .map(|ways| {
                let urgent = ways.iter().map(|(_, _, priority)| *priority).max();
                let first: Vec<_> = ways.into_iter().filter(|(_, _, priority)| Some(*priority) == urgent).collect();
                let sum: f64 = first.iter().map(|(_, weight, _)| weight).sum();
                first.into_iter().map(|(index, weight, _)| (index, weight / sum)).collect()
            })
            .collect();
        for it in net.transitions().iter().filter(|it| !matches!(it.kind, Kind::Immediate { .. })) {
            if it.inputs.iter().any(|arc| !ways[arc.place].is_empty()) {
                return Err(no_flow(it));
            }
        }
        let mut waits = vec![0_usize; ways.len()];
        let to = |ways: &[(usize, f64)]| -> Vec<usize> {
            ways.iter().flat_map(|(index, _)| &net.transitions()[*index].outputs).map(|arc| arc.place).collect()
        };
        ways.iter().flat_map(|ways| to(ways)).for_each(|place| waits[place] += 1);
        let mut order = Vec::new();
        let mut ready: Vec<usize> =
            (0..ways.len()).filter(|place| waits[*place] == 0 && !ways[*place].is_empty()).collect();
        while let Some(place) = ready.pop() {
            order.push(place);
            for next in to(&ways[place]) {
                waits[next] -= 1;
                if waits[next] == 0 && !ways[next].is_empty() {
                    ready.push(next);
                }
            }
        }
        let stuck = (0..ways.len()).find(|place| !ways[*place].is_empty() && !order.contains(place));
        match stuck {
            Some(place) => Err(no_flow(&net.transitions()[ways[place][0].0])),
            None => Ok(Self { ways, order }),
        }
    }

    /// Where tokens end when immediates have fired, and how often each did.
    fn from(&self, net: &Net, tokens: Amounts) -> (Amounts, Amounts) {
        let mut all = vec![0.0; net.places().len()];
        tokens.into_iter().for_each(|(place, count)| all[place] += count);
        let mut fired = Vec::new();
        for place in &self.order {
            let here = std::mem::take(&mut all[*place]);
            if here == 0.0 {
                continue;
            }
            for (index, part) in &self.ways[*place] {
                fired.push((*index, here * part));
                for arc in &net.transitions()[*index].outputs {
                    all[arc.place] += here * part * float(arc.count);
                }
            }
        }
        let ends = all.into_iter().enumerate().filter(|(_, count)| *count != 0.0);
        (ends.collect(), fired)
    }
}

fn merged(mut effect: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    effect.sort_by_key(|(place, _)| *place);
    effect.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 += later.1;
        }
        same
    });
    effect.retain(|(_, by)| *by != 0.0);
    effect
}
