//! Builds Kubernetes from source, once per version.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{
    command::{self, Job},
    error::Error,
    image::hex,
    paths,
    progress::{Progress, Step},
};

/// The version of everything that a cluster runs, and of kubectl.
pub const KUBERNETES_VERSION: &str = "v1.34.4";

/// Everything that goes into the binaries, below `testbed/kube` of the checkout.
const SOURCES: [(&str, &str); 5] = [
    ("go.mod", include_str!("../../../testbed/kube/go.mod")),
    ("go.sum", include_str!("../../../testbed/kube/go.sum")),
    ("main.go", include_str!("../../../testbed/kube/main.go")),
    ("dns.go", include_str!("../../../testbed/kube/dns.go")),
    (
        "pause/main.go",
        include_str!("../../../testbed/kube/pause/main.go"),
    ),
];

/// The folder with Kubernetes' binaries: `kube` (all components and kubectl) and `pause`.
#[derive(Clone, Debug)]
pub struct Kube {
    folder: PathBuf,
}

impl Kube {
    /// Binaries that were built by hand.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if `folder` lacks one.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        match ["kube", "pause"]
            .into_iter()
            .find(|name| !folder.join(name).exists())
        {
            None => Ok(Self { folder }),
            Some(name) => Err(Error::Missing {
                missing: folder.join(name).display().to_string(),
                packages: "nothing, but build `testbed/kube` with go".to_owned(),
            }),
        }
    }

    /// The binaries of this checkout's sources, from the user's cache or built now. A first build takes
    /// minutes, and needs Go and its module proxy.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without Go, [`Error::Command`] if the build fails.
    pub async fn ensure(progress: &Progress) -> Result<Self, Error> {
        let title = format!("Kubernetes {}", KUBERNETES_VERSION.trim_start_matches('v'));
        let folder = paths::cache().join("kube").join(key());
        if let Ok(kube) = Self::at(&folder) {
            progress.step(title).finish("ready from cache");
            return Ok(kube);
        }
        let parent = folder.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        let lock_path = folder.with_extension("lock");
        let lock = File::create(&lock_path).map_err(Error::file("create", &lock_path))?;
        let waiting = progress.step("Kubernetes");
        waiting.message("another process builds it");
        let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock))
            .await
            .map_err(std::io::Error::other)
            .and_then(|locked| locked)
            .map_err(Error::file("lock", &lock_path))?;
        drop(waiting);
        if Self::at(&folder).is_err() {
            build(&title, &folder, progress).await?;
        }
        drop(lock);
        // A builder that waits for it has it open, and will find the binaries.
        fs::remove_file(&lock_path).ok();
        Self::at(folder)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The binary that is every component; a link to it named after a component is that component.
    pub(crate) fn binary(&self) -> PathBuf {
        self.folder.join("kube")
    }

    pub(crate) fn pause(&self) -> PathBuf {
        self.folder.join("pause")
    }
}

/// Names what the sources and the version make.
fn key() -> String {
    let mut hash = Sha256::new();
    hash.update(KUBERNETES_VERSION);
    for (name, content) in SOURCES {
        hash.update(format!("\0{name}\0{}\0", content.len()));
        hash.update(content);
    }
    let digest = hex(&hash.finalize());
    format!("{KUBERNETES_VERSION}-{}", &digest[..16])
}

async fn build(title: &str, folder: &Path, progress: &Progress) -> Result<(), Error> {
    let new = folder.with_extension("new");
    // What a killed build left.
    fs::remove_dir_all(&new).ok();
    fs::create_dir_all(&new).map_err(Error::file("create", &new))?;
    let packages = go("list what Kubernetes is made of")
        .args(["list", "-deps", ".", "./pause"])
        .run()
        .await
        .map_err(without_go)?;
    let total = u64::try_from(packages.lines().count()).unwrap_or_default();
    let step = progress.counted(title, total);
    let flags = linker_flags();
    let job = go("build Kubernetes")
        .args(["build", "-v", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(&new)
        .args([".", "./pause"]);
    run_and_count(job, &step).await?;
    fs::rename(&new, folder).map_err(Error::file("create", folder))?;
    step.finish("built");
    Ok(())
}

fn go(what: &str) -> Job {
    let sources = paths::workspace().join("testbed/kube");
    Job::new(what, "go")
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly")
        .current_dir(&sources)
}

fn without_go(error: Error) -> Error {
    match error {
        Error::Run { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::Missing {
                missing: "go".to_owned(),
                packages: "Go 1.24 or later (https://go.dev/doc/install)".to_owned(),
            }
        }
        other => other,
    }
}

fn linker_flags() -> String {
    let minor = KUBERNETES_VERSION.split('.').nth(1).unwrap_or_default();
    let base = "k8s.io/component-base/version";
    format!(
        "-s -w -X {base}.gitVersion={KUBERNETES_VERSION} -X {base}.gitMajor=1 -X {base}.gitMinor={minor} \
         -X {base}.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES_VERSION}"
    )
}

/// `go build -v` writes one line per package that it compiles.
async fn run_and_count(job: Job, step: &Step) -> Result<(), Error> {
    let run = |source| Error::Run {
        program: "go".to_owned(),
        source,
    };
    let mut command = job.into_command();
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(run)?;
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Some(line) = lines.next_line().await.map_err(run)? {
            step.advance();
            step.message(line.as_str());
            said.push_str(&line);
            said.push('\n');
        }
    }
    let status = child.wait().await.map_err(run)?;
    if status.success() {
        return Ok(());
    }
    let argv = ["go".into(), "build".into()];
    Err(command::failed(
        "build Kubernetes".to_owned(),
        &argv,
        status,
        &said,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_names_the_version_and_is_stable() {
        assert!(key().starts_with("v1.34.4-"));
        assert_eq!(key(), key());
    }

    #[test]
    fn the_module_requires_the_version_that_is_announced() {
        let module = SOURCES[0].1;
        assert!(module.contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION}\n")));
    }
}
