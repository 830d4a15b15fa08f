//! Verification of client certificates, in the handshake and again later.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::{PkiError, tls};

/// Verifies client certificates against a set of authorities.
#[derive(Clone)]
pub struct ClientVerifier {
    roots: Arc<RootCertStore>,
    verifier: Arc<dyn ClientCertVerifier>,
}

// === impl ClientVerifier ===

impl ClientVerifier {
    /// Trusts these authorities, one at least.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(roots: Arc<RootCertStore>) -> Result<Self, PkiError> {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), tls::provider())
                .build()
                .map_err(PkiError::Verifier)?;
        Ok(Self { roots, verifier })
    }

    /// Whether a certificate, leaf first, still is what it was in the handshake.
    ///
    /// # Errors
    /// When it chains to none of the authorities or is not valid at `now`.
    pub fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<(), rustls::Error> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .map(|_| ())
    }

    pub(crate) fn mandatory(&self) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
        Ok(Arc::clone(&self.verifier))
    }

    pub(crate) fn optional(&self) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), tls::provider())
            .allow_unauthenticated()
            .build()
            .map_err(PkiError::Verifier)
    }
}

impl fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientVerifier")
            .field("authorities", &self.roots.len())
            .finish_non_exhaustive()
    }
}
