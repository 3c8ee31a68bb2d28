//! What is shown while a command runs: progress, log messages, the messages of the wire, and lines that are none.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_hyper::host::{WireFrame, WireObserver};
use mcp_proto::Bytes;
use mcp_proto::codec::{Line, Lines};
use mcp_proto::front::{Client, Event};
use mcp_proto::peer::TaskReport;
use mcp_proto::redact::Redactor;
use mcp_proto::schema::{LoggingMessage, LoggingMessageParams, ProgressParams};
use mcp_proto::transport::http::ExchangeEnd;
use mcp_smol::{StderrLine, WireDirection};
use serde_json::Value;
use smol::{Task, Timer};

use crate::terminal::{BAD, GOOD, NAME, QUIET, Screen, Text, styled};

/// How long to wait for a connection before showing its steps.
const QUIET_START: Duration = Duration::from_secs(2);

/// How often to check the step of a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints log messages as they arrive and the progress of calls, without one overwriting the other.
pub(crate) struct Reports {
    bar: Arc<Mutex<ProgressBar>>,
}

impl Reports {
    /// Also returns the task that listens until the connection is over.
    pub(crate) fn follow(client: &Client, trace: Option<Redactor>) -> (Self, Task<()>) {
        let mut events = client.events();
        let reports = Self::without_messages();
        let shared = reports.bar.clone();
        let listener = smol::spawn(async move {
            while let Some(event) = events.next().await {
                with(&shared, |bar| match event {
                    Event::Notification(notification) => {
                        if let Some(Ok(message)) = notification.decode::<LoggingMessage>() {
                            bar.interrupt(|screen| log(screen, &message));
                        }
                    }
                    Event::TaskStatus { report, .. } => {
                        bar.print(Instant::now(), styled(QUIET, status(&report)))
                    }
                    Event::Diagnostic(diagnostic) => {
                        if let Some(redactor) = &trace {
                            bar.interrupt(|screen| show_diagnostic(screen, None, redactor, &diagnostic));
                        }
                    }
                    _ => {}
                });
            }
        });
        (reports, listener)
    }

    /// The progress of calls alone, without messages of servers.
    pub(crate) fn without_messages() -> Self {
        Self { bar: Arc::new(Mutex::new(ProgressBar::new(Screen::messages()))) }
    }

    /// Shows the step of a connection that is not ready after two seconds, and each change of it. Never ready.
    pub(crate) async fn show_connecting<T>(&self, client: &Client) -> T {
        let mut shown = None;
        Timer::after(QUIET_START).await;
        loop {
            let doing = client.connecting().map(|progress| progress.to_string());
            if let Some(doing) = doing.filter(|doing| shown.as_ref() != Some(doing)) {
                with(&self.bar, |bar| bar.print(Instant::now(), styled(QUIET, &doing)));
                shown = Some(doing);
            }
            Timer::after(PAUSE).await;
        }
    }

    /// A callback for a request's progress.
    pub(crate) fn progress(&self) -> impl FnMut(ProgressParams) + Send + 'static {
        let bar = self.bar.clone();
        move |report| {
            let total = report.total.as_ref().map(mcp_proto::schema::Number::as_f64);
            let message = report.message.as_deref();
            with(&bar, |bar| bar.show(Instant::now(), report.progress.as_f64(), total, message));
        }
    }

    /// Waits for a request whose progress is shown, and clears that.
    pub(crate) async fn until<T>(&self, request: impl IntoFuture<Output = T>) -> T {
        let result = request.await;
        self.clear();
        result
    }

    /// Clears the progress line to make room for results.
    pub(crate) fn clear(&self) {
        with(&self.bar, ProgressBar::finish);
    }
}

fn with<R>(bar: &Mutex<ProgressBar>, act: impl FnOnce(&mut ProgressBar) -> R) -> R {
    act(&mut bar.lock().unwrap_or_else(PoisonError::into_inner))
}

/// One line about the status of a task.
fn status(report: &TaskReport) -> String {
    let status = report.status.as_str().replace('_', " ");
    let said = report.message.as_deref().map(|message| format!(": {message}"));
    format!("task {status}{}", said.unwrap_or_default())
}

fn log(screen: &mut Screen, message: &LoggingMessageParams) {
    let text = message.data.decode::<String>().unwrap_or_else(|_| message.data.as_str().to_owned());
    let logger = message.logger.as_deref().map(|logger| format!(" {logger}")).unwrap_or_default();
    let mark = styled(QUIET, format_args!("[{}{logger}]", message.level.as_str()));
    let _ = screen.labelled(mark, Text::block(text.trim_end()));
}

const WIDTH: usize = 24;

/// The least time between two lines if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

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

    /// Shows a line in the place of the last one. Ignores write errors: nothing depends on this output.
    fn print(&mut self, now: Instant, line: Text) {
        if self.screen.can_erase() {
            let _ = self.screen.rewrite(line);
            self.state = BarState::Shown;
            return;
        }
        match &mut self.state {
            BarState::Added { at, waiting } if now.saturating_duration_since(*at) < LINE_INTERVAL => {
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

/// Prints the frames of a connection as they are sent and received, without their secrets.
pub(crate) fn trace(server: Option<&str>, redactor: Redactor) -> WireObserver {
    let (mut screen, server) = (Screen::messages(), server.map(ToOwned::to_owned));
    WireObserver::new(move |frame| show_frame(&mut screen, server.as_deref(), &frame)).redactor(redactor)
}

fn show_frame(screen: &mut Screen, server: Option<&str>, frame: &WireFrame<'_>) {
    let (mark, text) = match frame {
        WireFrame::Message { direction: WireDirection::Sent, text, .. } => (sent(), shown(text)),
        WireFrame::Message { text, .. } => (styled(NAME, "←"), shown(text)),
        WireFrame::Request { method, url, body, .. } => {
            (sent(), Text::from(format!("{method} {url} ")).and(shown(body)))
        }
        WireFrame::Response { status, .. } => (styled(NAME, "←"), status.to_string().into()),
        WireFrame::End { end: Some(end), .. } if **end != ExchangeEnd::Complete => {
            (styled(BAD, "?"), Text::from(frame.to_string().trim_start_matches("← ")))
        }
        _ => return,
    };
    let shown_bytes = |text: &[u8], bytes: usize| Some(bytes).filter(|_| text.len() > SHOWN);
    let cut_bytes = match frame {
        WireFrame::Message { text, bytes, .. } | WireFrame::Request { body: text, bytes, .. } => {
            frame.cut_bytes().or_else(|| shown_bytes(text, *bytes))
        }
        _ => None,
    };
    let text = match cut_bytes {
        Some(bytes) => text.and(format!(" … ({bytes} bytes)")),
        None => text,
    };
    print(screen, of_server(server, mark), text);
}

fn sent() -> Text {
    styled(GOOD, "→")
}

fn shown(text: &[u8]) -> Text {
    let beginning = text.get(..SHOWN).unwrap_or(text);
    Text::json(String::from_utf8_lossy(beginning).trim_end())
}

/// A mark behind the name of the server, of which there may be several.
fn of_server(server: Option<&str>, mark: Text) -> Text {
    match server {
        Some(server) => styled(QUIET, server).and(" ").and(mark),
        None => mark,
    }
}

/// A line of the server's standard error.
pub(crate) fn stderr(screen: &mut Screen, redactor: &Redactor, line: &StderrLine) {
    let text = redactor.text(line.text.trim_end_matches('\r'));
    print(screen, styled(QUIET, "!"), styled(QUIET, text));
}

/// Prints a diagnostic about a connection.
pub(crate) fn show_diagnostic(
    screen: &mut Screen,
    server: Option<&str>,
    redactor: &Redactor,
    what: impl Display,
) {
    print(screen, of_server(server, styled(BAD, "?")), redactor.text(&what.to_string()).into_owned());
}

fn print(screen: &mut Screen, mark: Text, text: impl Into<Text>) {
    // Failing to write the trace does not fail the command.
    let _ = screen.line(mark.and(" ").and(text));
}

/// How many bytes of a frame are printed.
const SHOWN: usize = 64 * 1024;

/// The longest line to check, in bytes. A longer line counts as a message.
const LONGEST: usize = 64 * 1024;

/// Characters of the first line to quote.
const QUOTED: usize = 200;

/// Counts lines that are not messages until the connection is ready. Clones share the count.
#[derive(Clone)]
pub(crate) struct NonMessageCounter(Arc<Mutex<Option<NonMessageLines>>>);

struct NonMessageLines {
    lines: Lines,
    count: usize,
    first: String,
}

impl NonMessageCounter {
    pub(crate) fn new() -> Self {
        let watched = NonMessageLines { lines: Lines::new(LONGEST), count: 0, first: String::new() };
        Self(Arc::new(Mutex::new(Some(watched))))
    }

    /// Reads output of the server.
    pub(crate) fn handle_input(&self, bytes: &[u8]) {
        let mut state = self.state();
        let Some(watched) = &mut *state else { return };
        watched.lines.handle_input(Bytes::copy_from_slice(bytes));
        while let Some(line) = watched.lines.poll_line() {
            if let Line::Whole(line) = line
                && !line.trim_ascii().is_empty()
                && !is_message(&line)
            {
                watched.count += 1;
                if watched.count == 1 {
                    watched.first = String::from_utf8_lossy(&line).trim().chars().take(QUOTED).collect();
                }
            }
        }
    }

    /// Stops counting, because the connection is ready.
    pub(crate) fn ignore(&self) {
        *self.state() = None;
    }

    /// A sentence about the lines, if any were counted.
    pub(crate) fn summary(&self) -> Option<String> {
        let state = self.state();
        let watched = state.as_ref().filter(|watched| watched.count > 0)?;
        let lines = if watched.count == 1 { "line that is" } else { "lines that are" };
        Some(format!(
            "The server wrote {} {lines} not MCP to its standard output, which must carry messages only. The first one: {:?}",
            watched.count, watched.first
        ))
    }

    /// A poisoned lock is usable: no code under it can panic half-way through a change.
    fn state(&self) -> MutexGuard<'_, Option<NonMessageLines>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_message(line: &[u8]) -> bool {
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object.contains_key("jsonrpc"),
        Ok(Value::Array(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::schema::LoggingLevel;
    use serde_json::json;

    #[test]
    fn log_messages_cannot_pass_for_lines_of_this_program() {
        let (mut screen, record) = Screen::recorded(Some(80));
        let mut message = LoggingMessageParams::new(LoggingLevel::Info, json!("one\nmcp: two\x1b[2J"));
        message.logger = Some("a\nb".to_owned());
        log(&mut screen, &message);
        assert_eq!(record.plain(), "[info a\\nb] one\n    mcp: two\\u{1b}[2J\n");
    }

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

    /// F104
    #[test]
    fn trace_escapes_unsafe_characters_as_json_does() {
        let (mut screen, record) = Screen::recorded(Some(80));
        let mut trace = WireObserver::new(move |frame| show_frame(&mut screen, Some("a\nb"), &frame));
        let text = "{\"text\":\"\u{9b}2J\u{202e}\",\"password\":\"hunter2\"}\n\x1b[2Jnoise\n";
        trace.handle_bytes(WireDirection::Received, text.as_bytes());
        assert_eq!(
            record.plain(),
            "a\\nb ← {\"text\":\"\\u009b2J\\u202e\",\"password\":\"[redacted]\"}\na\\nb ← \\u001b[2Jnoise\n"
        );
    }

    #[test]
    fn noise_is_counted_until_the_connection_is_ready() {
        let non_messages = NonMessageCounter::new();
        non_messages.handle_input(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n");
        assert_eq!(non_messages.summary(), None);
        non_messages.handle_input(b"Server \x1b[2Jstarted\n{\"level\":\"info\"}\nunfinished");
        let summary = non_messages.summary().unwrap();
        assert!(
            summary.contains("wrote 2 lines") && summary.ends_with(r#""Server \u{1b}[2Jstarted""#),
            "{summary}"
        );
        non_messages.ignore();
        assert_eq!(non_messages.summary(), None);
    }
}
