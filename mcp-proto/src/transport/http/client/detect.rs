//! Detects the server's era over HTTP, as a state machine of its own.
//!
//! Detection has up to three steps: the era probe, a POST of `server/discover`; the handshake, a POST of `initialize`;
//! and the event stream of HTTP+SSE (2024-11-05), a GET, after which the handshake is posted to the endpoint that the
//! stream names. An error in a body belongs to the request of its exchange, whatever its id.
//!
//! | reply | to the probe | to the handshake |
//! |---|---|---|
//! | 2xx and the right result | the newest common version: modern, or the handshake with a legacy one | legacy (modern, if it names a modern version that the policy allows) |
//! | any status, -32022 with a list | the probe or the handshake with the newest common version; the same version once more if the list contains it | modern, or the handshake with a legacy version, once |
//! | any status, -32022 without a list | failure | failure |
//! | any status, -32020 | once more, then failure: an intermediary changes the headers | modern, at the version that was probed |
//! | any status, -32021 | once more if this client has the required capability, otherwise failure | failure |
//! | no temporary or barring status, another error with a list of versions | as without the list | the handshake with the newest common legacy version, once |
//! | 2xx and any other body, or none | the handshake | failure |
//! | 404 and -32601 | the handshake | modern, if the probe got the same; otherwise the event stream |
//! | 400, 404, 405 and any other body | the handshake | the event stream |
//! | 401, 403, 407, 421, 451 | failure | failure |
//! | any other 4xx | the handshake | failure |
//! | 500, 501 and a JSON-RPC error | the handshake | failure |
//! | 408, 425, 429, any other 5xx | again, up to three times, then failure | the same |
//! | no connection, a truncated body, no answer in time | the same | the same |
//! | no connection, and none to be expected: the host is unknown, or refuses | failure, unless the host was reached before or the configuration enables retries | the same |
//! | 2xx and an event stream that begins with `endpoint` | the event stream | the same |
//! | 3xx that was not followed, any other status | failure | failure |
//!
//! | reply | to the GET | to the handshake beside the event stream |
//! |---|---|---|
//! | the `endpoint` event | the handshake | |
//! | an initialize result | | legacy, unless it names a modern version |
//! | -32022 with a list | | the handshake with a legacy version, once |
//! | any other reply | failure | failure |
//!
//! Only a valid initialize result proves the legacy era; only a valid discovery result, or an error that only modern
//! servers use, proves the modern era. A temporary failure proves neither: it never leads from the probe to the
//! handshake, or from there to the event stream.
//!
//! With a known legacy era, or after a lost session, detection begins with the handshake. If the handshake is refused,
//! or answered by a modern error, the known era is dropped, and detection runs once from the start. A known modern era
//! is verified by the probe, which also brings the server's capabilities, unless the configuration skips it.
//!
//! The probe and `initialize` are never cancelled. The exchange of a request that was not answered in time should stay
//! open: a late answer counts as long as the same step is in progress.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#backward-compatibility>

mod event_stream;
mod reply;
mod steps;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::backoff::{Backoff, SplitMix64};
use crate::peer::client::handshake::{self, DiscoverAnswer, ServerDescription};
use crate::peer::client::{
    ClientConfig, ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, EraPolicy, KnownEra,
    ServerInfo,
};
use crate::peer::{Leniency, Strictness};
use crate::rpc::{ErrorObject, code};
use crate::schema::{ClientCapabilities, Era, Revision};

pub(super) use reply::Reply;
use reply::{ReplyClass, UnexpectedReply, is_modern};

const PROBE: &str = ConnectStep::Probe.as_str();
const INITIALIZE: &str = ConnectStep::Initialize.as_str();
const EVENT_STREAM: &str = ConnectStep::EventStream.as_str();
/// The maximum number of probes; no honest server asks for more.
const MAX_PROBES: u8 = 3;
/// How often a step is retried after a temporary failure.
///
/// A restarting or overloaded server is back within seconds; a user who mistyped an address should not wait longer.
const MAX_RETRIES: u32 = 3;

/// The next action of era detection.
#[derive(Debug)]
pub(super) enum HttpDetectAction {
    /// Wait for a reply or a timer.
    Wait,
    /// Post `server/discover` with this version.
    Probe(Revision),
    /// Post `initialize` with this version.
    Initialize(Revision),
    /// Request the event stream of HTTP+SSE.
    OpenEventStream,
    /// Connect to this server; detection succeeded.
    Finish { server: Box<ServerInfo>, verdict: KnownEra },
    /// Fail to connect; detection gave up.
    Fail(ConnectError),
}

/// Why detection is at the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeReason {
    /// The probe or the era policy led to it.
    Detection,
    /// The era is known from an earlier connection.
    KnownEra,
    /// The server lost the session.
    LostSession,
}

/// Where the handshake is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeTarget {
    Endpoint,
    /// To the endpoint that the HTTP+SSE stream named; the answer arrives on that stream.
    SseEndpoint,
}

#[derive(Debug)]
enum HttpDetectStep {
    /// No request was made yet.
    Idle,
    Probing {
        version: Revision,
        repeated: bool,
    },
    Handshake {
        version: Revision,
        target: HandshakeTarget,
        reason: HandshakeReason,
    },
    EventStream {
        version: Revision,
        reason: HandshakeReason,
    },
    Detected {
        era: Era,
        target: HandshakeTarget,
    },
    Failed,
}

/// Era detection for one server.
#[derive(Debug)]
pub(super) struct HttpEraDetection {
    policy: EraPolicy,
    known_era: Option<KnownEra>,
    capabilities: ClientCapabilities,
    tolerate: bool,
    strictness: Strictness,
    timeouts: ConnectTimeouts,
    rng: SplitMix64,
    step: HttpDetectStep,
    probes: u8,
    /// The version of the last probe.
    probed_version: Revision,
    /// Whether the probe got 404 and -32601, as from a modern server without `server/discover`.
    probe_was_unknown: bool,
    /// Whether a list of versions has already determined the version of the handshake.
    handshake_version_chosen: bool,
    /// A tolerated deviation that is not reported yet.
    leniency: Option<Leniency>,
    /// The number of retries of the current step.
    retries: u32,
    backoff: Backoff,
    /// Whether an unreachable host is retried. Once the host was reached, it is.
    retry_unreachable: bool,
    /// Whether a known modern era is believed without the probe.
    skip_known_probe: bool,
    /// Whether detection pauses until the timer fires.
    is_backing_off: bool,
    /// The errors of earlier steps, each of which led to another step.
    failed_steps: Vec<ConnectError>,
    /// The error of the current step's last attempt, if the step is retried.
    last_error: Option<ConnectError>,
    has_started_over: bool,
    known_era_dropped: bool,
    has_redetected: bool,
    timer: Option<Instant>,
    /// The duration for which the timer was set.
    timer_duration: Duration,
    deadline: Option<Instant>,
    /// When the deadlines of detection were suspended, because its exchange is parked.
    paused_since: Option<Instant>,
    /// Whether the server's replies have proven the detected or remembered era.
    is_era_proven: bool,
}

impl HttpEraDetection {
    /// Creates a detection; `seed` determines the jitter of the delays between attempts.
    pub(super) fn new(config: &ClientConfig, seed: u64, backoff: Backoff) -> Self {
        Self {
            backoff: Backoff { attempts: backoff.attempts.min(MAX_RETRIES), ..backoff },
            policy: config.era_policy,
            known_era: config.known_era,
            capabilities: config.capabilities.clone(),
            tolerate: config.tolerate_unknown_version,
            strictness: config.strictness,
            timeouts: config.connect,
            rng: SplitMix64::new(seed),
            step: HttpDetectStep::Idle,
            probes: 0,
            probed_version: Revision::LATEST,
            probe_was_unknown: false,
            handshake_version_chosen: false,
            leniency: None,
            retries: 0,
            retry_unreachable: false,
            skip_known_probe: false,
            is_backing_off: false,
            failed_steps: Vec::new(),
            last_error: None,
            has_started_over: false,
            known_era_dropped: false,
            has_redetected: false,
            timer: None,
            timer_duration: Duration::ZERO,
            deadline: None,
            paused_since: None,
            is_era_proven: false,
        }
    }

    /// Sets whether an unreachable host is retried from the first attempt on.
    pub(super) fn retry_unreachable(mut self, retry: bool) -> Self {
        self.retry_unreachable = retry;
        self
    }

    /// Sets whether a known modern era is believed without the probe.
    pub(super) fn skip_known_probe(mut self, skip: bool) -> Self {
        self.skip_known_probe = skip;
        self
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; `None` while detection is paused.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = [self.timer, self.deadline].into_iter().flatten().min();
        deadline.filter(|_| !self.is_paused())
    }

    /// Returns whether a known era was dropped since the last call.
    pub(super) fn take_known_era_dropped(&mut self) -> bool {
        core::mem::take(&mut self.known_era_dropped)
    }

    /// Takes the tolerated deviation that was not reported yet.
    pub(super) fn take_leniency(&mut self) -> Option<Leniency> {
        self.leniency.take()
    }

    // --- Start ---

    /// Starts detection.
    pub(super) fn begin(&mut self, now: Instant) -> HttpDetectAction {
        if !matches!(self.step, HttpDetectStep::Idle) {
            return HttpDetectAction::Wait;
        }
        self.deadline = Some(now + self.timeouts.total);
        match (self.policy, self.known_era) {
            (EraPolicy::Auto, Some(KnownEra { era: Era::Legacy, version, .. })) => {
                self.start_handshake(now, version, HandshakeTarget::Endpoint, HandshakeReason::KnownEra)
            }
            (EraPolicy::LegacyOnly, Some(KnownEra { era: Era::Legacy, version, .. })) => {
                self.start_handshake(now, version, HandshakeTarget::Endpoint, HandshakeReason::Detection)
            }
            (EraPolicy::LegacyOnly, _) => self.start_handshake(
                now,
                Revision::LATEST_LEGACY,
                HandshakeTarget::Endpoint,
                HandshakeReason::Detection,
            ),
            //= C2.2 "Remember the era/version result"
            (EraPolicy::Auto | EraPolicy::ModernOnly, Some(KnownEra { era: Era::Modern, version, .. }))
                if self.skip_known_probe =>
            {
                self.finish(version, HandshakeTarget::Endpoint, None)
            }
            (EraPolicy::Auto | EraPolicy::ModernOnly, _) => self.start_probe(now, Revision::LATEST, false),
        }
    }

    /// Repeats the handshake at the negotiated version, after a lost session or a reopened HTTP+SSE stream.
    pub(super) fn repeat_handshake(&mut self, now: Instant, version: Revision) -> HttpDetectAction {
        let way = match self.step {
            HttpDetectStep::Detected { era: Era::Legacy, target: way } => {
                self.restart(now);
                self.has_started_over = false;
                way
            }
            HttpDetectStep::Handshake { reason: HandshakeReason::LostSession, target: way, .. } => way,
            // The previous handshake ran beside another event stream.
            HttpDetectStep::Failed => {
                self.restart(now);
                HandshakeTarget::SseEndpoint
            }
            _ => return HttpDetectAction::Wait,
        };
        self.start_handshake(now, version, way, HandshakeReason::LostSession)
    }

    /// Restarts detection after a server with an unproven modern era answered in a way no modern server does.
    ///
    /// The second time, detection fails: the server supports neither era.
    pub(super) fn redetect(&mut self, now: Instant) -> HttpDetectAction {
        if !matches!(self.step, HttpDetectStep::Detected { era: Era::Modern, .. }) {
            return HttpDetectAction::Wait;
        }
        if core::mem::replace(&mut self.has_redetected, true) {
            return self.fail(ConnectError::Unexpected {
                during: "the first request",
                reason: "it answers neither as a modern server nor as a legacy one".into(),
            });
        }
        self.has_started_over = true;
        self.known_era = None;
        self.known_era_dropped = true;
        self.restart(now);
        self.start_probe(now, Revision::LATEST, false)
    }

    fn restart(&mut self, now: Instant) {
        self.deadline = Some(now + self.timeouts.total);
        self.probes = 0;
        self.probe_was_unknown = false;
        self.handshake_version_chosen = false;
        self.failed_steps.clear();
    }

    // --- Inputs ---

    /// Makes an unreachable host a temporary failure if the server was reached before: it is most likely restarting.
    fn soften_unreachable(&mut self, reply: Reply) -> Reply {
        match reply {
            Reply::Unreachable { detail } if self.retry_unreachable => {
                Reply::Failed { detail, retry_after: None }
            }
            Reply::Unreachable { .. } | Reply::Failed { .. } => reply,
            Reply::Result { .. } | Reply::Error { .. } | Reply::Other(_) => {
                self.retry_unreachable = true;
                reply
            }
        }
    }

    /// Handles the outcome of a probe.
    pub(super) fn handle_probe(&mut self, now: Instant, reply: Reply) -> HttpDetectAction {
        let reply = self.soften_unreachable(reply);
        let HttpDetectStep::Probing { version: asked, repeated } = self.step else {
            return HttpDetectAction::Wait;
        };
        match reply {
            Reply::Result { status: 200..=299, ref result } => {
                if let Some(discovered) = handshake::read_discover(result) {
                    return self.finish_discovered(now, discovered);
                }
            }
            Reply::Error { ref error, .. } if is_modern(error.code) => {
                return self.handle_modern_error(now, asked, repeated, error.clone());
            }
            _ => {}
        }
        let seen = UnexpectedReply::new(PROBE, reply);
        match seen.class {
            ReplyClass::Temporary(pause) => self.back_off(now, seen.error, pause),
            ReplyClass::Forbidden => self.fail(seen.error),
            ReplyClass::NotUnderstood | ReplyClass::NoEndpoint { .. } => {
                self.probe_was_unknown =
                    matches!(seen.class, ReplyClass::NoEndpoint { unknown_method: true });
                self.handle_not_modern(now, seen.error)
            }
        }
    }

    fn handle_modern_error(
        &mut self,
        now: Instant,
        asked: Revision,
        repeated: bool,
        error: ErrorObject,
    ) -> HttpDetectAction {
        if error.code == code::HEADER_MISMATCH {
            return match repeated {
                true => self.fail(ConnectError::HeadersChanged { error }),
                false => self.start_probe(now, asked, true),
            };
        }
        let sent = (asked, repeated);
        match handshake::version_after_probe_error(self.policy, &self.capabilities, sent, &error) {
            Ok(version) if version.era() == Era::Modern => self.start_probe(now, version, version == asked),
            Ok(version) => {
                self.handshake_version_chosen = true;
                self.failed_steps.push(ConnectError::Refused { during: PROBE, error });
                self.start_handshake(now, version, HandshakeTarget::Endpoint, HandshakeReason::Detection)
            }
            Err(error) => self.fail(error),
        }
    }

    /// Handles the outcome of the handshake.
    ///
    /// If the answer arrives on an HTTP+SSE stream, the outcome of the POST itself is passed only if it failed.
    pub(super) fn handle_initialize(&mut self, now: Instant, reply: Reply) -> HttpDetectAction {
        let reply = self.soften_unreachable(reply);
        let HttpDetectStep::Handshake { version: asked, target: way, reason: lead } = self.step else {
            return HttpDetectAction::Wait;
        };
        match reply {
            Reply::Result { status: 200..=299, ref result } => {
                if let Some(initialized) = handshake::read_initialize(result) {
                    return self.finish_initialized(way, initialized);
                }
            }
            Reply::Error { ref error, .. } if is_modern(error.code) => {
                return self.handle_modern_server(now, way, lead, error.clone());
            }
            _ => {}
        }
        let alternative = match &reply {
            Reply::Error { error, .. }
                if self.strictness == Strictness::Lenient && !self.handshake_version_chosen =>
            {
                handshake::alternative_version(error.data.as_ref(), asked)
            }
            _ => None,
        };
        let seen = UnexpectedReply::new(INITIALIZE, reply);
        if let Some(offered) = alternative
            && matches!(seen.class, ReplyClass::NotUnderstood | ReplyClass::NoEndpoint { .. })
        {
            self.handshake_version_chosen = true;
            self.leniency = Some(Leniency::VersionRetried { refused: asked, offered });
            self.failed_steps.push(seen.error);
            return self.start_handshake(now, offered, way, lead);
        }
        match seen.class {
            ReplyClass::Temporary(pause) if way == HandshakeTarget::Endpoint => {
                self.back_off(now, seen.error, pause)
            }
            ReplyClass::NoEndpoint { unknown_method: true }
                if self.probe_was_unknown && self.policy == EraPolicy::Auto =>
            {
                self.finish(self.probed_version, HandshakeTarget::Endpoint, None)
            }
            ReplyClass::NoEndpoint { .. }
                if way == HandshakeTarget::Endpoint && lead != HandshakeReason::LostSession =>
            {
                self.failed_steps.push(seen.error);
                self.enter_step(HttpDetectStep::EventStream { version: asked, reason: lead });
                HttpDetectAction::OpenEventStream
            }
            ReplyClass::NotUnderstood | ReplyClass::NoEndpoint { .. } => {
                self.handle_refused(now, lead, seen.error)
            }
            ReplyClass::Temporary(_) | ReplyClass::Forbidden => self.fail(seen.error),
        }
    }

    /// Handles a handshake answered with an error that only modern servers use.
    fn handle_modern_server(
        &mut self,
        now: Instant,
        way: HandshakeTarget,
        lead: HandshakeReason,
        error: ErrorObject,
    ) -> HttpDetectAction {
        let refusal = |error| ConnectError::Refused { during: INITIALIZE, error };
        if lead != HandshakeReason::Detection && self.policy == EraPolicy::Auto && !self.has_started_over {
            return self.start_over(now, refusal(error));
        }
        let may_be_modern = self.policy == EraPolicy::Auto && way == HandshakeTarget::Endpoint;
        match error.code {
            code::HEADER_MISMATCH if may_be_modern => {
                self.finish(self.probed_version, HandshakeTarget::Endpoint, None)
            }
            code::UNSUPPORTED_PROTOCOL_VERSION if !self.handshake_version_chosen => {
                let Some(versions) = handshake::offered_versions(error.data.as_ref()) else {
                    return self.fail(refusal(error));
                };
                self.handshake_version_chosen = true;
                match self.policy.choose_version(&versions) {
                    Some(version) if version.era() == Era::Legacy => {
                        self.start_handshake(now, version, way, lead)
                    }
                    Some(version) if may_be_modern => self.finish(version, HandshakeTarget::Endpoint, None),
                    Some(_) => self.fail(refusal(error)),
                    None => self.fail_no_common_version(versions),
                }
            }
            _ => self.fail(refusal(error)),
        }
    }

    /// Runs the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> HttpDetectAction {
        let Some(during) = self.current_step().map(ConnectStep::as_str) else {
            return HttpDetectAction::Wait;
        };
        if self.deadline.is_some_and(|end| end <= now) {
            let last = self.last_error.take().map(Box::new);
            return self.fail(ConnectError::NotReady { during, within: self.timeouts.total, last });
        }
        if self.timer.is_none_or(|timer| timer > now) {
            return HttpDetectAction::Wait;
        }
        self.timer = None;
        let late = ConnectError::TimedOut { during, after: self.timer_duration };
        match self.step {
            HttpDetectStep::Probing { version: asked, .. } if self.is_backing_off => {
                self.set_timer(now, self.timeouts.probe_http);
                HttpDetectAction::Probe(asked)
            }
            HttpDetectStep::Handshake { version: asked, .. } if self.is_backing_off => {
                self.set_timer(now, self.timeouts.initialize_http);
                HttpDetectAction::Initialize(asked)
            }
            HttpDetectStep::Handshake { target: HandshakeTarget::SseEndpoint, .. } => self.fail(late),
            _ => self.back_off(now, late, None),
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
        self.timer = self.timer.map(|timer| timer + pause);
        self.deadline = self.deadline.map(|end| end + pause);
        true
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    // --- Proof of the era ---

    /// Sets whether the server has proven its era: a server remembered as modern may have changed.
    pub(super) fn set_era_proven(&mut self, proven: bool) {
        self.is_era_proven = proven;
    }

    pub(super) fn is_era_proven(&self) -> bool {
        self.is_era_proven
    }

    // --- Getters ---

    /// Returns the current step.
    fn current_step(&self) -> Option<ConnectStep> {
        match self.step {
            HttpDetectStep::Probing { .. } => Some(ConnectStep::Probe),
            HttpDetectStep::Handshake { .. } => Some(ConnectStep::Initialize),
            HttpDetectStep::EventStream { .. } => Some(ConnectStep::EventStream),
            HttpDetectStep::Idle | HttpDetectStep::Detected { .. } | HttpDetectStep::Failed => None,
        }
    }

    /// Returns a progress report on the current step.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let until = |instant: Instant| instant.saturating_since(now);
        let mut progress = ConnectProgress::new(self.current_step()?);
        progress.retry = self.retries;
        progress.pause = self.timer.filter(|_| self.is_backing_off).map(until);
        progress.reason = self.last_error.as_ref().or(self.failed_steps.last()).cloned().map(Box::new);
        progress.remaining = self.deadline.map(until);
        Some(progress)
    }
}
