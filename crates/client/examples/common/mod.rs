//! Options that the examples share: `URL NODE... [--cert DER --key PEM --trust DER[,DER]] [--user NAME:PASSWORD] [--token FILE] [--none]`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use client::{Client, ClientApplication, ClientOptions, Login};
use opcua_types::NodeId;
use ua_proto::pki::TrustList;
use zeroize::Zeroizing;

/// A connected client and the nodes named on the command line.
#[allow(dead_code, reason = "some examples take numbers too")]
pub(crate) async fn connect() -> Result<(Client, Vec<NodeId>), Box<dyn Error>> {
    let (client, nodes, _) = connect_with_words().await?;
    Ok((client, nodes))
}

/// The same, and the words that are no NodeIds.
pub(crate) async fn connect_with_words() -> Result<(Client, Vec<NodeId>, Vec<String>), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("URL NODE...")?;
    let application = ClientApplication {
        uri: "urn:trapkey:example".into(),
        product_uri: "urn:trapkey".into(),
        name: "example".into(),
    };
    let mut options = ClientOptions::new(url, application);
    let (mut certificate, mut key, mut texts) = (None, None, Vec::new());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--cert" => certificate = Some(value()?),
            "--key" => key = Some(value()?),
            "--trust" => {
                let mut trust = TrustList::default();
                for path in value()?.split(',') {
                    trust.trusted.push(Arc::new(gates::pki::certificate(Path::new(path))?));
                }
                options.trust = Some(Arc::new(ArcSwap::from_pointee(trust)));
            }
            "--user" => {
                let pair = value()?;
                let (name, password) = pair.split_once(':').ok_or("--user NAME:PASSWORD")?;
                options.login = Login::UserName { name: name.into(), password: Zeroizing::new(password.into()) };
            }
            "--token" => {
                #[expect(clippy::disallowed_methods, reason = "an example reads its own file")]
                let token = std::fs::read(value()?)?;
                options.login = Login::ThisToken(Zeroizing::new(token));
            }
            "--anonymous" => options.login = Login::Anonymous,
            "--none" => options = options.danger_without_security(),
            _ => texts.push(word),
        }
    }
    if let (Some(certificate), Some(key)) = (certificate, key) {
        let identity = gates::pki::identity(Path::new(&certificate), Path::new(&key))?;
        if let Some(uri) = identity.certificate.application_uri() {
            options.application.uri = uri.to_owned();
        }
        options.identity = Some(Arc::new(identity));
    }
    let client = Client::connect(options).await?;
    let mut nodes = Vec::new();
    let mut words = Vec::new();
    for text in texts {
        if !text.contains('=') {
            words.push(text);
            continue;
        }
        nodes.push(client.node_id(&text).await?.ok_or(format!("`{text}` is no NodeId of this server"))?);
    }
    Ok((client, nodes, words))
}
