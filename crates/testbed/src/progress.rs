//! Shows what goes on: bars on a terminal, one line per finished step elsewhere. Always on stderr.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

/// Names are padded to this, so that what follows stands in one column.
const NAME_WIDTH: usize = 26;

/// Where steps are shown.
#[derive(Clone, Debug)]
pub struct Progress {
    bars: MultiProgress,
    lines: bool,
}

/// One thing under way. A step that is dropped unfinished vanishes from the terminal.
#[derive(Debug)]
pub struct Step {
    bar: ProgressBar,
    name: String,
    started: Instant,
    lines: bool,
}

// === impl Progress ===

impl Progress {
    /// Bars if stderr is a terminal, lines if not.
    pub fn stderr() -> Self {
        let terminal = io::stderr().is_terminal();
        let target = if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Self {
            bars: MultiProgress::with_draw_target(target),
            lines: !terminal,
        }
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self {
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            lines: false,
        }
    }

    /// Starts a step of which nobody knows how long it is.
    pub fn step(&self, name: impl Into<String>) -> Step {
        let bar = self.bars.add(ProgressBar::new_spinner());
        bar.set_style(style("{spinner} {prefix} {wide_msg} {elapsed:>5}"));
        Step::start(bar, name.into(), self.lines)
    }

    /// Starts a step of `total` parts.
    pub fn counted(&self, name: impl Into<String>, total: u64) -> Step {
        let bar = self.bars.add(ProgressBar::new(total));
        bar.set_style(style(
            "{spinner} {prefix} {bar:24} {pos}/{len} {wide_msg} {elapsed:>5}",
        ));
        Step::start(bar, name.into(), self.lines)
    }

    /// Says something that has no duration.
    pub fn note(&self, text: &str) {
        if self.lines {
            say(text);
        } else {
            self.bars.suspend(|| {
                if !self.bars.is_hidden() {
                    say(text);
                }
            });
        }
    }
}

// === impl Step ===

impl Step {
    fn start(bar: ProgressBar, name: String, lines: bool) -> Self {
        bar.set_prefix(format!("{name:NAME_WIDTH$}"));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self {
            bar,
            name,
            started: Instant::now(),
            lines,
        }
    }

    /// What is done right now.
    pub fn message(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// One more part is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Ends the step and says how.
    pub fn finish(self, text: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.lines {
            say(&format!("{:NAME_WIDTH$} {text} {seconds:.1} s", self.name));
        }
        self.bar
            .set_style(style("✓ {prefix} {wide_msg} {elapsed:>5}"));
        self.bar.finish_with_message(text.to_owned());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// A closed stderr is no reason to stop.
fn say(text: &str) {
    let _unheard = writeln!(io::stderr(), "{text}");
}
