//! The hub's front end for programs on its own machine: HTTP in clear on a Unix socket. Whoever may
//! open the socket is one configured user, and has that user's rights and no more.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::net::{UnixListener, UnixStream};

use crate::caller::User;

/// Where callers of the socket come from, as far as logs and services are told.
pub(crate) const SOURCE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The socket, bound. Its file goes when this does.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Who its callers are.
    pub(crate) user: Arc<User>,
}

// === impl LocalSocket ===

impl LocalSocket {
    /// Binds `path`, for the owner of this process alone. A socket that nobody listens on any more
    /// makes room; anything else that is there stays.
    ///
    /// # Errors
    /// When somebody listens there, or the file cannot be made.
    pub(crate) async fn bind(path: &Path, user: &str) -> io::Result<Self> {
        if let Ok(there) = fs::symlink_metadata(path) {
            if !there.file_type().is_socket() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "there is a file already",
                ));
            }
            if UnixStream::connect(path).await.is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
        }
        // Nobody gets in before the mode is right.
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let _ = fs::remove_file(&new);
        let listener = UnixListener::bind(&new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        fs::rename(&new, path)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            user: Arc::new(User {
                name: user.to_owned(),
                groups: vec!["system:authenticated".to_owned()],
                ..User::default()
            }),
        })
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_taken_over_only_from_the_dead() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hub.sock");
        let first = LocalSocket::bind(&path, "local").await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = LocalSocket::bind(&path, "local").await;
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        // What a process leaves that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(LocalSocket::bind(&path, "local").await.unwrap());
        fs::write(&path, "data").unwrap();
        assert!(LocalSocket::bind(&path, "local").await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }
}
