//! The hub's two certificate authorities: one signs agents, one signs the hub.

use std::{fmt, net::IpAddr};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use strait_types::Redacted;
use time::OffsetDateTime;

use crate::{
    AgentName, AgentRequest, Identity, PkiError, TrustDomain, Validity, bundle, certificate,
    spiffe, tls,
};

/// A certificate authority with its key. Nothing that it signs outlives it.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    certificate: CertificateDer<'static>,
    not_after: Timestamp,
}

/// A certificate that was signed just now.
#[derive(Clone, Debug)]
pub struct Issued {
    /// PEM of the certificate, without the authority's.
    pub chain_pem: String,
    /// The same as DER.
    pub der: CertificateDer<'static>,
}

// === impl Ca ===

impl Ca {
    /// Makes a new P-256 authority. Its common name is `name` and eight random digits, so that
    /// two that overlap during a rotation are told apart.
    ///
    /// # Errors
    /// When the system has no random numbers or the validity does not fit into a certificate.
    pub fn generate(
        name: &str,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Key)?;
        let digits: String = random::<4>()?.iter().map(|b| format!("{b:02x}")).collect();
        let mut params = blank(&format!("{name} {digits}"), validity, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let signed = params.self_signed(&key).map_err(|source| PkiError::Sign {
            name: name.to_owned(),
            source,
        })?;
        Ok(Self {
            certificate_pem: signed.pem(),
            not_after: Validity::of(signed.der())?.not_after,
            certificate: signed.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads an authority from PEM texts. Of several certificates the first is the authority's.
    ///
    /// # Errors
    /// When either cannot be read, they do not belong together, or it may not sign others.
    pub fn from_pem(certificate_pem: &str, key_pem: &Redacted) -> Result<Self, PkiError> {
        let chain = bundle::certificates(certificate_pem.as_bytes())?;
        let certificate = chain
            .into_iter()
            .next()
            .ok_or(crate::InvalidBundle::Empty)?;
        let key = KeyPair::from_pem(key_pem.reveal()).map_err(PkiError::Key)?;
        let parsed = certificate::parse(&certificate)?;
        if !parsed.is_ca() {
            return Err(PkiError::NotCa);
        }
        if parsed.public_key().subject_public_key.data != key.public_key_raw() {
            return Err(PkiError::Mismatch);
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(PkiError::Parse)?;
        Ok(Self {
            issuer,
            certificate_pem: certificate_pem.to_owned(),
            not_after: Validity::of(&certificate)?.not_after,
            certificate,
        })
    }

    /// PEM of the authority's certificate.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// PEM of the private key.
    #[must_use]
    pub fn key_pem(&self) -> Redacted {
        Redacted::new(self.issuer.key().serialize_pem())
    }

    /// Signs an agent's certificate: client usage alone, the cluster as its only name, and the
    /// member's uid in the subject. Of the request only the key counts.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn issue_agent(
        &self,
        request: &AgentRequest,
        agent: &AgentName,
        trust_domain: &TrustDomain,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<Issued, PkiError> {
        let name = agent.cluster.as_str();
        let mut params = blank(name, self.within(validity, now), now)?;
        if !agent.member.is_empty() {
            let uid = DnType::CustomDnType(spiffe::MEMBER_UID.to_vec());
            params.distinguished_name.push(uid, agent.member.as_str());
        }
        let uri = trust_domain.cluster_uri(&agent.cluster);
        params.subject_alt_names = vec![SanType::URI(ia5(&uri)?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, &request.0, name)
    }

    /// Makes a key and a certificate for a server under these names, DNS (a leading `*.` is a
    /// wildcard) or IP.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate or the validity does not fit into one.
    pub fn issue_server(
        &self,
        names: &[String],
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<(Issued, Redacted), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Key)?;
        let issued = self.sign_server(names, &key, validity, now)?;
        Ok((issued, Redacted::new(key.serialize_pem())))
    }

    /// The same as [`issue_server`](Self::issue_server), ready for rustls.
    ///
    /// # Errors
    /// As `issue_server`.
    pub fn server_identity(
        &self,
        names: &[String],
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let (issued, key) = self.issue_server(names, validity, now)?;
        Identity::from_pem(issued.chain_pem.as_bytes(), key.reveal().as_bytes())
    }

    /// Makes a key and a certificate for a caller: client usage, user and group as Kubernetes
    /// reads them. (Certificates may carry many groups; rcgen writes one.)
    ///
    /// # Errors
    /// When a name cannot stand in a certificate or the validity does not fit into one.
    pub fn issue_caller(
        &self,
        user: &str,
        group: Option<&str>,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<(Issued, Redacted), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Key)?;
        let mut params = blank(user, self.within(validity, now), now)?;
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let issued = self.sign(&params, &key, user)?;
        Ok((issued, Redacted::new(key.serialize_pem())))
    }

    pub(crate) fn sign_server(
        &self,
        names: &[String],
        key: &impl PublicKeyData,
        validity: SignedDuration,
        now: Timestamp,
    ) -> Result<Issued, PkiError> {
        let first = names.first().map(String::as_str).unwrap_or_default();
        // A common name has at most 64 characters; the names that count are the others.
        let common: String = first.chars().take(64).collect();
        let mut params = blank(&common, self.within(validity, now), now)?;
        params.subject_alt_names = names.iter().map(|n| san(n)).collect::<Result<_, _>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params, key, first)
    }

    /// At most so long that the certificate ends with the authority.
    fn within(&self, validity: SignedDuration, now: Timestamp) -> SignedDuration {
        validity.min(self.not_after.duration_since(now))
    }

    fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
        name: &str,
    ) -> Result<Issued, PkiError> {
        let signed = params
            .signed_by(key, &self.issuer)
            .map_err(|source| PkiError::Sign {
                name: name.to_owned(),
                source,
            })?;
        Ok(Issued {
            chain_pem: signed.pem(),
            der: signed.der().clone(),
        })
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

/// What all certificates share: a random serial of 128 bits, the authority's key id, digital
/// signatures as the only use of the key.
fn blank(
    common_name: &str,
    validity: SignedDuration,
    now: Timestamp,
) -> Result<CertificateParams, PkiError> {
    let mut serial = random::<16>()?;
    // Positive, and never all zero: RFC 5280, 4.1.2.2.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = date(
        now.checked_sub(certificate::backdate(validity))
            .map_err(|jiff::Error { .. }| PkiError::Time)?,
    )?;
    params.not_after = date(
        now.checked_add(validity)
            .map_err(|jiff::Error { .. }| PkiError::Time)?,
    )?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn date(at: Timestamp) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at.as_second())
        .map_err(|time::error::ComponentRange { .. }| PkiError::Time)
}

fn san(name: &str) -> Result<SanType, PkiError> {
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(std::net::AddrParseError { .. }) => Ok(SanType::DnsName(ia5(name)?)),
    }
}

fn ia5(text: &str) -> Result<rcgen::string::Ia5String, PkiError> {
    match text.try_into() {
        Ok(text) => Ok(text),
        Err(rcgen::Error::InvalidAsn1String(_)) => Err(PkiError::Name(text.to_owned())),
        Err(source) => Err(PkiError::Sign {
            name: text.to_owned(),
            source,
        }),
    }
}

fn random<const N: usize>() -> Result<[u8; N], PkiError> {
    let mut bytes = [0; N];
    match tls::provider().secure_random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(rustls::crypto::GetRandomFailed) => Err(PkiError::Random),
    }
}
