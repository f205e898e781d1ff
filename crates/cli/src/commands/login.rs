//! Which server `trapkey client` talks to, and as whom.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use client::{Client, ClientApplication, ClientError, ClientOptions, KnownAuthority, Login, TokenError};
use opcua_types::StatusCode;
use zeroize::Zeroizing;

use super::Common;
use super::admin::percent;
use super::own::Own;
use crate::failure::Failure;
use crate::files;

/// Which server, and as whom.
#[derive(Debug, Args)]
pub(crate) struct Session {
    /// The server, `opc.tcp://host:port`
    url: String,
    /// The client's folder of certificates, as made by `trapkey certs` [default: `[client]` of the configuration]
    #[arg(long, value_name = "FOLDER")]
    pki: Option<PathBuf>,
    /// Log in with this name; the password is read from TRAPKEY_PASSWORD or the file of --password-file. Where the
    /// server wants a token, name and password go to its authority
    #[arg(long, value_name = "NAME", group = "person", conflicts_with_all = ["anonymous", "token"])]
    user: Option<String>,
    /// The file with the password, `-` for the standard input
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Log in with this user certificate, DER or PEM. Where the server wants a token, its authority is shown it
    #[arg(long, value_name = "FILE", group = "person", requires = "key", conflicts_with_all = ["anonymous", "token"])]
    certificate: Option<PathBuf>,
    /// The private key that belongs to the user certificate, PKCS#8
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// An authority that may be given the password: its URL, its ApplicationUri or the SHA-256 of its certificate; may be
    /// repeated. The server's word for it is not enough [default: `[client]` of the configuration]
    #[arg(long = "authority", value_name = "AUTHORITY")]
    authorities: Vec<KnownAuthority>,
    /// Log in to the server itself with name and password or user certificate, instead of asking an authority for a token
    #[arg(long, requires = "person")]
    to_server: bool,
    /// Log in as nobody
    #[arg(long, conflicts_with = "token")]
    anonymous: bool,
    /// Log in with the access token in this file
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Accept an endpoint without any security (for tests)
    #[arg(long)]
    danger_without_security: bool,
    /// Seconds that a request may take
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    timeout: u64,
}

/// A refusal is an answer; everything else is a server out of reach.
pub(super) fn failed(error: &ClientError) -> Failure {
    match error {
        _ if is_refusal(error) => Failure::denied(error.to_string()),
        ClientError::BrowsePath(_) | ClientError::Token(TokenError::UnknownAuthority(_)) => {
            Failure::from_error(error).into_bad_input()
        }
        _ => Failure::from_error(error),
    }
}

/// Whether server or authority were reached and said no to this identity.
fn is_refusal(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(_) | ClientError::Token(TokenError::Refused { .. }) => true,
        ClientError::Token(TokenError::Unreachable { source, .. }) => is_refusal(source),
        ClientError::Call(call) => call.status() == Some(StatusCode::BadUserAccessDenied),
        _ => false,
    }
}

impl Session {
    pub(super) async fn connect(&self, common: &Common) -> Result<Client, Failure> {
        let options = self.options(common)?;
        Client::connect(options).await.map_err(|error| failed(&error))
    }

    fn options(&self, common: &Common) -> Result<ClientOptions, Failure> {
        gates::opcua::client::address(&self.url).map_err(|error| Failure::from_error(&error).into_bad_input())?;
        let configured = files::exists(common.config.path());
        let asked = self.pki.is_none() || (self.user.is_some() && self.authorities.is_empty());
        let section = (configured && asked).then(|| common.config.load()).transpose()?.map(|config| config.client);
        let section = section.unwrap_or_default();
        let known = if self.authorities.is_empty() { known(&section)? } else { self.authorities.clone() };
        let folder = self.pki.clone().or(section.pki);
        let own = folder.map(|folder| Own::load(&folder)).transpose()?;
        if own.is_none() && !self.danger_without_security {
            return Err(Failure::bad_input("the client has no certificate").help(
                "name its folder with `--pki` or in `[client]` of the configuration; `trapkey certs add` makes one",
            ));
        }
        let uri = own.as_ref().map_or_else(|| Ok("urn:trapkey:client".to_owned()), Own::uri)?;
        let application = ClientApplication { uri, product_uri: "urn:trapkey".into(), name: "trapkey client".into() };
        let mut options = ClientOptions::new(&self.url, application);
        options.request_timeout = Duration::from_secs(self.timeout.max(1));
        options.authority.known = known;
        if let Some(own) = own {
            options.authority.https = Some(own.https()?);
            options.identity = Some(Arc::clone(&own.identity));
            options.trust = Some(own.trust);
        }
        self.log_in(&mut options)?;
        Ok(if self.danger_without_security { options.danger_without_security() } else { options })
    }

    fn log_in(&self, options: &mut ClientOptions) -> Result<(), Failure> {
        if let Some(path) = &self.token {
            options.login = Login::ThisToken(Zeroizing::new(files::bytes(path)?.trim_ascii().to_vec()));
        } else if let Some(login) = self.person()? {
            if self.to_server {
                options.login = login;
            } else {
                options.authority.login = login;
            }
        } else if self.anonymous {
            options.login = Login::Anonymous;
        }
        Ok(())
    }

    /// The person, with what proves who it is.
    fn person(&self) -> Result<Option<Login>, Failure> {
        if let Some(name) = &self.user {
            return Ok(Some(Login::UserName { name: name.clone(), password: self.password()? }));
        }
        let Some((certificate, key)) = self.certificate.as_ref().zip(self.key.as_ref()) else { return Ok(None) };
        let identity = gates::pki::identity(certificate, key);
        let identity = identity.map_err(|error| Failure::from_error(&error).into_bad_input())?;
        Ok(Some(Login::Certificate(Arc::new(identity))))
    }

    fn password(&self) -> Result<Zeroizing<String>, Failure> {
        password(self.password_file.as_deref())
    }
}

fn password(file: Option<&Path>) -> Result<Zeroizing<String>, Failure> {
    if let Some(path) = file {
        let bytes = Zeroizing::new(files::bytes(path)?);
        let text = std::str::from_utf8(&bytes).map_err(|_| Failure::bad_input("the password is not UTF-8"))?;
        return Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()));
    }
    std::env::var("TRAPKEY_PASSWORD").map(Zeroizing::new).map_err(|_| {
        Failure::bad_input("there is no password").help("set TRAPKEY_PASSWORD, or name a file with --password-file")
    })
}

/// A person who says who it is to the authority itself.
#[derive(Debug, Args)]
pub(crate) struct PersonArgs {
    /// Your name at the authority; the password is read from TRAPKEY_PASSWORD or the file of --password-file. Not needed
    /// where the folder holds a certificate of your own
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The file with the password, `-` for the standard input
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
}

impl PersonArgs {
    /// HTTP Basic, both halves form-encoded (RFC 6749 section 2.3.1).
    pub(crate) fn header(&self) -> Result<Option<Zeroizing<String>>, Failure> {
        let Some(name) = &self.user else { return Ok(None) };
        let password = password(self.password_file.as_deref())?;
        let both = Zeroizing::new(format!("{}:{}", percent(name), percent(&password)));
        Ok(Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(both.as_bytes())))))
    }
}

/// The authorities that the configuration lets know a password.
pub(crate) fn known(section: &crate::config::ClientSection) -> Result<Vec<KnownAuthority>, Failure> {
    let named = section.authority.iter().chain(&section.authorities);
    named.map(|text| text.parse().map_err(|error| Failure::from_error(&error).into_bad_input())).collect()
}
