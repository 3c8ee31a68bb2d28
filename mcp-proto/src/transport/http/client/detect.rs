//! Detects the server's era over HTTP, as a state machine of its own.
//!
//! The probe is a POST of `server/discover`, the handshake a POST of `initialize`. The other way to the server is
//! HTTP+SSE (2024-11-05): a GET for the event stream, after which the handshake is posted to the endpoint that the
//! stream names. The [table](crate::peer::client::era_judge) decides on each reply, by the evidence that it is:
//!
//! | reply | evidence |
//! |---|---|
//! | 2xx and the right result | that result |
//! | any status, and -32020, -32021 or -32022 | that error |
//! | 404 and -32601 to the handshake, as to the probe before | a sign that only modern servers give |
//! | 400, 404, 405 and any other body | an answer that proves nothing; to the handshake, it leaves the event stream as another way |
//! | 2xx or any other 4xx, and any other body, or none | an answer that proves nothing |
//! | 500, 501 and a JSON-RPC error | an answer that proves nothing |
//! | 2xx and an event stream that begins with `endpoint` | an answer that proves nothing and leaves the event stream |
//! | 401, 403, 407, 421, 451 | a refusal of every request |
//! | 3xx that was not followed, any other status | a refusal of every request |
//! | 408, 425, 429, any other 5xx | a temporary failure |
//! | no connection, a truncated body, no answer in time | a temporary failure |
//! | no connection, and none to be expected: the host is unknown, or refuses | a refusal of every request; a temporary failure if the host was reached before or the configuration enables retries |
//!
//! An error in a body belongs to the request of its exchange, whatever its id. After a temporary failure the request is
//! repeated up to three times; the requests beside the event stream are not. There, a reply other than the `endpoint`
//! event or the initialize result is the last one, and a modern revision is a failure.
//!
//! After a lost session, the era of that session is the known one, and the handshake repeats without the event stream.
//! A known modern era is verified by the probe, which also brings the server's capabilities, unless the configuration
//! skips it.
//!
//! The probe and `initialize` are never cancelled. The exchange of a request that was not answered in time should stay
//! open: a late answer counts as long as the same step is in progress.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#backward-compatibility>

use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, SplitMix64};
use crate::peer::client::era_judge::{
    DetectAction, EraDecision, EraJudge, EraRequest, Evidence, JudgedAnswer,
};
use crate::peer::client::handshake::ServerDescription;
use crate::peer::client::{
    ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, EraPolicy, KnownEra, ServerInfo,
};
use crate::peer::{LostReason, Outbox as _, Outcome};
use crate::prelude::*;
use crate::rpc::code;
use crate::schema::{Era, Revision};
use crate::transport::http::ExchangeId;

use super::exchange::{ExchangeKind, Handshake};
use super::response::{ExchangeOutcome, http_error, is_success};
use super::session::SendGate;
use super::{HttpClient, HttpClientConfig};

/// How often a step is retried after a temporary failure.
///
/// A restarting or overloaded server is back within seconds; a user who mistyped an address should not wait longer.
const MAX_RETRIES: u32 = 3;

/// Where the request of a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Endpoint,
    /// The event stream of HTTP+SSE was requested; `initialize` follows.
    EventStream,
    /// To the endpoint that the HTTP+SSE stream named; the answer arrives on that stream.
    SseEndpoint,
}

/// Era detection for one server.
#[derive(Debug)]
pub(super) struct HttpEraDetection {
    pub(super) era: EraJudge,
    timeouts: ConnectTimeouts,
    rng: SplitMix64,
    /// The request in progress, or to be sent; `None` before detection and after it.
    asked: Option<EraRequest>,
    target: Target,
    /// The era of the server, once detection has succeeded.
    detected: Option<Era>,
    /// Whether the probe got 404 and -32601, as from a modern server without `server/discover`.
    probe_was_unknown: bool,
    /// Whether the handshake repeats an earlier one, because the server lost the session.
    reopens_session: bool,
    /// The number of retries of the current step.
    retries: u32,
    backoff: Backoff,
    /// Whether an unreachable host is retried. Once the host was reached, it is: it is most likely restarting.
    retry_unreachable: bool,
    /// Whether a known modern era is believed without the probe.
    skip_known_probe: bool,
    /// Whether detection pauses until the timer fires.
    is_backing_off: bool,
    /// The error of the current step's last attempt, if the step is retried.
    last_error: Option<ConnectError>,
    has_redetected: bool,
    /// The end of the current attempt or pause, and the timeout that it was set for.
    timer: Option<(Instant, Duration)>,
    deadline: Option<Instant>,
    /// When the deadlines of detection were suspended, because its exchange is parked.
    paused_since: Option<Instant>,
    /// Whether the server's replies have proven its era: a server remembered as modern may have changed.
    pub(super) is_era_proven: bool,
}

impl HttpEraDetection {
    pub(super) fn new(config: &HttpClientConfig) -> Self {
        let backoff = config.backoff;
        Self {
            era: EraJudge::new(&config.client),
            timeouts: config.client.connect,
            rng: SplitMix64::new(config.seed),
            asked: None,
            target: Target::Endpoint,
            detected: None,
            probe_was_unknown: false,
            reopens_session: false,
            retries: 0,
            backoff: Backoff { attempts: backoff.attempts.min(MAX_RETRIES), ..backoff },
            retry_unreachable: config.retry_unreachable,
            skip_known_probe: config.skip_known_probe,
            is_backing_off: false,
            last_error: None,
            has_redetected: false,
            timer: None,
            deadline: None,
            paused_since: None,
            is_era_proven: false,
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; `None` while detection is paused.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = [self.timer.map(|(due, _)| due), self.deadline].into_iter().flatten().min();
        deadline.filter(|_| !self.is_paused())
    }

    // --- Start ---

    /// Starts detection.
    pub(super) fn begin(&mut self, now: Instant) -> DetectAction {
        if self.asked.is_some() {
            return DetectAction::Wait;
        }
        self.restart(now);
        match self.era.known {
            //= C2.2 "Remember the era/version result"
            Some(KnownEra { era: Era::Modern, version, .. })
                if self.skip_known_probe && self.era.policy != EraPolicy::LegacyOnly =>
            {
                self.finish(version, None)
            }
            _ => self.ask(now, self.era.first_request(), Target::Endpoint),
        }
    }

    /// Repeats the handshake at the negotiated version, after a lost session or a reopened HTTP+SSE stream.
    pub(super) fn repeat_handshake(&mut self, now: Instant, version: Revision) -> DetectAction {
        match (self.asked, self.detected) {
            (None, Some(Era::Legacy)) => {
                self.restart(now);
                self.era.known = Some(KnownEra { era: Era::Legacy, version, probe_breaks_server: false });
            }
            (Some(_), _) if self.reopens_session => {}
            // The previous handshake failed beside another event stream.
            (None, None) => {
                self.restart(now);
                self.target = Target::SseEndpoint;
            }
            _ => return DetectAction::Wait,
        }
        self.reopens_session = true;
        self.ask(now, EraRequest::initialize(version), self.target)
    }

    /// Restarts detection after a server with an unproven modern era answered in a way no modern server does.
    ///
    /// The second time, detection fails: the server supports neither era.
    pub(super) fn redetect(&mut self, now: Instant) -> DetectAction {
        if self.detected != Some(Era::Modern) {
            return DetectAction::Wait;
        }
        if core::mem::replace(&mut self.has_redetected, true) {
            return self.fail(ConnectError::Unexpected {
                during: "the first request",
                reason: "it answers neither as a modern server nor as a legacy one".into(),
            });
        }
        self.restart(now);
        self.era.forget_known();
        self.ask(now, EraRequest::PROBE, Target::Endpoint)
    }

    fn restart(&mut self, now: Instant) {
        self.deadline = Some(now + self.timeouts.total);
        self.era.probes = 0;
        self.era.failed.clear();
    }

    // --- Inputs ---

    /// Handles the outcome of a request of `step`, unless another step is in progress.
    ///
    /// If the answer to `initialize` arrives on an HTTP+SSE stream, the outcome of the POST itself is passed only if it
    /// failed.
    pub(super) fn handle_outcome(
        &mut self,
        now: Instant,
        step: ConnectStep,
        ended: ExchangeOutcome,
    ) -> DetectAction {
        match self.asked {
            Some(asked) if self.step() == Some(step) => {
                let answer = self.read(asked, step.as_str(), ended);
                self.decide(now, asked, answer)
            }
            _ => DetectAction::Wait,
        }
    }

    /// Handles an event stream that begins with `endpoint` as the answer to the probe or handshake.
    ///
    /// The server takes any request for the one that opens the HTTP+SSE stream.
    pub(super) fn handle_endpoint(&mut self, now: Instant) -> DetectAction {
        let Some(asked) = self.asked.filter(|_| self.target == Target::Endpoint && !self.reopens_session)
        else {
            return DetectAction::Wait;
        };
        self.retry_unreachable = true;
        let reason = "it is the event stream of HTTP+SSE (2024-11-05)".into();
        let error = ConnectError::Unexpected { during: asked.step().as_str(), reason };
        let evidence = Evidence::NotUnderstood { offered: None, elsewhere: true };
        self.decide(now, asked, JudgedAnswer::failure(evidence, error))
    }

    /// Handles the `endpoint` event of the event stream, or the outcome of the GET in its place.
    pub(super) fn handle_events(
        &mut self,
        now: Instant,
        endpoint: Result<(), ExchangeOutcome>,
    ) -> DetectAction {
        // During the handshake, the stream broke off; it was reopened or has failed.
        match (self.asked.filter(|_| self.target != Target::Endpoint), endpoint) {
            (None, _) => DetectAction::Wait,
            (Some(asked), Ok(())) => self.ask(now, asked, Target::SseEndpoint),
            (Some(_), Err(ended)) => {
                self.target = Target::EventStream;
                self.handle_outcome(now, ConnectStep::EventStream, ended)
            }
        }
    }

    /// Runs the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> DetectAction {
        let (Some(asked), Some(step)) = (self.asked, self.step()) else { return DetectAction::Wait };
        let during = step.as_str();
        if self.deadline.is_some_and(|end| end <= now) {
            let last = self.last_error.take().map(Box::new);
            return self.fail(ConnectError::NotReady { during, within: self.timeouts.total, last });
        }
        match self.timer.take_if(|(due, _)| *due <= now) {
            None => DetectAction::Wait,
            Some(_) if self.is_backing_off => self.send(now, asked),
            Some((_, after)) => {
                let late = ConnectError::TimedOut { during, after };
                self.decide(now, asked, JudgedAnswer::failure(Evidence::Temporary, late))
            }
        }
    }

    // --- Pauses ---

    /// Suspends the deadlines of detection: its exchange is parked until the client is authorized.
    pub(super) fn pause(&mut self, now: Instant) {
        self.paused_since.get_or_insert(now);
    }

    /// Resumes the deadlines of detection; returns whether they were suspended.
    pub(super) fn resume(&mut self, now: Instant) -> bool {
        let Some(since) = self.paused_since.take() else { return false };
        let pause = now.saturating_since(since);
        self.timer = self.timer.map(|(due, after)| (due + pause, after));
        self.deadline = self.deadline.map(|end| end + pause);
        true
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    // --- Progress ---

    /// Returns the current step.
    fn step(&self) -> Option<ConnectStep> {
        match self.target {
            Target::EventStream => self.asked.and(Some(ConnectStep::EventStream)),
            Target::Endpoint | Target::SseEndpoint => self.asked.map(EraRequest::step),
        }
    }

    /// Returns a progress report on the current step.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let until = |instant: Instant| instant.saturating_since(now);
        let mut progress = ConnectProgress::new(self.step()?);
        progress.retry = self.retries;
        progress.pause = self.timer.filter(|_| self.is_backing_off).map(|(due, _)| until(due));
        progress.reason = self.last_error.as_ref().or(self.era.failed.last()).cloned().map(Box::new);
        progress.remaining = self.deadline.map(until);
        Some(progress)
    }

    // --- Evidence ---

    /// Reads the outcome of an exchange.
    fn read(&mut self, asked: EraRequest, during: &'static str, ended: ExchangeOutcome) -> JudgedAnswer {
        let is_reached =
            !matches!(ended, ExchangeOutcome::Broken { .. } | ExchangeOutcome::Unreachable { .. });
        self.retry_unreachable |= is_reached;
        let (code, offered, http) = match ended {
            ExchangeOutcome::Unreachable { detail } if !self.retry_unreachable => {
                return JudgedAnswer::failure(Evidence::Barred, ConnectError::Unreachable(detail));
            }
            ExchangeOutcome::Broken { detail, .. } | ExchangeOutcome::Unreachable { detail } => {
                return JudgedAnswer::failure(Evidence::Temporary, ConnectError::Failed { during, detail });
            }
            ExchangeOutcome::NoAnswer(http)
            | ExchangeOutcome::Invalid(_, http)
            | ExchangeOutcome::Unanswered(http, _) => (None, None, http),
            ExchangeOutcome::Result { status, result } => {
                match self.era.read_result(asked, &result).filter(|_| is_success(status)) {
                    Some(answer) => return answer,
                    None => (None, None, http_error(status, result.as_str())),
                }
            }
            ExchangeOutcome::Error { http, error, .. } => {
                if let Some(answer) = self.era.read_modern_error(asked, &error) {
                    return answer;
                }
                let offered = self.era.offered_version(asked, &error);
                // A success status explains nothing, so the JSON-RPC error is quoted.
                if is_success(http.status) {
                    let evidence = Evidence::NotUnderstood { offered, elsewhere: false };
                    return JudgedAnswer::failure(evidence, ConnectError::Refused { during, error });
                }
                (Some(error.code), offered, http)
            }
        };
        let evidence = self.evidence_of_status(asked, http.status, code, offered);
        JudgedAnswer::failure(evidence, ConnectError::Transport { during, error: http })
    }

    /// The evidence in a status, and in the code of a JSON-RPC error with it that both eras use.
    fn evidence_of_status(
        &mut self,
        asked: EraRequest,
        status: u16,
        code: Option<i64>,
        offered: Option<Revision>,
    ) -> Evidence {
        let is_unknown = status == 404 && code == Some(code::METHOD_NOT_FOUND);
        let is_probe = matches!(asked, EraRequest::Probe { .. });
        let is_handshake = !is_probe && self.target == Target::Endpoint;
        let was_unknown = self.probe_was_unknown;
        self.probe_was_unknown |= is_probe && is_unknown;
        match status {
            500 | 501 if code.is_some() => Evidence::NotUnderstood { offered, elsewhere: false },
            408 | 425 | 429 | 500..=599 => Evidence::Temporary,
            404 if is_unknown && was_unknown && is_handshake && offered.is_none() => Evidence::Modern,
            400 | 404 | 405 => {
                Evidence::NotUnderstood { offered, elsewhere: is_handshake && !self.reopens_session }
            }
            401 | 403 | 407 | 421 | 451 => Evidence::Barred,
            200..=299 | 400..=499 => Evidence::NotUnderstood { offered, elsewhere: false },
            _ => Evidence::Barred,
        }
    }

    // --- Steps ---

    /// Takes the step that an answer leads to.
    fn decide(&mut self, now: Instant, asked: EraRequest, answer: JudgedAnswer) -> DetectAction {
        match (self.era.decide(asked, &answer), answer.server) {
            (EraDecision::Ask(next), _) => self.ask(now, next, self.target),
            (EraDecision::Finish(revision), server) => self.finish(revision, server.ok()),
            (EraDecision::Elsewhere, _) => {
                self.enter(Some(asked.or_initialize()));
                self.target = Target::EventStream;
                DetectAction::Open
            }
            (EraDecision::StartOver, _) => {
                self.reopens_session = false;
                self.ask(now, EraRequest::PROBE, Target::Endpoint)
            }
            (EraDecision::Retry, Err(error)) => self.back_off(now, error),
            (EraDecision::Fail(error), _) => self.fail(error),
            (EraDecision::Retry | EraDecision::GiveUp | EraDecision::RejectLegacy, _) => DetectAction::Wait,
        }
    }

    fn enter(&mut self, asked: Option<EraRequest>) {
        self.asked = asked;
        self.detected = None;
        self.retries = 0;
        self.last_error = None;
        self.is_backing_off = false;
        self.timer = None;
    }

    fn ask(&mut self, now: Instant, asked: EraRequest, target: Target) -> DetectAction {
        match (self.asked, asked) {
            // Retries still count: the server is the same.
            (Some(EraRequest::Probe { .. }), EraRequest::Probe { .. }) => self.asked = Some(asked),
            _ => self.enter(Some(asked)),
        }
        self.target = target;
        if let EraRequest::Probe { .. } = asked {
            self.probe_was_unknown = false;
            if let Err(error) = self.era.count_probe() {
                return self.fail(error);
            }
        }
        self.send(now, asked)
    }

    /// Sends the request of the step.
    fn send(&mut self, now: Instant, asked: EraRequest) -> DetectAction {
        let (timeout, action) = match asked {
            EraRequest::Probe { version, .. } => (self.timeouts.probe_http, DetectAction::Probe(version)),
            EraRequest::Initialize { version, .. } => {
                (self.timeouts.initialize_http, DetectAction::Initialize(version))
            }
        };
        self.is_backing_off = false;
        self.timer = Some((now + timeout, timeout));
        action
    }

    /// Retries the step after a delay, as far as attempts and time are left.
    fn back_off(&mut self, now: Instant, error: ConnectError) -> DetectAction {
        if self.is_backing_off {
            return DetectAction::Wait;
        }
        let retry_after = match &error {
            ConnectError::Transport { error, .. } => error.retry_after,
            _ => None,
        };
        let pause = retry_after.unwrap_or_else(|| self.backoff.pause(self.retries, &mut self.rng));
        let again = now + pause;
        let is_late = self.deadline.is_some_and(|end| end <= again);
        if self.target != Target::Endpoint || self.retries >= self.backoff.attempts || is_late {
            return self.fail(error);
        }
        self.retries = self.retries.saturating_add(1);
        self.last_error = Some(error);
        self.is_backing_off = true;
        self.timer = Some((again, pause));
        DetectAction::Wait
    }

    fn finish(&mut self, revision: Revision, server: Option<Box<ServerDescription>>) -> DetectAction {
        let era = revision.era();
        if era == Era::Modern && self.target != Target::Endpoint {
            let during = ConnectStep::Initialize.as_str();
            let reason = format!("revision {} cannot be used over HTTP+SSE", revision.as_str());
            return self.fail(ConnectError::Unexpected { during, reason });
        }
        self.reopens_session = false;
        self.enter(None);
        self.detected = Some(era);
        self.deadline = None;
        self.era.finish(revision, server, KnownEra { era, version: revision, probe_breaks_server: false })
    }

    fn fail(&mut self, error: ConnectError) -> DetectAction {
        self.enter(None);
        self.deadline = None;
        DetectAction::Fail(self.era.all_failed(error))
    }
}

impl HttpClient {
    /// Carries out an action of era detection.
    pub(super) fn perform_detection(&mut self, now: Instant, act: DetectAction) {
        for diagnostic in self.detection.era.take_diagnostics() {
            self.peer.report(diagnostic);
        }
        match act {
            DetectAction::Wait => {}
            DetectAction::Probe(version) => self.send_handshake(true, version),
            DetectAction::Initialize(version) => self.send_handshake(false, version),
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

    /// Sends the probe or `initialize`. An earlier request of the same step may still be answered.
    fn send_handshake(&mut self, is_probe: bool, version: Revision) {
        if is_probe {
            self.close_events();
        }
        let last = self.handshakes.last().and_then(|last| self.exchanges.get(last.exchange));
        let is_same_step = last.is_some_and(|exchange| match exchange.kind {
            ExchangeKind::Handshake { probe, .. } => probe.is_some() == is_probe,
            _ => false,
        });
        if self.legacy_sse.is_some() || !is_same_step {
            self.abandon_handshake();
        }
        let wire = if is_probe {
            self.peer.probe(version, &mut self.outbox)
        } else {
            self.peer.initialize(version, &mut self.outbox)
        };
        let Some(call) = self.outbox.take_carriage() else { return };
        let (probe, body) = (is_probe.then_some(call.revision), call.encoded.map(|encoded| encoded.body));
        let kind = ExchangeKind::Handshake { wire, body: body.unwrap_or_default(), probe };
        if let Ok(exchange) = self.open_exchange(kind) {
            self.add_handshake(exchange, wire);
        }
    }

    /// Records the exchange in which a request of detection is sent.
    pub(super) fn add_handshake(&mut self, exchange: ExchangeId, wire_id: i64) {
        self.handshakes.retain(|request| request.wire_id != wire_id);
        self.handshakes.push(Handshake { exchange, wire_id });
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
        for number in self.peer.carried(|call| call.revision.era() != era) {
            self.abort_call_exchange(number);
            let why = "the server speaks another era than before";
            self.fail_call(now, number, Outcome::Lost(LostReason::Disconnected(why.into())));
        }
    }

    /// Restarts detection if a modern server, known only from memory, answered in another era's way.
    pub(super) fn redetect_era(&mut self, now: Instant) {
        if !self.detection.is_era_proven && self.peer.restart_detection() {
            self.detection.is_era_proven = true;
            self.session.gate = SendGate::Closed;
            let act = self.detection.redetect(now);
            self.perform_detection(now, act);
        }
    }

    pub(super) fn resolve_handshake(
        &mut self,
        now: Instant,
        wire: i64,
        step: ConnectStep,
        ended: ExchangeOutcome,
    ) {
        self.handshakes.retain(|request| request.wire_id != wire);
        self.resume_detection(now);
        let act = self.detection.handle_outcome(now, step, ended);
        self.perform_detection(now, act);
    }
}

#[cfg(test)]
mod tests;
