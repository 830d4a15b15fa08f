//! What the controllers count.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use strait_kube_kit::{Controller, Leadership, Round};

/// Labels: the controller, and how its round went.
type RoundLabels = [(&'static str, &'static str); 2];

/// What the controllers count. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    rounds: Family<RoundLabels, Counter>,
    leading: Gauge,
}

/// A controller whose rounds are counted.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    controller: C,
    metrics: Metrics,
}

// === impl Metrics ===

impl Metrics {
    /// Counts into this registry.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("strait_controller");
        registry.register(
            "rounds",
            "Rounds of each controller by whether all of their writes worked",
            metrics.rounds.clone(),
        );
        registry.register(
            "leading",
            "Whether this replica leads, and so writes",
            metrics.leading.clone(),
        );
        metrics
    }

    pub(crate) fn count<C: Controller + Sync>(&self, controller: C) -> Counted<C> {
        Counted {
            controller,
            metrics: self.clone(),
        }
    }

    /// Shows whether this replica leads, until the election ends.
    pub(crate) async fn follow(self, mut leadership: Leadership) {
        while leadership.acquired().await {
            self.leading.set(1);
            leadership.lost().await;
            self.leading.set(0);
        }
    }
}

impl<C: Controller + Sync> Controller for Counted<C> {
    const NAME: &'static str = C::NAME;

    async fn ready(&self) -> bool {
        self.controller.ready().await
    }

    async fn changed(&mut self) -> bool {
        self.controller.changed().await
    }

    async fn round(&mut self) -> Round {
        let round = self.controller.round().await;
        let result = if round.failed() { "failed" } else { "ok" };
        let labels = [("controller", C::NAME), ("result", result)];
        self.metrics.rounds.get_or_create(&labels).inc();
        round
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use tokio::sync::watch;

    use super::*;

    struct Idle;

    impl Controller for Idle {
        const NAME: &'static str = "idle";

        async fn ready(&self) -> bool {
            true
        }

        async fn changed(&mut self) -> bool {
            false
        }

        async fn round(&mut self) -> Round {
            Round::new()
        }
    }

    #[tokio::test]
    async fn rounds_and_leadership_are_shown() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let _ = metrics.count(Idle).round().await;
        let (lead, leadership) = watch::channel(true);
        let follow = metrics.follow(Leadership::from(leadership));
        tokio::pin!(follow);
        assert!(futures::poll!(&mut follow).is_pending());
        let shown = |wanted: &str| {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            assert!(text.contains(wanted), "{text}");
        };
        shown("strait_controller_rounds_total{controller=\"idle\",result=\"ok\"} 1");
        shown("strait_controller_leading 1");
        lead.send_replace(false);
        assert!(futures::poll!(&mut follow).is_pending());
        shown("strait_controller_leading 0");
        drop(lead);
        follow.await;
    }
}
