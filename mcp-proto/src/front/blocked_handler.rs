//! Handlers that keep their driver for long in one poll.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use super::handler::connection::HandlerConnection;
use crate::Instant;
use crate::peer::InboundId;

/// How long a handler may keep its driver before it is reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handler that kept its driver for more than a second in one poll, or before it returned its future. Every client of
/// that driver waited. The feature `tracing` also emits it as an event of the target `mcp_proto::server`.
///
/// Work that blocks belongs on another thread: with `unblock` of the crate `blocking`, or `spawn_blocking` of Tokio.
/// [`Router::spawn_handlers`](super::Router::spawn_handlers) makes each handler a task apart from the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedHandler {
    /// The method of its request; `None` for a notification, and for a method that the protocol does not define.
    pub method: Option<&'static str>,
    /// The tool, the prompt, or the URI of the resource.
    pub name: Option<String>,
    /// How long the poll took.
    pub elapsed: Duration,
}

impl BlockedHandler {
    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.name.as_ref().map_or(0, String::len)
    }
}

impl fmt::Display for BlockedHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler of {}", self.method.unwrap_or("a notification or a custom method"))?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(
            f,
            " blocked its driver for {:?}, and every client of it waited: move blocking work to another thread \
             (`blocking::unblock`, `tokio::task::spawn_blocking`), or give each handler a task of its own \
             (`Router::spawn_handlers`)",
            self.elapsed
        )
    }
}

/// Takes the reports about the handlers of a server, where the events of a connection reach no listener.
pub(super) trait HandlerReports: Send + Sync {
    /// Reports a handler that blocked its driver.
    fn handler_blocked(&self, blocked: BlockedHandler);

    /// Reports that a handler logs although the server does not declare it. Returns whether this is the first report.
    fn undeclared_logging(&self) -> bool;
}

/// Reports the handler of a request to `connection` if it kept the driver for long: in a poll that began at `begun`, or
/// before it returned its future. Without a method it is that of the request.
pub(super) fn report_if_blocked(
    connection: &dyn HandlerConnection,
    begun: Instant,
    (request, method, name): (InboundId, Option<&'static str>, Option<&str>),
) {
    let elapsed = connection.now().saturating_since(begun);
    if elapsed > PATIENCE {
        let blocked = BlockedHandler { method, name: name.map(String::from), elapsed };
        connection.handler_blocked(request, blocked);
    }
}
