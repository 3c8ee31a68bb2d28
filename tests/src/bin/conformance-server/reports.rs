//! Tools that report while they run, and tools that send a change notification when called.

use std::time::Duration;

use mcp_proto::front::{Context, NoArguments, Progress, Router};
use mcp_proto::peer::server::ListKind;
use mcp_proto::schema::{LoggingLevel, ServerCapability};
use smol::Timer;
use smol::channel::Sender;

use crate::content::plain;

/// Pause between reports, so that clients receive them one by one.
const PAUSE: Duration = Duration::from_millis(50);

/// `changes` receives the lists to announce as changed.
pub(crate) fn add(router: Router, changes: &Sender<ListKind>) -> Router {
    router
        .declare(ServerCapability::Logging)
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::PromptsListChanged)
        .tool_with(plain("test_tool_with_logging", "Logs three messages"), logging)
        .tool_with(plain("test_logging_tool", "Logs three messages"), logging)
        .tool_with(plain("test_tool_with_progress", "Reports progress three times"), progress)
        .tool_with(plain("test_reconnection", "Lets go of its stream before it answers"), reconnection)
        .tool_with(
            plain("test_trigger_tool_change", "Announces that the list of tools has changed"),
            announcing(changes, ListKind::Tools),
        )
        .tool_with(
            plain("test_trigger_prompt_change", "Announces that the list of prompts has changed"),
            announcing(changes, ListKind::Prompts),
        )
}

async fn logging(_: NoArguments, cx: Context) -> &'static str {
    cx.log(LoggingLevel::Info, "Tool execution started");
    Timer::after(PAUSE).await;
    cx.log(LoggingLevel::Info, "Tool processing data");
    Timer::after(PAUSE).await;
    cx.log(LoggingLevel::Info, "Tool execution completed");
    "Logged three messages."
}

async fn progress(_: NoArguments, cx: Context) -> &'static str {
    cx.progress(Progress::new(0).total(100));
    Timer::after(PAUSE).await;
    cx.progress(Progress::new(50).total(100));
    Timer::after(PAUSE).await;
    cx.progress(Progress::new(100).total(100));
    "Reported progress three times."
}

/// Closes its stream; the client gets the answer by resuming on another one.
async fn reconnection(_: NoArguments, cx: Context) -> &'static str {
    cx.close_sse_stream();
    Timer::after(2 * PAUSE).await;
    "Reconnection test completed."
}

/// Sends the change to the task that holds the server's handle; the lists themselves never change.
fn announcing(
    changes: &Sender<ListKind>,
    list: ListKind,
) -> impl Fn(NoArguments, Context) -> std::future::Ready<&'static str> + Send + Sync + 'static {
    let changes = changes.clone();
    move |NoArguments {}, _| {
        // Fails when the server is closing: then no client is left to notify.
        let _ = changes.try_send(list);
        std::future::ready("Announced.")
    }
}
