//! `trapkey certs revoke` and `list`: the revocation list of the plant's certification authority, and what ends when.

use std::path::{Path, PathBuf};

use access_model::UnixTime;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use ua_proto::pki::Certificate;
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};

use super::super::audit::list as table;
use super::Kind;
use super::make::{Ca, Entry, Revocations};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

const DAY: i64 = 24 * 60 * 60;

/// Which certificates, and why.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Names of folders below --folder, or certificate files (DER or PEM); without any, the list is signed anew as it
    /// stands
    #[arg(value_name = "CERTIFICATE")]
    certificates: Vec<String>,
    /// Where the certification authority and the folders are
    #[arg(long, default_value = "pki", value_name = "FOLDER")]
    folder: PathBuf,
    /// Why, as it stands in the list
    #[arg(long, value_enum, default_value_t)]
    reason: Reason,
    /// Days until the list must be signed anew: from then on every certificate is of unknown standing and refused
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
}

/// Which folders.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Where the certification authority and the folders are
    #[arg(long, default_value = "pki", value_name = "FOLDER")]
    folder: PathBuf,
    /// Exit code 1 when something ends within this many days, or has ended
    #[arg(long, default_value_t = 30, value_name = "DAYS")]
    within: u16,
}

/// Reasons of RFC 5280 section 5.3.1 that end a certificate for good.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Reason {
    /// None is given.
    #[default]
    Unspecified,
    /// Somebody else may have the key.
    KeyCompromise,
    /// The application belongs to somebody else.
    AffiliationChanged,
    /// There is a new certificate.
    Superseded,
    /// The application is gone.
    CessationOfOperation,
    /// The application lost its place.
    PrivilegeWithdrawn,
}

impl Reason {
    const fn code(self) -> u8 {
        match self {
            Self::Unspecified => 0,
            Self::KeyCompromise => 1,
            Self::AffiliationChanged => 3,
            Self::Superseded => 4,
            Self::CessationOfOperation => 5,
            Self::PrivilegeWithdrawn => 9,
        }
    }
}

pub(super) fn revoke(args: &Revoke) -> Result<Answer, Failure> {
    let ca = Ca::open(&args.folder.join("ca"))?;
    let mut revocations = ca.revocations()?;
    let mut text = String::new();
    let mut said = Vec::new();
    for named in &args.certificates {
        let mut already = true;
        for (path, der) in certificates(&args.folder, named)? {
            let serial = serial_of(&der, &ca);
            let serial = serial.map_err(|what| Failure::bad_input(format!("`{}` {what}", path.display())))?;
            if !revocations.holds(&serial) {
                already = false;
                revocations.entries.push(Entry::now(&serial, args.reason.code()));
            }
        }
        text += &format!("{named}: {}\n", if already { "was revoked before" } else { "revoked" });
        said.push(json!({"certificate": named, "already": already}));
    }
    revocations.number += 1;
    let list = ca.sign_revocations(&revocations, args.days)?;
    let told = hand_out(&args.folder, &list)?;
    let (number, count) = (revocations.number, revocations.entries.len());
    text += &format!("list {number} with {count} certificates is in {}\n", files_said(&told));
    text += "servers that run see it within seconds and close the channels; copy ca.crl into trusted/crl/ elsewhere\n";
    let files: Vec<String> = told.iter().map(|path| path.display().to_string()).collect();
    Ok(Answer::ok(text, json!({"certificates": said, "number": number, "revoked": count, "files": files})))
}

fn files_said(files: &[PathBuf]) -> String {
    match files {
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} folders that trust it", first.display(), rest.len()),
        [] => String::new(),
    }
}

/// The certificates of a folder, of every kind that it has, or the one in a file.
fn certificates(folder: &Path, named: &str) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let root = folder.join(named);
    let mut paths: Vec<PathBuf> = Kind::there(&root).into_iter().map(|kind| kind.certificate(&root)).collect();
    if paths.is_empty() {
        paths.push(PathBuf::from(named));
    }
    let read = |path: PathBuf| {
        if !files::exists(&path) {
            let folder = folder.display();
            return Err(Failure::bad_input(format!("`{named}` is neither a folder below `{folder}` nor a file")));
        }
        let read = gates::pki::certificate(&path).map_err(|error| Failure::from_error(&error).into_bad_input())?;
        Ok((path, read.der().to_vec()))
    };
    paths.into_iter().map(read).collect()
}

/// The serial number, if this certification authority signed it.
fn serial_of(der: &[u8], ca: &Ca) -> Result<Vec<u8>, &'static str> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| "is no certificate")?;
    let (_, issuer) = X509Certificate::from_der(ca.der()).map_err(|_| "was signed by nobody: ca.der is broken")?;
    if der == ca.der() {
        return Err("is the certification authority itself; take ca.der out of the trusted folders instead");
    }
    // Two plants may give their authorities the same name, never the same key.
    let same_key = match (signer_key(&certificate), own_key(&issuer)) {
        (Some(signer), Some(own)) => signer == own,
        _ => true,
    };
    if certificate.issuer() != issuer.subject() || !same_key {
        return Err("was signed by another certification authority");
    }
    Ok(certificate.raw_serial().to_vec())
}

/// AuthorityKeyIdentifier (RFC 5280 section 4.2.1.1).
fn signer_key(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(key) => key.key_identifier.as_ref().map(|key| key.0.to_vec()),
        _ => None,
    })
}

/// SubjectKeyIdentifier (RFC 5280 section 4.2.1.2).
fn own_key(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0.to_vec()),
        _ => None,
    })
}

/// Puts the list beside the key and into every folder that has the authority's list already.
fn hand_out(folder: &Path, list: &[u8]) -> Result<Vec<PathBuf>, Failure> {
    let mut written = vec![folder.join("ca/ca.crl")];
    files::replace(&written[0], &folder.join("ca/ca.crl.new"), list)?;
    for member in files::folders(folder)? {
        let copy = member.join("trusted/crl/ca.crl");
        if files::exists(&copy) {
            // Made outside the folder that servers watch, so that they never see half of it.
            files::replace(&copy, &member.join("trusted/ca.crl.new"), list)?;
            written.push(copy);
        }
    }
    Ok(written)
}

/// One line of the overview.
struct Line {
    name: String,
    what: String,
    until: UnixTime,
    revoked: bool,
}

impl Line {
    fn of(name: &str, certificate: &Certificate, revocations: &Revocations) -> Self {
        let parsed = X509Certificate::from_der(certificate.der()).ok();
        let revoked = parsed.is_some_and(|(_, parsed)| revocations.holds(parsed.raw_serial()));
        let what = certificate.application_uri().unwrap_or(certificate.subject()).to_owned();
        Self { name: name.to_owned(), what, until: certificate.not_after(), revoked }
    }

    fn days(&self, now: UnixTime) -> i64 {
        (self.until.as_seconds() - now.as_seconds()).div_euclid(DAY)
    }

    fn standing(&self, now: UnixTime) -> String {
        match self.days(now) {
            _ if self.revoked => "revoked".to_owned(),
            days if days < 0 => "ended".to_owned(),
            0 => "ends today".to_owned(),
            1 => "1 day".to_owned(),
            days => format!("{days} days"),
        }
    }
}

pub(super) fn list(args: &List) -> Result<Answer, Failure> {
    let now = gates::clock::now().unix;
    let lines = lines(&args.folder)?;
    let due = |line: &Line| line.days(now) < i64::from(args.within) && !line.revoked;
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| vec![line.name.clone(), line.what.clone(), day(line.until), line.standing(now)])
        .collect();
    let json: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!({"name": line.name, "what": line.what, "until": store::rfc3339(line.until),
                "days": line.days(now), "revoked": line.revoked, "due": due(line)})
        })
        .collect();
    let text = table(&["name", "what", "until", "left"], &rows);
    Ok(Answer::verdict(!lines.iter().any(due), text, json.into()))
}

fn day(at: UnixTime) -> String {
    store::rfc3339(at).split('T').next().unwrap_or_default().to_owned()
}

/// The certification authority, its list, and every folder with its certificates, what ends first on top.
fn lines(folder: &Path) -> Result<Vec<Line>, Failure> {
    let at = |path: &Path| gates::pki::certificate(path).map_err(|error| Failure::from_error(&error).into_bad_input());
    let mut lines = Vec::new();
    let mut revocations = Revocations::default();
    let ca = folder.join("ca");
    if files::exists(&ca) {
        revocations = Revocations::parse(&files::bytes(&ca.join("ca.crl"))?)?;
        lines.push(Line::of("ca", &at(&ca.join("ca.der"))?, &revocations));
        let what = format!("revocation list {}, {} entries", revocations.number, revocations.entries.len());
        lines.push(Line { name: "ca".into(), what, until: revocations.until, revoked: false });
    }
    for member in files::folders(folder)? {
        let name = member.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for kind in Kind::there(&member) {
            let line = Line::of(&name, &at(&kind.certificate(&member))?, &revocations);
            let on = if let Kind::On(curve) = kind { format!(" ({curve:?})") } else { String::new() };
            lines.push(Line { what: line.what.clone() + &on, ..line });
        }
        let tls = member.join("tls/tls.pem");
        if files::exists(&tls) {
            lines.push(Line { what: "HTTPS".into(), ..Line::of(&name, &at(&tls)?, &revocations) });
        }
    }
    lines.sort_by_key(|line| line.until);
    Ok(lines)
}
