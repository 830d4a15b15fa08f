//! `GET /.strait/v1/status`.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use hyper::body::Incoming;
use strait_types::{HubStatus, Refusal, RefusalCode};

use super::{Body, Connection, whole};
use crate::{
    audit::Via,
    problem::{self, Role},
};

impl Connection {
    pub(super) async fn status(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        whole(match self.allowed_status(&request).await {
            Ok(status) => json(&status),
            Err(refusal) => problem::render(&refusal, Role::Origin),
        })
    }

    async fn allowed_status(&self, request: &Request<Incoming>) -> Result<HubStatus, Refusal> {
        if request.method() != Method::GET {
            let message = "the status of the hub can only be read, by GET";
            return Err(Refusal::new(RefusalCode::BadRequest, message));
        }
        let (caller, _) = self.identify(Via::HttpsByHost, request).await?;
        if !self.frontend.decisions.may_list_members(&caller).await? {
            let message = format!("{} may not see the hub's sessions", caller.user().name);
            let hint = "the right to list managedclusters is needed";
            return Err(Refusal::new(RefusalCode::NotAllowed, message).with_hint(hint));
        }
        Ok(HubStatus {
            hub: self.frontend.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sessions: self.frontend.reach.sessions.status(),
        })
    }
}

fn json(status: &HubStatus) -> Response<Bytes> {
    let mut body = serde_json::to_vec(status).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
