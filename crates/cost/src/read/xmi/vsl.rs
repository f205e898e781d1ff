//! Values as MARTE writes them (its value specification language), the part that is used: `57 ms`, `(57, ms)`, `(value=57, unit=ms)`,
//! `(expr=57.3, unit=ms, statQ=mean, source=meas)`. The rest is refused by name.

/// A number and its unit in the words that the other readers use: `57.3 ms`.
///
/// # Errors
/// What cannot be read, as a sentence.
pub(super) fn value(text: &str) -> Result<String, String> {
    let text = text.trim();
    let Some(inside) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return Ok(text.to_owned());
    };
    let (mut number, mut unit) = (None, None);
    for (index, part) in inside.split(',').enumerate() {
        let (key, word) = match part.split_once('=') {
            Some((key, word)) => (key.trim(), word.trim()),
            None if index < 2 => (if index == 0 { "value" } else { "unit" }, part.trim()),
            None => return Err(format!("`{}` in `{text}` has no name", part.trim())),
        };
        let word = word.trim_matches('\'').trim_matches('"');
        match key {
            "value" | "expr" => number = Some(word),
            "unit" => unit = Some(word),
            "statQ" if word == "mean" => {}
            "statQ" => return Err(format!("`statQ={word}`: only the mean can be used")),
            // Where a value comes from does not change it.
            "source" | "precision" | "dir" => {}
            other => return Err(format!("`{other}` in `{text}` is not understood")),
        }
    }
    let Some(written) = number else { return Err(format!("`{text}` has no value")) };
    let Ok(number) = written.parse::<f64>() else {
        return Err(format!("`{written}` is an expression: only numbers can be used"));
    };
    Ok(match unit.map(known) {
        None => written.to_owned(),
        Some((1.0, unit)) => format!("{written} {unit}"),
        Some((factor, unit)) => format!("{} {unit}", number * factor),
    })
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
        other => (1.0, other),
    }
}

/// `closed(population=64, extDelay=(20,ms))`, `open(arrivalRate=(500,Hz), room=27)`, `poisson(..)`: the word and its members.
///
/// # Errors
/// What cannot be read, as a sentence.
pub(super) fn pattern(text: &str) -> Result<(String, Vec<(String, String)>), String> {
    let text = text.trim();
    // Papyrus writes the choice's name in front or not: `(closed=(..))`.
    let bare = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let Some((word, rest)) = bare.split_once('(') else { return Err(format!("`{text}` is no arrival pattern")) };
    let Some(rest) = rest.strip_suffix(')') else { return Err(format!("`{text}` has an open parenthesis")) };
    let mut members = Vec::new();
    for part in split(rest) {
        let Some((key, value)) = part.split_once('=') else { return Err(format!("`{part}` in `{text}` has no `=`")) };
        members.push((key.trim().to_owned(), self::value(value)?));
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
            ("(57, ms, meas)", Err("`meas` in `(57, ms, meas)` has no name")),
            ("(unit=ms)", Err("`(unit=ms)` has no value")),
            ("(value=57, unit=ms, statQ=max)", Err("`statQ=max`: only the mean can be used")),
            ("(expr=$n*2, unit=ms)", Err("`$n*2` is an expression: only numbers can be used")),
            ("(value=1, percentile=3)", Err("`percentile` in `(value=1, percentile=3)` is not understood")),
        ] {
            assert_eq!(value(text).as_deref(), wanted.map_err(str::to_owned).as_deref(), "{text}");
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
        let (word, members) = pattern("closed(population=64, extDelay=(20,ms))").unwrap();
        assert_eq!(word, "closed");
        assert_eq!(members, [("population".to_owned(), "64".to_owned()), ("extDelay".to_owned(), "20 ms".to_owned())]);
        assert_eq!(pattern("(closed=(population=3))").unwrap().0, "closed");
    }
}
