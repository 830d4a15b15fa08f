//! Services that the member's owner wrote down, for members that are no cluster.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use strait_file_kit::{AgentFile, DocumentError};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::{LookupError, Service, Services, kubernetes::convert};

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Services and EndpointSlices of a file.
#[derive(Debug)]
pub struct FileServices {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Debug)]
struct Read {
    text: String,
    file: AgentFile,
}

/// The file cannot be used.
#[derive(Debug, Error)]
pub enum ServicesFileError {
    /// It cannot be read.
    #[error("failed to read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It says something that cannot be.
    #[error("{path} cannot be used", path = path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DocumentError,
    },
}

// === impl FileServices ===

impl FileServices {
    /// Reads a file for the first time.
    ///
    /// # Errors
    /// Names the file, the document and the field.
    pub fn open(path: PathBuf) -> Result<Arc<Self>, ServicesFileError> {
        let read = Mutex::new(read(&path)?);
        Ok(Arc::new(Self { path, read }))
    }

    /// Reads it again whenever it has changed. What is wrong leaves the last good one in force.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut told = None;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            match read(&self.path) {
                Ok(new) => {
                    told = None;
                    let mut read = self.read.lock();
                    if read.text != new.text {
                        tracing::info!(file = %self.path.display(), "loaded");
                        *read = new;
                    }
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    let problem = Some((error.to_string(), cause));
                    if told != problem {
                        tracing::warn!(?problem, "the last good file stays in force");
                        told = problem;
                    }
                }
            }
        }
    }

    fn find(&self, namespace: &str, service: &str) -> Option<Service> {
        let key = (namespace.to_owned(), service.to_owned());
        let read = self.read.lock();
        let found = read.file.services.get(&key)?;
        let slices = read.file.slices.get(&key);
        Some(convert(found, slices.map_or(&[], Vec::as_slice)))
    }
}

impl Services for FileServices {
    fn look_up<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<Service>, LookupError>> {
        let found = self.find(namespace, service);
        Box::pin(async { Ok(found) })
    }

    fn written_down(&self) -> bool {
        true
    }
}

fn read(path: &PathBuf) -> Result<Read, ServicesFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| ServicesFileError::Read {
        path: path.clone(),
        source,
    })?;
    let file = AgentFile::parse(&text).map_err(|source| ServicesFileError::Document {
        path: path.clone(),
        source,
    })?;
    Ok(Read { text, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1]}]
ports: [{port: 8080}]
";

    #[tokio::test(start_paused = true)]
    async fn a_file_is_followed_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.yaml");
        std::fs::write(&path, WEB).unwrap();
        let services = FileServices::open(path.clone()).unwrap();
        let stop = CancellationToken::new();
        let following = Arc::clone(&services).follow(stop.clone());
        let tasks = strait_runtime::Tasks::default();
        tasks.spawn_one(following);
        let port = || services.find("default", "web").unwrap().endpoints[0].ports[0].1;
        assert_eq!(port(), 8080);
        std::fs::write(&path, "kind: x").unwrap();
        tokio::time::sleep(2 * EVERY).await;
        assert_eq!(port(), 8080);
        std::fs::write(&path, WEB.replace("8080", "9090")).unwrap();
        tokio::time::sleep(2 * EVERY).await;
        assert_eq!(port(), 9090);
        assert_eq!(services.find("other", "web"), None);
        stop.cancel();
    }
}
