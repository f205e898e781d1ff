//! Sessions under the policies of elliptic curves: every identity, and keys that are not the server's.

use opcua_types::{ByteStringBody, ExtensionObject, ObjectId, StatusCode};

use super::*;
use crate::crypto::KeyLayout;
use crate::wire::{KeyHeader, SignedKey};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn every_identity_opens_a_session_on_every_curve() {
    for security in ECC {
        for kind in ["anonymous", "user", "certificate", "token", "encrypted token"] {
            let mut wire = Wire::new();
            let credential = match kind {
                "anonymous" => Credential::Anonymous,
                "user" => user("secret"),
                "certificate" => Credential::Certificate(of(&USER, security.0)),
                _ => token_for(wire.now, HOUR, security.0),
            };
            let mut config = wire.config(security, &credential);
            if kind == "encrypted token" {
                let choice = Arc::make_mut(&mut config.choice);
                let policies = choice.endpoint.user_identity_tokens.clone().unwrap();
                let encrypted = |token: &&opcua_types::UserTokenPolicy| {
                    token.token_type == opcua_types::UserTokenType::IssuedToken
                        && token.security_policy_uri.as_ref() == security.0.uri()
                };
                choice.token = policies.iter().find(encrypted).unwrap().clone();
                choice.token_security = security.0;
            }
            wire.connect_with(config, credential);
            wire.read().unwrap();
            wire.run();
            assert_eq!(wire.happened(), ["Fresh", "read 7"], "{kind} on {security:?}");
        }
    }
}

#[test]
fn each_endpoint_shows_the_certificate_that_its_policy_takes() {
    let endpoints = Wire::new().endpoints();
    assert_eq!(endpoints.len(), 7);
    for endpoint in endpoints {
        let policy = SecurityPolicyId::from_uri(endpoint.security_policy_uri.as_ref()).unwrap();
        let shown = Certificate::from_der(endpoint.server_certificate.as_ref()).unwrap();
        // Without a channel's protection secrets are encrypted, and only RSA does that.
        let expected = if policy == SecurityPolicyId::None { &SERVER } else { &of(&SERVER, policy) };
        assert_eq!(shown.der(), expected.certificate.der(), "{policy}");
    }
}

#[test]
fn a_client_with_the_other_layout_is_understood() {
    let security = ECC[2];
    let mut wire = Wire::new();
    let mut config = wire.config(security, &user("secret"));
    config.key_layout = KeyLayout::WithSigningKey;
    wire.connect_with(config, user("secret"));
    wire.read().unwrap();
    wire.run();
    assert_eq!(wire.happened(), ["Fresh", "read 7"]);
}

#[test]
fn each_activation_uses_a_key_of_its_own_and_a_refused_one_can_be_repeated() {
    for security in ECC {
        let mut wire = Wire::new();
        wire.connect(security, user("wrong"));
        let refused = wire.happened();
        assert!(refused.len() == 1 && refused[0].starts_with("refused"), "{refused:?}");
        let mut keys = Vec::new();
        for _ in 0..3 {
            let now = wire.now;
            keys.push(wire.client().server_key_for_tests().unwrap());
            wire.client().reactivate(user("secret"), now);
            wire.run();
        }
        assert_eq!(wire.happened(), ["Fresh", "Renewed", "Renewed"], "{security:?}");
        assert!(keys[0] != keys[1] && keys[1] != keys[2], "{security:?}");
    }
}

/// Whoever could hand out an ephemeral key in the server's name would read the password.
#[test]
fn a_key_that_the_server_did_not_sign_is_refused() {
    for security in ECC {
        let mut wire = Wire::new();
        wire.connect(security, user("secret"));
        let header = |signer: &OwnIdentity, public: &[u8], signed: &[u8]| {
            let signature = security.0.algorithms().sign(&signer.key, signed).unwrap();
            let answer = KeyHeader::answer(security.0.uri(), Some(&SignedKey { public: public.to_vec(), signature }));
            travelled(&answer)
        };
        let own = of(&SERVER, security.0);
        let client = wire.client();
        assert!(client.server_key(&header(&own, &[1; 64], &[1; 64])).is_ok());
        let failed = Err(StatusCode::BadSecurityChecksFailed);
        assert_eq!(client.server_key(&header(&own, &[1; 64], &[2; 64])), failed, "another key was signed");
        assert_eq!(client.server_key(&header(&of(&CLIENT, security.0), &[1; 64], &[1; 64])), failed, "by another");
        let none = Err(StatusCode::BadSecurityPolicyRejected);
        assert_eq!(client.server_key(&travelled(&KeyHeader::answer(security.0.uri(), None))), none);
        assert_eq!(client.server_key(&ExtensionObject::null()), none);
    }
}

#[test]
fn a_client_needs_a_key_of_the_policys_kind() {
    let mut wire = Wire::new();
    let mut config = wire.config(ECC[0], &Credential::Anonymous);
    let mut rsa_only = (**CLIENT).clone();
    rsa_only.others.clear();
    config.identity = Some(Arc::new(rsa_only));
    let refused = ClientSession::new(Arc::new(config), Credential::Anonymous, wire.now).map(drop).unwrap_err();
    assert_eq!(refused.status, StatusCode::BadConfigurationError);
    // An endpoint whose certificate is of another kind than its policy.
    let mut config = wire.config(ECC[0], &Credential::Anonymous);
    let choice = Arc::make_mut(&mut config.choice);
    choice.endpoint.server_certificate = SERVER.certificate.der().to_vec().into();
    let refused = ClientSession::new(Arc::new(config), Credential::Anonymous, wire.now).map(drop).unwrap_err();
    assert_eq!(refused.status, StatusCode::BadConfigurationError);
}

/// The header as it is after a response was read.
fn travelled(header: &ExtensionObject) -> ExtensionObject {
    use opcua_types::{BinaryEncodable, ContextOwned};
    let owned = ContextOwned::default();
    let bytes = header.encode_to_vec(&owned.context());
    // Type id of four bytes, one of encoding, four of length.
    let id = ObjectId::AdditionalParametersType_Encoding_DefaultBinary.into();
    ExtensionObject::new(ByteStringBody::new(bytes[9..].to_vec().into(), id))
}
