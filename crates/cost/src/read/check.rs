//! Names resolved, numbers in range, no sequence inside itself.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::draft::{Draft, Line, Written};
use super::fields::{Fields, Word};
use super::ring::ring;
use super::{effect, held, order, plant, secure};
use crate::choose::Mode;
use crate::model::{
    Attribute, Branches, Component, Connector, Duration, Level, Model, Node, Operation, Pool, Prices, Send, Sequence,
    Step, Units, Workload,
};
use crate::{Class, Fault, operation, quantity};

/// Things of one sort that a model may have.
const MOST: usize = 100_000;
/// Ways and branches inside each other.
const MAX_DEPTH: usize = 32;

/// Names of one sort and their indices.
pub(super) struct Names {
    sort: &'static str,
    known: HashMap<String, usize>,
}

impl Names {
    fn of<'n>(sort: &'static str, names: impl Iterator<Item = (&'n str, usize)>) -> Result<Self, Fault> {
        let mut known = HashMap::new();
        for (index, (name, line)) in names.enumerate() {
            if index >= MOST {
                return Err(Fault::new(Class::TooLarge, sort, format!("more than {MOST} of them")).at(line));
            }
            if name.trim().is_empty() {
                return Err(Fault::new(Class::Missing, sort, "it has no name").at(line));
            }
            printable(sort, name, line)?;
            if known.insert(name.to_owned(), index).is_some() {
                return Err(Fault::new(Class::Doubled, format!("{sort} {name}"), "the name stands twice").at(line));
            }
        }
        Ok(Self { sort, known })
    }

    /// The same, if there are no more than so many.
    fn at_most(self, most: usize, list: &[(String, Fields)]) -> Result<Self, Fault> {
        match list.get(most) {
            None => Ok(self),
            Some((_, first)) => {
                Err(Fault::new(Class::TooLarge, self.sort, format!("more than {most} of them")).at(first.line()))
            }
        }
    }

    pub(super) fn find(&self, of: &Fields, name: &Word) -> Result<usize, Fault> {
        self.known
            .get(&name.text)
            .copied()
            .ok_or_else(|| of.fault(Class::NoSuchName, name.line, format!("there is no {} `{}`", self.sort, name.text)))
    }
}

/// All names of a model.
pub(super) struct Known {
    pub(super) nodes: Names,
    pub(super) components: Names,
    pub(super) connectors: Names,
    pub(super) attributes: Names,
    pools: Names,
    sequences: Names,
}

/// Makes the model.
pub(super) fn check(draft: Draft) -> Result<Model, Fault> {
    fn lines(list: &[(String, Fields)]) -> impl Iterator<Item = (&str, usize)> {
        list.iter().map(|(name, fields)| (name.as_str(), fields.line()))
    }
    printable("model", &draft.name, 0)?;
    let known = Known {
        nodes: Names::of("node", lines(&draft.nodes))?,
        components: Names::of("component", lines(&draft.components))?,
        connectors: Names::of("connector", lines(&draft.connectors))?,
        attributes: Names::of("attribute", lines(&draft.attributes))?,
        pools: Names::of("pool", lines(&draft.pools))?.at_most(held::MOST_POOLS, &draft.pools)?,
        sequences: Names::of("sequence", draft.sequences.iter().map(|it| (it.name.as_str(), it.line)))?,
    };
    let priced = firsts(&draft.prices);
    let prices = prices(draft.prices)?;
    let each = |list: Vec<(String, Fields)>| list.into_iter();
    let nodes: Vec<Node> = each(draft.nodes).map(|(name, it)| node(name, it, &prices)).collect::<Result<_, _>>()?;
    of_nodes(&priced, &nodes)?;
    let components: Vec<Component> =
        each(draft.components).map(|(name, it)| component(name, it, &known)).collect::<Result<_, _>>()?;
    let connectors: Vec<Connector> =
        each(draft.connectors).map(|(name, it)| connector(name, it, &known)).collect::<Result<_, _>>()?;
    let attributes =
        each(draft.attributes).map(|(name, it)| attribute(name, it, &known)).collect::<Result<Vec<_>, _>>()?;
    let pool_lines: Vec<usize> = lines(&draft.pools).map(|(_, line)| line).collect();
    let pools = each(draft.pools).map(|(name, it)| pool(name, it)).collect::<Result<Vec<_>, _>>()?;
    if draft.sequences.is_empty() {
        return Err(Fault::new(Class::Missing, "sequence", "there is no sequence: nothing happens"));
    }
    let steps = Steps { known: &known, connectors: &connectors };
    let lines: Vec<usize> = draft.sequences.iter().map(|it| it.line).collect();
    let sequences: Vec<Sequence> =
        draft.sequences.into_iter().map(|it| steps.sequence(it)).collect::<Result<_, _>>()?;
    no_cycle(&sequences, &lines)?;
    let annotations = draft
        .secured
        .into_iter()
        .map(|it| secure::annotation(it, &known, &connectors))
        .collect::<Result<Vec<_>, _>>()?;
    secure::once(&annotations)?;
    secure::apart(&annotations)?;
    let (workload, threads_on) = workload(draft.workload, &known)?;
    let energy = plant::energy(draft.money)?;
    let levels = levels(draft.levels)?;
    let mut model = Model {
        name: draft.name,
        nodes,
        components,
        connectors,
        attributes,
        pools,
        embraces: false,
        sequences,
        workload,
        annotations,
        prices,
        energy,
        threads_on,
        levels,
    };
    // What other scenarios acquire counts, too.
    let acquired = effect::acquired(&model, &pool_lines);
    effect::only(&mut model, &lines, draft.scenarios)?;
    order::possible(&model)?;
    held::look(&mut model)?;
    acquired.map(|()| model)
}

fn node(name: String, mut fields: Fields, prices: &Prices) -> Result<Node, Fault> {
    let cores = fields.count("cores", 1024)?.unwrap_or(1);
    let read = |text: &str| quantity::number(text).filter(|speed| *speed > 0.0);
    let speed = fields.value("speed", "a number above 0", read)?.unwrap_or(1.0);
    let platform = fields.word("platform")?;
    if let Some(platform) = &platform
        && !prices.is_empty()
        && !prices.contains_key(&platform.text)
    {
        let known: Vec<&str> = prices.keys().map(String::as_str).collect();
        let why = format!("there are no prices of the platform `{}`; known: {}", platform.text, known.join(", "));
        return Err(fields.fault(Class::NoSuchName, platform.line, why));
    }
    if let Some(platform) = &platform {
        printable("platform", &platform.text, platform.line)?;
    }
    let machines = plant::machines(&mut fields)?;
    fields.end()?;
    Ok(Node { name, cores, speed, platform: platform.map(|it| it.text), machines })
}

fn component(name: String, mut fields: Fields, known: &Known) -> Result<Component, Fault> {
    let node = fields.word("node")?;
    let Some(node) = node else {
        let why = "`node` is missing: without it nobody knows where it runs";
        return Err(fields.fault(Class::MissingAnnotation, 0, why));
    };
    let node = known.nodes.find(&fields, &node)?;
    let credentials = fields.bytes("credentials")?.unwrap_or(0);
    fields.end()?;
    Ok(Component { name, node, credentials })
}

fn connector(name: String, mut fields: Fields, known: &Known) -> Result<Connector, Fault> {
    let (from, to) = (fields.need("from")?, fields.need("to")?);
    let (from, to) = (known.components.find(&fields, &from)?, known.components.find(&fields, &to)?);
    if from == to {
        let why = "it joins a component with itself: what a component does by itself is an operation, and no message";
        return Err(fields.fault(Class::Invalid, 0, why));
    }
    let latency = fields.seconds("latency")?.unwrap_or(0.0);
    let read = |text: &str| quantity::bytes_a_second(text).filter(|rate| *rate > 0.0);
    let bytes_a_second = fields.value("rate", "a rate above 0 such as `100 MB/s`", read)?;
    fields.end()?;
    Ok(Connector { name, from, to, latency, bytes_a_second })
}

fn attribute(name: String, mut fields: Fields, known: &Known) -> Result<Attribute, Fault> {
    let of = fields.need("of")?;
    let of = known.components.find(&fields, &of)?;
    let bytes = fields.bytes("size")?.unwrap_or(0);
    fields.end()?;
    Ok(Attribute { name, of, bytes })
}

fn pool(name: String, mut fields: Fields) -> Result<Pool, Fault> {
    let size = fields.count("size", 1_000_000)?;
    let size = size.ok_or_else(|| {
        fields.fault(Class::MissingAnnotation, 0, "it has no `size` (in UML `poolSize`): how many are there?")
    })?;
    fields.end()?;
    Ok(Pool { name, size, most: 0 })
}

fn workload(fields: Option<Fields>, known: &Known) -> Result<(Workload, Option<usize>), Fault> {
    let Some(mut fields) = fields else {
        let why = "it is missing: `clients` of a closed workload, or `arrivals` and `room` of an open one";
        return Err(Fault::new(Class::MissingAnnotation, "workload", why));
    };
    let threads = fields.count("threads", 1_000_000)?;
    let clients = fields.count("clients", 1_000_000)?;
    let think = fields.seconds("think")?;
    let read = |text: &str| quantity::a_second(text).filter(|rate| *rate > 0.0);
    let rate = fields.value("arrivals", "a rate above 0 such as `500/s`", read)?;
    let room = fields.count("room", 1_000_000)?;
    let on = fields.word("threads_on")?;
    // A name that is mistyped is told before what it leaves out.
    fields.known_so_far()?;
    let workload = match (clients, rate, room, think) {
        (Some(clients), None, None, think) => Workload::Closed { clients, think: think.unwrap_or(0.0), threads },
        (None, Some(rate), Some(room), None) => Workload::Open { rate, room, threads },
        _ => {
            let said = [
                ("clients", clients.is_some()),
                ("think", think.is_some()),
                ("arrivals", rate.is_some()),
                ("room", room.is_some()),
            ];
            let said: Vec<&str> = said.iter().filter(|(_, said)| *said).map(|(name, _)| *name).collect();
            let said =
                if said.is_empty() { "neither".to_owned() } else { format!("here it is `{}`", said.join("` and `")) };
            let why = format!("either `clients` (and `think`), or `arrivals` and `room`: {said}");
            return Err(fields.fault(Class::Missing, 0, why));
        }
    };
    if let (Some(on), None) = (&on, threads) {
        let why = "`threads_on` says of which machines `threads` are meant: how many are there?";
        return Err(fields.fault(Class::Missing, on.line, why));
    }
    let on = on.map(|on| known.nodes.find(&fields, &on)).transpose()?;
    fields.end()?;
    Ok((workload, on))
}

pub(super) fn prices(drafts: Vec<(String, String, Fields)>) -> Result<Prices, Fault> {
    let mut prices = Prices::new();
    for (platform, operation, fields) in drafts {
        let line = fields.line();
        if !operation::known(&operation) {
            return Err(fields.fault(Class::NoSuchName, 0, operation::unknown(&operation)));
        }
        let price = plant::price(fields)?;
        if prices.entry(platform).or_default().insert(operation.clone(), price).is_some() {
            return Err(Fault::new(Class::Doubled, format!("price {operation}"), "it stands twice").at(line));
        }
    }
    Ok(prices)
}

/// The first price of each platform, as it was written.
fn firsts(drafts: &[(String, String, Fields)]) -> BTreeMap<String, Fields> {
    let mut firsts = BTreeMap::new();
    for (platform, _, fields) in drafts {
        firsts.entry(platform.clone()).or_insert_with(|| fields.clone());
    }
    firsts
}

/// That each platform with prices is one of a node: of another one, which may be a slip, no price would ever be asked for.
fn of_nodes(priced: &BTreeMap<String, Fields>, nodes: &[Node]) -> Result<(), Fault> {
    let platforms: BTreeSet<&String> = nodes.iter().filter_map(|node| node.platform.as_ref()).collect();
    let Some((platform, first)) = priced.iter().find(|(platform, _)| !platforms.contains(platform)) else {
        return Ok(());
    };
    let names = platforms.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let there = if names.is_empty() { "no node has a platform".to_owned() } else { format!("there are {names}") };
    let of_list = if first.line() == 0 { "in the prices: " } else { "" };
    let why = format!("{of_list}no node of the model is of the platform `{platform}`; {there}");
    Err(first.fault(Class::NoSuchName, 0, why))
}

fn levels(drafts: Vec<(String, Fields)>) -> Result<BTreeMap<u32, Level>, Fault> {
    let mut levels = BTreeMap::new();
    for (name, mut fields) in drafts {
        let number = name
            .parse()
            .map_err(|_| fields.fault(Class::Invalid, 0, format!("`{name}` is no level: a whole number is wanted")))?;
        let mode = fields.value("mode", "`none`, `sign` or `sign-and-encrypt`", |text| match text {
            "none" => Some(Mode::None),
            "sign" => Some(Mode::Sign),
            "sign-and-encrypt" => Some(Mode::SignAndEncrypt),
            _ => None,
        })?;
        let (strength, rsa) = (fields.count("strength", 256)?, fields.count("rsa", 16384)?);
        fields.end()?;
        let level = Level { mode: mode.unwrap_or_default(), strength, rsa };
        if levels.insert(number, level).is_some() {
            return Err(Fault::new(Class::Doubled, format!("level {number}"), "it stands twice"));
        }
    }
    Ok(levels)
}

struct Steps<'a> {
    known: &'a Known,
    connectors: &'a [Connector],
}

impl Steps<'_> {
    fn sequence(&self, written: Written) -> Result<Sequence, Fault> {
        Ok(Sequence { steps: self.steps(written.steps, 0)?, name: written.name })
    }

    fn steps(&self, lines: Vec<Line>, depth: usize) -> Result<Vec<Step>, Fault> {
        lines.into_iter().map(|line| self.step(line, depth)).collect()
    }

    fn step(&self, line: Line, depth: usize) -> Result<Step, Fault> {
        match line {
            Line::Do(fields) => self.operation(fields),
            Line::Send(fields) => self.send(fields),
            Line::Ref(mut fields) => {
                let name = fields.need("ref")?;
                let sequence = self.known.sequences.find(&fields, &name)?;
                let times = fields.count("times", 100_000)?.unwrap_or(1);
                fields.end()?;
                Ok(Step::Ref { sequence, times })
            }
            Line::Acquire(fields) => Ok(Step::Acquire(self.units(fields, "acquire")?)),
            Line::Release(fields) => Ok(Step::Release(self.units(fields, "release")?)),
            Line::Choice(line, _) if depth >= MAX_DEPTH => Err(too_deep("choose", line)),
            Line::Par(line, _) if depth >= MAX_DEPTH => Err(too_deep("par", line)),
            Line::Par(line, branches) => self.parallel(line, branches, depth),
            Line::Choice(line, ways) => {
                let (mut weighted, mut plain, mut percent) = (Vec::new(), false, false);
                for (mut fields, steps) in ways {
                    let mut read = |text: &str| {
                        let number = quantity::number(text);
                        plain |= number.is_some();
                        percent |= number.is_none();
                        number.or_else(|| quantity::share(text)).filter(|weight| *weight > 0.0)
                    };
                    let weight = fields.value("weight", "a number above 0, or a share in %,", &mut read)?;
                    let weight = weight.ok_or_else(|| {
                        fields.fault(
                            Class::MissingAnnotation,
                            0,
                            "a way of a choice has no `weight`: how often is it taken?",
                        )
                    })?;
                    fields.end()?;
                    weighted.push((weight, self.steps(steps, depth + 1)?));
                }
                let sum: f64 = weighted.iter().map(|(weight, _)| weight).sum();
                // What is divided by its sum adds up to 1 but for rounding, and is not divided again.
                #[expect(clippy::cast_precision_loss, reason = "a few ways")]
                let rounding = f64::EPSILON * weighted.len() as f64;
                let sum = if (sum - 1.0).abs() <= rounding { 1.0 } else { sum };
                if weighted.is_empty() {
                    return Err(Fault::new(Class::Missing, "choose", "there is no way to choose").at(line));
                }
                if !sum.is_finite() {
                    let why =
                        "the weights add up to more than numbers can be: only how they stand to each other counts";
                    return Err(Fault::new(Class::Invalid, "choose", why).at(line));
                }
                if plain && percent && (sum - 1.0).abs() > 1e-9 {
                    let why = "some weights are shares in %, and others numbers that do not make them 100 %: write all in one way";
                    return Err(Fault::new(Class::Invalid, "choose", why).at(line));
                }
                if let [(weight, _)] = weighted.as_slice()
                    && (weight - 1.0).abs() > 1e-12
                {
                    let why = format!(
                        "its only way is always taken, though its weight is {weight:?}: what is done otherwise?"
                    );
                    return Err(Fault::new(Class::NoEffect, "choose", why).at(line));
                }
                if weighted.iter().any(|(weight, _)| weight / sum <= 0.0) {
                    let why = "a way is never taken: its weight is too small beside the others";
                    return Err(Fault::new(Class::NoEffect, "choose", why).at(line));
                }
                Ok(Step::Choice(weighted.into_iter().map(|(weight, steps)| (weight / sum, steps)).collect()))
            }
        }
    }

    fn parallel(&self, line: usize, branches: Vec<Vec<Line>>, depth: usize) -> Result<Step, Fault> {
        let fault = |class, why: String| Err(Fault::new(class, "par", why).at(line));
        let many = branches.len();
        if many < 2 {
            let why = if many == 0 { "it has no branch" } else { "it has one branch, and nothing is done beside it" };
            let why = format!("{why}: without `par` its steps are done in order");
            return fault(Class::NoEffect, why);
        }
        if let Some(empty) = branches.iter().position(Vec::is_empty) {
            let why = format!("its branch {} of {many} is empty: nothing is done there beside the others", empty + 1);
            return fault(Class::NoEffect, why);
        }
        let branches = branches.into_iter().map(|steps| self.steps(steps, depth + 1));
        Ok(Step::Par(Branches::new(branches.collect::<Result<_, _>>()?, line)))
    }

    fn units(&self, mut fields: Fields, key: &'static str) -> Result<Units, Fault> {
        let name = fields.need(key)?;
        let of = self.known.pools.find(&fields, &name)?;
        let count = fields.count("units", 1_000_000)?.unwrap_or(1);
        fields.end()?;
        Ok(Units { of, count, line: name.line })
    }

    fn operation(&self, mut fields: Fields) -> Result<Step, Fault> {
        let name = named(&mut fields, "do")?;
        let by = fields.need("by")?;
        let by = self.known.components.find(&fields, &by)?;
        let mean = fields.seconds("time")?.ok_or_else(|| {
            fields.fault(Class::MissingAnnotation, 0, format!("`{name}` has no `time`: write 0 if it takes none"))
        })?;
        let time = Duration { mean, cv2: fields.variation()? };
        let returns = fields.word("returns")?.map(|it| self.known.attributes.find(&fields, &it)).transpose()?;
        fields.end()?;
        Ok(Step::Operation(Operation { name, by, time, returns, critical: false }))
    }

    fn send(&self, mut fields: Fields) -> Result<Step, Fault> {
        let name = named(&mut fields, "send")?;
        let over = fields.need("over")?;
        let over = self.known.connectors.find(&fields, &over)?;
        let back = match fields.word("from")? {
            None => false,
            Some(from) => {
                let component = self.known.components.find(&fields, &from)?;
                let connector = &self.connectors[over];
                if component != connector.from && component != connector.to {
                    let why = format!("`{}` is no end of `{}`", from.text, connector.name);
                    return Err(fields.fault(Class::NoSuchName, from.line, why));
                }
                component == connector.to
            }
        };
        // Where a diagram says who receives, it is the other end.
        if let Some(to) = fields.word("to")? {
            let connector = &self.connectors[over];
            let end = if back { connector.from } else { connector.to };
            if self.known.components.find(&fields, &to)? != end {
                let why = format!("`{}` does not lead to `{}`", connector.name, to.text);
                return Err(fields.fault(Class::NoSuchName, to.line, why));
            }
        }
        let carries = match fields.list("carries") {
            None => Vec::new(),
            Some((names, line)) => {
                let find = |text: &String| self.known.attributes.find(&fields, &Word { text: text.clone(), line });
                let carried = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
                let twice = (1..carried.len()).find(|at| carried[..*at].contains(&carried[*at]));
                if let Some(twice) = twice {
                    let why = format!("`carries` names `{}` twice", names[twice]);
                    return Err(fields.fault(Class::Doubled, line, why));
                }
                carried
            }
        };
        let bytes = fields.bytes("bytes")?.unwrap_or(0);
        fields.end()?;
        Ok(Step::Send(Send { name, over, back, carries, bytes, critical: false }))
    }
}

fn too_deep(what: &str, line: usize) -> Fault {
    Fault::new(Class::TooLarge, what, format!("more than {MAX_DEPTH} inside each other")).at(line)
}

/// What a step is called: answers say by it where the time goes.
fn named(fields: &mut Fields, key: &'static str) -> Result<String, Fault> {
    let name = fields.need(key)?;
    if name.text.trim().is_empty() {
        let why = "the step has no name: say in a word what is done or sent";
        return Err(fields.fault(Class::Missing, name.line, why));
    }
    printable("step", &name.text, name.line)?;
    Ok(name.text)
}

/// Names end up in terminals, tables and pictures.
pub(super) fn printable(sort: &str, name: &str, line: usize) -> Result<(), Fault> {
    let Some(letter) = name.chars().find(|letter| letter.is_control()) else { return Ok(()) };
    let why = format!("the name has the control character U+{:04X}: take it out", u32::from(letter));
    Err(Fault::new(Class::Invalid, format!("{sort} {}", name.escape_debug()), why).at(line))
}

/// No sequence refers to itself, through others either.
fn no_cycle(sequences: &[Sequence], lines: &[usize]) -> Result<(), Fault> {
    let edges: Vec<Vec<usize>> = sequences
        .iter()
        .map(|it| {
            let mut found = Vec::new();
            effect::refs(&it.steps, &mut found);
            found
        })
        .collect();
    let Some(way) = ring(&edges) else { return Ok(()) };
    let names: Vec<&str> = way.iter().map(|node| sequences[*node].name.as_str()).collect();
    let why = format!("it refers to itself: {}", names.join(" -> "));
    let name = format!("sequence {}", sequences[way[0]].name);
    Err(Fault::new(Class::Cycle, name, why).at(lines[way[0]]))
}
