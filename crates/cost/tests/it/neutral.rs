//! A mechanism that costs nothing changes nothing, wherever it is put and however it is set; one that costs something
//! changes what it should.

use std::collections::BTreeSet;
use std::fmt::Write;

use cost::model::Price;
use cost::read::{Language, read};
use cost::solve::{Solution, solve};
use cost::{Model, weave};
use gspn::{Budget, Limits};
use proptest::prelude::*;

use crate::asked;
use crate::ways::{CERTIFIED, CHANNEL, CIPHER, ENGINE, Filled, OF_W, PEERS, TUNNEL, USUAL, Way, ways};

fn model(text: &str) -> Model {
    read(text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

fn solved(model: &Model) -> Solution {
    let mut go_on = |_| true;
    solve(&weave(model), &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

/// The model, with `each` seconds for everything that its mechanisms do, what may be without a price included.
fn priced(text: &str, each: f64) -> Model {
    let mut model = model(text);
    let mut asked = BTreeSet::new();
    asked::asked(&model, &mut asked);
    let price = Price { each, per_byte: 0.0, cv2: 1.0, error: 0.0, energy: 0.0 };
    model.prices.insert("p".to_owned(), asked.into_iter().map(|operation| (operation, price)).collect());
    model
}

/// What was drawn by chance.
#[derive(Debug, Clone)]
struct Drawn {
    steps: Vec<(bool, u8, u8)>,
    cores: (u8, u8),
    workload: u8,
    jobs: u8,
    latency: u8,
    line: bool,
    /// A message over a line of others.
    bulk: bool,
    fork: bool,
    /// Two things at once: a message with an attribute, and work.
    par: bool,
    /// Units of a pool that all but the first step hold; none where it is 0.
    pool: u8,
    /// One of the ways for each thing, or none.
    secured: [Option<u16>; 9],
    reuse: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let way = || prop::option::weighted(0.35, any::<u16>());
    (
        prop::collection::vec((any::<bool>(), 0_u8..3, 0_u8..4), 1..5),
        (1_u8..3, 1_u8..3),
        0_u8..4,
        1_u8..4,
        0_u8..2,
        (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.4), 0_u8..4),
        [way(), way(), way(), way(), way(), way(), way(), prop::option::weighted(0.6, any::<u16>()), way()],
        0_u8..3,
    )
        .prop_map(|(steps, cores, workload, jobs, latency, (line, bulk, fork, par, pool), secured, reuse)| Drawn {
            steps,
            cores,
            workload,
            jobs,
            latency,
            line,
            bulk,
            fork,
            par,
            pool,
            secured,
            reuse,
        })
}

impl Drawn {
    fn talks(&self) -> bool {
        self.fork || self.par || self.steps.iter().any(|(sends, ..)| *sends)
    }

    /// Annotations on what no step uses are refused.
    fn has(&self, thing: usize) -> bool {
        match thing {
            CIPHER | CHANNEL | TUNNEL => self.talks(),
            _ if PEERS.contains(&thing) => self.talks(),
            OF_W => self.steps.iter().any(|(_, who, _)| who % 2 == 1),
            _ => true,
        }
    }

    fn wanted(&self) -> impl Iterator<Item = (usize, &'static Way)> {
        let picked = self.secured.iter().zip(ways()).enumerate().filter(|(thing, _)| self.has(*thing));
        picked.filter_map(|(thing, (pick, ways))| Some((thing, &ways[usize::from((*pick)?) % ways.len()])))
    }

    /// The model without annotations.
    fn base(&self) -> String {
        let workload = match self.workload {
            0 => format!("clients = {}", self.jobs),
            1 => format!("clients = {}\nthink = \"20 ms\"", self.jobs),
            2 => format!("arrivals = \"40/s\"\nroom = {}", self.jobs),
            _ => format!("arrivals = \"40/s\"\nroom = {}\nthreads = 1", self.jobs + 1),
        };
        let line = if self.line { "rate = \"1 MB/s\"" } else { "" };
        let mut text = format!(
            "[workload]\n{workload}\n[node.a]\ncores = {}\nplatform = \"p\"\n[node.b]\ncores = {}\nplatform = \"p\"\n\
             [node.h]\nplatform = \"p\"\n\
             [component.x]\nnode = \"a\"\ncredentials = \"1 kB\"\n[component.y]\nnode = \"b\"\n\
             [connector.c]\nfrom = \"x\"\nto = \"y\"\nlatency = \"{} ms\"\n{line}\n\
             [node.d]\nplatform = \"p\"\n[component.z]\nnode = \"d\"\n[connector.l]\nfrom = \"x\"\nto = \"z\"\n\
             [component.u]\nnode = \"d\"\n[connector.r]\nfrom = \"z\"\nto = \"u\"\nrate = \"1 MB/s\"\n\
             [attribute.v]\nof = \"x\"\nsize = \"2 kB\"\n[attribute.w]\nof = \"y\"\nsize = \"300 B\"\n",
            self.cores.0, self.cores.1, self.latency
        );
        // Something takes time, whatever was drawn.
        text.push_str("[[sequence.main]]\ndo = \"first\"\nby = \"x\"\ntime = \"9 ms\"\nreturns = \"v\"\n");
        if self.pool > 0 {
            let _ = write!(text, "[pool.k]\nsize = {}\n[[sequence.main]]\nacquire = \"k\"\n", self.pool);
        }
        if self.fork {
            text.push_str("[[sequence.main]]\nchoose = [{ weight = 1, ref = \"side\" }, { weight = 3 }]\n");
        }
        let mut sent = BTreeSet::new();
        for (index, (sends, who, time)) in self.steps.iter().enumerate() {
            let (by, value) = if who % 2 == 0 { ("x", "v") } else { ("y", "w") };
            let step = if *sends {
                sent.insert(value);
                format!("send = \"s{index}\"\nover = \"c\"\nfrom = \"{by}\"\ncarries = \"{value}\"")
            } else {
                // What was sent before is not made later: its signature could not have been looked at.
                let made = value == "v" || !sent.contains(value);
                let returns = if made { format!("\nreturns = \"{value}\"") } else { String::new() };
                format!("do = \"d{index}\"\nby = \"{by}\"\ntime = \"{} ms\"{returns}", u32::from(*time) * 4)
            };
            let _ = write!(text, "[[sequence.main]]\n{step}\n");
        }
        if self.bulk {
            text.push_str("[[sequence.main]]\nsend = \"bulk\"\nover = \"r\"\nbytes = \"4 kB\"\n");
        }
        if self.par {
            text.push_str("[[sequence.main]]\npar = [{ ref = \"left\" }, { ref = \"right\" }]\n");
        }
        if self.pool > 0 {
            text.push_str("[[sequence.main]]\nrelease = \"k\"\n");
        }
        if self.par {
            text.push_str("[[sequence.left]]\nsend = \"left\"\nover = \"c\"\nfrom = \"x\"\ncarries = \"v\"\n");
            text.push_str("[[sequence.left]]\ndo = \"left done\"\nby = \"y\"\ntime = \"2 ms\"\n");
            text.push_str("[[sequence.right]]\ndo = \"right\"\nby = \"x\"\ntime = \"5 ms\"\n");
        }
        if self.fork {
            text.push_str("[[sequence.side]]\nsend = \"aside\"\nover = \"c\"\nbytes = \"2 kB\"\n");
            text.push_str("[[sequence.side]]\ndo = \"there\"\nby = \"y\"\ntime = \"3 ms\"\n");
        }
        text
    }

    /// The model with its annotations.
    fn written(&self, valid: f64) -> String {
        let (base, reuse) = (self.base(), [0.0, 0.5, 1.0][usize::from(self.reuse)]);
        let taken = |(thing, way): (usize, &Way)| {
            // Of a channel that is always there little would be left.
            let reuse = if matches!(thing, CHANNEL | TUNNEL) { f64::min(reuse, 0.99) } else { reuse };
            let filled = Filled { reuse, valid, ..USUAL };
            filled.fill(&way.taken(&base, &filled))
        };
        let annotations: String = self.wanted().map(taken).collect();
        base + &annotations
    }

    /// Messages that a mechanism sends of its own, and what it adds to others, take time on their connector: they are a
    /// delay and a demand of the mechanism, too. So the connector is free of both wherever a mechanism uses it.
    fn without_messages(mut self) -> Self {
        let things: Vec<usize> = self.wanted().map(|(thing, _)| thing).collect();
        if things.iter().any(|thing| matches!(*thing, CIPHER | CHANNEL | TUNNEL) || PEERS.contains(thing)) {
            (self.latency, self.line) = (0, false);
        }
        // A signature makes longer what carries its attribute.
        let carried =
            |odd: u8| odd == 0 && self.par || self.steps.iter().any(|(sends, who, _)| *sends && who % 2 == odd);
        let signed =
            |odd: u8| things.iter().any(|thing| if odd == 1 { *thing == OF_W } else { matches!(*thing, 1 | 3) });
        if (0..2).any(|odd| carried(odd) && signed(odd)) {
            self.line = false;
        }
        self
    }
}

/// How far two solutions are apart: the most of all relative differences.
fn apart(one: &Solution, other: &Solution) -> f64 {
    let relative = |one: f64, other: f64| (one - other).abs() / one.abs().max(other.abs()).max(1e-300);
    assert_eq!(one.nodes.len(), other.nodes.len());
    // The share of busy cores is 1 less what was counted as free.
    let busy = one.nodes.iter().zip(&other.nodes).map(|(one, other)| (one.utilisation - other.utilisation).abs());
    let held = one.pools.iter().zip(&other.pools).map(|(one, other)| (one.utilisation - other.utilisation).abs());
    // What a request that is aborted once in 10^15 times waits for may have no time at all without that.
    let on = |of: &Solution, on: &str| of.spent.iter().filter(|it| it.on == on).map(|it| it.seconds).sum::<f64>();
    let all = one.spent.iter().chain(&other.spent).map(|it| it.on.as_str());
    let spent = all.map(|it| (on(one, it) - on(other, it)).abs() / one.response);
    let measures = [
        relative(one.throughput, other.throughput),
        relative(one.response, other.response),
        relative(one.inside, other.inside),
        relative(one.turned_away, other.turned_away),
    ];
    measures.into_iter().chain(busy).chain(held).chain(spent).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_mechanism_that_costs_nothing_leaves_every_measure_as_it_was(drawn in drawn(), fails in any::<bool>()) {
        // What fails once in 10^15 times aborts nothing that could be counted.
        let valid = if fails { 1.0 - 1e-15 } else { 1.0 };
        let model = priced(&drawn.without_messages().written(valid), 0.0);
        let (with, without) = (solved(&model), solved(&model.plain()));
        prop_assert!(apart(&with, &without) <= 1e-12, "{:?} {:?}", with, without);
        if !fails {
            prop_assert_eq!(with.states, without.states);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_mechanism_that_costs_something_never_gains_anything_for_one_client(drawn in drawn(), fails in any::<bool>()) {
        let drawn = Drawn { workload: 0, jobs: 1, ..drawn };
        let model = priced(&drawn.written(if fails { 0.9 } else { 1.0 }), 2e-3);
        let (with, without) = (solved(&model), solved(&model.plain()));
        prop_assert!(with.throughput <= without.throughput * (1.0 + 1e-12));
        // One client waits for nobody: the mean time is the sum of what it is spent on.
        let sum: f64 = with.spent.iter().filter(|it| !it.beside).map(|it| it.seconds).sum();
        prop_assert!((sum * (with.throughput + with.aborted) - 1.0).abs() < 1e-9);
    }
}

/// The application that each way is put into by itself.
fn small(jobs: u8) -> Drawn {
    Drawn {
        steps: vec![(true, 0, 0), (false, 1, 2), (true, 1, 0)],
        cores: (1, 1),
        workload: 0,
        jobs,
        latency: 0,
        line: false,
        bulk: true,
        fork: false,
        par: false,
        pool: 0,
        secured: [None; 9],
        reuse: 1,
    }
}

#[test]
fn every_way_that_costs_nothing_leaves_every_measure_as_it_was() {
    let base = small(2).base();
    let without = solved(&model(&base));
    let mut taken = BTreeSet::new();
    for way in ways().iter().flatten() {
        let open = way.taken(&base, &USUAL);
        let text = USUAL.fill(&open);
        taken.extend(open.lines().map(str::to_owned));
        let with = solved(&priced(&format!("{base}{text}"), 0.0));
        assert!(apart(&with, &without) <= 1e-12, "{text}{with:?}");
        assert_eq!(with.states, without.states, "{text}");
    }
    // What may be left out is there somewhere.
    let all: BTreeSet<&String> = ways().iter().flatten().flat_map(|way| &way.may).collect();
    for line in all {
        assert!(taken.contains(line), "{line}");
    }
}

/// What `found` says is apart falls with what it is given: by ten from each to the next, until nothing is left.
fn vanishes(rule: &str, found: impl Fn(f64) -> f64) {
    let (one, other) = (found(1e-5), found(1e-6));
    assert!(one > 0.0 && (9.9..10.1).contains(&(one / other)), "{rule}: {one} {other}");
    let last = found(1e-15);
    assert!(last <= 1e-12, "{rule}: {last}");
}

#[test]
fn checks_that_fail_ever_less_abort_ever_less() {
    let base = small(1).base();
    let without = solved(&model(&base));
    let mut counted = 0;
    // Of channels every third one: which ways there are, the test before has looked at.
    let every = |thing: usize| ways()[thing].iter().step_by(if thing >= CHANNEL { 3 } else { 1 });
    for way in (0..ways().len()).flat_map(every) {
        let rare = |fails: f64| Filled { valid: 1.0 - fails, ..USUAL };
        let open = way.taken(&base, &rare(0.5));
        if open.contains("VALID") {
            counted += 1;
            vanishes(&open, |fails| {
                let text = rare(fails).fill(&open);
                apart(&solved(&priced(&format!("{base}{text}"), 0.0)), &without)
            });
        }
    }
    assert!(counted > 40, "{counted}");
}

/// A key that lives ever longer, and a peer that is known ever more surely; what is done then has its price.
#[test]
fn what_is_done_ever_less_costs_ever_less() {
    let base = small(1).base();
    for way in PEERS.iter().chain(&[CERTIFIED]).flat_map(|thing| &ways()[*thing]) {
        let open = way.taken(&base, &USUAL);
        vanishes(&open, |share| {
            let text = Filled { reuse: 1.0 - share, renewed: share, ..USUAL }.fill(&open);
            let with = priced(&format!("{base}{text}"), 1e-3);
            spared(&solved(&with), &solved(&with.plain()))
        });
    }
}

/// As `apart`, for requests of which some do more steps than others.
fn spared(one: &Solution, other: &Solution) -> f64 {
    (one.throughput / other.throughput - 1.0).abs().max((one.response / other.response - 1.0).abs())
}

/// Seconds of everything that mechanisms do, and bytes that they add on a line that is ever faster.
#[test]
fn what_takes_ever_less_time_costs_ever_less() {
    let alone = small(1).base();
    let line =
        |rate: f64| Drawn { line: true, ..small(1) }.base().replacen("\"1 MB/s\"", &format!("\"{rate:?} B/s\""), 1);
    for thing in 0..ways().len() {
        for way in ways()[thing].iter().step_by(if thing >= CHANNEL { 11 } else { 3 }) {
            let text = USUAL.fill(&way.taken(&alone, &USUAL));
            vanishes(&text, |each| {
                let with = priced(&format!("{alone}{text}"), each * 1e-3);
                spared(&solved(&with), &solved(&with.plain()))
            });
            if matches!(thing, CIPHER | CHANNEL | TUNNEL) {
                vanishes(&text, |share| {
                    let with = priced(&format!("{}{text}", line(1e3 / share)), 0.0);
                    spared(&solved(&with), &solved(&with.plain()))
                });
            }
        }
    }
}

/// Small times go on being small where requests stay on their node, or nobody waits. Who leaves it for an engine, for
/// however short, lets others go first: that is an order of service, and no time of the mechanism.
#[test]
fn a_visit_to_an_engine_gives_the_core_back() {
    let base = Drawn { steps: vec![(false, 0, 2)], ..small(2) }.base();
    let signed = |engine: &str, each: f64| {
        let text = format!(
            "[[secure]]\nproperty = \"data-integrity\"\non = \"attribute v\"\nsignature = \"rsa-2048\"\n{engine}\n"
        );
        let with = priced(&format!("{base}{text}"), each);
        spared(&solved(&with), &solved(&with.plain()))
    };
    vanishes("on its node", |each| signed("", each * 1e-3));
    let (one, other) = (signed(ENGINE, 1e-9), signed(ENGINE, 1e-12));
    assert!(one > 1e-3 && (one / other - 1.0).abs() < 1e-3, "{one} {other}");
    assert_eq!(signed(ENGINE, 0.0), 0.0);
}
