//! One GET over plain HTTP, bounded in time and bytes.

use std::fmt;
use std::time::Duration;

use cost::twin::exposition::MAX_BYTES;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::Failure;

/// Where a program tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Host and port.
    authority: String,
    path: String,
}

impl Address {
    /// Of `http://HOST:PORT`, with a path if it is another than `/metrics`.
    pub(super) fn of(url: &str) -> Result<Self, Failure> {
        let wanted = || Failure::bad_input(format!("`{url}`: `http://HOST:PORT` is wanted"));
        let rest = url.strip_prefix("http://").ok_or_else(wanted)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let sound = |letter: char| letter.is_ascii_graphic() && !"?#@\"<>\\".contains(letter);
        if !rest.chars().all(sound) || port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(wanted());
        }
        let path = if path.is_empty() { "metrics" } else { path };
        // Names of hosts are the same in small letters.
        Ok(Self { authority: authority.to_ascii_lowercase(), path: format!("/{path}") })
    }

    /// The text of its figures, or a sentence.
    pub(super) async fn figures(&self, patience: Duration) -> Result<String, String> {
        match tokio::time::timeout(patience, self.get()).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("there was no answer within {} s", patience.as_secs())),
        }
    }

    async fn get(&self) -> Result<String, String> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let request = Request::get(&self.path)
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/openmetrics-text; version=1.0.0")
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let asked = async {
            let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
            if answer.status() != StatusCode::OK {
                return Err(format!("the answer is {}", answer.status()));
            }
            let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| error.to_string())
        };
        // The connection moves while the answer is waited for.
        let moving = async {
            let _ended = connection.await;
            std::future::pending::<()>().await;
        };
        let body = tokio::select! {
            body = asked => body?,
            () = moving => return Err("the connection ended".to_owned()),
        };
        String::from_utf8(body.to_vec()).map_err(|_| "the answer is no text".to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)?;
        if self.path == "/metrics" { Ok(()) } else { f.write_str(&self.path) }
    }
}
