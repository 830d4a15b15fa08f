//! How a connection becomes a WebSocket.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error,
        client::IntoClientRequest,
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

use crate::stream::WebSocket;

/// The longest message that is taken: larger than any that is made here, so that another
/// implementation has room.
const MAX_MESSAGE: usize = 1 << 20;

/// A request that asks for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAWebSocket {
    /// Another method than GET, or another version than HTTP/1.1.
    #[error("a WebSocket begins with a GET of HTTP/1.1")]
    Method,
    /// A header is missing or says something else.
    #[error("a WebSocket needs the header `{0}`")]
    Header(&'static str),
    /// The subprotocol is another one.
    #[error("the WebSocket is for another subprotocol")]
    Protocol,
}

/// Why a server gave no WebSocket.
#[derive(Debug, Error)]
pub enum DialError {
    /// It answered with this status, as a proxy or a load balancer does that knows no WebSockets.
    #[error("the answer to the WebSocket request is {0}")]
    Status(StatusCode),
    /// The connection broke, or what came back is no WebSocket.
    #[error("no WebSocket came about")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Asks for a WebSocket with this subprotocol at `ws://host/path`, over a connection that stands.
///
/// # Errors
/// When the server answers with anything else.
pub async fn dial<IO>(
    io: IO,
    host: &str,
    path: &str,
    protocol: &'static str,
) -> Result<WebSocket<IO>, DialError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |error: Error| DialError::Failed(error.into());
    let uri: Uri = format!("ws://{host}{path}")
        .parse()
        .map_err(|error: http::uri::InvalidUri| DialError::Failed(error.into()))?;
    let mut request = uri.into_client_request().map_err(failed)?;
    let protocol = HeaderValue::from_static(protocol);
    request
        .headers_mut()
        .insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    // Its state is large, and it is needed once.
    match Box::pin(client_async_with_config(request, io, Some(config()))).await {
        Ok((socket, _)) => Ok(WebSocket::new(socket)),
        Err(Error::Http(response)) => Err(DialError::Status(response.status())),
        Err(error) => Err(failed(error)),
    }
}

/// The answer that makes a WebSocket of the connection, once it has been sent.
///
/// # Errors
/// When the request asks for something else.
pub fn answer<B>(
    request: &Request<B>,
    protocol: &'static str,
) -> Result<Response<()>, NotAWebSocket> {
    if request.method() != Method::GET || request.version() != Version::HTTP_11 {
        return Err(NotAWebSocket::Method);
    }
    let headers = request.headers();
    if !names(headers, &CONNECTION, "upgrade") {
        return Err(NotAWebSocket::Header("Connection: Upgrade"));
    }
    if !names(headers, &UPGRADE, "websocket") {
        return Err(NotAWebSocket::Header("Upgrade: websocket"));
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|v| v != "13") {
        return Err(NotAWebSocket::Header("Sec-WebSocket-Version: 13"));
    }
    if !names(headers, &SEC_WEBSOCKET_PROTOCOL, protocol) {
        return Err(NotAWebSocket::Protocol);
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .ok_or(NotAWebSocket::Header("Sec-WebSocket-Key"))?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    let accept = accept.unwrap_or_else(|_never| HeaderValue::from_static(""));
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    Ok(response)
}

/// The server's end of a connection that has become a WebSocket.
pub async fn accept<IO>(io: IO) -> WebSocket<IO>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    WebSocket::new(WebSocketStream::from_raw_socket(io, Role::Server, Some(config())).await)
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        // What is written goes out; the layers above keep their own bounds.
        .write_buffer_size(0)
}

/// Whether one of the words of a header is this one.
fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    words.any(|found| found.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(change: impl FnOnce(&mut Request<()>)) -> Request<()> {
        let mut request = Request::new(());
        let headers = request.headers_mut();
        for (name, value) in [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "other, strait"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        change(&mut request);
        request
    }

    #[test]
    fn the_answer_is_that_of_the_specification() {
        let answer = answer(&request(|_| {}), "strait").unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        // RFC 6455, 1.3.
        assert_eq!(
            answer.headers()[SEC_WEBSOCKET_ACCEPT],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert_eq!(answer.headers()[SEC_WEBSOCKET_PROTOCOL], "strait");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (missing, told) in [
            ("connection", "Connection: Upgrade"),
            ("upgrade", "Upgrade: websocket"),
            ("sec-websocket-version", "Sec-WebSocket-Version: 13"),
            ("sec-websocket-key", "Sec-WebSocket-Key"),
        ] {
            let request = request(|r| drop(r.headers_mut().remove(missing)));
            assert_eq!(
                answer(&request, "strait").unwrap_err(),
                NotAWebSocket::Header(told)
            );
        }
        assert_eq!(
            answer(&request(|_| {}), "chat").unwrap_err(),
            NotAWebSocket::Protocol
        );
        let post = request(|r| *r.method_mut() = Method::POST);
        assert_eq!(answer(&post, "strait").unwrap_err(), NotAWebSocket::Method);
    }
}
