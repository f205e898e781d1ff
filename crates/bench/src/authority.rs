//! `bench authority`: our authorization service as a process of its own: one server with 1,000 scopes, one client that
//! may read all of it, one administrator who revokes.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use access_model::UnixTime;
use authority::{Authority, AuthorityConfig, PolicySource, PolicyTexts, serve, server_config, system_clock};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use store::{Application, ApplicationKind, CheckpointKey, Db, DbConfig, KeyKind, Ledger, LedgerConfig, Sync, User};
use tokio::sync::watch;
use ua_proto::pki::Certificate;

use crate::fixture::{CLIENT_URI, SCOPES, SERVER_URI, number};
use crate::{Failed, files};

/// The person whose certificate may revoke.
const ADMIN: &str = "ada";

const POLICIES: &str = r#"
@id("the-client-views")
permit (principal in Role::"viewer", action in Action::"view", resource in Site::"s");
"#;

/// Serves until standard input ends.
///
/// # Errors
/// It cannot be started.
pub fn run(folder: &Path) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let authority = open(folder, port).await?;
        let read = |name: &str| files::read(&folder.join(name));
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(read("authority.key.der")?));
        let tls = server_config(vec![CertificateDer::from(read("authority.der")?)], key)?;
        let key = authority.issuer().keys.first().map(token::VerifyingKey::jwk).ok_or("the authority has no key")?;
        files::write(&folder.join("issuer.jwk"), key)?;
        println!("{{\"step\": \"listening\", \"ok\": true, \"port\": {port}}}");
        let (stop, stopped) = watch::channel(false);
        std::thread::spawn(move || {
            let _read = std::io::stdin().read_to_end(&mut Vec::new());
            stop.send(true)
        });
        serve(listener, tls, authority, stopped).await;
        Ok(())
    })
}

async fn open(folder: &Path, port: u16) -> Result<Authority, Failed> {
    let db = Db::open(&DbConfig { path: folder.join("authority.db"), sync: Sync::Os }).await?;
    for (uri, name) in [(SERVER_URI, "server"), (CLIENT_URI, "client")] {
        let application = Application {
            uri: uri.into(),
            name: name.into(),
            kind: ApplicationKind::Both,
            certificates: vec![certificate(folder, name)?.thumbprint()],
            secret_hash: None,
            enabled: true,
            created: UnixTime::from_seconds(0),
        };
        db.put_application(&application).await?;
    }
    let admin = User {
        name: ADMIN.into(),
        password_hash: None,
        certificates: vec![certificate(folder, "admin")?.thumbprint()],
        roles: Vec::new(),
        groups: Vec::new(),
        enabled: true,
        created: UnixTime::from_seconds(0),
    };
    db.put_user(&admin).await?;
    let ledger = CheckpointKey::generate(KeyKind::Ed25519)?;
    let ledger = Ledger::open(&folder.join("audit-authority"), LedgerConfig::default(), ledger)?;
    let texts = PolicyTexts { plant: plant(), policies: POLICIES.into(), workflow: None };
    let config = AuthorityConfig::new(format!("https://localhost:{port}"));
    Ok(Authority::open(config, PolicySource::Texts(texts), db, ledger, system_clock()).await?)
}

fn certificate(folder: &Path, name: &str) -> Result<Certificate, Failed> {
    Ok(Certificate::from_der(&files::read(&folder.join(format!("{name}.der")))?)?)
}

/// The plant file; its scopes are those of [`crate::fixture::scopes`].
fn plant() -> String {
    let mut text = format!(
        r#"
[plant]
name = "bench"
[[site]]
name = "s"
[[zone]]
name = "z"
site = "s"
[[equipment]]
name = "e"
zone = "z"
[[role]]
name = "viewer"
[[role]]
name = "administrator"
[[person]]
name = "{ADMIN}"
roles = ["administrator"]
[[application]]
uri = "{CLIENT_URI}"
roles = ["viewer"]
[[server]]
name = "server"
uri = "{SERVER_URI}"
equipment = "e"
"#
    );
    for scope in 0..SCOPES {
        let node = number(scope);
        let _infallible = write!(text, "[[server.scope]]\nname = \"scope-{scope:04}\"\nnodes = [\"ns=2;i={node}\"]\n");
    }
    text
}
