//! The small notations inside a plant file: durations, node ids, browse paths, thumbprints.

use std::time::Duration;

use access_model::Thumbprint;

/// Which nodes one line of a scope means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covered {
    /// This node, by NodeId in the notation of OPC 10000-6 §5.3.1.10 (`ns=2;s=Mixer.Speed`, `i=2258`,
    /// `nsu=urn:mixer;s=Speed`).
    Node(String),
    /// This node and everything below it by hierarchical references.
    SubtreeOf(String),
    /// The node at the end of this browse path from Root (`/Objects/2:Mixer/2:Valves`) and everything below it.
    SubtreeAt(Vec<(u16, String)>),
}

/// Why a word of the plant file means nothing; the text says what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidWord(pub String);

/// `90s`, `15m`, `8h` or `2d`.
///
/// # Errors
/// Anything else, zero, or more than 366 days.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidWord> {
    let bad = || InvalidWord(format!("`{text}` is no duration; write `90s`, `15m`, `8h` or `2d`"));
    let unit = text.chars().last().ok_or_else(bad)?;
    let factor: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(bad()),
    };
    let digits = text.strip_suffix(unit).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())).ok_or_else(bad)?;
    let seconds = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor)).ok_or_else(bad)?;
    if !(1..=366 * 86_400).contains(&seconds) {
        return Err(InvalidWord(format!("`{text}` is out of range; a duration is 1s to 366d")));
    }
    Ok(Duration::from_secs(seconds))
}

/// A duration as [`parse_duration`] reads it.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        s if s % 86_400 == 0 => (s / 86_400, "d"),
        s if s % 3_600 == 0 => (s / 3_600, "h"),
        s if s % 60 == 0 => (s / 60, "m"),
        s => (s, "s"),
    };
    format!("{count}{unit}")
}

/// A NodeId text with an identifier part and, if given, a numeric or URI namespace.
pub(super) fn node_id(text: &str) -> Result<String, InvalidWord> {
    let bad = || InvalidWord(format!("`{text}` is no NodeId; write `ns=2;s=Mixer.Speed` or `nsu=urn:mixer;i=7`"));
    let identifier = match text.split_once(';') {
        Some((namespace, rest)) if namespace.starts_with("ns=") => {
            namespace.trim_start_matches("ns=").parse::<u16>().map_err(|_| bad())?;
            rest
        }
        Some((namespace, rest)) if namespace.len() > 4 && namespace.starts_with("nsu=") => rest,
        _ => text,
    };
    let (kind, value) = identifier.split_once('=').ok_or_else(bad)?;
    let fits = match kind {
        "i" => value.parse::<u32>().is_ok(),
        "s" => !value.is_empty(),
        "g" => value.len() == 36 && value.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'),
        "b" => !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b)),
        _ => false,
    };
    if fits { Ok(text.to_owned()) } else { Err(bad()) }
}

/// A subtree: a browse path when it starts with `/`, a NodeId otherwise.
pub(super) fn subtree(text: &str) -> Result<Covered, InvalidWord> {
    let Some(path) = text.strip_prefix('/') else {
        return node_id(text).map(Covered::SubtreeOf);
    };
    let bad = || InvalidWord(format!("`{text}` is no browse path; write `/Objects/2:Mixer/2:Valves`"));
    let parts: Option<Vec<_>> = path.split('/').map(path_part).collect();
    parts.map(Covered::SubtreeAt).ok_or_else(bad)
}

fn path_part(part: &str) -> Option<(u16, String)> {
    let (namespace, name) = match part.split_once(':') {
        Some((number, name)) => (number.parse().ok()?, name),
        None => (0, part),
    };
    (!name.is_empty()).then(|| (namespace, name.to_owned()))
}

/// 64 hexadecimal digits, either case, colons allowed between bytes.
///
/// # Errors
/// Anything else.
pub fn parse_thumbprint(text: &str) -> Result<Thumbprint, InvalidWord> {
    let bad = || InvalidWord(format!("`{text}` is no SHA-256 thumbprint; write 64 hexadecimal digits"));
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16)).collect::<Option<_>>().ok_or_else(bad)?;
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .filter_map(|pair| pair.iter().try_fold(0_u32, |sum, digit| Some(sum * 16 + digit)))
        .filter_map(|byte| u8::try_from(byte).ok())
        .collect();
    if digits.len() != 64 {
        return Err(bad());
    }
    bytes.try_into().map(Thumbprint).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, want) in [("90s", Some(90)), ("15m", Some(900)), ("8h", Some(28_800)), ("2d", Some(172_800))] {
            assert_eq!(parse_duration(text).ok().map(|d| d.as_secs()), want, "{text}");
        }
        for text in ["", "s", "0s", "1", "1w", "-1s", "1.5h", "+3s", "99999999999999999999s", "367d", "1ä"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(duration_text(Duration::from_secs(5_400)), "90m");
    }

    #[test]
    fn node_ids() {
        for text in ["i=2258", "ns=2;s=Mixer.Speed", "nsu=urn:mixer;i=7", "ns=1;b=AAE=", "s=a;b=c"] {
            assert!(node_id(text).is_ok(), "{text}");
        }
        for text in ["", "Mixer", "ns=70000;i=1", "ns=2", "i=x", "x=1", "nsu=;i=1", "g=1", "ns=2;s="] {
            assert!(node_id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn subtrees() {
        assert_eq!(
            subtree("/Objects/2:Mixer"),
            Ok(Covered::SubtreeAt(vec![(0, "Objects".into()), (2, "Mixer".into())]))
        );
        assert_eq!(subtree("ns=2;i=5"), Ok(Covered::SubtreeOf("ns=2;i=5".into())));
        for text in ["/", "//a", "/x:y", "/2:"] {
            assert!(subtree(text).is_err(), "{text}");
        }
    }

    #[test]
    fn thumbprints() {
        assert_eq!(parse_thumbprint(&"0aF".repeat(21)).ok(), None);
        assert_eq!(parse_thumbprint(&"A0".repeat(32)), Ok(Thumbprint([0xa0; 32])));
        assert_eq!(parse_thumbprint(&vec!["0f"; 32].join(":")), Ok(Thumbprint([15; 32])));
        assert!(parse_thumbprint(&"g0".repeat(32)).is_err());
    }
}
