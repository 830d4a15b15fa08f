//! Whole command lines: what they print, where, and with which code.

use std::ffi::OsString;

use strait_cli::{Streams, run};

/// What a command line came to.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    code: u8,
    out: String,
    err: String,
}

#[tokio::test]
async fn version_is_data_in_every_form() {
    let version = env!("CARGO_PKG_VERSION");
    let done = strait(&["version"]).await;
    assert_eq!(
        done,
        Done {
            code: 0,
            out: format!("strait {version}\n"),
            err: String::new()
        }
    );
    let done = strait(&["version", "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["version"], version);
    assert_eq!(json["image"], format!("strait.dev/strait:{version}"));
    let done = strait(&["version", "-o", "yaml"]).await;
    assert!(
        done.out.starts_with(&format!("version: \"{version}\"\n")),
        "{}",
        done.out
    );
}

#[tokio::test]
async fn every_verb_has_help_with_examples_on_standard_output() {
    for verb in [
        vec!["install"],
        vec!["install", "hub"],
        vec!["token"],
        vec!["token", "create"],
        vec!["join"],
        vec!["clusters"],
        vec!["status"],
        vec!["services"],
        vec!["proxy"],
        vec!["forward"],
        vec!["doctor"],
        vec!["uninstall"],
        vec!["version"],
        vec!["completion"],
        vec![],
    ] {
        let done = strait(&[verb.as_slice(), &["--help"]].concat()).await;
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{verb:?}");
        assert!(
            done.out.contains("Examples:\n  "),
            "{verb:?} has no examples:\n{}",
            done.out
        );
        assert!(
            !done.out.contains('\u{1b}'),
            "{verb:?} colours what is not a terminal"
        );
        let widest = done.out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{verb:?} is {widest:?} wide");
    }
}

#[tokio::test]
async fn wrong_usage_is_told_on_standard_error_with_code_2() {
    for (args, told) in [
        (vec!["dance"], "unrecognized subcommand 'dance'"),
        (vec!["join"], "--token-file <FILE>"),
        (
            vec!["token", "create", "--cluster", "A.b"],
            "`A` is not allowed",
        ),
        (
            vec!["token", "create", "--cluster", "a", "--ttl", "9d"],
            "a time from 1m to 7d",
        ),
        (
            vec!["install", "hub", "--address", "hub"],
            "it must be HOST:PORT",
        ),
        (
            vec!["join", "--token-file", "x", "--allow", "search"],
            "namespace/service",
        ),
        (
            vec!["proxy", "--listen", "0.0.0.0:0"],
            "`--allow-remote` means it",
        ),
        (
            vec!["forward", "search.default.cluster1"],
            "SERVICE.NAMESPACE.CLUSTER:PORT",
        ),
        (
            vec!["forward", "search.default.cluster1:1", "[::]:1"],
            "`--allow-remote` means it",
        ),
        (vec!["services", "a.b"], "`.` is not allowed"),
        (
            vec!["uninstall", "everything"],
            "possible values: hub, agent",
        ),
    ] {
        let done = strait(&args).await;
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}");
        assert!(done.err.starts_with("error: "), "{args:?}: {}", done.err);
        assert!(done.err.contains(told), "{args:?}: {}", done.err);
    }
}

#[tokio::test]
async fn a_failure_says_what_why_and_what_next() {
    let done = strait(&["clusters", "--kubeconfig", "/nonexistent/config"]).await;
    assert_eq!((done.code, done.out.as_str()), (1, ""));
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(lines.first(), Some(&"error: failed to read the kubeconfig"));
    assert!(
        lines.iter().any(|line| line.starts_with("  caused by: ")),
        "{}",
        done.err
    );
    assert!(
        lines.last().is_some_and(|line| line.starts_with("hint: ")),
        "{}",
        done.err
    );
}

#[tokio::test]
async fn quiet_does_not_silence_errors() {
    let done = strait(&["-q", "clusters", "--kubeconfig", "/nonexistent/config"]).await;
    assert_eq!(done.code, 1);
    assert!(done.err.starts_with("error: "));
}

#[tokio::test]
async fn a_missing_token_file_is_told_before_any_cluster_is_asked() {
    let done = strait(&["join", "--token-file", "/nonexistent/token"]).await;
    assert_eq!(done.code, 1);
    assert!(
        done.err
            .starts_with("error: failed to read the token file `/nonexistent/token`\n")
    );
}

#[tokio::test]
async fn completion_is_there_for_common_shells() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let done = strait(&["completion", shell]).await;
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{shell}");
        assert!(
            done.out.contains("strait") && done.out.contains("services"),
            "{shell}"
        );
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    struct Gone;
    impl std::io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for args in [["strait", "version"], ["strait", "--help"]] {
        let mut err = vec![];
        let streams = Streams {
            out: &mut Gone,
            err: &mut err,
            err_is_terminal: false,
        };
        assert_eq!(run(args.map(OsString::from), streams).await, 0, "{args:?}");
        assert!(err.is_empty());
    }
}

async fn strait(args: &[&str]) -> Done {
    let (mut out, mut err) = (vec![], vec![]);
    let streams = Streams {
        out: &mut out,
        err: &mut err,
        err_is_terminal: false,
    };
    let args = ["strait"].iter().chain(args).map(OsString::from);
    let code = run(args, streams).await;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done {
        code,
        out: text(out),
        err: text(err),
    }
}
