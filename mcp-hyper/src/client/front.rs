//! What the loops of a client over HTTP and over WebSocket share.

use std::sync::Arc;
use std::task::Poll;

use mcp_proto::adapter::{self, ClientDriver, ClientTransport};
use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode};
use mcp_proto::peer::client::CloseReason;

use super::credentials::Authorizer;
use crate::time::RuntimeClock;

/// Maximum rounds of the driver before it lets other tasks run.
pub(super) const ROUNDS: usize = 4;

/// Maximum batches of events that the driver handles in each round.
pub(super) const TURN: usize = 32;

/// Error of an exchange that the server refused, in a client without authorization. Users of applications read it, which
/// have their own ways to log in.
pub(super) const NO_AUTHORIZATION: &str = "no login configured";

/// Starts the machine and the handle of a client.
pub(super) fn start<M: ClientTransport + Send + 'static, H: HandlerMode>(
    machine: M,
    handlers: ClientHandlers<H>,
    authorizer: Option<&mut Authorizer>,
    clock: &Arc<RuntimeClock>,
) -> (Client, ClientDriver<M, H>) {
    let (client, mut front) = adapter::client(machine, clock.clone(), handlers);
    let timers = clock.clone();
    front.set_handle_timer(move |time| {
        let timers = timers.clone();
        Box::pin(async move { timers.sleep_in_handle(time).await })
    });
    if let Some(authorizer) = authorizer {
        authorizer.link_cache(front.cache_context_ender());
    }
    (client, front)
}

/// Ready once the client is closed, and nothing is in progress that must finish first.
pub(super) fn poll_end<M: ClientTransport + Send + 'static, H: HandlerMode>(
    front: &mut ClientDriver<M, H>,
    authorizer: Option<&Authorizer>,
) -> Poll<Result<(), Error>> {
    let closed = front.closed().filter(|_| !authorizer.is_some_and(Authorizer::is_finishing));
    let Some(closed) = closed else { return Poll::Pending };
    front.handle_link_down();
    Poll::Ready(match closed {
        CloseReason::Done => Ok(()),
        closed => Err(Error::Closed(closed)),
    })
}
