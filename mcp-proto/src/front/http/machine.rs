//! The machines of HTTP, as the front drives them.

use core::task::Waker;

use super::session::SessionMachine;
use crate::Instant;
use crate::front::server::ServerMachine;
use crate::peer::server::{self, Answer, ListKind, Session};
use crate::peer::{AnyParams, Denial, InboundId, LostReason, OutgoingRequest, RequestError, RequestId};
use crate::rpc::ErrorObject;
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{LoggingMessageParams, NotificationInfo, ProgressParams};
use crate::transport::http::server::Exchange;

/// The methods of a [`ServerMachine`] that are those of the same name of the machine itself, or of its part `$part`.
macro_rules! as_it_is {
    ($($part:ident)?) => {
        fn respond(&mut self, now: Instant, request: InboundId, answer: Answer<'_>) {
            self$(.$part)?.respond(now, request, answer);
        }

        fn deny(&mut self, now: Instant, request: InboundId, error: ErrorObject, denial: &Denial) {
            self$(.$part)?.deny(now, request, error, denial);
        }

        fn progress(&mut self, now: Instant, request: InboundId, params: &ProgressParams) -> bool {
            self$(.$part)?.progress(now, request, params)
        }

        fn log(&mut self, now: Instant, request: Option<InboundId>, params: &LoggingMessageParams) -> bool {
            self$(.$part)?.log(now, request, params)
        }

        fn list_changed(&mut self, now: Instant, list: ListKind) {
            self$(.$part)?.list_changed(now, list);
        }

        fn resource_updated(&mut self, now: Instant, uri: &str) {
            self$(.$part)?.resource_updated(now, uri);
        }

        fn task_updated(&mut self, now: Instant, params: &TaskUpdatedParams) -> bool {
            self$(.$part)?.task_updated(now, params)
        }

        fn notify_session(&mut self, now: Instant, info: &'static NotificationInfo, params: &dyn AnyParams) -> bool {
            self$(.$part)?.notify_session(now, info, params)
        }

        fn elicitation_complete(&mut self, now: Instant, id: &str) -> bool {
            self$(.$part)?.elicitation_complete(now, id)
        }

        fn request(
            &mut self,
            now: Instant,
            of: Option<InboundId>,
            request: OutgoingRequest<'_>,
        ) -> Result<RequestId, RequestError> {
            self$(.$part)?.request(now, of, request)
        }

        fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>) {
            self$(.$part)?.cancel(now, request, reason);
        }

        fn close(&mut self, now: Instant) {
            self$(.$part)?.close(now);
        }

        fn abort(&mut self, now: Instant, why: LostReason) {
            self$(.$part)?.abort(now, why);
        }

        fn handle_timeout(&mut self, now: Instant) {
            self$(.$part)?.handle_timeout(now);
        }

        fn poll_timeout(&self) -> Option<Instant> {
            self$(.$part)?.poll_timeout()
        }
    };
}

impl ServerMachine for Exchange {
    as_it_is!();

    fn poll_event(&mut self) -> Option<server::Event> {
        self.poll_event()
    }

    fn session(&self) -> Option<&Session> {
        None
    }
}

impl ServerMachine for SessionMachine {
    as_it_is!(session);

    fn has_streams(&self) -> bool {
        true
    }

    fn close_sse_stream(&mut self, now: Instant, request: InboundId) {
        self.session.close_sse_stream(now, request);
    }

    fn poll_event(&mut self) -> Option<server::Event> {
        self.next_event()
    }

    fn poll_waker(&mut self) -> Option<Waker> {
        self.next_waker()
    }

    fn session(&self) -> Option<&Session> {
        self.session.session()
    }
}
