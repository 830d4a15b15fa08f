//! The only task that waits for the carrier and for the clock.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use strait_tunnel_proto::EndReason;
use tokio::{
    io::ReadBuf,
    time::{self, Sleep},
};

use crate::shared::{Shared, State, now};

/// How much is read from the carrier at a time: some frames, so that small ones come in bulk.
const READ_SIZE: usize = 64 << 10;
/// How long a farewell may take to be sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// Moves a session: a future that the caller runs in a task of its own. Without it nothing
/// arrives and nobody notices that the peer is gone. Dropping it ends the session.
pub struct Driver {
    shared: Arc<Shared>,
    buffer: Box<[u8]>,
    /// The bytes in `buffer` that are the start of a frame.
    filled: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

enum Step {
    Again,
    Wait(Option<Instant>),
    Over(EndReason),
}

// === impl Driver ===

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            buffer: vec![0; READ_SIZE].into_boxed_slice(),
            filled: 0,
            timer: None,
        }
    }

    /// Runs until the session is over, and says why it is. A farewell is sent before it returns,
    /// which takes one second at most.
    pub async fn run(mut self) -> EndReason {
        let reason = poll_fn(|cx| self.poll_over(cx)).await;
        self.say_farewell().await;
        reason
    }

    /// Runs until the peer greeted.
    pub(crate) async fn greet(&mut self) -> Result<(), EndReason> {
        let greeted = poll_fn(|cx| match self.poll_over(cx) {
            Poll::Ready(reason) => Poll::Ready(Err(reason)),
            Poll::Pending if self.shared.with(|state| state.established) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        });
        let result = greeted.await;
        if result.is_err() {
            self.say_farewell().await;
        }
        result
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        loop {
            match self.step(cx) {
                Step::Again => {}
                Step::Over(reason) => return Poll::Ready(reason),
                Step::Wait(deadline) => {
                    if self.poll_timer(cx, deadline).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let (shared, buffer, filled) = (&self.shared, &mut self.buffer, &mut self.filled);
        shared.with(|state| {
            state.wire.attend(cx.waker());
            let now = now();
            // What lies there was sent in time, however late it is read.
            let read = receive(state, now, buffer, filled);
            if state
                .proto
                .poll_timeout()
                .is_some_and(|deadline| deadline <= now)
            {
                state.proto.handle_timeout(now);
            }
            match (&state.end, read) {
                (Some(reason), _) => Step::Over(reason.clone()),
                (None, Poll::Ready(())) => Step::Again,
                (None, Poll::Pending) => Step::Wait(state.proto.poll_timeout()),
            }
        })
    }

    /// Ready when the deadline may have come; the session knows whether it has.
    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let Some(deadline) = deadline.map(time::Instant::from_std) else {
            return Poll::Pending;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(time::sleep_until(deadline)));
        // A deadline that moved away is looked at when the timer fires: traffic moves it with
        // every frame.
        if deadline < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }

    async fn say_farewell(&mut self) {
        let shared = &self.shared;
        let sent = poll_fn(|cx| {
            shared.with(|state| {
                state.wire.attend(cx.waker());
                let State { wire, proto, .. } = state;
                wire.shut_down(proto)
            })
        });
        // A peer that does not take the farewell does without it.
        let _in_time = time::timeout(FAREWELL, pin!(sent)).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let carrier = self.shared.with(|state| {
            state.proto.handle_disconnect("its driver was stopped");
            state.wire.give_up()
        });
        drop(carrier);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// Reads once and handles what came; keeps the start of a frame at the front of the buffer.
fn receive(state: &mut State, now: Instant, buffer: &mut [u8], filled: &mut usize) -> Poll<()> {
    let mut target = ReadBuf::new(buffer);
    target.set_filled(*filled);
    let State { wire, proto, .. } = state;
    if wire.receive(proto, &mut target).is_pending() {
        return Poll::Pending;
    }
    let end = target.filled().len();
    let done = state.handle(now, buffer.get(..end).unwrap_or_default());
    buffer.copy_within(done..end, 0);
    *filled = end - done;
    Poll::Ready(())
}
