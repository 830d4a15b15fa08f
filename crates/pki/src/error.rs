//! Why a key or a certificate could not be made or read.

use thiserror::Error;

/// Why a key or a certificate could not be made or read.
#[derive(Debug, Error)]
pub enum PkiError {
    /// The system gave no random numbers.
    #[error("the system has no random numbers")]
    Random,
    /// A key could not be made or read.
    #[error("failed to read or make the private key")]
    Key(#[source] rcgen::Error),
    /// A certificate could not be signed.
    #[error("failed to sign the certificate for {name}")]
    Sign {
        /// Whose certificate.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
    /// A name cannot stand in a certificate.
    #[error("`{0}` cannot stand in a certificate")]
    Name(String),
    /// A certificate cannot be read.
    #[error("failed to read the certificate")]
    Parse(#[source] rcgen::Error),
    /// A certificate is not X.509.
    #[error("it is not an X.509 certificate")]
    NotX509(#[source] x509_parser::error::X509Error),
    /// The certificate may not sign others.
    #[error("the certificate is not that of a certificate authority")]
    NotCa,
    /// The PEM text is wrong.
    #[error("the PEM text is wrong")]
    Bundle(#[from] crate::InvalidBundle),
    /// The PEM text of a private key is wrong.
    #[error("the PEM text of the private key is wrong")]
    KeyPem(#[source] rustls_pki_types::pem::Error),
    /// Key and certificate do not belong together.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// A time lies outside of what a certificate can say.
    #[error("the time does not fit into a certificate")]
    Time,
    /// TLS cannot be set up with this.
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
    /// The certificates to trust cannot be used.
    #[error("failed to use the certificates to trust")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}
