//! TokenReview and SubjectAccessReview.

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use strait_api::wire_names::{CLUSTER_GROUP, CONNECT_VERB, ENTRYPOINTS, PROXY_GROUP};
use strait_types::{ClusterName, Redacted};

use super::answered;
use crate::{
    HubConfig, User,
    deps::{Reviews, Unanswered},
};

/// Reviews by the API server.
pub(super) struct KubeReviews {
    tokens: Api<TokenReview>,
    access: Api<SubjectAccessReview>,
    audiences: Vec<String>,
}

// === impl KubeReviews ===

impl KubeReviews {
    pub(super) fn new(client: &Client, config: &HubConfig) -> Self {
        Self {
            tokens: Api::all(client.clone()),
            access: Api::all(client.clone()),
            audiences: config.token_audiences.clone(),
        }
    }

    async fn review_token(&self, token: &Redacted) -> Result<Option<User>, Unanswered> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.reveal().to_owned()),
                audiences: (!self.audiences.is_empty()).then(|| self.audiences.clone()),
            },
            ..TokenReview::default()
        };
        let params = PostParams::default();
        let answer = answered("TokenReview", self.tokens.create(&params, &review)).await?;
        let status = answer.status.unwrap_or_default();
        // A server that does not know audiences answers without them; such a token is for anybody.
        let audience = self.audiences.is_empty()
            || status
                .audiences
                .iter()
                .flatten()
                .any(|a| self.audiences.contains(a));
        if status.authenticated != Some(true) || !audience {
            return Ok(None);
        }
        Ok(status.user.map(user))
    }

    async fn review_access(
        &self,
        user: &User,
        wanted: ResourceAttributes,
    ) -> Result<bool, Unanswered> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: (!user.uid.is_empty()).then(|| user.uid.clone()),
                groups: Some(user.groups.clone()),
                extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
                resource_attributes: Some(wanted),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let params = PostParams::default();
        let answer = answered("SubjectAccessReview", self.access.create(&params, &review)).await?;
        Ok(answer
            .status
            .is_some_and(|s| s.allowed && s.denied != Some(true)))
    }
}

impl Reviews for KubeReviews {
    fn who_is<'a>(
        &'a self,
        token: &'a Redacted,
    ) -> BoxFuture<'a, Result<Option<User>, Unanswered>> {
        Box::pin(self.review_token(token))
    }

    fn may_connect<'a>(
        &'a self,
        user: &'a User,
        cluster: &'a ClusterName,
        object: &'a str,
    ) -> BoxFuture<'a, Result<bool, Unanswered>> {
        let wanted = ResourceAttributes {
            verb: Some(CONNECT_VERB.to_owned()),
            group: Some(PROXY_GROUP.to_owned()),
            resource: Some(ENTRYPOINTS.to_owned()),
            namespace: Some(cluster.to_string()),
            name: Some(object.to_owned()),
            ..ResourceAttributes::default()
        };
        Box::pin(self.review_access(user, wanted))
    }

    fn may_list_members<'a>(&'a self, user: &'a User) -> BoxFuture<'a, Result<bool, Unanswered>> {
        let wanted = ResourceAttributes {
            verb: Some("list".to_owned()),
            group: Some(CLUSTER_GROUP.to_owned()),
            resource: Some("managedclusters".to_owned()),
            ..ResourceAttributes::default()
        };
        Box::pin(self.review_access(user, wanted))
    }
}

impl std::fmt::Debug for KubeReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeReviews")
            .field("audiences", &self.audiences)
            .finish_non_exhaustive()
    }
}

fn user(info: UserInfo) -> User {
    User {
        name: info.username.unwrap_or_default(),
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::api_server::{refusal, scripted};

    fn config(audiences: &[&str]) -> HubConfig {
        let mut config = HubConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.token_audiences = audiences.iter().map(|a| (*a).to_owned()).collect();
        config
    }

    fn token_review(status: &Value) -> (u16, Value) {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
            "spec": {}, "status": status,
        });
        (201, review)
    }

    #[tokio::test]
    async fn a_token_is_whose_the_api_server_says() {
        let status = json!({
            "authenticated": true, "audiences": ["strait"],
            "user": { "username": "dev", "uid": "1", "groups": ["a"], "extra": { "k": ["v"] } },
        });
        let (client, asked) = scripted(move |_, _| token_review(&status));
        let token = Redacted::new("t");
        let user = KubeReviews::new(&client, &config(&["strait"]))
            .who_is(&token)
            .await
            .unwrap();
        let user = user.unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("dev", "1"));
        assert_eq!(
            (user.groups, user.extra["k"].clone()),
            (vec!["a".to_owned()], vec!["v".to_owned()])
        );
        assert_eq!(
            asked.lock()[0].2["spec"],
            json!({ "token": "t", "audiences": ["strait"] })
        );
        let other = KubeReviews::new(&client, &config(&["other"]))
            .who_is(&token)
            .await
            .unwrap();
        assert_eq!(other, None, "a token for somebody else");
    }

    #[tokio::test]
    async fn what_is_not_said_to_be_good_is_not() {
        let token = Redacted::new("t");
        for status in [
            json!({ "authenticated": false }),
            json!({}),
            json!({ "user": { "username": "dev" } }),
            json!({ "authenticated": true }),
        ] {
            let (client, _) = scripted(move |_, _| token_review(&status));
            let user = KubeReviews::new(&client, &config(&[]))
                .who_is(&token)
                .await
                .unwrap();
            assert_eq!(user.filter(|user| !user.name.is_empty()), None);
        }
        let (client, _) = scripted(|_, _| refusal(500, "InternalError"));
        assert!(
            KubeReviews::new(&client, &config(&[]))
                .who_is(&token)
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn the_right_is_about_the_object_in_the_members_namespace() {
        let (client, asked) = scripted(|_, _| {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "metadata": {}, "spec": {}, "status": { "allowed": true },
            });
            (201, review)
        });
        let user = User {
            name: "dev".to_owned(),
            groups: vec!["a".to_owned()],
            ..User::default()
        };
        let cluster: ClusterName = "cluster1".parse().unwrap();
        let reviews = KubeReviews::new(&client, &config(&[]));
        assert!(
            reviews
                .may_connect(&user, &cluster, "search")
                .await
                .unwrap()
        );
        let spec = json!({
            "user": "dev", "groups": ["a"],
            "resourceAttributes": {
                "verb": "connect", "group": "proxy.open-cluster-management.io",
                "resource": "clusterproxyentrypoints", "namespace": "cluster1", "name": "search",
            },
        });
        assert_eq!(asked.lock()[0].2["spec"], spec);
    }
}
