//! Our own programs as static binaries and images.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::{
    command::{self, Job},
    error::Error,
    image::Image,
    paths,
    progress::Progress,
};

/// How much the compiler shall try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildProfile {
    /// Quick to build; for demos and tests.
    Dev,
    /// As users get it; for measurements.
    Release,
}

/// A package of this workspace to be built as one binary without shared libraries.
#[derive(Clone, Debug)]
pub struct StaticBuild {
    /// The package.
    pub package: String,
    /// The binary in it.
    pub bin: String,
    /// How.
    pub profile: BuildProfile,
}

/// The images of ours that clusters need: `strait.dev/strait:VERSION` and `strait.dev/testbox:VERSION`.
#[derive(Clone, Debug)]
pub struct Images {
    /// The product.
    pub strait: PathBuf,
    /// The test server and client.
    pub testbox: PathBuf,
    /// The product's binary, which also runs on this machine as the command line.
    pub strait_binary: PathBuf,
}

impl BuildProfile {
    fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }
}

impl StaticBuild {
    /// The `dev` profile of `bin` in `package`.
    pub fn dev(package: &str, bin: &str) -> Self {
        Self {
            package: package.to_owned(),
            bin: bin.to_owned(),
            profile: BuildProfile::Dev,
        }
    }

    /// Builds it with cargo, which does nothing if nothing changed, and returns the binary's path.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with the compiler's last lines.
    pub async fn build(&self, progress: &Progress) -> Result<PathBuf, Error> {
        let step = progress.step(format!("static {}", self.bin));
        let job = Job::new(format!("build {}", self.bin), "cargo")
            .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
            .current_dir(paths::workspace())
            .args(["build", "--locked", "--message-format", "json-render-diagnostics"])
            .args(["--package", &self.package, "--bin", &self.bin])
            .args(["--profile", self.profile.name(), "--target", &target()])
            // Other flags than those of a plain build: in one folder the two would undo each other.
            .arg("--target-dir")
            .arg(target_folder().await?.join("static"));
        let run = |source| Error::Run {
            program: "cargo".to_owned(),
            source,
        };
        let mut command = job.into_command();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(run)?;
        let mut said = String::new();
        let mut binary = None;
        if let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) {
            let mut lines = BufReader::new(stdout).lines();
            let read = async {
                while let Some(line) = lines.next_line().await? {
                    let artifact = Artifact::parse(&line);
                    step.message(artifact.name);
                    binary = artifact.executable.or_else(|| binary.take());
                }
                Ok(())
            };
            tokio::try_join!(read, async {
                stderr.read_to_string(&mut said).await.map(drop)
            })
            .map_err(run)?;
        }
        let status = child.wait().await.map_err(run)?;
        match binary.filter(|_| status.success()) {
            Some(binary) => {
                step.finish("built");
                Ok(binary)
            }
            None => {
                let argv = ["cargo".into(), "build".into()];
                Err(command::failed(
                    format!("build {}", self.bin),
                    &argv,
                    status,
                    &said,
                ))
            }
        }
    }
}

impl Images {
    /// Builds both programs and writes their images to the user's cache folder.
    ///
    /// # Errors
    ///
    /// As [`StaticBuild::build`] and [`Image::write`].
    pub async fn build(
        version: &str,
        profile: BuildProfile,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let strait = StaticBuild {
            package: "strait".to_owned(),
            bin: "strait".to_owned(),
            profile,
        };
        let testbox = StaticBuild {
            package: "strait-testbox".to_owned(),
            bin: "testbox".to_owned(),
            profile,
        };
        let strait_binary = strait.build(progress).await?;
        let testbox_binary = testbox.build(progress).await?;
        Ok(Self {
            strait: image("strait", version, &strait_binary)?,
            testbox: image("testbox", version, &testbox_binary)?,
            strait_binary,
        })
    }

    /// Both tar files, for [`crate::FleetSpec::images`].
    pub fn tars(&self) -> Vec<PathBuf> {
        vec![self.strait.clone(), self.testbox.clone()]
    }
}

/// Writes `strait.dev/NAME:VERSION`, unless the binary is older than the image.
fn image(name: &str, version: &str, binary: &Path) -> Result<PathBuf, Error> {
    let folder = paths::cache().join("images");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    let tar = folder.join(format!("{name}-{version}.tar"));
    Image::of_program(format!("strait.dev/{name}:{version}"), name, binary).write(&tar)?;
    Ok(tar)
}

/// One line of cargo's JSON.
#[derive(Default)]
struct Artifact {
    name: String,
    executable: Option<PathBuf>,
}

impl Artifact {
    fn parse(line: &str) -> Self {
        let message: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        Self {
            name: message["target"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            executable: message["executable"].as_str().map(PathBuf::from),
        }
    }
}

fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

async fn target_folder() -> Result<PathBuf, Error> {
    let metadata = Job::new("find cargo's target folder", "cargo")
        .current_dir(paths::workspace())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .run()
        .await?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|source| Error::Record {
            path: "cargo metadata".into(),
            source,
        })?;
    let folder = metadata["target_directory"].as_str().map(PathBuf::from);
    Ok(folder.unwrap_or_else(|| paths::workspace().join("target")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_read_from_cargos_messages() {
        let line =
            r#"{"reason":"compiler-artifact","target":{"name":"strait"},"executable":"/t/strait"}"#;
        assert_eq!(
            Artifact::parse(line).executable,
            Some(PathBuf::from("/t/strait"))
        );
        let library = r#"{"reason":"compiler-artifact","target":{"name":"x"},"executable":null}"#;
        assert_eq!(Artifact::parse(library).executable, None);
        assert_eq!(Artifact::parse("not json").executable, None);
    }
}
