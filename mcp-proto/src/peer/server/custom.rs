//! Notifications of the server that the protocol does not define.

use crate::peer::reserved;
use crate::peer::{AnyParams, InboundId, Outbox, RequestError};
use crate::schema::Revision;

use super::{Eras, Phase, Server, ServerCommands, extensions};

impl ServerCommands<'_> {
    /// Sends the client a notification whose name the protocol does not define: with `request`, on the stream of that
    /// request of the client; without, to the client of a legacy session. A client of 2026-07-28 gets notifications of
    /// its own requests only.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages>
    ///
    /// # Errors
    /// If it cannot be sent now: [`Answered`](RequestError::Answered) once the request is over,
    /// [`NotReady`](RequestError::NotReady) without a session that is ready, [`Overloaded`](RequestError::Overloaded)
    /// while the client reads nothing. [`Reserved`](RequestError::Reserved) for names of the protocol, which other
    /// commands send; [`Extension`](RequestError::Extension) for notifications of a registered extension that the client
    /// does not declare.
    pub fn notify_custom(
        &mut self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError> {
        self.run(|server, _, out| server.notify_custom(request, method, params, out))
    }
}

impl Server {
    fn notify_custom(
        &mut self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
        out: &mut dyn Outbox,
    ) -> Result<(), RequestError> {
        reserved::check_server_notification(method)?;
        if matches!(self.phase, Phase::Closed) {
            return Err(RequestError::Closed);
        }
        let (id, revision) = match request {
            Some(request) => {
                let (id, served) = self.inbound.get(request).ok_or(RequestError::Answered)?;
                extensions::admit_notification(&self.config, method, served.revision, &served.capabilities)?;
                (Some(id.clone()), served.revision)
            }
            None if self.config.eras == Eras::ModernOnly => {
                return Err(RequestError::Revision { method: method.into(), revision: Revision::LATEST });
            }
            None => {
                let session = self.session.as_ref().filter(|session| session.initialized);
                let session = session.ok_or(RequestError::NotReady)?;
                extensions::admit_notification(
                    &self.config,
                    method,
                    session.revision,
                    &session.capabilities,
                )?;
                (None, session.revision)
            }
        };
        let limit = self.config.limits.queued_bytes;
        if out.is_full(limit) {
            return Err(RequestError::Overloaded { limit });
        }
        super::notify::write_notification(method, id.as_ref(), params, revision, None, out)
            .map_err(|error| RequestError::Encode(alloc::format!("{error}")))
    }
}
