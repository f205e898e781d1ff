//! Bytes from a stranger: a fresh channel, at either end, fed in pieces of any size.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use opcua_types::MessageSecurityMode;
use ua_proto::channel::{ChannelConfig, ChannelEvent, ClientChannel, ClientChannelConfig, ServerChannel};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::wire::{Acknowledge, ErrorMessage, Hello, OpenHeader, OpenRequest, OpenResponse};

use super::Feed;
use crate::clock::Clock;
use crate::keys::{CLIENT_A, SERVER, trusting};
use crate::{Counting, world::URL};

/// First byte: which end; second: size of the pieces. The rest is what the peer says.
pub fn transport(data: &[u8]) {
    let mut feed = Feed(data);
    let (end, piece) = (feed.byte(), usize::from(feed.byte()) + 1);
    match end % 3 {
        0 => server(feed.0, piece),
        1 => client(feed.0, piece),
        _ => parts(feed.0),
    }
}

/// What a server's channels have in common.
pub(super) fn server_config() -> Arc<ChannelConfig> {
    let offered = vec![
        (SecurityPolicyId::None, MessageSecurityMode::None),
        (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
        (SecurityPolicyId::Aes256Sha256RsaPss, MessageSecurityMode::Sign),
    ];
    let identity = Arc::new(ArcSwap::new(SERVER.clone()));
    Arc::new(ChannelConfig::new(identity, trusting(&[&CLIENT_A]), offered))
}

/// Runs the jobs of a server's channel; gives whether it is over.
pub(super) fn serve(channel: &mut ServerChannel, clock: &Clock, entropy: &mut Counting) -> bool {
    let mut over = false;
    while let Some(event) = channel.poll_event() {
        match event {
            ChannelEvent::Job(job) => {
                let (id, outcome) = job.run();
                channel.job_done(id, outcome, clock.now(), entropy);
            }
            ChannelEvent::Message { request_id, body } => {
                let mut echo = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&body);
                    Ok(())
                };
                // The answer may be refused; that is for the channel to say.
                let _ = channel.send(request_id, &mut echo, clock.now());
            }
            ChannelEvent::Closed { .. } => over = true,
            _ => {}
        }
    }
    over
}

fn server(bytes: &[u8], piece: usize) {
    let (mut clock, mut entropy) = (Clock::default(), Counting(3));
    let mut channel = ServerChannel::new(1, server_config(), clock.now());
    for part in bytes.chunks(piece) {
        channel.receive(part, clock.now(), &mut entropy);
        if serve(&mut channel, &clock, &mut entropy) {
            break;
        }
        channel.outgoing().clear();
        clock.pass(Duration::from_millis(1));
        channel.handle_timeout(clock.now());
        assert!(channel.poll_timeout().is_none_or(|next| next > clock.now().mono), "a deadline that is due is left");
    }
}

fn client(bytes: &[u8], piece: usize) {
    let (mut clock, mut entropy) = (Clock::default(), Counting(3));
    let config = Arc::new(ClientChannelConfig::unprotected(URL));
    let Ok(mut channel) = ClientChannel::new(config, clock.now()) else { return };
    for part in bytes.chunks(piece) {
        channel.receive(part, clock.now(), &mut entropy);
        while let Some(event) = channel.poll_event() {
            match event {
                ChannelEvent::Job(job) => {
                    let (id, outcome) = job.run();
                    channel.job_done(id, outcome, clock.now(), &mut entropy);
                }
                ChannelEvent::Closed { .. } => return,
                _ => {}
            }
        }
        channel.outgoing().clear();
        clock.pass(Duration::from_millis(1));
        channel.handle_timeout(clock.now(), &mut entropy);
        assert!(channel.poll_timeout().is_none_or(|next| next > clock.now().mono), "a deadline that is due is left");
    }
}

/// The parsers by themselves; what they read, they write back the same.
fn parts(bytes: &[u8]) {
    if let Ok(hello) = Hello::parse(bytes) {
        let mut out = Vec::new();
        hello.put(&mut out);
        assert_eq!(Hello::parse(out.get(8..).unwrap_or_default()), Ok(hello));
    }
    if let Ok(acknowledge) = Acknowledge::parse(bytes) {
        let mut out = Vec::new();
        acknowledge.put(&mut out);
        assert_eq!(Acknowledge::parse(out.get(8..).unwrap_or_default()), Ok(acknowledge));
    }
    let _ = ErrorMessage::parse(bytes);
    let _ = OpenHeader::parse(bytes);
    let _ = OpenRequest::parse(bytes);
    let _ = OpenResponse::parse(bytes);
}
