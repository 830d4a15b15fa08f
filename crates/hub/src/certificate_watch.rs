//! Tells when certificates end and which of their sources are broken.

use std::{sync::Arc, time::Duration};

use strait_pki::Validity;
use strait_runtime::clock;
use tokio_util::sync::CancellationToken;

use crate::{
    deps::{Material, Notices},
    file_report::FileReport,
    metrics::Metrics,
};

/// Looks after keys and certificates.
#[derive(Debug)]
pub(crate) struct CertificateWatch {
    pub(crate) material: Material,
    pub(crate) metrics: Metrics,
    pub(crate) notices: Arc<dyn Notices>,
    /// Whether the hub was given files at all; without them there is nothing to say of them.
    pub(crate) has_files: bool,
    pub(crate) every: Duration,
}

// === impl CertificateWatch ===

impl CertificateWatch {
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut every = tokio::time::interval(self.every);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = every.tick() => {}
            }
            self.measure();
            if let Err(error) = self.notices.files(&self.report()).await {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "the state of the certificate files was not written");
            }
        }
    }

    fn measure(&self) {
        let (material, metrics) = (&self.material, &self.metrics);
        let now = clock::timestamp();
        let expiry = |which, der: &[u8]| {
            if let Ok(validity) = Validity::of(der) {
                metrics.expiry(which, validity.seconds_left(now));
            }
        };
        expiry("agent-ca", material.agent_ca.get().certificate());
        metrics.reload_problem("agent-ca", material.agent_ca.problem().is_some());
        if let Some(ca) = &material.hub_ca {
            expiry("hub-ca", ca.get().certificate());
            metrics.reload_problem("hub-ca", ca.problem().is_some());
        }
        if let Some(file) = material.files.get().first() {
            expiry("serving-file", file.leaf());
        }
        metrics.reload_problem("serving-file", material.files.problem().is_some());
        metrics.reload_problem("callers", material.callers.problem().is_some());
        metrics.reload_problem("callers-file", material.callers_file.problem().is_some());
    }

    fn report(&self) -> FileReport {
        let sources = [
            ("--tls-cert, --tls-key", self.material.files.problem()),
            ("--callers-ca", self.material.callers_file.problem()),
        ];
        let problems = sources
            .into_iter()
            .filter_map(|(flag, problem)| Some(format!("{flag}: {}", problem?)))
            .collect();
        FileReport {
            given: self.has_files,
            problems,
        }
    }
}
