//! Mutual TLS. A client may show a certificate; the handshake proves that it holds the key, and nothing else is asked of
//! it: OPC UA application certificates are often self-signed. Whose it is says the registration, by thumbprint
//! (RFC 8705 §2.2).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("the certificate and key of the HTTPS service cannot be used")]
pub struct InvalidTls(#[from] Error);

/// TLS 1.2 and 1.3 with this certificate chain, leaf first, and its key. Client certificates are optional.
///
/// # Errors
/// Certificate and key do not fit, or are of a kind that TLS does not know.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, InvalidTls> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(DangerAnyCertificate { provider: Arc::clone(&provider) });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
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
