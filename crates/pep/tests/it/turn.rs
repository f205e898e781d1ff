//! Two guards never have their turn at a time: random lives of three voters and two candidates, with clocks of their own,
//! messages that are lost, late and out of order, parts cut off, killed and started anew.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::turn::{
    Ballot, Candidate, HolderId, LONGEST_TURN, Members, REMEMBERED, VOTERS, Vote, Voter, Yielding,
};
use access_model::{Mono, Now, UnixTime};
use proptest::prelude::*;

const SPAN: Duration = Duration::from_secs(4);
const STEP: u64 = 100;
/// How long a guard that does not reach its server keeps its turn while the other does.
const PATIENCE: Duration = Duration::from_secs(2);
/// The voters: those of the first two guards, the authority, that of a third guard.
const AUTHORITY: usize = 2;
const OWN: [usize; 3] = [0, 1, 3];

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
    Ask { guard: usize, run: u64, voter: usize, ballot: Ballot, other: Option<HolderId>, asked: Now },
    Answer { guard: usize, run: u64, voter: usize, ballot: Ballot, vote: Vote, from: From, asked: Now },
    Release { voter: usize, holder: HolderId, term: u64, other: Option<HolderId> },
}

/// The guard whose voter answers, if it is one's, and whether that reaches the server.
type From = Option<(HolderId, bool)>;

struct Guard {
    clock: Clock,
    run: u64,
    candidate: Candidate,
    /// The voter where it looks for the other, and whom it found there.
    peer: usize,
    other: Option<HolderId>,
    reaches: bool,
    yielding: Yielding,
    yields: bool,
    /// Answers of this round that gave a vote.
    given: [bool; VOTERS + 1],
    rounds: u64,
}

struct World {
    voters: Vec<(Clock, Voter)>,
    members: Members,
    guards: Vec<Guard>,
    messages: BTreeMap<(u64, u64), Message>,
    sent: u64,
    /// Voters that were started anew are silent for so long.
    silence: Duration,
}

/// To and from each voter.
type Delay = [u64; VOTERS + 1];

/// What chance brings at one step.
#[derive(Clone, Debug)]
struct Chance {
    guard: usize,
    /// Which of the ways are cut from now on: guard to voter, as bits.
    cut: Option<u16>,
    restart_voter: Option<usize>,
    restart_guard: bool,
    drain: bool,
    /// Whether the guard reaches its server from now on.
    reaches: bool,
    /// How long each message of this step is under way, in milliseconds.
    delay: Delay,
    steps: u64,
}

fn chance() -> impl Strategy<Value = Chance> {
    let rare = |weight: u32| prop_oneof![(40 - weight) => Just(false), weight => Just(true)];
    let cut = prop_oneof![6 => Just(None), 1 => any::<u16>().prop_map(Some), 1 => Just(Some(0))];
    let restart = prop_oneof![20 => Just(None), 1 => (0..VOTERS).prop_map(Some)];
    let delay = prop_oneof![6 => 0..300_u64, 2 => 300..4_000_u64, 1 => 4_000..12_000_u64];
    let reaches = prop_oneof![3 => Just(true), 1 => Just(false)];
    (0..2_usize, cut, restart, (rare(1), rare(2), reaches), prop::array::uniform4(delay), 1..40_u64).prop_map(
        |(guard, cut, restart_voter, (restart_guard, drain, reaches), delay, steps)| Chance {
            guard,
            cut,
            restart_voter,
            restart_guard,
            drain,
            reaches,
            delay,
            steps,
        },
    )
}

impl Guard {
    fn new(clock: Clock, run: u64, peer: usize) -> Self {
        Self {
            clock,
            run,
            candidate: Candidate::new(HolderId(run), SPAN),
            peer,
            other: None,
            reaches: true,
            yielding: Yielding::new(PATIENCE),
            yields: false,
            given: [false; VOTERS + 1],
            rounds: 0,
        }
    }

    fn voters(&self) -> [usize; 2] {
        [self.peer, AUTHORITY]
    }
}

impl World {
    fn new(rates: &[u64], silence: Duration) -> Self {
        let clock = |n: usize| Clock { rate: rates[n], offset: (n as u64 + 1) * 1_234_567 };
        let voters = (0..=VOTERS).map(|n| (clock(n), Voter::after(Duration::ZERO, clock(n).at(0)))).collect();
        // The third believes that it is the second.
        let guards = [(0, 1), (1, 0), (2, 0)].map(|(n, peer)| Guard::new(clock(OWN[n]), n as u64, peer));
        let (messages, members) = (BTreeMap::new(), Members::default());
        let mut world = Self { voters, members, guards: guards.into(), messages, sent: 0, silence };
        (0..3).for_each(|guard| world.bind(guard));
        world
    }

    /// The voter of a guard votes for it and the other.
    fn bind(&mut self, guard: usize) {
        let one = &self.guards[guard];
        self.voters[OWN[guard]].1.between(HolderId(one.run), one.other);
    }

    fn send(&mut self, at: u64, message: Message) {
        self.sent += 1;
        self.messages.insert((at, self.sent), message);
    }

    /// A guard asks the others, as the shell does: its own vote last. One that leaves the turn to the other only looks.
    fn round(&mut self, guard: usize, millis: u64, delay: Delay, cut: u16) {
        let one = &mut self.guards[guard];
        let now = one.clock.at(millis);
        if one.yields {
            return self.look(guard, millis, delay, cut);
        }
        one.candidate.begin(now);
        one.rounds += 1;
        let (ballot, run, other, voters) = (one.candidate.ballot(), one.run, one.other, one.voters());
        for voter in voters {
            if cut & (1 << (guard * VOTERS + voter)) == 0 {
                let message = Message::Ask { guard, run, voter, ballot, other, asked: now };
                self.send(millis + delay[voter], message);
            }
        }
    }

    /// Asks the other how it is, by giving back once more what was given back.
    fn look(&mut self, guard: usize, millis: u64, delay: Delay, cut: u16) {
        let one = &self.guards[guard];
        let (ballot, run, voter, other) = (one.candidate.ballot(), one.run, one.peer, one.other);
        let asked = one.clock.at(millis);
        let release = |voter| Message::Release { voter, holder: ballot.holder, term: ballot.term, other };
        if cut & (1 << (guard * VOTERS + AUTHORITY)) == 0 {
            // The authority goes on hearing of it.
            self.send(millis + delay[AUTHORITY], release(AUTHORITY));
        }
        if cut & (1 << (guard * VOTERS + voter)) != 0 {
            // No answer: it does not say that it reaches the server.
            let one = &mut self.guards[guard];
            one.yields = one.yielding.look(one.reaches, false, asked);
            return;
        }
        self.send(millis + delay[voter], release(voter));
        let (vote, from) = (Vote::Refused { to: None, term: 0 }, self.owner(voter));
        let message = Message::Answer { guard, run, voter, ballot, vote, from, asked };
        self.send(millis + 2 * delay[voter], message);
    }

    fn give_up(&mut self, guard: usize, millis: u64, delay: Delay) {
        let one = &mut self.guards[guard];
        let (ballot, voters, other) = (one.candidate.give_up(), one.voters(), one.other);
        for voter in voters.into_iter().chain([OWN[guard]]) {
            let under_way = if voter == OWN[guard] { 0 } else { delay[voter] };
            let release = Message::Release { voter, holder: ballot.holder, term: ballot.term, other };
            self.send(millis + under_way, release);
        }
    }

    /// Whose voter it is.
    fn owner(&self, voter: usize) -> From {
        let guard = OWN.iter().position(|own| *own == voter)?;
        let one = &self.guards[guard];
        Some((HolderId(one.run), one.reaches))
    }

    fn deliver(&mut self, millis: u64, delay: Delay) {
        while let Some((&key, &message)) = self.messages.first_key_value().filter(|((due, _), _)| *due <= millis) {
            self.messages.remove(&key);
            match message {
                Message::Ask { guard, run, voter, ballot, other, asked } => {
                    let (clock, voting) = &mut self.voters[voter];
                    let now = clock.at(millis);
                    let member = voter != AUTHORITY || self.members.admit(ballot.holder, other, now).is_ok();
                    let vote = if member { voting.ask(ballot, now) } else { Vote::Third };
                    let under_way = if voter == OWN[guard] { 0 } else { delay[voter] };
                    let from = self.owner(voter);
                    self.send(millis + under_way, Message::Answer { guard, run, voter, ballot, vote, from, asked });
                }
                Message::Answer { guard, run, voter, ballot, vote, from, asked } => {
                    if self.guards[guard].run == run {
                        self.answered(guard, (voter, ballot, vote), from, (millis, asked), delay);
                    }
                }
                Message::Release { voter, holder, term, other } => {
                    if voter == AUTHORITY {
                        let _third = self.members.admit(holder, other, self.voters[voter].0.at(millis));
                    }
                    self.voters[voter].1.release(holder, term);
                }
            }
        }
    }

    fn answered(
        &mut self,
        guard: usize,
        (voter, ballot, vote): (usize, Ballot, Vote),
        from: From,
        (millis, asked): (u64, Now),
        delay: Delay,
    ) {
        let one = &mut self.guards[guard];
        // A candidate counts three voters: its own is one, and the others are where it looks for them.
        let place = if voter == OWN[guard] && guard == 2 { 1 } else { voter };
        one.candidate.heard(place, ballot, vote, asked);
        one.given[voter] = vote == Vote::Given;
        let now = one.clock.at(millis);
        let (run, mut gives_up) = (one.run, false);
        if let Some((other, reaches)) = from.filter(|_| voter == one.peer) {
            one.other = Some(other);
            let before = std::mem::replace(&mut one.yields, one.yielding.look(one.reaches, reaches, now));
            gives_up = one.yields && !before;
            self.bind(guard);
        }
        if gives_up {
            return self.give_up(guard, millis, delay);
        }
        // The own vote is asked for once another was given.
        if voter != OWN[guard] && vote == Vote::Given {
            let (asked, ballot) = (now, self.guards[guard].candidate.ballot());
            let other = self.guards[guard].other;
            self.send(millis, Message::Ask { guard, run, voter: OWN[guard], ballot, other, asked });
        }
    }

    fn holders(&self, millis: u64) -> Vec<usize> {
        let holds = |guard: &usize| {
            let one = &self.guards[*guard];
            one.candidate.until(one.clock.at(millis)).is_some()
        };
        (0..3).filter(holds).collect()
    }
}

impl World {
    /// What chance brings to guards and voters, but for messages.
    fn suffer(&mut self, chance: &Chance, runs: &mut u64, millis: u64) {
        self.guards[chance.guard].reaches = chance.reaches;
        if let Some(voter) = chance.restart_voter {
            let now = self.voters[voter].0.at(millis);
            self.voters[voter].1 = Voter::after(self.silence, now);
            if voter == AUTHORITY {
                self.members = Members::default();
            }
        }
        if chance.restart_guard {
            *runs += 1;
            let Guard { clock, peer, .. } = self.guards[chance.guard];
            self.guards[chance.guard] = Guard::new(clock, *runs, peer);
            // The guard's voter is started anew with it.
            let now = self.voters[chance.guard].0.at(millis);
            self.voters[chance.guard].1 = Voter::after(self.silence, now);
        }
        (0..2).for_each(|guard| self.bind(guard));
        if chance.drain {
            self.give_up(chance.guard, millis, chance.delay);
        }
    }
}

/// Lives it; gives whether two had their turn at a time, and how often somebody had it.
fn live(rates: &[u64], chances: &[Chance], silence: Duration) -> (bool, usize) {
    let mut world = World::new(rates, silence);
    let (mut millis, mut cut, mut runs, mut held, mut both) = (1_000, 0, 10, 0, false);
    for chance in chances {
        cut = chance.cut.unwrap_or(cut);
        world.suffer(chance, &mut runs, millis);
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

/// The same with a third program that believes it is the second guard, and whose ways may be cut too; the authority hears
/// the first guard. Gives who had the turn, and whether two had it at a time.
fn live_with_a_third(chances: &[Chance]) -> (Vec<bool>, bool) {
    let mut world = World::new(&[1_000; VOTERS + 1], LONGEST_TURN);
    let (mut millis, mut cut, mut runs, mut had, mut both) = (1_000, 0, 10, vec![false; 3], false);
    for (number, chance) in chances.iter().enumerate() {
        cut = chance.cut.unwrap_or(cut);
        let heard = Chance {
            restart_voter: chance.restart_voter.filter(|voter| *voter != AUTHORITY),
            restart_guard: chance.restart_guard && chance.guard == 1,
            ..chance.clone()
        };
        world.suffer(&heard, &mut runs, millis);
        let near = Delay::from([heard.delay[0], heard.delay[1], 50, heard.delay[3]]);
        let apart = cut & !(1 << AUTHORITY);
        world.round(0, millis, near, apart);
        world.round(1, millis, near, apart);
        if number > 0 {
            world.round(2, millis, near, apart);
        }
        for _ in 0..heard.steps {
            world.deliver(millis, near);
            let holders = world.holders(millis);
            both |= holders.len() > 1;
            holders.into_iter().for_each(|guard| had[guard] = true);
            millis += STEP;
        }
    }
    (had, both)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn two_never_have_their_turn_at_a_time(
        rates in prop::collection::vec(960..=1_040_u64, VOTERS + 1),
        chances in prop::collection::vec(chance(), 1..120),
    ) {
        prop_assert!(!live(&rates, &chances, LONGEST_TURN).0);
    }

    #[test]
    fn a_third_with_the_same_key_never_has_a_turn_while_the_authority_hears_one_of_the_two(
        chances in prop::collection::vec(chance(), 2..120),
    ) {
        let (had, both) = live_with_a_third(&chances);
        prop_assert!(!had[2] && !both);
    }
}

/// Two that can be reached, of which one does not reach its server: the other has the turn soon, and keeps it until it does
/// not reach it either and the first does again.
#[test]
fn whoever_does_not_reach_the_server_lets_the_other_have_the_turn() {
    let mut world = World::new(&[1_000; VOTERS + 1], LONGEST_TURN);
    let mut millis = 10_000;
    let mut lives = |world: &mut World, millis_more: u64| {
        let until = millis + millis_more;
        while millis < until {
            for guard in 0..2 {
                if millis % 500 == 0 {
                    world.round(guard, millis + guard as u64 * 7, [10; VOTERS + 1], 0);
                }
            }
            world.deliver(millis, [10; VOTERS + 1]);
            assert!(world.holders(millis).len() < 2);
            millis += 10;
        }
        world.holders(millis)
    };
    assert_eq!(lives(&mut world, 20_000), [0], "who asks first");
    world.guards[0].reaches = false;
    world.guards[1].reaches = false;
    assert_eq!(lives(&mut world, 60_000), [0], "none is better than the other");
    world.guards[1].reaches = true;
    assert_eq!(lives(&mut world, 1_500), [0], "it has patience");
    assert_eq!(lives(&mut world, 10_000), [1]);
    world.guards[0].reaches = true;
    assert_eq!(lives(&mut world, 60_000), [1], "what was let go is not fetched back");
    world.guards[1].reaches = false;
    assert_eq!(lives(&mut world, 10_000), [0]);
}

#[test]
fn the_authority_votes_for_two() {
    let id = HolderId;
    let mut members = Members::default();
    let (mut now, second) = (at(0), Duration::from_secs(1));
    for (what, holder, other, expected) in [
        ("the first that asks", 1, None, true),
        ("another that nobody vouches for", 2, None, false),
        ("the first, which found it", 1, Some(2), true),
        ("the one that was found", 2, Some(1), true),
        ("a third", 3, Some(1), false),
        ("a third that vouches for itself", 3, Some(3), false),
        ("the first", 1, Some(2), true),
        ("the second was started anew", 4, Some(1), false),
        ("the first found it", 1, Some(4), true),
        ("who was started anew", 4, Some(1), true),
        ("who it was before", 2, Some(1), false),
    ] {
        now = now.after(second);
        assert_eq!(members.admit(id(holder), other.map(id), now).is_ok(), expected, "{what}");
    }
    now = now.after(REMEMBERED);
    assert!(members.admit(id(5), None, now).is_ok(), "nobody was heard for long");
    // A pair that comes to one that nobody knows.
    assert!(members.admit(id(6), Some(id(7)), now).is_err());
    assert!(members.admit(id(7), Some(id(6)), now).is_ok(), "each vouches for the other");
    assert!(members.admit(id(6), Some(id(7)), now).is_ok());
    let since = now;
    for _ in 0..3 {
        assert_eq!(members.admit(id(5), Some(id(6)), now), Err(since.mono), "and since when it asks");
        assert!(members.admit(id(6), Some(id(7)), now).is_ok());
        now = now.after(second);
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
        forgetful += usize::from(live(&[1_000; VOTERS + 1], &chances, Duration::ZERO).0);
        hasty += usize::from(live(&[100, 1_900, 1_900, 1_000], &chances, LONGEST_TURN).0);
        held += live(&[1_000; VOTERS + 1], &chances, LONGEST_TURN).1;
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
