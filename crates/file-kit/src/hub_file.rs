//! What people say to a hub without Kubernetes. Pure.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use strait_api::{
    ClusterProxyEntrypoint, ManagedCluster, ManagedProxyConfiguration,
    wire_names::{CLUSTER_GROUP, CONFIGURATION_NAME, PROXY_GROUP},
};
use strait_names::{Problem, expand};
use strait_types::{ClusterName, ServiceName};

use crate::{
    documents::{Document, DocumentError},
    rights::Rights,
};

/// The group of the kinds that only files have.
const GROUP: &str = "strait.dev";
const RBAC: &str = "rbac.authorization.k8s.io";
const KNOWN: &str = "HubConfiguration (strait.dev/v1alpha1), ManagedCluster, \
    ManagedProxyConfiguration, ClusterProxyEntrypoint, Role, RoleBinding, ClusterRole and \
    ClusterRoleBinding";

/// Everything that a hub's file says.
#[derive(Clone, Debug, Default)]
pub struct HubFile {
    /// How the hub runs.
    pub spec: HubSpec,
    /// Members, also those that have not joined.
    pub members: Vec<ManagedCluster>,
    /// The configurations.
    pub configurations: Vec<ManagedProxyConfiguration>,
    /// Entrypoints that were written down.
    pub entrypoints: Vec<ClusterProxyEntrypoint>,
    /// Roles and bindings.
    pub rights: Rights,
}

/// How a hub runs: `spec` of a `HubConfiguration`. Paths are relative to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HubSpec {
    /// Where it listens.
    pub listen: Option<SocketAddr>,
    /// Where agents and callers reach it, `host:port`.
    pub addresses: Vec<String>,
    /// The domain below which services are served by HTTPS.
    pub domain: Option<String>,
    /// What it has to remember is kept here; `state` beside the file when absent.
    pub state_directory: Option<PathBuf>,
    /// PEM certificates by which callers' are verified.
    pub callers_ca: Option<PathBuf>,
    /// Callers with tokens.
    pub callers: Vec<StaticCaller>,
}

/// A caller with a token that does not change by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticCaller {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The token's SHA-256 in hexadecimal.
    pub token_sha256: Option<String>,
    /// The file that holds the token alone.
    pub token_file: Option<PathBuf>,
}

#[derive(Deserialize)]
struct HubConfiguration {
    #[serde(default)]
    spec: HubSpec,
}

// === impl HubFile ===

impl HubFile {
    /// Reads a file's text. `path` is where it lies: its relative paths begin there.
    ///
    /// # Errors
    /// Names the document and the field.
    pub fn parse(text: &str, path: &Path) -> Result<Self, DocumentError> {
        let mut file = Self::default();
        let mut seen = false;
        for document in Document::all(text)? {
            let known = (document.group(), document.kind.as_str());
            match known {
                (GROUP, "HubConfiguration") if seen => {
                    return Err(DocumentError::Missing("HubConfiguration"));
                }
                (GROUP, "HubConfiguration") => {
                    let read: HubConfiguration = document.read()?;
                    file.spec = read.spec;
                    check(&document, &file.spec)?;
                    seen = true;
                }
                (CLUSTER_GROUP, "ManagedCluster") => file.members.push(document.read()?),
                (PROXY_GROUP, "ManagedProxyConfiguration") => {
                    file.configurations.push(document.read()?);
                }
                (PROXY_GROUP, "ClusterProxyEntrypoint") => file.entrypoints.push(document.read()?),
                (RBAC, "Role") => file.rights.roles.push(document.read()?),
                (RBAC, "RoleBinding") => file.rights.role_bindings.push(document.read()?),
                (RBAC, "ClusterRole") => file.rights.cluster_roles.push(document.read()?),
                (RBAC, "ClusterRoleBinding") => {
                    file.rights.cluster_role_bindings.push(document.read()?);
                }
                _ => return Err(document.unknown(KNOWN)),
            }
        }
        if !seen {
            return Err(DocumentError::Missing("HubConfiguration"));
        }
        file.spec
            .from(path.parent().unwrap_or_else(|| Path::new("")));
        Ok(file)
    }

    /// The entrypoints, those among them that the configuration asks for, and what is wrong with
    /// it. `members` are all that there are.
    #[must_use]
    pub fn entrypoints(
        &self,
        members: &BTreeSet<ClusterName>,
    ) -> (Vec<ClusterProxyEntrypoint>, Vec<Problem>) {
        let mut entrypoints = self.entrypoints.clone();
        for entrypoint in &mut entrypoints {
            let metadata = &mut entrypoint.metadata;
            let name = format!("{:?}/{:?}", metadata.namespace, metadata.name);
            metadata.uid.get_or_insert_with(|| uid(&name));
        }
        let configuration = self
            .configurations
            .iter()
            .find(|c| c.metadata.name.as_deref() == Some(CONFIGURATION_NAME));
        let Some(configuration) = configuration else {
            return (entrypoints, vec![]);
        };
        let spec = &configuration.spec;
        let exposure = expand(
            spec.services.as_ref(),
            spec.service_resolvers.as_ref(),
            members,
        );
        let wanted = exposure.entrypoints.iter().map(|wanted| &wanted.service);
        let missing: Vec<_> = wanted
            .filter(|service| !entrypoints.iter().any(|found| exposes(found, service)))
            .filter_map(made)
            .collect();
        entrypoints.extend(missing);
        (entrypoints, exposure.problems)
    }
}

// === impl HubSpec ===

impl HubSpec {
    /// Relative paths begin in `folder`.
    fn from(&mut self, folder: &Path) {
        let tokens = self.callers.iter_mut().map(|caller| &mut caller.token_file);
        let paths = [&mut self.state_directory, &mut self.callers_ca];
        for path in tokens.chain(paths).flatten() {
            *path = folder.join(&*path);
        }
        self.state_directory
            .get_or_insert_with(|| folder.join("state"));
    }
}

fn check(document: &Document, spec: &HubSpec) -> Result<(), DocumentError> {
    for (index, caller) in spec.callers.iter().enumerate() {
        let field = |name: &str| format!("spec.callers[{index}].{name}");
        if caller.user.is_empty() {
            return Err(document.wrong(&field("user"), "must not be empty"));
        }
        match (&caller.token_sha256, &caller.token_file) {
            (Some(hash), None) => {
                let good = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
                if !good {
                    let why = "must be 64 hexadecimal digits";
                    return Err(document.wrong(&field("tokenSha256"), why));
                }
            }
            (None, Some(_)) => {}
            (Some(_), Some(_)) | (None, None) => {
                let why = "one of `tokenSha256` and `tokenFile` must be there";
                return Err(document.wrong(&field("tokenFile"), why));
            }
        }
    }
    Ok(())
}

fn exposes(entrypoint: &ClusterProxyEntrypoint, service: &ServiceName) -> bool {
    entrypoint.metadata.namespace.as_deref() == Some(service.cluster().as_str())
        && entrypoint.spec.service == service.service()
        && entrypoint.spec.namespace == service.namespace()
}

/// The entrypoint that a controller would make.
fn made(service: &ServiceName) -> Option<ClusterProxyEntrypoint> {
    let name = service.to_string();
    let object = json!({
        "metadata": { "name": name, "namespace": service.cluster(), "uid": uid(&name) },
        "spec": { "service": service.service(), "namespace": service.namespace() },
    });
    serde_json::from_value(object).ok()
}

/// A uid that stays the same for as long as the name does, in the form of a version-8 UUID (RFC
/// 9562, 5.8).
fn uid(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(digest.iter()) {
        *byte = *from;
    }
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r"
apiVersion: strait.dev/v1alpha1
kind: HubConfiguration
spec:
  addresses: ['hub.example.com:8443']
  callersCa: callers.pem
  callers:
  - {user: dev@example.com, groups: [dev], tokenFile: dev.token}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: cluster1}
spec: {hubAcceptsClient: true}
---
apiVersion: proxy.open-cluster-management.io/v1alpha1
kind: ManagedProxyConfiguration
metadata: {name: cluster-proxy}
spec:
  services:
  - {name: search, namespace: default, cluster: cluster1}
  - {name: own, namespace: default, cluster: cluster1}
  - {name: nowhere, namespace: default, cluster: cluster9}
---
apiVersion: proxy.open-cluster-management.io/v1alpha1
kind: ClusterProxyEntrypoint
metadata: {name: mine, namespace: cluster1}
spec: {service: own, namespace: default}
";

    fn parse(text: &str) -> Result<HubFile, String> {
        let read = HubFile::parse(text, Path::new("/etc/strait/hub.yaml"));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn paths_begin_where_the_file_lies() {
        let file = parse(GOOD).unwrap();
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(file.spec.callers_ca, path("/etc/strait/callers.pem"));
        assert_eq!(file.spec.state_directory, path("/etc/strait/state"));
        assert_eq!(
            file.spec.callers[0].token_file,
            path("/etc/strait/dev.token")
        );
    }

    #[test]
    fn the_configuration_makes_what_nobody_wrote_down() {
        let file = parse(GOOD).unwrap();
        let members = BTreeSet::from(["cluster1".parse().unwrap()]);
        let (entrypoints, problems) = file.entrypoints(&members);
        let names: Vec<_> = entrypoints
            .iter()
            .map(|e| e.metadata.name.clone().unwrap())
            .collect();
        assert_eq!(names, ["mine", "search.default.cluster1"]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let again = file.entrypoints(&members).0;
        let uids = |all: &[ClusterProxyEntrypoint]| -> Vec<_> {
            all.iter()
                .map(|e| e.metadata.uid.clone().unwrap())
                .collect()
        };
        assert_eq!(uids(&again), uids(&entrypoints));
        assert_ne!(uids(&again)[0], uids(&again)[1]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let one = |spec: &str| {
            format!("apiVersion: strait.dev/v1alpha1\nkind: HubConfiguration\nspec: {spec}\n")
        };
        for (text, says) in [
            ("a: [".to_owned(), "it is not YAML"),
            (String::new(), "there must be one HubConfiguration"),
            ("spec: {}".to_owned(), "document 1: `apiVersion` and `kind`"),
            (
                "apiVersion: v1\nkind: Pod".to_owned(),
                "document 1: Pod of v1 means nothing here",
            ),
            (
                one("{listen: here}"),
                "document 1 (HubConfiguration): spec.listen: ",
            ),
            (
                one("{listn: 'x:1'}"),
                "(HubConfiguration): spec.listn: unknown field",
            ),
            (
                one("{callers: [{user: a}]}"),
                "spec.callers[0].tokenFile: one of `tokenSha256` and `tokenFile`",
            ),
            (
                one("{callers: [{user: a, tokenSha256: xyz}]}"),
                "spec.callers[0].tokenSha256: must be 64",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
