//! Writes what was decided.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, Client};
use strait_kube_kit::{FieldManager, Round, delete_same};

use super::decide::Decision;

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
    for grant in &decision.roles {
        let api = roles(&grant.namespace);
        round.note(MANAGER.apply(&api, &grant.name, &grant.role()).await);
    }
    for grant in &decision.bindings {
        let api = bindings(&grant.namespace);
        let written = MANAGER.apply(&api, &grant.name, &grant.binding()).await;
        if round.note(written).is_some() {
            tracing::info!(
                cluster = grant.namespace,
                name = grant.name,
                "subjects of an entrypoint may connect"
            );
        }
    }
    round
}
