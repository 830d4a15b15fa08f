//! Keys and certificates of a hub's directory, followed while the hub runs.

use std::path::PathBuf;

use strait_file_kit::State;
use strait_pki::{FileError, FileWatch, PkiError, Reloadable};
use strait_runtime::Tasks;
use strait_types::Redacted;

use crate::{
    HubConfig,
    authority::{self, Authority},
    deps::Material,
    material_files::{callers_file, native_roots, serving_files, spawn_files},
};

pub(super) async fn gather(
    state: &State,
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Material, FileError> {
    let (hub_watch, hub) = first(state.hub_ca()).await?;
    let (agent_watch, agents) = first(state.agent_ca()).await?;
    let material = Material {
        hub_ca: Some(Reloadable::new(hub.ca)),
        hub_bundle: Reloadable::new(hub.bundle_pem),
        agent_ca: Reloadable::new(agents.ca),
        agents: Reloadable::new(agents.verifier),
        callers: Reloadable::new(None),
        callers_file: callers_file(config, tasks).await?,
        files: serving_files(config, tasks).await?,
        native_roots: native_roots(),
    };
    follow(hub_watch, authority::hub_sink(&material), tasks, "hub-ca");
    follow(
        agent_watch,
        authority::agent_sink(&material),
        tasks,
        "agent-ca",
    );
    Ok(material)
}

async fn first(paths: [PathBuf; 3]) -> Result<(FileWatch, Authority), FileError> {
    let mut watch = FileWatch::new(paths.into());
    let authority = watch.load_now(read).await?;
    Ok((watch, authority))
}

fn read(files: &[Vec<u8>]) -> Result<Authority, PkiError> {
    let text = |index: usize| {
        let bytes = files.get(index).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    Authority::from_pem(text(0), &Redacted::new(text(1)), text(2))
}

/// Gives each new content to `sink`; what is broken is told in the log and changes nothing.
fn follow(
    watch: FileWatch,
    sink: impl Fn(Result<Authority, PkiError>) + Send + Sync + 'static,
    tasks: &Tasks,
    name: &'static str,
) {
    let parse = move |files: &[Vec<u8>]| {
        let read = read(files);
        if let Err(error) = &read {
            tracing::warn!(name, %error, "the last good authority stays in force");
        }
        sink(read);
        Ok(())
    };
    spawn_files(watch, parse, &Reloadable::new(()), tasks, name);
}
