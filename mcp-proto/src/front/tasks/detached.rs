//! Work that a tool leaves to a task.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;

use super::super::Context;
use crate::front::ToolOutput;
use crate::front::handling::SendFuture;
use crate::front::reply::Reply;
use crate::front::router::tool_reply;
use crate::schema::tasks::legacy::TaskMetadata;

/// What is left to do of a tool's work, as a task: see [`Router::detaching_tool`](crate::front::Router::detaching_tool).
pub struct Detached {
    work: Box<Work>,
    /// Whether the tool has a page, for which its result is made.
    has_page: bool,
}

type Work = dyn FnOnce(Context, bool) -> SendFuture<Reply> + Send;

impl Detached {
    /// Work that is begun with a context of its own, in which asking the client and reporting status concern the task.
    pub fn new<F>(work: impl FnOnce(Context) -> F + Send + 'static) -> Self
    where
        F: Future<Output: ToolOutput> + Send + 'static,
    {
        let work = Box::new(|context, has_page| -> SendFuture<Reply> {
            let working = work(context);
            Box::pin(async move { tool_reply(working.await, has_page) })
        });
        Self { work, has_page: false }
    }

    /// The same of a tool that has a page, or has none.
    pub(in crate::front) fn of_tool(self, has_page: bool) -> Self {
        Self { has_page, ..self }
    }

    /// Begins it.
    pub(in crate::front) fn begin(self, context: Context) -> SendFuture<Reply> {
        (self.work)(context, self.has_page)
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}

/// A tool whose handler has done what it does before there is a task.
#[doc(hidden)]
pub struct Detachment {
    pub(in crate::front) tool: alloc::string::String,
    /// What the client said of a task (2025-11-25).
    pub(in crate::front) asked: Option<TaskMetadata>,
    /// The request that the handler answered.
    pub(in crate::front) context: Context,
    pub(in crate::front) rest: Detached,
}
