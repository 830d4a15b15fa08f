//! The credentials of a kubeconfig, as the hub's callers present them.

use std::{
    fmt,
    future::{Ready, ready},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::AUTHORIZATION};
use http_body_util::Empty;
use kube::{
    Config,
    client::{ConfigExt, middleware::AuthLayer},
};
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use strait_runtime::clock;
use tower::{BoxError, Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

/// A plugin's certificate does not say when the plugin would give another one, so it is asked
/// again after this.
const CERTIFICATE_LIFE: Duration = Duration::from_secs(300);
/// A credential that the hub refused is got anew at most this often.
const RENEW_EVERY: Duration = Duration::from_secs(10);

type Authorizer = BoxCloneSyncService<Request<Empty<Bytes>>, Response<()>, BoxError>;

/// Bearer token, from wherever the kubeconfig has it, and client certificate. Tokens from files
/// and plugins are got anew before they end.
pub(crate) struct Credentials {
    config: Config,
    current: Mutex<Arc<Current>>,
}

struct Current {
    authorizer: Option<Authorizer>,
    certificate: Arc<dyn ResolvesClientCert>,
    made: Instant,
}

// === impl Credentials ===

impl Credentials {
    /// Gets them for the first time; a plugin of the kubeconfig runs now.
    pub(crate) async fn new(config: Config) -> Result<Self, kube::Error> {
        let current = load(&config).await?;
        Ok(Self {
            config,
            current: Mutex::new(Arc::new(current)),
        })
    }

    /// The `Bearer …` header; `None` when the kubeconfig has no token.
    pub(crate) async fn bearer(&self) -> Result<Option<HeaderValue>, BoxError> {
        let current = Arc::clone(&self.current.lock());
        let Some(authorizer) = current.authorizer.clone() else {
            return Ok(None);
        };
        let answer = authorizer.oneshot(Request::new(Empty::new())).await?;
        let bearer = |value: &&HeaderValue| value.as_bytes().starts_with(b"Bearer ");
        Ok(answer.headers().get(AUTHORIZATION).filter(bearer).cloned())
    }

    /// The client certificate; one that has none offers none.
    pub(crate) async fn certificate(&self) -> Result<Arc<dyn ResolvesClientCert>, kube::Error> {
        let current = Arc::clone(&self.current.lock());
        let from_plugin = self.config.auth_info.exec.is_some() && current.certificate.has_certs();
        if from_plugin && clock::now() - current.made >= CERTIFICATE_LIFE {
            self.renew().await?;
        }
        Ok(Arc::clone(&self.current.lock().certificate))
    }

    /// Gets them anew because the hub refused them. Returns whether there is anything new to try.
    pub(crate) async fn refused(&self) -> Result<bool, kube::Error> {
        let made = self.current.lock().made;
        if clock::now() - made < RENEW_EVERY {
            return Ok(false);
        }
        self.renew().await?;
        Ok(true)
    }

    async fn renew(&self) -> Result<(), kube::Error> {
        let new = Arc::new(load(&self.config).await?);
        *self.current.lock() = new;
        Ok(())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials([redacted])")
    }
}

/// Reads files and runs plugins, which blocks, so not on the threads that carry streams.
async fn load(config: &Config) -> Result<Current, kube::Error> {
    let config = config.clone();
    let loading = tokio::task::spawn_blocking(move || {
        let boxed = |layer: AuthLayer| BoxCloneSyncService::new(layer.layer(service_fn(echo)));
        let authorizer = config.auth_layer()?.map(boxed);
        let certificate = config.rustls_client_config()?.client_auth_cert_resolver;
        Ok(Current {
            authorizer,
            certificate,
            made: clock::now(),
        })
    });
    match loading.await {
        Ok(loaded) => loaded,
        Err(ended) => Err(kube::Error::Service(Box::new(ended))),
    }
}

/// Answers with the request's own header, which is what the layer above it adds.
fn echo(request: Request<Empty<Bytes>>) -> Ready<Result<Response<()>, BoxError>> {
    let mut response = Response::new(());
    if let Some(header) = request.headers().get(AUTHORIZATION) {
        response.headers_mut().insert(AUTHORIZATION, header.clone());
    }
    ready(Ok(response))
}
