//! What a watch ends with: the page of who was within reach, who was not, and the exit code. An alarm counts more than a program that is
//! silent, and one that is silent keeps nothing of the others back.

use cost::twin::State;
use serde_json::{Value, json};

use super::{Program, seconds_now, show};
use crate::answer::{Answer, Output, line};
use crate::failure::Failure;

/// What is known at the end.
#[derive(Debug)]
pub(super) struct End {
    once: bool,
    /// Programs whose figures were had.
    met: usize,
    pages: String,
    /// Stages outside of their bands, of programs within reach.
    alarms: Vec<Moved>,
    /// Stages that may be.
    uncertain: Vec<Moved>,
    judged: usize,
    /// Listeners that references are of and the figures do not have, each with the program.
    strangers: Vec<(String, String)>,
    /// Programs out of reach, each with why.
    lost: Vec<(String, String)>,
}

/// A stage that is not in its band, and the way.
#[derive(Debug)]
struct Moved {
    program: String,
    stage: String,
    way: &'static str,
}

impl End {
    pub(super) fn of(once: bool, programs: &[Program]) -> Self {
        let met = || programs.iter().filter(|program| program.met);
        let (lost, reached): (Vec<_>, Vec<_>) =
            programs.iter().partition(|program| !program.met || program.twin.is_gone());
        Self {
            once,
            met: met().count(),
            pages: met().map(Program::page).collect::<Vec<_>>().join("\n"),
            alarms: reached.iter().flat_map(|program| alarms(program)).collect(),
            uncertain: reached.iter().flat_map(|program| uncertain(program)).collect(),
            strangers: reached
                .iter()
                .flat_map(|it| it.twin.strangers().into_iter().map(|name| (it.address.to_string(), show::plain(&name))))
                .collect(),
            judged: reached.iter().map(|program| program.twin.judged()).sum(),
            lost: lost.iter().map(|program| (program.address.to_string(), show::plain(&program.why))).collect(),
        }
    }

    /// 1 with an alarm, 3 when figures are out of reach, else 0.
    pub(super) fn answer(&self, output: Output) -> Answer {
        if output == Output::Json {
            self.lines();
        } else if !self.lost.is_empty() {
            let kind = if self.alarms.is_empty() { "error" } else { "warning" };
            eprintln!("{kind}: {}", self.silent());
        }
        // What a program reads was said line by line.
        let text = if output == Output::Json { String::new() } else { self.text() };
        match (self.alarms.is_empty(), self.lost.is_empty()) {
            (true, false) => Answer::unavailable(text, Value::Null),
            (quiet, _) => Answer::verdict(quiet, text, Value::Null),
        }
    }

    /// What went wrong behind the lines of a watch: one line more, and nothing of what was seen is kept back.
    pub(super) fn failed(&self, failure: Failure, output: Output) -> Result<Answer, Failure> {
        if output == Output::Text {
            line(self.text().trim_end());
            return Err(failure);
        }
        self.lines();
        line(&error(&failure.in_short()));
        Ok(Answer::unavailable(String::new(), Value::Null))
    }

    /// One look has an answer of its own; figures out of reach are an error where nothing else is to be said.
    fn lines(&self) {
        if self.once && self.met > 0 {
            let lost = self.lost.iter().map(|(program, why)| json!({ "program": program, "why": why }));
            line(
                &json!({
                    "alarms": self.alarms.iter().map(|it| it.json("side")).collect::<Vec<_>>(),
                    "uncertain": self.uncertain.iter().map(|it| it.json("state")).collect::<Vec<_>>(),
                    "judged": self.judged,
                    "no_listener": self.strangers.iter().map(|(program, name)| json!({ "program": program, "listener": name })).collect::<Vec<_>>(),
                    "quiet": self.alarms.is_empty(),
                    "out_of_reach": lost.collect::<Vec<_>>(),
                })
                .to_string(),
            );
        } else if self.alarms.is_empty() && !self.lost.is_empty() {
            line(&error(&self.silent()));
        }
    }

    /// Who is out of reach, in a sentence.
    fn silent(&self) -> String {
        let each = self.lost.iter().map(|(program, why)| format!("the figures of `{program}` are out of reach: {why}"));
        each.collect::<Vec<_>>().join("; ")
    }

    fn text(&self) -> String {
        let mut text = self.pages.clone();
        if !self.once || self.met == 0 {
            return text;
        }
        for (program, listener) in &self.strangers {
            text.push_str(&format!(
                "\nthe figures of {program} have no listener `{listener}`, and references are of it: they are not judged; if it was renamed, learn anew\n"
            ));
        }
        if self.judged == 0 && self.strangers.is_empty() {
            text.push_str(
                "\nno stage was used eight times between the two looks: nothing is judged; take a longer --interval\n",
            );
        }
        if !self.alarms.is_empty() || !self.uncertain.is_empty() {
            text.push('\n');
        }
        for Moved { stage, way, .. } in &self.alarms {
            text.push_str(&format!("{stage} is {way} than its band allows\n"));
        }
        for Moved { stage, way, .. } in &self.uncertain {
            text.push_str(&format!(
                "{stage} is {way} its band, and one look is not certain of that: take a longer --interval, or --for\n"
            ));
        }
        text
    }
}

impl Moved {
    fn json(&self, way: &str) -> Value {
        json!({ "program": self.program, "stage": self.stage, (way): self.way })
    }
}

fn alarms(program: &Program) -> Vec<Moved> {
    let alarms = program.twin.alarms().into_iter();
    alarms.map(|(stage, side)| Moved { program: program.address.to_string(), stage, way: show::word(side) }).collect()
}

fn uncertain(program: &Program) -> Vec<Moved> {
    let stages = program.twin.report(seconds_now()).stages.into_iter();
    let moved = stages.filter_map(|seen| {
        let way = match seen.state {
            State::Above => "above",
            State::Below => "below",
            _ => return None,
        };
        Some(Moved { program: program.address.to_string(), stage: seen.stage, way })
    });
    moved.collect()
}

/// An error in one line, with the members that errors of all commands have.
fn error(message: &str) -> String {
    json!({ "error": { "kind": "unavailable", "message": message, "causes": [], "help": null, "faults": [] } })
        .to_string()
}
