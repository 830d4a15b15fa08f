//! Keeps the agent in possession of a good identity.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use strait_pki::{Rotation, rotation};
use strait_runtime::clock;
use strait_types::JoinToken;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Active, IdentityStore, Joiner, Materials, Renewer, StoredIdentity,
    decide::{Seen, Step, decide},
    pace::{Delays, Pace},
};
use crate::status::{Board, IdentityState, Phase};

/// Between two tries with a token that a hub refused: it will not get better, but a hub whose
/// Secrets are restored from a backup may know it again.
const REFUSED: Delays = (Duration::from_secs(60), Duration::from_secs(900));
/// Between two tries when no hub decided.
const UNDECIDED: Delays = (Duration::from_millis(500), Duration::from_secs(30));
/// Between two renewals that failed: there is a third of the certificate's life for it.
const RENEWALS: Delays = (Duration::from_secs(5), Duration::from_secs(600));
/// The longest time without a look at the clock, which may jump.
const LOOK: Duration = Duration::from_secs(60);

/// Gets an identity, renews it, and takes over what others put into the store.
#[derive(Debug)]
pub(crate) struct Keeper {
    store: Arc<dyn IdentityStore>,
    joiner: Arc<dyn Joiner>,
    renewer: Arc<dyn Renewer>,
    active: watch::Sender<Option<Arc<Active>>>,
    board: Board,
    jitter: f64,
    /// An identity that is in use and could not be kept yet.
    unsaved: Option<Arc<StoredIdentity>>,
    /// What the store showed when the identity in use was put into it. It may show that a moment
    /// longer, which means nothing.
    superseded: Option<Arc<StoredIdentity>>,
    /// What the store showed last.
    shown: Option<Arc<StoredIdentity>>,
    /// Why what is in the store cannot be used; the last good identity stays in use.
    broken: Option<String>,
    /// Tries to join.
    tries: Pace,
    renewals: Pace,
    saves: Pace,
}

// === impl Keeper ===

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn IdentityStore>,
        joiner: Arc<dyn Joiner>,
        renewer: Arc<dyn Renewer>,
        active: watch::Sender<Option<Arc<Active>>>,
        board: Board,
    ) -> Self {
        Self {
            store,
            joiner,
            renewer,
            active,
            board,
            jitter: rand::random(),
            unsaved: None,
            superseded: None,
            shown: None,
            broken: None,
            tries: Pace::new(UNDECIDED),
            renewals: Pace::new(RENEWALS),
            saves: Pace::new(UNDECIDED),
        }
    }

    /// Works until it is stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut materials = self.store.materials();
        loop {
            let found = materials.borrow_and_update().clone();
            let until = self.step(&found).await;
            tokio::select! {
                () = stop.cancelled() => return,
                changed = materials.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Does what there is to do; returns when to look again at the latest.
    async fn step(&mut self, found: &Materials) -> tokio::time::Instant {
        let later = tokio::time::Instant::now() + LOOK;
        if !found.loaded {
            return later;
        }
        self.take_over(found);
        self.save_again().await;
        let active = self.active.borrow().clone();
        let seen = Seen {
            identity: active
                .as_ref()
                .map(|a| (a.stored.token.as_str(), a.validity)),
            token: found.token.as_deref(),
            waits: self.tries.is_waiting(),
            jitter: self.jitter,
        };
        let step = decide(seen, clock::timestamp());
        self.tell(&step, active.as_deref(), found);
        let done = match (step, &found.token, active) {
            (Step::Join, Some(token), _) => self.join(token).await,
            (Step::Renew, _, Some(active)) => self.renew(&active).await,
            (Step::Wait(Some(until)), ..) => Some(instant(until)),
            _ => None,
        };
        let due = [Some(later), done, self.saves.next()];
        due.into_iter().flatten().min().unwrap_or(later)
    }

    /// Uses the identity in the store, unless it is in use already or cannot be used.
    fn take_over(&mut self, found: &Materials) {
        self.shown.clone_from(&found.identity);
        if self.superseded.is_some() && self.superseded == self.shown {
            return;
        }
        self.superseded = None;
        let Some(stored) = found.identity.clone().filter(|_| self.unsaved.is_none()) else {
            return;
        };
        let in_use = self
            .active
            .borrow()
            .as_ref()
            .is_some_and(|a| a.stored == stored);
        if in_use {
            self.broken = None;
        } else {
            self.use_identity(stored);
        }
    }

    /// Returns whether it can be used.
    fn use_identity(&mut self, stored: Arc<StoredIdentity>) -> bool {
        match Active::new(stored) {
            Ok(active) => {
                let expires = active.validity.not_after;
                tracing::info!(cluster = active.stored.cluster, %expires, "identity in use");
                self.active.send_replace(Some(Arc::new(active)));
                self.broken = None;
                true
            }
            Err(error) => {
                let why = format!("the stored identity cannot be used: {}", chain(&error));
                if self.broken.as_ref() != Some(&why) {
                    tracing::warn!(why, "the last good identity stays in use");
                }
                self.broken = Some(why);
                false
            }
        }
    }

    /// Tells how the identity is, unless a try is going to tell more.
    fn tell(&self, step: &Step, active: Option<&Active>, found: &Materials) {
        let problem = self.broken.as_ref().or(found.problem.as_ref());
        let Some(active) = active else {
            if let (Step::Wait(_), Some(problem)) = (step, problem) {
                self.board.phase("", Phase::Joining(problem.clone()));
            }
            return;
        };
        let phase = match step {
            Step::Join => return,
            Step::Lost => {
                Phase::Troubled("the certificate has ended; a new join token is needed".to_owned())
            }
            Step::Renew if self.renewals.is_waiting() => return,
            Step::Renew | Step::Wait(_) => match problem {
                Some(problem) => Phase::Troubled(problem.clone()),
                None => Phase::Good,
            },
        };
        self.board.identity(IdentityState {
            cluster: active.stored.cluster.clone(),
            expires: active.validity.not_after.to_string(),
            token: active.stored.token.clone(),
            phase,
        });
    }

    /// Joins if it is time to; returns when there is something to do again.
    async fn join(&mut self, token: &Arc<JoinToken>) -> Option<tokio::time::Instant> {
        let id = token.token.id().to_string();
        if !self.tries.may_try(&id, UNDECIDED) {
            return self.tries.next();
        }
        if !self.tries.is_waiting() {
            self.board.phase(&id, Phase::Joining(String::new()));
        }
        match self.joiner.join(Arc::clone(token)).await {
            Ok(identity) => {
                tracing::info!(cluster = identity.cluster, token = id, "joined");
                if self.took(identity).await {
                    self.tries.worked();
                } else {
                    self.tries.failed();
                }
                Some(self.tries.next().unwrap_or_else(tokio::time::Instant::now))
            }
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(error = cause, token = id, cluster = %token.cluster, "failed to join");
                let text = chain(cause);
                let phase = match error.final_refusal() {
                    Some(refusal) => {
                        self.tries.failed_for_good(REFUSED);
                        let code = serde_json::to_value(refusal).unwrap_or_default();
                        Phase::Refused(code.as_str().unwrap_or_default().to_owned(), text)
                    }
                    None => {
                        self.tries.failed();
                        Phase::Joining(text)
                    }
                };
                self.board.phase(&id, phase);
                self.tries.next()
            }
        }
    }

    /// Renews if it is time to; returns when there is something to do again.
    async fn renew(&mut self, active: &Active) -> Option<tokio::time::Instant> {
        let topic = format!("renewal of {}", active.validity.not_after);
        if !self.renewals.may_try(&topic, RENEWALS) {
            return self.renewals.next();
        }
        match self.renewer.renew(Arc::clone(&active.stored)).await {
            Ok(identity) => {
                tracing::info!("certificate renewed");
                if self.took(identity).await {
                    self.renewals.worked();
                } else {
                    self.renewals.failed();
                }
                Some(
                    self.renewals
                        .next()
                        .unwrap_or_else(tokio::time::Instant::now),
                )
            }
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(error = cause, "failed to renew the certificate");
                let trouble = format!("failed to renew the certificate: {}", chain(cause));
                self.board
                    .phase(&active.stored.token, Phase::Troubled(trouble));
                self.renewals.failed();
                self.renewals.next()
            }
        }
    }

    /// Uses a new identity and keeps it. The token is spent: what cannot be kept now is kept later.
    /// Returns whether it is of use: one that cannot be used is not kept in place of one that can,
    /// and of one that is due again already nothing is gained by asking at once.
    async fn took(&mut self, identity: StoredIdentity) -> bool {
        let identity = Arc::new(identity);
        if !self.use_identity(Arc::clone(&identity)) {
            return false;
        }
        self.saves.worked();
        self.unsaved = Some(identity);
        self.save_again().await;
        let active = self.active.borrow();
        active.as_ref().is_some_and(|active| {
            let validity = active.validity;
            let now = clock::timestamp();
            let due = rotation(validity.made(), validity.not_after, now, self.jitter);
            matches!(due, Rotation::Keep { .. })
        })
    }

    async fn save_again(&mut self) {
        let Some(identity) = self.unsaved.clone() else {
            return;
        };
        if !self.saves.may_try("", UNDECIDED) {
            return;
        }
        match self.store.save(&identity).await {
            Ok(()) => {
                self.unsaved = None;
                self.superseded = self.shown.clone();
                self.saves.worked();
            }
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(error = cause, "the new identity could not be kept yet");
                self.saves.failed();
            }
        }
    }
}

/// The moment on tokio's clock; what has passed is now.
fn instant(at: Timestamp) -> tokio::time::Instant {
    let left = at.duration_since(clock::timestamp());
    tokio::time::Instant::now() + Duration::try_from(left).unwrap_or_default()
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some libraries repeat their cause in their own message.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
