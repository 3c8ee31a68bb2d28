//! Authorization of the upgrade.

use std::task::{Context, Poll};

use http::StatusCode;
use http::header::HeaderMap;
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::HandlerMode;
use mcp_proto::peer::TransportError;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};

use super::{Link, WebSocketLoop};
use crate::auth::ExchangeAction;
use crate::client::NO_AUTHORIZATION;
use crate::client::transport::TransportEvent;
use crate::runtime::Runtime;

impl<H: HandlerMode, R: Runtime> WebSocketLoop<H, R> {
    /// Attaches credentials to the upgrade request, or queues it until there are some.
    pub(super) fn authorize(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        match &mut self.authorizer {
            Some(authorizer) => authorizer.authorize(request),
            None => Some(request),
        }
    }

    pub(super) fn note_head(
        &mut self,
        exchange: ExchangeId,
        status: StatusCode,
        mut headers: HeaderMap,
    ) -> HeaderMap {
        self.transport.show_head(exchange, status, &mut headers);
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.note_head(exchange, dpop_nonce(&headers).as_deref());
        }
        headers
    }

    /// Logs in if the server requires it, otherwise gives up.
    pub(super) fn handle_refusal(
        &mut self,
        exchange: ExchangeId,
        headers: &HeaderMap,
        error: TransportError,
    ) {
        match &mut self.authorizer {
            Some(authorizer) if error.needs_authorization => {
                authorizer.handle_challenge(&AuthorizationRequired {
                    exchange,
                    status: error.status,
                    header: error.challenge.as_deref().map(Into::into),
                    dpop_nonce: dpop_nonce(headers),
                    attempt: self.attempt,
                });
                self.link = Link::Parked(Some(Box::new(error)));
            }
            None if error.needs_authorization => {
                self.refuse_open(error.with_unauthorized(NO_AUTHORIZATION));
            }
            _ => {
                self.forget_exchange(exchange);
                self.refuse_open(error);
            }
        }
    }

    pub(super) fn forget_exchange(&mut self, exchange: ExchangeId) {
        if let Some(authorizer) = &mut self.authorizer {
            authorizer.forget_exchange(exchange);
        }
    }

    /// Carries out the authorizer's next action. Ready if there was one.
    pub(super) fn poll_authorizer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(authorizer) = &mut self.authorizer else { return Poll::Pending };
        let fetched = self.transport.poll(self.clock.now(), cx).is_ready();
        for event in self.transport.events.drain(..) {
            if let TransportEvent::Fetched { id, fetched } = event {
                authorizer.handle_fetched(id, fetched);
            }
        }
        let current = ExchangeId::new(self.upgrades);
        match authorizer.poll(cx) {
            Poll::Ready(ExchangeAction::Open(request)) if request.exchange == current => {
                self.send_upgrade(request);
            }
            Poll::Ready(ExchangeAction::Resume(exchange)) if exchange == current => {
                self.attempt = self.attempt.saturating_add(1);
                self.open();
            }
            Poll::Ready(ExchangeAction::Refuse(exchange, detail)) if exchange == current => {
                match std::mem::replace(&mut self.link, Link::Closed) {
                    Link::Parked(Some(error)) => self.refuse_open(error.with_unauthorized(&detail)),
                    _ => self.fail_open(&detail),
                }
            }
            Poll::Ready(ExchangeAction::Fetch(fetch, policy)) => self.transport.fetch(fetch, policy),
            Poll::Ready(ExchangeAction::Abort(fetch)) => self.transport.abort_fetch(fetch),
            // The connection has been given up meanwhile.
            Poll::Ready(ExchangeAction::Open(_) | ExchangeAction::Resume(_) | ExchangeAction::Refuse(..)) => {
            }
            Poll::Pending if fetched => {}
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(())
    }
}

fn dpop_nonce(headers: &HeaderMap) -> Option<String> {
    headers.get("dpop-nonce")?.to_str().ok().map(str::to_owned)
}
