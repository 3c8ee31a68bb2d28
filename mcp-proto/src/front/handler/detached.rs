//! Work of a tool that continues as a task.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;

use super::context::Context;
use super::output::ToolOutput;
use super::output_check::{OutputCheck, ToolResult};
use crate::front::running_handlers::SendFuture;
use crate::front::tasks::TaskChoice;
use crate::schema::tasks::legacy::TaskMetadata;

/// The rest of a tool's work, to run as a task: see [`Router::detaching_tool`](crate::front::Router::detaching_tool).
pub struct DetachedWork {
    work: Box<DetachedFn>,
    check: OutputCheck,
}

type DetachedFn = dyn FnOnce(Context, OutputCheck) -> SendFuture<ToolResult> + Send;

impl DetachedWork {
    /// Wraps work that starts with its own context, whose input requests and status reports belong to the task.
    pub fn new<F>(work: impl FnOnce(Context) -> F + Send + 'static) -> Self
    where
        F: Future<Output: ToolOutput> + Send + 'static,
    {
        let work = Box::new(|context, check: OutputCheck| -> SendFuture<ToolResult> {
            let working = work(context);
            Box::pin(async move { check.check(working.await) })
        });
        Self { work, check: OutputCheck::default() }
    }

    /// Makes the work check its result against the output schema of its tool.
    pub(in crate::front) fn with_check(self, check: OutputCheck) -> Self {
        Self { check, ..self }
    }

    /// Starts the work.
    pub(in crate::front) fn begin(self, context: Context) -> SendFuture<ToolResult> {
        (self.work)(context, self.check)
    }
}

impl fmt::Debug for DetachedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedWork").finish_non_exhaustive()
    }
}

/// A tool call whose handler has finished the part before its task starts.
#[doc(hidden)]
pub struct DetachedCall {
    pub(in crate::front) tool: alloc::string::String,
    pub(in crate::front) choice: TaskChoice,
    /// The task parameters of the client's call (2025-11-25).
    pub(in crate::front) metadata: Option<TaskMetadata>,
    /// The request that the handler answered.
    pub(in crate::front) context: Context,
    pub(in crate::front) work: DetachedWork,
}
