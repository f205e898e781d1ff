//! `bench guard`: our guard as a process of its own in front of a server, as it stands in a plant: enforce mode, tokens and
//! user names at the side of the clients, one session upstream for each of theirs, the audit in a ledger on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gates::clock;
use gates::opcua::client::endpoints;
use gates::opcua::guard::start;
use opcua_types::Identifier;
use pep::Gate;
use tokio::sync::Notify;
use ua_proto::client::{ClientApplication, ClientSessionConfig, Credential, EndpointWish, choose_endpoint};
use ua_proto::guard::{Guard, GuardConfig, ScopeEntry, ScopeRule, ScopeRules};

use crate::Failed;
use crate::fixture::{self, NAMESPACE, SERVER_URI};
use crate::load::{self, Security};
use crate::serve::{config, gate, shell, stay_in_step, until_told};

/// What `bench guard` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fixture's folder.
    pub folder: PathBuf,
    /// Variables of the server behind it. Each has a rule of its own.
    pub nodes: u32,
    /// That server.
    pub upstream: String,
    /// How it is spoken to.
    pub security: Security,
    /// As for [`crate::serve::Options`].
    pub authority: Option<String>,
}

/// Serves until standard input ends.
///
/// # Errors
/// The guard cannot be started.
pub fn run(options: &Options) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let session = upstream(options).await?;
        let behind = GuardConfig::new(session, load::user(), rules(options.nodes));
        let front = config(&options.folder, "guard", port)?;
        let now = clock::now();
        let gate = Gate::new(gate(&options.folder, options.authority.as_deref())?, now)?;
        let entropy = || -> Box<dyn ua_proto::Entropy + Send> { Box::new(token::SystemEntropy::new()) };
        let guard = Guard::new(front, behind, gate, (entropy(), entropy()), now)?;
        let gap = Arc::new(Notify::new());
        let handle = start(listener, guard, shell(&options.folder, &gap)?)?;
        while !handle.with(|guard, _| guard.is_mapped()).await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stay_in_step(&options.folder, options.authority.as_deref(), &handle, gap)?;
        until_told(handle).await;
        Ok(())
    })
}

/// How the server behind it is reached.
async fn upstream(options: &Options) -> Result<ClientSessionConfig, Failed> {
    let (policy, mode) = options.security.parts();
    let credential: Credential = load::user();
    let wish = EndpointWish {
        policies: vec![policy],
        modes: vec![mode],
        identities: vec![credential.kind()],
        ..EndpointWish::default()
    };
    let choice = choose_endpoint(&endpoints(&options.upstream, Duration::from_secs(5)).await?, &wish)?;
    let application =
        ClientApplication { uri: SERVER_URI.into(), product_uri: "urn:trapkey".into(), name: "bench guard".into() };
    let mut session = ClientSessionConfig::new(&options.upstream, choice, application);
    session.identity = Some(fixture::identity(&options.folder, "guard")?);
    session.trust = Some(fixture::trust(&options.folder, &["server"])?);
    Ok(session)
}

/// The scopes of the server's variables, one by one.
fn rules(nodes: u32) -> ScopeRules {
    let entry = |nth| ScopeEntry {
        scope: fixture::scope(nth),
        namespace: NAMESPACE.into(),
        rule: ScopeRule::Node(Identifier::Numeric(fixture::number(nth))),
    };
    ScopeRules { entries: (0..nodes).map(entry).collect() }.with_public_types()
}

/// The words behind `bench guard`.
///
/// # Errors
/// They are not such words.
pub fn options(words: &[&str]) -> Result<Options, Failed> {
    let [folder, nodes, upstream, security, authority @ ..] = words else {
        return Err("bench guard FOLDER NODES URL none|encrypt [authority=URL]".into());
    };
    let security = match *security {
        "none" => Security::None,
        "encrypt" => Security::Encrypt,
        other => return Err(format!("`{other}` is neither none nor encrypt").into()),
    };
    let authority = authority.iter().find_map(|word| word.strip_prefix("authority=")).map(str::to_owned);
    Ok(Options {
        folder: Path::new(folder).to_owned(),
        nodes: nodes.parse()?,
        upstream: (*upstream).to_owned(),
        security,
        authority,
    })
}
