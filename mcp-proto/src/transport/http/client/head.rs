//! Handles response heads, each of which determines how the body is read.

use alloc::boxed::Box;

use crate::Instant;
use crate::transport::http::{ExchangeEnd, ExchangeId, Fields};

use super::HttpClient;
use super::client_session::POST_RESPONSE_TIMEOUT;
use super::exchange::{ExchangeKind, ResponseState};
use super::response::{AnswerHead, BodyType, BufferedBody, EventBody};
use super::timers::Timer;

impl HttpClient {
    pub(super) fn take_head(&mut self, now: Instant, id: ExchangeId, status: u16, fields: &dyn Fields) {
        let limits = *self.limits();
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if status < 200 || !matches!(exchange.response, ResponseState::AwaitingHead) {
            return;
        }
        let strictness = self.config.client.strictness;
        let mut head = AnswerHead::read(status, fields, limits.header_bytes);
        let redirected = self.follow_redirect(now, id, &head);
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if redirected {
            exchange.response =
                ResponseState::Buffered(Box::new(BufferedBody::new(head, limits.message_bytes, strictness)));
            return;
        }
        let success = head.is_success();
        let encoded = head.encoding.is_some();
        exchange.take_head(&mut head);
        let purpose = exchange.kind.clone();
        let streams =
            success && !encoded && head.content == BodyType::Events && status != 202 && status != 204;
        if streams {
            exchange.response = ResponseState::Events(Box::new(EventBody::new(status, limits.message_bytes)));
        } else {
            exchange.response =
                ResponseState::Buffered(Box::new(BufferedBody::new(head, limits.message_bytes, strictness)));
        }
        if encoded {
            // The client cannot read an encoded body.
            self.outbox.abort(id);
            return self.handle_exchange_end(now, id, ExchangeEnd::Complete);
        }
        match purpose {
            ExchangeKind::Call(number) if success => self.note_success(number),
            ExchangeKind::Post(_) => {
                // The response to a one-way message is not needed.
                self.timers.set(Timer::Drain(id), now + POST_RESPONSE_TIMEOUT);
                if success {
                    self.handle_post_accepted(id);
                }
            }
            ExchangeKind::Events if streams => self.handle_events_head(now),
            ExchangeKind::Listen { .. } | ExchangeKind::Resume { .. } if streams => {
                self.note_stream(now, &purpose)
            }
            _ => {}
        }
    }
}
