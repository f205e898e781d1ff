//! The steps of the scenario in the order in which the program takes its clients: the organisation and the store each take one message of
//! each client in turn, so that nobody overtakes anybody.

use super::prices::Steps;
use super::{Duration, Setting};
use crate::Fault;

/// Rounds through all clients at least, and tags.
const LEAST: (u64, u64) = (60, 4_000);

/// A message: what the organisation does from the answer before it until it is sent, and what the store does with it.
#[derive(Debug, Clone, Copy)]
struct Visit {
    organisation: Duration,
    store: Duration,
}

/// What a tag takes.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// A tag with a key that is shared, or that needs none.
    usual: Visit,
    /// The two messages of one for which a key is agreed on.
    exchange: Option<[Visit; 2]>,
    /// Until somebody who sleeps is awake.
    wake: f64,
    /// Part of the processors that the programs have.
    speed: f64,
}

/// What comes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) throughput: f64,
    pub(super) p95: f64,
    /// How often for each tag the organisation and the store fell asleep.
    pub(super) slept: (f64, f64),
}

impl Work {
    pub(super) fn of(steps: &mut Steps<'_>, setting: &Setting) -> Result<Self, Fault> {
        let (key, message, clear) = (setting.key, steps.message(), steps.clear());
        let exchanged = u64::from(key / 8);
        let secured = setting.configuration != "SC0";
        let encrypted = setting.configuration == "SC2";
        let mut sum = |names: &[(&str, u64, bool)]| {
            let (mut mean, mut variance) = (0.0, 0.0);
            for (name, bytes, counts) in names {
                if *counts {
                    let time = steps.time(name, *bytes)?;
                    mean += time.mean;
                    variance += time.cv2 * time.mean * time.mean;
                }
            }
            Ok::<_, Fault>(Duration { mean, cv2: if mean > 0.0 { variance / (mean * mean) } else { 0.0 } })
        };
        let (sign, store) = (format!("sign rsa-{key}"), format!("store {}", setting.database));
        let made = [
            ("read answer", message, true),
            ("generate tag", 0, true),
            ("hash sha-256", setting.tag, secured),
            (sign.as_str(), 0, secured),
        ];
        let sealed = [("encrypt aes-256-cbc", clear, encrypted), ("write message", message, true)];
        let kept = [
            ("read message", message, true),
            ("decrypt aes-256-cbc", clear, encrypted),
            (store.as_str(), clear, true),
            ("write answer", message, true),
        ];
        let usual = Visit { organisation: sum(&[&made[..], &sealed[..]].concat())?, store: sum(&kept)? };
        let exchange = if encrypted && setting.period > 0 {
            let (wrap, unwrap) = (format!("encrypt rsa-{key}"), format!("decrypt rsa-{key}"));
            let (wrap, unwrap) = ((wrap.as_str(), 0, true), (unwrap.as_str(), 0, true));
            let write = ("write message", exchanged, true);
            let begin = [&made[..], &[("generateKey", 0, true), wrap, write]].concat();
            let answer = [("read message", exchanged, true), unwrap, ("generateKey", 0, true), wrap, write];
            let combine = ("combineKeys", 0, true);
            let finish = [&[("read message", exchanged, true), unwrap, combine], &sealed[..]].concat();
            let first = Visit { organisation: sum(&begin)?, store: sum(&answer)? };
            let end = [&[combine], &kept[..]].concat();
            Some([first, Visit { organisation: sum(&finish)?, store: sum(&end)? }])
        } else {
            None
        };
        Ok(Self { usual, exchange, wake: steps.wake()?, speed: 1.0 - steps.lost()? })
    }
}

/// A client: when its answer is there, which tag it makes, how far it is, and when its last tag was stored.
#[derive(Debug, Clone, Copy)]
struct Client {
    ready: f64,
    number: u64,
    exchanging: bool,
    last: Option<f64>,
}

/// Goes through it. The same steps give the same numbers.
#[expect(clippy::cast_precision_loss, reason = "counts of tags")]
pub(super) fn run(work: &Work, setting: &Setting) -> Found {
    let mut chance = Chance(7);
    let mut clients: Vec<Client> = (0..u64::from(setting.clients))
        .map(|client| Client { ready: 0.0, number: client, exchanging: false, last: None })
        .collect();
    let rounds = LEAST.0.max(LEAST.1 / u64::from(setting.clients.max(1)));
    let (mut organisation, mut store) = (0.0_f64, 0.0_f64);
    let (mut times, mut slept, mut begun) = (Vec::new(), (0_u64, 0_u64), 0.0);
    for round in 0..rounds {
        // The first quarter only fills the queues.
        let counts = round >= rounds / 4;
        if round == rounds / 4 {
            begun = organisation;
        }
        for client in &mut clients {
            let sleeps = client.ready > organisation;
            let at = if sleeps { client.ready + work.wake } else { organisation };
            if !client.exchanging
                && let Some(last) = client.last.replace(at).filter(|_| counts)
            {
                times.push(at - last);
            }
            let visit = match work.exchange {
                Some([_, second]) if client.exchanging => {
                    client.exchanging = false;
                    second
                }
                Some([first, _]) if client.number % setting.period.max(1) == 0 => {
                    client.exchanging = true;
                    first
                }
                _ => work.usual,
            };
            client.number += u64::from(!client.exchanging);
            organisation = at + chance.around(visit.organisation) / work.speed;
            let dozes = organisation > store;
            let from = if dozes { organisation + work.wake } else { store };
            store = from + chance.around(visit.store) / work.speed;
            client.ready = store;
            if counts {
                slept = (slept.0 + u64::from(sleeps), slept.1 + u64::from(dozes));
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let tags = times.len().max(1) as f64;
    let p95 = times.get((times.len() * 95).div_ceil(100).max(1) - 1).copied().unwrap_or(0.0);
    let slept = (slept.0 as f64 / tags, slept.1 as f64 / tags);
    Found { throughput: tags / (organisation - begun), p95, slept }
}

/// Repeatable chance: SplitMix64.
struct Chance(u64);

impl Chance {
    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are meant")]
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time with this mean and spread: normal, cut off at a quarter of the mean.
    fn around(&mut self, time: Duration) -> f64 {
        let (one, other) = (self.share().max(1e-300), self.share());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        (time.mean * (1.0 + normal * time.cv2.sqrt())).max(time.mean / 4.0)
    }
}
