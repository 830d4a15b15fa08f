//! What to try next, by error.

/// A hint for the first cause that we know something about.
pub(crate) fn for_error(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(for_cause)
}

fn for_cause(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    let hint = match cause.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => return for_status(status.code, &status.reason),
        kube::Error::HyperError(_) | kube::Error::Service(_) => {
            "`kubectl cluster-info` tells whether the API server answers; `--context NAME` chooses \
             another cluster"
        }
        kube::Error::Auth(_) => "the kubeconfig's own way to get credentials failed",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn for_status(code: u16, reason: &str) -> Option<String> {
    let hint = match (code, reason) {
        (401, _) => {
            "the credentials of this context are not accepted; `kubectl auth whoami` tells more"
        }
        (403, _) => "`kubectl auth can-i --list` tells what this context may do",
        (404, _) => "is this the right cluster? `strait install hub` makes one a hub",
        (409, "AlreadyExists") => "it is being removed; try again in a moment",
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_hint_is_found_behind_any_number_of_contexts() {
        let forbidden = Status {
            code: 403,
            ..Status::default()
        };
        let error = Err::<(), _>(kube::Error::Api(forbidden.boxed()))
            .context("failed to list")
            .context("failed to look")
            .unwrap_err();
        assert!(for_error(&error).unwrap().contains("can-i"));
        assert_eq!(for_error(&anyhow::anyhow!("x")), None);
    }
}
