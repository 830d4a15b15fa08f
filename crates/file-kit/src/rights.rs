//! Who may do what, by roles and bindings as Kubernetes has them. Pure.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};

/// Roles and bindings.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Roles, each of one namespace.
    pub roles: Vec<Role>,
    /// Roles of every namespace.
    pub cluster_roles: Vec<ClusterRole>,
    /// Who has a role in one namespace.
    pub role_bindings: Vec<RoleBinding>,
    /// Who has a role everywhere.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The kind, in plural.
    pub resource: &'a str,
    /// In this namespace; `None` for kinds that are in none.
    pub namespace: Option<&'a str>,
    /// With this object; `None` for all.
    pub name: Option<&'a str>,
}

// === impl Rights ===

impl Rights {
    /// Whether a user of these groups may do it. Nothing is allowed that no rule allows.
    #[must_use]
    pub fn allow(&self, user: &str, groups: &[String], ask: &Ask<'_>) -> bool {
        let here = self.role_bindings.iter().filter(|binding| {
            ask.namespace.is_some() && binding.metadata.namespace.as_deref() == ask.namespace
        });
        let here = here.map(|binding| (binding.subjects.as_deref(), &binding.role_ref));
        let everywhere = self.cluster_role_bindings.iter();
        let everywhere = everywhere.map(|binding| (binding.subjects.as_deref(), &binding.role_ref));
        here.chain(everywhere).any(|(subjects, role)| {
            let mut subjects = subjects.unwrap_or_default().iter();
            subjects.any(|subject| is(subject, user, groups))
                && self
                    .rules(role, ask.namespace)
                    .any(|rule| covers(rule, ask))
        })
    }

    fn rules<'a>(
        &'a self,
        role: &'a RoleRef,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a PolicyRule> {
        let roles = self.roles.iter().filter(move |found| {
            role.kind == "Role"
                && found.metadata.name.as_deref() == Some(&*role.name)
                && found.metadata.namespace.as_deref() == namespace
        });
        let cluster_roles = self.cluster_roles.iter().filter(move |found| {
            role.kind == "ClusterRole" && found.metadata.name.as_deref() == Some(&*role.name)
        });
        let rules = roles.map(|role| &role.rules);
        let rules = rules.chain(cluster_roles.map(|role| &role.rules));
        rules.flatten().flatten()
    }
}

fn is(subject: &Subject, user: &str, groups: &[String]) -> bool {
    match subject.kind.as_str() {
        "User" => subject.name == user,
        "Group" => groups.contains(&subject.name),
        _ => false,
    }
}

fn covers(rule: &PolicyRule, ask: &Ask<'_>) -> bool {
    let has = |list: Option<&Vec<String>>, wanted: &str| {
        list.is_some_and(|list| list.iter().any(|item| item == "*" || item == wanted))
    };
    let named = match rule.resource_names.as_deref() {
        None | Some([]) => true,
        Some(names) => names.iter().any(|name| Some(&**name) == ask.name),
    };
    has(Some(&rule.verbs), ask.verb)
        && has(rule.api_groups.as_ref(), ask.group)
        && has(rule.resources.as_ref(), ask.resource)
        && named
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn rights() -> Rights {
        let connect = |names: Value| {
            json!([{ "apiGroups": ["g"], "resources": ["entrypoints"], "verbs": ["connect"],
                     "resourceNames": names }])
        };
        let subjects = |kind: &str, name: &str| json!([{ "kind": kind, "name": name }]);
        let role = |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "connect" });
        Rights {
            roles: vec![read(json!({
                "metadata": { "name": "connect", "namespace": "cluster1" }, "rules": connect(json!(["a"])),
            }))],
            cluster_roles: vec![read(json!({
                "metadata": { "name": "connect" }, "rules": connect(json!([])),
            }))],
            role_bindings: vec![
                read(json!({
                    "metadata": { "name": "x", "namespace": "cluster1" },
                    "subjects": subjects("User", "jane"), "roleRef": role("Role"),
                })),
                read(json!({
                    "metadata": { "name": "y", "namespace": "cluster2" },
                    "subjects": subjects("Group", "ops"), "roleRef": role("ClusterRole"),
                })),
            ],
            cluster_role_bindings: vec![read(json!({
                "metadata": { "name": "z" },
                "subjects": subjects("User", "root"), "roleRef": role("ClusterRole"),
            }))],
        }
    }

    fn allowed(user: &str, groups: &[&str], namespace: &str, name: &str) -> bool {
        let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        rights().allow(
            user,
            &groups,
            &Ask {
                verb: "connect",
                group: "g",
                resource: "entrypoints",
                namespace: Some(namespace),
                name: Some(name),
            },
        )
    }

    #[test]
    fn a_role_counts_in_its_namespace_and_for_its_names() {
        assert!(allowed("jane", &[], "cluster1", "a"));
        assert!(!allowed("jane", &[], "cluster1", "b"));
        assert!(!allowed("jane", &[], "cluster2", "a"));
        assert!(!allowed("john", &["jane"], "cluster1", "a"));
    }

    #[test]
    fn a_cluster_role_counts_where_it_is_bound() {
        assert!(allowed("john", &["ops"], "cluster2", "b"));
        assert!(!allowed("john", &["ops"], "cluster1", "b"));
        assert!(allowed("root", &[], "cluster1", "b") && allowed("root", &[], "cluster3", "c"));
    }

    #[test]
    fn another_verb_group_or_kind_is_not_meant() {
        let ask = Ask {
            verb: "connect",
            group: "g",
            resource: "entrypoints",
            namespace: Some("cluster3"),
            name: Some("a"),
        };
        for other in [
            Ask { verb: "get", ..ask },
            Ask { group: "h", ..ask },
            Ask {
                resource: "pods",
                ..ask
            },
        ] {
            assert!(!rights().allow("root", &[], &other), "{other:?}");
        }
        let all = Ask {
            namespace: None,
            name: None,
            ..ask
        };
        assert!(rights().allow("root", &[], &all));
        assert!(!rights().allow("jane", &[], &all));
    }
}
