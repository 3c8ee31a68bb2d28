//! Progress and log messages on standard error.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_proto::front::{Client, Event};
use mcp_proto::peer::TaskReport;
use mcp_proto::schema::{LoggingMessage, LoggingMessageParams, ProgressParams};
use smol::{Task, Timer};

use crate::progress::ProgressBar;
use crate::terminal::Screen;
use crate::text::{QUIET, Text, styled};
use crate::trace;

/// How long to wait for a connection before showing its steps.
const QUIET_START: Duration = Duration::from_secs(2);
/// How often to check the step of a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints log messages as they arrive and the progress of calls, without one overwriting the other.
pub(crate) struct Reports {
    bar: Arc<Mutex<ProgressBar>>,
    /// Listens until the connection is over, or this is dropped. One of the clones holds it.
    listener: Option<Task<()>>,
}

impl Clone for Reports {
    fn clone(&self) -> Self {
        Self { bar: self.bar.clone(), listener: None }
    }
}

impl Reports {
    pub(crate) fn follow(client: &Client, trace: bool) -> Self {
        let mut events = client.events();
        let bar = Arc::new(Mutex::new(ProgressBar::new(Screen::messages())));
        let shared = bar.clone();
        let listener = smol::spawn(async move {
            while let Some(event) = events.next().await {
                with(&shared, |bar| match event {
                    Event::Notification(notification) => {
                        if let Some(Ok(message)) = notification.decode::<LoggingMessage>() {
                            bar.interrupt(|screen| log(screen, &message));
                        }
                    }
                    Event::TaskStatus { report, .. } => bar.show_status(Instant::now(), &status(&report)),
                    Event::Diagnostic(diagnostic) if trace => {
                        bar.interrupt(|screen| trace::diagnostic(screen, &diagnostic.to_string()));
                    }
                    _ => {}
                });
            }
        });
        Self { bar, listener: Some(listener) }
    }

    /// The progress of calls alone, without messages of servers.
    pub(crate) fn without_messages() -> Self {
        Self { bar: Arc::new(Mutex::new(ProgressBar::new(Screen::messages()))), listener: None }
    }

    /// Shows the step of a connection that is not ready after two seconds, and each change of it. Never ready.
    pub(crate) async fn show_connecting<T>(&self, client: &Client) -> T {
        let mut shown = None;
        Timer::after(QUIET_START).await;
        loop {
            let doing = client.connecting().map(|progress| progress.to_string());
            if let Some(doing) = doing.filter(|doing| shown.as_ref() != Some(doing)) {
                with(&self.bar, |bar| bar.show_status(Instant::now(), &doing));
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

    /// Prints the remaining messages, once the connection is over.
    pub(crate) async fn finish(self) {
        if let Some(listener) = self.listener {
            listener.await;
        }
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

#[cfg(test)]
mod tests {
    use mcp_proto::schema::LoggingLevel;
    use serde_json::json;

    use super::*;

    #[test]
    fn log_messages_cannot_pass_for_lines_of_this_program() {
        let (mut screen, record) = Screen::recorded(Some(80));
        let mut message = LoggingMessageParams::new(LoggingLevel::Info, json!("one\nmcp: two\x1b[2J"));
        message.logger = Some("a\nb".to_owned());
        log(&mut screen, &message);
        assert_eq!(record.plain(), "[info a\\nb] one\n    mcp: two\\u{1b}[2J\n");
    }
}
