//! `cargo xtask layers`: a crate may know crates of lower layers only, and the lowest know no runtime.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// Every crate of the workspace and its layer. Two crates of one layer never know each other.
const LAYERS: [(&str, u8); 20] = [
    ("strait-types", 0),
    ("strait-api", 0),
    ("strait-install", 1),
    ("strait-names", 1),
    ("strait-tunnel-proto", 1),
    ("strait-pki", 2),
    ("strait-runtime", 2),
    ("strait-websocket", 2),
    ("strait-file-kit", 3),
    ("strait-kube-kit", 3),
    ("strait-tunnel", 3),
    ("strait-agent", 5),
    ("strait-cli", 5),
    ("strait-hub", 5),
    ("strait-hub-controllers", 5),
    ("strait", 6),
    ("strait-testbed", 7),
    ("strait-testbox", 7),
    ("strait-e2e", 8),
    ("xtask", 8),
];

/// Crates of these layers and below hold no socket, no clock and no runtime…
const HIGHEST_PURE_LAYER: u8 = 1;

/// …so none of these may be among what they depend on, directly or through others.
const IMPURE: [&str; 6] = ["hyper", "kube-client", "mio", "rustls", "tokio", "tonic"];

/// What `cargo metadata --no-deps` says, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// None for a normal one, else `dev` or `build`.
    kind: Option<String>,
    /// Only those of this workspace have one.
    path: Option<PathBuf>,
}

/// Fails with every edge that is not allowed.
pub(crate) fn check() -> anyhow::Result<()> {
    let text = cargo(&["metadata", "--no-deps", "--locked", "--format-version", "1"])?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("failed to read cargo's metadata")?;
    let mut wrong = edges_not_allowed(&metadata);
    for package in &metadata.packages {
        if layer(&package.name).is_some_and(|layer| layer <= HIGHEST_PURE_LAYER) {
            let tree = cargo(&[
                "tree",
                "--locked",
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--package",
                &package.name,
            ])?;
            wrong.extend(impurities(&package.name, &tree));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} rules broken\n  {}",
        wrong.len(),
        wrong.join("\n  ")
    );
    Ok(())
}

fn layer(name: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| *layer)
}

fn edges_not_allowed(metadata: &Metadata) -> Vec<String> {
    let mut wrong = Vec::new();
    for Package { name, dependencies } in &metadata.packages {
        let Some(own) = layer(name) else {
            wrong.push(format!(
                "{name} has no layer; give it one in xtask/src/layers.rs"
            ));
            continue;
        };
        let ours = dependencies
            .iter()
            .filter(|used| used.path.is_some() && used.kind.as_deref() != Some("dev"));
        for used in ours {
            // One without a layer is told about where it is a package itself.
            match layer(&used.name) {
                Some(theirs) if theirs >= own => wrong.push(format!(
                    "{name} (layer {own}) depends on {} (layer {theirs})",
                    used.name
                )),
                _ => {}
            }
        }
    }
    wrong
}

/// The lines of `cargo tree` that no pure crate may have.
fn impurities(name: &str, tree: &str) -> Vec<String> {
    let mut found: Vec<_> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|used| IMPURE.contains(used))
        .map(|used| format!("{name} reaches {used}, but is pure"))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn cargo(args: &[&str]) -> anyhow::Result<String> {
    let shown = args.first().copied().unwrap_or_default();
    let output = Command::new("cargo")
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .with_context(|| format!("failed to run cargo {shown}"))?;
    if !output.status.success() {
        bail!(
            "cargo {shown} failed\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("cargo {shown} wrote no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downward_edges_and_other_peoples_crates_are_allowed() {
        let metadata = made_up(
            "strait-hub",
            &[("strait-types", None), ("strait-tunnel", None)],
        );
        assert_eq!(edges_not_allowed(&metadata), Vec::<String>::new());
        let mut foreign = made_up("strait-types", &[("tokio", None)]);
        foreign.packages[0].dependencies[0].path = None;
        assert_eq!(edges_not_allowed(&foreign), Vec::<String>::new());
    }

    #[test]
    fn upward_and_sideways_edges_are_not() {
        let upward = made_up("strait-tunnel", &[("strait-hub", None)]);
        assert_eq!(
            edges_not_allowed(&upward),
            ["strait-tunnel (layer 3) depends on strait-hub (layer 5)"]
        );
        let sideways = made_up("strait-hub", &[("strait-agent", Some("build"))]);
        assert_eq!(
            edges_not_allowed(&sideways),
            ["strait-hub (layer 5) depends on strait-agent (layer 5)"]
        );
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let metadata = made_up("strait-hub", &[("strait-agent", Some("dev"))]);
        assert_eq!(edges_not_allowed(&metadata), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_a_layer_is_an_error() {
        assert_eq!(
            edges_not_allowed(&made_up("strait-new", &[])),
            ["strait-new has no layer; give it one in xtask/src/layers.rs"]
        );
    }

    #[test]
    fn a_pure_crate_that_reaches_a_runtime_is_found_once() {
        let tree = "strait-api v0.1.0 (/src/crates/api)\nkube v5.0.0\ntokio v1.54.1\ntokio v1.54.1 (*)\n\
            tokio-util v0.7.0\n";
        assert_eq!(
            impurities("strait-api", tree),
            ["strait-api reaches tokio, but is pure"]
        );
    }

    fn made_up(name: &str, dependencies: &[(&str, Option<&str>)]) -> Metadata {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency {
                name: (*name).to_owned(),
                kind: kind.map(str::to_owned),
                path: Some(PathBuf::from("/src")),
            })
            .collect();
        Metadata {
            packages: vec![Package {
                name: name.to_owned(),
                dependencies,
            }],
        }
    }
}
