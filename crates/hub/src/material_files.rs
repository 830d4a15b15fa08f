//! Keys and certificates from files, followed while the hub runs.

use std::sync::Arc;

use rustls::RootCertStore;
use strait_pki::{Bundle, FileError, FileWatch, Identity, PkiError, Reloadable, follow_files};
use strait_runtime::Tasks;

use crate::HubConfig;

/// The authorities of callers from `--callers-ca`, followed while `tasks` runs.
pub(crate) async fn callers_file(
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Reloadable<Option<Bundle>>, FileError> {
    let Some(path) = &config.callers_ca else {
        return Ok(Reloadable::new(None));
    };
    let parse = |files: &[Vec<u8>]| {
        let pem = files.first().map(Vec::as_slice).unwrap_or_default();
        Ok(Some(Bundle::from_pem(pem)?))
    };
    let mut watch = FileWatch::new(vec![path.clone()]);
    let value = Reloadable::new(watch.load_now(parse).await?);
    spawn_files(watch, parse, &value, tasks, "callers-ca");
    Ok(value)
}

/// Certificate and key from `--tls-cert` and `--tls-key`, followed likewise.
pub(crate) async fn serving_files(
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Reloadable<Vec<Identity>>, FileError> {
    let Some((certificate, key)) = &config.serving_files else {
        return Ok(Reloadable::new(vec![]));
    };
    let parse = |files: &[Vec<u8>]| match files {
        [certificate, key] => Ok(vec![Identity::from_pem(certificate, key)?]),
        _ => Err(PkiError::Mismatch),
    };
    let mut watch = FileWatch::new(vec![certificate.clone(), key.clone()]);
    let value = Reloadable::new(watch.load_now(parse).await?);
    spawn_files(watch, parse, &value, tasks, "serving-files");
    Ok(value)
}

/// Keeps `value` at what the files say, as a task of `tasks`.
pub(crate) fn spawn_files<T: Send + Sync + 'static>(
    watch: FileWatch,
    parse: impl Fn(&[Vec<u8>]) -> Result<T, PkiError> + Send + Sync + 'static,
    value: &Reloadable<T>,
    tasks: &Tasks,
    name: &'static str,
) {
    let value = value.clone();
    tasks.spawn(name, |stop| async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow_files(watch, parse, value) => {}
        }
    });
}

/// The system's authorities. None is not an error: services then name theirs.
pub(crate) fn native_roots() -> Arc<RootCertStore> {
    let loaded = rustls_native_certs::load_native_certs();
    for error in &loaded.errors {
        tracing::info!(%error, "some of the system's authorities cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (added, skipped) = roots.add_parsable_certificates(loaded.certs);
    tracing::debug!(added, skipped, "system's authorities");
    Arc::new(roots)
}
