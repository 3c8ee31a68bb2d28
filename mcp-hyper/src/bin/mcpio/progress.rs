//! Progress of a running call.

use std::time::{Duration, Instant};

use crate::terminal::Screen;
use crate::text::{GOOD, QUIET, Text, styled};

const WIDTH: usize = 24;
/// The least time between two lines if standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(1);

/// Progress line on standard error: on a terminal each report replaces it. Elsewhere it prints at most one line a
/// second, and the last report once the call is over.
pub(crate) struct ProgressBar {
    screen: Screen,
    state: BarState,
}

enum BarState {
    /// Nothing is shown: there was no report, or the line was cleared.
    Idle,
    /// The last line is on the terminal.
    Shown,
    /// A line was printed at this time; a later one waits.
    Added { at: Instant, waiting: Option<Text> },
}

impl ProgressBar {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, state: BarState::Idle }
    }

    /// Shows the progress of a call.
    pub(crate) fn show(&mut self, now: Instant, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.print(now, line(progress, total, message));
    }

    /// Shows the status of a task, in the place of its progress.
    pub(crate) fn show_status(&mut self, now: Instant, status: &str) {
        self.print(now, styled(QUIET, status));
    }

    /// Ignores write errors: nothing depends on this output.
    fn print(&mut self, now: Instant, line: Text) {
        if self.screen.is_terminal() {
            let _ = self.screen.rewrite(line);
            self.state = BarState::Shown;
            return;
        }
        match &mut self.state {
            BarState::Added { at, waiting } if now.saturating_duration_since(*at) < PAUSE => {
                *waiting = Some(line)
            }
            _ => {
                let _ = self.screen.line(line);
                self.state = BarState::Added { at: now, waiting: None };
            }
        }
    }

    /// Clears the line to print other output.
    pub(crate) fn interrupt(&mut self, write: impl FnOnce(&mut Screen)) {
        if let BarState::Shown = self.state {
            let _ = self.screen.rewrite("");
            self.state = BarState::Idle;
        }
        write(&mut self.screen);
    }

    /// Ends the display to make room for the call's result.
    pub(crate) fn finish(&mut self) {
        match std::mem::replace(&mut self.state, BarState::Idle) {
            BarState::Shown => _ = self.screen.rewrite(""),
            BarState::Added { waiting: Some(line), .. } => _ = self.screen.line(line),
            BarState::Added { waiting: None, .. } | BarState::Idle => {}
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.finish();
    }
}

fn line(progress: f64, total: Option<f64>, message: Option<&str>) -> Text {
    let message = message.map(|message| format!("  {message}")).unwrap_or_default();
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
            done.and(open).and(format!(" {progress}/{total}{message}"))
        }
        _ => Text::from(format!("{progress}{message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
        line(progress, total, message).plain()
    }

    #[test]
    fn bar_grows_with_the_progress_up_to_its_end() {
        assert_eq!(
            plain(1.0, Some(2.0), Some("half\n")),
            format!("{}{} 1/2  half\\n", "█".repeat(12), "░".repeat(12))
        );
        assert_eq!(plain(9.0, Some(2.0), None), format!("{} 9/2", "█".repeat(24)));
        assert_eq!(plain(-1.0, Some(2.0), None), format!("{} -1/2", "░".repeat(24)));
    }

    #[test]
    fn progress_without_a_total_shows_only_the_count() {
        assert_eq!(plain(7.0, None, Some("files")), "7  files");
        assert_eq!(plain(f64::NAN, Some(1.0), None), format!("{} NaN/1", "░".repeat(24)));
    }

    #[test]
    fn progress_adds_one_line_a_second_to_a_log_and_the_last_report_at_the_end() {
        let (screen, record) = Screen::recorded(None);
        let mut bar = ProgressBar::new(screen);
        let start = Instant::now();
        for tick in 0..=2500_u32 {
            bar.show(start + Duration::from_millis(tick.into()), tick.into(), None, None);
        }
        assert_eq!(record.plain(), "0\n1000\n2000\n");
        bar.finish();
        bar.finish();
        assert_eq!(record.plain(), "0\n1000\n2000\n2500\n");
    }

    #[test]
    fn progress_replaces_its_line_on_a_terminal() {
        let (screen, record) = Screen::recorded(Some(80));
        let mut bar = ProgressBar::new(screen);
        bar.show(Instant::now(), 1.0, None, Some("\x1b[2Jone"));
        bar.show(Instant::now(), 2.0, None, None);
        bar.interrupt(|screen| screen.line("log").unwrap());
        let (erased, lines) = ("\r\x1b[2K", record.styled());
        assert_eq!(lines, format!("{erased}1  \\u{{1b}}[2Jone{erased}2{erased}log\n"));
    }
}
