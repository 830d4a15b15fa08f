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
    /// There are entrypoints that cannot be read: what belongs to them is not known.
    pub(super) blind: bool,
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
    /// Missing ones.
    pub(super) new_roles: Vec<Grant>,
    /// Those that say something else.
    pub(super) roles: Vec<Grant>,
    /// Missing ones, whose role is right.
    pub(super) new_bindings: Vec<Grant>,
    /// Those that say something else.
    pub(super) bindings: Vec<Grant>,
    pub(super) delete_roles: Vec<Doomed>,
    pub(super) delete_bindings: Vec<Doomed>,
}

pub(super) fn decide(seen: &Seen) -> Decision {
    let grants: BTreeMap<Place, Grant> = seen
        .entrypoints
        .iter()
        .filter_map(|e| Grant::of(e))
        .map(|grant| ((grant.namespace.clone(), grant.name.clone()), grant))
        .collect();
    let (roles, mut delete_roles) = sorted(&seen.roles, &grants);
    let (bindings, mut delete_bindings) = sorted(&seen.bindings, &grants);
    if seen.blind {
        delete_roles.clear();
        delete_bindings.clear();
    }
    let mut decision = Decision {
        delete_roles,
        delete_bindings,
        ..Decision::default()
    };
    for (place, grant) in &grants {
        let role = roles.get(place).copied();
        match role {
            None => decision.new_roles.push(grant.clone()),
            Some(role) if role.can_be_of(grant) && !grant.is_role(role) => {
                decision.roles.push(grant.clone());
            }
            Some(_) => {}
        }
        match bindings.get(place) {
            // Not before the role is seen to be ours: a binding hands on whatever the role says.
            None if role.is_some_and(|role| grant.is_role(role)) => {
                decision.new_bindings.push(grant.clone());
            }
            Some(binding) if binding.can_be_of(grant) && !grant.is_binding(binding) => {
                decision.bindings.push(grant.clone());
            }
            _ => {}
        }
    }
    decision
}

/// Namespace and name.
type Place = (String, String);

/// Those that belong to a grant, and those that do not: of an entrypoint that names nobody, or
/// that is gone, though another has its name. An object that must go is replaced once it is gone.
fn sorted<'a, K: GrantObject>(
    objects: &'a [Arc<K>],
    grants: &BTreeMap<Place, Grant>,
) -> (BTreeMap<Place, &'a K>, Vec<Doomed>) {
    let mut kept = BTreeMap::new();
    let mut doomed = vec![];
    for object in objects {
        let (Some(namespace), Some(uid)) = (object.namespace(), object.uid()) else {
            continue;
        };
        let place = (namespace, object.name_any());
        let wanted = grants.get(&place).is_some_and(|g| object.can_be_of(g));
        if !wanted && lives(object.as_ref()) {
            let (namespace, name) = place.clone();
            doomed.push(Doomed {
                namespace,
                name,
                uid,
            });
        }
        kept.insert(place, object.as_ref());
    }
    (kept, doomed)
}

/// A role or a binding.
trait GrantObject: Resource<DynamicType = ()> {
    /// Whether what never changes in it is right.
    fn can_be_of(&self, grant: &Grant) -> bool;
}

impl GrantObject for Role {
    fn can_be_of(&self, grant: &Grant) -> bool {
        grant.owns(self)
    }
}

impl GrantObject for RoleBinding {
    fn can_be_of(&self, grant: &Grant) -> bool {
        let role = &self.role_ref;
        grant.owns(self) && role.kind == "Role" && role.name == grant.name
    }
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
        role.can_be_of(self) && role.rules.as_deref() == Some(&[rule])
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
        binding.can_be_of(self) && found == wanted
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

/// One that RBAC would refuse is nobody; the entrypoint's condition says so.
fn subject(subject: &Subject) -> Option<RbacSubject> {
    if subject.problem().is_some() {
        return None;
    }
    let name = subject.name.clone();
    Some(match subject.kind {
        SubjectKind::User => ("User", name, None),
        SubjectKind::Group => ("Group", name, None),
        SubjectKind::ServiceAccount => ("ServiceAccount", name, subject.namespace.clone()),
    })
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

    /// The world when nothing is left to do.
    fn settled(mut seen: Seen) -> Seen {
        let stored = |mut object: Value| {
            object["metadata"]["uid"] = "made".into();
            object
        };
        for _ in 0..5 {
            let decision = decide(&seen);
            if decision == Decision::default() {
                return seen;
            }
            let gone = |name: String, doomed: &[Doomed]| doomed.iter().any(|d| d.name == name);
            seen.roles
                .retain(|r| !gone(r.name_any(), &decision.delete_roles));
            seen.bindings
                .retain(|b| !gone(b.name_any(), &decision.delete_bindings));
            for grant in decision.new_roles.iter().chain(&decision.roles) {
                seen.roles.retain(|r| r.name_any() != grant.name);
                let role = serde_json::from_value(stored(grant.role())).unwrap();
                seen.roles.push(Arc::new(role));
            }
            for grant in decision.new_bindings.iter().chain(&decision.bindings) {
                seen.bindings.retain(|b| b.name_any() != grant.name);
                let binding = serde_json::from_value(stored(grant.binding())).unwrap();
                seen.bindings.push(Arc::new(binding));
            }
        }
        panic!("still something to do: {:?}", decide(&seen));
    }

    fn of(entrypoint: Arc<ClusterProxyEntrypoint>) -> Seen {
        settled(Seen {
            entrypoints: vec![entrypoint],
            ..Seen::default()
        })
    }

    #[test]
    fn subjects_may_connect_to_their_entrypoint_and_to_nothing_else() {
        let seen = of(entrypoint(vec![
            named(SubjectKind::User, "dev@example.com", None),
            named(SubjectKind::ServiceAccount, "ci", Some("tools")),
            named(SubjectKind::ServiceAccount, "lost", None),
            named(SubjectKind::ServiceAccount, "CI_Bot", Some("tools")),
        ]));
        assert_eq!(
            serde_json::to_value(&seen.roles[0].rules).unwrap(),
            json!([{
                "apiGroups": ["proxy.open-cluster-management.io"],
                "resources": ["clusterproxyentrypoints"],
                "resourceNames": ["search"],
                "verbs": ["connect"],
            }])
        );
        assert_eq!(
            serde_json::to_value(&seen.bindings[0].subjects).unwrap(),
            json!([
                { "kind": "ServiceAccount", "name": "ci", "namespace": "tools" },
                { "kind": "User", "name": "dev@example.com", "apiGroup": RBAC_GROUP },
            ])
        );
        assert_eq!(seen.bindings[0].role_ref.name, seen.roles[0].name_any());
    }

    #[test]
    fn who_is_no_subject_any_more_loses_the_right() {
        let mut seen = of(entrypoint(vec![named(SubjectKind::Group, "team", None)]));
        seen.entrypoints = vec![entrypoint(vec![named(SubjectKind::Group, "others", None)])];
        let decision = decide(&seen);
        assert_eq!((decision.roles.len(), decision.bindings.len()), (0, 1));

        seen.entrypoints = vec![entrypoint(vec![])];
        let decision = decide(&seen);
        let doomed = Doomed {
            namespace: "cluster1".to_owned(),
            name: "strait-connect-search".to_owned(),
            uid: "made".to_owned(),
        };
        assert_eq!(decision.delete_bindings, std::slice::from_ref(&doomed));
        assert_eq!(decision.delete_roles, [doomed]);
    }

    #[test]
    fn what_cannot_be_read_loses_no_right() {
        let mut seen = of(entrypoint(vec![named(SubjectKind::Group, "team", None)]));
        seen.entrypoints.clear();
        seen.blind = true;
        assert_eq!(decide(&seen), Decision::default());
    }

    #[test]
    fn nobody_is_bound_to_a_role_that_is_not_seen_to_be_ours() {
        let entrypoint = entrypoint(vec![named(SubjectKind::Group, "team", None)]);
        let mut seen = of(entrypoint);
        seen.bindings.clear();
        let role = Arc::make_mut(&mut seen.roles[0]);
        role.rules.as_mut().unwrap()[0].verbs = vec!["*".to_owned()];
        let decision = decide(&seen);
        assert_eq!((decision.roles.len(), decision.new_bindings.len()), (1, 0));
    }

    #[test]
    fn the_right_to_a_former_entrypoint_of_the_same_name_is_made_anew() {
        let before = entrypoint(vec![named(SubjectKind::Group, "team", None)]);
        let mut seen = of(Arc::clone(&before));
        let mut anew = (*before).clone();
        anew.metadata.uid = Some("u2".to_owned());
        seen.entrypoints = vec![Arc::new(anew)];
        let decision = decide(&seen);
        let counts = (decision.delete_roles.len(), decision.delete_bindings.len());
        assert_eq!(counts, (1, 1));
        assert_eq!(settled(seen).roles[0].owner_references()[0].uid, "u2");
    }

    #[test]
    fn a_long_name_gives_way_to_the_uid() {
        assert_eq!(object_name(&"a".repeat(253), "u1"), "strait-connect-u1");
    }
}
