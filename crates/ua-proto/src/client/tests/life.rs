//! Broken connections, forgetful servers, silence, and lists that somebody edited.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_session_goes_on_over_a_new_connection() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, token(Wire::new().now, HOUR));
    let session = wire.client().session_id().cloned();
    wire.reconnect();
    wire.read().unwrap();
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "disconnected BadConnectionClosed", "Moved", "read 7"]);
    assert_eq!(wire.client().session_id().cloned(), session);
}

#[test]
fn a_server_that_forgot_the_session_gets_a_new_one() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, token(Wire::new().now, HOUR));
    wire.restart();
    wire.reconnect();
    wire.read().unwrap();
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "disconnected BadConnectionClosed", "Lost", "Fresh", "read 7"]);
}

/// OPC 10000-4 §5.7.3: an anonymous session must not move to a channel that is only signed; a new one takes its place.
#[test]
fn an_anonymous_session_on_a_signed_channel_is_made_anew() {
    let mut wire = Wire::new();
    wire.connect(SIGN, Credential::Anonymous);
    wire.reconnect();
    wire.read().unwrap();
    wire.run();
    let happened = wire.happened();
    assert_eq!(happened.last().map(String::as_str), Some("read 7"), "{happened:?}");
    assert!(wire.client().is_active());
}

#[test]
fn requests_of_a_broken_connection_are_answered() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    wire.read().unwrap();
    wire.client().connection_lost();
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "fault BadConnectionClosed", "disconnected BadConnectionClosed"]);
    assert_eq!(wire.read(), Err(RequestError::NotActive));
}

#[test]
fn a_request_without_an_answer_times_out_and_a_silent_server_is_left() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    wire.deaf = true;
    wire.read().unwrap();
    wire.pass(Duration::from_secs(60));
    assert_eq!(wire.happened(), ["Fresh", "fault BadTimeout", "disconnected BadTimeout"]);
}

#[test]
fn a_quiet_session_is_kept_alive() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    wire.pass(Duration::from_secs(600));
    wire.read().unwrap();
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "read 7"]);
}

#[test]
fn keys_are_renewed_while_a_session_lives() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    assert_eq!(wire.client().renewals(), 0);
    wire.pass(3 * HOUR);
    assert_eq!((wire.client().renewals(), wire.happened()), (4, vec!["Fresh".to_owned()]));
    wire.reconnect();
    assert_eq!(wire.client().renewals(), 0, "a new connection has new keys");
}

#[test]
fn no_more_requests_are_under_way_than_allowed() {
    let mut wire = Wire::new();
    let credential = user("secret");
    let mut config = wire.config(ENCRYPT, &credential);
    config.max_in_flight = 2;
    wire.connect_with(config, credential);
    assert!(wire.read().is_ok() && wire.read().is_ok());
    assert_eq!(wire.read(), Err(RequestError::TooMany));
    wire.run();
    assert!(wire.read().is_ok());
}

/// The list came over an unprotected channel: an attacker took the strong endpoint out, or made a token policy weak.
#[test]
fn a_list_of_endpoints_that_was_edited_on_the_way_ends_the_session() {
    let mut wire = Wire::new();
    let credential = user("secret");
    for edit in ["remove", "weaken"] {
        let mut config = wire.config(SIGN, &credential);
        let mut list = (*config.discovered.clone().unwrap()).clone();
        match edit {
            "remove" => list.retain(|endpoint| endpoint.security_mode != ENCRYPT.1),
            _ => {
                for policy in list.iter_mut().flat_map(|endpoint| endpoint.user_identity_tokens.iter_mut().flatten()) {
                    policy.security_policy_uri = SecurityPolicyId::None.uri().into();
                }
            }
        }
        config.discovered = Some(Arc::new(list));
        wire.connect_with(config, credential.clone());
        assert_eq!(wire.happened(), ["disconnected BadSecurityChecksFailed"], "{edit}");
    }
}

#[test]
fn close_ends_the_session_at_the_server_too() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    let now = wire.now;
    wire.client.as_mut().unwrap().close(now, &mut SystemEntropy::new());
    wire.run();
    let happened = wire.happened();
    assert!(happened[1].starts_with("disconnected"), "{happened:?}");
    assert_eq!(happened.len(), 2);
    let closed = wire.records.iter().find(|record| record.kind == AuditKind::ChannelClosed);
    assert_eq!(closed.map(|record| record.detail.as_str()), Some("closed in order (Good)"));
}

#[test]
fn what_a_connection_did_not_carry_is_not_sent_on_the_next() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    let now = wire.now;
    wire.client().close(now, &mut SystemEntropy::new());
    let close = std::mem::take(wire.client().outgoing().unwrap());
    wire.server.handle_input(Input::Bytes { conn: wire.conn, bytes: &close }, now);
    let answer = wire.serve();
    wire.client().receive(&answer, now, &mut SystemEntropy::new());
    assert!(wire.client().outgoing().unwrap().starts_with(b"CLO"), "the last word of the old connection");
    wire.client().reconnect(now).unwrap();
    assert!(wire.client().outgoing().unwrap().starts_with(b"HEL"), "the first of the new one");
}

#[test]
fn a_proof_that_is_never_made_does_not_hold_the_session_forever() {
    let mut wire = Wire::new();
    wire.connect(ENCRYPT, user("secret"));
    let now = wire.now;
    wire.client().reactivate(user("secret"), now);
    // The shell loses the job.
    assert!(matches!(wire.client().poll_event(), Some(ClientEvent::Activated(_) | ClientEvent::Job(_))));
    wire.pass(Duration::from_secs(60));
    assert_eq!(wire.happened(), ["Fresh", "disconnected BadTimeout"]);
}
