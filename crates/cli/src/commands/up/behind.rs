//! The server behind a guard: its endpoints are asked for until it answers, one is chosen as configured, and its
//! certificate is pinned. What the server offers can change; what the guard accepts cannot.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use gates::opcua::client as tcp;
use gates::opcua::guard::GuardHandle;
use opcua_types::{EndpointDescription, MessageSecurityMode};
use tokio::sync::oneshot;
use ua_proto::channel::Expected;
use ua_proto::client::{
    ClientApplication, ClientSessionConfig, Credential, EndpointChoice, EndpointWish, choose_endpoint,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::UpstreamIdentity;
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use zeroize::Zeroizing;

use super::health::Reach;
use super::listen;
use crate::commands::own::Own;
use crate::config::{Guard, Upstream, UpstreamSecurity, UpstreamUser};
use crate::failure::Failure;
use crate::files;

/// How long it may take to list its endpoints.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause while it was never reached, and once it was: its endpoints may become others.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How a guard reaches its server.
pub(crate) struct Way {
    name: String,
    uri: String,
    pub(crate) url: String,
    /// How a connection to it comes about.
    reached: tcp::Way,
    security: UpstreamSecurity,
    /// The ApplicationUri that it must have, if that is configured.
    server_uri: Option<String>,
    /// The one certificate that it may have.
    pinned: Option<Arc<Certificate>>,
    trust: SharedTrust,
    identity: Arc<ArcSwap<OwnIdentity>>,
    /// Who the guard is there, the most special first; without a role for all others.
    users: Vec<(Option<String>, Credential)>,
}

impl Way {
    pub(crate) fn of(role: &Guard, own: &Own, identity: Arc<ArcSwap<OwnIdentity>>) -> Result<Self, Failure> {
        let upstream = &role.upstream;
        let pinned = upstream.certificate.as_deref().map(certificate).transpose()?;
        Ok(Self {
            name: role.name.clone(),
            uri: own.uri()?,
            url: upstream.url.as_str().to_owned(),
            reached: tcp::Way::Dial,
            security: upstream.security,
            server_uri: upstream.server_uri.as_ref().map(|uri| uri.as_str().to_owned()),
            trust: pinned.as_ref().map_or_else(|| Arc::clone(&own.trust), |pinned| only(pinned, own)),
            pinned,
            identity,
            users: users(upstream)?,
        })
    }

    /// The same way with connections that come about so.
    pub(super) fn reached(self, reached: tcp::Way) -> Self {
        Self { reached, ..self }
    }

    /// Which endpoint of those that it lists each user goes to.
    pub(crate) fn choose(&self, endpoints: &[EndpointDescription]) -> Result<Vec<EndpointChoice>, String> {
        let shown = its_own(endpoints, self.server_uri.as_deref(), self.pinned.as_deref())?;
        let choose = |(_, credential): &(Option<String>, Credential)| {
            let wish = EndpointWish { identities: vec![credential.kind()], ..wish(self.security) };
            choose_endpoint(&shown, &wish).map_err(|error| error.to_string())
        };
        self.users.iter().map(choose).collect()
    }

    fn identities(&self, endpoints: &[EndpointDescription], choices: &[EndpointChoice]) -> Vec<UpstreamIdentity> {
        let application =
            ClientApplication { uri: self.uri.clone(), product_uri: "urn:trapkey".to_owned(), name: self.name.clone() };
        // A certificate that was pinned needs no name; one of a CA may be another machine's.
        let host =
            gates::opcua::client::address(&self.url).ok().map(|(host, _)| host).filter(|_| self.pinned.is_none());
        let session = |choice: &EndpointChoice| ClientSessionConfig {
            discovered: Some(Arc::new(endpoints.to_vec())),
            identity: Some(self.identity.load_full()),
            trust: Some(Arc::clone(&self.trust)),
            server_uri: self.server_uri.clone(),
            host: host.clone(),
            session_name: format!("guard {}", self.name),
            ..ClientSessionConfig::new(&self.url, choice.clone(), application.clone())
        };
        let all = self.users.iter().zip(choices);
        all.map(|((role, credential), choice)| UpstreamIdentity {
            role: role.clone(),
            session: Arc::new(session(choice)),
            credential: credential.clone(),
        })
        .collect()
    }
}

/// The endpoints that have what is configured of the server.
fn its_own(
    endpoints: &[EndpointDescription],
    uri: Option<&str>,
    pinned: Option<&Certificate>,
) -> Result<Vec<EndpointDescription>, String> {
    let named = |one: &&EndpointDescription| uri.is_none_or(|uri| one.server.application_uri.as_ref() == uri);
    let same = |one: &&EndpointDescription| pinned.is_none_or(|pinned| one.server_certificate.as_ref() == pinned.der());
    if !endpoints.is_empty() && !endpoints.iter().any(|one| named(&one)) {
        return Err("it has another ApplicationUri than `upstream.server_uri`".to_owned());
    }
    let shown: Vec<_> = endpoints.iter().filter(named).filter(same).cloned().collect();
    if shown.is_empty() && !endpoints.is_empty() {
        return Err("it has another certificate than `upstream.certificate`".to_owned());
    }
    Ok(shown)
}

/// How connections to the server behind a guard come about: the guard dials, or waits for calls.
pub(super) fn reached(upstream: &Upstream) -> Result<tcp::Way, Failure> {
    let (Some(address), Some(uri)) = (upstream.listen, &upstream.server_uri) else { return Ok(tcp::Way::Dial) };
    let expected = Expected { server_uri: uri.as_str().to_owned(), endpoint_url: upstream.url.as_str().to_owned() };
    let callers = tcp::Callers::listen(listen(address)?, vec![expected])
        .map_err(|error| Failure::unavailable(format!("cannot listen at {address}")).because_of(Some(&error)))?;
    Ok(tcp::Way::Called(callers.of(0)))
}

/// Tells a guard how to reach its server, whenever that is another way than before.
pub(super) async fn find(way: Way, guard: GuardHandle, first: oneshot::Sender<bool>, reach: Reach) {
    let mut known = None;
    let mut said = None;
    let mut first = Some(first);
    loop {
        let found = match tcp::endpoints_over(&way.reached, &way.url, PATIENCE).await {
            Ok(endpoints) => way.choose(&endpoints).map(|choices| (endpoints, choices)),
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok((endpoints, choices)) => {
                let new = (choices, way.identity.load().certificate.thumbprint());
                if known.as_ref() != Some(&new) {
                    let identities = way.identities(&endpoints, &new.0);
                    if guard.with(move |guard, now| guard.reach(identities, now)).await.is_err() {
                        return;
                    }
                    tracing::info!(guard = way.name, upstream = way.url, "the server behind the guard is known");
                    known = Some(new);
                }
                if said.take().is_some() {
                    tracing::info!(guard = way.name, upstream = way.url, "the server behind the guard answers again");
                }
                reach.set(None);
                if guard.with(|guard, _| guard.upstream_answers()).await.is_err() {
                    return;
                }
            }
            Err(cause) => {
                if said.as_ref() != Some(&cause) {
                    tracing::warn!(
                        guard = way.name,
                        upstream = way.url,
                        cause,
                        "the server behind the guard is not known"
                    );
                }
                reach.set(Some(cause.clone()));
                said = Some(cause);
            }
        }
        if let Some(first) = first.take() {
            let _nobody_waits = first.send(known.is_some());
        }
        let rested = if known.is_some() && said.is_none() { rest(&guard).await } else { nap(&guard).await };
        if !rested {
            return;
        }
    }
}

/// Waits for the next look at a server that answers: shorter when the guard finds it out of reach. False once the guard
/// has stopped.
async fn rest(guard: &GuardHandle) -> bool {
    for _ in 0..LOOK.1.as_secs() / LOOK.0.as_secs() {
        if !nap(guard).await {
            return false;
        }
        match guard.with(|guard, _| guard.upstream_trouble()).await {
            Ok(None) => {}
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
    }
    true
}

async fn nap(guard: &GuardHandle) -> bool {
    tokio::select! {
        () = guard.stopped() => false,
        () = tokio::time::sleep(LOOK.0) => true,
    }
}

/// Waits until the guard has looked at its server, if that is there at all.
pub(super) async fn looked_at(guard: &GuardHandle, first: oneshot::Receiver<bool>) {
    let looked = async {
        while guard.with(|guard, _| guard.is_mapped()).await == Ok(false) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if first.await == Ok(true) {
        let _not_yet = tokio::time::timeout(PATIENCE, looked).await;
    }
}

/// Who the guard is there, the most special first.
fn users(upstream: &config::Upstream) -> Result<Vec<(Option<String>, Credential)>, Failure> {
    let mut users = Vec::new();
    for one in &upstream.role {
        users.push((Some(one.role.clone()), credential(&one.user)?));
    }
    users.push((None, upstream.user.as_ref().map_or(Ok(Credential::Anonymous), credential)?));
    Ok(users)
}

fn wish(security: UpstreamSecurity) -> EndpointWish {
    let (policies, mode) = match security {
        UpstreamSecurity::SignAndEncrypt => (EndpointWish::default().policies, MessageSecurityMode::SignAndEncrypt),
        UpstreamSecurity::Sign => (EndpointWish::default().policies, MessageSecurityMode::Sign),
        UpstreamSecurity::None => (vec![SecurityPolicyId::None], MessageSecurityMode::None),
    };
    EndpointWish { policies, modes: vec![mode], ..EndpointWish::default() }
}

/// Nothing but this certificate is trusted; who signed and revoked it is what the guard's folder says.
fn only(pinned: &Arc<Certificate>, own: &Own) -> SharedTrust {
    let known = own.trust.load();
    let issuers = known.trusted.iter().chain(&known.issuers).cloned().collect();
    let crls = own.store.load().map(|list| list.crls).unwrap_or_default();
    let settings = known.settings;
    Arc::new(ArcSwap::from_pointee(TrustList { trusted: vec![Arc::clone(pinned)], issuers, crls, settings }))
}

fn certificate(path: &Path) -> Result<Arc<Certificate>, Failure> {
    gates::pki::certificate(path).map(Arc::new).map_err(|error| Failure::from_error(&error).into_bad_input())
}

fn credential(user: &UpstreamUser) -> Result<Credential, Failure> {
    if let (Some(name), Some(file)) = (&user.name, &user.password_file) {
        let text = files::private_text(file)?;
        let password = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
        return Ok(Credential::UserName { name: name.clone(), password });
    }
    if let (Some(certificate), Some(key)) = (&user.certificate, &user.key) {
        let identity = gates::pki::identity(certificate, key);
        let identity = identity.map_err(|error| Failure::from_error(&error).into_bad_input())?;
        return Ok(Credential::Certificate(Arc::new(identity)));
    }
    Err(Failure::bad_input("a user of an upstream server has neither name and `password_file` nor certificate and key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(upstream: &str) -> Guard {
        let text = format!(
            "[plant]\nfile = \"a\"\npolicies = \"b\"\n[[guard]]\nname = \"press\"\nlisten = \"127.0.0.1:1\"\n\
             upstream = {{ url = \"opc.tcp://10.0.0.7:4840\", {upstream} }}\n"
        );
        ::config::read(&text, &::config::Overrides::default()).unwrap().guard.remove(0)
    }

    fn put(path: &Path, text: &[u8]) {
        gates::pki::write_private(path, text).unwrap();
    }

    #[test]
    fn only_endpoints_of_the_configured_server_are_taken() {
        let application = gates::pki::make::Application::local("press", "urn:press");
        let made = gates::pki::make::self_signed(&application, gates::clock::now().unix).unwrap();
        let pinned = Certificate::from_der(&made.der).unwrap();
        let endpoint = |uri: &str, certificate: &[u8]| {
            let mut one = EndpointDescription::default();
            one.server.application_uri = uri.into();
            one.server_certificate = certificate.to_vec().into();
            one
        };
        let (press, other) = (endpoint("urn:press", &made.der), endpoint("urn:other", &made.der));
        let forged = endpoint("urn:press", b"another");
        let taken = |endpoints: &[&EndpointDescription], uri, pinned| {
            let endpoints: Vec<EndpointDescription> = endpoints.iter().copied().cloned().collect();
            its_own(&endpoints, uri, pinned).map(|shown| shown.len())
        };
        let uri = Some("urn:press");
        for (rule, endpoints, uri, pinned, expected) in [
            ("nothing is configured", &[&press, &other][..], None, None, Ok(2)),
            ("of the name", &[&press, &other], uri, None, Ok(1)),
            ("another name", &[&other], uri, None, Err("`upstream.server_uri`")),
            ("another name with the certificate", &[&other], uri, Some(&pinned), Err("`upstream.server_uri`")),
            ("the name with another certificate", &[&forged], uri, Some(&pinned), Err("`upstream.certificate`")),
            ("both", &[&press, &forged, &other], uri, Some(&pinned), Ok(1)),
        ] {
            match (taken(endpoints, uri, pinned), expected) {
                (Ok(taken), Ok(expected)) => assert_eq!(taken, expected, "{rule}"),
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{rule}: {said}"),
                (taken, _) => panic!("{rule}: {taken:?}"),
            }
        }
    }

    #[test]
    fn a_guard_is_upstream_who_and_how_the_configuration_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let application = gates::pki::make::Application::local("gateway", "urn:gateway");
        let made = gates::pki::make::self_signed(&application, gates::clock::now().unix).unwrap();
        put(&file("gw.der"), &made.der);
        put(&file("gw.pem"), made.key_pem.as_bytes());
        put(&file("ops"), b"secret\n");
        let named = format!("user = {{ name = \"gateway\", password_file = {:?} }}", file("ops").display().to_string());
        let shown = format!(
            "user = {{ certificate = {:?}, key = {:?} }}",
            file("gw.der").display().to_string(),
            file("gw.pem").display().to_string()
        );
        let operators = named.replace("gateway", "operators");
        let who = |guard: &Guard| -> Vec<(Option<String>, String)> {
            let name = |credential: &Credential| match credential {
                Credential::Anonymous => "nobody".to_owned(),
                Credential::UserName { name, password } => format!("{name}:{}", password.as_str()),
                Credential::Certificate(own) => own.certificate.application_uri().unwrap_or_default().to_owned(),
                Credential::Issued(_) => "token".to_owned(),
            };
            users(&guard.upstream).unwrap().iter().map(|(role, one)| (role.clone(), name(one))).collect()
        };
        for (upstream, expected) in [
            ("security = \"none\"".to_owned(), vec![(None, "nobody")]),
            (named.clone(), vec![(None, "gateway:secret")]),
            (shown, vec![(None, "urn:gateway")]),
            (
                format!("{named}, role = [{{ role = \"operator\", {operators} }}]"),
                vec![(Some("operator"), "operators:secret"), (None, "gateway:secret")],
            ),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(role, name)| (role.map(str::to_owned), name.to_owned())).collect();
            assert_eq!(who(&guard(&upstream)), expected, "{upstream}");
        }
        for (security, mode, bare) in [
            ("sign_and_encrypt", MessageSecurityMode::SignAndEncrypt, false),
            ("sign", MessageSecurityMode::Sign, false),
            ("none", MessageSecurityMode::None, true),
        ] {
            let wish = wish(guard(&format!("security = \"{security}\"")).upstream.security);
            assert_eq!((wish.modes, wish.policies == [SecurityPolicyId::None]), (vec![mode], bare), "{security}");
        }
    }
}
