//! Writes what was decided.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, Client};
use strait_kube_kit::{FieldManager, Round, delete_same};

use super::decide::{Decision, Grant};

const MANAGER: FieldManager = FieldManager("strait-grants");

pub(super) async fn apply(client: &Client, decision: &Decision) -> Round {
    let mut round = Round::new();
    let bindings =
        |namespace: &str| -> Api<RoleBinding> { Api::namespaced(client.clone(), namespace) };
    let roles = |namespace: &str| -> Api<Role> { Api::namespaced(client.clone(), namespace) };
    for doomed in &decision.delete_bindings {
        let api = bindings(&doomed.namespace);
        round.note(delete_same(&api, &doomed.name, &doomed.uid).await);
    }
    for doomed in &decision.delete_roles {
        let api = roles(&doomed.namespace);
        round.note(delete_same(&api, &doomed.name, &doomed.uid).await);
    }
    for grant in &decision.new_roles {
        let api = roles(&grant.namespace);
        let created = MANAGER.create(&api, &grant.name, &grant.role()).await;
        told("Role", grant, round.note(created));
    }
    for grant in &decision.roles {
        let api = roles(&grant.namespace);
        round.note(MANAGER.apply(&api, &grant.name, &grant.role()).await);
    }
    for grant in &decision.new_bindings {
        let api = bindings(&grant.namespace);
        let created = MANAGER.create(&api, &grant.name, &grant.binding()).await;
        told("RoleBinding", grant, round.note(created));
    }
    for grant in &decision.bindings {
        let api = bindings(&grant.namespace);
        round.note(MANAGER.apply(&api, &grant.name, &grant.binding()).await);
    }
    round
}

/// Tells whether an object was created; `None` when that failed and is told already.
fn told(kind: &'static str, grant: &Grant, created: Option<bool>) {
    let (cluster, name) = (&grant.namespace, &grant.name);
    match created {
        Some(true) => tracing::info!(kind, cluster, name, "subjects of an entrypoint may connect"),
        Some(false) => {
            tracing::warn!(
                kind,
                cluster,
                name,
                "somebody else has an object of this name; the entrypoint's subjects are not let in"
            );
        }
        None => {}
    }
}
