//! The signals that ask a process to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Returns at the first SIGTERM or SIGINT. If the handlers cannot be installed it never returns,
/// and the default action of the signals ends the process.
pub async fn stop_signal() {
    let (Ok(mut term), Ok(mut int)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::warn!("signal handlers could not be installed; stopping will not be graceful");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => tracing::info!(signal = "SIGTERM", "stopping"),
        _ = int.recv() => tracing::info!(signal = "SIGINT", "stopping"),
    }
}
