//! Decides who a caller is and whether they may connect: cached shortly, bounded, asked for once
//! at a time. What cannot be decided is refused.

use std::{error::Error, net::IpAddr, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use moka::future::Cache;
use strait_api::{Subject, SubjectKind};
use strait_pki::Subject as CertificateSubject;
use strait_runtime::clock;
use strait_types::{Redacted, Refusal, RefusalCode};

use crate::{
    caller::{Caller, Credential, Fingerprint, User},
    callers_trust::CallersTrust,
    deps::{Reviews, Unanswered},
    review_queue::ReviewQueue,
    snapshot::Destination,
};

/// How many answers of each kind are remembered. One takes some hundred bytes.
const MAX_REMEMBERED: u64 = 10_000;
/// Stands for the inventory among the keys of entrypoints, which have a `/`.
const MEMBERS_KEY: &str = "managedclusters";
/// A group that everybody who is known belongs to; API servers add it themselves for tokens.
const AUTHENTICATED: &str = "system:authenticated";

/// Whether an answer may be one that was given a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// At most as old as `Times::decision`.
    Recent,
    /// Asked for now.
    Now,
}

/// Remembers and asks.
#[derive(Debug)]
pub(crate) struct Decisions {
    reviews: Arc<dyn Reviews>,
    callers: CallersTrust,
    queue: ReviewQueue,
    known: Cache<Fingerprint, Option<Arc<User>>>,
    allowed: Cache<(Fingerprint, Arc<str>), bool>,
}

// === impl Decisions ===

impl Decisions {
    pub(crate) fn new(reviews: Arc<dyn Reviews>, callers: CallersTrust, keep: Duration) -> Self {
        Self {
            reviews,
            callers,
            queue: ReviewQueue::new(),
            known: Cache::builder()
                .max_capacity(MAX_REMEMBERED)
                .time_to_live(keep)
                .build(),
            allowed: Cache::builder()
                .max_capacity(MAX_REMEMBERED)
                .time_to_live(keep)
                .build(),
        }
    }

    /// Whose credential this is now, which was somebody's before. Strangers cannot delay it.
    ///
    /// Refuses as `identify`.
    pub(crate) async fn identify_again(&self, credential: Credential) -> Result<Caller, Refusal> {
        let fingerprint = credential.fingerprint();
        // Not by way of what others may be waiting for, whose place in the queue is not ours.
        let user = match &credential {
            Credential::Token(token) => {
                let user = self.user_of_token(token, None).await;
                user.map_err(|error| unavailable(&error))?
            }
            Credential::Certificate(chain) => self.user_of_certificate(chain),
            Credential::LocalSocket(user) => Some(Arc::clone(user)),
        };
        self.known.insert(fingerprint, user.clone()).await;
        match user {
            Some(user) => Ok(Caller::new(user, credential, fingerprint)),
            None => Err(nobody(&credential)),
        }
    }

    /// Who comes from `source` with this credential.
    ///
    /// Refuses with `unauthenticated` when nobody does, and with `unavailable` when that cannot be
    /// said now.
    pub(crate) async fn identify(
        &self,
        credential: Credential,
        source: IpAddr,
    ) -> Result<Caller, Refusal> {
        let fingerprint = credential.fingerprint();
        let known = match &credential {
            Credential::Token(token) => {
                let ask: BoxFuture<'_, _> = Box::pin(self.user_of_token(token, Some(source)));
                self.known
                    .try_get_with(fingerprint, ask)
                    .await
                    .map_err(|e| unavailable(&e))?
            }
            Credential::Certificate(chain) => {
                self.known
                    .get_with(fingerprint, async { self.user_of_certificate(chain) })
                    .await
            }
            Credential::LocalSocket(user) => Some(Arc::clone(user)),
        };
        match known {
            Some(user) => Ok(Caller::new(user, credential, fingerprint)),
            None => Err(nobody(&credential)),
        }
    }

    /// Whether the caller may connect there.
    ///
    /// Refuses with `unavailable` when that cannot be said now.
    pub(crate) async fn may_connect(
        &self,
        caller: &Caller,
        destination: &Destination,
        freshness: Freshness,
    ) -> Result<bool, Refusal> {
        if listed(caller.user(), &destination.subjects) {
            return Ok(true);
        }
        let key = (caller.user_fingerprint(), Arc::clone(&destination.key));
        let cluster = destination.service.cluster();
        let ask = self
            .reviews
            .may_connect(caller.user(), cluster, &destination.object);
        if freshness == Freshness::Now {
            // What is being asked already may have been asked before the right was taken away.
            let allowed = ask.await.map_err(|error| unavailable(&error))?;
            self.allowed.insert(key, allowed).await;
            return Ok(allowed);
        }
        self.allowed
            .try_get_with(key, ask)
            .await
            .map_err(|error| unavailable(&error))
    }

    /// Whether the caller may know of all members.
    ///
    /// Refuses with `unavailable` when that cannot be said now.
    pub(crate) async fn may_list_members(&self, caller: &Caller) -> Result<bool, Refusal> {
        let key = (caller.user_fingerprint(), Arc::from(MEMBERS_KEY));
        let ask = self.reviews.may_list_members(caller.user());
        let allowed = self.allowed.try_get_with(key, ask).await;
        allowed.map_err(|error| unavailable(&error))
    }

    async fn user_of_token(
        &self,
        token: &Redacted,
        source: Option<IpAddr>,
    ) -> Result<Option<Arc<User>>, Unanswered> {
        let _turn = match source {
            Some(source) => Some(self.queue.turn(source).await?),
            None => None,
        };
        let user = self.reviews.who_is(token).await?;
        let user = user.filter(|user| !user.name.is_empty()).map(Arc::new);
        if let (None, Some(source)) = (&user, source) {
            self.queue.wrong(source);
        }
        Ok(user)
    }

    fn user_of_certificate(
        &self,
        chain: &[rustls_pki_types::CertificateDer<'static>],
    ) -> Option<Arc<User>> {
        if let Err(error) = self.callers.verify(chain, clock::timestamp()) {
            tracing::debug!(%error, "a caller's certificate is not good");
            return None;
        }
        let subject = CertificateSubject::of(chain.first()?).ok().flatten()?;
        let mut groups = subject.groups;
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Some(Arc::new(User {
            name: subject.user,
            groups,
            ..User::default()
        }))
    }
}

/// Whether one of the entrypoint's own subjects is this user.
fn listed(user: &User, subjects: &[Subject]) -> bool {
    subjects.iter().any(|subject| match subject.kind {
        SubjectKind::User => subject.name == user.name,
        SubjectKind::Group => user.groups.contains(&subject.name),
        SubjectKind::ServiceAccount => subject.namespace.as_ref().is_some_and(|namespace| {
            user.name == format!("system:serviceaccount:{namespace}:{}", subject.name)
        }),
    })
}

fn nobody(credential: &Credential) -> Refusal {
    let what = match credential {
        Credential::Token(_) => "the token is not valid, or not any more",
        Credential::Certificate(_) => "the client certificate is not valid, or not any more",
        Credential::LocalSocket(_) => "nobody is known at the local socket",
    };
    Refusal::new(RefusalCode::Unauthenticated, what)
}

fn unavailable(error: &Unanswered) -> Refusal {
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    // Everybody can cause this, so it is counted by its code and told to those who look closely.
    tracing::debug!(error = %error, cause, "a caller could not be reviewed");
    Refusal::new(
        RefusalCode::Unavailable,
        "the hub cannot check callers at the moment",
    )
    .with_hint("its API server does not answer, or too many ask; try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: SubjectKind, name: &str, namespace: Option<&str>) -> Subject {
        Subject {
            kind,
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    /// An API server whose first answer never comes, and whose later ones are no.
    #[derive(Debug, Default)]
    struct StuckThenNo {
        asked: std::sync::atomic::AtomicUsize,
        first: tokio::sync::Notify,
    }

    impl StuckThenNo {
        async fn answer(&self) {
            if self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
                self.first.notify_one();
                std::future::pending::<()>().await;
            }
        }
    }

    impl Reviews for StuckThenNo {
        fn who_is<'a>(
            &'a self,
            _: &'a Redacted,
        ) -> BoxFuture<'a, Result<Option<User>, Unanswered>> {
            Box::pin(async {
                self.answer().await;
                Ok(None)
            })
        }

        fn may_connect<'a>(
            &'a self,
            _: &'a User,
            _: &'a strait_types::ClusterName,
            _: &'a str,
        ) -> BoxFuture<'a, Result<bool, Unanswered>> {
            Box::pin(async { Ok(false) })
        }

        fn may_list_members<'a>(&'a self, _: &'a User) -> BoxFuture<'a, Result<bool, Unanswered>> {
            Box::pin(async { Ok(false) })
        }
    }

    #[tokio::test]
    async fn a_review_does_not_wait_for_what_a_stranger_asks() {
        let reviews = Arc::new(StuckThenNo::default());
        let none = || strait_pki::Reloadable::new(None);
        let trust = CallersTrust::new(none(), none());
        let decisions = Decisions::new(Arc::clone(&reviews) as _, trust, Duration::from_secs(5));
        let token = Credential::Token(Redacted::new("t"));
        let stranger = decisions.identify(token.clone(), IpAddr::from([192, 0, 2, 1]));
        let reviewed = async {
            reviews.first.notified().await;
            decisions.identify_again(token).await
        };
        let refusal = tokio::select! {
            reviewed = reviewed => reviewed.unwrap_err(),
            _ = stranger => panic!("the first question is never answered"),
        };
        assert_eq!(refusal.code, RefusalCode::Unauthenticated);
    }

    #[test]
    fn subjects_are_compared_as_rbac_does() {
        let user = User {
            name: "system:serviceaccount:ci:runner".to_owned(),
            groups: vec!["system:serviceaccounts".to_owned()],
            ..User::default()
        };
        let yes = [
            subject(SubjectKind::ServiceAccount, "runner", Some("ci")),
            subject(SubjectKind::Group, "system:serviceaccounts", None),
            subject(SubjectKind::User, "system:serviceaccount:ci:runner", None),
        ];
        for subject in yes {
            assert!(listed(&user, std::slice::from_ref(&subject)), "{subject:?}");
        }
        let no = [
            subject(SubjectKind::ServiceAccount, "runner", None),
            subject(SubjectKind::ServiceAccount, "runner", Some("other")),
            subject(SubjectKind::User, "system:serviceaccounts", None),
            subject(SubjectKind::Group, "runner", None),
        ];
        assert!(!listed(&user, &no));
    }
}
