//! CreateSession and ActivateSession: every identity, and every way to get one wrong (facts sections 4 and 5.2).

use std::time::Duration;

use access_model::{AuditKind, Reason};
use opcua_types::*;

use super::ask::*;
use super::keys::*;
use super::world::*;
use crate::crypto::{SecurityPolicyId, encrypt_legacy_secret, seal_rsa_secret, tally};
use crate::server::{FetchedGrant, Input, Secret, TokenForm};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn every_identity_logs_in_on_every_endpoint_that_lists_it() {
    for policy in SecurityPolicyId::ALL.into_iter().filter(|policy| !policy.is_ecc()) {
        let modes: &[MessageSecurityMode] = match policy {
            SecurityPolicyId::None => &[MessageSecurityMode::None],
            _ => &[MessageSecurityMode::Sign, MessageSecurityMode::SignAndEncrypt],
        };
        for mode in modes {
            let endpoint = (policy, *mode);
            let mut world = Setup { endpoints: vec![endpoint], ..Setup::default() }.start();
            let conn = world.connect(endpoint);
            let mut login = world.create(conn);
            world.activate(conn, &mut login, anonymous()).unwrap();
            let user = world.user(conn, &login, "alice", "alice-password");
            world.activate(conn, &mut login, user).unwrap();
            assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)), "{endpoint:?}");
            world.activate_x509(conn, &mut login, &USER, None).unwrap();
            assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)), "{endpoint:?}");
        }
    }
}

#[test]
fn a_token_logs_in_clear_legacy_and_as_encrypted_secret() {
    let mut world = World::new();
    let token = world.token(HOUR);
    let (conn, mut login) = world.log_in_by_token(&token);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)));

    let algorithms = POLICY.algorithms();
    let key = SERVER.certificate.key();
    let legacy = encrypt_legacy_secret(algorithms, key, token.as_bytes(), login.nonce.as_ref()).unwrap();
    let identity = issued("jwt_Basic256Sha256", legacy, algorithms.encryption_uri());
    world.activate(conn, &mut login, identity).unwrap();

    let mut entropy = ::token::SystemEntropy::new();
    let now = world.now.unix;
    let nonce = login.nonce.clone();
    let sealed =
        seal_rsa_secret(POLICY, &SERVER.certificate, token.as_bytes(), nonce.as_ref(), now, &mut entropy).unwrap();
    world.activate(conn, &mut login, issued("jwt_Basic256Sha256", sealed, "")).unwrap();
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)));
    assert_eq!(world.outcomes(AuditKind::TokenRefreshed).len(), 2);
}

#[test]
fn a_secret_that_does_not_fit_is_refused_before_any_decryption() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    world.hold_jobs = true;
    for (name, bytes, algorithm) in [
        ("33 blocks", vec![1_u8; 256 * 33], ""),
        ("no whole block", vec![1; 255], ""),
        ("nothing", Vec::new(), ""),
        ("an elliptic curve's", vec![0x01, 0x00, 0x8a, 0x44, 0x01, 0, 0, 0, 0], ""),
    ] {
        let refused = world.activate(conn, &mut login, issued("jwt_Basic256Sha256", bytes, algorithm));
        assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid), "{name}");
        assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::TokenSecret), "{name}");
    }
    assert!(world.held_jobs.is_empty(), "no private-key operation was asked for");
}

#[test]
fn a_secret_counts_with_the_last_nonce_only() {
    let mut world = World::new();
    let token = world.token(HOUR);
    let (conn, mut login) = world.log_in_by_token(&token);
    let algorithms = POLICY.algorithms();
    let wrong = [9_u8; 32];
    let legacy = encrypt_legacy_secret(algorithms, SERVER.certificate.key(), token.as_bytes(), &wrong).unwrap();
    let identity = issued("jwt_Basic256Sha256", legacy, "");
    assert_eq!(world.activate(conn, &mut login, identity), Err(StatusCode::BadIdentityTokenInvalid));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::NonceMismatch));

    let mut entropy = ::token::SystemEntropy::new();
    let nonce = login.nonce.clone();
    let now = world.now.unix;
    let old = now + Duration::ZERO;
    let sealed = seal_rsa_secret(POLICY, &SERVER.certificate, token.as_bytes(), &wrong, old, &mut entropy).unwrap();
    let refused = world.activate(conn, &mut login, issued("jwt_Basic256Sha256", sealed, ""));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid));
    let future = now + Duration::from_secs(301);
    let sealed =
        seal_rsa_secret(POLICY, &SERVER.certificate, token.as_bytes(), nonce.as_ref(), future, &mut entropy).unwrap();
    let refused = world.activate(conn, &mut login, issued("jwt_Basic256Sha256", sealed, ""));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid), "made in the future");
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "the old grant is still there");
}

#[test]
fn tokens_in_clear_need_an_encrypted_channel() {
    let mut world = World::new();
    let token = world.token(HOUR);
    let conn = world.connect(SIGN);
    let mut login = world.create(conn);
    let refused = world.activate(conn, &mut login, clear_token(token.as_bytes()));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid));
    let conn = world.connect(BARE);
    let mut login = world.create(conn);
    let refused = world.activate(conn, &mut login, clear_token(token.as_bytes()));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenRejected), "no token has a place here");
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::IdentityNotAccepted));
}

#[test]
fn only_the_forms_that_are_offered_are_taken() {
    let mut setup = Setup::default();
    setup.identities.issued.as_mut().unwrap().forms = vec![TokenForm::EncryptedSecret, TokenForm::LegacyRsa];
    let mut world = setup.start();
    let token = world.token(HOUR);
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let refused = world.activate(conn, &mut login, clear_token(token.as_bytes()));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid));
}

/// The legacy form and EncryptedSecret come under one policy id, and are still switched apart.
#[test]
fn an_encrypted_token_comes_only_in_the_forms_that_are_taken() {
    let legacy = TokenForm::LegacyRsa;
    let secret = TokenForm::EncryptedSecret;
    for (forms, legacy_taken, secret_taken) in
        [(vec![legacy], true, false), (vec![secret], false, true), (vec![secret, legacy], true, true)]
    {
        let mut setup = Setup::default();
        setup.identities.issued.as_mut().unwrap().forms = forms.clone();
        let mut world = setup.start();
        let token = world.token(HOUR);
        let conn = world.connect(ENCRYPT);
        let mut login = world.create(conn);
        let (nonce, now) = (login.nonce.clone(), world.now.unix);
        let key = SERVER.certificate.key();
        let old = encrypt_legacy_secret(POLICY.algorithms(), key, token.as_bytes(), nonce.as_ref()).unwrap();
        let taken = world.activate(conn, &mut login, issued("jwt_Basic256Sha256", old, ""));
        let expected = if legacy_taken { Ok(()) } else { Err(StatusCode::BadIdentityTokenInvalid) };
        assert_eq!(taken, expected, "legacy, {forms:?}");
        if !legacy_taken {
            assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::TokenSecret));
        }
        let (nonce, mut entropy) = (login.nonce.clone(), ::token::SystemEntropy::new());
        let new =
            seal_rsa_secret(POLICY, &SERVER.certificate, token.as_bytes(), nonce.as_ref(), now, &mut entropy).unwrap();
        let taken = world.activate(conn, &mut login, issued("jwt_Basic256Sha256", new, ""));
        let expected = if secret_taken { Ok(()) } else { Err(StatusCode::BadIdentityTokenInvalid) };
        assert_eq!(taken, expected, "EncryptedSecret, {forms:?}");
    }
}

#[test]
fn tokens_that_are_refused_and_how() {
    type Change = fn(&mut ::token::Claims);
    let cases: [(&str, Change, Reason); 6] = [
        ("other audience", |claims| claims.audience = "urn:else".into(), Reason::TokenAudience),
        ("expired by a second", |claims| claims.expires = claims.issued_at, Reason::TokenExpired),
        ("other issuer", |claims| claims.issuer = "else".into(), Reason::TokenIssuer),
        ("not bound", |claims| claims.confirmation = None, Reason::TokenUnbound),
        ("stolen", |claims| claims.confirmation = Some(OTHER.certificate.thumbprint()), Reason::TokenConfirmation),
        (
            "not yet valid",
            |claims| claims.not_before = claims.issued_at + Duration::from_secs(100),
            Reason::TokenNotYetValid,
        ),
    ];
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    for (name, change, reason) in cases {
        let mut claims = world.claims(HOUR);
        change(&mut claims);
        let token = mint(&claims, &ISSUER);
        world.now = world.now.after(Duration::from_secs(1));
        let refused = world.activate(conn, &mut login, clear_token(token.as_bytes()));
        assert_eq!(refused, Err(StatusCode::BadIdentityTokenRejected), "{name}");
        assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(reason), "{name}");
    }
    let forged = mint(&world.claims(HOUR), &STRANGER);
    let refused = world.activate(conn, &mut login, clear_token(forged.as_bytes()));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenRejected));
    for (name, bytes) in [("no token", b"hello".to_vec()), ("empty", Vec::new())] {
        let refused = world.activate(conn, &mut login, clear_token(&bytes));
        assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid), "{name}");
    }
    assert_eq!(
        world.read_one(conn, &login, "Setpoint"),
        Err(StatusCode::BadSessionNotActivated),
        "nobody is logged in"
    );
}

/// The longest token that is good in every respect.
fn longest_token(world: &World) -> ::token::SealedToken {
    let of = |padding| ::token::mint(&::token::Claims { padding, ..world.claims(HOUR) }, &ISSUER);
    let empty = of(1).unwrap().as_bytes().len();
    let mut padding = (::token::MAX_TOKEN_LEN - empty) / 4 * 3 - 8;
    while of(padding + 1).is_ok() {
        padding += 1;
    }
    of(padding).unwrap()
}

#[test]
fn a_token_of_256_kb_activates_and_one_that_is_longer_fails_for_its_size() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let longest = longest_token(&world);
    let shorter = world.claims(HOUR);
    assert!(longest.as_bytes().len() + 2 >= ::token::MAX_TOKEN_LEN);
    // One byte more and it fails for its length; a shorter token with the same fault fails for its signature.
    let spoilt = |token: &::token::SealedToken| [token.as_bytes(), b"AAAA"].concat();
    let mut refused = |token: &[u8]| world.activate(conn, &mut login, clear_token(token));
    let short = mint(&shorter, &ISSUER);
    assert_eq!(refused(&spoilt(&short)), Err(StatusCode::BadIdentityTokenRejected));
    assert_eq!(refused(&spoilt(&longest)), Err(StatusCode::BadIdentityTokenInvalid));
    world.activate(conn, &mut login, clear_token(longest.as_bytes())).unwrap();
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
}

#[test]
fn a_token_of_256_kb_comes_as_encrypted_secret_too_and_a_longer_one_is_refused() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let longest = longest_token(&world);
    let spoilt = |token: &[u8], more: usize| [token, &b"A".repeat(more)].concat();
    let short = mint(&world.claims(HOUR), &ISSUER);
    for (rule, token, expected, reason) in [
        (
            "spoilt",
            spoilt(short.as_bytes(), 4),
            Err(StatusCode::BadIdentityTokenRejected),
            Some(Reason::TokenSignature),
        ),
        ("one byte too long", spoilt(longest.as_bytes(), 4), Err(StatusCode::BadIdentityTokenInvalid), None),
        ("257 kB", spoilt(short.as_bytes(), 257 * 1_024), Err(StatusCode::BadIdentityTokenInvalid), None),
        ("as long as can be", longest.as_bytes().to_vec(), Ok(()), None),
    ] {
        let (nonce, mut entropy) = (login.nonce.clone(), ::token::SystemEntropy::new());
        let now = world.now.unix;
        let sealed = seal_rsa_secret(POLICY, &SERVER.certificate, &token, nonce.as_ref(), now, &mut entropy).unwrap();
        let answer = world.activate(conn, &mut login, issued("jwt_Basic256Sha256", sealed, ""));
        assert_eq!(answer, expected, "{rule}");
        if reason.is_some() {
            assert_eq!(world.last_reason(AuditKind::SessionActivated), reason, "{rule}");
        }
    }
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
}

#[test]
fn unknown_users_and_wrong_passwords_are_told_alike() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let mut work = Vec::new();
    for (name, password) in [("alice", "wrong"), ("mallory", "mallory-password"), ("nobody", "")] {
        let identity = world.user(conn, &login, name, password);
        tally::take();
        assert_eq!(world.activate(conn, &mut login, identity), Err(StatusCode::BadUserAccessDenied), "{name}");
        work.push(tally::take());
        assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::UserCredentials));
    }
    assert!(work[0].decryptions > 0 && work[0].verifications > 0, "{work:?}");
    assert!(work.windows(2).all(|pair| pair[0] == pair[1]), "the work differs: {work:?}");
    let records = format!("{:?}", world.records);
    assert!(!records.contains("mallory-password"), "no password enters a record");
}

#[test]
fn a_password_that_nobody_looked_at_is_not_called_wrong() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let identity = world.user(conn, &login, "hasty", "hasty-password");
    assert_eq!(world.activate(conn, &mut login, identity), Err(StatusCode::BadTcpServerTooBusy));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::TooBusy));
    let identity = world.user(conn, &login, "alice", "alice-password");
    world.activate(conn, &mut login, identity).unwrap();
}

#[test]
fn a_proven_user_without_rights_is_turned_away() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let identity = world.user(conn, &login, "carol", "carol-password");
    assert_eq!(world.activate(conn, &mut login, identity), Err(StatusCode::BadUserAccessDenied));
}

#[test]
fn identities_are_off_unless_configured() {
    let mut world = Setup { identities: Default::default(), ..Setup::default() }.start();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let token = world.token(HOUR);
    let user = world.user(conn, &login, "alice", "alice-password");
    for identity in [ExtensionObject::null(), anonymous(), user, clear_token(token.as_bytes())] {
        assert_eq!(world.activate(conn, &mut login, identity), Err(StatusCode::BadIdentityTokenRejected));
    }
}

#[test]
fn the_client_signature_is_always_checked() {
    for security in [SIGN, ENCRYPT] {
        let mut world = World::new();
        let conn = world.connect(security);
        let login = world.create(conn);
        let good = world.signature(conn, &login.nonce);
        let stale = world.signature(conn, &ByteString::from(vec![1_u8; 32]));
        let foreign = sign(&OTHER, POLICY, &login.nonce);
        let unnamed = SignatureData { algorithm: UAString::null(), ..good.clone() };
        for (name, signature) in [
            ("none", SignatureData::default()),
            ("stale", stale),
            ("another's", foreign),
            ("another algorithm", unnamed),
        ] {
            let mut request = world.activation(conn, &login, anonymous());
            request.client_signature = signature;
            let refused = world.ask::<_, ActivateSessionResponse>(conn, &request).err();
            assert_eq!(refused, Some(StatusCode::BadApplicationSignatureInvalid), "{name}");
            assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::ClientSignature), "{name}");
        }
        let mut request = world.activation(conn, &login, anonymous());
        request.client_signature = good;
        world.ask::<_, ActivateSessionResponse>(conn, &request).expect("a failed activation does no harm");
    }
}

#[test]
fn a_replayed_activation_is_worth_nothing() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let login = world.create(conn);
    let request = world.activation(conn, &login, anonymous());
    world.ask::<_, ActivateSessionResponse>(conn, &request).unwrap();
    let replayed = world.ask::<_, ActivateSessionResponse>(conn, &request).err();
    assert_eq!(replayed, Some(StatusCode::BadApplicationSignatureInvalid));
}

#[test]
fn user_certificates_must_be_trusted_and_sign_the_last_nonce() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let stale = ByteString::from(vec![3_u8; 32]);
    assert_eq!(world.activate_x509(conn, &mut login, &USER, Some(stale)), Err(StatusCode::BadUserSignatureInvalid));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::UserSignature));
    assert_eq!(world.activate_x509(conn, &mut login, &OTHER, None), Err(StatusCode::BadIdentityTokenRejected));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::CertificateUntrusted));
    let broken = ExtensionObject::new(X509IdentityToken {
        policy_id: "certificate_Basic256Sha256".into(),
        certificate_data: ByteString::from(vec![1, 2, 3]),
    });
    assert_eq!(world.activate(conn, &mut login, broken), Err(StatusCode::BadIdentityTokenInvalid));
    assert_eq!(world.activate_x509(conn, &mut login, &USER, None), Ok(()));
}

#[test]
fn tokens_of_no_known_kind_or_policy_are_invalid() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    let wrong_policy = ExtensionObject::new(AnonymousIdentityToken { policy_id: "else".into() });
    let wrong_kind = ExtensionObject::new(Argument::default());
    let nameless = ExtensionObject::new(UserNameIdentityToken {
        policy_id: "username_Basic256Sha256".into(),
        ..UserNameIdentityToken::default()
    });
    for identity in [wrong_policy, wrong_kind, nameless] {
        assert_eq!(world.activate(conn, &mut login, identity), Err(StatusCode::BadIdentityTokenInvalid));
    }
}

#[test]
fn create_session_holds_the_client_to_its_channel() {
    type Change = fn(&mut CreateSessionRequest);
    let cases: [(&str, Change, StatusCode); 5] = [
        (
            "another certificate",
            |request| request.client_certificate = ByteString::from(OTHER.certificate.der().to_vec()),
            StatusCode::BadCertificateInvalid,
        ),
        (
            "no certificate",
            |request| request.client_certificate = ByteString::null(),
            StatusCode::BadCertificateInvalid,
        ),
        ("a short nonce", |request| request.client_nonce = ByteString::from(vec![1; 31]), StatusCode::BadNonceInvalid),
        ("a long nonce", |request| request.client_nonce = ByteString::from(vec![1; 129]), StatusCode::BadNonceInvalid),
        (
            "another ApplicationUri",
            |request| request.client_description.application_uri = OTHER_URI.into(),
            StatusCode::BadCertificateUriInvalid,
        ),
    ];
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    for (name, change, expected) in cases {
        assert_eq!(world.try_create(conn, change).err(), Some(expected), "{name}");
        assert!(world.last_reason(AuditKind::SessionCreated).is_some(), "{name}");
    }
    assert_eq!(world.server.load().1, 0);
}

#[test]
fn an_unprotected_channel_is_for_discovery_unless_offered() {
    let mut world = Setup { endpoints: vec![ENCRYPT], ..Setup::default() }.start();
    let conn = world.connect(BARE);
    assert!(world.ask::<_, GetEndpointsResponse>(conn, &GetEndpointsRequest::default()).is_ok());
    assert_eq!(world.try_create(conn, |_| {}).err(), Some(StatusCode::BadSecurityPolicyRejected));
}

#[test]
fn a_client_without_a_token_can_have_one_fetched() {
    let mut world = Setup { ask: true, ..Setup::default() }.start();
    let conn = world.connect(ENCRYPT);
    let login = world.create(conn);
    let identity = world.user(conn, &login, "carol", "carol-password");
    let request = world.activation(conn, &login, identity);
    let pending = world.send(conn, &request);
    assert!(world.answer::<ActivateSessionResponse>(conn, pending).is_none());
    let (asked, ..) = world.asked.pop().expect("the shell is asked");
    let token = Secret(world.token(HOUR).as_bytes().to_vec().into());
    world.input(Input::Fetched { id: asked, result: Ok(FetchedGrant { token, renewal: None, own: None }) });
    world.answer::<ActivateSessionResponse>(conn, pending).unwrap().unwrap();
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)));
}

#[test]
fn one_activation_at_a_time() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.hold_jobs = true;
    let request = world.activation(conn, &login, anonymous());
    let first = world.send(conn, &request);
    let second = world.send(conn, &request);
    let refused = world.answer::<ActivateSessionResponse>(conn, second);
    assert_eq!(refused.unwrap().err(), Some(StatusCode::BadTooManyOperations));
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "requests are not delayed by an activation");
    let job = world.held_jobs.pop_front().unwrap();
    world.finish(job);
    world.run();
    assert!(world.answer::<ActivateSessionResponse>(conn, first).unwrap().is_ok());
}
