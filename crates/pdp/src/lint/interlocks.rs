//! Interlocks that load and cannot do what they are for.

use access_model::{Bounds, TwoPersons};

use super::{Finding, FindingKind, finding};
use crate::plant::{Plant, Scope, Server};

/// Everything odd about the interlocks of a plant.
pub(super) fn check(plant: &Plant) -> Vec<Finding> {
    let scopes = plant.servers.values().flat_map(|server| server.scopes.iter().map(move |scope| (server, scope)));
    scopes.flat_map(|(server, scope)| of_scope(plant, server, scope)).collect()
}

fn of_scope(plant: &Plant, server: &Server, scope: &Scope) -> Vec<Finding> {
    let place = format!("`{}/{}`", server.name, scope.name);
    let mut all: Vec<(String, &'static str)> = bounds(&scope.interlock.bounds, &place);
    for (position, argument) in &scope.interlock.arguments {
        let place = format!("argument {position} of {place}");
        if argument.bounds.is_empty() {
            all.push((
                format!("{place} is listed without a bound"),
                "give it a `range`, `step` or `rate`, or take it out",
            ));
        }
        all.extend(bounds(&argument.bounds, &place));
    }
    all.extend(scope.interlock.two_persons.as_ref().and_then(|asked| approvers(plant, asked, &place)));
    all.into_iter().map(|(message, hint)| finding(FindingKind::Interlock, None, message, Some(hint))).collect()
}

fn bounds(bounds: &Bounds, place: &str) -> Vec<(String, &'static str)> {
    let mut odd = Vec::new();
    if let (Some((low, high)), Some(step)) = (bounds.range, bounds.step)
        && step >= high - low
    {
        let message = format!("the step of {place} never counts: {step} is no less than its whole range");
        odd.push((message, "make `step` smaller, or leave it out"));
    }
    if let (Some(step), Some(rate)) = (bounds.step, bounds.rate)
        && rate <= step
    {
        let message = format!("the step of {place} never counts: its rate lets it change by {rate} within a second");
        odd.push((message, "make `rate` larger than `step`, or leave `step` out"));
    }
    odd
}

/// Who asks cannot approve: with less than two persons in the role, somebody waits in vain.
fn approvers(plant: &Plant, asked: &TwoPersons, place: &str) -> Option<(String, &'static str)> {
    let holders: Vec<&String> =
        plant.persons.iter().filter(|(_, person)| person.roles.contains(&asked.role)).map(|(name, _)| name).collect();
    match holders.as_slice() {
        [] => {
            let message = format!("nobody can approve of changes of {place}: no person has the role `{}`", asked.role);
            Some((message, "give the role to persons, or name another one"))
        }
        [one] => {
            let message =
                format!("only `{one}` has the role `{}` and cannot approve of own changes of {place}", asked.role);
            Some((message, "give the role to a second person"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interlocks_that_cannot_do_what_they_are_for_are_told() {
        let cases = [
            ("scope", "range = { low = 0, high = 10 }\nstep = 10", Some("no less than its whole range")),
            ("scope", "range = { low = 0, high = 10 }\nstep = 9", None),
            ("scope", "step = 5\nrate = 5", Some("its rate lets it change by 5 within a second")),
            ("scope", "step = 5\nrate = 6", None),
            ("scope", "approval = { role = \"none\", within = \"5m\" }", Some("no person has the role `none`")),
            ("scope", "approval = { role = \"one\", within = \"5m\" }", Some("only `anna` has the role `one`")),
            ("scope", "approval = { role = \"two\", within = \"5m\" }", None),
            ("method", "arguments = [{ position = 1 }]", Some("argument 1 of `m/a` is listed without a bound")),
        ];
        for (kind, lines, expected) in cases {
            let text = format!(
                "[plant]\nname = \"p\"\n[[site]]\nname = \"s\"\n[[zone]]\nname = \"z\"\nsite = \"s\"\n\
                 [[equipment]]\nname = \"e\"\nzone = \"z\"\n\
                 [[role]]\nname = \"none\"\n[[role]]\nname = \"one\"\n[[role]]\nname = \"two\"\n\
                 [[person]]\nname = \"anna\"\nroles = [\"one\", \"two\"]\n[[person]]\nname = \"bert\"\nroles = [\"two\"]\n\
                 [[server]]\nname = \"m\"\nuri = \"urn:m\"\nequipment = \"e\"\n\
                 [[server.{kind}]]\nname = \"a\"\nnodes = [\"i=1\"]\n{lines}\n"
            );
            let found = check(&Plant::parse(&text).unwrap());
            let said: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
            match expected {
                Some(words) => assert!(said.len() == 1 && said[0].contains(words), "{lines}: {said:?}"),
                None => assert_eq!(said, [""; 0], "{lines}"),
            }
        }
    }
}
