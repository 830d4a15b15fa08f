//! `GET /.strait/v1/session`: a WebSocket that leads to the hub's port once more, for agents in
//! networks that let nothing but HTTP/1.1 through.

use std::{net::SocketAddr, sync::Arc};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use strait_types::{CarrierKind, Refusal, RefusalCode, SESSION_PROTOCOL};
use strait_websocket::WebSocket;

use super::{Body, Connection, whole};
use crate::problem::{self, Role};

/// A connection to the hub's port that came in a WebSocket.
#[derive(Debug)]
pub(crate) struct Wrapped {
    pub(crate) io: WebSocket<TokioIo<Upgraded>>,
    pub(crate) source: SocketAddr,
}

impl Connection {
    pub(super) fn session(self: &Arc<Self>, mut request: Request<Incoming>) -> Response<Body> {
        let answer = match self.carrier {
            CarrierKind::Tls => {
                strait_websocket::answer(&request, SESSION_PROTOCOL).map_err(|e| e.to_string())
            }
            CarrierKind::WebSocket => Err("there are no WebSockets in a WebSocket".to_owned()),
        };
        match answer {
            Ok(answer) => {
                let upgrade = hyper::upgrade::on(&mut request);
                self.frontend
                    .tasks
                    .spawn_one(Arc::clone(self).wrap(upgrade));
                answer.map(|()| Body::empty())
            }
            Err(why) => {
                let refusal = Refusal::new(RefusalCode::BadRequest, why);
                whole(problem::render(&refusal, Role::Origin))
            }
        }
    }

    async fn wrap(self: Arc<Self>, upgrade: OnUpgrade) {
        let source = self.source;
        match tokio::time::timeout(self.frontend.times.handshake, upgrade).await {
            Ok(Ok(upgraded)) => {
                let io = strait_websocket::accept(TokioIo::new(upgraded)).await;
                // With more of them under way than there is room for, this one is closed.
                if self
                    .frontend
                    .wrapped
                    .try_send(Wrapped { io, source })
                    .is_err()
                {
                    self.frontend.metrics.handshake("too-many");
                }
            }
            Ok(Err(error)) => tracing::debug!(%source, %error, "a WebSocket did not come about"),
            Err(tokio::time::error::Elapsed { .. }) => {
                tracing::debug!(%source, "a WebSocket took too long");
            }
        }
    }
}
