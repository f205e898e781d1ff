//! A small HTTPS client for talking to an authority: HTTP/1.1 over mutually authenticated TLS, every wait bounded.

use std::sync::Arc;
use std::time::Duration;

use access_model::Thumbprint;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest answer that is read whole, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

/// An authority closes connections of an address that opens too many at once, as a guard does whose clients all come back: nothing was
/// sent yet, so it is tried again, so often, after this pause and each time after twice as long, up to the longest.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(320);

/// Why a request to an authority failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// The URL is not `https://host[:port][/path]`.
    #[error("`{0}` is no https URL")]
    Url(String),
    /// Nobody answers there in time.
    #[error("no connection to {authority}: {cause}")]
    Connect {
        /// Host and port.
        authority: String,
        /// What the system or the TLS library said.
        cause: String,
    },
    /// The exchange broke off or took too long.
    #[error("the exchange with {authority} failed: {cause}")]
    Exchange {
        /// Host and port.
        authority: String,
        /// What happened.
        cause: String,
    },
    /// TLS cannot be set up from these certificates.
    #[error("the TLS settings are unusable: {0}")]
    Tls(String),
}

/// Where a request goes: `https://host:port/path` taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path with a leading slash, without a trailing one; empty for the root.
    pub path: String,
}

impl Target {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// It is no https URL.
    pub fn parse(url: &str) -> Result<Self, HttpsError> {
        let bad = || HttpsError::Url(url.to_owned());
        let uri: hyper::Uri = url.parse().map_err(|_| bad())?;
        if uri.scheme_str() != Some("https") {
            return Err(bad());
        }
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(443), path: uri.path().trim_end_matches('/').to_owned() })
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Settings for a TLS client: whom it trusts (DER certificates) and, for mutual authentication, who it is (DER chain
/// and PKCS#8 key).
///
/// # Errors
/// A certificate or the key is unusable.
pub fn client_config(
    roots: impl IntoIterator<Item = Vec<u8>>,
    identity: Option<(Vec<Vec<u8>>, Vec<u8>)>,
) -> Result<Arc<rustls::ClientConfig>, HttpsError> {
    let unusable = |error: rustls::Error| HttpsError::Tls(error.to_string());
    let mut store = rustls::RootCertStore::empty();
    for root in roots {
        store.add(CertificateDer::from(root)).map_err(unusable)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(unusable)?.with_root_certificates(store);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let key = PrivateKeyDer::try_from(key).map_err(|error| HttpsError::Tls(error.to_owned()))?;
            let chain = chain.into_iter().map(CertificateDer::from).collect();
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
    };
    Ok(Arc::new(config))
}

/// A client for one authority. Each request opens its own connection: tokens and administration are rare.
#[derive(Clone)]
pub struct HttpsClient {
    tls: Arc<rustls::ClientConfig>,
    wait: Duration,
    /// SHA-256 of the certificates that may answer; `None`: whichever the TLS settings trust.
    pins: Option<Arc<[Thumbprint]>>,
}

impl HttpsClient {
    /// A client with these TLS settings that waits at most `wait` for a connection and for an answer.
    #[must_use]
    pub const fn new(tls: Arc<rustls::ClientConfig>, wait: Duration) -> Self {
        Self { tls, wait, pins: None }
    }

    /// The same client, which besides talks to owners of these certificates only (SHA-256 over the DER).
    #[must_use]
    pub fn pinned(self, pins: impl Into<Arc<[Thumbprint]>>) -> Self {
        Self { pins: Some(pins.into()), ..self }
    }

    /// Sends a request and reads the answer whole, at most 1 MiB.
    ///
    /// # Errors
    /// No connection, a broken exchange, a longer answer.
    pub async fn exchange(
        &self,
        target: &Target,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<(StatusCode, Bytes), HttpsError> {
        let failed = |cause: String| HttpsError::Exchange { authority: target.authority(), cause };
        let whole = async {
            let response = self.open(target, method, path, headers, body).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            Ok((status, body.map_err(|error| failed(error.to_string()))?.to_bytes()))
        };
        tokio::time::timeout(self.wait, whole).await.map_err(|_| failed(format!("no answer in {:?}", self.wait)))?
    }

    /// Sends a request and gives the answer as soon as its head is there; the caller bounds the reading of its body.
    ///
    /// # Errors
    /// No connection or a broken exchange.
    pub async fn open(
        &self,
        target: &Target,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, HttpsError> {
        let failed = |cause: String| HttpsError::Exchange { authority: target.authority(), cause };
        let stream = tokio::time::timeout(self.wait, self.connect(target)).await;
        let stream = stream.map_err(|_| HttpsError::Connect {
            authority: target.authority(),
            cause: format!("no answer in {:?}", self.wait),
        })??;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| failed(e.to_string()))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTPS connection ended");
            }
        });
        let mut request = Request::builder().method(method).uri(format!("{}{path}", target.path));
        request = request.header("host", target.authority());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).map_err(|error| failed(error.to_string()))?;
        let answer = tokio::time::timeout(self.wait, sender.send_request(request)).await;
        answer.map_err(|_| failed(format!("no answer in {:?}", self.wait)))?.map_err(|error| failed(error.to_string()))
    }

    async fn connect(&self, target: &Target) -> Result<tokio_rustls::client::TlsStream<TcpStream>, HttpsError> {
        let failed = |cause: String| HttpsError::Connect { authority: target.authority(), cause };
        let name = ServerName::try_from(target.host.clone()).map_err(|error| failed(error.to_string()))?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let mut pause = PAUSE;
        let mut tries = 1;
        let stream = loop {
            let stream = TcpStream::connect((target.host.as_str(), target.port)).await;
            let stream = stream.map_err(|error| failed(error.to_string()))?;
            stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
            match connector.connect(name.clone(), stream).await {
                Ok(stream) => break stream,
                Err(error) if tries < TRIES && is_closed(&error) => {
                    tokio::time::sleep(pause).await;
                    (pause, tries) = ((pause * 2).min(LONGEST), tries + 1);
                }
                Err(error) => return Err(failed(error.to_string())),
            }
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let pinned = |pins: &Arc<[Thumbprint]>| shown.is_some_and(|leaf| pins.contains(&thumbprint(leaf)));
        if self.pins.as_ref().is_none_or(pinned) {
            Ok(stream)
        } else {
            Err(failed("its certificate is none of those that are known".to_owned()))
        }
    }
}

/// Whether the other end took a connection and closed it before a word of TLS.
fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// SHA-256 over a DER certificate.
fn thumbprint(der: &[u8]) -> Thumbprint {
    let mut thumbprint = [0; 32];
    for (to, from) in thumbprint.iter_mut().zip(digest(&SHA256, der).as_ref()) {
        *to = *from;
    }
    Thumbprint(thumbprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody there is an error at once; who closes is tried again some times, within the time there is.
    #[tokio::test]
    async fn a_connection_that_is_closed_at_once_is_tried_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target { host: "127.0.0.1".into(), port, path: String::new() };
        let closes = tokio::spawn(async move {
            for _ in 0..TRIES {
                drop(listener.accept().await.unwrap());
            }
        });
        let client = |wait| HttpsClient::new(client_config([], None).unwrap(), wait);
        let said = client(Duration::from_secs(60)).exchange(&target, "GET", "/", &[], "").await;
        assert!(matches!(said, Err(HttpsError::Connect { .. })), "{said:?}");
        closes.await.unwrap();
        let said = client(Duration::from_secs(60)).exchange(&target, "GET", "/", &[], "").await;
        assert!(matches!(&said, Err(HttpsError::Connect { cause, .. }) if cause.contains("refused")), "{said:?}");
    }

    #[test]
    fn urls_are_taken_apart() {
        let target = |host: &str, port, path: &str| Target { host: host.into(), port, path: path.into() };
        assert_eq!(Target::parse("https://plant:8443/auth/").unwrap(), target("plant", 8443, "/auth"));
        assert_eq!(Target::parse("https://[::1]:1/").unwrap(), target("::1", 1, ""));
        assert_eq!(Target::parse("https://a").unwrap(), target("a", 443, ""));
        for url in ["http://a", "a", "", "https://", "opc.tcp://a:1"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
