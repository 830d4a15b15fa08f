//! Waits for a real system to get where it goes.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

/// How often is looked. Short, as it is what a passing test waits for on average, halved.
const PERIOD: Duration = Duration::from_millis(100);

/// Looks again and again until `look` succeeds.
///
/// # Errors
/// After `within`, the last error of `look`, so that it says what was seen instead.
pub async fn eventually<T, F>(
    within: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + within;
    loop {
        match look().await {
            Ok(seen) => return Ok(seen),
            Err(last) if Instant::now() >= deadline => {
                return Err(last)
                    .with_context(|| format!("waited {} s until {what}", within.as_secs()));
            }
            Err(_) => sleep(PERIOD).await,
        }
    }
}
