//! What the hub needs from outside: the inventory, reviews of callers, join tokens, certificates.
//!
//! Everything that the hub knows comes through here, so that a test, or a hub without a cluster,
//! runs the same code as one in Kubernetes.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use rustls::RootCertStore;
use strait_install::JoinRecord;
use strait_pki::{Bundle, Ca, ClientVerifier, Identity, Reloadable};
use strait_types::{ClusterName, Redacted, TokenId};
use thiserror::Error;
use tokio::sync::watch;

use crate::{Snapshot, User, file_report::FileReport, member_report::MemberReport};

/// Everything that the hub needs from outside.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The newest inventory.
    pub inventory: watch::Receiver<Arc<Snapshot>>,
    /// Who callers are and what they may do.
    pub reviews: Arc<dyn Reviews>,
    /// The tokens that clusters join with.
    pub join_tokens: Arc<dyn JoinTokens>,
    /// Where the state of members is written.
    pub members: Arc<dyn Members>,
    /// Where the hub says how it is itself.
    pub notices: Arc<dyn Notices>,
    /// Keys and certificates.
    pub material: Material,
}

/// Keys and certificates, each replaced when its source changes.
#[derive(Clone, Debug)]
pub struct Material {
    /// Signs the hub's certificates.
    pub hub_ca: Option<Reloadable<Ca>>,
    /// PEM of what agents and callers must trust to verify the hub; handed to agents.
    pub hub_bundle: Reloadable<String>,
    /// Signs agents' certificates.
    pub agent_ca: Reloadable<Ca>,
    /// Verifies agents' certificates; two authorities overlap during a rotation.
    pub agents: Reloadable<ClientVerifier>,
    /// Authorities of callers' certificates; none: callers come with tokens.
    pub callers: Reloadable<Option<Bundle>>,
    /// Further authorities of callers, from a file.
    pub callers_file: Reloadable<Option<Bundle>>,
    /// Certificates of the hub from files.
    pub files: Reloadable<Vec<Identity>>,
    /// Verifies services whose entrypoint names no authority.
    pub native_roots: Arc<RootCertStore>,
}

/// Why something outside could not answer. It never means yes.
#[derive(Debug, Error)]
#[error("{what} did not answer")]
pub struct Unanswered {
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Asks who callers are and what they may do.
pub trait Reviews: fmt::Debug + Send + Sync {
    /// Whose token it is; `None` when it is nobody's, or not any more.
    fn who_is<'a>(&'a self, token: &'a Redacted)
    -> BoxFuture<'a, Result<Option<User>, Unanswered>>;

    /// Whether a user may `connect` to the entrypoint object of this name in the namespace of this
    /// cluster.
    fn may_connect<'a>(
        &'a self,
        user: &'a User,
        cluster: &'a ClusterName,
        object: &'a str,
    ) -> BoxFuture<'a, Result<bool, Unanswered>>;

    /// Whether a user may `list` the members of the inventory.
    fn may_list_members<'a>(&'a self, user: &'a User) -> BoxFuture<'a, Result<bool, Unanswered>>;
}

/// Keeps join tokens.
pub trait JoinTokens: fmt::Debug + Send + Sync {
    /// The record of a token and its version; `None` when there is none.
    fn find<'a>(
        &'a self,
        id: &'a TokenId,
    ) -> BoxFuture<'a, Result<Option<(JoinRecord, RecordVersion)>, Unanswered>>;

    /// Marks the token as used, if its record still has this version. Returns whether it had:
    /// of two that try at the same time one gets `false`.
    fn consume<'a>(
        &'a self,
        id: &'a TokenId,
        version: RecordVersion,
        record: JoinRecord,
    ) -> BoxFuture<'a, Result<bool, Unanswered>>;
}

/// The version of a record; opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordVersion(pub String);

/// Writes what is known of members.
pub trait Members: fmt::Debug + Send + Sync {
    /// Puts a cluster into the inventory, accepted, unless it is there already. Returns its uid,
    /// empty where the inventory has none. A member that is being deleted is no answer.
    fn ensure<'a>(&'a self, cluster: &'a ClusterName) -> BoxFuture<'a, Result<String, Unanswered>>;

    /// Writes how a member is; nothing when there is no such member.
    fn report<'a>(
        &'a self,
        cluster: &'a ClusterName,
        report: &'a MemberReport,
    ) -> BoxFuture<'a, Result<(), Unanswered>>;
}

/// Says how the hub is itself.
pub trait Notices: fmt::Debug + Send + Sync {
    /// Says how its certificate files are. Asked every few seconds; writes only what is new, and
    /// nothing where there is no object to write on.
    fn files<'a>(&'a self, report: &'a FileReport) -> BoxFuture<'a, Result<(), Unanswered>>;
}

// === impl Unanswered ===

impl Unanswered {
    /// `what` did not answer, because of `source`.
    pub fn new(
        what: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            what,
            source: source.into(),
        }
    }
}
