//! `trapkey certs renew`: a new certificate for an application that has one, before that ends.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ua_proto::pki::Certificate;

use super::make::Ca;
use super::{Curve, Kind, thumbprint};
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
    /// New keys too; the old ones serve those who still hold the old certificates, until these end
    #[arg(long)]
    new_key: bool,
    /// Make a certificate with a key on this curve as well, if there is none yet; may be repeated
    #[arg(long = "curve", value_enum)]
    curves: Vec<Curve>,
}

/// ApplicationUri, hosts and common name stay. A running server shows the new certificates from its next channel on, HTTPS
/// from its next connection on.
pub(super) fn renew(args: &Renew) -> Result<Answer, Failure> {
    let root = args.folder.join(&args.name);
    let der = Kind::Rsa.certificate(&root);
    if !files::exists(&der) {
        return Err(Failure::bad_input(format!("`{}` has no certificate to renew", root.display()))
            .help("`trapkey certs add` makes one for a new application"));
    }
    let bad = |error: gates::pki::PkiError| Failure::from_error(&error).into_bad_input();
    let old = gates::pki::certificate(&der).map_err(bad)?;
    let uri = old.application_uri().ok_or_else(|| Failure::bad_input("the certificate names no ApplicationUri"))?;
    let ca = Ca::open(&args.folder.join("ca"))?;
    let there = Kind::there(&root);
    for kind in Kind::ALL {
        let wanted = args.curves.iter().any(|curve| kind == Kind::On(*curve));
        if there.contains(&kind) || wanted {
            anew(args, &ca, kind, (&root, uri, &old))?;
        }
    }
    let tls = root.join("tls/tls.pem");
    if files::exists(&tls) {
        let hosts: Vec<String> = gates::pki::certificate(&tls).map_err(bad)?.hosts().collect();
        let made = ca.tls(&hosts, args.days)?;
        let key = root.join("tls/tls-key.pem");
        files::replace_private(&key, &key.with_extension("pem.new"), made.key_pem.as_bytes())?;
        files::replace(&tls, &tls.with_extension("pem.new"), made.pem.as_bytes())?;
    }
    let new = gates::pki::certificate(&der).map_err(bad)?;
    let until = store::rfc3339(new.not_after());
    let text = format!("{}: {uri} until {until}\nservers that run show it from the next channel on", root.display());
    let json = json!({
        "name": args.name, "uri": uri, "folder": root.display().to_string(), "not_after": until,
        "thumbprint": thumbprint(new.der()), "replaced": thumbprint(old.der()),
    });
    Ok(Answer::ok(text, json))
}

/// A new certificate of this kind in the folder.
fn anew(args: &Renew, ca: &Ca, kind: Kind, (root, uri, old): (&Path, &str, &Certificate)) -> Result<(), Failure> {
    let hosts: Vec<String> = old.hosts().collect();
    let (der, pem) = (kind.certificate(root), kind.key(root));
    if files::exists(&der) {
        let (old_der, old_pem) = kind.previous(root);
        let key = files::private_text(&pem)?;
        files::replace_private(&old_pem, &old_pem.with_extension("pem.new"), key.as_bytes())?;
        files::replace(&old_der, &old_der.with_extension("der.new"), &files::bytes(&der)?)?;
    }
    let made = if args.new_key || !files::exists(&der) {
        let made = ca.application(kind, &args.name, uri, &hosts, args.days)?;
        files::replace_private(&pem, &pem.with_extension("pem.new"), made.key_pem.as_bytes())?;
        made
    } else {
        ca.renewed(kind, &files::private_text(&pem)?, &args.name, uri, &hosts, args.days)?
    };
    files::replace(&der, &der.with_extension("der.new"), &made.der)
}
