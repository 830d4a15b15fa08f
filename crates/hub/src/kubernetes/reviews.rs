//! TokenReview and SubjectAccessReview.

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use strait_api::wire_names::{CONNECT_VERB, ENTRYPOINTS, PROXY_GROUP};
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
        cluster: &ClusterName,
        object: &str,
    ) -> Result<bool, Unanswered> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: (!user.uid.is_empty()).then(|| user.uid.clone()),
                groups: Some(user.groups.clone()),
                extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(CONNECT_VERB.to_owned()),
                    group: Some(PROXY_GROUP.to_owned()),
                    resource: Some(ENTRYPOINTS.to_owned()),
                    namespace: Some(cluster.to_string()),
                    name: Some(object.to_owned()),
                    ..ResourceAttributes::default()
                }),
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
        Box::pin(self.review_access(user, cluster, object))
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
