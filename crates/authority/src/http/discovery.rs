//! What a client can find out without being known: addresses, abilities, keys (RFC 8414, OpenID Connect Discovery 1.0).

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use token::Algorithm;

use super::oauth::{CLIENT_CREDENTIALS, REFRESH_TOKEN, TOKEN_EXCHANGE};
use crate::core::Authority;

pub(super) async fn metadata(State(authority): State<Authority>) -> Response {
    let base = &authority.config().issuer;
    let algorithms: Vec<&str> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
    let methods = ["tls_client_auth", "self_signed_tls_client_auth", "client_secret_basic", "client_secret_post"];
    let document = json!({
        "issuer": base,
        "token_endpoint": format!("{base}/oauth2/token"),
        "jwks_uri": format!("{base}/oauth2/jwks"),
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
        "grant_types_supported": [CLIENT_CREDENTIALS, TOKEN_EXCHANGE, REFRESH_TOKEN],
        "token_endpoint_auth_methods_supported": methods,
        "tls_client_certificate_bound_access_tokens": true,
        "mtls_endpoint_aliases": { "token_endpoint": format!("{base}/oauth2/token") },
        "policy_decision_point": base,
        "access_evaluation_endpoint": format!("{base}/access/v1/evaluation"),
        "access_evaluations_endpoint": format!("{base}/access/v1/evaluations"),
    });
    ([(header::CACHE_CONTROL, "max-age=300")], Json(document)).into_response()
}

pub(super) async fn jwks(State(authority): State<Authority>) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/jwk-set+json"), (header::CACHE_CONTROL, "max-age=60")];
    (headers, authority.jwks()).into_response()
}
