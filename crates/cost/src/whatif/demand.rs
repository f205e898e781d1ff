//! What each end computes for a request and for a client that connects.

use std::collections::BTreeSet;

use super::steps::Steps;
use super::{REFRESHED, RENEWED, Setting};
use crate::choose::Mode;
use crate::protocol::opcua::OpcUa;
use crate::protocol::{Party, Phase};
use crate::{Class, Fault};

/// Bodies of a Read of one value and of its answer, as Trapkey's client and server write them.
pub const READ: (u64, u64) = (108, 54);

/// One step and what it adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Its name.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Half of its 95 % interval, in seconds.
    pub half: f64,
    /// Its variance, in seconds squared.
    pub variance: f64,
}

/// Steps one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand(pub Vec<Piece>);

impl Demand {
    /// All of it.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.0.iter().map(|piece| piece.seconds).sum()
    }

    /// Half of its 95 % interval, relative; errors of different steps are independent, those of one step in several places are not.
    #[must_use]
    pub fn error(&self) -> f64 {
        let names: BTreeSet<&str> = self.0.iter().map(|piece| piece.name.as_str()).collect();
        let of = |name: &str| self.0.iter().filter(|it| it.name == name).map(|it| it.half).sum::<f64>();
        let squares: f64 = names.into_iter().map(|name| of(name).powi(2)).sum();
        if self.seconds() > 0.0 { squares.sqrt() / self.seconds() } else { 0.0 }
    }

    /// The variance of a single run, in seconds squared.
    pub(super) fn variance(&self) -> f64 {
        self.0.iter().map(|piece| piece.variance).sum()
    }

    /// Both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// The step that takes most, and its share.
    #[must_use]
    pub fn largest(&self) -> (String, f64) {
        let names: BTreeSet<&str> = self.0.iter().map(|piece| piece.name.as_str()).collect();
        let of = |name: &str| self.0.iter().filter(|it| it.name == name).map(|it| it.seconds).sum::<f64>();
        let most = names.into_iter().max_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or_default();
        (most.to_owned(), if self.seconds() > 0.0 { of(most) / self.seconds() } else { 0.0 })
    }

    /// The same where renewals take these shares of its processor: each request takes so much longer that it gets the rest. The renewals are
    /// steps of it, too, with their parts of that time, and what their times are off, they are off the more the less they leave.
    fn beside(mut self, renewals: &Self) -> Self {
        let (alone, load) = (self.seconds(), 1.0 / (1.0 - renewals.seconds()));
        for piece in &mut self.0 {
            piece.half *= load;
            piece.variance *= load * load;
        }
        let of = |share: &Piece| Piece {
            name: share.name.clone(),
            seconds: alone * load * share.seconds,
            half: alone * load * load * share.half,
            variance: 0.0,
        };
        self.0.extend(renewals.0.iter().map(of));
        self
    }

    /// So much of it.
    fn times(mut self, factor: f64) -> Self {
        for piece in &mut self.0 {
            piece.seconds *= factor;
            piece.half *= factor;
            piece.variance *= factor * factor;
        }
        self
    }
}

/// What a row is made of.
#[derive(Debug)]
pub(super) struct Work {
    /// Of one request at the server's thread; renewals take their part of it.
    pub(super) server: Demand,
    /// Of one request on the clock while a thread of the server, and of the load generator, has it.
    pub(super) path: (Demand, Demand),
    /// Of one request on the clock beside that.
    pub(super) way: Demand,
    /// Share of a processor that the server's renewals take.
    pub(super) beside: f64,
    /// Of one client that connects, at the server's thread.
    pub(super) connect: Demand,
    /// Of one client that connects, at the server's threads for keys.
    pub(super) keys: Demand,
    /// Of one client that connects, exchange by exchange: at its end, and at the server's, threads for keys included.
    pub(super) exchanges: Vec<(Demand, Demand)>,
}

impl Work {
    /// The variance of the turns that a request of one of so many clients waits for, in seconds squared: its own at both ends of a single client, else as
    /// many at the slower one as there are clients.
    pub(super) fn turns(&self, clients: u32) -> f64 {
        let (server, client) = &self.path;
        if clients == 1 {
            return server.variance() + client.variance();
        }
        let slower = if server.seconds() >= client.seconds() { server } else { client };
        f64::from(clients) * slower.variance()
    }
}

/// What a row is made of, or which end is busy with renewals alone, and how much.
pub(super) fn work(
    steps: &mut Steps<'_>,
    setting: &Setting,
    protocol: &OpcUa,
    clients: u32,
) -> Result<Result<Work, (&'static str, f64)>, Fault> {
    let wire = u64::midpoint(protocol.channel.wire(READ.0), protocol.channel.wire(READ.1));
    let mut end =
        |name: &str| Ok::<_, Fault>(Demand(vec![steps.exchange(name, clients, wire)?, steps.read(name, clients)?]));
    let (mut server, mut client) = (end("server")?, end("client")?);
    let protection = match setting.mode {
        Mode::None => None,
        Mode::Sign => Some("basic256sha256-sign"),
        Mode::SignAndEncrypt => Some("basic256sha256-sign-and-encrypt"),
    };
    if let Some(protection) = protection {
        let mut protect = |operation: &str, bytes| steps.protect(&format!("{operation} {protection}"), clients, bytes);
        client.0.extend([protect("seal", READ.0)?, protect("open", READ.1)?]);
        server.0.extend([protect("open", READ.0)?, protect("seal", READ.1)?]);
    }
    let more = without_exchange(&client).seconds() - without_exchange(&server).seconds();
    for (end, demand) in [("server", &mut server), ("client", &mut client)] {
        demand.0.extend(steps.ahead(end, clients, more)?);
    }
    let (mut path, way) = if clients == 1 {
        ((without_exchange(&server), without_exchange(&client)), Demand(vec![steps.alone(wire)?]))
    } else {
        ((server.clone(), client.clone()), Demand::default())
    };
    if clients > 1 {
        let slower = if path.0.seconds() >= path.1.seconds() { &mut path.0 } else { &mut path.1 };
        slower.0.push(steps.resting(clients, wire)?);
    }
    for ((_, end), demand) in ENDS.into_iter().zip([&server, &client]) {
        if demand.seconds() <= 0.0 {
            let why = format!("the calibration says that a request takes no time at the {end}");
            return Err(Fault::new(Class::Invalid, setting.name(), why));
        }
    }
    let shares = renewals(steps, setting, protocol, clients)?;
    let busy = |((_, end), shares): (_, &Demand)| (end, shares.seconds());
    if let Some(busy) = ENDS.into_iter().zip(&shares).map(busy).find(|(_, share)| *share >= 1.0) {
        return Ok(Err(busy));
    }
    let [at_server, at_client] = &shares;
    let (keys, connect) = steps.cryptography(&protocol.connect(), Party::Server)?;
    let connect = connect.with(&steps.messages(&own(protocol.connect()), clients)?);
    let exchanges = steps.exchanges(&own(protocol.connect()), clients)?;
    path = (path.0.beside(at_server), path.1.beside(at_client));
    let beside = at_server.seconds();
    Ok(Ok(Work { server: server.beside(at_server), path, way, beside, connect, keys, exchanges }))
}

/// All but the way through sockets.
fn without_exchange(demand: &Demand) -> Demand {
    Demand(demand.0.iter().filter(|piece| !piece.name.starts_with("exchange ")).cloned().collect())
}

/// Both ends, as they are named.
const ENDS: [(Party, &str); 2] = [(Party::Server, "server"), (Party::Client, "load generator")];

/// The shares of a processor that renewals take at the server and at the load generator, step by step.
fn renewals(steps: &mut Steps<'_>, setting: &Setting, protocol: &OpcUa, clients: u32) -> Result<[Demand; 2], Fault> {
    let mut shares = [Demand::default(), Demand::default()];
    for (share, (party, _)) in shares.iter_mut().zip(ENDS) {
        let mut each = |phases: Vec<Phase>, seconds: f64| {
            let (keys, other) = steps.cryptography(&own(phases), party)?;
            Ok::<_, Fault>(keys.with(&other).times(f64::from(clients) / seconds))
        };
        if setting.mode != Mode::None {
            *share = share.with(&each(protocol.renew(), RENEWED * setting.lifetime)?);
        }
        *share = share.with(&each(protocol.refresh(), REFRESHED * setting.lifetime)?);
    }
    Ok(shares)
}

/// The phases between client and server: the authority is another computer.
fn own(phases: Vec<Phase>) -> Vec<Phase> {
    phases.into_iter().filter(|phase| phase.ends == (Party::Client, Party::Server)).collect()
}
