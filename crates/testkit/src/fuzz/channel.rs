//! An open channel whose peer goes wild: chunks of any kind, order and content, well framed or nearly so; and the
//! certificates and secrets that peers bring along.

use std::time::Duration;

use ua_proto::channel::ServerChannel;
use ua_proto::client::TokenIssuer;
use ua_proto::crypto::{RsaSecretEnvelope, SecretForm, legacy_secret_blocks};
use ua_proto::pki::{Certificate, Crl, Purpose, validate};
use ua_proto::wire::{Hello, MessageHeader};

use super::Feed;
use super::transport::{serve, server_config};
use crate::Counting;
use crate::clock::Clock;
use crate::keys::{CLIENT_A, trusting};
use crate::world::{Peer, RawPeer, URL};

/// First byte: a channel of policy None, or something that is parsed beside it.
pub fn channel(data: &[u8]) {
    let mut feed = Feed(data);
    match feed.byte() % 4 {
        0 | 1 => open(feed),
        2 => certificate(feed.0),
        _ => secrets(feed.0),
    }
}

fn open(mut feed: Feed<'_>) {
    let (mut clock, mut entropy) = (Clock::default(), Counting(5));
    let mut channel = ServerChannel::new(9, server_config(), clock.now());
    let Some(token) = handshake(&mut channel, &clock, &mut entropy) else { return };
    let (mut sequence, mut request) = (token.next_sequence, 2_u32);
    while !feed.is_empty() {
        let kind = match feed.byte() % 8 {
            0..=4 => b"MSG",
            5 => b"OPN",
            6 => b"CLO",
            _ => b"HEL",
        };
        let last = *b"FFFCCA".get(usize::from(feed.byte() % 6)).unwrap_or(&b'F');
        let wrong = feed.byte();
        sequence = sequence.wrapping_add(if wrong & 1 == 0 { 1 } else { feed.byte().into() });
        if wrong & 2 == 0 && last == b'F' {
            request = request.wrapping_add(1);
        }
        let mut chunk = kind.to_vec();
        chunk.extend([last, 0, 0, 0, 0]);
        chunk.extend((token.channel ^ u32::from(wrong >> 2 & 1)).to_le_bytes());
        if kind == b"OPN" {
            chunk.extend(feed.part());
        } else {
            chunk.extend((token.token ^ u32::from(wrong >> 3 & 1)).to_le_bytes());
        }
        chunk.extend(sequence.to_le_bytes());
        chunk.extend(request.to_le_bytes());
        chunk.extend(feed.part());
        let length = u32::try_from(chunk.len()).unwrap_or(0) ^ u32::from(wrong >> 4 & 1);
        if let Some(place) = chunk.get_mut(4..8) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        channel.receive(&chunk, clock.now(), &mut entropy);
        if serve(&mut channel, &clock, &mut entropy) {
            return;
        }
        channel.outgoing().clear();
        clock.pass(Duration::from_secs(u64::from(wrong >> 5)));
        channel.handle_timeout(clock.now());
        assert!(channel.poll_timeout().is_none_or(|next| next > clock.now().mono), "a deadline that is due is left");
    }
}

/// What a peer knows of an open channel.
struct Known {
    channel: u32,
    token: u32,
    next_sequence: u32,
}

/// Opens the channel with a client of ours, and reads from its first message what it knows.
fn handshake(channel: &mut ServerChannel, clock: &Clock, entropy: &mut Counting) -> Option<Known> {
    let mut peer = Peer::Raw(Box::new(RawPeer::unprotected(URL, clock.now())));
    for _ in 0..8 {
        let Peer::Raw(raw) = &mut peer else { return None };
        let out = std::mem::take(raw.channel.outgoing());
        channel.receive(&out, clock.now(), entropy);
        serve(channel, clock, entropy);
        let back = std::mem::take(channel.outgoing());
        raw.channel.receive(&back, clock.now(), entropy);
        while raw.channel.poll_event().is_some() {}
        if raw.channel.security().is_some() {
            raw.send(b"first", clock.now()).ok()?;
            let first = std::mem::take(raw.channel.outgoing());
            channel.receive(&first, clock.now(), entropy);
            serve(channel, clock, entropy);
            let number = |at: usize| Some(u32::from_le_bytes(first.get(at..at + 4)?.try_into().ok()?));
            return Some(Known { channel: number(8)?, token: number(12)?, next_sequence: number(16)? });
        }
    }
    None
}

fn certificate(bytes: &[u8]) {
    let (clock, trust) = (Clock::default(), trusting(&[&CLIENT_A]));
    if let Ok(certificate) = Certificate::from_der(bytes) {
        assert!(bytes.starts_with(certificate.der()), "a certificate is what it was read from");
        for purpose in [Purpose::User, Purpose::Client { application_uri: None }] {
            let _ = validate(&certificate, &trust.load(), purpose, clock.now().unix);
        }
        let _ = certificate.hosts().count();
    }
    let _ = Certificate::from_pem(bytes);
    if let Ok(crl) = Crl::from_der(bytes) {
        let _ = crl.revokes(bytes);
    }
}

fn secrets(bytes: &[u8]) {
    let _ = SecretForm::of(bytes);
    let _ = RsaSecretEnvelope::parse(bytes);
    let _ = legacy_secret_blocks(bytes.len(), 256, 32);
    let _ = MessageHeader::parse(bytes);
    let _ = Hello::parse(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = TokenIssuer::parse(text);
    }
}
