//! Join tokens and members in the hub's directory.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use strait_file_kit::{State, TokenVersion};
use strait_install::JoinRecord;
use strait_types::{ClusterName, TokenId};
use tokio::sync::Notify;

use crate::{
    FileReport, MemberReport,
    deps::{JoinTokens, Members, Notices, RecordVersion, Unanswered},
};

/// Join tokens in files.
#[derive(Debug)]
pub(super) struct FileTokens {
    state: Arc<State>,
}

/// Members in files.
#[derive(Debug)]
pub(super) struct FileMembers {
    state: Arc<State>,
    joined: Arc<Notify>,
    told: Mutex<BTreeMap<ClusterName, MemberReport>>,
}

/// What the hub says of itself, in the log: of broken files that has been told there already.
#[derive(Debug)]
pub(super) struct LogNotices;

// === impl FileTokens ===

impl FileTokens {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self { state }
    }
}

impl JoinTokens for FileTokens {
    fn find<'a>(
        &'a self,
        id: &'a TokenId,
    ) -> BoxFuture<'a, Result<Option<(JoinRecord, RecordVersion)>, Unanswered>> {
        let found = self.state.find_token(id);
        let found = found.map_err(|error| Unanswered::new("the join token", error));
        let found = found.map(|found| found.map(|(record, v)| (record, RecordVersion(v.0))));
        Box::pin(async { found })
    }

    fn consume<'a>(
        &'a self,
        id: &'a TokenId,
        version: RecordVersion,
        record: JoinRecord,
    ) -> BoxFuture<'a, Result<bool, Unanswered>> {
        let version = TokenVersion(version.0);
        let won = self.state.replace_token(id, &version, &record);
        let won = won.map_err(|error| Unanswered::new("the join token", error));
        Box::pin(async { won })
    }
}

// === impl FileMembers ===

impl FileMembers {
    pub(super) fn new(state: Arc<State>, joined: Arc<Notify>) -> Self {
        Self {
            state,
            joined,
            told: Mutex::default(),
        }
    }
}

impl Members for FileMembers {
    fn ensure<'a>(&'a self, cluster: &'a ClusterName) -> BoxFuture<'a, Result<String, Unanswered>> {
        let uid = self.state.ensure_member(cluster);
        self.joined.notify_one();
        let uid = uid.map_err(|error| Unanswered::new("the hub's directory", error));
        Box::pin(async { uid })
    }

    fn report<'a>(
        &'a self,
        cluster: &'a ClusterName,
        report: &'a MemberReport,
    ) -> BoxFuture<'a, Result<(), Unanswered>> {
        let before = self.told.lock().insert(cluster.clone(), report.clone());
        if before.as_ref() != Some(report) {
            tracing::info!(%cluster, ?report, "member");
        }
        Box::pin(async { Ok(()) })
    }
}

// === impl LogNotices ===

impl Notices for LogNotices {
    fn files<'a>(&'a self, _report: &'a FileReport) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(async { Ok(()) })
    }
}
