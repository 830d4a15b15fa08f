//! HTTP CONNECT.

use std::sync::Arc;

use http::{Request, Response};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use strait_tunnel::{Splice, SpliceEnd, reset_code};
use strait_types::{PortChoice, Refusal, RefusalCode};

use super::{Body, Connection, refuse, trace_context};
use crate::{
    audit::{AuditLine, Bytes, End, Via},
    reach::{Ask, Opened},
};

impl Connection {
    pub(super) async fn connect(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        host: String,
        port: PortChoice,
    ) -> Response<Body> {
        let metrics = &self.frontend.metrics;
        let name = format!("{host}:{port}");
        let mut audit = AuditLine::begin(metrics, self.source, Via::Connect, &name);
        let ask = Ask {
            host,
            port,
            trace: trace_context(&request),
        };
        match self.open(&request, &ask, &mut audit).await {
            Ok(opened) => {
                audit.allowed();
                let upgrade = hyper::upgrade::on(&mut request);
                self.frontend.tasks.spawn_one(begin(upgrade, opened, audit));
                Response::new(Body::empty())
            }
            Err(refusal) => refuse(audit, &refusal, Via::Connect),
        }
    }

    async fn open(
        &self,
        request: &Request<Incoming>,
        ask: &Ask,
        audit: &mut AuditLine,
    ) -> Result<Opened, Refusal> {
        let (caller, _) = self.identify(Via::Connect, request).await?;
        audit.caller(&caller.user().name);
        let reach = &self.frontend.reach;
        let destination = reach.find(&caller, &ask.host, audit).await?;
        reach.open(&caller, destination, ask).await
    }
}

/// Waits until the caller has the answer, then carries bytes.
async fn begin(upgrade: OnUpgrade, opened: Opened, audit: AuditLine) {
    let cut = opened.place.cut().clone();
    let end = tokio::select! {
        biased;
        // A caller who does not read the answer keeps nothing open either.
        code = cut.wait() => {
            opened.stream.reset(reset(code));
            End::Cut(code)
        }
        upgraded = upgrade => match upgraded {
            Ok(caller) => return carry(caller, opened, audit).await,
            Err(error) => {
                tracing::debug!(%error, "the caller left before the stream began");
                End::CallerGone
            }
        },
    };
    audit.ended(Bytes::default(), &end);
}

/// Carries bytes both ways until both sides are done, one is gone, or the stream is cut.
async fn carry(caller: Upgraded, opened: Opened, audit: AuditLine) {
    let Opened { stream, place, .. } = opened;
    let resetter = stream.resetter();
    let mut copying = Splice::new(stream, TokioIo::new(caller));
    let end = tokio::select! {
        biased;
        // The caller is not waited for: one who reads nothing would keep the stream.
        code = place.cut().wait() => {
            resetter.reset(reset(code));
            End::Cut(code)
        }
        end = &mut copying => end_of(&end),
    };
    let bytes = Bytes {
        sent: copying.sent(),
        received: copying.received(),
    };
    drop(copying);
    audit.ended(bytes, &end);
}

/// What the agent is told about a stream that is cut.
fn reset(code: RefusalCode) -> u16 {
    match code {
        RefusalCode::Draining => reset_code::SHUTDOWN,
        _ => reset_code::REVOKED,
    }
}

fn end_of(end: &SpliceEnd) -> End {
    match end {
        SpliceEnd::Complete => End::Complete,
        SpliceEnd::Io(_) => End::CallerGone,
        // The agent may notice first that something is not exposed any more.
        SpliceEnd::Reset(reset) if reset.code == reset_code::REVOKED => {
            End::Cut(RefusalCode::Revoked)
        }
        SpliceEnd::Reset(_) | SpliceEnd::Lost(_) => End::TargetGone,
    }
}
