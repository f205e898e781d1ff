//! Steps of a calibration, put together to what each end computes between two messages.

use std::collections::BTreeSet;

use super::demand::{Demand, Piece};
use crate::calibration::{Calibration, Sample, Step};
use crate::protocol::{Line, Party, Phase, lines};
use crate::{Class, Fault};

/// Seconds by which one end has more other work for a message than the other in the steps whose names end with [`SLOWER`].
pub const AHEAD: f64 = 1e-6;
/// How steps of exchanges end where the client has more other work, and where the server has.
pub const SLOWER: (&str, &str) = ("-slower-client", "-slower-server");
/// Beyond so many times [`AHEAD`] the other end sleeps for each message, and nothing more is lost.
const MOST_AHEAD: f64 = 4.0;
/// Half of the 95 % interval of the median of normal times is this many times what lies between it and what 95 of 100 do not exceed, over the root of their number.
const MEDIAN: f64 = 1.493;
/// What calibrations do not have by this name: it is in their steps of tokens. It costs nothing here.
const ELSEWHERE: &str = "read token";
const MISSING: &str =
    "the calibration does not have this step: `trapkey cost measure` without `--only` measures all that it can";

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

    pub(super) fn used(&self) -> BTreeSet<String> {
        self.used.clone()
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

    pub(super) fn need(&mut self, name: &str, bytes: u64) -> Result<Piece, Fault> {
        self.find(name, bytes, 1.0).ok_or_else(|| Fault::new(Class::NoPrice, name, MISSING))
    }

    /// What protects a message of one of so many clients: a single one sleeps until the answer is there, and its server until it asks, and many have
    /// as many keys. Where that was not measured, as if the same was done again and again.
    pub(super) fn protect(&mut self, step: &str, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        let known = self.numbers(step, "");
        let measured = if clients == 1 { known.contains(&1) } else { known.last().is_some_and(|most| *most > 1) };
        if measured { self.between(step, clients, bytes) } else { self.need(step, bytes) }
    }

    /// What an end does with a Read of one of so many clients.
    pub(super) fn read(&mut self, end: &str, clients: u32) -> Result<Piece, Fault> {
        self.between(&format!("read {end}"), clients, 0)
    }

    /// A message and its answer over a socket, at one end of so many connections.
    pub(super) fn exchange(&mut self, end: &str, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        self.between(&format!("exchange {end}"), clients, bytes)
    }

    /// What it takes more where one end has more to do beside it, so that the other waits, looks more often, and has to be woken: with
    /// seconds by which the client has more, or the server (below 0). It is a part of the same step; one client waits in any case.
    pub(super) fn ahead(&mut self, end: &str, clients: u32, more: f64) -> Result<Option<Piece>, Fault> {
        let (step, ending) = (format!("exchange {end}"), if more > 0.0 { SLOWER.0 } else { SLOWER.1 });
        let measured =
            self.calibration.steps.iter().find(|it| it.operation == "exchange" && it.name().ends_with(ending));
        let Some(bytes) = measured.map(|it| it.bytes).filter(|_| clients > 1) else {
            if clients > 1 {
                self.missing.insert(format!("{step}-of-N{ending}"));
            }
            return Ok(None);
        };
        let (uneven, even) = (self.ending(&step, ending, clients, bytes)?, self.between(&step, clients, bytes)?);
        let times = (more.abs() / AHEAD).min(MOST_AHEAD);
        let (seconds, half) = ((uneven.seconds - even.seconds).max(0.0), uneven.half.hypot(even.half));
        Ok(Some(Piece { name: step, seconds: seconds * times, half: half * times, variance: 0.0 }))
    }

    /// A step that was measured with several numbers of clients; between them by the logarithm.
    fn between(&mut self, step: &str, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        self.ending(step, "", clients, bytes)
    }

    /// The same of a step whose name goes on after that number.
    fn ending(&mut self, step: &str, ending: &str, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        let start = format!("{step}-of-");
        // A single client sleeps between its requests: several say nothing of it, and it alone says nothing of them.
        let known = self.numbers(step, ending);
        let (below, above) = match known.last() {
            Some(most) if clients > 1 && *most > 1 => around(known.into_iter(), clients),
            _ => (clients, clients),
        };
        let (low, high) = (
            self.need(&format!("{start}{below}{ending}"), bytes)?,
            self.need(&format!("{start}{above}{ending}"), bytes)?,
        );
        let share = between(below, above, clients);
        let between = |of: fn(&Piece) -> f64| of(&low) + share * (of(&high) - of(&low));
        Ok(Piece {
            name: step.to_owned(),
            seconds: between(|it| it.seconds),
            half: between(|it| it.half),
            variance: between(|it| it.variance),
        })
    }

    /// The numbers of clients that a step was measured with, in order.
    fn numbers(&self, step: &str, ending: &str) -> Vec<u32> {
        let start = format!("{step}-of-");
        let number = |name: String| name.strip_prefix(&start)?.strip_suffix(ending)?.parse::<u32>().ok();
        let mut known: Vec<u32> = self.calibration.steps.iter().map(Step::name).filter_map(number).collect();
        known.sort_unstable();
        known.dedup();
        known
    }

    /// A message and its answer on the clock, with nobody else about: what both ends compute and the time until a thread that sleeps runs
    /// again. An end goes to sleep while the other works already, so it is less than the processor time of both.
    pub(super) fn alone(&mut self, bytes: u64) -> Result<Piece, Fault> {
        self.exchange("client", 1, bytes)?;
        let name = "exchange client-of-1";
        let measured = self.calibration.steps.iter().filter(|step| step.name() == name);
        let step = measured.min_by_key(|step| step.bytes.abs_diff(bytes));
        let (wall, half) = step.map_or((0.0, 0.0), |step| (step.wall.mean, step.wall.half_width()));
        let half = if half.is_finite() { half } else { wall };
        // Many uses in a timing were as fast, or as slow, as each other for the most part: what makes them so lasts longer than they do.
        let variance = step.map_or(0.0, |step| step.wall.sd.min(wall).powi(2));
        Ok(Piece { name: "exchange".into(), seconds: wall, half, variance })
    }

    /// What each of so many messages, at least 2, adds to the clock because the end that has more to do rests at times: nothing is there.
    /// Between measured numbers of clients by the logarithm; of fewer than those as of the fewest.
    pub(super) fn resting(&mut self, clients: u32, bytes: u64) -> Result<Piece, Fault> {
        let (below, above) = around(self.numbers("exchange client", "").into_iter().filter(|it| *it > 1), clients);
        let (low, high) = (self.rests(below, bytes)?, self.rests(above, bytes)?);
        let between = |of: fn(&(f64, f64)) -> f64| of(&low) + between(below, above, clients) * (of(&high) - of(&low));
        Ok(Piece { name: "resting".into(), seconds: between(|it| it.0), half: between(|it| it.1), variance: 0.0 })
    }

    /// The same with a number of clients that it was measured with, and half of its interval: that on the clock, for what computing is off is in
    /// what the messages take, and less in this for it.
    #[expect(clippy::cast_precision_loss, reason = "counts of timings")]
    fn rests(&mut self, clients: u32, bytes: u64) -> Result<(f64, f64), Fault> {
        let computed =
            self.exchange("server", clients, bytes)?.seconds.max(self.exchange("client", clients, bytes)?.seconds);
        let name = format!("exchange client-of-{clients}");
        let measured = self.calibration.steps.iter().filter(|step| step.name() == name);
        let Some(near) = measured.min_by_key(|step| step.bytes.abs_diff(bytes)) else { return Ok((0.0, 0.0)) };
        // Who was interrupted now and then by others has not rested.
        let Sample { n, p50, p95, .. } = near.wall;
        let rests = (p50 - computed).max(0.0);
        // Of a median, by how far apart the times are that nothing interrupted.
        let half = MEDIAN * (p95 - p50) / (n as f64).sqrt();
        Ok((rests, half.clamp(0.0, rests)))
    }

    /// The cryptography, records and decisions of phases at one end: with private keys, and without.
    pub(super) fn cryptography(&mut self, phases: &[Phase], by: Party) -> Result<(Demand, Demand), Fault> {
        let (mut private, mut other) = (Demand::default(), Demand::default());
        for line in lines(phases).into_iter().filter(|line| line.by == by) {
            if let Some(piece) = self.priced(&line)? {
                (if line.private { &mut private } else { &mut other }).0.push(piece);
            }
        }
        Ok((private, other))
    }

    /// A step that is no message; the check of rights is a part of a Read. `None` also for what may be left out.
    fn priced(&mut self, line: &Line) -> Result<Option<Piece>, Fault> {
        let name = line.operation.as_str();
        if matches!(name, "message" | "send message" | "receive message" | "check rights") {
            return Ok(None);
        }
        #[expect(clippy::cast_precision_loss, reason = "times")]
        let times = line.times as f64 * line.probability;
        if times <= 0.0 {
            return Ok(None);
        }
        let piece = self.find(name, line.bytes, times);
        match piece {
            None if line.needed && name != ELSEWHERE => Err(self.unpriced(name)),
            None => {
                self.missing.insert(name.to_owned());
                Ok(None)
            }
            piece => Ok(piece),
        }
    }

    /// Says what is missing, and which of its kind there are.
    fn unpriced(&self, name: &str) -> Fault {
        let kind = |name: &str| name.rsplit_once('-').map(|(kind, _)| kind.to_owned());
        let of_kind = |it: &String| kind(it).is_some_and(|of| Some(of) == kind(name));
        let alike: BTreeSet<String> = self.calibration.steps.iter().map(Step::name).filter(of_kind).collect();
        let mut why = String::from(MISSING);
        if !alike.is_empty() {
            let alike: Vec<&str> = alike.iter().map(String::as_str).collect();
            why += &format!("; of its kind it has {}", alike.join(", "));
        }
        Fault::new(Class::NoPrice, name, why)
    }

    /// What client and server do when a client connects, one exchange of messages after the other: what the client does until it has sent
    /// its message (with what it did with the answer before), and what the server does until it has answered.
    pub(super) fn exchanges(&mut self, phases: &[Phase], clients: u32) -> Result<Vec<(Demand, Demand)>, Fault> {
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
            } else if let (Some(piece), Some(last)) = (self.priced(&line)?, exchanges.last_mut()) {
                let end = if line.by == Party::Client { &mut last.0 } else { &mut last.1 };
                end.0.push(piece);
            }
        }
        Ok(exchanges)
    }

    /// What the messages of phases cost at the server beside that: their way through sockets, and decoding, serving and encoding them, each
    /// as much as a Read.
    pub(super) fn messages(&mut self, phases: &[Phase], clients: u32) -> Result<Demand, Fault> {
        let mut demand = Demand::default();
        for line in lines(phases) {
            if line.operation == "message" && line.to == Some(Party::Server) {
                demand.0.push(self.exchange("server", clients, line.bytes)?);
                demand.0.push(self.read("server", clients)?);
            }
        }
        Ok(demand)
    }
}

/// Of measured numbers in order the nearest on either side of `wanted`, or the last one on the side where there is none; `wanted` itself of
/// none at all.
fn around(known: impl Iterator<Item = u32>, wanted: u32) -> (u32, u32) {
    let known: Vec<u32> = known.collect();
    let below = known.iter().copied().rfind(|count| *count <= wanted).or(known.first().copied());
    let above = known.iter().copied().find(|count| *count >= wanted).or(known.last().copied());
    (below.unwrap_or(wanted), above.unwrap_or(wanted))
}

/// How far `wanted` lies on the way from one number to the other, by the logarithm: 0 to 1.
fn between(below: u32, above: u32, wanted: u32) -> f64 {
    let ratio = |over: u32| f64::from(over.max(1)).ln();
    let share = if above > below { (ratio(wanted) - ratio(below)) / (ratio(above) - ratio(below)) } else { 0.0 };
    share.clamp(0.0, 1.0)
}
