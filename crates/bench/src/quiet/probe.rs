//! Looks at processors.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::num::NonZeroU64;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{ClockId, clock_nanosleep_absolute, gettid, set_current_timer_slack};
use rustix::time::Timespec;

use super::pace::Mean;
use super::{Around, LATE, Look, Looks, PERIOD, SLOW};
use crate::clock::{self, Stopwatch, Whose};
use crate::gd::accounts::Account;
use crate::scratch::Scratch;
use crate::{Failed, files, place};

/// Nanoseconds of a loop, and of the chain after it, and how many a look consists of: the middle ones are taken, so that an interrupt, which is in one
/// of them, says nothing.
const LOOP: f64 = 600.0;
const CHAIN: f64 = 300.0;
const LOOPS: usize = 7;
/// The most turns of a loop.
const MOST_TURNS: f64 = 1e4;
/// The longest that a loop is told to have taken, nanoseconds.
const MOST: usize = 1 << 13;
/// The share of looks that are as quick as usual ones at most.
const USUAL: u64 = 20;
/// Looks until it is known what is usual, and after how many this is looked at again.
const FIRST: u64 = 100;
const AGAIN: u64 = 64;
/// The share of a step's time that is quiet if it is not taken again.
const ENOUGH: f64 = 0.4;
/// How often what met others is taken at most, mostly.
pub const TRIES: u32 = 3;
/// Looks after which each of those before counts half: two minutes.
const FORGETS: u64 = 120_000;
/// Times that one processor is looked at beside the other at work, and looks each time.
const BESIDE: (usize, usize) = (40, 10);
/// Seconds until the other does what it is told to.
const SETTLES: f64 = 1e-3;
/// Nanoseconds for which it is looked how long looks stop who computes, and between two looks at the clock where something did.
const AROUND: u64 = 200 * PERIOD;
const GAP: u64 = 1_500;

/// Work that another thread on the same core slows down: eight chains that need each other for nothing.
fn work(turns: u32, lanes: &mut [u64; 8]) {
    for turn in 0..turns {
        for lane in &mut *lanes {
            *lane = lane.wrapping_add(u64::from(turn)) ^ (*lane >> 3);
        }
    }
    black_box(lanes);
}

/// Work that only a slower clock makes longer, mostly: each multiplication needs the one before, and leaves the core to others between them.
fn chain(turns: u32, link: &mut u64) {
    for turn in 0..turns {
        *link = link.wrapping_mul(ODD).wrapping_add(u64::from(turn));
    }
    black_box(link);
}

/// What a chain multiplies by.
const ODD: u64 = 0x5851_f42d_4c95_7f2d;

/// Turns of a loop, and of a chain.
#[derive(Clone, Copy, Debug)]
struct Loop {
    turns: u32,
    links: u32,
}

impl Loop {
    /// As long as it should be on this processor.
    fn new() -> Self {
        const TURNS: u32 = 1_000;
        let turns_in = |nanoseconds: f64, work: &mut dyn FnMut()| {
            let mut once = |_| {
                let watch = Stopwatch::start();
                work();
                watch.seconds()
            };
            let quickest = (0..100).map(&mut once).fold(f64::INFINITY, f64::min);
            // A clock that hardly moves says nothing of how long they took: no more than ten times as many.
            (f64::from(TURNS) * nanoseconds * 1e-9 / quickest).clamp(1.0, MOST_TURNS) as u32
        };
        let (mut lanes, mut link) = ([1; 8], 1);
        let turns = turns_in(LOOP, &mut || work(TURNS, &mut lanes));
        Self { turns, links: turns_in(CHAIN, &mut || chain(TURNS, &mut link)) }
    }

    /// Nanoseconds of the middle one of some, and of the middle chain.
    fn look(self) -> (u64, u64) {
        let (mut lanes, mut link) = ([1; 8], 1);
        let mut before = clock::monotonic();
        let mut since = || {
            let now = clock::monotonic();
            std::mem::replace(&mut before, now).abs_diff(now)
        };
        let (mut took, mut chained) = ([0; LOOPS], [0; LOOPS]);
        for (took, chained) in took.iter_mut().zip(&mut chained) {
            work(self.turns, &mut lanes);
            *took = since();
            chain(self.links, &mut link);
            *chained = since();
        }
        took.sort_unstable();
        chained.sort_unstable();
        (took[LOOPS / 2], chained[LOOPS / 2])
    }
}

/// How often a look took so many nanoseconds.
struct Usual {
    counts: Vec<u32>,
    all: u64,
    usual: u32,
}

impl Usual {
    fn new() -> Self {
        Self { counts: vec![0; MOST], all: 0, usual: u32::MAX }
    }

    /// What is usual, with this one.
    fn with(&mut self, took: u32) -> u32 {
        let place = (took as usize).min(MOST - 1);
        if self.all >= FORGETS {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.all = self.counts.iter().map(|count| u64::from(*count)).sum();
        }
        self.counts[place] += 1;
        self.all += 1;
        if self.all <= FIRST {
            self.usual = self.usual.min(took);
        } else if self.all.is_multiple_of(AGAIN) {
            let (mut sum, wanted) = (0, self.all.div_ceil(USUAL));
            let below = self.counts.iter().take_while(|count| {
                sum += u64::from(**count);
                sum < wanted
            });
            self.usual = u32::try_from(below.count()).unwrap_or(u32::MAX);
        }
        self.usual
    }
}

/// Who is watched on a processor.
type Watched = Arc<Mutex<Vec<Account>>>;

/// Looks at two processors, as long as there is one of this.
#[derive(Debug)]
pub struct Probes {
    looks: Looks,
    /// Where they are.
    _folder: Scratch,
    ends: Arc<AtomicBool>,
    watched: [Watched; 2],
    files: Vec<File>,
    threads: Vec<JoinHandle<()>>,
}

impl Probes {
    /// Begins to look at the two that programs of steps and runs keep to.
    ///
    /// # Errors
    /// Looks cannot come when they should (for which one mostly has to be root), or say nothing: the processors are two threads of one core, and
    /// slow each other down. Or there is only one.
    pub fn start() -> Result<Self, Failed> {
        let processors = place::pair().ok_or("this program may use only one processor")?;
        let beside = beside(processors)?;
        if beside > SLOW {
            let percent = (beside - 1.0) * 100.0;
            return Err(format!(
                "one processor is {percent:.0} % slower beside the other at work: they may share a core"
            )
            .into());
        }
        let folder = Scratch::below(&files::memory())?;
        let looks = Looks {
            folder: folder.path().to_owned(),
            processors: vec![processors.0, processors.1],
            works: None,
            around: Around::default(),
        };
        let mut probes = Self {
            looks,
            _folder: folder,
            ends: Arc::default(),
            watched: Default::default(),
            files: Vec::new(),
            threads: Vec::new(),
        };
        let mut begun = Vec::new();
        for (processor, watched) in probes.looks.processors.iter().zip(&probes.watched) {
            let file = files::appended(&probes.looks.file(*processor))?;
            probes.files.push(file.try_clone()?);
            let (told, tells) = (Arc::clone(&probes.ends), Arc::clone(watched));
            let (begins, hears) = sync_channel(1);
            let processor = *processor;
            let look = move || look(processor, file, &told, &tells, &begins);
            probes.threads.push(std::thread::Builder::new().name("looks".into()).spawn(look)?);
            begun.push(hears);
        }
        let heard = |hears: &Receiver<Result<(), String>>| hears.recv().map_err(|_| "nobody looks".to_owned())?;
        begun.iter().try_for_each(heard)?;
        probes.looks.around = probes.around()?;
        Ok(probes)
    }

    /// For the programs of steps and runs.
    #[must_use]
    pub const fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Looks are written from the beginning, and nobody is watched.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(&self) -> Result<(), Failed> {
        if self.ends.load(Ordering::Relaxed) {
            let folder = self.looks.folder.display();
            return Err(
                format!("looks at the processors could not be written any more ({folder}): is there room?").into()
            );
        }
        for (watched, file) in self.watched.iter().zip(&self.files) {
            locked(watched).clear();
            file.set_len(0)?;
        }
        Ok(())
    }

    /// Looks at the clock for a while, and finds for how long looks stop that.
    fn around(&self) -> Result<Around, Failed> {
        self.begin()?;
        let processor = self.looks.processors[0];
        let seen = std::thread::scope(|scope| scope.spawn(|| Seen::on(processor)).join());
        let seen = seen.map_err(|_| "nobody looks at the clock")??;
        Ok(seen.around(&self.looks.at(processor)?))
    }

    /// From now on each look says how much processor time this process of the first processor (0) or the other (1) has used, with the others
    /// that are watched there.
    ///
    /// # Errors
    /// It is gone, or this kernel keeps no such accounts.
    pub fn watch(&self, place: usize, process: u32) -> Result<(), Failed> {
        let accounts = Account::of(process)?;
        locked(self.watched.get(place).ok_or("two processors are looked at")?).extend(accounts);
        Ok(())
    }
}

/// Of tries that tell their share, the first that is quiet enough, or the quietest of all.
fn quietest_of<T>(tries: u32, mut once: impl FnMut() -> Result<(f64, T), Failed>) -> Result<(f64, T), Failed> {
    let mut best = once()?;
    for _ in 1..tries {
        if best.0 >= ENOUGH {
            break;
        }
        let next = once()?;
        if next.0 > best.0 {
            best = next;
        }
    }
    Ok(best)
}

/// Does something again and again until two fifths of its time were quiet, so many times at most (mostly [`TRIES`]); gives what was found in the quietest of them, and
/// which share of its time was. Once where nobody looks, and all of it is as good.
///
/// # Errors
/// As [`Probes::begin`] and `done`.
pub fn quietest<T>(
    probes: Option<&Probes>,
    tries: u32,
    mut done: impl FnMut() -> Result<T, Failed>,
) -> Result<(f64, T), Failed> {
    let Some(probes) = probes else { return Ok((1.0, done()?)) };
    quietest_of(tries, || {
        probes.begin()?;
        let from = clock::monotonic();
        let found = done()?;
        Ok((probes.looks.read()?.share((from, clock::monotonic())), found))
    })
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

fn locked(watched: &Watched) -> std::sync::MutexGuard<'_, Vec<Account>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks every millisecond, until told to end.
fn look(
    processor: usize,
    mut file: File,
    ends: &AtomicBool,
    watched: &Watched,
    begins: &SyncSender<Result<(), String>>,
) {
    if let Err(error) = get_ready(processor) {
        let _gone = begins.send(Err(error.to_string()));
        return;
    }
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let (turns, mut usual, mut fewest, mut mean) = (Loop::new(), Usual::new(), Usual::new(), Mean::default());
    let mut due = clock::monotonic();
    for number in 1_u64.. {
        due = (due / PERIOD + 1) * PERIOD;
        let time =
            Timespec { tv_sec: (due / 1_000_000_000).cast_signed(), tv_nsec: (due % 1_000_000_000).cast_signed() };
        // One that comes too early says no more than none.
        let _interrupted = clock_nanosleep_absolute(ClockId::Monotonic, &time);
        let at = clock::monotonic();
        let (took, chained) = turns.look();
        // Thousandths of a chain are steps of the clock.
        let (took, steps, pace) =
            (narrow(took), narrow(took.saturating_mul(1_000) / chained.max(1)), mean.with(chained));
        let used = locked(watched).iter_mut().map(Account::used).sum();
        let (usual, fewest) = (usual.with(took), fewest.with(steps));
        let mut look = Look { at, took, usual, steps, fewest, pace, used, lasted: 0 };
        look.lasted = u32::try_from(clock::monotonic() - at).unwrap_or(u32::MAX);
        if ends.load(Ordering::Relaxed) {
            return;
        }
        if file.write_all(&look.to_bytes()).is_err() {
            ends.store(true, Ordering::Relaxed);
            return;
        }
        if number == FIRST {
            let _gone = begins.send(Ok(()));
        }
        due = clock::monotonic();
    }
}

/// When somebody who did nothing but look at the clock could not, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: u64,
    to: u64,
    /// What of it is accounted to who looked at the clock.
    accounted: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
struct Seen(Vec<Gap>);

impl Seen {
    fn on(processor: usize) -> Result<Self, String> {
        place::keep_to(processor).map_err(|error| error.to_string())?;
        let used = || (Whose::Thread.cpu() * 1e9) as u64;
        let asking = (Whose::Thread.looking() * 1e9) as u64;
        let (mut gaps, mut cpu, begin) = (Vec::new(), used(), clock::monotonic());
        // Since the processor time was asked for, and since the clock was looked at.
        let (mut since, mut last) = (begin, begin);
        while last < begin + AROUND {
            let now = clock::monotonic();
            if now - last > GAP {
                let spent = used();
                let accounted = (spent - cpu).saturating_sub(last - since + asking).min(now - last);
                gaps.push(Gap { from: last, to: now, accounted });
                (cpu, since) = (spent, clock::monotonic());
                last = since;
            } else {
                last = now;
            }
        }
        Ok(Self(gaps))
    }

    /// What the gaps in which looks lie have before and after them, and what of them is accounted to who looked at the clock: the middle of all, for the host
    /// may take the processor meanwhile.
    fn around(&self, looks: &[Look]) -> Around {
        let found = looks.iter().filter_map(|look| {
            let end = look.at + u64::from(look.lasted);
            // In a longer one somebody else had the processor besides.
            let short = |gap: &&Gap| gap.to - gap.from <= LATE;
            let gap = self.0.iter().filter(short).find(|gap| gap.from <= look.at && end <= gap.to)?;
            Some([look.at - gap.from, gap.to - end, gap.accounted])
        });
        let found: Vec<[u64; 3]> = found.collect();
        let middle = |of: usize| {
            let mut times: Vec<u64> = found.iter().map(|it| it[of]).collect();
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or(0)
        };
        Around { before: middle(0), after: middle(1), accounted: middle(2) }
    }
}

/// The calling thread keeps to this processor, and gets it when it wants it.
fn get_ready(processor: usize) -> Result<(), Failed> {
    place::keep_to(processor)?;
    set_current_timer_slack(NonZeroU64::new(1))?;
    let mut command = Command::new("chrt");
    command.args(["--fifo", "--pid", "1"]).arg(gettid().as_raw_nonzero().to_string());
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("chrt (util-linux): {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    Ok(())
}

/// How many times as long a look takes beside the other processor at work: what is so each time, for others come and go.
fn beside(processors: (usize, usize)) -> Result<f64, Failed> {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        least = least.min(once_beside(processors)?);
        if least <= SLOW {
            break;
        }
    }
    Ok(least)
}

fn once_beside((one, other): (usize, usize)) -> Result<f64, Failed> {
    let (works, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let [alone, beside] = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            place::keep_to(other).map_err(|error| error.to_string())?;
            let mut lanes = [1; 8];
            while !ends.load(Ordering::Relaxed) {
                if works.load(Ordering::Relaxed) {
                    work(100, &mut lanes);
                } else {
                    std::thread::park_timeout(Duration::from_micros(200));
                }
            }
            Ok::<(), String>(())
        });
        let looks = scope.spawn(|| {
            let kept = place::keep_to(one).map_err(|error| error.to_string());
            let (turns, mut took) = (Loop::new(), [Vec::new(), Vec::new()]);
            for time in 0..2 * BESIDE.0 {
                works.store(time % 2 == 1, Ordering::Relaxed);
                let settles = Stopwatch::start();
                while settles.seconds() < SETTLES {}
                // In steps of the clock, which may hop meanwhile.
                let steps = |(took, chained): (u64, u64)| took as f64 / chained.max(1) as f64;
                took[time % 2].extend((0..BESIDE.1).map(|_| steps(turns.look())));
            }
            ends.store(true, Ordering::Relaxed);
            kept.map(|()| took)
        });
        let (looked, worked) = (looks.join(), neighbour.join());
        let ended = "a thread that looks at the processors has ended";
        worked.map_err(|_| ended)??;
        Ok::<_, Failed>(looked.map_err(|_| ended)??)
    })?;
    // Somebody else may slow some of them down.
    let quick = |mut took: Vec<f64>| {
        took.sort_by(f64::total_cmp);
        took.get(took.len() / 4).copied().ok_or("nobody looked")
    };
    Ok(quick(beside)? / quick(alone)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that were written since looks were begun anew.
    fn written(probes: &Probes) -> Vec<Vec<Look>> {
        let looks = probes.looks();
        let read = |processor: &usize| {
            let bytes = files::read(&looks.file(*processor)).unwrap();
            bytes.as_chunks().0.iter().map(Look::of).collect()
        };
        looks.processors.iter().map(read).collect()
    }

    #[test]
    fn looks_come_every_millisecond_and_know_what_those_use_who_are_watched() {
        let probes = match Probes::start() {
            Ok(probes) => probes,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        let (folder, ends) = (probes.looks().folder.clone(), Arc::new(AtomicBool::new(false)));
        let (told, first) = (Arc::clone(&ends), probes.looks().processors[0]);
        let works = std::thread::spawn(move || {
            place::keep_to(first).unwrap();
            while !told.load(Ordering::Relaxed) {
                work(100, &mut [1; 8]);
            }
        });
        probes.begin().unwrap();
        probes.watch(0, std::process::id()).unwrap();
        assert!(probes.watch(2, std::process::id()).is_err() && probes.watch(1, u32::MAX).is_err());
        let watch = Stopwatch::start();
        while watch.seconds() < 5.0 && written(&probes).iter().any(|looks| looks.len() < 100) {
            std::thread::sleep(Duration::from_millis(20));
        }
        ends.store(true, Ordering::Relaxed);
        works.join().unwrap();
        for (place, looks) in written(&probes).iter().enumerate() {
            assert!(looks.len() >= 100, "{place}: {}", looks.len());
            assert!(looks.windows(2).all(|pair| pair[0].tick() < pair[1].tick()), "{place}: one for each tick at most");
            let (first, last) = (looks[0], looks[looks.len() - 1]);
            assert!(first.took > 0 && first.usual > 0 && first.usual <= 2 * first.took, "{place}: {first:?}");
            assert!(first.steps > 0 && first.fewest > 0 && first.fewest <= 2 * first.steps, "{place}: {first:?}");
            let used = last.used - looks[looks.len() / 2].used;
            assert_eq!(used > 1_000_000, place == 0, "{place}: {used}");
        }
        drop(probes);
        assert!(!folder.exists());
    }

    #[test]
    fn looks_stop_who_computes_a_little_longer_than_they_take() {
        let look = |at: u64, lasted| Look {
            at,
            took: 700,
            usual: 700,
            steps: 1_500,
            fewest: 1_500,
            pace: 1_000_000,
            used: 0,
            lasted,
        };
        let looks = [look(1_000, 60), look(2_000, 60), look(3_000, 60), look(4_000, 60)];
        let gap = |(from, to, accounted)| Gap { from, to, accounted };
        let gaps = [(990, 1_080, 30), (1_500, 1_600, 50), (1_989, 2_083, 33), (3_010, 3_200, 20), (3_970, 4_300, 270)];
        let seen = Seen(gaps.map(gap).to_vec());
        assert_eq!(seen.around(&looks), Around { before: 11, after: 23, accounted: 33 });
        let others = Seen(vec![gap((0, LATE + 1, 0))]);
        assert_eq!(others.around(&looks), Around::default(), "somebody else had the processor");
        assert_eq!(Seen::default().around(&looks), Around::default());
    }

    #[test]
    fn what_is_usual_is_what_the_quickest_took() {
        let mut usual = Usual::new();
        for (rule, took, count, wanted) in [
            ("at first the quickest", 800, 99, 800),
            ("of which there may be one", 700, 1, 700),
            ("those that are one in twenty", 720, 100, 720),
            ("one that is quicker is none", 500, 3, 720),
            ("slower ones change nothing", 1_000, 500, 720),
            ("but where nearly all are", 1_000, 5_000, 1_000),
            ("for long", 1_000, 200_000, 1_000),
            ("what was is forgotten", 1_500, 600_000, 1_500),
        ] {
            let last = (0..count).map(|_| usual.with(took)).last();
            assert_eq!(last, Some(wanted), "{rule}");
        }
        assert_eq!(usual.with(u32::MAX), 1_500, "longer than anything that is told");
    }

    #[test]
    fn of_more_tries_counts_the_quietest() {
        for (rule, shares, wanted) in [
            ("enough at once", &[0.4][..], 1),
            ("in the end", &[0.1, 0.3, 0.9], 3),
            ("never", &[0.1, 0.3, 0.2], 2),
            ("one as good as the other", &[0.0, 0.0, 0.0], 1),
        ] {
            let mut shares = (1..).zip(shares.iter().copied());
            let found = quietest_of(TRIES, || {
                shares.next().map(|(number, share)| (share, number)).ok_or_else(|| "no more".into())
            });
            assert_eq!((found.unwrap().1, shares.next()), (wanted, None), "{rule}");
        }
        assert_eq!(quietest_of(1, || Ok((0.1, 7))).unwrap(), (0.1, 7), "there is no time for more");
        assert!(quietest_of(TRIES, || Err::<(f64, ()), _>("it fails".into())).is_err());
    }
}
