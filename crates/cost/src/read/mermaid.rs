//! Mermaid sequence diagrams. What the diagram cannot say stands in comments, `%% trapkey: ..`, each about the line after it or about a
//! name; so every Mermaid tool draws the same file.
//!
//! A message from a participant to itself is an operation, one to another a message. `alt`, `opt`, `break`, `loop` and `par` count; `critical`
//! is refused by name. Notes, boxes and activations are passed over.
//!
//! A `;` ends a statement as the end of a line does. A letter that would end a line, a name or a word is written `#59;`, by its number,
//! as Mermaid itself has it.

mod blocks;
mod words;

use hashbrown::{HashMap, HashSet};

use self::blocks::{Block, Broken};
use super::block::Loops;
use super::draft::{Draft, Line, Written};
use super::escape;
use super::fields::Fields;
use crate::{Class, Fault};

/// Arrows that are two messages, one each way.
const BOTH: [&str; 2] = ["<<-->>", "<<->>"];
/// Arrows of messages that are lost on their way.
const LOST: [&str; 2] = ["--x", "-x"];
/// Arrows with half a head at the end that they come from.
const BACK: [&str; 8] = ["/|--", "/|-", r"\|--", r"\|-", "//--", "//-", r"\\--", r"\\-"];
/// Arrows of messages that arrive, the longest first.
const ARRIVING: [&str; 14] =
    ["-->>", "->>", "-->", "--)", "->", "-)", r"--|\", r"-|\", "--|/", "-|/", r"--\\", r"-\\", "--//", "-//"];
/// Words behind which a block or a part of it begins.
const BLOCKS: [&str; 11] = ["rect", "box", "alt", "else", "opt", "loop", "break", "par", "par_over", "and", "critical"];
const STEP: &str = "step";
const HEADER: &str = "sequenceDiagram";
/// Above and below what a file says of itself before the diagram.
const FRONT_MATTER: &str = "---";
/// Stands between what a diagram calls a participant and its name.
const AS: &[u8] = b" as ";
/// The end of what is said to Mermaid.
const DIRECTIVE: &str = "}%%";
/// The end of a description of several lines.
const DESCRIPTION: &str = "}";

/// Reads the words of a model.
pub(super) fn draft(text: &str) -> Result<Draft, Fault> {
    let mut reader = Reader { loops_called: Loops::beside(sequences(text)), ..Reader::default() };
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).zip(1..);
    let mut lines = lines.filter(|(line, _)| !line.is_empty()).peekable();
    if let Some((_, begin)) = lines.next_if(|(line, _)| *line == FRONT_MATTER) {
        let annotated = |line: &str| line.starts_with("%%") && line.contains("trapkey:");
        let (mut closed, mut lost) = (false, None);
        for (line, number) in lines.by_ref() {
            closed = line == FRONT_MATTER;
            if closed {
                break;
            }
            lost = lost.or_else(|| annotated(line).then_some(number));
        }
        match lost {
            _ if !closed => return Err(unclosed(FRONT_MATTER, begin)),
            Some(line) => {
                let why = "what stands before the second `---` says how the diagram is drawn: put this behind it";
                return Err(Fault::new(Class::NoEffect, "", why).at(line));
            }
            None => {}
        }
    }
    for (line, number) in lines {
        reader.line = number;
        let mut rest = line;
        while !rest.is_empty() {
            rest = reader.next(rest)?.trim_start();
        }
    }
    reader.finish()
}

/// The names of the sequences that are written, wherever they stand.
fn sequences(text: &str) -> impl Iterator<Item = String> {
    let statements = text.lines().filter_map(|line| line.split_once("trapkey:")).map(|(_, statement)| statement.trim());
    let statements = statements.filter(|statement| statement.starts_with("sequence"));
    statements.filter_map(|statement| words::read(statement, 0).ok()?.0.into_iter().nth(1))
}

#[derive(Default)]
struct Reader {
    draft: Draft,
    line: usize,
    /// Whether `sequenceDiagram` stood there.
    begun: bool,
    /// The end of what is passed over, and where it begins.
    passing: Option<(&'static str, usize)>,
    /// The first statement of ours in what is passed over.
    lost: Option<usize>,
    /// Participants: what the diagram calls them, their name, their line.
    participants: Vec<(String, String, usize)>,
    /// Where the first of each call stands there.
    called: HashMap<String, usize>,
    /// Words for the next message.
    step: Option<Fields>,
    sequence: Option<(String, usize)>,
    /// Steps of the sequence and of each open block.
    steps: Vec<Vec<Line>>,
    blocks: Vec<Block>,
    /// What ended the sequence so far; each has its place between `steps`.
    broken_off: Vec<Broken>,
    /// The bodies of loops, which are sequences that are referred to so many times, and their places in order.
    loops: Vec<(usize, Written)>,
    /// What the next one is called.
    loops_called: Loops,
    /// Of the connectors between two components, whose names stand in order: the first, and whether it is the only one.
    connectors: HashMap<[String; 2], (String, bool)>,
    /// Ends and lines of messages that did not say over which.
    guessed: Vec<([String; 2], usize)>,
}

impl Reader {
    fn fault(&self, class: Class, why: impl Into<String>) -> Fault {
        Fault::new(class, "", why).at(self.line)
    }

    /// The first comment or statement of a line; what is left of the line.
    fn next<'t>(&mut self, line: &'t str) -> Result<&'t str, Fault> {
        if let Some((end, _)) = self.passing {
            let closed = line.split_once(end);
            let inside = closed.map_or(line, |(inside, _)| inside);
            let ours = says_ours(inside) || begins_ours(inside);
            self.lost = self.lost.or(ours.then_some(self.line));
            let Some((_, rest)) = closed else { return Ok("") };
            if let Some(lost) = self.lost {
                let why = format!("what stands before `{end}` is said to Mermaid alone: put this behind it");
                return Err(Fault::new(Class::NoEffect, "", why).at(lost));
            }
            self.passing = None;
            return Ok(rest);
        }
        let passed = line.strip_prefix("%%{").map(|rest| (rest, DIRECTIVE));
        if let Some((rest, end)) = passed.or_else(|| Some((description(line)?, DESCRIPTION))) {
            self.passing = Some((end, self.line));
            return Ok(rest);
        }
        if let Some(comment) = line.strip_prefix("%%") {
            match comment.trim().strip_prefix("trapkey:") {
                Some(statement) => self.statement(statement.trim())?,
                None => self.comment(comment)?,
            }
            return Ok("");
        }
        if !self.begun {
            return self.begin(line);
        }
        let (statement, rest) = if to_the_end(line) { (line, "") } else { escape::statement(line) };
        let (statement, rest) = (statement.trim(), rest.trim_start_matches(|it: char| it == ';' || it.is_whitespace()));
        // What Mermaid does not draw would be done.
        if !rest.is_empty() && escape::has_comment(statement) {
            let why = format!(
                "to Mermaid the `#` in `{statement}` begins a comment, and `{rest}` belongs to it: write `#35;`"
            );
            return Err(self.fault(Class::Syntax, why));
        }
        if !statement.is_empty() {
            self.diagram(statement)?;
        }
        Ok(rest)
    }

    /// What begins a diagram; its first statement may stand behind it, in the same line.
    fn begin<'t>(&mut self, line: &'t str) -> Result<&'t str, Fault> {
        let rest = line.strip_prefix(HEADER).filter(|rest| !rest.starts_with(is_of_a_word));
        let Some(rest) = rest else {
            let why = format!("a Mermaid sequence diagram begins with `{HEADER}`");
            return Err(self.fault(Class::Syntax, why));
        };
        self.begun = true;
        Ok(rest.trim_start_matches(|it: char| it == ';' || it.is_whitespace()))
    }

    /// A comment for people. One that looks like ours would have been passed over.
    fn comment(&self, text: &str) -> Result<(), Fault> {
        let (whole, text) = (text, text.trim());
        if is_ours(whole) {
            return Err(self.fault(
                Class::Syntax,
                format!("`{text}` is no statement: ours begin with `trapkey:` behind one `%%`"),
            ));
        }
        // What a comment of its own stands before is left out on purpose.
        let left_out = text.starts_with("%%") && !whole.starts_with('%');
        if says_ours(text) && !left_out { Err(self.behind(text)) } else { Ok(()) }
    }

    /// A statement of ours where nobody reads it.
    fn behind(&self, line: &str) -> Fault {
        let why = format!(
            "`{line}` has a statement of ours behind something else, where nobody reads it: it stands in a line of its own before what it is about"
        );
        self.fault(Class::Syntax, why)
    }

    /// Words that wait for a message would go to another one.
    fn no_step(&self) -> Result<(), Fault> {
        match self.step {
            Some(_) => Err(self.fault(Class::Syntax, "the `step` before has no message")),
            None => Ok(()),
        }
    }

    /// `word name key=value ..` of a comment.
    fn statement(&mut self, text: &str) -> Result<(), Fault> {
        let (names, fields) = words::read(text, self.line)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names.as_slice() {
            ["name", _] if !self.draft.name.is_empty() => Err(self.fault(Class::Doubled, "`name` stands twice")),
            ["name", name] => {
                self.draft.name = (*name).to_owned();
                fields.end()
            }
            ["workload"] if self.draft.workload.is_none() => {
                self.draft.workload = Some(fields);
                Ok(())
            }
            ["workload"] => Err(self.fault(Class::Doubled, "`workload` stands twice")),
            ["money"] if self.draft.money.is_none() => {
                self.draft.money = Some(fields);
                Ok(())
            }
            ["money"] => Err(self.fault(Class::Doubled, "`money` stands twice")),
            ["node", name] => {
                self.draft.nodes.push(((*name).to_owned(), fields));
                Ok(())
            }
            ["component", name] => {
                self.draft.components.push(((*name).to_owned(), fields));
                Ok(())
            }
            ["connector", name] => self.connector(name, fields),
            ["attribute", name] => {
                self.draft.attributes.push(((*name).to_owned(), fields));
                Ok(())
            }
            ["pool", name] => {
                self.draft.pools.push(((*name).to_owned(), fields));
                Ok(())
            }
            [word @ ("acquire" | "release"), name] => {
                self.no_step()?;
                let mut fields = fields;
                fields.put(word, vec![(*name).to_owned()], self.line)?;
                self.push(if *word == "acquire" { Line::Acquire(fields) } else { Line::Release(fields) });
                Ok(())
            }
            ["secure", property] => {
                let mut fields = fields;
                fields.put("property", vec![(*property).to_owned()], self.line)?;
                self.draft.secured.push(fields);
                Ok(())
            }
            ["level", number] => {
                self.draft.levels.push(((*number).to_owned(), fields));
                Ok(())
            }
            ["price", platform, operation] => {
                self.draft.prices.push(((*platform).to_owned(), (*operation).to_owned(), fields));
                Ok(())
            }
            ["sequence", name] => {
                fields.end()?;
                self.close_sequence()?;
                self.sequence = Some(((*name).to_owned(), self.line));
                self.steps = vec![Vec::new()];
                Ok(())
            }
            ["ref", name] => {
                self.no_step()?;
                let mut fields = fields;
                fields.put("ref", vec![(*name).to_owned()], self.line)?;
                self.push(Line::Ref(fields));
                Ok(())
            }
            [STEP] if self.step.is_none() => {
                self.step = Some(fields);
                Ok(())
            }
            [STEP] => Err(self.fault(Class::Doubled, "the `step` before has no message")),
            ["way"] => match self.blocks.last_mut() {
                Some(Block::Choice(_, _, way) | Block::Option(_, way) | Block::Break(_, way)) if way.is_empty() => {
                    *way = fields;
                    Ok(())
                }
                Some(Block::Choice(..) | Block::Option(..) | Block::Break(..)) => {
                    Err(self.fault(Class::Doubled, "`way` stands twice"))
                }
                _ => Err(self.fault(Class::Syntax, "`way` stands outside of `alt`, `opt` and `break`")),
            },
            ["loop"] => match self.blocks.last_mut() {
                Some(Block::Loop(_, times, _)) if times.is_empty() => {
                    *times = fields;
                    Ok(())
                }
                Some(Block::Loop(..)) => Err(self.fault(Class::Doubled, "`loop` stands twice")),
                _ => Err(self.fault(Class::Syntax, "`loop` stands outside of a loop")),
            },
            _ => {
                let known = "name, workload, money, node, component, connector, attribute, pool, secure, price, level, sequence, ref, acquire, release, step, way, loop";
                Err(self.fault(
                    Class::Unknown,
                    format!("`{text}` is no statement with the names that it needs; known: {known}"),
                ))
            }
        }
    }

    fn connector(&mut self, name: &str, fields: Fields) -> Result<(), Fault> {
        let mut look = fields.clone();
        let (from, to) = (look.need("from")?, look.need("to")?);
        let between = self.connectors.entry(pair(&from.text, &to.text));
        between.and_modify(|(_, only)| *only = false).or_insert((name.to_owned(), true));
        self.draft.connectors.push((name.to_owned(), fields));
        Ok(())
    }

    /// A line of the diagram itself.
    fn diagram(&mut self, line: &str) -> Result<(), Fault> {
        if says_ours(line) {
            return Err(self.behind(line));
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // What a block is for may follow its word without a space.
        let letters = line.split(|letter| !is_of_a_word(letter)).next().unwrap_or(line);
        let word = if BLOCKS.iter().any(|it| it.eq_ignore_ascii_case(letters)) { letters } else { word };
        // Capitals make no other word to Mermaid.
        match word.to_ascii_lowercase().as_str() {
            "participant" | "actor" => self.participant(rest.trim()),
            "create" => {
                let rest = rest.trim();
                self.participant(rest.split_once(char::is_whitespace).map_or(rest, |(_, name)| name.trim()))
            }
            "autonumber" | "title" | "title:" | "activate" | "deactivate" | "destroy" | "note" | "link" | "links"
            | "properties" | "details" | "acctitle" | "acctitle:" | "accdescr" | "accdescr:" => {
                let said = [rest, rest.split_once(':').map_or("", |(_, text)| text)];
                if said.into_iter().any(begins_ours) {
                    return Err(self.behind(line));
                }
                let arrow = |arrow: &&str| rest.trim_start().starts_with(*arrow);
                if BOTH.iter().chain(&LOST).chain(&BACK).chain(&ARRIVING).any(arrow) {
                    let why = format!(
                        "`{word}` begins a line of its own in Mermaid, and this would be a message: call the participant otherwise"
                    );
                    return Err(self.fault(Class::Syntax, why));
                }
                let lower = word.to_ascii_lowercase();
                let is_title = ["title", "acctitle", "accdescr"].contains(&lower.trim_end_matches(':'));
                if is_title && rest.trim().trim_start_matches(':').trim().is_empty() {
                    let why = format!("`{word}` has no text, and takes the next line for it: write one behind it");
                    return Err(self.fault(Class::Syntax, why));
                }
                Ok(())
            }
            "rect" | "box" => self.open(Block::Plain),
            "alt" => self.open(Block::Choice(self.line, Vec::new(), Fields::new("way", self.line))),
            "opt" => self.open(Block::Option(self.line, Fields::new("opt", self.line))),
            "loop" => {
                let called = self.loops_called.next();
                self.open(Block::Loop(self.line, Fields::new("loop", self.line), called))
            }
            "break" => self.open(Block::Break(self.line, Fields::new("break", self.line))),
            "par" | "par_over" => self.open(Block::Par(self.line, Vec::new())),
            "else" => self.other(),
            "and" => self.beside(),
            "end" => self.close(),
            "critical" | "option" => {
                let why = format!(
                    "`{word}` cannot be laid: whether others wait for it is not said. Without it its messages are done in order"
                );
                Err(self.fault(Class::Unknown, why))
            }
            _ => self.message(line),
        }
    }

    /// Says what a participant is called; to say it again without a name changes nothing.
    fn participant(&mut self, text: &str) -> Result<(), Fault> {
        // Mermaid's words may have capitals.
        let at = text.as_bytes().windows(AS.len()).position(|part| part.eq_ignore_ascii_case(AS));
        let named = at.and_then(|at| Some((text.get(..at)?, text.get(at + AS.len()..)?)));
        let (id, name) = named.map_or((text, None), |(id, name)| (id, Some(name)));
        // How it is drawn stands in braces behind what the diagram calls it.
        let id = id.split_once("@{").filter(|_| id.trim_end().ends_with('}')).map_or(id, |(id, _)| id);
        let (id, name) = (id.trim(), name.map(|name| escape::read(name.trim())));
        if let Some((_, before, line)) = self.called.get(id).and_then(|at| self.participants.get(*at)) {
            return match name.filter(|name| name != before) {
                None => Ok(()),
                // Mermaid draws the last name everywhere.
                Some(name) => {
                    let why = format!(
                        "`{id}` is called `{before}` since line {line}, and `{name}` here: say it once, before its first message"
                    );
                    Err(self.fault(Class::Doubled, why))
                }
            };
        }
        self.called.insert(id.to_owned(), self.participants.len());
        self.participants.push((id.to_owned(), name.unwrap_or_else(|| escape::read(id)), self.line));
        Ok(())
    }

    fn message(&mut self, line: &str) -> Result<(), Fault> {
        let arrows = BOTH.iter().chain(&LOST).chain(&BACK).chain(&ARRIVING);
        let found = arrows
            .filter_map(|arrow| Some((line.find(arrow)?, *arrow)))
            .min_by_key(|(at, arrow)| (*at, usize::MAX - arrow.len()));
        if let Some((_, arrow)) = found.filter(|(_, arrow)| !ARRIVING.contains(arrow)) {
            let why = match arrow {
                _ if BOTH.contains(&arrow) => format!("`{arrow}` is two messages: write one for each way"),
                _ if BACK.contains(&arrow) => {
                    format!("`{arrow}` has its head where it comes from: write it the other way round")
                }
                // It would have arrived, and the sequence would have gone on where nobody knows of it.
                _ => format!("`{arrow}` is a message that is lost: `->>`, `-->>`, `->`, `-->`, `-)` and `--)` arrive"),
            };
            return Err(self.fault(Class::Unknown, why));
        }
        let split = found.and_then(|(_, arrow)| line.split_once(arrow));
        let Some((from, (to, name))) = split.and_then(|(from, rest)| Some((from, rest.split_once(':')?))) else {
            let why = format!(
                "`{line}` is no line of a sequence diagram: a message is `FROM->>TO: what`, with `->>`, `-->>`, `->`, `-->`, `-)` or `--)`"
            );
            return Err(self.fault(Class::Syntax, why));
        };
        // `()` draws the arrow to the middle of an activation.
        let from = self.named(from.trim().trim_end_matches("()"))?;
        let to = self.named(to.trim().trim_start_matches("()").trim_start_matches(['+', '-']))?;
        let name = escape::read(name.trim());
        let mut fields = self.step.take().unwrap_or_else(|| Fields::new(format!("message {name}"), self.line));
        if from == to {
            fields.put("do", vec![name], self.line)?;
            fields.put("by", vec![from], self.line)?;
            self.push(Line::Do(fields));
        } else {
            let mut look = fields.clone();
            if look.word("over")?.is_none() {
                let over = self.between(&from, &to)?;
                fields.put("over", vec![over], self.line)?;
            }
            fields.put("send", vec![name], self.line)?;
            fields.put("from", vec![from], self.line)?;
            fields.put("to", vec![to], self.line)?;
            self.push(Line::Send(fields));
        }
        Ok(())
    }

    /// The name of a participant; one that was not announced has the name that the diagram uses.
    fn named(&mut self, id: &str) -> Result<String, Fault> {
        let id = id.trim();
        if let Some((_, name, _)) = self.called.get(id).and_then(|at| self.participants.get(*at)) {
            return Ok(name.clone());
        }
        self.participant(id)?;
        Ok(escape::read(id))
    }

    /// The one connector between two components.
    fn between(&mut self, from: &str, to: &str) -> Result<String, Fault> {
        match self.connectors.get(&pair(from, to)) {
            Some((name, true)) => {
                self.guessed.push((pair(from, to), self.line));
                Ok(name.clone())
            }
            None => {
                let why = format!(
                    "there is no connector between `{from}` and `{to}`: say `%% trapkey: connector NAME from=.. to=..` before"
                );
                Err(self.fault(Class::MissingAnnotation, why))
            }
            Some((_, false)) => Err(several(&pair(from, to), self.line)),
        }
    }

    fn push(&mut self, line: Line) {
        if self.sequence.is_none() {
            self.sequence = Some(("main".to_owned(), self.line));
        }
        if self.steps.is_empty() {
            self.steps.push(Vec::new());
        }
        if let Some(steps) = self.steps.last_mut() {
            steps.push(line);
        }
    }

    fn close_sequence(&mut self) -> Result<(), Fault> {
        if !self.blocks.is_empty() {
            return Err(self.fault(Class::Syntax, "a block is still open here: `end` is missing"));
        }
        self.no_step()?;
        if let Some((name, line)) = self.sequence.take() {
            let steps = self.whole();
            self.draft.sequences.push(Written { name, line, steps });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Draft, Fault> {
        if let Some((end, line)) = self.passing {
            return Err(unclosed(end, line));
        }
        self.close_sequence()?;
        // Another connector may stand behind the message.
        let only = |ends: &[String; 2]| self.connectors.get(ends).is_some_and(|(_, only)| *only);
        if let Some((ends, line)) = self.guessed.iter().find(|(ends, _)| !only(ends)) {
            return Err(several(ends, *line));
        }
        // Behind the sequences that were written: the first of those is the one that requests run through.
        self.loops.sort_by_key(|(place, _)| *place);
        self.draft.sequences.extend(self.loops.drain(..).map(|(_, written)| written));
        let mut known: HashSet<String> = self.draft.components.iter().map(|(name, _)| name.clone()).collect();
        for (_, name, line) in &self.participants {
            if known.insert(name.clone()) {
                let fields = Fields::new(format!("component {name}"), *line);
                self.draft.components.push((name.clone(), fields));
            }
        }
        Ok(self.draft)
    }
}

/// Of these Mermaid takes a semicolon for text.
fn to_the_end(line: &str) -> bool {
    let text = line.split_at_checked("accTitle".len());
    let text = text.filter(|(word, _)| ["accTitle", "accDescr"].iter().any(|it| word.eq_ignore_ascii_case(it)));
    text.is_some_and(|(_, text)| text.trim_start().starts_with(':'))
}

/// What stands behind the brace of a description of several lines.
fn description(line: &str) -> Option<&str> {
    let (word, rest) = line.split_at_checked("accDescr".len())?;
    word.eq_ignore_ascii_case("accDescr").then(|| rest.trim_start().strip_prefix('{')).flatten()
}

/// Whether a comment was meant for us, with a slip in its first word.
fn is_ours(comment: &str) -> bool {
    let text = comment.trim_start_matches('%').trim_start();
    let first = |other: &str| {
        let word = text.split(|letter: char| !letter.is_alphanumeric() && !other.contains(letter)).next();
        word.unwrap_or("").replace(['-', '_'], "").eq_ignore_ascii_case("trapkey")
    };
    first("") || first("-_")
}

/// Whether a comment that was meant for us stands somewhere in a line.
fn says_ours(line: &str) -> bool {
    line.split("%%").skip(1).any(is_ours)
}

/// Whether a text that is passed over begins as a statement of ours does.
fn begins_ours(text: &str) -> bool {
    text.split_once(':').is_some_and(|(word, _)| word.trim().eq_ignore_ascii_case("trapkey"))
}

fn is_of_a_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn unclosed(end: &str, line: usize) -> Fault {
    Fault::new(Class::Syntax, "", format!("what begins here has no end: `{end}` is missing")).at(line)
}

fn several([from, to]: &[String; 2], line: usize) -> Fault {
    let why = format!("several connectors join `{from}` and `{to}`: say `%% trapkey: step over=..` before the message");
    Fault::new(Class::MissingAnnotation, "", why).at(line)
}

fn pair(from: &str, to: &str) -> [String; 2] {
    let (from, to) = (from.to_owned(), to.to_owned());
    if from <= to { [from, to] } else { [to, from] }
}
