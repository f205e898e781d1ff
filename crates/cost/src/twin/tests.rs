//! The whole twin on figures that are made up: who is named, since when, and what is not an alarm.

use std::collections::BTreeMap;

use super::random::Random;
use super::*;
use crate::calibration::{Calibration, Machine, SCHEMA, Versions};

/// A program whose stages take what they are told to, as its figures would say.
struct Program {
    random: Random,
    totals: BTreeMap<(&'static str, &'static str), (u64, f64)>,
    at: f64,
    /// When it says that it was started.
    started: Option<f64>,
    /// Processor seconds of its thread and items that were decided, if it says so.
    thread: Option<(f64, u64)>,
}

/// Family, label `stage`, mean, uses in a span.
const STAGES: [(&str, &str, f64, u64); 6] = [
    ("trapkey_session_setup_seconds", "open_channel", 0.004, 9),
    ("trapkey_session_setup_seconds", "create", 0.003, 9),
    ("trapkey_session_setup_seconds", "activate_here", 0.002, 9),
    ("trapkey_session_setup_seconds", "authority", 0.010, 9),
    ("trapkey_upstream_latency_seconds", "", 0.001, 40),
    ("trapkey_decision_seconds", "", 0.000_000_4, 30),
];

impl Program {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), totals: BTreeMap::new(), at: 1_000.0, started: None, thread: None }
    }

    /// A span of ten seconds in which `slow` takes `factor` times as long; then its figures.
    fn span(&mut self, slow: &str, factor: f64, traffic: bool) -> String {
        self.spans(&[slow], factor, traffic)
    }

    /// The same with several of them.
    fn spans(&mut self, slow: &[&str], factor: f64, traffic: bool) -> String {
        self.at += 10.0;
        for (family, stage, mean, uses) in STAGES {
            let mean = if slow.contains(&stage) || slow.contains(&family) { mean * factor } else { mean };
            let total = self.totals.entry((family, stage)).or_default();
            for _ in 0..if traffic { uses } else { 0 } {
                total.0 += 1;
                total.1 -= self.random.unit().ln() * mean;
            }
        }
        self.text()
    }

    fn text(&self) -> String {
        let mut text = String::from("# TYPE trapkey_build info\ntrapkey_build_info{version=\"1\"} 1\n");
        if let Some(started) = self.started {
            let gauge = "# TYPE trapkey_start_time_seconds gauge\ntrapkey_start_time_seconds";
            text.push_str(&format!("{gauge} {started:?}\n"));
        }
        let mut last = "";
        for ((family, stage), (count, sum)) in &self.totals {
            if *family != last {
                text.push_str(&format!("# TYPE {family} histogram\n"));
                last = family;
            }
            let labels = format!("listener=\"gate\",kind=\"guard\",stage=\"{stage}\"");
            text.push_str(&format!("{family}_sum{{{labels}}} {sum:?}\n{family}_count{{{labels}}} {count}\n"));
            text.push_str(&format!("{family}_bucket{{{labels},le=\"1000\"}} {count}\n"));
            text.push_str(&format!("{family}_bucket{{{labels},le=\"+Inf\"}} {count}\n"));
        }
        if let Some((cpu, items)) = self.thread {
            let labels = "{listener=\"gate\",kind=\"guard\"}";
            text.push_str(&format!("# TYPE trapkey_decisions counter\ntrapkey_decisions_total{labels} {items}\n"));
            let family = "trapkey_listener_cpu_seconds";
            text.push_str(&format!("# TYPE {family} counter\n{family}_total{labels} {cpu:?}\n"));
        }
        text + "# EOF\n"
    }
}

fn settings() -> Settings {
    Settings { learn: 200.0, ..Settings::default() }
}

/// Lets the twin look at `spans` spans; gives what happened with the time.
fn watch(twin: &mut Twin, program: &mut Program, slow: &str, factor: f64, spans: usize) -> Vec<(f64, Event)> {
    let mut events = Vec::new();
    for _ in 0..spans {
        let text = program.span(slow, factor, true);
        events.extend(twin.text(&text, program.at).unwrap().into_iter().map(|event| (program.at, event)));
    }
    events
}

fn alarms(events: &[(f64, Event)]) -> Vec<&str> {
    let named = events.iter().filter_map(|(_, event)| match event {
        Event::Alarm { stage, .. } => Some(stage.as_str()),
        _ => None,
    });
    named.collect()
}

#[test]
fn the_stage_that_is_slower_is_named_and_no_other_and_its_end_is_told() {
    for (seed, (slow, name)) in (1_u64..).zip([
        ("authority", "gate authority"),
        ("create", "gate create"),
        ("activate_here", "gate activate"),
        ("trapkey_upstream_latency_seconds", "gate upstream"),
        ("trapkey_decision_seconds", "gate decision"),
    ]) {
        let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(seed));
        let learned = watch(&mut twin, &mut program, "", 1.0, 60);
        let count = learned.iter().filter(|(_, event)| matches!(event, Event::Learned { .. })).count();
        assert_eq!((count, alarms(&learned).len()), (6, 0), "{learned:?}");
        let begun = program.at;
        let events = watch(&mut twin, &mut program, slow, 8.0, 40);
        assert_eq!(alarms(&events), [name]);
        let Some((at, Event::Alarm { since, factor, before, now, side, .. })) = events.first() else {
            panic!("{events:?}")
        };
        assert_eq!(*side, Side::Slower);
        assert!((at - since - begun).abs() <= 30.0, "it began {begun}, said {}", at - since);
        assert!((5.0..13.0).contains(factor), "{factor}");
        assert!(now.interval.is_none_or(|(low, _)| low > before.mean), "{now:?}");
        let report = twin.report(program.at);
        assert_eq!((report.stages[0].stage.as_str(), report.stages[0].alarm), (name, Some(Side::Slower)));
        assert!(report.stages[1..].iter().all(|seen| seen.alarm.is_none()) && twin.is_alarmed());
        // What it does: the way that the stage is on, and only that.
        for outlook in &report.outlook {
            let worse = outlook.now.unwrap().p99 > 1.3 * outlook.before.p99;
            let expected = match slow {
                "trapkey_upstream_latency_seconds" => outlook.way == Way::Request,
                "authority" => outlook.way == Way::Login,
                _ => continue,
            };
            assert_eq!(worse, expected, "{outlook:?}");
        }
        let events = watch(&mut twin, &mut program, "", 1.0, 60);
        assert!(matches!(events[..], [(_, Event::Cleared { side: Side::Slower, .. })]), "{events:?}");
        assert!(!twin.is_alarmed());
    }
}

#[test]
fn nothing_that_happens_to_the_program_or_to_the_network_is_an_alarm() {
    let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(7));
    watch(&mut twin, &mut program, "", 1.0, 60);
    // No traffic for an hour.
    for _ in 0..360 {
        assert_eq!(twin.text(&program.span("", 1.0, false), program.at).unwrap(), []);
    }
    assert!(twin.report(program.at).stages.iter().all(|seen| seen.used.unwrap() >= 3_600.0));
    // Its figures are gone for a while, and the first that comes back was counted by a program that was started anew.
    assert!(matches!(twin.gone(program.at + 5.0, "refused"), Some(Event::Gone { .. })));
    assert_eq!(twin.gone(program.at + 15.0, "refused"), None, "it is said once");
    assert!(twin.is_gone() && twin.report(program.at + 25.0).gone == Some(20.0));
    program.totals.values_mut().for_each(|total| *total = (1, total.1 / total.0.max(1) as f64));
    program.at += 60.0;
    let events = twin.text(&program.text(), program.at).unwrap();
    assert_eq!(events, [Event::Back { after: 55.0 }, Event::Restarted]);
    assert_eq!(alarms(&watch(&mut twin, &mut program, "", 1.0, 100)), [""; 0]);
    // The watcher slept, and then saw twice the same moment.
    program.at += 100_000.0;
    assert_eq!(alarms(&watch(&mut twin, &mut program, "", 1.0, 20)), [""; 0]);
    let text = program.text();
    assert_eq!(twin.text(&text, program.at).unwrap(), []);
    assert_eq!(twin.text(&text, program.at).unwrap(), []);
    // Text of somebody else changes nothing.
    assert!(twin.text("# EOF\n", program.at).is_err() && twin.text("", program.at).is_err());
    assert_eq!(alarms(&watch(&mut twin, &mut program, "", 1.0, 20)), [""; 0]);
}

#[test]
fn two_programs_behind_one_address_are_told_apart_and_watched_together() {
    let (mut twin, mut one, mut other) = (Twin::new(settings(), None), Program::new(21), Program::new(22));
    (one.started, other.started) = (Some(1.0), Some(2.0));
    // The other has run for long, and slowly, when it first answers: nothing of that is between two looks.
    for _ in 0..100 {
        other.span("create", 20.0, true);
    }
    let mut events = Vec::new();
    for nth in 0..120 {
        let program = if nth % 2 == 0 { &mut one } else { &mut other };
        program.at = 2_000.0 + 10.0 * f64::from(nth) - 10.0;
        let text = program.span("", 1.0, true);
        events.extend(twin.text(&text, program.at).unwrap().into_iter().map(|event| (program.at, event)));
    }
    let count = |kind: fn(&Event) -> bool| events.iter().filter(|(_, event)| kind(event)).count();
    assert_eq!(alarms(&events), [""; 0]);
    assert_eq!(count(|event| matches!(event, Event::Learned { .. })), 6);
    assert_eq!(count(|event| matches!(event, Event::Restarted)), 1, "who is new may be the same, started anew");
    assert_eq!(count(|event| matches!(event, Event::Swapped { programs: 2 })), 1, "it is said once");
    assert_eq!(twin.report(one.at).programs, Some(2));
    // One that was started anew, with more counted than the one before: only its start tells.
    let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(23));
    program.started = Some(1.0);
    watch(&mut twin, &mut program, "", 1.0, 60);
    program.totals.values_mut().for_each(|total| *total = (total.0 + 8, total.1 + 800.0));
    program.started = Some(2.0);
    program.at += 10.0;
    assert_eq!(twin.text(&program.text(), program.at).unwrap(), [Event::Restarted]);
    assert_eq!(alarms(&watch(&mut twin, &mut program, "", 1.0, 60)), [""; 0]);
    assert_eq!(twin.report(program.at).programs, None);
}

#[test]
fn a_program_that_always_has_other_listeners_does_not_make_its_watcher_grow() {
    let mut twin = Twin::new(settings(), None);
    for look in 0..8 {
        let lines: String = (0..500)
            .map(|nth| {
                let labels = format!("listener=\"{look} {nth}\"");
                format!("trapkey_token_seconds_count{{{labels}}} 0\ntrapkey_token_seconds_bucket{{{labels},le=\"+Inf\"}} 0\n")
            })
            .collect();
        let items: String =
            (0..500).map(|nth| format!("trapkey_decisions_total{{listener=\"{look} {nth}\"}} 1000\n")).collect();
        let text = format!(
            "# TYPE trapkey_build info\ntrapkey_build_info{{version=\"1\"}} 1\n# TYPE trapkey_token_seconds histogram\n{lines}\
             # TYPE trapkey_decisions counter\n{items}# EOF\n"
        );
        twin.text(&text, 10.0 * f64::from(look)).unwrap();
    }
    assert_eq!((twin.stages.len(), twin.threads.len()), (reading::MAX_STAGES, 500));
}

/// Stages of the whole program and of a gate within it, each with what it takes, in a text.
fn together(rounds: u32, issue: f64, write: f64, authority: f64) -> String {
    let mut text = String::from("# TYPE trapkey_build info\ntrapkey_build_info{version=\"1\"} 1\n");
    for (family, labels, each) in [
        ("trapkey_authority_issue_seconds", "", issue),
        ("trapkey_ledger_write_seconds", "", write),
        ("trapkey_session_setup_seconds", "listener=\"gate\",stage=\"authority\"", authority),
    ] {
        let (count, sum) = (10 * rounds, each);
        let more = if labels.is_empty() { String::new() } else { format!("{labels},") };
        text.push_str(&format!(
            "# TYPE {family} histogram\n{family}_sum{{{labels}}} {sum:?}\n{family}_count{{{labels}}} {count}\n\
             {family}_bucket{{{more}le=\"+Inf\"}} {count}\n"
        ));
    }
    text + "# EOF\n"
}

#[test]
fn a_stage_that_holds_the_one_that_moved_says_so_unless_it_moved_by_more() {
    // Seconds of issue, write and authority: what moves, and what is said of the authority.
    for (now, within) in [
        ([0.100, 0.001, 0.110], Some("issue")),
        ([0.001, 0.200, 0.215], Some("ledger_write")),
        ([0.010, 0.001, 0.500], None),
        ([0.001, 0.001, 0.500], None),
    ] {
        let mut twin = Twin::new(settings(), None);
        let (mut sums, mut events) = ([0.0; 3], Vec::new());
        for round in 1..=60_u32 {
            let each = if round <= 30 { [0.001, 0.001, 0.010] } else { now };
            sums.iter_mut().zip(each).for_each(|(sum, each)| *sum += 10.0 * each);
            let text = together(round, sums[0], sums[1], sums[2]);
            events.extend(twin.text(&text, 10.0 * f64::from(round)).unwrap());
        }
        let told = events.iter().find_map(|event| match event {
            Event::Alarm { stage, within, .. } if stage == "gate authority" => Some(within.clone()),
            _ => None,
        });
        assert_eq!(told, Some(within.map(str::to_owned)), "{events:?}");
        let seen = twin.report(600.0).stages.into_iter().find(|seen| seen.stage == "gate authority").unwrap();
        assert_eq!(seen.within.as_deref(), within);
        let all = ["issue", "ledger_write", "gate authority"].into_iter().zip(now).zip([0.001, 0.001, 0.010]);
        let moved: Vec<&str> =
            all.filter(|((_, now), before)| *now > 1.5 * before).map(|((name, _), _)| name).collect();
        let mut told: Vec<String> =
            twin.report(600.0).stages.into_iter().filter(|seen| seen.alarm.is_some()).map(|it| it.stage).collect();
        told.sort_unstable_by_key(|name| ["issue", "ledger_write", "gate authority"].iter().position(|it| it == name));
        assert_eq!(told, moved, "no alarm hides another");
    }
}

#[test]
fn what_stages_that_moved_together_have_in_common_is_said() {
    for (slow, suspect) in [
        (&["create", "activate_here", "trapkey_decision_seconds"][..], Some(Suspect::Processor)),
        (&["create", "open_channel"], Some(Suspect::Keys)),
        (&["create"], None),
        (&["authority", "trapkey_upstream_latency_seconds"], None),
    ] {
        let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(31));
        watch(&mut twin, &mut program, "", 1.0, 60);
        for _ in 0..60 {
            let text = program.spans(slow, 8.0, true);
            twin.text(&text, program.at).unwrap();
        }
        assert_eq!(twin.report(program.at).suspect, suspect, "{slow:?}");
    }
}

#[test]
fn over_many_programs_without_a_change_there_are_fewer_false_alarms_than_promised() {
    // A false alarm in 3,000 spans is allowed; 60 programs are watched for 500 each: at most ten, all stages together.
    let with = Settings { false_alarms: 30_000.0, band: 0.1, ..settings() };
    let mut count = 0;
    for seed in 1..=60 {
        let (mut twin, mut program) = (Twin::new(with, None), Program::new(seed));
        count += alarms(&watch(&mut twin, &mut program, "", 1.0, 525)).len();
    }
    assert!(count <= 10, "{count}");
}

fn calibration() -> Calibration {
    Calibration {
        schema: SCHEMA,
        taken: "2026-11-22".into(),
        machine: Machine { cpu: "a".into(), cores: 2, kernel: "b".into() },
        versions: Versions { program: "1".into(), library: "2".into(), build: "debug".into() },
        quick: false,
        others: 0.0,
        steps: Vec::new(),
        laws: Vec::new(),
    }
}

#[test]
fn what_was_learned_is_written_down_and_is_the_reference_of_the_next_watch() {
    let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(11));
    watch(&mut twin, &mut program, "", 1.0, 60);
    let mut file = calibration();
    twin.record(&mut file);
    assert_eq!(file.steps.len(), 6);
    twin.record(&mut file);
    assert_eq!(file.steps.len(), 6, "each in the place of the one that was there");
    let read = Calibration::read(&file.write().unwrap()).unwrap();
    let mut next = Twin::new(settings(), Some(&read));
    assert_eq!(alarms(&watch(&mut next, &mut program, "", 1.0, 60)), [""; 0]);
    for ways in next.report(program.at).outlook {
        // The file says how means of batches spread, and not how single times do: nothing got slower by that.
        let now = ways.now.unwrap();
        assert!((ways.before.p99 / now.p99 - 1.0).abs() < 0.2, "{:?} {now:?}", ways.before);
    }
    let events = watch(&mut next, &mut program, "authority", 8.0, 40);
    assert_eq!(alarms(&events), ["gate authority"], "nothing is learned first");
    let before = read.steps.iter().find(|step| step.algorithm == "gate create").unwrap().wall.mean;
    let after = next.report(program.at).stages.into_iter().find(|seen| seen.stage == "gate create").unwrap();
    let after = after.reference.unwrap().mean;
    assert!((before / after - 1.0).abs() < 0.02, "{before} {after}");
}

/// A thread that takes five times as long for an item since an alarm is full at a fifth: what came before is not in that.
#[test]
fn what_a_thread_took_before_an_alarm_is_no_part_of_what_it_takes() {
    let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(12));
    program.thread = Some((0.0, 0));
    let mut look = |twin: &mut Twin, each: f64, factor: f64| {
        let (cpu, items) = program.thread.unwrap();
        program.thread = Some((cpu + 5_000.0 * each, items + 5_000));
        watch(twin, &mut program, "trapkey_decision_seconds", factor, 1);
        let ways = twin.report(program.at).outlook;
        ways.into_iter().find(|it| it.way == Way::Request).and_then(|it| it.limit)
    };
    let close = |found: Option<(f64, f64)>, wanted: (f64, f64)| {
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-6;
        assert!(found.is_some_and(|it| near(it.0, wanted.0) && near(it.1, wanted.1)), "{found:?} {wanted:?}");
    };
    let last = (0..60).map(|_| look(&mut twin, 20e-6, 1.0)).last().unwrap();
    close(last, (50_000.0, 50_000.0));
    let mut last = None;
    while !twin.is_alarmed() {
        last = look(&mut twin, 100e-6, 8.0);
    }
    close(last, (50_000.0, 10_000.0));
    while twin.is_alarmed() {
        look(&mut twin, 20e-6, 1.0);
    }
    close(look(&mut twin, 20e-6, 1.0), (50_000.0, 50_000.0));
}

/// The logarithms of two times far from each other spread so much that no deviation says it: their spread is read as wide as it may be.
#[test]
fn a_stage_of_two_times_is_written_down_and_is_no_alarm_when_it_is_read() {
    for seed in 1..=5 {
        let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(seed));
        let mut turns = Random::new(100 + seed);
        let mut look = |twin: &mut Twin| {
            let factor = if turns.unit() < 0.5 { 0.02 } else { 5.0 };
            alarms(&watch(twin, &mut program, "create", factor, 1)).len()
        };
        for _ in 0..60 {
            look(&mut twin);
        }
        let mut file = calibration();
        twin.record(&mut file);
        let read = Calibration::read(&file.write().unwrap()).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let of = |twin: &Twin| {
            let known =
                twin.stages().find(|(place, _)| place.to_string() == "gate create").and_then(|it| it.1.worth_keeping());
            known.unwrap().reference
        };
        let mut next = Twin::new(settings(), Some(&read));
        let (learned, again) = (of(&twin), of(&next));
        assert!(again.spread >= 0.95 * learned.spread && again.spread < 2.0 * learned.spread, "{again:?} {learned:?}");
        assert!((again.centre - learned.centre).abs() < 0.1, "{again:?} {learned:?}");
        assert_eq!((0..60).map(|_| look(&mut next)).sum::<usize>(), 0, "seed {seed}");
    }
}

/// The reference of an ordinary hour.
fn normal(seed: u64) -> (Calibration, Program) {
    let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(seed));
    watch(&mut twin, &mut program, "", 1.0, 60);
    let mut file = calibration();
    twin.record(&mut file);
    (file, program)
}

fn state(twin: &Twin, stage: &str) -> State {
    let stages = twin.report(0.0).stages;
    stages.into_iter().find(|seen| seen.stage == stage).unwrap().state
}

#[test]
fn one_look_alone_finds_what_is_far_outside_and_the_report_says_the_same() {
    // How many times as long the stage takes, and what is to be said.
    for (factor, traffic, says) in [
        (1.0, true, State::InBand),
        (2.4, true, State::Above),
        (0.3, true, State::Below),
        (50.0, true, State::Slower),
        (1.0 / 50.0, true, State::Faster),
        (1.0, false, State::NotJudged),
    ] {
        let (file, mut program) = normal(13);
        let mut twin = Twin::new(Settings { once: true, ..settings() }, Some(&file));
        twin.text(&program.text(), program.at).unwrap();
        assert_eq!(state(&twin, "gate upstream"), State::NotJudged, "the first look says nothing");
        let text = program.span("trapkey_upstream_latency_seconds", factor, traffic);
        let events: Vec<_> =
            twin.text(&text, program.at).unwrap().into_iter().map(|event| (program.at, event)).collect();
        assert_eq!(state(&twin, "gate upstream"), says, "{factor}");
        let side = match says {
            State::Slower => Some(Side::Slower),
            State::Faster => Some(Side::Faster),
            _ => None,
        };
        let alarm: Vec<_> = side.map(|side| ("gate upstream".to_owned(), side)).into_iter().collect();
        assert_eq!(
            (twin.alarms(), twin.is_alarmed(), alarms(&events).len()),
            (alarm, side.is_some(), usize::from(side.is_some()))
        );
        let report = twin.report(program.at);
        let seen = report.stages.iter().find(|seen| seen.stage == "gate upstream").unwrap();
        assert_eq!((seen.alarm, seen.since.is_some()), (side, side.is_some()));
        assert_eq!(twin.judged(), report.stages.iter().filter(|seen| seen.state.is_judged()).count());
    }
}

#[test]
fn what_logins_took_before_does_not_depend_on_who_comes_now() {
    let (file, mut program) = normal(17);
    let outlook = |twin: &Twin, way: Way| {
        let all = twin.report(0.0).outlook;
        all.into_iter().find(|it| it.way == way).unwrap()
    };
    let mut busy = Twin::new(settings(), Some(&file));
    watch(&mut busy, &mut program, "", 1.0, 5);
    let mut idle = Twin::new(settings(), Some(&file));
    for _ in 0..5 {
        idle.text(&program.span("", 1.0, false), program.at).unwrap();
    }
    for way in [Way::Login, Way::Request] {
        let (busy, idle) = (outlook(&busy, way), outlook(&idle, way));
        assert_eq!(busy.before.mean, idle.before.mean, "{way:?}");
        assert!(busy.now.is_some_and(|now| (now.mean / busy.before.mean - 1.0).abs() < 0.5), "{busy:?}");
        assert_eq!(idle.now, None, "nobody comes");
    }
    let login = outlook(&idle, Way::Login).before.mean;
    assert!((login / 0.019 - 1.0).abs() < 0.2, "the authority is in it: {login}");
}

#[test]
fn a_reference_that_can_not_be_used_is_named() {
    let (good, _) = normal(19);
    assert_eq!(check(&good), Ok(()));
    let at = good.steps.iter().position(|step| step.algorithm == "gate create").unwrap();
    type Spoil = fn(&mut crate::calibration::Step);
    let cases: [(&str, Spoil, Class); 11] = [
        ("a slip", |step| step.algorithm = "gate created".into(), Class::NoSuchName),
        ("no listener", |step| step.algorithm = "upstream".into(), Class::NoSuchName),
        ("a listener of what has none", |step| step.algorithm = "gate ledger_write".into(), Class::NoSuchName),
        ("no time that anything takes", |step| step.wall.mean = 1e-320, Class::Invalid),
        ("a time that nobody waits", |step| step.wall.mean = 1e300, Class::Invalid),
        ("a name with a space before", |step| step.algorithm = " create".into(), Class::NoSuchName),
        ("a size", |step| step.bytes = 7, Class::Invalid),
        ("bits", |step| step.bits = Some(7), Class::Invalid),
        ("one batch", |step| step.wall.n = 1, Class::Invalid),
        ("two batches", |step| step.wall.n = 2, Class::Invalid),
        ("no time", |step| step.wall.mean = 0.0, Class::Invalid),
    ];
    for (rule, spoil, class) in cases {
        let mut file = good.clone();
        spoil(&mut file.steps[at]);
        let fault = check(&file).expect_err(rule);
        assert_eq!((fault.class, fault.name), (class, format!("steps[{at}]")), "{rule}: {}", fault.why);
        assert!(fault.why.contains(&format!("`{}`", file.steps[at].name())), "{rule}: {}", fault.why);
        file.steps[at].operation = "sign".into();
        assert_eq!(check(&file), Ok(()), "{rule}: what is no stage is none of ours");
    }
}

/// References of a listener that has another name now are judged by nothing, and it is said of which.
#[test]
fn listeners_that_the_figures_do_not_have_are_named() {
    let (known, _) = normal(19);
    for (renamed, strangers) in [(false, vec![]), (true, vec!["gate".to_owned()])] {
        let mut twin = Twin::new(settings(), Some(&known));
        assert!(twin.strangers().is_empty(), "nothing was seen yet");
        let mut program = Program::new(3);
        for _ in 0..2 {
            let text = program.span("", 1.0, true);
            let text = if renamed { text.replace("listener=\"gate\"", "listener=\"door\"") } else { text };
            twin.text(&text, program.at).unwrap();
        }
        assert_eq!(twin.strangers(), strangers);
    }
}

#[test]
fn a_program_was_started_anew_only_where_it_says_so_or_counts_less_without_saying_when_it_was() {
    let cpu = "# TYPE trapkey_listener_cpu_seconds counter\ntrapkey_listener_cpu_seconds_total{listener=\"gate\"} ";
    let with_cpu = |text: &str, seconds: &str| text.replace("# EOF", &format!("{cpu}{seconds}\n# EOF"));
    let less = |program: &mut Program| program.totals.values_mut().for_each(|it| *it = (1, it.1 / it.0.max(1) as f64));
    let named = |text: &str| text.replace("listener=\"gate\"", "listener=\"door\"");
    let without = |text: &str| {
        text.lines().filter(|line| !line.contains("upstream")).map(|line| format!("{line}\n")).collect::<String>()
    };
    let lacks = |stages: &[&str]| Event::Lacks { stages: stages.iter().map(|it| (*it).to_owned()).collect() };
    let all = ["gate open_channel", "gate create", "gate activate", "gate authority", "gate decision", "gate upstream"];
    for started in [None, Some(1.0)] {
        let begin = || {
            let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(29));
            program.started = started;
            watch(&mut twin, &mut program, "", 1.0, 30);
            twin.text(&with_cpu(&program.text(), "5"), program.at).unwrap();
            (twin, program)
        };
        // A family is gone, and comes back with what was counted meanwhile.
        let (mut twin, mut program) = begin();
        let events = twin.text(&without(&program.span("", 1.0, true)), program.at).unwrap();
        assert_eq!(events, [lacks(&["gate upstream"])], "{started:?}");
        assert_eq!(state(&twin, "gate upstream"), State::Lacking);
        assert_eq!(state(&twin, "gate create"), State::InBand);
        assert_eq!(twin.text(&without(&program.span("", 1.0, true)), program.at).unwrap(), [], "it is said once");
        assert_eq!(twin.text(&program.span("", 1.0, true), program.at).unwrap(), []);
        assert_eq!(state(&twin, "gate upstream"), State::InBand);
        // The listener has another name.
        let (mut twin, mut program) = begin();
        let events = twin.text(&named(&program.span("", 1.0, true)), program.at).unwrap();
        assert!(matches!(&events[..], [Event::Lacks { stages }] if stages.len() == all.len()), "{events:?}");
        // Its thread has less time than before, and so have its stages.
        let (mut twin, program) = begin();
        let events = twin.text(&with_cpu(&program.text(), "4"), program.at).unwrap();
        let said = |events: &[Event], what: &str| match events {
            [Event::Contradicts { why }] => why.contains(what),
            _ => false,
        };
        assert_eq!(events == [Event::Restarted], started.is_none(), "{events:?}");
        assert_eq!(said(&events, "the thread of `gate` counts less"), started.is_some(), "{events:?}");
        let (mut twin, mut program) = begin();
        less(&mut program);
        let events = twin.text(&program.text(), program.at).unwrap();
        assert_eq!(events == [Event::Restarted], started.is_none(), "{events:?}");
        let count = events.iter().filter(|event| said(std::slice::from_ref(event), "counts less")).count();
        assert_eq!(count, if started.is_some() { all.len() } else { 0 }, "{events:?}");
        assert_eq!(alarms(&watch(&mut twin, &mut program, "", 1.0, 30)), [""; 0]);
    }
    // Who has said when it was started goes on saying so.
    let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(29));
    program.started = Some(1.0);
    watch(&mut twin, &mut program, "", 1.0, 3);
    program.started = None;
    assert_eq!(twin.text(&program.text(), program.at).unwrap_err().class, Class::Missing);
    program.started = Some(1.0);
    assert_eq!(twin.text(&program.text(), program.at).unwrap(), []);
    program.started = Some(2.0);
    assert_eq!(twin.text(&program.text(), program.at).unwrap(), [Event::Restarted]);
}

/// What a file says of a stage: the mean, in seconds.
fn told(twin: &Twin, stage: &str) -> f64 {
    let mut file = calibration();
    twin.record(&mut file);
    let read = Calibration::read(&file.write().unwrap()).unwrap();
    read.steps.iter().find(|step| step.algorithm == stage).unwrap().wall.mean
}

#[test]
fn a_slow_drift_within_the_band_is_no_alarm_and_is_written_down_while_a_jump_is_one_and_is_not() {
    for seed in 1..=10 {
        let (mut twin, mut program) = (Twin::new(settings(), None), Program::new(seed));
        watch(&mut twin, &mut program, "", 1.0, 60);
        let first = told(&twin, "gate create");
        assert!((0.0022..0.0038).contains(&first), "{first}");
        // To 1.3 times of what it was, in two hours; the band ends at 1.5.
        for step in 0..=60 {
            let events = watch(&mut twin, &mut program, "create", 1.0 + 0.3 * f64::from(step) / 60.0, 12);
            assert_eq!(alarms(&events), [""; 0], "seed {seed}");
        }
        watch(&mut twin, &mut program, "create", 1.3, 60);
        let drifted = told(&twin, "gate create");
        // Of some hundred uses whose times are exponential: three standard errors are 13 %.
        assert!((1.13..1.47).contains(&(drifted / 0.003)), "seed {seed}: {drifted}");
        assert!((told(&twin, "gate authority") / 0.010 - 1.0).abs() < 0.2, "others are as they were");
        let reference = |twin: &Twin| {
            let stages = twin.report(0.0).stages;
            stages.into_iter().find(|seen| seen.stage == "gate create").unwrap().reference.unwrap().mean
        };
        assert!((reference(&twin) / first - 1.0).abs() < 0.25, "this watch is held against what it has learned");

        // A jump: the alarm is told, and what it takes since is no reference, however long it lasts.
        let events = watch(&mut twin, &mut program, "create", 8.0, 200);
        assert_eq!(alarms(&events), ["gate create"], "seed {seed}");
        let after = told(&twin, "gate create");
        assert!((after / drifted - 1.0).abs() < 0.25, "seed {seed}: {drifted} {after}");

        // The next watch goes on from the drifted one.
        let mut file = calibration();
        twin.record(&mut file);
        let mut next = Twin::new(settings(), Some(&file));
        let events = watch(&mut next, &mut program, "create", 1.3, 200);
        assert_eq!(alarms(&events), [""; 0], "seed {seed}");
        assert!((reference(&next) / drifted - 1.0).abs() < 0.25, "seed {seed}");
    }
}

#[test]
fn what_is_written_down_is_never_made_of_less_than_the_reference() {
    let (mut twin, mut program) = (Twin::new(Settings { learn: 2_000.0, ..settings() }, None), Program::new(3));
    watch(&mut twin, &mut program, "", 1.0, 220);
    let batches = |twin: &Twin| {
        let mut file = calibration();
        twin.record(&mut file);
        (file.steps.iter().find(|step| step.algorithm == "gate create").unwrap().wall.n, file)
    };
    let (learned, file) = batches(&twin);
    assert!(learned >= 150, "{learned}");
    // The next learns for a shorter time: until it has seen as much, the file stays as it was.
    let mut next = Twin::new(settings(), Some(&file));
    for spans in [60, 60, 200] {
        watch(&mut next, &mut program, "", 1.0, spans);
        assert!(batches(&next).0 >= learned, "{spans}: {} {learned}", batches(&next).0);
    }
    assert!(next.stages().all(|(_, stage)| stage.recent.len() <= 4_096));
}
