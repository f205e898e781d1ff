//! Requests of every service that names nodes, good ones and such as two decoders may read differently: lengths that lie,
//! null against empty, numbers in more bytes than needed, flags where none belong, texts that are none, bytes behind the
//! end. The same seed gives the same requests.
//!
//! What they ask of which node stands in [`crate::world::asked_in`]; the nodes are those of [`crate::world::Setup`].

use std::path::Path;

use crate::world::request_head;
use opcua_types::NodeId;

mod asker;
mod lies;
mod sound;

pub use asker::Asker;
pub use lies::smuggled;
pub use sound::sound;

/// A service, and the body of a request behind its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The numeric id of the request's binary encoding.
    pub service: u16,
    /// What is behind the header.
    pub body: Vec<u8>,
}

impl Request {
    /// The whole message, of the session with this token.
    #[must_use]
    pub fn message(&self, token: &NodeId, handle: u32) -> Vec<u8> {
        let mut message = request_head(self.service.into(), token, handle);
        message.extend_from_slice(&self.body);
        message
    }
}

/// Numbers without end: the same from the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }

    /// One of these.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

/// The requests that the corpus of the fuzz target `services` throws, in its `folder`.
///
/// # Panics
/// The folder or a file in it cannot be read.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "reads the corpora of this repository")]
pub fn of_corpus(folder: &Path) -> Vec<Request> {
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the corpus is there").path()).collect();
    files.sort();
    files.iter().flat_map(|file| thrown(&std::fs::read(file).expect("a file of the corpus"))).collect()
}

/// The steps of such an input that throw a request at a service.
fn thrown(mut input: &[u8]) -> Vec<Request> {
    let mut requests = Vec::new();
    while let Some((step, rest)) = input.split_first() {
        input = rest;
        match step {
            0..200 => {
                let (service, rest) = number(input);
                let (length, rest) = number(rest);
                let (body, rest) = rest.split_at(usize::from(length).min(rest.len()));
                requests.push(Request { service, body: body.to_vec() });
                input = rest;
            }
            240.. => {
                let (length, rest) = number(input);
                input = rest.get(usize::from(length)..).unwrap_or_default();
            }
            _ => {}
        }
    }
    requests
}

fn number(bytes: &[u8]) -> (u16, &[u8]) {
    match bytes.split_first_chunk() {
        Some((number, rest)) => (u16::from_le_bytes(*number), rest),
        None => (0, &[]),
    }
}

/// A request made from these by one to three changes.
///
/// # Panics
/// There are no requests to make it from.
pub fn changed(dice: &mut Dice, from: &[Request]) -> Request {
    let mut request = dice.one(from).expect("there are requests").clone();
    for _ in 0..=dice.below(3) {
        change(dice, &mut request.body, from);
    }
    request
}

/// Lengths and counts as somebody may write them who means no good.
const NUMBERS: [i32; 10] = [-1, -2, 0, 1, 2, 3, 16, 255, i32::MAX, i32::MIN];
/// Bytes that mean something: kinds of NodeIds, masks of variants and values, encodings.
const BYTES: [u8; 20] = [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 15, 22, 23, 24, 25, 0x40, 0x80, 0x86, 0xc6, 0xff];

fn change(dice: &mut Dice, body: &mut Vec<u8>, from: &[Request]) {
    let at = dice.below(body.len() + 1);
    match dice.below(9) {
        0 => replace(body, at..at + 1, &[*dice.one(&BYTES).unwrap_or(&0)]),
        1 => {
            let any = u8::try_from(dice.below(256)).unwrap_or(0);
            replace(body, at..at + 1, &[any]);
        }
        2 => replace(body, at..at + 4, &dice.one(&NUMBERS).unwrap_or(&0).to_le_bytes()),
        3 => {
            let more = lies::variant(dice);
            replace(body, at..at, &more);
        }
        4 => {
            let count = dice.below(9);
            replace(body, at..at + count, &[]);
        }
        5 => rename(dice, body),
        6 => revalue(dice, body),
        7 => body.extend_from_slice(&[0, 1, 0xff][..dice.below(4)]),
        _ => {
            let other = dice.one(from).map(|other| other.body.clone()).unwrap_or_default();
            let (start, length) = (dice.below(other.len() + 1), dice.below(24));
            let part = other.get(start..(start + length).min(other.len())).unwrap_or_default();
            replace(body, at..at + part.len(), part);
        }
    }
}

fn replace(body: &mut Vec<u8>, range: std::ops::Range<usize>, with: &[u8]) {
    let range = range.start.min(body.len())..range.end.min(body.len());
    body.splice(range, with.iter().copied());
}

/// Writes one of the plant's NodeIds otherwise.
fn rename(dice: &mut Dice, body: &mut Vec<u8>) {
    let places: Vec<usize> =
        body.windows(3).enumerate().filter(|(_, at)| at[..2] == [1, 1]).map(|(at, _)| at).collect();
    if let Some(at) = dice.one(&places) {
        let name = lies::node(dice);
        replace(body, *at..*at + 4, &name);
    }
}

/// Puts another value into the place of an Int32 of a sound request.
fn revalue(dice: &mut Dice, body: &mut Vec<u8>) {
    let value = [6, 5, 0, 0, 0];
    let places: Vec<usize> = body.windows(5).enumerate().filter(|(_, at)| *at == value).map(|(at, _)| at).collect();
    if let Some(at) = dice.one(&places) {
        let value = lies::variant(dice);
        replace(body, *at..*at + 5, &value);
    }
}
