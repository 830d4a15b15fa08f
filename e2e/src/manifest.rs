//! The objects that the demo and the tests put into the clusters, besides our own.

/// A Deployment of one testbox and its Service with every manner of port.
#[must_use]
pub fn service(name: &str, namespace: &str, cluster: &str) -> String {
    let image = concat!("strait.dev/testbox:", env!("CARGO_PKG_VERSION"));
    format!(
        r#"apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: testbox
        image: {image}
        imagePullPolicy: Never
        args: [serve]
        env:
        - {{name: SERVICE, value: {name}}}
        - {{name: CLUSTER, value: {cluster}}}
        - {{name: NAMESPACE, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}
        - {{name: POD, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        readinessProbe: {{tcpSocket: {{port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  selector: {{app: {name}}}
  ports:
  - {{name: http, port: 80, targetPort: 8080}}
  - {{name: https, port: 443, targetPort: 8443}}
  - {{name: echo, port: 7001}}
  - {{name: greet, port: 7002}}
  - {{name: sum, port: 7003}}
  - {{name: stuck, port: 7004}}
  - {{name: drip, port: 7005}}
  - {{name: source, port: 7006}}
  - {{name: closed, port: 9999}}
"#
    )
}

/// Lets a service account `name` of namespace `default` at the hub connect to every entrypoint of
/// these clusters.
#[must_use]
pub fn caller_rights(name: &str, clusters: &[&str]) -> String {
    let mut all = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: default}}\n"
    );
    for cluster in clusters {
        all.push_str(&format!(
            r#"---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: connect-{name}, namespace: {cluster}}}
rules:
- {{apiGroups: [proxy.open-cluster-management.io], resources: [clusterproxyentrypoints], verbs: [connect]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: connect-{name}, namespace: {cluster}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: connect-{name}}}
subjects:
- {{kind: ServiceAccount, name: {name}, namespace: default}}
"#
        ));
    }
    all
}

/// Makes a user the administrator of one member at the hub, as Kubernetes means it: ClusterRole
/// `admin` in the member's namespace and nothing else.
#[must_use]
pub fn member_admin(user: &str, cluster: &str) -> String {
    format!(
        r"apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: admin-{user}, namespace: {cluster}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}}
subjects:
- {{kind: User, name: {user}, apiGroup: rbac.authorization.k8s.io}}
"
    )
}

/// A pod `asks` that asks the hub for a target, with the CA and the token in a Secret beside it.
#[must_use]
pub(crate) fn asking_pod(hub: &str, ca: &str, token: &str, target: &str) -> String {
    let image = concat!("strait.dev/testbox:", env!("CARGO_PKG_VERSION"));
    let secret = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "asks", "namespace": "default"},
        "stringData": {"ca.pem": ca, "token": token},
    });
    let pod = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "asks",
                "image": image,
                "imagePullPolicy": "Never",
                "args": [
                    "connect", format!("https://{hub}"), target, "--get", "/",
                    "--ca", "/way/ca.pem", "--token-file", "/way/token"
                ],
                "volumeMounts": [{"name": "way", "mountPath": "/way"}],
            }],
            "volumes": [{"name": "way", "secret": {"secretName": "asks"}}],
        },
    });
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [secret, pod]}).to_string()
}
