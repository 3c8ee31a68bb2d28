//! The connection as handlers and requests of the server use it.

use alloc::sync::Arc;
use core::task::{Poll, Waker};

use super::core::ServerCore;
use crate::front::handler::connection::HandlerConnection;
use crate::front::request_slots::{FollowKind, RequestLink};
use crate::front::router::ChangeListener;
use crate::front::shared::Shared;
use crate::front::{BlockedHandler, Error, trace};
use crate::peer::server::{Diagnostic, ListKind, ServerCommands, ServerTransport};
use crate::peer::{AnyParams, InboundId, Outcome, OutgoingRequest, RequestError, RequestId};
use crate::schema::{InputRequest, LoggingMessageParams, NotificationInfo, ProgressParams};
use crate::{Instant, UnixTime};

/// The connection as handles see it, independent of the machine's type.
pub(super) type Connection = Shared<ServerCore, dyn ServerTransport + Send>;

/// The link of a connection for requests to the client.
pub(super) struct ServerLink {
    pub(super) connection: Arc<Connection>,
    /// The client's request on whose behalf the server sends its own, if there is one.
    pub(super) on_behalf_of: Option<InboundId>,
}

impl RequestLink for ServerLink {
    fn send(&self, request: OutgoingRequest<'_>, follow: FollowKind) -> Result<RequestId, Error> {
        self.connection.command(|core, machine, now, _| {
            core.check_open()?;
            let request = machine.at(now).send(self.on_behalf_of, request)?;
            core.slots.open(request, follow);
            Ok(request)
        })
    }

    fn missed_progress(&self, request: RequestId) -> u64 {
        self.connection.with(|core, _, _, _| core.slots.missed_progress(request))
    }

    fn poll_progress(&self, request: RequestId, waker: Waker) -> Poll<Option<ProgressParams>> {
        self.connection.update(|core, _, wakers| core.slots.poll_progress(request, waker, wakers))
    }

    fn poll_outcome(&self, request: RequestId, waker: Waker) -> Poll<Outcome> {
        self.connection.update(|core, _, wakers| core.slots.poll_outcome(request, waker, wakers))
    }

    fn abandon(&self, request: RequestId, reason: Option<&str>) {
        self.connection.command(|core, machine, now, wakers| {
            core.slots.close(request, wakers);
            machine.at(now).cancel(request, reason);
        });
    }
}

impl<M: ServerTransport + Send> ChangeListener for Shared<ServerCore, M> {
    fn list_changed(&self, list: ListKind) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).list_changed(list));
    }

    fn resource_updated(&self, uri: &str) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).resource_updated(uri));
    }
}

impl<M: ServerTransport + Send + 'static> HandlerConnection for Shared<ServerCore, M> {
    fn progress(&self, request: InboundId, params: &ProgressParams) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).progress(request, params));
    }

    fn progress_out(&self) -> u32 {
        self.read(|_, machine| machine.peer().config().limits.progress_out)
    }

    fn input_rounds(&self) -> u32 {
        self.read(|_, machine| machine.peer().config().limits.input_rounds)
    }

    fn log(&self, request: Option<InboundId>, params: &LoggingMessageParams) {
        let reports = self.command(|core, machine, now, _| {
            let is_first = machine.peer().is_first_undeclared_log();
            ServerCommands::new(machine, now).log(request, params);
            is_first.then(|| core.reports.clone())
        });
        if reports.is_some_and(|reports| reports.is_none_or(|reports| reports.undeclared_logging())) {
            trace::warn(&Diagnostic::UndeclaredLogging);
        }
    }

    fn notify_session(&self, info: &'static NotificationInfo, params: &dyn AnyParams) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).notify_session(info, params));
    }

    fn notify_custom(
        &self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError> {
        self.command(|_, machine, now, _| {
            ServerCommands::new(machine, now).notify_custom(request, method, params)
        })
    }

    fn elicitation_complete(&self, id: &str) -> bool {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).elicitation_complete(id))
    }

    fn is_active(&self, request: InboundId) -> bool {
        self.read(|core, _| core.active.contains_key(&request))
    }

    fn poll_inactive(&self, request: InboundId, key: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let left = waker.clone();
        self.with(|core, _, _, wakers| match core.active.get_mut(&request) {
            Some(request) => {
                request.waiters.wait(key, left, wakers);
                Poll::Pending
            }
            None => {
                wakers.discard(Some(left));
                Poll::Ready(())
            }
        })
    }

    fn remove_waiter(&self, request: InboundId, key: Option<u64>) {
        self.with(|core, _, _, wakers| {
            if let Some(request) = core.active.get_mut(&request) {
                request.waiters.leave(key, wakers);
            }
        });
    }

    fn close_sse_stream(&self, request: InboundId) {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).close_sse_stream(request));
    }

    fn wake_handler(&self, request: InboundId) {
        self.signal().mark_ready(request);
        self.signal().notify();
    }

    fn check_texts(&self, input: &InputRequest) -> Result<(), RequestError> {
        self.command(|_, machine, now, _| ServerCommands::new(machine, now).check_texts(input))
    }

    fn request_link(self: Arc<Self>, on_behalf_of: Option<InboundId>) -> Arc<dyn RequestLink> {
        Arc::new(ServerLink { connection: self, on_behalf_of })
    }

    fn has_streams(&self) -> bool {
        self.read(|_, machine| machine.has_streams())
    }

    fn handler_blocked(&self, request: InboundId, mut blocked: BlockedHandler) {
        let reports = self.with(|core, machine, _, wakers| {
            blocked.method = blocked.method.or_else(|| machine.peer().method(request));
            core.report_blocked(blocked.clone(), wakers);
            core.reports.clone()
        });
        trace::warn(&blocked);
        if let Some(reports) = reports {
            reports.handler_blocked(blocked);
        }
    }

    fn now(&self) -> Instant {
        Self::now(self)
    }

    fn unix_time(&self) -> UnixTime {
        Self::unix_time(self)
    }
}
