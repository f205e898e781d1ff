//! Blocks of a diagram, from the line that opens one to its `end`.

use super::super::block;
use super::super::draft::{Line, Written};
use super::super::fields::Fields;
use super::Reader;
use crate::{Class, Fault};

/// Blocks inside blocks.
const MAX_DEPTH: usize = 30;

/// What is open.
#[derive(Debug)]
pub(super) enum Block {
    /// Has no meaning here, and no steps of its own: `rect`, `box`.
    Plain,
    /// `alt`: its line, the ways that are complete, the words of the present way.
    Choice(usize, Vec<(Fields, Vec<Line>)>, Fields),
    /// `opt`.
    Option(usize, Fields),
    /// `break`.
    Break(usize, Fields),
    /// `loop`: its line, its words, its name and place.
    Loop(usize, Fields, (String, usize)),
    /// `par`: its line, the branches that are complete.
    Par(usize, Vec<Vec<Line>>),
}

/// A `break`: its line, the words and steps of its way, and the words of the other one, to which all that follows belongs.
#[derive(Debug)]
pub(super) struct Broken {
    line: usize,
    way: (Fields, Vec<Line>),
    on: Fields,
}

impl Reader {
    pub(super) fn open(&mut self, block: Block) -> Result<(), Fault> {
        self.no_step()?;
        if matches!(block, Block::Break(..)) && !self.blocks.iter().all(|it| matches!(it, Block::Plain)) {
            let why = "a `break` inside of another block is not laid: say with `alt` what is done instead of what";
            return Err(self.fault(Class::Unknown, why));
        }
        if self.blocks.len() + self.broken_off.len() >= MAX_DEPTH {
            return Err(self.fault(
                Class::TooLarge,
                format!("more than {MAX_DEPTH} blocks inside each other, or that end a sequence"),
            ));
        }
        if self.steps.is_empty() {
            self.steps.push(Vec::new());
        }
        if self.sequence.is_none() {
            self.sequence = Some(("main".to_owned(), self.line));
        }
        if !matches!(block, Block::Plain) {
            self.steps.push(Vec::new());
        }
        self.blocks.push(block);
        Ok(())
    }

    pub(super) fn other(&mut self) -> Result<(), Fault> {
        self.no_step()?;
        let line = self.line;
        let steps = self.steps.last_mut().map(std::mem::take).unwrap_or_default();
        match self.blocks.last_mut() {
            Some(Block::Choice(_, ways, way)) => {
                ways.push((std::mem::replace(way, Fields::new("way", line)), steps));
                Ok(())
            }
            _ => Err(self.fault(Class::Syntax, "`else` stands outside of `alt`")),
        }
    }

    /// `and`: another branch begins.
    pub(super) fn beside(&mut self) -> Result<(), Fault> {
        self.no_step()?;
        let steps = self.steps.last_mut().map(std::mem::take).unwrap_or_default();
        match self.blocks.last_mut() {
            Some(Block::Par(_, branches)) => {
                branches.push(steps);
                Ok(())
            }
            _ => Err(self.fault(Class::Syntax, "`and` stands outside of `par`")),
        }
    }

    pub(super) fn close(&mut self) -> Result<(), Fault> {
        self.no_step()?;
        let Some(block) = self.blocks.pop() else {
            return Err(self.fault(Class::Syntax, "`end` closes nothing"));
        };
        if matches!(block, Block::Plain) {
            return Ok(());
        }
        let steps = self.steps.pop().unwrap_or_default();
        match &block {
            Block::Option(line, _) => block::filled("opt", *line, &steps)?,
            Block::Loop(line, ..) => block::filled("loop", *line, &steps)?,
            _ => {}
        }
        match block {
            Block::Plain => {}
            Block::Choice(line, mut ways, way) => {
                ways.push((way, steps));
                self.push(Line::Choice(line, ways));
            }
            Block::Option(line, way) => {
                let [with, without] = taken_or_not(way, "opt", line)?;
                self.push(Line::Choice(line, vec![(with, steps), (without, Vec::new())]));
            }
            Block::Par(line, mut branches) => {
                branches.push(steps);
                self.push(Line::Par(line, branches));
            }
            Block::Break(line, way) => {
                let [with, on] = taken_or_not(way, "break", line)?;
                self.broken_off.push(Broken { line, way: (with, steps), on });
                self.steps.push(Vec::new());
            }
            Block::Loop(line, mut times, (name, place)) => {
                let mut look = times.clone();
                if look.word("times")?.is_none() {
                    let why = "a `loop` has no `%% trapkey: loop times=..`: how often does it go round?";
                    return Err(Fault::new(Class::MissingAnnotation, "loop", why).at(line));
                }
                times.put("ref", vec![name.clone()], line)?;
                self.loops.push((place, Written { name, line, steps }));
                self.push(Line::Ref(times));
            }
        }
        Ok(())
    }
    /// The steps of a sequence that is at its end; what follows a `break` is done where it is not taken.
    pub(super) fn whole(&mut self) -> Vec<Line> {
        let mut steps = self.steps.pop().unwrap_or_default();
        while let Some(Broken { line, way, on }) = self.broken_off.pop() {
            let mut before = self.steps.pop().unwrap_or_default();
            before.push(Line::Choice(line, vec![way, (on, steps)]));
            steps = before;
        }
        steps
    }
}

/// The words of a way that is taken with a probability, and of the other one.
fn taken_or_not(mut way: Fields, word: &str, line: usize) -> Result<[Fields; 2], Fault> {
    let Some(taken) = way.clone().share("weight")? else {
        let why = "it has no `%% trapkey: way weight=..`: how probable is it?";
        return Err(Fault::new(Class::MissingAnnotation, word, why).at(line));
    };
    if let Some(why) = block::not_sometimes(word, "weight", taken) {
        return Err(way.fault(Class::Invalid, line, why));
    }
    way.list("weight");
    way.end()?;
    let words = |weight: f64| -> Result<Fields, Fault> {
        let mut words = Fields::new(word, line);
        words.put("weight", vec![format!("{weight}")], line)?;
        Ok(words)
    };
    Ok([words(taken)?, words(1.0 - taken)?])
}
