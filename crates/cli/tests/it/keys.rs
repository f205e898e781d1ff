//! Keys and certificates of the running program: secret ones are kept secret, renewed ones are shown.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    let key = std::fs::metadata(scene.path("pki/mixer/own/private/own.pem")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let nobody = scene.run(&["certs", "renew", "nobody"]);
    assert!(nobody.starts_with("exit 2") && nobody.contains("trapkey certs add"), "{nobody}");
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
