//! Every way not to get there has its own stable code, and says what to do.

use anyhow::{Context, Result, ensure};
use strait_e2e::{Credential, DOMAIN, Stage, eventually};

use std::time::Duration;

/// An entrypoint of cluster1 made by hand, with its Service or without.
async fn expose(stage: &Stage, service: &str, extra: &str) -> Result<()> {
    let manifest = format!(
        "apiVersion: proxy.open-cluster-management.io/v1alpha1\nkind: ClusterProxyEntrypoint\n\
         metadata: {{name: {service}, namespace: cluster1}}\n\
         spec: {{service: {service}, namespace: default{extra}}}\n"
    );
    stage
        .hub()?
        .kubectl_with_input(&["apply", "-f", "-"], &manifest)
        .await?;
    stage.entrypoint_accepted("cluster1", service).await
}

async fn conceal(stage: &Stage, service: &str) -> Result<()> {
    let args = [
        "delete",
        "clusterproxyentrypoint",
        "-n",
        "cluster1",
        service,
    ];
    stage.hub()?.kubectl(&args).await?;
    Ok(())
}

#[tokio::test]
async fn an_unknown_cluster_an_unknown_service_and_one_not_exposed_are_told_apart() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let (status, code, _) = dev.refused("search.default.cluster9:80").await?;
    ensure!((status, code.as_str()) == (404, "cluster-not-found"));

    let (status, code, answer) = dev.refused("foo.default.cluster1:80").await?;
    ensure!((status, code.as_str()) == (404, "entrypoint-not-found"));
    let hint = answer.problem()?["hint"].to_string();
    ensure!(
        hint.contains("did you mean `foo.default.cluster2`?"),
        "{hint}"
    );

    expose(&stage, "ghost", "").await?;
    let (status, code, _) = dev.refused("ghost.default.cluster1:80").await?;
    conceal(&stage, "ghost").await?;
    ensure!(
        (status, code.as_str()) == (404, "service-not-found"),
        "{code}"
    );
    Ok(())
}

#[tokio::test]
async fn who_may_not_connect_is_told_so_and_learns_no_names() -> Result<()> {
    let stage = Stage::of_tests()?;
    let viewer = stage.caller("viewer").await?;
    let (status, code, answer) = viewer.refused("search.default.cluster1:80").await?;
    ensure!((status, code.as_str()) == (403, "not-allowed"));
    ensure!(
        answer.body.contains("system:serviceaccount:default:viewer"),
        "{}",
        answer.body
    );
    let (_, code, answer) = viewer.refused("foo.default.cluster1:80").await?;
    ensure!(code == "entrypoint-not-found");
    ensure!(!answer.body.contains("did you mean"), "{}", answer.body);
    Ok(())
}

#[tokio::test]
async fn a_stranger_is_asked_who_he_is() -> Result<()> {
    let stage = Stage::of_tests()?;
    for credential in [Credential::None, Credential::Bearer("wrong".to_owned())] {
        let stranger = stage.caller_with(credential).await?;
        let (status, code, answer) = stranger.refused("search.default.cluster1:80").await?;
        ensure!((status, code.as_str()) == (407, "unauthenticated"));
        ensure!(answer.headers.contains_key("proxy-authenticate"));
    }
    Ok(())
}

#[tokio::test]
async fn a_port_that_is_not_exposed_and_one_that_is_not_there_are_refused() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let (_, code, _) = dev.refused("search.default.cluster1:81").await?;
    ensure!(code == "service-not-found", "{code}");
    stage.deploy("ports", "default", "cluster1").await?;
    expose(&stage, "ports", ", ports: [http]").await?;
    stage.rolled_out("ports", "default", "cluster1").await?;
    ensure!(dev.get("ports.default.cluster1:http", "/").await?.status == 200);
    let (status, code, _) = dev.refused("ports.default.cluster1:echo").await?;
    conceal(&stage, "ports").await?;
    ensure!(
        (status, code.as_str()) == (404, "port-not-exposed"),
        "{code}"
    );
    Ok(())
}

#[tokio::test]
async fn a_service_without_endpoints_and_one_that_refuses_are_told_apart() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let (status, code, _) = dev.refused("search.default.cluster1:closed").await?;
    ensure!(
        (status, code.as_str()) == (502, "connection-refused"),
        "{code}"
    );

    let cluster1 = stage.cluster("cluster1")?;
    let empty = "apiVersion: v1\nkind: Service\nmetadata: {name: empty, namespace: default}\n\
                 spec: {selector: {app: nothing}, ports: [{port: 80}]}\n";
    cluster1
        .kubectl_with_input(&["apply", "-f", "-"], empty)
        .await?;
    expose(&stage, "empty", "").await?;
    let (status, code, answer) = dev.refused("empty.default.cluster1:80").await?;
    conceal(&stage, "empty").await?;
    ensure!((status, code.as_str()) == (503, "no-endpoints"), "{code}");
    ensure!(answer.headers.contains_key("retry-after"));
    Ok(())
}

#[tokio::test]
async fn an_agent_refuses_what_belongs_to_the_machine_whatever_the_hub_says() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let cluster1 = stage.cluster("cluster1")?;
    let alias = "apiVersion: v1\nkind: Service\nmetadata: {name: outside, namespace: default}\n\
                 spec: {type: ExternalName, externalName: metadata.internal, ports: [{port: 80}]}\n";
    cluster1
        .kubectl_with_input(&["apply", "-f", "-"], alias)
        .await?;
    expose(&stage, "outside", "").await?;
    let (status, code, _) = dev.refused("outside.default.cluster1:80").await?;
    conceal(&stage, "outside").await?;
    ensure!((status, code.as_str()) == (403, "agent-refused"), "{code}");
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_given_up_in_time() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let cluster1 = stage.cluster("cluster1")?;
    // The firewall of cluster2 drops what comes from outside, without a word.
    let silence = stage
        .cluster("cluster2")?
        .address()
        .context("cluster2 has an address")?;
    let silent = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: silent, namespace: default}}\n\
         spec: {{ports: [{{port: 80}}]}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: silent-1, namespace: default, labels: {{kubernetes.io/service-name: silent}}}}\n\
         addressType: IPv4\nports: [{{port: 80}}]\nendpoints: [{{addresses: [{silence}]}}]\n"
    );
    cluster1
        .kubectl_with_input(&["apply", "-f", "-"], &silent)
        .await?;
    expose(&stage, "silent", "").await?;
    let refused = dev.refused("silent.default.cluster1:80").await;
    conceal(&stage, "silent").await?;
    let (status, code, _) = refused?;
    ensure!((status, code.as_str()) == (504, "dial-timeout"), "{code}");
    Ok(())
}

#[tokio::test]
async fn without_an_agent_the_answer_is_at_once_and_says_so() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let scale = |to: &'static str| async move {
        let stage = Stage::of_tests()?;
        let args = [
            "scale",
            "-n",
            "strait-agent",
            "deployment/strait-agent",
            "--replicas",
            to,
        ];
        stage.cluster("cluster2")?.kubectl(&args).await?;
        anyhow::Ok(())
    };
    scale("0").await?;
    let gone = eventually(
        Duration::from_secs(40),
        "the agent of cluster2 is gone",
        || async {
            let (status, code, answer) = dev.refused("foo.default.cluster2:80").await?;
            ensure!(
                (status, code.as_str()) == (503, "agent-not-connected"),
                "{code}"
            );
            ensure!(answer.headers.contains_key("retry-after"));
            Ok(())
        },
    )
    .await;
    scale("1").await?;
    eventually(
        Duration::from_secs(60),
        "the agent of cluster2 is back",
        || async {
            let answer = dev.get("foo.default.cluster2:80", "/").await?;
            ensure!(answer.status == 200);
            Ok(())
        },
    )
    .await?;
    gone
}

#[tokio::test]
async fn https_by_host_refuses_in_the_same_words() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    // An unknown name gets the hub's own certificate, so the name in TLS is the hub's.
    let answer = dev
        .get_by_host(&format!("foo--default--cluster1.{DOMAIN}"), "/")
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            ensure!(format!("{error:#}").contains("certificate"), "{error:#}");
            return Ok(());
        }
    };
    ensure!(
        answer.status == 404 && answer.code()? == "entrypoint-not-found",
        "{}",
        answer.body
    );
    let kind = answer
        .headers
        .get("content-type")
        .context("no content type")?;
    ensure!(kind == "application/problem+json");
    Ok(())
}
