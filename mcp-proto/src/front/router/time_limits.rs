//! The time that the handlers of tools may take.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use super::{HandlerMode, Router, RouterError};
use crate::HumanDuration;
use crate::front::params::decode_params;
use crate::front::reply::Reply;
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::{CallTool, CallToolResult, Method as _};

/// The limits, by tool.
#[derive(Clone, Default)]
pub(super) struct TimeLimits(Arc<BTreeMap<String, Duration>>);

impl TimeLimits {
    pub(super) fn remove(&mut self, tool: &str) {
        if self.0.contains_key(tool) {
            Arc::make_mut(&mut self.0).remove(tool);
        }
    }

    /// Adds the limits of another router, whose tools have other names here.
    pub(super) fn absorb(&mut self, other: &Self, name: impl Fn(&str) -> String) {
        if !other.0.is_empty() {
            let renamed = other.0.iter().map(|(tool, time)| (name(tool), *time));
            Arc::make_mut(&mut self.0).extend(renamed);
        }
    }
}

/// The limit of one call.
pub(in crate::front) struct TimeLimit {
    tool: String,
    pub(in crate::front) time: Duration,
}

impl TimeLimit {
    /// The reply to the call whose time is over.
    pub(in crate::front) fn into_reply(self) -> Reply {
        let Self { tool, time } = self;
        let time = HumanDuration(time);
        let message = format!("the tool {tool:?} did not finish within {time}, the limit of this server");
        Reply::result(CallToolResult::error(message))
    }
}

/// Time limits.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Limits how long a handler of this tool may take for a call. Default: no limit; a client stops waiting by its own
    /// timeout, and mostly cancels the call.
    ///
    /// When the time is over, the handler's future is dropped at the `await` where it waits, and the call is answered by a
    /// result with `isError` that names the limit, which the model reads: the same in every revision and over every
    /// transport.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let tool = Tool::new("report", "Writes a report", Json::empty_object());
    /// let router = Router::new("reports", "1.0.0")
    ///     .tool_with(tool, async |NoArguments {}, _| core::future::pending::<String>().await)
    ///     .tool_timeout("report", Duration::from_secs(20));
    /// assert!(router.check().is_ok());
    /// ```
    ///
    /// | The handler | Its time |
    /// |---|---|
    /// | asks a client of 2025-11-25 or earlier ([`Context::elicit`](super::Context::elicit)) | starts again while the client has not answered |
    /// | asks a client of 2026-07-28 | starts again with the handler, once the client has answered |
    /// | returns [`DetachedWork`](crate::front::tasks::DetachedWork) that is done before the answer | goes on |
    /// | works for a [task](Self::task_tool) | is not limited: [`TaskConfig`](crate::front::tasks::TaskConfig) limits the task's life |
    /// | is called in place of another one, by a [layer](Self::layer) | starts then |
    /// | blocks its thread | ends once it lets go of the thread |
    pub fn tool_timeout(mut self, tool: impl Into<String>, time: Duration) -> Self {
        Arc::make_mut(&mut self.contents.time_limits.0).insert(tool.into(), time);
        self
    }

    /// Returns a tool that has a limit but is not registered: most likely it has another name.
    pub(super) fn missing_limited_tool(&self) -> Option<RouterError> {
        self.unregistered_tool(self.contents.time_limits.0.keys())
    }

    /// The limit of a request, if it is the call of a tool that has one.
    pub(in crate::front) fn time_limit(&self, method: &str, params: Option<&Raw>) -> Option<TimeLimit> {
        if self.contents.time_limits.0.is_empty() || method != CallTool::NAME {
            return None;
        }
        self.time_limit_of(decode_params::<CallTool>(params.cloned()).ok()?.name)
    }

    /// The limit of a call of this tool, if it has one.
    pub(in crate::front) fn time_limit_of(&self, tool: String) -> Option<TimeLimit> {
        let time = *self.contents.time_limits.0.get(&tool)?;
        Some(TimeLimit { tool, time })
    }
}
