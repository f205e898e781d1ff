//! What each end computes, from steps that were measured alone.

use std::collections::BTreeSet;

use super::{REFRESHED, RENEWED, Setting};
use crate::calibration::Calibration;
use crate::choose::Mode;
use crate::protocol::opcua::OpcUa;
use crate::protocol::{Line, Party, Phase, lines};
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

    /// The squared coefficient of variation of a single run.
    fn variation(&self) -> f64 {
        let variance: f64 = self.0.iter().map(|piece| piece.variance).sum();
        if self.seconds() > 0.0 { variance / self.seconds().powi(2) } else { 0.0 }
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

    fn scaled(mut self, factor: f64) -> Self {
        for piece in &mut self.0 {
            piece.seconds *= factor;
            piece.half *= factor;
            piece.variance *= factor * factor;
        }
        self
    }
}

/// A calibration, and which of its steps were used.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    calibration: &'a Calibration,
    used: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(calibration: &'a Calibration) -> Self {
        Self { calibration, used: BTreeSet::new(), missing: BTreeSet::new() }
    }

    pub(super) fn used(&self) -> usize {
        self.used.len()
    }

    pub(super) fn missing(&self) -> BTreeSet<String> {
        self.missing.clone()
    }

    pub(super) fn cores(&self) -> u32 {
        self.calibration.machine.cores
    }

    /// A step on so many bytes, so many times.
    #[expect(clippy::cast_precision_loss, reason = "bytes, times and batches")]
    fn find(&mut self, name: &str, bytes: u64, times: f64) -> Option<Piece> {
        let of_name = self.calibration.steps.iter().filter(|step| step.name() == name);
        let step = of_name.min_by_key(|step| step.bytes.abs_diff(bytes))?;
        let (each, error) = match self.calibration.law(name) {
            Some(law) => (law.at(bytes), law.residual.max(step.error())),
            None => (step.cpu.mean, step.error()),
        };
        self.used.insert(name.to_owned());
        // Timings of batches spread less than single uses.
        let cv2 = if step.cpu.mean > 0.0 { (step.cpu.sd / step.cpu.mean).powi(2) * step.batch as f64 } else { 0.0 };
        let seconds = each * times;
        let half = seconds * if error.is_finite() { error } else { 1.0 };
        Some(Piece { name: name.to_owned(), seconds, half, variance: cv2.min(1.0) * each * each * times })
    }

    fn need(&mut self, name: &str, bytes: u64) -> Result<Piece, Fault> {
        self.find(name, bytes, 1.0).ok_or_else(|| {
            let why = "the calibration does not have this step: `trapkey cost measure` without `--only` measures all";
            Fault::new(Class::NoPrice, name, why)
        })
    }

    /// What an end does with a Read of one of so many clients.
    fn read(&mut self, end: &str, clients: u32) -> Result<Piece, Fault> {
        self.between(&format!("read {end}"), clients, 0)
    }

    /// A message and its answer over a socket, at one end of so many connections.
    fn exchange(&mut self, end: &str, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        self.between(&format!("exchange {end}"), clients, bytes)
    }

    /// A step that was measured with several numbers of clients; between them by the logarithm.
    fn between(&mut self, step: &str, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        let start = format!("{step}-of-");
        let steps = self.calibration.steps.iter().map(crate::calibration::Step::name);
        let mut known: Vec<u32> = steps.filter_map(|name| name.strip_prefix(&start)?.parse().ok()).collect();
        known.sort_unstable();
        let below = known.iter().copied().rfind(|count| *count <= clients).or(known.first().copied()).unwrap_or(1);
        let above = known.iter().copied().find(|count| *count >= clients).or(known.last().copied()).unwrap_or(1);
        let (low, high) =
            (self.need(&format!("{start}{below}"), bytes)?, self.need(&format!("{start}{above}"), bytes)?);
        let ratio = |over: u32| f64::from(over.max(1)).ln();
        let share = if above > below { (ratio(clients) - ratio(below)) / (ratio(above) - ratio(below)) } else { 0.0 };
        let share = share.clamp(0.0, 1.0);
        let between = |of: fn(&Piece) -> f64| of(&low) + share * (of(&high) - of(&low));
        Ok(Piece {
            name: step.to_owned(),
            seconds: between(|it| it.seconds),
            half: between(|it| it.half),
            variance: between(|it| it.variance),
        })
    }

    /// A message and its answer on the clock, with nobody else about: what both ends compute and the time until a thread that sleeps runs
    /// again. An end goes to sleep while the other works already, so it is less than the processor time of both.
    fn alone(&mut self, bytes: u64) -> Result<Piece, Fault> {
        let at_client = self.exchange("client", 1, bytes)?;
        let name = "exchange client-of-1";
        let measured = self.calibration.steps.iter().filter(|step| step.name() == name);
        let step = measured.min_by_key(|step| step.bytes.abs_diff(bytes));
        let (wall, half) = step.map_or((0.0, 0.0), |step| (step.wall.mean, step.wall.half_width()));
        let half = if half.is_finite() { half } else { wall };
        Ok(Piece { name: "exchange".into(), seconds: wall, half, variance: at_client.variance })
    }

    /// What each of so many messages, at least 2, adds to the clock because the end that has more to do rests at times: nothing is there.
    fn resting(&mut self, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        let computed =
            self.exchange("server", clients, bytes)?.seconds.max(self.exchange("client", clients, bytes)?.seconds);
        let start = "exchange client-of-";
        let of_step = |step: &crate::calibration::Step| step.name().strip_prefix(start)?.parse::<u32>().ok();
        let many = self.calibration.steps.iter().filter(|step| of_step(step).is_some_and(|count| count > 1));
        let near = many.min_by_key(|step| (of_step(step).unwrap_or(0).abs_diff(clients), step.bytes.abs_diff(bytes)));
        let seconds = near.map_or(0.0, |step| (step.wall.mean - computed).max(0.0));
        Ok(Piece { name: "resting".into(), seconds, half: 0.0, variance: 0.0 })
    }

    /// The cryptography, records and decisions of phases at one end: with private keys, and without.
    fn cryptography(&mut self, phases: &[Phase], by: Party) -> (Demand, Demand) {
        let (mut private, mut other) = (Demand::default(), Demand::default());
        for line in lines(phases).into_iter().filter(|line| line.by == by) {
            if let Some(piece) = self.priced(&line) {
                (if line.private { &mut private } else { &mut other }).0.push(piece);
            }
        }
        (private, other)
    }

    /// A step that is no message, if somebody has measured it; the check of rights is a part of a Read.
    fn priced(&mut self, line: &Line) -> Option<Piece> {
        if matches!(line.operation.as_str(), "message" | "send message" | "receive message" | "check rights") {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "times")]
        let times = line.times as f64 * line.probability;
        let piece = self.find(&line.operation, line.bytes, times);
        if piece.is_none() && times > 0.0 {
            self.missing.insert(line.operation.clone());
        }
        piece
    }

    /// What client and server do when a client connects, one exchange of messages after the other: what the client does until it has sent
    /// its message (with what it did with the answer before), and what the server does until it has answered.
    fn exchanges(&mut self, phases: &[Phase], clients: u32) -> Result<Vec<(Demand, Demand)>, Fault> {
        let mut exchanges = vec![(Demand::default(), Demand::default())];
        for line in lines(phases) {
            let (asks, answers) = (line.operation == "message", line.to == Some(Party::Client));
            if asks && !answers {
                let mut at =
                    |end: &str, wire| Ok::<_, Fault>([self.exchange(end, clients, wire)?, self.read(end, clients)?]);
                let (client, server) = (at("client", line.bytes)?, at("server", line.bytes)?);
                let last = exchanges.last_mut().filter(|last| last.1.0.is_empty());
                match last {
                    Some(last) => {
                        last.0.0.extend(client);
                        last.1.0.extend(server);
                    }
                    None => exchanges.push((Demand(client.into()), Demand(server.into()))),
                }
            } else if asks {
                exchanges.push(Default::default());
            } else if let (Some(piece), Some(last)) = (self.priced(&line), exchanges.last_mut()) {
                let end = if line.by == Party::Client { &mut last.0 } else { &mut last.1 };
                end.0.push(piece);
            }
        }
        Ok(exchanges)
    }

    /// What the messages of phases cost at the server beside that: their way through sockets, and decoding, serving and encoding them, each
    /// as much as a Read.
    fn messages(&mut self, phases: &[Phase]) -> Result<Demand, Fault> {
        let mut demand = Demand::default();
        for line in lines(phases) {
            if line.operation == "message" && line.to == Some(Party::Server) {
                demand.0.push(self.exchange("server", 1, line.bytes)?);
                demand.0.push(self.read("server", 1)?);
            }
        }
        Ok(demand)
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
    /// Squared coefficient of variation of a request at the end that has more to do.
    pub(super) variation: f64,
    /// Share of a processor that the server's renewals take.
    pub(super) beside: f64,
    /// Of one client that connects, at the server's thread.
    pub(super) connect: Demand,
    /// Of one client that connects, at the server's threads for keys.
    pub(super) keys: Demand,
    /// Of one client that connects, exchange by exchange: at its end, and at the server's, threads for keys included.
    pub(super) exchanges: Vec<(Demand, Demand)>,
}

pub(super) fn work(steps: &mut Steps<'_>, setting: &Setting, protocol: &OpcUa, clients: u32) -> Result<Work, Fault> {
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
        let (seal, open) = (format!("seal {protection}"), format!("open {protection}"));
        client.0.extend([steps.need(&seal, READ.0)?, steps.need(&open, READ.1)?]);
        server.0.extend([steps.need(&open, READ.0)?, steps.need(&seal, READ.1)?]);
    }
    let without = |demand: &Demand| {
        Demand(demand.0.iter().filter(|piece| !piece.name.starts_with("exchange ")).cloned().collect())
    };
    let (mut path, way) = if clients == 1 {
        ((without(&server), without(&client)), Demand(vec![steps.alone(wire)?]))
    } else {
        ((server.clone(), client.clone()), Demand::default())
    };
    if clients > 1 {
        let slower = if path.0.seconds() >= path.1.seconds() { &mut path.0 } else { &mut path.1 };
        slower.0.push(steps.resting(clients, wire)?);
    }
    let (beside, load) = renewals(steps, setting, protocol, clients, &server)?;
    let (keys, connect) = steps.cryptography(&protocol.connect(), Party::Server);
    let connect = connect.with(&steps.messages(&own(protocol.connect()))?);
    let exchanges = steps.exchanges(&own(protocol.connect()), clients)?;
    let variation = server.variation().max(client.variation());
    path.0 = path.0.scaled(load);
    Ok(Work { server: server.scaled(load), path, way, variation, beside, connect, keys, exchanges })
}

/// The share of a processor that renewals take, and by how much that makes each request longer.
fn renewals(
    steps: &mut Steps<'_>,
    setting: &Setting,
    protocol: &OpcUa,
    clients: u32,
    server: &Demand,
) -> Result<(f64, f64), Fault> {
    let mut each = |phases: Vec<Phase>| {
        let (keys, other) = steps.cryptography(&phases, Party::Server);
        keys.with(&other).seconds()
    };
    let channel = if setting.mode == Mode::None { 0.0 } else { each(protocol.renew()) / (RENEWED * setting.lifetime) };
    let token = each(own(protocol.refresh())) / (REFRESHED * setting.lifetime);
    let beside = f64::from(clients) * (channel + token);
    if beside >= 1.0 || server.seconds() <= 0.0 {
        let why = format!("renewing keys and tokens of {clients} clients alone keeps the server busy");
        return Err(Fault::new(Class::Invalid, setting.name(), why));
    }
    Ok((beside, 1.0 / (1.0 - beside)))
}

/// The phases between client and server: the authority is another computer.
fn own(phases: Vec<Phase>) -> Vec<Phase> {
    phases.into_iter().filter(|phase| phase.ends == (Party::Client, Party::Server)).collect()
}
