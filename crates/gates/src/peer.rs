//! Two guards that stand in for one another, talking about whose turn it is: TLS in which both show the same certificate, and
//! one line of JSON each way for each connection.
//!
//! Nobody else gets a word in: who has another certificate fails the handshake. Bounded: connections, bytes, time.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::https::HttpsError;

/// The longest line, in bytes.
const LONGEST: u64 = 1_024;
/// Connections at once from the address of the other, and as many from all other addresses; further ones are closed.
const CONNECTIONS: usize = 8;
/// From a connection to its answer. In tests nobody's place is free before somebody else's patience ends.
const PATIENCE: Duration = if cfg!(test) { Duration::from_secs(600) } else { Duration::from_secs(5) };

/// One of two guards with one certificate.
#[derive(Clone)]
pub struct Pair {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Pair {
    /// With this certificate (DER) and its key (PKCS#8), which the other has too.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Result<Self, HttpsError> {
        let unusable = |error: Error| HttpsError::Tls(error.to_string());
        let certificate = CertificateDer::from(certificate);
        let key = PrivateKeyDer::try_from(key).map_err(|error| HttpsError::Tls(error.to_owned()))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let same = Arc::new(Same { certificate: certificate.clone(), provider: Arc::clone(&provider) });
        let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&same) as Arc<dyn ServerCertVerifier>)
            .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
            .map_err(unusable)?;
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(same)
            .with_single_cert(vec![certificate], key)
            .map_err(unusable)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(client)), acceptor: TlsAcceptor::from(Arc::new(server)) })
    }

    /// Says a line to the other and gives its answer.
    ///
    /// # Errors
    /// It is not there, is somebody else, or does not answer within `wait`: in words.
    pub async fn ask(&self, other: SocketAddr, line: &[u8], wait: Duration) -> Result<Vec<u8>, String> {
        let whole = async {
            let stream = TcpStream::connect(other).await?;
            stream.set_nodelay(true)?;
            let mut stream = self.connector.connect(ServerName::IpAddress(other.ip().into()), stream).await?;
            stream.write_all(line).await?;
            stream.write_all(b"\n").await?;
            read_line(&mut stream).await
        };
        let answer = tokio::time::timeout(wait, whole).await.map_err(|_| format!("no answer in {wait:?}"))?;
        answer.map_err(|error| error.to_string())
    }

    /// Answers the other, which usually calls from `address`, for as long as this is polled. Who calls from elsewhere (a
    /// computer may have several addresses) takes no place from it.
    pub async fn answer(
        &self,
        listener: TcpListener,
        address: IpAddr,
        reply: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) {
        let places = || Arc::new(Semaphore::new(CONNECTIONS));
        let (other, elsewhere, reply) = (places(), places(), Arc::new(reply));
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let free = if from.ip().to_canonical() == address.to_canonical() { &other } else { &elsewhere };
            let Ok(place) = Arc::clone(free).try_acquire_owned() else { continue };
            let (acceptor, reply) = (self.acceptor.clone(), Arc::clone(&reply));
            tokio::spawn(async move {
                let whole = async {
                    let mut stream = acceptor.accept(stream).await?;
                    let line = read_line(&mut stream).await?;
                    stream.write_all(&reply(&line)).await?;
                    stream.write_all(b"\n").await?;
                    stream.shutdown().await
                };
                if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, whole).await {
                    tracing::debug!(%error, "a question of another guard ended early");
                }
                drop(place);
            });
        }
    }
}

async fn read_line(stream: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut bounded = stream.take(LONGEST);
    loop {
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(line);
        }
        if bounded.read_buf(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Takes the one certificate, and a handshake that its key signed.
#[derive(Debug)]
struct Same {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Same {
    fn is(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let same = self.certificate.as_ref() == shown.as_ref();
        if same { Ok(()) } else { Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) }
    }
}

macro_rules! signatures {
    () => {
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
    };
}

impl ServerCertVerifier for Same {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.is(shown).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Same {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.is(shown).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    fn pair() -> Pair {
        let application = crate::pki::make::Application::local("gate", "urn:gate");
        let made = crate::pki::make::self_signed(&application, crate::clock::now().unix).unwrap();
        let text: String = made.key_pem.lines().filter(|line| !line.starts_with('-')).collect();
        Pair::new(made.der, base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn only_who_has_the_same_certificate_gets_a_word_in() {
        let (one, stranger) = (pair(), pair());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = one.clone();
        tokio::spawn(async move {
            answering.answer(listener, address.ip(), |line| line.iter().rev().copied().collect()).await
        });
        let wait = Duration::from_secs(30);
        assert_eq!(one.ask(address, b"abc", wait).await.unwrap(), b"cba");
        assert!(stranger.ask(address, b"abc", wait).await.is_err(), "each of the two would refuse the other");
        assert!(one.ask(address, &[b'a'; 2_000], wait).await.is_err(), "a long line has no answer");
        assert_eq!(one.ask(address, b"on", wait).await.unwrap(), b"no");
    }

    #[tokio::test]
    async fn strangers_who_say_nothing_take_no_place_from_the_other() {
        let one = pair();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = one.clone();
        tokio::spawn(async move { answering.answer(listener, address.ip(), <[u8]>::to_vec).await });
        let mut strangers = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            strangers.push(socket.connect(address).await.unwrap());
        }
        assert_eq!(one.ask(address, b"turn?", Duration::from_secs(60)).await.unwrap(), b"turn?");
    }
}
