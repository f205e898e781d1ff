//! The bounds of one OPC UA endpoint side, each with its range.

use serde::{Deserialize, Serialize};

use crate::words::{Number, Period};

/// One key of [`Limits`], for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it bounds.
    pub meaning: String,
    /// What is used without it, as TOML.
    pub default: String,
    /// The values it takes, in words.
    pub range: String,
}

trait AsToml {
    fn as_toml(&self) -> String;
}

impl<const LOW: u64, const HIGH: u64> AsToml for Number<LOW, HIGH> {
    fn as_toml(&self) -> String {
        self.to_string()
    }
}

impl<const LOW: u64, const HIGH: u64> AsToml for Period<LOW, HIGH> {
    fn as_toml(&self) -> String {
        format!("\"{self}\"")
    }
}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ident<$low:literal, $high:literal> = $default:literal,)+) => {
        /// What one peer, or all together, may make a server keep or do. A peer beyond a bound is refused or closed.
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $name: $kind<$low, $high>,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $kind::near($default),)+ }
            }
        }

        impl Limits {
            /// Every key, in the order of the reference.
            #[must_use]
            pub fn keys() -> Vec<Key> {
                vec![$(Key {
                    name: stringify!($name),
                    meaning: [$($doc.trim()),+].join(" "),
                    default: $kind::<$low, $high>::near($default).as_toml(),
                    range: $kind::<$low, $high>::range(),
                },)+]
            }
        }
    };
}

limits! {
    /// Connections.
    connections: Number<1, 100_000> = 2_000,
    /// Connections of one address (one /64 of IPv6).
    connections_per_address: Number<1, 100_000> = 2_000,
    /// Connections that have not logged in; one more closes the oldest of them.
    half_open: Number<1, 100_000> = 500,
    /// How long a connection may stay without a login.
    half_open_time: Period<1_000, 600_000> = 30_000,
    /// How long a connection may take to say Hello.
    hello_timeout: Period<500, 600_000> = 10_000,
    /// How long it may then take to open its channel.
    open_timeout: Period<500, 600_000> = 10_000,
    /// Shortest life of a channel's keys that is granted.
    channel_lifetime_min: Period<1_000, 3_600_000> = 60_000,
    /// Longest life of a channel's keys that is granted.
    channel_lifetime_max: Period<1_000, 86_400_000> = 3_600_000,
    /// Bytes of a message.
    message_size: Number<8_192, 268_435_456> = 4_194_304,
    /// Bytes of a chunk, in and out.
    chunk_size: Number<8_192, 16_777_216> = 65_536,
    /// Chunks of a message.
    chunks: Number<1, 65_536> = 512,
    /// Bytes of the message that opens a channel: all that a stranger can make the server hold.
    open_size: Number<8_192, 65_536> = 16_384,
    /// Bytes of a message on a channel for discovery alone.
    discovery_message_size: Number<8_192, 4_194_304> = 65_536,
    /// Requests of one connection that wait for an answer.
    requests_per_connection: Number<1, 65_536> = 512,
    /// Bytes waiting for one peer above which no more of its requests are taken.
    unsent: Number<65_536, 1_073_741_824> = 1_048_576,
    /// Bytes waiting for one peer above which it is closed.
    backlog: Number<65_536, 1_073_741_824> = 25_165_824,
    /// Bytes held for all peers together, an eighth of it for those who have not logged in; above it, those who hold most
    /// are closed.
    held: Number<1_048_576, 17_179_869_184> = 25_165_824,
    /// How long a peer may take nothing of what waits for it.
    deaf_time: Period<1_000, 3_600_000> = 30_000,
    /// Sessions; one more closes the oldest that nobody logged in to, or is refused.
    sessions: Number<1, 100_000> = 1_000,
    /// Sessions that one connection may create without logging in.
    unused_sessions_per_connection: Number<1, 1_000> = 8,
    /// Shortest session timeout that is granted.
    session_timeout_min: Period<1_000, 3_600_000> = 1_000,
    /// Longest session timeout that is granted.
    session_timeout_max: Period<1_000, 86_400_000> = 3_600_000,
    /// How long a request may wait for something outside, if its client does not say less.
    request_timeout: Period<1_000, 3_600_000> = 60_000,
    /// Requests of one session that wait for something outside.
    parked_per_session: Number<1, 10_000> = 64,
    /// Private-key operations at once.
    jobs: Number<1, 1_024> = 16,
    /// Private-key operations that wait; one more closes the connection that asks.
    waiting_jobs: Number<1, 100_000> = 1_024,
    /// Grants alive at a time: sessions with an identity.
    grants: Number<1, 1_000_000> = 1_000,
    /// Bytes of a token.
    token_size: Number<1_024, 262_144> = 262_144,
    /// RSA blocks of a secret in the legacy form; more than 32 only for experiments.
    legacy_blocks: Number<1, 2_048> = 32,
    /// How old an EncryptedSecret may be.
    secret_age: Period<1_000, 86_400_000> = 3_600_000,
    /// How far its time may lie in the future.
    secret_ahead: Period<0, 3_600_000> = 300_000,
    /// Revocations and replacements remembered for tokens that were not shown yet.
    remembered: Number<100, 10_000_000> = 100_000,
    /// Browse continuation points of one session.
    continuation_points: Number<1, 1_000> = 16,
    /// References that are returned for one node at once.
    references: Number<1, 100_000> = 1_000,
    /// Items of one Read.
    nodes_per_read: Number<1, 100_000> = 1_000,
    /// Items of one Write.
    nodes_per_write: Number<1, 100_000> = 1_000,
    /// Methods of one Call.
    methods_per_call: Number<1, 10_000> = 100,
    /// Nodes of one Browse.
    nodes_per_browse: Number<1, 100_000> = 1_000,
    /// Nodes of one RegisterNodes.
    nodes_per_register: Number<1, 100_000> = 1_000,
    /// Paths of one TranslateBrowsePathsToNodeIds.
    paths_per_translate: Number<1, 100_000> = 1_000,
    /// Items of one request about monitored items.
    items_per_request: Number<1, 100_000> = 1_000,
    /// Elements of an array.
    array_length: Number<1_000, 16_777_216> = 65_535,
    /// Bytes of a text.
    string_length: Number<1_024, 16_777_216> = 1_048_576,
    /// Bytes of a ByteString.
    byte_string_length: Number<1_024, 16_777_216> = 1_048_576,
    /// Subscriptions of one session.
    subscriptions_per_session: Number<1, 1_000> = 32,
    /// Monitored items of one session.
    items_per_session: Number<1, 1_000_000> = 10_000,
    /// Of these, items that report events: each looks at every event.
    event_items_per_session: Number<1, 10_000> = 100,
    /// Entries of one item's queue.
    queue_size: Number<1, 100_000> = 1_000,
    /// Entries of all queues of one session.
    queued_values: Number<1, 10_000_000> = 50_000,
    /// Publish requests that wait in one session.
    publish_requests: Number<1, 1_000> = 32,
    /// Sent messages that a subscription keeps for Republish.
    retained_messages: Number<1, 10_000> = 64,
    /// Values in these messages.
    retained_values: Number<1, 10_000_000> = 20_000,
    /// Notifications of one message.
    notifications: Number<1, 1_000_000> = 5_000,
    /// Shortest publishing interval.
    publishing_interval_min: Period<1, 60_000> = 5,
    /// Longest publishing interval.
    publishing_interval_max: Period<1_000, 86_400_000> = 3_600_000,
    /// Publishing cycles without a message.
    keep_alive_count: Number<1, 1_000_000> = 10_000,
    /// Publishing cycles without a Publish request.
    lifetime_count: Number<3, 10_000_000> = 30_000,
    /// Shortest sampling interval that is not zero.
    sampling_interval_min: Period<1, 60_000> = 5,
}

impl Limits {
    /// Pairs whose first may not be more than the second.
    pub(crate) fn pairs(&self) -> [(&'static str, u128, &'static str, u128); 5] {
        let millis = |time: std::time::Duration| time.as_millis();
        [
            (
                "channel_lifetime_min",
                millis(self.channel_lifetime_min.get()),
                "channel_lifetime_max",
                millis(self.channel_lifetime_max.get()),
            ),
            (
                "session_timeout_min",
                millis(self.session_timeout_min.get()),
                "session_timeout_max",
                millis(self.session_timeout_max.get()),
            ),
            (
                "publishing_interval_min",
                millis(self.publishing_interval_min.get()),
                "publishing_interval_max",
                millis(self.publishing_interval_max.get()),
            ),
            ("unsent", self.unsent.get().into(), "backlog", self.backlog.get().into()),
            ("message_size", self.message_size.get().into(), "held", self.held.get().into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::{At, Limits, Overrides, TEMPLATE, read};

    #[test]
    fn the_template_names_every_bound_with_its_default_and_range() {
        for key in Limits::keys() {
            let lines = format!("\n# {} {}.\n# {} = {}\n", key.meaning, key.range, key.name, key.default);
            assert!(TEMPLATE.contains(&lines), "{lines}");
        }
    }

    #[test]
    fn the_bounds_that_the_template_shows_are_the_defaults() {
        let written: String = TEMPLATE
            .split("# [server.limits]\n")
            .nth(1)
            .unwrap()
            .split("\n\n")
            .next()
            .unwrap()
            .lines()
            .map(|line| format!("{}\n", line.trim_start_matches("# ")))
            .filter(|line| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')))
            .collect();
        assert_eq!(toml::from_str::<Limits>(&written).unwrap(), Limits::default());
        assert_eq!(written.lines().count(), Limits::keys().len());
    }

    #[test]
    fn each_bound_is_refused_outside_its_range_where_it_stands() {
        for (line, place, says) in [
            ("sessions = 0", "0", "a whole number from 1 to 100000"),
            ("sessions = 100001", "100001", "a whole number from 1 to 100000"),
            ("hello_timeout = \"1ms\"", "\"1ms\"", "a duration from 500ms to 10m"),
            ("hello_timeout = 10", "10", "a duration from 500ms to 10m"),
            ("sessionz = 5", "sessionz", "there is no key `sessionz`"),
            ("unsent = 33554432", "33554432", "`unsent` is more than `backlog`"),
            ("session_timeout_min = \"30m\"\nsession_timeout_max = \"20m\"", "\"30m\"", "is more than"),
        ] {
            let text = TEMPLATE.replace("# [server.limits]", &format!("[server.limits]\n{line}"));
            let invalid = read(&text, &Overrides::default()).unwrap_err();
            let At::Text(at) = invalid.at.clone() else { panic!("{invalid:?}") };
            assert_eq!((&text[at], invalid.message.contains(says)), (place, true), "{line}: {invalid:?}");
        }
    }
}
