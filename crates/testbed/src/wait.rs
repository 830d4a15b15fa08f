//! Waits until something is so, and says what it last saw when it never is.

use std::{future::Future, time::Duration};

use tokio::time;

use crate::error::Error;

/// Between two looks. A look is a few system calls or one small request.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks until `look` returns a value.
///
/// # Errors
///
/// [`Error::Timeout`] with the last answer when `limit` has passed.
pub(crate) async fn until<T, F>(
    what: impl Into<String>,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, String>>,
{
    let end = time::Instant::now() + limit;
    loop {
        let last = match time::timeout_at(end, look()).await {
            Ok(Ok(seen)) => return Ok(seen),
            Ok(Err(last)) => last,
            Err(time::error::Elapsed { .. }) => "no answer".to_owned(),
        };
        if time::Instant::now() + PAUSE >= end {
            return Err(Error::Timeout {
                what: what.into(),
                limit,
                last,
            });
        }
        time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_answer_is_in_the_error() {
        let limit = Duration::from_secs(3);
        let mut looks = 0;
        let never: Result<(), _> = until("node ready", limit, || {
            looks += 1;
            let seen = format!("look {looks}");
            async move { Err(seen) }
        })
        .await;
        assert_eq!(
            never.unwrap_err().to_string(),
            "node ready not within 3 s; last seen: look 30"
        );
    }
}
