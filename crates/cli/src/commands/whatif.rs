//! `trapkey policy what-if`: what a ledger recorded, decided again under other policies.

use std::collections::BTreeMap;

use access_model::Effect;
use clap::Args;
use serde_json::{Value, json};

use super::Common;
use super::policy::Which;
use super::recorded;
use crate::answer::{Answer, table};
use crate::failure::Failure;

/// Decides what was recorded again under the policies of the configuration or of a folder.
#[derive(Debug, Args)]
pub(crate) struct WhatIf {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    recorded: recorded::From,
}

/// From what to what, who, with which roles, what, where, in which step.
type Change = (&'static str, [String; 5]);

pub(crate) fn run(args: &WhatIf, common: &Common) -> Result<Answer, Failure> {
    let snapshot = args.which.texts(common)?.snapshot()?;
    let recorded = args.recorded.read(common, &snapshot)?;
    let at = gates::clock::now().unix;
    let (mut changes, mut same, mut unasked): (BTreeMap<Change, u64>, u64, u64) = (BTreeMap::new(), 0, 0);
    for row in &recorded.rows {
        // A step that the workflow has no more has no answer.
        let Ok(effect) = row.access.decide(&snapshot, at) else {
            unasked += row.count;
            continue;
        };
        let how = match (row.denied, effect) {
            (false, Effect::Forbid) => "permit to deny",
            (true, Effect::Permit) => "deny to permit",
            _ => {
                same += row.count;
                continue;
            }
        };
        let access = &row.access;
        let server = snapshot.plant().server(&access.server).map_or(&access.server, |(_, one)| &one.name);
        let key = [
            access.who.clone(),
            access.principal(&snapshot).roles.join(", "),
            access.action.name().to_owned(),
            format!("{server}/{}", access.scope),
            access.steps.join(", "),
        ];
        *changes.entry((how, key)).or_default() += row.count;
    }
    let unread = recorded.unread + unasked;
    let cells = |((how, key), count): (&Change, &u64)| {
        let first = std::iter::once((*how).to_owned());
        first.chain(key.iter().cloned()).chain([count.to_string()]).collect()
    };
    let rows: Vec<Vec<String>> = changes.iter().map(cells).collect();
    let head = ["change", "who", "roles", "action", "scope", "steps", "times"];
    let mut text = if rows.is_empty() { String::new() } else { table(&head, &rows) };
    text += &format!("{} changes; {same} accesses stay as they were", rows.len());
    if unread > 0 {
        text += &format!("; {unread} cannot be decided again");
    }
    let entry = |((how, [who, roles, action, scope, steps]), count): (&Change, &u64)| {
        json!({"change": how, "who": who, "roles": roles, "action": action, "scope": scope, "steps": steps,
               "count": count})
    };
    let listed: Vec<Value> = changes.iter().map(entry).collect();
    let json = json!({"changes": listed, "same": same, "not_decided": unread});
    Ok(Answer::verdict(changes.is_empty(), text, json))
}
