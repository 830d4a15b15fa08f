//! Certificates and authorities are replaced while everything is in use. Runs after the other
//! tests, as it gives the hub authorities that live for a minute and a half.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use strait_e2e::{Caller, Stage, Through, eventually};
use strait_testbed::Cluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

/// Lives of an agent's certificate and of the authorities, and for how long a new authority is only
/// trusted: agents renew within two thirds and a tenth of the first, so all have the new one then.
const LIVES: [(&str, &str); 3] = [
    ("STRAIT_AGENT_CERTIFICATE_LIFETIME", "15s"),
    ("STRAIT_CA_LIFETIME", "90s"),
    ("STRAIT_CA_OVERLAP", "15s"),
];
const AUTHORITIES: [&str; 2] = ["strait-agent-ca", "strait-hub-ca"];
const MEMBERS: [(&str, &str); 2] = [
    ("cluster1", "search.default.cluster1"),
    ("cluster2", "foo.default.cluster2"),
];
/// Until both authorities have been replaced and their predecessors forgotten, with a margin.
const PATIENCE: Duration = Duration::from_secs(200);

async fn secret(cluster: &Cluster, namespace: &str, name: &str, key: &str) -> Result<String> {
    let path = format!("jsonpath={{.data.{}}}", key.replace('.', "\\."));
    let args = ["get", "secret", "-n", namespace, name, "-o", &path];
    Ok(cluster.kubectl(&args).await?)
}

/// Gives hub and controller short lives, new authorities, and lets the members join again.
async fn shorten(stage: &Stage) -> Result<()> {
    let hub = stage.hub()?;
    let pairs = LIVES.map(|(name, value)| format!("{name}={value}"));
    for deployment in ["deployment/strait-hub", "deployment/strait-controller"] {
        let mut args = vec!["set", "env", "-n", "strait-system", deployment];
        args.extend(pairs.iter().map(String::as_str));
        hub.kubectl(&args).await?;
    }
    for deployment in ["deployment/strait-hub", "deployment/strait-controller"] {
        let wait = ["rollout", "status", "-n", "strait-system", deployment];
        hub.kubectl(&[&wait[..], &["--timeout=90s"]].concat())
            .await?;
    }
    let mut old = vec![];
    for name in AUTHORITIES {
        old.push(secret(hub, "strait-system", name, "tls.crt").await?);
    }
    // Authorities that were told of are not replaced by strangers, unless that is meant.
    let told = [
        "delete",
        "configmap",
        "-n",
        "strait-system",
        "strait-hub-info",
    ];
    for name in AUTHORITIES {
        hub.kubectl(&["delete", "secret", "-n", "strait-system", name])
            .await?;
    }
    hub.kubectl(&told).await?;
    eventually(
        Duration::from_secs(30),
        "the hub tells of its new authority",
        || async {
            let bundle = secret(hub, "strait-system", "strait-hub-ca", "ca.crt").await?;
            let agents = secret(hub, "strait-system", "strait-agent-ca", "tls.crt").await?;
            ensure!(!bundle.is_empty() && !agents.is_empty() && !old.contains(&agents));
            let told = stage.hub_ca().await?;
            ensure!(
                bundle == encoded(&told),
                "the published bundle is another one"
            );
            Ok(())
        },
    )
    .await?;
    for (member, _) in MEMBERS {
        stage.join(member).await?;
    }
    Ok(())
}

fn encoded(text: &str) -> String {
    base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text)
}

/// A stream that was open when its agent's certificate was another one.
struct Held {
    stream: Through,
    certificate: String,
}

impl Held {
    async fn open(stage: &Stage, caller: &Caller, member: &str, name: &str) -> Result<Self> {
        Ok(Self {
            certificate: agents_certificate(stage, member).await?,
            stream: caller.reach(&format!("{name}:echo")).await?,
        })
    }

    async fn exchange(&mut self) -> Result<()> {
        self.stream.write_all(b"still here").await?;
        self.stream.flush().await?;
        let mut heard = [0; 10];
        self.stream.read_exact(&mut heard).await?;
        ensure!(&heard == b"still here", "{heard:?}");
        Ok(())
    }
}

async fn agents_certificate(stage: &Stage, member: &str) -> Result<String> {
    let cluster = stage.cluster(member)?;
    secret(cluster, "strait-agent", "strait-agent-identity", "tls.crt").await
}

/// What an authority was at first, and how far its replacement has come.
struct Authority {
    name: &'static str,
    first: String,
    signers: BTreeSet<String>,
    forgotten: bool,
}

impl Authority {
    async fn look(&mut self, hub: &Cluster) -> Result<()> {
        let signs = secret(hub, "strait-system", self.name, "tls.crt").await?;
        let trusted = secret(hub, "strait-system", self.name, "ca.crt").await?;
        let text = |base64: &str| {
            let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, base64)?;
            anyhow::Ok(String::from_utf8(bytes)?)
        };
        self.forgotten = !text(&trusted)?.contains(text(&self.first)?.trim());
        self.signers.insert(signs);
        Ok(())
    }

    fn is_replaced(&self) -> bool {
        self.signers.len() > 1 && self.forgotten
    }
}

#[tokio::test]
async fn certificates_and_authorities_are_replaced_and_no_stream_is_lost() -> Result<()> {
    let stage = Stage::of_tests()?;
    shorten(&stage).await?;
    let hub = stage.hub()?;
    let mut authorities = vec![];
    for name in AUTHORITIES {
        authorities.push(Authority {
            name,
            first: secret(hub, "strait-system", name, "tls.crt").await?,
            signers: BTreeSet::new(),
            forgotten: false,
        });
    }
    let token = stage.caller("dev").await?;
    let mut held = vec![];
    for (member, name) in MEMBERS {
        held.push((
            member,
            name,
            Held::open(&stage, &token, member, name).await?,
            0,
        ));
    }
    let begun = Instant::now();
    while !authorities.iter().all(Authority::is_replaced) {
        ensure!(
            begun.elapsed() < PATIENCE,
            "the authorities were not replaced in time"
        );
        // As a client does that follows the bundle which the hub publishes.
        let caller = Caller {
            ca: stage.hub_ca().await?,
            ..token.clone()
        };
        for (member, name, held, renewals) in &mut held {
            let seconds = begun.elapsed().as_secs();
            let answer = caller.get(&format!("{name}:80"), "/").await;
            answer.with_context(|| format!("{name} after {seconds} s"))?;
            let exchanged = held.exchange().await;
            exchanged.with_context(|| format!("a stream to {name} after {seconds} s"))?;
            if agents_certificate(&stage, member).await? != held.certificate {
                held.exchange().await.context("after the renewal")?;
                *renewals += 1;
                *held = Held::open(&stage, &caller, member, name).await?;
            }
        }
        for authority in &mut authorities {
            authority.look(hub).await?;
        }
    }
    for (member, _, _, renewals) in held {
        ensure!(renewals >= 4, "{member} renewed {renewals} times");
    }
    Ok(())
}
