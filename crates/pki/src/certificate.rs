//! What can be read from a certificate.

use jiff::{SignedDuration, Timestamp};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::PkiError;

/// How far certificates reach back before the moment they were made at, for peers whose clock is
/// behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// How far a certificate that will be valid for so long reaches back: never more than a tenth of
/// that, else one of a few minutes would be old at once.
pub(crate) fn backdate(validity: SignedDuration) -> SignedDuration {
    BACKDATE.min(validity / 10)
}

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Not before this.
    pub not_before: Timestamp,
    /// Not after this.
    pub not_after: Timestamp,
}

/// Whom a caller's certificate names, as the Kubernetes API server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The common name: the user.
    pub user: String,
    /// The organisations: the groups.
    pub groups: Vec<String>,
}

// === impl Validity ===

impl Validity {
    /// Reads it from a certificate.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    pub fn of(der: &[u8]) -> Result<Self, PkiError> {
        let certificate = parse(der)?;
        let at =
            |seconds| Timestamp::from_second(seconds).map_err(|jiff::Error { .. }| PkiError::Time);
        Ok(Self {
            not_before: at(certificate.validity().not_before.timestamp())?,
            not_after: at(certificate.validity().not_after.timestamp())?,
        })
    }

    /// When one of our authorities made it.
    #[must_use]
    pub fn made(&self) -> Timestamp {
        // What `backdate` gives for a life of ten elevenths of this.
        let whole = self.not_after.duration_since(self.not_before);
        let back = BACKDATE.min(whole / 11);
        self.not_before.checked_add(back).unwrap_or(self.not_before)
    }

    /// Seconds from `now` until it ends; negative once it has. For metrics.
    #[must_use]
    pub fn seconds_left(&self, now: Timestamp) -> i64 {
        self.not_after.as_second() - now.as_second()
    }
}

// === impl Subject ===

impl Subject {
    /// Reads it from a certificate; `None` when there is no common name.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    pub fn of(der: &[u8]) -> Result<Option<Self>, PkiError> {
        let certificate = parse(der)?;
        let name = certificate.subject();
        let text =
            |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().ok().map(str::to_owned);
        let user = name.iter_common_name().filter_map(text).last();
        let groups = name.iter_organization().filter_map(text).collect();
        Ok(user
            .filter(|u| !u.is_empty())
            .map(|user| Self { user, groups }))
    }
}

pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, PkiError> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(x509_parser::nom::Err::Error(e) | x509_parser::nom::Err::Failure(e)) => {
            Err(PkiError::NotX509(e))
        }
        Err(x509_parser::nom::Err::Incomplete(_)) => Err(PkiError::NotX509(
            x509_parser::error::X509Error::InvalidCertificate,
        )),
    }
}
