//! Opening connections through a tunnel's front door.

use std::{
    fmt,
    os::fd::{AsRawFd, RawFd},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

use crate::{backend::op, certs, spec::BACKEND_PLAIN};

pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// One byte stream to the backend, whatever it is wrapped in.
pub struct Conn {
    pub io: Box<dyn Io>,
    fd: RawFd,
}

impl Conn {
    /// Drops the connection with a TCP reset instead of an orderly close.
    pub fn reset(self) {
        zero_linger(self.fd);
    }

    /// Orderly close: TLS close_notify where there is one, then FIN.
    pub async fn close(mut self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.io.shutdown()).await;
    }

    /// Starts an upload that the backend keeps a record of. Waiting for its first byte also takes
    /// TLS session tickets off the socket: left unread, they would turn a close into a reset.
    pub async fn start_upload(&mut self, code: u8, id: u64) -> Result<()> {
        self.io.write_all(&op(code, id)).await?;
        self.io.flush().await?;
        self.io.read_u8().await?;
        Ok(())
    }

    /// Sends `buf` to an echoing backend and waits for it to come back.
    pub async fn ping(&mut self, buf: &mut [u8]) -> Result<()> {
        self.io.write_all(buf).await?;
        self.io.flush().await?;
        self.io.read_exact(buf).await?;
        Ok(())
    }
}

pub fn zero_linger(fd: RawFd) {
    let on = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: `fd` is an open socket owned by the caller and `on` outlives the call.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        );
    }
}

/// Where the tunnel accepts connections, and how.
#[derive(Clone, Debug)]
pub enum Front {
    /// `tcp:ADDR`: connecting is enough.
    Tcp(String),
    /// `tls:ADDR`: mTLS, then connected.
    Tls(String),
    /// `connect+tls:ADDR`: mTLS, then an HTTP/1.1 CONNECT.
    ConnectTls(String),
    /// `connect+unix:PATH`: a Unix socket, then an HTTP/1.1 CONNECT.
    ConnectUnix(PathBuf),
}

impl FromStr for Front {
    type Err = anyhow::Error;
    fn from_str(s: &str) -> Result<Self> {
        Ok(match s.split_once(':') {
            Some(("tcp", a)) => Front::Tcp(a.into()),
            Some(("tls", a)) => Front::Tls(a.into()),
            Some(("connect+tls", a)) => Front::ConnectTls(a.into()),
            Some(("connect+unix", p)) => Front::ConnectUnix(p.into()),
            _ => bail!("unknown front {s:?}"),
        })
    }
}

/// The front refused a CONNECT with this HTTP status (0: closed without an answer).
#[derive(Debug)]
pub struct Rejected(pub u16);
impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CONNECT rejected with status {}", self.0)
    }
}
impl std::error::Error for Rejected {}

pub struct Dialer {
    front: Front,
    target: String,
    named: bool,
    tls: TlsConnector,
}

impl Dialer {
    /// `target` is the name that leads to the backend, where addresses do not.
    pub fn new(front: Front, target: Option<&str>, certs_dir: &Path) -> Result<Arc<Self>> {
        let tls = TlsConnector::from(certs::client_config(certs_dir)?);
        Ok(Arc::new(Self {
            front,
            target: target.unwrap_or(BACKEND_PLAIN).into(),
            named: target.is_some(),
            tls,
        }))
    }

    /// Whether each connection may name any address.
    pub fn picks_target(&self) -> bool {
        !self.named && matches!(self.front, Front::ConnectTls(_) | Front::ConnectUnix(_))
    }

    pub async fn dial(&self) -> Result<Conn> {
        self.dial_to(&self.target).await
    }

    pub async fn dial_to(&self, target: &str) -> Result<Conn> {
        match &self.front {
            Front::Tcp(addr) => {
                let tcp = tcp(addr).await?;
                Ok(Conn {
                    fd: tcp.as_raw_fd(),
                    io: Box::new(tcp),
                })
            }
            Front::Tls(addr) => self.tls(addr).await,
            Front::ConnectTls(addr) => connect(self.tls(addr).await?, target).await,
            Front::ConnectUnix(path) => {
                let uds = UnixStream::connect(path).await?;
                connect(
                    Conn {
                        fd: uds.as_raw_fd(),
                        io: Box::new(uds),
                    },
                    target,
                )
                .await
            }
        }
    }

    /// Dials and proves the path end to end with a one-byte echo.
    pub async fn hello(&self) -> Result<Conn> {
        let mut conn = self.dial().await?;
        conn.io.write_all(&op(b'E', 0)).await?;
        conn.ping(&mut [7]).await?;
        Ok(conn)
    }

    async fn tls(&self, addr: &str) -> Result<Conn> {
        let tcp = tcp(addr).await?;
        let fd = tcp.as_raw_fd();
        let name = ServerName::try_from("localhost")?;
        let tls = self.tls.connect(name, tcp).await.context("TLS handshake")?;
        Ok(Conn {
            fd,
            io: Box::new(tls),
        })
    }
}

async fn tcp(addr: &str) -> Result<TcpStream> {
    let tcp = TcpStream::connect(addr)
        .await
        .with_context(|| format!("connecting to {addr}"))?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// Every operation has the client speak first, so nothing can follow the response head.
async fn connect(mut conn: Conn, target: &str) -> Result<Conn> {
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    conn.io.write_all(head.as_bytes()).await?;
    conn.io.flush().await?;
    let (mut buf, mut len) = ([0u8; 1024], 0);
    while !buf[..len].windows(4).any(|w| w == b"\r\n\r\n") {
        let n = conn.io.read(&mut buf[len..]).await?;
        if n == 0 {
            bail!(Rejected(0));
        }
        len += n;
    }
    let status = buf
        .get(9..12)
        .and_then(|s| std::str::from_utf8(s).ok()?.parse().ok());
    match status {
        Some(200) => Ok(conn),
        other => bail!(Rejected(other.unwrap_or(0))),
    }
}
