//! Attacks on the running line. Each must be refused, with the code that the attacker sees and the reason that only the
//! ledger knows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use authority::{Flow, Refreshing, TokenRequest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::{Client, ClientError, Login};
use opcua_types::{MessageSecurityMode, StatusCode};
use plant::Step;
use plant::equipment::{Station, node_id};
use testkit::attackers::{Nonces, RawPeer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use ua_proto::channel::ClientChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use zeroize::Zeroizing;

use super::Trouble;
use super::actors::{Actor, attempt, name, options};
use super::line::{Line, MAX_HALF_OPEN, OBSERVER_LIFE};
use super::report::Report;
use super::story::{Act, CAST};
use super::witness::{PATIENCE, Wanted, Witness};
use super::workplace::{STRANGER, Workplace, station_uri};

const HMI: &str = "urn:trapkey:demo:hmi";
const DASHBOARD: &str = "urn:trapkey:demo:dashboard";
/// Connections of the storm, more than a server lets stand half-open.
const STORM: usize = 300;
/// Between two looks at who was turned away; those that stand say nothing.
const PAUSE: Duration = Duration::from_millis(5);
/// What olga sets at the mixer.
const SPEED: &str = "Mixer.Setpoints.Speed";

struct Attack<'a> {
    line: &'a Line,
    workplace: &'a Workplace,
    report: &'a mut Report,
    witness: &'a mut Witness,
}

/// Plays every attack.
pub(crate) async fn run(
    line: &Line,
    workplace: &Workplace,
    (report, witness): (&mut Report, &mut Witness),
) -> Result<(), Trouble> {
    report.head("attacks: what the attacker sees, and what the ledger knows");
    let mut attack = Attack { line, workplace, report, witness };
    // This one has to grow old first.
    let aged = attack.token("quinn", DASHBOARD, Station::Reactor).await?;
    let born = Instant::now();
    let stolen = attack.token("olga", HMI, Station::Mixer).await?;
    attack
        .present(
            "olga's token, stolen, from the dashboard's computer",
            DASHBOARD,
            Station::Mixer,
            &stolen,
            "token_confirmation",
        )
        .await?;
    attack
        .present("olga's token for the mixer, at the filler", HMI, Station::Filler, &stolen, "token_audience")
        .await?;
    attack
        .present(
            "olga's token with petra's name in its claims",
            HMI,
            Station::Mixer,
            &renamed(&stolen)?,
            "token_signature",
        )
        .await?;
    attack
        .present(
            "the token without a signature, algorithm none",
            HMI,
            Station::Mixer,
            &unsigned(&stolen)?,
            "token_algorithm",
        )
        .await?;
    attack
        .replay("olga's token, sealed for one session, sent in another", Part::Secret, &stolen, "nonce_mismatch")
        .await?;
    attack
        .replay(
            "the application's signature for one session, sent in another",
            Part::Signature,
            &stolen,
            "client_signature",
        )
        .await?;
    attack.stranger().await?;
    attack.step_and_range().await?;
    attack.storm().await?;
    tokio::time::sleep_until(born + OBSERVER_LIFE + Duration::from_millis(1_100)).await;
    attack.present("quinn's token, one second after its end", DASHBOARD, Station::Reactor, &aged, "token_expired").await
}

/// Olga's token as petra's: another `sub` under the old signature.
fn renamed(token: &[u8]) -> Result<Zeroizing<Vec<u8>>, Trouble> {
    let [header, payload, signature] = parts(token)?;
    let claims = decoded(payload)?;
    let forged = Zeroizing::new(claims.replacen("\"sub\":\"olga\"", "\"sub\":\"petra\"", 1));
    if *forged == *claims {
        return Err(Trouble::setup("olga's token", "it does not say who she is"));
    }
    Ok(Zeroizing::new([header, URL_SAFE_NO_PAD.encode(forged.as_bytes()).as_bytes(), signature].join(&b'.')))
}

/// The token's claims under its header with `none` for the algorithm, without a signature.
fn unsigned(token: &[u8]) -> Result<Zeroizing<Vec<u8>>, Trouble> {
    let [header, payload, _] = parts(token)?;
    let forged = decoded(header)?.replacen("\"ES256\"", "\"none\"", 1);
    Ok(Zeroizing::new([URL_SAFE_NO_PAD.encode(forged).as_bytes(), payload, b""].join(&b'.')))
}

/// Header, payload and signature.
fn parts(token: &[u8]) -> Result<[&[u8]; 3], Trouble> {
    let parts: Vec<&[u8]> = token.split(|byte| *byte == b'.').collect();
    parts.try_into().map_err(|_| Trouble::setup("olga's token", "it does not have three parts"))
}

fn decoded(part: &[u8]) -> Result<Zeroizing<String>, Trouble> {
    let text = URL_SAFE_NO_PAD.decode(part).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Zeroizing::new).ok_or_else(|| Trouble::setup("olga's token", "it cannot be read"))
}

/// What of an activation was made for another session.
#[derive(Clone, Copy)]
enum Part {
    Secret,
    Signature,
}

/// Opens two channels and sends in the second an activation of which one part was made for the first.
fn replayed(
    address: SocketAddr,
    config: Arc<ClientChannelConfig>,
    part: Part,
    token: &[u8],
) -> std::io::Result<StatusCode> {
    let open = || {
        #[expect(clippy::disallowed_types, reason = "the attacker's own socket, on a thread of its own")]
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        RawPeer::open(stream, Arc::clone(&config), gates::clock::now)
    };
    let (mut first, mut second) = (open()?, open()?);
    let meant = first.create_session(HMI)?;
    let session = second.create_session(HMI)?;
    let made_for = match part {
        Part::Secret => Nonces { secret: &meant.nonce, signature: &session.nonce },
        Part::Signature => Nonces { secret: &session.nonce, signature: &meant.nonce },
    };
    second.activate(&session, token, made_for)
}

impl Attack<'_> {
    /// A genuine token, as its rightful owner would get it.
    async fn token(&self, person: &str, application: &str, station: Station) -> Result<Zeroizing<Vec<u8>>, Trouble> {
        let request = TokenRequest {
            flow: Flow::RequestToken,
            person: Some(person.into()),
            application: application.into(),
            confirmation: self.workplace.party(application)?.identity.certificate.thumbprint(),
            audience: station_uri(station),
            roles: None,
            break_glass: None,
            padding: 0,
            refresh: Refreshing::No,
            address: None,
        };
        let issued = self.line.authority.issue(&request).await.map_err(|error| Trouble::setup("a token", error))?;
        Ok(Zeroizing::new(issued.token.as_bytes().to_vec()))
    }

    async fn present(
        &mut self,
        what: &str,
        from: &str,
        at: Station,
        token: &[u8],
        reason: &str,
    ) -> Result<(), Trouble> {
        let mut options = options(self.line, self.workplace, from, at)?;
        options.login = Login::ThisToken(Zeroizing::new(token.to_vec()));
        let wanted = refused_activation(from);
        let seen = self.connect(options).await;
        self.judge(what, "Bad_IdentityTokenRejected", &seen, (wanted, reason)).await
    }

    /// What a client sees that tries to connect.
    async fn connect(&self, options: client::ClientOptions) -> String {
        match Client::connect(options).await {
            Ok(client) => {
                client.close().await;
                "let in".into()
            }
            Err(ClientError::Refused(status)) => name(status),
            Err(error) => error.to_string(),
        }
    }

    /// Notes what was seen and whether the ledger has the reason.
    async fn judge(
        &mut self,
        what: &str,
        code: &str,
        seen: &str,
        (wanted, reason): (Wanted<'_>, &str),
    ) -> Result<(), Trouble> {
        let found = self.witness.reason(&wanted, reason, seen == code).await?;
        let (expected, found) = (format!("{code}, audited as {reason}"), format!("{seen}, audited as {found}"));
        self.report.check("attack", what, &expected, &found);
        Ok(())
    }

    /// The hmi's own computer is under foreign control: an activation that was meant for one session is sent in another.
    async fn replay(&mut self, what: &str, part: Part, token: &[u8], reason: &str) -> Result<(), Trouble> {
        let uri = station_uri(Station::Mixer);
        let address = self.line.station(Station::Mixer)?.handle.address();
        let config = ClientChannelConfig {
            policy: SecurityPolicyId::Aes256Sha256RsaPss,
            mode: MessageSecurityMode::SignAndEncrypt,
            identity: Some(Arc::clone(&self.workplace.party(HMI)?.identity)),
            server_certificate: Some(Arc::clone(&self.workplace.party(&uri)?.identity.certificate)),
            trust: Some(Arc::clone(&self.workplace.trust)),
            server_uri: Some(uri),
            ..ClientChannelConfig::unprotected(format!("opc.tcp://{address}"))
        };
        let token = Zeroizing::new(token.to_vec());
        let wanted = refused_activation(HMI);
        let replayed = tokio::task::spawn_blocking(move || replayed(address, Arc::new(config), part, &token)).await;
        let seen = replayed.map_err(|error| Trouble::setup("the replay", error))?;
        let seen = seen.map_err(|error| Trouble::setup("the replay", error))?;
        let code = match part {
            Part::Secret => "Bad_IdentityTokenInvalid",
            Part::Signature => "Bad_ApplicationSignatureInvalid",
        };
        let seen = if seen.is_good() { "let in".to_owned() } else { name(seen) };
        self.judge(what, code, &seen, (wanted, reason)).await
    }

    async fn stranger(&mut self) -> Result<(), Trouble> {
        let mut options = options(self.line, self.workplace, STRANGER, Station::Mixer)?;
        options.login = Login::ThisToken(Zeroizing::new(b"a.b.c".to_vec()));
        let wanted = Wanted::from_now(&["channel_opened"], "denied", "");
        let seen = self.connect(options).await;
        let refused = if seen.contains("BadSecurityChecksFailed") { "Bad_SecurityChecksFailed" } else { &seen };
        let wanted = (wanted, "certificate_untrusted");
        self.judge("an untrusted certificate", "Bad_SecurityChecksFailed", refused, wanted).await
    }

    /// The right person in the wrong step, then in the right step with a value beyond the range.
    async fn step_and_range(&mut self) -> Result<(), Trouble> {
        let olga = Actor::enter(self.line, self.workplace, &CAST[0]).await?;
        let client = olga.client(Station::Mixer)?;
        let wanted = refused_speed();
        let seen = attempt(client, SPEED, Act::Write(240.0)).await?;
        let what = "olga's set point while the line is idle";
        self.judge(what, "Bad_UserAccessDenied", &seen, (wanted, "right_missing")).await?;
        self.line.fire("start", Step::Charge).await?;
        let wanted = Wanted { outcome: "allowed", ..refused_speed() };
        let seen = attempt(client, SPEED, Act::Write(240.0)).await?;
        let known = if self.witness.find(&wanted).await?.is_some() { "audited" } else { "not audited" };
        let found = format!("{seen}, {known}");
        self.report.check("attack", "the same in the step charge", "allowed, audited", &found);
        let wanted = refused_speed();
        let seen = attempt(client, SPEED, Act::Write(5_000.0)).await?;
        let what = "a set point of 5000, the range ends at 1500";
        self.judge(what, "Bad_OutOfRange", &seen, (wanted, "value_out_of_range")).await?;
        olga.leave().await;
        Ok(())
    }

    /// Connections that never say who they are, more than the server lets stand; a client is served meanwhile.
    async fn storm(&mut self) -> Result<(), Trouble> {
        let address = self.line.station(Station::Reactor)?.handle.address();
        let mut storm = Vec::new();
        let wanted = Wanted::from_now(&["channel_opened"], "denied", "");
        for _ in 0..STORM {
            if let Ok(mut stream) = TcpStream::connect(address).await {
                let _closed_already = stream.write_all(b"HELF").await;
                storm.push(Idle { stream, heard: Vec::new() });
            }
        }
        let seen = match Actor::enter(self.line, self.workplace, &CAST[1]).await {
            Ok(petra) => {
                let client = petra.client(Station::Reactor)?;
                let seen = attempt(client, "Reactor.Measurements.Temperature", Act::Read).await?;
                petra.leave().await;
                seen
            }
            Err(shut_out) => format!("shut out ({})", shut_out.0),
        };
        let what = format!("a client that connects amid {STORM} connections that never speak");
        self.report.check("attack", &what, "allowed", &seen);
        let (end, too_many) = (Instant::now() + PATIENCE, STORM - MAX_HALF_OPEN);
        let mut told = 0;
        while told < too_many && Instant::now() < end {
            told = storm.iter_mut().map(Idle::turned_away).filter(|told| *told).count();
            tokio::time::sleep(PAUSE).await;
        }
        let enough = told >= too_many;
        let told = told as u64;
        let known = self.witness.count(&wanted, "too_busy", told).await?;
        let seen = if enough { "Bad_TcpServerTooBusy".into() } else { format!("{told} turned away") };
        let counted = if known >= told { "too_busy".into() } else { format!("too_busy only {known} of {told} times") };
        let (expected, found) = ("Bad_TcpServerTooBusy, audited as too_busy", format!("{seen}, audited as {counted}"));
        self.report.check("attack", "those of them that are too many", expected, &found);
        Ok(())
    }
}

/// A refused activation over a channel of this application.
fn refused_activation(application: &str) -> Wanted<'_> {
    Wanted { application: Some(application), ..Wanted::from_now(&["session_activated"], "denied", "") }
}

/// Olga's refused write of the mixer's speed.
fn refused_speed() -> Wanted<'static> {
    let objects = vec![node_id(SPEED).to_string()];
    Wanted { application: Some(HMI), objects, ..Wanted::from_now(&["write"], "denied", "olga") }
}

/// A connection that never says who it is.
struct Idle {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Idle {
    /// Whether the server has ended this connection by now with the word that it has too many.
    fn turned_away(&mut self) -> bool {
        let mut part = [0_u8; 64];
        while let Ok(count @ 1..) = self.stream.try_read(&mut part) {
            self.heard.extend(part.iter().take(count));
        }
        let busy = StatusCode::BadTcpServerTooBusy.bits().to_le_bytes();
        self.heard.starts_with(b"ERRF") && self.heard.get(8..12) == Some(&busy)
    }
}
