//! A cluster joins with a token, and its agent renews its certificate.

use std::{net::SocketAddr, sync::Arc};

use rustls_pki_types::CertificateDer;
use strait_install::JoinRecord;
use strait_pki::{AgentName, AgentRequest};
use strait_runtime::clock;
use strait_types::{
    ClusterName, JoinAnswer, JoinCredential, JoinRefusal, JoinRequest, Redacted, RenewRequest,
};

use crate::{
    config::HubConfig,
    deps::{Deps, Unanswered},
    metrics::Metrics,
    rate_limit::RateLimit,
};

/// What a hash is compared with when there is no record, so that both take the same time.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// For how long the agent that has used a token may ask again.
const AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// Issues agents' certificates.
#[derive(Debug)]
pub(crate) struct Joins {
    config: Arc<HubConfig>,
    deps: Deps,
    metrics: Metrics,
    limit: RateLimit,
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoJoin {
    /// The source asks too often.
    TooOften,
    /// For this reason.
    Refused(JoinRefusal),
    /// What came is no request to join; the text says why not.
    Malformed(String),
}

// === impl Joins ===

impl Joins {
    pub(crate) fn new(config: Arc<HubConfig>, deps: Deps, metrics: Metrics) -> Self {
        let limit = RateLimit::new(config.limits.joins_per_minute);
        Self {
            config,
            deps,
            metrics,
            limit,
        }
    }

    /// Whether this source may ask at all now. Asked before the request is read.
    pub(crate) fn admits(&self, source: SocketAddr) -> Result<(), NoJoin> {
        if self.limit.take(source.ip(), clock::now()) {
            Ok(())
        } else {
            self.metrics.join("too-often");
            Err(NoJoin::TooOften)
        }
    }

    /// Spends the token and issues the first certificate of a cluster.
    pub(crate) async fn join(&self, body: &[u8], source: SocketAddr) -> Result<JoinAnswer, NoJoin> {
        let request: JoinRequest = match serde_json::from_slice(body) {
            Ok(request) => request,
            // The text may quote the token: it goes to who sent it, and into no log.
            Err(error) => {
                tracing::debug!(%source, "a join that is not one");
                self.metrics.join("malformed");
                return Err(NoJoin::Malformed(error.to_string()));
            }
        };
        let (cluster, token) = (request.cluster.clone(), request.token.id().clone());
        let answer = self.spend(request).await;
        match &answer {
            Ok(_) => {
                self.metrics.join("joined");
                tracing::info!(target: "strait::audit", %cluster, %token, %source, "cluster joined");
            }
            Err(refusal) => {
                self.metrics.join("refused");
                tracing::info!(
                    target: "strait::audit",
                    %cluster, %token, %source, %refusal,
                    "join refused"
                );
            }
        }
        answer.map_err(NoJoin::Refused)
    }

    /// Issues the next certificate of an agent that is connected.
    pub(crate) fn renew(
        &self,
        agent: &AgentName,
        request: &RenewRequest,
    ) -> Result<(JoinAnswer, CertificateDer<'static>), JoinRefusal> {
        let cluster = &agent.cluster;
        let answer = read(cluster, &request.csr).and_then(|request| self.issue(agent, &request));
        self.metrics
            .join(if answer.is_ok() { "renewed" } else { "refused" });
        tracing::info!(target: "strait::audit", %cluster, good = answer.is_ok(), "renewal");
        answer
    }

    async fn spend(&self, request: JoinRequest) -> Result<JoinAnswer, JoinRefusal> {
        let id = request.token.id().clone();
        let found = self
            .deps
            .join_tokens
            .find(&id)
            .await
            .map_err(|e| unavailable(&e))?;
        let now = clock::timestamp();
        let record = found.as_ref().map(|(record, _)| record);
        let checked = check(record, &request.token, &request.cluster, now);
        let Some((record, version)) = found else {
            return Err(JoinRefusal::TokenForeign);
        };
        if checked == Err(JoinRefusal::TokenUsed) {
            return self.join_again(&record, &request, now);
        }
        checked?;
        // Everything that can fail comes before the token is spent, and nothing leaves the hub
        // before it is.
        let certificate = read(&record.cluster, &request.csr)?;
        let cluster = record.cluster.clone();
        let member = self.deps.members.ensure(&cluster).await;
        let member = member.map_err(|e| unavailable(&e))?;
        let uid = member.clone();
        let (answer, _) = self.issue(&AgentName { cluster, member }, &certificate)?;
        let used = JoinRecord {
            used_at: Some(now),
            used_by: Some(used_by(&certificate, &uid)),
            ..record
        };
        let won = self.deps.join_tokens.consume(&id, version, used).await;
        if won.map_err(|e| unavailable(&e))? {
            Ok(answer)
        } else {
            Err(JoinRefusal::TokenUsed)
        }
    }

    /// The answer to a join was lost, and the same agent asks again: for a short time, and for as
    /// long as the member is the one that it joined, it gets a certificate for the same key.
    fn join_again(
        &self,
        record: &JoinRecord,
        request: &JoinRequest,
        now: jiff::Timestamp,
    ) -> Result<JoinAnswer, JoinRefusal> {
        let certificate = read(&record.cluster, &request.csr)?;
        let recent = record
            .used_at
            .is_some_and(|used| now.duration_since(used) < AGAIN);
        let cluster = record.cluster.clone();
        let member = {
            let inventory = self.deps.inventory.borrow();
            inventory
                .members
                .get(&cluster)
                .map(|member| member.uid.clone())
        };
        let member = member.ok_or(JoinRefusal::TokenUsed)?;
        let same = record.used_by == Some(used_by(&certificate, &member));
        if !(recent && same && cluster == request.cluster) {
            return Err(JoinRefusal::TokenUsed);
        }
        let (answer, _) = self.issue(&AgentName { cluster, member }, &certificate)?;
        Ok(answer)
    }

    fn issue(
        &self,
        agent: &AgentName,
        request: &AgentRequest,
    ) -> Result<(JoinAnswer, CertificateDer<'static>), JoinRefusal> {
        let ca = self.deps.material.agent_ca.get();
        let (domain, validity) = (&self.config.trust_domain, self.config.agent_validity);
        match ca.issue_agent(request, agent, domain, validity, clock::timestamp()) {
            Ok(issued) => {
                let answer = JoinAnswer {
                    certificate: issued.chain_pem,
                    ca_bundle: self.deps.material.hub_bundle.get().as_str().to_owned(),
                    hubs: self.config.addresses.clone(),
                };
                Ok((answer, issued.der))
            }
            Err(error) => {
                let cluster = &agent.cluster;
                tracing::warn!(%cluster, %error, "a certificate could not be signed");
                Err(JoinRefusal::Unavailable)
            }
        }
    }
}

/// What is noted of who used a token: the key, and the member that it became.
fn used_by(certificate: &AgentRequest, member: &str) -> String {
    format!("{}:{member}", certificate.key_hash())
}

fn read(cluster: &ClusterName, csr: &str) -> Result<AgentRequest, JoinRefusal> {
    AgentRequest::from_pem(csr).map_err(|error| {
        tracing::info!(%cluster, %error, "certificate request refused");
        JoinRefusal::BadRequest
    })
}

/// Whether a token may be spent. The secret comes first and in constant time: who does not have it
/// learns nothing about the token.
fn check(
    record: Option<&JoinRecord>,
    token: &JoinCredential,
    cluster: &ClusterName,
    now: jiff::Timestamp,
) -> Result<(), JoinRefusal> {
    let no_hash = Redacted::new(NO_HASH);
    let stored = record.map_or(&no_hash, |record| &record.secret_hash);
    let good = *stored == token.secret_hash();
    let Some(record) = record.filter(|_| good) else {
        return Err(JoinRefusal::TokenForeign);
    };
    if record.used_at.is_some() {
        Err(JoinRefusal::TokenUsed)
    } else if now >= record.expires {
        Err(JoinRefusal::TokenExpired)
    } else if record.cluster != *cluster {
        Err(JoinRefusal::OtherCluster)
    } else {
        Ok(())
    }
}

fn unavailable(error: &Unanswered) -> JoinRefusal {
    let cause = std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default();
    tracing::warn!(%error, cause, "a join token could not be looked up");
    JoinRefusal::Unavailable
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    #[test]
    fn a_token_is_checked_secret_first() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let (token, other) = (
            JoinCredential::from_random([1; 8], [2; 32]),
            JoinCredential::from_random([1; 8], [3; 32]),
        );
        let cluster: ClusterName = "cluster1".parse().unwrap();
        let fresh = JoinRecord::new(cluster, &token, now + SignedDuration::from_secs(1));
        let expired = JoinRecord {
            expires: now,
            ..fresh.clone()
        };
        let used = JoinRecord {
            used_at: Some(now),
            ..fresh.clone()
        };
        let ask =
            |record, token, cluster: &str| check(record, token, &cluster.parse().unwrap(), now);
        assert_eq!(ask(Some(&fresh), &token, "cluster1"), Ok(()));
        assert_eq!(
            ask(None, &token, "cluster1"),
            Err(JoinRefusal::TokenForeign)
        );
        assert_eq!(
            ask(Some(&used), &other, "cluster1"),
            Err(JoinRefusal::TokenForeign)
        );
        assert_eq!(
            ask(Some(&expired), &token, "cluster1"),
            Err(JoinRefusal::TokenExpired)
        );
        assert_eq!(
            ask(Some(&used), &token, "cluster1"),
            Err(JoinRefusal::TokenUsed)
        );
        assert_eq!(
            ask(Some(&fresh), &token, "cluster2"),
            Err(JoinRefusal::OtherCluster)
        );
    }
}
