//! The Services of an agent without Kubernetes. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};

use crate::documents::{Document, DocumentError};

const KNOWN: &str = "Service (v1) and EndpointSlice (discovery.k8s.io/v1)";
/// The label by which a slice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Everything that an agent's file says.
#[derive(Clone, Debug, Default)]
pub struct AgentFile {
    /// The Services by namespace and name.
    pub services: BTreeMap<(String, String), Service>,
    /// The slices by namespace and name of their Service.
    pub slices: BTreeMap<(String, String), Vec<EndpointSlice>>,
}

// === impl AgentFile ===

impl AgentFile {
    /// Reads a file's text. What has no namespace is in `default`.
    ///
    /// # Errors
    /// Names the document and the field.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let mut file = Self::default();
        for document in Document::all(text)? {
            match (document.api_version.as_str(), document.kind.as_str()) {
                ("v1", "Service") => {
                    let service: Service = document.read()?;
                    let name = service.metadata.name.clone();
                    let name = name.ok_or_else(|| document.wrong("metadata.name", "is missing"))?;
                    let namespace = namespace(service.metadata.namespace.as_deref());
                    file.services.insert((namespace, name), service);
                }
                ("discovery.k8s.io/v1", "EndpointSlice") => {
                    let slice: EndpointSlice = document.read()?;
                    let labels = slice.metadata.labels.as_ref();
                    let service = labels.and_then(|labels| labels.get(SERVICE_LABEL));
                    let field = "metadata.labels[kubernetes.io/service-name]";
                    let service = service.ok_or_else(|| document.wrong(field, "is missing"))?;
                    let namespace = namespace(slice.metadata.namespace.as_deref());
                    let key = (namespace, service.clone());
                    file.slices.entry(key).or_default().push(slice);
                }
                _ => return Err(document.unknown(KNOWN)),
            }
        }
        Ok(file)
    }
}

fn namespace(given: Option<&str>) -> String {
    given.unwrap_or("default").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_their_endpoints_are_found_by_name() {
        let file = AgentFile::parse(
            r"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1]}]
ports: [{port: 8080}]
",
        );
        let file = file.unwrap();
        let key = ("default".to_owned(), "web".to_owned());
        assert!(file.services.contains_key(&key));
        assert_eq!(file.slices[&key].len(), 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("apiVersion: v1\nkind: Pod", "Pod of v1 means nothing here"),
            (
                "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: x}]}",
                "spec.ports[0].port: ",
            ),
            (
                "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\n\
                 addressType: IPv4\nendpoints: []",
                "service-name]: is missing",
            ),
        ] {
            let error = AgentFile::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
