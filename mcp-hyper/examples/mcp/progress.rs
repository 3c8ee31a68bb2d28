//! A bar that grows while a call goes on.

use std::io::{self, IsTerminal as _, Write as _};

use crate::terminal::{GOOD, QUIET, harmless, styled};

const WIDTH: usize = 24;

/// One line on standard error that is written over and over if that is a terminal, else a line per report.
pub(crate) struct Bar {
    terminal: bool,
    shown: bool,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Shows how far it has come. Nothing depends on whether that can be written.
    pub(crate) fn show(&mut self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.print(&line(progress, total, message));
    }

    /// Shows how a task is doing, in the place of its progress.
    pub(crate) fn show_status(&mut self, status: &str) {
        self.print(&styled(QUIET, status.replace('\n', " ")));
    }

    fn print(&mut self, line: &str) {
        let mut out = anstream::stderr();
        let _ = if self.terminal {
            self.shown = true;
            write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush())
        } else {
            writeln!(out, "{line}")
        };
    }

    /// Makes room for other lines.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let mut out = anstream::stderr();
            let _ = write!(out, "\r\x1b[2K").and_then(|()| out.flush());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
    let message =
        message.map(|message| format!("  {}", harmless(message).replace('\n', " "))).unwrap_or_default();
    match total {
        Some(total) if total > 0.0 => {
            let part = (progress / total).clamp(0.0, 1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and WIDTH"
            )]
            let filled = (part * WIDTH as f64) as usize;
            let done = styled(GOOD, "█".repeat(filled));
            let open = styled(QUIET, "░".repeat(WIDTH - filled));
            format!("{done}{open} {progress}/{total}{message}")
        }
        _ => format!("{progress}{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
        anstream::adapter::strip_str(&line(progress, total, message)).to_string()
    }

    #[test]
    fn the_bar_grows_with_the_progress_and_not_beyond_its_end() {
        assert_eq!(
            plain(1.0, Some(2.0), Some("half")),
            format!("{}{} 1/2  half", "█".repeat(12), "░".repeat(12))
        );
        assert_eq!(plain(9.0, Some(2.0), None), format!("{} 9/2", "█".repeat(24)));
        assert_eq!(plain(-1.0, Some(2.0), None), format!("{} -1/2", "░".repeat(24)));
    }

    #[test]
    fn without_a_total_there_is_only_the_count() {
        assert_eq!(plain(7.0, None, Some("files")), "7  files");
        assert_eq!(plain(f64::NAN, Some(1.0), None), format!("{} NaN/1", "░".repeat(24)));
    }
}
