//! Joining with a token: one POST to a hub.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{
    Method, Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::Deserialize;
use strait_pki::{AgentKey, PkiError, client_config};
use strait_types::{JOIN_PATH, JoinAnswer, JoinRefusal, JoinRequest, JoinToken, TokenId};
use thiserror::Error;
use tokio::time::timeout;

use super::{StoredIdentity, active::trust, next_hubs};
use crate::connect::{ConnectError, Way};

/// How long a hub may take to answer once it is connected.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Joins.
pub(crate) trait Joiner: fmt::Debug + Send + Sync + 'static {
    /// Gets an identity with this token.
    fn join(&self, token: Arc<JoinToken>) -> BoxFuture<'static, Result<StoredIdentity, JoinError>>;
}

/// Joins at the hubs that the token names.
#[derive(Debug)]
pub(crate) struct HubJoiner {
    way: Way,
    /// The key for a token that was tried: a hub whose answer was lost knows it again.
    key: Arc<Mutex<Option<(TokenId, AgentKey)>>>,
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub(crate) enum JoinError {
    /// A hub refused.
    #[error("{0}")]
    Refused(JoinRefusal),
    #[error("the token names no hub")]
    NoHub,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("failed to make a key or use the token's certificates")]
    Pki(#[from] PkiError),
    #[error("the hub at {hub} closed the connection")]
    Closed { hub: String, source: hyper::Error },
    #[error("the hub at {hub} did not answer within {} s", ANSWER_TIME.as_secs())]
    Silent { hub: String },
    #[error("the hub at {hub} answered with status {status}")]
    Status { hub: String, status: StatusCode },
    #[error("the hub at {hub} sent an answer that cannot be read")]
    Unreadable { hub: String },
}

/// The part of a problem document that says why.
#[derive(Deserialize)]
struct Problem {
    code: JoinRefusal,
}

// === impl JoinError ===

impl JoinError {
    /// The hub's reason, when it is one that another try cannot change.
    pub(crate) fn final_refusal(&self) -> Option<JoinRefusal> {
        match self {
            Self::Refused(JoinRefusal::Unavailable) => None,
            Self::Refused(refusal) => Some(*refusal),
            _ => None,
        }
    }
}

// === impl HubJoiner ===

impl Joiner for HubJoiner {
    fn join(&self, token: Arc<JoinToken>) -> BoxFuture<'static, Result<StoredIdentity, JoinError>> {
        let key = self.key_for(token.token.id());
        let way = self.way.clone();
        Box::pin(async move { join(&token, key?, &way).await })
    }
}

impl HubJoiner {
    pub(crate) fn new(way: Way) -> Self {
        Self {
            way,
            key: Arc::default(),
        }
    }

    fn key_for(&self, token: &TokenId) -> Result<AgentKey, PkiError> {
        let mut held = self.key.lock();
        if let Some((tried, key)) = held.as_ref()
            && tried == token
        {
            return Ok(key.clone());
        }
        let key = AgentKey::generate()?;
        *held = Some((token.clone(), key.clone()));
        Ok(key)
    }
}

/// Tries the hubs in their order; the first that decides has decided.
async fn join(token: &JoinToken, key: AgentKey, way: &Way) -> Result<StoredIdentity, JoinError> {
    let request = JoinRequest {
        cluster: token.cluster.clone(),
        token: token.token.clone(),
        csr: key.csr_pem.clone(),
    };
    let body = Bytes::from(serde_json::to_vec(&request).unwrap_or_default());
    let mut last = JoinError::NoHub;
    for hub in &token.hubs {
        match ask(token, hub, body.clone(), way).await {
            Ok(answer) => {
                return Ok(StoredIdentity {
                    cluster: token.cluster.to_string(),
                    certificate: answer.certificate,
                    key: key.key_pem,
                    ca_bundle: answer.ca_bundle,
                    hubs: next_hubs(&token.hubs, answer.hubs),
                    token: token.token.id().to_string(),
                });
            }
            Err(error) if error.final_refusal().is_some() => return Err(error),
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::debug!(hub, error = cause, "this hub did not take the join");
                last = error;
            }
        }
    }
    Err(last)
}

async fn ask(
    token: &JoinToken,
    hub: &str,
    body: Bytes,
    way: &Way,
) -> Result<JoinAnswer, JoinError> {
    let config = Arc::new(client_config(&trust(&token.ca_bundle)?, None)?);
    let (tls, _) = way.connect(hub, &config).await?;
    let closed = |source| JoinError::Closed {
        hub: hub.to_owned(),
        source,
    };
    let exchange = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await.map_err(closed)?;
        let asked = async {
            let response = sender.send_request(post(hub, body)).await.map_err(closed)?;
            read(hub, response).await
        };
        tokio::select! {
            answer = asked => answer,
            ended = connection => Err(match ended {
                Ok(()) => JoinError::Unreadable { hub: hub.to_owned() },
                Err(error) => closed(error),
            }),
        }
    };
    let silent = || JoinError::Silent {
        hub: hub.to_owned(),
    };
    timeout(ANSWER_TIME, exchange)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

fn post(hub: &str, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(JOIN_PATH);
    let headers = request.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    if let Ok(host) = http::HeaderValue::from_str(hub) {
        headers.insert(HOST, host);
    }
    request
}

async fn read(hub: &str, response: http::Response<Incoming>) -> Result<JoinAnswer, JoinError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await;
    let unreadable = || JoinError::Unreadable {
        hub: hub.to_owned(),
    };
    let Ok(body) = body.map(http_body_util::Collected::to_bytes) else {
        return Err(unreadable());
    };
    if status.is_success() {
        return serde_json::from_slice(&body).map_err(|serde_json::Error { .. }| unreadable());
    }
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => Err(JoinError::Refused(problem.code)),
        Err(_) => Err(JoinError::Status {
            hub: hub.to_owned(),
            status,
        }),
    }
}
