//! Which era the server speaks: the one algorithm for byte streams, as a machine of its own.
//!
//! | step | what comes | what follows |
//! |---|---|---|
//! | probing | a discovery result | the newest common version: modern, or the handshake at a legacy one |
//! | probing | -32022 with a list | the same by that list; the same version once more if it is in the list |
//! | probing | -32021 | once more if this client has what is required, otherwise failure |
//! | probing | -32020 | modern |
//! | probing | any other answer, or none in time | the handshake, on the same link |
//! | probing | the end of the link | a fresh link, and the handshake first on it |
//! | handshake | an initialize result | legacy (modern, if it names a modern version) |
//! | handshake | a discovery result | kept until the handshake is answered |
//! | handshake | an error, with a discovery result kept or still to come | modern |
//! | handshake | -32022 with a list | the newest common version of the list, once |
//! | handshake | any other error, no answer in time, the end of the link | a fresh link once, then failure |
//!
//! The probe and `initialize` are never cancelled. Legacy is concluded only from a valid initialize result, modern only
//! from a valid discovery result or an error that only modern servers know.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility>

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use crate::Instant;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{ClientCapabilities, Era, Json, Revision};

use super::handshake::{self, Discovered, SelfDescription};
use super::{ClientConfig, ConnectError, ConnectTimeouts, Mode, Verdict};

const PROBE: &str = "the era probe (server/discover)";
const INITIALIZE: &str = "the handshake (initialize)";
/// More answers of "ask again" than any honest server has use for.
const MOST_PROBES: u8 = 3;

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
    Settled,
}

/// The detection of one connection.
#[derive(Debug)]
pub(super) struct Detect {
    mode: Mode,
    verdict: Option<Verdict>,
    capabilities: ClientCapabilities,
    can_reopen: bool,
    tolerate: bool,
    timeouts: ConnectTimeouts,
    step: Step,
    probes: u8,
    /// A fresh link is open, or was asked for, because the first one ended: `initialize` goes first on it.
    second_link: bool,
    /// Whether an error has already chosen the version of the handshake.
    chosen: bool,
    /// The modern version of a server that answered the probe, and then accepted `initialize`.
    also_modern: Option<Revision>,
    /// The supplied verdict was wrong.
    pub(super) verdict_dropped: bool,
    timer: Option<Instant>,
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
            timeouts: config.connect,
            step: Step::Idle,
            probes: 0,
            second_link: false,
            chosen: false,
            also_modern: None,
            verdict_dropped: false,
            timer: None,
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
        self.second_link || self.verdict.is_some_and(|verdict| verdict.probe_breaks_it)
    }

    /// The modern version to begin with next time, of a server that speaks both eras.
    pub(super) fn also_modern(&self) -> Option<Revision> {
        self.also_modern
    }

    /// The whole connect begins: a link was opened.
    pub(super) fn begin(&mut self, now: Instant) {
        self.end.get_or_insert(now + self.timeouts.total);
    }

    /// A link is open.
    pub(super) fn handle_open(&mut self, now: Instant) -> Act {
        let remembered = self.verdict.map(|verdict| verdict.era);
        let handshake_first = self.second_link
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
                let probe = discovered.map_or(Probe::Refused, Probe::Answered);
                self.step = Step::Handshake { asked, probe };
                Act::Wait
            }
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
                return self.not_modern(
                    now,
                    Probe::Refused,
                    format!("it answered {PROBE} with {}", excerpt(result.as_str())),
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
            _ => self.not_modern(now, Probe::Refused, format!("it answered {PROBE} with an error: {error}")),
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
            Ok(result) => return self.handle_initialize_result(now, asked, &probe, &result),
            Err(error) => error,
        };
        let other_version = error.code == code::UNSUPPORTED_PROTOCOL_VERSION;
        if other_version
            && !self.chosen
            && let Some(act) = self.choose_after_refusal(now, &error, &probe)
        {
            return act;
        }
        match probe {
            Probe::Answered(discovered) => self.settle_discovered(now, discovered),
            Probe::Outstanding => {
                self.step = Step::LateProbe { refusal: error };
                self.timer = Some(now + self.timeouts.late_probe);
                Act::Wait
            }
            // A list that can not be read is no reason to try the same elsewhere.
            Probe::Refused if other_version && handshake::offered(error.data.as_ref()).is_none() => {
                self.fail(ConnectError::Refused { during: INITIALIZE, error })
            }
            Probe::NotSent | Probe::Refused => self.fresh(now, INITIALIZE, Ending::Refused(error)),
        }
    }

    fn handle_initialize_result(
        &mut self,
        now: Instant,
        asked: Revision,
        probe: &Probe,
        result: &Raw,
    ) -> Act {
        let Some(initialized) = handshake::initialized(result) else {
            let what = format!("no protocolVersion in {}", excerpt(result.as_str()));
            return self.fresh(now, INITIALIZE, Ending::Unexpected(what));
        };
        if let Probe::Answered(discovered) = probe {
            self.also_modern =
                handshake::choose(&discovered.versions).filter(|version| version.era() == Era::Modern);
        }
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
            Step::Probing { .. } => Some(self.handle_probe(now, Err(error.clone()))),
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
            Step::Handshake { .. } => self.fresh(now, INITIALIZE, Ending::Ended(detail.into())),
            Step::Idle | Step::Settled => {
                self.fail(ConnectError::Ended { during: INITIALIZE, detail: detail.into() })
            }
        }
    }

    /// A timer may be due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Act {
        if self.end.is_some_and(|end| end <= now) {
            let during = match self.step {
                Step::Idle => "the opening of the connection",
                Step::Probing { .. } => PROBE,
                _ => INITIALIZE,
            };
            return self.fail(ConnectError::TimedOut { during });
        }
        if self.timer.is_none_or(|timer| timer > now) {
            return Act::Wait;
        }
        self.timer = None;
        match core::mem::replace(&mut self.step, Step::Settled) {
            Step::Probing { .. } if self.mode == Mode::ModernOnly => {
                self.fail(ConnectError::TimedOut { during: PROBE })
            }
            Step::Probing { .. } => {
                self.not_modern(now, Probe::Outstanding, format!("it did not answer {PROBE} in time"))
            }
            Step::Handshake { probe: Probe::Answered(discovered), .. } => {
                self.settle_discovered(now, discovered)
            }
            Step::Handshake { .. } => self.fresh(now, INITIALIZE, Ending::TimedOut),
            Step::LateProbe { refusal } => self.fresh(now, INITIALIZE, Ending::Refused(refusal)),
            step @ (Step::Idle | Step::Settled) => {
                self.step = step;
                Act::Wait
            }
        }
    }

    fn probe(&mut self, now: Instant, version: Revision, repeated: bool) -> Act {
        if self.probes >= MOST_PROBES {
            return self.fail(ConnectError::Unexpected {
                during: PROBE,
                what: format!("it asked for another version {MOST_PROBES} times"),
            });
        }
        self.probes = self.probes.saturating_add(1);
        // A server that was modern before is given the time that a slow start takes, rather than a second handshake.
        let patience = match self.verdict {
            Some(Verdict { era: Era::Modern, .. }) => self.timeouts.initialize,
            _ => self.timeouts.probe,
        };
        self.timer = Some(now + patience);
        self.step = Step::Probing { asked: version, repeated };
        Act::Probe(version)
    }

    fn handshake(&mut self, now: Instant, version: Revision, probe: Probe) -> Act {
        self.timer = Some(now + self.timeouts.initialize);
        self.step = Step::Handshake { asked: version, probe };
        Act::Initialize(version)
    }

    /// The server is not modern, as far as the probe can tell.
    fn not_modern(&mut self, now: Instant, probe: Probe, evidence: String) -> Act {
        match self.mode {
            Mode::ModernOnly => self.fail(ConnectError::LegacyServer { evidence }),
            _ => self.handshake(now, Revision::LATEST_LEGACY, probe),
        }
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
        Act::Settle { era, revision, server }
    }

    /// The link is of no use any more: get a fresh one if that has not been tried, or fail.
    fn fresh(&mut self, now: Instant, during: &'static str, ending: Ending) -> Act {
        self.timer = None;
        if self.verdict.is_some() && !self.verdict_dropped {
            return self.start_over(now, during, ending);
        }
        let probed = self.probes > 0;
        if self.can_reopen && probed && !self.second_link {
            self.second_link = true;
            self.step = Step::Idle;
            return Act::Reopen;
        }
        self.give_up(during, ending)
    }

    fn give_up(&mut self, during: &'static str, ending: Ending) -> Act {
        self.fail(match ending {
            Ending::Ended(detail) if during == PROBE && !self.can_reopen => {
                ConnectError::ProbeBroke { detail }
            }
            ending => ending.into_error(during),
        })
    }

    /// A supplied verdict led nowhere: forget it and detect from the start, once.
    fn start_over(&mut self, now: Instant, during: &'static str, ending: Ending) -> Act {
        let link_is_open = !matches!(ending, Ending::Ended(_));
        self.verdict_dropped = true;
        self.verdict = None;
        self.probes = 0;
        self.chosen = false;
        if self.mode == Mode::Auto && link_is_open {
            return self.probe(now, Revision::LATEST, false);
        }
        if self.mode == Mode::Auto && self.can_reopen {
            self.step = Step::Idle;
            return Act::Reopen;
        }
        self.give_up(during, ending)
    }

    fn has_capability(&self, name: &str) -> bool {
        let declared = Json::encode(&self.capabilities).ok();
        let map = declared.and_then(|json| json.decode::<alloc::collections::BTreeMap<String, Json>>().ok());
        map.is_some_and(|map| map.contains_key(name))
    }

    fn no_common_version(&mut self, theirs: alloc::vec::Vec<String>) -> Act {
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

/// Why a link is of no use any more.
enum Ending {
    Ended(String),
    Refused(ErrorObject),
    Unexpected(String),
    TimedOut,
}

impl Ending {
    fn into_error(self, during: &'static str) -> ConnectError {
        match self {
            Self::Ended(detail) => ConnectError::Ended { during, detail },
            Self::Refused(error) => ConnectError::Refused { during, error },
            Self::Unexpected(what) => ConnectError::Unexpected { during, what },
            Self::TimedOut => ConnectError::TimedOut { during },
        }
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
