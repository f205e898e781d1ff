//! Plain HTTP for three pages. Few connections, one request each, and a short time for it: nobody who reaches the
//! address can hold more than that.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::look::View;
use super::{Board, metrics, ready};

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 16;
/// From the first byte of a request to the last of its answer. Longer than a thread that is looked at may take.
const PATIENCE: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";

pub(super) async fn serve(listener: TcpListener, board: Board) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let board = board.clone();
                tokio::spawn(async move {
                    let _too_slow = tokio::time::timeout(PATIENCE, connection(stream, board)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for health could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, board: Board) {
    let service = service_fn(move |request| {
        let board = board.clone();
        async move { Ok::<_, Infallible>(answer(&request, &board).await) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).max_buf_size(16 * 1_024);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a request for health ended early");
    }
}

async fn answer(request: &Request<Incoming>, board: &Board) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !["/livez", "/readyz", "/metrics"].contains(&path) {
        return page(StatusCode::NOT_FOUND, JSON, json!({ "error": "there is no such page" }).to_string());
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = page(StatusCode::METHOD_NOT_ALLOWED, JSON, json!({ "error": "GET is all" }).to_string());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let view = View::of(board).await;
    let standing = |good| if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match path {
        "/livez" => page(standing(view.is_alive()), JSON, json!({ "alive": view.is_alive() }).to_string()),
        "/readyz" => {
            let (ready, body) = ready::report(&view);
            page(standing(ready), JSON, body.to_string())
        }
        _ => match metrics::text(view) {
            Ok(text) => page(StatusCode::OK, metrics::CONTENT_TYPE, text),
            Err(error) => {
                page(StatusCode::INTERNAL_SERVER_ERROR, JSON, json!({ "error": error.to_string() }).to_string())
            }
        },
    }
}

fn page(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
