//! Every identity on every kind of endpoint that takes it.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn every_identity_opens_a_session_wherever_the_server_takes_it() {
    for security in [ENCRYPT, SIGN, BARE] {
        for kind in ["anonymous", "user", "certificate", "token"] {
            let mut wire = Wire::new();
            let credential = match kind {
                "anonymous" => Credential::Anonymous,
                "user" => user("secret"),
                "certificate" => Credential::Certificate(USER.clone()),
                _ => token(wire.now, HOUR),
            };
            if kind == "token" && security == BARE {
                continue;
            }
            wire.connect(security, credential);
            wire.read().unwrap();
            wire.run();
            assert_eq!(wire.happened(), ["Fresh", "read 7"], "{kind} on {security:?}");
        }
    }
}

/// P0's "single encryption" and the legacy form: the same token goes both ways.
#[test]
fn a_token_travels_clear_or_encrypted_as_the_policy_says() {
    for security in ["http://opcfoundation.org/UA/SecurityPolicy#None", POLICY.uri()] {
        let mut wire = Wire::new();
        let credential = token(wire.now, HOUR);
        let mut config = wire.config(ENCRYPT, &credential);
        let endpoints = config.discovered.clone().unwrap();
        let wanted = endpoints
            .iter()
            .flat_map(|endpoint| endpoint.user_identity_tokens.iter().flatten().map(move |token| (endpoint, token)))
            .find(|(endpoint, token)| {
                endpoint.security_mode == ENCRYPT.1
                    && token.token_type == opcua_types::UserTokenType::IssuedToken
                    && token.security_policy_uri.as_ref() == security
            })
            .unwrap();
        let choice = Arc::make_mut(&mut config.choice);
        choice.token = wanted.1.clone();
        choice.token_security = SecurityPolicyId::from_uri(security).unwrap();
        wire.connect_with(config, credential);
        assert_eq!(wire.happened(), ["Fresh"], "{security}");
    }
}

#[test]
fn a_refused_credential_can_be_replaced_on_the_same_session() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("wrong"));
    let refused = wire.happened();
    assert!(refused.len() == 1 && refused[0].starts_with("refused"), "{refused:?}");
    assert_eq!(wire.read(), Err(RequestError::NotActive));
    let now = wire.now;
    wire.client().reactivate(user("secret"), now);
    wire.run();
    wire.read().unwrap();
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "read 7"]);
}

#[test]
fn a_new_token_on_the_live_session_disturbs_no_request() {
    let mut wire = Wire::new();
    let first = token(wire.now, HOUR);
    wire.connect(ENCRYPT, first);
    let (session, second) = (wire.client().session_id().cloned(), token(wire.now, HOUR));
    let now = wire.now;
    wire.client().reactivate(second, now);
    wire.read().unwrap();
    wire.run();
    let mut happened = wire.happened();
    happened.sort();
    assert_eq!(happened, ["Fresh", "Renewed", "read 7"]);
    assert_eq!(wire.client().session_id().cloned(), session);
}

#[test]
fn a_bad_new_token_leaves_the_session_as_it_was() {
    let mut wire = Wire::new();
    let first = token(wire.now, HOUR);
    wire.connect(ENCRYPT, first);
    let now = wire.now;
    wire.client().reactivate(Credential::Issued(b"a.b.c".to_vec().into()), now);
    wire.run();
    wire.read().unwrap();
    wire.run();
    let happened = wire.happened();
    assert!(happened[1].starts_with("refused"), "{happened:?}");
    assert_eq!(happened[2], "read 7");
}

#[test]
fn of_many_new_credentials_the_newest_is_tried_last() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, token(Wire::new().now, HOUR));
    let now = wire.now;
    for _ in 0..5 {
        wire.client().reactivate(token(now, HOUR), now);
    }
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "Renewed", "Renewed"]);
}
