//! Owned tasks and two-step shutdown.

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

/// The tasks of a component. Every task is told to stop and waited for; none is detached.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

// === impl Tasks ===

impl Tasks {
    /// No tasks yet; they stop when `stop` is cancelled.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop,
        }
    }

    /// Cancelled when the tasks are to stop.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that the component cannot do without: when it ends, by return or by panic,
    /// every other task is asked to stop.
    pub fn spawn<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        let work = task(stop.clone());
        let stop_all = stop.clone().drop_guard();
        let owned = async move {
            let _stop_all = stop_all;
            work.await;
            if !stop.is_cancelled() {
                tracing::error!("a task that must not end has ended");
            }
        };
        self.tracker
            .spawn(owned.instrument(tracing::info_span!("task", name)));
    }

    /// Starts a task of one connection, or of another thing that may end by itself: its end or
    /// its panic ends nothing else. It is waited for at shutdown and has to watch
    /// [`stop`](Self::stop) itself.
    pub fn spawn_one(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(work.in_current_span());
    }

    /// Waits until every task has ended by itself, at most until `deadline`; nobody is asked to.
    pub async fn finished_by(&self, deadline: tokio::time::Instant) {
        self.tracker.close();
        let _ = tokio::time::timeout_at(deadline, self.tracker.wait()).await;
    }

    /// Asks every task to stop and waits for at most `grace`; returns how many still run.
    pub async fn shutdown(&self, grace: Duration) -> usize {
        self.stop.cancel();
        self.tracker.close();
        let _ = tokio::time::timeout(grace, self.tracker.wait()).await;
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_needed_task_stops_the_others() {
        let tasks = Tasks::default();
        tasks.spawn("waits", |stop| async move { stop.cancelled().await });
        tasks.spawn("ends", |_| async {});
        tasks.stop().cancelled().await;
        assert_eq!(tasks.shutdown(Duration::from_secs(1)).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_one_connection_stops_nothing() {
        let tasks = Tasks::default();
        tasks.spawn_one(async {});
        tokio::task::yield_now().await;
        assert!(!tasks.stop().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_counts_what_does_not_stop() {
        let tasks = Tasks::default();
        tasks.spawn_one(std::future::pending());
        assert_eq!(tasks.shutdown(Duration::from_secs(5)).await, 1);
    }
}
