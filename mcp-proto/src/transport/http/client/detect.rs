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

mod reply;
mod steps;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::client::handshake::{self, DiscoverAnswer, ServerDescription};
use crate::peer::client::{
    ClientConfig, ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, EraPolicy, KnownEra,
    ServerInfo,
};
use crate::peer::{Conduct, Leniency};
use crate::rpc::{ErrorObject, code};
use crate::schema::{ClientCapabilities, Era, Json, Revision};

use super::config::{Backoff, Chance};

pub(super) use reply::Reply;
use reply::{Meaning, Seen, is_modern};

const PROBE: &str = ConnectStep::Probe.as_str();
const INITIALIZE: &str = ConnectStep::Initialize.as_str();
const EVENTS: &str = ConnectStep::EventStream.as_str();
/// More answers of "ask again" than any honest server has use for.
const MOST_PROBES: u8 = 3;
/// What may be over by the next attempt is tried again this often: a server that restarts, or is asked too much, is
/// back within seconds; a person who mistyped an address should not wait for longer.
const MOST_RETRIES: u32 = 3;

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Act {
    /// Nothing yet.
    Wait,
    /// Post `server/discover` with this version.
    Probe(Revision),
    /// Post `initialize` with this version.
    Initialize(Revision),
    /// Get the stream of events of HTTP+SSE.
    OpenEvents,
    /// Go on with this server.
    Settle { server: Box<ServerInfo>, verdict: KnownEra },
    /// Give up.
    Fail(ConnectError),
}

/// Why the handshake came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// The probe, or the mode, led to it.
    Detection,
    /// A verdict of an earlier connection.
    Verdict,
    /// The server has forgotten the session.
    LostSession,
}

/// Where the handshake is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Endpoint,
    /// Where the stream of events said; the answer comes on that stream.
    BesideEvents,
}

#[derive(Debug)]
enum Step {
    /// Nothing has been asked yet.
    Idle,
    Probing {
        asked: Revision,
        repeated: bool,
    },
    Handshake {
        asked: Revision,
        way: Way,
        lead: Lead,
    },
    Events {
        asked: Revision,
        lead: Lead,
    },
    Settled {
        era: Era,
        way: Way,
    },
    Failed,
}

/// The detection of one server.
#[derive(Debug)]
pub(super) struct Detect {
    mode: EraPolicy,
    verdict: Option<KnownEra>,
    capabilities: ClientCapabilities,
    tolerate: bool,
    conduct: Conduct,
    timeouts: ConnectTimeouts,
    chance: Chance,
    step: Step,
    probes: u8,
    /// The version that was probed last.
    modern: Revision,
    /// Whether the probe got 404 and -32601, as from a modern server that lacks it.
    probe_unknown: bool,
    /// Whether a list of versions has already chosen the version of the handshake.
    chosen: bool,
    /// What was tolerated and is not reported yet.
    leniency: Option<Leniency>,
    /// How often the present step was tried again.
    retries: u32,
    backoff: Backoff,
    /// Whether a host that can not be reached is tried again. Once it was reached, it is.
    retry_unreachable: bool,
    /// Whether nothing is tried until the timer strikes.
    resting: bool,
    /// How each step ended that led to another one.
    tried: Vec<ConnectError>,
    /// How the last attempt at the present step ended, if it is made again.
    last: Option<ConnectError>,
    started_over: bool,
    verdict_dropped: bool,
    forgotten: bool,
    timer: Option<Instant>,
    /// How long the timer was set for.
    patience: Duration,
    end: Option<Instant>,
}

impl Detect {
    /// `seed` is what the pauses between attempts depend on.
    pub(super) fn new(config: &ClientConfig, seed: u64, backoff: Backoff) -> Self {
        Self {
            backoff: Backoff { attempts: backoff.attempts.min(MOST_RETRIES), ..backoff },
            mode: config.era_policy,
            verdict: config.known_era,
            capabilities: config.capabilities.clone(),
            tolerate: config.tolerate_unknown_version,
            conduct: config.conduct,
            timeouts: config.connect,
            chance: Chance::new(seed),
            step: Step::Idle,
            probes: 0,
            modern: Revision::LATEST,
            probe_unknown: false,
            chosen: false,
            leniency: None,
            retries: 0,
            retry_unreachable: false,
            resting: false,
            tried: Vec::new(),
            last: None,
            started_over: false,
            verdict_dropped: false,
            forgotten: false,
            timer: None,
            patience: Duration::ZERO,
            end: None,
        }
    }

    /// Whether a host that can not be reached is tried again from the beginning.
    pub(super) fn retry_unreachable(mut self, retry: bool) -> Self {
        self.retry_unreachable = retry;
        self
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.timer, self.end].into_iter().flatten().min()
    }

    /// Whether a verdict was dropped since this was last asked.
    pub(super) fn take_verdict_dropped(&mut self) -> bool {
        core::mem::take(&mut self.verdict_dropped)
    }

    /// The leniency that was not reported yet.
    pub(super) fn take_leniency(&mut self) -> Option<Leniency> {
        self.leniency.take()
    }

    // --- Beginnings ---

    /// Detection begins.
    pub(super) fn begin(&mut self, now: Instant) -> Act {
        if !matches!(self.step, Step::Idle) {
            return Act::Wait;
        }
        self.end = Some(now + self.timeouts.total);
        match (self.mode, self.verdict) {
            (EraPolicy::Auto, Some(KnownEra { era: Era::Legacy, version, .. })) => {
                self.handshake(now, version, Way::Endpoint, Lead::Verdict)
            }
            (EraPolicy::LegacyOnly, Some(KnownEra { era: Era::Legacy, version, .. })) => {
                self.handshake(now, version, Way::Endpoint, Lead::Detection)
            }
            (EraPolicy::LegacyOnly, _) => {
                self.handshake(now, Revision::LATEST_LEGACY, Way::Endpoint, Lead::Detection)
            }
            (EraPolicy::Auto | EraPolicy::ModernOnly, _) => self.probe(now, Revision::LATEST, false),
        }
    }

    /// A legacy server has forgotten the session, or its stream of events was opened anew: the handshake, at the
    /// version that was agreed on.
    pub(super) fn renew(&mut self, now: Instant, version: Revision) -> Act {
        let way = match self.step {
            Step::Settled { era: Era::Legacy, way } => {
                self.restart(now);
                self.started_over = false;
                way
            }
            Step::Handshake { lead: Lead::LostSession, way, .. } => way,
            // That was beside another stream of events.
            Step::Failed => {
                self.restart(now);
                Way::BesideEvents
            }
            _ => return Act::Wait,
        };
        self.handshake(now, version, way, Lead::LostSession)
    }

    /// A server that was taken for modern, and has not shown yet that it is, answers as if it were none: detection runs
    /// from the start. The second time it is none that this client can speak to.
    pub(super) fn forget(&mut self, now: Instant) -> Act {
        if !matches!(self.step, Step::Settled { era: Era::Modern, .. }) {
            return Act::Wait;
        }
        if core::mem::replace(&mut self.forgotten, true) {
            return self.fail(ConnectError::Unexpected {
                during: "the first request",
                reason: "it answers neither as a modern server nor as a legacy one".into(),
            });
        }
        self.started_over = true;
        self.verdict = None;
        self.verdict_dropped = true;
        self.restart(now);
        self.probe(now, Revision::LATEST, false)
    }

    fn restart(&mut self, now: Instant) {
        self.end = Some(now + self.timeouts.total);
        self.probes = 0;
        self.probe_unknown = false;
        self.chosen = false;
        self.tried.clear();
    }

    // --- Inputs ---

    /// A server that was reached before is on its way back, most likely.
    fn weigh(&mut self, reply: Reply) -> Reply {
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
    pub(super) fn handle_probe(&mut self, now: Instant, reply: Reply) -> Act {
        let reply = self.weigh(reply);
        let Step::Probing { asked, repeated } = self.step else { return Act::Wait };
        match reply {
            Reply::Result { status: 200..=299, ref result } => {
                if let Some(discovered) = handshake::read_discover(result) {
                    return self.settle_discovered(now, discovered);
                }
            }
            Reply::Error { ref error, .. } if is_modern(error.code) => {
                return self.handle_modern_error(now, asked, repeated, error.clone());
            }
            _ => {}
        }
        let seen = Seen::new(PROBE, reply);
        match seen.meaning {
            Meaning::Temporary(pause) => self.rest(now, seen.error, pause),
            Meaning::Barred => self.fail(seen.error),
            Meaning::NotUnderstood | Meaning::NoEndpoint { .. } => {
                self.probe_unknown = matches!(seen.meaning, Meaning::NoEndpoint { unknown_method: true });
                self.not_modern(now, seen.error)
            }
        }
    }

    fn handle_modern_error(
        &mut self,
        now: Instant,
        asked: Revision,
        repeated: bool,
        error: ErrorObject,
    ) -> Act {
        match error.code {
            code::UNSUPPORTED_PROTOCOL_VERSION => {
                let Some(versions) = handshake::offered_versions(error.data.as_ref()) else {
                    return self.fail(ConnectError::Refused { during: PROBE, error });
                };
                if versions.iter().any(|version| version == asked.as_str()) {
                    if repeated {
                        return self.fail(ConnectError::Refused { during: PROBE, error });
                    }
                    return self.probe(now, asked, true);
                }
                match self.choose(&versions) {
                    Some(version) if version.era() == Era::Modern => self.probe(now, version, false),
                    Some(version) => {
                        self.chosen = true;
                        self.tried.push(ConnectError::Refused { during: PROBE, error });
                        self.handshake(now, version, Way::Endpoint, Lead::Detection)
                    }
                    None => self.no_common_version(versions),
                }
            }
            code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                match handshake::required_capabilities(error.data.as_ref()) {
                    Some((names, _)) if !repeated && names.iter().all(|name| self.has_capability(name)) => {
                        self.probe(now, asked, true)
                    }
                    Some((_, required)) => self.fail(ConnectError::MissingCapabilities { required }),
                    None => self.fail(ConnectError::Refused { during: PROBE, error }),
                }
            }
            _ if repeated => self.fail(ConnectError::HeadersChanged { error }),
            _ => self.probe(now, asked, true),
        }
    }

    /// What became of the handshake. Beside a stream of events the answer comes on that stream; of the POST itself only
    /// a failure is told.
    pub(super) fn handle_initialize(&mut self, now: Instant, reply: Reply) -> Act {
        let reply = self.weigh(reply);
        let Step::Handshake { asked, way, lead } = self.step else { return Act::Wait };
        match reply {
            Reply::Result { status: 200..=299, ref result } => {
                if let Some(initialized) = handshake::read_initialize(result) {
                    return self.settle_initialized(asked, way, initialized);
                }
            }
            Reply::Error { ref error, .. } if is_modern(error.code) => {
                return self.handle_modern_server(now, way, lead, error.clone());
            }
            _ => {}
        }
        let alternative = match &reply {
            Reply::Error { error, .. } if self.conduct == Conduct::Lenient && !self.chosen => {
                handshake::alternative_version(error.data.as_ref(), asked)
            }
            _ => None,
        };
        let seen = Seen::new(INITIALIZE, reply);
        if let Some(offered) = alternative
            && matches!(seen.meaning, Meaning::NotUnderstood | Meaning::NoEndpoint { .. })
        {
            self.chosen = true;
            self.leniency = Some(Leniency::VersionRetried { refused: asked, offered });
            self.tried.push(seen.error);
            return self.handshake(now, offered, way, lead);
        }
        match seen.meaning {
            Meaning::Temporary(pause) if way == Way::Endpoint => self.rest(now, seen.error, pause),
            Meaning::NoEndpoint { unknown_method: true }
                if self.probe_unknown && self.mode == EraPolicy::Auto =>
            {
                self.settle(self.modern, Way::Endpoint, None)
            }
            Meaning::NoEndpoint { .. } if way == Way::Endpoint && lead != Lead::LostSession => {
                self.tried.push(seen.error);
                self.enter(Step::Events { asked, lead });
                Act::OpenEvents
            }
            Meaning::NotUnderstood | Meaning::NoEndpoint { .. } => self.refused(now, lead, seen.error),
            Meaning::Temporary(_) | Meaning::Barred => self.fail(seen.error),
        }
    }

    /// The handshake was answered by an error that only modern servers know.
    fn handle_modern_server(&mut self, now: Instant, way: Way, lead: Lead, error: ErrorObject) -> Act {
        let refusal = |error| ConnectError::Refused { during: INITIALIZE, error };
        if lead != Lead::Detection && self.mode == EraPolicy::Auto && !self.started_over {
            return self.start_over(now, refusal(error));
        }
        let may_be_modern = self.mode == EraPolicy::Auto && way == Way::Endpoint;
        match error.code {
            code::HEADER_MISMATCH if may_be_modern => self.settle(self.modern, Way::Endpoint, None),
            code::UNSUPPORTED_PROTOCOL_VERSION if !self.chosen => {
                let Some(versions) = handshake::offered_versions(error.data.as_ref()) else {
                    return self.fail(refusal(error));
                };
                self.chosen = true;
                match self.choose(&versions) {
                    Some(version) if version.era() == Era::Legacy => self.handshake(now, version, way, lead),
                    Some(version) if may_be_modern => self.settle(version, Way::Endpoint, None),
                    Some(_) => self.fail(refusal(error)),
                    None => self.no_common_version(versions),
                }
            }
            _ => self.fail(refusal(error)),
        }
    }

    /// The probe, or the handshake, was answered by an event stream that begins with `endpoint`: the server takes any
    /// request for the one that opens the stream of HTTP+SSE.
    pub(super) fn handle_endpoint(&mut self) -> Act {
        let (during, asked, lead) = match self.step {
            Step::Probing { .. } => (PROBE, Revision::LATEST_LEGACY, Lead::Detection),
            Step::Handshake { asked, way: Way::Endpoint, lead } if lead != Lead::LostSession => {
                (INITIALIZE, asked, lead)
            }
            _ => return Act::Wait,
        };
        self.retry_unreachable = true;
        let what = "it is the event stream of HTTP+SSE (2024-11-05)".into();
        let evidence = ConnectError::Unexpected { during, reason: what };
        if self.mode == EraPolicy::ModernOnly {
            return self.fail(ConnectError::LegacyServer { evidence: evidence.to_string() });
        }
        self.tried.push(evidence);
        self.enter(Step::Events { asked, lead });
        Act::OpenEvents
    }

    /// The stream of events has named where to post, or what became of it instead.
    pub(super) fn handle_events(&mut self, now: Instant, endpoint: Result<(), Reply>) -> Act {
        let (asked, lead) = match self.step {
            // The stream broke off, and was opened anew or not.
            Step::Events { asked, lead } | Step::Handshake { asked, way: Way::BesideEvents, lead } => {
                (asked, lead)
            }
            _ => return Act::Wait,
        };
        match endpoint {
            Ok(()) => self.handshake(now, asked, Way::BesideEvents, lead),
            Err(reply) => {
                let reply = self.weigh(reply);
                let seen = Seen::new(EVENTS, reply);
                match seen.meaning {
                    Meaning::NotUnderstood | Meaning::NoEndpoint { .. } => {
                        self.refused(now, lead, seen.error)
                    }
                    Meaning::Temporary(_) | Meaning::Barred => self.fail(seen.error),
                }
            }
        }
    }

    /// A timer may be due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Act {
        let Some(during) = self.step().map(ConnectStep::as_str) else { return Act::Wait };
        if self.end.is_some_and(|end| end <= now) {
            let last = self.last.take().map(Box::new);
            return self.fail(ConnectError::NotReady { during, within: self.timeouts.total, last });
        }
        if self.timer.is_none_or(|timer| timer > now) {
            return Act::Wait;
        }
        self.timer = None;
        let late = ConnectError::TimedOut { during, after: self.patience };
        match self.step {
            Step::Probing { asked, .. } if self.resting => {
                self.wait_for(now, self.timeouts.probe_http);
                Act::Probe(asked)
            }
            Step::Handshake { asked, .. } if self.resting => {
                self.wait_for(now, self.timeouts.initialize_http);
                Act::Initialize(asked)
            }
            Step::Handshake { way: Way::BesideEvents, .. } => self.fail(late),
            _ => self.rest(now, late, None),
        }
    }

    /// The server was not waited for, for so long.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.timer = self.timer.map(|timer| timer + by);
        self.end = self.end.map(|end| end + by);
    }

    // --- Getters ---

    /// The step under way.
    fn step(&self) -> Option<ConnectStep> {
        match self.step {
            Step::Probing { .. } => Some(ConnectStep::Probe),
            Step::Handshake { .. } => Some(ConnectStep::Initialize),
            Step::Events { .. } => Some(ConnectStep::EventStream),
            Step::Idle | Step::Settled { .. } | Step::Failed => None,
        }
    }

    /// A report on the present step.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let until = |instant: Instant| instant.saturating_since(now);
        let mut progress = ConnectProgress::new(self.step()?);
        progress.retry = self.retries;
        progress.pause = self.timer.filter(|_| self.resting).map(until);
        progress.reason = self.last.as_ref().or(self.tried.last()).cloned().map(Box::new);
        progress.remaining = self.end.map(until);
        Some(progress)
    }

    /// The versions that the mode allows, newest first.
    fn allowed(&self) -> impl Iterator<Item = Revision> {
        let (modern, legacy) = match self.mode {
            EraPolicy::Auto => (Revision::MODERN, Revision::LEGACY),
            EraPolicy::ModernOnly => (Revision::MODERN, [].as_slice()),
            EraPolicy::LegacyOnly => ([].as_slice(), Revision::LEGACY),
        };
        modern.iter().chain(legacy).copied()
    }

    fn choose(&self, versions: &[String]) -> Option<Revision> {
        self.allowed().find(|revision| versions.iter().any(|version| version == revision.as_str()))
    }

    fn has_capability(&self, name: &str) -> bool {
        let declared = Json::encode(&self.capabilities).ok();
        let map = declared.and_then(|json| json.decode::<BTreeMap<String, Json>>().ok());
        map.is_some_and(|map| map.contains_key(name))
    }
}
