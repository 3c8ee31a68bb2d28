//! Which era the server speaks: the one algorithm for HTTP, as a machine of its own.
//!
//! It has up to three things to try: the era probe, a POST of `server/discover`; the handshake, a POST of `initialize`;
//! and the stream of events of HTTP+SSE (2024-11-05), a GET, after which the handshake is posted where the stream says.
//! An error in a body belongs to the request of its exchange, whatever id it bears.
//!
//! | what comes | to the probe | to the handshake |
//! |---|---|---|
//! | 2xx and the right result | the newest common version: modern, or the handshake at a legacy one | legacy (modern, if it names a modern version) |
//! | any status, -32022 with a list | the probe or the handshake at the newest common version; the same version once more if it is in the list | modern, or the handshake at a legacy version, once |
//! | any status, -32022 without a list | failure | failure |
//! | any status, -32020 | once more, then failure: something changes the headers on the way | modern, at the version that was probed |
//! | any status, -32021 | once more if this client has what is required, otherwise failure | failure |
//! | no temporary or barring status, another error with a list of versions | as without the list | the handshake at the newest common legacy version, once |
//! | 2xx and anything else, or nothing | the handshake | failure |
//! | 404 and -32601 | the handshake | modern, if the probe got the same; otherwise the stream of events |
//! | 400, 404, 405 and anything else | the handshake | the stream of events |
//! | 401, 403, 407, 421, 451 | failure | failure |
//! | any other 4xx | the handshake | failure |
//! | 500, 501 and an error of JSON-RPC | the handshake | failure |
//! | 408, 425, 429, any other 5xx | again, up to three times, then failure | the same |
//! | no connection, a body that is cut, no answer in time | the same | the same |
//! | no connection, and none to be expected: the host is unknown, or refuses | failure, unless the host was reached before or the configuration says otherwise | the same |
//! | 2xx and an event stream that begins with `endpoint` | the stream of events | the same |
//! | 3xx that was not followed, any other status | failure | failure |
//!
//! | what comes | to the GET | to the handshake beside the stream of events |
//! |---|---|---|
//! | the `endpoint` event | the handshake | |
//! | an initialize result | | legacy, unless it names a modern version |
//! | -32022 with a list | | the handshake at a legacy version, once |
//! | anything else | failure | failure |
//!
//! Legacy is concluded only from a valid initialize result, modern only from a valid discovery result or an error that
//! only modern servers know. What may be over by the next attempt says nothing about the era: it never leads from the
//! probe to the handshake, or from there to the stream of events.
//!
//! A supplied verdict of legacy, and a session that is opened anew, begin with the handshake. If it is refused, or
//! answered by a modern error, the verdict is dropped, and detection runs once from the start. A modern verdict is put
//! to the proof by the probe, which brings the server's capabilities as well.
//!
//! The probe and `initialize` are never cancelled. The exchange of one that was not answered in time is better left
//! open: a late answer counts as long as the same step goes on.
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
use crate::peer::{Conduct, Leniency};
use crate::rpc::{ErrorObject, code};
use crate::schema::{ClientCapabilities, Era, Revision};

pub(super) use reply::Reply;
use reply::{ReplyClass, UnexpectedReply, is_modern};

const PROBE: &str = ConnectStep::Probe.as_str();
const INITIALIZE: &str = ConnectStep::Initialize.as_str();
const EVENT_STREAM: &str = ConnectStep::EventStream.as_str();
/// More answers of "ask again" than any honest server has use for.
const MAX_PROBES: u8 = 3;
/// What may be over by the next attempt is tried again this often: a server that restarts, or is asked too much, is
/// back within seconds; a person who mistyped an address should not wait for longer.
const MAX_RETRIES: u32 = 3;

/// What is to be done next.
#[derive(Debug)]
pub(super) enum HttpDetectAction {
    /// Nothing yet.
    Wait,
    /// Post `server/discover` with this version.
    Probe(Revision),
    /// Post `initialize` with this version.
    Initialize(Revision),
    /// Get the stream of events of HTTP+SSE.
    OpenEventStream,
    /// Go on with this server.
    Finish { server: Box<ServerInfo>, verdict: KnownEra },
    /// Give up.
    Fail(ConnectError),
}

/// Why the handshake came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeReason {
    /// The probe, or the mode, led to it.
    Detection,
    /// A verdict of an earlier connection.
    KnownEra,
    /// The server has forgotten the session.
    LostSession,
}

/// Where the handshake is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeTarget {
    Endpoint,
    /// Where the stream of events said; the answer comes on that stream.
    SseEndpoint,
}

#[derive(Debug)]
enum HttpDetectStep {
    /// Nothing has been asked yet.
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

/// The detection of one server.
#[derive(Debug)]
pub(super) struct HttpEraDetection {
    policy: EraPolicy,
    known_era: Option<KnownEra>,
    capabilities: ClientCapabilities,
    tolerate: bool,
    conduct: Conduct,
    timeouts: ConnectTimeouts,
    rng: SplitMix64,
    step: HttpDetectStep,
    probes: u8,
    /// The version that was probed last.
    probed_version: Revision,
    /// Whether the probe got 404 and -32601, as from a modern server that lacks it.
    probe_was_unknown: bool,
    /// Whether a list of versions has already chosen the version of the handshake.
    handshake_version_chosen: bool,
    /// What was tolerated and is not reported yet.
    leniency: Option<Leniency>,
    /// How often the present step was tried again.
    retries: u32,
    backoff: Backoff,
    /// Whether a host that can not be reached is tried again. Once it was reached, it is.
    retry_unreachable: bool,
    /// Whether nothing is tried until the timer strikes.
    is_backing_off: bool,
    /// How each step ended that led to another one.
    failed_steps: Vec<ConnectError>,
    /// How the last attempt at the present step ended, if it is made again.
    last_error: Option<ConnectError>,
    has_started_over: bool,
    known_era_dropped: bool,
    has_redetected: bool,
    timer: Option<Instant>,
    /// How long the timer was set for.
    timer_duration: Duration,
    deadline: Option<Instant>,
    /// Since when the time of detection stands still, because its exchange is parked.
    paused_since: Option<Instant>,
    /// Whether the server has shown itself to be of the era that was detected or remembered.
    is_era_proven: bool,
}

impl HttpEraDetection {
    /// `seed` is what the pauses between attempts depend on.
    pub(super) fn new(config: &ClientConfig, seed: u64, backoff: Backoff) -> Self {
        Self {
            backoff: Backoff { attempts: backoff.attempts.min(MAX_RETRIES), ..backoff },
            policy: config.era_policy,
            known_era: config.known_era,
            capabilities: config.capabilities.clone(),
            tolerate: config.tolerate_unknown_version,
            conduct: config.conduct,
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

    /// Whether a host that can not be reached is tried again from the beginning.
    pub(super) fn retry_unreachable(mut self, retry: bool) -> Self {
        self.retry_unreachable = retry;
        self
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; `None` while detection is paused.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = [self.timer, self.deadline].into_iter().flatten().min();
        deadline.filter(|_| !self.is_paused())
    }

    /// Whether a verdict was dropped since this was last asked.
    pub(super) fn take_known_era_dropped(&mut self) -> bool {
        core::mem::take(&mut self.known_era_dropped)
    }

    /// The leniency that was not reported yet.
    pub(super) fn take_leniency(&mut self) -> Option<Leniency> {
        self.leniency.take()
    }

    // --- Beginnings ---

    /// Detection begins.
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
            (EraPolicy::Auto | EraPolicy::ModernOnly, _) => self.start_probe(now, Revision::LATEST, false),
        }
    }

    /// A legacy server has forgotten the session, or its stream of events was opened anew: the handshake, at the
    /// version that was agreed on.
    pub(super) fn repeat_handshake(&mut self, now: Instant, version: Revision) -> HttpDetectAction {
        let way = match self.step {
            HttpDetectStep::Detected { era: Era::Legacy, target: way } => {
                self.restart(now);
                self.has_started_over = false;
                way
            }
            HttpDetectStep::Handshake { reason: HandshakeReason::LostSession, target: way, .. } => way,
            // That was beside another stream of events.
            HttpDetectStep::Failed => {
                self.restart(now);
                HandshakeTarget::SseEndpoint
            }
            _ => return HttpDetectAction::Wait,
        };
        self.start_handshake(now, version, way, HandshakeReason::LostSession)
    }

    /// A server that was taken for modern, and has not shown yet that it is, answers as if it were none: detection runs
    /// from the start. The second time it is none that this client can speak to.
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

    /// A server that was reached before is on its way back, most likely.
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

    /// What became of a probe.
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
        match error.code {
            code::UNSUPPORTED_PROTOCOL_VERSION => {
                let Some(versions) = handshake::offered_versions(error.data.as_ref()) else {
                    return self.fail(ConnectError::Refused { during: PROBE, error });
                };
                if versions.iter().any(|version| version == asked.as_str()) {
                    if repeated {
                        return self.fail(ConnectError::Refused { during: PROBE, error });
                    }
                    return self.start_probe(now, asked, true);
                }
                match self.policy.choose_version(&versions) {
                    Some(version) if version.era() == Era::Modern => self.start_probe(now, version, false),
                    Some(version) => {
                        self.handshake_version_chosen = true;
                        self.failed_steps.push(ConnectError::Refused { during: PROBE, error });
                        self.start_handshake(
                            now,
                            version,
                            HandshakeTarget::Endpoint,
                            HandshakeReason::Detection,
                        )
                    }
                    None => self.fail_no_common_version(versions),
                }
            }
            code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                match handshake::required_capabilities(error.data.as_ref()) {
                    Some((names, _)) if !repeated && handshake::declares_all(&self.capabilities, &names) => {
                        self.start_probe(now, asked, true)
                    }
                    Some((_, required)) => self.fail(ConnectError::MissingCapabilities { required }),
                    None => self.fail(ConnectError::Refused { during: PROBE, error }),
                }
            }
            _ if repeated => self.fail(ConnectError::HeadersChanged { error }),
            _ => self.start_probe(now, asked, true),
        }
    }

    /// What became of the handshake. Beside a stream of events the answer comes on that stream; of the POST itself only
    /// a failure is told.
    pub(super) fn handle_initialize(&mut self, now: Instant, reply: Reply) -> HttpDetectAction {
        let reply = self.soften_unreachable(reply);
        let HttpDetectStep::Handshake { version: asked, target: way, reason: lead } = self.step else {
            return HttpDetectAction::Wait;
        };
        match reply {
            Reply::Result { status: 200..=299, ref result } => {
                if let Some(initialized) = handshake::read_initialize(result) {
                    return self.finish_initialized(asked, way, initialized);
                }
            }
            Reply::Error { ref error, .. } if is_modern(error.code) => {
                return self.handle_modern_server(now, way, lead, error.clone());
            }
            _ => {}
        }
        let alternative = match &reply {
            Reply::Error { error, .. }
                if self.conduct == Conduct::Lenient && !self.handshake_version_chosen =>
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

    /// The handshake was answered by an error that only modern servers know.
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

    /// A timer may be due.
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

    /// Stops the time of detection: its exchange is parked until the client is authorized.
    pub(super) fn pause(&mut self, now: Instant) {
        self.paused_since.get_or_insert(now);
    }

    /// Lets the time of detection go on; returns whether it stood still.
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

    /// Notes whether the server has shown itself to be of the era that was detected: one that is only remembered to be
    /// modern may be another by now.
    pub(super) fn set_era_proven(&mut self, proven: bool) {
        self.is_era_proven = proven;
    }

    pub(super) fn is_era_proven(&self) -> bool {
        self.is_era_proven
    }

    // --- Getters ---

    /// The step under way.
    fn current_step(&self) -> Option<ConnectStep> {
        match self.step {
            HttpDetectStep::Probing { .. } => Some(ConnectStep::Probe),
            HttpDetectStep::Handshake { .. } => Some(ConnectStep::Initialize),
            HttpDetectStep::EventStream { .. } => Some(ConnectStep::EventStream),
            HttpDetectStep::Idle | HttpDetectStep::Detected { .. } | HttpDetectStep::Failed => None,
        }
    }

    /// A report on the present step.
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
