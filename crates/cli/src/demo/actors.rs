//! The people of the demo with their clients: each signs in at the authority and opens real sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{
    AuthorityAccess, CallError, Client, ClientApplication, ClientError, ClientOptions, KnownAuthority, Login,
    TokenError,
};
use opcua_types::{StatusCode, Variant};
use plant::equipment::{Station, node_id};
use zeroize::Zeroizing;

use super::Trouble;
use super::line::{Line, password};
use super::story::{Act, CAST, Cast, Probe};
use super::witness::{AGAIN, PATIENCE};
use super::workplace::Workplace;

/// Somebody with open sessions.
pub(crate) struct Actor {
    /// Who it is.
    pub(crate) cast: &'static Cast,
    clients: BTreeMap<Station, Client>,
}

/// What an attempt came to: `allowed`, the name of a status code, or `no token`.
pub(crate) type Outcome = String;

/// Options for a client of `uri` towards a station: encrypted, token in clear inside the channel.
pub(crate) fn options(
    line: &Line,
    workplace: &Workplace,
    uri: &str,
    station: Station,
) -> Result<ClientOptions, Trouble> {
    let url = format!("opc.tcp://{}", line.station(station)?.handle.address());
    let name = uri.rsplit(':').next().unwrap_or("client").to_owned();
    let application = ClientApplication { uri: uri.into(), product_uri: "urn:trapkey:demo".into(), name };
    let mut options = ClientOptions::new(url, application);
    options.identity = Some(Arc::clone(&workplace.party(uri)?.identity));
    options.trust = Some(Arc::clone(&workplace.trust));
    options.request_timeout = PATIENCE;
    options.session_timeout = PATIENCE * 10;
    Ok(options)
}

impl Actor {
    /// Signs in everywhere this member of the cast works.
    pub(crate) async fn enter(line: &Line, workplace: &Workplace, cast: &'static Cast) -> Result<Self, Trouble> {
        let mut clients = BTreeMap::new();
        for station in cast.stations {
            let mut options = options(line, workplace, cast.application, *station)?;
            options.login = Login::Token;
            options.authority = AuthorityAccess {
                login: login(cast),
                known: vec![KnownAuthority::Url(line.opcua.url.clone())],
                ..AuthorityAccess::default()
            };
            let mut client = Client::connect(options.clone()).await;
            for _ in 0..AGAIN {
                // A token of four seconds may have ended on its way, when the computer stood still.
                if !matches!(client, Err(ClientError::Refused(_))) {
                    break;
                }
                client = Client::connect(options.clone()).await;
            }
            let client =
                client.map_err(|error| Trouble::setup(&format!("{} at the {}", cast.name(), station.name()), error))?;
            clients.insert(*station, client);
        }
        Ok(Self { cast, clients })
    }

    /// Everybody, at the same time.
    pub(crate) async fn all(line: &Line, workplace: &Workplace) -> Result<Vec<Self>, Trouble> {
        let mut actors = Vec::new();
        for cast in &CAST {
            actors.push(Self::enter(line, workplace, cast).await?);
        }
        Ok(actors)
    }

    /// The client towards a station.
    pub(crate) fn client(&self, station: Station) -> Result<&Client, Trouble> {
        self.clients.get(&station).ok_or_else(|| Trouble::setup("no session there", station.name()))
    }

    /// Tries what a probe says.
    pub(crate) async fn attempt(&self, probe: &Probe) -> Result<Outcome, Trouble> {
        attempt(self.client(probe.station)?, probe.path, probe.act).await
    }

    /// Ends the sessions.
    pub(crate) async fn leave(self) {
        for (_, client) in self.clients {
            client.close().await;
        }
    }
}

fn login(cast: &Cast) -> Login {
    match cast.person {
        Some(person) => Login::UserName { name: person.into(), password: Zeroizing::new(password(person)) },
        None => Login::Anonymous,
    }
}

/// Tries one thing over one session.
pub(crate) async fn attempt(client: &Client, path: &str, act: Act) -> Result<Outcome, Trouble> {
    let result = match act {
        Act::Read => {
            let values = client.read(&[node_id(path)]).await;
            values.map(|values| values.first().map_or(StatusCode::BadUnexpectedError, |value| value.status()))
        }
        Act::Write(number) => {
            let results = client.write(vec![(node_id(path), Variant::Double(number))]).await;
            results.map(|results| results.first().copied().unwrap_or(StatusCode::BadUnexpectedError))
        }
        Act::Call => {
            let object = path.rsplit_once('.').map_or(path, |(object, _)| object);
            let result = client.call(node_id(object), node_id(path), Vec::new()).await;
            result.map(|result| result.status_code)
        }
    };
    Ok(outcome(result))
}

fn outcome(result: Result<StatusCode, ClientError>) -> Outcome {
    match result {
        Ok(status) if status.is_good() => "allowed".into(),
        Ok(status) | Err(ClientError::Refused(status) | ClientError::Call(CallError::Service(status))) => name(status),
        Err(ClientError::Token(TokenError::Refused { .. })) => "no token".into(),
        Err(error) => error.to_string(),
    }
}

/// The name of a status code in the standard's spelling: `Bad_UserAccessDenied`.
#[must_use]
pub(crate) fn name(status: StatusCode) -> String {
    let plain = status.to_string();
    match ["Bad", "Good", "Uncertain"].into_iter().find_map(|start| Some((start, plain.strip_prefix(start)?))) {
        Some((start, rest)) if !rest.is_empty() => format!("{start}_{rest}"),
        _ => plain,
    }
}
