//! TOML: tables and lists as the reference describes them, nothing else.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::draft::{Draft, Line, Written};
use super::fields::Fields;
use super::lines::Lines;
use crate::{Class, Fault};

type Value<'a> = Spanned<DeValue<'a>>;

type Make = fn(Fields) -> Line;
/// What makes a step of a table, by the key that has its name.
const KINDS: [(&str, Make); 5] = [
    ("do", Line::Do),
    ("send", Line::Send),
    ("ref", Line::Ref),
    ("acquire", Line::Acquire),
    ("release", Line::Release),
];

/// Reads the words of a model.
pub(super) fn draft(text: &str) -> Result<Draft, Fault> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        Fault::new(Class::Syntax, "", error.message().to_owned()).at(line)
    })?;
    let mut draft = Draft::default();
    for (key, value) in table.get_ref() {
        let line = lines.at(key.span().start);
        match key.get_ref().as_ref() {
            "name" => draft.name = lines.scalar(value, "name")?,
            "workload" => draft.workload = Some(lines.fields("workload", line, value)?),
            "money" => draft.money = Some(lines.fields("money", line, value)?),
            "node" => draft.nodes = lines.named("node", value)?,
            "component" => draft.components = lines.named("component", value)?,
            "connector" => draft.connectors = lines.named("connector", value)?,
            "attribute" => draft.attributes = lines.named("attribute", value)?,
            "pool" => draft.pools = lines.named("pool", value)?,
            "sequence" => draft.sequences = lines.sequences(value)?,
            "secure" => {
                for item in lines.items("secure", value)? {
                    draft.secured.push(lines.fields("secure", lines.of_value(item), item)?);
                }
            }
            "level" => draft.levels = lines.named("level", value)?,
            "price" => {
                for (platform, operations) in lines.pairs("price", value)? {
                    for (operation, line, price) in lines.entries(&format!("price of {platform}"), operations)? {
                        let fields = lines.price(&format!("price of {platform} {operation}"), line, price)?;
                        draft.prices.push((platform.clone(), operation, fields));
                    }
                }
            }
            other => {
                let known = "name, workload, money, node, component, connector, attribute, pool, sequence, secure, price, level";
                return Err(Fault::new(Class::Unknown, "", format!("`{other}` is unknown; known: {known}")).at(line));
            }
        }
    }
    Ok(draft)
}

/// Platform, operation, words.
pub(super) type Priced = (String, String, Fields);

/// Reads a text that has nothing but prices.
pub(super) fn prices(text: &str) -> Result<Vec<Priced>, Fault> {
    if text.len() > super::MAX_BYTES {
        return Err(Fault::new(Class::TooLarge, "", "the prices have more than 16 MiB"));
    }
    let draft = draft(text)?;
    let named = [&draft.nodes, &draft.components, &draft.connectors, &draft.attributes, &draft.pools, &draft.levels];
    let others =
        !draft.sequences.is_empty() || !draft.secured.is_empty() || named.iter().any(|named| !named.is_empty());
    if others || draft.workload.is_some() || draft.money.is_some() {
        return Err(Fault::new(Class::Unknown, "", "there is more in it than `[price]`"));
    }
    Ok(draft.prices)
}

impl Lines {
    fn of_value(&self, value: &Value<'_>) -> usize {
        self.at(value.span().start)
    }

    fn wrong(&self, what: &str, value: &Value<'_>, wanted: &str) -> Fault {
        let is = match value.get_ref().type_str() {
            word @ ("array" | "integer") => format!("an {word}"),
            word => format!("a {word}"),
        };
        let why = format!("this is {is}, and {wanted} is wanted");
        Fault::new(Class::Invalid, what, why).at(self.of_value(value))
    }

    fn scalar(&self, value: &Value<'_>, what: &str) -> Result<String, Fault> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            DeValue::Boolean(truth) => Ok(truth.to_string()),
            _ => Err(self.wrong(what, value, "a string or a number")),
        }
    }

    fn items<'v, 't>(&self, what: &str, value: &'v Value<'t>) -> Result<Vec<&'v Value<'t>>, Fault> {
        match value.get_ref() {
            DeValue::Array(items) => Ok(items.iter().collect()),
            _ => Err(self.wrong(what, value, "a list of tables")),
        }
    }

    fn pairs<'v, 't>(&self, what: &str, value: &'v Value<'t>) -> Result<Vec<(String, &'v Value<'t>)>, Fault> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table.iter().map(|(key, value)| (key.get_ref().to_string(), value)).collect()),
            _ => Err(self.wrong(what, value, "a table")),
        }
    }

    /// The members of a table in the order in which they are written.
    fn entries<'v, 't>(&self, what: &str, value: &'v Value<'t>) -> Result<Vec<(String, usize, &'v Value<'t>)>, Fault> {
        let DeValue::Table(table) = value.get_ref() else { return Err(self.wrong(what, value, "a table")) };
        let mut entries: Vec<_> = table.iter().map(|(key, value)| (key.span().start, key, value)).collect();
        entries.sort_by_key(|(start, ..)| *start);
        Ok(entries.into_iter().map(|(start, key, value)| (key.get_ref().to_string(), self.at(start), value)).collect())
    }

    fn named(&self, what: &str, value: &Value<'_>) -> Result<Vec<(String, Fields)>, Fault> {
        let mut named = Vec::new();
        for (name, line, value) in self.entries(what, value)? {
            let fields = self.fields(&format!("{what} {name}"), line, value)?;
            named.push((name, fields));
        }
        Ok(named)
    }

    fn fields(&self, what: &str, line: usize, value: &Value<'_>) -> Result<Fields, Fault> {
        let mut fields = Fields::new(what, line);
        for (key, line, value) in self.entries(what, value)? {
            let values = match value.get_ref() {
                DeValue::Array(items) => items.iter().map(|item| self.scalar(item, what)).collect::<Result<_, _>>()?,
                _ => vec![self.scalar(value, what)?],
            };
            fields.put(&key, values, line)?;
        }
        Ok(fields)
    }

    fn price(&self, what: &str, line: usize, value: &Value<'_>) -> Result<Fields, Fault> {
        match value.get_ref() {
            DeValue::Table(_) => self.fields(what, line, value),
            _ => Err(self.wrong(what, value, "a table such as `{ each = \"1 ms\" }`")),
        }
    }

    fn sequences(&self, value: &Value<'_>) -> Result<Vec<Written>, Fault> {
        let mut sequences = Vec::new();
        for (name, line, value) in self.entries("sequence", value)? {
            let what = format!("sequence {name}");
            let steps = self.items(&what, value)?.into_iter().map(|step| self.step(&what, step));
            sequences.push(Written { steps: steps.collect::<Result<_, _>>()?, name, line });
        }
        Ok(sequences)
    }

    fn step(&self, what: &str, value: &Value<'_>) -> Result<Line, Fault> {
        let entries = self.entries(what, value)?;
        let line = entries.first().map_or_else(|| self.of_value(value), |(_, line, _)| *line);
        let has = |key: &str| entries.iter().find(|(name, ..)| name == key);
        let alone = |key: &str, parts: &str| match entries.iter().find(|(name, ..)| name != key) {
            None => Ok(()),
            Some((other, at, _)) => {
                let why = format!("`{other}` stands beside `{key}`, whose {parts} have all that is said");
                Err(Fault::new(Class::Unknown, what, why).at(*at))
            }
        };
        if let Some((_, line, ways)) = has("choose") {
            alone("choose", "ways")?;
            let ways = self.items(what, ways)?.into_iter().map(|way| self.way(what, way)).collect::<Result<_, _>>()?;
            return Ok(Line::Choice(*line, ways));
        }
        if let Some((_, line, branches)) = has("par") {
            alone("par", "branches")?;
            let branches = self.items(what, branches)?.into_iter().map(|branch| self.branch(what, branch));
            return Ok(Line::Par(*line, branches.collect::<Result<_, _>>()?));
        }
        let mut said = KINDS.iter().filter(|(key, _)| has(key).is_some());
        let (Some((_, make)), None) = (said.next(), said.next()) else {
            let mut keys = Fields::new(what, line);
            entries.iter().try_for_each(|(key, at, _)| keys.put(key, Vec::new(), *at))?;
            let why = "a step has exactly one of `do`, `send`, `ref`, `choose`, `par`, `acquire`, `release`";
            return Err(keys.fault(Class::Missing, line, why));
        };
        Ok(make(self.fields(what, line, value)?))
    }

    /// `{ ref = "audit" }`, of which nothing but a sequence and its `times` can be said.
    fn branch(&self, what: &str, value: &Value<'_>) -> Result<Vec<Line>, Fault> {
        let fields = self.fields(what, self.of_value(value), value)?;
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![Line::Ref(fields)])
    }

    /// `{ weight = 0.3, ref = "miss" }`; without `ref` nothing happens.
    fn way(&self, what: &str, value: &Value<'_>) -> Result<(Fields, Vec<Line>), Fault> {
        let line = self.of_value(value);
        let (mut way, mut step) = (Fields::new(what, line), Fields::new(what, line));
        let mut refers = false;
        for (key, line, value) in self.entries(what, value)? {
            let text = vec![self.scalar(value, what)?];
            if key == "weight" {
                way.put(&key, text, line)?;
            } else {
                refers |= key == "ref";
                step.put(&key, text, line)?;
            }
        }
        if !refers {
            step.end()?;
            return Ok((way, Vec::new()));
        }
        Ok((way, vec![Line::Ref(step)]))
    }
}
