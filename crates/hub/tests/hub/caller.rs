//! A caller, who writes HTTP by hand.

use std::sync::Arc;

use strait_pki::{Bundle, Identity, ServerTrust, client_config};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    answer::Answer,
    world::{World, soon},
};

/// A caller's TLS connection to the hub.
pub(crate) struct Caller {
    pub(crate) tls: TlsStream<TcpStream>,
}

// === impl Caller ===

impl Caller {
    /// Connects, asks for this server name, and shows this certificate.
    pub(crate) async fn connect(world: &World, name: &str, identity: Option<&Identity>) -> Self {
        let roots = Bundle::from_pem(world.hub_ca.certificate_pem().as_bytes()).unwrap();
        let trust = ServerTrust::Roots(Arc::clone(roots.roots()));
        let config = client_config(&trust, identity).unwrap();
        let tcp = TcpStream::connect(world.address).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from(name.to_owned()).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        Self {
            tls: soon("a handshake", connector.connect(name, tcp))
                .await
                .unwrap(),
        }
    }

    /// Connects to the hub under its own name, without a certificate.
    pub(crate) async fn new(world: &World) -> Self {
        Self::connect(world, "hub.test", None).await
    }

    /// Sends text as it is.
    pub(crate) async fn send(&mut self, text: &str) {
        self.tls.write_all(text.as_bytes()).await.unwrap();
        self.tls.flush().await.unwrap();
    }

    /// Sends a request without a body and reads the answer.
    pub(crate) async fn ask(&mut self, head: &str) -> Answer {
        self.send(&format!("{}\r\n\r\n", head.replace('\n', "\r\n")))
            .await;
        self.answer().await
    }

    /// Reads an answer with its body.
    pub(crate) async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        let len = answer
            .header("content-length")
            .map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        soon("a body", self.tls.read_exact(&mut body))
            .await
            .unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    /// Reads the head of an answer and not a byte more.
    pub(crate) async fn head(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon("a head", self.tls.read_u8()).await.unwrap());
        }
        Answer::parse(&String::from_utf8(head).unwrap())
    }

    /// Asks for a stream with a token; the answer says whether there is one.
    pub(crate) async fn tunnel(&mut self, to: &str, token: &str) -> Answer {
        let head =
            format!("CONNECT {to} HTTP/1.1\nhost: {to}\nproxy-authorization: Bearer {token}");
        self.send(&format!("{}\r\n\r\n", head.replace('\n', "\r\n")))
            .await;
        let answer = self.head().await;
        if answer.status == 200 {
            answer
        } else {
            self.rest_of(answer).await
        }
    }

    async fn rest_of(&mut self, mut answer: Answer) -> Answer {
        let len = answer
            .header("content-length")
            .map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        soon("a body", self.tls.read_exact(&mut body))
            .await
            .unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    /// Reads so many bytes as text.
    pub(crate) async fn read(&mut self, len: usize) -> String {
        let mut bytes = vec![0; len];
        soon("some bytes", self.tls.read_exact(&mut bytes))
            .await
            .unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Reads until the connection is over, however it ends.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = soon("the end", self.tls.read_to_end(&mut bytes)).await;
        bytes
    }
}
