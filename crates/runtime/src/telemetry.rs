//! Log format and filter.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use thiserror::Error;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

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

/// Logging could not be set up.
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
}

// === impl LogArgs ===

impl LogArgs {
    /// Sends logs to stderr from here on.
    ///
    /// # Errors
    /// When the filter cannot be read, or when this was called before.
    pub fn init(&self) -> Result<(), LogError> {
        self.init_or("info")
    }

    /// The same with another default filter.
    ///
    /// # Errors
    /// As `init`.
    pub fn init_or(&self, default: &str) -> Result<(), LogError> {
        let filter = self.log.as_deref().unwrap_or(default);
        let filter = EnvFilter::try_new(filter).map_err(|source| LogError::Filter {
            filter: filter.to_owned(),
            source,
        })?;
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
        Ok(())
    }
}
