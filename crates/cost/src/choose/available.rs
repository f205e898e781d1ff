//! Machines fail and are repaired: how often enough of them are up, by the net of their failures; and what is left when one is down.

use std::collections::BTreeMap;

use gspn::Budget;
use gspn::ask::{self, Ask, Compare, Condition, Question, Value};
use gspn::net::{Arc, Kind, Place, Rate, Servers, Transition};
use serde::Serialize;

use super::{Ends, Failure};
use crate::model::Model;
use crate::{Class, Fault};

/// What a setting does while one machine of a node is down.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Down {
    /// The node.
    pub node: String,
    /// Machines that are left.
    pub left: u32,
    /// Whether too few are left to go on.
    pub stops: bool,
    /// Requests a second that can then be carried, those that are aborted included.
    pub carried: f64,
    /// Those of them that come to their end.
    pub saturation: f64,
    /// 99 % of the requests are then faster, if that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// Mean time then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Half of the 95 % interval of each figure then, as of the setting itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plus_minus: BTreeMap<&'static str, f64>,
    /// Both ends of that interval, as of the setting itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<&'static str, Ends>,
    /// Constraints of time, rate and load that it then fails.
    pub fails: Vec<Failure>,
    /// Those that it then meets, but fails at the far end of an interval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<String>,
    /// Why it has no figures (they are no numbers, `null` in JSON), if the solver has no answer within its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsolved: Option<String>,
}

/// The net of failures: a place for the machines of each node that are up, one for those that are down.
pub(super) fn net(model: &Model) -> Result<(gspn::Net, Vec<(usize, u32)>), Fault> {
    let (mut places, mut transitions, mut up_places) = (Vec::new(), Vec::new(), Vec::new());
    for node in &model.nodes {
        let Some(failures) = node.machines.failures else { continue };
        let up = places.len();
        let tokens = u64::from(node.machines.count());
        places.push(Place { name: format!("{} up", node.name), tokens });
        places.push(Place { name: format!("{} down", node.name), tokens: 0 });
        let mut put = |name: String, mean: f64, servers, from, to| {
            let arcs = |place| vec![Arc { place, count: 1 }];
            let kind = Kind::Timed { rate: Rate::Constant(1.0 / mean), servers };
            let (inputs, outputs) = (arcs(from), arcs(to));
            transitions.push(Transition { name, kind, inputs, outputs, inhibitors: Vec::new() });
        };
        put(format!("{} fails", node.name), failures.every, Servers::Infinite, up, up + 1);
        let crews = Servers::Finite(u64::from(failures.crews));
        put(format!("{} is repaired", node.name), failures.repair, crews, up + 1, up);
        up_places.push((up, node.machines.needed));
    }
    Ok((gspn::net::build("failures", places, transitions)?, up_places))
}

/// The share of time in which each node has as many machines up as it needs; none where no machine fails.
pub(super) fn availability(model: &Model, budget: &mut Budget<'_>) -> Result<Option<f64>, Fault> {
    if model.nodes.iter().all(|node| node.machines.failures.is_none()) {
        return Ok(None);
    }
    let (net, up) = net(model)?;
    let terms = up.into_iter().map(|(place, needed)| (place, Compare::GreaterOrEqual, u64::from(needed)));
    let question = Question::Probability { condition: Condition { terms: terms.collect() }, at: None };
    let answer = ask::answer(&net, &[Ask { id: "up".to_owned(), question }], budget)?;
    match (answer.values.get("up"), answer.unanswered.get("up")) {
        (Some(Value::Number(share)), _) => Ok(Some(*share)),
        (_, Some(refusal)) => {
            budget.look(gspn::Progress::Answering { done: 0 })?;
            Err(Fault::new(Class::Unanswered, "availability", refusal.why.clone()))
        }
        _ => Err(Fault::new(Class::Unanswered, "availability", "it has no value")),
    }
}

/// For each node that may lose one, for it fails or may have several machines: its index, and the `model` of one setting with one machine
/// fewer, if enough are left. `whole` has all settings.
pub(super) fn one_down(model: &Model, whole: &Model) -> Vec<(usize, Option<Model>)> {
    let may_fail = |it: &crate::plant::Machines| it.failures.is_some() || it.counts.iter().any(|count| *count > 1);
    let nodes = model.nodes.iter().zip(&whole.nodes).enumerate();
    nodes
        .filter(|(_, (_, whole))| may_fail(&whole.machines))
        .map(|(index, (node, _))| {
            let left = node.machines.count() - 1;
            let fewer = (left >= node.machines.needed).then(|| {
                let mut fewer = model.clone();
                fewer.nodes[index].machines.counts = vec![left];
                fewer
            });
            (index, fewer)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Language, read};
    use gspn::Limits;

    fn of(nodes: &str) -> f64 {
        let text = format!(
            "[workload]\nclients = 1\n{nodes}\n[component.c]\nnode = \"n\"\n[[sequence.main]]\ndo = \"a\"\nby = \"c\"\ntime = \"1 s\"\n"
        );
        let model = read(&text, Language::Toml).unwrap();
        let mut go_on = |_| true;
        availability(&model, &mut Budget::new(Limits::default(), &mut go_on)).unwrap().unwrap()
    }

    /// With a crew for each, machines are up independently; with one crew they wait for it: Erlang's and Palm's formulas.
    #[test]
    fn the_net_of_failures_gives_the_closed_forms() {
        let (fail, repair) = (1.0 / 2000.0, 1.0 / 8.0);
        let up: f64 = repair / (fail + repair);
        let said = "fails = \"2000 h\"\nrepair = \"8 h\"";
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-13, "{got} {wanted}");
        near(of(&format!("[node.n]\n{said}")), up);
        let three = 1.0 - (1.0 - up).powi(3) - 3.0 * up * (1.0 - up).powi(2);
        near(of(&format!("[node.n]\nmachines = 3\nneeded = 2\ncrews = 3\n{said}")), three);
        // k of 3 are down with a weight of 3!/(3-k)! (fail/repair)^k.
        let ratio = fail / repair;
        let weights = [1.0, 3.0 * ratio, 6.0 * ratio * ratio, 6.0 * ratio.powi(3)];
        let sum: f64 = weights.iter().sum();
        near(of(&format!("[node.n]\nmachines = 3\nneeded = 2\n{said}")), (weights[0] + weights[1]) / sum);
        near(
            of(&format!("[node.n]\n{said}\n[node.m]\nmachines = 2\ncrews = 2\n{said}")),
            up * (1.0 - (1.0 - up).powi(2)),
        );
    }
}
