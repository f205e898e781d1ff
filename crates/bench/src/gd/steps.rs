//! Micro-benchmarks: one step of one mechanism each, in a process of its own, with other work before each timing ([`super::disturb`]).
//! Nothing here runs two steps of the scenario one after the other.

use std::hint::black_box;
use std::net::SocketAddr;
use std::path::PathBuf;

use aws_lc_rs::digest::{SHA256, digest};
use cost::calibration::{Step, Unit, summary};
use cost::reproduce::here::{INTERRUPTED, Pause, among};
use serde::{Deserialize, Serialize};

use super::crypt::{self, Keys, Shared, Side};
use super::database::Database;
use super::disturb::Disturb;
use super::waker::Hearer;
use super::{Kind, accounts, lost, message, organisation, queue, tag};
use crate::Failed;
use crate::clock::{Stopwatch, Whose, looking};
use crate::quiet::{self, Looks, Quiet, Samples};

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// genGDinfo.
    Generate,
    /// generateDigest.
    Hash,
    /// encryptAlgorithm(digest), with RSA keys of so many bits.
    Sign(u32),
    /// encryptAlgorithm(message).
    Encrypt,
    /// decryptAlgorithm.
    Decrypt,
    /// A message of the key exchange is encrypted.
    Wrap(u32),
    /// It is decrypted.
    Unwrap(u32),
    /// A half key and a nonce.
    GenerateKey,
    /// The key of two halves.
    CombineKeys,
    /// A message and its answer.
    Message(SocketAddr),
    /// storeGDinfo.
    Insert(Kind),
    /// What others take of a processor.
    Lost,
    /// What work on this other processor takes of it.
    Neighbour(usize, Beside),
}

/// What is timed beside a busy processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beside {
    /// Work that is no step.
    Other,
    /// Signatures with RSA keys of so many bits.
    Sign(u32),
    /// Inserts: they have more to do with memory.
    Insert(Kind),
}

/// What the process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// What is timed.
    pub what: What,
    /// On so many bytes.
    pub bytes: u64,
    /// For about so long.
    pub seconds: f64,
    /// The time without the step before each timing, where it is not as short as usual.
    pub after: Option<Pause>,
    /// Lines that messages go over in turn.
    pub lines: u32,
    /// Who wakes an end that sleeps meanwhile, or has messages for one that inserts.
    pub waker: Option<SocketAddr>,
    /// Where the keys are.
    pub keys: PathBuf,
    /// Where the database is.
    pub database: PathBuf,
    /// Who looks whether somebody else computes on the processors that it needs.
    pub looks: Option<Looks>,
}

/// Times it.
///
/// # Errors
/// Something that it needs is not there.
pub fn take(spec: &Spec) -> Result<Vec<Step>, Failed> {
    let content = vec![0x5a; usize::try_from(spec.bytes)?];
    let keys = |bits| Keys::read(&spec.keys, Side::Organisation, bits);
    let step = |operation: &str, algorithm: &str, op: &mut dyn FnMut() -> Result<(), Failed>| {
        let named = format!("{algorithm}{}", spec.ending());
        Ok(vec![step(operation, &named, spec.bytes, &timings(spec, op)?.counting(spec.quiet()?.as_ref()))?])
    };
    match spec.what {
        What::Generate => {
            let (mut text, mut number) = (String::new(), 0);
            step("generate", "tag", &mut || {
                number += 1;
                tag::generate(1, number, &mut text);
                Ok(())
            })
        }
        What::Hash => step("hash", "sha-256", &mut || {
            black_box(digest(&SHA256, &content));
            Ok(())
        }),
        What::Sign(bits) => {
            let (keys, digest, mut signature) = (keys(bits)?, digest(&SHA256, &content), Vec::new());
            step("sign", &format!("rsa-{bits}"), &mut || keys.sign_digest(&digest, &mut signature))
        }
        What::Encrypt => {
            let (shared, mut message) = (Shared::of(b"one", b"other")?, Vec::with_capacity(2 * content.len()));
            step("encrypt", "aes-256-cbc", &mut || {
                message.clear();
                message.extend_from_slice(&content);
                shared.seal(&mut message)
            })
        }
        What::Decrypt => {
            let (shared, mut sealed) = (Shared::of(b"one", b"other")?, content);
            shared.seal(&mut sealed)?;
            let mut message = sealed.clone();
            step("decrypt", "aes-256-cbc", &mut || {
                message.copy_from_slice(&sealed);
                shared.open(&mut message).map(drop)
            })
        }
        What::Wrap(bits) => {
            let (keys, half) = (keys(bits)?, crypt::half()?);
            step("encrypt", &format!("rsa-{bits}"), &mut || keys.wrap(&half).map(drop))
        }
        What::Unwrap(bits) => {
            let sealed = Keys::read(&spec.keys, Side::Store, bits)?.wrap(&crypt::half()?)?;
            let keys = keys(bits)?;
            step("decrypt", &format!("rsa-{bits}"), &mut || keys.unwrap(&sealed).map(drop))
        }
        What::GenerateKey => step("generateKey", "", &mut || crypt::half().map(drop)),
        What::CombineKeys => step("combineKeys", "", &mut || Shared::of(&[1; 32], &[2; 32]).map(drop)),
        What::Message(with) if spec.after == Some(Pause::QUEUED) => queued(spec, with),
        What::Message(with) => messages(spec, with),
        What::Insert(kind) => Ok(vec![inserts(spec, kind, &content)?]),
        What::Lost => lost::processor(spec),
        What::Neighbour(processor, beside) => besides(spec, processor, beside, &content),
    }
}

impl Spec {
    /// What the names of steps end with that are timed after a longer pause, or over several lines.
    fn ending(&self) -> String {
        let pause = self.after.map(Pause::ending).unwrap_or_default();
        if self.lines > 1 { format!("{pause}{}", among(self.lines)) } else { pause }
    }

    /// When nobody else computed on those processors.
    pub(super) fn quiet(&self) -> Result<Option<Quiet>, Failed> {
        self.looks.as_ref().map(Looks::read).transpose()
    }

    /// What passes the time before each timing.
    fn meanwhile(&self) -> Result<Meanwhile, Failed> {
        let inserts = matches!(self.what, What::Insert(_));
        Ok(match (self.after, self.waker) {
            (Some(pause), Some(waker)) if pause.is_asleep() => {
                Meanwhile::Sleeps(Hearer::of(waker, self.bytes)?, pause.seconds())
            }
            (pause, Some(waker)) if inserts => {
                let seconds = pause.map_or(Pause::USUAL, Pause::seconds);
                Meanwhile::Hears(Hearer::of(waker, self.bytes)?, Disturb::new(), seconds)
            }
            (None, _) => Meanwhile::Works(Disturb::new(), Pause::USUAL),
            (Some(pause), _) if pause.is_asleep() => return Err("nobody would wake this step".into()),
            // Where there is little time between two of a step, others leave a part of the caches to it; inserts need more than there is.
            (Some(pause), _) if pause.seconds() < Pause::USUAL && !inserts => {
                Meanwhile::Works(Disturb::small(), pause.seconds())
            }
            (Some(pause), _) => Meanwhile::Works(Disturb::new(), pause.seconds()),
        })
    }
}

/// The time before each timing of a step: of an end that has other work, or that waits, and sleeps.
#[derive(Debug)]
enum Meanwhile {
    Works(Disturb, f64),
    /// It has a message from the other end's processor, and work.
    Hears(Hearer, Disturb, f64),
    Sleeps(Hearer, f64),
}

impl Meanwhile {
    /// Lets it pass; gives how many processor seconds of it were work.
    fn pass(&mut self) -> Result<f64, Failed> {
        match self {
            Self::Works(disturb, seconds) => Ok(disturb.work(*seconds).1),
            Self::Hears(hearer, disturb, seconds) => {
                let (watch, before) = (Stopwatch::start(), Whose::Process.cpu());
                hearer.hear()?;
                // The message is a part of that time, or all of it; who waits for it does not work. What is asked here is no part of the step.
                let worked = Whose::Process.cpu() - before + Whose::Process.looking() + 2.0 * looking();
                let left = *seconds - watch.seconds();
                Ok(worked + if left > 0.0 { disturb.work(left).1 } else { 0.0 })
            }
            Self::Sleeps(hearer, seconds) => hearer.sleep(*seconds).map(|()| 0.0),
        }
    }
}

/// Times an operation: each time alone, after other work.
fn timings(spec: &Spec, op: &mut dyn FnMut() -> Result<(), Failed>) -> Result<Samples, Failed> {
    let (mut meanwhile, mut times) = (spec.meanwhile()?, Samples::default());
    let warm = Stopwatch::start();
    for _ in 0..3 {
        op()?;
    }
    while warm.seconds() >= 3.0 * LONG && warm.seconds() < WARM {
        op()?;
    }
    let all = Stopwatch::start();
    while times.len() < LEAST || all.seconds() < spec.seconds {
        meanwhile.pass()?;
        let watch = Stopwatch::start();
        op()?;
        times.push(watch.timing());
    }
    Ok(times)
}

/// A step of timings, without those that were interrupted.
pub(crate) fn step(operation: &str, algorithm: &str, bytes: u64, times: &[f64]) -> Result<Step, Failed> {
    let none = || format!("`{operation} {algorithm}` was not timed once");
    let all = summary(times).ok_or_else(none)?;
    let kept: Vec<f64> = times.iter().copied().filter(|time| *time <= INTERRUPTED * all.p50).collect();
    let sample = summary(&kept).ok_or_else(none)?;
    Ok(Step {
        operation: operation.into(),
        algorithm: algorithm.into(),
        bits: None,
        bytes,
        unit: Unit::Seconds,
        batch: 1,
        left_out: (times.len() - kept.len()) as u64,
        cpu: sample,
        wall: sample,
        moments: Vec::new(),
    })
}

/// When nobody else computed, for what is done at this end of messages alone, and for what is done at the other.
fn ends(quiet: Option<&Quiet>) -> [Option<Quiet>; 2] {
    [0, 1].map(|place| quiet.map(|quiet| quiet.clone().at(place)))
}

fn messages(spec: &Spec, with: SocketAddr) -> Result<Vec<Step>, Failed> {
    let found = message::exchange(with, spec.lines, usize::try_from(spec.bytes)?, spec.seconds, spec.after)?;
    let bytes = spec.bytes;
    let quiet = spec.quiet()?;
    let [here, there] = ends(quiet.as_ref());
    let step = |operation: &str, algorithm: &str, times: &Samples, quiet: &Option<Quiet>| {
        step(operation, &format!("{algorithm}{}", spec.ending()), bytes, &times.counting(quiet.as_ref()))
    };
    let write = step("write", "message", &found.write, &here)?;
    let read = step("read", "message", &found.read, &there)?;
    let answer_write = step("write", "answer", &found.answer_write, &there)?;
    let answer_read = step("read", "answer", &found.answer_read, &here)?;
    let write_awake = step("write", "message-awake", &found.write_awake, &here)?;
    let answer_awake = step("write", "answer-awake", &found.answer_write_awake, &there)?;
    let round = step("exchange", "message", &found.round, &quiet)?;
    let accounts = |name: &str, times: &Samples| {
        let own = |seconds: f64| quiet::own(quiet.as_ref(), seconds);
        let times: Vec<f64> = times.counting(quiet.as_ref()).into_iter().map(own).collect();
        self::step("exchange", &format!("{name}{}", spec.ending()), bytes, &times)
    };
    let organisation = accounts("organisation", &found.organisation)?;
    let store = accounts("store", &found.store)?;
    let away = away(&found.round.with_shares(quiet.as_ref()), found.waited).ok_or("nobody waited for an exchange")?;
    let away = self::step("lose", &format!("asleep{}", spec.ending()), bytes, &[away, away])?;
    Ok(vec![write, read, answer_write, answer_read, write_awake, answer_awake, round, organisation, store, away])
}

/// What exchanges take longer because the processor of who waits for a message is somebody else's by the time that it comes, seconds lost for
/// each second of waiting. It happens some times a second and takes milliseconds, so that no timing of a message has it. Of each round and of the waiting counts
/// the share that was quiet, as of runs: somebody who is away for long is seen by the looks.
fn away(rounds: &[(f64, f64)], waited: f64) -> Option<f64> {
    let times: Vec<f64> = rounds.iter().map(|(round, _)| *round).collect();
    let usual = summary(&times)?.p50;
    let all: f64 = times.iter().sum();
    let quiet: f64 = rounds.iter().map(|(round, share)| round * share).sum();
    let late = rounds.iter().filter(|(round, _)| *round > INTERRUPTED * usual);
    let late = late.map(|(round, share)| (round - usual) * share).sum::<f64>().max(0.0);
    let waited = waited * if all > 0.0 { quiet / all } else { 1.0 };
    if late > 0.0 {
        return (waited > late).then(|| late / (waited - late));
    }
    Some(0.0)
}

/// The short parts of messages where the next one waits already.
fn queued(spec: &Spec, with: SocketAddr) -> Result<Vec<Step>, Failed> {
    let found = queue::exchange(with, spec.lines, usize::try_from(spec.bytes)?, spec.seconds, Pause::QUEUED.seconds())?;
    let [here, there] = ends(spec.quiet()?.as_ref());
    let step = |operation: &str, algorithm: &str, times: &Samples, quiet: &Option<Quiet>| {
        step(operation, &format!("{algorithm}{}", spec.ending()), spec.bytes, &times.counting(quiet.as_ref()))
    };
    let ([write_awake, write], [answer_awake, answer]) = (&found.write, &found.answer_write);
    Ok(vec![
        step("write", "message-awake", write_awake, &here)?,
        step("write", "message", write, &here)?,
        step("read", "message", &found.read, &there)?,
        step("write", "answer-awake", answer_awake, &there)?,
        step("write", "answer", answer, &there)?,
        step("read", "answer", &found.answer_read, &here)?,
    ])
}

/// Inserts: checkpoints and the like come now and then and belong to them, so that nothing is left out.
fn inserts(spec: &Spec, kind: Kind, content: &[u8]) -> Result<Step, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut database = runtime.block_on(Database::open(kind, &spec.database))?;
    let mut meanwhile = spec.meanwhile()?;
    let (mut times, mut processor, mut number) = (Samples::default(), Vec::new(), 0);
    // The first ones find neither the memory nor the files that later ones use again.
    let warm = Stopwatch::start();
    while number < 20 || warm.seconds() < WARM {
        number += 1;
        runtime.block_on(database.put(0, number, content))?;
    }
    let of_backend = |database: &Database| database.backend().map_or(Ok(0.0), accounts::of);
    for _ in 0..BATCHES {
        let all = Stopwatch::start();
        let before = Whose::Process.cpu() + of_backend(&database)?;
        let (mut worked, mut count) = (0.0, 0);
        while count < 10 || all.seconds() < spec.seconds / f64::from(BATCHES) {
            number += 1;
            count += 1;
            worked += meanwhile.pass()?;
            let watch = Stopwatch::start();
            runtime.block_on(database.put(0, number, content))?;
            times.push(watch.timing());
        }
        let spent = Whose::Process.cpu() + of_backend(&database)? - before - worked;
        // Each was looked at three times.
        processor.push((spent / f64::from(count) - 3.0 * looking()).max(0.0));
    }
    // Too few batches are quiet from beginning to end; how much of the time is the processor's is the same in all.
    let quiet = spec.quiet()?;
    let counting = times.counting(quiet.as_ref());
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let own = |seconds: f64| quiet::own(quiet.as_ref(), seconds);
    let quicker = own(mean(&counting) / mean(&times.without_looks(quiet.as_ref())));
    let processor: Vec<f64> = processor.iter().map(|seconds| seconds * quicker).collect();
    let mut step = step("store", &format!("{}{}", kind.word(), spec.ending()), spec.bytes, &counting)?;
    step.left_out = 0;
    step.wall = summary(&counting).ok_or("no insert")?;
    step.cpu = summary(&processor).ok_or("no insert")?;
    Ok(step)
}

/// What an operation loses beside a busy processor.
fn besides(spec: &Spec, processor: usize, beside: Beside, content: &[u8]) -> Result<Vec<Step>, Failed> {
    let mut own = Disturb::new();
    let lose =
        |algorithm: &str, op: &mut dyn FnMut() -> Result<(), Failed>| lost::neighbour(spec, processor, algorithm, op);
    match beside {
        Beside::Other => lose("neighbour", &mut || {
            own.once();
            Ok(())
        }),
        Beside::Sign(bits) => {
            let keys = Keys::read(&spec.keys, Side::Organisation, bits)?;
            let (digest, mut signature) = (digest(&SHA256, content), Vec::new());
            lose("neighbour", &mut || keys.sign_digest(&digest, &mut signature))
        }
        Beside::Insert(kind) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (mut database, mut number) = (runtime.block_on(Database::open(kind, &spec.database))?, 0);
            lose(&format!("neighbour-{}", kind.word()), &mut || {
                number += 1;
                own.once();
                runtime.block_on(database.put(0, number, content))
            })
        }
    }
}

/// Timings of a step at least. Each 32nd operation with a private RSA key makes new blinding values, which takes half as long again; three of
/// them are as many as there should be.
const LEAST: usize = 96;
/// Seconds of a step that heats its processor up: it is slower after a while than at once.
const LONG: f64 = 100e-6;
/// Seconds of such steps, and of inserts, before those that are timed, as in the runs.
const WARM: f64 = organisation::WARM.0;

/// Batches of inserts of which processor times are told.
const BATCHES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_a_share_of_the_waiting_and_no_part_of_how_long_an_exchange_takes() {
        let usual = vec![(10e-6, 1.0); 998];
        assert_eq!(away(&usual, 0.2), Some(0.0));
        // Two came when the processor was somebody else's: 3 ms later than usual, together.
        let with = |shares: [f64; 2]| [&usual[..], &[(1.01e-3, shares[0]), (2.01e-3, shares[1])]].concat();
        assert!((away(&with([1.0, 1.0]), 0.303).unwrap() - 0.01).abs() < 1e-9);
        assert_eq!(away(&with([1.0, 1.0]), 0.003), None, "nobody waited");
        // Half of the second one was quiet, of all that was waited 12 of 13 parts.
        let found = away(&with([1.0, 0.5]), 0.325).unwrap();
        assert!((found * (0.325 * 11.995e-3 / 13e-3 - 2e-3) - 2e-3).abs() < 1e-9, "{found}");
        assert_eq!(away(&with([0.0, 0.0]), 0.303), Some(0.0), "somebody else was seen each time");
        assert_eq!(away(&[(10e-6, 0.0)], 0.2), Some(0.0), "never quiet");
        assert_eq!(away(&[], 0.2), None);
    }
}
