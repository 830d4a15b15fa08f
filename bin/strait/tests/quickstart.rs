//! `strait quickstart`, as a user runs it: the whole path without Kubernetes.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(directory: &std::path::Path) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["quickstart", "--directory"])
        .arg(directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is there");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let running = Running(child);
    let mut said = String::new();
    for line in out.lines() {
        let line = line.expect("a line");
        let last = line.contains("Ctrl-C ends everything");
        said.push_str(&line);
        said.push('\n');
        if last {
            break;
        }
    }
    (running, said)
}

/// The commands in what was printed, each in one line.
fn commands(said: &str) -> Vec<String> {
    let joined = said.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with("curl "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn what_it_prints_can_be_typed() {
    let directory = tempfile::tempdir().unwrap();
    let (_running, said) = start(directory.path());
    let commands = commands(&said);
    assert_eq!(commands.len(), 2, "{said}");
    for (command, answer) in commands.iter().zip([
        "search in namespace default of cluster1",
        "foo in namespace default of cluster2",
    ]) {
        let shell = format!("{command} --silent --show-error --max-time 20");
        let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
        let body = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            body.trim(),
            answer,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // The files are those of a hub of one's own: a token for another member can be made.
    let token = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["token", "create", "--cluster", "vm1", "--config"])
        .arg(directory.path().join("hub.yaml"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&token.stdout);
    assert!(
        token.status.success() && text.contains("cluster: vm1"),
        "{text}"
    );
}

#[test]
fn a_file_that_is_wrong_is_named_with_its_field() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hub.yaml");
    let text = "apiVersion: strait.dev/v1alpha1\nkind: HubConfiguration\nspec: {listen: here}\n";
    std::fs::write(&path, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["hub", "--config"])
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("hub.yaml cannot be used") && said.contains("spec.listen"),
        "{said}"
    );
}
