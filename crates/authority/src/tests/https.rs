//! OAuth2, AuthZEN, discovery, administration.

use access_model::{Rights, Thumbprint};
use base64::Engine as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use token::{Algorithm, Claims, Issuer, Signer, mint};
use tokio::io::AsyncWriteExt as _;

use super::world::*;

const CREDENTIALS: (&str, &str) = ("grant_type", "client_credentials");

#[tokio::test]
async fn a_client_with_its_certificate_gets_a_bound_token() {
    let world = World::new().await;
    let (status, body) = world.token(Some(&world.controller), &[CREDENTIALS, ("audience", REACTOR)]).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["refresh_token"], Value::Null, "RFC 6749 §4.4.3");
    assert_eq!(body["expires_in"], 3_600);
    let claims = world.verify(&body["access_token"], REACTOR).await.unwrap();
    assert_eq!(claims.confirmation, Some(world.controller.thumbprint));
    assert_eq!(claims.subject, CONTROLLER);
    assert_eq!(claims.roles, ["recipe_control"]);
    let rights = claims.rights.as_ref().unwrap();
    let valves = world.position(REACTOR, "valves").0;
    let held =
        rights.entries.iter().find(|(_, scopes)| scopes.iter().any(|one| one == valves)).map(|(rights, _)| *rights);
    assert!(held.unwrap().contains(Rights::WRITE | Rights::CALL | Rights::BROWSE));
    assert!(world.verify(&body["access_token"], MIXER).await.is_err(), "another server");
    assert!(world.audited("token_issued", "allowed", &claims.id).await);
}

#[tokio::test]
async fn whoever_is_not_known_gets_nothing_and_one_answer() {
    let world = World::new().await;
    let form = [CREDENTIALS, ("audience", MIXER)];
    let with = |more: &[(&'static str, &'static str)]| [&form[..], more].concat();
    let mut answers = Vec::new();
    for (rule, identity, form) in [
        ("no certificate", None, with(&[])),
        ("a stranger's certificate", Some(&world.stranger), with(&[])),
        ("another client's id", Some(&world.hmi), with(&[("client_id", CONTROLLER)])),
        ("unknown client with a secret", None, with(&[("client_id", "urn:nobody"), ("client_secret", SECRET)])),
        ("wrong secret", None, with(&[("client_id", HMI), ("client_secret", "wrong")])),
        ("a client without secret", None, with(&[("client_id", CONTROLLER), ("client_secret", SECRET)])),
    ] {
        let (status, body) = world.token(identity, &form).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{rule}: {body}");
        answers.push(body);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let denied = world.audit().await.iter().filter(|one| one.reason.as_deref() == Some("unknown_client")).count();
    assert_eq!(denied, 6);
}

#[tokio::test]
async fn a_secret_binds_to_the_registered_certificate() {
    let world = World::new().await;
    let form = [CREDENTIALS, ("audience", MIXER), ("client_id", HMI), ("client_secret", SECRET)];
    // The application holds no role of its own: authenticated, and denied by policy.
    let (status, body) = world.token(None, &form).await;
    assert_eq!((status, &body["error"]), (StatusCode::FORBIDDEN, &json!("access_denied")));
    let exchange = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", crate::PASSWORD),
        ("subject_token", SECRET),
        ("username", "olga"),
        ("audience", MIXER),
        ("client_id", HMI),
        ("client_secret", SECRET),
    ];
    let (status, body) = world.token(None, &exchange).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let claims = world.verify(&body["access_token"], MIXER).await.unwrap();
    assert_eq!(claims.confirmation, Some(world.hmi.thumbprint));
    // A certificate that is not the client's own is no help.
    let (status, _) = world.token(Some(&world.stranger), &exchange).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn persons_exchange_a_password_and_failures_look_alike() {
    let world = World::new().await;
    let (status, body) = world.olga().await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["issued_token_type"], "urn:ietf:params:oauth:token-type:access_token");
    let claims = world.verify(&body["access_token"], MIXER).await.unwrap();
    assert_eq!((claims.subject.as_str(), claims.client.as_deref()), ("olga", Some(HMI)));
    assert_eq!(claims.groups, ["shift-a"]);
    let wrong = world.person("olga", "wrong", MIXER).await;
    let unknown = world.person("nobody", SECRET, MIXER).await;
    let no_password = world.person("petra", SECRET, MIXER).await;
    assert_eq!(wrong.0, StatusCode::BAD_REQUEST);
    assert_eq!(wrong, unknown);
    assert_eq!(wrong, no_password);
    let mut olga = world.user("olga", vec![], Some(crate::hash_secret(SECRET).unwrap()));
    olga.enabled = false;
    world.authority.db().put_user(&olga).await.unwrap();
    assert_eq!(world.olga().await, wrong, "disabled");
}

#[tokio::test]
async fn an_identity_providers_token_is_exchanged_when_it_is_meant_for_us() {
    let provider = Signer::generate(Algorithm::Rs256).unwrap();
    let issuer = Issuer { name: "https://idp".into(), keys: vec![provider.public()], require_confirmation: false };
    let world = World::with(|config| config.identity_issuers = vec![issuer]).await;
    let now = world.authority.now().unix;
    let subject = |audience: &str, name: &str| {
        let claims = Claims {
            issuer: "https://idp".into(),
            subject: name.into(),
            audience: audience.into(),
            expires: now + std::time::Duration::from_secs(60),
            not_before: now,
            issued_at: now,
            id: "x".into(),
            client: None,
            confirmation: None,
            roles: vec!["emergency".into()],
            groups: vec![],
            rights: None,
            epoch: access_model::Epoch(0),
            padding: 0,
        };
        mint(&claims, &provider).unwrap().as_str().to_owned()
    };
    let us = world.authority.config().issuer.clone();
    for (rule, audience, name, want) in [
        ("ours", us.as_str(), "petra", StatusCode::OK),
        ("another audience", MIXER, "petra", StatusCode::BAD_REQUEST),
        ("a person the plant does not know", us.as_str(), "mallory", StatusCode::FORBIDDEN),
    ] {
        let subject = subject(audience, name);
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
            ("subject_token", subject.as_str()),
            ("audience", MIXER),
        ];
        let (status, body) = world.token(Some(&world.hmi), &form).await;
        assert_eq!(status, want, "{rule}: {body}");
        if status == StatusCode::OK {
            let claims = world.verify(&body["access_token"], MIXER).await.unwrap();
            assert_eq!(claims.roles, ["observer", "process_engineer"], "roles are the plant's, not the provider's");
        }
    }
}

#[tokio::test]
async fn a_refresh_token_works_once_and_for_its_certificate() {
    let world = World::new().await;
    let refresh = |secret: &str| [("grant_type", "refresh_token".to_owned()), ("refresh_token", secret.to_owned())];
    let go = async |identity: &Identity, secret: &str| {
        let form = refresh(secret);
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        world.token(Some(identity), &form).await
    };
    let first = world.olga().await.1;
    let (status, second) = go(&world.hmi, first["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    assert_eq!(world.verify(&second["access_token"], MIXER).await.unwrap().subject, "olga");
    // Used again: the whole line ends, the newest member too.
    let (status, body) = go(&world.hmi, first["refresh_token"].as_str().unwrap()).await;
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
    let (status, _) = go(&world.hmi, second["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);

    let third = world.olga().await.1;
    let (status, _) = go(&world.controller, third["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "another certificate");
    let (status, _) = go(&world.hmi, third["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "and it took the family with it");
    let fourth = world.olga().await.1;
    world.seconds.fetch_add(9 * 3_600, std::sync::atomic::Ordering::SeqCst);
    let (status, _) = go(&world.hmi, fourth["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "over");
    assert!(world.audited("token_refreshed", "denied", "another certificate").await);
}

#[tokio::test]
async fn broken_glass_needs_a_reason_is_boxed_and_loud() {
    let world = World::new().await;
    let ask = async |name: &str, reason: &str| {
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", crate::PASSWORD),
            ("subject_token", SECRET),
            ("username", name),
            ("audience", MIXER),
            ("break_glass_reason", reason),
        ];
        world.token(Some(&world.hmi), &form).await
    };
    let (status, body) = ask("sasha", "mixer runs away").await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["refresh_token"], Value::Null, "not refreshed, explained again");
    assert!(body["expires_in"].as_u64().unwrap() <= 900);
    assert!(world.audited("break_glass", "allowed", "mixer runs away").await);
    assert_eq!(ask("sasha", "oops").await.0, StatusCode::FORBIDDEN, "no reason worth the name");
    assert_eq!(ask("olga", "mixer runs away").await.0, StatusCode::FORBIDDEN, "no such role");
}

#[tokio::test]
async fn bad_requests_are_said() {
    let world = World::new().await;
    for (rule, form, want) in [
        ("no grant type", vec![("audience", MIXER)], "invalid_request"),
        ("unknown grant type", vec![("grant_type", "password")], "unsupported_grant_type"),
        ("no audience", vec![CREDENTIALS], "invalid_request"),
        ("unknown audience", vec![CREDENTIALS, ("audience", "urn:x")], "invalid_target"),
        ("twice", vec![CREDENTIALS, ("audience", MIXER), ("audience", REACTOR)], "invalid_request"),
        ("two targets", vec![CREDENTIALS, ("audience", MIXER), ("resource", REACTOR)], "invalid_request"),
        ("padding that is off", vec![CREDENTIALS, ("audience", MIXER), ("padding", "10")], "invalid_request"),
        ("no role left", vec![CREDENTIALS, ("audience", MIXER), ("scope", "emergency")], "access_denied"),
    ] {
        let (status, body) = world.token(Some(&world.controller), &form).await;
        assert!(status.is_client_error(), "{rule}");
        assert_eq!(body["error"], want, "{rule}: {body}");
    }
    let (status, _) = world.ask(Some(&world.controller), "POST", "/oauth2/token", Body::Json(json!({}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "no form");
    let long = "x".repeat(400 * 1_024);
    let (status, _) = world.token(Some(&world.controller), &[CREDENTIALS, ("audience", &long)]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn padding_lengthens_a_token_where_it_is_switched_on() {
    let world = World::with(|config| config.allow_padding = true).await;
    let form = [CREDENTIALS, ("audience", MIXER), ("padding", "100000")];
    let (status, body) = world.token(Some(&world.controller), &form).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body["access_token"].as_str().unwrap().len() > 100_000);
    assert!(world.verify(&body["access_token"], MIXER).await.is_ok());
}

#[tokio::test]
async fn discovery_names_what_there_is() {
    let world = World::new().await;
    let issuer = &world.authority.config().issuer;
    for path in ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"] {
        let (status, body) = world.ask(None, "GET", path, Body::None).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body["issuer"], issuer.as_str());
        assert_eq!(body["token_endpoint"], format!("{issuer}/oauth2/token"));
        assert_eq!(body["tls_client_certificate_bound_access_tokens"], true);
    }
}

#[tokio::test]
async fn keys_rotate_with_overlap() {
    let world = World::new().await;
    let before = world.olga().await.1;
    let (_, first) = world.ask(None, "GET", "/oauth2/jwks", Body::None).await;
    let (status, _) = world.ask(Some(&world.admin), "POST", "/admin/v1/keys/rotate", Body::None).await;
    assert_eq!(status, StatusCode::OK);
    let after = world.olga().await.1;
    let kid = |token: &Value| {
        let header = token.as_str().unwrap().split('.').next().unwrap();
        let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).unwrap();
        serde_json::from_slice::<Value>(&header).unwrap()["kid"].clone()
    };
    assert_ne!(kid(&before["access_token"]), kid(&after["access_token"]));
    let known = first["keys"].as_array().unwrap().iter().any(|key| key["kid"] == kid(&after["access_token"]));
    assert!(known, "the key that signs now was published before it signed");
    for token in [&before, &after] {
        assert!(world.verify(&token["access_token"], MIXER).await.is_ok());
    }
    world.seconds.fetch_add(25 * 3_600, std::sync::atomic::Ordering::SeqCst);
    let (_, last) = world.ask(None, "GET", "/oauth2/jwks", Body::None).await;
    assert_eq!(last["keys"].as_array().unwrap().len(), 2, "the old key is gone");
    let issued = token::VerifyingKey::from_certificate_der(&world.authority.service_certificate()).unwrap();
    assert_eq!(kid(&after["access_token"]), issued.kid(), "ServiceCertificate is the signing certificate");
}

#[tokio::test]
async fn authzen_answers_evaluators_only() {
    let world = World::new().await;
    let question = json!({
        "subject": { "type": "person", "id": "olga", "properties": { "application": HMI } },
        "action": { "name": "call" },
        "resource": { "type": "method", "id": "mixer/stop" },
    });
    let ask = async |identity: Option<&Identity>, body: Value| {
        world.ask(identity, "POST", "/access/v1/evaluation", Body::Json(body)).await
    };
    let (status, body) = ask(Some(&world.pep), question.clone()).await;
    assert_eq!((status, &body["decision"]), (StatusCode::OK, &json!(true)), "{body}");
    assert_eq!(body["context"]["policies"], json!(["operators-stop-any-time"]));
    assert_eq!(ask(None, question.clone()).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(Some(&world.hmi), question.clone()).await.0, StatusCode::FORBIDDEN);
    for (rule, pointer, value) in [
        ("unknown action", "/action/name", "fly"),
        ("unknown subject type", "/subject/type", "robot"),
        ("no server", "/resource/id", "mixer"),
    ] {
        let mut broken = question.clone();
        *broken.pointer_mut(pointer).unwrap() = value.into();
        assert_eq!(ask(Some(&world.pep), broken).await.0, StatusCode::BAD_REQUEST, "{rule}");
    }
    let mut stranger = question.clone();
    stranger["subject"]["id"] = "mallory".into();
    let (status, body) = ask(Some(&world.pep), stranger).await;
    assert_eq!((status, &body["decision"]), (StatusCode::OK, &json!(false)));
    assert!(world.audited("decision", "denied", "mallory").await);

    let many = |semantic: &str| {
        let item = |action: &str| json!({ "action": { "name": action } });
        json!({
            "subject": question["subject"], "resource": question["resource"],
            "evaluations": [item("call"), item("write"), item("browse")],
            "options": { "evaluations_semantic": semantic },
        })
    };
    for (semantic, want) in [
        ("execute_all", vec![true, false, true]),
        ("deny_on_first_deny", vec![true, false]),
        ("permit_on_first_permit", vec![true]),
    ] {
        let (status, body) =
            world.ask(Some(&world.pep), "POST", "/access/v1/evaluations", Body::Json(many(semantic))).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let got: Vec<bool> =
            body["evaluations"].as_array().unwrap().iter().map(|one| one["decision"].as_bool().unwrap()).collect();
        assert_eq!(got, want, "{semantic}");
    }
}

#[tokio::test]
async fn authzen_answers_with_the_request_id_it_was_asked_with() {
    let world = World::new().await;
    let ask = async |identity: &Identity, path: &str, id: Option<&str>| {
        let request = Request::post(path).header("host", "localhost");
        let request = id.into_iter().fold(request, |request, id| request.header("X-Request-ID", id));
        let request = request.body(Full::<Bytes>::from("x")).unwrap();
        let response = world.send(Some(identity), request).await;
        let id = response.headers().get("x-request-id").map(|id| id.to_str().unwrap().to_owned());
        (response.status(), id)
    };
    let (one, id) = ("/access/v1/evaluation", Some("bfe9eb29-ab87"));
    let same = id.map(str::to_owned);
    for (rule, identity, path, status) in [
        ("a question that is none", &world.pep, one, StatusCode::BAD_REQUEST),
        ("several", &world.pep, "/access/v1/evaluations", StatusCode::BAD_REQUEST),
        ("no evaluator", &world.hmi, one, StatusCode::FORBIDDEN),
    ] {
        assert_eq!(ask(identity, path, id).await, (status, same.clone()), "{rule}");
    }
    assert_eq!(ask(&world.pep, one, None).await.1, None, "none was asked with");
    assert_eq!(ask(&world.pep, "/oauth2/token", id).await.1, None, "no AuthZEN");
}

#[tokio::test]
async fn administration_needs_its_role() {
    let world = World::new().await;
    for (method, path) in [
        ("GET", "/admin/v1/tokens"),
        ("DELETE", "/admin/v1/tokens/x"),
        ("POST", "/admin/v1/workflow/fire"),
        ("POST", "/admin/v1/reload"),
        ("POST", "/admin/v1/keys/rotate"),
        ("GET", "/admin/v1/workflow"),
    ] {
        assert_eq!(world.ask(None, method, path, Body::None).await.0, StatusCode::UNAUTHORIZED, "{method} {path}");
        let (status, body) = world.ask(Some(&world.hmi), method, path, Body::None).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
        let sentence = "`urn:trapkey:demo:hmi` has no role; this needs the role `administrator`";
        assert_eq!(body, json!({ "error": "policy_no_permit", "error_description": sentence }), "{method} {path}");
    }
}

#[tokio::test]
async fn tokens_are_listed_issued_and_revoked_by_hand() {
    let world = World::new().await;
    let admin = Some(&world.admin);
    let wanted = json!({ "application": HMI, "audience": MIXER, "person": "olga" });
    let (status, made) = world.ask(admin, "POST", "/admin/v1/tokens", Body::Json(wanted)).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let claims = world.verify(&made["access_token"], MIXER).await.unwrap();
    assert_eq!(claims.confirmation, Some(world.hmi.thumbprint));
    let (_, list) = world.ask(admin, "GET", "/admin/v1/tokens?subject=olga&live=true", Body::None).await;
    assert_eq!(list["tokens"][0]["id"], made["id"]);
    assert_eq!(list["tokens"][0]["flow"], "administration");
    let path = format!("/admin/v1/tokens/{}?reason=lost%20laptop", made["id"].as_str().unwrap());
    let (status, body) = world.ask(admin, "DELETE", &path, Body::None).await;
    assert_eq!((status, &body["already"]), (StatusCode::OK, &json!(false)));
    let (_, body) = world.ask(admin, "DELETE", &path, Body::None).await;
    assert_eq!(body["already"], true);
    let (_, list) = world.ask(admin, "GET", "/admin/v1/tokens?live=true", Body::None).await;
    assert_eq!(list["tokens"], json!([]));
    assert_eq!(world.ask(admin, "DELETE", "/admin/v1/tokens/none", Body::None).await.0, StatusCode::NOT_FOUND);
    assert!(world.audited("token_revoked", "allowed", "lost laptop").await);
    let unknown = json!({ "application": "urn:trapkey:demo:dashboard", "audience": MIXER, "person": "olga" });
    let (status, _) = world.ask(admin, "POST", "/admin/v1/tokens", Body::Json(unknown)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "no registered certificate");
}

#[tokio::test]
async fn no_token_and_no_secret_enters_the_audit() {
    let world = World::new().await;
    let body = world.olga().await.1;
    world.person("olga", "a wrong but secret password", MIXER).await;
    let audit = format!("{:?}", world.audit().await);
    for secret in
        [body["access_token"].as_str().unwrap(), body["refresh_token"].as_str().unwrap(), SECRET, "secret password"]
    {
        assert!(!audit.contains(secret));
    }
    assert!(audit.contains("olga"));
}

#[tokio::test]
async fn nothing_is_issued_that_cannot_be_recorded() {
    let world = World::new().await;
    world.ledger.close().await;
    let (status, body) = world.olga().await;
    assert_eq!((status, &body["error"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("temporarily_unavailable")));
}

#[tokio::test]
async fn a_certificate_of_the_plant_file_is_as_good_as_a_registered_one() {
    let folder = tempfile::tempdir().unwrap();
    let pinned = Identity::new("urn:pinned");
    let mut texts = texts();
    let Thumbprint(_) = pinned.thumbprint;
    texts.plant += &format!(
        "[[application]]\nuri = \"urn:pinned\"\nroles = [\"recipe_control\"]\nthumbprint = \"{}\"\n",
        pinned.thumbprint
    );
    let world = World::open(folder, crate::PolicySource::Texts(texts), |_| {}).await;
    let (status, body) = world.token(Some(&pinned), &[CREDENTIALS, ("audience", MIXER)]).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(world.verify(&body["access_token"], MIXER).await.unwrap().subject, "urn:pinned");
}

#[tokio::test]
async fn a_revoked_token_is_not_refreshed() {
    let world = World::new().await;
    let refresh = async |secret: &Value| {
        let form = [("grant_type", "refresh_token"), ("refresh_token", secret.as_str().unwrap())];
        world.token(Some(&world.hmi), &form).await
    };
    let revoke = async |token: &Value| {
        let id = world.verify(token, MIXER).await.unwrap().id.clone();
        let path = format!("/admin/v1/tokens/{id}?reason=lost");
        assert_eq!(world.ask(Some(&world.admin), "DELETE", &path, Body::None).await.0, StatusCode::OK);
    };
    let first = world.olga().await.1;
    revoke(&first["access_token"]).await;
    assert_eq!(refresh(&first["refresh_token"]).await.0, StatusCode::BAD_REQUEST);

    let first = world.olga().await.1;
    let (status, second) = refresh(&first["refresh_token"]).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    revoke(&first["access_token"]).await;
    assert_eq!(refresh(&second["refresh_token"]).await.0, StatusCode::BAD_REQUEST, "the whole line is over");
}

#[tokio::test]
async fn the_name_of_a_line_does_not_cut_it() {
    let world = World::new().await;
    let first = world.olga().await.1;
    let secret = first["refresh_token"].as_str().unwrap();
    let forged = format!("{}.AAAA", secret.split_once('.').unwrap().0);
    let form = |secret| [("grant_type", "refresh_token"), ("refresh_token", secret)];
    assert_eq!(world.token(Some(&world.controller), &form(&forged)).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(world.token(Some(&world.hmi), &form(secret)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_peer_that_stalls_does_not_keep_its_place() {
    let world = World::with(|config| {
        config.connections = 1;
        config.patience = std::time::Duration::from_secs(1);
    })
    .await;
    let head = "POST /oauth2/token HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\ngrant";
    let many = "GET /oauth2/jwks HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200_000);
    for (rule, sent) in [("a body that never ends", head.to_owned()), ("answers that nobody reads", many)] {
        let mut stream = world.dial(None).await;
        let flood = async {
            let _cut_off = stream.write_all(sent.as_bytes()).await;
            std::future::pending::<()>().await;
        };
        // Whoever asks is to be served within a second too, and asks again when the computer stood still.
        let served = async { while world.ask(None, "GET", "/oauth2/jwks", Body::None).await.0 != StatusCode::OK {} };
        tokio::select! {
            () = flood => {}
            served = tokio::time::timeout(std::time::Duration::from_secs(60), served) => served.expect(rule),
        }
    }
}

#[tokio::test]
async fn a_denial_says_what_it_would_take() {
    let world = World::new().await;
    let (status, body) = world.token(Some(&world.hmi), &[CREDENTIALS, ("audience", MIXER)]).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let said = body["error_description"].as_str().unwrap().to_owned();
    assert!(
        said.starts_with("no policy permits `urn:trapkey:demo:hmi` anything on `urn:trapkey:demo:mixer`; "),
        "{said}"
    );
    assert!(said.contains("it would be allowed if ") || said.contains("the closest rule is "), "{said}");
    assert!(world.audited("token_issued", "denied", &said).await, "the same words in the audit");
    let question = json!({
        "subject": { "type": "application", "id": HMI },
        "action": { "name": "write" },
        "resource": { "type": "scope", "id": "mixer/setpoints" },
    });
    let (status, body) = world.ask(Some(&world.pep), "POST", "/access/v1/evaluation", Body::Json(question)).await;
    assert_eq!((status, &body["decision"]), (StatusCode::OK, &json!(false)), "{body}");
    let said = body["context"]["reason_admin"]["en"].as_str().unwrap();
    assert!(said.starts_with("no policy permits it; "), "{said}");
}

#[tokio::test]
async fn long_bodies_are_for_those_who_are_known() {
    let world = World::new().await;
    let long = "x".repeat(100_000);
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("subject_token", long.as_str()),
        ("audience", MIXER),
    ];
    assert_eq!(world.token(None, &form).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(world.token(Some(&world.stranger), &form).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(world.token(Some(&world.hmi), &form).await.0, StatusCode::BAD_REQUEST, "read, and refused as a token");
}

#[tokio::test]
async fn guessing_is_turned_away_and_recorded_before_it_costs_anything() {
    let world = World::new().await;
    let mut answers = Vec::new();
    for _ in 0..12 {
        answers.push(world.person("olga", "wrong", MIXER).await.0);
    }
    let (refused, crowded) = answers.split_at(10);
    assert!(refused.iter().all(|status| *status == StatusCode::BAD_REQUEST), "{answers:?}");
    assert!(crowded.iter().all(|status| *status == StatusCode::SERVICE_UNAVAILABLE), "{answers:?}");
    assert_eq!(world.person("olga", SECRET, MIXER).await.0, StatusCode::SERVICE_UNAVAILABLE, "until later");
    assert_eq!(world.person("sasha", SECRET, MIXER).await.0, StatusCode::OK, "nobody else");
    world.seconds.fetch_add(2, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(world.person("olga", SECRET, MIXER).await.0, StatusCode::OK);
    assert!(world.audited("token_issued", "denied", "too many failures of this account or address").await);
}

#[tokio::test]
async fn a_user_called_like_a_server_does_not_hear_its_updates() {
    let world = World::new().await;
    let user = world.user(REACTOR, vec![world.stranger.thumbprint], None);
    world.authority.db().put_user(&user).await.unwrap();
    let path = format!("/control/v1/updates?audience={REACTOR}");
    let (status, _) = world.ask(Some(&world.stranger), "GET", &path, Body::None).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_owner_of_a_server_learns_which_map_its_tokens_index() {
    let world = World::new().await;
    let path = format!("/control/v1/map?audience={MIXER}");
    for other in [Some(&world.hmi), Some(&world.stranger), None] {
        let (status, said) = world.ask(other, "GET", &path, Body::None).await;
        assert!(status != StatusCode::OK && said.get("map").is_none(), "{said}");
    }
    let (status, said) = world.ask(Some(&world.mixer), "GET", &path, Body::None).await;
    let map = world.authority.snapshot().plant().servers[MIXER].scope_map().unwrap();
    assert_eq!((status, said["map"].as_str()), (StatusCode::OK, Some(&*format!("{:?}", token::map_digest(&map)))));
}
