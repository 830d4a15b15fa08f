//! Log format and filter.

use std::{io::IsTerminal, sync::Arc};

use clap::{Args, ValueEnum};
use parking_lot::Mutex;
use thiserror::Error;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The flags of logging.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// What is logged: a level, or directives such as `info,strait_hub=debug` [default: info]
    #[arg(long, env = "STRAIT_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// The form of log lines
    #[arg(
        long,
        env = "STRAIT_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT"
    )]
    log_format: LogFormat,
}

/// What is logged, and a way to change it while the process runs. Clones share it.
#[derive(Clone, Debug)]
pub struct LogFilter {
    text: Arc<Mutex<String>>,
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Logging could not be set up, or the filter not be changed.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter is not one.
    #[error("`{filter}` is not a log filter")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logging is set up already.
    #[error("logging was set up twice")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
    /// Nobody logs any more.
    #[error("the filter cannot be changed")]
    Reload(#[from] reload::Error),
}

// === impl LogArgs ===

impl LogArgs {
    /// Sends logs to stderr from here on.
    ///
    /// # Errors
    /// When the filter cannot be read, or when this was called before.
    pub fn init(&self) -> Result<LogFilter, LogError> {
        self.init_or("info")
    }

    /// The same with another default filter.
    ///
    /// # Errors
    /// As `init`.
    pub fn init_or(&self, default: &str) -> Result<LogFilter, LogError> {
        let text = self.log.as_deref().unwrap_or(default);
        let (filter, handle) = reload::Layer::new(parse(text)?);
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        let lines = match self.log_format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(lines.with_filter(filter))
            .try_init()?;
        Ok(LogFilter {
            text: Arc::new(Mutex::new(text.to_owned())),
            filter: handle,
        })
    }
}

// === impl LogFilter ===

impl LogFilter {
    /// The filter in force.
    #[must_use]
    pub fn text(&self) -> String {
        self.text.lock().clone()
    }

    /// Puts another filter in force.
    ///
    /// # Errors
    /// When it is none; the one in force stays.
    pub fn set(&self, text: &str) -> Result<(), LogError> {
        let filter = parse(text)?;
        let mut current = self.text.lock();
        self.filter.reload(filter)?;
        text.clone_into(&mut current);
        Ok(())
    }
}

fn parse(text: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(text).map_err(|source| LogError::Filter {
        filter: text.to_owned(),
        source,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A filter without a log; the layer has to live as long as it.
    pub(crate) fn filter(text: &str) -> (LogFilter, reload::Layer<EnvFilter, Registry>) {
        let (layer, handle) = reload::Layer::new(parse(text).unwrap());
        let filter = LogFilter {
            text: Arc::new(Mutex::new(text.to_owned())),
            filter: handle,
        };
        (filter, layer)
    }

    #[test]
    fn what_is_no_filter_changes_nothing() {
        let (filter, _layer) = filter("info");
        assert!(matches!(
            filter.set("info,=="),
            Err(LogError::Filter { .. })
        ));
        assert_eq!(filter.text(), "info");
        filter.set("info,strait_hub=debug").unwrap();
        assert_eq!(filter.text(), "info,strait_hub=debug");
    }
}
