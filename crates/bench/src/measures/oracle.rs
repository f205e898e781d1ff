//! `guard.oracle`: whether the times of a guard's answers tell hidden nodes from missing ones.
//!
//! Guard and server behind it run in one thread, a client asks over one socket of the loopback: the least that lies between a
//! guard and anybody. Of each question 10,000 answers about hidden nodes and 10,000 about missing ones are timed in a random
//! order, and the two samples are held against each other (Kolmogorov, Smirnov). The figure is their distance, in units of the
//! distance that two samples of one distribution exceed once in a hundred times: above 1, p is below 0.01. The same is done
//! with answers about missing nodes held back for a while, as if hidden ones were answered early: that must be seen, or the
//! measure is blind. What the guard itself takes longer, without any socket, is said beside it.

#![expect(
    clippy::disallowed_types,
    reason = "a thread of its own waits for a socket, so that no runtime blurs the time"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use testkit::oracle::{Asked, Asker, Question};

use super::Bench;
use crate::Failed;
use crate::clock::Stopwatch;
use crate::random::Random;
use crate::record::median;
use crate::statistics::{distance, p_value};

/// Answers of each kind.
const SAMPLES: usize = 10_000;
/// Not counted: caches and branch predictors get warm.
const WARM_UP: usize = 1_000;
/// How much earlier hidden nodes are answered in the control, in seconds.
const EARLY: f64 = 20e-6;
/// Kolmogorov's distribution leaves 0.01 above this.
const CRITICAL: f64 = 1.627_6;
const KINDS: [Asked; 2] = [Asked::Hidden, Asked::Missing];

/// Times the answers to every question.
///
/// # Errors
/// The control is not seen, a socket cannot be had, or a figure cannot be kept.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let samples = if bench.quick { SAMPLES / 5 } else { SAMPLES };
    for question in Question::ALL {
        let mut random = Random::new(0x6b73);
        let mut figures = Vec::new();
        let name = question.name();
        for run in 0..bench.runs {
            let mut guard = Socket::open(question)?;
            let Compared { figure, p, later } = compare(&mut guard, samples, 0.0, &mut random)?;
            let control = compare(&mut guard, samples, EARLY, &mut random)?.p;
            guard.close()?;
            let bare = compare(&mut Memory::new(question), samples, 0.0, &mut random)?;
            let beside = format!("in memory p = {:.4} ({:+.0} ns)", bare.p, bare.later);
            eprintln!("  {name} run {}: p = {p:.4} ({later:+.0} ns), control p = {control:.1e}; {beside}", run + 1);
            if control > 0.01 {
                return Err(format!("an answer that comes 20 us early is not seen (p = {control})").into());
            }
            figures.push(figure);
        }
        let unit = "distance of hidden and missing / distance at p = 0.01";
        bench.alone(&format!("guard.oracle.{name}"), unit, &figures, 1.0, "guard.oracle")?;
    }
    Ok(())
}

/// What two samples say.
struct Compared {
    /// Their distance in units of the critical one.
    figure: f64,
    p: f64,
    /// Nanoseconds by which the median of hidden nodes is later.
    later: f64,
}

fn compare(guard: &mut dyn Answers, samples: usize, early: f64, random: &mut Random) -> Result<Compared, Failed> {
    let [hidden, missing] = times(guard, samples, early, random)?;
    let distance = distance(&hidden, &missing);
    let figure = distance * (samples as f64 / 2.0).sqrt() / CRITICAL;
    let later = median(&hidden).zip(median(&missing)).map_or(0.0, |(hidden, missing)| (hidden - missing) * 1e9);
    Ok(Compared { figure, p: p_value(distance, samples, samples), later })
}

/// Seconds to the answers about hidden nodes and about missing ones.
fn times(guard: &mut dyn Answers, samples: usize, early: f64, random: &mut Random) -> Result<[Vec<f64>; 2], Failed> {
    let mut times = [Vec::with_capacity(samples), Vec::with_capacity(samples)];
    for round in 0..WARM_UP + samples {
        let first = random.below(2) as usize;
        for kind in [first, 1 - first] {
            let which = random.below(2) as usize;
            let watch = Stopwatch::start();
            guard.answer(kind, which)?;
            let mut took = watch.seconds();
            if KINDS[kind] == Asked::Missing && early > 0.0 {
                let until = took + early;
                while took < until {
                    took = watch.seconds();
                }
            }
            if round >= WARM_UP {
                times[kind].push(took);
            }
        }
    }
    Ok(times)
}

/// A guard that is asked about a node of a kind, one of two.
trait Answers {
    fn answer(&mut self, kind: usize, which: usize) -> Result<(), Failed>;
}

/// In this thread.
struct Memory {
    asker: Asker,
    prepared: [[Vec<u8>; 2]; 2],
}

impl Memory {
    fn new(question: Question) -> Self {
        let asker = Asker::new();
        let prepared = KINDS.map(|asked| [0, 1].map(|which| asker.prepare(question, asked, which)));
        Self { asker, prepared }
    }

    fn bytes(&mut self, kind: usize, which: usize) -> Vec<u8> {
        let answer = self.asker.exchange(&self.prepared[kind][which]);
        self.asker.reached();
        answer
    }
}

impl Answers for Memory {
    fn answer(&mut self, kind: usize, which: usize) -> Result<(), Failed> {
        self.bytes(kind, which);
        Ok(())
    }
}

/// Behind a socket: a byte says which question, the answer comes back behind its length.
struct Socket {
    stream: TcpStream,
    guard: JoinHandle<std::io::Result<()>>,
    answer: Vec<u8>,
}

impl Socket {
    fn open(question: Question) -> Result<Self, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let guard = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut memory = Memory::new(question);
            let mut asked = [0; 1];
            while stream.read(&mut asked)? == 1 {
                let answer = memory.bytes(usize::from(asked[0] / 2), usize::from(asked[0] % 2));
                let length = u32::try_from(answer.len()).unwrap_or(u32::MAX).to_le_bytes();
                stream.write_all(&[&length[..], &answer].concat())?;
            }
            Ok(())
        });
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, guard, answer: Vec::new() })
    }

    fn close(self) -> Result<(), Failed> {
        drop(self.stream);
        self.guard.join().map_err(|_| "the guard's thread panicked")??;
        Ok(())
    }
}

impl Answers for Socket {
    fn answer(&mut self, kind: usize, which: usize) -> Result<(), Failed> {
        self.stream.write_all(&[u8::try_from(2 * kind + which)?])?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        self.answer.resize(u32::from_le_bytes(length) as usize, 0);
        self.stream.read_exact(&mut self.answer)?;
        Ok(())
    }
}
