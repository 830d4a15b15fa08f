//! An authority as its Secret holds it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use strait_api::wire_names::MANAGED_BY;
use strait_pki::{Bundle, Ca, PkiError, Validity};
use strait_types::Redacted;
use thiserror::Error;

/// The certificate that signs.
pub(super) const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub(super) const KEY: &str = "tls.key";
/// Everything to trust.
pub(super) const BUNDLE: &str = "ca.crt";
/// The certificate that signs from some day on.
pub(super) const NEXT_CERTIFICATE: &str = "next.crt";
/// Its key.
pub(super) const NEXT_KEY: &str = "next.key";

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What a Secret holds, unread. The values do not print.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Whether we made it; one that somebody else made is never written.
    pub(super) ours: bool,
    /// The version that was looked at.
    pub(super) version: Option<String>,
    data: BTreeMap<String, Redacted>,
}

/// The same, read.
pub(super) struct Authority {
    pub(super) validity: Validity,
    /// The successor, while it is only trusted.
    pub(super) next: Option<Validity>,
    /// Every certificate to trust: its PEM and its life.
    pub(super) trusted: Vec<(String, Validity)>,
    /// Whether the certificates that sign are among those.
    pub(super) complete: bool,
}

/// Why a Secret holds no authority.
#[derive(Debug, Error)]
pub(super) enum Broken {
    #[error("{key} is missing")]
    Missing { key: &'static str },
    #[error("{key} cannot be used")]
    Wrong { key: &'static str, source: PkiError },
}

/// The content of a Secret, as it is to be.
pub(super) type Data = BTreeMap<&'static str, Redacted>;

// === impl Stored ===

impl Stored {
    pub(super) fn of(secret: &Secret) -> Self {
        let ours = secret
            .labels()
            .get(MANAGED_BY.0)
            .is_some_and(|value| value == MANAGED_BY.1);
        let text = |bytes: &[u8]| Redacted::new(String::from_utf8_lossy(bytes));
        Self {
            ours,
            version: secret.resource_version(),
            data: secret
                .data
                .iter()
                .flatten()
                .map(|(key, value)| (key.clone(), text(&value.0)))
                .collect(),
        }
    }

    /// Reads it.
    pub(super) fn read(&self) -> Result<Authority, Broken> {
        let (certificate, validity) = self.pair(CERTIFICATE, KEY)?;
        let next = if self.data.contains_key(NEXT_CERTIFICATE) {
            Some(self.pair(NEXT_CERTIFICATE, NEXT_KEY)?)
        } else {
            None
        };
        let trusted = match self.data.get(BUNDLE) {
            Some(bundle) => blocks(bundle.reveal()).map_err(|source| Broken::Wrong {
                key: BUNDLE,
                source,
            })?,
            None => vec![],
        };
        let has = |pem: &str| trusted.iter().any(|(block, _)| block.trim() == pem.trim());
        Ok(Authority {
            complete: has(&certificate) && next.as_ref().is_none_or(|(pem, _)| has(pem)),
            validity,
            next: next.map(|(_, validity)| validity),
            trusted,
        })
    }

    /// The PEM of a certificate that belongs to its key and may sign, and its life.
    fn pair(
        &self,
        certificate: &'static str,
        key: &'static str,
    ) -> Result<(String, Validity), Broken> {
        let pem = self.data.get(certificate);
        let pem = pem.ok_or(Broken::Missing { key: certificate })?.reveal();
        let secret = self.data.get(key).ok_or(Broken::Missing { key })?;
        let wrong = |source| Broken::Wrong {
            key: match source {
                PkiError::Key(_) | PkiError::Mismatch => key,
                _ => certificate,
            },
            source,
        };
        let ca = Ca::from_pem(pem, secret).map_err(wrong)?;
        let validity = Validity::of(ca.certificate()).map_err(wrong)?;
        Ok((pem.to_owned(), validity))
    }

    fn value(&self, key: &str) -> Redacted {
        self.data
            .get(key)
            .cloned()
            .unwrap_or_else(|| Redacted::new(""))
    }

    /// With the successor that is trusted from now on.
    pub(super) fn prepared(&self, next: &Ca, now: Timestamp) -> Data {
        let mut data = self.signing(CERTIFICATE, KEY);
        data.insert(NEXT_CERTIFICATE, Redacted::new(next.certificate_pem()));
        data.insert(NEXT_KEY, next.key_pem());
        data.insert(BUNDLE, self.bundle(&[next.certificate_pem()], now));
        data
    }

    /// With the successor in its place; the predecessor stays trusted.
    pub(super) fn promoted(&self, now: Timestamp) -> Data {
        let mut data = self.signing(NEXT_CERTIFICATE, NEXT_KEY);
        data.insert(BUNDLE, self.bundle(&[], now));
        data
    }

    /// As it is, with a bundle that holds what signs and nothing that has expired.
    pub(super) fn tidied(&self, now: Timestamp) -> Data {
        let mut data = self.signing(CERTIFICATE, KEY);
        if self.data.contains_key(NEXT_CERTIFICATE) {
            data.insert(NEXT_CERTIFICATE, self.value(NEXT_CERTIFICATE));
            data.insert(NEXT_KEY, self.value(NEXT_KEY));
        }
        data.insert(BUNDLE, self.bundle(&[], now));
        data
    }

    fn signing(&self, certificate: &str, key: &str) -> Data {
        Data::from([
            (CERTIFICATE, self.value(certificate)),
            (KEY, self.value(key)),
        ])
    }

    /// Everything to trust, the newest first, each once, without what has expired.
    fn bundle(&self, more: &[&str], now: Timestamp) -> Redacted {
        let (next, current) = (self.value(NEXT_CERTIFICATE), self.value(CERTIFICATE));
        let before = self.value(BUNDLE);
        let mut kept: Vec<String> = vec![];
        for text in more
            .iter()
            .copied()
            .chain([next.reveal(), current.reveal(), before.reveal()])
        {
            for (pem, validity) in blocks(text).unwrap_or_default() {
                let pem = format!("{}\n", pem.trim());
                if validity.not_after > now && !kept.contains(&pem) {
                    kept.push(pem);
                }
            }
        }
        Redacted::new(kept.concat())
    }
}

/// The content of a Secret with a new authority.
pub(super) fn created(ca: &Ca) -> Data {
    Data::from([
        (CERTIFICATE, Redacted::new(ca.certificate_pem())),
        (KEY, ca.key_pem()),
        (BUNDLE, Redacted::new(ca.certificate_pem())),
    ])
}

/// The certificates of a PEM text, one by one, with their lives.
fn blocks(text: &str) -> Result<Vec<(String, Validity)>, PkiError> {
    let mut found = vec![];
    let mut rest = text;
    while let Some(start) = rest.find(BEGIN) {
        let from = &rest[start..];
        let end = from.find(END).map_or(from.len(), |at| at + END.len());
        let (block, after) = from.split_at(end);
        let bundle = Bundle::from_pem(block.as_bytes())?;
        for certificate in bundle.certificates() {
            found.push((block.to_owned(), Validity::of(certificate)?));
        }
        rest = after;
    }
    Ok(found)
}
