//! What `check` says of the arcs of a net: sums that never change, firings that lead back, conflicts.

use gspn::Net;
use gspn::net::{Structure, Weights};
use serde_json::{Map, Value, json};

/// Lines of each block, and terms of each line, that a person is shown.
const LINES: usize = 8;
const TERMS: usize = 12;

/// Adds it to an answer about the markings.
pub(super) fn add(net: &Net, structure: &Structure, text: &mut String, answer: &mut Value) {
    let places = |weights: &Weights| named(weights, |place| &net.places()[place].name);
    let transitions = |weights: &Weights| named(weights, |transition| &net.transitions()[transition].name);
    let conflicts = structure.conflicts.iter().map(|set| set.iter().map(|at| (*at, 1)).collect());
    let conflicts: Vec<Named<'_>> = conflicts.map(|set: Weights| transitions(&set)).collect();
    let rounds: Vec<Named<'_>> = structure.transitions.iter().map(transitions).collect();
    let sums: Vec<(Named<'_>, u64)> = structure.places.iter().map(|sum| (places(&sum.weights), sum.tokens)).collect();

    let lines = sums.iter().map(|(sum, tokens)| format!("{} = {tokens}", line(sum, " + ")));
    block(text, "sums of tokens that no firing changes", lines, structure.all_places);
    let lines = rounds.iter().map(|round| line(round, ", "));
    block(text, "firings that lead back to where they began", lines, structure.all_transitions);
    let lines = conflicts.iter().map(|set| line(set, ", "));
    block(text, "immediate transitions in conflict", lines, true);

    let object = |weights: &Named<'_>| {
        let members = weights.iter().map(|(name, weight)| ((*name).to_owned(), json!(weight)));
        Value::Object(members.collect::<Map<_, _>>())
    };
    let sums = sums.iter().map(|(sum, tokens)| json!({"weights": object(sum), "tokens": tokens}));
    answer["invariants"] = json!({
        "places": sums.collect::<Vec<_>>(),
        "transitions": rounds.iter().map(object).collect::<Vec<_>>(),
        "all": {"places": structure.all_places, "transitions": structure.all_transitions},
    });
    let names = |set: &Named<'_>| set.iter().map(|(name, _)| json!(name)).collect::<Value>();
    answer["conflicts"] = conflicts.iter().map(names).collect();
}

type Named<'a> = Vec<(&'a str, u64)>;

fn named<'a>(weights: &Weights, name: impl Fn(usize) -> &'a String) -> Named<'a> {
    weights.iter().map(|(index, weight)| (name(*index).as_str(), *weight)).collect()
}

fn line(weights: &Named<'_>, between: &str) -> String {
    let term =
        |(name, weight): &(&str, u64)| if *weight == 1 { (*name).to_owned() } else { format!("{weight} {name}") };
    let mut terms: Vec<String> = weights.iter().take(TERMS).map(term).collect();
    if weights.len() > TERMS {
        terms.push(format!("({} more)", weights.len() - TERMS));
    }
    terms.join(between)
}

/// Nothing where there is nothing to say.
fn block(text: &mut String, title: &str, lines: impl ExactSizeIterator<Item = String>, all: bool) {
    let count = lines.len();
    if count == 0 && all {
        return;
    }
    text.push_str(&format!("\n{title}\n"));
    lines.take(LINES).for_each(|line| text.push_str(&format!("  {line}\n")));
    if count > LINES {
        text.push_str(&format!("  and {} more\n", count - LINES));
    }
    if !all {
        text.push_str("  not all were found: there are too many, or they take too long\n");
    }
}
