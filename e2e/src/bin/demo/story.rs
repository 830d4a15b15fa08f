//! How the story is told: on stdout, in columns.

use std::time::Duration;

/// Width of the first and of the second column.
const FIRST: usize = 18;
const SECOND: usize = 74;

/// The teller.
#[derive(Debug)]
pub(crate) struct Story;

// === impl Story ===

#[expect(clippy::print_stdout, reason = "the story is what the demo is for")]
impl Story {
    /// What, how, and how it went.
    pub(crate) fn line(&self, first: &str, second: &str, third: &str) {
        println!(" {first:FIRST$} {second:SECOND$} {third}");
    }

    /// A scene, by number.
    pub(crate) fn scene(&self, number: u8, title: &str, how: &str, result: &str) {
        println!();
        self.line(&format!("{number}  {title}"), how, result);
    }

    /// One more of the same scene.
    pub(crate) fn also(&self, how: &str, result: &str) {
        self.line("", how, result);
    }

    /// A remark.
    pub(crate) fn more(&self, text: &str) {
        self.line("", text, "");
    }

    /// A block of text as it came.
    pub(crate) fn block(&self, text: &str) {
        println!();
        for line in text.lines() {
            println!("    {}", line.trim_end());
        }
    }
}

/// A duration as people read it.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
