//! How long whole signed tokens are.

use access_model::{MapDigest, Rights};
use token::{RightsClaim, mint, verify};

use crate::common::{claims, expectation, issuer, signer};

/// A small generator, so that the sets are the same in every run.
fn draw(count: usize, below: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut all = std::collections::BTreeSet::new();
    while all.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.insert((state >> 16) as u32 % below);
    }
    all.into_iter().collect()
}

fn length(entries: Vec<(Rights, Vec<u32>)>) -> usize {
    let signer = signer();
    let claims = claims(Some(RightsClaim::new(MapDigest([0x5A; 16]), entries)));
    let token = mint(&claims, &signer).unwrap();
    let verified = verify(token.as_bytes(), &expectation(&[issuer(&signer)])).unwrap();
    assert_eq!(*verified, claims);
    token.as_str().len()
}

#[test]
fn twenty_scopes_fit_a_kilobyte() {
    let read = Rights::BROWSE | Rights::READ;
    let write = read | Rights::WRITE;
    for (seed, map) in [(1, 40), (2, 1_000), (3, 100_000)] {
        let scopes = draw(20, map, seed);
        let (some, others) = scopes.split_at(12);
        let entries =
            vec![(read, some.to_vec()), (write, others[..5].to_vec()), (write | Rights::CALL, others[5..].to_vec())];
        let length = length(entries);
        assert!(length <= 1_000, "{length} bytes for 20 scopes of {map}");
    }
}

#[test]
fn a_thousand_random_scopes_of_a_hundred_thousand_fit_two_and_a_half() {
    for seed in 1..=20 {
        let length = length(vec![(Rights::BROWSE | Rights::READ, draw(1_000, 100_000, seed))]);
        assert!(length <= 2_500, "{length} bytes with seed {seed}");
    }
}
