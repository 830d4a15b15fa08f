//! `POST /.strait/v1/join`.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::BodyExt;
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
        if request.method() != Method::POST {
            return Err(NoJoin::Malformed("it has to be a POST".to_owned()));
        }
        let limit = self.frontend.limits.join_bytes;
        let reading = read(request.into_body(), limit);
        match tokio::time::timeout(self.frontend.times.handshake, reading).await {
            Ok(body) => joins.join(&body?, self.source).await,
            Err(tokio::time::error::Elapsed { .. }) => {
                Err(NoJoin::Malformed("it did not come in time".to_owned()))
            }
        }
    }
}

/// Reads a body of at most `limit` bytes. One that is longer is read on for a while and forgotten:
/// a peer that still writes would see a broken connection instead of the answer.
async fn read(mut body: Incoming, limit: usize) -> Result<Vec<u8>, NoJoin> {
    let mut bytes = vec![];
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| NoJoin::Malformed(error.to_string()))?;
        let data = frame.into_data().unwrap_or_default();
        seen += data.len();
        if seen <= limit {
            bytes.extend_from_slice(&data);
        } else if seen > MAX_FORGOTTEN {
            break;
        }
    }
    if seen <= limit {
        Ok(bytes)
    } else {
        Err(NoJoin::Malformed(format!("it has more than {limit} bytes")))
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
    let (refusal, why) = match reason {
        NoJoin::TooOften => {
            let detail = "too many joins from this address";
            let hint = Some("try again in a minute");
            let status = StatusCode::TOO_MANY_REQUESTS;
            return problem::document(status, "too-often", detail, hint, Role::Origin);
        }
        NoJoin::Refused(refusal) => (refusal, None),
        NoJoin::Malformed(why) => (JoinRefusal::Malformed, Some(why)),
    };
    let detail = match why {
        Some(why) => format!("{refusal}: {why}"),
        None => refusal.to_string(),
    };
    let (status, code, hint) = match refusal {
        JoinRefusal::TokenUsed => (StatusCode::GONE, "token-used", NEW_TOKEN),
        JoinRefusal::TokenExpired => (StatusCode::GONE, "token-expired", NEW_TOKEN),
        JoinRefusal::TokenForeign => (StatusCode::FORBIDDEN, "token-foreign", NEW_TOKEN),
        JoinRefusal::OtherCluster => (StatusCode::FORBIDDEN, "other-cluster", NEW_TOKEN),
        JoinRefusal::BadRequest => (StatusCode::BAD_REQUEST, "bad-request", None),
        JoinRefusal::Malformed => (StatusCode::BAD_REQUEST, "malformed", MEANT_FOR_AGENTS),
        JoinRefusal::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            Some("try again later"),
        ),
    };
    problem::document(status, code, &detail, hint, Role::Origin)
}

/// How many bytes of a body that is too long are read.
const MAX_FORGOTTEN: usize = 1 << 20;

/// What to do instead of speaking this by hand.
const MEANT_FOR_AGENTS: Option<&str> = Some("agents join: `strait join --token-file FILE`");

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
            JoinRefusal::Malformed,
            JoinRefusal::Unavailable,
        ] {
            let response = render(NoJoin::Refused(refusal));
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["code"], serde_json::to_value(refusal).unwrap());
            assert_eq!(body["detail"], refusal.to_string());
        }
    }
}
