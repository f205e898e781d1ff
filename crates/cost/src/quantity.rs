//! Numbers with their units, in both directions.

/// Seconds of `57 ms`, `0.2us`, `3 s`, `5 min`, `1 h`; `None` for anything else, numbers without a unit included.
#[must_use]
pub fn seconds(text: &str) -> Option<f64> {
    scaled(text, &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)])
}

/// Bytes of `2 kB`, `300 B`, `4 MiB`.
pub(crate) fn bytes(text: &str) -> Option<f64> {
    scaled(text, &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("KiB", 1024.0), ("MiB", 1_048_576.0)])
}

/// Bytes a second of `100 MB/s`, `54 Mbit/s`.
pub(crate) fn bytes_a_second(text: &str) -> Option<f64> {
    let units = [
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("kbit/s", 125.0),
        ("Mbit/s", 125e3),
        ("Gbit/s", 125e6),
    ];
    scaled(text, &units)
}

/// Times a second of `500/s`, `30/min`, `2/h`; `None` for anything else, numbers without a unit included.
#[must_use]
pub fn a_second(text: &str) -> Option<f64> {
    scaled(text, &[("/s", 1.0), ("/min", 1.0 / 60.0), ("/h", 1.0 / 3600.0)])
}

/// Seconds, of longer times too: `2000 h`, `30 d`, `6 month`, `1 year`; `None` for anything else.
#[must_use]
pub fn long_seconds(text: &str) -> Option<f64> {
    seconds(text).or_else(|| scaled(text, &[("d", DAY), ("day", DAY), ("month", YEAR / 12.0), ("year", YEAR)]))
}

/// Watts of `40 W`, `500 mW`, `1.2 kW`; `None` for anything else, numbers without a unit included.
#[must_use]
pub fn watts(text: &str) -> Option<f64> {
    scaled(text, &[("mW", 1e-3), ("kW", 1e3), ("W", 1.0)])
}

/// Joules of `3 mJ`, `2 J`, `0.1 Wh`; `None` for anything else, numbers without a unit included.
#[must_use]
pub fn joules(text: &str) -> Option<f64> {
    scaled(text, &[("uJ", 1e-6), ("mJ", 1e-3), ("kJ", 1e3), ("J", 1.0), ("kWh", 3.6e6), ("Wh", 3600.0)])
}

/// Money an hour, of `0.12/h`, `3/day`, `40/month`, `900/year`; `None` for anything else.
#[must_use]
pub fn an_hour(text: &str) -> Option<f64> {
    let hours = |seconds: f64| 3600.0 / seconds;
    let units =
        [("/h", 1.0), ("/d", hours(DAY)), ("/day", hours(DAY)), ("/month", hours(YEAR / 12.0)), ("/year", hours(YEAR))];
    scaled(text, &units)
}

/// Seconds.
const DAY: f64 = 86_400.0;
/// Seconds of a mean year.
const YEAR: f64 = 365.25 * DAY;

/// 0 to 1, of `0.97` or `97 %`; `None` for anything else.
#[must_use]
pub fn share(text: &str) -> Option<f64> {
    let share = match text.trim().strip_suffix('%') {
        // Read with its exponent, `99.9 %` is 0.999 to the last digit, which a division misses.
        Some(percent) => number(&format!("{}e-2", percent.trim())).or_else(|| Some(number(percent)? / 100.0))?,
        None => number(text)?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

/// A finite number, not below 0; `None` for anything else.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    // Rust reads words such as `inf`, which no model means.
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A number and one of these units. A bare 0 needs none.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    if text == "0" {
        return Some(0.0);
    }
    // The longest number in front: an exponent's `e` belongs to it.
    let split = units.iter().filter_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    split.filter_map(|(front, factor)| Some(number(front)? * factor)).find(|value| value.is_finite())
}

/// A number with four digits that count, and no zeros behind them; far from 1 with its power of ten.
#[must_use]
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm of a double is below 400")]
    let before = value.abs().log10().floor() as i32;
    if !(-9..15).contains(&before) {
        let text = format!("{value:.3e}");
        let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", number.trim_end_matches('0').trim_end_matches('.'));
    }
    let behind = usize::try_from((3 - before).clamp(0, 12)).unwrap_or(0);
    let text = format!("{value:.behind$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_far_from_one_have_a_power() {
        let said = [0.0, 1.0, 1234.6, 0.000_123_456, 1.5e-10, -2e300, 123_456_789_012_345.0, f64::INFINITY].map(digits);
        assert_eq!(said, ["0", "1", "1235", "0.0001235", "1.5e-10", "-2e300", "123456789012345", "inf"]);
    }

    #[test]
    fn units_are_read_and_wanted() {
        for (text, wanted) in [
            ("57 ms", Some(0.057)),
            ("0.2us", Some(2e-7)),
            ("1e-3 s", Some(1e-3)),
            ("5 min", Some(300.0)),
            ("0", Some(0.0)),
            ("57", None),
            ("-1 ms", None),
            ("inf s", None),
            ("1e999 s", None),
            ("ms", None),
            ("5 furlongs", None),
        ] {
            let read = seconds(text);
            assert!(
                read.zip(wanted)
                    .map_or(read.is_none() && wanted.is_none(), |(a, b)| (a - b).abs() <= 1e-15 * b.max(1.0)),
                "{text}: {read:?}"
            );
        }
        assert_eq!((bytes("2 kB"), bytes("1 KiB"), bytes("3 B")), (Some(2000.0), Some(1024.0), Some(3.0)));
        assert_eq!((a_second("500/s"), bytes_a_second("8 Mbit/s")), (Some(500.0), Some(1e6)));
        assert_eq!((joules("3 mJ"), joules("1 Wh"), watts("40 W")), (Some(0.003), Some(3600.0), Some(40.0)));
        assert_eq!((an_hour("0.12/h"), an_hour("24/day"), an_hour("5")), (Some(0.12), Some(1.0), None));
        assert_eq!(
            (long_seconds("2 h"), long_seconds("2 d"), long_seconds("2")),
            (Some(7200.0), Some(172_800.0), None)
        );
        assert_eq!((share("97 %"), share("1.2"), share("0")), (Some(0.97), None, Some(0.0)));
        assert_eq!((share("99.9 %"), share("1e1%"), share("%"), share("- 3 %")), (Some(0.999), Some(0.1), None, None));
    }

    #[test]
    fn four_digits_count() {
        for (value, wanted) in [(17.45, "17.45"), (0.057_306, "0.05731"), (12_345.6, "12346"), (3.0, "3"), (0.0, "0")] {
            assert_eq!(digits(value), wanted);
        }
    }
}
