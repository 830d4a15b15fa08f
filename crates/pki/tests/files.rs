//! Files that change under a running process.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use strait_pki::{Ca, FileWatch, Identity, PkiError, Reloadable, follow_files};

const DAY: SignedDuration = SignedDuration::from_hours(24);

#[tokio::test(start_paused = true)]
async fn a_broken_file_leaves_the_last_good_one_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
    let write = |name: &str| {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ca = Ca::generate("test", DAY, now).unwrap();
        let (issued, secret) = ca.issue_server(&[name.to_owned()], DAY, now).unwrap();
        replace(&cert, &issued.chain_pem);
        replace(&key, secret.reveal());
        issued.der.to_vec()
    };
    let first = write("one.test");
    let mut watch = FileWatch::new(vec![cert.clone(), key.clone()]);
    let value = Reloadable::new(watch.load(parse).await.unwrap().unwrap());
    assert_eq!(value.get().leaf(), first);

    let follow = follow_files(watch, parse, value.clone());
    let checks = async {
        replace(&cert, "broken");
        until(|| value.problem().is_some()).await;
        assert!(value.problem().unwrap().contains("it holds no certificate"));
        assert_eq!(value.get().leaf(), first);

        let second = write("two.test");
        until(|| value.problem().is_none()).await;
        assert_eq!(value.get().leaf(), second);
    };
    tokio::select! {
        () = follow => panic!("the watch ended"),
        () = checks => {}
    }
}

/// Puts a file in the place of another at once, as kubelet does: the reader runs at the same time
/// and would see one that is half written.
fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(&new, path).unwrap();
}

fn parse(files: &[Vec<u8>]) -> Result<Identity, PkiError> {
    let [chain, key] = files else {
        return Err(PkiError::Mismatch);
    };
    Identity::from_pem(chain, key)
}

/// Virtual time: the paused clock moves on only when nothing else can run.
async fn until(done: impl Fn() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(3600), wait)
        .await
        .unwrap();
}
