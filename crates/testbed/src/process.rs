//! Tells a process from a later one that got the same number, and ends it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::{error::Error, wait};

/// The kernel needs this long at most to end every process of a cell; seconds under heavy load.
const END_LIMIT: Duration = Duration::from_secs(30);

/// One process of one boot of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRecord {
    boot: String,
    pub(crate) pid: i32,
    started: u64,
}

impl ProcessRecord {
    /// Reads what a process wrote about itself: the boot's id, and its line of `/proc/self/stat`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (boot, stat) = text.trim().split_once('\n')?;
        let (pid, started) = parse_stat(stat).map(|stat| (stat.pid, stat.started))?;
        Some(Self {
            boot: boot.trim().to_owned(),
            pid,
            started,
        })
    }

    /// Whether this very process still runs. One that has ended but was not collected yet does not.
    pub(crate) fn is_alive(&self) -> bool {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        self.matches(&boot, &stat)
    }

    fn matches(&self, boot: &str, stat: &str) -> bool {
        boot.trim() == self.boot
            && parse_stat(stat).is_some_and(|now| {
                now.pid == self.pid && now.started == self.started && now.state != 'Z'
            })
    }

    /// The root folder as this process sees it.
    pub(crate) fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid))
    }

    /// Kills the process, unless it has ended already, and waits for its end. The number cannot pass to
    /// another process meanwhile: the handle is opened first and the check comes after.
    pub(crate) async fn kill(&self) -> Result<(), Error> {
        let proc = Path::new("/proc").join(self.pid.to_string());
        let handle = Pid::from_raw(self.pid)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        if let Some(handle) = handle.filter(|_| self.is_alive()) {
            rustix::process::pidfd_send_signal(&handle, Signal::KILL)
                .map_err(io::Error::from)
                .map_err(Error::file("kill the process of", proc))?;
        }
        wait::until(format!("process {} ended", self.pid), END_LIMIT, || async {
            if self.is_alive() {
                Err("it runs".to_owned())
            } else {
                Ok(())
            }
        })
        .await
    }
}

struct Stat {
    pid: i32,
    state: char,
    started: u64,
}

/// Fields 1, 3 and 22 of proc(5)'s stat line. The name in field 2 may hold anything, so counting starts
/// after its last parenthesis.
fn parse_stat(line: &str) -> Option<Stat> {
    let pid = line.split_whitespace().next()?.parse().ok()?;
    let mut fields = line.get(line.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some(Stat {
        pid,
        state,
        started,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "17286 (sh) 4) S 1 17286 17286 0 -1 4194304 77 0 1 0 0 0 0 0 20 0 1 0 66240 265 361";

    #[test]
    fn a_record_is_read_back() {
        let record = ProcessRecord::parse(&format!("boot-1\n{STAT}\n")).unwrap();
        assert_eq!(
            record,
            ProcessRecord {
                boot: "boot-1".to_owned(),
                pid: 17286,
                started: 66240
            }
        );
        assert!(record.matches("boot-1\n", STAT));
    }

    #[test]
    fn a_reused_number_another_boot_and_a_zombie_are_not_the_process() {
        let record = ProcessRecord::parse(&format!("boot-1\n{STAT}\n")).unwrap();
        assert!(!record.matches("boot-1", &STAT.replace("66240", "66241")));
        assert!(!record.matches("boot-2", STAT));
        assert!(!record.matches("boot-1", &STAT.replace(") S ", ") Z ")));
        assert!(!record.matches("boot-1", ""));
    }

    #[test]
    fn half_a_record_is_none() {
        for text in ["", "boot-1", "boot-1\n", "boot-1\n17286 (sh) S 1"] {
            assert_eq!(ProcessRecord::parse(text), None, "{text}");
        }
    }
}
