//! Clients without a token: what the authority is asked, and what becomes of what it gave.

use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason, Refusal, Thumbprint};
use opcua_types::{ActivateSessionResponse, ExtensionObject, StatusCode, Variant};
use pep::{GrantRequest, Identity, Who};

use super::keys::{CLIENT, OTHER, SERVER, USER};
use super::world::*;
use crate::server::{AskId, AskSecret, ConnId, EndpointSecurity, FetchedGrant, Identities, Input, OnBare, Secret};

const LIFE: Duration = Duration::from_secs(100);

fn secret(text: &str) -> Secret {
    Secret(text.as_bytes().to_vec().into())
}

fn asking() -> Setup {
    Setup { ask: true, local: Vec::new(), ..Setup::default() }
}

/// What a client is, and what is asked about it.
struct Asked {
    conn: ConnId,
    login: Login,
    activation: u32,
    id: AskId,
    request: GrantRequest,
    secret: Option<AskSecret>,
}

impl World {
    /// A client that shows `identity`, until the authority is asked.
    fn ask_for(
        &mut self,
        security: EndpointSecurity,
        identity: impl FnOnce(&World, ConnId, &Login) -> ExtensionObject,
    ) -> Asked {
        let conn = self.connect(security);
        let login = self.create(conn);
        let identity = identity(self, conn, &login);
        let request = self.activation(conn, &login, identity);
        let activation = self.send(conn, &request);
        let (id, request, secret) = self.asked.pop().expect("the shell is asked");
        Asked { conn, login, activation, id, request, secret }
    }

    fn carol(&mut self) -> Asked {
        self.ask_for(ENCRYPT, |world, conn, login| world.user(conn, login, "carol", "her password"))
    }

    fn grant_for(&self, life: Duration, bound_to: Thumbprint, renewal: Option<&str>) -> FetchedGrant {
        let mut claims = self.claims(life);
        claims.subject = "carol".into();
        claims.id = token::new_id(&mut token::SystemEntropy::new());
        claims.confirmation = Some(bound_to);
        let token = Secret(token::mint(&claims, &super::keys::ISSUER).unwrap().as_bytes().to_vec().into());
        FetchedGrant { token, renewal: renewal.map(secret), own: Some(SERVER.certificate.thumbprint()) }
    }

    fn fetched(&mut self, id: AskId, result: Result<FetchedGrant, Refusal>) {
        self.input(Input::Fetched { id, result });
    }

    fn answered(&mut self, asked: &Asked) -> Option<Result<(), StatusCode>> {
        self.answer::<ActivateSessionResponse>(asked.conn, asked.activation).map(|answer| answer.map(drop))
    }

    /// Carol's session, under a grant of this life.
    fn carols(&mut self, renewal: Option<&str>) -> Asked {
        let mut asked = self.carol();
        let grant = self.grant_for(LIFE, CLIENT.certificate.thumbprint(), renewal);
        self.fetched(asked.id, Ok(grant));
        let answer = self.answer::<ActivateSessionResponse>(asked.conn, asked.activation).expect("an answer");
        asked.login.nonce = answer.expect("she is in").server_nonce;
        asked
    }

    fn may_read(&mut self, asked: &Asked) -> bool {
        self.read_one(asked.conn, &asked.login, "Setpoint") == Ok(Variant::from(20.0))
    }
}

#[test]
fn the_authority_is_asked_with_what_was_proven_and_with_the_password_that_was_not() {
    let client = Some(CLIENT.certificate.thumbprint());
    let mut world = asking().start();
    let by_name = world.carol();
    assert_eq!(by_name.request.identity, Identity::User { name: "carol".into() });
    assert_eq!((by_name.request.binding.certificate, by_name.request.audience.as_str()), (client, "urn:test:server"));
    let password = |secret: &Option<AskSecret>| match secret {
        Some(AskSecret::Password(secret)) => Some(secret.0.to_vec()),
        _ => None,
    };
    assert_eq!(password(&by_name.secret), Some(b"her password".to_vec()));
    assert!(!format!("{:?}", by_name.secret).contains("her"), "a secret is not printed");

    let anonymous = world.ask_for(ENCRYPT, |_, _, _| super::ask::anonymous());
    assert_eq!((anonymous.request.identity, anonymous.secret.is_none()), (Identity::Anonymous, true));
    let bare = world.ask_for(BARE, |_, _, _| super::ask::anonymous());
    assert_eq!((bare.request.binding.certificate, bare.request.binding.encrypted), (None, false));

    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let forged = world.activate_x509(conn, &mut login, &OTHER, None);
    assert!(forged.is_err() && world.asked.is_empty(), "nobody is asked about a certificate that is not trusted");
}

#[test]
fn whoever_has_rights_here_is_not_asked_about() {
    let local = vec![grant(Who::User("alice".into()), alice())];
    let mut world = Setup { ask: true, local, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    assert!(world.asked.is_empty() && world.read_one(conn, &login, "Setpoint").is_ok());
}

#[test]
fn what_was_fetched_is_held_against_the_channel() {
    let (client, other) = (CLIENT.certificate.thumbprint(), OTHER.certificate.thumbprint());
    let own = SERVER.certificate.thumbprint();
    for (rule, security, bound_to, good) in [
        ("bound to the client", ENCRYPT, client, true),
        ("bound to another client", ENCRYPT, other, false),
        ("bound to ourselves though the client has a certificate", ENCRYPT, own, false),
        ("bound to ourselves for a client without a certificate", BARE, own, true),
        ("bound to a client for one without a certificate", BARE, client, false),
    ] {
        let mut world = asking().start();
        let asked = world.ask_for(security, |_, _, _| super::ask::anonymous());
        let grant = world.grant_for(LIFE, bound_to, None);
        world.fetched(asked.id, Ok(grant));
        let answer = world.answered(&asked).expect("an answer");
        assert_eq!(answer, if good { Ok(()) } else { Err(StatusCode::BadIdentityTokenRejected) }, "{rule}");
        assert_eq!(world.may_read(&asked), good, "{rule}");
    }
}

#[test]
fn a_refusal_is_told_and_recorded_and_an_answer_too_late_changes_nothing() {
    for (reason, status) in [
        (Reason::UserCredentials, StatusCode::BadUserAccessDenied),
        (Reason::PolicyNoPermit, StatusCode::BadIdentityTokenRejected),
        (Reason::AuthorityLost, StatusCode::BadIdentityTokenRejected),
        (Reason::TooBusy, StatusCode::BadTcpServerTooBusy),
    ] {
        let mut world = asking().start();
        let asked = world.carol();
        world.fetched(asked.id, Err(Refusal::new(reason, "no")));
        assert_eq!(world.answered(&asked), Some(Err(status)), "{reason:?}");
        assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(reason));
        assert!(!world.may_read(&asked));
    }
    let mut setup = asking();
    setup.limits.request_timeout = Duration::from_secs(20);
    let mut world = setup.start();
    let asked = world.carol();
    world.pass(Duration::from_secs(21));
    assert_eq!(world.answered(&asked), Some(Err(StatusCode::BadTimeout)));
    let grant = world.grant_for(LIFE, CLIENT.certificate.thumbprint(), None);
    world.fetched(asked.id, Ok(grant));
    assert!(!world.may_read(&asked));
}

/// What is granted by observing alone goes to those of whom the authority says that policies grant them nothing.
#[test]
fn observing_lets_in_whom_policies_grant_nothing_and_nobody_else() {
    type Shown = fn(&World, ConnId, &Login) -> ExtensionObject;
    let carol: Shown = |world, conn, login| world.user(conn, login, "carol", "her password");
    let anonymous: Shown = |_, _, _| super::ask::anonymous();
    for (who, shown) in [("carol", carol), ("anonymous", anonymous)] {
        for (reason, observed) in [
            (Reason::PolicyNoPermit, true),
            (Reason::UnknownClient, false),
            (Reason::UserCredentials, false),
            (Reason::IdentityNotAccepted, false),
            (Reason::AuthorityLost, false),
            (Reason::TokenRevoked, false),
            (Reason::TooBusy, false),
        ] {
            let mut world = Setup { observes: true, ..asking() }.start();
            let asked = world.ask_for(ENCRYPT, shown);
            world.fetched(asked.id, Err(Refusal::new(reason, "no")));
            let answer = world.answered(&asked).expect("an answer");
            assert_eq!((answer.is_ok(), world.may_read(&asked)), (observed, observed), "{who}: {reason:?}");
        }
    }
}

#[test]
fn asks_are_bounded_and_nobody_waits_for_another() {
    let mut setup = asking();
    setup.limits.max_asks = 2;
    let mut world = setup.start();
    let first = world.carol();
    let second = world.carol();
    let conn = world.connect(ENCRYPT);
    let login = world.create(conn);
    let identity = world.user(conn, &login, "carol", "her password");
    let request = world.activation(conn, &login, identity);
    let refused = world.ask::<_, ActivateSessionResponse>(conn, &request);
    assert_eq!(refused.err(), Some(StatusCode::BadTcpServerTooBusy));
    assert!(world.asked.is_empty());
    let grant = world.grant_for(LIFE, CLIENT.certificate.thumbprint(), None);
    world.fetched(second.id, Ok(grant));
    assert_eq!(world.answered(&second), Some(Ok(())), "the first is still being asked about");
    assert!(world.may_read(&second) && world.answered(&first).is_none());
    world.carol();
}

#[test]
fn a_grant_goes_on_without_its_client() {
    let mut world = asking().start();
    let carol = world.carols(Some("one"));
    world.pass(LIFE * 4 / 5 - Duration::from_secs(1));
    assert!(world.asked.is_empty());
    world.pass(Duration::from_secs(2));
    let (id, request, renewal) = world.asked.pop().expect("the next is asked for after four fifths");
    assert!(matches!(&renewal, Some(AskSecret::Renewal(secret)) if &*secret.0 == b"one"), "and without the password");
    assert_eq!(request, carol.request);
    assert!(world.may_read(&carol), "nothing waits for it");
    let next = world.grant_for(LIFE, CLIENT.certificate.thumbprint(), Some("two"));
    world.fetched(id, Ok(next));
    world.pass(LIFE / 2);
    assert!(world.may_read(&carol), "the first grant would be over");
    assert_eq!(world.outcomes(AuditKind::TokenRefreshed), [Outcome::Allowed]);
    world.pass(LIFE);
    assert!(matches!(world.asked.pop(), Some((_, _, Some(AskSecret::Renewal(secret)))) if &*secret.0 == b"two"));
    assert!(!world.may_read(&carol), "nothing came: it is over");
}

#[test]
fn an_authority_that_is_away_is_asked_again_and_one_that_refuses_is_not() {
    for (reason, again) in [(Reason::AuthorityLost, true), (Reason::UserCredentials, false)] {
        let mut world = asking().start();
        let carol = world.carols(Some("one"));
        world.pass(LIFE * 4 / 5);
        let (id, ..) = world.asked.pop().expect("the next is asked for");
        world.fetched(id, Err(Refusal::new(reason, "no")));
        assert_eq!(world.outcomes(AuditKind::TokenRefreshed), [Outcome::Denied(reason)]);
        assert!(world.may_read(&carol), "it lives until its end");
        world.pass(Duration::from_secs(10));
        assert_eq!(world.asked.pop().is_some(), again, "{reason:?}");
        world.pass(Duration::from_secs(15));
        assert!(!world.may_read(&carol));
    }
}

#[test]
fn what_comes_for_another_login_or_subject_is_of_no_use() {
    let mut world = asking().start();
    world.carols(Some("one"));
    world.pass(LIFE * 4 / 5);
    let (old, ..) = world.asked.pop().expect("the next is asked for");
    let mut claims = world.claims(LIFE);
    claims.rights = None;
    claims.subject = "mallory".into();
    let token = Secret(token::mint(&claims, &super::keys::ISSUER).unwrap().as_bytes().to_vec().into());
    world.fetched(old, Ok(FetchedGrant { token, renewal: None, own: None }));
    assert_eq!(world.outcomes(AuditKind::TokenRefreshed), [Outcome::Denied(Reason::TokenSubject)]);

    // She logs in anew while the next grant is on its way: what belongs to the old login changes nothing.
    let mut world = asking().start();
    let carol = world.carols(Some("one"));
    world.pass(LIFE * 4 / 5);
    let (old, ..) = world.asked.pop().expect("the next is asked for");
    let request = world.activation(carol.conn, &carol.login, super::ask::anonymous());
    let activation = world.send(carol.conn, &request);
    let (new, ..) = world.asked.pop().expect("the authority is asked about the new login");
    let grant = world.grant_for(LIFE / 10, CLIENT.certificate.thumbprint(), None);
    world.fetched(new, Ok(grant));
    world.answer::<ActivateSessionResponse>(carol.conn, activation).unwrap().unwrap();
    let stale = world.grant_for(LIFE, CLIENT.certificate.thumbprint(), Some("stale"));
    world.fetched(old, Ok(stale));
    assert!(world.may_read(&carol));
    world.pass(LIFE / 10 + Duration::from_secs(1));
    assert!(!world.may_read(&carol), "the new grant is over, and the stale one is nobody's");
}

#[test]
fn what_is_taken_over_a_channel_without_security() {
    let all = |on_bare| Identities { on_bare, ..asking().identities };
    for (rule, on_bare, name, user) in [
        ("everything", OnBare::Any, true, true),
        ("anonymous", OnBare::Anonymous, false, false),
        ("anonymous and names", OnBare::AnonymousAndUserName, true, false),
    ] {
        let mut world = Setup { identities: all(on_bare), ..Setup::default() }.start();
        let (conn, _) = (world.connect(BARE), ());
        let mut login = world.create(conn);
        world.activate(conn, &mut login, super::ask::anonymous()).unwrap_or_else(|error| panic!("{rule}: {error}"));
        let identity = world.user(conn, &login, "alice", "alice-password");
        assert_eq!(world.activate(conn, &mut login, identity).is_ok(), name, "{rule}");
        assert_eq!(world.activate_x509(conn, &mut login, &USER, None).is_ok(), user, "{rule}");
        let mut protected = world.connect(ENCRYPT);
        let mut login = world.create(protected);
        let identity = world.user(protected, &login, "alice", "alice-password");
        assert!(world.activate(protected, &mut login, identity).is_ok(), "{rule}");
        protected = world.connect(ENCRYPT);
        let mut login = world.create(protected);
        assert!(world.activate_x509(protected, &mut login, &USER, None).is_ok(), "{rule}");
    }
}
