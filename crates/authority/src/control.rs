//! The control stream: what a gate hears about tokens that live.
//!
//! `GET /control/v1/updates?audience=<ApplicationUri>` over mutual TLS, with the certificate that is registered for that
//! server. The answer has status 200, content type `application/trapkey-updates`, and never ends by itself:
//!
//! ```text
//! frame = JWS compact serialization (token::control::seal), then LF (0x0A)
//! ```
//!
//! A JWS holds no LF, so a reader splits at LF and gives each piece to `token::control::open`; a frame is at most
//! `token::control::MAX_UPDATE_LEN` bytes long. The first frame is the full list (no `previous`); then come deltas, each
//! with the epoch before it, and heartbeats (`previous` = `epoch`, nothing in it) at least every
//! `AuthorityConfig::heartbeat`. A reader that lags is given the full list again instead of what it missed. A reader that
//! sees a gap closes the stream and asks again; one that hears nothing for three heartbeats does the same. A reader
//! that takes no bytes for ten seconds is cut off.
//!
//! Full list and subscription are taken under one lock: no change falls between them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use access_model::{Reason, Refusal};
use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use token::MintError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::core::Authority;

/// Content type of the stream.
pub const CONTENT_TYPE: &str = "application/trapkey-updates";
/// A reader that takes nothing for so long is cut off.
const STALLED: Duration = Duration::from_secs(10);
/// Frames between the writer and the socket.
const AHEAD: usize = 16;

/// The frames of one subscription, as an HTTP body.
pub struct Updates(mpsc::Receiver<Bytes>);

impl std::fmt::Debug for Updates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Updates")
    }
}

impl Body for Updates {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Updates {
    /// The next frame, without its LF; for gates in the same process.
    pub async fn next(&mut self) -> Option<Bytes> {
        let mut frame = self.0.recv().await?;
        frame.truncate(frame.len().saturating_sub(1));
        Some(frame)
    }
}

impl Authority {
    /// Subscribes to what happens to tokens for a server.
    ///
    /// # Errors
    /// The plant has no such server, or the full list cannot be signed.
    pub fn updates(&self, audience: &str) -> Result<Updates, Refusal> {
        if !self.snapshot().plant().servers.contains_key(audience) {
            return Err(Refusal::new(Reason::UnknownAudience, format!("no server has the uri `{audience}`")));
        }
        let (full, receiver) = self.full_list(audience)?;
        let (sender, frames) = mpsc::channel(AHEAD);
        let writer = Writer { authority: self.clone(), audience: audience.to_owned(), sender };
        tokio::spawn(writer.run(full, receiver));
        Ok(Updates(frames))
    }

    fn full_list(&self, audience: &str) -> Result<(Bytes, broadcast::Receiver<Bytes>), Refusal> {
        let keys = self.inner.keys.load();
        let subscribed = self.live().subscribe(audience, &keys.current, self.now().unix);
        subscribed.map_err(|error| Refusal::new(Reason::TooBusy, error.to_string()))
    }
}

struct Writer {
    authority: Authority,
    audience: String,
    sender: mpsc::Sender<Bytes>,
}

impl Writer {
    /// Ends when the reader is gone, stalls, or nothing can be signed.
    async fn run(self, full: Bytes, mut receiver: broadcast::Receiver<Bytes>) {
        let beat = self.authority.config().heartbeat;
        let mut beats = interval_at(Instant::now() + beat, beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut frame = Some(full);
        loop {
            if let Some(ready) = frame.take()
                && !matches!(timeout(STALLED, self.sender.send(framed(&ready))).await, Ok(Ok(())))
            {
                return;
            }
            tokio::select! {
                () = self.sender.closed() => return,
                update = receiver.recv() => match update {
                    Ok(update) => frame = Some(update),
                    Err(broadcast::error::RecvError::Closed) => return,
                    Err(broadcast::error::RecvError::Lagged(_)) => match self.authority.full_list(&self.audience) {
                        Ok((full, fresh)) => (frame, receiver) = (Some(full), fresh),
                        Err(_) => return,
                    },
                },
                _ = beats.tick() => match self.beat(&receiver) {
                    Ok(beat) => frame = beat,
                    Err(_) => return,
                },
            }
        }
    }

    /// A heartbeat names the epoch of the last update, so it must not overtake one that still waits.
    fn beat(&self, receiver: &broadcast::Receiver<Bytes>) -> Result<Option<Bytes>, MintError> {
        let keys = self.authority.inner.keys.load();
        let mut live = self.authority.live();
        if !receiver.is_empty() {
            return Ok(None);
        }
        live.heartbeat(&self.audience, &keys.current, self.authority.now().unix).map(Some)
    }
}

fn framed(jws: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(jws.len() + 1);
    frame.put_slice(jws);
    frame.put_u8(b'\n');
    frame.freeze()
}
