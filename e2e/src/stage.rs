//! Sets the stage and finds it again.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use strait_pki::AgentKey;
use strait_runtime::clock;
use strait_testbed::{BuildProfile, Cluster, Fleet, FleetSpec, HUB_PORT, Images, Progress, Set};
use strait_types::{JOIN_PATH, JoinRequest, JoinToken};
use tokio::io::AsyncWriteExt;

use crate::{Answer, Caller, Credential, caller_rights, eventually, manifest::asking_pod, service};

/// The domain of the hub on the stage. Names under `localhost` need no DNS (RFC 6761).
pub const DOMAIN: &str = "demo.localhost";

/// The services of the demo: name, namespace, cluster.
const SERVICES: [(&str, &str, &str); 3] = [
    ("search", "default", "cluster1"),
    ("search", "search", "cluster1"),
    ("foo", "default", "cluster2"),
];

/// Pods start within seconds on an idle machine; CI's are not idle.
const POD_PATIENCE: Duration = Duration::from_secs(120);

/// Three clusters, and the `strait` that was built from this checkout.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The clusters.
    pub fleet: Fleet,
    /// The command line.
    pub strait: PathBuf,
}

/// What a command said.
#[derive(Clone, Debug)]
pub struct Said {
    /// Exit code.
    pub code: i32,
    /// Standard output: data.
    pub stdout: String,
    /// Standard error: talk.
    pub stderr: String,
}

// === impl Stage ===

impl Stage {
    /// Builds what is needed and starts the clusters with nothing of ours in them.
    ///
    /// # Errors
    /// When building or starting fails.
    pub async fn up(set: Set, progress: &Progress) -> Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        let images = Images::build(version, BuildProfile::Dev, progress).await?;
        let fleet = match Fleet::attach(set) {
            // Clusters that somebody gave us, or that are up already.
            Ok(fleet) => {
                fleet.load_images(&images.tars()).await?;
                fleet
            }
            Err(_) => {
                let spec = FleetSpec {
                    set,
                    members: 2,
                    kube: None,
                    images: images.tars(),
                };
                Fleet::up(spec, progress).await?
            }
        };
        let stage = Self {
            fleet,
            strait: images.strait_binary,
        };
        let record = stage.record();
        std::fs::write(&record, stage.strait.as_os_str().as_encoded_bytes())
            .with_context(|| format!("failed to write {}", record.display()))?;
        Ok(stage)
    }

    /// Finds the stage that `stage` or `demo` has set.
    ///
    /// # Errors
    /// When it is not set.
    pub fn attach(set: Set) -> Result<Self> {
        let fleet = Fleet::attach(set)?;
        let mut stage = Self {
            fleet,
            strait: PathBuf::new(),
        };
        let path = std::fs::read_to_string(stage.record()).context("the stage is not set")?;
        stage.strait = path.into();
        Ok(stage)
    }

    /// The stage of the tests.
    ///
    /// # Errors
    /// When it is not set: `make test` sets it.
    pub fn of_tests() -> Result<Self> {
        Self::attach(Set::Test).context("the stage is not set; `make test` sets it")
    }

    /// Everything that the demo shows before the first request: hub, members, services, rights.
    ///
    /// # Errors
    /// When a step fails.
    pub async fn set(&self) -> Result<()> {
        self.install_hub().await?;
        for (name, namespace, cluster) in SERVICES {
            self.deploy(name, namespace, cluster).await?;
        }
        for cluster in ["cluster1", "cluster2"] {
            self.join(cluster).await?;
        }
        self.hub()?
            .kubectl(&["apply", "-f", &self.manifest("services.yaml")])
            .await?;
        for (name, namespace, cluster) in SERVICES {
            self.entrypoint_accepted(cluster, &format!("{name}.{namespace}.{cluster}"))
                .await?;
        }
        self.grant("dev", &["cluster1", "cluster2"]).await?;
        self.grant("viewer", &[]).await?;
        for (name, namespace, cluster) in SERVICES {
            self.rolled_out(name, namespace, cluster).await?;
        }
        Ok(())
    }

    /// The hub's cluster.
    ///
    /// # Errors
    /// When there is none.
    pub fn hub(&self) -> Result<&Cluster> {
        Ok(self.fleet.hub()?)
    }

    /// Any cluster.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn cluster(&self, name: &str) -> Result<&Cluster> {
        Ok(self.fleet.cluster(name)?)
    }

    /// `address:port` of the hub.
    ///
    /// # Errors
    /// When it has no address.
    pub fn hub_address(&self) -> Result<String> {
        let address = self.hub()?.address().context("the hub has no address")?;
        Ok(format!("{address}:{HUB_PORT}"))
    }

    /// Makes the hub's cluster a hub.
    ///
    /// # Errors
    /// When `strait install hub` fails.
    pub async fn install_hub(&self) -> Result<()> {
        let (address, port) = (self.hub_address()?, HUB_PORT.to_string());
        let args = [
            "install",
            "hub",
            "--address",
            &address,
            "--host-port",
            &port,
        ];
        let args = [&args[..], &["--domain", DOMAIN, "--wait"]].concat();
        self.strait_ok("hub", &args).await.map(drop)
    }

    /// Makes a token file for a cluster; returns its path.
    ///
    /// # Errors
    /// When `strait token create` fails.
    pub async fn token(&self, cluster: &str) -> Result<PathBuf> {
        let path = self.folder().join(format!("{cluster}.token"));
        let shown = path.display().to_string();
        self.strait_ok(
            "hub",
            &["token", "create", "--cluster", cluster, "-o", &shown],
        )
        .await?;
        Ok(path)
    }

    /// Lets a member join; returns what `strait join` said.
    ///
    /// # Errors
    /// When it fails.
    pub async fn join(&self, cluster: &str) -> Result<Said> {
        let token = self.token(cluster).await?.display().to_string();
        self.strait_ok(cluster, &["join", "--token-file", &token])
            .await
    }

    /// Puts a testbox and its Service into a member.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn deploy(&self, name: &str, namespace: &str, cluster: &str) -> Result<()> {
        let manifest = service(name, namespace, cluster);
        self.cluster(cluster)?
            .kubectl_with_input(&["apply", "-f", "-"], &manifest)
            .await?;
        Ok(())
    }

    /// Waits until such a testbox answers.
    ///
    /// # Errors
    /// When its pod does not become ready.
    pub async fn rolled_out(&self, name: &str, namespace: &str, cluster: &str) -> Result<()> {
        let deployment = format!("deployment/{name}");
        let timeout = format!("--timeout={}s", POD_PATIENCE.as_secs());
        let args = ["rollout", "status", "-n", namespace, &deployment, &timeout];
        self.cluster(cluster)?.kubectl(&args).await?;
        Ok(())
    }

    /// Makes a service account `name` at the hub that may connect to what these clusters expose.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn grant(&self, name: &str, clusters: &[&str]) -> Result<()> {
        let manifest = caller_rights(name, clusters);
        self.hub()?
            .kubectl_with_input(&["apply", "-f", "-"], &manifest)
            .await?;
        Ok(())
    }

    /// Waits until an entrypoint's condition `Accepted` holds.
    ///
    /// # Errors
    /// When it does not within 30 s.
    pub async fn entrypoint_accepted(&self, cluster: &str, name: &str) -> Result<()> {
        let path = r#"jsonpath={.status.conditions[?(@.type=="Accepted")].status}"#;
        let what = format!("entrypoint {name} is accepted");
        eventually(Duration::from_secs(30), &what, || async {
            let args = [
                "get",
                "clusterproxyentrypoint",
                "-n",
                cluster,
                name,
                "-o",
                path,
            ];
            let status = self.hub()?.kubectl(&args).await?;
            ensure!(status.trim() == "True", "Accepted is {status:?}");
            Ok(())
        })
        .await
    }

    /// A bearer token of a service account at the hub.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn bearer(&self, account: &str) -> Result<String> {
        let token = self.hub()?.kubectl(&["create", "token", account]).await?;
        Ok(token.trim().to_owned())
    }

    /// Whether the hub's API server accepts a bearer token. It remembers what it accepted for ten
    /// seconds, so a deleted account's token goes on for a while wherever it is shown.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn accepts(&self, token: &str) -> Result<bool> {
        let review = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        let args = [
            "create",
            "-f",
            "-",
            "-o",
            "jsonpath={.status.authenticated}",
        ];
        let said = self
            .hub()?
            .kubectl_with_input(&args, &review.to_string())
            .await?;
        Ok(said.trim() == "true")
    }

    /// A caller with the token of a service account.
    ///
    /// # Errors
    /// When the hub's CA cannot be read or there is no such account.
    pub async fn caller(&self, account: &str) -> Result<Caller> {
        let credential = Credential::Bearer(self.bearer(account).await?);
        self.caller_with(credential).await
    }

    /// A caller with any credential.
    ///
    /// # Errors
    /// When the hub's CA cannot be read.
    pub async fn caller_with(&self, credential: Credential) -> Result<Caller> {
        Ok(Caller {
            hub: self.hub_address()?,
            ca: self.hub_ca().await?,
            credential,
        })
    }

    /// PEM certificates that the hub's chains to, as the hub publishes them.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn hub_ca(&self) -> Result<String> {
        let path = "jsonpath={.data.caBundle}";
        let args = [
            "get",
            "configmap",
            "-n",
            "strait-system",
            "strait-hub-info",
            "-o",
            path,
        ];
        Ok(self.hub()?.kubectl(&args).await?)
    }

    /// A caller with a client certificate that the hub's cluster signed.
    ///
    /// # Errors
    /// When the cluster is not one of ours, so that nobody here can sign.
    pub async fn caller_by_certificate(&self, user: &str, group: Option<&str>) -> Result<Caller> {
        let kubeconfig = self.hub()?.user_kubeconfig(user, group)?;
        let args = [
            "config",
            "view",
            "--raw",
            "--flatten",
            "-o",
            "json",
            "--kubeconfig",
        ];
        let shown = kubeconfig.display().to_string();
        let view = self
            .hub()?
            .kubectl(&[&args[..], &[&shown]].concat())
            .await?;
        let view: serde_json::Value = serde_json::from_str(&view)?;
        let user = &view["users"][0]["user"];
        let pem = |key: &str| {
            let data = user[key]
                .as_str()
                .with_context(|| format!("no {key} in {shown}"))?;
            anyhow::Ok(String::from_utf8(BASE64_STANDARD.decode(data)?)?)
        };
        let (chain, key) = (pem("client-certificate-data")?, pem("client-key-data")?);
        self.caller_with(Credential::Certificate(chain, key)).await
    }

    /// What a service says to a pod of another member, which asks the hub as a service account.
    ///
    /// # Errors
    /// When the pod fails, with what it said.
    pub async fn ask_from_pod(&self, from: &str, account: &str, target: &str) -> Result<String> {
        let (hub, ca) = (self.hub_address()?, self.hub_ca().await?);
        let pod = asking_pod(&hub, &ca, &self.bearer(account).await?, target);
        let cluster = self.cluster(from)?;
        cluster
            .kubectl_with_input(&["apply", "-f", "-"], &pod)
            .await?;
        let succeeded = "jsonpath={.status.phase}=Succeeded";
        let wait = ["wait", "pod/asks", "--for", succeeded, "--timeout=60s"];
        let waited = cluster.kubectl(&wait).await;
        let said = cluster.kubectl(&["logs", "asks"]).await?;
        cluster
            .kubectl(&["delete", "pod/asks", "secret/asks", "--grace-period=0"])
            .await?;
        waited.with_context(|| said.clone())?;
        // The head of the answer comes first; kubectl may have changed the ends of lines.
        let said = said.replace("\r\n", "\n");
        Ok(said
            .split_once("\n\n")
            .map_or_else(|| said.clone(), |(_, body)| body.to_owned()))
    }

    /// Lets the hub speak HTTP in clear to the service of an entrypoint.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn speak_http(&self, cluster: &str, entrypoint: &str) -> Result<()> {
        let patch = r#"{"spec":{"protocol":"http"}}"#;
        let args = ["patch", "clusterproxyentrypoint", "-n", cluster, entrypoint];
        let args = [&args[..], &["--type=merge", "-p", patch]].concat();
        self.hub()?.kubectl(&args).await?;
        Ok(())
    }

    /// Posts a join request of `cluster` with the token of a token file, as an agent does.
    ///
    /// # Errors
    /// When the token file cannot be read or the hub does not answer.
    pub async fn ask_to_join(&self, cluster: &str, token_file: &str) -> Result<Answer> {
        let token: JoinToken = serde_saphyr::from_str(token_file)?;
        let request = JoinRequest {
            cluster: cluster.parse()?,
            token: token.token,
            csr: AgentKey::generate()?.csr_pem,
        };
        let caller = self.caller_with(Credential::None).await?;
        caller
            .post(JOIN_PATH, serde_json::to_string(&request)?)
            .await
    }

    /// Makes a token of a token file one that has expired.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn expire_token(&self, token_file: &str) -> Result<()> {
        let token: JoinToken = serde_saphyr::from_str(token_file)?;
        let secret = format!("strait-join-{}", token.token.id());
        // A minute ago: an hour later the hub would have forgotten it.
        let expired = clock::timestamp() - jiff::SignedDuration::from_mins(1);
        let patch = format!(r#"{{"stringData":{{"expires":"{expired}"}}}}"#);
        let args = [
            "patch",
            "secret",
            "-n",
            "strait-system",
            &secret,
            "--type=merge",
            "-p",
            &patch,
        ];
        self.hub()?.kubectl(&args).await?;
        Ok(())
    }

    /// Runs `strait` against a cluster.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub async fn strait(&self, cluster: &str, args: &[&str]) -> Result<Said> {
        self.strait_with(self.cluster(cluster)?.kubeconfig_path(), args, "")
            .await
    }

    /// Runs `strait` with a kubeconfig and something on its standard input.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub async fn strait_with(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Result<Said> {
        let mut child = tokio::process::Command::new(&self.strait)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(args)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to run {}", self.strait.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that reads nothing closes it at once.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Said {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// Runs `strait` and takes its failure for one's own.
    ///
    /// # Errors
    /// With what it said.
    pub async fn strait_ok(&self, cluster: &str, args: &[&str]) -> Result<Said> {
        let said = self.strait(cluster, args).await?;
        if said.code != 0 {
            bail!(
                "strait {} ended with {}: {}",
                args.join(" "),
                said.code,
                said.stderr
            );
        }
        Ok(said)
    }

    /// Where the stage keeps its files.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let kubeconfig = self.fleet.kubeconfig_path();
        kubeconfig
            .parent()
            .map_or_else(|| PathBuf::from("/tmp"), Path::to_owned)
    }

    /// The path of a manifest of the demo.
    #[must_use]
    pub fn manifest(&self, name: &str) -> String {
        format!("{}/../demo/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    fn record(&self) -> PathBuf {
        self.folder().join("strait-binary")
    }
}
