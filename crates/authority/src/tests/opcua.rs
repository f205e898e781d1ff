//! The methods of AuthorizationServiceType, as the server machine hands them out.

use access_model::ScopeIndex;
use opcua_types::{
    AnonymousIdentityToken, ByteString, ExtensionObject, Guid, MessageSecurityMode, NodeId, StatusCode, UAString,
    UserNameIdentityToken, Variant, VariantScalarTypeId,
};
use serde_json::Value;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::server::{Answer, Caller, Invocation};
use ua_proto::space::{AuthorizationNodes, NodeRef, Space, SpaceConfig, gds};

use super::world::*;
use crate::{IMPLICIT, USER_NAME};

pub(super) struct Face<'a> {
    world: &'a World,
    pub(super) nodes: AuthorizationNodes,
}

impl<'a> Face<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        let mut space =
            Space::new(SpaceConfig { application_uri: "urn:authority".into(), namespaces: vec![] }).unwrap();
        let nodes = gds::add(&mut space, &world.authority.opcua_service("trapkey", ScopeIndex::PUBLIC)).unwrap();
        Self { world, nodes }
    }

    pub(super) fn caller(&self) -> Caller {
        Caller {
            session: NodeId::new(1, 7),
            user: Some("olga".into()),
            user_certificate: None,
            roles: vec![],
            application: Some(HMI.into()),
            certificate: Some(self.world.hmi.thumbprint),
            policy: SecurityPolicyId::Basic256Sha256,
            mode: MessageSecurityMode::SignAndEncrypt,
            address: "10.0.0.1:1".into(),
        }
    }

    pub(super) async fn call(&self, caller: Caller, method: NodeRef, inputs: Vec<Variant>) -> Answer {
        let node = NodeId::new(1, 1);
        let call = Invocation { caller, object: node.clone(), method: node, method_node: method, inputs };
        self.world.authority.answer(&self.nodes, call).await
    }

    pub(super) async fn start(&self, caller: Caller, resource: &str, policy: &str) -> Result<Guid, StatusCode> {
        self.begin(caller, resource, policy).await.map(|(id, _)| id)
    }

    /// The id, and ServiceData.
    pub(super) async fn begin(
        &self,
        caller: Caller,
        resource: &str,
        policy: &str,
    ) -> Result<(Guid, Vec<u8>), StatusCode> {
        let inputs = vec![string(resource), string(policy), Variant::ByteString(ByteString::null())];
        let answer = self.call(caller, self.nodes.start_request_token, inputs).await;
        match answer.outputs.as_slice() {
            [Variant::ByteString(data), Variant::Guid(id)] => Ok(((**id).clone(), data.as_ref().to_vec())),
            _ => Err(answer.status),
        }
    }

    pub(super) async fn finish(
        &self,
        caller: Caller,
        id: &Guid,
        roles: &[&str],
        identity: Variant,
    ) -> Result<Vec<Variant>, StatusCode> {
        self.finish_signed(caller, id, roles, identity, Variant::Empty).await
    }

    pub(super) async fn finish_signed(
        &self,
        caller: Caller,
        id: &Guid,
        roles: &[&str],
        identity: Variant,
        signature: Variant,
    ) -> Result<Vec<Variant>, StatusCode> {
        let roles: Vec<Variant> = roles.iter().map(|role| string(role)).collect();
        let roles = Variant::from((VariantScalarTypeId::String, roles));
        let inputs = vec![Variant::Guid(Box::new(id.clone())), roles, identity, signature];
        let answer = self.call(caller, self.nodes.finish_request_token, inputs).await;
        if answer.status.is_good() { Ok(answer.outputs) } else { Err(answer.status) }
    }
}

pub(super) fn string(text: &str) -> Variant {
    Variant::String(UAString::from(text))
}

fn password(name: &str, password: &str) -> Variant {
    Variant::ExtensionObject(ExtensionObject::new(UserNameIdentityToken {
        policy_id: USER_NAME.into(),
        user_name: name.into(),
        password: ByteString::from(password.as_bytes().to_vec()),
        encryption_algorithm: UAString::null(),
    }))
}

fn anonymous() -> Variant {
    Variant::ExtensionObject(ExtensionObject::new(AnonymousIdentityToken { policy_id: IMPLICIT.into() }))
}

pub(super) fn text(value: &Variant) -> Value {
    let Variant::String(text) = value else { panic!("{value:?}") };
    text.as_ref().into()
}

#[tokio::test]
async fn start_and_finish_give_a_token_for_the_sessions_user() {
    let world = World::new().await;
    let face = Face::new(&world);
    let id = face.start(face.caller(), MIXER, IMPLICIT).await.unwrap();
    let outputs = face.finish(face.caller(), &id, &[], anonymous()).await.unwrap();
    let claims = world.verify(&text(&outputs[0]), MIXER).await.unwrap();
    assert_eq!((claims.subject.as_str(), claims.confirmation), ("olga", Some(world.hmi.thumbprint)));
    assert!(
        matches!((&outputs[1], &outputs[3]), (Variant::DateTime(one), Variant::DateTime(other)) if !one.is_null() && !other.is_null())
    );
    let refresh = vec![string(MIXER), Variant::String(text(&outputs[2]).as_str().unwrap().into())];
    let answer = face.call(face.caller(), face.nodes.refresh_token, refresh.clone()).await;
    assert_eq!(answer.status, StatusCode::Good);
    assert!(world.verify(&text(&answer.outputs[0]), MIXER).await.is_ok());
    let again = face.call(face.caller(), face.nodes.refresh_token, refresh).await;
    assert_eq!(again.status, StatusCode::BadIdentityTokenRejected, "used");
    assert_eq!(face.finish(face.caller(), &id, &[], anonymous()).await, Err(StatusCode::BadNotFound), "used");
}

#[tokio::test]
async fn credentials_and_roles_can_be_passed() {
    let world = World::new().await;
    let face = Face::new(&world);
    let machine = Caller { user: None, ..face.caller() };
    let id = face.start(machine.clone(), MIXER, USER_NAME).await.unwrap();
    let outputs = face.finish(machine.clone(), &id, &["observer"], password("olga", SECRET)).await.unwrap();
    let claims = world.verify(&text(&outputs[0]), MIXER).await.unwrap();
    assert_eq!((claims.subject.as_str(), claims.roles.as_slice()), ("olga", &["observer".to_owned()][..]));
    for (name, secret) in [("olga", "wrong"), ("nobody", SECRET)] {
        let id = face.start(machine.clone(), MIXER, USER_NAME).await.unwrap();
        let refused = face.finish(machine.clone(), &id, &[], password(name, secret)).await;
        assert_eq!(refused, Err(StatusCode::BadIdentityTokenRejected), "{name}");
    }
    let id = face.start(machine.clone(), MIXER, USER_NAME).await.unwrap();
    let refused = face.finish(machine, &id, &[], anonymous()).await;
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid), "another policy than the one started with");
}

#[tokio::test]
async fn callers_and_requests_are_checked() {
    let world = World::new().await;
    let face = Face::new(&world);
    let good = || face.caller();
    for (rule, caller, resource, policy, want) in [
        (
            "signed only",
            Caller { mode: MessageSecurityMode::Sign, ..good() },
            MIXER,
            IMPLICIT,
            StatusCode::BadSecurityModeInsufficient,
        ),
        (
            "no security",
            Caller { mode: MessageSecurityMode::None, ..good() },
            MIXER,
            IMPLICIT,
            StatusCode::BadSecurityModeInsufficient,
        ),
        ("no certificate", Caller { certificate: None, ..good() }, MIXER, IMPLICIT, StatusCode::BadUserAccessDenied),
        (
            "unknown certificate",
            Caller { certificate: Some(world.stranger.thumbprint), ..good() },
            MIXER,
            IMPLICIT,
            StatusCode::BadUserAccessDenied,
        ),
        (
            "another's certificate",
            Caller { certificate: Some(world.controller.thumbprint), ..good() },
            MIXER,
            IMPLICIT,
            StatusCode::BadUserAccessDenied,
        ),
        ("unknown server", good(), "urn:x", IMPLICIT, StatusCode::BadNotFound),
        ("unknown policy", good(), MIXER, "kerberos", StatusCode::BadIdentityTokenInvalid),
    ] {
        assert_eq!(face.start(caller, resource, policy).await, Err(want), "{rule}");
    }
    let id = face.start(good(), MIXER, IMPLICIT).await.unwrap();
    let other = Caller { session: NodeId::new(1, 8), ..good() };
    assert_eq!(face.finish(other, &id, &[], anonymous()).await, Err(StatusCode::BadNotFound), "another session");
    world.authority.session_closed(&NodeId::new(1, 7));
    assert_eq!(face.finish(good(), &id, &[], anonymous()).await, Err(StatusCode::BadNotFound), "session closed");
    let id = face.start(good(), MIXER, IMPLICIT).await.unwrap();
    world.seconds.fetch_add(61, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(face.finish(good(), &id, &[], anonymous()).await, Err(StatusCode::BadNotFound), "too late");
    // An account alone gives nothing.
    world.authority.db().put_user(&world.user("mallory", vec![], None)).await.unwrap();
    let victor = Caller { user: Some("mallory".into()), ..good() };
    let id = face.start(victor.clone(), MIXER, IMPLICIT).await.unwrap();
    assert_eq!(face.finish(victor, &id, &[], anonymous()).await, Err(StatusCode::BadUserAccessDenied), "policy");
    let short = face.call(good(), face.nodes.start_request_token, vec![]).await;
    assert_eq!(short.status, StatusCode::BadArgumentsMissing);
}

#[tokio::test]
async fn the_description_needs_nothing() {
    let world = World::new().await;
    let face = Face::new(&world);
    let caller = Caller { mode: MessageSecurityMode::None, certificate: None, application: None, ..face.caller() };
    let answer = face.call(caller, face.nodes.get_service_description, vec![]).await;
    assert_eq!(answer.status, StatusCode::Good);
    assert_eq!(text(&answer.outputs[0]), world.authority.config().issuer.as_str());
    assert!(
        matches!(&answer.outputs[1], Variant::ByteString(der) if der.value == Some(world.authority.service_certificate()))
    );
    assert!(matches!(&answer.outputs[2], Variant::Array(policies) if policies.values.len() == 2));
}

#[tokio::test]
async fn request_access_token_is_off_unless_configured() {
    for on in [false, true] {
        let world = World::with(|config| config.request_access_token = on).await;
        let face = Face::new(&world);
        let method = face.nodes.request_access_token;
        assert_eq!(method.is_some(), on);
        let Some(method) = method else { continue };
        let answer = face.call(face.caller(), method, vec![Variant::Empty, string(MIXER)]).await;
        assert_eq!(answer.status, StatusCode::Good);
        assert_eq!(world.verify(&text(&answer.outputs[0]), MIXER).await.unwrap().subject, "olga");
        let plain = Caller { mode: MessageSecurityMode::Sign, ..face.caller() };
        let answer = face.call(plain, method, vec![Variant::Empty, string(MIXER)]).await;
        assert_eq!(answer.status, StatusCode::BadSecurityModeInsufficient);
    }
}
