//! The server's half.

use mcp_proto::front::{Context, HandlerError, Router, SendHandlers};
use mcp_proto::schema::{
    CallToolResult, CustomParams, CustomResult, InvalidExtensionError, Json, ResultType, Tool,
};
use serde_json::json;

use crate::{IDENTIFIER, Job, PAPER_LOW, PRINT, PaperLow, Progress, QUEUED, convert, extension};

/// The printers of a server.
pub trait Printers: Send + Sync + 'static {
    /// Prints a resource, or queues it; and returns how many sheets are left.
    ///
    /// # Errors
    /// If there is no such printer: the client sees the error.
    fn print(&self, job: &Job) -> Result<(Progress, u32), HandlerError>;
}

/// The extension as a router, to be [merged](Router::merge) into that of a server with resources.
///
/// For clients that do not know the extension it has a tool `print`.
///
/// # Errors
/// Never: the identifier is valid.
pub fn router<P: Printers>(printers: P) -> Result<Router<SendHandlers, P>, InvalidExtensionError> {
    let schema = json!({
        "type": "object",
        "properties": { "printer": { "type": "string" }, "uri": { "type": "string" } },
        "required": ["printer", "uri"],
    });
    Ok(Router::new("printing", env!("CARGO_PKG_VERSION"))
        .with_state(printers)
        .with_extension(extension()?)
        .custom(PRINT, print::<P>)
        .tool_with(Tool::new("print", "Prints a resource", Json::from(schema)), print_by_tool::<P>))
}

async fn print<P: Printers>(params: CustomParams, cx: Context<P>) -> Result<CustomResult, HandlerError> {
    let job: Job = convert(&params).map_err(|error| HandlerError::invalid_params(error.to_string()))?;
    let (progress, sheets) = cx.state().print(&job)?;
    warn(&cx, &job, sheets);
    match progress {
        Progress::Printed { pages } => Ok(convert(&json!({ "pages": pages }))?),
        Progress::Queued { position } => {
            let mut queued: CustomResult = convert(&json!({ "position": position }))?;
            queued.result_type = Some(ResultType::Other(QUEUED.into()));
            Ok(queued)
        }
    }
}

/// Every client may call the tool, so its results are those of the protocol.
async fn print_by_tool<P: Printers>(job: Job, cx: Context<P>) -> Result<CallToolResult, HandlerError> {
    let (progress, sheets) = cx.state().print(&job)?;
    warn(&cx, &job, sheets);
    Ok(CallToolResult::text(match progress {
        Progress::Printed { pages } => format!("printed {pages} pages"),
        Progress::Queued { position } => format!("{position} jobs are before it"),
    }))
}

/// Notifies the client, if it knows the extension.
fn warn<P>(cx: &Context<P>, job: &Job, sheets: u32) {
    if sheets < 20 && cx.extension(IDENTIFIER).is_some() {
        let low = PaperLow { printer: job.printer.clone(), sheets };
        // A client that reads nothing, or no longer waits, misses it.
        let _ = cx.notify_custom(PAPER_LOW, &low);
    }
}
