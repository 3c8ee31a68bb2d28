//! Which era the server speaks: the one algorithm for byte streams, as a machine of its own.
//!
//! | step | what comes | what follows |
//! |---|---|---|
//! | probing | a discovery result | the newest common version: modern, or the handshake at a legacy one |
//! | probing | -32022 with a list | the same by that list; the same version once more if it is in the list |
//! | probing | -32021 | once more if this client has what is required, otherwise failure |
//! | probing | -32020 | modern |
//! | probing | any other answer | the handshake, on the same link |
//! | probing | no answer in time | the handshake beside the probe, on the same link; in modern-only mode the wait goes on |
//! | probing | the end of the link | a fresh link, and the handshake first on it |
//! | handshake | an initialize result | legacy (modern, if it names a modern version) |
//! | handshake | an initialize result, and the probe is not answered yet | legacy; where a fresh link is to be had, not before the probe's answer or a short wait |
//! | handshake | a discovery result | kept until the handshake is answered; modern if that takes long |
//! | handshake | a discovery result and an initialize result, in either order | a fresh link, and only the probe on it, if there is time for another start; otherwise legacy |
//! | handshake | an error, with a discovery result kept or still to come | modern |
//! | handshake | -32022 with a list | the newest common version of the list, once |
//! | handshake | any other error with a list of versions | the handshake at the newest common legacy version, once |
//! | handshake | any other error, no answer in time, the end of the link | a fresh link once, then failure |
//!
//! The probe and `initialize` are never cancelled. Legacy is concluded only from a valid initialize result, modern only
//! from a valid discovery result or an error that only modern servers know.
//!
//! A server that starts slowly finds both requests before it. One that answers both is modern, but its process serves
//! legacy from the `initialize` on that it accepted, and may be sent no modern request any more: the modern answer
//! wins by a process that is never sent `initialize`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility>

mod late;
mod links;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::Instant;
use crate::peer::{Conduct, Leniency};
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{ClientCapabilities, Era, Json, Revision};

use super::handshake::{self, Discovered, Initialized, SelfDescription};
use super::{ClientConfig, ConnectError, ConnectProgress, ConnectStep, ConnectTimeouts, Mode, Verdict};
use links::Ending;

const PROBE: &str = ConnectStep::Probe.as_str();
const INITIALIZE: &str = ConnectStep::Initialize.as_str();
/// More answers of "ask again" than any honest server has use for.
const MOST_PROBES: u8 = 3;
/// How long the probe's answer is waited for once `initialize` was accepted: servers answer in the order of the requests,
/// or nearly so.
const ACCEPTED_GRACE: Duration = Duration::from_millis(500);

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Act {
    /// Nothing yet.
    Wait,
    /// Send `server/discover` with this version.
    Probe(Revision),
    /// Send `initialize` with this version.
    Initialize(Revision),
    /// Get a fresh link.
    Reopen,
    /// Go on in this era.
    Settle { era: Era, revision: Revision, server: Option<Box<SelfDescription>> },
    /// Give up.
    Fail(ConnectError),
}

/// What became of the probe when the handshake is under way.
#[derive(Debug)]
enum Probe {
    NotSent,
    Outstanding,
    /// Answered with something that is not modern.
    Refused,
    Answered(Discovered),
}

#[derive(Debug)]
enum Step {
    /// No link is open.
    Idle,
    Probing {
        asked: Revision,
        repeated: bool,
    },
    Handshake {
        asked: Revision,
        probe: Probe,
    },
    /// `initialize` was refused, and the probe may still be answered.
    LateProbe {
        refusal: ErrorObject,
    },
    /// `initialize` was accepted, and the probe may still be answered.
    Accepted {
        asked: Revision,
        initialized: Initialized,
    },
    Settled,
}

/// Why the present link was opened, which decides the first request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// The first link: the probe.
    First,
    /// The server is known to be modern, and the link before served legacy already: the probe at this version alone.
    Modern(Revision),
    /// The link before ended: the handshake.
    Handshake,
}

/// The detection of one connection.
#[derive(Debug)]
pub(super) struct Detect {
    mode: Mode,
    verdict: Option<Verdict>,
    capabilities: ClientCapabilities,
    can_reopen: bool,
    tolerate: bool,
    conduct: Conduct,
    timeouts: ConnectTimeouts,
    step: Step,
    probes: u8,
    opening: Opening,
    /// When the present link was opened.
    opened: Option<Instant>,
    /// How each step ended that led to another one.
    tried: Vec<ConnectError>,
    /// Whether an error has already chosen the version of the handshake.
    chosen: bool,
    /// What was tolerated and is not reported yet.
    leniency: Option<Leniency>,
    /// The modern version of a server that answered the probe, and then accepted `initialize`.
    also_modern: Option<Revision>,
    /// The supplied verdict was wrong.
    pub(super) verdict_dropped: bool,
    timer: Option<Instant>,
    /// How long the timer was set for.
    patience: Duration,
    end: Option<Instant>,
}

impl Detect {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self {
            mode: config.mode,
            verdict: config.verdict,
            capabilities: config.capabilities.clone(),
            can_reopen: config.reopen,
            tolerate: config.tolerate_unknown_version,
            conduct: config.conduct,
            timeouts: config.connect,
            step: Step::Idle,
            probes: 0,
            opening: Opening::First,
            opened: None,
            tried: Vec::new(),
            chosen: false,
            leniency: None,
            also_modern: None,
            verdict_dropped: false,
            timer: None,
            patience: Duration::ZERO,
            end: None,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match (self.timer, self.end) {
            (Some(timer), Some(end)) => Some(timer.min(end)),
            (timer, end) => timer.or(end),
        }
    }

    /// Whether the server was found to end when it is probed.
    pub(super) fn probe_breaks_it(&self) -> bool {
        self.opening == Opening::Handshake || self.verdict.is_some_and(|verdict| verdict.probe_breaks_it)
    }

    /// The modern version to begin with next time, of a server that speaks both eras.
    pub(super) fn also_modern(&self) -> Option<Revision> {
        self.also_modern
    }

    /// The leniency that was not reported yet.
    pub(super) fn take_leniency(&mut self) -> Option<Leniency> {
        self.leniency.take()
    }

    /// A report on the present step; `None` between steps.
    pub(super) fn progress(&self, now: Instant) -> Option<ConnectProgress> {
        let step = match self.step {
            Step::Probing { .. } | Step::LateProbe { .. } => ConnectStep::Probe,
            Step::Handshake { .. } | Step::Accepted { .. } => ConnectStep::Initialize,
            Step::Idle | Step::Settled => return None,
        };
        let remaining = self.end.map(|end| end.saturating_since(now));
        Some(ConnectProgress { remaining, ..self.report(step) })
    }

    /// The link is being opened.
    pub(super) fn opening(&self) -> ConnectProgress {
        self.report(ConnectStep::Open)
    }

    fn report(&self, step: ConnectStep) -> ConnectProgress {
        let reason = self.tried.last().cloned().map(Box::new);
        ConnectProgress { reason, ..ConnectProgress::new(step) }
    }

    /// The time for connecting begins: a link was asked for, or opened.
    pub(super) fn begin(&mut self, now: Instant) {
        self.end.get_or_insert(now + self.timeouts.total);
    }

    /// A link is open.
    pub(super) fn handle_open(&mut self, now: Instant) -> Act {
        self.opened = Some(now);
        if let Opening::Modern(version) = self.opening {
            return self.probe(now, version, false);
        }
        let remembered = self.verdict.map(|verdict| verdict.era);
        let handshake_first = self.opening == Opening::Handshake
            || self.mode == Mode::LegacyOnly
            || (remembered == Some(Era::Legacy) && self.mode == Mode::Auto);
        if handshake_first {
            let version = match self.verdict {
                Some(Verdict { era: Era::Legacy, version, .. }) => version,
                _ => Revision::LATEST_LEGACY,
            };
            self.handshake(now, version, Probe::NotSent)
        } else {
            self.probe(now, Revision::LATEST, false)
        }
    }

    /// The answer to the probe.
    pub(super) fn handle_probe(&mut self, now: Instant, answer: Result<Raw, ErrorObject>) -> Act {
        let discovered = match &answer {
            Ok(result) => handshake::discovered(result),
            Err(_) => None,
        };
        match core::mem::replace(&mut self.step, Step::Settled) {
            Step::Probing { asked, repeated } => {
                self.handle_probe_answer(now, asked, repeated, answer, discovered)
            }
            Step::Handshake { asked, .. } => {
                if discovered.is_some() {
                    // The server is up, and reads: what it says to `initialize` comes soon, if ever.
                    let soon = now + self.timeouts.probe_within_total();
                    self.timer = self.timer.map(|timer| timer.min(soon));
                }
                let probe = discovered.map_or(Probe::Refused, Probe::Answered);
                self.step = Step::Handshake { asked, probe };
                Act::Wait
            }
            Step::Accepted { asked, initialized } => match discovered {
                Some(discovered) => self.handle_both_answered(now, asked, initialized, &discovered),
                None => self.settle_initialized(asked, initialized),
            },
            Step::LateProbe { refusal } => match discovered {
                Some(discovered) => self.settle_discovered(now, discovered),
                None => self.fresh(now, INITIALIZE, Ending::Refused(refusal)),
            },
            step @ (Step::Idle | Step::Settled) => {
                self.step = step;
                Act::Wait
            }
        }
    }

    fn handle_probe_answer(
        &mut self,
        now: Instant,
        asked: Revision,
        repeated: bool,
        answer: Result<Raw, ErrorObject>,
        discovered: Option<Discovered>,
    ) -> Act {
        if let Some(discovered) = discovered {
            return self.settle_discovered(now, discovered);
        }
        let error = match answer {
            Ok(result) => {
                let what = excerpt(result.as_str());
                return self.not_modern(
                    now,
                    Probe::Refused,
                    ConnectError::Unexpected { during: PROBE, what },
                );
            }
            Err(error) => error,
        };
        match error.code {
            code::UNSUPPORTED_PROTOCOL_VERSION => {
                let Some(versions) = handshake::offered(error.data.as_ref()) else {
                    return self.fail(ConnectError::Refused { during: PROBE, error });
                };
                if versions.iter().any(|version| version == asked.as_str()) {
                    if repeated {
                        return self.fail(ConnectError::Refused { during: PROBE, error });
                    }
                    return self.probe(now, asked, true);
                }
                match handshake::choose(&versions) {
                    Some(version) if version.era() == Era::Modern => self.probe(now, version, false),
                    Some(version) if self.mode == Mode::Auto => self.handshake(now, version, Probe::Refused),
                    _ => self.no_common_version(versions),
                }
            }
            code::MISSING_REQUIRED_CLIENT_CAPABILITY => match handshake::required(error.data.as_ref()) {
                Some((names, _)) if !repeated && names.iter().all(|name| self.has_capability(name)) => {
                    self.probe(now, asked, true)
                }
                Some((_, required)) => self.fail(ConnectError::MissingCapabilities { required }),
                None => self.fail(ConnectError::Refused { during: PROBE, error }),
            },
            code::HEADER_MISMATCH => self.settle(Era::Modern, asked, None),
            _ => self.not_modern(now, Probe::Refused, ConnectError::Refused { during: PROBE, error }),
        }
    }

    /// The answer to `initialize`.
    pub(super) fn handle_initialize(&mut self, now: Instant, answer: Result<Raw, ErrorObject>) -> Act {
        let (asked, probe) = match core::mem::replace(&mut self.step, Step::Settled) {
            Step::Handshake { asked, probe } => (asked, probe),
            other => {
                self.step = other;
                return Act::Wait;
            }
        };
        self.timer = None;
        let error = match answer {
            Ok(result) => return self.handle_initialize_result(now, asked, probe, &result),
            Err(error) => error,
        };
        let other_version = error.code == code::UNSUPPORTED_PROTOCOL_VERSION;
        if other_version
            && !self.chosen
            && let Some(act) = self.choose_after_refusal(now, &error, &probe)
        {
            return act;
        }
        if !other_version
            && !self.chosen
            && !matches!(probe, Probe::Answered(_))
            && self.conduct == Conduct::Lenient
            && let Some(offered) = handshake::alternative(error.data.as_ref(), asked)
        {
            self.chosen = true;
            self.leniency = Some(Leniency::VersionRetried { refused: asked, offered });
            return self.handshake(now, offered, probe);
        }
        match probe {
            Probe::Answered(discovered) => self.settle_discovered(now, discovered),
            Probe::Outstanding => {
                self.step = Step::LateProbe { refusal: error };
                self.wait(now, self.timeouts.late_probe);
                Act::Wait
            }
            // A list that can not be read is no reason to try the same elsewhere.
            Probe::Refused if other_version && handshake::offered(error.data.as_ref()).is_none() => {
                self.fail(ConnectError::Refused { during: INITIALIZE, error })
            }
            Probe::NotSent | Probe::Refused => self.fresh(now, INITIALIZE, Ending::Refused(error)),
        }
    }

    fn handle_initialize_result(&mut self, now: Instant, asked: Revision, probe: Probe, result: &Raw) -> Act {
        let Some(initialized) = handshake::initialized(result) else {
            let what = format!("no protocolVersion in {}", excerpt(result.as_str()));
            return self.fresh(now, INITIALIZE, Ending::Unexpected(what));
        };
        match probe {
            Probe::Answered(discovered) => self.handle_both_answered(now, asked, initialized, &discovered),
            Probe::Outstanding if self.may_start_again_as_modern() => {
                self.step = Step::Accepted { asked, initialized };
                self.wait(now, self.timeouts.late_probe.min(ACCEPTED_GRACE));
                Act::Wait
            }
            Probe::NotSent | Probe::Outstanding | Probe::Refused => {
                self.settle_initialized(asked, initialized)
            }
        }
    }

    fn settle_initialized(&mut self, asked: Revision, initialized: Initialized) -> Act {
        match Revision::parse(&initialized.version) {
            Some(revision) => self.settle(revision.era(), revision, Some(initialized.server)),
            None if self.tolerate => self.settle(Era::Legacy, asked, Some(initialized.server)),
            None => self.no_common_version([initialized.version].into()),
        }
    }

    /// An unsupported-version error to `initialize` names other versions: take the newest common one, once.
    fn choose_after_refusal(&mut self, now: Instant, error: &ErrorObject, probe: &Probe) -> Option<Act> {
        if matches!(probe, Probe::Answered(_)) {
            return None;
        }
        let versions = handshake::offered(error.data.as_ref())?;
        self.chosen = true;
        Some(match handshake::choose(&versions) {
            Some(version) if version.era() == Era::Modern && self.mode == Mode::Auto => {
                self.settle(Era::Modern, version, None)
            }
            Some(version) if version.era() == Era::Legacy => self.handshake(now, version, Probe::Refused),
            _ => self.no_common_version(versions),
        })
    }

    /// An error whose id could not be read by the server: it can only mean what is outstanding.
    ///
    /// Returns whether it was taken as an answer.
    pub(super) fn handle_error_without_id(&mut self, now: Instant, error: &ErrorObject) -> Option<Act> {
        match &self.step {
            Step::Probing { .. } | Step::Accepted { .. } => Some(self.handle_probe(now, Err(error.clone()))),
            Step::Handshake { probe: Probe::NotSent | Probe::Refused | Probe::Answered(_), .. } => {
                Some(self.handle_initialize(now, Err(error.clone())))
            }
            _ => None,
        }
    }

    /// The link has ended.
    pub(super) fn handle_end(&mut self, now: Instant, detail: &str) -> Act {
        self.timer = None;
        match core::mem::replace(&mut self.step, Step::Settled) {
            Step::Probing { .. } if self.mode == Mode::ModernOnly => {
                self.fail(ConnectError::Ended { during: PROBE, detail: detail.into() })
            }
            Step::Probing { .. } => self.fresh(now, PROBE, Ending::Ended(detail.into())),
            Step::LateProbe { refusal } => self.fresh(now, INITIALIZE, Ending::Refused(refusal)),
            Step::Handshake { .. } | Step::Accepted { .. } => {
                self.fresh(now, INITIALIZE, Ending::Ended(detail.into()))
            }
            Step::Idle | Step::Settled => {
                self.fail(ConnectError::Ended { during: INITIALIZE, detail: detail.into() })
            }
        }
    }

    /// A timer may be due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Act {
        if self.end.is_some_and(|end| end <= now) {
            return self.fail_not_ready();
        }
        if self.timer.is_none_or(|timer| timer > now) {
            return Act::Wait;
        }
        self.timer = None;
        match core::mem::replace(&mut self.step, Step::Settled) {
            Step::Probing { .. } => {
                let late = ConnectError::TimedOut { during: PROBE, after: self.patience };
                self.not_modern(now, Probe::Outstanding, late)
            }
            Step::Handshake { probe: Probe::Answered(discovered), .. } => {
                self.settle_discovered(now, discovered)
            }
            Step::Handshake { .. } => self.fresh(now, INITIALIZE, Ending::TimedOut(self.patience)),
            Step::LateProbe { refusal } => self.fresh(now, INITIALIZE, Ending::Refused(refusal)),
            Step::Accepted { asked, initialized } => self.settle_initialized(asked, initialized),
            step @ (Step::Idle | Step::Settled) => {
                self.step = step;
                Act::Wait
            }
        }
    }

    /// The time for connecting is over.
    fn fail_not_ready(&mut self) -> Act {
        let step = match self.step {
            Step::Idle => ConnectStep::Open,
            Step::Probing { .. } | Step::LateProbe { .. } => ConnectStep::Probe,
            Step::Handshake { .. } | Step::Accepted { .. } | Step::Settled => ConnectStep::Initialize,
        };
        let mut tried = core::mem::take(&mut self.tried);
        let within = self.timeouts.total;
        let late = ConnectError::NotReady { during: step.as_str(), within, last: None };
        if tried.is_empty() {
            return self.fail(late);
        }
        tried.push(late);
        self.fail(ConnectError::Tried(tried))
    }

    fn wait(&mut self, now: Instant, patience: Duration) {
        self.patience = patience;
        self.timer = Some(now + patience);
    }

    fn probe(&mut self, now: Instant, version: Revision, repeated: bool) -> Act {
        if self.probes >= MOST_PROBES {
            return self.fail(ConnectError::Unexpected {
                during: PROBE,
                what: format!("it asked for another version {MOST_PROBES} times"),
            });
        }
        self.probes = self.probes.saturating_add(1);
        let known_modern = matches!(self.opening, Opening::Modern(_))
            || self.verdict.is_some_and(|verdict| verdict.era == Era::Modern);
        match self.mode {
            // There is nothing else to try.
            Mode::ModernOnly => self.timer = None,
            // A server that was modern before is given the time that a slow start takes, rather than a second handshake.
            _ if known_modern => self.wait(now, self.timeouts.initialize),
            _ => self.wait(now, self.timeouts.probe_within_total()),
        }
        self.step = Step::Probing { asked: version, repeated };
        Act::Probe(version)
    }

    fn handshake(&mut self, now: Instant, version: Revision, probe: Probe) -> Act {
        self.wait(now, self.timeouts.initialize);
        self.step = Step::Handshake { asked: version, probe };
        Act::Initialize(version)
    }

    /// The server is not modern, as far as the probe can tell.
    fn not_modern(&mut self, now: Instant, probe: Probe, evidence: ConnectError) -> Act {
        if self.mode == Mode::ModernOnly {
            return self.fail(ConnectError::LegacyServer { evidence: evidence.to_string() });
        }
        self.tried.push(evidence);
        self.handshake(now, Revision::LATEST_LEGACY, probe)
    }

    fn settle_discovered(&mut self, now: Instant, discovered: Discovered) -> Act {
        match handshake::choose(&discovered.versions) {
            Some(version) if version.era() == Era::Modern => {
                self.settle(Era::Modern, version, Some(discovered.server))
            }
            Some(version) if self.mode == Mode::Auto && !self.chosen => {
                self.chosen = true;
                self.handshake(now, version, Probe::Refused)
            }
            _ => self.no_common_version(discovered.versions),
        }
    }

    fn settle(&mut self, era: Era, revision: Revision, server: Option<Box<SelfDescription>>) -> Act {
        self.step = Step::Settled;
        self.timer = None;
        self.end = None;
        self.tried = Vec::new();
        Act::Settle { era, revision, server }
    }

    fn has_capability(&self, name: &str) -> bool {
        let declared = Json::encode(&self.capabilities).ok();
        let map = declared.and_then(|json| json.decode::<alloc::collections::BTreeMap<String, Json>>().ok());
        map.is_some_and(|map| map.contains_key(name))
    }

    fn no_common_version(&mut self, theirs: Vec<String>) -> Act {
        let known = Revision::MODERN.iter().chain(Revision::LEGACY);
        let ours = known
            .filter(|revision| match self.mode {
                Mode::Auto => true,
                Mode::ModernOnly => revision.era() == Era::Modern,
                Mode::LegacyOnly => revision.era() == Era::Legacy,
            })
            .map(|revision| revision.as_str())
            .collect();
        self.fail(ConnectError::NoCommonVersion { ours, theirs })
    }

    fn fail(&mut self, error: ConnectError) -> Act {
        self.step = Step::Settled;
        self.timer = None;
        self.end = None;
        Act::Fail(error)
    }
}

/// The beginning of a text that a peer wrote, for an error message.
fn excerpt(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}
