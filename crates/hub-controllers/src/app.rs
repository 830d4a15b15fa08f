//! Starts the watches and the controllers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::{
        events::{Recorder, Reporter},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use strait_api::{
    ClusterProxyEntrypoint, ManagedCluster, ManagedProxyConfiguration, all_crds,
    wire_names::{HUB_INFO_CONFIG_MAP, HUB_NAMESPACE, MANAGED_BY},
};
use strait_kube_kit::{
    Controller, Leadership, LeaseConfig, Objects, Round, await_crds, drive, elect, install_crds,
    watch,
};
use strait_runtime::Tasks;

use crate::{
    ControllerConfig, Metrics, certificates::Certificates, clusters::Clusters, entrypoints,
    entrypoints::Entrypoints, grants, grants::Grants, join_tokens::JoinTokens,
};

/// Name of the Lease of the leader.
const LEASE: &str = "strait-controller";
/// The hub's Deployment.
const HUB_DEPLOYMENT: &str = "strait-hub";

/// Runs the hub's controllers until `tasks` are stopped; every task belongs to `tasks`.
///
/// Everybody watches and only the leader writes: the definitions of our kinds first, then all
/// else. Returns once the controllers run, which is when the definitions are there, or when the
/// tasks are stopped before.
pub async fn run(client: Client, config: ControllerConfig, metrics: Metrics, tasks: &Tasks) {
    let lease = LeaseConfig {
        namespace: HUB_NAMESPACE.to_owned(),
        name: LEASE.to_owned(),
        identity: config.identity.clone(),
    };
    let (leadership, election) = elect(client.clone(), lease, tasks.stop().clone());
    tasks.spawn("election", |_| election);
    tasks.spawn_one(metrics.clone().follow(leadership.clone()));
    let engine = Engine {
        client,
        tasks,
        leadership,
        metrics,
    };
    engine.start(Definitions {
        client: engine.client.clone(),
    });

    let crds = all_crds();
    tokio::select! {
        biased;
        () = tasks.stop().cancelled() => return,
        () = await_crds(&engine.client, &crds) => {}
    }
    tracing::info!("every kind is served");
    start_all(&engine, config);
}

fn start_all(engine: &Engine<'_>, config: ControllerConfig) {
    let clusters = engine.all::<ManagedCluster>("managedclusters", "");
    let namespaces = engine.all::<Namespace>("namespaces", "");
    let entrypoints = engine.all::<ClusterProxyEntrypoint>("entrypoints", "");
    let secrets = engine.one::<Secret>("secrets", None);
    let sources = entrypoints::Sources {
        configurations: engine.all::<ManagedProxyConfiguration>("configurations", ""),
        clusters: clusters.clone(),
        namespaces: namespaces.clone(),
        entrypoints: entrypoints.clone(),
        hub: engine.one::<Deployment>("deployments", Some(HUB_DEPLOYMENT)),
        secrets: secrets.clone(),
    };
    let controller = Entrypoints {
        client: engine.client.clone(),
        domain: config.domain.clone(),
        sources,
    };
    engine.start(controller);
    let controller = Clusters {
        client: engine.client.clone(),
        clusters,
        namespaces,
        entrypoints: entrypoints.clone(),
        failed: BTreeMap::new(),
    };
    engine.start(controller);
    engine.start(engine.grants(entrypoints));
    start_secrets(engine, secrets, config);
}

/// Starts those who keep the Secrets of the hub's namespace.
fn start_secrets(engine: &Engine<'_>, secrets: Objects<Secret>, config: ControllerConfig) {
    let controller = JoinTokens {
        client: engine.client.clone(),
        secrets: secrets.clone(),
        said: BTreeSet::new(),
    };
    engine.start(controller);
    let reporter = Reporter {
        controller: "strait.dev/controller".to_owned(),
        instance: Some(config.identity.clone()),
    };
    let controller = Certificates {
        events: Recorder::new(engine.client.clone(), reporter),
        client: engine.client.clone(),
        config,
        secrets,
        info: engine.one::<ConfigMap>("configmaps", Some(HUB_INFO_CONFIG_MAP)),
        said: BTreeMap::new(),
    };
    engine.start(controller);
}

/// Starts watches and controllers.
struct Engine<'a> {
    client: Client,
    tasks: &'a Tasks,
    leadership: Leadership,
    metrics: Metrics,
}

// === impl Engine ===

impl Engine<'_> {
    fn start<C: Controller + Sync + 'static>(&self, controller: C) {
        let (controller, leadership) = (self.metrics.count(controller), self.leadership.clone());
        self.tasks
            .spawn(C::NAME, |stop| drive(controller, leadership, stop));
    }

    fn grants(&self, entrypoints: Objects<ClusterProxyEntrypoint>) -> Grants {
        let (key, value) = MANAGED_BY;
        let component = grants::COMPONENT;
        let ours = format!("{key}={value},app.kubernetes.io/component={component}");
        Grants {
            client: self.client.clone(),
            entrypoints,
            roles: self.all::<Role>("roles", &ours),
            bindings: self.all::<RoleBinding>("rolebindings", &ours),
        }
    }

    /// Watches a kind everywhere.
    fn all<K>(&self, name: &'static str, labels: &str) -> Objects<K>
    where
        K: Resource<DynamicType = ()>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let config = watcher::Config::default();
        let config = match labels {
            "" => config,
            labels => config.labels(labels),
        };
        self.follow(name, Api::all(self.client.clone()), config)
    }

    /// Watches a kind in the hub's namespace, or one object there.
    fn one<K>(&self, name: &'static str, object: Option<&str>) -> Objects<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let config = watcher::Config::default();
        let config = match object {
            None => config,
            Some(object) => config.fields(&format!("metadata.name={object}")),
        };
        let api = Api::namespaced(self.client.clone(), HUB_NAMESPACE);
        self.follow(name, api, config)
    }

    fn follow<K>(
        &self,
        name: &'static str,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
    ) -> Objects<K>
    where
        K: Resource<DynamicType = ()>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let (objects, keep) = watch(api, config, self.tasks.stop().clone());
        self.tasks.spawn(name, |_| keep);
        objects
    }
}

/// Installs the definitions of our kinds, once for each time that it begins to lead.
struct Definitions {
    client: Client,
}

impl Controller for Definitions {
    const NAME: &'static str = "definitions";

    async fn ready(&self) -> bool {
        true
    }

    async fn changed(&mut self) -> bool {
        std::future::pending().await
    }

    async fn round(&mut self) -> Round {
        let mut round = Round::new();
        let version = env!("CARGO_PKG_VERSION");
        let installed = install_crds(&self.client, &all_crds(), version).await;
        round.note(installed);
        round
    }
}
