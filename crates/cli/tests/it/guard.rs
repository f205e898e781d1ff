//! A guard in front of a server without any security of its own: who gets through it, and how it is told.

use std::net::TcpListener;

use access_model::Thumbprint;
use client::{Client, ClientApplication, ClientOptions, Login};
use opcua_types::{MessageSecurityMode, NodeId, StatusCode, Variant};
use token::{Algorithm, Signer};
use ua_proto::crypto::SecurityPolicyId;

use super::Scene;
use super::up::{Olga, Up, scene, until};

pub(super) const SPEED: &str = "nsu=urn:trapkey:demo:mixer;s=Mixer.Setpoints.Speed";
const GATE: &str = "urn:trapkey:demo:gate";

/// The plant with an old mixer, which does whatever anybody asks for, and a guard in front of it.
pub(super) struct Guarded {
    pub(super) scene: Scene,
    /// Authority, reactor, filler and guard; the mixer is a program of its own.
    pub(super) url: String,
    pub(super) old: String,
}

impl Guarded {
    pub(super) fn new(sign_in: &str, more: &str) -> Self {
        let (scene, ports) = scene();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = scene.read("trapkey.toml");
        let (rest, mixer) = split(&config, "mixer");
        let old = mixer
            .replace("identities = [\"token\", \"user_name\", \"x509\"]", "identities = [\"anonymous\"]")
            .replace("danger_without_security = false", "danger_without_security = true")
            + "\n[[server.anonymous]]\nrights = [\"browse\", \"read\", \"write\", \"call\"]\n";
        let common = rest.split_once("\n[authority]").unwrap().0.replace("var/ledger", "var/old-ledger");
        scene.write("old.toml", &format!("{}\n{old}", common.replace("var/audit.pem", "var/old-audit.pem")));
        let old = format!("opc.tcp://127.0.0.1:{}", ports[2]);
        let guard = format!(
            "\n[[guard]]\nname = \"gate\"\nlisten = \"127.0.0.1:{free}\"\n\
             upstream = {{ url = \"{old}\", security = \"none\" }}\n{more}"
        );
        scene.write("trapkey.toml", &(rest + &guard));
        let gate = format!(
            "\n[[server]]\nname = \"gate\"\nuri = \"{GATE}\"\nequipment = \"mixer-1\"\n{sign_in}\n\
             [[server.scope]]\nname = \"line\"\nsubtrees = [\"/Objects/1:Mixer\"]\nlabels = [\"measurement\"]\n\
             [[server.scope]]\nname = \"speed\"\nnodes = [\"{SPEED}\"]\nlabels = [\"setpoint\"]\nsteps = [\"charge\"]\n\
             range = {{ low = 0.0, high = 1500.0 }}\n\
             [[person]]\nname = \"anonymous@gate\"\nroles = [\"observer\"]\n"
        );
        scene.write("plant.toml", &(scene.read("plant.toml") + &gate));
        scene.json(&["certs", "add", "gate", GATE]);
        Self { scene, url: format!("opc.tcp://127.0.0.1:{free}"), old }
    }

    pub(super) fn step(&self) {
        let next = self.scene.json(&["step"])["enabled"][0].as_str().unwrap().to_owned();
        self.scene.json(&["step", &next]);
    }

    pub(super) fn options(&self, folder: &str, login: Login) -> ClientOptions {
        let store = gates::pki::PkiStore::new(self.scene.path(folder), ua_proto::pki::TrustSettings::default());
        let own = store.identity().unwrap();
        let uri = own.certificate.application_uri().unwrap().to_owned();
        let application = ClientApplication { uri, product_uri: "urn:test".into(), name: "stock".into() };
        let mut options = ClientOptions::new(&self.url, application);
        options.identity = Some(std::sync::Arc::new(own));
        options.trust = Some(std::sync::Arc::new(arc_swap::ArcSwap::from_pointee(store.load().unwrap())));
        options.login = login;
        options
    }
}

/// The configuration without one server, and that one.
fn split(config: &str, name: &str) -> (String, String) {
    let start = config.find(&format!("[[server]]\n# The server of this name in the plant file gives ApplicationUri and scopes.\nname = \"{name}\"")).unwrap();
    let end = config[start + 1..].find("\n[[server]]").map_or(config.len(), |end| start + 1 + end);
    (config[..start].to_owned() + &config[end..], config[start..end].to_owned())
}

pub(super) fn user(name: &str, password: &str) -> Login {
    Login::UserName { name: name.into(), password: password.to_owned().into() }
}

pub(super) async fn speed(client: &Client) -> NodeId {
    client.node_id(SPEED).await.unwrap().unwrap()
}

async fn write(client: &Client, value: f64) -> StatusCode {
    let node = speed(client).await;
    client.write(vec![(node, Variant::Double(value))]).await.unwrap()[0]
}

/// Waits for an outcome that comes a moment after its cause.
pub(super) async fn becomes(what: &str, client: &Client, value: f64, expected: StatusCode) {
    for _ in 0..240 {
        if write(client, value).await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    panic!("it never happened: {what}");
}

/// Waits until a write is denied, by itself or with all else that the session may ask for.
pub(super) async fn refused(what: &str, client: &Client, node: NodeId) {
    let mut last = String::new();
    for _ in 0..240 {
        last = match client.write(vec![(node.clone(), Variant::Double(14.5))]).await {
            Ok(all) => format!("{:?}", all[0]),
            Err(error) => format!("{error:?}"),
        };
        if last.contains("BadUserAccessDenied") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    panic!("it was never denied: {what}: {last}");
}

pub(super) fn records(scene: &Scene) -> Vec<serde_json::Value> {
    scene.json(&["audit", "tail", "-n", "2000"]).as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_client_signs_in_at_the_guard_and_its_rights_come_and_go_with_the_step() {
    let plant = Guarded::new("sign_in = [\"user_name\", \"x509\"]", "");
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let up = Up::start(&plant.scene, 4);
    let denied = StatusCode::BadUserAccessDenied;
    let client = Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await.unwrap();
    becomes("the guard has found the old server", &client, 12.5, denied).await;
    plant.step();
    becomes("the step widens the grant of the session that runs", &client, 12.5, StatusCode::Good).await;
    assert_eq!(write(&client, 1e9).await, StatusCode::BadOutOfRange);
    plant.step();
    becomes("the next step takes it away", &client, 13.5, denied).await;
    let node = speed(&client).await;
    let value = client.read(std::slice::from_ref(&node)).await.unwrap().remove(0);
    assert_eq!(value.value, Some(Variant::Double(12.5)), "nothing that was denied has reached the old server");
    client.close().await;

    let wrong = Client::connect(plant.options("pki/hmi", user("olga", "guessed"))).await;
    assert!(wrong.is_err_and(|error| error.to_string().contains("BadUserAccessDenied")));
    let anonymous = Client::connect(plant.options("pki/hmi", Login::Anonymous)).await;
    assert!(anonymous.is_err(), "the plant file lets nobody in without a name");
    let by_token = Olga { scene: &plant.scene, url: plant.url.clone() };
    let read = by_token.client("read", &[SPEED]);
    assert!(read.starts_with("exit 0"), "whoever can carry a token still may: {read}");

    up.stop();
    old.stop();
    let records = records(&plant.scene);
    let has = |kind: &str, outcome: &str, what: &str| {
        records.iter().any(|one| one["kind"] == kind && one["outcome"] == outcome && one.to_string().contains(what))
    };
    assert!(has("session_activated", "allowed", "by password"), "{records:#?}");
    assert!(has("token_issued", "allowed", "by guest"));
    assert!(has("session_activated", "denied", "user_credentials"));
    assert!(has("write", "allowed", "12.5") && has("write", "denied", "right_missing"));
    let all = format!("{records:?}{}", plant.scene.read("up.log"));
    assert!(!all.contains("olgas password") && !all.contains("guessed"), "a password is nobody's to read");
    assert_eq!(plant.scene.json(&["audit", "verify"])["intact"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_security_are_anonymous_here_and_nothing_else() {
    let more = "danger_without_security = true\nidentities = [\"user_name\", \"anonymous\"]\n";
    let plant = Guarded::new("sign_in = [\"user_name\", \"anonymous\"]", more);
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let up = Up::start(&plant.scene, 4);
    let bare = |login| {
        let mut options = plant.options("pki/hmi", login);
        (options.policies, options.modes) = (vec![SecurityPolicyId::None], vec![MessageSecurityMode::None]);
        (options.identity, options.trust) = (None, None);
        options
    };
    let client = Client::connect(bare(Login::Anonymous)).await.unwrap();
    becomes("the guard has found the old server", &client, 1.0, StatusCode::BadUserAccessDenied).await;
    let node = speed(&client).await;
    assert!(client.read(&[node]).await.unwrap()[0].status().is_good(), "whoever observes may read");
    plant.step();
    assert_eq!(write(&client, 1.0).await, StatusCode::BadUserAccessDenied, "nobody in particular operates nothing");
    client.close().await;
    let named = Client::connect(bare(user("olga", "olgas password"))).await;
    assert!(named.is_err(), "a name over a channel that nothing protects takes a key with a dangerous name");
    let protected = Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await.unwrap();
    assert_eq!(write(&protected, 2.0).await, StatusCode::Good);
    protected.close().await;
    up.stop();
    let config = plant.scene.read("trapkey.toml");
    let taken = "danger_without_security = true\nidentities = [\"user_name\", \"anonymous\"]\n";
    assert!(config.contains(taken));
    let more = format!("danger_passwords_without_security = true\n{taken}");
    plant.scene.write("trapkey.toml", &config.replacen(taken, &more, 1));
    let up = Up::start(&plant.scene, 4);
    let named = Client::connect(bare(user("olga", "olgas password"))).await.unwrap();
    assert_eq!(write(&named, 3.0).await, StatusCode::Good, "with that key, it is taken");
    named.close().await;
    up.stop();
    old.stop();
    assert!(records(&plant.scene).iter().any(|one| one.to_string().contains("anonymous@gate")));
}

/// A controller with room for one session: two clients share it, or the second one is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_share_the_one_that_a_small_server_has_if_that_is_configured() {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "");
    let (config, old) = (plant.scene.read("trapkey.toml"), plant.scene.read("old.toml"));
    plant.scene.write("old.toml", &(old + "\n[server.limits]\nsessions = 1\n"));
    let server = Up::start_with(&plant.scene, "old.toml", 1);
    let login = || plant.options("pki/hmi", user("olga", "olgas password"));
    for (pool, shared) in [("always", true), ("never", false)] {
        plant
            .scene
            .write("trapkey.toml", &config.replace("name = \"gate\"", &format!("name = \"gate\"\npool = \"{pool}\"")));
        let up = Up::start(&plant.scene, 4);
        let first = Client::connect(login()).await.unwrap();
        becomes("the guard has found the old server", &first, 1.0, StatusCode::BadUserAccessDenied).await;
        let node = speed(&first).await;
        let second = Client::connect(login()).await.unwrap();
        let read = second.read(std::slice::from_ref(&node)).await;
        match (shared, read) {
            (true, Ok(values)) => assert!(values[0].status().is_good()),
            (false, Err(error)) => assert!(error.to_string().contains("BadTooManySessions"), "{error}"),
            (_, read) => panic!("{pool}: {read:?}"),
        }
        assert!(first.read(&[node]).await.unwrap()[0].status().is_good(), "{pool}: the first goes on");
        second.close().await;
        first.close().await;
        up.stop();
    }
    server.stop();
    let full = u64::from(StatusCode::BadTooManySessions.bits());
    let told = |one: &serde_json::Value| one["kind"] == "contact" && one["status"] == full;
    let records = records(&plant.scene);
    assert!(records.iter().any(told), "{records:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_may_sign_in_with_follows_the_plant_file_and_issuers_beside_the_authority_count() {
    let signer = Signer::generate(Algorithm::Es256).unwrap();
    let issuer = "issuer = [{ name = \"https://idp\", jwks = \"idp.json\", confirmation = false, \
                  rights = [{ role = \"Operator\", rights = [\"browse\", \"read\"], scopes = [\"speed\"] }] }]\n";
    let plant = Guarded::new("sign_in = [\"x509\"]", issuer);
    plant.scene.write("idp.json", &token::jwks(&[signer.public()]));
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let up = Up::start(&plant.scene, 4);
    let claims = super::issuers::maria("https://idp", GATE);
    plant.scene.write("token", token::mint(&claims, &signer).unwrap().as_str());
    let by_token = || plant.scene.run(&["client", "read", &plant.url, "--pki", "pki/hmi", "--token", "token", SPEED]);
    until("the neighbour's token is taken", || by_token().starts_with("exit 0"));

    let login = || plant.options("pki/hmi", user("olga", "olgas password"));
    assert!(Client::connect(login()).await.is_err(), "nobody signs in by name");
    let file = plant.scene.read("plant.toml");
    plant.scene.write("plant.toml", &file.replace("sign_in = [\"x509\"]", "sign_in = [\"user_name\"]"));
    let mut client = None;
    for _ in 0..240 {
        client = Client::connect(login()).await.ok();
        if client.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    client.expect("the changed plant file lets olga in").close().await;
    plant.scene.write("plant.toml", &file);
    let mut refused = false;
    for _ in 0..240 {
        match Client::connect(login()).await {
            Ok(client) => client.close().await,
            Err(_) => refused = true,
        }
        if refused {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    assert!(refused, "and the one before does not");
    up.stop();
    old.stop();
}

#[test]
fn the_guard_waits_for_its_server_and_doctor_shows_the_way_round() {
    let plant = Guarded::new("", "");
    assert!(plant.scene.run(&["config", "check"]).starts_with("exit 0"), "{}", plant.scene.run(&["config", "check"]));
    let finding = |what: &str| {
        let health = plant.scene.json(&["doctor"]);
        let findings = health["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .find(|one| one["what"].as_str().unwrap().contains(what))
            .unwrap_or_else(|| panic!("{health:#}"))
    };
    assert_eq!(finding("upstream of gate")["standing"], "warning");
    let up = Up::start(&plant.scene, 4);
    let by_token = Olga { scene: &plant.scene, url: plant.url.clone() };
    let away = by_token.client("read", &[SPEED]);
    assert!(away.starts_with("exit 3") && away.contains("BadServerNotConnected"), "{away}");
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    until("the guard finds the server", || by_token.client("read", &[SPEED]).starts_with("exit 0"));
    assert_eq!(finding("upstream of gate")["standing"], "ok");
    let round = finding("the way around gate");
    assert_eq!(round["standing"], "warning", "{round:#}");
    let detail = round["detail"].as_str().unwrap();
    assert!(detail.contains(&plant.old) && detail.contains("firewall"), "{detail}");
    up.stop();
    old.stop();
}

#[test]
fn the_upstream_certificate_is_pinned() {
    let plant = Guarded::new("", "");
    let (config, old) = (plant.scene.read("trapkey.toml"), plant.scene.read("old.toml"));
    let old = old.replace("danger_without_security = true", "danger_without_security = false");
    plant.scene.write("old.toml", &old);
    let secured =
        |certificate: &str| config.replace("security = \"none\"", &format!("certificate = \"{certificate}\""));
    plant.scene.write("trapkey.toml", &secured("pki/reactor/own/certs/own.der"));
    let server = Up::start_with(&plant.scene, "old.toml", 1);
    let by_token = Olga { scene: &plant.scene, url: plant.url.clone() };
    let up = Up::start(&plant.scene, 4);
    until("the guard says why", || {
        plant.scene.read("up.log").contains("another certificate than `upstream.certificate`")
    });
    assert!(by_token.client("read", &[SPEED]).contains("BadServerNotConnected"));
    up.stop();
    plant.scene.write("trapkey.toml", &secured("pki/mixer/own/certs/own.der"));
    let up = Up::start(&plant.scene, 4);
    until("the right certificate lets it through", || by_token.client("read", &[SPEED]).starts_with("exit 0"));
    up.stop();
    server.stop();
}

#[test]
fn slips_of_the_configuration_are_shown() {
    let plant = Guarded::new("", "");
    let config = plant.scene.read("trapkey.toml");
    let thumbprint = Thumbprint([7; 32]);
    for (from, to, says) in [
        ("security = \"none\"", "security = \"nothing\"".to_owned(), "nothing"),
        (
            "security = \"none\"",
            "security = \"none\", certificate = \"a.der\"".to_owned(),
            "nothing would hold the server to it",
        ),
        ("security = \"none\"", "user = { name = \"gw\" }".to_owned(), "neither a user with a password"),
        ("security = \"none\"", format!("pin = \"{thumbprint}\""), "there is no key `pin`"),
        ("name = \"gate\"", "name = \"gaet\"".to_owned(), "did you mean `gate`?"),
        (
            "security = \"none\" }",
            "security = \"none\", role = [{ role = \"operatr\", user = { name = \"a\", password_file = \"b\" } }] }"
                .to_owned(),
            "did you mean `operator`?",
        ),
    ] {
        plant.scene.write("trapkey.toml", &config.replacen(from, &to, 1));
        let said = plant.scene.run(&["config", "check"]);
        assert!(said.starts_with("exit 2") && said.contains(says), "{to}: {said}");
    }
    plant.scene.write("trapkey.toml", &config);
    let file = plant.scene.read("plant.toml");
    plant.scene.write("plant.toml", &file.replace(SPEED, "ns=1;s=Mixer.Setpoints.Speed"));
    let said = plant.scene.run(&["config", "check"]);
    assert!(said.contains("names its namespace by a number"), "{said}");
}

/// A guard that observes lets a client do what no policy permits; what is proposed from that lets it go on when it
/// enforces, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_learned_goes_on_when_it_is_locked_and_the_rest_is_denied() {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "mode = \"observe\"\n");
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let up = Up::start(&plant.scene, 4);
    let client = Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await.unwrap();
    becomes("it observes", &client, 12.5, StatusCode::Good).await;
    client.close().await;
    let has = |what: &str| {
        records(&plant.scene).iter().any(|one| one["outcome"] == "observed" && one.to_string().contains(what))
    };
    until("the ledger has it", || has("right_missing") || has("scope_not_granted"));
    let doctor = |standing: &str, words: &str| {
        let said = plant.scene.json(&["doctor"]);
        let found =
            said["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "mode of gate").cloned();
        found.is_some_and(|found| found["standing"] == standing && found["detail"].as_str().unwrap().starts_with(words))
    };
    until("the doctor sees that it observes", || doctor("warning", "observes: nothing is denied"));
    let proposed = plant.scene.json(&["guard", "propose", "--server", "gate"]);
    assert_eq!(proposed["complete"], true, "{proposed:#}");
    let covered = proposed["coverage"].as_array().unwrap();
    let of_operators = covered.iter().find(|one| one["role"] == "operator" && one["step"] == "idle").unwrap();
    assert_eq!((&of_operators["recorded"], &of_operators["not_granted"]), (&of_operators["permitted"], &0.into()));
    let roles =
        |one: &serde_json::Value| one["place"]["roles"].as_str().is_some_and(|roles| roles.contains("operator"));
    let with_roles = |one: &serde_json::Value| one["kind"] == "write" && roles(one);
    assert!(records(&plant.scene).iter().any(with_roles), "the record names the roles");
    let what_if = |more: &[&str]| plant.scene.run(&[&["policy", "what-if", "--server", "gate"], more].concat());
    let as_it_is = what_if(&[]);
    assert!(as_it_is.starts_with("exit 0") && as_it_is.contains("0 changes; "), "{as_it_is}");
    let text = proposed["policies"].as_str().unwrap().to_owned();
    plant.scene.write("policies.cedar", &text);
    if let Some(file) = proposed["plant"].as_str() {
        plant.scene.write("plant.toml", file);
    }
    let proposal = what_if(&[]);
    let learned = |line: &str| ["deny to permit", "olga", "write", "gate/"].iter().all(|word| line.contains(word));
    assert!(proposal.starts_with("exit 1") && proposal.lines().any(learned), "{proposal}");
    assert!(!proposal.contains("permit to deny"), "{proposal}");
    let of_nobody = what_if(&["--actor", "nobody"]);
    assert!(of_nobody.starts_with("exit 0") && of_nobody.contains("0 changes; 0 accesses"), "{of_nobody}");
    let checked = plant.scene.run(&["policy", "check"]);
    assert!(checked.starts_with("exit 0"), "{checked}");
    let reloaded = plant.scene.run(&["policy", "reload"]);
    assert!(reloaded.starts_with("exit 0"), "{reloaded}");
    assert_eq!(plant.scene.json(&["guard", "mode", "gate", "enforce"])["mode"], "enforce");
    until("the doctor sees that it was ordered to enforce", || doctor("ok", "enforces, by order of the authority"));
    let client = Client::connect(plant.options("pki/hmi", user("olga", "olgas password"))).await.unwrap();
    becomes("what was learned goes on", &client, 13.5, StatusCode::Good).await;
    let node = speed(&client).await;
    plant.step();
    refused("in another step nothing of it was seen: the grant is over", &client, node).await;
    client.close().await;
    up.stop();
    old.stop();
    let switched =
        |one: &serde_json::Value| one["kind"] == "configuration_changed" && one.to_string().contains("enforce");
    assert!(records(&plant.scene).iter().any(switched));
    until("nobody runs", || doctor("warning", "does not run; it is configured to observe"));
}
