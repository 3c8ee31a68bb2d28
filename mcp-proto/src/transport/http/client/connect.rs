//! Runs [`HttpEraDetection`](super::detect::HttpEraDetection): sends its requests and passes it their outcomes.

use alloc::string::String;

use crate::Instant;
use crate::peer::client::era::DetectAction;
use crate::peer::client::{ConnectStep, KnownEra, ServerInfo};
use crate::peer::{LostReason, Outcome, TransportError};
use crate::schema::{Discover, Era, Method, Revision};
use crate::transport::http::{ExchangeId, Verb};

use super::exchange::ExchangeKind;
use super::request::EncodedRequest;
use super::response::ExchangeOutcome;
use super::{HttpClient, request};

/// A request of detection in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    pub(super) exchange: ExchangeId,
    pub(super) wire_id: i64,
}

impl HttpClient {
    /// Carries out an action of era detection.
    pub(super) fn perform_detection(&mut self, now: Instant, act: DetectAction) {
        for diagnostic in self.detection.era.take_diagnostics() {
            self.peer.report(diagnostic);
        }
        match act {
            DetectAction::Wait => {}
            DetectAction::Probe(version) => self.send_probe(version),
            DetectAction::Initialize(version) => self.send_initialize(version),
            DetectAction::Open => {
                self.abandon_handshake();
                self.open_events(now);
            }
            DetectAction::Finish { server, known_era } => self.finish_detection(now, *server, known_era),
            DetectAction::Fail(error) => {
                self.abandon_handshake();
                if !self.reopen_events(now, &error) {
                    self.peer.fail_detection(error);
                }
            }
        }
        if !self.detection.is_paused() {
            self.peer.set_connect_progress(self.detection.progress(now));
        }
    }

    fn send_probe(&mut self, version: Revision) {
        self.close_events();
        if !matches!(self.current_handshake(), Some(ExchangeKind::Probe { .. })) {
            self.abandon_handshake();
        }
        let wire = self.peer.probe(version, &mut self.outbox);
        let Some((revision, EncodedRequest { body, .. })) = self.outbox.take_last_request(wire) else {
            return;
        };
        let headers = request::modern_headers(Discover::NAME.into(), revision);
        let purpose = ExchangeKind::Probe { wire, body: body.clone(), revision };
        let exchange = self.begin_exchange(purpose, Verb::Post, self.url.clone(), headers, body);
        self.handshakes.push(Handshake { exchange, wire_id: wire });
    }

    fn send_initialize(&mut self, version: Revision) {
        if self.legacy_sse.is_some()
            || !matches!(self.current_handshake(), Some(ExchangeKind::Initialize { .. }))
        {
            self.abandon_handshake();
        }
        let wire = self.peer.initialize(version, &mut self.outbox);
        let Some((_, EncodedRequest { body, .. })) = self.outbox.take_last_request(wire) else { return };
        let purpose = ExchangeKind::Initialize { wire, body: body.clone() };
        let url = self.post_url();
        let exchange = self.begin_exchange(purpose, Verb::Post, url, request::sessionless_headers(), body);
        self.handshakes.push(Handshake { exchange, wire_id: wire });
    }

    /// Returns the request of detection's last step.
    fn current_handshake(&self) -> Option<&ExchangeKind> {
        let last = self.handshakes.last()?;
        self.exchanges.get(last.exchange).map(|exchange| &exchange.kind)
    }

    /// Aborts all requests of detection.
    fn abandon_handshake(&mut self) {
        for request in core::mem::take(&mut self.handshakes) {
            self.abort_exchange(request.exchange);
        }
    }

    fn finish_detection(&mut self, now: Instant, server: ServerInfo, known_era: KnownEra) {
        let era = server.era;
        self.abandon_handshake();
        // A discovery result proves that the server is modern; a remembered era does not, since the server may have
        // changed.
        self.detection.is_era_proven = era == Era::Legacy || server.capabilities.is_some();
        self.fail_other_era_calls(now, era);
        self.session.begin(era);
        self.peer.finish_detection(now, server, known_era, &mut self.outbox);
    }

    /// Fails requests that were refused with the last session and encoded for the other era.
    fn fail_other_era_calls(&mut self, now: Instant, era: Era) {
        for number in self.calls.numbers(|call| call.revision.era() != era) {
            if let Some(exchange) = self.calls.exchange_of(number) {
                self.abort_exchange(exchange);
            }
            let why = "the server speaks another era than before";
            self.fail_call(now, number, Outcome::Lost(LostReason::Disconnected(why.into())));
        }
    }

    /// Restarts detection if a modern server, known only from memory, answered in another era's way.
    pub(super) fn redetect_era(&mut self, now: Instant) {
        if !self.detection.is_era_proven && self.peer.restart_detection() {
            self.detection.is_era_proven = true;
            self.session.close_gate();
            let act = self.detection.redetect(now);
            self.perform_detection(now, act);
        }
    }

    /// Dispatches the outcome of an exchange that should have carried an answer.
    pub(super) fn resolve_exchange(
        &mut self,
        now: Instant,
        purpose: ExchangeKind,
        generation: u32,
        session: Option<String>,
        ended: ExchangeOutcome,
    ) {
        match purpose {
            ExchangeKind::Probe { wire, .. } => {
                self.resolve_handshake(now, wire, ConnectStep::Probe, ended);
            }
            ExchangeKind::Initialize { wire, .. } => {
                let found = matches!(
                    ended,
                    ExchangeOutcome::Answer {
                        http: TransportError { status: 200..300, .. },
                        answer: Ok(_),
                        ..
                    }
                );
                //= C4.18 "Store `MCP-Session-Id` from InitializeResult"
                self.session.set_id(session.filter(|_| found && self.legacy_sse.is_none()));
                self.resolve_handshake(now, wire, ConnectStep::Initialize, ended);
            }
            ExchangeKind::Call(number) => self.resolve_call(now, number, generation, ended),
            ExchangeKind::Resume { number, .. } => {
                self.resolve_resumed(now, number, generation, ended.into_get_outcome())
            }
            ExchangeKind::Listen { .. } => {
                self.handle_listener_end(now, generation, ended.into_get_outcome())
            }
            ExchangeKind::Events => self.handle_events_end(now, ended),
            ExchangeKind::Post(post) => self.handle_post_end(now, post, generation, ended),
            ExchangeKind::Delete => self.handle_delete_end(now),
        }
    }

    fn resolve_handshake(&mut self, now: Instant, wire: i64, step: ConnectStep, ended: ExchangeOutcome) {
        self.handshakes.retain(|request| request.wire_id != wire);
        self.resume_detection(now);
        let act = self.detection.handle_outcome(now, step, ended);
        self.perform_detection(now, act);
    }
}
