//! Keys and certificates of the running program: secret ones are kept secret, renewed ones are shown.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gates::https::{HttpsClient, Target, client_config};
use gates::pki::PkiStore;
use ua_proto::pki::{OwnIdentity, TrustSettings};

use super::Scene;
use super::up::{Olga, Up, scene, until};

const SPEED: &str = "ns=1;s=Mixer.Setpoints.Speed";

fn set_mode(scene: &Scene, file: &str, mode: u32) {
    std::fs::set_permissions(scene.path(file), PermissionsExt::from_mode(mode)).unwrap();
}

/// What `up` says when it cannot start; one that does start is ended, and the test with it.
fn refused(scene: &Scene) -> String {
    let child = Command::new(env!("CARGO_BIN_EXE_trapkey"))
        .args(["up", "--config", "trapkey.toml"])
        .env("TRAPKEY_LOG", "off")
        .current_dir(scene.folder.path())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(scene.path("refused.log")).unwrap())
        .spawn();
    let mut up = Up(child.unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if let Some(status) = up.0.try_wait().unwrap() {
            assert!(!status.success());
            return scene.read("refused.log");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it runs");
}

#[test]
fn keys_that_others_can_read_are_not_used() {
    let (scene, _) = scene();
    Up::start(&scene, 4).stop();
    for key in [
        "var/keys/signing-keys.json",
        "pki/authority/tls/tls-key.pem",
        "pki/authority/own/private/own.pem",
        "pki/mixer/own/private/own.pem",
        "var/audit.pem",
    ] {
        for open in [0o640, 0o604] {
            set_mode(&scene, key, open);
            let said = refused(&scene);
            let says = said.contains("chmod 600") || said.contains("it must be 600");
            assert!(says && said.contains(key), "{key} {open:o}: {said}");
        }
        set_mode(&scene, key, 0o600);
    }
    Up::start(&scene, 4).stop();
}

#[test]
fn certs_renew_keeps_who_it_is_and_servers_show_it_while_they_run() {
    let (scene, ports) = scene();
    let own = |name: &str| format!("pki/{name}/own/certs/own.der");
    let before = scene.json(&["certs", "show", &own("mixer")]);
    let up = Up::start(&scene, 4);
    let olga = Olga { scene: &scene, url: format!("opc.tcp://127.0.0.1:{}", ports[2]) }.served(SPEED);
    let reads = || olga.client("read", &[SPEED]);
    assert!(reads().starts_with("exit 0"));

    for (more, rounds) in [(&[][..], 1), (&["--new-key"][..], 2)] {
        let renewed = scene.json(&[&["certs", "renew", "mixer", "--days", "30"], more].concat());
        let after = scene.json(&["certs", "show", &own("mixer")]);
        for same in ["subject", "application_uri", "hosts", "key_bits"] {
            assert_eq!(after[same], before[same], "{same}");
        }
        assert_ne!(after["thumbprint"], before["thumbprint"]);
        assert_eq!(after["thumbprint"], renewed["thumbprint"]);
        until("the mixer shows it", || {
            scene.read("up.log").matches("the own certificate was renewed").count() == rounds
        });
        assert!(reads().starts_with("exit 0"), "{}", reads());
    }
    up.stop();
    for name in ["own", "own-previous"] {
        let key = std::fs::metadata(scene.path(&format!("pki/mixer/own/private/{name}.pem"))).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600, "{name}");
    }
    let nobody = scene.run(&["certs", "renew", "nobody"]);
    assert!(nobody.starts_with("exit 2") && nobody.contains("trapkey certs add"), "{nobody}");
}

/// What a server starts with.
fn identity(scene: &Scene, name: &str) -> OwnIdentity {
    PkiStore::new(scene.path("pki").join(name), TrustSettings::default()).identity().unwrap()
}

#[test]
fn whoever_holds_the_certificate_before_the_last_finds_its_owner_after_a_restart_too() {
    let scene = Scene::plant();
    scene.json(&["certs", "init", "--curve", "p256"]);
    let found = |now: &OwnIdentity, old: &OwnIdentity| {
        let [old, beside] = [&old.certificate, &old.others[0].certificate];
        [old, beside].map(|one| now.by_thumbprint(&one.thumbprint_sha1()).is_some())
    };
    let first = identity(&scene, "mixer");
    for more in [&[][..], &["--new-key"]] {
        let before = identity(&scene, "mixer");
        scene.json(&[&["certs", "renew", "mixer", "--days", "40"], more].concat());
        let after = identity(&scene, "mixer");
        assert_ne!(after.certificate.der(), before.certificate.der());
        assert_eq!((found(&after, &after), found(&after, &before)), ([true; 2], [true; 2]), "{more:?}");
        // The two were not made in the same second.
        let ends = [&before.certificate, &before.others[0].certificate].map(|it| it.not_after());
        let end = ends[0].max(ends[1]) + Duration::from_secs(1);
        let over = after.without_ended(end).unwrap();
        assert_eq!((found(&over, &after), found(&over, &before)), ([true; 2], [false; 2]), "{more:?}");
    }
    assert_eq!(found(&identity(&scene, "mixer"), &first), [false; 2], "one back, and no further");
}

#[test]
fn https_shows_a_renewed_certificate_while_it_runs() {
    let (scene, ports) = scene();
    let up = Up::start(&scene, 4);
    let authority = Target { host: "localhost".into(), port: ports[0], path: String::new() };
    let roots = [std::fs::read(scene.path("pki/ca/ca.der")).unwrap()];
    let https = HttpsClient::new(client_config(roots, None).unwrap(), Duration::from_secs(60));
    let pinned = || {
        let tls = gates::pki::certificate(&scene.path("pki/authority/tls/tls.pem")).unwrap();
        https.clone().pinned([tls.thumbprint()])
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answers = |pinned: &HttpsClient| {
        runtime.block_on(pinned.exchange(&authority, "GET", "/oauth2/jwks", &[], Vec::new())).is_ok()
    };
    let before = pinned();
    assert!(answers(&before));
    scene.json(&["certs", "renew", "authority", "--days", "30"]);
    let after = pinned();
    until("HTTPS shows the new certificate", || answers(&after));
    assert!(!answers(&before), "and the old one no more");
    let mode = std::fs::metadata(scene.path("pki/authority/tls/tls-key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(scene.json(&["step"])["steps"][0], "idle");
    up.stop();
}

#[test]
fn the_authority_keeps_the_certificates_it_refuses() {
    let (scene, ports) = scene();
    scene.json(&["certs", "init", "--folder", "strange"]);
    for folder in ["trusted/certs", "trusted/crl"] {
        for file in std::fs::read_dir(scene.path("pki/hmi").join(folder)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), scene.path("strange/hmi").join(folder).join(file.file_name())).unwrap();
        }
    }
    let up = Up::start(&scene, 4);
    let url = format!("opc.tcp://127.0.0.1:{}", ports[1]);
    let browse = ["client", "browse", &url, "--pki", "strange/hmi", "--user", "olga"];
    let said = scene.run_with(&browse, &[("TRAPKEY_PASSWORD", "olgas password")]);
    assert!(!said.starts_with("exit 0"), "{said}");
    let refused = std::fs::read(scene.path("strange/hmi/own/certs/own.der")).unwrap();
    until("the authority keeps it", || {
        let kept = std::fs::read_dir(scene.path("pki/authority/rejected/certs")).into_iter().flatten();
        kept.filter_map(|file| std::fs::read(file.unwrap().path()).ok()).any(|kept| kept == refused)
    });
    up.stop();
}
