//! Phases as flat lists: one line a step, and the rows of a table.

use std::fmt::Write;

use serde::Serialize;

use super::{Party, Per, Phase};
use crate::mechanism::{Basic, Part, Work};
use crate::quantity::digits;

/// One step of a protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The phase that it belongs to.
    pub phase: &'static str,
    /// The clause that asks for it.
    pub source: &'static str,
    /// How often the phase is done.
    pub per: Per,
    /// Who does it; of a message who sends it.
    pub by: Party,
    /// Its name.
    pub name: &'static str,
    /// The basic mechanism that it is a step of; none for what belongs to the protocol itself.
    pub mechanism: Option<Basic>,
    /// The operation in a price list; `message` for a message.
    pub operation: String,
    /// Bytes that are worked on, or sent.
    pub bytes: u64,
    /// How many times in one run of the phase.
    pub times: u64,
    /// Whether a price list must have the operation.
    pub needed: bool,
    /// Whether it uses a long-lived private key.
    pub private: bool,
    /// To whom, of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Party>,
    /// How probable it is, 0 to 1: the other ways of a choice are taken otherwise.
    pub probability: f64,
}

/// The steps of phases, in order. Steps that only set parameters are left out; checks are not steps.
#[must_use]
pub fn lines(phases: &[Phase]) -> Vec<Line> {
    let mut lines = Vec::new();
    for phase in phases {
        flatten(phase, &phase.parts, None, 1.0, &mut lines);
    }
    lines
}

fn flatten(phase: &Phase, parts: &[Part], mechanism: Option<Basic>, probability: f64, lines: &mut Vec<Line>) {
    let Phase { name: of, source, per, .. } = *phase;
    for part in parts {
        match part {
            Part::Work { name, by, work } => {
                let by = phase.party(*by);
                let Work { operation: Some(operation), bytes, times, needed, private } = work.clone() else { continue };
                if !needed && operation == *name {
                    continue;
                }
                let line = Line {
                    phase: of,
                    source,
                    per,
                    by,
                    name,
                    mechanism,
                    operation,
                    bytes,
                    times,
                    needed,
                    private,
                    to: None,
                    probability,
                };
                lines.push(line);
            }
            Part::Message { name, from, bytes } | Part::Unawaited { name, from, bytes } => lines.push(Line {
                phase: of,
                source,
                per,
                by: phase.party(*from),
                name,
                mechanism,
                operation: "message".to_owned(),
                bytes: *bytes,
                times: 1,
                needed: false,
                private: false,
                to: Some(phase.party(from.other())),
                probability,
            }),
            Part::Either { probability: share, then, otherwise, .. } => {
                flatten(phase, then, mechanism, probability * share, lines);
                flatten(phase, otherwise, mechanism, probability * (1.0 - share), lines);
            }
            Part::Use { mechanism, parts } => flatten(phase, parts, Some(*mechanism), probability, lines),
            Part::Check { .. } => {}
        }
    }
}

/// The steps of phases as the rows of a Markdown table, without its head: phase, how often, who, what it does in order, clause. Messages
/// stand at who sends them; steps that need no price are left out.
#[must_use]
pub fn table(phases: &[Phase]) -> String {
    let mut text = String::new();
    for phase in phases {
        for by in [phase.ends.0, phase.ends.1] {
            let own = lines(std::slice::from_ref(phase)).into_iter().filter(|line| line.by == by);
            let words: Vec<String> =
                own.filter(|line| line.needed || line.to.is_some()).map(|line| word(&line)).collect();
            if !words.is_empty() {
                let (often, who) = (phase.per.word(), by.word());
                let _ =
                    writeln!(text, "| {} | {often} | {who} | {} | {} |", phase.name, words.join("; "), phase.source);
            }
        }
    }
    text
}

fn word(line: &Line) -> String {
    let probability =
        if line.probability < 1.0 { format!(" ({} of runs)", digits(line.probability)) } else { String::new() };
    if line.to.is_some() {
        return format!("sends {} ({} B){probability}", line.name, line.bytes);
    }
    let times = if line.times == 1 { String::new() } else { format!("{} × ", line.times) };
    let bytes = if line.bytes == 0 { String::new() } else { format!(" ({} B)", line.bytes) };
    format!("{times}`{}`{bytes}{probability}", line.operation)
}
