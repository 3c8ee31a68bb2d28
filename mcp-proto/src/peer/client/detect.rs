//! Detection of the server's era on byte streams, as a state machine of its own.
//!
//! | step | input | next |
//! |---|---|---|
//! | probing | a discovery result | the newest common version: modern, or the handshake at a legacy one |
//! | probing | -32022 with a list | the same by that list; the same version once more if it is in the list |
//! | probing | -32021 | once more if this client has the required capabilities, otherwise failure |
//! | probing | -32020 | modern |
//! | probing | any other answer | the handshake, on the same link |
//! | probing | no answer in time | the handshake beside the probe, on the same link; modern-only mode keeps waiting |
//! | probing | the end of the link | a fresh link, and the handshake first on it |
//! | handshake | an initialize result | legacy (modern, if it names a modern version) |
//! | handshake | an initialize result, and the probe is not answered yet | legacy; where the link can be reopened, not before the probe's answer or a short wait |
//! | handshake | a discovery result | stored until the handshake is answered; modern if that takes long |
//! | handshake | a discovery result and an initialize result, in either order | a fresh link, and only the probe on it, if there is time for another start; otherwise legacy |
//! | handshake | an error, with a discovery result stored or still to come | modern |
//! | handshake | -32022 with a list | the newest common version of the list, once |
//! | handshake | any other error with a list of versions | the handshake at the newest common legacy version, once |
//! | handshake | any other error, no answer in time, the end of the link | a fresh link once, then failure |
//!
//! The probe and `initialize` are never cancelled. Legacy is concluded only from a valid initialize result, modern only
//! from a valid discovery result or an error that only modern servers know.
//!
//! A server that starts slowly finds both requests before it. One that answers both is modern, but its process serves
//! legacy from the `initialize` on that it accepted, and must not be sent modern requests: the modern era needs a
//! process that is never sent `initialize`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility>

mod both_eras;
mod links;
mod sent_requests;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::{Conduct, Leniency};
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{ClientCapabilities, Era, Revision};

use super::handshake::{self, DiscoverAnswer, InitializeAnswer, ServerDescription};
use super::{ClientConfig, ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, EraPolicy, KnownEra};
use links::LinkEnd;
use sent_requests::SentRequests;

pub(super) use sent_requests::HandshakeRequest;

const PROBE: &str = ConnectStep::Probe.as_str();
const INITIALIZE: &str = ConnectStep::Initialize.as_str();
/// The maximum number of probes: more than any honest server asks for.
const MAX_PROBES: u8 = 3;
/// How long to wait for the probe's answer once `initialize` was accepted: servers answer in the order of the requests,
/// or nearly so.
const ACCEPTED_GRACE: Duration = Duration::from_millis(500);

/// The next action of detection.
#[derive(Debug)]
pub(super) enum DetectAction {
    /// Wait for input.
    Wait,
    /// Send `server/discover` with this version.
    Probe(Revision),
    /// Send `initialize` with this version.
    Initialize(Revision),
    /// Open a fresh link.
    Reopen,
    /// Detection has succeeded: continue in this era.
    Finish { era: Era, revision: Revision, server: Option<Box<ServerDescription>> },
    /// Detection has failed.
    Fail(ConnectError),
}

/// The status of the probe during the handshake.
#[derive(Debug)]
enum ProbeStatus {
    NotSent,
    Outstanding,
    /// Answered, but not by a modern server.
    Refused,
    Answered(DiscoverAnswer),
}

#[derive(Debug)]
enum DetectStep {
    /// No link is open.
    Idle,
    Probing {
        asked: Revision,
        repeated: bool,
    },
    Handshake {
        asked: Revision,
        probe: ProbeStatus,
    },
    /// `initialize` was rejected, and the probe may still be answered.
    LateProbe {
        refusal: ErrorObject,
    },
    /// `initialize` was accepted, and the probe may still be answered.
    Accepted {
        asked: Revision,
        initialized: InitializeAnswer,
    },
    Finished,
}

/// Why the present link was opened, which determines the first request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkReason {
    /// The first link: the probe.
    First,
    /// The server is known to be modern, and the previous link served legacy already: the probe at this version alone.
    Modern(Revision),
    /// The previous link ended: the handshake.
    Handshake,
}

/// Era detection of one connection.
#[derive(Debug)]
pub(super) struct EraDetection {
    era_policy: EraPolicy,
    known_era: Option<KnownEra>,
    capabilities: ClientCapabilities,
    can_reopen: bool,
    tolerates_unknown_version: bool,
    conduct: Conduct,
    timeouts: ConnectTimeouts,
    step: DetectStep,
    probes: u8,
    opening: LinkReason,
    /// When the present link was opened.
    opened_at: Option<Instant>,
    /// The errors of the steps so far that led to another step.
    failed_attempts: Vec<ConnectError>,
    /// Whether an error has already chosen the version of the handshake.
    version_chosen: bool,
    /// A tolerated deviation that is not reported yet.
    leniency: Option<Leniency>,
    /// The modern version of a server that answered the probe, and then accepted `initialize`.
    also_modern: Option<Revision>,
    /// Whether the configured `KnownEra` proved wrong.
    pub(super) known_era_wrong: bool,
    timer: Option<Instant>,
    /// The duration that the timer was set for.
    timeout: Duration,
    total_deadline: Option<Instant>,
    pub(super) requests: SentRequests,
}

impl EraDetection {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self {
            era_policy: config.era_policy,
            known_era: config.known_era,
            capabilities: config.capabilities.clone(),
            can_reopen: config.can_reopen,
            tolerates_unknown_version: config.tolerate_unknown_version,
            conduct: config.conduct,
            timeouts: config.connect,
            step: DetectStep::Idle,
            probes: 0,
            opening: LinkReason::First,
            opened_at: None,
            failed_attempts: Vec::new(),
            version_chosen: false,
            leniency: None,
            also_modern: None,
            known_era_wrong: false,
            timer: None,
            timeout: Duration::ZERO,
            total_deadline: None,
            requests: SentRequests::default(),
        }
    }

    // --- Inputs ---

    /// Handles the answer to a request.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        request: HandshakeRequest,
        answer: Result<Raw, ErrorObject>,
    ) -> DetectAction {
        match request {
            HandshakeRequest::Probe => self.handle_probe(now, answer),
            HandshakeRequest::Initialize => self.handle_initialize(now, answer),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match (self.timer, self.total_deadline) {
            (Some(timer), Some(end)) => Some(timer.min(end)),
            (timer, end) => timer.or(end),
        }
    }

    /// Whether the era probe made the server exit.
    pub(super) fn probe_breaks_server(&self) -> bool {
        self.opening == LinkReason::Handshake
            || self.known_era.is_some_and(|verdict| verdict.probe_breaks_server)
    }

    /// The modern version to start with next time, for a server that speaks both eras.
    pub(super) fn also_modern(&self) -> Option<Revision> {
        self.also_modern
    }

    /// Takes the tolerated deviation that is not reported yet.
    pub(super) fn take_leniency(&mut self) -> Option<Leniency> {
        self.leniency.take()
    }

    /// The progress of the present step; `None` between steps.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let step = match self.step {
            DetectStep::Probing { .. } | DetectStep::LateProbe { .. } => ConnectStep::Probe,
            DetectStep::Handshake { .. } | DetectStep::Accepted { .. } => ConnectStep::Initialize,
            DetectStep::Idle | DetectStep::Finished => return None,
        };
        let remaining = self.total_deadline.map(|end| end.saturating_since(now));
        Some(ConnectProgress { remaining, ..self.report(step) })
    }

    /// The progress while the link is being opened.
    pub(super) fn opening_progress(&self) -> ConnectProgress {
        self.report(ConnectStep::Open)
    }

    fn report(&self, step: ConnectStep) -> ConnectProgress {
        let reason = self.failed_attempts.last().cloned().map(Box::new);
        ConnectProgress { reason, ..ConnectProgress::new(step) }
    }

    /// Starts the total timeout, when a link is requested or opened.
    pub(super) fn begin(&mut self, now: Instant) {
        self.total_deadline.get_or_insert(now + self.timeouts.total);
    }

    /// Handles the opening of a link.
    pub(super) fn handle_open(&mut self, now: Instant) -> DetectAction {
        self.opened_at = Some(now);
        if let LinkReason::Modern(version) = self.opening {
            return self.probe(now, version, false);
        }
        let remembered = self.known_era.map(|verdict| verdict.era);
        let handshake_first = self.opening == LinkReason::Handshake
            || self.era_policy == EraPolicy::LegacyOnly
            || (remembered == Some(Era::Legacy) && self.era_policy == EraPolicy::Auto);
        if handshake_first {
            let version = match self.known_era {
                Some(KnownEra { era: Era::Legacy, version, .. }) => version,
                _ => Revision::LATEST_LEGACY,
            };
            self.handshake(now, version, ProbeStatus::NotSent)
        } else {
            self.probe(now, Revision::LATEST, false)
        }
    }

    /// Handles the answer to the probe.
    fn handle_probe(&mut self, now: Instant, answer: Result<Raw, ErrorObject>) -> DetectAction {
        let discovered = match &answer {
            Ok(result) => handshake::read_discover(result),
            Err(_) => None,
        };
        match core::mem::replace(&mut self.step, DetectStep::Finished) {
            DetectStep::Probing { asked, repeated } => {
                self.handle_probe_answer(now, asked, repeated, answer, discovered)
            }
            DetectStep::Handshake { asked, .. } => {
                if discovered.is_some() {
                    // The server is up and reads: its answer to `initialize` arrives soon, if ever.
                    let soon = now + self.timeouts.probe_within_total();
                    self.timer = self.timer.map(|timer| timer.min(soon));
                }
                let probe = discovered.map_or(ProbeStatus::Refused, ProbeStatus::Answered);
                self.step = DetectStep::Handshake { asked, probe };
                DetectAction::Wait
            }
            DetectStep::Accepted { asked, initialized } => match discovered {
                Some(discovered) => self.handle_both_answered(now, asked, initialized, &discovered),
                None => self.finish_initialized(asked, initialized),
            },
            DetectStep::LateProbe { refusal } => match discovered {
                Some(discovered) => self.finish_discovered(now, discovered),
                None => self.replace_link(now, INITIALIZE, LinkEnd::Refused(refusal)),
            },
            step @ (DetectStep::Idle | DetectStep::Finished) => {
                self.step = step;
                DetectAction::Wait
            }
        }
    }

    fn handle_probe_answer(
        &mut self,
        now: Instant,
        asked: Revision,
        repeated: bool,
        answer: Result<Raw, ErrorObject>,
        discovered: Option<DiscoverAnswer>,
    ) -> DetectAction {
        if let Some(discovered) = discovered {
            return self.finish_discovered(now, discovered);
        }
        let error = match answer {
            Ok(result) => {
                let what = excerpt(result.as_str());
                return self.fall_back(
                    now,
                    ProbeStatus::Refused,
                    ConnectError::Unexpected { during: PROBE, reason: what },
                );
            }
            Err(error) => error,
        };
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
                match self.era_policy.choose_version(&versions) {
                    Some(version) if version.era() == Era::Modern => self.probe(now, version, false),
                    Some(version) => self.handshake(now, version, ProbeStatus::Refused),
                    None => self.no_common_version(versions),
                }
            }
            code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                match handshake::required_capabilities(error.data.as_ref()) {
                    Some((names, _)) if !repeated && handshake::declares_all(&self.capabilities, &names) => {
                        self.probe(now, asked, true)
                    }
                    Some((_, required)) => self.fail(ConnectError::MissingCapabilities { required }),
                    None => self.fail(ConnectError::Refused { during: PROBE, error }),
                }
            }
            code::HEADER_MISMATCH => self.finish(Era::Modern, asked, None),
            _ => self.fall_back(now, ProbeStatus::Refused, ConnectError::Refused { during: PROBE, error }),
        }
    }

    /// Handles the answer to `initialize`.
    fn handle_initialize(&mut self, now: Instant, answer: Result<Raw, ErrorObject>) -> DetectAction {
        let (asked, probe) = match core::mem::replace(&mut self.step, DetectStep::Finished) {
            DetectStep::Handshake { asked, probe } => (asked, probe),
            other => {
                self.step = other;
                return DetectAction::Wait;
            }
        };
        self.timer = None;
        let error = match answer {
            Ok(result) => return self.handle_initialize_result(now, asked, probe, &result),
            Err(error) => error,
        };
        let other_version = error.code == code::UNSUPPORTED_PROTOCOL_VERSION;
        if other_version
            && !self.version_chosen
            && let Some(act) = self.choose_after_refusal(now, &error, &probe)
        {
            return act;
        }
        if !other_version
            && !self.version_chosen
            && !matches!(probe, ProbeStatus::Answered(_))
            && self.conduct == Conduct::Lenient
            && let Some(offered) = handshake::alternative_version(error.data.as_ref(), asked)
        {
            self.version_chosen = true;
            self.leniency = Some(Leniency::VersionRetried { refused: asked, offered });
            return self.handshake(now, offered, probe);
        }
        match probe {
            ProbeStatus::Answered(discovered) => self.finish_discovered(now, discovered),
            ProbeStatus::Outstanding => {
                self.step = DetectStep::LateProbe { refusal: error };
                self.wait(now, self.timeouts.late_probe);
                DetectAction::Wait
            }
            // An unreadable list is no reason to try the same version on another link.
            ProbeStatus::Refused
                if other_version && handshake::offered_versions(error.data.as_ref()).is_none() =>
            {
                self.fail(ConnectError::Refused { during: INITIALIZE, error })
            }
            ProbeStatus::NotSent | ProbeStatus::Refused => {
                self.replace_link(now, INITIALIZE, LinkEnd::Refused(error))
            }
        }
    }

    fn handle_initialize_result(
        &mut self,
        now: Instant,
        asked: Revision,
        probe: ProbeStatus,
        result: &Raw,
    ) -> DetectAction {
        let Some(initialized) = handshake::read_initialize(result) else {
            let what = format!("no protocolVersion in {}", excerpt(result.as_str()));
            return self.replace_link(now, INITIALIZE, LinkEnd::Unexpected(what));
        };
        match probe {
            ProbeStatus::Answered(discovered) => {
                self.handle_both_answered(now, asked, initialized, &discovered)
            }
            ProbeStatus::Outstanding if self.can_restart_as_modern() => {
                self.step = DetectStep::Accepted { asked, initialized };
                self.wait(now, self.timeouts.late_probe.min(ACCEPTED_GRACE));
                DetectAction::Wait
            }
            ProbeStatus::NotSent | ProbeStatus::Outstanding | ProbeStatus::Refused => {
                self.finish_initialized(asked, initialized)
            }
        }
    }

    fn finish_initialized(&mut self, asked: Revision, initialized: InitializeAnswer) -> DetectAction {
        match Revision::parse(&initialized.version) {
            Some(revision) => self.finish(revision.era(), revision, Some(initialized.server)),
            None if self.tolerates_unknown_version => {
                self.finish(Era::Legacy, asked, Some(initialized.server))
            }
            None => self.no_common_version([initialized.version].into()),
        }
    }

    /// Handles an unsupported-version error to `initialize` that lists other versions: takes the newest common one,
    /// once.
    fn choose_after_refusal(
        &mut self,
        now: Instant,
        error: &ErrorObject,
        probe: &ProbeStatus,
    ) -> Option<DetectAction> {
        if matches!(probe, ProbeStatus::Answered(_)) {
            return None;
        }
        let versions = handshake::offered_versions(error.data.as_ref())?;
        self.version_chosen = true;
        Some(match self.era_policy.choose_version(&versions) {
            Some(version) if version.era() == Era::Modern => self.finish(Era::Modern, version, None),
            Some(version) => self.handshake(now, version, ProbeStatus::Refused),
            None => self.no_common_version(versions),
        })
    }

    /// Handles an error whose id the server could not read: it can only answer the outstanding request.
    ///
    /// Returns whether it was taken as an answer.
    pub(super) fn handle_error_without_id(
        &mut self,
        now: Instant,
        error: &ErrorObject,
    ) -> Option<DetectAction> {
        match &self.step {
            _ if !self.requests.was_written_last() => None,
            DetectStep::Probing { .. } | DetectStep::Accepted { .. } => {
                Some(self.handle_probe(now, Err(error.clone())))
            }
            DetectStep::Handshake {
                probe: ProbeStatus::NotSent | ProbeStatus::Refused | ProbeStatus::Answered(_),
                ..
            } => Some(self.handle_initialize(now, Err(error.clone()))),
            _ => None,
        }
    }

    /// Handles the end of the link.
    pub(super) fn handle_end(&mut self, now: Instant, detail: &str) -> DetectAction {
        self.timer = None;
        match core::mem::replace(&mut self.step, DetectStep::Finished) {
            DetectStep::Probing { .. } if self.era_policy == EraPolicy::ModernOnly => {
                self.fail(ConnectError::Ended { during: PROBE, detail: detail.into() })
            }
            DetectStep::Probing { .. } => self.replace_link(now, PROBE, LinkEnd::Ended(detail.into())),
            DetectStep::LateProbe { refusal } => {
                self.replace_link(now, INITIALIZE, LinkEnd::Refused(refusal))
            }
            DetectStep::Handshake { .. } | DetectStep::Accepted { .. } => {
                self.replace_link(now, INITIALIZE, LinkEnd::Ended(detail.into()))
            }
            DetectStep::Idle | DetectStep::Finished => {
                self.fail(ConnectError::Ended { during: INITIALIZE, detail: detail.into() })
            }
        }
    }

    /// Handles the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> DetectAction {
        if self.total_deadline.is_some_and(|end| end <= now) {
            return self.fail_not_ready();
        }
        if self.timer.is_none_or(|timer| timer > now) {
            return DetectAction::Wait;
        }
        self.timer = None;
        match core::mem::replace(&mut self.step, DetectStep::Finished) {
            DetectStep::Probing { .. } => {
                let late = ConnectError::TimedOut { during: PROBE, after: self.timeout };
                self.fall_back(now, ProbeStatus::Outstanding, late)
            }
            DetectStep::Handshake { probe: ProbeStatus::Answered(discovered), .. } => {
                self.finish_discovered(now, discovered)
            }
            DetectStep::Handshake { .. } => {
                self.replace_link(now, INITIALIZE, LinkEnd::TimedOut(self.timeout))
            }
            DetectStep::LateProbe { refusal } => {
                self.replace_link(now, INITIALIZE, LinkEnd::Refused(refusal))
            }
            DetectStep::Accepted { asked, initialized } => self.finish_initialized(asked, initialized),
            step @ (DetectStep::Idle | DetectStep::Finished) => {
                self.step = step;
                DetectAction::Wait
            }
        }
    }

    /// Fails because the total time for connecting is over.
    fn fail_not_ready(&mut self) -> DetectAction {
        let step = match self.step {
            DetectStep::Idle => ConnectStep::Open,
            DetectStep::Probing { .. } | DetectStep::LateProbe { .. } => ConnectStep::Probe,
            DetectStep::Handshake { .. } | DetectStep::Accepted { .. } | DetectStep::Finished => {
                ConnectStep::Initialize
            }
        };
        let mut tried = core::mem::take(&mut self.failed_attempts);
        let within = self.timeouts.total;
        let late = ConnectError::NotReady { during: step.as_str(), within, last: None };
        if tried.is_empty() {
            return self.fail(late);
        }
        tried.push(late);
        self.fail(ConnectError::AllFailed(tried))
    }

    fn wait(&mut self, now: Instant, patience: Duration) {
        self.timeout = patience;
        self.timer = Some(now + patience);
    }

    fn probe(&mut self, now: Instant, version: Revision, repeated: bool) -> DetectAction {
        if self.probes >= MAX_PROBES {
            return self.fail(ConnectError::Unexpected {
                during: PROBE,
                reason: format!("it asked for another version {MAX_PROBES} times"),
            });
        }
        self.probes = self.probes.saturating_add(1);
        let known_modern = matches!(self.opening, LinkReason::Modern(_))
            || self.known_era.is_some_and(|verdict| verdict.era == Era::Modern);
        match self.era_policy {
            // There is no other step to take.
            EraPolicy::ModernOnly => self.timer = None,
            // A server known to be modern gets the time of a slow start, rather than a handshake beside the probe.
            _ if known_modern => self.wait(now, self.timeouts.initialize),
            _ => self.wait(now, self.timeouts.probe_within_total()),
        }
        self.step = DetectStep::Probing { asked: version, repeated };
        DetectAction::Probe(version)
    }

    fn handshake(&mut self, now: Instant, version: Revision, probe: ProbeStatus) -> DetectAction {
        self.wait(now, self.timeouts.initialize);
        self.step = DetectStep::Handshake { asked: version, probe };
        DetectAction::Initialize(version)
    }

    /// Falls back to the handshake, because the probe's result is not that of a modern server.
    fn fall_back(&mut self, now: Instant, probe: ProbeStatus, evidence: ConnectError) -> DetectAction {
        if self.era_policy == EraPolicy::ModernOnly {
            return self.fail(ConnectError::LegacyServer { evidence: evidence.to_string() });
        }
        self.failed_attempts.push(evidence);
        self.handshake(now, Revision::LATEST_LEGACY, probe)
    }

    fn finish_discovered(&mut self, now: Instant, discovered: DiscoverAnswer) -> DetectAction {
        match self.era_policy.choose_version(&discovered.versions) {
            Some(version) if version.era() == Era::Modern => {
                self.finish(Era::Modern, version, Some(discovered.server))
            }
            Some(version) if self.era_policy == EraPolicy::Auto && !self.version_chosen => {
                self.version_chosen = true;
                self.handshake(now, version, ProbeStatus::Refused)
            }
            _ => self.no_common_version(discovered.versions),
        }
    }

    fn finish(
        &mut self,
        era: Era,
        revision: Revision,
        server: Option<Box<ServerDescription>>,
    ) -> DetectAction {
        self.step = DetectStep::Finished;
        self.timer = None;
        self.total_deadline = None;
        self.failed_attempts = Vec::new();
        DetectAction::Finish { era, revision, server }
    }

    fn no_common_version(&mut self, theirs: Vec<String>) -> DetectAction {
        let ours = self.era_policy.versions().map(Revision::as_str).collect();
        self.fail(ConnectError::NoCommonVersion { ours, theirs })
    }

    fn fail(&mut self, error: ConnectError) -> DetectAction {
        self.step = DetectStep::Finished;
        self.timer = None;
        self.total_deadline = None;
        DetectAction::Fail(error)
    }
}

/// The start of a peer-supplied text, for an error message.
fn excerpt(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}
