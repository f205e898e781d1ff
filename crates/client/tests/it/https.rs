//! Tokens over HTTPS, from a pretend authority that speaks just enough HTTP.

use std::sync::Arc;

use access_model::{Rights, Thumbprint};
use client::{AuthorityProfile, Client, ClientError, Login, TokenError, TokenIssuer};
use gates::clock;
use gates::https::{HttpsClient, Target, client_config};
use gates::pki::make::{self, self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use ua_proto::pki::Certificate;

use crate::support;
use crate::support::{Plant, id};

/// Answers every request with what `answer` makes of it: status line, then JSON.
async fn serve(answer: impl Fn(&str) -> (&'static str, String) + Send + 'static) -> (String, HttpsClient) {
    let (url, https, _) = serve_as(answer).await;
    (url, https)
}

/// The same, and the certificate it shows.
async fn serve_as(
    answer: impl Fn(&str) -> (&'static str, String) + Send + 'static,
) -> (String, HttpsClient, Thumbprint) {
    let made = self_signed(&make::Application::local("authority", "urn:test:https"), clock::now().unix).unwrap();
    let key = PrivateKeyDer::try_from(made.key_der.to_vec()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(made.der.clone())], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !complete(&request) {
                let mut part = [0; 1_024];
                let count = stream.read(&mut part).await.unwrap_or(0);
                if count == 0 {
                    break;
                }
                request.extend_from_slice(&part[..count]);
            }
            let (status, body) = answer(&String::from_utf8_lossy(&request));
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let shown = Certificate::from_der(&made.der).unwrap().thumbprint();
    let tls = client_config([made.der], None).unwrap();
    (url, HttpsClient::new(tls, support::PATIENCE), shown)
}

/// Head and as much body as it announces.
fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|length| length.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn issuer(url: String) -> TokenIssuer {
    TokenIssuer {
        resource_id: support::MIXER.into(),
        authority_url: url,
        profile: AuthorityProfile::OAuth2,
        token_endpoint: None,
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    }
}

#[tokio::test]
async fn a_token_comes_from_the_endpoint_that_the_authority_describes() {
    let plant = Plant::start(Rights::BROWSE | Rights::READ, 3_600).await;
    let token = plant.token();
    let (url, https) = serve(move |request| {
        let line = request.lines().next().unwrap_or_default();
        if line == "GET /.well-known/oauth-authorization-server HTTP/1.1" {
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
            return ("200 OK", format!(r#"{{"issuer":"x","token_endpoint":"https://{host}/deep/token"}}"#));
        }
        assert_eq!(line, "POST /deep/token HTTP/1.1");
        assert!(request.contains("grant_type=client_credentials&resource=urn%3Atest%3Amixer"), "{request}");
        ("200 OK", format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":3600}}"#))
    })
    .await;
    let mut options = plant.options(Login::Token);
    options.issuer = Some(issuer(url));
    options.authority.https = Some(https);
    let client = Client::connect(options).await.unwrap();
    assert!(client.read(&[id("Speed")]).await.unwrap()[0].value.is_some());
}

#[tokio::test]
async fn the_reason_of_the_authority_is_passed_on() {
    let plant = Plant::start(Rights::NONE, 3_600).await;
    let refuse =
        |_: &str| ("400 Bad Request", r#"{"error":"invalid_target","error_description":"no such server"}"#.to_owned());
    let (url, https) = serve(refuse).await;
    let mut options = plant.options(Login::Token);
    options.issuer = Some(TokenIssuer { token_endpoint: Some("/token".into()), ..issuer(url) });
    options.authority.https = Some(https);
    let error = Client::connect(options.clone()).await.err().unwrap();
    let ClientError::Token(TokenError::Refused { reason, .. }) = error else { panic!("{error}") };
    assert_eq!(reason, "400 invalid_target no such server");
    options.authority.https = None;
    let error = Client::connect(options).await.err().unwrap();
    assert!(matches!(error, ClientError::Token(TokenError::NoHttps(_))), "{error}");
}

#[tokio::test]
async fn a_pinned_client_talks_to_the_owner_of_the_certificate_only() {
    let (url, https, certificate) = serve_as(|_| ("200 OK", "{}".to_owned())).await;
    let target = Target::parse(&url).unwrap();
    for (pins, good) in [(vec![certificate], true), (vec![Thumbprint([0; 32])], false), (vec![], false)] {
        let answer = https.clone().pinned(pins).exchange(&target, "GET", "/", &[], Vec::new()).await;
        assert_eq!(answer.is_ok(), good, "{answer:?}");
    }
}
