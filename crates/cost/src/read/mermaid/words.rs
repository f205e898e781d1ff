//! The words of a comment that is ours.

use std::iter::Peekable;
use std::str::Chars;

use super::super::escape;
use super::super::fields::Fields;
use crate::{Class, Fault};

/// Words without `=` first, then `key=value,value`, values in quotes where they have spaces or commas.
pub(super) fn read(text: &str, line: usize) -> Result<(Vec<String>, Fields), Fault> {
    let (mut names, mut pairs): (Vec<String>, Vec<(String, Vec<String>)>) = (Vec::new(), Vec::new());
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|letter| letter.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            break;
        }
        let word = word(&mut rest, line)?;
        if rest.next_if_eq(&'=').is_some() {
            let mut values = vec![self::word(&mut rest, line)?];
            while rest.next_if_eq(&',').is_some() {
                values.push(self::word(&mut rest, line)?);
            }
            pairs.push((word, values));
        } else if let Some((key, values)) = pairs.last() {
            let value = values.join(",").replace('\'', "");
            let why = format!(
                "`{word}` stands by itself behind `{key}={value}`: a value with spaces stands in quotes, `{key}=\"{value} {}\"`",
                word.replace('\'', "")
            );
            return Err(fault(line, why));
        } else {
            names.push(word);
        }
    }
    let mut fields = Fields::new(names.join(" "), line);
    for (key, values) in pairs {
        fields.put(&key, values, line)?;
    }
    Ok((names, fields))
}

fn word(rest: &mut Peekable<Chars<'_>>, line: usize) -> Result<String, Fault> {
    let mut word = String::new();
    if rest.next_if_eq(&'"').is_some() {
        loop {
            match rest.next() {
                Some('"') => return Ok(escape::read(&word)),
                Some(letter) => word.push(letter),
                None => return Err(fault(line, "a quote is open at the end of the line")),
            }
        }
    }
    while let Some(letter) = rest.next_if(|letter| !letter.is_whitespace() && !"=,\"".contains(*letter)) {
        word.push(letter);
    }
    if word.is_empty() {
        return Err(fault(line, "a word is missing before or after `=` or `,`"));
    }
    Ok(escape::read(&word))
}

fn fault(line: usize, why: impl Into<String>) -> Fault {
    Fault::new(Class::Syntax, "", why).at(line)
}
