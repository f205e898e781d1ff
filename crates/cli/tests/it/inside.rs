//! `trapkey cost watch` beside real programs in which computing becomes slower, by what happens in plants: more zones to look at while the
//! authority is away, tokens that have grown. What waits for others is in `watch` and `slower`.

use client::{Client, ClientOptions, Login};
use serde_json::Value;
use token::{Algorithm, Claims, Signer, jwks, mint};

use super::Scene;
use super::guard::Guarded;
use super::health::Health;
use super::issuers::maria;
use super::lost::becomes;
use super::processes::apart;
use super::settings::give;
use super::slower::{BAND, Clients, Held, Line, clears, learned, names};
use super::up::{Up, scene, until};
use super::watch::Watching;

/// So many zones with something of the guard in each, of which nothing is left but reading while the authority is away.
fn zones(scene: &Scene, count: usize) {
    let (mut config, mut plant, mut scopes) = (String::new(), String::new(), String::new());
    for nth in 0..count {
        config += &format!("[[zone]]\nname = \"hall-{nth}\"\nfail_mode = \"read_only\"\n");
        plant += &format!(
            "[[zone]]\nname = \"hall-{nth}\"\nsite = \"north\"\n[[equipment]]\nname = \"tank-{nth}\"\nzone = \"hall-{nth}\"\n"
        );
        scopes += &format!("[[server.scope]]\nname = \"tank-{nth}\"\nequipment = \"tank-{nth}\"\n");
    }
    let line = "[[zone]]\nname = \"line-1\"\nfail_mode = \"read_only\"\n";
    let trapkey = scene.read("trapkey.toml");
    scene.write("trapkey.toml", &trapkey.replacen("# [[zone]]\n", &(line.to_owned() + &config), 1));
    let known = scene.read("plant.toml");
    let (before, gate) = known.split_at(known.find("\n[[server]]\nname = \"gate\"").unwrap());
    let (server, person) = gate.split_at(gate.find("[[person]]").unwrap());
    scene.write("plant.toml", &format!("{before}\n{plant}{server}{scopes}{person}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes the machine for itself"]
async fn an_authority_that_is_away_is_the_decisions_that_moved_where_zones_are_many() {
    let mut line = Line::changed("20s", |scene| zones(scene, 300));
    let mut clients = Clients::new();
    clients.work(&line.olga()).await;
    let mut watching = line.watch();
    learned(&mut watching, &["gate decision", "gate upstream"]);
    drop(line.authority.take());
    names(&mut watching, "gate decision");
    line.authority = Some(Up::start_with(&line.plant.scene, "authority.toml", 2));
    clears(&mut watching, "gate decision");
    assert_eq!(watching.end(), 0);
    clients.end().await;
}

/// Persons of an identity provider that puts all of their groups into what they carry.
fn carried(plant: &Guarded, signer: &Signer, groups: usize) -> ClientOptions {
    let groups = (0..groups).map(|nth| format!("plant/north/line-1/shift/{nth}")).chain(["quality".to_owned()]);
    let known = maria("https://idp", "api://mixer");
    let claims = Claims { roles: vec![], groups: groups.collect(), ..known };
    let sealed = mint(&claims, signer).unwrap();
    plant.options("pki/hmi", Login::ThisToken(sealed.as_str().as_bytes().to_vec().into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_have_grown_are_their_verification_that_moved() {
    let (scene, ports) = scene();
    let signer = Signer::generate(Algorithm::Es256).unwrap();
    scene.write("idp.json", &jwks(&[signer.public()]));
    let may = "{ group = \"quality\", rights = [\"browse\", \"read\"] }";
    give(
        &scene,
        "mixer",
        &format!(
            "issuer = [{{ name = \"https://idp\", jwks = \"idp.json\", audience = \"api://mixer\", confirmation = false, rights = [{may}] }}]\n"
        ),
    );
    apart(&scene);
    let health = Health::of(&scene, "mixer.toml");
    let _mixer = Up::start_with(&scene, "mixer.toml", 1);
    until("it answers", || health.ask("GET /livez").0 == 200);
    let plant = Guarded { scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]), old: String::new() };
    let mut clients = Clients::new();
    let few = carried(&plant, &signer, 1);
    becomes("who carries a token gets in", async || match Client::connect(few.clone()).await {
        Ok(client) => {
            client.close().await;
            true
        }
        Err(_) => false,
    })
    .await;
    clients.log_in(4, 50, &few);
    let mut watching = Watching::start(&plant.scene, &[&["--config", "mixer.toml"][..], &BAND].concat());
    let stages = ["hello", "open_channel", "create", "activate", "token"].map(|stage| format!("mixer {stage}"));
    learned(&mut watching, &stages.each_ref().map(String::as_str));
    clients.end().await;
    let mut clients = Clients::new();
    clients.log_in(3, 50, &carried(&plant, &signer, 5_000));
    names(&mut watching, "mixer token");
    clients.end().await;
    assert_eq!(watching.end(), 1, "an alarm stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes the machine for itself"]
async fn a_key_that_becomes_slow_is_what_opens_channels_and_makes_sessions() {
    let line = Line::start();
    let mut clients = Clients::new();
    clients.log_in(3, 200, &line.olga());
    clients.work(&line.olga()).await;
    let mut watching = line.watch();
    let stages = ["gate hello", "gate open_channel", "gate create", "gate activate", "gate decision", "gate upstream"];
    learned(&mut watching, &stages);
    // They offer the processor before each use of a key, and get it back late.
    let Some(keys) = Held::at(&line.gate, "crypto-", "sched_yield") else { return clients.end().await };
    let both = ["gate create", "gate open_channel"];
    let alarmed = |look: &Value| {
        let stages = look["report"]["stages"].as_array().unwrap().iter().filter(|seen| !seen["alarm"].is_null());
        let mut names: Vec<String> = stages.map(|seen| seen["stage"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    let (_, look) = watching.until("both are slower", |look| {
        let named = alarmed(look);
        assert!(named.iter().all(|stage| both.contains(&stage.as_str())), "{look:#}");
        named == both
    });
    assert_eq!(look["report"]["suspect"], "keys", "{look:#}");
    drop(keys);
    watching.until("both are quick again", |look| alarmed(look).is_empty());
    assert_eq!(watching.end(), 0);
    clients.end().await;
}
