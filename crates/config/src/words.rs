//! Values of keys that know their bounds: what lies outside is refused where it stands.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

/// A whole number from `LOW` to `HIGH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<const LOW: u64, const HIGH: u64>(u64);

impl<const LOW: u64, const HIGH: u64> Number<LOW, HIGH> {
    /// The bounds, in words.
    #[must_use]
    pub fn range() -> String {
        format!("{LOW} to {HIGH}")
    }

    /// A number, or the bound that it is beyond.
    pub(crate) const fn near(number: u64) -> Self {
        if number < LOW {
            Self(LOW)
        } else if number > HIGH {
            Self(HIGH)
        } else {
            Self(number)
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number, for what counts in memory.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The number, for what counts in 32 bits.
    #[must_use]
    pub fn short(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<const LOW: u64, const HIGH: u64> fmt::Display for Number<LOW, HIGH> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const LOW: u64, const HIGH: u64> Serialize for Number<LOW, HIGH> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de, const LOW: u64, const HIGH: u64> Deserialize<'de> for Number<LOW, HIGH> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Within<const LOW: u64, const HIGH: u64>;
        impl<const LOW: u64, const HIGH: u64> Visitor<'_> for Within<LOW, HIGH> {
            type Value = Number<LOW, HIGH>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {LOW} to {HIGH}")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                if (LOW..=HIGH).contains(&number) {
                    Ok(Number(number))
                } else {
                    Err(E::invalid_value(Unexpected::Unsigned(number), &self))
                }
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
                }
            }
        }
        deserializer.deserialize_u64(Within)
    }
}

/// A time from `LOW` to `HIGH` milliseconds, written `500ms`, `90s`, `15m`, `8h` or `2d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period<const LOW: u64, const HIGH: u64>(u64);

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Milliseconds in the largest unit that leaves nothing over.
fn spoken(millis: u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, size)| millis != 0 && millis.is_multiple_of(*size));
    let (name, size) = unit.unwrap_or(&("s", 1_000));
    format!("{}{name}", millis / size)
}

/// The milliseconds of a text.
fn heard(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits)?;
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
    count.parse::<u64>().ok()?.checked_mul(*size)
}

impl<const LOW: u64, const HIGH: u64> Period<LOW, HIGH> {
    /// The bounds, in words.
    #[must_use]
    pub fn range() -> String {
        format!("{} to {}", spoken(LOW), spoken(HIGH))
    }

    /// Milliseconds, or the bound that they are beyond.
    pub(crate) const fn near(millis: u64) -> Self {
        Self(Number::<LOW, HIGH>::near(millis).get())
    }

    /// The time.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl<const LOW: u64, const HIGH: u64> fmt::Display for Period<LOW, HIGH> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spoken(self.0))
    }
}

impl<const LOW: u64, const HIGH: u64> Serialize for Period<LOW, HIGH> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const LOW: u64, const HIGH: u64> Deserialize<'de> for Period<LOW, HIGH> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Within<const LOW: u64, const HIGH: u64>;
        impl<const LOW: u64, const HIGH: u64> Visitor<'_> for Within<LOW, HIGH> {
            type Value = Period<LOW, HIGH>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let range = Period::<LOW, HIGH>::range();
                write!(f, "a duration from {range}, such as \"500ms\", \"90s\", \"15m\", \"8h\" or \"2d\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                let millis = heard(text).filter(|millis| (LOW..=HIGH).contains(millis));
                millis.map(Period).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Within)
    }
}

/// The address of an OPC UA server: `opc.tcp://host:port`, perhaps with a path.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EndpointUrl(String);

impl EndpointUrl {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for EndpointUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let place = text.strip_prefix("opc.tcp://").map(|rest| rest.split('/').next().unwrap_or_default());
        let parts = place.and_then(|place| place.rsplit_once(':'));
        let sound = parts.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port != 0));
        if sound && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            Ok(Self(text))
        } else {
            Err(Error::custom(format!("`{text}` is no address of an OPC UA server, such as `opc.tcp://mixer:4840`")))
        }
    }
}

/// The ApplicationUri of a server.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ApplicationUri(String);

impl ApplicationUri {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ApplicationUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let scheme = text.split_once(':').map(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if scheme == Some(true) && text.len() <= 4096 && !text.chars().any(odd) {
            Ok(Self(text))
        } else {
            Err(Error::custom(format!("`{text}` is no ApplicationUri, such as `urn:plant:press`")))
        }
    }
}

/// A host name or address under which clients reach a server.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HostName(String);

impl HostName {
    /// The text; an address of IPv6 in brackets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(Self(format!("[{text}]")));
        }
        if is_host(&text) {
            Ok(Self(text))
        } else {
            Err(Error::custom(format!("`{text}` is no host name or address, such as `mixer.plant.local`")))
        }
    }
}

/// Whether a text is a host name, an address of IPv4, or one of IPv6 in brackets.
fn is_host(text: &str) -> bool {
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inside.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    !text.is_empty() && text.len() <= 253 && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct One<T> {
        key: T,
    }

    fn read<T: for<'de> serde::Deserialize<'de>>(value: &str) -> Result<T, String> {
        let read = toml::from_str::<One<T>>(&format!("key = {value}"));
        read.map(|one| one.key).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn numbers_keep_their_bounds() {
        let number = |text: &str| read::<Number<2, 9>>(text).map(Number::get);
        assert_eq!((number("2"), number("9")), (Ok(2), Ok(9)));
        for text in ["1", "10", "-3", "\"5\"", "5.0"] {
            assert!(number(text).unwrap_err().contains("a whole number from 2 to 9"), "{text}: {:?}", number(text));
        }
        assert_eq!((Number::<2, 9>::near(1).get(), Number::<2, 9>::near(99).get()), (2, 9));
    }

    #[test]
    fn periods_are_read_and_written_alike() {
        type Some = Period<500, 172_800_000>;
        for (text, millis, written) in
            [("500ms", 500, "500ms"), ("90s", 90_000, "90s"), ("60s", 60_000, "1m"), ("48h", 172_800_000, "2d")]
        {
            let period = read::<Some>(&format!("\"{text}\"")).unwrap();
            assert_eq!((period.get().as_millis(), period.to_string()), (millis, written.to_owned()));
        }
        for text in ["499ms", "3d", "90", "s", "", "1 s", "-1s", "99999999999999999999d", "1w", "ä"] {
            let refused = read::<Some>(&format!("\"{text}\"")).unwrap_err();
            assert!(refused.contains("a duration from 500ms to 2d"), "{text}: {refused}");
        }
        assert_eq!(spoken(0), "0s");
    }

    #[test]
    fn urls_and_hosts_are_what_they_say() {
        for (text, sound) in [
            ("opc.tcp://mixer:4840", true),
            ("opc.tcp://mixer.plant.local:4840/ua", true),
            ("opc.tcp://[fd00::7]:4840", true),
            ("opc.tcp://mixer", false),
            ("opc.tcp://mixer:0", false),
            ("opc.tcp://mixer:99999", false),
            ("opc.tcp://:4840", false),
            ("opc.tcp://a b:4840", false),
            ("opc.tcp://mixer:4840/ a", false),
            ("https://mixer:4840", false),
        ] {
            assert_eq!(read::<EndpointUrl>(&format!("\"{text}\"")).is_ok(), sound, "{text}");
        }
        for (text, sound) in [("urn:plant:press", true), ("press", false), ("urn:", false), ("urn:a b", false)] {
            assert_eq!(read::<ApplicationUri>(&format!("\"{text}\"")).is_ok(), sound, "{text}");
        }
        for (text, kept) in [
            ("mixer", Ok("mixer")),
            ("fd00::7", Ok("[fd00::7]")),
            ("[fd00::7]", Ok("[fd00::7]")),
            ("10.0.0.7", Ok("10.0.0.7")),
            ("mixer:4840", Err(())),
            ("", Err(())),
        ] {
            let read = read::<HostName>(&format!("\"{text}\"")).map_err(drop);
            assert_eq!(read.as_ref().map(HostName::as_str), kept.as_ref().copied(), "{text}");
        }
    }
}
