//! `strait quickstart`.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use http::Response;
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use strait_agent::{Agent, AgentConfig, Deps, DirectoryStore, FileServices, LogStatus, Storage};
use strait_file_kit::State;
use strait_hub::{Hub, HubConfig, files::Files};
use strait_install::JoinRecord;
use strait_runtime::{LogArgs, Tasks, admin::Readiness, clock};
use strait_types::{AllowPattern, JoinCredential, JoinToken};
use tokio::net::TcpListener;

use crate::role::{asked_to_stop, finish};

/// The services, and whose they are.
const SERVICES: [(&str, &str); 2] = [("search", "cluster1"), ("foo", "cluster2")];
/// Who may connect to them.
const CALLER: &str = "dev@example.com";
/// How long everything may take to be there.
const PATIENCE: Duration = Duration::from_secs(30);
/// After a connection that could not be accepted: descriptors may be used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Runs a hub, two agents and a service behind each, in this process and without Kubernetes, and
/// prints what to type
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strait quickstart
  strait quickstart --directory ./try --listen 127.0.0.1:8443

What it writes into the directory are the files that hub and agents run from; copy them to
begin with.")]
pub(crate) struct QuickstartRole {
    /// Where the hub listens
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Directory for files, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

// === impl QuickstartRole ===

impl QuickstartRole {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        // The story is on stdout.
        self.log.init_or("error")?;
        let begun = clock::now();
        let temporary = match &self.directory {
            Some(_) => None,
            None => Some(tempfile::tempdir().context("failed to make a directory")?),
        };
        let directory = match (&self.directory, &temporary) {
            (Some(directory), _) => directory.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => PathBuf::new(),
        };
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("failed to make {}", directory.display()))?;
        let tasks = Tasks::default();
        let hub = start_hub(&directory, self.listen, &tasks).await?;
        let state = State::open(&directory.join("state"), clock::timestamp())?;
        let mut connected = vec![];
        for (service, cluster) in SERVICES {
            connected.push(start_agent(&directory, &state, hub, service, cluster, &tasks).await?);
        }
        let all = async {
            for readiness in &connected {
                while !readiness.is_ready() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let ready = tokio::time::timeout(PATIENCE, all).await;
        ensure!(
            ready.is_ok(),
            "the agents did not connect; `--log info` says why"
        );
        explain(&directory, hub, begun.elapsed());
        asked_to_stop(&tasks).await;
        finish(&tasks).await
    }
}

async fn start_hub(
    directory: &Path,
    listen: SocketAddr,
    tasks: &Tasks,
) -> anyhow::Result<SocketAddr> {
    // The port must be known before the file is written that names it.
    let listen = match listen.port() {
        0 => TcpListener::bind(listen).await?.local_addr()?,
        _ => listen,
    };
    let token = random_token();
    write(&directory.join("dev.token"), &token)?;
    let path = directory.join("hub.yaml");
    write(&path, &hub_file(listen))?;
    let files = Files::open(&path, clock::timestamp())?;
    let config = files.config(HubConfig::new(listen))?;
    let deps = files.connect(&config, tasks).await?;
    let bundle = deps.material.hub_bundle.get();
    write(&directory.join("hub-ca.pem"), &bundle)?;
    let hub = Hub::bind(config, deps, &mut Registry::default()).await?;
    let address = hub.address();
    // Its own end ends the others.
    tasks.spawn("hub", |stop| async move {
        let _ = hub.run(stop.cancelled_owned()).await;
    });
    Ok(address)
}

async fn start_agent(
    directory: &Path,
    state: &State,
    hub: SocketAddr,
    service: &str,
    cluster: &str,
    tasks: &Tasks,
) -> anyhow::Result<Readiness> {
    let address = serve(
        format!("{service} in namespace default of {cluster}\n"),
        tasks,
    )
    .await?;
    let services = directory.join(format!("{cluster}.services.yaml"));
    write(&services, &services_file(service, address))?;
    let token = directory.join(format!("{cluster}.token"));
    write(&token, &join_token(state, hub, cluster)?)?;
    let identity = directory.join(cluster);
    let (store, watching) =
        DirectoryStore::new(identity.clone(), Some(token.clone()), tasks.stop().clone());
    tasks.spawn("identity", |_| watching);
    let config = AgentConfig {
        allow: vec![AllowPattern::everything()],
        storage: Storage::Files {
            directory: identity,
            token: Some(token),
        },
        services: Some(services.clone()),
        own_addresses: vec![],
        drain: Duration::from_secs(1),
    };
    let deps = Deps {
        store: Arc::new(store),
        services: FileServices::open(services)?,
        status: Arc::new(LogStatus),
        api_server: None,
    };
    let readiness = Readiness::default();
    let agent = Agent::new(config, deps, &readiness, &mut Registry::default());
    tasks.spawn("agent", |stop| async move {
        let _ = agent.run(stop.cancelled_owned()).await;
    });
    Ok(readiness)
}

/// An HTTP server that always says the same.
async fn serve(says: String, tasks: &Tasks) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let serving = tasks.clone();
    let says = Bytes::from(says);
    tasks.spawn("service", |stop| async move {
        loop {
            let tcp = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok((tcp, _)) => tcp,
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let says = says.clone();
            let answer = service_fn(move |_| {
                let body = Full::new(says.clone());
                async { Ok::<_, Infallible>(Response::new(body)) }
            });
            serving.spawn_one(async move {
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(tcp), answer)
                    .await;
            });
        }
    });
    Ok(address)
}

fn join_token(state: &State, hub: SocketAddr, cluster: &str) -> anyhow::Result<String> {
    let cluster: strait_types::ClusterName = cluster.parse()?;
    let credential = JoinCredential::from_random(rand::random(), rand::random());
    let expires = clock::timestamp() + jiff::SignedDuration::from_mins(5);
    let record = JoinRecord::new(cluster.clone(), &credential, expires);
    state.write_token(credential.id(), &record)?;
    let [.., bundle] = state.hub_ca();
    let token = JoinToken {
        cluster,
        expires,
        hubs: vec![hub.to_string()],
        ca_bundle: std::fs::read_to_string(bundle)?,
        token: credential,
    };
    Ok(serde_json::to_string_pretty(&token)?)
}

fn random_token() -> String {
    let bytes: [u8; 24] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// For its owner alone: some of the files are secrets.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut options = std::fs::OpenOptions::new();
    let opened = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("failed to write {}", path.display()))
}

fn hub_file(listen: SocketAddr) -> String {
    let services: String = SERVICES
        .iter()
        .map(|(name, cluster)| {
            format!("  - {{name: {name}, namespace: default, cluster: {cluster}}}\n")
        })
        .collect();
    let members: String = SERVICES
        .iter()
        .map(|(_, cluster)| {
            format!(
                "---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {{name: {cluster}}}
spec: {{hubAcceptsClient: true}}
"
            )
        })
        .collect();
    format!(
        "apiVersion: strait.dev/v1alpha1
kind: HubConfiguration
spec:
  listen: '{listen}'
  addresses: ['{listen}']
  callers:
  - {{user: {CALLER}, tokenFile: dev.token}}
{members}---
apiVersion: proxy.open-cluster-management.io/v1alpha1
kind: ManagedProxyConfiguration
metadata: {{name: cluster-proxy}}
spec:
  services:
{services}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: connect}}
rules:
- apiGroups: [proxy.open-cluster-management.io]
  resources: [clusterproxyentrypoints]
  verbs: [connect]
- apiGroups: [cluster.open-cluster-management.io]
  resources: [managedclusters]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: dev}}
subjects: [{{kind: User, name: {CALLER}}}]
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: connect}}
"
    )
}

fn services_file(service: &str, address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {service}, namespace: default}}
spec:
  ports: [{{name: http, port: 80}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {service}, namespace: default, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: IPv4
endpoints: [{{addresses: [{ip}]}}]
ports: [{{name: http, port: {port}}}]
"
    )
}

#[expect(
    clippy::print_stdout,
    reason = "what to type is what the command is for"
)]
fn explain(directory: &Path, hub: SocketAddr, took: Duration) {
    let place = directory.display();
    println!(
        "A hub, two members and a service of each, ready in {} ms. Reach them:\n",
        took.as_millis()
    );
    for (name, cluster) in SERVICES {
        println!(
            "  curl --noproxy '' --proxy https://{hub} --proxy-cacert {place}/hub-ca.pem \\\n       \
             --proxy-header \"Proxy-Authorization: Bearer $(cat {place}/dev.token)\" \\\n       \
             http://{name}.default.{cluster}/\n"
        );
    }
    println!("{place} has the files that they run from. Ctrl-C ends everything.");
}
