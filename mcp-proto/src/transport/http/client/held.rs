//! What is held back for layers: the events and ends of exchanges, and the requests that begin them.

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::exchange::ResponseState;
use super::{Action, HttpClient, HttpRequest};
use crate::Instant;
use crate::peer::{HeldPiece, Passage};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineStep, json};
use crate::transport::http::{ExchangeEnd, ExchangeId, header};

/// Input that is held back, and output that is released.
#[derive(Debug, Default)]
pub(super) struct HeldExchanges {
    inputs: VecDeque<HeldInput>,
    /// The request whose body is shown.
    shown: Option<HttpRequest>,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
enum HeldInput {
    /// There may be events in the body of the exchange.
    Events(ExchangeId),
    End {
        exchange: ExchangeId,
        end: ExchangeEnd,
        /// Whether the whole answer was shown.
        is_shown: bool,
    },
}

impl HeldExchanges {
    pub(super) fn add_events(&mut self, exchange: ExchangeId) {
        self.inputs.push_back(HeldInput::Events(exchange));
    }

    pub(super) fn add_end(&mut self, exchange: ExchangeId, end: ExchangeEnd) {
        self.inputs.push_back(HeldInput::End { exchange, end, is_shown: false });
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

impl HttpClient {
    /// Takes the next event, whole answer or end.
    fn poll_held_input(&mut self) -> Option<HeldPiece> {
        let held = self.held.as_mut()?;
        loop {
            match held.inputs.front_mut()? {
                HeldInput::Events(exchange) => {
                    let id = *exchange;
                    if let Some(entry) = self.exchanges.get_mut(id)
                        && let ResponseState::Events(events) = &mut entry.response
                        && let Some(item) = events.poll_item()
                    {
                        return Some(HeldPiece::Event(id, item));
                    }
                    held.inputs.pop_front();
                }
                HeldInput::End { exchange, is_shown: true, .. } => {
                    return Some(HeldPiece::ExchangeEnd(*exchange));
                }
                HeldInput::End { exchange, is_shown, .. } => {
                    *is_shown = true;
                    if let Some(entry) = self.exchanges.get_mut(*exchange)
                        && let ResponseState::Buffered(whole) = &mut entry.response
                        && let Some(body) = whole.take_json()
                    {
                        return Some(HeldPiece::Answer(*exchange, body));
                    }
                }
            }
        }
    }

    /// Releases the actions without a message, up to a request with one.
    fn poll_held_request(&mut self) -> Option<HeldPiece> {
        let held = self.held.as_mut()?;
        while let Some(action) = self.outbox.poll_action() {
            match action {
                Action::Open(request) if !request.body.is_empty() => {
                    let mirrors =
                        |(name, _): &(_, _)| AsRef::<str>::as_ref(name).starts_with(header::PARAM_PREFIX);
                    let has_fixed_arguments = request.headers.iter().any(mirrors);
                    let (exchange, body) = (request.exchange, request.body.clone());
                    held.shown = Some(request);
                    return Some(HeldPiece::Request { exchange, body, has_fixed_arguments });
                }
                action => held.actions.push_back(action),
            }
        }
        None
    }

    fn release_request(&mut self, body: Bytes) {
        if let Some(held) = &mut self.held
            && let Some(request) = held.shown.take()
        {
            held.actions.push_back(Action::Open(HttpRequest { body, ..request }));
        }
    }

    fn release_end(&mut self, now: Instant) {
        if let Some(held) = &mut self.held
            && let Some(HeldInput::End { exchange, end, .. }) = held.inputs.pop_front()
        {
            self.handle_exchange_end(now, exchange, end);
        }
    }

    /// Handles a notification that a layer dropped like one that the server accepted.
    fn accept_unsent(&mut self, now: Instant, exchange: ExchangeId) {
        let no_headers: [(&str, &str); 0] = [];
        self.take_head(now, exchange, 202, &no_headers);
        self.handle_exchange_end(now, exchange, ExchangeEnd::Complete);
    }
}

impl Passage for HttpClient {
    fn hold(&mut self) {
        record!(self, None, MachineStep::Hold);
        self.held.get_or_insert_default();
    }

    fn stop_holding(&mut self) -> bool {
        record!(self, None, MachineStep::StopHolding);
        self.held.take_if(|held| held.inputs.is_empty() && held.actions.is_empty()).is_some()
    }

    fn poll_held(&mut self) -> Option<HeldPiece> {
        let held = self.poll_held_input().or_else(|| self.poll_held_request());
        record!(self, None, MachineStep::held(held.as_ref()));
        held
    }

    fn release(&mut self, now: Instant, held: HeldPiece) {
        record!(self, Some(now), MachineStep::Release(json(&held)));
        match held {
            HeldPiece::Event(exchange, item) => self.handle_item(now, exchange, item),
            HeldPiece::Answer(exchange, body) => {
                if let Some(entry) = self.exchanges.get_mut(exchange)
                    && let ResponseState::Buffered(whole) = &mut entry.response
                {
                    whole.put_back(body);
                }
            }
            HeldPiece::ExchangeEnd(_) => self.release_end(now),
            HeldPiece::Request { body, .. } => self.release_request(body),
            HeldPiece::Unsent(exchange) => self.accept_unsent(now, exchange),
            // Those of other transports.
            HeldPiece::Received(..) | HeldPiece::End(_) | HeldPiece::Block(_) | HeldPiece::Message(_) => {}
        }
        self.advance(now);
    }
}
