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
//! | handshake | an initialize result | legacy (modern, if it names a modern version that the policy allows) |
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

mod sent_requests;
mod step;
mod timers;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::{Leniency, Strictness};
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{ClientCapabilities, Era, Revision};

use super::handshake::{
    self, DiscoverAnswer, InitializeAnswer, ServerDescription, version_after_probe_error,
};
use super::{ClientConfig, ConnectError, ConnectProgress, ConnectStep, EraPolicy, KnownEra, ServerInfo};
pub(super) use sent_requests::HandshakeRequest;
pub(super) use step::DetectAction;

use sent_requests::SentRequests;
use step::{DetectStep, LinkReason, ProbeStatus};
use timers::DetectTimers;

const PROBE: &str = ConnectStep::Probe.as_str();
const INITIALIZE: &str = ConnectStep::Initialize.as_str();
/// The maximum number of probes: more than any honest server asks for.
const MAX_PROBES: u8 = 3;
/// How long to wait for the probe's answer once `initialize` was accepted: servers answer in the order of the requests,
/// or nearly so.
const ACCEPTED_GRACE: Duration = Duration::from_millis(500);

/// Era detection of one connection.
#[derive(Debug)]
pub(super) struct EraDetection {
    era_policy: EraPolicy,
    known_era: Option<KnownEra>,
    capabilities: ClientCapabilities,
    can_reopen: bool,
    tolerates_unknown_version: bool,
    strictness: Strictness,
    timers: DetectTimers,
    step: DetectStep,
    probes: u8,
    opening: LinkReason,
    /// The errors of the steps so far that led to another step.
    failed_attempts: Vec<ConnectError>,
    /// Whether an error has already chosen the version of the handshake.
    version_chosen: bool,
    /// A tolerated deviation that is not reported yet.
    leniency: Option<Leniency>,
    /// The modern version of a server that answered the probe, and then accepted `initialize`.
    also_modern: Option<Revision>,
    /// Whether the configured `KnownEra` proved wrong.
    known_era_wrong: bool,
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
            strictness: config.strictness,
            timers: DetectTimers::new(config.connect),
            step: DetectStep::Idle,
            probes: 0,
            opening: LinkReason::First,
            failed_attempts: Vec::new(),
            version_chosen: false,
            leniency: None,
            also_modern: None,
            known_era_wrong: false,
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
        self.timers.deadline()
    }

    /// Returns whether the configured `KnownEra` proved wrong since the last call.
    pub(super) fn take_known_era_wrong(&mut self) -> bool {
        core::mem::take(&mut self.known_era_wrong)
    }

    /// Takes the tolerated deviation that is not reported yet.
    pub(super) fn take_leniency(&mut self) -> Option<Leniency> {
        self.leniency.take()
    }

    /// The progress of the present step; `None` between steps.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let step = self.step.public().filter(|step| *step != ConnectStep::Open)?;
        Some(ConnectProgress { remaining: self.timers.remaining(now), ..self.report(step) })
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
        self.timers.start(now);
    }

    /// Handles the opening of a link.
    pub(super) fn handle_open(&mut self, now: Instant) -> DetectAction {
        self.timers.note_opened(now);
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
                    self.timers.limit_step(now + self.timers.config.probe_within_total());
                }
                let probe = discovered.map_or(ProbeStatus::Refused, ProbeStatus::Answered);
                self.step = DetectStep::Handshake { asked, probe };
                DetectAction::Wait
            }
            DetectStep::Accepted { initialized } => match discovered {
                Some(discovered) => self.handle_both_answered(now, initialized, &discovered),
                None => self.finish_initialized(initialized),
            },
            DetectStep::LateProbe { refusal } => match discovered {
                Some(discovered) => self.finish_discovered(now, discovered),
                None => self.replace_link(now, refused(INITIALIZE, refusal)),
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
                let reason = handshake::excerpt(result.as_str());
                let evidence = ConnectError::Unexpected { during: PROBE, reason };
                return self.fall_back(now, ProbeStatus::Refused, evidence);
            }
            Err(error) => error,
        };
        //= C1.10 "No fixed meaning may be given to -32000…-32019"
        match error.code {
            code::UNSUPPORTED_PROTOCOL_VERSION | code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                let sent = (asked, repeated);
                //= C2.5 "On a recognised modern error (-32022 etc.) do not fall back to `initialize`"
                match version_after_probe_error(self.era_policy, &self.capabilities, sent, &error) {
                    Ok(version) if version.era() == Era::Modern => self.probe(now, version, version == asked),
                    Ok(version) => self.handshake(now, version, ProbeStatus::Refused),
                    Err(error) => self.fail(error),
                }
            }
            //= C1.11 "Recognise -32020 HeaderMismatch"
            code::HEADER_MISMATCH => self.finish(Era::Modern, asked, None),
            //= C2.4 "stdio fallback is not tied to one error code: any non-modern error"
            _ => self.fall_back(now, ProbeStatus::Refused, refused(PROBE, error)),
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
        self.timers.stop_step();
        let error = match answer {
            Ok(result) => return self.handle_initialize_result(now, probe, &result),
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
            && self.strictness == Strictness::Lenient
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
                self.timers.start_step(now, self.timers.config.late_probe);
                DetectAction::Wait
            }
            // An unreadable list is no reason to try the same version on another link.
            ProbeStatus::Refused
                if other_version && handshake::offered_versions(error.data.as_ref()).is_none() =>
            {
                self.fail(refused(INITIALIZE, error))
            }
            ProbeStatus::NotSent | ProbeStatus::Refused => self.replace_link(now, refused(INITIALIZE, error)),
        }
    }

    fn handle_initialize_result(&mut self, now: Instant, probe: ProbeStatus, result: &Raw) -> DetectAction {
        let Some(initialized) = handshake::read_initialize(result) else {
            let what = format!("no protocolVersion in {}", handshake::excerpt(result.as_str()));
            return self.replace_link(now, ConnectError::Unexpected { during: INITIALIZE, reason: what });
        };
        match probe {
            ProbeStatus::Answered(discovered) => self.handle_both_answered(now, initialized, &discovered),
            ProbeStatus::Outstanding if self.can_restart_as_modern() => {
                self.step = DetectStep::Accepted { initialized };
                self.timers.start_step(now, self.timers.config.late_probe.min(ACCEPTED_GRACE));
                DetectAction::Wait
            }
            ProbeStatus::NotSent | ProbeStatus::Outstanding | ProbeStatus::Refused => {
                self.finish_initialized(initialized)
            }
        }
    }

    fn finish_initialized(&mut self, initialized: InitializeAnswer) -> DetectAction {
        let tolerated = self.tolerates_unknown_version || self.strictness == Strictness::Lenient;
        match handshake::initialized_revision(self.era_policy, tolerated, initialized.version) {
            Ok((revision, leniency)) => {
                self.leniency = leniency;
                self.finish(revision.era(), revision, Some(initialized.server))
            }
            Err(error) => self.fail(error),
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
        self.timers.stop_step();
        let ended = |during| ConnectError::Ended { during, detail: detail.into() };
        match core::mem::replace(&mut self.step, DetectStep::Finished) {
            DetectStep::Probing { .. } if self.era_policy == EraPolicy::ModernOnly => self.fail(ended(PROBE)),
            DetectStep::Probing { .. } => self.replace_link(now, ended(PROBE)),
            DetectStep::LateProbe { refusal } => self.replace_link(now, refused(INITIALIZE, refusal)),
            DetectStep::Handshake { .. } | DetectStep::Accepted { .. } => {
                self.replace_link(now, ended(INITIALIZE))
            }
            DetectStep::Idle | DetectStep::Finished => self.fail(ended(INITIALIZE)),
        }
    }

    /// Handles the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> DetectAction {
        if self.timers.is_over(now) {
            return self.fail_not_ready();
        }
        let Some(timeout) = self.timers.take_step_timeout(now) else { return DetectAction::Wait };
        match core::mem::replace(&mut self.step, DetectStep::Finished) {
            DetectStep::Probing { .. } => {
                let late = ConnectError::TimedOut { during: PROBE, after: timeout };
                //= C2.4 "no answer in a reasonable time → `initialize`"
                self.fall_back(now, ProbeStatus::Outstanding, late)
            }
            DetectStep::Handshake { probe: ProbeStatus::Answered(discovered), .. } => {
                self.finish_discovered(now, discovered)
            }
            DetectStep::Handshake { .. } => {
                //= C2.15 "`initialize` is never cancelled"
                self.replace_link(now, ConnectError::TimedOut { during: INITIALIZE, after: timeout })
            }
            DetectStep::LateProbe { refusal } => self.replace_link(now, refused(INITIALIZE, refusal)),
            DetectStep::Accepted { initialized } => self.finish_initialized(initialized),
            step @ (DetectStep::Idle | DetectStep::Finished) => {
                self.step = step;
                DetectAction::Wait
            }
        }
    }

    /// Fails because the total time for connecting is over.
    fn fail_not_ready(&mut self) -> DetectAction {
        let step = self.step.public().unwrap_or(ConnectStep::Initialize);
        let mut tried = core::mem::take(&mut self.failed_attempts);
        let within = self.timers.config.total;
        let late = ConnectError::NotReady { during: step.as_str(), within, last: None };
        if tried.is_empty() {
            return self.fail(late);
        }
        tried.push(late);
        self.fail(ConnectError::AllFailed(tried))
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
            EraPolicy::ModernOnly => self.timers.stop_step(),
            // A server known to be modern gets the time of a slow start, rather than a handshake beside the probe.
            _ if known_modern => self.timers.start_step(now, self.timers.config.initialize),
            _ => self.timers.start_step(now, self.timers.config.probe_within_total()),
        }
        self.step = DetectStep::Probing { asked: version, repeated };
        DetectAction::Probe(version)
    }

    fn handshake(&mut self, now: Instant, version: Revision, probe: ProbeStatus) -> DetectAction {
        self.timers.start_step(now, self.timers.config.initialize);
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

    // --- Servers of both eras ---

    /// Handles a server that answered the probe and accepted `initialize`: it speaks both eras, and this process serves
    /// legacy from now on.
    fn handle_both_answered(
        &mut self,
        now: Instant,
        initialized: InitializeAnswer,
        discovered: &DiscoverAnswer,
    ) -> DetectAction {
        let modern = self
            .era_policy
            .choose_version(&discovered.versions)
            .filter(|version| version.era() == Era::Modern);
        if let Some(version) = modern
            && Revision::parse(&initialized.version).is_none_or(|accepted| accepted.era() == Era::Legacy)
            && self.can_restart_as_modern()
            && self.timers.has_time_to_restart(now)
        {
            self.opening = LinkReason::Modern(version);
            self.probes = 0;
            return self.reopen(ConnectError::BothErasAnswered);
        }
        self.also_modern = modern;
        self.finish_initialized(initialized)
    }

    /// Whether a fresh link can be opened on which only the probe is sent.
    fn can_restart_as_modern(&self) -> bool {
        self.era_policy == EraPolicy::Auto && self.can_reopen && self.opening == LinkReason::First
    }

    // --- Links ---

    /// Handles an unusable link: opens a fresh one if that has not been tried, or fails.
    fn replace_link(&mut self, now: Instant, error: ConnectError) -> DetectAction {
        self.timers.stop_step();
        if self.known_era.is_some() {
            return self.start_over(now, error);
        }
        if self.can_reopen && self.probes > 0 && self.opening != LinkReason::Handshake {
            self.opening = LinkReason::Handshake;
            return self.reopen(error);
        }
        self.give_up(error)
    }

    fn reopen(&mut self, error: ConnectError) -> DetectAction {
        self.failed_attempts.push(error);
        self.requests = SentRequests::default();
        self.timers.stop_step();
        self.step = DetectStep::Idle;
        DetectAction::Reopen
    }

    fn give_up(&mut self, error: ConnectError) -> DetectAction {
        self.fail(match error {
            ConnectError::Ended { during: PROBE, detail } if !self.can_reopen => {
                ConnectError::ProbeBrokeServer { detail }
            }
            error => error,
        })
    }

    /// Handles a wrong `KnownEra` in the configuration: detects from the start, once.
    fn start_over(&mut self, now: Instant, error: ConnectError) -> DetectAction {
        self.known_era_wrong = true;
        self.known_era = None;
        self.probes = 0;
        self.version_chosen = false;
        let link_is_open = !matches!(error, ConnectError::Ended { .. });
        match self.era_policy {
            EraPolicy::Auto if link_is_open => self.probe(now, Revision::LATEST, false),
            EraPolicy::Auto if self.can_reopen => self.reopen(error),
            _ => self.give_up(error),
        }
    }

    // --- The end ---

    fn finish(
        &mut self,
        era: Era,
        revision: Revision,
        server: Option<Box<ServerDescription>>,
    ) -> DetectAction {
        self.step = DetectStep::Finished;
        self.timers.stop();
        self.failed_attempts = Vec::new();
        // A server that answers both is used as legacy this time, and as modern from the start next time.
        let version = self.also_modern.unwrap_or(revision);
        let probe_breaks_server = self.opening == LinkReason::Handshake
            || self.known_era.is_some_and(|known| known.probe_breaks_server);
        DetectAction::Finish {
            server: Box::new(ServerInfo::new(era, revision, server)),
            known_era: KnownEra { era: version.era(), version, probe_breaks_server },
        }
    }

    fn no_common_version(&mut self, theirs: Vec<String>) -> DetectAction {
        self.fail(handshake::no_common_version(self.era_policy, theirs))
    }

    fn fail(&mut self, error: ConnectError) -> DetectAction {
        self.step = DetectStep::Finished;
        self.timers.stop();
        DetectAction::Fail(error)
    }
}

fn refused(during: &'static str, error: ErrorObject) -> ConnectError {
    ConnectError::Refused { during, error }
}
