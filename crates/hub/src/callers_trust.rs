//! Which authorities vouch for callers' certificates.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use strait_pki::{Bundle, ClientVerifier, PkiError, Reloadable};

/// The API server's authority and those of a file, together, always the newest.
#[derive(Clone, Debug)]
pub(crate) struct CallersTrust {
    api_server: Reloadable<Option<Bundle>>,
    file: Reloadable<Option<Bundle>>,
    built: Arc<Mutex<Option<Built>>>,
}

#[derive(Debug)]
struct Built {
    generations: (u64, u64),
    verifier: Option<ClientVerifier>,
}

// === impl CallersTrust ===

impl CallersTrust {
    pub(crate) fn new(
        api_server: Reloadable<Option<Bundle>>,
        file: Reloadable<Option<Bundle>>,
    ) -> Self {
        Self {
            api_server,
            file,
            built: Arc::default(),
        }
    }

    /// Changes whenever [`verifier`](Self::verifier) may give another answer.
    pub(crate) fn generations(&self) -> (u64, u64) {
        (
            self.api_server.get_with_generation().0,
            self.file.get_with_generation().0,
        )
    }

    /// The verifier of now; `None` when nobody vouches for callers.
    pub(crate) fn verifier(&self) -> Result<Option<ClientVerifier>, PkiError> {
        let (first, api_server) = self.api_server.get_with_generation();
        let (second, file) = self.file.get_with_generation();
        let mut built = self.built.lock();
        if let Some(built) = &*built
            && built.generations == (first, second)
        {
            return Ok(built.verifier.clone());
        }
        let both = match (&*api_server, &*file) {
            (Some(one), Some(two)) => Some(one.merged(two)),
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (None, None) => None,
        };
        let verifier = both
            .map(|both| ClientVerifier::new(Arc::clone(both.roots())))
            .transpose()?;
        *built = Some(Built {
            generations: (first, second),
            verifier: verifier.clone(),
        });
        Ok(verifier)
    }

    /// Whether a caller's certificate, leaf first, is good at `now`.
    pub(crate) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<(), rustls::Error> {
        match self.verifier() {
            Ok(Some(verifier)) => verifier.verify(chain, now),
            Ok(None) => Err(rustls::Error::NoCertificatesPresented),
            Err(error) => Err(rustls::Error::General(error.to_string())),
        }
    }
}
