//! `trapkey doctor`: tries what has to work, and says of each thing whether it does.

mod guards;
mod zones;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use access_model::UnixTime;
use gates::https::Target;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::own::Own;
use super::policy::Texts;
use super::up::status::{ServerStatus, Status};
use super::{Common, block_on, configuration};
use crate::answer::{Answer, table};
use crate::config::{Config, Server};
use crate::failure::Failure;
use crate::files;

/// How long anything may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Tokens start to fail when clocks differ by more than the 60 s that `nbf` and `iat` are forgiven; `exp` is forgiven
/// nothing, so warn well before.
const OFFSET: i64 = 5;
/// A certificate that ends within this many days is a warning.
const SOON: i64 = 30;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Ok,
    Warning,
    Failed,
}

struct Finding {
    what: String,
    standing: Standing,
    detail: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, standing: Standing, what: impl Into<String>, detail: impl Into<String>) {
        self.0.push(Finding { what: what.into(), standing, detail: detail.into() });
    }
}

pub(crate) fn run(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let mut findings = Findings::default();
    files_of(&config, &mut findings);
    block_on(async {
        network(&config, &mut findings).await;
        Ok(())
    })?;
    Ok(report(&findings))
}

fn report(findings: &Findings) -> Answer {
    let word = |standing| match standing {
        Standing::Ok => "ok",
        Standing::Warning => "warning",
        Standing::Failed => "FAILED",
    };
    let row = |finding: &Finding| vec![word(finding.standing).to_owned(), finding.what.clone(), finding.detail.clone()];
    let rows: Vec<Vec<String>> = findings.0.iter().map(row).collect();
    let json: Vec<Value> = findings.0.iter().map(|finding| {
        json!({"what": finding.what, "standing": word(finding.standing).to_lowercase(), "detail": finding.detail})
    }).collect();
    let healthy = findings.0.iter().all(|finding| finding.standing != Standing::Failed);
    Answer::verdict(
        healthy,
        table(&["standing", "what", "detail"], &rows),
        json!({"healthy": healthy, "findings": json}),
    )
}

fn files_of(config: &Config, findings: &mut Findings) {
    let policies = configuration::problems(config)
        .and_then(|()| Texts::read(config.plant.clone()))
        .and_then(|texts| texts.snapshot())
        .and_then(|snapshot| configuration::known_servers(config, snapshot.plant()).map(|()| snapshot));
    match policies {
        Ok(snapshot) => {
            let detail = format!("{} policies, {} servers", snapshot.policies(), snapshot.plant().servers.len());
            findings.add(Standing::Ok, "plant and policies", detail);
            zones::look(config, snapshot.plant(), findings);
        }
        Err(failure) => findings.add(Standing::Failed, "plant and policies", failure.in_short()),
    }
    ledger(config, findings);
    let authority = config.authority.iter().map(|role| ("authority", &role.pki));
    let servers = config.server.iter().map(|role| (role.name.as_str(), &role.pki));
    let guards = config.guard.iter().map(|role| (role.name.as_str(), &role.pki));
    let servers = servers.chain(guards);
    let client = config.client.pki.iter().map(|folder| ("client", folder));
    for (name, folder) in authority.chain(servers).chain(client) {
        certificates(name, folder, findings);
    }
}

fn ledger(config: &Config, findings: &mut Findings) {
    let folder = &config.audit.ledger;
    if let Err(error) = files::writable(folder) {
        let detail = format!("`{}` cannot be written: {error}", folder.display());
        return findings.add(Standing::Failed, "audit ledger", detail);
    }
    if !files::exists(folder) {
        return findings.add(Standing::Ok, "audit ledger", "not begun yet");
    }
    match store::tail(folder, 1) {
        Ok(last) => {
            let detail = last.first().map_or_else(
                || "empty".to_owned(),
                |entry| format!("last record {} at {}", entry.sequence, store::rfc3339(entry.at)),
            );
            findings.add(Standing::Ok, "audit ledger", detail);
        }
        Err(error) => findings.add(Standing::Failed, "audit ledger", error.to_string()),
    }
}

fn certificates(name: &str, folder: &Path, findings: &mut Findings) {
    let what = format!("certificate of {name}");
    let own = match Own::load(folder) {
        Ok(own) => own,
        Err(failure) => return findings.add(Standing::Failed, what, failure.in_short()),
    };
    let now = gates::clock::now().unix;
    let (from, until) = (own.identity.certificate.not_before(), own.identity.certificate.not_after());
    let days = (until.as_seconds() - now.as_seconds()) / 86_400;
    let end = store::rfc3339(until);
    match () {
        () if now >= until => findings.add(Standing::Failed, what, format!("ended {end}")),
        () if now < from => findings.add(Standing::Failed, what, format!("begins {}", store::rfc3339(from))),
        () if days < SOON => findings.add(Standing::Warning, what, format!("ends in {days} days, {end}")),
        () => findings.add(Standing::Ok, what, format!("until {end}")),
    }
    let trust = own.trust.load();
    let what = format!("trust of {name}");
    if trust.trusted.is_empty() {
        findings.add(Standing::Warning, what, "trusts nobody");
    } else if trust.crls.is_empty() {
        findings.add(Standing::Warning, what, "has no revocation list: certificates of a CA will be refused");
    } else {
        findings.add(Standing::Ok, what, format!("{} certificates, {} lists", trust.trusted.len(), trust.crls.len()));
    }
}

async fn network(config: &Config, findings: &mut Findings) {
    if let Some(role) = &config.authority {
        port("authority HTTPS", role.https, findings).await;
        opcua_port("authority OPC UA", role.opcua, findings).await;
    }
    let Status { servers: running, guards, turns, .. } =
        Status::of(&config.audit.ledger, gates::clock::now().unix).unwrap_or_default();
    let snapshot = Texts::read(config.plant.clone()).and_then(|texts| texts.snapshot()).ok();
    for server in &config.server {
        let running = running.get(&server.name);
        clock_of(server, running, findings);
        if let Some(snapshot) = &snapshot {
            scopes(server, running, snapshot, findings).await;
        }
        opcua_port(&format!("{} OPC UA", server.name), server.listen, findings).await;
    }
    let of_guards: Vec<(String, String, &Path)> = config
        .guard
        .iter()
        .filter_map(|role| config.authority_of(role).map(|(https, opcua)| (https, opcua, role.pki.as_path())))
        .collect();
    for guard in &config.guard {
        match turns.get(&guard.name) {
            Some(turn) => guards::turn(&guard.name, turn, findings),
            None => port(&format!("{} OPC UA", guard.name), guard.listen, findings).await,
        }
        guards::mode(guard, guards.get(&guard.name), findings);
        guards::look(guard, findings).await;
    }
    let mut authorities: Vec<(&str, &Path)> =
        config.server.iter().map(|server| (server.authority.as_str(), server.pki.as_path())).collect();
    authorities.extend(of_guards.iter().map(|(https, _, pki)| (https.as_str(), *pki)));
    if let (Some(url), Some(pki)) = (&config.client.authority, &config.client.pki) {
        authorities.push((url, pki));
    }
    authorities.dedup_by_key(|(url, _)| *url);
    for (url, pki) in authorities {
        authority(url, pki, findings).await;
    }
    let mut urls: Vec<&str> = config.server.iter().map(|server| server.authority_opcua.as_str()).collect();
    urls.extend(of_guards.iter().map(|(_, opcua, _)| opcua.as_str()));
    urls.dedup();
    for url in urls {
        let found = client::endpoints(url, PATIENCE).await;
        match found {
            Ok(found) => findings.add(Standing::Ok, format!("reach {url}"), format!("{} endpoints", found.len())),
            Err(error) => findings.add(Standing::Warning, format!("reach {url}"), error.to_string()),
        }
    }
}

/// Whether the wall clock stepped back under a running server, which no token is prolonged by.
fn clock_of(server: &Server, running: Option<&ServerStatus>, findings: &mut Findings) {
    let what = format!("clock of {}", server.name);
    match running.map(|running| running.clock_behind) {
        None => {}
        Some(0) => findings.add(Standing::Ok, what, "has not stepped back since the server started"),
        Some(seconds) => {
            let detail = format!(
                "stepped back by {seconds} s: tokens that live shorter are refused; if it was wrong before and is right \
                 now, restart the server"
            );
            findings.add(Standing::Failed, what, detail);
        }
    }
}

/// Whether the authority's tokens index the scopes that the server has: by the running server's word, or by the plant file
/// that it would read.
async fn scopes(server: &Server, running: Option<&ServerStatus>, snapshot: &pdp::Snapshot, findings: &mut Findings) {
    let what = format!("scopes of {}", server.name);
    let Some((uri, known)) = snapshot.plant().server(&server.name) else { return };
    let in_file = known.scope_map().map(|map| format!("{:?}", token::map_digest(&map))).unwrap_or_default();
    let (whose, ours) = match running {
        Some(running) if running.map != in_file => {
            let detail = "the running server has other scopes than the plant file: its log says what does not fit";
            return findings.add(Standing::Failed, what, detail);
        }
        Some(running) => ("the running server", running.map.as_str()),
        None => ("the plant file", in_file.as_str()),
    };
    let asked = async {
        let target = Target::parse(&server.authority).map_err(|error| Failure::from_error(&error))?;
        let path = format!("/control/v1/map?audience={}", super::admin::percent(uri));
        let answer = Own::load(&server.pki)?.https()?.exchange(&target, "GET", &path, &[], Vec::new()).await;
        answer.map_err(|error| Failure::from_error(&error))
    };
    // Who does not answer at all is a finding of its own.
    let Ok(Ok((status, body))) = tokio::time::timeout(PATIENCE, asked).await else { return };
    let theirs = serde_json::from_slice::<Value>(&body).ok().and_then(|body| body["map"].as_str().map(str::to_owned));
    match theirs.filter(|_| status.is_success()) {
        Some(theirs) if theirs == ours => findings.add(Standing::Ok, what, "the authority has the same"),
        Some(_) => {
            let detail = format!(
                "the authority has others than {whose}, so its tokens are refused (scope_map_mismatch): give both the \
                 same plant file, then `trapkey policy reload`"
            );
            findings.add(Standing::Failed, what, detail);
        }
        None => findings.add(Standing::Warning, what, format!("the authority does not say: {status}")),
    }
}

/// A port for OPC UA is free to be taken, or an OPC UA server has it already.
async fn opcua_port(what: &str, address: SocketAddr, findings: &mut Findings) {
    if let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await
        && let Err(error) = client::endpoints(&format!("opc.tcp://{address}"), PATIENCE).await
    {
        let detail = format!("another program has the port, and it is no OPC UA server: {error}");
        return findings.add(Standing::Failed, format!("{what} at {address}"), detail);
    }
    port(what, address, findings).await;
}

/// A port of ours is free to be taken, or taken by something that answers.
async fn port(what: &str, address: SocketAddr, findings: &mut Findings) {
    let what = format!("{what} at {address}");
    if let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
        return findings.add(Standing::Ok, what, "something answers there");
    }
    match TcpListener::bind(address).await {
        Ok(_) => findings.add(Standing::Ok, what, "free"),
        Err(error) => findings.add(Standing::Failed, what, error.to_string()),
    }
}

/// Whether the authority answers over HTTPS, and how far its clock is from ours.
async fn authority(url: &str, pki: &Path, findings: &mut Findings) {
    let what = format!("reach {url}");
    let asked = async {
        let target = Target::parse(url).map_err(|error| Failure::from_error(&error))?;
        let https = Own::load(pki)?.https()?;
        let answer = https.open(&target, "GET", "/oauth2/jwks", &[], Vec::new()).await;
        let answer = answer.map_err(|error| Failure::from_error(&error))?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok()).and_then(http_date);
        Ok::<_, Failure>((answer.status(), date))
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok((status, date))) if status.is_success() => {
            findings.add(Standing::Ok, what, "answers");
            clock(url, date, findings);
        }
        Ok(Ok((status, _))) => findings.add(Standing::Failed, what, format!("answers {status}")),
        Ok(Err(failure)) => findings.add(Standing::Warning, what, failure.in_short()),
        Err(_) => findings.add(Standing::Warning, what, "does not answer"),
    }
}

fn clock(url: &str, date: Option<UnixTime>, findings: &mut Findings) {
    let what = format!("clock against {url}");
    let Some(date) = date else { return findings.add(Standing::Warning, what, "the authority gives no time") };
    let offset = date.as_seconds() - gates::clock::now().unix.as_seconds();
    let standing = if offset.abs() <= OFFSET { Standing::Ok } else { Standing::Failed };
    findings.add(standing, what, format!("{offset:+} s (to the second)"));
}

/// The Date of an HTTP answer (RFC 9110 section 5.6.7): `Sat, 21 Nov 2026 12:00:00 GMT`.
fn http_date(text: &str) -> Option<UnixTime> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, clock, "GMT"] = words.as_slice() else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|known| known == month)? + 1;
    let rfc3339 = format!("{year}-{month:02}-{day:0>2}T{clock}Z");
    let parsed = time::OffsetDateTime::parse(&rfc3339, &time::format_description::well_known::Rfc3339).ok()?;
    Some(UnixTime::from_seconds(parsed.unix_timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_told_before_tokens_fail() {
        let now = gates::clock::now().unix.as_seconds();
        for (offset, standing) in [(0, Standing::Ok), (3_600, Standing::Failed), (-3_600, Standing::Failed)] {
            let mut findings = Findings::default();
            clock("https://authority", Some(UnixTime::from_seconds(now + offset)), &mut findings);
            assert!(findings.0.len() == 1 && findings.0[0].standing == standing, "{offset}: {}", findings.0[0].detail);
        }
        let mut findings = Findings::default();
        clock("https://authority", None, &mut findings);
        assert!(findings.0[0].standing == Standing::Warning);
    }

    #[test]
    fn http_dates_are_read() {
        let read = http_date("Sat, 21 Nov 2026 11:59:59 GMT");
        assert_eq!(read, Some(UnixTime::from_seconds(1_795_262_399)));
        assert_eq!(http_date("Saturday, 21-Nov-26 11:59:59 GMT"), None);
    }
}
