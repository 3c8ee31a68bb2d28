//! Heads of responses: each one decides how the body is read.

use alloc::boxed::Box;

use crate::Instant;
use crate::transport::http::{End, ExchangeId, Fields};

use super::HttpClient;
use super::answer::{Content, Events, Head, Whole};
use super::exchange::{Purpose, Reading};
use super::session;
use super::timers::Timer;

impl HttpClient {
    pub(super) fn take_head(&mut self, now: Instant, id: ExchangeId, status: u16, fields: &dyn Fields) {
        let limits = *self.limits();
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        if status < 200 || !matches!(exchange.reading, Reading::Nothing) {
            return;
        }
        let conduct = self.config.client.conduct;
        let mut head = Head::read(status, fields, limits.header_bytes);
        let redirected = self.redirect(now, id, &head);
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        if redirected {
            exchange.reading = Reading::Whole(Box::new(Whole::new(head, limits.message_bytes, conduct)));
            return;
        }
        let success = head.is_success();
        let encoded = head.encoding.is_some();
        exchange.session = head.session.take().filter(|_| success);
        exchange.dpop_nonce = head.dpop_nonce.take();
        let purpose = exchange.purpose.clone();
        let streams =
            success && !encoded && head.content == Content::Events && status != 202 && status != 204;
        if streams {
            exchange.reading = Reading::Events(Box::new(Events::new(status, limits.message_bytes)));
        } else {
            exchange.reading = Reading::Whole(Box::new(Whole::new(head, limits.message_bytes, conduct)));
        }
        if encoded {
            // Not a byte of it can be read.
            self.out.abort(id);
            return self.take_end(now, id, End::Complete);
        }
        match purpose {
            Purpose::Call(number) if success => self.note_success(number),
            Purpose::Post(_) => {
                // Whatever it has to say, nobody waits for it.
                self.timers.set(Timer::Drain(id), now + session::POSTED);
                if success {
                    self.note_posted(id);
                }
            }
            Purpose::Events if streams => self.note_events_begun(now),
            Purpose::Listen { .. } | Purpose::Resume { .. } if streams => self.note_stream(now, &purpose),
            _ => {}
        }
    }
}
