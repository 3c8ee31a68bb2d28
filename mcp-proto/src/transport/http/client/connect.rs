//! The server's era: carrying out what [`Detect`](super::detect::Detect) wants, and bringing it what came of that.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::Instant;
use crate::peer::client::{Diagnostic, KnownEra, ServerInfo};
use crate::peer::{HttpError, LostReason, Outcome};
use crate::schema::{Discover, Era, Method, Revision};
use crate::transport::http::{ExchangeId, Verb};

use super::answer::{Ended, Head};
use super::call::Place;
use super::detect::{Act, Reply};
use super::exchange::Purpose;
use super::headers::Headers;
use super::headers::SessionHeaders;
use super::session::Gate;
use super::{HttpClient, headers};

/// The request of detection that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    pub(super) exchange: ExchangeId,
    pub(super) wire: i64,
}

impl HttpClient {
    /// Does what detection wants.
    pub(super) fn perform(&mut self, now: Instant, act: Act) {
        if self.detect.take_verdict_dropped() {
            self.peer.report(Diagnostic::KnownEraWrong);
        }
        if let Some(leniency) = self.detect.take_leniency() {
            self.peer.report(Diagnostic::Tolerated(leniency));
        }
        match act {
            Act::Wait => {}
            Act::Probe(version) => self.send_probe(version),
            Act::Initialize(version) => self.send_initialize(version),
            Act::OpenEvents => {
                self.abandon_handshake();
                self.open_events(now);
            }
            Act::Settle { server, verdict } => self.settle(now, *server, verdict),
            Act::Fail(error) => {
                self.abandon_handshake();
                if !self.repeat_events(now, &error) {
                    self.peer.fail_detection(error);
                }
            }
        }
        if !self.is_stalled() {
            self.peer.set_connect_progress(self.detect.progress(now));
        }
    }

    fn send_probe(&mut self, version: Revision) {
        self.close_events();
        if !matches!(self.handshaking(), Some(Purpose::Probe { .. })) {
            self.abandon_handshake();
        }
        let wire = self.peer.probe(version, &mut self.out);
        let Some((revision, body)) = self.out.take_own(wire) else { return };
        // A method of this crate's own is a header as it is.
        let headers =
            headers::modern(Discover::NAME, revision, &body, None).unwrap_or_else(|_| headers::posted());
        let purpose = Purpose::Probe { wire, body: body.clone(), revision };
        let exchange = self.begin(purpose, Verb::Post, self.url.clone(), headers, body);
        self.handshakes.push(Handshake { exchange, wire });
    }

    fn send_initialize(&mut self, version: Revision) {
        if self.events.is_some() || !matches!(self.handshaking(), Some(Purpose::Initialize { .. })) {
            self.abandon_handshake();
        }
        let wire = self.peer.initialize(version, &mut self.out);
        let Some((_, body)) = self.out.take_own(wire) else { return };
        let purpose = Purpose::Initialize { wire, body: body.clone() };
        let url = self.post_url();
        let exchange = self.begin(purpose, Verb::Post, url, headers::posted(), body);
        self.handshakes.push(Handshake { exchange, wire });
    }

    /// What the last step asked. What was asked before it, and not answered in time, may still be.
    fn handshaking(&self) -> Option<&Purpose> {
        let last = self.handshakes.last()?;
        self.exchanges.get(&last.exchange).map(|exchange| &exchange.purpose)
    }

    /// Whatever the last step was waiting for, nobody waits for it any more.
    fn abandon_handshake(&mut self) {
        for Handshake { exchange, .. } in core::mem::take(&mut self.handshakes) {
            self.abort_exchange(exchange);
        }
    }

    fn settle(&mut self, now: Instant, server: ServerInfo, verdict: KnownEra) {
        let era = server.era;
        self.abandon_handshake();
        if era == Era::Modern {
            self.session.id = None;
        }
        // A modern server that was recognised by its description is one; by a memory of it, it may be another by now.
        self.proven = era == Era::Legacy || server.capabilities.is_some();
        self.end_calls_of_another_era(now, era);
        self.gate = match era {
            Era::Modern => Gate::Open,
            Era::Legacy => Gate::Shut,
        };
        self.peer.finish_detection(now, server, verdict, &mut self.out);
    }

    /// Requests that were refused with the last session, and are written for a server of the other era.
    fn end_calls_of_another_era(&mut self, now: Instant, era: Era) {
        let strange = self.calls.iter().filter(|(_, call)| call.revision.era() != era);
        let strange: Vec<i64> = strange.map(|(&number, _)| number).collect();
        for number in strange {
            if let Some(Place::Out(exchange)) = self.calls.get(&number).map(|call| call.place) {
                self.abort_exchange(exchange);
            }
            let why = "the server speaks another era than before";
            self.end_call(now, number, Outcome::Lost(LostReason::Disconnected(why.into())));
        }
    }

    /// A modern server answered as if it were none: if it was only remembered to be one, it is asked.
    pub(super) fn doubt_era(&mut self, now: Instant) {
        if !self.proven && self.peer.restart_detection() {
            self.proven = true;
            self.gate = Gate::Shut;
            let act = self.detect.forget(now);
            self.perform(now, act);
        }
    }

    /// An exchange that was to bring an answer has come to this.
    pub(super) fn conclude(
        &mut self,
        now: Instant,
        purpose: Purpose,
        generation: u32,
        session: Option<String>,
        ended: Ended,
    ) {
        match purpose {
            Purpose::Probe { wire, .. } => {
                self.handshakes.retain(|handshake| handshake.wire != wire);
                self.unstall(now);
                let act = self.detect.handle_probe(now, reply(ended));
                self.perform(now, act);
            }
            Purpose::Initialize { wire, .. } => {
                self.handshakes.retain(|handshake| handshake.wire != wire);
                self.unstall(now);
                let found = matches!(
                    ended,
                    Ended::Answer { http: HttpError { status: 200..300, .. }, answer: Ok(_), .. }
                );
                self.session.id = session.filter(|_| found && self.events.is_none()).map(Arc::from);
                let act = self.detect.handle_initialize(now, reply(ended));
                self.perform(now, act);
            }
            Purpose::Call(number) => self.conclude_call(now, number, generation, ended),
            Purpose::Resume { number, .. } => self.conclude_resumed(now, number, generation, ended.of_get()),
            Purpose::Listen { .. } => self.conclude_listening(now, generation, ended.of_get()),
            Purpose::Events => self.conclude_events(now, ended),
            Purpose::Post(post) => self.conclude_post(now, post, generation, ended),
            Purpose::Delete => self.conclude_delete(now),
        }
    }

    /// What every request of the session carries.
    pub(super) fn session_headers(&self) -> SessionHeaders<'_> {
        let server = self.peer.server().filter(|server| server.era == Era::Legacy);
        SessionHeaders { session: self.session.id.as_deref(), revision: server.map(|server| server.revision) }
    }

    /// The head of a redirect: the request goes out again, to where it says.
    ///
    /// Returns whether it was followed.
    pub(super) fn redirect(&mut self, now: Instant, id: ExchangeId, head: &Head) -> bool {
        const MOST_REDIRECTS: u8 = 5;
        if !matches!(head.status, 307 | 308) {
            return false;
        }
        let Some(exchange) = self.exchanges.get(&id) else { return false };
        if exchange.generation != self.session.generation {
            // Its session is gone. A request was not accepted in it, and waits for the next one.
            let Purpose::Call(number) = exchange.purpose else { return false };
            self.detach(now, id);
            self.requeue(now, number);
            return true;
        }
        let target = head.location.as_deref().and_then(|location| exchange.url.follow(location));
        let (Some(target), true) = (target, exchange.redirects < MOST_REDIRECTS) else { return false };
        let (purpose, redirects) = (exchange.purpose.clone(), exchange.redirects.saturating_add(1));
        let resumed = exchange.resumed;
        let Some((verb, headers, body)) = self.request_of(&purpose) else { return false };
        if head.status == 308 && exchange.url == self.url {
            self.url = target.clone();
        }
        self.detach(now, id);
        let again = self.begin(purpose.clone(), verb, target, headers, body);
        if let Some(exchange) = self.exchanges.get_mut(&again) {
            exchange.redirects = redirects;
            exchange.resumed = resumed;
        }
        if matches!(purpose, Purpose::Post(_)) {
            self.limit_post(now, again);
        }
        self.moved(&purpose, id, again);
        true
    }
}

impl HttpClient {
    /// The request that an exchange begins with, written once more.
    pub(super) fn request_of(&self, purpose: &Purpose) -> Option<(Verb, Headers, Bytes)> {
        let session = self.session_headers();
        Some(match purpose {
            Purpose::Probe { body, revision, .. } => {
                let headers = headers::modern(Discover::NAME, *revision, body, None).ok()?;
                (Verb::Post, headers, body.clone())
            }
            Purpose::Initialize { body, .. } => (Verb::Post, headers::posted(), body.clone()),
            Purpose::Call(number) => {
                let call = self.calls.get(number)?;
                let body = call.body.clone()?;
                (Verb::Post, self.headers_of_call(call, &body).ok()?, body)
            }
            Purpose::Post(post) => {
                let headers = match &post.notification {
                    Some((method, revision)) if headers::is_modern(*revision) => {
                        headers::modern(method, *revision, &post.body, None).ok()?
                    }
                    _ => session.post(),
                };
                (Verb::Post, headers, post.body.clone())
            }
            Purpose::Resume { last_event, .. } => (Verb::Get, session.get(Some(last_event)), Bytes::new()),
            Purpose::Listen { last_event } => (Verb::Get, session.get(last_event.as_deref()), Bytes::new()),
            Purpose::Events => (Verb::Get, session.get(None), Bytes::new()),
            Purpose::Delete => (Verb::Delete, session.delete(), Bytes::new()),
        })
    }

    /// An exchange goes on as another.
    pub(super) fn moved(&mut self, purpose: &Purpose, from: ExchangeId, to: ExchangeId) {
        match purpose {
            Purpose::Probe { wire, .. } | Purpose::Initialize { wire, .. } => {
                self.handshakes.retain(|handshake| handshake.wire != *wire);
                self.handshakes.push(Handshake { exchange: to, wire: *wire });
            }
            Purpose::Call(number) | Purpose::Resume { number, .. } => {
                if let Some(call) = self.calls.get_mut(number).filter(|call| call.place == Place::Out(from)) {
                    call.place = Place::Out(to);
                }
            }
            Purpose::Listen { .. } => self.listener.exchange = Some(to),
            Purpose::Events => {
                if let Some(events) = &mut self.events {
                    events.exchange = Some(to);
                }
            }
            Purpose::Post(_) | Purpose::Delete => {}
        }
    }
}

/// What detection is told.
fn reply(ended: Ended) -> Reply {
    match ended {
        Ended::Answer { http, answer: Ok(result), .. } => Reply::Result { status: http.status, result },
        Ended::Answer { http, answer: Err(error), .. } => Reply::Error { error, http },
        Ended::Other(error) | Ended::Invalid(_, error) | Ended::Unanswered(error, _) => Reply::Other(error),
        Ended::Broken { detail, .. } => Reply::Failed { detail, retry_after: None },
        Ended::Unreachable { detail } => Reply::Unreachable { detail },
    }
}
