//! What can go wrong, in sentences.

use gates::https::HttpsError;
use gates::opcua::client::{CallError, DialError};
use opcua_types::StatusCode;
use ua_proto::client::NoEndpoint;

/// Something that was asked of the client could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server cannot be reached, or is not acceptable.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The server has no endpoint that the client accepts.
    #[error(transparent)]
    Endpoint(#[from] NoEndpoint),
    /// The server refuses the identity.
    #[error("the server refuses the identity with {0}")]
    Refused(StatusCode),
    /// A service failed, or there is no session now.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer does not fit the question.
    #[error("the server's answer has {got} results for {asked} items")]
    WrongCount {
        /// Results in the answer.
        got: usize,
        /// Items in the request.
        asked: usize,
    },
    /// The server wants a token, and there is no way to get one.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There was no active session within the time a request may take.
    #[error("there was no session for {0} s")]
    NoSession(u64),
    /// The text is no browse path.
    #[error("`{0}` is no browse path; write names as `2:Name`, joined by `/`")]
    BrowsePath(String),
}

/// An access token could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The endpoint does not say where.
    #[error("the server wants an access token but does not say from whom; name the authority in the options")]
    NoIssuer,
    /// The endpoint names another server than itself as the one that tokens are for.
    #[error("`{server}` asks for tokens for `{named}`; name the authority in the options if that is meant")]
    OtherResource {
        /// What it names.
        named: String,
        /// What it is called itself.
        server: String,
    },
    /// The endpoint names an authority that must not be given secrets.
    #[error(
        "the server names the authority `{0}`, which is none of those that may be given a password or secret; if it is \
         yours, say so with `--authority {0}` (or its ApplicationUri, or the SHA-256 of its certificate) or with \
         `authorities` under `[client]` in trapkey.toml"
    )]
    UnknownAuthority(String),
    /// The authority is of a kind that the client does not know.
    #[error("the authority at `{0}` is to be asked in a way this client does not know")]
    UnknownProfile(String),
    /// The authority is asked over HTTPS, for which nothing was configured.
    #[error("the authority at `{0}` wants HTTPS, for which the options hold no client")]
    NoHttps(String),
    /// The authority cannot be reached, or is not acceptable.
    #[error("the authority at `{url}` cannot be used: {source}")]
    Unreachable {
        /// Its URL.
        url: String,
        /// Why.
        source: Box<ClientError>,
    },
    /// The exchange over HTTPS failed.
    #[error(transparent)]
    Https(#[from] HttpsError),
    /// The authority does not let anybody ask for tokens in a way that the client knows.
    #[error("the authority at `{0}` has neither StartRequestToken nor RequestAccessToken")]
    NoMethod(String),
    /// The authority cannot be asked with what the client has.
    #[error("the authority at `{0}` takes no identity of the kind that the client has")]
    NoWay(String),
    /// The service object that the server named does not exist.
    #[error("the authority at `{url}` has no authorization service `{object}`")]
    NoService {
        /// The authority.
        url: String,
        /// What the server named.
        object: String,
    },
    /// The authority said no.
    #[error("the authority refuses a token for `{resource}`: {reason}")]
    Refused {
        /// The server the token was for.
        resource: String,
        /// What the authority said.
        reason: String,
    },
    /// The answer holds no token.
    #[error("the authority's answer holds no access token")]
    Malformed,
    /// A token was fetched a moment ago; another would be the same.
    #[error("the token is fresh, and the server refuses the operation with it")]
    AlreadyFresh,
}
