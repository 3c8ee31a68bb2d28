//! Detection of the server's era on byte streams, as a state machine of its own.
//!
//! The [table](super::era_judge) decides on each answer. On a stream the probe and `initialize` may be unanswered at the same
//! time, and the other way to the server is a fresh link:
//!
//! | step | input | next |
//! |---|---|---|
//! | probing | no answer in time | the handshake beside the probe, on the same link; modern-only mode keeps waiting |
//! | probing | the end of the link | a fresh link, and the handshake first on it |
//! | probing | a late initialize result, of a handshake that led to the probe | as in the handshake |
//! | handshake | a discovery result | stored until the handshake is answered; modern if that takes long |
//! | handshake | an initialize result, and the probe is not answered yet | legacy; where the link can be reopened, not before the probe's answer or a short wait |
//! | handshake | a discovery result and an initialize result, in either order | a fresh link, and only the probe on it, if there is time for another start; otherwise legacy |
//! | handshake | an error that determines neither era nor version, with a discovery result stored or still to come | modern |
//! | handshake | any other such error, no answer in time, the end of the link | a fresh link once, then failure |
//!
//! The probe and `initialize` are never cancelled.
//!
//! A server that starts slowly finds both requests before it. One that answers both is modern, but its process serves
//! legacy from the `initialize` on that it accepted, and must not be sent modern requests: the modern era needs a
//! process that is never sent `initialize`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility>

use core::mem;
use core::time::Duration;

use crate::Instant;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{Era, Revision};

use super::era_judge::{DetectAction, EraDecision, EraJudge, EraRequest, Evidence, JudgedAnswer};
use super::handshake::{self, ServerDescription};
use super::{ClientConfig, ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, EraPolicy, KnownEra};

/// How long to wait for the probe's answer once `initialize` was accepted: servers answer in the order of the requests,
/// or nearly so.
const ACCEPTED_GRACE: Duration = Duration::from_millis(500);

/// How long to wait for the probe's answer once `initialize` was rejected.
const REJECTED_GRACE: Duration = Duration::from_secs(2);

/// The status of the probe during the handshake.
#[derive(Debug)]
enum ProbeStatus {
    /// Not sent on this link, or answered otherwise than by a modern server.
    Settled,
    Outstanding,
    Discovered(JudgedAnswer),
}

/// Why the present link was opened, which determines the first request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkReason {
    /// The first request by the policy and the known era.
    First,
    /// The server is known to be modern, and the previous link served legacy already: the probe at this version alone.
    Modern(Revision),
    /// The previous link ended: the handshake.
    Handshake,
}

/// Era detection of one connection.
#[derive(Debug)]
pub(super) struct EraDetection {
    pub(super) era: EraJudge,
    can_reopen: bool,
    timeouts: ConnectTimeouts,
    /// The request of the present step; `None` between links and at the end.
    asked: Option<EraRequest>,
    /// The answer to `initialize`, while that to the probe is awaited.
    held: Option<JudgedAnswer>,
    probe: ProbeStatus,
    opening: LinkReason,
    /// The modern version of a server that answered the probe, and then accepted `initialize`.
    also_modern: Option<Revision>,
    /// The requests that are not answered yet, with their numbers. An `initialize` that was not answered in time may be
    /// among them beside a later one, and its answer counts too.
    sent: Vec<(i64, ConnectStep)>,
    /// Whether one of them was the last message written: then an error without an id can only answer it.
    was_written_last: bool,
    /// The end of the present step, and the timeout that it was set for.
    step_timer: Option<(Instant, Duration)>,
    /// The end of connecting as a whole.
    deadline: Option<Instant>,
    opened_at: Option<Instant>,
}

impl EraDetection {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self {
            era: EraJudge::new(config),
            can_reopen: config.can_reopen,
            timeouts: config.connect,
            asked: None,
            held: None,
            probe: ProbeStatus::Settled,
            opening: LinkReason::First,
            also_modern: None,
            sent: Vec::new(),
            was_written_last: false,
            step_timer: None,
            deadline: None,
            opened_at: None,
        }
    }

    // --- Requests on the wire ---

    /// Notes that a request was sent under this number.
    pub(super) fn note_sent(&mut self, request: ConnectStep, number: i64) {
        self.sent.push((number, request));
        self.was_written_last = true;
    }

    /// Notes that an answer to the server was written.
    pub(super) fn note_reply_written(&mut self) {
        self.was_written_last = false;
    }

    /// Removes and returns the request with this number, which is now answered, and whether it was sent again since: then
    /// an error is no answer yet.
    pub(super) fn take_request(&mut self, number: i64) -> Option<(ConnectStep, bool)> {
        let at = self.sent.iter().position(|(sent, _)| *sent == number)?;
        let (_, request) = self.sent.remove(at);
        Some((request, self.sent.iter().skip(at).any(|(_, later)| *later == request)))
    }

    // --- Outputs ---

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.step_timer.map(|(due, _)| due), self.deadline].into_iter().flatten().min()
    }

    /// The progress of the present step; `None` between steps.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let progress = self.report(self.step()?);
        Some(ConnectProgress { remaining: self.remaining(now), ..progress })
    }

    /// The progress while the link is being opened.
    pub(super) fn opening_progress(&self) -> ConnectProgress {
        self.report(ConnectStep::Open)
    }

    fn report(&self, step: ConnectStep) -> ConnectProgress {
        let reason = self.era.failed.last().cloned().map(Box::new);
        ConnectProgress { reason, ..ConnectProgress::new(step) }
    }

    fn step(&self) -> Option<ConnectStep> {
        match &self.held {
            Some(held) if held.server.is_err() => Some(ConnectStep::Probe),
            _ => self.asked.map(EraRequest::step),
        }
    }

    /// The time left for connecting.
    fn remaining(&self, now: Instant) -> Option<Duration> {
        self.deadline.map(|end| end.saturating_since(now))
    }

    // --- Inputs ---

    /// Starts the total timeout, when a link is requested or opened.
    pub(super) fn begin(&mut self, now: Instant) {
        self.deadline.get_or_insert(now + self.timeouts.total);
    }

    /// Handles the opening of a link.
    pub(super) fn handle_open(&mut self, now: Instant) -> DetectAction {
        self.opened_at = Some(now);
        let first = match self.opening {
            LinkReason::First => self.era.first_request(),
            LinkReason::Modern(version) => EraRequest::Probe { version, repeated: false },
            LinkReason::Handshake => EraRequest::initialize(Revision::LATEST_LEGACY),
        };
        self.ask(now, first)
    }

    /// Handles the answer to a request.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        request: ConnectStep,
        answer: Result<Raw, ErrorObject>,
    ) -> DetectAction {
        match request {
            ConnectStep::Probe => self.handle_probe(now, answer),
            _ => self.handle_initialize(now, answer),
        }
    }

    fn handle_probe(&mut self, now: Instant, answer: Result<Raw, ErrorObject>) -> DetectAction {
        let Some(asked) = self.asked else { return DetectAction::Wait };
        let answer = self.read(asked.or_probe(), answer);
        self.probe = ProbeStatus::Settled;
        if let EraRequest::Probe { .. } = asked {
            return self.decide(now, asked, answer);
        }
        if let Evidence::Discovered(_) = answer.evidence {
            self.probe = ProbeStatus::Discovered(answer);
            // The server is up and reads: its answer to `initialize` arrives soon, if ever.
            let soon = now + self.timeouts.probe_within_total();
            self.step_timer = self.step_timer.map(|(due, after)| (due.min(soon), after));
        }
        match self.held.take() {
            Some(held) => self.weigh(now, asked, held),
            None => DetectAction::Wait,
        }
    }

    fn handle_initialize(&mut self, now: Instant, answer: Result<Raw, ErrorObject>) -> DetectAction {
        match (self.asked, &self.held) {
            (Some(asked @ EraRequest::Initialize { .. }), None) => {
                let answer = self.read(asked, answer);
                self.weigh(now, asked, answer)
            }
            // The late answer to an `initialize` that led to the probe: from now on this process serves legacy.
            (Some(asked @ EraRequest::Probe { .. }), None) => {
                let asked = asked.or_initialize();
                let answer = self.read(asked, answer);
                if !matches!(answer.evidence, Evidence::Initialized { .. }) {
                    return DetectAction::Wait;
                }
                self.asked = Some(asked);
                self.weigh(now, asked, answer)
            }
            _ => DetectAction::Wait,
        }
    }

    /// Handles an error whose id the server could not read: it can only answer the outstanding request.
    ///
    /// Returns `None` if it is no answer.
    pub(super) fn handle_error_without_id(
        &mut self,
        now: Instant,
        error: &ErrorObject,
    ) -> Option<DetectAction> {
        let request = match (self.asked?, &self.held, &self.probe) {
            _ if !self.was_written_last => return None,
            (EraRequest::Probe { .. }, ..) | (_, Some(_), _) => ConnectStep::Probe,
            (_, None, ProbeStatus::Settled | ProbeStatus::Discovered(_)) => ConnectStep::Initialize,
            (_, None, ProbeStatus::Outstanding) => return None,
        };
        Some(self.handle_answer(now, request, Err(error.clone())))
    }

    /// Handles the end of the link.
    pub(super) fn handle_end(&mut self, now: Instant, detail: &str) -> DetectAction {
        let asked = self.asked.unwrap_or(EraRequest::initialize(Revision::LATEST_LEGACY));
        let ended = ConnectError::Ended { during: asked.step().as_str(), detail: detail.into() };
        let error = match (asked, self.held.take()) {
            (EraRequest::Probe { .. }, _) if !self.can_reopen && self.era.policy != EraPolicy::ModernOnly => {
                ConnectError::ProbeBrokeServer { detail: detail.into() }
            }
            (_, Some(JudgedAnswer { server: Err(refusal), .. })) => refusal,
            _ => ended,
        };
        if !self.can_reopen || self.asked.is_none() {
            return self.fail(error);
        }
        let evidence = Evidence::Ended { elsewhere: self.may_try_fresh_link() };
        self.decide(now, asked, JudgedAnswer::failure(evidence, error))
    }

    /// Handles the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> DetectAction {
        if self.deadline.is_some_and(|end| end <= now) {
            return self.fail_not_ready();
        }
        let (Some((_, after)), Some(asked)) = (self.step_timer.take_if(|(due, _)| *due <= now), self.asked)
        else {
            return DetectAction::Wait;
        };
        if let Some(held) = self.held.take() {
            return self.decide(now, asked, held);
        }
        match (asked, self.take_discovered()) {
            (EraRequest::Initialize { .. }, Some(discovered)) => {
                self.decide(now, asked.or_probe(), discovered)
            }
            //= C2.4 "no answer in a reasonable time → `initialize`"
            //= C2.15 "`initialize` is never cancelled"
            _ => {
                let late = ConnectError::TimedOut { during: asked.step().as_str(), after };
                let answer = self.not_understood(asked, None, late);
                self.decide(now, asked, answer)
            }
        }
    }

    /// Fails because the total time for connecting is over.
    fn fail_not_ready(&mut self) -> DetectAction {
        let during = self.step().unwrap_or(ConnectStep::Open).as_str();
        let late = ConnectError::NotReady { during, within: self.timeouts.total, last: None };
        let error = self.era.all_failed(late);
        self.fail(error)
    }

    // --- Evidence ---

    fn read(&self, asked: EraRequest, answer: Result<Raw, ErrorObject>) -> JudgedAnswer {
        let during = asked.step().as_str();
        let error = match answer {
            Ok(result) => {
                return self.era.read_result(asked, &result).unwrap_or_else(|| {
                    let excerpt = handshake::excerpt(result.as_str());
                    let reason = match asked {
                        EraRequest::Probe { .. } => excerpt,
                        EraRequest::Initialize { .. } => format!("no protocolVersion in {excerpt}"),
                    };
                    self.not_understood(asked, None, ConnectError::Unexpected { during, reason })
                });
            }
            Err(error) => error,
        };
        match self.era.read_modern_error(asked, &error) {
            // There are no headers, but only a modern server knows this error.
            Some(answer) if answer.evidence == Evidence::HeaderMismatch => {
                JudgedAnswer { evidence: Evidence::Modern, ..answer }
            }
            Some(answer) => answer,
            None => {
                let offered = self.era.offered_version(asked, &error);
                self.not_understood(asked, offered, ConnectError::Refused { during, error })
            }
        }
    }

    /// An answer, or silence, that proves nothing. A refused probe leads to the handshake on the same link.
    fn not_understood(
        &self,
        asked: EraRequest,
        offered: Option<Revision>,
        error: ConnectError,
    ) -> JudgedAnswer {
        let elsewhere = matches!(asked, EraRequest::Initialize { .. }) && self.may_try_fresh_link();
        JudgedAnswer::failure(Evidence::NotUnderstood { offered, elsewhere }, error)
    }

    /// Whether a fresh link on which the handshake is first may help.
    fn may_try_fresh_link(&self) -> bool {
        self.can_reopen && self.era.probes > 0 && self.opening != LinkReason::Handshake
    }

    // --- Servers of both eras ---

    /// Takes the discovery result that is stored until `initialize` is answered.
    fn take_discovered(&mut self) -> Option<JudgedAnswer> {
        match mem::replace(&mut self.probe, ProbeStatus::Settled) {
            ProbeStatus::Discovered(discovered) => Some(discovered),
            probe => {
                self.probe = probe;
                None
            }
        }
    }

    /// Weighs the answer to `initialize` and that to the probe, which it may have to wait for.
    fn weigh(&mut self, now: Instant, asked: EraRequest, answer: JudgedAnswer) -> DetectAction {
        let is_accepted = matches!(answer.evidence, Evidence::Initialized { .. });
        match self.take_discovered() {
            Some(discovered) if is_accepted => {
                return self.handle_both_answered(now, asked, answer, &discovered);
            }
            Some(discovered) => return self.decide(now, asked.or_probe(), discovered),
            None => {}
        }
        let waits = match self.probe {
            ProbeStatus::Outstanding if is_accepted => self.can_restart_as_modern(),
            ProbeStatus::Outstanding => !self.is_decisive(asked, &answer),
            ProbeStatus::Settled | ProbeStatus::Discovered(_) => false,
        };
        if !waits {
            return self.decide(now, asked, answer);
        }
        self.start_step(now, if is_accepted { ACCEPTED_GRACE } else { REJECTED_GRACE });
        self.held = Some(answer);
        DetectAction::Wait
    }

    /// Whether an answer to `initialize` determines the era or the next version.
    fn is_decisive(&self, asked: EraRequest, answer: &JudgedAnswer) -> bool {
        matches!(
            self.era.judge(asked, answer),
            EraDecision::Ask(_) | EraDecision::Finish(_) | EraDecision::Fail(_)
        )
    }

    /// Handles a server that answered the probe and accepted `initialize`: it speaks both eras, and this process serves
    /// legacy from now on.
    fn handle_both_answered(
        &mut self,
        now: Instant,
        asked: EraRequest,
        initialized: JudgedAnswer,
        discovered: &JudgedAnswer,
    ) -> DetectAction {
        let modern = match self.era.judge(asked.or_probe(), discovered) {
            EraDecision::Finish(version) => Some(version),
            _ => None,
        };
        let is_legacy = match self.era.judge(asked, &initialized) {
            EraDecision::Finish(version) => version.era() == Era::Legacy,
            _ => true,
        };
        if let Some(version) = modern
            && is_legacy
            && self.can_restart_as_modern()
            && self.has_time_to_restart(now)
        {
            self.era.probes = 0;
            self.era.failed.push(ConnectError::BothErasAnswered);
            return self.reopen(LinkReason::Modern(version));
        }
        self.also_modern = modern;
        self.decide(now, asked, initialized)
    }

    /// Whether a fresh link can be opened on which only the probe is sent.
    fn can_restart_as_modern(&self) -> bool {
        self.era.policy == EraPolicy::Auto && self.can_reopen && self.opening == LinkReason::First
    }

    /// Whether time remains for another start, even one that takes twice as long as the start of the present link.
    fn has_time_to_restart(&self, now: Instant) -> bool {
        let (Some(opened), Some(rest)) = (self.opened_at, self.remaining(now)) else { return false };
        now.saturating_since(opened).saturating_mul(2) <= rest
    }

    // --- Steps ---

    /// Takes the step that an answer leads to.
    fn decide(&mut self, now: Instant, asked: EraRequest, answer: JudgedAnswer) -> DetectAction {
        self.step_timer = None;
        self.held = None;
        match self.era.decide(asked, &answer) {
            EraDecision::Ask(next) => self.ask(now, next),
            EraDecision::Finish(revision) => self.finish(revision, answer.server.ok()),
            EraDecision::Elsewhere => self.reopen(LinkReason::Handshake),
            EraDecision::StartOver if matches!(answer.evidence, Evidence::Ended { .. }) => {
                self.reopen(self.opening)
            }
            EraDecision::StartOver => self.ask(now, EraRequest::PROBE),
            EraDecision::Fail(error) => self.fail(error),
            EraDecision::Retry | EraDecision::GiveUp | EraDecision::RejectLegacy => DetectAction::Wait,
        }
    }

    fn ask(&mut self, now: Instant, asked: EraRequest) -> DetectAction {
        match asked {
            EraRequest::Probe { version, .. } => {
                if let Err(error) = self.era.count_probe() {
                    return self.fail(error);
                }
                let known_modern = matches!(self.opening, LinkReason::Modern(_))
                    || self.era.known.is_some_and(|known| known.era == Era::Modern);
                match self.era.policy {
                    // There is no other step to take.
                    EraPolicy::ModernOnly => self.step_timer = None,
                    // A server known to be modern gets the time of a slow start, rather than a handshake beside the
                    // probe.
                    _ if known_modern => self.start_step(now, self.timeouts.initialize),
                    _ => self.start_step(now, self.timeouts.probe_within_total()),
                }
                self.probe = ProbeStatus::Outstanding;
                self.asked = Some(asked);
                DetectAction::Probe(version)
            }
            EraRequest::Initialize { version, .. } => {
                self.start_step(now, self.timeouts.initialize);
                self.asked = Some(asked);
                DetectAction::Initialize(version)
            }
        }
    }

    fn start_step(&mut self, now: Instant, timeout: Duration) {
        self.step_timer = Some((now + timeout, timeout));
    }

    fn reopen(&mut self, opening: LinkReason) -> DetectAction {
        self.opening = opening;
        self.sent.clear();
        self.was_written_last = false;
        self.probe = ProbeStatus::Settled;
        self.asked = None;
        self.step_timer = None;
        DetectAction::Open
    }

    fn finish(&mut self, revision: Revision, server: Option<Box<ServerDescription>>) -> DetectAction {
        self.stop();
        // A server that answers both is used as legacy this time, and as modern from the start next time.
        let version = self.also_modern.unwrap_or(revision);
        let probe_breaks_server = self.opening == LinkReason::Handshake
            || self.era.known.is_some_and(|known| known.probe_breaks_server);
        self.era.finish(revision, server, KnownEra { era: version.era(), version, probe_breaks_server })
    }

    fn fail(&mut self, error: ConnectError) -> DetectAction {
        self.stop();
        DetectAction::Fail(error)
    }

    fn stop(&mut self) {
        self.asked = None;
        self.held = None;
        (self.step_timer, self.deadline) = (None, None);
    }
}
