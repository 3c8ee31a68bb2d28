//! The exchange of a request without a session, which owns the request's handler.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::{Context, Poll};

use super::hub::{Subscriber, deliver};
use super::service::{ExchangeRegistration, Service};
use super::token_watch::TokenWatch;
use crate::Instant;
use crate::front::HandlerMode;
use crate::front::handler::caller::Caller;
use crate::front::router::ServedRouter;
use crate::front::server::{ServerCore, ServerDriver};
use crate::front::shared::{Core as _, Shared};
use crate::front::signal::Signal;
use crate::inline_map::InlineMap;
use crate::peer::server::Topic;
use crate::rpc::Raw;
use crate::schema::{Method, SubscriptionsListen};
use crate::transport::http::server::{Exchange, ModernRequest, StatelessPost};

pub(super) struct ModernExchange<H: HandlerMode> {
    driver: ServerDriver<Exchange, H>,
    service: Arc<Service>,
    /// What only a request that listens for changes has.
    listening: Option<Box<Listening>>,
    /// Whether the machine has been closed with the server.
    closing: bool,
    /// When the driver, which runs the task that a call becomes, must have been polled for the first time.
    driver_deadline: Option<Instant>,
    _registration: ExchangeRegistration,
}

struct Listening {
    /// The subscriber to the changes that the client listens for.
    subscriber: Option<Subscriber>,
    /// Ends the stream of changes with its token.
    token: TokenWatch,
}

impl<H: HandlerMode> ModernExchange<H> {
    pub(super) fn start(
        service: &Arc<Service>,
        router: ServedRouter<H>,
        request: ModernRequest,
        caller: Caller,
    ) -> Self {
        let listens = request.method() == SubscriptionsListen::NAME;
        let now = service.now();
        let signal = Arc::default();
        let cached = service.find_meta(request.meta());
        let open = || {
            let (exchange, known) = Exchange::open_cached(&service.setup, request, cached.clone(), now);
            let topics: InlineMap<Topic, ()> =
                exchange.peer().topics().cloned().map(|topic| (topic, ())).collect();
            ((exchange, known), topics)
        };
        let ((exchange, known), subscriber) =
            if listens { service.hub.open(&signal, open) } else { (open().0, None) };
        let meta = known.as_ref().and_then(|known| known.shared());
        if let Some(known) = known
            && !cached.is_some_and(|cached| Arc::ptr_eq(&cached, &known))
        {
            service.cache_meta(known);
        }
        let token = || TokenWatch::new(service, &caller.access);
        let listening = listens.then(|| Box::new(Listening { subscriber, token: token() }));
        Self::run(service, router, caller, signal, (exchange, meta), listening)
    }

    /// Starts the exchange of a legacy client's requests without a session.
    pub(super) fn start_stateless(
        service: &Arc<Service>,
        router: ServedRouter<H>,
        post: StatelessPost,
        caller: Caller,
    ) -> Self {
        let exchange = Exchange::open_stateless(&service.setup, post, service.now());
        Self::run(service, router, caller, Arc::default(), (exchange, None), None)
    }

    fn run(
        service: &Arc<Service>,
        router: ServedRouter<H>,
        caller: Caller,
        signal: Arc<Signal>,
        (exchange, meta): (Exchange, Option<Raw>),
        listening: Option<Box<Listening>>,
    ) -> Self {
        let attendance = service.register_exchange(signal.clone());
        let mut core = ServerCore::default();
        core.caller = caller;
        core.reports = Some(service.hub.clone());
        let shared = Arc::new(Shared::with_signal(signal, core, exchange, service.clock.clone()));
        // Lets the first poll find the handler to start.
        let attachments = shared.with(|core, exchange, _, wakers| {
            core.drain(exchange, wakers);
            if let Some(meta) = meta {
                core.share_meta(&meta);
            }
            core::mem::take(&mut core.caller.attachments)
        });
        drop(attachments);
        let driver = ServerDriver::new(shared, service.entropy.clone(), router, service.task_service.clone());
        let driver_deadline =
            if service.task_service.is_some() { service.first_poll_deadline() } else { None };
        let service = service.clone();
        Self { driver, service, listening, closing: false, driver_deadline, _registration: attendance }
    }

    /// Runs the handler, passes changes to the machine, and polls the answer with `take`.
    pub(super) fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut Exchange, Instant) -> Poll<R>,
    ) -> Poll<R> {
        loop {
            let closes = !self.closing && self.service.is_closing();
            self.closing |= closes;
            let mut listening = self.listening.as_deref_mut();
            let ends = listening.as_mut().is_some_and(|it| it.token.poll(&self.service, cx).is_ready());
            let subscriber = listening.and_then(|listening| listening.subscriber.as_ref());
            let changes = subscriber.map(|subscriber| subscriber.mailbox().take());
            let polled = self.driver.poll(cx, |exchange, now| {
                if let Some(changes) = &changes {
                    deliver(changes, exchange, now);
                }
                if closes || ends {
                    exchange.at(now).close();
                }
                take(exchange, now)
            });
            // Later changes call the stored waker. Changes before it was stored would be missed.
            let missed = subscriber.is_some_and(|subscriber| subscriber.mailbox().has_changes())
                || (!self.closing && self.service.is_closing());
            if polled.is_ready() || !missed {
                return polled;
            }
        }
    }

    pub(super) fn handle_timeout(&mut self) {
        if self.driver_deadline.is_some_and(|deadline| deadline <= self.service.now()) {
            self.driver_deadline = None;
            self.service.report_unpolled_tasks();
        }
        self.driver.lock(Exchange::handle_timeout);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let token = self.listening.as_ref().and_then(|listening| listening.token.next_timeout());
        [self.driver.next_timeout(), token, self.driver_deadline].into_iter().flatten().min()
    }
}

impl<H: HandlerMode> Drop for ModernExchange<H> {
    /// Frees the unread output: a [`Context`](crate::front::Context) that the application keeps also keeps the machine.
    fn drop(&mut self) {
        //= S3.16 "Client disconnect = cancel"
        self.driver.lock(Exchange::handle_disconnect);
    }
}
