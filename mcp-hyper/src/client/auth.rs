//! Authorization of a client: its options, its part of the driver, and a driver without a client.

pub(crate) mod fetch;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::Instant;
use mcp_proto::adapter::Clock as _;
pub(super) use mcp_proto::auth::FetchId;
use mcp_proto::front::HandlerMode;
use mcp_proto::peer::client::OnServerEnd;
use mcp_proto::schema::Extension;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};

pub(super) use fetch::FetchResponse;

use super::options::{ClientOptions, ConnectError};
use super::transport::{Transport, TransportEvent};
use super::{ClientDriver, ClientLoop, Connection, NO_AUTHORIZATION, ROUNDS, TURN, websocket};
pub(super) use crate::auth::Authorizer;
use crate::auth::{AuthHandle, Authorization, ExchangeAction};
use crate::runtime::{DefaultRuntime, Runtime};
use crate::time::{Alarm, RuntimeClock};

/// How the client logs in, if at all.
#[derive(Default)]
pub(super) struct AuthOptions(Option<Authorization>);

impl AuthOptions {
    /// The extension that defines how the client logs in, if an extension does.
    pub(super) fn extension(&self) -> Option<Extension> {
        Extension::new(self.0.as_ref()?.config.grant.extension()?).ok()
    }

    /// The authorizer for the server at `url`, if the client logs in.
    pub(super) fn start(
        self,
        url: &str,
        clock: &Arc<RuntimeClock>,
    ) -> Result<Option<Authorizer>, ConnectError> {
        let Some(authorization) = self.0 else { return Ok(None) };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| ConnectError::NoEntropy)?;
        Authorizer::new(authorization, url, clock.clone(), seed)
            .map(Some)
            .map_err(ConnectError::Authorization)
    }
}

impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    /// Logs in where the server requires it.
    ///
    /// A server ends subscriptions with their token, so that watches subscribe again when a server ends them
    /// ([`OnServerEnd::Listen`]), unless a later [`configure`](Self::configure) says otherwise.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.authorization = AuthOptions(Some(authorization));
        self.configure(|config| config.client.watch.on_server_end = OnServerEnd::Listen)
    }

    /// Manages the tokens of the server at this URL without connecting to it: reports their status, logs out, or logs
    /// in beforehand. It requires an [authorization](Self::authorization).
    ///
    /// # Errors
    /// If the URL or one of the options is invalid. Nothing has been sent then.
    pub fn authorize(mut self, url: impl Into<String>) -> Result<(AuthHandle, AuthDriver<R>), ConnectError> {
        let clock = Arc::new(RuntimeClock::new(self.runtime.timer()));
        let authorization = std::mem::take(&mut self.authorization);
        let url = url.into();
        let upgrade = websocket::http_url(&url);
        let authorizer = authorization.start(upgrade.as_ref().map_or(&*url, AsRef::as_ref), &clock)?;
        let mut authorizer = authorizer.ok_or(ConnectError::NoAuthorization)?;
        self.start_runtime(Some(&mut authorizer))?;
        let (transport, _) = self.transport()?;
        Ok((authorizer.handle(), AuthDriver { authorizer, transport, alarm: Alarm::default(), clock }))
    }
}

impl<H: HandlerMode, R: Runtime> ClientDriver<H, R> {
    /// The handle to the client's tokens, if it has an [`Authorization`](crate::auth::Authorization). The handle works
    /// while this driver is polled.
    #[must_use]
    pub fn auth(&self) -> Option<AuthHandle> {
        let authorizer = match &self.connection {
            Connection::Http(client) => client.authorizer.as_ref(),
            Connection::WebSocket(client) => client.authorizer(),
        };
        authorizer.map(Authorizer::handle)
    }
}

impl<H: HandlerMode, R: Runtime> ClientLoop<H, R> {
    /// Sends a request, or waits for its token first.
    pub(super) fn open(&mut self, now: Instant, request: HttpRequest) {
        let admitted = match &mut self.authorizer {
            Some(authorizer) => authorizer.authorize(request),
            None => Some(request),
        };
        if let Some(request) = admitted {
            self.transport.open(now, request);
        }
    }

    /// Passes the challenge of a refused exchange to the authorizer.
    pub(super) fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        match &mut self.authorizer {
            Some(authorizer) => authorizer.handle_challenge(challenge),
            None => {
                self.has_input = true;
                self.front.lock(|machine, now| machine.refuse(now, challenge.exchange, NO_AUTHORIZATION));
            }
        }
    }

    /// Passes the transport's events to the authorizer.
    pub(super) fn observe_events(&mut self) {
        let Some(authorizer) = &mut self.authorizer else { return };
        for event in &mut self.transport.events {
            match event {
                TransportEvent::Head { exchange, headers, .. } => {
                    let nonce = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
                    authorizer.note_head(*exchange, nonce);
                }
                TransportEvent::End { exchange, .. } => authorizer.note_end(*exchange),
                TransportEvent::Fetched { id, fetched } => {
                    let over = Err("it is over".to_owned());
                    authorizer.handle_fetched(*id, std::mem::replace(fetched, over));
                }
                TransportEvent::Body { .. } => {}
            }
        }
    }

    /// Drops ended exchanges in the authorizer, once all of their events have been handled.
    pub(super) fn forget_ended(&mut self) {
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.forget_ended();
        }
    }

    /// Carries out the authorizer's next action. Ready if there was one.
    pub(super) fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, transport, clock, authorizer, has_input, .. } = self;
        let Some(authorizer) = authorizer else { return Poll::Pending };
        authorizer.poll(cx).map(|action| match action {
            ExchangeAction::Open(request) => transport.open(clock.now(), request),
            ExchangeAction::Resume(exchange) => {
                *has_input = true;
                front.lock(|machine, now| machine.resume(now, exchange));
            }
            ExchangeAction::Refuse(exchange, detail) => {
                *has_input = true;
                front.lock(|machine, now| machine.refuse(now, exchange, &detail));
            }
            ExchangeAction::Fetch(fetch, policy) => transport.fetch(fetch, policy),
            ExchangeAction::Abort(fetch) => transport.abort_fetch(fetch),
        })
    }
}

/// The future that carries out the operations of an [`AuthHandle`] where no client is connected: see
/// [`ClientOptions::authorize`](crate::ClientOptions::authorize). It never ends; drop it once no operation is left.
#[must_use = "logins wait until the driver is polled: spawn it on an executor"]
pub struct AuthDriver<R = DefaultRuntime> {
    pub(super) authorizer: Authorizer,
    pub(super) transport: Transport<R>,
    pub(super) alarm: Alarm,
    pub(super) clock: Arc<RuntimeClock>,
}

impl<R: Runtime> AuthDriver<R> {
    fn poll_transport(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll(self.clock.now(), cx).map(|()| {
            for event in self.transport.events.drain(..) {
                if let TransportEvent::Fetched { id, fetched } = event {
                    self.authorizer.handle_fetched(id, fetched);
                }
            }
        })
    }

    fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.authorizer.poll(cx).map(|action| match action {
            ExchangeAction::Fetch(fetch, policy) => self.transport.fetch(fetch, policy),
            ExchangeAction::Abort(fetch) => self.transport.abort_fetch(fetch),
            // Without a client there are no exchanges with the server.
            ExchangeAction::Open(_) | ExchangeAction::Resume(_) | ExchangeAction::Refuse(..) => {}
        })
    }
}

impl<R: Runtime> Future for AuthDriver<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..ROUNDS {
            let events = (0..TURN).take_while(|_| this.poll_transport(cx).is_ready()).count();
            let actions = (0..TURN).take_while(|_| this.poll_authorizer(cx).is_ready()).count();
            if events > 0 || actions > 0 {
                continue;
            }
            let due = this.authorizer.poll_timeout().and_then(|at| this.clock.at(at));
            if this.alarm.poll_until(due, this.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R> fmt::Debug for AuthDriver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthDriver").field("authorizer", &self.authorizer).finish_non_exhaustive()
    }
}
