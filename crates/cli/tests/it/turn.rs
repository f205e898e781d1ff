//! Two guards in front of one server, and the authority: one of the two serves, whatever is killed, drained or away.

use std::net::TcpStream;

use client::Client;
use opcua_types::{NodeId, Variant};

use super::guard::{Guarded, speed, user};
use super::health::Health;
use super::lost::becomes;
use super::up::{Up, until};

const SPEED: &str = "nsu=urn:trapkey:demo:mixer;s=Mixer.Setpoints.Speed";

/// One of two guards: its configuration, where clients reach it, and how it is.
struct Place {
    config: &'static str,
    port: u16,
    health: Health,
}

impl Place {
    /// Its line in `/readyz`; nothing while it starts.
    fn turn(&self) -> serde_json::Value {
        let (_, said) = self.health.ready();
        let parts = said["parts"].as_array().unwrap();
        parts.iter().find(|part| part["part"] == "turn").cloned().unwrap_or_default()
    }

    fn serves(&self) -> bool {
        self.turn()["role"] == "active"
    }

    fn listens(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }
}

/// The authority and two guards as programs of their own.
fn places(plant: &Guarded) -> [Place; 2] {
    let scene = &plant.scene;
    let whole = scene.read("trapkey.toml");
    let (rest, guard) = whole.split_at(whole.find("\n[[guard]]\nname = \"gate\"").unwrap());
    let (common, roles) = rest.split_once("\n[authority]").unwrap();
    let (authority, servers) = roles.split_at(roles.find("\n[[server]]").unwrap());
    let value = |key: &str| servers.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    let bond = format!(
        "{}\n{}\nfail_mode = \"last_known_good\"\ncontact_timeout = \"10m\"\n",
        value("authority = "),
        value("authority_opcua = ")
    );
    let write = |name: &str, role: &str| {
        let common = common.replace("var/ledger", &format!("var/{name}-ledger"));
        let common = common.replace("var/audit.pem", &format!("var/{name}.pem"));
        scene.write(&format!("{name}.toml"), &format!("{common}{role}"));
    };
    write("authority", &format!("\n[authority]{authority}"));
    let votes = [testkit::ports::free(), testkit::ports::free()];
    let old = plant.url.rsplit(':').next().unwrap().to_owned();
    [("left", votes), ("right", [votes[1], votes[0]])].map(|(name, [own, other])| {
        let port = testkit::ports::free();
        let role = guard.replacen("\nname = ", &format!("\n{bond}name = "), 1).replacen(
            &format!("listen = \"127.0.0.1:{old}\""),
            &format!("listen = \"127.0.0.1:{port}\""),
            1,
        );
        let standby =
            format!("\n[guard.standby]\nlisten = \"127.0.0.1:{own}\"\npeer = \"127.0.0.1:{other}\"\nturn = \"4s\"\n");
        write(name, &(role + &standby));
        let config = if name == "left" { "left.toml" } else { "right.toml" };
        Place { config, port, health: Health::of(scene, config) }
    })
}

/// The guard's addresses, as the discovery server tells them.
async fn listed(plant: &Guarded) -> Vec<String> {
    let all =
        client::servers(&plant.old, std::time::Duration::from_secs(20)).await.expect("the discovery server answers");
    let guard = all.into_iter().find(|server| server.application_uri.as_ref() == "urn:trapkey:demo:gate");
    let urls = guard.and_then(|guard| guard.discovery_urls).unwrap_or_default();
    urls.iter().map(|url| url.as_ref().to_owned()).collect()
}

/// Waits until the discovery server sends clients to this guard, and to no other.
async fn is_listed(plant: &Guarded, place: &Place) {
    becomes("the one that serves is listed", async || {
        let urls = listed(plant).await;
        !urls.is_empty() && urls.iter().all(|url| url.ends_with(&format!(":{}", place.port)))
    })
    .await;
}

/// A client that reads through this guard.
async fn reads(plant: &Guarded, place: &Place) -> Client {
    for _ in 0..480 {
        let mut options = plant.options("pki/hmi", user("olga", "olgas password"));
        options.url = format!("opc.tcp://127.0.0.1:{}", place.port);
        if let Ok(client) = Client::connect(options).await {
            if client.node_id(SPEED).await.is_ok_and(|found| found.is_some()) {
                let node = speed(&client).await;
                if client.read(&[node]).await.is_ok_and(|values| values[0].status().is_good()) {
                    return client;
                }
            }
            client.close().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(125)).await;
    }
    panic!("nobody gets through: {}", plant.scene.read(&format!("{}.log", place.config)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_a_guard_that_is_killed_and_gives_way_to_none_that_comes_back() {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "");
    let (known, with) = ("discovery_server = false", "discovery_server = true");
    plant.scene.write("old.toml", &plant.scene.read("old.toml").replacen(known, with, 1));
    let with = format!("register_with = [\"{}\"]", plant.old);
    plant.scene.write("trapkey.toml", &plant.scene.read("trapkey.toml").replacen("register_with = []", &with, 1));
    let mut places = places(&plant);
    let start = |place: &Place| Up::start_with(&plant.scene, place.config, 2);
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let authority = Up::start_with(&plant.scene, "authority.toml", 1);
    let mut running = vec![start(&places[0]), start(&places[1])];
    until("one has its turn", || places.iter().any(Place::serves));
    if places[1].serves() {
        places.reverse();
        running.reverse();
    }
    let [first, second] = &places;
    until("it listens", || first.listens());
    assert!(!second.serves() && !second.listens(), "the other does not: whoever dials it is refused");
    assert_eq!([first.turn(), second.turn()].map(|turn| turn["span_seconds"].as_f64()), [Some(4.0); 2]);
    let client = reads(&plant, first).await;
    let [support, uris, level] = [3_709_u32, 11_314, 2_267].map(|number| NodeId::new(0, number));
    let said = client.read(&[support, uris, level]).await.unwrap();
    assert_eq!(said[0].value, Some(Variant::Int32(1)), "RedundancySupport Cold: who stands by takes no connection");
    assert_eq!(said[1].value, Some(Variant::from(vec!["urn:trapkey:demo:gate".to_owned()])), "both have one name");
    assert_eq!(said[2].value, Some(Variant::Byte(255)), "the one that serves");
    is_listed(&plant, first).await;
    assert_eq!(first.health.metrics().get("trapkey_turn_active", &[("listener", "gate")]), 1.0);
    assert_eq!(second.health.metrics().get("trapkey_turn_active", &[("listener", "gate")]), 0.0);
    until("the doctor sees it", || {
        let found = plant.scene.json(&["doctor", "--config", second.config]);
        let findings = found["findings"].as_array().unwrap().clone();
        findings
            .iter()
            .any(|one| one["what"] == "turn of gate" && one["detail"].as_str().unwrap().contains("stands by"))
    });
    until("the other is ready to take over", || second.turn()["other"] == true && second.turn()["ready"] == true);
    let term = first.turn()["term"].as_u64().unwrap();

    // Killed, not ended: its turn has to run out.
    drop(running.remove(0));
    until("the other serves", || second.serves());
    drop(client);
    reads(&plant, second).await.close().await;
    is_listed(&plant, second).await;
    assert!(second.turn()["term"].as_u64().unwrap() > term, "each turn has a greater number");
    let log = plant.scene.read(&format!("{}.log", second.config));
    assert!(log.contains("this guard serves from now on"), "{log}");

    // Who comes back waits.
    running.insert(0, start(first));
    until("it stands by and hears the other", || first.turn()["role"] == "standby" && first.turn()["other"] == true);
    until("the one that serves hears it", || second.turn()["other"] == true);
    assert!(second.serves() && !first.listens());

    // Drained: the turn is handed over, with clients that stay.
    let stays = reads(&plant, second).await;
    running.remove(1).stop();
    until("the first serves again", || first.serves());
    drop(stays);
    reads(&plant, first).await.close().await;
    is_listed(&plant, first).await;
    let log = plant.scene.read(&format!("{}.log", second.config));
    assert!(log.contains("another guard takes over"), "{log}");

    // Without the authority the two agree between themselves.
    running.push(start(second));
    let client = reads(&plant, first).await;
    let node = speed(&client).await;
    until("the other is back", || second.turn()["role"] == "standby" && second.turn()["other"] == true);
    drop(authority);
    until("one serves without the authority", || {
        let both = [first.turn(), second.turn()];
        both.iter().all(|turn| turn["authority"] == false) && both.iter().any(|turn| turn["role"] == "active")
    });
    if first.serves() && client.is_active() {
        assert!(client.read(&[node]).await.is_ok(), "sessions go on");
    }
    // And one of the two alone is none.
    let (serves, other) = if first.serves() { (first, 1) } else { (second, 0) };
    drop(running.remove(other));
    until("it stops: the other could be where it cannot be seen", || !serves.serves());
    until("nobody gets in", || !serves.listens());
    assert_eq!(serves.turn()["ready"], false);
    drop(running);
    old.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_does_not_reach_its_server_leaves_its_turn_to_the_one_that_does() {
    let plant = Guarded::new("sign_in = [\"user_name\"]", "");
    let places = places(&plant);
    let way = testkit::relay::Relay::start(&plant.old);
    for place in &places {
        let config =
            plant.scene.read(place.config).replacen("\nturn = \"4s\"", "\nturn = \"4s\"\nyield_after = \"1s\"", 1);
        plant.scene.write(place.config, &config);
    }
    let [first, second] = &places;
    let direct = plant.scene.read(first.config);
    let led = direct.replacen(&format!("url = \"{}\"", plant.old), &format!("url = \"{}\"", way.url()), 1);
    assert_ne!(direct, led, "the first reaches its server by a way of its own");
    plant.scene.write(first.config, &led);
    let old = Up::start_with(&plant.scene, "old.toml", 1);
    let authority = Up::start_with(&plant.scene, "authority.toml", 1);
    let left = Up::start_with(&plant.scene, first.config, 2);
    until("it has its turn", || first.serves());
    let right = Up::start_with(&plant.scene, second.config, 2);
    until("the other is ready to take over", || second.turn()["other"] == true && second.turn()["ready"] == true);
    reads(&plant, first).await.close().await;

    way.close();
    // Without the key nothing happens for a minute.
    let began = std::time::Instant::now();
    while !second.serves() {
        assert!(
            began.elapsed().as_secs() < 55,
            "the turn is kept: {}",
            plant.scene.read(&format!("{}.log", first.config))
        );
        std::thread::sleep(std::time::Duration::from_millis(250));
    }
    reads(&plant, second).await.close().await;
    assert_eq!(first.turn()["yields"], true);
    assert!(!first.serves());
    for one in [left, right, authority, old] {
        one.stop();
    }
}
