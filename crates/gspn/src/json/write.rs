//! A net as a document.

use crate::net::{Arc, Kind, Net, Phase, Rate, Servers, Transition};

/// Writes a net as a document without questions, a line for each place and transition; what has its usual value is left out.
#[must_use]
pub fn write(net: &Net) -> String {
    let places = net.places().iter().map(|place| match place.tokens {
        0 => format!("{{\"name\": {}}}", text(&place.name)),
        tokens => format!("{{\"name\": {}, \"tokens\": {tokens}}}", text(&place.name)),
    });
    let transitions = net.transitions().iter().map(|it| transition(net, it));
    format!(
        "{{ \"name\": {},\n  \"net\": {{\n    \"places\": [{}],\n    \"transitions\": [{}] }} }}\n",
        text(net.name()),
        lines(places),
        lines(transitions)
    )
}

fn lines(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.map(|item| format!("\n      {item}")).collect();
    items.join(",")
}

fn transition(net: &Net, it: &Transition) -> String {
    let mut members = format!("{{\"name\": {}, {}", text(&it.name), kind(net, &it.kind));
    for (key, arcs) in [("in", &it.inputs), ("out", &it.outputs), ("inhibit", &it.inhibitors)] {
        if !arcs.is_empty() {
            members.push_str(&format!(", \"{key}\": {{{}}}", arcs_of(net, arcs)));
        }
    }
    members + "}"
}

fn arcs_of(net: &Net, arcs: &[Arc]) -> String {
    let arcs: Vec<String> = arcs.iter().map(|arc| format!("{}: {}", text(place(net, arc.place)), arc.count)).collect();
    arcs.join(", ")
}

fn place(net: &Net, index: usize) -> &str {
    net.places().get(index).map_or("", |place| place.name.as_str())
}

fn kind(net: &Net, kind: &Kind) -> String {
    match kind {
        Kind::Timed { rate, servers } => {
            let rate = match rate {
                Rate::Constant(rate) => format!("\"rate\": {}", number(*rate)),
                Rate::ByTokens { place: index, rates } => {
                    let rates: Vec<String> = rates.iter().map(|rate| number(*rate)).collect();
                    let place = text(place(net, *index));
                    format!("\"rate_by_tokens\": {{\"place\": {place}, \"rates\": [{}]}}", rates.join(", "))
                }
            };
            let servers = match servers {
                Servers::Finite(1) => String::new(),
                Servers::Finite(servers) => format!(", \"servers\": {servers}"),
                Servers::Infinite => ", \"servers\": \"inf\"".to_owned(),
            };
            format!("\"kind\": \"timed\", {rate}{servers}")
        }
        Kind::Immediate { weight, priority, by } => {
            let weight = if *weight == 1.0 { String::new() } else { format!(", \"weight\": {}", number(*weight)) };
            let priority = if *priority == 1 { String::new() } else { format!(", \"priority\": {priority}") };
            let by = by.map_or_else(String::new, |by| format!(", \"weight_by\": {}", text(place(net, by))));
            format!("\"kind\": \"immediate\"{weight}{by}{priority}")
        }
        Kind::Deterministic { delay } => format!("\"kind\": \"deterministic\", \"delay\": {}", number(*delay)),
        Kind::Phase(phase) => format!("\"kind\": \"phase\", {}", phases(phase)),
    }
}

fn phases(phase: &Phase) -> String {
    let pairs = |pairs: &[(f64, f64)]| {
        let pairs: Vec<String> =
            pairs.iter().map(|(one, other)| format!("[{}, {}]", number(*one), number(*other))).collect();
        pairs.join(", ")
    };
    match phase {
        Phase::Erlang { stages, rate } => format!("\"erlang\": {{\"k\": {stages}, \"rate\": {}}}", number(*rate)),
        Phase::Hyper(branches) => format!("\"hyper\": [{}]", pairs(branches)),
        Phase::Coxian(phases) => format!("\"coxian\": [{}]", pairs(phases)),
    }
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The shortest that is read as the same number.
fn number(number: f64) -> String {
    serde_json::Value::from(number).to_string()
}
