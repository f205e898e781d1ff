//! Combined fragments: choices, loops, what follows each other and what is done at once.

use roxmltree::Node;

use super::super::block;
use super::super::draft::{Line, Written};
use super::super::fields::Fields;
use super::{Reader, attribute, called, name, sort, vsl, written};
use crate::{Class, Fault};

/// Ways of a choice.
type Ways = Vec<(Fields, Vec<Line>)>;

/// Whether a fragment ends what it stands in.
pub(super) fn is_break(fragment: Node<'_, '_>) -> bool {
    sort(fragment) == "CombinedFragment" && attribute(fragment, "interactionOperator") == Some("break")
}

/// Whether it is a guard that says something: tools write one without a condition beside each operand.
pub(super) fn is_guard(child: Node<'_, '_>) -> bool {
    let says = |it: Node<'_, '_>| {
        let mut texts = it.children().filter(Node::is_text).filter_map(|text| text.text());
        texts.any(|text| !text.trim().is_empty())
            || ["value", "body", "symbol"].iter().any(|key| attribute(it, key).is_some_and(|it| !it.trim().is_empty()))
    };
    let is_other = |it: Node<'_, '_>| !["", "LiteralString", "OpaqueExpression"].contains(&sort(it));
    child.tag_name().name() == "guard"
        && child.descendants().filter(|it| it.is_element()).any(|it| says(it) || (it != child && is_other(it)))
}

/// What a guard says of how often a loop goes round.
const BOUNDS: [&str; 2] = ["minint", "maxint"];

/// `minint` or `maxint` of an operand's guard: `*` is no end, a literal without a value 0.
///
/// # Errors
/// What it is, if it is no whole number.
fn bound<'a>(operand: Node<'a, 'a>, key: &str) -> Result<Option<f64>, String> {
    let guard = operand.children().find(|child| child.tag_name().name() == "guard");
    let Some(said) = guard.and_then(|guard| guard.children().find(|child| child.tag_name().name() == key)) else {
        return Ok(None);
    };
    let attribute = attribute(said, "value").or_else(|| attribute(said, "body")).map(str::to_owned);
    let body = said.children().find(|child| child.tag_name().name() == "body");
    let unsaid = || sort(said).starts_with("Literal").then(|| "0".to_owned());
    let text = match (attribute, body) {
        (None, Some(body)) => Some(written::text(body).map_err(|inside| {
            format!("its `{key}` has the element `{}` in it: only whole numbers can be used", inside.tag_name().name())
        })?),
        (attribute, _) => attribute.or_else(unsaid),
    };
    let Some(text) = text.as_deref().map(str::trim) else {
        return Err(format!("its `{key}` is a `{}`: only whole numbers can be used", sort(said)));
    };
    match vsl::whole(text).unwrap_or(text).parse::<u32>() {
        Ok(number) => Ok(Some(f64::from(number))),
        Err(_) if matches!(text, "*" | "-1") => Ok(Some(f64::INFINITY)),
        Err(_) => Err(format!("its `{key}` is `{text}`: only whole numbers can be used")),
    }
}

impl<'a> Reader<'a> {
    /// `alt` and `opt`, with the probabilities that `GaStep` on their operands says; of `seq` and `strict` one operand after the other, in
    /// the order of the file, which both allow; the operands of `par` are its branches.
    pub(super) fn combined(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
        depth: usize,
    ) -> Result<Vec<Line>, Fault> {
        let operator = attribute(fragment, "interactionOperator").unwrap_or("seq");
        match operator {
            "loop" => Ok(vec![self.repeated(fragment, interaction, depth)?]),
            "alt" | "opt" => {
                let ways = self.choice(fragment, interaction, depth, operator)?;
                Ok(vec![Line::Choice(self.lines.line(fragment), ways)])
            }
            "seq" | "strict" => {
                let operands = self.operands(fragment, interaction, depth, operator)?;
                Ok(operands.into_iter().flatten().collect())
            }
            "par" => {
                let branches = self.operands(fragment, interaction, depth, operator)?;
                Ok(vec![Line::Par(self.lines.line(fragment), branches)])
            }
            _ => {
                let cannot = format!("the operator `{operator}`: it cannot be laid");
                let why = match operator {
                    "break" => {
                        "a `break` inside of another fragment is not laid: say with `alt` what is done instead of what"
                            .to_owned()
                    }
                    "critical" => {
                        format!("{cannot}; what must not be interleaved is held by a resource: write `strict`")
                    }
                    "neg" => format!("{cannot}, for it is what never happens: take it out"),
                    "assert" | "ignore" | "consider" => {
                        format!("{cannot}, for it says nothing of times: write `strict`")
                    }
                    _ => format!("{cannot}; `alt`, `opt`, `break`, `loop`, `par`, `seq` and `strict` can"),
                };
                Err(self.lines.words(fragment, "fragment").fault(Class::Unknown, 0, why))
            }
        }
    }

    /// The steps of each operand of a fragment whose operands have no guards.
    fn operands(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
        depth: usize,
        operator: &str,
    ) -> Result<Vec<Vec<Line>>, Fault> {
        let mut all = Vec::new();
        for operand in fragment.children().filter(|child| child.tag_name().name() == "operand") {
            if let Some(guard) = operand.children().find(|child| is_guard(*child)) {
                let why = format!("a guard in `{operator}` is not heeded: say with `opt` how often it holds");
                let words = self.lines.words(operand, "operand");
                return Err(words.fault(Class::Unknown, self.lines.line(guard), why));
            }
            all.push(self.fragments(operand, interaction, depth + 1)?);
        }
        Ok(all)
    }

    /// A `break` of an interaction: the way that ends it, and the one that goes on, to which all that follows belongs.
    pub(super) fn broken_off(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
        depth: usize,
    ) -> Result<[(Fields, Vec<Line>); 2], Fault> {
        let ways = self.choice(fragment, interaction, depth, "break")?;
        ways.try_into().map_err(|_| {
            let why = "it is always taken: what follows would never be done";
            Fault::new(Class::NoEffect, format!("break {}", name(fragment)), why).at(self.lines.line(fragment))
        })
    }

    fn choice(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
        depth: usize,
        operator: &str,
    ) -> Result<Ways, Fault> {
        let at = self.lines.line(fragment);
        let mut ways = Vec::new();
        let operands = fragment.children().filter(|child| child.tag_name().name() == "operand");
        let operands: Vec<_> = operands.collect();
        let is_once = operator != "alt";
        if is_once && operands.len() != 1 {
            let why = format!("it has {} operands, and one is wanted", operands.len());
            return Err(Fault::new(Class::Invalid, format!("{operator} {}", name(fragment)), why).at(at));
        }
        let (mut taken, mut all) = (0.0, true);
        for operand in operands {
            let mut words = self.lines.words(operand, "operand");
            let mut guards = operand.children().filter(|child| child.tag_name().name() == "guard");
            let is_bound = |it: &Node<'_, '_>| BOUNDS.contains(&it.tag_name().name());
            if let Some(bound) = guards.find_map(|guard| guard.children().find(is_bound)) {
                let why = format!(
                    "a `{}` in the guard of `{operator}` is not heeded: only a `loop` goes round so often",
                    bound.tag_name().name()
                );
                return Err(words.fault(Class::Unknown, self.lines.line(bound), why));
            }
            let said = self.applied.probability(attribute(operand, "id").unwrap_or(""), &mut words)?;
            if self.aside {
                words.put("weight", vec!["1".to_owned()], at)?;
            }
            if said.is_none() && !self.aside {
                let why = "it has no `prob` of a `GaStep`: how often is it taken?";
                return Err(words.fault(Class::MissingAnnotation, 0, why));
            }
            all &= said.is_some();
            taken += said.unwrap_or(0.0);
            let steps = self.fragments(operand, interaction, depth + 1)?;
            if operator == "opt" && !self.aside {
                if let Some(why) = said.and_then(|taken| block::not_sometimes(operator, "prob", taken)) {
                    return Err(words.fault(Class::Invalid, 0, why));
                }
                block::filled(&format!("opt {}", called(fragment)), at, &steps)?;
            }
            ways.push((words, steps));
        }
        // Weights would be taken for probabilities of another sum, and what is done when no operand is would be lost.
        if operator == "alt" && all && (taken - 1.0).abs() > 1e-6 {
            let why = format!("the probabilities of its operands add up to {taken}, not to 1: what is done otherwise?");
            return Err(Fault::new(Class::Invalid, format!("alt {}", name(fragment)), why).at(at));
        }
        if is_once && taken < 1.0 {
            let mut words = self.lines.words(fragment, operator);
            words.put("weight", vec![format!("{}", 1.0 - taken)], at)?;
            ways.push((words, Vec::new()));
        }
        Ok(ways)
    }

    /// A `loop`: how often is said by `rep` of a `GaStep` on the fragment or its operand, or by a guard with the same `minint` and
    /// `maxint`. Its body becomes a sequence.
    fn repeated(&mut self, fragment: Node<'a, 'a>, interaction: Node<'a, 'a>, depth: usize) -> Result<Line, Fault> {
        let mut words = self.lines.words(fragment, "loop");
        let at = self.lines.line(fragment);
        let operands: Vec<_> = fragment.children().filter(|child| child.tag_name().name() == "operand").collect();
        let [operand] = operands.as_slice() else {
            return Err(words.fault(
                Class::Invalid,
                0,
                format!("it has {} operands, and one is wanted", operands.len()),
            ));
        };
        for node in [fragment, *operand] {
            self.applied.repeats(attribute(node, "id").unwrap_or(""), &mut words)?;
        }
        self.times(*operand, &mut words)?;
        let (called, _) = self.loops.next();
        let steps = self.fragments(*operand, interaction, depth + 1)?;
        if !self.aside {
            block::filled(&format!("loop {}", self::called(fragment)), at, &steps)?;
        }
        words.put("ref", vec![called.clone()], at)?;
        self.bodies.push(Written { name: called, line: at, steps });
        Ok(Line::Ref(words))
    }

    /// How often a loop goes round: both may say it, if they agree.
    fn times(&self, operand: Node<'a, 'a>, words: &mut Fields) -> Result<(), Fault> {
        if self.aside {
            return Ok(());
        }
        let bound = |key: &str| bound(operand, key).map_err(|why| words.fault(Class::Invalid, 0, why));
        let (least, most) = (bound("minint")?, bound("maxint")?);
        let range = || {
            let text = |bound: Option<f64>| {
                bound.map_or(String::new(), |it| if it.is_finite() { it.to_string() } else { "*".to_owned() })
            };
            format!("`{}..{}`", text(least), text(most))
        };
        if let Some(said) = words.clone().word("times")? {
            // What is no number is refused with the other values.
            let out = |times: f64| least.is_some_and(|least| times < least) || most.is_some_and(|most| times > most);
            return match said.text.parse::<f64>() {
                Ok(times) if out(times) => {
                    let why = format!("its `rep` is {times}, and its guard says {}: which is meant?", range());
                    Err(words.fault(Class::Invalid, 0, why))
                }
                _ => Ok(()),
            };
        }
        match (least, most) {
            (Some(least), Some(most)) if least == most && most.is_finite() => {
                if vsl::wanted("rep", &most.to_string()).is_some() {
                    let why = format!("its guard says {}: a whole number from 1 to 100000 is wanted", range());
                    return Err(words.fault(Class::Invalid, 0, why));
                }
                words.put("times", vec![most.to_string()], 0)
            }
            _ => {
                let why = "how often does it go round? Say `rep` of a `GaStep` on it, or the same `minint` and `maxint` in its guard";
                Err(words.fault(Class::MissingAnnotation, 0, why))
            }
        }
    }
}
