//! Which roles and bindings there must be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use strait_api::{
    ClusterProxyEntrypoint, Subject, SubjectKind,
    wire_names::{CONNECT_VERB, ENTRYPOINTS, MANAGED_BY, PROXY_GROUP},
};

use crate::inventory::lives;

/// Value of `app.kubernetes.io/component` on the roles and bindings that are made here; nothing
/// without it is ever changed.
pub(crate) const COMPONENT: &str = "entrypoint-subjects";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// What the names of roles and bindings begin with; the entrypoint's name follows.
const PREFIX: &str = "strait-connect-";

/// What there is at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) entrypoints: Vec<Arc<ClusterProxyEntrypoint>>,
    pub(super) roles: Vec<Arc<Role>>,
    pub(super) bindings: Vec<Arc<RoleBinding>>,
}

/// One object, by where it is and which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doomed {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The right to connect to one entrypoint, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) namespace: String,
    pub(super) name: String,
    entrypoint: String,
    uid: String,
    subjects: Vec<RbacSubject>,
}

/// A subject as RBAC writes it: kind, name, namespace.
type RbacSubject = (&'static str, String, Option<String>);

/// What must be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) roles: Vec<Grant>,
    pub(super) bindings: Vec<Grant>,
    pub(super) delete_roles: Vec<Doomed>,
    pub(super) delete_bindings: Vec<Doomed>,
}

pub(super) fn decide(seen: &Seen) -> Decision {
    let grants: Vec<Grant> = seen
        .entrypoints
        .iter()
        .filter_map(|e| Grant::of(e))
        .collect();
    let roles = index(&seen.roles);
    let bindings = index(&seen.bindings);
    let mut decision = Decision::default();
    for grant in &grants {
        let place = (grant.namespace.clone(), grant.name.clone());
        if !roles.get(&place).is_some_and(|role| grant.is_role(role)) {
            decision.roles.push(grant.clone());
        }
        if !bindings.get(&place).is_some_and(|b| grant.is_binding(b)) {
            decision.bindings.push(grant.clone());
        }
    }
    let wanted = grants.into_iter().map(|g| (g.namespace, g.name)).collect();
    // The binding is what lets somebody in.
    decision.delete_bindings = unwanted(&seen.bindings, &wanted);
    decision.delete_roles = unwanted(&seen.roles, &wanted);
    decision
}

type Place = (String, String);

fn index<K: Resource>(objects: &[Arc<K>]) -> BTreeMap<Place, &K> {
    objects
        .iter()
        .filter_map(|object| {
            let place = (object.namespace()?, object.name_any());
            Some((place, object.as_ref()))
        })
        .collect()
}

fn unwanted<K: Resource>(objects: &[Arc<K>], wanted: &BTreeSet<Place>) -> Vec<Doomed> {
    objects
        .iter()
        .filter(|object| lives(object.as_ref()))
        .filter_map(|object| {
            let (namespace, name) = (object.namespace()?, object.name_any());
            let uid = object.uid()?;
            let place = (namespace.clone(), name.clone());
            (!wanted.contains(&place)).then_some(Doomed {
                namespace,
                name,
                uid,
            })
        })
        .collect()
}

// === impl Grant ===

impl Grant {
    /// The right that an entrypoint gives by its subjects; `None` when it names nobody.
    fn of(entrypoint: &ClusterProxyEntrypoint) -> Option<Self> {
        if !lives(entrypoint) {
            return None;
        }
        let subjects: BTreeSet<_> = entrypoint
            .spec
            .subjects
            .iter()
            .filter_map(subject)
            .collect();
        let (name, uid) = (entrypoint.name_any(), entrypoint.uid()?);
        (!subjects.is_empty()).then_some(Self {
            namespace: entrypoint.namespace()?,
            name: object_name(&name, &uid),
            entrypoint: name,
            uid,
            subjects: subjects.into_iter().collect(),
        })
    }

    pub(super) fn role(&self) -> Value {
        let mut role = self.object("Role");
        role["rules"] = json!([{
            "apiGroups": [PROXY_GROUP],
            "resources": [ENTRYPOINTS],
            "resourceNames": [self.entrypoint],
            "verbs": [CONNECT_VERB],
        }]);
        role
    }

    pub(super) fn binding(&self) -> Value {
        let subjects = self.subjects.iter().map(|(kind, name, namespace)| {
            namespace.as_ref().map_or_else(
                || json!({ "kind": kind, "name": name, "apiGroup": RBAC_GROUP }),
                |namespace| json!({ "kind": kind, "name": name, "namespace": namespace }),
            )
        });
        let mut binding = self.object("RoleBinding");
        binding["subjects"] = subjects.collect();
        binding["roleRef"] = json!({ "apiGroup": RBAC_GROUP, "kind": "Role", "name": self.name });
        binding
    }

    fn object(&self, kind: &str) -> Value {
        json!({
            "apiVersion": format!("{RBAC_GROUP}/v1"),
            "kind": kind,
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {
                    MANAGED_BY.0: MANAGED_BY.1,
                    "app.kubernetes.io/component": COMPONENT,
                },
                "ownerReferences": [{
                    "apiVersion": format!("{PROXY_GROUP}/v1alpha1"),
                    "kind": "ClusterProxyEntrypoint",
                    "name": self.entrypoint,
                    "uid": self.uid,
                    "controller": true,
                }],
            },
        })
    }

    fn is_role(&self, role: &Role) -> bool {
        let text = |text: &str| Some(vec![text.to_owned()]);
        let rule = PolicyRule {
            api_groups: text(PROXY_GROUP),
            resources: text(ENTRYPOINTS),
            resource_names: text(&self.entrypoint),
            verbs: vec![CONNECT_VERB.to_owned()],
            ..PolicyRule::default()
        };
        self.owns(role) && role.rules.as_deref() == Some(&[rule])
    }

    fn is_binding(&self, binding: &RoleBinding) -> bool {
        let found: Vec<_> = binding
            .subjects
            .iter()
            .flatten()
            .map(|s| (s.kind.as_str(), s.name.as_str(), s.namespace.as_deref()))
            .collect();
        let wanted: Vec<_> = self
            .subjects
            .iter()
            .map(|(kind, name, namespace)| (*kind, name.as_str(), namespace.as_deref()))
            .collect();
        self.owns(binding) && found == wanted
    }

    fn owns(&self, object: &impl Resource) -> bool {
        object
            .owner_references()
            .iter()
            .any(|owner| owner.uid == self.uid)
    }
}

/// Readable where it fits into a name.
fn object_name(entrypoint: &str, uid: &str) -> String {
    let readable = format!("{PREFIX}{entrypoint}");
    if readable.len() <= 253 {
        readable
    } else {
        format!("{PREFIX}{uid}")
    }
}

/// A service account of no namespace is nobody; the entrypoint's condition says so.
fn subject(subject: &Subject) -> Option<RbacSubject> {
    let name = subject.name.clone();
    match subject.kind {
        _ if name.is_empty() => None,
        SubjectKind::User => Some(("User", name, None)),
        SubjectKind::Group => Some(("Group", name, None)),
        SubjectKind::ServiceAccount => {
            let namespace = subject.namespace.clone().filter(|n| !n.is_empty())?;
            Some(("ServiceAccount", name, Some(namespace)))
        }
    }
}

#[cfg(test)]
mod tests {
    use strait_api::ClusterProxyEntrypointSpec;

    use super::*;

    fn entrypoint(subjects: Vec<Subject>) -> Arc<ClusterProxyEntrypoint> {
        let spec = ClusterProxyEntrypointSpec {
            service: "search".to_owned(),
            namespace: "default".to_owned(),
            subjects,
            ..ClusterProxyEntrypointSpec::default()
        };
        let mut entrypoint = ClusterProxyEntrypoint::new("search", spec);
        entrypoint.metadata.namespace = Some("cluster1".to_owned());
        entrypoint.metadata.uid = Some("u1".to_owned());
        Arc::new(entrypoint)
    }

    fn named(kind: SubjectKind, name: &str, namespace: Option<&str>) -> Subject {
        Subject {
            kind,
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    /// The world after a decision was applied.
    fn applied(entrypoint: Arc<ClusterProxyEntrypoint>, decision: &Decision) -> Seen {
        let stored = |mut object: Value| {
            object["metadata"]["uid"] = "made".into();
            object
        };
        let read = |object: Value| serde_json::from_value(stored(object)).unwrap();
        Seen {
            entrypoints: vec![entrypoint],
            roles: decision
                .roles
                .iter()
                .map(|g| Arc::new(read(g.role())))
                .collect(),
            bindings: decision
                .bindings
                .iter()
                .map(|g| Arc::new(serde_json::from_value(stored(g.binding())).unwrap()))
                .collect(),
        }
    }

    #[test]
    fn subjects_may_connect_to_their_entrypoint_and_to_nothing_else() {
        let entrypoint = entrypoint(vec![
            named(SubjectKind::User, "dev@example.com", None),
            named(SubjectKind::ServiceAccount, "ci", Some("tools")),
            named(SubjectKind::ServiceAccount, "lost", None),
        ]);
        let seen = Seen {
            entrypoints: vec![Arc::clone(&entrypoint)],
            ..Seen::default()
        };
        let decision = decide(&seen);
        assert_eq!(
            decision.roles[0].role()["rules"],
            json!([{
                "apiGroups": ["proxy.open-cluster-management.io"],
                "resources": ["clusterproxyentrypoints"],
                "resourceNames": ["search"],
                "verbs": ["connect"],
            }])
        );
        assert_eq!(
            decision.bindings[0].binding()["subjects"],
            json!([
                { "kind": "ServiceAccount", "name": "ci", "namespace": "tools" },
                { "kind": "User", "name": "dev@example.com", "apiGroup": RBAC_GROUP },
            ])
        );
        assert_eq!(decide(&applied(entrypoint, &decision)), Decision::default());
    }

    #[test]
    fn who_is_no_subject_any_more_loses_the_right() {
        let before = entrypoint(vec![named(SubjectKind::Group, "team", None)]);
        let made = decide(&Seen {
            entrypoints: vec![before],
            ..Seen::default()
        });
        let doomed = Doomed {
            namespace: "cluster1".to_owned(),
            name: "strait-connect-search".to_owned(),
            uid: "made".to_owned(),
        };
        let decision = decide(&applied(entrypoint(vec![]), &made));
        assert_eq!(decision.delete_bindings, std::slice::from_ref(&doomed));
        assert_eq!(decision.delete_roles, [doomed]);

        let other = entrypoint(vec![named(SubjectKind::Group, "others", None)]);
        let decision = decide(&applied(other, &made));
        assert_eq!((decision.roles.len(), decision.bindings.len()), (0, 1));
    }

    #[test]
    fn a_long_name_gives_way_to_the_uid() {
        assert_eq!(object_name(&"a".repeat(253), "u1"), "strait-connect-u1");
    }
}
