//! Sockets: accept, shake hands, serve. Bounded before anybody is known: connections, handshake time, header time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use access_model::{Reason, Refusal, Thumbprint};
use aws_lc_rs::digest::{SHA256, digest};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use ua_proto::pki::{Certificate, is_revoked};

use super::arrivals::Arrivals;
use super::{Peer, problem, router};
use crate::core::Authority;

/// TCP accepted to TLS ready.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// First byte of a request to the end of its headers; also how long an idle connection is kept.
const HEADERS: Duration = Duration::from_secs(30);
/// How long answers may take to end when the service stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves HTTPS until `stop` turns true or its sender is gone.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    authority: Authority,
    mut stop: watch::Receiver<bool>,
) {
    let free = Arc::new(Semaphore::new(authority.config().connections));
    let arrivals = Arrivals::new(authority.config().connections_per_address, authority.config().paces.arrivals);
    let acceptor = TlsAcceptor::from(tls);
    let mut open = JoinSet::new();
    loop {
        // A connection beyond the bound waits in the socket's queue.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            stopped = stop.wait_for(|stop| *stop) => {
                drop(stopped);
                break;
            }
        };
        while open.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                let (acceptor, authority) = (acceptor.clone(), authority.clone());
                let place = match arrivals.enter(address.ip(), authority.now().mono) {
                    Ok(place) => place,
                    Err(why) => {
                        // Turned away before the handshake; what is still to be recorded does not keep the place.
                        let refusal = Refusal::new(Reason::TooBusy, why);
                        authority.note_refusal("a connection", Some(&address.to_string()), &refusal);
                        continue;
                    }
                };
                open.spawn(async move {
                    connection(stream, address.to_string(), acceptor, authority).await;
                    drop((permit, place));
                });
            }
            Err(error) => {
                // Out of file descriptors: waiting is all that helps.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, all).await;
}

async fn connection(stream: TcpStream, address: String, acceptor: TlsAcceptor, authority: Authority) {
    // Revocations must not wait for more bytes to come.
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, address, "TLS handshake failed"),
        Err(_) => return tracing::debug!(address, "TLS handshake took too long"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = shown.map(|leaf| thumbprint(leaf));
    // What cannot be read as a certificate is on no list; the handshake has proven its key, so it counts as registered or not.
    let parsed = shown.and_then(|leaf| Certificate::from_der(leaf).ok()).map(Arc::new);
    let peer = Peer { address, certificate };
    let stream = Impatient { stream, patience: authority.config().patience, waiting: None };
    let held = from_fn_with_state((authority.clone(), parsed), not_revoked);
    let service = router(authority).layer(held).layer(Extension(peer));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(64 * 1_024);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Holds the peer's certificate against the revocation lists of the moment, at every request: connections live long.
async fn not_revoked(
    State((authority, certificate)): State<(Authority, Option<Arc<Certificate>>)>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let lists = authority.inner.revoked.get();
    let Some(certificate) = certificate.filter(|one| lists.is_some_and(|lists| is_revoked(one, &lists.load()))) else {
        return next.run(request).await;
    };
    let detail = format!("the certificate `{}` was revoked by its issuer", certificate.subject());
    let refusal = Refusal::new(Reason::CertificateRevoked, detail);
    authority.note_refusal(certificate.application_uri().unwrap_or("a connection"), Some(&peer.address), &refusal);
    let mut response = problem(&refusal);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A stream that ends when its peer takes nothing for too long.
struct Impatient<S> {
    stream: S,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    /// Passes on what a write came to, unless it has been waiting for too long.
    fn bounded<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, ended)
    }
}

/// SHA-256 over a DER certificate.
pub(crate) fn thumbprint(der: &[u8]) -> Thumbprint {
    let mut out = [0_u8; 32];
    for (to, from) in out.iter_mut().zip(digest(&SHA256, der).as_ref()) {
        *to = *from;
    }
    Thumbprint(out)
}
