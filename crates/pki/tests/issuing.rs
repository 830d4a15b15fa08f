//! What the authorities sign, and what is refused.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use strait_pki::{
    AgentKey, AgentName, AgentRequest, Bundle, Ca, Identity, PkiError, Subject, TrustDomain,
    Validity, peer_agent,
};
use strait_types::Redacted;

const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ca() -> Ca {
    Ca::generate("strait agents", YEAR, now()).unwrap()
}

fn agent() -> AgentName {
    AgentName {
        cluster: "cluster1".parse().unwrap(),
        member: "0b6c3b0e-6a5f-4d6e-8f0e-2f6c8b1f4a10".to_owned(),
    }
}

fn request(key: &AgentKey) -> AgentRequest {
    AgentRequest::from_pem(&key.csr_pem).unwrap()
}

#[test]
fn an_authority_survives_its_pem() {
    let ca = ca();
    let read = Ca::from_pem(ca.certificate_pem(), &ca.key_pem()).unwrap();
    let key = AgentKey::generate().unwrap();
    let issued = read
        .issue_agent(
            &request(&key),
            &agent(),
            &TrustDomain::default(),
            DAY,
            now(),
        )
        .unwrap();
    let bundle = Bundle::from_pem(ca.certificate_pem().as_bytes()).unwrap();
    let verifier = strait_pki::ClientVerifier::new(bundle.roots().clone()).unwrap();
    assert!(
        verifier
            .verify(std::slice::from_ref(&issued.der), now())
            .is_ok()
    );
    let later = now() + DAY + SignedDuration::from_secs(1);
    assert!(
        verifier
            .verify(std::slice::from_ref(&issued.der), later)
            .is_err(),
        "expired"
    );
    assert!(
        Identity::from_pem(issued.chain_pem.as_bytes(), key.key_pem.reveal().as_bytes()).is_ok()
    );
}

#[test]
fn a_foreign_key_or_a_leaf_is_no_authority() {
    let (one, two) = (ca(), ca());
    assert!(matches!(
        Ca::from_pem(one.certificate_pem(), &two.key_pem()),
        Err(PkiError::Mismatch)
    ));
    let (leaf, key) = one
        .issue_server(&["hub.test".to_owned()], DAY, now())
        .unwrap();
    assert!(matches!(
        Ca::from_pem(&leaf.chain_pem, &key),
        Err(PkiError::NotCa)
    ));
    assert!(matches!(
        Ca::from_pem(one.certificate_pem(), &Redacted::new("nonsense")),
        Err(PkiError::Key(_))
    ));
}

#[test]
fn an_agents_certificate_names_its_cluster_and_nothing_else() {
    let key = AgentKey::generate().unwrap();
    let domain: TrustDomain = "corp.example".parse().unwrap();
    let issued = ca()
        .issue_agent(&request(&key), &agent(), &domain, DAY, now())
        .unwrap();
    assert_eq!(peer_agent(&issued.der, &domain).unwrap(), agent());
    assert!(
        peer_agent(&issued.der, &TrustDomain::default()).is_err(),
        "other trust domain"
    );
    let validity = Validity::of(&issued.der).unwrap();
    assert_eq!(validity.not_after, now() + DAY);
    assert_eq!(validity.seconds_left(now()), 86_400);
    let (_, parsed) = x509_parser::parse_x509_certificate(&issued.der).unwrap();
    let usage = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any);
    assert_eq!(parsed.tbs_certificate.raw_serial().len(), 16);
    assert_eq!(
        parsed
            .subject_alternative_name()
            .unwrap()
            .unwrap()
            .value
            .general_names
            .len(),
        1
    );
}

#[test]
fn a_certificate_reaches_back_a_little_and_knows_when_it_was_made() {
    let key = AgentKey::generate().unwrap();
    for (seconds, back) in [(15, 1), (600, 60), (3000, 300), (86_400 * 30, 300)] {
        let life = SignedDuration::from_secs(seconds);
        let issued = ca()
            .issue_agent(
                &request(&key),
                &agent(),
                &TrustDomain::default(),
                life,
                now(),
            )
            .unwrap();
        let validity = Validity::of(&issued.der).unwrap();
        let reaches = now().as_second() - validity.not_before.as_second();
        // Certificates know whole seconds.
        assert!((back..=back + 1).contains(&reaches), "{seconds}: {reaches}");
        let made = validity.made().as_second() - now().as_second();
        assert!((-1..=1).contains(&made), "{seconds}: {made}");
    }
}

#[test]
fn nothing_outlives_its_authority() {
    let ca = Ca::generate("short", DAY, now()).unwrap();
    let key = AgentKey::generate().unwrap();
    let issued = ca
        .issue_agent(
            &request(&key),
            &agent(),
            &TrustDomain::default(),
            YEAR,
            now(),
        )
        .unwrap();
    let (server, _) = ca.issue_server(&["a".to_owned()], YEAR, now()).unwrap();
    for der in [&issued.der, &server.der] {
        assert_eq!(Validity::of(der).unwrap().not_after, now() + DAY);
    }
}

#[test]
fn two_members_of_one_name_are_told_apart() {
    let key = AgentKey::generate().unwrap();
    let domain = TrustDomain::default();
    for member in ["", "1", "2"] {
        let agent = AgentName {
            member: member.to_owned(),
            ..agent()
        };
        let issued = ca()
            .issue_agent(&request(&key), &agent, &domain, DAY, now())
            .unwrap();
        assert_eq!(peer_agent(&issued.der, &domain).unwrap(), agent);
    }
}

#[test]
fn two_uris_or_none_name_no_cluster() {
    let (server, _) = ca()
        .issue_server(&["hub.test".to_owned()], DAY, now())
        .unwrap();
    assert!(peer_agent(&server.der, &TrustDomain::default()).is_err());
    assert!(peer_agent(b"nonsense", &TrustDomain::default()).is_err());
    let key = rcgen::KeyPair::generate().unwrap();
    for uris in [
        vec![
            "spiffe://strait.local/cluster/a",
            "spiffe://strait.local/cluster/b",
        ],
        vec!["spiffe://strait.local/cluster/A"],
        vec!["spiffe://strait.local/cluster/a/b"],
        vec!["spiffe://strait.localx/cluster/a"],
        vec!["https://strait.local/cluster/a"],
    ] {
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names = uris
            .iter()
            .map(|u| rcgen::SanType::URI((*u).try_into().unwrap()))
            .collect();
        let der = params.self_signed(&key).unwrap().der().clone();
        assert!(
            peer_agent(&der, &TrustDomain::default()).is_err(),
            "{uris:?}"
        );
    }
}

#[test]
fn requests_that_are_wrong_are_refused() {
    let read = AgentRequest::from_pem;
    assert!(read("").is_err());
    assert!(read(ca().certificate_pem()).is_err());
    let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let csr = rcgen::CertificateParams::default()
        .serialize_request(&ed25519)
        .unwrap();
    assert!(read(&csr.pem().unwrap()).is_err(), "kind of key");

    let key = AgentKey::generate().unwrap();
    let mut der = pem_der(&key.csr_pem);
    let last = der.len() - 1;
    der[last] ^= 1;
    assert!(read(&pem_text(&der)).is_err(), "signature");
}

#[test]
fn a_callers_certificate_says_user_and_group() {
    let (issued, _) = ca()
        .issue_caller("dev@example.com", Some("dev"), DAY, now())
        .unwrap();
    let subject = Subject::of(&issued.der).unwrap().unwrap();
    assert_eq!(
        (subject.user.as_str(), subject.groups.as_slice()),
        ("dev@example.com", &["dev".to_owned()][..])
    );
}

fn pem_der(text: &str) -> Vec<u8> {
    use rustls_pki_types::pem::PemObject;
    rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(text.as_bytes())
        .unwrap()
        .to_vec()
}

fn pem_text(der: &[u8]) -> String {
    let body = BASE64_STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
}
