//! What an application asks of a server over HTTP: the same of an exchange and of a session.

/// Implements the commands of a machine that has `run`, as the transports for streams have them.
macro_rules! commands {
    ($machine:ident) => {
        /// Commands.
        impl $machine {
            /// Answers a request. One that was answered or cancelled already is left alone.
            pub fn respond(&mut self, now: Instant, request: InboundId, answer: peer::Answer<'_>) {
                self.run(now, |server, out| server.respond(request, answer, out));
            }

            /// Reports progress on a request. Returns whether it was sent.
            pub fn progress(&mut self, now: Instant, request: InboundId, params: &ProgressParams) -> bool {
                self.run(now, |server, out| server.progress(request, params, out))
            }

            /// Logs, on behalf of a request or of none. Returns whether it was sent.
            pub fn log(
                &mut self,
                now: Instant,
                request: Option<InboundId>,
                params: &LoggingMessageParams,
            ) -> bool {
                self.run(now, |server, out| server.log(request, params, out))
            }

            /// Tells the client, if it asked, that a list has changed.
            pub fn list_changed(&mut self, now: Instant, list: ListKind) {
                self.run(now, |server, out| server.list_changed(now, list, out));
            }

            /// Tells the client, if it asked, that a resource has changed.
            pub fn resource_updated(&mut self, now: Instant, uri: &str) {
                self.run(now, |server, out| server.resource_updated(now, uri, out));
            }

            /// Tells the client, if it listens for the task, how that is doing. Returns whether it does.
            pub fn task_updated(&mut self, now: Instant, params: &TaskUpdatedParams) -> bool {
                self.run(now, |server, out| server.task_updated(params, out))
            }

            /// Tells the client of a legacy session something that belongs to no request which is still open. Returns
            /// whether it was sent.
            pub fn notify_session(
                &mut self,
                now: Instant,
                info: &'static crate::schema::NotificationInfo,
                params: &dyn crate::peer::AnyParams,
            ) -> bool {
                self.run(now, |server, out| server.notify_session(info, params, out))
            }

            /// Tells the client that the person is done with a page on the web (2025-11-25). Returns whether it was
            /// sent.
            pub fn elicitation_complete(&mut self, now: Instant, id: &str) -> bool {
                self.run(now, |server, out| server.elicitation_complete(id, out))
            }

            /// Asks the client, on behalf of its own request `of` or of none (legacy revisions).
            ///
            /// # Errors
            /// If it can not be sent; nothing has changed then.
            pub fn request(
                &mut self,
                now: Instant,
                of: Option<InboundId>,
                request: OutgoingRequest<'_>,
            ) -> Result<RequestId, RequestError> {
                self.run(now, |server, out| server.request(now, of, request, out))
            }

            /// Stops waiting for a request of this side, and tells the client so.
            pub fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>) {
                self.run(now, |server, out| server.cancel(request, reason, out));
            }

            /// Closes in an orderly way: ends subscriptions, and lets requests in flight finish for a while.
            pub fn close(&mut self, now: Instant) {
                self.run(now, |server, out| server.close(now, out));
            }

            /// Ends everything at once.
            pub fn abort(&mut self, now: Instant, why: LostReason) {
                self.run(now, |server, _| server.abort(peer::CloseReason::Lost(why)));
            }

            /// The next event, in the order in which it happened.
            #[must_use]
            pub fn poll_event(&mut self) -> Option<peer::Event> {
                self.server.poll_event()
            }

            /// What the client wants to be told of and has not been given up.
            pub fn topics(&self) -> impl Iterator<Item = &Topic> {
                self.server.topics()
            }

            /// Whether it is over. What is queued may still be sent.
            pub fn is_closed(&self) -> bool {
                self.server.is_closed()
            }
        }
    };
}

pub(super) use commands;
