//! Files whose content matters, read again when it changes.

use std::{io, path::PathBuf, time::Duration};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::io::AsyncReadExt;

use crate::{PkiError, Reloadable};

/// The longest file that is read, in bytes: some hundred certificates.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// How often the files are looked at. Content is compared, not times: a Secret's mount swaps
/// links, and two writes within one tick of a file system's clock look alike.
const EVERY: Duration = Duration::from_secs(1);

/// A few files that change together, such as a certificate and its key.
#[derive(Debug)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    seen: Option<[u8; 32]>,
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("failed to read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has more than [`MAX_FILE_BYTES`].
    #[error("{path} is longer than {MAX_FILE_BYTES} bytes", path = .0.display())]
    TooLong(PathBuf),
    /// Its content is wrong.
    #[error("failed to use {paths}")]
    Content {
        /// The files.
        paths: String,
        /// Why.
        source: Box<PkiError>,
    },
}

// === impl FileWatch ===

impl FileWatch {
    /// Watches these files; the first [`poll`](Self::poll) counts as a change.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, seen: None }
    }

    /// The contents of the files when any has changed since the last call that returned some.
    ///
    /// # Errors
    /// When one cannot be read or is too long.
    pub async fn poll(&mut self) -> Result<Option<Vec<Vec<u8>>>, FileError> {
        let read = self.contents().await;
        if read.is_err() {
            // What is read next is new, also when it is what was there before.
            self.seen = None;
        }
        let (contents, hash) = read?;
        Ok((self.seen.replace(hash) != Some(hash)).then_some(contents))
    }

    /// The contents of all files and what stands for them.
    async fn contents(&self) -> Result<(Vec<Vec<u8>>, [u8; 32]), FileError> {
        let mut contents = Vec::with_capacity(self.paths.len());
        let mut hash = Sha256::new();
        for path in &self.paths {
            let content = read(path).await?;
            hash.update(
                u64::try_from(content.len())
                    .unwrap_or(u64::MAX)
                    .to_be_bytes(),
            );
            hash.update(&content);
            contents.push(content);
        }
        Ok((contents, hash.finalize().into()))
    }

    /// Reads the files and makes a value of them, whether they have changed or not.
    ///
    /// # Errors
    /// When a file cannot be read or `parse` refuses the contents.
    pub async fn load_now<T>(
        &mut self,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, PkiError>,
    ) -> Result<T, FileError> {
        let (contents, hash) = self.contents().await?;
        self.seen = Some(hash);
        parse(&contents).map_err(|source| self.refused(source))
    }

    /// Reads the files and makes a value of them when any has changed since the last call.
    ///
    /// # Errors
    /// When a file cannot be read or `parse` refuses the contents.
    pub async fn load<T>(
        &mut self,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, PkiError>,
    ) -> Result<Option<T>, FileError> {
        let Some(contents) = self.poll().await? else {
            return Ok(None);
        };
        let made = parse(&contents).map(Some);
        made.map_err(|source| self.refused(source))
    }

    fn refused(&self, source: PkiError) -> FileError {
        let paths: Vec<String> = self.paths.iter().map(|p| p.display().to_string()).collect();
        FileError::Content {
            paths: paths.join(", "),
            source: Box::new(source),
        }
    }
}

/// Keeps `value` at what the files say, looking once a second, for ever. What is wrong is told
/// through `value` and logged once; the last good content stays in force.
pub async fn follow_files<T>(
    mut watch: FileWatch,
    parse: impl Fn(&[Vec<u8>]) -> Result<T, PkiError>,
    value: Reloadable<T>,
) {
    let mut told = None;
    loop {
        match watch.load(&parse).await {
            Ok(None) => {}
            Ok(Some(new)) => {
                value.offer(Ok::<_, FileError>(new));
                told = None;
                tracing::info!(files = ?watch.paths, "files loaded");
            }
            Err(error) => {
                value.offer(Err::<T, _>(error));
                let problem = value.problem();
                if told != problem {
                    tracing::warn!(
                        problem = problem.as_deref(),
                        "last good files stay in force"
                    );
                    told = problem;
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn read(path: &PathBuf) -> Result<Vec<u8>, FileError> {
    let fail = |source| FileError::Read {
        path: path.clone(),
        source,
    };
    let file = tokio::fs::File::open(path).await.map_err(fail)?;
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut content)
        .await
        .map_err(fail)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
        return Err(FileError::TooLong(path.clone()));
    }
    Ok(content)
}
