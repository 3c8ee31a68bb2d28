//! A client's connection of whole messages, such as a WebSocket, at a server over HTTP.

use alloc::sync::Arc;
use core::task::{Context, Poll};
use core::time::Duration;

use super::change_hub::ConnectionKind;
use super::driver::{Listening, ListeningDriver, TokenWatch};
use super::service::Service;
use super::{HttpExchange, HttpServer};
use crate::front::handler::connection::ServerCore;
use crate::front::handler::inbound_request::{Caller, CallerAccess};
use crate::front::router::ServedRouter;
use crate::front::shared::Shared;
use crate::front::{Attachments, HandlerMode, SendHandlers};
use crate::peer::server::CloseReason;
use crate::peer::{LostReason, Principal};
use crate::prelude::*;
use crate::quota::{BytePermit, BytePurpose, OverBudgetError, QuotaOwner};
use crate::transport::ChannelServer;
use crate::transport::http::server::{HttpResponse, RequestHead, ResponseHeaders, check_upgrade};
use crate::{Bytes, Instant};

/// How long a client is not read while the byte budget has no room for answers.
const BUDGET_PAUSE: Duration = Duration::from_secs(1);

/// A connection that a request turned into a channel of whole messages, such as a WebSocket.
///
/// It is one peer of either era, like a connection of standard streams: requests of both sides, notifications and
/// subscriptions share it, and no session outlives it. [`HttpServer::upgrade`] creates it. The adapter drives it:
///
/// ```text
/// loop {
///     channel.poll(cx, …)         runs handlers; handles timeouts; the machine's poll_transmit → send
///     while channel.wants_read()  receive → channel.handle_message(…), at the end channel.handle_end(…)
///     channel.closed()            → send the remaining messages, and close
///     wait for: readable | writable | channel.next_timeout()
/// }
/// ```
///
/// The changes that the application publishes at the [`HttpServer`] reach the channel's client, as far as it
/// subscribed. [`HttpHandle::events`](super::HttpHandle::events) does not report a channel's subscriptions.
///
/// Charged to the [byte budget](crate::transport::http::server::HttpServerConfig::byte_limits) are
/// [messages received in part](Self::handle_partial), each message until its requests are answered, and queued answers.
/// A request for which it has no room is answered with [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR). While it has
/// no room for answers, the client's messages are read at most once a second.
#[must_use = "nothing happens unless it is polled"]
pub struct HttpChannel<H: HandlerMode = SendHandlers> {
    driver: ListeningDriver<ChannelServer, H>,
    owner: QuotaOwner,
    /// When the next message may be read, if the client exceeded its request rate.
    resumes: Option<Instant>,
    wants_read: bool,
    /// Charged for a message that was received in part.
    partial: BytePermit,
    /// Charged for queued messages, and for the one that the transport is writing.
    queued: BytePermit,
    /// The length of the message that the transport is writing.
    transmitting: usize,
}

impl<H: HandlerMode> HttpServer<H> {
    /// Answers a request to turn its connection into a channel of whole messages, such as a WebSocket. Its origin, host
    /// and path are checked as those of any request, and it counts towards
    /// [`request_rate`](crate::transport::http::server::HttpServerConfig::request_rate), as do the channel's messages.
    ///
    /// `handshake` is the adapter's result of the channel's own handshake: the headers of the answer, with status 101,
    /// or the refusal. Without a channel, the exchange answers why. `principal` and `attachments` are those of all
    /// requests in the channel.
    pub fn upgrade(
        &self,
        head: &RequestHead<'_>,
        principal: Option<Principal>,
        attachments: Attachments,
        handshake: Result<ResponseHeaders, HttpResponse>,
    ) -> (HttpExchange<H>, Option<HttpChannel<H>>) {
        self.upgrade_as(head, principal, Default::default(), attachments, handshake)
    }

    /// Like [`upgrade`](Self::upgrade), for a request that a [guard](crate::front::guard) accepted. When the token expires,
    /// the channel ends its subscriptions and then itself: requests in progress are not answered.
    #[cfg(feature = "auth")]
    pub fn upgrade_for(
        &self,
        head: &RequestHead<'_>,
        authorized: crate::auth::server::GrantedAccess,
        attachments: Attachments,
        handshake: Result<ResponseHeaders, HttpResponse>,
    ) -> (HttpExchange<H>, Option<HttpChannel<H>>) {
        let principal = Some(authorized.access().principal.clone());
        self.upgrade_as(head, principal, Some(authorized), attachments, handshake)
    }

    /// Checks that the driver was polled, before an [upgrade](Self::upgrade) to a channel that a task of the driver's
    /// serves: it would stay silent. Reports [`DriverNotPolled`](super::HttpServerEvent::DriverNotPolled) otherwise.
    ///
    /// # Errors
    /// The refusal of the request, 503.
    pub fn check_driver(&self) -> Result<(), HttpResponse> {
        let service = &self.handle.service;
        if !service.lacks_driver() {
            return Ok(());
        }
        service.report_unpolled_driver();
        Err(HttpResponse::unpolled_driver())
    }

    fn upgrade_as(
        &self,
        head: &RequestHead<'_>,
        principal: Option<Principal>,
        access: CallerAccess,
        attachments: Attachments,
        handshake: Result<ResponseHeaders, HttpResponse>,
    ) -> (HttpExchange<H>, Option<HttpChannel<H>>) {
        let service = &self.handle.service;
        let answer = |answer| HttpExchange::from_answer(service, self.router.router(), head, answer);
        let owner = head.owner(principal.as_ref());
        let checked = service.check_arrival(head, &owner).and_then(|()| service.check_lasting());
        let headers = match checked.and_then(|()| check_upgrade(&service.setup, head)).and(handshake) {
            Ok(headers) => headers,
            Err(refusal) => return (answer(refusal), None),
        };
        let caller = Caller { owner, access, attachments };
        let channel = HttpChannel::open(service, self.router.clone(), caller, principal);
        (answer(HttpResponse { status: 101, headers, body: Bytes::new() }), Some(channel))
    }
}

impl<H: HandlerMode> HttpChannel<H> {
    fn open(
        service: &Arc<Service>,
        router: ServedRouter<H>,
        caller: Caller,
        principal: Option<Principal>,
    ) -> Self {
        let now = service.now();
        let mut machine = ChannelServer::new(service.setup.config().server.clone());
        machine.at(now).set_principal(principal);
        let signal = Arc::default();
        let subscriber = service.hub.connect(&signal, ConnectionKind::Channel);
        let token = TokenWatch::new(service, &caller.access);
        let listening = Listening { subscriber: Some(subscriber), token, has_expired: false };
        let owner = caller.owner.clone();
        let account = service.account(&owner);
        let core = ServerCore::over_http(caller, service.hub.clone());
        let shared = Arc::new(Shared::with_signal(signal, core, machine, service.clock.clone()));
        Self {
            driver: ListeningDriver::new(service, router, shared, Some(Box::new(listening)))
                .with_message_layers(),
            owner,
            resumes: None,
            wants_read: true,
            partial: account.permit(),
            queued: account.permit(),
            transmitting: 0,
        }
    }

    // --- Inputs ---

    /// Handles a whole message.
    pub fn handle_message(&mut self, message: &Bytes) {
        if let Err(wait) = self.driver.service.count_request(&self.owner) {
            self.resumes = self.driver.service.now().after(wait);
        }
        let charged = self.charge_message(message.len());
        self.wants_read = self.driver.machine.lock(|machine, now| {
            machine.handle_charged(now, message, charged);
            machine.wants_read()
        });
        self.charge_queue();
        if !self.queued.account().has_room(BytePurpose::Answer) {
            let resumes = self.driver.service.now().after(BUDGET_PAUSE);
            self.resumes = self.resumes.max(resumes);
        }
    }

    /// Charges the bytes of a message that the transport holds in part to the byte budget; 0 once it is complete.
    ///
    /// # Errors
    /// If the budget has no room for them. The adapter must then close the connection: it cannot receive the rest.
    pub fn handle_partial(&mut self, bytes: usize) -> Result<(), OverBudgetError> {
        let more = bytes.saturating_sub(self.partial.bytes());
        if more > 0 {
            return self.partial.try_grow(more, BytePurpose::Request);
        }
        self.partial.set(bytes);
        Ok(())
    }

    /// Charges a complete message, in place of the part that was charged before.
    fn charge_message(&mut self, bytes: usize) -> Result<BytePermit, OverBudgetError> {
        let unused = self.queued.account().permit();
        let mut permit = core::mem::replace(&mut self.partial, unused);
        match bytes.checked_sub(permit.bytes()) {
            Some(more) => permit.try_grow(more, BytePurpose::Request)?,
            None => permit.set(bytes),
        }
        Ok(permit)
    }

    fn charge_queue(&mut self) {
        let queued = self.driver.machine.lock(|machine, _| machine.queued());
        self.queued.set(queued.saturating_add(self.transmitting));
    }

    /// Handles the end of the connection, which cancels the client's requests: none of them can be answered.
    pub fn handle_end(&mut self, detail: &str) {
        self.driver.machine.lock(|machine, now| {
            machine.handle_eof(now, detail);
            machine.at(now).abort(LostReason::Disconnected(detail.to_string()));
        });
    }

    /// Ends the channel gracefully: requests in progress finish within
    /// [`close_timeout`](crate::peer::server::ServerConfig::close_timeout).
    pub fn close(&mut self) {
        self.driver.closing = true;
        self.driver.machine.lock(|machine, now| machine.at(now).close());
    }

    /// Records that the transport has written part of the output, so that a client which reads slowly but steadily does
    /// not time out.
    pub fn handle_written(&mut self) {
        self.driver.machine.lock(|machine, now| machine.handle_written(now));
    }

    // --- Outputs ---

    /// Runs handlers, handles timeouts, published changes and the end of the server, and stores the task's waker. Then
    /// [`poll_transmit`](Self::poll_transmit) may have messages.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        let now = self.driver.service.now();
        self.resumes = self.resumes.filter(|at| *at > now);
        let wants_read = &mut self.wants_read;
        let _: Poll<()> = self.driver.poll(cx, |machine, now| {
            machine.handle_timeout(now);
            *wants_read = machine.wants_read();
            Poll::Pending
        });
        self.charge_queue();
    }

    /// Returns the next message to send.
    ///
    /// Call it only when the transport takes another message: the write timeout and the limits cover only messages that
    /// are still queued here.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        let expired = self.has_expired();
        let message = self.driver.machine.lock(|machine, now| {
            let message = machine.poll_transmit();
            // The ends of its subscriptions are sent. Requests in progress are not answered.
            if expired && message.is_none() && !machine.is_closed() {
                let lost = LostReason::Failed("the access token is no longer valid".to_string());
                machine.at(now).abort(lost);
            }
            message
        });
        self.transmitting = message.as_ref().map_or(0, Bytes::len);
        self.charge_queue();
        message
    }

    /// The time at which [`poll`](Self::poll) is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        [self.driver.next_timeout(), self.resumes].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Whether the next message may be read: the client reads its answers, and does not exceed its rate.
    pub fn wants_read(&self) -> bool {
        self.wants_read && self.resumes.is_none()
    }

    /// The longest message accepted, in bytes.
    pub fn message_bytes(&self) -> usize {
        self.driver.service.setup.config().body_limit()
    }

    /// How the channel ended; `None` while it is open.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.driver.machine.closed()
    }

    /// Whether this side closes the channel.
    pub fn is_closing(&self) -> bool {
        self.driver.closing
    }

    /// Whether the channel ends because its access token has expired, or is no longer valid.
    pub fn has_expired(&self) -> bool {
        self.driver.listening.as_ref().is_some_and(|listening| listening.has_expired)
    }
}

debug_fields! { [H: HandlerMode] HttpChannel<H>(self) { closed = self.closed() } }
