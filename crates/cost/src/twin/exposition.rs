//! OpenMetrics 1.0, the text format, read strictly and within bounds: an endpoint that is watched is not trusted.
//!
//! Families stand one after the other, each with its metadata first; a sample has a name that the type of its family allows and
//! stands once; `# EOF` ends the text. What follows a value (a timestamp, an exemplar) is checked for its form and passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Class, Fault};

/// The longest text.
pub const MAX_BYTES: usize = 4 << 20;
/// The most samples.
const MAX_SAMPLES: usize = 50_000;
/// The longest line.
const MAX_LINE: usize = 16 << 10;
/// The most labels of a sample.
const MAX_LABELS: usize = 32;

/// Labels of a sample.
pub type Labels = BTreeMap<String, String>;

/// The types of families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its type is not said.
    Unknown,
    /// Goes up and down.
    Gauge,
    /// Only goes up, until its program starts anew.
    Counter,
    /// What is so, one of several.
    StateSet,
    /// Words.
    Info,
    /// Counts by size.
    Histogram,
    /// Counts by size that go up and down.
    GaugeHistogram,
    /// Quantiles.
    Summary,
}

impl Kind {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "unknown" => Self::Unknown,
            "gauge" => Self::Gauge,
            "counter" => Self::Counter,
            "stateset" => Self::StateSet,
            "info" => Self::Info,
            "histogram" => Self::Histogram,
            "gaugehistogram" => Self::GaugeHistogram,
            "summary" => Self::Summary,
            _ => return None,
        })
    }

    /// What may stand behind the name of the family.
    const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Unknown | Self::Gauge | Self::StateSet => &[""],
            Self::Counter => &["_total", "_created"],
            Self::Info => &["_info"],
            Self::Histogram => &["_bucket", "_count", "_sum", "_created"],
            Self::GaugeHistogram => &["_bucket", "_gcount", "_gsum"],
            Self::Summary => &["_count", "_sum", "_created", ""],
        }
    }

    /// Whether values under this suffix only go up: no number below 0, and none that is none. The sum of a histogram is one of them
    /// (OpenMetrics 1.0, Histogram); that its values could be negative, only its buckets would tell, and durations never are.
    fn counts(self, suffix: &str) -> bool {
        match self {
            Self::Counter => suffix == "_total",
            Self::Histogram => matches!(suffix, "_bucket" | "_count" | "_sum"),
            Self::Summary => suffix == "_count",
            _ => false,
        }
    }
}

/// One line with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What stands behind the name of the family, such as `_total`.
    pub suffix: &'static str,
    /// Its labels.
    pub labels: Labels,
    /// Its value; may be infinite or no number where the type allows it.
    pub value: f64,
}

/// What has one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its type.
    pub kind: Kind,
    /// Its samples, in the order in which they stand.
    pub samples: Vec<Sample>,
}

/// Everything that an endpoint says at one moment, by the names of families.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition(BTreeMap<String, Family>);

impl Exposition {
    /// The family of a name.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.0.get(name)
    }

    /// All families, by name.
    pub fn families(&self) -> impl Iterator<Item = (&str, &Family)> {
        self.0.iter().map(|(name, family)| (name.as_str(), family))
    }
}

/// Reads a text.
///
/// # Errors
/// The first deviation, with its line: [`Class::Syntax`], [`Class::Doubled`], [`Class::Invalid`], [`Class::TooLarge`].
pub fn read(text: &str) -> Result<Exposition, Fault> {
    if text.len() > MAX_BYTES {
        return Err(Fault::new(Class::TooLarge, "metrics", format!("more than {MAX_BYTES} bytes")));
    }
    let body = text.strip_suffix("# EOF\n").or_else(|| text.strip_suffix("# EOF"));
    let Some(body) = body.filter(|body| body.is_empty() || body.ends_with('\n')) else {
        return Err(Fault::new(Class::Syntax, "metrics", "the end is not marked by `# EOF`"));
    };
    let mut reader = Reader::default();
    for (number, line) in body.lines().enumerate() {
        reader.line(line).map_err(|fault| fault.at(number + 1))?;
    }
    reader.exposition.whole()?;
    Ok(reader.exposition)
}

#[derive(Default)]
struct Reader {
    exposition: Exposition,
    /// The family that samples belong to now, and the metadata that it has.
    current: Option<(String, BTreeSet<&'static str>)>,
    /// Samples of the present family that have stood.
    seen: BTreeSet<(&'static str, Labels)>,
    samples: usize,
}

fn syntax(why: impl Into<String>) -> Fault {
    Fault::new(Class::Syntax, "metrics", why)
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Fault> {
        if line.len() > MAX_LINE {
            return Err(Fault::new(Class::TooLarge, "metrics", format!("a line of more than {MAX_LINE} bytes")));
        }
        match line.strip_prefix('#') {
            Some(metadata) => self.metadata(metadata),
            None => self.sample(line),
        }
    }

    fn metadata(&mut self, text: &str) -> Result<(), Fault> {
        let mut words = text.strip_prefix(' ').unwrap_or_default().splitn(3, ' ');
        let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return Err(syntax("`#` begins `# HELP`, `# TYPE`, `# UNIT` or `# EOF`"));
        };
        let word = ["HELP", "TYPE", "UNIT"].into_iter().find(|known| *known == word);
        let Some(word) = word.filter(|_| is_name(name, true)) else {
            return Err(syntax("`#` begins `# HELP`, `# TYPE`, `# UNIT` or `# EOF`"));
        };
        if self.current.as_ref().is_none_or(|(current, _)| current != name) {
            self.begin(name)?;
        }
        let (_, has) = self.current.get_or_insert_default();
        if !has.insert(word) {
            return Err(Fault::new(Class::Doubled, name, format!("`# {word}` stands twice")));
        }
        let Some(family) = self.exposition.0.get_mut(name) else { return Ok(()) };
        if !family.samples.is_empty() {
            return Err(Fault::new(Class::Syntax, name, "metadata stand before the samples"));
        }
        match word {
            "TYPE" => {
                let unknown = || Fault::new(Class::Invalid, name, "is of a type that OpenMetrics does not have");
                family.kind = Kind::of(rest).ok_or_else(unknown)?;
            }
            "UNIT" if !rest.is_empty() && name.strip_suffix(rest).is_none_or(|front| !front.ends_with('_')) => {
                return Err(Fault::new(Class::Invalid, name, format!("lacks the unit `_{rest}` at its end")));
            }
            _ => {}
        }
        Ok(())
    }

    /// The next family.
    fn begin(&mut self, name: &str) -> Result<(), Fault> {
        let family = Family { kind: Kind::Unknown, samples: Vec::new() };
        if self.exposition.0.insert(name.to_owned(), family).is_some() {
            return Err(Fault::new(Class::Doubled, name, "the family stands in two places"));
        }
        self.current = Some((name.to_owned(), BTreeSet::new()));
        self.seen.clear();
        Ok(())
    }

    fn sample(&mut self, line: &str) -> Result<(), Fault> {
        self.samples += 1;
        if self.samples > MAX_SAMPLES {
            return Err(Fault::new(Class::TooLarge, "metrics", format!("more than {MAX_SAMPLES} samples")));
        }
        let end = line.find(['{', ' ']).ok_or_else(|| syntax("a sample has a name and a value"))?;
        let (name, rest) = line.split_at(end);
        if !is_name(name, true) {
            return Err(syntax("a sample begins with a name"));
        }
        let (labels, rest) = if rest.starts_with('{') { labels(rest)? } else { (Labels::new(), rest) };
        let value = after(rest).map_err(|why| Fault::new(Class::Syntax, name, why))?;
        let (family, suffix) = self.owner(name)?;
        if family.kind.counts(suffix) && (value.is_nan() || value < 0.0) {
            return Err(Fault::new(Class::Invalid, name, "counts, and is below 0 or no number"));
        }
        if !self.seen.insert((suffix, labels.clone())) {
            return Err(Fault::new(Class::Doubled, name, "the sample stands twice"));
        }
        let Some((family, _)) =
            self.current.as_ref().and_then(|(name, _)| Some((self.exposition.0.get_mut(name)?, ())))
        else {
            return Ok(());
        };
        family.samples.push(Sample { suffix, labels, value });
        Ok(())
    }

    /// The family of a sample, and what stands behind its name. One without metadata begins a family of its own.
    fn owner(&mut self, name: &str) -> Result<(&Family, &'static str), Fault> {
        let of = |family: &Family, current: &str| {
            let rest = name.strip_prefix(current)?;
            family.kind.suffixes().iter().find(|suffix| **suffix == rest).copied()
        };
        let fits = self.current.as_ref().and_then(|(current, _)| of(self.exposition.0.get(current)?, current));
        let suffix = match fits {
            Some(suffix) => suffix,
            None => {
                self.begin(name)?;
                ""
            }
        };
        let family = self.current.as_ref().and_then(|(current, _)| self.exposition.0.get(current));
        family.map(|family| (family, suffix)).ok_or_else(|| syntax("a sample without a family"))
    }
}

/// Labels in braces, and what follows.
fn labels(text: &str) -> Result<(Labels, &str), Fault> {
    let mut labels = Labels::new();
    let mut rest = text.strip_prefix('{').unwrap_or(text);
    if let Some(rest) = rest.strip_prefix('}') {
        return Ok((labels, rest));
    }
    loop {
        let (name, behind) =
            rest.split_once("=\"").ok_or_else(|| syntax("a label is a name, `=` and a value in quotes"))?;
        if !is_name(name, false) {
            return Err(syntax("a label has a name of letters, digits and `_`"));
        }
        let (value, behind) = quoted(behind)?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err(Fault::new(Class::Doubled, name, "the label stands twice"));
        }
        if labels.len() > MAX_LABELS {
            return Err(Fault::new(Class::TooLarge, "metrics", format!("a sample with more than {MAX_LABELS} labels")));
        }
        match (behind.strip_prefix(','), behind.strip_prefix('}')) {
            (Some(more), _) => rest = more,
            (_, Some(behind)) => return Ok((labels, behind)),
            _ => return Err(syntax("behind a label stands `,` or `}`")),
        }
    }
}

/// The value of a label up to its closing quote, and what follows.
fn quoted(text: &str) -> Result<(String, &str), Fault> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                _ => return Err(syntax("`\\` stands before `\\`, `\"` or `n`")),
            },
            other => value.push(other),
        }
    }
    Err(syntax("a quote is not closed"))
}

/// The value behind a name or labels; a timestamp and an exemplar may follow.
fn after(text: &str) -> Result<f64, String> {
    let text = text.strip_prefix(' ').ok_or("a space stands before the value")?;
    let (front, exemplar) = match text.split_once(" # ") {
        Some((front, exemplar)) => (front, Some(exemplar)),
        None => (text, None),
    };
    let mut words = front.split(' ');
    let value = words.next().and_then(number).ok_or("the value is no number")?;
    if let Some(word) = words.next()
        && number(word).is_none_or(|time| !time.is_finite())
    {
        return Err("behind the value stands a time or nothing".to_owned());
    }
    if words.next().is_some() {
        return Err("behind the time stands nothing".to_owned());
    }
    if let Some(exemplar) = exemplar {
        let (_, rest) = if exemplar.starts_with('{') {
            labels(exemplar).map_err(|fault| fault.why)?
        } else {
            return Err("an exemplar begins with its labels".to_owned());
        };
        let mut words = rest.strip_prefix(' ').ok_or("an exemplar has a value")?.split(' ');
        let numbers = words.by_ref().take(2).all(|word| number(word).is_some());
        if !numbers || words.next().is_some() {
            return Err("an exemplar has a value and may have a time".to_owned());
        }
    }
    Ok(value)
}

/// A number as OpenMetrics writes it.
fn number(word: &str) -> Option<f64> {
    match word {
        "+Inf" | "Inf" => return Some(f64::INFINITY),
        "-Inf" => return Some(f64::NEG_INFINITY),
        "NaN" => return Some(f64::NAN),
        _ => {}
    }
    // Rust also reads words such as `infinity`.
    let digits = word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if digits { word.parse().ok() } else { None }
}

fn is_name(name: &str, colons: bool) -> bool {
    let fits = |byte: u8, first: bool| {
        byte.is_ascii_alphabetic() || byte == b'_' || (colons && byte == b':') || (!first && byte.is_ascii_digit())
    };
    !name.is_empty() && name.bytes().enumerate().all(|(at, byte)| fits(byte, at == 0))
}

impl Exposition {
    /// Whether every histogram has buckets that grow, up to one for everything, and a count that agrees with it.
    fn whole(&self) -> Result<(), Fault> {
        for (name, family) in self.0.iter().filter(|(_, family)| family.kind == Kind::Histogram) {
            let fault = |why: &str| Fault::new(Class::Invalid, name.clone(), why);
            for (labels, histogram) in family.histograms().map_err(fault)? {
                let Some((last, all)) = histogram.buckets.last() else { return Err(fault("has no buckets")) };
                let grows = histogram.buckets.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1);
                if !grows || *last != f64::INFINITY || histogram.count.is_some_and(|count| count != *all) {
                    return Err(fault(&format!("the buckets of {labels:?} do not add up")));
                }
            }
        }
        Ok(())
    }
}

/// Counts by size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds, and how many values are not above them; in rising order, the last bound is infinite.
    pub buckets: Vec<(f64, f64)>,
    /// How many values there are.
    pub count: Option<f64>,
    /// Their sum.
    pub sum: Option<f64>,
}

impl Family {
    /// The histograms by their labels without `le`.
    ///
    /// # Errors
    /// A bucket without a bound.
    pub fn histograms(&self) -> Result<BTreeMap<Labels, Histogram>, &'static str> {
        let mut all: BTreeMap<Labels, Histogram> = BTreeMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le");
            let histogram = all.entry(labels).or_default();
            match sample.suffix {
                "_bucket" => {
                    let bound = bound.as_deref().and_then(number).filter(|bound| !bound.is_nan());
                    histogram.buckets.push((bound.ok_or("a bucket has no bound `le`")?, sample.value));
                }
                "_count" => histogram.count = Some(sample.value),
                "_sum" => histogram.sum = Some(sample.value),
                _ => {}
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
