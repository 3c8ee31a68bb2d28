//! Resends the request of an exchange: to the target of a redirect, or once the client is authorized.

use bytes::Bytes;

use crate::Instant;
use crate::peer::Leniency;
use crate::schema::{Discover, Method};
use crate::transport::http::{ExchangeId, Verb};

use super::call_table::CallState;
use super::connect::Handshake;
use super::exchange::ExchangeKind;
use super::head::AnswerHead;
use super::request::RequestHeaders;
use super::{HttpClient, request};

impl HttpClient {
    /// Follows a redirect to the same origin, or to the same host by `https`, by resending the request; returns whether
    /// the response is handled. Once one has led to `https`, every later request goes there.
    pub(super) fn follow_redirect(&mut self, now: Instant, id: ExchangeId, head: &AnswerHead) -> bool {
        const MAX_REDIRECTS: u8 = 5;
        if !matches!(head.status, 307 | 308) {
            return false;
        }
        let Some(exchange) = self.exchanges.get(id) else { return false };
        if exchange.generation != self.session.generation() {
            // The session is lost. The server did not accept the request, which waits for the next session.
            let ExchangeKind::Call(number) = exchange.kind else { return false };
            self.drain_after_answer(now, id);
            self.requeue(now, number);
            return true;
        }
        let target = head.location.as_deref().and_then(|location| exchange.url.resolve_redirect(location));
        let (Some(target), true) = (target, exchange.redirects < MAX_REDIRECTS) else { return false };
        let (purpose, redirects) = (exchange.kind.clone(), exchange.redirects.saturating_add(1));
        let resumed = exchange.authorization_attempts;
        let Some((verb, headers, body)) = self.rebuild_request(&purpose) else { return false };
        let upgrades = exchange.url.is_plain() && !target.is_plain();
        let is_own = exchange.url == self.url;
        if upgrades && self.url.is_plain() && !self.peer.tolerate(Leniency::RedirectToHttps) {
            return false;
        }
        if is_own && (head.status == 308 || upgrades) {
            self.url = target.clone();
        } else if upgrades {
            self.url = self.url.clone().secured_by(&target);
        }
        self.drain_after_answer(now, id);
        let again = self.begin_exchange(purpose.clone(), verb, target, headers, body);
        if let Some(exchange) = self.exchanges.get_mut(again) {
            exchange.continue_after(redirects, resumed);
        }
        if matches!(purpose, ExchangeKind::Post(_)) {
            self.limit_post_response(now, again);
        }
        self.move_exchange(&purpose, id, again);
        true
    }

    /// Builds the request of an exchange again.
    pub(super) fn rebuild_request(&self, purpose: &ExchangeKind) -> Option<(Verb, RequestHeaders, Bytes)> {
        let session = self.session_headers();
        Some(match purpose {
            ExchangeKind::Probe { body, revision, .. } => {
                (Verb::Post, request::modern_headers(Discover::NAME.into(), *revision), body.clone())
            }
            ExchangeKind::Initialize { body, .. } => {
                (Verb::Post, request::sessionless_headers(), body.clone())
            }
            ExchangeKind::Call(number) => {
                let call = self.calls.get(*number)?;
                let encoded = call.encoded.as_ref()?;
                (Verb::Post, self.call_headers(call, encoded).ok()?, encoded.body.clone())
            }
            ExchangeKind::Post(post) => {
                let headers = match &post.notification {
                    Some((method, revision)) if request::is_modern(*revision) => {
                        request::modern_headers(method.clone(), *revision)
                    }
                    _ => session.post(),
                };
                (Verb::Post, headers, post.body.clone())
            }
            ExchangeKind::Resume { last_event, .. } => {
                (Verb::Get, session.get(Some(last_event)), Bytes::new())
            }
            ExchangeKind::Listen { last_event } => {
                (Verb::Get, session.get(last_event.as_deref()), Bytes::new())
            }
            ExchangeKind::Events => (Verb::Get, session.get(None), Bytes::new()),
            ExchangeKind::Delete => (Verb::Delete, session.delete(), Bytes::new()),
        })
    }

    /// Moves everything that waits for the exchange `from` to the exchange `to`.
    pub(super) fn move_exchange(&mut self, purpose: &ExchangeKind, from: ExchangeId, to: ExchangeId) {
        match purpose {
            ExchangeKind::Probe { wire, .. } | ExchangeKind::Initialize { wire, .. } => {
                self.handshakes.retain(|request| request.wire_id != *wire);
                self.handshakes.push(Handshake { exchange: to, wire_id: *wire });
            }
            ExchangeKind::Call(number) | ExchangeKind::Resume { number, .. } => {
                if self.calls.exchange_of(*number) == Some(from) {
                    self.calls.set_state(*number, CallState::InExchange(to));
                }
            }
            ExchangeKind::Listen { .. } => self.listener.open(to),
            ExchangeKind::Events => {
                if let Some(events) = &mut self.legacy_sse {
                    events.move_to(to);
                }
            }
            ExchangeKind::Post(_) | ExchangeKind::Delete => {}
        }
    }
}
