//! What the front needs of a client's machine, whatever carries its messages.

use crate::Instant;
use crate::peer::client::{
    self, CacheContext, ConnectProgress, KnownEra, ServerInfo, TaskCommand, WatchFilter, WatchId, WatchStart,
};
use crate::peer::{
    AnyParams, AnyResult, InboundId, Leniency, LostReason, OutgoingRequest, RequestError, RequestId,
    RequestOptions,
};
use crate::rpc::ErrorObject;
#[cfg(feature = "http")]
use crate::transport::http::client::HttpClient;
use crate::transport::{Framing, Transport};

/// The client role of a connection, as the front drives it. Inputs and outputs that differ from one transport to the
/// next are the driver's business.
///
/// The transports of this crate implement it; whoever implements it anew wraps one of them.
pub trait ClientMachine {
    /// Asks the server.
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    fn request(&mut self, now: Instant, request: OutgoingRequest<'_>) -> Result<RequestId, RequestError>;

    /// Follows a task, asks for it or gives it up, by its identifier alone.
    ///
    /// # Errors
    /// If it can not be done; nothing has changed then.
    fn task(
        &mut self,
        now: Instant,
        id: &str,
        command: TaskCommand,
        options: RequestOptions,
    ) -> Result<RequestId, RequestError>;

    /// Tells the server something.
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    fn notify(&mut self, now: Instant, method: &str, params: &dyn AnyParams) -> Result<(), RequestError>;

    /// Stops waiting for a request, and tells the server so.
    fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>);

    /// Sends a request again at once that pauses before it does, because it was answered by asking for input.
    fn retry(&mut self, now: Instant, request: RequestId);

    /// Answers what the server asks for.
    fn respond(&mut self, now: Instant, request: InboundId, answer: Result<&dyn AnyResult, ErrorObject>);

    /// The request of this side before whose end the server asks for this, if it asks so.
    fn on_behalf_of(&self, request: InboundId) -> Option<RequestId>;

    /// Makes requests on behalf of another from now on.
    fn set_cache_context(&mut self, context: CacheContext);

    /// Ends the authorization context: forgets private answers, and keeps none of the requests made so far. Default: all
    /// answers are forgotten.
    fn end_cache_context(&mut self) {
        self.clear_cache();
    }

    /// Forgets every answer that was kept.
    fn clear_cache(&mut self);

    /// Asks to be told of changes.
    ///
    /// # Errors
    /// If the connection is over, or closing.
    fn watch(
        &mut self,
        now: Instant,
        interest: WatchFilter,
        since: WatchStart,
    ) -> Result<WatchId, RequestError>;

    /// Changes what a watch is interested in.
    fn set_watch_filter(&mut self, now: Instant, watch: WatchId, interest: WatchFilter);

    /// Ends a watch.
    fn unwatch(&mut self, now: Instant, watch: WatchId);

    /// Reports a deviation of the server, if the configuration tolerates deviations: returns whether it does.
    fn tolerate(&mut self, leniency: Leniency) -> bool;

    /// Closes in an orderly way.
    fn close(&mut self, now: Instant);

    /// Ends everything at once.
    fn abort(&mut self, now: Instant, why: LostReason);

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The next event.
    fn poll_event(&mut self) -> Option<client::Event>;

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What is known of the server, once the client is ready.
    fn server(&self) -> Option<&ServerInfo>;

    /// What the connection found out about the server's era.
    fn known_era(&self) -> Option<KnownEra>;

    /// How far the connection has come.
    fn state(&self) -> client::State;

    /// The last report on connecting; `None` once the client is ready, or closed.
    fn connecting(&self) -> Option<&ConnectProgress>;
}

/// The methods of a [`ClientMachine`] that are those of the machine itself.
macro_rules! as_it_is {
    () => {
        fn request(&mut self, now: Instant, request: OutgoingRequest<'_>) -> Result<RequestId, RequestError> {
            self.send(now, request)
        }

        fn task(
            &mut self,
            now: Instant,
            id: &str,
            command: TaskCommand,
            options: RequestOptions,
        ) -> Result<RequestId, RequestError> {
            Self::task(self, now, id, command, options)
        }

        fn notify(&mut self, now: Instant, method: &str, params: &dyn AnyParams) -> Result<(), RequestError> {
            self.notify_custom(now, method, params)
        }

        fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>) {
            Self::cancel(self, now, request, reason);
        }

        fn retry(&mut self, now: Instant, request: RequestId) {
            Self::retry(self, now, request);
        }

        fn respond(&mut self, now: Instant, request: InboundId, answer: Result<&dyn AnyResult, ErrorObject>) {
            Self::respond(self, now, request, answer);
        }

        fn on_behalf_of(&self, request: InboundId) -> Option<RequestId> {
            self.peer().on_behalf_of(request)
        }

        fn set_cache_context(&mut self, context: CacheContext) {
            Self::set_cache_context(self, context);
        }

        fn end_cache_context(&mut self) {
            Self::end_cache_context(self);
        }

        fn clear_cache(&mut self) {
            Self::clear_cache(self);
        }

        fn watch(
            &mut self,
            now: Instant,
            interest: WatchFilter,
            since: WatchStart,
        ) -> Result<WatchId, RequestError> {
            Self::watch(self, now, interest, since)
        }

        fn set_watch_filter(&mut self, now: Instant, watch: WatchId, interest: WatchFilter) {
            Self::set_watch_filter(self, now, watch, interest);
        }

        fn unwatch(&mut self, now: Instant, watch: WatchId) {
            Self::unwatch(self, now, watch);
        }

        fn tolerate(&mut self, leniency: Leniency) -> bool {
            Self::tolerate(self, leniency)
        }

        fn close(&mut self, now: Instant) {
            Self::close(self, now);
        }

        fn handle_timeout(&mut self, now: Instant) {
            Self::handle_timeout(self, now);
        }

        fn poll_event(&mut self) -> Option<client::Event> {
            Self::poll_event(self)
        }

        fn poll_timeout(&self) -> Option<Instant> {
            Self::poll_timeout(self)
        }

        fn server(&self) -> Option<&ServerInfo> {
            Self::server(self)
        }

        fn known_era(&self) -> Option<KnownEra> {
            Self::known_era(self)
        }

        fn state(&self) -> client::State {
            Self::state(self)
        }

        fn connecting(&self) -> Option<&ConnectProgress> {
            self.peer().connecting()
        }
    };
}

impl<F: Framing> ClientMachine for Transport<client::Client, F> {
    as_it_is!();

    fn abort(&mut self, _: Instant, why: LostReason) {
        Self::abort(self, why);
    }
}

#[cfg(feature = "http")]
impl ClientMachine for HttpClient {
    as_it_is!();

    fn abort(&mut self, now: Instant, why: LostReason) {
        Self::abort(self, now, why);
    }
}
