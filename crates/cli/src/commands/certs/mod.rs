//! `trapkey certs`: a certification authority for a plant, and what it signs.
//!
//! ```text
//! pki/ca/            ca.der ca.pem ca.crl ca-key.pem (0600)
//! pki/<name>/        the layout of gates::pki: own/certs/own.der own/private/own.pem (0600) trusted/ issuers/ rejected/
//! pki/<name>/tls/    tls.pem tls-key.pem (0600): for the authority's HTTPS
//! ```

mod kind;
mod make;
mod renew;
mod revoke;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gates::pki::PkiStore;
use serde_json::{Value, json};
use ua_proto::pki::TrustSettings;

pub(crate) use self::kind::{Curve, Kind};
use self::make::Ca;
use super::Common;
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a certification authority and certificates for the authority, the servers and the applications of the
    /// plant file
    Init(Init),
    /// Let the certification authority sign for one more application
    Add(Add),
    /// Show what is in a certificate file
    Show(Show),
    /// Make new certificates for an application that has some; ApplicationUri, hosts and keys stay
    Renew(renew::Renew),
    /// Take certificates back: the authority signs a new revocation list, and running servers follow it
    Revoke(revoke::Revoke),
    /// List what the certification authority signed, and when it ends
    List(revoke::List),
}

/// What all new certificates have in common.
#[derive(Debug, Args)]
pub(crate) struct Terms {
    /// Where the folders are made
    #[arg(long, default_value = "pki", value_name = "FOLDER")]
    folder: PathBuf,
    /// A host name or address under which the servers are reached; may be repeated
    #[arg(long = "host", default_values = ["localhost", "127.0.0.1"], value_name = "HOST")]
    hosts: Vec<String>,
    /// Days until application and TLS certificates end
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Beside the certificate with an RSA key one with a key on this curve, for the security policies of elliptic curves;
    /// may be repeated
    #[arg(long = "curve", value_enum)]
    curves: Vec<Curve>,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    terms: Terms,
    /// ApplicationUri of the authority
    #[arg(long, default_value = "urn:trapkey:authority", value_name = "URI")]
    authority: String,
    /// The plant file [default: the one in the configuration]
    #[arg(long, value_name = "FILE")]
    plant: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    terms: Terms,
    /// Name of the folder, and common name
    name: String,
    /// ApplicationUri
    uri: String,
    /// Make a certificate for HTTPS as well
    #[arg(long)]
    tls: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A certificate, DER or PEM
    file: PathBuf,
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::Init(args) => init(&args, common),
        Command::Add(args) => add(&args),
        Command::Show(args) => show(&args),
        Command::Renew(args) => renew::renew(&args),
        Command::Revoke(args) => revoke::revoke(&args),
        Command::List(args) => revoke::list(&args),
    }
}

/// An application that gets a certificate.
struct Member {
    name: String,
    uri: String,
    tls: bool,
}

fn init(args: &Init, common: &Common) -> Result<Answer, Failure> {
    let members = members(args, common)?;
    let folder = &args.terms.folder;
    if files::exists(&folder.join("ca")) {
        return Err(Failure::bad_input(format!("`{}` holds a certification authority already", folder.display()))
            .help("`trapkey certs add` lets it sign for one more application"));
    }
    let taken = members.iter().find(|member| files::exists(&folder.join(&member.name)));
    if let Some(member) = taken {
        return Err(Failure::bad_input(format!("`{}` exists already", folder.join(&member.name).display())));
    }
    let ca = Ca::create(&folder.join("ca"))?;
    let listed: Vec<Value> = members.iter().map(|member| issue(&ca, member, &args.terms)).collect::<Result<_, _>>()?;
    let mut text = format!("{}: certification authority\n", folder.join("ca").display());
    for member in &members {
        text += &format!("{}: {}\n", folder.join(&member.name).display(), member.uri);
    }
    text += "keep ca-key.pem away from the plant; it is needed again only to sign\n";
    Ok(Answer::ok(text, json!({"folder": folder.display().to_string(), "certificates": listed})))
}

/// The authority, the servers and the applications of the plant file.
fn members(args: &Init, common: &Common) -> Result<Vec<Member>, Failure> {
    let path = match &args.plant {
        Some(path) => path.clone(),
        None => common.config.load()?.plant.file,
    };
    let text = files::text(&path)?;
    let plant = pdp::Plant::parse(&text).map_err(|faults| {
        let faults = faults.0.into_iter().map(|fault| crate::failure::SourceFault {
            file: path.clone(),
            text: text.clone(),
            span: fault.span,
            message: fault.message,
            help: fault.hint,
        });
        Failure::in_files("the plant file is not used", faults.collect())
    })?;
    let mut members = vec![Member { name: "authority".into(), uri: args.authority.clone(), tls: true }];
    for (uri, server) in &plant.servers {
        members.push(Member { name: server.name.clone(), uri: uri.clone(), tls: false });
    }
    for uri in plant.applications.keys().filter(|uri| !plant.servers.contains_key(*uri)) {
        let last = uri.rsplit([':', '/']).find(|part| !part.is_empty()).unwrap_or("application");
        members.push(Member { name: folder_name(last), uri: uri.clone(), tls: false });
    }
    let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::bad_input(format!("two applications would share the folder `{}`", pair[0]))
            .help("give them URIs with different ends, or add them one by one with `trapkey certs add`")),
        None => Ok(members),
    }
}

/// A name that is a folder and nothing else.
fn folder_name(text: &str) -> String {
    let kept = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    text.chars().map(|letter| if kept(letter) { letter } else { '-' }).collect()
}

fn add(args: &Add) -> Result<Answer, Failure> {
    if folder_name(&args.name) != args.name || args.name == "ca" {
        return Err(Failure::bad_input(format!("`{}` is no name for a folder of certificates", args.name))
            .help("use letters, digits, `-` and `_`"));
    }
    let folder = &args.terms.folder;
    if files::exists(&folder.join(&args.name)) {
        return Err(Failure::bad_input(format!("`{}` exists already", folder.join(&args.name).display())));
    }
    let ca = Ca::open(&folder.join("ca"))?;
    let member = Member { name: args.name.clone(), uri: args.uri.clone(), tls: args.tls };
    let made = issue(&ca, &member, &args.terms)?;
    Ok(Answer::ok(format!("{}: {}", folder.join(&args.name).display(), args.uri), made))
}

/// Makes the folder of one application, which trusts everything its certification authority signed.
fn issue(ca: &Ca, member: &Member, terms: &Terms) -> Result<Value, Failure> {
    let root = terms.folder.join(&member.name);
    let store = PkiStore::new(&root, TrustSettings::default());
    store.create().map_err(|error| Failure::from_error(&error))?;
    let made = ca.application(Kind::Rsa, &member.name, &member.uri, &terms.hosts, terms.days)?;
    files::create(&Kind::Rsa.certificate(&root), &made.der, false)?;
    files::create(&Kind::Rsa.key(&root), made.key_pem.as_bytes(), true)?;
    for kind in Kind::ALL.into_iter().filter(|kind| terms.curves.iter().any(|curve| *kind == Kind::On(*curve))) {
        let beside = ca.application(kind, &member.name, &member.uri, &terms.hosts, terms.days)?;
        files::create(&kind.key(&root), beside.key_pem.as_bytes(), true)?;
        files::create(&kind.certificate(&root), &beside.der, false)?;
    }
    files::create(&root.join("trusted/certs/ca.der"), ca.der(), false)?;
    files::create(&root.join("trusted/crl/ca.crl"), &ca.crl()?, false)?;
    if member.tls {
        let tls = ca.tls(&terms.hosts, terms.days)?;
        files::make_folder(&root.join("tls"))?;
        files::create(&root.join("tls/tls.pem"), tls.pem.as_bytes(), false)?;
        files::create(&root.join("tls/tls-key.pem"), tls.key_pem.as_bytes(), true)?;
    }
    let folder = root.display().to_string();
    Ok(json!({"name": member.name, "uri": member.uri, "folder": folder, "thumbprint": thumbprint(&made.der)}))
}

fn thumbprint(der: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn show(args: &Show) -> Result<Answer, Failure> {
    let certificate =
        gates::pki::certificate(&args.file).map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let hosts: Vec<String> = certificate.hosts().collect();
    let until = store::rfc3339(certificate.not_after());
    let json = json!({
        "subject": certificate.subject(),
        "application_uri": certificate.application_uri(),
        "hosts": hosts,
        "key_bits": certificate.key_bits(),
        "not_before": store::rfc3339(certificate.not_before()),
        "not_after": until,
        "thumbprint": certificate.thumbprint().to_string(),
    });
    let text = format!(
        "subject      {}\nuri          {}\nhosts        {}\nkey          {} bits\nvalid until  {until}\nthumbprint   {}",
        certificate.subject(),
        certificate.application_uri().unwrap_or("none"),
        hosts.join(", "),
        certificate.key_bits(),
        certificate.thumbprint(),
    );
    Ok(Answer::ok(text, json))
}
