//! An agent's key and its request for a certificate.

use rcgen::{CertificateParams, DistinguishedName, KeyPair, PublicKeyData, SubjectPublicKeyInfo};
use rustls_pki_types::{CertificateSigningRequestDer, pem, pem::PemObject};
use sha2::{Digest, Sha256};
use strait_types::Redacted;
use thiserror::Error;
use x509_parser::{
    certification_request::X509CertificationRequest, prelude::FromDer, public_key::PublicKey,
};

use crate::PkiError;

/// Bits of the curves whose keys the hub signs: P-256 and P-384.
const CURVE_BITS: [usize; 2] = [256, 384];

/// A new private key and the request for its certificate. The request names nobody: the hub says
/// whose certificate it becomes.
#[derive(Clone, Debug)]
pub struct AgentKey {
    /// PEM of the private key (PKCS #8).
    pub key_pem: Redacted,
    /// PEM of the request.
    pub csr_pem: String,
}

/// A request that has proven to hold its key. Nothing but the key is taken from it.
#[derive(Debug)]
pub struct AgentRequest(pub(crate) SubjectPublicKeyInfo);

/// Why a certificate request is refused.
#[derive(Debug, Error)]
pub enum RequestError {
    /// It is not PEM.
    #[error("the certificate request is not PEM")]
    Pem(#[source] pem::Error),
    /// It is not a request.
    #[error("the certificate request cannot be read")]
    Unreadable,
    /// It was not signed with the key that it asks for.
    #[error("the certificate request is not signed with its own key")]
    Signature,
    /// Its key is of a kind that is not signed.
    #[error("the certificate request's key is not an elliptic-curve key of P-256 or P-384")]
    Key,
}

// === impl AgentKey ===

impl AgentKey {
    /// Makes a P-256 key and its request.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Key)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(PkiError::Key)?;
        let csr_pem = request.pem().map_err(PkiError::Key)?;
        Ok(Self {
            key_pem: Redacted::new(key.serialize_pem()),
            csr_pem,
        })
    }
}

// === impl AgentRequest ===

impl AgentRequest {
    /// Reads a request (PEM, PKCS #10) and checks that it is signed with the key that it asks for.
    ///
    /// # Errors
    /// When it cannot be read, is signed with another key, or the key is of a kind that the hub
    /// does not sign.
    pub fn from_pem(csr_pem: &str) -> Result<Self, RequestError> {
        key_of(csr_pem).map(Self)
    }

    /// SHA-256 of the public key, in lower-case hexadecimal.
    #[must_use]
    pub fn key_hash(&self) -> String {
        let digest = Sha256::digest(self.0.der_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn key_of(csr_pem: &str) -> Result<SubjectPublicKeyInfo, RequestError> {
    let der = CertificateSigningRequestDer::from_pem_slice(csr_pem.as_bytes())
        .map_err(RequestError::Pem)?;
    let Ok((_, request)) = X509CertificationRequest::from_der(&der) else {
        return Err(RequestError::Unreadable);
    };
    if request.verify_signature().is_err() {
        return Err(RequestError::Signature);
    }
    let spki = &request.certification_request_info.subject_pki;
    match spki.parsed() {
        Ok(PublicKey::EC(point)) if CURVE_BITS.contains(&point.key_size()) => {}
        _ => return Err(RequestError::Key),
    }
    match SubjectPublicKeyInfo::from_der(spki.raw) {
        Ok(key) => Ok(key),
        Err(_) => Err(RequestError::Key),
    }
}
