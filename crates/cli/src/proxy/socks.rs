//! What the proxy does with a SOCKS5 connection (RFC 1928): CONNECT, without authentication, names
//! left to the hub.

use std::{net::SocketAddr, time::Duration};

use fast_socks5::{
    ReplyError, Socks5Command,
    server::{Socks5ServerProtocol, SocksServerError},
    util::target_addr::TargetAddr,
};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use strait_runtime::{ResetOnDrop, Tasks};
use strait_types::RefusalCode;
use tokio::{io::copy_bidirectional, net::TcpStream, time::timeout};

use super::hub::{Hub, HubError, Opened};

/// The first byte of a SOCKS5 connection.
pub(super) const VERSION: u8 = 5;
/// How long a client may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Serves one connection; what goes wrong its client is told as far as the protocol can.
pub(super) async fn serve(tcp: TcpStream, hub: &Hub, tasks: &Tasks) {
    if let Ok(Some((tcp, stream))) = Box::pin(open(tcp, hub, tasks)).await {
        // A stream that breaks at the hub breaks for the local client, too.
        let (mut tcp, mut stream) = (ResetOnDrop::new(tcp), TokioIo::new(stream));
        let _ = copy_bidirectional(&mut tcp, &mut stream).await;
    }
}

/// Does what the client asks for; `None` when it was refused.
async fn open(
    tcp: TcpStream,
    hub: &Hub,
    tasks: &Tasks,
) -> Result<Option<(TcpStream, Upgraded)>, SocksServerError> {
    let asking = async {
        let protocol = Socks5ServerProtocol::accept_no_auth(tcp).await?;
        protocol.read_command().await
    };
    let Ok(asked) = timeout(REQUEST_TIME, asking).await else {
        return Ok(None);
    };
    let (protocol, command, target) = asked?;
    if command != Socks5Command::TCPConnect {
        protocol
            .reply_error(&ReplyError::CommandNotSupported)
            .await?;
        return Ok(None);
    }
    match hub.open(&authority(&target), tasks).await {
        Ok(Opened::Stream(stream)) => {
            // Nobody needs the address that the hub connects from.
            let bound = SocketAddr::from(([0, 0, 0, 0], 0));
            Ok(Some((protocol.reply_success(bound).await?, stream)))
        }
        Ok(Opened::Refused(refusal)) => {
            let code = refusal.headers().get("strait-code");
            let code = code.and_then(|code| code.to_str().ok()).unwrap_or_default();
            let mut all = RefusalCode::ALL.iter().copied();
            protocol
                .reply_error(&reply(all.find(|known| known.as_str() == code)))
                .await?;
            Ok(None)
        }
        Err(error) => {
            protocol.reply_error(&unreachable(&error)).await?;
            Ok(None)
        }
    }
}

fn authority(target: &TargetAddr) -> String {
    match target {
        TargetAddr::Ip(address) => address.to_string(),
        TargetAddr::Domain(name, port) => format!("{name}:{port}"),
    }
}

fn unreachable(error: &HubError) -> ReplyError {
    match error {
        HubError::Slow | HubError::Silent { .. } => ReplyError::ConnectionTimeout,
        _ => ReplyError::NetworkUnreachable,
    }
}

/// The protocol's nearest word for a refusal.
fn reply(code: Option<RefusalCode>) -> ReplyError {
    use RefusalCode as Code;
    match code {
        Some(
            Code::NotAllowed
            | Code::Unauthenticated
            | Code::PortNotExposed
            | Code::AgentRefused
            | Code::Revoked,
        ) => ReplyError::ConnectionNotAllowed,
        Some(
            Code::ClusterNotFound
            | Code::EntrypointNotFound
            | Code::AmbiguousName
            | Code::ServiceNotFound
            | Code::NoEndpoints,
        ) => ReplyError::HostUnreachable,
        Some(Code::AgentNotConnected | Code::TunnelLost | Code::Draining) => {
            ReplyError::NetworkUnreachable
        }
        Some(Code::ConnectionRefused) => ReplyError::ConnectionRefused,
        Some(Code::DialTimeout) => ReplyError::ConnectionTimeout,
        // What the protocol has no word for.
        Some(_) | None => ReplyError::GeneralFailure,
    }
}
