//! What comes beside results: progress and log messages, on standard error.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::front::{Client, Event};
use mcp_proto::peer::TaskReport;
use mcp_proto::schema::{LoggingMessage, LoggingMessageParams, ProgressParams};
use smol::Task;

use crate::progress::Bar;
use crate::terminal::{QUIET, harmless, styled};
use crate::trace;

/// Prints log messages as they come, and progress as it is given, without one overwriting the other.
pub(crate) struct Reports {
    bar: Arc<Mutex<Bar>>,
    /// Listens until the connection is over, or this is dropped.
    listener: Task<()>,
}

impl Reports {
    pub(crate) fn follow(client: &Client, trace: bool) -> Self {
        let mut events = client.events();
        let bar = Arc::new(Mutex::new(Bar::new()));
        let shared = bar.clone();
        let listener = smol::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Event::Notification(notification) => {
                        if let Some(Ok(message)) = notification.decode::<LoggingMessage>() {
                            with(&shared, |bar| {
                                bar.clear();
                                log(&message);
                            });
                        }
                    }
                    Event::TaskStatus { report, .. } => {
                        with(&shared, |bar| bar.show_status(&status(&report)))
                    }
                    Event::Diagnostic(diagnostic) if trace => trace::diagnostic(&diagnostic.to_string()),
                    _ => {}
                }
            }
        });
        Self { bar, listener }
    }

    /// What a request calls with its progress.
    pub(crate) fn progress(&self) -> impl FnMut(ProgressParams) + Send + 'static {
        let bar = self.bar.clone();
        move |report| {
            let total = report.total.as_ref().map(mcp_proto::schema::Number::as_f64);
            with(&bar, |bar| bar.show(report.progress.as_f64(), total, report.message.as_deref()));
        }
    }

    /// Prints what has come and not been printed yet, once the connection is over.
    pub(crate) async fn finish(self) {
        self.listener.await;
    }

    /// Makes room for results.
    pub(crate) fn clear(&self) {
        with(&self.bar, Bar::clear);
    }
}

fn with<R>(bar: &Mutex<Bar>, act: impl FnOnce(&mut Bar) -> R) -> R {
    act(&mut bar.lock().unwrap_or_else(PoisonError::into_inner))
}

/// How a task is doing, in a line.
fn status(report: &TaskReport) -> String {
    let status = report.status.as_str().replace('_', " ");
    let said = report.message.as_deref().map(|message| format!(": {}", harmless(message)));
    format!("task {status}{}", said.unwrap_or_default())
}

fn log(message: &LoggingMessageParams) {
    let text = message.data.decode::<String>().unwrap_or_else(|_| message.data.as_str().to_owned());
    let logger = message.logger.as_deref().map(|logger| format!(" {}", harmless(logger))).unwrap_or_default();
    let mark = styled(QUIET, format_args!("[{}{logger}]", message.level.as_str()));
    let _ = writeln!(anstream::stderr(), "{mark} {}", harmless(&text));
}
