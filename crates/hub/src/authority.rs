//! One of the hub's two authorities, as it is read, and where it goes.

use std::sync::Arc;

use strait_pki::{Bundle, Ca, ClientVerifier, PkiError, Reloadable};
use strait_types::Redacted;

use crate::deps::Material;

/// An authority, read.
pub(crate) struct Authority {
    pub(crate) ca: Ca,
    pub(crate) bundle_pem: String,
    pub(crate) verifier: ClientVerifier,
}

// === impl Authority ===

impl Authority {
    /// Reads one from PEM texts: its certificate, its key, and everything to trust, which may be
    /// empty.
    pub(crate) fn from_pem(
        certificate: String,
        key: &Redacted,
        bundle: String,
    ) -> Result<Self, PkiError> {
        let ca = Ca::from_pem(&certificate, key)?;
        let bundle_pem = if bundle.is_empty() {
            certificate
        } else {
            bundle
        };
        let bundle = Bundle::from_pem(bundle_pem.as_bytes())?;
        let verifier = ClientVerifier::new(Arc::clone(bundle.roots()))?;
        Ok(Self {
            ca,
            bundle_pem,
            verifier,
        })
    }
}

/// Takes each new state of the authority that signs the hub's certificates. What is broken leaves
/// the last good one in force.
pub(crate) fn hub_sink(
    material: &Material,
) -> impl Fn(Result<Authority, PkiError>) + Send + 'static {
    let (ca, bundle) = (material.hub_ca.clone(), material.hub_bundle.clone());
    move |read| {
        let (new_ca, new_bundle) = split(read.map(|a| (a.ca, a.bundle_pem)));
        if let Some(ca) = &ca {
            ca.offer(new_ca);
        }
        offer(&bundle, new_bundle);
    }
}

/// The same of the one that signs agents' certificates.
pub(crate) fn agent_sink(
    material: &Material,
) -> impl Fn(Result<Authority, PkiError>) + Send + 'static {
    let (ca, verifier) = (material.agent_ca.clone(), material.agents.clone());
    move |read| {
        let (new_ca, new_verifier) = split(read.map(|a| (a.ca, a.verifier)));
        ca.offer(new_ca);
        offer(&verifier, new_verifier);
    }
}

fn offer<T>(value: &Reloadable<T>, new: Option<T>) {
    if let Some(new) = new {
        value.offer(Ok::<_, PkiError>(new));
    }
}

fn split<A, B>(read: Result<(A, B), PkiError>) -> (Result<A, PkiError>, Option<B>) {
    match read {
        Ok((a, b)) => (Ok(a), Some(b)),
        Err(error) => (Err(error), None),
    }
}
