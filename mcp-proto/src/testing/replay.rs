//! A trace as a test.

use super::pair;
use crate::front::{HandlerMode, ServedRouter};
use crate::prelude::*;
use crate::schema::{Era, Revision};
use crate::trace_file::{Recording, Trace};

/// Makes the requests of a trace again with this router, calls of tools too, and compares the answers by their meaning: the
/// trace of a session with the server, such as `mcpio tap` writes one, is a test of it.
///
/// ```
/// use mcp_proto::front::Router;
/// use mcp_proto::schema::{Json, Tool};
/// use mcp_proto::testing;
/// use serde_json::Value;
///
/// fn router() -> Router {
///     let tool = Tool::new("greet", "Greets", Json::empty_object());
///     Router::new("greeter", "1.0.0").tool_with(tool, async |_: Value, _| "Hello!")
/// }
///
/// # let file = br#"{"mcpTrace":1,"started":1764169200000,"program":"test","redacted":true}
/// # {"at":1,"connection":1,"event":"opened","server":"greeter","transport":"stdio"}
/// # {"at":2,"connection":1,"event":"message","from":"client","frame":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"greet\"}}"}
/// # {"at":3,"connection":1,"event":"message","from":"server","frame":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"Hello!\"}]}}"}
/// # "#;
/// # #[cfg(any())]
/// let file = include_bytes!("sessions/greeting.trace");
/// testing::replay(router(), file);
/// ```
///
/// The client speaks the recorded era, on a simulated clock and network as [`pair`] has them, and answers requests for input
/// as the recorded one did. Requests with values that are hidden in the trace are not made. For other rules,
/// [`Recording::replay`] and its options run in a pair:
///
/// ```no_run
/// # use mcp_proto::{Router, testing};
/// # use mcp_proto::trace_file::{Recording, Trace};
/// # fn example(router: Router, file: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// let recording = Recording::new(&Trace::parse(file)?, None)?;
/// let replay = recording.replay().ignore("/result/structuredContent/uptime");
/// let mut pair = testing::pair(router).handlers(recording.client_handlers());
/// let report = pair.run(async |client| replay.run(&client).await);
/// assert!(report.is_same(), "{report}");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If an answer says something else than the recorded one, or no request can be made; if the file is no trace, or one of
/// several servers; and as [`RouterPair::run`](super::RouterPair::run).
#[track_caller]
pub fn replay<M: HandlerMode>(router: impl Into<ServedRouter<M>>, trace: impl AsRef<[u8]>) {
    let recording = Trace::parse(trace.as_ref()).map_err(|error| error.to_string());
    let recording =
        recording.and_then(|trace| Recording::new(&trace, None).map_err(|error| error.to_string()));
    let recording = recording.unwrap_or_else(|error| panic!("the trace cannot be replayed: {error}"));
    let mut pair = pair(router).handlers(recording.client_handlers());
    if recording.revision.map(Revision::era) == Some(Era::Legacy) {
        pair = pair.legacy();
    }
    let replay = recording.replay().all_calls();
    let report = pair.run(async |client| replay.run(&client).await);
    assert!(report.is_same(), "the answers are not the recorded ones: {report}");
}
