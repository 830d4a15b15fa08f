//! The cgroups of a cluster, in both versions of the kernel's interface.
//!
//! Two kubelets with the same root would end each other's pods, so every cluster has a root of its own. Below
//! it lie kubelet's `kubepods` and our [`CELL`], in which the components run (version 2 wants processes in
//! leaves only).

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{error::Error, wait};

/// The child that holds the components.
pub(crate) const CELL: &str = "cell";

/// What kubelet insists on in version 2.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"];

/// The kernel counts a cgroup's processes as gone shortly after they are.
const EMPTY_LIMIT: Duration = Duration::from_secs(15);

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Version 1; processes enter only once it has processors and memory nodes.
    Cpuset,
    /// Version 1, any other.
    One,
    /// Version 2.
    Two,
}

/// The hierarchies of this machine.
pub(crate) fn hierarchies() -> Result<Vec<Hierarchy>, Error> {
    let mounts = fs::read_to_string("/proc/mounts").map_err(Error::file("read", "/proc/mounts"))?;
    Ok(parse_mounts(&mounts))
}

fn parse_mounts(mounts: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(mount), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let kind = match kind {
            "cgroup" if options.split(',').any(|option| option == "cpuset") => Kind::Cpuset,
            "cgroup" => Kind::One,
            "cgroup2" => Kind::Two,
            _ => continue,
        };
        let mount = PathBuf::from(mount);
        if mount.starts_with("/sys/fs/cgroup") && found.iter().all(|seen| seen.mount != mount) {
            found.push(Hierarchy { mount, kind });
        }
    }
    found
}

/// The folders of cgroup `name`'s [`CELL`], one per hierarchy.
pub(crate) fn cells(hierarchies: &[Hierarchy], name: &str) -> Vec<PathBuf> {
    hierarchies
        .iter()
        .map(|hierarchy| hierarchy.mount.join(name).join(CELL))
        .collect()
}

/// Makes cgroup `name` and its [`CELL`] everywhere.
pub(crate) fn create(hierarchies: &[Hierarchy], name: &str) -> Result<(), Error> {
    for Hierarchy { mount, kind } in hierarchies {
        let top = mount.join(name);
        for (folder, parent) in [(top.clone(), mount), (top.join(CELL), &top)] {
            if *kind == Kind::Two {
                pass_on(parent);
            }
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            if *kind == Kind::Cpuset {
                copy(parent, &folder, "cpuset.cpus")?;
                copy(parent, &folder, "cpuset.mems")?;
            }
        }
    }
    Ok(())
}

/// Lets the children of `parent` have every controller that there is. One the kernel lacks is refused, and
/// kubelet then says which it misses.
fn pass_on(parent: &Path) {
    for controller in CONTROLLERS {
        let _refused = fs::write(
            parent.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
}

fn copy(from: &Path, to: &Path, file: &str) -> Result<(), Error> {
    let value = fs::read(from.join(file)).map_err(Error::file("read", from.join(file)))?;
    fs::write(to.join(file), value).map_err(Error::file("write", to.join(file)))
}

/// Bytes of memory that the processes of cgroup `name` hold, without the page cache.
pub(crate) fn memory(hierarchies: &[Hierarchy], name: &str) -> Option<u64> {
    hierarchies.iter().find_map(|hierarchy| {
        let stat = fs::read_to_string(hierarchy.mount.join(name).join("memory.stat")).ok()?;
        parse_memory(&stat)
    })
}

/// `total_rss` (version 1, with the children's) or `anon` (version 2, always with them).
fn parse_memory(stat: &str) -> Option<u64> {
    let value = |key: &str| {
        stat.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
    };
    value("total_rss").or_else(|| value("anon"))
}

/// The cgroups directly below a hierarchy's root whose names start with `prefix`.
pub(crate) fn with_prefix(hierarchies: &[Hierarchy], prefix: &str) -> Vec<String> {
    let mut names: Vec<_> = hierarchies
        .iter()
        .filter_map(|hierarchy| fs::read_dir(&hierarchy.mount).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Removes cgroup `name` with everything below it. Its processes must have been killed.
pub(crate) async fn remove(hierarchies: &[Hierarchy], name: &str) -> Result<(), Error> {
    for hierarchy in hierarchies {
        let folder = hierarchy.mount.join(name);
        wait::until(
            format!("{} removed", folder.display()),
            EMPTY_LIMIT,
            || async { remove_tree(&folder).map_err(|error| error.to_string()) },
        )
        .await?;
    }
    Ok(())
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_once_each() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n\
            cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
            cgroup2 /var/lib/other/cgroup cgroup2 rw 0 0\n";
        let seen: Vec<_> = parse_mounts(mounts)
            .into_iter()
            .map(|hierarchy| (hierarchy.mount.display().to_string(), hierarchy.kind))
            .collect();
        assert_eq!(
            seen,
            [
                ("/sys/fs/cgroup/cpuset".to_owned(), Kind::Cpuset),
                ("/sys/fs/cgroup/memory".to_owned(), Kind::One),
                ("/sys/fs/cgroup/unified".to_owned(), Kind::Two),
            ]
        );
    }

    #[test]
    fn version_2_alone_has_one_hierarchy() {
        let found = parse_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n");
        assert_eq!(
            cells(&found, "strait-demo-hub"),
            [PathBuf::from("/sys/fs/cgroup/strait-demo-hub/cell")]
        );
    }

    #[test]
    fn memory_is_read_in_both_versions() {
        assert_eq!(parse_memory("cache 1\nrss 2\ntotal_rss 3\n"), Some(3));
        assert_eq!(parse_memory("anon 4\nfile 5\n"), Some(4));
        assert_eq!(parse_memory("cache 1\n"), None);
    }
}
