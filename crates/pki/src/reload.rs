//! Values that are replaced while they are in use.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

/// A value that its source replaces from time to time. A new value that is wrong leaves the last
/// good one in force and is told as [`problem`](Self::problem). Clones share the value.
pub struct Reloadable<T> {
    state: Arc<watch::Sender<State<T>>>,
}

struct State<T> {
    value: Arc<T>,
    generation: u64,
    problem: Option<Arc<str>>,
}

// === impl Reloadable ===

impl<T> Reloadable<T> {
    /// Starts with this value, generation 1.
    #[must_use]
    pub fn new(value: T) -> Self {
        let state = State {
            value: Arc::new(value),
            generation: 1,
            problem: None,
        };
        Self {
            state: Arc::new(watch::Sender::new(state)),
        }
    }

    /// The last good value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.state.borrow().value)
    }

    /// The last good value and its generation, which counts up with each new value.
    #[must_use]
    pub fn get_with_generation(&self) -> (u64, Arc<T>) {
        let state = self.state.borrow();
        (state.generation, Arc::clone(&state.value))
    }

    /// Why the newest value is not in force; `None` when it is.
    #[must_use]
    pub fn problem(&self) -> Option<Arc<str>> {
        self.state.borrow().problem.clone()
    }

    /// Takes a new value, or remembers why there is none. Returns whether the value was taken.
    pub fn offer<E: std::error::Error>(&self, new: Result<T, E>) -> bool {
        match new {
            Ok(value) => {
                self.state.send_modify(|state| {
                    state.value = Arc::new(value);
                    state.generation += 1;
                    state.problem = None;
                });
                true
            }
            Err(error) => {
                let text: Arc<str> = chain(&error).into();
                self.state.send_modify(|state| state.problem = Some(text));
                false
            }
        }
    }

    /// Waits until the value or the problem has changed since the last call with the same `seen`,
    /// which starts at 0. Cancel-safe.
    pub async fn changed(&self, seen: &mut u64) -> Arc<T> {
        let mut receiver = self.state.subscribe();
        let last = *seen;
        let state = receiver.wait_for(|state| state.generation != last).await;
        match state {
            Ok(state) => {
                *seen = state.generation;
                Arc::clone(&state.value)
            }
            // The sender is part of `self`, so it is there for as long as this call.
            Err(watch::error::RecvError { .. }) => self.get(),
        }
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
        }
    }
}

impl<T> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        f.debug_struct("Reloadable")
            .field("generation", &state.generation)
            .field("problem", &state.problem)
            .finish_non_exhaustive()
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InvalidBundle;

    #[tokio::test]
    async fn a_wrong_value_leaves_the_last_good_one() {
        let value = Reloadable::new(1);
        let mut seen = 0;
        assert_eq!(*value.changed(&mut seen).await, 1);
        assert!(!value.offer(Err::<i32, _>(InvalidBundle::Empty)));
        assert_eq!(
            (*value.get(), value.problem().as_deref()),
            (1, Some("it holds no certificate"))
        );
        assert!(value.offer(Ok::<_, InvalidBundle>(2)));
        assert_eq!(
            (*value.changed(&mut seen).await, value.problem()),
            (2, None)
        );
    }
}
