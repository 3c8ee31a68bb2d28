//! The exchange of one HTTP request and its answer.

mod layers;

use alloc::sync::Arc;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use core::{fmt, mem};

use self::layers::ExchangeLayers;
use super::driver::{Listening, ListeningDriver, TokenWatch};
use super::service::{ExchangeRegistration, Service};
use super::session::{SessionCell, StreamReader};
use crate::front::handler::connection::ServerCore;
use crate::front::handler::inbound_request::NotificationContext;
use crate::front::handler::inbound_request::{Caller, CallerAccess};
use crate::front::handler_error::catch_panic;
use crate::front::router::{Router, ServedRouter};
use crate::front::shared::{Core as _, Shared};
use crate::front::wakers::Signal;
use crate::front::{Attachments, HandlerMode, Notification, SendHandlers};
use crate::peer::Principal;
use crate::peer::server::{KnownMeta, ServerTransport};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::Id;
use crate::schema::{Method, SubscriptionsListen};
use crate::transport::http::param_headers::ParamHeaders;
use crate::transport::http::server::{
    AnswerBody, Chunk, ConnectionId, Exchange, HttpResponse, ModernRequest, PostOutcome, PostedNotification,
    RequestHead, RequestIntake, RequestRoute, ResponseHead, ResponseHeaders, Session, SessionId,
    StatelessPost,
};
use crate::{Bytes, Instant};

/// One HTTP request and its answer.
///
/// Input is the request's body, while the exchange [wants](Self::wants_body) it: [`handle_body`](Self::handle_body),
/// then [`handle_body_end`](Self::handle_body_end), within
/// [`body_timeout`](crate::transport::http::server::HttpServerConfig::body_timeout). Output is the answer: its head, by
/// [`poll_head`](Self::poll_head), and its body, by [`poll_body`](Self::poll_body). A request whose head is rejected is
/// answered without its body.
///
/// The exchange owns the handler of a 2026-07-28 request and polls it in these methods. Dropping the exchange before
/// its end means that the client has disconnected, which cancels such a request; a request of a legacy session goes on,
/// and the client can fetch its answer later.
#[must_use = "nothing happens unless it is polled"]
pub struct HttpExchange<H: HandlerMode = SendHandlers> {
    service: Arc<Service>,
    /// The contents of the router when the request arrived.
    router: Arc<Router<H>>,
    /// The caller's owner and access.
    caller: Caller,
    principal: Option<Principal>,
    stage: Stage<H>,
    /// The waker of the task that polled for the answer before the request was complete.
    waker: Option<Waker>,
    /// The layers through which messages pass, and what is left of a body that passed with its head.
    layers: Option<Box<ExchangeLayers<H>>>,
    /// Headers for the answer, beside its own.
    answer_headers: Option<Box<ResponseHeaders>>,
}

enum Stage<H: HandlerMode> {
    Request {
        intake: RequestIntake,
        /// Whether the tool that the headers name has parameters that headers mirror.
        mirrors_params: bool,
        /// The time by which the body must be complete, if it is limited.
        deadline: Option<Instant>,
    },
    /// A complete answer.
    Answer(HttpResponse),
    /// The body of an answer whose head was taken; empty once it was taken too.
    Body(AnswerBody),
    Modern(ModernExchange<H>),
    Notification(PostedHandler<H>),
    Stream {
        reader: StreamReader,
        /// Ends a GET stream with its token.
        token: TokenWatch,
        /// When the driver, which answers the requests of sessions, must have been polled for the first time.
        driver_deadline: Option<Instant>,
    },
    Over,
}

impl<H: HandlerMode> HttpExchange<H> {
    pub(super) fn new(
        service: &Arc<Service>,
        router: Arc<Router<H>>,
        head: &RequestHead<'_>,
        principal: Option<Principal>,
        access: CallerAccess,
    ) -> Self {
        let attachments = Attachments::new();
        let caller = Caller { owner: head.owner(principal.as_ref()), access, attachments };
        let layers = ExchangeLayers::new(service, router.layers());
        let answer_headers = service.setup.answer_headers(head).map(Box::new);
        let (service, stage) = (service.clone(), Stage::Over);
        let mut exchange =
            Self { service, router, caller, principal, stage, waker: None, layers, answer_headers };
        if let Err(answer) = exchange.take_in(head) {
            exchange.stage = Stage::Answer(answer);
        }
        if let Stage::Request { intake, .. } = &exchange.stage
            && !intake.wants_body()
        {
            exchange.handle_body_end();
        }
        exchange
    }

    /// Checks the head of a request, and prepares to receive its body.
    fn take_in(&mut self, head: &RequestHead<'_>) -> Result<(), HttpResponse> {
        let Self { service, router, caller, .. } = self;
        service.check_arrival(head, &caller.owner)?;
        let mut intake = RequestIntake::new(&service.setup, head)?;
        let params = intake.tool().and_then(|tool| router.param_headers(&tool));
        let mirrors_params = params.is_some();
        if let Some(params) = params {
            intake.retain_params(params, head.fields);
        }
        // Only requests with a body have a deadline.
        let timeout = service.setup.config().body_timeout;
        let deadline = if intake.wants_body() { service.now().after(timeout) } else { None };
        let intake = intake.charge(&service.account(&caller.owner));
        self.stage = Stage::Request { intake, mirrors_params, deadline };
        Ok(())
    }

    /// Creates an exchange with its answer, independent of the request.
    pub(super) fn from_answer(
        service: &Arc<Service>,
        router: Arc<Router<H>>,
        head: &RequestHead<'_>,
        answer: HttpResponse,
    ) -> Self {
        let (service, caller) = (service.clone(), Caller::default());
        let stage = Stage::Answer(answer);
        let answer_headers = service.setup.answer_headers(head).map(Box::new);
        Self { service, router, caller, principal: None, stage, waker: None, layers: None, answer_headers }
    }

    /// Attaches values to the requests in this one's body, for their handlers: its head, for example. Call it before
    /// the body is handled.
    pub fn with_attachments(mut self, attachments: Attachments) -> Self {
        self.caller.attachments = attachments;
        self
    }

    // --- Inputs ---

    /// Handles a part of the request's body.
    pub fn handle_body(&mut self, bytes: Bytes) {
        self.handle_timeout();
        if let Stage::Request { intake, .. } = &mut self.stage
            && let Err(answer) = intake.handle_body(bytes)
        {
            self.set_stage(Stage::Answer(answer));
        }
    }

    /// Handles the end of the request's body.
    pub fn handle_body_end(&mut self) {
        if let Stage::Request { intake, mirrors_params, .. } = mem::replace(&mut self.stage, Stage::Over) {
            if let Err(answer) = self.open(intake, mirrors_params) {
                self.stage = Stage::Answer(answer);
            }
            self.caller.attachments = Attachments::new();
            self.wake();
        }
    }

    /// Handles the passing of time. Does nothing before [`next_timeout`](Self::next_timeout). Poll again after it.
    pub fn handle_timeout(&mut self) {
        match &mut self.stage {
            Stage::Modern(running) => running.handle_timeout(),
            Stage::Request { deadline: Some(deadline), .. } if *deadline <= self.service.now() => {
                if let Stage::Request { intake, .. } = mem::replace(&mut self.stage, Stage::Over) {
                    self.set_stage(Stage::Answer(intake.time_out()));
                }
            }
            Stage::Stream { driver_deadline: deadline @ Some(_), .. }
                if deadline.is_some_and(|deadline| deadline <= self.service.now()) =>
            {
                *deadline = None;
                if self.service.lacks_driver() {
                    self.service.report_unpolled_driver();
                    self.set_stage(Stage::Answer(HttpResponse::unpolled_driver()));
                }
            }
            Stage::Body(AnswerBody { deadline: Some(deadline), .. }) if *deadline <= self.service.now() => {
                self.set_stage(Stage::Over);
            }
            _ => {}
        }
    }

    // --- Outputs ---

    /// Polls for the head of the answer, which comes once.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<ResponseHead> {
        let mut head = ready!(self.poll_own_head(cx));
        if self.layers.is_some() {
            head = self.pass_answer(head);
        }
        if let Some(added) = self.answer_headers.take() {
            add_headers(&mut head, *added);
        }
        Poll::Ready(head)
    }

    fn poll_own_head(&mut self, cx: &mut Context<'_>) -> Poll<ResponseHead> {
        match &mut self.stage {
            Stage::Modern(running) => {
                let mut body = None;
                let head = running.poll(cx, |exchange| {
                    exchange.poll_head().map_or(Poll::Pending, |head| {
                        body = exchange.take_body();
                        Poll::Ready(head)
                    })
                });
                if let Some(body) = body {
                    self.stage = Stage::Body(body);
                }
                head
            }
            Stage::Notification(running) => match running.poll(cx) {
                Poll::Ready(answer) => {
                    self.stage = Stage::Answer(answer);
                    self.poll_own_head(cx)
                }
                Poll::Pending => Poll::Pending,
            },
            Stage::Stream { reader, driver_deadline, .. } => {
                let Poll::Ready((head, body)) = reader.poll_head(cx) else { return Poll::Pending };
                *driver_deadline = None;
                if let Some(body) = body {
                    self.stage = Stage::Body(body);
                }
                Poll::Ready(head)
            }
            Stage::Answer(answer) => {
                let head = answer.head();
                self.stage = Stage::Body(mem::take(&mut answer.body).into());
                Poll::Ready(head)
            }
            Stage::Request { .. } => self.wait(cx),
            Stage::Body(_) | Stage::Over => Poll::Pending,
        }
    }

    /// Polls for the next part of the answer's body; `None` is its end. It follows the head. Poll again only after the
    /// part has been written, so that the server notices a client that does not read.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let polled = self.poll_own_body(cx);
            let is_over = self.layers.is_none() || matches!(self.stage, Stage::Body(_));
            let Poll::Ready(Some(events)) = polled else { return polled };
            let part = if is_over { events } else { self.pass_part(events) };
            // An empty part would be the end of the body.
            if !part.is_empty() {
                return Poll::Ready(Some(part));
            }
        }
    }

    fn poll_own_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(passed) = self.layers.as_mut().and_then(|layered| layered.take_passed()) {
            return Poll::Ready(Some(passed));
        }
        let polled = match &mut self.stage {
            Stage::Modern(running) => {
                let take = |exchange: &mut Exchange| match exchange.poll_body() {
                    Chunk::Bytes(bytes) => Poll::Ready(Some(bytes)),
                    Chunk::Pending => Poll::Pending,
                    Chunk::End => Poll::Ready(None),
                };
                // What is queued is written before the handler goes on.
                match running.driver.machine.take_output(take) {
                    Poll::Ready(part) => Poll::Ready(part),
                    Poll::Pending => running.poll(cx, take),
                }
            }
            Stage::Stream { reader, token, .. } => match token.poll(&self.service, cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => reader.poll_body(cx),
            },
            Stage::Body(body) => {
                body.deadline = None;
                let rest = mem::take(&mut body.bytes);
                Poll::Ready((!rest.is_empty()).then_some(rest))
            }
            Stage::Request { .. } | Stage::Answer(_) | Stage::Notification(_) => return self.wait(cx),
            Stage::Over => Poll::Ready(None),
        };
        if let Poll::Ready(None) = polled {
            self.stage = Stage::Over;
        }
        polled
    }

    /// Waits for the head of the answer, in adapters that have a future for a sleep: [`poll_head`](Self::poll_head), and
    /// again after each [timeout](Self::next_timeout). `sleep` returns a future that ends after that time.
    ///
    /// Dropping the future loses nothing: while the exchange [wants](Self::wants_body) its body, race it with the next
    /// part of that, so that a body which does not arrive in time is answered.
    pub async fn next_head(&mut self, sleep: impl AsyncFn(Duration)) -> ResponseHead {
        self.next_output(Self::poll_head, sleep).await
    }

    /// Waits for the next part of the answer's body, like [`next_head`](Self::next_head); `None` is its end. It follows
    /// the head. Call it again only after the part has been written, as for [`poll_body`](Self::poll_body).
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use mcp_proto::Bytes;
    /// # use mcp_proto::front::http::HttpExchange;
    /// # use mcp_proto::transport::http::server::ResponseHead;
    /// /// Answers a request whose body is read, with the timer and the connection of a runtime.
    /// async fn answer(
    ///     mut exchange: HttpExchange,
    ///     sleep: impl AsyncFn(Duration),
    ///     begin: impl AsyncFnOnce(ResponseHead),
    ///     write: impl AsyncFn(Bytes),
    /// ) {
    ///     begin(exchange.next_head(&sleep).await).await;
    ///     while let Some(part) = exchange.next_body(&sleep).await {
    ///         write(part).await;
    ///     }
    /// }
    /// ```
    pub async fn next_body(&mut self, sleep: impl AsyncFn(Duration)) -> Option<Bytes> {
        self.next_output(Self::poll_body, sleep).await
    }

    async fn next_output<R>(
        &mut self,
        poll: fn(&mut Self, &mut Context<'_>) -> Poll<R>,
        sleep: impl AsyncFn(Duration),
    ) -> R {
        let handle = |exchange: &mut Self, cx: &mut Context<'_>| {
            exchange.handle_timeout();
            poll(exchange, cx)
        };
        self.service.clone().next_output(self, Self::next_timeout, handle, sleep).await
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Modern(running) => running.next_timeout(),
            Stage::Request { deadline, .. } | Stage::Body(AnswerBody { deadline, .. }) => *deadline,
            // The driver handles the timeouts of sessions.
            Stage::Stream { token, driver_deadline, .. } => {
                driver_deadline.iter().copied().chain(token.next_timeout()).min()
            }
            _ => None,
        }
    }

    // --- Getters ---

    /// The owner whose quota the request uses. A request that was [answered](super::HttpServer::answered_exchange)
    /// before its authentication uses none.
    pub fn owner(&self) -> &QuotaOwner {
        &self.caller.owner
    }

    /// Whether the exchange still wants the request's body. If not, the rest need not be read.
    pub fn wants_body(&self) -> bool {
        matches!(self.stage, Stage::Request { .. })
    }

    // --- Routing ---

    /// Routes the message of a complete body.
    fn open(&mut self, mut intake: RequestIntake, mirrors_params: bool) -> Result<(), HttpResponse> {
        self.service.check_open()?;
        let is_kept = self.pass_request(&mut intake, mirrors_params)?;
        // The request is rejected unless headers and body name the same tool.
        let tool = if mirrors_params { intake.tool() } else { None };
        let params = tool.and_then(|tool| self.router.param_headers(&tool));
        let last = self.service.last_meta();
        let is_last = Cell::new(false);
        let known_meta = |text: &str| {
            let length = last.as_ref()?.length_in(text);
            is_last.set(length.is_some());
            length
        };
        let routed = intake.finish_knowing(&known_meta);
        self.stage = if is_kept {
            self.route(routed, params, last.as_ref().filter(|_| is_last.get()))?
        } else {
            self.accept_dropped(routed)?
        };
        Ok(())
    }

    /// `known` is the `_meta` of an earlier request, if the request was found to have the same.
    fn route(
        &self,
        routed: RequestRoute,
        params: Option<&ParamHeaders>,
        known: Option<&Arc<KnownMeta>>,
    ) -> Result<Stage<H>, HttpResponse> {
        let (owner, principal) = (|| self.owner().clone(), || self.principal.clone());
        Ok(match routed {
            RequestRoute::Answer(answer) => Stage::Answer(answer),
            RequestRoute::Modern(request) => {
                params.map_or(Ok(()), |params| request.check(params))?;
                if request.method() == SubscriptionsListen::NAME {
                    self.service.check_lasting()?;
                }
                Stage::Modern(ModernExchange::start(self, request.on_behalf_of(principal()), known))
            }
            RequestRoute::Notification(posted) => {
                let context = NotificationContext::new(principal(), owner());
                Stage::Notification(PostedHandler::start(&self.router, posted, context)?)
            }
            RequestRoute::Stateless(post) => {
                Stage::Modern(ModernExchange::start_stateless(self, post.on_behalf_of(principal())))
            }
            RequestRoute::OpenSession(post) => {
                Stage::Answer(self.service.open_session(post, owner(), principal())?)
            }
            RequestRoute::Session { id, post } | RequestRoute::LegacyPost { id, post } => {
                let cell = self.session(id, post.request_id())?;
                match cell.post(post, self.caller.clone()) {
                    PostOutcome::Answer(answer) => Stage::Answer(answer),
                    PostOutcome::Connection(connection) => {
                        self.stream(&cell, connection, TokenWatch::default())
                    }
                }
            }
            RequestRoute::Listen { id, last_event } => {
                let cell = self.session(id, None)?;
                let listen = |session: &mut Session, now| session.listen(now, last_event.as_deref());
                self.get_stream(&cell, cell.with_session(listen)?)
            }
            RequestRoute::Delete { id } => {
                Stage::Answer(self.session(id, None)?.with_session(Session::delete))
            }
            RequestRoute::LegacyEvents => {
                let (cell, connection) = self.service.open_legacy_session(owner(), principal())?;
                self.get_stream(&cell, connection)
            }
        })
    }

    fn get_stream(&self, cell: &SessionCell, connection: ConnectionId) -> Stage<H> {
        let token = TokenWatch::new(&self.service, &self.caller.access);
        self.stream(cell, connection, token)
    }

    fn stream(&self, cell: &SessionCell, connection: ConnectionId, token: TokenWatch) -> Stage<H> {
        let driver_deadline = self.service.first_poll_deadline();
        Stage::Stream { reader: StreamReader::new(cell, connection), token, driver_deadline }
    }

    fn session(&self, id: SessionId, request: Option<&Id>) -> Result<Arc<SessionCell>, HttpResponse> {
        let cell = self.service.sessions.find(id, self.principal.as_ref());
        cell.ok_or_else(|| HttpResponse::unknown_session(request))
    }

    fn set_stage(&mut self, stage: Stage<H>) {
        self.stage = stage;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait<R>(&mut self, cx: &Context<'_>) -> Poll<R> {
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Adds headers to an answer; a public document allows every origin already.
fn add_headers(head: &mut ResponseHead, added: ResponseHeaders) {
    let is_new = |name: &str| name == "vary" || head.headers.iter().all(|(known, _)| *known != name);
    let added: Vec<_> = added.into_owned().into_iter().filter(|(name, _)| is_new(name)).collect();
    head.headers.to_mut().extend(added);
}

impl<H: HandlerMode> fmt::Debug for HttpExchange<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Request { .. } => "Request",
            Stage::Answer(_) | Stage::Body(_) => "Answer",
            Stage::Modern(_) => "Modern",
            Stage::Notification(_) => "Notification",
            Stage::Stream { .. } => "Stream",
            Stage::Over => "Over",
        };
        f.debug_struct("HttpExchange").field("stage", &stage).finish_non_exhaustive()
    }
}

/// The exchange of a request without a session, which owns the request's handler. Dropping it cancels the request: the
/// client has disconnected.
struct ModernExchange<H: HandlerMode> {
    driver: ListeningDriver<Exchange, H>,
    /// When the driver, which runs the task that a call becomes, must have been polled for the first time.
    driver_deadline: Option<Instant>,
    /// The registration for the end of the server, once the exchange has waited.
    registration: Option<ExchangeRegistration>,
}

impl<H: HandlerMode> ModernExchange<H> {
    fn start(http: &HttpExchange<H>, request: ModernRequest, known: Option<&Arc<KnownMeta>>) -> Self {
        let HttpExchange { service, caller, .. } = http;
        let signal = Arc::default();
        let cached = known.cloned().or_else(|| service.find_meta(request.meta().as_ref()));
        let listens = request.method() == SubscriptionsListen::NAME;
        let token = listens.then(|| TokenWatch::new(service, &caller.access));
        // The adapter's clock, the wakers of the machine and its events stay outside of the lock of the hub.
        let now = service.now();
        let open = || {
            let exchange = Exchange::open_with_meta(&service.setup, request, cached.clone(), now);
            share(service, &signal, caller.clone(), exchange)
        };
        let (shared, listening) = match token {
            None => (open(), None),
            Some(token) => {
                let (shared, subscriber) = service.hub.open(&signal, || {
                    let shared = open();
                    let topics = shared.read(|_, exchange| {
                        exchange.peer().topics().map(|topic| (topic.clone(), ())).collect()
                    });
                    (shared, topics)
                });
                (shared, Some(Box::new(Listening { subscriber, token, has_expired: false })))
            }
        };
        let opened = OpenedExchange::new(shared);
        if let Some(known) = &opened.known
            && !cached.is_some_and(|cached| Arc::ptr_eq(&cached, known))
        {
            service.cache_meta(known.clone());
        }
        Self::run(http, opened.shared, listening)
    }

    /// Starts the exchange of a legacy client's requests without a session.
    fn start_stateless(http: &HttpExchange<H>, post: StatelessPost) -> Self {
        let service = &http.service;
        let exchange = Exchange::open_stateless(&service.setup, post, service.now());
        let opened = OpenedExchange::new(share(service, &Arc::default(), http.caller.clone(), exchange));
        Self::run(http, opened.shared, None)
    }

    fn run(
        HttpExchange { service, router, .. }: &HttpExchange<H>,
        shared: Arc<Shared<ServerCore, Exchange>>,
        listening: Option<Box<Listening>>,
    ) -> Self {
        let router = ServedRouter::unchanging(router.clone());
        let mut driver = ListeningDriver::new(service, router, shared, listening);
        //= S3.16 "Client disconnect = cancel"
        driver.machine.set_end(|exchange, now| {
            if !exchange.is_done() {
                exchange.handle_disconnect(now);
            }
        });
        let driver_deadline =
            if service.task_service.is_some() { service.first_poll_deadline() } else { None };
        Self { driver, driver_deadline, registration: None }
    }

    /// Runs the handler, and polls the exchange with `take`.
    fn poll<R>(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(&mut Exchange) -> Poll<R>) -> Poll<R> {
        let polled = self.driver.poll(cx, |exchange, _| take(exchange));
        if polled.is_ready() || self.registration.is_some() {
            return polled;
        }
        // Only an exchange that waits needs to be woken when the server closes.
        let service = &self.driver.service;
        self.registration = Some(service.register_exchange(self.driver.machine.signal().clone()));
        if service.is_closing() { self.driver.poll(cx, |exchange, _| take(exchange)) } else { polled }
    }

    fn handle_timeout(&mut self) {
        let service = &self.driver.service;
        if self.driver_deadline.is_some_and(|deadline| deadline <= service.now()) {
            self.driver_deadline = None;
            service.report_unpolled_tasks();
        }
        self.driver.machine.lock(Exchange::handle_timeout);
    }

    fn next_timeout(&self) -> Option<Instant> {
        [self.driver.next_timeout(), self.driver_deadline].into_iter().flatten().min()
    }
}

/// The machine of an exchange, joined to its driver and its handler.
struct OpenedExchange {
    shared: Arc<Shared<ServerCore, Exchange>>,
    /// The `_meta` of its request, if that was admitted.
    known: Option<Arc<KnownMeta>>,
    /// The values attached to its requests, to be dropped outside of locks: they have destructors of their own.
    _attachments: Attachments,
}

/// Joins the machine of an exchange to its core.
fn share(
    service: &Service,
    signal: &Arc<Signal>,
    caller: Caller,
    exchange: Exchange,
) -> Arc<Shared<ServerCore, Exchange>> {
    let core = ServerCore::over_http(caller, service.hub.clone());
    Arc::new(Shared::with_signal(signal.clone(), core, exchange, service.clock.clone()))
}

impl OpenedExchange {
    fn new(shared: Arc<Shared<ServerCore, Exchange>>) -> Self {
        let (known, attachments) = shared.update(|core, exchange, wakers| {
            // Lets the first poll find the handler to start.
            core.drain(exchange, wakers);
            let known = exchange.take_meta();
            if let Some(meta) = known.as_ref().and_then(|known| known.shared()) {
                core.share_meta(&meta);
            }
            (known, mem::take(&mut core.caller.attachments))
        });
        Self { shared, known, _attachments: attachments }
    }
}

/// The handler of a notification, whose POST is answered once it has finished: a client's notifications take up no more
/// handlers than it has exchanges.
struct PostedHandler<H: HandlerMode> {
    handler: H::HandlerFuture,
    /// Kept for its place in the byte budget.
    posted: PostedNotification,
}

impl<H: HandlerMode> PostedHandler<H> {
    /// Starts the handler.
    ///
    /// # Errors
    /// The answer, if the notification has no handler.
    fn start(
        router: &Router<H>,
        posted: PostedNotification,
        context: NotificationContext,
    ) -> Result<Self, HttpResponse> {
        let message = posted.message();
        let notification = Notification { method: message.method.clone(), params: message.params.clone() };
        match catch_panic(|| router.start_notification(notification, context)) {
            Ok(Some(handler)) => Ok(Self { handler, posted }),
            Ok(None) | Err(_) => Err(posted.answer()),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<HttpResponse> {
        match catch_panic(|| Pin::new(&mut self.handler).poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(_)) | Err(_) => Poll::Ready(self.posted.answer()),
        }
    }
}
