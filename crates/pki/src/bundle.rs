//! PEM texts with certificates to trust.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, pem, pem::PemObject};
use thiserror::Error;

/// Certificates that others must chain to, at least one; every one of them is readable.
#[derive(Clone, Debug)]
pub struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

/// What is wrong with a PEM text, and where.
#[derive(Debug, Error)]
pub enum InvalidBundle {
    /// There is no certificate.
    #[error("it holds no certificate")]
    Empty,
    /// A block is not PEM; holds which, from 1.
    #[error("block {block} is not valid PEM")]
    Pem {
        /// Which, from 1.
        block: usize,
        /// Why.
        source: pem::Error,
    },
    /// A block's content is not a certificate; holds which, from 1.
    #[error("the certificate in block {block} cannot be read")]
    Certificate {
        /// Which, from 1.
        block: usize,
        /// Why.
        source: rustls::Error,
    },
}

// === impl Bundle ===

impl Bundle {
    /// Reads the certificates of a PEM text; blocks of other kinds are skipped.
    ///
    /// # Errors
    /// Names the first block that is broken; says so when there is none at all.
    pub fn from_pem(text: &[u8]) -> Result<Self, InvalidBundle> {
        let certificates = certificates(text)?;
        let mut roots = RootCertStore::empty();
        for (index, certificate) in certificates.iter().enumerate() {
            roots
                .add(certificate.clone())
                .map_err(|source| InvalidBundle::Certificate {
                    block: index + 1,
                    source,
                })?;
        }
        Ok(Self {
            certificates,
            roots: Arc::new(roots),
        })
    }

    /// The certificates, in the order of the text.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// The same for rustls.
    #[must_use]
    pub fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    /// Both bundles' certificates in one, each once.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let mut all = self.clone();
        let mut roots = RootCertStore::clone(&self.roots);
        for (certificate, anchor) in other.certificates.iter().zip(&other.roots.roots) {
            if !all.certificates.contains(certificate) {
                all.certificates.push(certificate.clone());
                roots.roots.push(anchor.clone());
            }
        }
        all.roots = Arc::new(roots);
        all
    }
}

/// The certificates of a PEM text, unread; at least one.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, InvalidBundle> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let block = found.len() + 1;
        found.push(certificate.map_err(|source| InvalidBundle::Pem { block, source })?);
    }
    if found.is_empty() {
        Err(InvalidBundle::Empty)
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::Ca;

    fn ca() -> String {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Ca::generate("test", SignedDuration::from_hours(1), now)
            .unwrap()
            .certificate_pem()
            .to_owned()
    }

    #[test]
    fn a_broken_block_is_named() {
        let good = ca();
        assert_eq!(
            Bundle::from_pem(good.repeat(2).as_bytes())
                .unwrap()
                .certificates()
                .len(),
            2
        );
        assert!(matches!(
            Bundle::from_pem(b"hello"),
            Err(InvalidBundle::Empty)
        ));
        let cut = format!("{good}-----BEGIN CERTIFICATE-----\nAAAA");
        assert!(matches!(
            Bundle::from_pem(cut.as_bytes()),
            Err(InvalidBundle::Pem { block: 2, .. })
        ));
        let garbage =
            format!("{good}{good}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        assert!(matches!(
            Bundle::from_pem(garbage.as_bytes()),
            Err(InvalidBundle::Certificate { block: 3, .. })
        ));
    }

    #[test]
    fn merging_keeps_each_certificate_once() {
        let (a, b) = (ca(), ca());
        let a = Bundle::from_pem(a.as_bytes()).unwrap();
        let b = Bundle::from_pem(b.as_bytes()).unwrap();
        let both = a.merged(&b).merged(&a);
        assert_eq!((both.certificates().len(), both.roots().len()), (2, 2));
    }
}
