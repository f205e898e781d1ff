//! A request must not be decoded otherwise by the server than by the guard that has decided about it. Thousands of requests,
//! sound ones and such as want to be misread, are put to a guard; what it sends on is decoded by other people's decoders
//! and written again; and what that asks for must be what the guard has let through.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use access_model::Action;
use testkit::requests::{Asker, Dice, Request, changed, of_corpus, smuggled, sound};
use testkit::world::{Asked, asked_in, scope_of};

use super::peers::Stack;

const STACKS: [Stack; 2] = [Stack::Asyncua, Stack::Open62541];
/// Where the dice begin, and how many requests they make.
const SEED: u64 = 0x7a31;
const CHANGED: usize = 6_000;

/// Sound requests, those that smuggle, those of the corpus, and changed ones.
fn requests() -> Vec<Request> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/services");
    let (sound, smuggled, corpus) = (sound(), smuggled(), of_corpus(&corpus));
    assert!(corpus.len() > 100, "the corpus holds {} requests", corpus.len());
    let mut dice = Dice(SEED);
    // Sound ones thrice, for what has become too wrong is turned away before anybody decides.
    let bases = [sound.clone(), sound.clone(), sound.clone(), corpus.clone()].concat();
    let changed: Vec<_> = (0..CHANGED).map(|_| changed(&mut dice, &bases)).collect();
    [sound, smuggled, corpus, changed].concat()
}

/// What the guard of [`Asker`] lets through.
fn allowed(asked: &Asked) -> bool {
    match scope_of(&asked.node) {
        Some(1) | None => true,
        Some(2) => asked.action == Action::Browse,
        Some(_) => false,
    }
}

/// A decoder: what it makes of each message, written again; nothing where it refuses one.
type Decoder<'a> = &'a dyn Fn(&[Vec<u8>]) -> Vec<Option<Vec<u8>>>;

/// Runs the decoder program of a stack over messages, each with its length before it.
fn decode(program: &Path, messages: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the decoder starts");
    let (mut to, mut from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let sent: Vec<u8> = messages.iter().flat_map(|message| [&length(message.len())[..], message].concat()).collect();
    let writing = std::thread::spawn(move || to.write_all(&sent));
    let mut answers = Vec::new();
    from.read_to_end(&mut answers).expect("the decoder answers");
    writing.join().expect("it can be written to").expect("the decoder reads to the end");
    assert!(child.wait().expect("a child can be waited for").success(), "the decoder ends well");
    let mut rest = answers.as_slice();
    let mut next = || {
        let (length, behind) = rest.split_first_chunk::<4>().expect("an answer for each message");
        let refused = *length == [0xff; 4];
        let (again, behind) = behind.split_at(if refused { 0 } else { u32::from_le_bytes(*length) as usize });
        rest = behind;
        (!refused).then(|| again.to_vec())
    };
    let answers = messages.iter().map(|_| next()).collect();
    assert!(rest.is_empty(), "and no more");
    answers
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("short").to_le_bytes()
}

/// How a decoder got on with messages.
#[derive(Debug, Default)]
struct Tally {
    /// Read as meant.
    alike: usize,
    /// Refused by it, or naming no node.
    apart: usize,
    /// Read otherwise: what was wrong, and the message.
    otherwise: Vec<String>,
    /// The services of those that were read as meant.
    services: BTreeSet<[u8; 2]>,
}

/// Holds what a decoder makes of messages against what was decided about them.
fn compare(messages: &[Vec<u8>], decoder: Decoder<'_>) -> Tally {
    let mut tally = Tally::default();
    for (message, again) in messages.iter().zip(decoder(messages)) {
        let Some((theirs, _)) = again.as_deref().and_then(asked_in) else {
            tally.apart += 1;
            continue;
        };
        let ours = asked_in(message).map(|(asked, _)| asked);
        let hex = || message.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if let Some(denied) = theirs.iter().find(|asked| !allowed(asked)) {
            tally.otherwise.push(format!("{denied:?} reaches the server with {}", hex()));
        } else if ours.as_ref().is_some_and(|ours| *ours != theirs) {
            tally.otherwise.push(format!("{theirs:?} in place of {ours:?} in {}", hex()));
        } else {
            tally.alike += 1;
            tally.services.extend(message.get(2..4).and_then(|id| id.first_chunk()).copied());
        }
    }
    tally
}

fn assert_alike(name: &str, tally: &Tally) {
    println!("{name}: {} of {} services alike, {} apart", tally.alike, tally.services.len(), tally.apart);
    let first = tally.otherwise.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(tally.otherwise.is_empty(), "{name} reads {} requests otherwise:\n{first}", tally.otherwise.len());
}

#[test]
fn what_a_guard_sends_on_is_read_as_it_decided_by_other_decoders() {
    let mut asker = Asker::default();
    let requests = requests();
    let sent: Vec<Vec<u8>> = requests.iter().flat_map(|request| asker.ask(request)).collect();
    println!("{} requests, {} messages to the server", requests.len(), sent.len());
    // Our own other decoder needs no peer.
    let own = compare(&sent, &|messages| messages.iter().cloned().map(Some).collect());
    assert_alike("the types crate", &own);
    assert!(own.alike > 2_000, "too few requests come through to say anything: {}", own.alike);
    for stack in STACKS {
        let Some(program) = stack.program("decoder") else { continue };
        let tally = compare(&sent, &|messages| decode(&program, messages));
        assert_alike(stack.name(), &tally);
        assert!(tally.alike > 1_500, "{} reads too few of them to say anything: {}", stack.name(), tally.alike);
    }
}

/// The positive control: a guard that decides by a decoder of good faith and sends on what came lets requests through
/// that asyncua reads otherwise; and a decoder that reads one form of NodeIds wrongly does not go unnoticed.
#[test]
fn a_guard_or_a_decoder_that_reads_otherwise_is_noticed() {
    let asker = Asker::default();
    let messages: Vec<Vec<u8>> = requests().iter().map(|request| asker.message(request)).collect();
    let trusting = |message: &Vec<u8>| asked_in(message).is_some_and(|(asked, _)| asked.iter().all(allowed));
    let sent: Vec<Vec<u8>> = messages.into_iter().filter(trusting).collect();
    if let Some(program) = Stack::Asyncua.program("decoder") {
        let tally = compare(&sent, &|messages| decode(&program, messages));
        let denied = tally.otherwise.iter().filter(|what| what.contains("reaches the server")).count();
        println!("a guard in good faith: {denied} of {} requests are about what was denied", sent.len());
        assert!(denied > 0, "{} alike, {} apart", tally.alike, tally.apart);
    }
    let crooked = |messages: &[Vec<u8>]| messages.iter().map(|message| Some(misread(message))).collect();
    let tally = compare(&sent, &crooked);
    assert!(tally.otherwise.len() > 500, "{} of {}", tally.otherwise.len(), sent.len());
}

/// What a decoder would write that takes 1000 of namespace 1 for 3000.
fn misread(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    for at in 0..message.len().saturating_sub(3) {
        if message[at..at + 4] == [1, 1, 0xe8, 3] {
            message[at + 2..at + 4].copy_from_slice(&3_000_u16.to_le_bytes());
        }
    }
    message
}
