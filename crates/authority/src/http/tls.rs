//! Mutual TLS. A client may show a certificate; the handshake proves that it holds the key, and nothing else is asked of
//! it: OPC UA application certificates are often self-signed. Whose it is says the registration, by thumbprint
//! (RFC 8705 §2.2).

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("the certificate and key of the HTTPS service cannot be used")]
pub struct InvalidTls(#[from] Error);

/// The certificate that the HTTPS service shows. It may be renewed while the service runs: whoever connects from then on
/// sees the new one.
#[derive(Debug)]
pub struct ShownCertificate(ArcSwap<CertifiedKey>);

impl ShownCertificate {
    /// A certificate chain, leaf first, and its key.
    ///
    /// # Errors
    /// They do not fit, or are of a kind that TLS does not know.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, InvalidTls> {
        Ok(Self(ArcSwap::from_pointee(certified(chain, key)?)))
    }

    /// Shows another from now on; says whether it is another.
    ///
    /// # Errors
    /// As [`ShownCertificate::new`]; then the one before is shown on.
    pub fn renew(&self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<bool, InvalidTls> {
        if self.0.load().cert == chain {
            return Ok(false);
        }
        self.0.store(Arc::new(certified(chain, key)?));
        Ok(true)
    }
}

impl ResolvesServerCert for ShownCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<CertifiedKey, Error> {
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
}

/// TLS 1.2 and 1.3 with this certificate chain, leaf first, and its key. Client certificates are optional.
///
/// # Errors
/// Certificate and key do not fit, or are of a kind that TLS does not know.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, InvalidTls> {
    server_config_showing(Arc::new(ShownCertificate::new(chain, key)?))
}

/// The same with a certificate that may be renewed.
///
/// # Errors
/// The library has no protocol versions.
pub fn server_config_showing(shown: Arc<ShownCertificate>) -> Result<Arc<ServerConfig>, InvalidTls> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(DangerAnyCertificate { provider: Arc::clone(&provider) });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Takes any certificate whose key signed the handshake. Nothing may be concluded from it but possession of that key.
#[derive(Debug)]
struct DangerAnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for DangerAnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
