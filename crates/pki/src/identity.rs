//! A private key with its certificates.

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::{PkiError, Validity, bundle, tls};

/// A private key and the chain of certificates that belongs to it, leaf first.
#[derive(Clone, Debug)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
}

// === impl Identity ===

impl Identity {
    /// Reads both from PEM texts.
    ///
    /// # Errors
    /// When either cannot be read or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PkiError> {
        let chain = bundle::certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PkiError::KeyPem)?;
        Self::from_der(chain, key)
    }

    /// Puts both together.
    ///
    /// # Errors
    /// When either cannot be read or they do not belong together.
    pub fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, PkiError> {
        match CertifiedKey::from_der(chain, key, &tls::provider()) {
            Ok(certified) => Ok(Self {
                certified: Arc::new(certified),
            }),
            Err(rustls::Error::InconsistentKeys(_)) => Err(PkiError::Mismatch),
            Err(source) => Err(PkiError::Tls(source)),
        }
    }

    /// For rustls.
    #[must_use]
    pub fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The leaf.
    #[must_use]
    pub fn leaf(&self) -> &[u8] {
        self.certified
            .cert
            .first()
            .map(AsRef::as_ref)
            .unwrap_or_default()
    }

    /// From when until when the leaf is valid.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn validity(&self) -> Result<Validity, PkiError> {
        Validity::of(self.leaf())
    }
}
