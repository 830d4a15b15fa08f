//! An identity that can be used.

use std::sync::Arc;

use strait_pki::{Bundle, Identity, PkiError, ServerTrust, Validity, session_client_config};
use tokio_rustls::rustls::ClientConfig;

use super::StoredIdentity;

/// An identity that can be used, with what TLS needs of it.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub(crate) stored: Arc<StoredIdentity>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) validity: Validity,
}

// === impl Active ===

impl Active {
    /// Reads the texts.
    pub(crate) fn new(stored: Arc<StoredIdentity>) -> Result<Self, PkiError> {
        let key = stored.key.reveal().as_bytes();
        let identity = Identity::from_pem(stored.certificate.as_bytes(), key)?;
        let bundle = Bundle::from_pem(stored.ca_bundle.as_bytes())?;
        let tls = session_client_config(Arc::clone(bundle.roots()), &identity)?;
        Ok(Self {
            validity: identity.validity()?,
            tls: Arc::new(tls),
            stored,
        })
    }
}

/// What a hub's certificate must chain to.
pub(super) fn trust(ca_bundle: &str) -> Result<ServerTrust, PkiError> {
    let bundle = Bundle::from_pem(ca_bundle.as_bytes())?;
    Ok(ServerTrust::Roots(Arc::clone(bundle.roots())))
}
