//! What runs in a cluster, and how it is configured. Pure; every path is one inside the cell.

use serde_json::{Value, json};

use crate::{
    cell::{BIN, ETC},
    plan::{ClusterPlan, POD_RANGE, SERVICE_RANGE},
};

/// Where containerd listens.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// The image that holds a pod's namespaces.
pub(crate) const PAUSE_IMAGE: &str = "strait.dev/pause:1";
/// Where CoreDNS says that it has read all services.
pub(crate) const DNS_READY_PORT: u16 = 8181;
/// Where kube-proxy says that its rules stand.
pub(crate) const PROXY_HEALTH_PORT: u16 = 10256;

/// The users of the components that have a kubeconfig: file name, user.
pub(crate) const USERS: [(&str, &str); 3] = [
    ("kube-controller-manager", "system:kube-controller-manager"),
    ("kube-scheduler", "system:kube-scheduler"),
    ("kube-proxy", "system:kube-proxy"),
];

/// All of them, in the order in which they are started.
pub(crate) const NAMES: [&str; 8] = [
    "containerd",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
];

/// The command line of component `name`, one of [`NAMES`].
pub(crate) fn argv(plan: &ClusterPlan, name: &str) -> Vec<String> {
    if name == "containerd" {
        return words(&format!("containerd --config {ETC}/containerd.toml"));
    }
    let flags = match name {
        "etcd" => etcd(),
        "kube-apiserver" => api_server(plan),
        "kube-controller-manager" => controller_manager(),
        "kube-scheduler" => format!(
            "--kubeconfig={ETC}/kube-scheduler.kubeconfig \
             --authentication-kubeconfig={ETC}/kube-scheduler.kubeconfig \
             --authorization-kubeconfig={ETC}/kube-scheduler.kubeconfig --leader-elect=false"
        ),
        "kubelet" => format!(
            "--config={ETC}/kubelet.json --kubeconfig={ETC}/kubelet.kubeconfig \
             --hostname-override={} --node-ip={}",
            plan.name, plan.address
        ),
        "kube-proxy" => format!("--config={ETC}/kube-proxy.json"),
        _ => format!("-conf {ETC}/Corefile"),
    };
    words(&format!("{BIN}/kube {name} {flags}"))
}

/// Files below [`ETC`]: name and content.
pub(crate) fn files(plan: &ClusterPlan) -> Vec<(&'static str, String)> {
    vec![
        ("containerd.toml", containerd()),
        ("cni/10-strait.conflist", cni(plan).to_string()),
        ("kubelet.json", kubelet(plan).to_string()),
        ("kube-proxy.json", kube_proxy(plan).to_string()),
        ("Corefile", corefile(plan)),
        ("resolv.conf", "nameserver 127.0.0.1\n".to_owned()),
    ]
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The data of a test cluster need not survive a power cut.
fn etcd() -> String {
    "--data-dir=/var/lib/etcd --listen-client-urls=http://127.0.0.1:2379 \
     --advertise-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:2380 \
     --unsafe-no-fsync"
        .to_owned()
}

fn api_server(plan: &ClusterPlan) -> String {
    let address = plan.address;
    format!(
        "--etcd-servers=http://127.0.0.1:2379 --advertise-address={address} --secure-port=6443 \
         --tls-cert-file={ETC}/pki/apiserver.crt --tls-private-key-file={ETC}/pki/apiserver.key \
         --client-ca-file={ETC}/pki/ca.crt \
         --service-account-key-file={ETC}/pki/sa.pub \
         --service-account-signing-key-file={ETC}/pki/sa.key \
         --service-account-issuer=https://kubernetes.default.svc.cluster.local \
         --service-cluster-ip-range={SERVICE_RANGE} \
         --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
         --kubelet-client-certificate={ETC}/pki/kubelet-client.crt \
         --kubelet-client-key={ETC}/pki/kubelet-client.key \
         --kubelet-certificate-authority={ETC}/pki/ca.crt \
         --kubelet-preferred-address-types=InternalIP --allow-privileged=true \
         --requestheader-client-ca-file={ETC}/pki/front-proxy-ca.crt \
         --requestheader-allowed-names=front-proxy-client \
         --requestheader-username-headers=X-Remote-User \
         --requestheader-group-headers=X-Remote-Group \
         --requestheader-extra-headers-prefix=X-Remote-Extra- \
         --proxy-client-cert-file={ETC}/pki/front-proxy.crt \
         --proxy-client-key-file={ETC}/pki/front-proxy.key --enable-aggregator-routing=true"
    )
}

fn controller_manager() -> String {
    let kubeconfig = format!("{ETC}/kube-controller-manager.kubeconfig");
    format!(
        "--kubeconfig={kubeconfig} --authentication-kubeconfig={kubeconfig} \
         --authorization-kubeconfig={kubeconfig} --root-ca-file={ETC}/pki/ca.crt \
         --service-account-private-key-file={ETC}/pki/sa.key \
         --cluster-signing-cert-file={ETC}/pki/ca.crt --cluster-signing-key-file={ETC}/pki/ca.key \
         --use-service-account-credentials --leader-elect=false --allocate-node-cidrs=false \
         --cluster-cidr={POD_RANGE} --service-cluster-ip-range={SERVICE_RANGE}"
    )
}

/// `restrict_oom_score_adj` and `disable_apparmor`: a cell may be without the rights for either. The `opt`
/// plugin would make a folder outside the cell.
fn containerd() -> String {
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{ETC}/cni-bin"
    conf_dir = "{ETC}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"#
    )
}

fn cni(plan: &ClusterPlan) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": plan.cgroup(),
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// The image thresholds keep kubelet from removing images that no registry could give back.
fn kubelet(plan: &ClusterPlan) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", plan.cgroup()),
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "authentication": {
            "x509": {"clientCAFile": format!("{ETC}/pki/ca.crt")},
            "webhook": {"enabled": true},
            "anonymous": {"enabled": false},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": format!("{ETC}/pki/kubelet.crt"),
        "tlsPrivateKeyFile": format!("{ETC}/pki/kubelet.key"),
        "clusterDNS": [plan.address],
        "clusterDomain": "cluster.local",
        "resolvConf": format!("{ETC}/resolv.conf"),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "50Mi", "nodefs.available": "1%",
            "imagefs.available": "1%", "nodefs.inodesFree": "1%",
        },
    })
}

/// No limit of conntrack is touched: those are the whole machine's.
fn kube_proxy(plan: &ClusterPlan) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": format!("{ETC}/kube-proxy.kubeconfig")},
        "hostnameOverride": plan.name,
        "clusterCIDR": POD_RANGE,
        "mode": "iptables",
        "healthzBindAddress": format!("{}:{PROXY_HEALTH_PORT}", plan.address),
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
    })
}

/// CoreDNS runs beside the pods, on the node's address, so that it needs no image. Names outside the
/// cluster do not resolve.
fn corefile(plan: &ClusterPlan) -> String {
    let address = plan.address;
    format!(
        ".:53 {{\n    bind {address}\n    ready {address}:{DNS_READY_PORT}\n    errors\n    cache 5\n    \
         kubernetes cluster.local in-addr.arpa {{\n        kubeconfig {ETC}/admin.kubeconfig\n    }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Set;

    fn member() -> ClusterPlan {
        Set::Test.clusters(1).remove(1)
    }

    #[test]
    fn every_component_has_a_command_line_of_its_own() {
        let plan = member();
        let mut lines: Vec<_> = NAMES
            .iter()
            .map(|name| argv(&plan, name).join(" "))
            .collect();
        assert!(lines[2].contains("--advertise-address=172.30.1.12 "));
        assert!(
            lines
                .iter()
                .skip(1)
                .zip(&NAMES[1..])
                .all(|(line, name)| { line.starts_with(&format!("/var/strait/bin/kube {name} ")) })
        );
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), NAMES.len());
    }

    #[test]
    fn two_clusters_differ_where_kubelets_would_meet() {
        let [hub, member] = Set::Test.clusters(1).try_into().unwrap();
        let root = |plan| kubelet(plan)["cgroupRoot"].as_str().unwrap().to_owned();
        assert_eq!(root(&hub), "/strait-test-hub");
        assert_eq!(root(&member), "/strait-test-cluster1");
    }

    #[test]
    fn all_clusters_have_the_same_pod_and_service_addresses() {
        let subnet = |plan: &ClusterPlan| {
            cni(plan)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        for set in Set::ALL {
            for plan in set.clusters(2) {
                assert_eq!(subnet(&plan), "10.244.0.0/24");
                let flags = argv(&plan, "kube-apiserver").join(" ");
                assert!(flags.contains("--service-cluster-ip-range=10.96.0.0/16 "));
            }
        }
    }

    #[test]
    fn files_are_rendered_for_the_cluster() {
        let files: std::collections::BTreeMap<_, _> = files(&member()).into_iter().collect();
        assert_eq!(
            files["Corefile"],
            ".:53 {\n    bind 172.30.1.12\n    ready 172.30.1.12:8181\n    errors\n    cache 5\n    \
             kubernetes cluster.local in-addr.arpa {\n        kubeconfig /var/strait/admin.kubeconfig\n    }\n}\n"
        );
        assert!(files["containerd.toml"].contains("sandbox_image = \"strait.dev/pause:1\""));
        assert!(files["kubelet.json"].contains(r#""clusterDNS":["172.30.1.12"]"#));
    }
}
