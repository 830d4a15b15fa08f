//! Waiting, with what is waited for and its age.

use std::time::Duration;

use strait_runtime::clock;

use crate::{failure::Failure, printer::Printer};

/// How often to look. The API servers of people's clusters are not loaded by one person's look.
const EVERY: Duration = Duration::from_millis(200);

/// What a look has shown.
pub(crate) enum Seen<T> {
    /// There it is.
    Done(T),
    /// Not yet; says what is waited for.
    Waiting(String),
}

/// How the waiting ended.
pub(crate) enum Waited<T> {
    /// It came, after this long.
    Done(T, Duration),
    /// It did not come in time; says what was waited for last.
    TooLong(String),
}

/// Looks until it is done, at most for `limit`.
pub(crate) async fn wait<T>(
    printer: &mut Printer<'_>,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<Seen<T>, Failure>,
) -> Result<Waited<T>, Failure> {
    let started = clock::now();
    let mut last = String::new();
    loop {
        let waiting = match look().await? {
            Seen::Done(value) => return Ok(Waited::Done(value, clock::now() - started)),
            Seen::Waiting(waiting) => waiting,
        };
        let age = clock::now() - started;
        if age >= limit {
            return Ok(Waited::TooLong(waiting));
        }
        printer.progress(&format!("{waiting} ({} s)", age.as_secs()), waiting != last)?;
        last = waiting;
        tokio::time::sleep(EVERY).await;
    }
}

/// Seconds with one digit behind the point, as people read them.
pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_its_limit_and_says_what_was_missing() {
        let (mut out, mut err) = (vec![], vec![]);
        let mut printer = Printer::new(&mut out, &mut err);
        let looks = async || Ok(Seen::<()>::Waiting("waiting for rain".to_owned()));
        let end = wait(&mut printer, Duration::from_secs(9), looks)
            .await
            .unwrap();
        assert!(matches!(end, Waited::TooLong(last) if last == "waiting for rain"));
        assert_eq!(String::from_utf8(err).unwrap(), "waiting for rain (0 s)\n");
    }
}
