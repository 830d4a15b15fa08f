//! `POST /.strait/v1/join`.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use strait_types::{JoinAnswer, JoinRefusal};

use super::{Body, Connection, whole};
use crate::{
    join::NoJoin,
    problem::{self, Role},
};

impl Connection {
    pub(super) async fn join(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        whole(match self.join_answer(request).await {
            Ok(answer) => good(&answer),
            Err(reason) => render(reason),
        })
    }

    async fn join_answer(&self, request: Request<Incoming>) -> Result<JoinAnswer, NoJoin> {
        let joins = &self.frontend.joins;
        joins.admits(self.source)?;
        let bad = NoJoin::Refused(JoinRefusal::BadRequest);
        if request.method() != Method::POST {
            return Err(bad);
        }
        let body = Limited::new(request.into_body(), self.frontend.limits.join_bytes).collect();
        match tokio::time::timeout(self.frontend.times.handshake, body).await {
            Ok(Ok(body)) => joins
                .join(&body.to_bytes(), self.source)
                .await
                .map_err(NoJoin::Refused),
            Ok(Err(_)) | Err(tokio::time::error::Elapsed { .. }) => Err(bad),
        }
    }
}

fn good(answer: &JoinAnswer) -> Response<Bytes> {
    let mut response = Response::new(serde_json::to_vec(answer).unwrap_or_default().into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn render(reason: NoJoin) -> Response<Bytes> {
    let NoJoin::Refused(refusal) = reason else {
        let detail = "too many joins from this address";
        let hint = Some("try again in a minute");
        let status = StatusCode::TOO_MANY_REQUESTS;
        return problem::document(status, "too-often", detail, hint, Role::Origin);
    };
    let (status, code, hint) = match refusal {
        JoinRefusal::TokenUsed => (StatusCode::GONE, "token-used", NEW_TOKEN),
        JoinRefusal::TokenExpired => (StatusCode::GONE, "token-expired", NEW_TOKEN),
        JoinRefusal::TokenForeign => (StatusCode::FORBIDDEN, "token-foreign", NEW_TOKEN),
        JoinRefusal::OtherCluster => (StatusCode::FORBIDDEN, "other-cluster", NEW_TOKEN),
        JoinRefusal::BadRequest => (StatusCode::BAD_REQUEST, "bad-request", None),
        JoinRefusal::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            Some("try again later"),
        ),
    };
    problem::document(status, code, &refusal.to_string(), hint, Role::Origin)
}

/// What to do about a token that is not good.
const NEW_TOKEN: Option<&str> =
    Some("make a new token at the hub: `strait token create --cluster NAME`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_one_that_agents_read() {
        for refusal in [
            JoinRefusal::TokenUsed,
            JoinRefusal::TokenExpired,
            JoinRefusal::TokenForeign,
            JoinRefusal::OtherCluster,
            JoinRefusal::BadRequest,
            JoinRefusal::Unavailable,
        ] {
            let response = render(NoJoin::Refused(refusal));
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["code"], serde_json::to_value(refusal).unwrap());
            assert_eq!(body["detail"], refusal.to_string());
        }
    }
}
