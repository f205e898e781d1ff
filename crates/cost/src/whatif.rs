//! What settings of OPC UA cost on a calibrated machine: for each, the load that saturates a server, response times, busy processors, and
//! how long a crowd that connects at once takes. Made of steps that were measured alone ([`crate::calibration`]) and of the operations
//! that a protocol asks for ([`crate::protocol`]), put into nets and solved. Nothing is fitted to a run of the whole.
//!
//! What is predicted is a server with one thread for its clients and two for private keys, which answers Reads of one value, and a load
//! generator with one thread: each client sends its next request when it has the answer to the last. That is what `bench` runs.

mod demand;
mod nets;
mod steps;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use gspn::Budget;
use serde::Serialize;

use crate::algorithm::Key;
use crate::calibration::Calibration;
use crate::choose::Mode;
use crate::protocol::opcua::{Channel, OpcUa, Policy, User};
use crate::protocol::tls::Tls;
use crate::protocol::tokens::{Flow, Tokens};
use crate::{Class, Fault};

pub use demand::{Demand, Piece, READ};
pub use steps::{AHEAD, SLOWER};

/// The most rows that are predicted at once.
pub const MAX_ROWS: usize = 2_000;
/// The most clients of a row.
pub const MAX_CLIENTS: u32 = 256;
/// By more than this part of it no time is taken to be off.
const WIDEST: f64 = 0.9;
/// Bits of the RSA keys of Basic256Sha256 (OPC 10000-7).
const KEYS: RangeInclusive<u32> = 2_048..=4_096;
/// Seconds that a key or a token lives at most: some thirty years.
const MAX_LIFETIME: f64 = 1e9;
/// Share of a channel's lifetime after which its keys are renewed (OPC 10000-4 section 5.6.2).
const RENEWED: f64 = 0.75;
/// Share of a token's lifetime after which a client shows another (Trapkey's client).
pub const REFRESHED: f64 = 0.8;

/// How a client comes to its access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// RequestAccessToken: one call over OPC UA.
    RequestAccessToken,
    /// StartRequestToken and FinishRequestToken: two calls.
    StartFinish,
    /// OAuth2 over HTTPS.
    Oauth2,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RequestAccessToken, Self::StartFinish, Self::Oauth2];

    /// As settings write it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::RequestAccessToken => "request-access-token",
            Self::StartFinish => "start-finish",
            Self::Oauth2 => "oauth2",
        }
    }
}

/// Access tokens of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Token {
    /// How clients come to it.
    pub way: Way,
    /// Whether it is encrypted for the server's key before it goes into the channel.
    pub encrypted: bool,
}

/// A setting of a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setting {
    /// What is done with messages: Basic256Sha256, or nothing.
    pub mode: Mode,
    /// Bits of the RSA keys; 0 without protection.
    pub bits: u32,
    /// Access tokens, or anonymous users.
    pub token: Option<Token>,
    /// Seconds that keys of a channel and access tokens live; of a setting that has neither, the first that was asked for.
    pub lifetime: f64,
}

impl Setting {
    /// One without protection and without tokens.
    pub const NONE: Self = Self { mode: Mode::None, bits: 0, token: None, lifetime: 3_600.0 };

    /// What a client and a server do.
    ///
    /// # Errors
    /// [`Class::Invalid`] for what does not go together: tokens without protection, tokens in clear on a channel that only signs, keys of
    /// another length than 2048 to 4096 bits.
    pub fn protocol(&self) -> Result<OpcUa, Fault> {
        let invalid = |why: &str| Fault::new(Class::Invalid, self.name(), why);
        let (policy, key) = match self.mode {
            Mode::None => (Policy::None, Key::Rsa(2_048)),
            _ => (Policy::Basic256Sha256, Key::Rsa(self.bits)),
        };
        let channel =
            Channel::new(policy, self.mode, key).ok_or_else(|| invalid("2048 to 4096 bits, or no protection"))?;
        let channel = Channel { discovery: false, ..channel };
        let user = match self.token {
            None => User::Anonymous,
            Some(_) if self.mode == Mode::None => {
                return Err(invalid("a token has no place on a channel without protection"));
            }
            Some(token) if self.mode == Mode::Sign && !token.encrypted => {
                return Err(invalid("a channel that only signs shows a token that is not encrypted"));
            }
            Some(token) => {
                let flow = match token.way {
                    Way::RequestAccessToken => Flow::RequestAccessToken(channel),
                    Way::StartFinish => Flow::StartFinish(channel),
                    Way::Oauth2 => Flow::OAuth2(Tls { client: Some(key), ..Tls::ours(key) }),
                };
                User::Token(Box::new(Tokens { encrypted: token.encrypted, ..Tokens::new(flow) }))
            }
        };
        Ok(OpcUa { channel, user })
    }

    /// For tables: `sign-and-encrypt rsa-2048 start-finish encrypted-twice 3600 s`.
    #[must_use]
    pub fn name(&self) -> String {
        if self.mode == Mode::None {
            return "none".into();
        }
        let token = match self.token {
            None => "no token".into(),
            Some(token) => {
                format!("{} {}", token.way.word(), if token.encrypted { "encrypted twice" } else { "encrypted once" })
            }
        };
        let mode = if self.mode == Mode::Sign { "sign" } else { "sign-and-encrypt" };
        format!("{mode} rsa-{} {token} {} s", self.bits, self.lifetime)
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Modes.
    pub modes: Vec<Mode>,
    /// Bits of RSA keys.
    pub bits: Vec<u32>,
    /// Tokens, or none.
    pub tokens: Vec<Option<Token>>,
    /// Lifetimes in seconds.
    pub lifetimes: Vec<f64>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
}

impl Default for Grid {
    fn default() -> Self {
        let token = |encrypted| Some(Token { way: Way::StartFinish, encrypted });
        Self {
            modes: vec![Mode::None, Mode::Sign, Mode::SignAndEncrypt],
            bits: vec![2_048, 4_096],
            tokens: vec![None, token(false), token(true)],
            lifetimes: vec![3_600.0],
            clients: vec![1, 8, 64],
        }
    }
}

impl Grid {
    /// That each value has a meaning: one without would be left out in silence, with what does not go together.
    ///
    /// # Errors
    /// [`Class::Invalid`] and [`Class::TooLarge`] for the first that has none.
    pub fn check(&self) -> Result<(), Fault> {
        let invalid = |of: &str, why: String| Err(Fault::new(Class::Invalid, of, why));
        if let Some(clients) = self.clients.iter().find(|clients| !(1..=MAX_CLIENTS).contains(*clients)) {
            let class = if *clients == 0 { Class::Invalid } else { Class::TooLarge };
            return Err(Fault::new(class, "clients", format!("{clients}: 1 to {MAX_CLIENTS}")));
        }
        if let Some(bits) = self.bits.iter().find(|bits| !KEYS.contains(*bits)) {
            return invalid("key", format!("{bits} bits: Basic256Sha256 has {} to {}", KEYS.start(), KEYS.end()));
        }
        match self.lifetimes.iter().find(|it| !(1.0..=MAX_LIFETIME).contains(*it)) {
            Some(lifetime) => invalid("lifetime", format!("{lifetime:e} s: 1 s to {MAX_LIFETIME:e} s")),
            None => Ok(()),
        }
    }

    /// Its settings; what does not go together is left out. Without protection and tokens no lifetime matters, so that there is one such
    /// setting, whichever are asked for.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let first = self.lifetimes.first().copied().unwrap_or(Setting::NONE.lifetime);
        let mut settings = Vec::new();
        for &mode in &self.modes {
            for &bits in &self.bits {
                for &token in &self.tokens {
                    for &lifetime in &self.lifetimes {
                        let setting = match mode {
                            Mode::None if token.is_none() => Setting { lifetime: first, ..Setting::NONE },
                            _ => Setting { mode, bits, token, lifetime },
                        };
                        if setting.protocol().is_ok() && !settings.contains(&setting) {
                            settings.push(setting);
                        }
                    }
                }
            }
        }
        settings
    }
}

/// A number, and half of its 95 % interval relative to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// 0.01 is 1 %.
    pub error: f64,
}

/// What is predicted of a setting with so many clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The setting.
    pub setting: Setting,
    /// Clients that send their next request when they have the answer to the last.
    pub clients: u32,
    /// Requests a second.
    pub throughput: Figure,
    /// Requests a second that the server's thread can serve at most.
    pub saturation: Figure,
    /// Seconds from a request to its answer: the mean, and what 50, 95 and 99 of 100 do not exceed.
    pub response: Response,
    /// Share of one processor that the server uses; above 1 where keys are renewed so often that the others help.
    pub server_busy: Figure,
    /// Seconds until all clients are connected again that lost their connections at once.
    pub storm: Figure,
    /// The same where all clients are one thread on one processor and the server has one: a run of `bench`.
    pub storm_here: Figure,
    /// What limits the throughput: `server`, `client`, or `way` (one request at a time).
    pub limited_by: &'static str,
    /// Of what limits it, the step that takes most, and its share.
    pub largest: (String, f64),
    /// Throughput against the present setting with as many clients: 0.1 is a tenth more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
}

/// Seconds from a request to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Response {
    /// Its mean.
    pub mean: Figure,
    /// What half of all do not exceed.
    pub p50: Figure,
    /// What 95 of 100 do not exceed.
    pub p95: Figure,
    /// What 99 of 100 do not exceed.
    pub p99: Figure,
}

/// A setting that so many clients keep busy with renewals alone: no request is served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saturated {
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
    /// Which end has too much to do: `server`, or `load generator`.
    pub end: &'static str,
    /// How much renewing keys and tokens would take of its processor: 1 is all of it.
    pub renewing: f64,
}

/// What is predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// One for each setting and number of clients that serves any request.
    pub rows: Vec<Row>,
    /// The others.
    pub saturated: Vec<Saturated>,
    /// Times that were measured and that the prediction is made of.
    pub measured: usize,
    /// Their names, each of all its sizes.
    pub steps: BTreeSet<String>,
    /// Times that were fitted to a run of the whole: none.
    pub fitted: usize,
    /// Operations that protocols ask for and that nobody has measured; they cost nothing here.
    pub unmeasured: BTreeSet<String>,
}

/// Predicts a grid; `present` is what rows are compared with.
///
/// # Errors
/// [`Class::NoPrice`] for a step that the calibration does not have, [`Class::TooLarge`] for too many rows or clients,
/// [`Class::Unanswered`] if a net cannot be solved, [`Class::Invalid`] for settings that do not go together.
pub fn predict(
    calibration: &Calibration,
    grid: &Grid,
    present: Option<&Setting>,
    budget: &mut Budget<'_>,
) -> Result<Prediction, Fault> {
    grid.check()?;
    let settings = grid.settings();
    let count = settings.len() * grid.clients.len();
    if count == 0 {
        return Err(Fault::new(
            Class::Missing,
            "settings",
            "no setting is left: what is asked for does not go together",
        ));
    }
    if count > MAX_ROWS {
        return Err(Fault::new(Class::TooLarge, "settings", format!("{count} rows, {MAX_ROWS} are taken")));
    }
    let mut steps = steps::Steps::new(calibration);
    let (mut rows, mut saturated) = (Vec::with_capacity(count), Vec::new());
    for setting in &settings {
        for &clients in &grid.clients {
            match row(&mut steps, setting, clients, budget)? {
                Ok(row) => rows.push(row),
                Err((end, renewing)) => saturated.push(Saturated { setting: *setting, clients, end, renewing }),
            }
        }
    }
    if let Some(present) = present {
        for &clients in &grid.clients {
            let Ok(now) = row(&mut steps, present, clients, budget)? else { continue };
            let now = now.throughput.value;
            for row in rows.iter_mut().filter(|row| row.clients == clients) {
                row.difference = Some(row.throughput.value / now - 1.0);
            }
        }
    }
    let used = steps.used();
    Ok(Prediction { rows, saturated, measured: used.len(), steps: used, fitted: 0, unmeasured: steps.missing() })
}

/// A row, or which end renewals alone keep busy, and how much.
fn row(
    steps: &mut steps::Steps<'_>,
    setting: &Setting,
    clients: u32,
    budget: &mut Budget<'_>,
) -> Result<Result<Row, (&'static str, f64)>, Fault> {
    let protocol = setting.protocol()?;
    let work = match demand::work(steps, setting, &protocol, clients)? {
        Ok(work) => work,
        Err(busy) => return Ok(Err(busy)),
    };
    let (at_server, at_client) = &work.path;
    let (server, client) = (at_server.seconds(), at_client.seconds());
    let stages = nets::Stages {
        clients,
        client,
        server,
        way: work.way.seconds(),
        turns: work.turns(clients),
        beside: work.way.variance(),
    };
    let errors = (at_server.error(), at_client.error(), work.way.error());
    let stages = stages.ends(errors);
    let mut rates = [0.0; 3];
    for (rate, stages) in rates.iter_mut().zip(&stages) {
        *rate = nets::throughput(stages, budget)?;
    }
    let throughput = Figure::between(rates);
    let limited_by = if clients == 1 {
        "way"
    } else if server >= client {
        "server"
    } else {
        "client"
    };
    let limit = match limited_by {
        "way" => at_server.with(at_client).with(&work.way),
        "server" => at_server.clone(),
        _ => at_client.clone(),
    };
    let responses: [nets::Times; 3] = std::array::from_fn(|at| nets::response(&stages[at], rates[at]));
    let of = |time: fn(&nets::Times) -> f64| Figure::between(responses.each_ref().map(time));
    let storm = nets::storm(clients, steps.cores(), work.connect.seconds(), work.keys.seconds(), budget)?;
    let exchanges: Vec<(f64, f64)> =
        work.exchanges.iter().map(|(asks, answers)| (asks.seconds(), answers.seconds())).collect();
    let ends = |end: fn(&(Demand, Demand)) -> &Demand| {
        work.exchanges.iter().fold(Demand::default(), |all, it| all.with(end(it)))
    };
    let (asks, answers) = (ends(|it| &it.0), ends(|it| &it.1));
    let busier = if asks.seconds() > answers.seconds() { asks } else { answers };
    Ok(Ok(Row {
        setting: *setting,
        clients,
        throughput,
        saturation: Figure { value: 1.0 / work.server.seconds(), error: of_rate(work.server.error()) },
        response: Response {
            mean: of(|it| it.mean),
            p50: of(|it| it.quantiles[0]),
            p95: of(|it| it.quantiles[1]),
            p99: of(|it| it.quantiles[2]),
        },
        server_busy: Figure {
            // Renewals have their own part; requests are served in the rest of the time, and are no longer for it.
            value: throughput.value * work.server.seconds() * (1.0 - work.beside) + work.beside,
            error: throughput.error.max(work.server.error()),
        },
        storm: Figure { value: storm, error: work.connect.with(&work.keys).error() },
        storm_here: Figure { value: nets::together(clients, &exchanges), error: busier.error() },
        limited_by,
        largest: limit.largest(),
        difference: None,
    }))
}

/// Half of the interval of a rate, relative to it, where times are as long, and as short, as their own allows.
fn of_rate(error: f64) -> f64 {
    let error = error.min(WIDEST);
    error / (1.0 - error * error)
}

impl nets::Stages {
    /// As they are, and where all times are as long, and as short, as their intervals allow.
    fn ends(self, (server, client, way): (f64, f64, f64)) -> [Self; 3] {
        let slower = if self.server >= self.client { server } else { client };
        [0.0, 1.0, -1.0].map(|sign| Self {
            turns: self.turns * (1.0 + sign * slower.min(WIDEST)).powi(2),
            server: self.server * (1.0 + sign * server.min(WIDEST)),
            client: self.client * (1.0 + sign * client.min(WIDEST)),
            way: self.way * (1.0 + sign * way.min(WIDEST)),
            ..self
        })
    }
}

impl Figure {
    /// A value, and what it is at both ends.
    fn between([value, one, other]: [f64; 3]) -> Self {
        Self { value, error: (one - other).abs() / 2.0 / value }
    }
}
