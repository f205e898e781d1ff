//! Issuers beside the authority, and the keys of the authority itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access_model::{Epoch, Thumbprint};
use gates::https::{HttpsClient, Target, client_config};
use token::{Algorithm, Claims, Signer, jwks, mint};

use super::Scene;
use super::settings::{endpoints, give};
use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";
const LEVEL: &str = "ns=1;s=Mixer.Measurements.Level";

/// What an identity provider says of maria, an hour long.
pub(super) fn maria(issuer: &str, audience: &str) -> Claims {
    let now = gates::clock::now().unix;
    Claims {
        issuer: issuer.into(),
        subject: "maria".into(),
        audience: audience.into(),
        expires: now + Duration::from_secs(3_600),
        not_before: now,
        issued_at: now,
        id: "maria-1".into(),
        client: None,
        confirmation: None,
        roles: vec!["Operator".into()],
        groups: vec!["shift-b".into()],
        rights: None,
        epoch: Epoch::default(),
        padding: 0,
    }
}

fn thumbprint(scene: &Scene, name: &str) -> Thumbprint {
    gates::pki::certificate(&scene.path(&format!("pki/{name}/own/certs/own.der"))).unwrap().thumbprint()
}

#[test]
fn tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation() {
    let (scene, ports) = scene();
    let (first, second) = (Signer::generate(Algorithm::Rs256).unwrap(), Signer::generate(Algorithm::Es256).unwrap());
    scene.write("idp.json", &jwks(&[first.public()]));
    let may = "{ role = \"Operator\", rights = [\"browse\", \"read\"], scopes = [\"setpoints\"] }, \
               { group = \"quality\", rights = [\"browse\", \"read\"] }";
    let far = format!("jwks_url = \"https://localhost:{}/oauth2/jwks\", ca = [\"pki/ca/ca.der\"]", ports[0]);
    let issuers = [
        format!(
            "{{ name = \"https://idp\", jwks = \"idp.json\", audience = \"api://mixer\", confirmation = false, rights = [{may}] }}"
        ),
        format!("{{ name = \"https://strict\", jwks = \"idp.json\", rights = [{may}] }}"),
        format!("{{ name = \"https://far\", {far}, rights = [{may}] }}"),
    ];
    give(&scene, "mixer", &format!("issuer = [{}]\n", issuers.join(", ")));
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) };
    let by = |signer: &Signer, claims: &Claims, verb: &str, rest: &[&str]| {
        scene.write("token", mint(claims, signer).unwrap().as_str());
        scene.run(&[&["client", verb, &olga.url, "--pki", "pki/hmi", "--token", "token"], rest].concat())
    };
    let known = maria("https://idp", "api://mixer");
    let read = by(&first, &known, "read", &[SPEED]);
    assert!(read.starts_with("exit 0"), "{read}");
    assert!(by(&first, &known, "write", &[SPEED, "5"]).contains("BadUserAccessDenied"));
    assert!(by(&first, &known, "read", &[LEVEL]).contains("BadNodeIdUnknown"), "outside of the scopes");
    let grouped = Claims { roles: vec![], groups: vec!["quality".into()], ..known.clone() };
    assert!(by(&first, &grouped, "read", &[LEVEL]).starts_with("exit 0"));
    let elsewhere = maria("https://idp", "urn:trapkey:demo:mixer");
    assert!(by(&first, &elsewhere, "read", &[SPEED]).starts_with("exit 1"), "another audience");
    let unbound = maria("https://strict", "urn:trapkey:demo:mixer");
    assert!(by(&first, &unbound, "read", &[SPEED]).starts_with("exit 1"), "no certificate");
    let bound = |name: &str| Claims { confirmation: Some(thumbprint(&scene, name)), ..unbound.clone() };
    let read = by(&first, &bound("hmi"), "read", &[SPEED]);
    assert!(read.starts_with("exit 0"), "{read}");
    assert!(by(&first, &bound("dashboard"), "read", &[SPEED]).starts_with("exit 1"), "another's certificate");
    until("the keys come over HTTPS", || scene.read("up.log").contains("issuer=\"https://far\""));

    for _ in 0..2 {
        assert_eq!(scene.json(&["token", "rotate-keys"])["rotated"], true);
    }
    until("the mixer knows the authority's new keys", || {
        olga.client("read", &[SPEED]).starts_with("exit 0")
            && scene.read("up.log").contains("the keys of the authority have changed")
    });
    let read = by(&first, &known, "read", &[SPEED]);
    assert!(read.starts_with("exit 0"), "the other issuers are still there: {read}");

    scene.write("idp.json", &jwks(&[second.public()]));
    until("the new key is taken", || by(&second, &known, "read", &[SPEED]).starts_with("exit 0"));
    assert!(by(&first, &known, "read", &[SPEED]).starts_with("exit 1"), "the old one is gone");
    scene.write("idp.json", "{");
    until("a broken file is told", || scene.read("up.log").contains("the keys of an issuer stay as they were"));
    assert!(by(&second, &known, "read", &[SPEED]).starts_with("exit 0"), "and changes nothing");
    up.stop();
}

/// An identity provider: publishes keys over HTTPS, as text that a test changes, with a certificate of the plant's.
struct Provider {
    keys: Arc<Mutex<String>>,
    port: u16,
}

impl Provider {
    fn start(scene: &Scene, keys: String) -> Self {
        scene.json(&["certs", "add", "idp", "urn:idp"]);
        let own = scene.path("pki/idp/own");
        let identity = gates::pki::identity(&own.join("certs/own.der"), &own.join("private/own.pem")).unwrap();
        let key = der(&std::fs::read_to_string(own.join("private/own.pem")).unwrap());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![identity.certificate.der().to_vec().into()],
                rustls::pki_types::PrivateKeyDer::try_from(key).unwrap(),
            )
            .unwrap();
        let (config, keys) = (Arc::new(config), Arc::new(Mutex::new(keys)));
        let listener = testkit::ports::listen();
        let port = listener.local_addr().unwrap().port();
        let published = Arc::clone(&keys);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _gone = answer(stream, &config, &published.lock().unwrap().clone());
            }
        });
        Self { keys, port }
    }
}

/// Answers one request with these keys.
fn answer(stream: TcpStream, config: &Arc<rustls::ServerConfig>, keys: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let connection = rustls::ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    let mut tls = rustls::StreamOwned::new(connection, stream);
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 1_024];
        let count = tls.read(&mut part)?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&part[..count]);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    write!(tls, "{head}content-length: {}\r\n\r\n{keys}", keys.len())?;
    tls.conn.send_close_notify();
    tls.flush()
}

/// A token with any payload, signed as it should be.
fn sign(signer: &Signer, payload: &serde_json::Value) -> String {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let encode = |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, bytes);
    let header = serde_json::json!({ "alg": "ES256", "typ": "JWT", "kid": signer.kid() }).to_string();
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(payload.to_string().as_bytes()));
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, signer.to_pkcs8()).unwrap();
    let signature = key.sign(&aws_lc_rs::rand::SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", encode(signature.as_ref()))
}

/// As Keycloak does it: keys at an address, the roles of a realm inside of `realm_access`, no certificate in the token.
#[test]
fn an_issuer_that_publishes_its_keys_lets_people_in_by_roles_inside_of_other_claims() {
    let (scene, ports) = scene();
    let (first, second) = (Signer::generate(Algorithm::Es256).unwrap(), Signer::generate(Algorithm::Es256).unwrap());
    let idp = Provider::start(&scene, jwks(&[first.public()]));
    let name = "https://login.plant.local/realms/plant";
    let more = "audience = \"api://mixer\", confirmation = false, roles_claim = \"realm_access.roles\"";
    let far = format!("jwks_url = \"https://localhost:{}/certs\", ca = [\"pki/ca/ca.der\"]", idp.port);
    let may = "{ role = \"Operator\", rights = [\"browse\", \"read\"], scopes = [\"setpoints\"] }";
    give(&scene, "mixer", &format!("issuer = [{{ name = \"{name}\", {far}, {more}, rights = [{may}] }}]\n"));
    let up = Up::start(&scene, 4);
    let url = format!("opc.tcp://127.0.0.1:{}", ports[2]);
    let now = gates::clock::now().unix.as_seconds();
    let by = |signer: &Signer, more: serde_json::Value, verb: &str, rest: &[&str]| {
        let mut claims = serde_json::json!({
            "iss": name, "sub": "maria", "aud": ["account", "api://mixer"], "iat": now, "exp": now + 3_600, "jti": "m-1",
            "azp": "hmi", "scope": "openid profile",
        });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        scene.write("token", &sign(signer, &claims));
        scene.run(&[&["client", verb, &url, "--pki", "pki/hmi", "--token", "token"], rest].concat())
    };
    let realm = || serde_json::json!({ "realm_access": { "roles": ["offline_access", "Operator"] } });
    until("the keys come over HTTPS", || by(&first, realm(), "read", &[SPEED]).starts_with("exit 0"));
    assert!(by(&first, realm(), "write", &[SPEED, "5"]).contains("BadUserAccessDenied"), "only what the role may");
    assert!(by(&first, realm(), "read", &[LEVEL]).contains("BadNodeIdUnknown"), "outside of the scopes");
    for (rule, claims) in [
        ("roles where nobody looks", serde_json::json!({ "roles": ["Operator"] })),
        ("another role", serde_json::json!({ "realm_access": { "roles": ["Visitor"] } })),
        (
            "another realm",
            serde_json::json!({ "iss": "https://login.plant.local/realms/office", "realm_access": { "roles": ["Operator"] } }),
        ),
        ("another audience", serde_json::json!({ "aud": "account", "realm_access": { "roles": ["Operator"] } })),
        ("over", serde_json::json!({ "exp": now - 1, "realm_access": { "roles": ["Operator"] } })),
    ] {
        let said = by(&first, claims, "read", &[SPEED]);
        assert!(!said.contains(&format!("{SPEED} = 0")) && !said.starts_with("exit 0"), "{rule}: {said}");
    }
    assert!(by(&second, realm(), "read", &[SPEED]).starts_with("exit 1"), "a key that is not published");
    up.stop();
    *idp.keys.lock().unwrap() = jwks(&[second.public()]);
    let up = Up::start(&scene, 4);
    until("the next key is taken", || by(&second, realm(), "read", &[SPEED]).starts_with("exit 0"));
    assert!(by(&first, realm(), "read", &[SPEED]).starts_with("exit 1"), "the old one is gone");
    up.stop();
}

/// The bytes of a PEM text.
fn der(pem: &str) -> Vec<u8> {
    let text: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap()
}

/// An answer of the authority over HTTPS to who has the certificate in this folder.
fn ask(scene: &Scene, port: u16, pki: &str, path: &str, kind: &str, body: &str) -> (u16, serde_json::Value) {
    let own = scene.path(&format!("pki/{pki}/own"));
    let identity = gates::pki::identity(&own.join("certs/own.der"), &own.join("private/own.pem")).unwrap();
    let key = der(&std::fs::read_to_string(own.join("private/own.pem")).unwrap());
    let ca = std::fs::read(scene.path("pki/ca/ca.der")).unwrap();
    let tls = client_config([ca], Some((vec![identity.certificate.der().to_vec()], key))).unwrap();
    let target = Target::parse(&format!("https://localhost:{port}")).unwrap();
    let asked = async {
        let https = HttpsClient::new(tls, Duration::from_secs(60));
        https.exchange(&target, "POST", path, &[("content-type", kind)], body.as_bytes().to_vec()).await.unwrap()
    };
    let (status, answer) = tokio::runtime::Runtime::new().unwrap().block_on(asked);
    (status.as_u16(), serde_json::from_slice(&answer).unwrap_or_default())
}

/// Replaces a key of the authority.
fn set(scene: &Scene, from: &str, to: &str) {
    let config = scene.read("trapkey.toml");
    let (before, authority) = config.split_at(config.find("\n[authority]").unwrap());
    assert!(authority.contains(from), "{from}");
    scene.write("trapkey.toml", &format!("{before}{}", authority.replacen(from, to, 1)));
}

#[test]
fn the_authority_keeps_to_its_keys() {
    let (scene, ports) = scene();
    scene.json(&["certs", "add", "olga", "urn:olga"]);
    assert_eq!(scene.json(&["user", "certify", "olga", "pki/olga/own/certs/own.der"])["name"], "olga");
    set(&scene, "evaluator_roles = [\"evaluator\"]", "evaluator_roles = [\"operator\"]");
    set(&scene, "refresh_lifetime = \"8h\"", "refresh_lifetime = \"90s\"");
    set(&scene, "identities = [\"user_name\", \"anonymous\"]", "identities = [\"x509\"]");
    let rsa = "policies = [\"Aes256_Sha256_RsaPss\", \"Aes128_Sha256_RsaOaep\", \"Basic256Sha256\"]";
    set(&scene, rsa, "policies = [\"Aes256_Sha256_RsaPss\"]");
    let (port, url) = (ports[1], format!("opc.tcp://authority.plant.test:{}", ports[1]));
    let here = format!("opcua = \"127.0.0.1:{port}\"");
    set(&scene, &here, &format!("opcua = \"0.0.0.0:{port}\"\nurl = \"{url}\""));
    set(&scene, "names = []", "names = [\"127.0.0.3\"]");
    let up = Up::start(&scene, 4);

    let question = r#"{"subject":{"type":"person","id":"olga"},"action":{"name":"read"},"resource":{"type":"scope","id":"mixer/setpoints"}}"#;
    let evaluate = |pki: &str| ask(&scene, ports[0], pki, "/access/v1/evaluation", "application/json", question).0;
    assert_eq!((evaluate("olga"), evaluate("hmi")), (200, 403));
    let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&audience=urn%3Atrapkey%3Ademo%3Amixer\
                &subject_token_type=urn%3Atrapkey%3Atoken-type%3Apassword&username=olga&subject_token=olgas+password";
    let (status, token) = ask(&scene, ports[0], "hmi", "/oauth2/token", "application/x-www-form-urlencoded", form);
    let life = token["refresh_expires_in"].as_u64();
    assert!(status == 200 && life.is_some_and(|life| (1..=90).contains(&life)), "{token}");

    for (dialled, told) in [("127.0.0.2", url), ("127.0.0.3", format!("opc.tcp://127.0.0.3:{port}"))] {
        let offered = endpoints(&format!("opc.tcp://{dialled}:{port}"));
        assert!(offered.iter().all(|one| one.endpoint_url.as_ref() == told), "{dialled}: {offered:?}");
    }
    let offered = endpoints(&format!("opc.tcp://127.0.0.1:{port}"));
    let ids = |at: usize| {
        offered[at].user_identity_tokens.iter().flatten().map(|one| one.policy_id.as_ref()).collect::<Vec<_>>()
    };
    assert_eq!((offered.len(), ids(0)), (1, vec!["certificate_Aes256_Sha256_RsaPss"]));
    let mixer = format!("opc.tcp://127.0.0.1:{}", ports[2]);
    let shown = |name: &str| {
        let (certificate, key) = (format!("pki/{name}/own/certs/own.der"), format!("pki/{name}/own/private/own.pem"));
        let login = ["client", "read", &mixer, "--pki", "pki/hmi", "--certificate", &certificate, "--key", &key, SPEED];
        scene.run(&login)
    };
    let read = shown("olga");
    assert!(read.starts_with("exit 0"), "her certificate opens the session, her rights are in the token: {read}");
    assert!(!shown("dashboard").starts_with("exit 0"), "a certificate of the plant that is nobody's");
    up.stop();

    let config = scene.read("trapkey.toml");
    scene.write("alone.toml", config.split("\n[[server]]").next().unwrap());
    let config = scene.read("alone.toml").replace("connections_per_address = 128", "connections_per_address = 2");
    scene.write("alone.toml", &config.replace("patience = \"30s\"", "patience = \"10m\""));
    let up = Up::start_with(&scene, "alone.toml", 1);
    let connect = || TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
    let (_first, _second, mut third) = (connect(), connect(), connect());
    third.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(matches!(third.read(&mut [0; 1]), Ok(0)), "two have their places, the third has none");
    up.stop();
}
