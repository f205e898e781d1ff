//! The policies of elliptic curves, with the one other stack that has them: open62541 with OpenSSL.

use client::{Client, Login};
use opcua_types::MessageSecurityMode;
use ua_proto::crypto::{KeyLayout, SecurityPolicyId};
use zeroize::Zeroizing;

use crate::our_client::{every_step, identity, options};
use crate::our_server::{assert_every_step, serve_with};
use crate::peers::{Serving, Stack, certificate, run_client_as};

/// Policy, and the ending of the names of its certificates.
const CURVES: [(SecurityPolicyId, &str); 2] =
    [(SecurityPolicyId::EccNistP256, "p256"), (SecurityPolicyId::EccCurve25519, "ed25519")];

#[test]
fn open62541_clients_work_with_elliptic_curves() {
    let Some(program) = Stack::Open62541.program("client") else { return };
    let trusted = ["open62541-p256", "open62541-ed25519", "user-p256", "user-ed25519"];
    let server = serve_with(&["trapkey", "trapkey-p256", "trapkey-ed25519"], &trusted);
    for (policy, curve) in CURVES {
        let user =
            format!("{},{}", certificate(&format!("user-{curve}.der")), certificate(&format!("user-{curve}.key.pem")));
        for mode in ["Sign", "SignAndEncrypt"] {
            let identities = [&["--anonymous"][..], &["--user", "operator:secret"], &["--x509", &user]];
            for identity in identities {
                let arguments = [&["--policy", policy.name(), "--mode", mode], identity].concat();
                let (own, shown) = (format!("open62541-{curve}"), format!("trapkey-{curve}"));
                let report = run_client_as(&program, &own, &server.url, &shown, &arguments);
                assert_every_step(Stack::Open62541, &format!("{policy} {mode} {identity:?}"), &report);
            }
        }
        let wrong = ["--policy", policy.name(), "--mode", "SignAndEncrypt", "--user", "operator:guess"];
        let own = format!("open62541-{curve}");
        let report = run_client_as(&program, &own, &server.url, &format!("trapkey-{curve}"), &wrong);
        assert!(!report[0].ok && report.len() == 1, "a wrong password under {policy}: {report:#?}");
    }
}

#[tokio::test]
async fn open62541_servers_work_with_elliptic_curves() {
    let Some(program) = Stack::Open62541.program("server") else { return };
    let name = "open62541-server";
    let file = |curve: &str, ending: &str| certificate(&format!("{name}-{curve}.{ending}"));
    let files = ["p256", "ed25519"]
        .map(|curve| [format!("--cert-{curve}"), file(curve, "der"), format!("--key-{curve}"), file(curve, "key.pem")]);
    let files: Vec<&str> = files.iter().flatten().map(String::as_str).collect();
    let server = Serving::start(&program, name, &["trapkey-p256", "trapkey-ed25519"], &files);
    for (policy, curve) in CURVES {
        for mode in [MessageSecurityMode::Sign, MessageSecurityMode::SignAndEncrypt] {
            let mut options = options(&server, &format!("{name}-{curve}"), identity(&format!("trapkey-{curve}")));
            options.policies = vec![policy];
            options.modes = vec![mode];
            options.key_layout = KeyLayout::WithSigningKey;
            options.login = Login::Anonymous;
            every_step(options.clone(), &format!("{policy} {mode:?}, anonymous")).await;
            options.login = Login::UserName { name: "operator".into(), password: Zeroizing::new("secret".into()) };
            every_step(options.clone(), &format!("{policy} {mode:?}, user name")).await;
            options.login = Login::UserName { name: "operator".into(), password: Zeroizing::new("guess".into()) };
            assert!(Client::connect(options).await.is_err(), "a wrong password under {policy}");
        }
    }
}
