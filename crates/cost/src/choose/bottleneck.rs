//! What limits a setting, what of it takes the most, and what less of that would bring.

use serde::Serialize;

use super::service::Service;
use super::short;
use crate::model::Model;
use crate::net::What;

/// What a setting saturates first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The node whose cores are all busy first, the connector whose line is, or `threads`.
    pub resource: String,
    /// How busy it is under the load, 0 to 1.
    pub utilisation: f64,
    /// What of it takes the most.
    pub what: String,
    /// The share of its time that this takes, 0 to 1. So much (in %) more can be carried when that takes 1 % less: the elasticity.
    pub share: f64,
    /// Requests a second that could be carried if that took no time: nothing that is done about it brings more.
    pub bound: f64,
    /// What would saturate then.
    pub then: String,
    /// The annotation that asks for it, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotation: Option<usize>,
    /// The setting that differs in this annotation only, is protected as demanded, and carries the most, if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<usize>,
}

/// What is used up by requests: a node by its index, the line of a connector by its index among those that take time, or the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Node(usize),
    Line(usize),
    Threads,
}

/// Connectors whose bytes take time.
fn lines(model: &Model) -> impl Iterator<Item = &str> {
    model.connectors.iter().filter(|it| it.bytes_a_second.is_some()).map(|it| it.name.as_str())
}

impl Resource {
    fn name(self, model: &Model) -> String {
        match self {
            Self::Node(node) => model.nodes[node].name.clone(),
            Self::Line(line) => lines(model).nth(line).unwrap_or_default().to_owned(),
            Self::Threads => "threads".to_owned(),
        }
    }

    /// Where a service says what of it a request takes.
    fn index(self, model: &Model) -> Option<usize> {
        match self {
            Self::Node(node) => Some(node),
            Self::Line(line) => Some(model.nodes.len() + line),
            Self::Threads => None,
        }
    }
}

/// How many requests each resource can carry, aborted ones included.
pub(super) fn limits(model: &Model, service: &Service, one: bool) -> Vec<(Resource, f64)> {
    let nodes = model.nodes.iter().enumerate();
    let mut limits: Vec<_> =
        nodes.map(|(node, it)| (Resource::Node(node), f64::from(it.all_cores()) / service.cores(node))).collect();
    let nodes = model.nodes.len();
    limits.extend(lines(model).enumerate().map(|(line, _)| (Resource::Line(line), 1.0 / service.cores(nodes + line))));
    limits.retain(|(_, limit)| limit.is_finite());
    let threads = if one { Some(1) } else { model.threads() };
    limits.extend(threads.map(|threads| (Resource::Threads, f64::from(threads) / service.mean())));
    limits
}

/// What limits a setting of which `rate` requests leave a second.
pub(super) fn of(model: &Model, service: &Service, one: bool, rate: f64) -> Option<Bottleneck> {
    let limits = limits(model, service, one);
    let (resource, carried) = limits.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let node = resource.index(model);
    let (what, seconds, cores) = service.largest(node)?;
    let share = match node {
        Some(node) => cores[node] / service.cores(node),
        None => seconds / service.mean(),
    };
    // Without it each resource has less to do.
    let without = limits.iter().map(|(resource, limit)| {
        let left = match resource.index(model) {
            Some(node) => 1.0 - cores[node] / service.cores(node),
            None => 1.0 - seconds / service.mean(),
        };
        (*resource, limit / left.max(1e-12))
    });
    let (then, bound) = without.min_by(|one, other| one.1.total_cmp(&other.1))?;
    let (what, annotation) = match what {
        What::Step(name) | What::Waiting(name) => (format!("`{name}`"), None),
        What::Security(annotation, mechanism) => {
            (format!("{} ({})", mechanism.word(), crate::solve::about(model, *annotation)), Some(*annotation))
        }
        What::Phase(annotation, phase) => {
            (format!("{phase} ({})", crate::solve::about(model, *annotation)), Some(*annotation))
        }
    };
    Some(Bottleneck {
        resource: resource.name(model),
        utilisation: (rate / carried).clamp(0.0, 1.0),
        what,
        share,
        bound: bound * service.finished,
        then: then.name(model),
        annotation,
        instead: None,
    })
}

impl Bottleneck {
    /// As a sentence; `instead` is the other setting in words, and what it carries.
    pub(super) fn sentence(&self, saturation: f64, instead: Option<(String, f64)>) -> String {
        let named = |resource: &str| match resource {
            "threads" => "the threads".to_owned(),
            node => format!("`{node}`"),
        };
        let percent = |share: f64| short((share * 1000.0).round() / 10.0);
        let mut text = format!(
            "full first: {}, {} % busy now, at {}/s; {} % of what {} is {}: 1 % less of it carries {} % more, and without it {} would be full at {}/s",
            named(&self.resource),
            percent(self.utilisation),
            short(saturation),
            percent(self.share),
            if self.resource == "threads" { "they do" } else { "it does" },
            self.what,
            short(self.share),
            named(&self.then),
            short(self.bound),
        );
        if let Some((words, carried)) = instead {
            text.push_str(&format!("; with `{words}` instead it would be {}/s", short(carried)));
        }
        text
    }
}
