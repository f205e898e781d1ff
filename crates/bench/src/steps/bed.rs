//! What steps work with: certificates and keys of each kind, in a folder that all processes read.

use std::path::{Path, PathBuf};

use gates::clock;
use gates::pki::make::{Application, Curve, Made, self_signed, self_signed_on};
use ua_proto::crypto::PrivateKey;
use ua_proto::pki::Certificate;

use crate::fixture::Fixture;
use crate::{Failed, files};

/// The folder.
#[derive(Debug)]
pub struct Bed {
    /// There in the process that made it.
    made: Option<Fixture>,
    folder: PathBuf,
}

impl Bed {
    /// Makes a [`Fixture`] and beside it the keys `rsa-2048`, `rsa-3072`, `rsa-4096`, `p256` and `ed25519`. It goes with the value.
    ///
    /// # Errors
    /// They cannot be made or written.
    pub fn make() -> Result<Self, Failed> {
        let fixture = Fixture::make()?;
        let (now, folder) = (clock::now().unix, fixture.folder().to_owned());
        let keep = |name: &str, made: &Made| -> Result<(), Failed> {
            files::write(&folder.join(format!("{name}.der")), &made.der)?;
            files::write(&folder.join(format!("{name}.key.pem")), made.key_pem.as_bytes())?;
            Ok(files::write(&folder.join(format!("{name}.key.der")), &made.key_der)?)
        };
        let application = |name: &str| Application::local(name, &format!("urn:trapkey:bench:{name}"));
        for bits in [2_048, 3_072, 4_096] {
            let name = format!("rsa-{bits}");
            keep(&name, &self_signed(&Application { key_bits: bits, ..application(&name) }, now)?)?;
        }
        for (name, curve) in [("p256", Curve::P256), ("ed25519", Curve::Ed25519)] {
            keep(name, &self_signed_on(curve, &application(name), now)?)?;
        }
        Ok(Self { made: Some(fixture), folder })
    }

    /// The one in this folder, which somebody else has made.
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        Self { made: None, folder: folder.to_owned() }
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.made.as_ref().map_or(&self.folder, Fixture::folder)
    }

    /// What is in one of its files.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, file: &str) -> Result<Vec<u8>, Failed> {
        files::read(&self.folder().join(file)).map_err(|error| format!("{file}: {error}").into())
    }

    /// One of its certificates.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn certificate(&self, name: &str) -> Result<Certificate, Failed> {
        Ok(Certificate::from_der(&self.read(&format!("{name}.der"))?)?)
    }

    /// Its private key.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn key(&self, name: &str) -> Result<PrivateKey, Failed> {
        Ok(PrivateKey::from_pem(&self.read(&format!("{name}.key.pem"))?)?)
    }
}
