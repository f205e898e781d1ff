//! Numbers that are written as sums and products of constants.

use hashbrown::HashMap;

/// How deep parentheses and signs may be nested.
const DEEP: u32 = 64;

/// The constants of a file.
#[derive(Debug, Default)]
pub(super) struct Constants {
    known: HashMap<String, f64>,
}

impl Constants {
    /// Whether it is new.
    pub(super) fn define(&mut self, name: &str, value: f64) -> bool {
        self.known.insert(name.to_owned(), value).is_none()
    }

    /// The value of `text`, or why it has none.
    pub(super) fn value(&self, text: &str) -> Result<f64, String> {
        let mut reader = Reader { constants: self, rest: text.trim(), deep: 0 };
        let value = reader.sum()?;
        if !reader.rest.is_empty() {
            return Err(format!("`{text}` goes on with `{}`, which is not understood", reader.rest));
        }
        if value.is_finite() { Ok(value) } else { Err(format!("`{text}` is not finite")) }
    }

    /// A whole number from 0.
    pub(super) fn whole(&self, text: &str) -> Result<u64, String> {
        if let Ok(whole) = text.trim().parse() {
            return Ok(whole);
        }
        let value = self.value(text)?;
        if value >= 0.0 && value.fract() == 0.0 && value <= 9_007_199_254_740_992.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
            return Ok(value as u64);
        }
        Err(format!("`{text}` is {value}, and a whole number from 0 is wanted"))
    }
}

struct Reader<'a> {
    constants: &'a Constants,
    rest: &'a str,
    deep: u32,
}

impl Reader<'_> {
    fn take(&mut self, sign: char) -> bool {
        let found = self.rest.strip_prefix(sign);
        if let Some(rest) = found {
            self.rest = rest.trim_start();
        }
        found.is_some()
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.part()?;
        loop {
            if self.take('*') {
                value *= self.part()?;
            } else if self.take('/') {
                value /= self.part()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn part(&mut self) -> Result<f64, String> {
        self.deep += 1;
        if self.deep > DEEP {
            return Err(format!("more than {DEEP} parentheses and signs inside each other"));
        }
        let value = if self.take('-') {
            -self.part()?
        } else if self.take('(') {
            let value = self.sum()?;
            if !self.take(')') {
                return Err("a `)` is missing".to_owned());
            }
            value
        } else {
            self.leaf()?
        };
        self.deep -= 1;
        Ok(value)
    }

    fn leaf(&mut self) -> Result<f64, String> {
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
            return number.parse().map_err(|_| format!("`{number}` is not a number"));
        }
        let end = rest.find(|next: char| !(next.is_alphanumeric() || next == '_')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return Err(format!("`{rest}` is not a number, and no constant"));
        }
        self.rest = after.trim_start();
        self.constants.known.get(name).copied().ok_or_else(|| format!("there is no constant `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products_are_worked_out() {
        let mut constants = Constants::default();
        assert!(constants.define("N", 3.0) && constants.define("mu_1", 0.25) && !constants.define("N", 3.0));
        for (text, wanted) in [
            ("1.5", 1.5),
            (" 1/1000 ", 0.001),
            ("2+3*4-1", 13.0),
            ("(2 + 3) * -N", -15.0),
            ("1e-3*N", 0.003),
            ("2E+2 - 1", 199.0),
            ("N*mu_1/(1+1)", 0.375),
        ] {
            assert_eq!(constants.value(text), Ok(wanted), "{text}");
        }
        for text in ["", "1+", "(1", "1)", "M", "1 2", "1/0", "#queue", "1e999", "--", "N["] {
            assert!(constants.value(text).is_err(), "{text}");
        }
        assert!(constants.value(&"(".repeat(100_000)).is_err());
        assert_eq!(constants.whole("2*N"), Ok(6));
        assert_eq!(constants.whole("18446744073709551615"), Ok(u64::MAX));
        assert!(constants.whole("N/2").is_err() && constants.whole("-1").is_err());
    }
}
