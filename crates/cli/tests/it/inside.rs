//! `trapkey cost watch` beside real programs in which computing becomes slower, by what happens in plants: tokens that have grown, a key
//! that is slow. What waits for others is in `watch` and `slower`.

use client::{Client, ClientOptions, Login};
use token::{Algorithm, Claims, Signer, jwks, mint};

use super::guard::Guarded;
use super::health::Health;
use super::issuers::maria;
use super::lost::becomes;
use super::processes::apart;
use super::settings::give;
use super::slower::{BAND, Clients, Held, Line, clears, learned, names, slower};
use super::up::{Up, scene, until};
use super::watch::Watching;

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
    clients.log_in(8, 200, &line.olga());
    clients.work(&line.olga()).await;
    let mut watching = line.watch();
    learned(
        &mut watching,
        &["hello", "open_channel", "create", "activate"].map(|it| format!("gate {it}")).each_ref().map(String::as_str),
    );
    // They offer the processor before each use of a key, or wait for work, and get it back late.
    let Some(keys) = Held::at(&line.gate, "crypto-", "sched_yield,futex") else { return clients.end().await };
    let both = ["gate create", "gate open_channel"];
    watching.until("both are slower, more than all others, and the key is what they have in common", |look| {
        let mut first: Vec<String> = slower(look).into_iter().take(2).map(|(name, _)| name).collect();
        first.sort_unstable();
        first == both && look["report"]["suspect"] == "keys"
    });
    drop(keys);
    both.iter().for_each(|stage| clears(&mut watching, stage));
    clients.end().await;
}
