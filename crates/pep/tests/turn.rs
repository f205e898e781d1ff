//! Two guards never have their turn at a time: random lives of three voters and two candidates, with clocks of their own,
//! messages that are lost, late and out of order, parts cut off, killed and started anew.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::turn::{Ballot, Candidate, HolderId, LONGEST_TURN, VOTERS, Vote, Voter};
use access_model::{Mono, Now, UnixTime};
use proptest::prelude::*;

const SPAN: Duration = Duration::from_secs(4);
const STEP: u64 = 100;

fn at(millis: u64) -> Now {
    Now {
        mono: Mono::from_nanos(millis * 1_000_000),
        unix: UnixTime::from_micros(1_790_000_000_000_000 + i64::try_from(millis * 1_000).unwrap()),
    }
}

/// A clock that runs by so many thousandths faster or slower, and started at another time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    rate: u64,
    offset: u64,
}

impl Clock {
    fn at(self, millis: u64) -> Now {
        at(self.offset + millis * self.rate / 1_000)
    }
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Ask { guard: usize, run: u64, voter: usize, ballot: Ballot, asked: Now },
    Answer { guard: usize, run: u64, voter: usize, ballot: Ballot, vote: Vote, asked: Now },
    Release { voter: usize, holder: HolderId, term: u64 },
}

struct Guard {
    clock: Clock,
    run: u64,
    candidate: Candidate,
    /// Answers of this round that gave a vote.
    given: [bool; VOTERS],
    rounds: u64,
}

struct World {
    voters: Vec<(Clock, Voter)>,
    guards: Vec<Guard>,
    messages: BTreeMap<(u64, u64), Message>,
    sent: u64,
    /// Voters that were started anew are silent for so long.
    silence: Duration,
}

/// What chance brings at one step.
#[derive(Clone, Debug)]
struct Chance {
    guard: usize,
    /// Which of the ways are cut from now on: guard to voter, as bits.
    cut: Option<u8>,
    restart_voter: Option<usize>,
    restart_guard: bool,
    drain: bool,
    /// How long each message of this step is under way, in milliseconds.
    delay: [u64; VOTERS],
    steps: u64,
}

fn chance() -> impl Strategy<Value = Chance> {
    let rare = |weight: u32| prop_oneof![(40 - weight) => Just(false), weight => Just(true)];
    let cut = prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some), 1 => Just(Some(0))];
    let restart = prop_oneof![20 => Just(None), 1 => (0..VOTERS).prop_map(Some)];
    let delay = prop_oneof![6 => 0..300_u64, 2 => 300..4_000_u64, 1 => 4_000..12_000_u64];
    (0..2_usize, cut, restart, (rare(1), rare(2)), prop::array::uniform3(delay), 1..40_u64).prop_map(
        |(guard, cut, restart_voter, (restart_guard, drain), delay, steps)| Chance {
            guard,
            cut,
            restart_voter,
            restart_guard,
            drain,
            delay,
            steps,
        },
    )
}

impl World {
    fn new(rates: &[u64], silence: Duration) -> Self {
        let clock = |n: usize| Clock { rate: rates[n], offset: (n as u64 + 1) * 1_234_567 };
        let voters = (0..VOTERS).map(|n| (clock(n), Voter::after(Duration::ZERO, clock(n).at(0)))).collect();
        let guard = |n: usize| Guard {
            clock: clock(n),
            run: n as u64,
            candidate: Candidate::new(HolderId(n as u64), SPAN),
            given: [false; VOTERS],
            rounds: 0,
        };
        Self { voters, guards: vec![guard(0), guard(1)], messages: BTreeMap::new(), sent: 0, silence }
    }

    fn send(&mut self, at: u64, message: Message) {
        self.sent += 1;
        self.messages.insert((at, self.sent), message);
    }

    /// A guard asks the others, as the shell does: its own vote last.
    fn round(&mut self, guard: usize, millis: u64, delay: [u64; VOTERS], cut: u8) {
        let one = &mut self.guards[guard];
        let now = one.clock.at(millis);
        one.candidate.begin(now);
        one.rounds += 1;
        let (ballot, run) = (one.candidate.ballot(), one.run);
        for voter in (0..VOTERS).filter(|voter| *voter != guard) {
            if cut & (1 << (guard * VOTERS + voter)) == 0 {
                let message = Message::Ask { guard, run, voter, ballot, asked: now };
                self.send(millis + delay[voter], message);
            }
        }
    }

    fn give_up(&mut self, guard: usize, millis: u64, delay: [u64; VOTERS]) {
        let ballot = self.guards[guard].candidate.give_up();
        for (voter, delay) in delay.into_iter().enumerate() {
            let under_way = if voter == guard { 0 } else { delay };
            self.send(millis + under_way, Message::Release { voter, holder: ballot.holder, term: ballot.term });
        }
    }

    fn deliver(&mut self, millis: u64, delay: [u64; VOTERS]) {
        while let Some((&key, &message)) = self.messages.first_key_value().filter(|((due, _), _)| *due <= millis) {
            self.messages.remove(&key);
            match message {
                Message::Ask { guard, run, voter, ballot, asked } => {
                    let (clock, voting) = &mut self.voters[voter];
                    let vote = voting.ask(ballot, clock.at(millis));
                    let under_way = if voter == guard { 0 } else { delay[voter] };
                    self.send(millis + under_way, Message::Answer { guard, run, voter, ballot, vote, asked });
                }
                Message::Answer { guard, run, voter, ballot, vote, asked } => {
                    let one = &mut self.guards[guard];
                    if one.run != run {
                        continue;
                    }
                    one.candidate.heard(voter, ballot, vote, asked);
                    one.given[voter] = vote == Vote::Given;
                    // The own vote is asked for once another was given.
                    if voter != guard && vote == Vote::Given {
                        let (asked, ballot) = (one.clock.at(millis), one.candidate.ballot());
                        self.send(millis, Message::Ask { guard, run, voter: guard, ballot, asked });
                    }
                }
                Message::Release { voter, holder, term } => {
                    self.voters[voter].1.release(holder, term);
                }
            }
        }
    }

    fn holders(&self, millis: u64) -> Vec<usize> {
        let holds = |guard: &usize| {
            let one = &self.guards[*guard];
            one.candidate.until(one.clock.at(millis)).is_some()
        };
        (0..2).filter(holds).collect()
    }
}

/// Lives it; gives whether two had their turn at a time, and how often somebody had it.
fn live(rates: &[u64], chances: &[Chance], silence: Duration) -> (bool, usize) {
    let mut world = World::new(rates, silence);
    let (mut millis, mut cut, mut runs, mut held, mut both) = (1_000, 0, 10, 0, false);
    for chance in chances {
        cut = chance.cut.unwrap_or(cut);
        if let Some(voter) = chance.restart_voter {
            let now = world.voters[voter].0.at(millis);
            world.voters[voter].1 = Voter::after(world.silence, now);
        }
        if chance.restart_guard {
            runs += 1;
            let guard = &mut world.guards[chance.guard];
            (guard.run, guard.candidate) = (runs, Candidate::new(HolderId(runs), SPAN));
            // The guard's voter is started anew with it.
            let now = world.voters[chance.guard].0.at(millis);
            world.voters[chance.guard].1 = Voter::after(world.silence, now);
        }
        if chance.drain {
            world.give_up(chance.guard, millis, chance.delay);
        }
        world.round(chance.guard, millis, chance.delay, cut);
        for _ in 0..chance.steps {
            world.deliver(millis, chance.delay);
            let holders = world.holders(millis).len();
            (held, both) = (held + holders.min(1), both || holders > 1);
            millis += STEP;
        }
    }
    (both, held)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn two_never_have_their_turn_at_a_time(
        rates in prop::collection::vec(960..=1_040_u64, VOTERS),
        chances in prop::collection::vec(chance(), 1..120),
    ) {
        prop_assert!(!live(&rates, &chances, LONGEST_TURN).0);
    }
}

/// The search finds what it is for: voters that forget what they promised, and clocks that run too differently.
#[test]
fn lives_without_the_rules_do_find_two_at_a_time() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let (mut forgetful, mut hasty, mut held) = (0, 0, 0);
    let mut runner = TestRunner::deterministic();
    for _ in 0..600 {
        let chances = prop::collection::vec(chance(), 1..120).new_tree(&mut runner).unwrap().current();
        forgetful += usize::from(live(&[1_000; VOTERS], &chances, Duration::ZERO).0);
        hasty += usize::from(live(&[100, 1_900, 1_900], &chances, LONGEST_TURN).0);
        held += live(&[1_000; VOTERS], &chances, LONGEST_TURN).1;
    }
    assert!(forgetful > 0 && hasty > 0 && held > 200, "{forgetful} {hasty} {held}");
}

fn ballot(holder: u64, term: u64) -> Ballot {
    Ballot { holder: HolderId(holder), term, span: SPAN }
}

#[test]
fn a_voter_keeps_its_promise_and_forgets_no_turn() {
    let second = |seconds: u64| at(seconds * 1_000);
    let mut voter = Voter::new(second(0));
    let refused = |to: Option<u64>, term| Vote::Refused { to: to.map(HolderId), term };
    assert_eq!(voter.ask(ballot(1, 7), second(5)), refused(None, 0), "silent: it may have promised before it started");
    for (what, asked, seconds, expected) in [
        ("the first", ballot(1, 7), 6, Vote::Given),
        ("another", ballot(2, 8), 9, refused(Some(1), 7)),
        ("a renewal", ballot(1, 7), 9, Vote::Given),
        ("another", ballot(2, 8), 12, refused(Some(1), 7)),
        ("an older turn of the same", ballot(1, 6), 12, refused(Some(1), 7)),
        ("once it is over", ballot(2, 8), 13, Vote::Given),
        ("the old one", ballot(1, 7), 14, refused(Some(2), 8)),
        ("the old one, too late", ballot(1, 7), 30, refused(None, 8)),
        ("a new turn", ballot(1, 9), 30, Vote::Given),
        ("for too long", Ballot { span: LONGEST_TURN + SPAN, ..ballot(1, 9) }, 30, refused(Some(1), 9)),
    ] {
        assert_eq!(voter.ask(asked, second(seconds)), expected, "{what} at {seconds} s");
    }
    assert!(!voter.release(HolderId(1), 8) && !voter.release(HolderId(2), 9), "another turn");
    assert_eq!(voter.promised(second(33)), Some(HolderId(1)));
    assert!(voter.release(HolderId(1), 9));
    assert_eq!(voter.ask(ballot(1, 9), second(33)), refused(None, 9), "what was given back is over");
    assert_eq!(voter.ask(ballot(2, 10), second(33)), Vote::Given, "at once");
}

#[test]
fn a_candidate_counts_votes_from_when_it_asked_and_stops_before_they_may_be_given_away() {
    let second = |seconds: u64| at(seconds * 1_000);
    let mut candidate = Candidate::new(HolderId(1), Duration::from_secs(16));
    candidate.begin(second(0));
    let ballot = candidate.ballot();
    candidate.heard(0, ballot, Vote::Given, second(0));
    assert_eq!(candidate.until(second(1)), None, "one of three is none");
    candidate.heard(2, ballot, Vote::Given, second(2));
    assert_eq!(candidate.until(second(3)), Some(second(14)), "as long as the older of the two");
    candidate.heard(1, ballot, Vote::Given, second(1));
    assert_eq!(candidate.until(second(3)), Some(second(15)), "as long as the second oldest of three");
    assert_eq!(candidate.until(second(14)).map(|until| until.mono), Some(second(15).mono));
    assert_eq!(candidate.until(second(15)), None);
    let slept = Now { mono: second(4).mono, unix: second(900).unix };
    assert_eq!(candidate.until(slept), None, "a machine that slept finds the time by its wall clock");
    let before = candidate.ballot();
    candidate.begin(second(20));
    assert!(candidate.ballot().term > before.term);
    candidate.heard(0, before, Vote::Given, second(20));
    candidate.heard(1, before, Vote::Given, second(20));
    assert_eq!(candidate.until(second(20)), None, "votes for a turn that it gave up");
    candidate.heard(1, before, Vote::Refused { to: None, term: 9_999_999_999 }, second(20));
    candidate.begin(second(20));
    assert_eq!(candidate.ballot().term, 10_000_000_000, "later than every other");
}
