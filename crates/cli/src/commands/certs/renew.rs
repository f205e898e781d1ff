//! `trapkey certs renew`: a new certificate for an application that has one, before that ends.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::make::Ca;
use super::thumbprint;
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// Whose certificate, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Renew {
    /// Name of the application's folder below --folder
    name: String,
    /// Where the certification authority and the folders are
    #[arg(long, default_value = "pki", value_name = "FOLDER")]
    folder: PathBuf,
    /// Days until the new certificate ends
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// A new key too; the old one is then of no use to anybody
    #[arg(long)]
    new_key: bool,
}

/// ApplicationUri, hosts and common name stay. A running server shows the new certificate from its next channel on.
pub(super) fn renew(args: &Renew) -> Result<Answer, Failure> {
    let root = args.folder.join(&args.name);
    let (der, pem) = (root.join("own/certs/own.der"), root.join("own/private/own.pem"));
    if !files::exists(&der) {
        return Err(Failure::bad_input(format!("`{}` has no certificate to renew", root.display()))
            .help("`trapkey certs add` makes one for a new application"));
    }
    let bad = |error: gates::pki::PkiError| Failure::from_error(&error).into_bad_input();
    let old = gates::pki::certificate(&der).map_err(bad)?;
    let uri = old.application_uri().ok_or_else(|| Failure::bad_input("the certificate names no ApplicationUri"))?;
    let hosts: Vec<String> = old.hosts().collect();
    let ca = Ca::open(&args.folder.join("ca"))?;
    let made = if args.new_key {
        ca.application(&args.name, uri, &hosts, args.days)?
    } else {
        ca.renewed(&files::private_text(&pem)?, &args.name, uri, &hosts, args.days)?
    };
    if args.new_key {
        files::replace_private(&pem, &root.join("own/private/own.pem.new"), made.key_pem.as_bytes())?;
    }
    files::replace(&der, &root.join("own/certs/own.der.new"), &made.der)?;
    let until = gates::pki::certificate(&der).map(|new| store::rfc3339(new.not_after())).map_err(bad)?;
    let text = format!("{}: {uri} until {until}\nservers that run show it from the next channel on", root.display());
    let json = json!({
        "name": args.name, "uri": uri, "folder": root.display().to_string(), "not_after": until,
        "thumbprint": thumbprint(&made.der), "replaced": thumbprint(old.der()),
    });
    Ok(Answer::ok(text, json))
}
