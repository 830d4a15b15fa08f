//! Container images made of local files, without a container tool.
//!
//! An image is one layer over nothing. The bytes depend on the content alone: no time, no user, no order of a
//! folder goes into them, so the same files make the same digest.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Who runs an image's program unless the pod says otherwise; in no image's `/etc/passwd`, as there is none.
const USER: &str = "65532:65532";

/// What an image holds and runs.
#[derive(Clone, Debug)]
pub struct Image {
    /// Registry, repository and tag. No registry is ever asked.
    pub name: String,
    /// The files, in the order in which they are written.
    pub files: Vec<ImageFile>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
}

/// One executable file of an image.
#[derive(Clone, Debug)]
pub struct ImageFile {
    /// Where it is in the image, without the leading slash.
    pub path: String,
    /// Where it is on this machine.
    pub source: PathBuf,
}

impl Image {
    /// An image with one program at its root: `/NAME`, which is also what it runs.
    pub fn of_program(image: impl Into<String>, program: &str, source: impl Into<PathBuf>) -> Self {
        Self {
            name: image.into(),
            files: vec![ImageFile {
                path: program.to_owned(),
                source: source.into(),
            }],
            entrypoint: vec![format!("/{program}")],
        }
    }

    /// Writes the image as a tar file in the OCI image layout, for `ctr images import`, `kind load
    /// image-archive` and the like.
    ///
    /// # Errors
    ///
    /// [`Error::File`] naming the file that could not be read or written.
    pub fn write(&self, to: &Path) -> Result<(), Error> {
        let layer_path = to.with_extension("layer");
        let written = self.write_with_layer(to, &layer_path);
        // Left behind only if the folder itself is gone.
        let _gone = fs::remove_file(&layer_path);
        written
    }

    fn write_with_layer(&self, to: &Path, layer_path: &Path) -> Result<(), Error> {
        let layer = self.write_layer(layer_path)?;
        let config = Blob::json(&self.config(&layer.digest));
        let manifest = Blob::json(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
        }));
        let file = File::create(to).map_err(Error::file("create", to))?;
        let mut tar = tar::Builder::new(io::BufWriter::new(file));
        let wrote = |result: io::Result<()>| result.map_err(Error::file("write", to));
        wrote(append(
            &mut tar,
            "oci-layout",
            0o644,
            &br#"{"imageLayoutVersion":"1.0.0"}"#[..],
        ))?;
        wrote(append(
            &mut tar,
            "index.json",
            0o644,
            self.index(&manifest).to_string().as_bytes(),
        ))?;
        for blob in [&manifest, &config] {
            wrote(append(&mut tar, &blob.path(), 0o644, blob.bytes.as_slice()))?;
        }
        let content = File::open(layer_path).map_err(Error::file("open", layer_path))?;
        wrote(append_sized(
            &mut tar,
            &layer.path(),
            0o644,
            layer.size,
            content,
        ))?;
        wrote(tar.into_inner().and_then(|mut out| out.flush()))
    }

    fn write_layer(&self, to: &Path) -> Result<Blob, Error> {
        let file = File::create(to).map_err(Error::file("create", to))?;
        let mut tar = tar::Builder::new(Hashing::new(io::BufWriter::new(file)));
        for ImageFile { path, source } in &self.files {
            let content = File::open(source).map_err(Error::file("open", source))?;
            let size = content
                .metadata()
                .map_err(Error::file("look at", source))?
                .len();
            append_sized(&mut tar, path, 0o755, size, content)
                .map_err(Error::file("copy", source))?;
        }
        let written = tar.into_inner().and_then(Hashing::finish);
        let (digest, size) = written.map_err(Error::file("write", to))?;
        Ok(Blob {
            digest,
            size,
            bytes: Vec::new(),
        })
    }

    fn config(&self, layer: &str) -> Value {
        json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "Env": ["PATH=/"], "User": USER},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        })
    }

    fn index(&self, manifest: &Blob) -> Value {
        let mut descriptor = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        let tag = self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        descriptor["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": tag,
        });
        json!({"schemaVersion": 2, "manifests": [descriptor]})
    }
}

struct Blob {
    digest: String,
    size: u64,
    bytes: Vec<u8>,
}

impl Blob {
    fn json(value: &Value) -> Self {
        let bytes = value.to_string().into_bytes();
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self {
            digest: hex(&Sha256::digest(&bytes)),
            size,
            bytes,
        }
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({
            "mediaType": media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.size,
        })
    }
}

/// Hashes and counts what passes through.
struct Hashing<W> {
    to: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Hashing<W> {
    fn new(to: W) -> Self {
        Self {
            to,
            hash: Sha256::new(),
            size: 0,
        }
    }

    fn finish(mut self) -> io::Result<(String, u64)> {
        self.to.flush()?;
        Ok((hex(&self.hash.finalize()), self.size))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += u64::try_from(written).unwrap_or_default();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
    append_sized(tar, path, mode, size, content)
}

fn append_sized(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    mode: u32,
    size: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    tar.append_data(&mut header, path, content)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &str, content: &[u8]) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("{folder}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("program");
        fs::write(&source, content).unwrap();
        let tar = folder.join("image.tar");
        Image::of_program("strait.dev/x:1", "x", &source)
            .write(&tar)
            .unwrap();
        let bytes = fs::read(&tar).unwrap();
        assert!(!tar.with_extension("layer").exists());
        fs::remove_dir_all(&folder).unwrap();
        bytes
    }

    #[test]
    fn the_same_files_make_the_same_bytes() {
        let first = written("strait-image-a", b"content");
        assert_eq!(first, written("strait-image-b", b"content"));
        assert_ne!(first, written("strait-image-c", b"contents"));
    }

    #[test]
    fn every_blob_has_its_digest_as_name_and_the_index_names_the_image() {
        let bytes = written("strait-image-d", b"content");
        let mut names = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if let Some(digest) = name.strip_prefix("blobs/sha256/") {
                assert_eq!(digest, hex(&Sha256::digest(&content)));
            }
            if name == "index.json" {
                let index: Value = serde_json::from_slice(&content).unwrap();
                let annotations = &index["manifests"][0]["annotations"];
                assert_eq!(annotations["io.containerd.image.name"], "strait.dev/x:1");
            }
            names.push(name);
        }
        assert_eq!(names.len(), 5, "{names:?}");
    }
}
