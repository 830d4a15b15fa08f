//! Renewing the certificate inside of a session.

use std::{fmt, io, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use strait_pki::{AgentKey, PkiError};
use strait_tunnel::{Open, OpenError, Session, read_value, write_value};
use strait_types::{JoinRefusal, RenewAnswer, RenewRequest, Target};
use thiserror::Error;
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{StoredIdentity, next_hubs};

/// How long a renewal may take.
const TIME: Duration = Duration::from_secs(30);

/// Renews.
pub(crate) trait Renewer: fmt::Debug + Send + Sync + 'static {
    /// Gets the next identity in place of this one.
    fn renew(
        &self,
        current: Arc<StoredIdentity>,
    ) -> BoxFuture<'_, Result<StoredIdentity, RenewError>>;
}

/// Why there is no new certificate.
#[derive(Debug, Error)]
pub(crate) enum RenewError {
    #[error("there is no session with a hub to renew over")]
    NoSession,
    #[error("the hub does not renew over this session")]
    Open(#[from] OpenError),
    #[error("the renewal broke off")]
    Io(#[from] io::Error),
    #[error("the renewal took too long")]
    Slow,
    #[error("failed to make a key")]
    Pki(#[from] PkiError),
    #[error("the hub refused the renewal: {0}")]
    Refused(JoinRefusal),
}

/// Renews over one session, with a new key.
pub(crate) async fn renew_over(
    session: &Session,
    current: &StoredIdentity,
) -> Result<StoredIdentity, RenewError> {
    let key = AgentKey::generate()?;
    let exchange = async {
        let (mut stream, _) = session
            .open(Open::target(Target::Renew.to_string()))
            .await?;
        let request = RenewRequest {
            csr: key.csr_pem.clone(),
        };
        write_value(&mut stream, &request, RenewRequest::MAX_BYTES).await?;
        stream.shutdown().await?;
        let answer = read_value(&mut stream, RenewRequest::MAX_BYTES).await?;
        answer.ok_or_else(|| RenewError::Io(io::ErrorKind::UnexpectedEof.into()))
    };
    let answer = timeout(TIME, exchange)
        .await
        .unwrap_or(Err(RenewError::Slow))?;
    match answer {
        RenewAnswer::Refused(refusal) => Err(RenewError::Refused(refusal)),
        RenewAnswer::Issued(answer) => Ok(StoredIdentity {
            certificate: answer.certificate,
            key: key.key_pem,
            ca_bundle: answer.ca_bundle,
            hubs: next_hubs(&current.hubs, answer.hubs),
            ..current.clone()
        }),
    }
}
