//! What is exposed follows the objects, while traffic runs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use strait_e2e::{Caller, Stage, eventually, member_admin};
use tokio::io::AsyncReadExt;

/// Applies a manifest of the demo for the time of `look`, then the one that the stage needs.
async fn with_configuration<F>(
    stage: &Stage,
    manifest: &str,
    look: impl FnOnce() -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    stage
        .hub()?
        .kubectl_with_input(&["apply", "-f", "-"], manifest)
        .await?;
    let seen = look().await;
    let usual = include_str!("../../demo/services.yaml");
    stage
        .hub()?
        .kubectl_with_input(&["apply", "-f", "-"], usual)
        .await?;
    stage
        .entrypoint_accepted("cluster1", "search.default.cluster1")
        .await?;
    stage
        .entrypoint_accepted("cluster1", "search.search.cluster1")
        .await?;
    stage
        .entrypoint_accepted("cluster2", "foo.default.cluster2")
        .await?;
    seen
}

async fn configuration(stage: &Stage) -> Result<Value> {
    let args = [
        "get",
        "managedproxyconfiguration",
        "cluster-proxy",
        "-o",
        "json",
    ];
    Ok(serde_json::from_str(&stage.hub()?.kubectl(&args).await?)?)
}

/// The condition, once it is about the present generation.
async fn condition(stage: &Stage, kind: &str) -> Result<Value> {
    eventually(
        Duration::from_secs(20),
        &format!("{kind} is about this generation"),
        || async {
            let object = configuration(stage).await?;
            let generation = &object["metadata"]["generation"];
            let conditions = object["status"]["conditions"]
                .as_array()
                .context("no conditions")?;
            let found = conditions
                .iter()
                .find(|c| c["type"] == kind)
                .context("no such condition")?;
            ensure!(found["observedGeneration"] == *generation, "{found}");
            Ok(found.clone())
        },
    )
    .await
}

/// What the service says once the hub knows the name.
async fn first_answer(caller: &Caller, target: &str) -> Result<String> {
    let answer = eventually(Duration::from_secs(20), target, || caller.get(target, "/")).await?;
    Ok(answer.body)
}

#[tokio::test]
async fn the_columns_are_those_of_the_seed() -> Result<()> {
    let stage = Stage::of_tests()?;
    let table = stage
        .hub()?
        .kubectl(&["get", "clusterproxyentrypoint", "-n", "cluster1"])
        .await?;
    let mut lines = table.lines();
    let head: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        head == [
            "NAME",
            "AGE",
            "SERVICE",
            "NAMESPACE",
            "MANAGEDCLUSTER",
            "URL"
        ],
        "{table}"
    );
    let row = lines
        .find(|line| line.starts_with("search.default.cluster1 "))
        .context("no row")?;
    let row: Vec<&str> = row.split_whitespace().collect();
    ensure!(
        row.get(2..5) == Some(&["search", "default", "cluster1"]),
        "{table}"
    );
    let url = row.get(5).context("no URL")?;
    ensure!(
        url.starts_with("https://") && url.ends_with('/') && url.len() == 45,
        "{url}"
    );
    Ok(())
}

#[tokio::test]
async fn the_map_form_exposes_for_every_member() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    for cluster in ["cluster1", "cluster2"] {
        stage.deploy("search", "namespace", cluster).await?;
        stage.rolled_out("search", "namespace", cluster).await?;
    }
    with_configuration(
        &stage,
        include_str!("../../demo/services-map.yaml"),
        || async {
            for cluster in ["cluster1", "cluster2"] {
                stage
                    .entrypoint_accepted(cluster, &format!("search.namespace.{cluster}"))
                    .await?;
                for host in [
                    format!("search.namespace.{cluster}"),
                    format!("{cluster}-search"),
                ] {
                    let body = first_answer(&dev, &format!("{host}:80")).await?;
                    let expected = format!("search in namespace namespace of {cluster}");
                    ensure!(body.contains(&expected), "{host}: {body}");
                }
            }
            let images = condition(&stage, "ImagesHonoured").await?;
            ensure!(images["status"] == "False", "{images}");
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn host_names_are_made_by_template() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    stage.deploy("my-svc", "default", "cluster2").await?;
    stage.rolled_out("my-svc", "default", "cluster2").await?;
    with_configuration(
        &stage,
        include_str!("../../demo/resolvers.yaml"),
        || async {
            let answer = eventually(
                Duration::from_secs(20),
                "mySvc.cluster2 answers",
                || async { dev.get("mySvc.cluster2:80", "/").await },
            );
            let body = answer.await?.body;
            ensure!(
                body.contains("my-svc in namespace default of cluster2"),
                "{body}"
            );
            // `$cluster` alone is the API server, which speaks TLS: that it takes the connection is enough.
            dev.reach("cluster2:443").await?;
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn a_wrong_entry_is_named_and_spoils_only_itself() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let manifest = r#"apiVersion: proxy.open-cluster-management.io/v1alpha1
kind: ManagedProxyConfiguration
metadata: {name: cluster-proxy}
spec:
  services:
  - {name: search.dots, namespace: default, cluster: cluster1}
  - {name: search, namespace: default, cluster: cluster1}
  - {name: search, namespace: default, cluster: cluster9}
  - {name: search, namespace: default, cluster: cluster1}
  serviceResolvers:
  - {hostnameTemplate: fixed.name, namespace: default, name: search}
"#;
    with_configuration(&stage, manifest, || async {
        let resolved = condition(&stage, "ServicesResolved").await?;
        let message = resolved["message"].as_str().unwrap_or_default();
        ensure!(resolved["status"] == "False", "{resolved}");
        for field in [
            "spec.services[0].name",
            "spec.services[2].cluster",
            "spec.services[3]",
            "spec.serviceResolvers[0].hostnameTemplate",
        ] {
            ensure!(message.contains(field), "{field} is not in {message}");
        }
        ensure!(dev.get("search.default.cluster1:80", "/").await?.status == 200);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn whoever_administers_one_member_exposes_its_services_and_no_others() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let hub = stage.hub()?;
    hub.kubectl_with_input(&["apply", "-f", "-"], &member_admin("amy", "cluster1"))
        .await?;
    let amy = hub.user_kubeconfig("amy", None)?.display().to_string();
    stage.deploy("by-hand", "default", "cluster1").await?;
    stage.rolled_out("by-hand", "default", "cluster1").await?;
    let entrypoint = |cluster: &str| {
        format!(
            "apiVersion: proxy.open-cluster-management.io/v1alpha1\nkind: ClusterProxyEntrypoint\n\
             metadata: {{name: by-hand, namespace: {cluster}}}\n\
             spec: {{service: by-hand, namespace: default, ports: ['80']}}\n"
        )
    };
    let args = ["apply", "-f", "-", "--kubeconfig", &amy];
    let refused = hub.kubectl_with_input(&args, &entrypoint("cluster2")).await;
    ensure!(refused.is_err(), "amy exposed a service of cluster2");
    hub.kubectl_with_input(&args, &entrypoint("cluster1"))
        .await?;
    stage.entrypoint_accepted("cluster1", "by-hand").await?;
    let answer = dev.get("by-hand.default.cluster1:80", "/").await?;
    ensure!(
        answer
            .body
            .contains("by-hand in namespace default of cluster1"),
        "{}",
        answer.body
    );
    hub.kubectl(&[
        "delete",
        "clusterproxyentrypoint",
        "-n",
        "cluster1",
        "by-hand",
    ])
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_removed_service_is_closed_for_new_and_cut_for_open_connections() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let mut cut = dev.reach("search.default.cluster1:drip").await?;
    let mut stays = dev.reach("foo.default.cluster2:drip").await?;
    cut.read_u8().await?;
    let manifest = r"apiVersion: proxy.open-cluster-management.io/v1alpha1
kind: ManagedProxyConfiguration
metadata: {name: cluster-proxy}
spec:
  services:
  - {name: foo, namespace: default, cluster: cluster2}
";
    with_configuration(&stage, manifest, || async {
        let ended = tokio::time::timeout(Duration::from_secs(10), async {
            while cut.read_u8().await.is_ok() {}
        });
        ensure!(ended.await.is_ok(), "the stream was still open after 10 s");
        let (_, code, _) = dev.refused("search.default.cluster1:80").await?;
        ensure!(code == "entrypoint-not-found", "{code}");
        stays
            .read_u8()
            .await
            .context("a stream of another service was cut")?;
        Ok(())
    })
    .await?;
    stays
        .read_u8()
        .await
        .context("a stream of another service was cut")?;
    Ok(())
}

#[tokio::test]
async fn subjects_of_an_entrypoint_may_connect_to_it() -> Result<()> {
    let stage = Stage::of_tests()?;
    let hub = stage.hub()?;
    stage.grant("guest", &[]).await?;
    let guest = stage.caller("guest").await?;
    let patch = |subjects: &str| format!(r#"{{"spec":{{"subjects":{subjects}}}}}"#);
    let entrypoint = [
        "clusterproxyentrypoint",
        "-n",
        "cluster2",
        "foo.default.cluster2",
    ];
    let apply = |patch: String| async move {
        let args = [&["patch"][..], &entrypoint, &["--type=merge", "-p", &patch]].concat();
        hub.kubectl(&args).await
    };
    apply(patch(
        r#"[{"kind":"ServiceAccount","name":"guest","namespace":"default"}]"#,
    ))
    .await?;
    eventually(Duration::from_secs(15), "guest may connect", || async {
        guest.get("foo.default.cluster2:80", "/").await
    })
    .await?;
    apply(patch("null")).await?;
    eventually(
        Duration::from_secs(15),
        "guest may not connect any more",
        || async {
            let (_, code, _) = guest.refused("foo.default.cluster2:80").await?;
            ensure!(code == "not-allowed", "{code}");
            Ok(())
        },
    )
    .await
}
