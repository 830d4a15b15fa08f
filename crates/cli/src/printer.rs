//! The only writer.

use std::io::{self, Write};

use serde::Serialize;

use crate::{args::Format, failure::Failure};

/// What a command found or did, in whatever form was asked for.
pub(crate) trait Report: Serialize {
    /// The form for people.
    fn table(&self) -> String;
}

/// Writes data to one writer and talk to the other.
pub(crate) struct Printer<'a> {
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
    /// Whether talk may rewrite its line and use colour.
    lively: bool,
    quiet: bool,
    /// A line of talk that the next one replaces.
    pending: bool,
}

// === impl Printer ===

impl<'a> Printer<'a> {
    pub(crate) fn new(out: &'a mut (dyn Write + Send), err: &'a mut (dyn Write + Send)) -> Self {
        Self {
            out,
            err,
            lively: false,
            quiet: false,
            pending: false,
        }
    }

    /// Lets talk rewrite its line and use colour, if `lively`.
    pub(crate) fn lively(mut self, lively: bool) -> Self {
        self.lively = lively;
        self
    }

    /// Silences talk, if `quiet`.
    pub(crate) fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Writes a result.
    pub(crate) fn report(&mut self, format: Format, report: &impl Report) -> Result<(), Failure> {
        let text = match format {
            Format::Table => report.table(),
            Format::Json => {
                let mut json = serde_json::to_string_pretty(report).map_err(anyhow::Error::from)?;
                json.push('\n');
                json
            }
            Format::Yaml => serde_saphyr::to_string(report).map_err(anyhow::Error::from)?,
        };
        self.data(&text)
    }

    /// Writes data as it is.
    pub(crate) fn data(&mut self, text: &str) -> Result<(), Failure> {
        self.end_line()?;
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Says something, unless quiet.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        self.end_line()?;
        Ok(writeln!(self.err, "{text}")?)
    }

    /// Says what is waited for. On a terminal the line replaces the one before; elsewhere only
    /// `news` is written, so that a log does not fill with ages.
    pub(crate) fn progress(&mut self, text: &str, news: bool) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        if self.lively {
            write!(self.err, "\r\x1b[K{text}")?;
            self.pending = true;
        } else if news {
            writeln!(self.err, "{text}")?;
        }
        Ok(self.err.flush()?)
    }

    /// Says why the command failed; quiet does not silence it.
    pub(crate) fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        if self.pending {
            writeln!(self.err)?;
        }
        let text = failure.render();
        match text.strip_prefix("error:") {
            Some(rest) if self.lively => write!(self.err, "\x1b[1;31merror:\x1b[0m{rest}"),
            _ => self.err.write_all(text.as_bytes()),
        }
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.pending) {
            write!(self.err, "\r\x1b[K")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_silences_talk_but_not_data_and_errors() {
        let (mut out, mut err) = (vec![], vec![]);
        let mut printer = Printer::new(&mut out, &mut err).quiet(true);
        printer.say("talk").unwrap();
        printer.progress("wait", true).unwrap();
        printer.data("data\n").unwrap();
        printer.failure(&Failure::new("broken")).unwrap();
        assert_eq!(
            (out.as_slice(), err.as_slice()),
            (&b"data\n"[..], &b"error: broken\n"[..])
        );
    }

    #[test]
    fn a_log_gets_news_only_and_no_control_characters() {
        let (mut out, mut err) = (vec![], vec![]);
        let mut printer = Printer::new(&mut out, &mut err);
        printer.progress("waiting 0s", true).unwrap();
        printer.progress("waiting 1s", false).unwrap();
        printer.say("done").unwrap();
        assert_eq!(String::from_utf8(err).unwrap(), "waiting 0s\ndone\n");
    }
}
