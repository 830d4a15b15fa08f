//! One cluster, as the verbs use it.

use anyhow::Context;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Node, Service},
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        PropagationPolicy,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use strait_api::wire_names::{HUB_INFO_CONFIG_MAP, HUB_NAMESPACE};
use strait_install::{HubInfo, Kind, Object};
use strait_kube_kit::{ClientArgs, Connection};

use crate::{
    args::GlobalArgs,
    failure::{Failure, WithHint},
};

/// The field manager of everything that the command line applies.
const MANAGER: &str = "strait-cli";

/// A connection to the cluster of the current context.
pub(crate) struct Cluster {
    client: Client,
    config: Config,
}

/// What applying an object has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// It was not there.
    Created,
    /// It was there and differed.
    Changed,
    /// It was there as it should be.
    Unchanged,
}

// === impl Cluster ===

impl Cluster {
    /// Reads the kubeconfig and makes a client; talks to nobody yet.
    pub(crate) async fn connect(args: &GlobalArgs) -> Result<Self, Failure> {
        let args = ClientArgs {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
        };
        let Connection { client, config } = args
            .connect()
            .await
            .hint("`--kubeconfig FILE` and `--context NAME` say which cluster is meant")?;
        Ok(Self { client, config })
    }

    /// What the kubeconfig says, for those who need its credentials.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    pub(crate) fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Where the hub listens; `None` when this cluster has no hub, or one that is not ready.
    pub(crate) async fn hub_info(&self) -> Result<Option<HubInfo>, Failure> {
        let info: Option<ConfigMap> = self
            .namespaced(HUB_NAMESPACE)
            .get_opt(HUB_INFO_CONFIG_MAP)
            .await
            .with_context(|| format!("failed to read ConfigMap `{HUB_INFO_CONFIG_MAP}`"))?;
        Ok(info
            .and_then(|info| info.data)
            .map(|data| HubInfo::from_data(&data)))
    }

    pub(crate) async fn get<K>(&self, api: Api<K>, name: &str) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let kind = K::kind(&());
        Ok(api
            .get_opt(name)
            .await
            .with_context(|| format!("failed to read {kind} `{name}`"))?)
    }

    /// Every object of a kind, with a label selector if it is not empty.
    pub(crate) async fn list<K>(&self, api: &Api<K>, selector: &str) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let plural = K::plural(&());
        let found = api.list(&ListParams::default().labels(selector)).await;
        Ok(found
            .with_context(|| format!("failed to list {plural}"))?
            .items)
    }

    /// Creates an object that is an answer and not kept, a review for instance.
    pub(crate) async fn create<K>(&self, object: &K) -> Result<K, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Serialize,
    {
        let kind = K::kind(&());
        let made = self.all().create(&PostParams::default(), object).await;
        Ok(made.with_context(|| format!("failed to create a {kind}"))?)
    }

    /// The addresses of up to three nodes, the outside one where there is one.
    pub(crate) async fn node_addresses(&self) -> Result<Vec<String>, Failure> {
        let nodes: Vec<Node> = self.list(&self.all(), "").await?;
        Ok(nodes.iter().filter_map(node_address).take(3).collect())
    }

    pub(crate) async fn service(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Service>, Failure> {
        self.get(self.namespaced(namespace), name).await
    }

    /// Applies an object with only our fields; others keep theirs.
    pub(crate) async fn apply(&self, object: &Object) -> Result<Outcome, Failure> {
        let api = self.dynamic(object.kind(), object.namespace());
        let name = object.name();
        let doing = || format!("failed to apply {} `{name}`", object.kind().name());
        let before = api.get_metadata_opt(name).await.with_context(doing)?;
        let params = PatchParams::apply(MANAGER).force();
        let after = api
            .patch(name, &params, &Patch::Apply(object.value()))
            .await;
        let after = after.with_context(doing)?;
        Ok(match before {
            None => Outcome::Created,
            Some(before) if before.resource_version() == after.resource_version() => {
                Outcome::Unchanged
            }
            Some(_) => Outcome::Changed,
        })
    }

    /// The objects of a kind that carry our labels, in every namespace.
    pub(crate) async fn ours(
        &self,
        kind: Kind,
        selector: &str,
    ) -> Result<Vec<DynamicObject>, Failure> {
        let found = self
            .dynamic(kind, None)
            .list(&ListParams::default().labels(selector))
            .await;
        Ok(found
            .with_context(|| format!("failed to list {}", kind.plural()))?
            .items)
    }

    pub(crate) async fn delete(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), Failure> {
        let api = self.dynamic(kind, namespace);
        gone(api.delete(name, &foreground()).await, kind.name(), name)
    }

    pub(crate) async fn exists(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<bool, Failure> {
        let found = self.dynamic(kind, namespace).get_metadata_opt(name).await;
        Ok(found
            .with_context(|| format!("failed to read {} `{name}`", kind.name()))?
            .is_some())
    }

    /// Removes one object, and its finalizers if those who would do it have been removed already.
    pub(crate) async fn remove<K>(&self, api: &Api<K>, object: &K) -> Result<(), Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Serialize,
    {
        let (kind, name) = (K::kind(&()), object.name_any());
        gone(
            api.delete(&name, &DeleteParams::background()).await,
            &kind,
            &name,
        )?;
        if object.finalizers().is_empty() {
            return Ok(());
        }
        let none = Patch::Merge(serde_json::json!({ "metadata": { "finalizers": null } }));
        gone(
            api.patch(&name, &PatchParams::default(), &none).await,
            &kind,
            &name,
        )
    }

    fn dynamic(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = (kind.group().to_owned(), kind.version().to_owned());
        let api_version = if group.is_empty() {
            version.clone()
        } else {
            format!("{group}/{version}")
        };
        let resource = ApiResource {
            group,
            version,
            api_version,
            kind: kind.name().to_owned(),
            plural: kind.plural().to_owned(),
        };
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn foreground() -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    }
}

/// What is not there any more has been removed.
fn gone<T>(result: kube::Result<T>, kind: &str, name: &str) -> Result<(), Failure> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(anyhow::Error::from(error)
            .context(format!("failed to remove {kind} `{name}`"))
            .into()),
    }
}

fn node_address(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let of = |kind: &str| {
        addresses
            .iter()
            .find(|a| a.type_ == kind)
            .map(|a| a.address.clone())
    };
    of("ExternalIP").or_else(|| of("InternalIP"))
}
