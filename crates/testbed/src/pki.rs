//! The certificates and kubeconfigs of a cluster.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{
    components::USERS,
    error::Error,
    plan::{API_SERVICE, ClusterPlan},
};

/// A subject with its certificate and key, both in PEM.
struct Certified {
    certificate: String,
    key: String,
}

/// Makes everything that the cluster's components read: `pki/*` and `*.kubeconfig` in `etc`.
pub(crate) fn create(plan: &ClusterPlan, etc: &Path) -> Result<(), Error> {
    let (address, name) = (plan.address.to_string(), plan.name.as_str());
    let pki = etc.join("pki");
    let ca = authority(&format!("{name}-ca"))?;
    save(
        &pki,
        "ca",
        &Certified {
            certificate: ca.pem(),
            key: ca.key().serialize_pem(),
        },
    )?;
    let front_ca = authority(&format!("{name}-front-proxy-ca"))?;
    write(&pki.join("front-proxy-ca.crt"), &front_ca.pem())?;

    save(
        &pki,
        "apiserver",
        &issue(&ca, "kube-apiserver", None, &server_names(&address))?,
    )?;
    let node = issue(
        &ca,
        &format!("system:node:{name}"),
        Some("system:nodes"),
        &[name.to_owned(), address],
    )?;
    save(&pki, "kubelet", &node)?;
    let client = issue(
        &ca,
        "kube-apiserver-kubelet-client",
        Some("system:masters"),
        &[],
    )?;
    save(&pki, "kubelet-client", &client)?;
    save(
        &pki,
        "front-proxy",
        &issue(&front_ca, "front-proxy-client", None, &[])?,
    )?;
    let accounts = key_pair("service accounts")?;
    write(&pki.join("sa.key"), &accounts.serialize_pem())?;
    write(&pki.join("sa.pub"), &accounts.public_key_pem())?;

    let ca_pem = ca.pem();
    let admin = issue(&ca, "admin", Some("system:masters"), &[])?;
    for (file, who) in [("admin", &admin), ("kubelet", &node)] {
        write(
            &etc.join(format!("{file}.kubeconfig")),
            &kubeconfig(plan, &ca_pem, file, who),
        )?;
    }
    for (file, user) in USERS {
        let who = issue(&ca, user, None, &[])?;
        write(
            &etc.join(format!("{file}.kubeconfig")),
            &kubeconfig(plan, &ca_pem, file, &who),
        )?;
    }
    Ok(())
}

/// A kubeconfig for `user` in `group`, signed by the authority that [`create`] left in `etc`.
pub(crate) fn user_kubeconfig(
    plan: &ClusterPlan,
    etc: &Path,
    user: &str,
    group: Option<&str>,
) -> Result<String, Error> {
    let failed = |source| Error::Certificate {
        name: user.to_owned(),
        source,
    };
    let certificate = read(&etc.join("pki/ca.crt"))?;
    let key = KeyPair::from_pem(&read(&etc.join("pki/ca.key"))?).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(failed)?;
    let who = issue(&issuer, user, group, &[])?;
    Ok(kubeconfig(plan, &certificate, user, &who))
}

/// One kubeconfig with a context for each cluster, named after it; the first is the current one.
pub(crate) fn merged_kubeconfig(parts: &[(String, KubeconfigParts)]) -> String {
    let mut clusters = String::new();
    let mut users = String::new();
    let mut contexts = String::new();
    for (name, part) in parts {
        clusters += &format!("- name: {name}\n  cluster: {}\n", part.cluster);
        users += &format!("- name: {name}\n  user: {}\n", part.user);
        contexts += &format!("- name: {name}\n  context: {{cluster: {name}, user: {name}}}\n");
    }
    let current = parts.first().map_or("", |(name, _)| name);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {current}\nclusters:\n{clusters}users:\n{users}\
         contexts:\n{contexts}"
    )
}

/// What a kubeconfig says about one cluster and one user, each as one line of JSON.
#[derive(Clone, Debug)]
pub(crate) struct KubeconfigParts {
    pub(crate) cluster: String,
    pub(crate) user: String,
}

/// The administrator's part of a kubeconfig that [`create`] wrote, read back from `etc`.
pub(crate) fn admin_parts(etc: &Path) -> Result<KubeconfigParts, Error> {
    let text = read(&etc.join("admin.kubeconfig"))?;
    let line = |key: &str| {
        let found = text.lines().find_map(|line| line.trim().strip_prefix(key));
        found.unwrap_or_default().to_owned()
    };
    Ok(KubeconfigParts {
        cluster: line("cluster: "),
        user: line("user: "),
    })
}

fn kubeconfig(plan: &ClusterPlan, ca: &str, user: &str, who: &Certified) -> String {
    let server = plan.server();
    let [ca, certificate, key] = [ca, &who.certificate, &who.key].map(|pem| STANDARD.encode(pem));
    let parts = KubeconfigParts {
        cluster: format!(r#"{{"server": "{server}", "certificate-authority-data": "{ca}"}}"#),
        user: format!(
            r#"{{"client-certificate-data": "{certificate}", "client-key-data": "{key}"}}"#
        ),
    };
    let name = &plan.name;
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\nclusters:\n- name: {name}\n  cluster: {}\n\
         users:\n- name: {user}\n  user: {}\n\
         contexts:\n- name: {name}\n  context: {{\"cluster\": \"{name}\", \"user\": \"{user}\"}}\n",
        parts.cluster, parts.user
    )
}

fn server_names(address: &str) -> Vec<String> {
    let service = API_SERVICE.to_string();
    [
        address,
        "127.0.0.1",
        &service,
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn key_pair(name: &str) -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(|source| Error::Certificate {
        name: name.to_owned(),
        source,
    })
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    CertifiedIssuer::self_signed(params, key_pair(name)?).map_err(|source| Error::Certificate {
        name: name.to_owned(),
        source,
    })
}

/// A certificate for both roles; a client has no `names`. The library holds one organisation per subject, so a
/// user is in at most one group.
fn issue(
    issuer: &Issuer<'_, KeyPair>,
    user: &str,
    group: Option<&str>,
    names: &[String],
) -> Result<Certified, Error> {
    let failed = |source| Error::Certificate {
        name: user.to_owned(),
        source,
    };
    let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(group) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
    params.distinguished_name.push(DnType::CommonName, user);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = key_pair(user)?;
    let certificate = params.signed_by(&key, issuer).map_err(failed)?;
    Ok(Certified {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn save(pki: &Path, name: &str, who: &Certified) -> Result<(), Error> {
    write(&pki.join(format!("{name}.crt")), &who.certificate)?;
    write(&pki.join(format!("{name}.key")), &who.key)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::file("write", path))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::file("read", path))
}
