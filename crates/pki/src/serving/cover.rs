//! Whether a certificate covers a name.

use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, ServerName};

use crate::Identity;

/// Whether the leaf covers the name, wildcards included, by the rules that clients apply.
pub(super) fn covers(identity: &Identity, name: &ServerName<'_>) -> bool {
    let leaf = CertificateDer::from(identity.leaf());
    ParsedCertificate::try_from(&leaf)
        .is_ok_and(|leaf| rustls::client::verify_server_name(&leaf, name).is_ok())
}
