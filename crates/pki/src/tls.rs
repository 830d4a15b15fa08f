//! TLS configurations, made anew whenever what they are made of changes.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    server::{NoServerSessionStorage, ResolvesServerCert},
    sign::SingleCertAndKey,
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::{ClientVerifier, Identity, PkiError};

/// The application protocol of sessions between agents and hub.
pub const ALPN_SESSION: &[u8] = b"strait/1";
/// The application protocol of callers.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// What a server's certificate must chain to.
#[derive(Clone, Debug)]
pub enum ServerTrust {
    /// One of these.
    Roots(Arc<RootCertStore>),
    /// Nothing: any certificate is accepted, and only its key must be the peer's.
    Anyone,
}

/// The crypto provider of everything that Strait does: aws-lc-rs.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The hub's side of a session: TLS 1.3, a client certificate is mandatory. Sessions are not
/// resumed, so every one is checked against the authorities of its day.
///
/// # Errors
/// When rustls refuses the parts.
pub fn agent_server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    agents: &ClientVerifier,
) -> Result<ServerConfig, PkiError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(PkiError::Tls)?
        .with_client_cert_verifier(agents.mandatory()?)
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![ALPN_SESSION.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The hub's side towards callers: TLS 1.2 and 1.3, HTTP/1.1, a client certificate is welcome
/// when there is an authority that verifies it.
///
/// # Errors
/// When rustls refuses the parts.
pub fn caller_server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    callers: Option<&ClientVerifier>,
) -> Result<ServerConfig, PkiError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(PkiError::Tls)?;
    let builder = match callers {
        Some(callers) => builder.with_client_cert_verifier(callers.optional()?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    Ok(config)
}

/// An agent's side of a session: TLS 1.3, the hub's certificate must chain to `hub`.
///
/// # Errors
/// When rustls refuses the parts.
pub fn session_client_config(
    hub: Arc<RootCertStore>,
    identity: &Identity,
) -> Result<ClientConfig, PkiError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(PkiError::Tls)?
        .with_root_certificates(hub)
        .with_client_cert_resolver(client_certificate(identity));
    config.alpn_protocols = vec![ALPN_SESSION.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// A client over HTTP/1.1, with or without a certificate of its own.
///
/// # Errors
/// When rustls refuses the parts.
pub fn client_config(
    trust: &ServerTrust,
    identity: Option<&Identity>,
) -> Result<ClientConfig, PkiError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(PkiError::Tls)?;
    let builder = match trust {
        ServerTrust::Roots(roots) => builder.with_root_certificates(Arc::clone(roots)),
        ServerTrust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyone(provider))),
    };
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(client_certificate(identity)),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    Ok(config)
}

fn client_certificate(identity: &Identity) -> Arc<SingleCertAndKey> {
    Arc::new(SingleCertAndKey::from(Arc::clone(identity.certified_key())))
}

/// Accepts any certificate, but only from who holds its key.
#[derive(Debug)]
struct AcceptAnyone(Arc<CryptoProvider>);

// === impl AcceptAnyone ===

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
