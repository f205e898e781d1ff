//! Reaching a server: its address, the connection, and questions that need no session.

use std::io;
use std::time::Duration;

use opcua_types::{ApplicationDescription, EndpointDescription, StatusCode};
use token::SystemEntropy;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};
use ua_proto::client::{Discovery, NoEndpoint, Question, Response};
use ua_proto::pki::Rejection;

use super::{READ_BUFFER, Way, far};
use crate::clock;

const DEFAULT_PORT: u16 = 4840;

/// A server cannot be reached or asked.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The URL is not of the form `opc.tcp://host:port/path`.
    #[error("`{0}` is not of the form opc.tcp://host:port")]
    Url(String),
    /// The connection cannot be made.
    #[error("no connection to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// It took too long.
    #[error("no answer from {address} in time")]
    TimedOut {
        /// Host and port.
        address: String,
    },
    /// The server did not call back in time.
    #[error("the server {url} did not call")]
    NotCalled {
        /// The URL that it is expected to name.
        url: String,
    },
    /// The server, or its certificate, is not acceptable.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The server has no endpoint that is acceptable.
    #[error(transparent)]
    NoEndpoint(#[from] NoEndpoint),
    /// The server answered with a fault or ended the connection.
    #[error("the server answered with {0}")]
    Fault(StatusCode),
}

/// Host and port of an `opc.tcp` URL.
///
/// # Errors
/// When it is none.
pub fn address(url: &str) -> Result<(String, u16), DialError> {
    let wrong = || DialError::Url(url.to_owned());
    let authority = url.strip_prefix("opc.tcp://").ok_or_else(wrong)?;
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            (host, rest.strip_prefix(':'))
        }
        None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| wrong()))?;
    if host.is_empty() { Err(wrong()) } else { Ok((host.to_owned(), port)) }
}

pub(in crate::opcua) async fn dial(url: &str, limit: Duration) -> Result<TcpStream, DialError> {
    let (host, port) = address(url)?;
    let name = || format!("{host}:{port}");
    let stream = match timeout(limit, TcpStream::connect((host.as_str(), port))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(DialError::Connect { address: name(), source }),
        Err(_) => return Err(DialError::TimedOut { address: name() }),
    };
    stream.set_nodelay(true).map_err(|source| DialError::Connect { address: name(), source })?;
    Ok(stream)
}

/// The endpoints of the server at `url`, as it tells everybody: nothing of it is proven.
///
/// # Errors
/// The server cannot be reached or does not answer.
pub async fn endpoints(url: &str, limit: Duration) -> Result<Vec<EndpointDescription>, DialError> {
    endpoints_over(&Way::Dial, url, limit).await
}

/// The same of a server that is reached in this way.
///
/// # Errors
/// As [`endpoints`].
pub async fn endpoints_over(way: &Way, url: &str, limit: Duration) -> Result<Vec<EndpointDescription>, DialError> {
    match ask(way, url, Question::Endpoints, limit).await? {
        Response::GetEndpoints(response) => Ok(response.endpoints.unwrap_or_default()),
        _ => Err(DialError::Fault(StatusCode::BadUnknownResponse)),
    }
}

/// The servers that the server at `url` knows, itself among them.
///
/// # Errors
/// The server cannot be reached or does not answer.
pub async fn servers(url: &str, limit: Duration) -> Result<Vec<ApplicationDescription>, DialError> {
    match ask(&Way::Dial, url, Question::Servers, limit).await? {
        Response::FindServers(response) => Ok(response.servers.unwrap_or_default()),
        _ => Err(DialError::Fault(StatusCode::BadUnknownResponse)),
    }
}

async fn ask(way: &Way, url: &str, question: Question, limit: Duration) -> Result<Response, DialError> {
    let stream = way.connect(url, limit).await?;
    answer(stream, Discovery::new(url, question, limit, clock::now())?).await
}

/// Drives a question on a connection to its answer.
pub(super) async fn answer(mut stream: TcpStream, mut machine: Discovery) -> Result<Response, DialError> {
    let mut entropy = SystemEntropy::new();
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        while let Some(job) = machine.poll_job() {
            let (id, outcome) = job.run();
            machine.job_done(id, outcome, clock::now(), &mut entropy);
        }
        let written = tokio::io::AsyncWriteExt::write_all(&mut stream, machine.outgoing()).await;
        machine.outgoing().clear();
        if let Some(result) = machine.take_result() {
            return result.map_err(DialError::Fault);
        }
        if written.is_err() {
            machine.connection_lost();
            continue;
        }
        let until = machine.poll_timeout().and_then(clock::instant).unwrap_or_else(far);
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(count) if count > 0 => machine.receive(&buffer[..count], clock::now(), &mut entropy),
                _ => machine.connection_lost(),
            },
            () = sleep_until(until) => machine.handle_timeout(clock::now(), &mut entropy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let host = |name: &str, port| Some((name.to_owned(), port));
        for (url, expected) in [
            ("opc.tcp://plant:4841/line", host("plant", 4841)),
            ("opc.tcp://plant", host("plant", 4840)),
            ("opc.tcp://[::1]:5000", host("::1", 5000)),
            ("opc.tcp://[::1]", host("::1", 4840)),
            ("opc.tcp://", None),
            ("opc.tcp://plant:x", None),
            ("https://plant", None),
        ] {
            assert_eq!(address(url).ok(), expected, "{url}");
        }
    }
}
