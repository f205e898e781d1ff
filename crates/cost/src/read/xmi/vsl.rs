//! Values as MARTE writes them (its value specification language), the part that is used: `57 ms`, `(57, ms)`, `(value=57, unit=ms)`,
//! `(expr=57.3, unit=ms, statQ=mean, source=meas)`. The rest is refused by name.

use crate::{Class, quantity};

/// What cannot be read: its class, and a sentence.
pub(super) type Why = (Class, String);

/// A number and its unit in the words that the other readers use: `57.3 ms`.
///
/// # Errors
/// What cannot be read, as a sentence.
pub(super) fn value(text: &str) -> Result<String, Why> {
    let text = text.trim();
    let Some(inside) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return Ok(text.to_owned());
    };
    let invalid = |why: String| Err((Class::Invalid, why));
    let mut said: Vec<(&str, &str)> = Vec::new();
    for (index, part) in inside.split(',').enumerate() {
        let (key, word) = match part.split_once('=') {
            Some((key, word)) => (key.trim(), word.trim()),
            // Of `5,3` the rest is no unit, and a name behind it would have hidden it.
            None if index > 0 && part.trim().starts_with(|first: char| first.is_ascii_digit()) => {
                return invalid(decimal(text, said.last().map_or("", |(_, before)| before), part.trim()));
            }
            None if index < 2 && !part.trim().is_empty() => (if index == 0 { "value" } else { "unit" }, part.trim()),
            None => return invalid(format!("`{}` in `{text}` has no name", part.trim())),
        };
        let word = word.trim_matches('\'').trim_matches('"');
        // Both say how much it is.
        let key = if key == "expr" { "value" } else { key };
        if let Some((_, before)) = said.iter().find(|(said, _)| *said == key) {
            return Err((Class::Doubled, format!("the {key} stands twice in `{text}`: `{before}` and `{word}`")));
        }
        match key {
            "value" | "unit" => {}
            "statQ" if word == "mean" => {}
            "statQ" => return invalid(format!("`statQ={word}`: only the mean can be used")),
            // Where a value comes from does not change it.
            "source" | "precision" | "dir" => {}
            other => return invalid(format!("`{other}` in `{text}` is not understood")),
        }
        said.push((key, word));
    }
    let find = |key: &str| said.iter().find(|(said, _)| *said == key).map(|(_, word)| *word);
    let Some(written) = find("value") else { return invalid(format!("`{text}` has no value")) };
    let Ok(number) = written.parse::<f64>() else {
        return invalid(format!("`{written}` is an expression: only numbers can be used"));
    };
    if let Some(advice) = find("unit").and_then(|unit| ambiguous(unit, number)) {
        let unit = find("unit").unwrap_or_default();
        return invalid(format!("`{unit}` in `{text}` is no unit of MARTE's, which count by 1024: {advice}"));
    }
    Ok(match find("unit").map(known) {
        None => written.to_owned(),
        Some((1.0, unit)) => format!("{written} {unit}"),
        Some((factor, unit)) => format!("{} {unit}", number * factor),
    })
}

/// The value of a member: of a whole number `2.0` is 2, and of a share or factor `(50,%)` is 0.5.
///
/// # Errors
/// What cannot be read, as a sentence.
pub(super) fn of(member: &str, text: &str) -> Result<String, Why> {
    let value = value(text)?;
    let short = match member {
        "rep" | "resMult" | "poolSize" | "resUnits" | "population" | "clients" | "room" | "threads" => {
            whole(&value).map(str::to_owned)
        }
        "prob" | "speedFactor" if text.trim().starts_with('(') => percent(&value),
        _ => None,
    };
    Ok(short.unwrap_or(value))
}

/// What stands before a point with nothing but zeros behind it.
pub(super) fn whole(text: &str) -> Option<&str> {
    let (whole, zeros) = text.trim().split_once('.')?;
    (!zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0')).then_some(whole)
}

/// So many hundredths.
fn percent(text: &str) -> Option<String> {
    let percent = text.strip_suffix('%')?.trim();
    // Read with its exponent it is right to the last digit, which a division misses.
    let number = quantity::number(&format!("{percent}e-2")).or_else(|| Some(quantity::number(percent)? / 100.0))?;
    Some(number.to_string())
}

/// Why a number that follows a comma is none of its own.
fn decimal(text: &str, before: &str, part: &str) -> String {
    let whole = !before.is_empty() && before.chars().all(|it| it.is_ascii_digit());
    let meant = if whole { format!(": decimals have a point, `{before}.{part}`") } else { String::new() };
    format!("`{part}` in `{text}` is no unit{meant}")
}

/// MARTE's units as so many of ours. Its library counts data by 1024 (`KB`, `Kb/s` and above; MARTE 1.2, `MeasurementUnits`, which Papyrus
/// has as `Kb_per_s`); other spellings are decimal. It ends at `Mb/s`: a `Gb/s` is the next of its row, as `GB` is of the other.
fn known(unit: &str) -> (f64, &str) {
    match unit {
        "Byte" => (1.0, "B"),
        "KB" => (1.0, "KiB"),
        "MB" => (1.0, "MiB"),
        "GB" => (1024.0, "MiB"),
        "b/s" | "b_per_s" => (0.125, "B/s"),
        "Kb/s" | "Kb_per_s" => (128.0, "B/s"),
        "Mb/s" | "Mb_per_s" => (131_072.0, "B/s"),
        "Gb/s" => (134_217_728.0, "B/s"),
        "kbps" => (1.0, "kbit/s"),
        "Mbps" => (1.0, "Mbit/s"),
        "Gbps" => (1.0, "Gbit/s"),
        "Hz" => (1.0, "/s"),
        "KHz" | "kHz" => (1e3, "/s"),
        "rpm" => (1.0, "/min"),
        "hrs" => (1.0, "h"),
        "dys" => (24.0, "h"),
        other => (1.0, other),
    }
}

/// Of a unit that MARTE has not, and that would be decimal beside others of 1024 which look like it, what to write instead.
fn ambiguous(unit: &str, number: f64) -> Option<String> {
    let (ours, theirs, times) = match unit {
        "kB" => ("kB", "KB", 1.0),
        "kB/s" | "KB/s" => ("kB/s", "Kb/s", 8.0),
        "MB/s" => ("MB/s", "Mb/s", 8.0),
        "GB/s" => ("GB/s", "Gb/s", 8.0),
        _ => return None,
    };
    Some(format!("write `({},{theirs})`, or without brackets `{number} {ours}`, which counts by 1000", number * times))
}

/// What is wanted of a member, if this value is none.
pub(super) fn wanted(member: &str, value: &str) -> Option<&'static str> {
    let whole = |most: u32| value.trim().parse().is_ok_and(|count: u32| (1..=most).contains(&count));
    let above = |number: Option<f64>| number.is_some_and(|number| number > 0.0);
    let (is, wanted) = match member {
        "hostDemand" | "blockT" | "extDelay" | "think" => {
            let wanted = "a time in ns, us, ms, s, min or h, between brackets also hrs or dys,";
            (quantity::seconds(value).is_some(), wanted)
        }
        "msgSize" | "size" => {
            let wanted = "a whole size in B, kB, MB, GB, KiB or MiB, between brackets Byte, KB, MB or GB (of 1024),";
            (quantity::bytes(value).is_some_and(|bytes| bytes.fract() == 0.0 && bytes < 1e15), wanted)
        }
        "capacity" => {
            let wanted = "a rate above 0 in B/s, kB/s, MB/s, GB/s, kbit/s, Mbit/s or Gbit/s, between brackets also b/s, Kb/s, Mb/s, Gb/s (of 1024), kbps, Mbps or Gbps,";
            (above(quantity::bytes_a_second(value)), wanted)
        }
        "arrivalRate" | "rate" | "arrivals" => {
            let wanted = "a rate above 0 in /s, /min or /h, between brackets also Hz, kHz or rpm,";
            (above(quantity::a_second(value)), wanted)
        }
        "speedFactor" => (above(quantity::number(value)), "a number above 0"),
        "prob" => {
            let share = quantity::number(value).filter(|share| *share <= 1.0);
            (above(share), "a probability above 0 and not above 1")
        }
        "resMult" => (whole(1024), "a whole number from 1 to 1024"),
        "poolSize" | "resUnits" => (whole(1_000_000), "a whole number from 1 to 1000000"),
        "rep" => (whole(100_000), "a whole number from 1 to 100000"),
        "population" | "clients" | "room" | "threads" => (whole(1_000_000), "a whole number from 1 to 1000000"),
        _ => return None,
    };
    (!is).then_some(wanted)
}

/// `closed(population=64, extDelay=(20,ms))`, `open(arrivalRate=(500,Hz), room=27)`, `poisson(..)`: the word and its members.
///
/// # Errors
/// What cannot be read, as a sentence.
pub(super) fn pattern(text: &str) -> Result<(String, Vec<(String, String)>), Why> {
    let invalid = |why: String| Err((Class::Invalid, why));
    let text = text.trim();
    // Papyrus writes the choice's name in front or not: `(closed=(..))`.
    let bare = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let Some((word, rest)) = bare.split_once('(') else { return invalid(format!("`{text}` is no arrival pattern")) };
    let Some(rest) = rest.strip_suffix(')') else { return invalid(format!("`{text}` has an open parenthesis")) };
    let mut members: Vec<(String, String)> = Vec::new();
    for part in split(rest) {
        let Some((key, value)) = part.split_once('=') else {
            return invalid(format!("`{part}` in `{text}` has no `=`"));
        };
        let key = key.trim().to_owned();
        let value = of(&key, value)?;
        if let Some((_, before)) = members.iter().find(|(said, _)| *said == key) {
            return Err((Class::Doubled, format!("`{key}` stands twice in `{text}`: `{before}` and `{value}`")));
        }
        members.push((key, value));
    }
    Ok((word.trim().trim_end_matches('=').trim().to_owned(), members))
}

/// Whether it is a result to be found, `out$X` or `(expr=$X, unit=Hz, source=calc)`: a question, which says nothing of the model.
pub(super) fn asks(text: &str) -> bool {
    let is_name = |text: &str| {
        let name = text.strip_prefix('$').unwrap_or("");
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    let is_out = |text: &str| text.strip_prefix("out").is_some_and(|name| is_name(name.trim_start()));
    let text = text.trim();
    let Some(inside) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return is_out(text) };
    let (mut named, mut found) = (false, false);
    for part in split(inside) {
        let (key, word) = part.split_once('=').unwrap_or(("", part));
        match (key.trim(), word.trim()) {
            ("value" | "expr", word) if is_out(word) => (named, found) = (true, true),
            ("value" | "expr", word) if is_name(word) => named = true,
            ("source", "calc") => found = true,
            ("unit" | "statQ" | "precision" | "dir", _) => {}
            _ => return false,
        }
    }
    named && found
}

/// At commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or(""));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or(""));
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused_by_name() {
        for (text, wanted) in [
            ("57 ms", Ok("57 ms")),
            ("(57,ms)", Ok("57 ms")),
            ("(value=57, unit=ms)", Ok("57 ms")),
            ("(expr=57.3, unit=ms, statQ=mean, source=meas)", Ok("57.3 ms")),
            ("(3,KB)", Ok("3 KiB")),
            ("(2,Kb/s)", Ok("256 B/s")),
            ("(100,Mb/s)", Ok("13107200 B/s")),
            ("(8,b/s)", Ok("1 B/s")),
            ("(2,Gb/s)", Ok("268435456 B/s")),
            ("(2,GB)", Ok("2048 MiB")),
            ("(value=1,unit=Mb_per_s)", Ok("131072 B/s")),
            ("(100,Mbps)", Ok("100 Mbit/s")),
            ("(2,Gbps)", Ok("2 Gbit/s")),
            ("(300,Byte)", Ok("300 B")),
            ("(3,hrs)", Ok("3 h")),
            ("(2,dys)", Ok("48 h")),
            ("(2,KHz)", Ok("2000 /s")),
            ("(90,rpm)", Ok("90 /min")),
            ("(value=5, ms)", Ok("5 ms")),
            ("(57, ms, meas)", Err("`meas` in `(57, ms, meas)` has no name")),
            ("(5,)", Err("`` in `(5,)` has no name")),
            ("(value=5,3,unit=ms)", Err("`3` in `(value=5,3,unit=ms)` is no unit: decimals have a point, `5.3`")),
            ("(5,3,unit=ms)", Err("`3` in `(5,3,unit=ms)` is no unit: decimals have a point, `5.3`")),
            ("(5,3 ms)", Err("`3 ms` in `(5,3 ms)` is no unit: decimals have a point, `5.3 ms`")),
            ("(expr=1,25,MB)", Err("`25` in `(expr=1,25,MB)` is no unit: decimals have a point, `1.25`")),
            ("(unit=ms,5)", Err("`5` in `(unit=ms,5)` is no unit")),
            (
                "(value=5.3,value=7,unit=ms)",
                Err("the value stands twice in `(value=5.3,value=7,unit=ms)`: `5.3` and `7`"),
            ),
            ("(expr=5,value=7)", Err("the value stands twice in `(expr=5,value=7)`: `5` and `7`")),
            ("(5.3,ms,unit=s)", Err("the unit stands twice in `(5.3,ms,unit=s)`: `ms` and `s`")),
            ("(value=5,unit=ms,unit=s)", Err("the unit stands twice in `(value=5,unit=ms,unit=s)`: `ms` and `s`")),
            (
                "(5,ms,source=est,source=calc)",
                Err("the source stands twice in `(5,ms,source=est,source=calc)`: `est` and `calc`"),
            ),
            (
                "(1,MB/s)",
                Err(
                    "`MB/s` in `(1,MB/s)` is no unit of MARTE's, which count by 1024: write `(8,Mb/s)`, or without brackets `1 MB/s`, which counts by 1000",
                ),
            ),
            (
                "(value=0.5, unit=KB/s)",
                Err(
                    "`KB/s` in `(value=0.5, unit=KB/s)` is no unit of MARTE's, which count by 1024: write `(4,Kb/s)`, or without brackets `0.5 kB/s`, which counts by 1000",
                ),
            ),
            (
                "(2,kB)",
                Err(
                    "`kB` in `(2,kB)` is no unit of MARTE's, which count by 1024: write `(2,KB)`, or without brackets `2 kB`, which counts by 1000",
                ),
            ),
            ("2 MB/s", Ok("2 MB/s")),
            ("(unit=ms)", Err("`(unit=ms)` has no value")),
            ("(value=57, unit=ms, statQ=max)", Err("`statQ=max`: only the mean can be used")),
            ("(expr=$n*2, unit=ms)", Err("`$n*2` is an expression: only numbers can be used")),
            ("(value=1, percentile=3)", Err("`percentile` in `(value=1, percentile=3)` is not understood")),
        ] {
            let found = value(text);
            assert_eq!(found.as_deref().map_err(|(_, why)| why.as_str()), wanted, "{text}");
            if let Err((class, why)) = found {
                assert_eq!(class == Class::Doubled, why.contains("twice"), "{why}");
            }
        }
        for (text, wanted) in [
            ("out$RT", true),
            ("(expr=$X,unit=Hz,source=calc)", true),
            ("(value=out$X, unit=s, statQ=mean)", true),
            ("(expr=$X,unit=Hz)", false),
            ("(expr=$X,unit=Hz,source=req)", false),
            ("(value=3,unit=s,source=calc)", false),
            ("(expr=$X*2,source=calc)", false),
            ("in$N=3", false),
            ("out$N=3", false),
            ("$X", false),
            ("", false),
        ] {
            assert_eq!(asks(text), wanted, "{text}");
        }
        for (member, text, wanted) in [
            ("rep", "2.0", "2"),
            ("rep", "(value=2.00)", "2"),
            ("rep", "2.5", "2.5"),
            ("rep", "2.", "2."),
            ("rep", "(200,%)", "200 %"),
            ("poolSize", "(8.0)", "8"),
            ("prob", "(50,%)", "0.5"),
            ("prob", "(value=99.9, unit='%')", "0.999"),
            ("prob", "(expr=5e1, unit=%)", "0.5"),
            ("prob", "50 %", "50 %"),
            ("speedFactor", "(150,%)", "1.5"),
            ("hostDemand", "(2.0,ms)", "2.0 ms"),
        ] {
            assert_eq!(of(member, text).as_deref(), Ok(wanted), "{member} {text}");
        }
        let (word, members) = pattern("closed(population=64, extDelay=(20,ms))").unwrap();
        assert_eq!(word, "closed");
        assert_eq!(members, [("population".to_owned(), "64".to_owned()), ("extDelay".to_owned(), "20 ms".to_owned())]);
        assert_eq!(pattern("(closed=(population=3))").unwrap().0, "closed");
        let (class, why) = pattern("closed(population=1, population=2)").unwrap_err();
        assert_eq!(class, Class::Doubled, "{why}");
        assert!(why.starts_with("`population` stands twice in"), "{why}");
        assert!(pattern("closed(population=1, extDelay=10,5 ms)").is_err());
    }
}
