//! Bodies, read whole before anybody looks at them: short ones of everybody, long ones (a token of an identity provider
//! can have 256 kB) of registered applications and persons only, and of all long ones together no more than a budget.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{MAX_BODY, Peer, proven};
use crate::core::Authority;

/// The longest body of somebody whom nobody knows: credentials, and a token of the usual length.
pub(super) const SHORT_BODY: usize = 32 * 1_024;
/// Bytes of long bodies that are held at once.
const BUDGET: usize = 8 * 1_024 * 1_024;

/// What is left for long bodies. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET)))
    }
}

/// Why a body is not read.
enum Unread {
    TooLong,
    NoRoom,
    Broken,
}

impl IntoResponse for Unread {
    fn into_response(self) -> Response {
        let status = match self {
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken => StatusCode::BAD_REQUEST,
        };
        // The rest of the body is still to come; it is not waited for.
        (status, [(header::CONNECTION, "close"), (header::CACHE_CONTROL, "no-store")]).into_response()
    }
}

/// Reads the body of a request and hands the request on with it.
pub(super) async fn bounded(
    State((authority, budget)): State<(Authority, Budget)>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().cloned();
    let known = async {
        match &peer {
            Some(peer) => proven(&authority, peer).await.is_ok(),
            None => false,
        }
    };
    match read(body, &budget, known).await {
        Ok((bytes, _held)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(unread) => unread.into_response(),
    }
}

async fn read(
    mut body: Body,
    budget: &Budget,
    known: impl Future<Output = bool>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Unread> {
    // Asked at most once: whoever is known holds something of the budget from then on.
    let mut known = std::pin::pin!(known);
    let mut whole = BytesMut::new();
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        let length = whole.len() + data.len();
        if length > MAX_BODY {
            return Err(Unread::TooLong);
        }
        if length > SHORT_BODY {
            if held.is_none() && !known.as_mut().await {
                return Err(Unread::TooLong);
            }
            let more = length - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = u32::try_from(more).map_err(|_| Unread::TooLong)?;
            let more = Arc::clone(&budget.0).try_acquire_many_owned(more).map_err(|_| Unread::NoRoom)?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
        }
        whole.extend_from_slice(&data);
    }
    Ok((whole.freeze(), held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(length: usize) -> Body {
        Body::from(vec![b'x'; length])
    }

    #[tokio::test]
    async fn long_bodies_are_read_of_known_peers_and_within_the_budget() {
        let budget = Budget::default();
        for (rule, length, known, good) in [
            ("short, of anybody", SHORT_BODY, false, true),
            ("long, of anybody", SHORT_BODY + 1, false, false),
            ("long, of somebody known", MAX_BODY, true, true),
            ("too long", MAX_BODY + 1, true, false),
        ] {
            assert_eq!(read(body(length), &budget, async { known }).await.is_ok(), good, "{rule}");
        }
        assert_eq!(budget.0.available_permits(), BUDGET, "given back");
        let mut held = Vec::new();
        while let Ok(read) = read(body(MAX_BODY), &budget, async { true }).await {
            held.push(read);
        }
        assert_eq!(held.len(), BUDGET / MAX_BODY);
        assert!(matches!(read(body(MAX_BODY), &budget, async { true }).await, Err(Unread::NoRoom)));
        assert!(read(body(SHORT_BODY), &budget, async { false }).await.is_ok(), "short ones are always read");
        held.pop();
        assert!(read(body(MAX_BODY), &budget, async { true }).await.is_ok());
    }
}
