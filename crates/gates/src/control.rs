//! The gate's ear at its authority: one long-lived HTTPS stream of signed updates, opened again whenever it ends.
//!
//! The stream is described at the authority's side: frames are JWS texts ended by a line feed, the full list first, then
//! deltas and heartbeats. This module splits and delivers; `token::control` verifies, `pep` applies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use pep::FailState;
use tokio::sync::Notify;
use ua_proto::server::Input;

use crate::https::{HttpsClient, HttpsError, Target};
use crate::opcua::Enforcing;
use crate::opcua::server::{Handle, Stopped};

/// The longest pause before the stream is asked for again; the first is a sixteenth of it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where updates come from and for whom.
#[derive(Clone)]
pub struct Subscription {
    /// The way to the authority, with the certificate that is registered for the server.
    pub https: HttpsClient,
    /// The authority.
    pub authority: Target,
    /// The server's ApplicationUri.
    pub audience: String,
    /// A stream that is silent for longer than this is given up: three heartbeats of the authority.
    pub silence: Duration,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamEnded {
    /// It could not be opened, or broke.
    #[error(transparent)]
    Https(#[from] HttpsError),
    /// The authority refused it.
    #[error("the authority answered {0}")]
    Status(StatusCode),
    /// A frame is longer than any update.
    #[error("a frame is longer than {} bytes", token::control::MAX_UPDATE_LEN)]
    LongFrame,
    /// Nothing came for too long.
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    /// The authority ended it.
    #[error("the authority ended the stream")]
    Closed,
    /// The gate missed something and wants the full list.
    #[error("updates are missing")]
    Gap,
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Feeds a server or a guard with the updates of its authority until it stops. `gap` ends the present stream, so that the
/// next one begins with the full list.
pub async fn follow<C: Enforcing>(subscription: Subscription, server: Handle<C>, gap: Arc<Notify>) {
    tokio::select! {
        // Whoever waits for the authority to end waits for its streams.
        () = server.stopped() => {}
        () = reconnecting(&subscription, &server, &gap) => {}
    }
}

async fn reconnecting<C: Enforcing>(subscription: &Subscription, server: &Handle<C>, gap: &Notify) {
    let mut pause = LONGEST_PAUSE / 16;
    loop {
        let heard = AtomicBool::new(false);
        let ended = until_ended(subscription, server, &heard, gap).await;
        let heard = heard.into_inner();
        if let StreamEnded::Stopped(_) = ended {
            return;
        }
        tracing::warn!(audience = subscription.audience, cause = %ended, "the control stream ended");
        if !matches!(ended, StreamEnded::Gap)
            && server.with(|server, now| server.tell(Input::ContactLost, now)).await.is_err()
        {
            return;
        }
        pause = if heard { LONGEST_PAUSE / 16 } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(pause).await;
    }
}

/// Reads one stream to its end. A gap counts only once the stream has brought something: the gate also asks for the full
/// list before it has heard anything, and this stream begins with it.
async fn until_ended<C: Enforcing>(
    subscription: &Subscription,
    server: &Handle<C>,
    heard: &AtomicBool,
    gap: &Notify,
) -> StreamEnded {
    let mut reading = std::pin::pin!(stream(subscription, server, heard));
    loop {
        tokio::select! {
            ended = &mut reading => return ended,
            () = gap.notified() => match missing(server, heard).await {
                Ok(false) => {}
                Ok(true) => return StreamEnded::Gap,
                Err(stopped) => return StreamEnded::Stopped(stopped),
            },
        }
    }
}

/// Whether the gate still misses updates; it may have asked before the list came that it has by now.
async fn missing<C: Enforcing>(server: &Handle<C>, heard: &AtomicBool) -> Result<bool, Stopped> {
    let state = server.with(|server, now| server.gate().fail_state(now)).await?;
    Ok(heard.load(Ordering::Relaxed) && state != FailState::InStep)
}

async fn stream<C: Enforcing>(subscription: &Subscription, server: &Handle<C>, heard: &AtomicBool) -> StreamEnded {
    match read(subscription, server, heard).await {
        Ok(never) => match never {},
        Err(ended) => ended,
    }
}

async fn read<C: Enforcing>(
    subscription: &Subscription,
    server: &Handle<C>,
    heard: &AtomicBool,
) -> Result<std::convert::Infallible, StreamEnded> {
    let path = format!("/control/v1/updates?audience={}", percent(&subscription.audience));
    let answer = subscription.https.open(&subscription.authority, "GET", &path, &[], Vec::new()).await?;
    if answer.status() != StatusCode::OK {
        return Err(StreamEnded::Status(answer.status()));
    }
    let mut body = answer.into_body();
    let mut pending = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(subscription.silence, body.frame()).await;
        let frame = frame.map_err(|_| StreamEnded::Silent(subscription.silence))?.ok_or(StreamEnded::Closed)?;
        let Ok(frame) = frame else { return Err(StreamEnded::Closed) };
        if let Some(data) = frame.data_ref() {
            pending.extend_from_slice(data);
        }
        while let Some(update) = next_frame(&mut pending)? {
            server.with(move |server, now| server.tell(Input::ControlUpdate(&update), now)).await?;
            heard.store(true, Ordering::Relaxed);
        }
    }
}

/// Takes one whole frame off the front.
fn next_frame(pending: &mut BytesMut) -> Result<Option<Bytes>, StreamEnded> {
    let Some(end) = pending.iter().position(|byte| *byte == b'\n') else {
        let too_long = pending.len() > token::control::MAX_UPDATE_LEN;
        return if too_long { Err(StreamEnded::LongFrame) } else { Ok(None) };
    };
    let frame = pending.split_to(end).freeze();
    pending.advance(1);
    if frame.len() > token::control::MAX_UPDATE_LEN { Err(StreamEnded::LongFrame) } else { Ok(Some(frame)) }
}

/// A query value with everything but unreserved characters escaped (RFC 3986 §2.3).
pub(crate) fn percent(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_at_line_feeds_however_they_arrive() {
        let mut pending = BytesMut::new();
        let mut frames = Vec::new();
        for byte in b"one\ntwo\nthr" {
            pending.extend_from_slice(&[*byte]);
            frames.extend(next_frame(&mut pending).unwrap());
        }
        assert_eq!(frames, [&b"one"[..], b"two"]);
        assert_eq!(&pending[..], b"thr");
    }

    #[test]
    fn a_frame_without_end_is_given_up() {
        let mut pending = BytesMut::from(&vec![b'a'; token::control::MAX_UPDATE_LEN + 1][..]);
        assert!(matches!(next_frame(&mut pending), Err(StreamEnded::LongFrame)));
    }

    #[test]
    fn query_values_are_escaped() {
        assert_eq!(percent("urn:a b/ä"), "urn%3Aa%20b%2F%C3%A4");
    }
}
