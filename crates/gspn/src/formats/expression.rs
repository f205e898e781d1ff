//! Numbers that are written as sums, products and powers of constants.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

use super::told;
use crate::{Class, Refusal};

/// How deep parentheses, signs and powers may be nested.
const DEEP: u32 = 64;

/// Why a quotient with a sign in its midst is refused.
const TURNED: &str = "GreatSPN has a minus before all factors and divisors that follow, as in 8/-(2*4) for `8/-2*4`: put what it belongs to \
                      into parentheses, as `8/(-2)*4`";

/// A constant as a file says it.
#[derive(Debug)]
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    /// None where the file leaves it open.
    pub(super) text: Option<&'a str>,
    /// What the file calls its type, where that has whole numbers only.
    pub(super) whole: Option<&'a str>,
}

impl Definition<'_> {
    fn value(&self, constants: &Constants) -> Result<f64, Refusal> {
        let text = self.text.unwrap_or_default();
        let value = if self.whole.is_some() { constants.in_whole_numbers(text) } else { constants.value(text) };
        let value = value.map_err(|why| Refusal::invalid(self.name, why))?;
        match self.whole {
            // Whether it is cut or rounded is not said in the file.
            Some(whole) if value.fract() != 0.0 => {
                let why = format!(
                    "it is defined as an `{whole}`, and its value is {value}: write a whole number, or change its type"
                );
                Err(Refusal::new(Class::Unsupported, self.name, why))
            }
            _ => Ok(value),
        }
    }
}

/// What was divided to get a number. The GreatSPN editor drops the remainder of whole numbers where all in a parenthesis, or in a number
/// that has to be whole, are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Division {
    /// Not all that stands in it is whole.
    Real,
    /// All is whole, and all quotients are.
    Exact,
    /// All is whole but a quotient.
    Cut,
}

#[derive(Debug, Clone, Copy)]
struct Number {
    value: f64,
    division: Division,
    /// Whether a minus stands in front of it, or of what it ends with.
    signed: bool,
}

impl Number {
    fn of(value: f64, whole: bool) -> Self {
        let division = if whole { Division::Exact } else { Division::Real };
        Self { value, division, signed: false }
    }

    /// What becomes of two.
    fn with(self, other: Self, value: f64) -> Self {
        let division = match (self.division, other.division) {
            (Division::Real, _) | (_, Division::Real) => Division::Real,
            (Division::Exact, Division::Exact) if !value.is_finite() || value.fract() == 0.0 => Division::Exact,
            _ => Division::Cut,
        };
        Self { value, division, signed: self.signed || other.signed }
    }
}

/// The constants of a file.
#[derive(Debug, Default)]
pub(super) struct Constants {
    known: HashMap<String, Number>,
    /// Whether the format has `^`. That of TimeNET has it, and works out everything as this program does; for the other see [`Division`].
    powers: bool,
}

impl Constants {
    /// The values of definitions that stand in any order, with those that are `set` beside the file.
    ///
    /// # Errors
    /// By the name of a constant: two have it, none has it that is set, it has no value, needs one that does not exist, or in the end itself.
    pub(super) fn of<'a>(
        mut definitions: Vec<Definition<'a>>,
        set: &'a [(String, String)],
        powers: bool,
    ) -> Result<Self, Refusal> {
        let mut at = HashMap::new();
        for (index, definition) in definitions.iter().enumerate() {
            if at.insert(definition.name, index).is_some() {
                return Err(Refusal::invalid(definition.name, "two constants have this name: give each its own"));
            }
        }
        set_beside(&mut definitions, &at, set)?;
        valued(&definitions)?;
        let definitions = definitions.as_slice();
        // What each still waits for, and who waits for it.
        let mut open: Vec<BTreeSet<usize>> = Vec::new();
        let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, definition) in definitions.iter().enumerate() {
            let invalid = |why| Refusal::invalid(definition.name, why);
            let mut needs = BTreeSet::new();
            for name in names(definition.text.unwrap_or_default()).map_err(invalid)? {
                let needed =
                    at.get(name).ok_or_else(|| invalid(format!("there is no constant `{name}`: define it")))?;
                if needs.insert(*needed) {
                    waiting.entry(*needed).or_default().push(index);
                }
            }
            open.push(needs);
        }
        let mut ready: Vec<usize> =
            open.iter().enumerate().filter(|(_, needs)| needs.is_empty()).map(|(index, _)| index).collect();
        let mut constants = Self { powers, ..Self::default() };
        while let Some(index) = ready.pop() {
            if let Some(definition) = definitions.get(index) {
                let value = definition.value(&constants)?;
                constants.define(definition.name, Number::of(value, definition.whole.is_some()));
            }
            for other in waiting.remove(&index).unwrap_or_default() {
                if let Some(needs) = open.get_mut(other)
                    && needs.remove(&index)
                    && needs.is_empty()
                {
                    ready.push(other);
                }
            }
        }
        match cycle(definitions, &open) {
            Some(refusal) => Err(refusal),
            None => Ok(constants),
        }
    }

    /// Whether it is new.
    fn define(&mut self, name: &str, value: Number) -> bool {
        self.known.insert(name.to_owned(), value).is_none()
    }

    /// The value of `text`, or why it has none.
    pub(super) fn value(&self, text: &str) -> Result<f64, String> {
        Ok(self.number(text.trim())?.value)
    }

    /// The value of `text` where a whole number has to stand; it may not be one.
    fn in_whole_numbers(&self, text: &str) -> Result<f64, String> {
        let number = self.number(text.trim())?;
        let other = number.division == Division::Cut && number.value.fract() == 0.0 && !self.powers;
        if other { Err(cut(text.trim())) } else { Ok(number.value) }
    }

    fn number(&self, text: &str) -> Result<Number, String> {
        let number = Reader { constants: self, rest: text, deep: 0, names: None }.whole(text)?.0;
        if number.value.is_finite() { Ok(number) } else { Err(format!("`{text}` is not finite")) }
    }

    /// A whole number from 0.
    pub(super) fn whole(&self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        // No grammar here has a plus in front of a number.
        if let Some(whole) = text.parse().ok().filter(|_| !text.starts_with('+')) {
            return Ok(whole);
        }
        let value = self.in_whole_numbers(text)?;
        if value >= 0.0 && value.fract() == 0.0 && value <= 9_007_199_254_740_992.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
            return Ok(value as u64);
        }
        Err(format!("`{text}` is {value}, and a whole number from 0 is wanted"))
    }
}

/// Adds to why a text has no value where it stands.
pub(super) fn of(attribute: &str) -> impl Fn(String) -> String {
    move |why| format!("{why} (its `{attribute}`)")
}

/// Why a quotient of whole numbers is refused.
fn cut(text: &str) -> String {
    format!(
        "GreatSPN drops the remainder where all is whole, as in `{text}`: write the number that is meant, or the divisor with a point, as `2.0`"
    )
}

/// Puts the values that stand beside the file where those of the file stand.
fn set_beside<'a>(
    definitions: &mut [Definition<'a>],
    at: &HashMap<&str, usize>,
    set: &'a [(String, String)],
) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for (name, text) in set {
        let Some(definition) = at.get(name.as_str()).and_then(|index| definitions.get_mut(*index)) else {
            let known: Vec<&str> = definitions.iter().map(|definition| definition.name).collect();
            let why = match nearest(name, &known) {
                _ if known.is_empty() => "a value is set for this constant, and the file has none at all".to_owned(),
                Some(near) => format!("a value is set for this constant, and there is none: did you mean `{near}`?"),
                None => format!("a value is set for this constant, and there is none: the file has {}", told(&known)),
            };
            return Err(Refusal::invalid(name, why));
        };
        if !seen.insert(name) {
            return Err(Refusal::invalid(name, "two values are set for this constant"));
        }
        definition.text = Some(text);
    }
    Ok(())
}

/// Refuses a constant without a value: what it is has to be said by whoever reads the file.
fn valued(definitions: &[Definition<'_>]) -> Result<(), Refusal> {
    let open: Vec<&str> = definitions.iter().filter(|it| it.text.is_none()).map(|it| it.name).collect();
    let Some((first, others)) = open.split_first() else { return Ok(()) };
    let too = if others.is_empty() { String::new() } else { format!("; without one, too: {}", told(others)) };
    let why = format!("this constant has no value in the file: give it one by `--set {first}=VALUE`{too}");
    Err(Refusal::new(Class::Unsupported, first, why))
}

/// The known name with the fewest letters changed, added or taken away, if they are few enough for a slip.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let length = name.chars().count();
    let most = (length / 2).clamp(1, 3);
    let near = known.iter().filter(|other| other.chars().count().abs_diff(length) <= most);
    let near = near.map(|other| (strsim::levenshtein(name, other), *other)).filter(|(steps, _)| *steps <= most);
    near.min().map(|(_, other)| other)
}

/// The constants that a text names.
fn names(text: &str) -> Result<Vec<&str>, String> {
    let text = text.trim();
    let constants = Constants { powers: true, ..Constants::default() };
    let reader = Reader { constants: &constants, rest: text, deep: 0, names: Some(Vec::new()) };
    Ok(reader.whole(text)?.1)
}

/// Those that need themselves, if any still wait: each of them waits for another that does.
fn cycle(definitions: &[Definition<'_>], open: &[BTreeSet<usize>]) -> Option<Refusal> {
    let needed = |index: usize| open.get(index)?.first().copied();
    let mut at = open.iter().find_map(BTreeSet::first).copied()?;
    // After as many steps as there are constants it is one of those that come again; of those the first in the file is told first.
    for _ in definitions {
        at = needed(at)?;
    }
    let mut first = at;
    let mut next = needed(at)?;
    while next != at {
        first = first.min(next);
        next = needed(next)?;
    }
    let mut names = Vec::new();
    next = needed(first)?;
    while next != first {
        names.push(definitions.get(next)?.name);
        next = needed(next)?;
    }
    let first = definitions.get(first)?.name;
    let over = if names.is_empty() { String::new() } else { format!(" over {}", told(&names)) };
    Some(Refusal::invalid(first, format!("a cycle: its value needs itself{over}; give one of them a number")))
}

struct Reader<'c, 'a> {
    constants: &'c Constants,
    rest: &'a str,
    deep: u32,
    /// The constants that were met, where only they are asked for: all are 0 then.
    names: Option<Vec<&'a str>>,
}

impl<'a> Reader<'_, 'a> {
    /// The value of all of `text`, and the constants in it if they are asked for.
    fn whole(mut self, text: &str) -> Result<(Number, Vec<&'a str>), String> {
        let value = self.sum()?;
        if !self.rest.is_empty() {
            return Err(format!("`{text}` goes on with `{}`, which is not understood", self.rest));
        }
        Ok((value, self.names.unwrap_or_default()))
    }

    fn take(&mut self, sign: char) -> bool {
        let found = self.rest.strip_prefix(sign);
        if let Some(rest) = found {
            self.rest = rest.trim_start();
        }
        found.is_some()
    }

    fn sum(&mut self) -> Result<Number, String> {
        let mut number = self.product()?;
        loop {
            let add = self.rest.starts_with('+');
            if !self.take('+') && !self.take('-') {
                return Ok(number);
            }
            // There a sign is in front of all that follows up to the next parenthesis.
            if number.signed && !self.constants.powers {
                return Err("GreatSPN has a minus in front of a sum before all of it, as in -(2+5) for `-2+5`: \
                            put what it belongs to into parentheses, as `(-2)+5`"
                    .to_owned());
            }
            let next = self.product()?;
            number = number.with(next, number.value + if add { next.value } else { -next.value });
        }
    }

    fn product(&mut self) -> Result<Number, String> {
        let mut number = self.part()?;
        // Whether all are factors from a signed part on, if there is one behind the first: a minus is before all that follow there.
        let mut turned = None;
        loop {
            let times = self.take('*');
            if !times && !self.take('/') {
                return Ok(number);
            }
            turned = turned.map(|factors: bool| factors && times);
            if turned == Some(false) && !self.constants.powers {
                return Err(TURNED.to_owned());
            }
            let next = self.part()?;
            if next.signed {
                turned = turned.or(Some(times));
            }
            number = number.with(next, if times { number.value * next.value } else { number.value / next.value });
        }
    }

    fn part(&mut self) -> Result<Number, String> {
        self.deep += 1;
        if self.deep > DEEP {
            return Err(format!("more than {DEEP} parentheses, signs and powers inside each other"));
        }
        let number = if self.take('-') {
            let number = self.part()?;
            Number { value: -number.value, signed: true, ..number }
        } else {
            self.power()?
        };
        self.deep -= 1;
        Ok(number)
    }

    /// Binds tighter than a sign in front of it, and from the right: `-a^b^c` is `-(a^(b^c))`.
    fn power(&mut self) -> Result<Number, String> {
        let number = if self.rest.starts_with('(') { self.group()? } else { self.leaf()? };
        if self.constants.powers && self.take('^') {
            return Ok(Number::of(number.value.powf(self.part()?.value), false));
        }
        Ok(number)
    }

    fn group(&mut self) -> Result<Number, String> {
        let before = self.rest;
        self.take('(');
        let number = self.sum()?;
        if !self.take(')') {
            return Err("a `)` is missing".to_owned());
        }
        if number.division == Division::Cut && !self.constants.powers {
            let text = before.get(..before.len() - self.rest.len()).unwrap_or(before);
            return Err(cut(text.trim_end()));
        }
        Ok(Number { signed: false, ..number })
    }

    fn leaf(&mut self) -> Result<Number, String> {
        let rest = self.rest;
        let first = rest.chars().next().ok_or("a number is missing")?;
        if first.is_ascii_digit() || first == '.' {
            let mut before = ' ';
            let goes_on = |next: char| {
                let sign = matches!(next, '+' | '-') && matches!(before, 'e' | 'E');
                before = next;
                !(sign || next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E'))
            };
            let end = rest.find(goes_on).unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            self.rest = after.trim_start();
            let whole = number.bytes().all(|digit| digit.is_ascii_digit());
            let value = number.parse().map_err(|_| format!("`{number}` is not a number"))?;
            return Ok(Number::of(value, whole));
        }
        let end = rest.find(|next: char| !(next.is_alphanumeric() || next == '_')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return Err(format!("`{rest}` is not a number, and no constant"));
        }
        self.rest = after.trim_start();
        if let Some(names) = &mut self.names {
            names.push(name);
            return Ok(Number::of(0.0, false));
        }
        self.constants.known.get(name).copied().ok_or_else(|| format!("there is no constant `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_products_and_powers_are_worked_out() {
        let mut constants = Constants { powers: true, ..Constants::default() };
        let (three, quarter) = (Number::of(3.0, true), Number::of(0.25, false));
        assert!(constants.define("N", three) && constants.define("mu_1", quarter) && !constants.define("N", three));
        for (text, wanted) in [
            ("1.5", 1.5),
            (" 1/1000 ", 0.001),
            ("2+3*4-1", 13.0),
            ("(2 + 3) * -N", -15.0),
            ("1e-3*N", 0.003),
            ("2E+2 - 1", 199.0),
            ("N*mu_1/(1+1)", 0.375),
            ("1/(N^2)", 1.0 / 9.0),
            ("-2^2", -4.0),
            ("2*N ^ 2^(1+1)", 162.0),
            ("(2*2)^-(1/2) * 8", 4.0),
        ] {
            assert_eq!(constants.value(text), Ok(wanted), "{text}");
        }
        for text in
            ["", "1+", "(1", "1)", "M", "1 2", "1/0", "#queue", "1e999", "--", "N[", "2^", "^2", "0^-1", "(-2)^0.5"]
        {
            assert!(constants.value(text).is_err(), "{text}");
        }
        assert!(Constants::default().value("2^3").is_err_and(|why| why.contains("goes on with `^3`")));
        assert!(constants.value(&"(".repeat(100_000)).is_err());
        assert!(constants.value(&"1^".repeat(100_000)).is_err());
        assert_eq!(names("2*N + (M^2 - N)"), Ok(vec!["N", "M", "N"]));
        assert_eq!(constants.whole("2*N"), Ok(6));
        assert_eq!(constants.whole("18446744073709551615"), Ok(u64::MAX));
        assert!(constants.whole("N/2").is_err() && constants.whole("-1").is_err());
        for signed in ["+1", "+1.0", "2*+1", "+N"] {
            assert!(constants.whole(signed).is_err() && constants.value(signed).is_err(), "{signed}");
        }
    }

    /// As the grammar of the GreatSPN editor has it: `(K/2)` is whole, and a minus is in front of all that follows.
    #[test]
    fn what_greatspn_works_out_otherwise_is_refused() {
        let mut constants = Constants::default();
        let (seven, real) = (Number::of(7.0, true), Number::of(7.0, false));
        assert!(constants.define("K", seven) && constants.define("r", real));
        for (text, wanted) in [
            ("K/2", 3.5),
            ("(K/2.0)*1.0", 3.5),
            ("(r/2)", 3.5),
            ("((K+1)/2)*1.5", 6.0),
            ("(K/2+r)", 10.5),
            ("(K*2/2)", 7.0),
            ("(-2)+5", 3.0),
            ("2*-3", -6.0),
            ("1--3", 4.0),
            ("8/-2", -4.0),
            ("2*-3*-4*2", 48.0),
            ("-8/2*4", -16.0),
            ("20/(-2)*(-5)", 50.0),
            ("8/(2*-4)", -1.0),
            ("-(2+5)*3", -21.0),
            ("1.0 + ( 2*(K) / (1+1) ) ", 8.0),
        ] {
            assert_eq!(constants.value(text), Ok(wanted), "{text}");
        }
        for (text, named) in [
            ("(K/2)*1.0", "`(K/2)`"),
            ("((K/2))", "`(K/2)`"),
            ("(1+K/2*2)", "`(1+K/2*2)`"),
            ("2.0*(K/2*4)", "`(K/2*4)`"),
            ("(1/3)", "divisor with a point, as `2.0`"),
        ] {
            let why = constants.value(text);
            assert!(why.as_ref().is_err_and(|why| why.contains(named)), "{text}: {why:?}");
        }
        assert!(constants.whole("K/2*2").is_err_and(|why| why.contains("drops the remainder")));
        assert_eq!(constants.whole("(K+1)/2"), Ok(4));
        for text in ["-2+5", "-K-1", "2*-3+4", "1+-2+3", "(-2*3-1)", "- -1 + r"] {
            let why = constants.value(text);
            assert!(why.as_ref().is_err_and(|why| why.contains("as `(-2)+5`")), "{text}: {why:?}");
        }
        for text in ["20/-2*-5", "1-2/-4*8", "8/-2/2", "2*-5/2", "1.0*(2*-r*5/2)", "2*-3/-1", "2/- -3*4", "-8/-2*4"] {
            let why = constants.value(text);
            assert!(why.as_ref().is_err_and(|why| why.contains("as `8/(-2)*4`")), "{text}: {why:?}");
        }
        let powers = Constants { powers: true, ..constants };
        for (text, wanted) in [("(K/2)*1.0", 3.5), ("-2+5", 3.0), ("2*-3+4", -2.0), ("20/-2*-5", 50.0)] {
            assert_eq!(powers.value(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn definitions_stand_in_any_order() {
        let of = |definitions: &[(&str, &str)]| {
            let definitions: Vec<_> =
                definitions.iter().map(|(name, text)| Definition { name, text: Some(text), whole: None }).collect();
            Constants::of(definitions, &[], true).map_err(|refusal| (refusal.name.clone(), refusal.to_string()))
        };
        let long: Vec<_> = (0..1000).map(|index| (format!("c{index}"), format!("1 + c{}", index + 1))).collect();
        let mut chain: Vec<_> = long.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert!(of(&chain).is_err_and(|(name, why)| name == "c999" && why.contains("no constant `c1000`")));
        chain.push(("c1000", "1"));
        assert_eq!(of(&chain).unwrap().value("c0"), Ok(1001.0));
        let (name, why) = of(&[("k", "1"), ("x", "a"), ("a", "k*b"), ("b", "c + c"), ("c", "a")]).unwrap_err();
        assert!(name == "a" && why.contains("a cycle: its value needs itself over `b`, `c`;"), "{why}");
        assert!(of(&[("a", "a")]).is_err_and(|(name, why)| name == "a" && why.contains("cycle")));
        assert!(of(&[("a", "1"), ("a", "2")]).is_err_and(|(name, _)| name == "a"));
        assert!(of(&[("a", "1/b"), ("b", "0")]).is_err_and(|(name, why)| name == "a" && why.contains("finite")));
    }
    #[test]
    fn a_slip_in_a_name_is_recognised() {
        let known = ["lambda", "mu", "servers", "N"];
        for (name, near) in
            [("lambdaa", Some("lambda")), ("n", Some("N")), ("serverss", Some("servers")), ("rate", None)]
        {
            assert_eq!(nearest(name, &known), near, "{name}");
        }
    }
}
