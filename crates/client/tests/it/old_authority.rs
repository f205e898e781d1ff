//! An authority that knows nothing but RequestAccessToken, the method of P0 (OPC 10000-12 v1.05 §9.6.5): the client finds
//! that and asks by it. Its nodes are made by hand, as an old authority has them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use access_model::{Refusal, Rights};
use client::{AuthorityProfile, Client, ClientError, ClientOptions, Login, TokenError, TokenIssuer};
use gates::clock;
use gates::opcua::server::ServerHandle;
use gates::opcua::wiring::{Application, Credentials, Local, wrong_credentials};
use opcua_types::{StatusCode, Variant};
use token::{Algorithm, Issuer, Signer};
use ua_proto::server::{Answer, Invocation};
use ua_proto::space::NodeRef;

use crate::support::{AUTHORITY, Hears, MIXER, People, claims, id, listen, old_service, start_mixer, start_space};

/// What the authority was asked, in order: by which user of a session, and whether another identity was passed.
type Asked = Arc<Mutex<Vec<(Option<String>, String, bool)>>>;

struct Old {
    request: NodeRef,
    signer: Arc<Signer>,
    client: access_model::Thumbprint,
    asked: Asked,
    refuse: Arc<Mutex<Option<StatusCode>>>,
}

impl Application for Old {
    fn invoke(&self, call: Invocation) -> Local<Answer> {
        let answer = self.answer(&call);
        Box::pin(async move { answer })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let right = credentials.name == "operator" && *credentials.password == *b"secret";
        Box::pin(async move { right.then_some(()).ok_or_else(wrong_credentials) })
    }
}

impl Old {
    fn answer(&self, call: &Invocation) -> Answer {
        let [Variant::ExtensionObject(identity), Variant::String(resource)] = call.inputs.as_slice() else {
            return failed(StatusCode::BadInvalidArgument);
        };
        assert_eq!(call.method_node, self.request);
        let asked = (call.caller.user.clone(), resource.to_string(), !identity.is_null());
        self.asked.lock().unwrap().push(asked);
        match *self.refuse.lock().unwrap() {
            Some(status) => failed(status),
            None => Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: vec![self.token().into()] },
        }
    }

    fn token(&self) -> String {
        let rights = Rights::BROWSE | Rights::READ;
        let claims = claims(clock::now().unix, Duration::from_secs(3_600), self.client, rights);
        token::mint(&claims, &self.signer).unwrap().as_str().to_owned()
    }
}

fn failed(status: StatusCode) -> Answer {
    Answer { status, input_results: Vec::new(), outputs: Vec::new() }
}

struct World {
    people: People,
    authority: ServerHandle,
    mixer: ServerHandle,
    asked: Asked,
    refuse: Arc<Mutex<Option<StatusCode>>>,
}

impl World {
    async fn new(method: bool) -> Self {
        let people = People::new().await;
        let signer = Arc::new(Signer::generate(Algorithm::Es256).unwrap());
        let (asked, refuse) = (Asked::default(), Arc::default());
        let (space, service, request) = old_service(method);
        let old = Old {
            request: request.unwrap_or(service),
            signer: Arc::clone(&signer),
            client: people.client.certificate.thumbprint(),
            asked: Arc::clone(&asked),
            refuse: Arc::clone(&refuse),
        };
        let authority = start_space(&people, space, listen(), move || Box::new(old));
        let issuer = Issuer { name: AUTHORITY.into(), keys: vec![signer.public()], require_confirmation: true };
        let mixer = start_mixer(&people, issuer, authority.address(), listen(), Hears::Nothing);
        Self { people, authority, mixer, asked, refuse }
    }

    fn options(&self, login: Login) -> ClientOptions {
        let mut options = self.people.options(self.mixer.address(), Login::Token);
        options.authority.login = login;
        options.authority.known = vec![client::KnownAuthority::Application(AUTHORITY.into())];
        options
    }

    fn asked(&self) -> Vec<(Option<String>, String, bool)> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn refused(options: ClientOptions) -> ClientError {
    Client::connect(options).await.err().expect("there is no token to connect with")
}

fn password(password: &str) -> Login {
    Login::UserName { name: "operator".into(), password: password.to_owned().into() }
}

#[tokio::test]
async fn an_authority_with_request_access_token_alone_gives_tokens_for_the_sessions_user() {
    let world = World::new(true).await;
    for (rule, login, user) in
        [("nobody", Login::Anonymous, None), ("a person", password("secret"), Some("operator".to_owned()))]
    {
        let client = Client::connect(world.options(login)).await.unwrap_or_else(|error| panic!("{rule}: {error}"));
        assert!(client.read(&[id("Speed")]).await.unwrap()[0].value.is_some(), "{rule}");
        let once = [(user, MIXER.to_owned(), false)];
        assert_eq!(world.asked(), once, "{rule}: the session says who asks, no identity is passed");
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.renew().await.unwrap();
        assert_eq!(world.asked(), once, "{rule}: there is no refresh token, so it asks again");
        assert_eq!(client.token_generation(), 2, "{rule}");
        client.close().await;
    }
}

#[tokio::test]
async fn what_such_an_authority_refuses_or_cannot_do_is_said() {
    let world = World::new(true).await;
    let wrong = refused(world.options(password("wrong"))).await;
    assert!(matches!(wrong, ClientError::Token(TokenError::Unreachable { .. })), "{wrong}");
    assert!(wrong.to_string().contains("authority") && world.asked().is_empty(), "{wrong}");
    *world.refuse.lock().unwrap() = Some(StatusCode::BadUserAccessDenied);
    let denied = refused(world.options(Login::Anonymous)).await;
    assert!(matches!(denied, ClientError::Token(TokenError::Refused { .. })), "{denied}");
    assert_eq!(world.asked().len(), 1, "an answer is not asked for twice");

    // Credentials that are to go into a method need one that takes them.
    let mut explicit = world.options(password("secret"));
    explicit.issuer = Some(TokenIssuer {
        resource_id: MIXER.into(),
        authority_url: format!("opc.tcp://{}", world.authority.address()),
        profile: AuthorityProfile::OpcUa,
        token_endpoint: None,
        authorization_endpoint: Some("i=1".to_owned()),
        request_types: Vec::new(),
        scopes: Vec::new(),
    });
    let none = refused(explicit).await;
    assert!(matches!(none, ClientError::Token(TokenError::NoMethod(_))), "{none}");
    assert!(world.asked().is_empty());

    let empty = World::new(false).await;
    let none = refused(empty.options(Login::Anonymous)).await;
    assert!(matches!(none, ClientError::Token(TokenError::NoMethod(_))), "{none}");
}
