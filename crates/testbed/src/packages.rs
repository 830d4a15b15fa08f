//! What the machine must have, and its installation where apt-get can do it.

use std::path::{Path, PathBuf};

use crate::{command::Job, error::Error, progress::Progress};

/// Programs, and Debian's package of each.
const PROGRAMS: [(&str, &str); 9] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("iptables-restore", "iptables"),
    ("conntrack", "conntrack"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
];

/// The CNI plugins, and the folders where distributions put them.
const PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];
const PLUGIN_FOLDERS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// Where root's programs are, whatever PATH says.
const FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Makes sure that everything is there, and returns the folder of the CNI plugins.
pub(crate) async fn ensure(progress: &Progress) -> Result<PathBuf, Error> {
    let lacking = missing(|path| path.exists());
    if !lacking.is_empty() {
        install(&lacking, progress).await?;
    }
    match (
        plugin_folder(|path| path.exists()),
        missing(|path| path.exists()),
    ) {
        (Some(folder), lacking) if lacking.is_empty() => Ok(folder),
        (_, lacking) => Err(not_there(&lacking)),
    }
}

async fn install(lacking: &[(&str, &str)], progress: &Progress) -> Result<(), Error> {
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(not_there(lacking));
    }
    let packages = packages(lacking);
    let step = progress.step("packages");
    step.message(format!("apt-get install {}", packages.join(" ")));
    let apt = |what: &str| Job::new(what, "apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    apt("refresh the package lists")
        .args(["update", "-q"])
        .run()
        .await?;
    apt("install packages")
        .args(["install", "-q", "-y", "--no-install-recommends"])
        .args(&packages)
        .run()
        .await?;
    step.finish("installed");
    Ok(())
}

fn not_there(lacking: &[(&str, &str)]) -> Error {
    let missing: Vec<_> = lacking.iter().map(|(program, _)| *program).collect();
    Error::Missing {
        missing: missing.join(", "),
        packages: packages(lacking).join(" "),
    }
}

fn packages<'a>(lacking: &[(&'a str, &'a str)]) -> Vec<&'a str> {
    let mut packages: Vec<_> = lacking.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn missing(exists: impl Fn(&Path) -> bool) -> Vec<(&'static str, &'static str)> {
    let found = |program: &str| {
        FOLDERS
            .iter()
            .any(|folder| exists(&Path::new(folder).join(program)))
    };
    let mut lacking: Vec<_> = PROGRAMS
        .iter()
        .copied()
        .filter(|(program, _)| !found(program))
        .collect();
    if plugin_folder(&exists).is_none() {
        lacking.push(("CNI plugins", "containernetworking-plugins"));
    }
    lacking
}

fn plugin_folder(exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    PLUGIN_FOLDERS
        .iter()
        .map(PathBuf::from)
        .find(|folder| PLUGINS.iter().all(|plugin| exists(&folder.join(plugin))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_machine_lacks_every_package_once() {
        let error = not_there(&missing(|_| false));
        assert_eq!(
            error.to_string(),
            "containerd, ctr, runc, iptables, iptables-restore, conntrack, ip, nsenter, unshare, CNI plugins \
             missing on this machine; install: conntrack containerd containernetworking-plugins iproute2 \
             iptables runc util-linux"
        );
    }

    #[test]
    fn plugins_count_only_when_all_are_in_one_folder() {
        let half = |path: &Path| path.ends_with("bridge") || path.starts_with("/opt/cni/bin");
        assert_eq!(plugin_folder(half), Some(PathBuf::from("/opt/cni/bin")));
        assert_eq!(plugin_folder(|path: &Path| path.ends_with("bridge")), None);
    }
}
