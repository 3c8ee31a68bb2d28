//! The judgement of a server's era by its answers: one table for byte streams and HTTP.
//!
//! A transport sends the era probe (`server/discover`) or `initialize`, reads the outcome as [`Evidence`], and takes
//! the step that [`judge`] decides. When it sends and how long it waits is its own affair; so is the other way that may
//! remain: a fresh link, or the event stream of HTTP+SSE (2024-11-05).
//!
//! | evidence | about the probe | about `initialize` |
//! |---|---|---|
//! | a discovery result | the newest common version: modern, or `initialize` with a legacy one | as any other answer |
//! | an initialize result | as any other answer | legacy; modern, if it names a modern version that the policy allows |
//! | -32022 with a list | the probe or `initialize` with the newest common version; the same probe once more if the list contains its version | modern, or `initialize` with the newest common version, once |
//! | -32022 without a list | failure | failure |
//! | -32021 | once more if this client declares the capabilities, otherwise failure | failure |
//! | -32020 about headers | once more, then failure: an intermediary changes them | modern, at the version that was probed |
//! | another sign that only a modern server gives | modern, at the version that was probed | the same |
//! | any other answer, which leaves another way | the other way | the same |
//! | any other answer | `initialize` | with the newest common legacy version that the error lists, once; otherwise failure |
//! | the end of the link | the other way, otherwise failure | the same |
//! | a temporary failure | again, later | the same |
//! | a refusal of every request | failure | the same |
//!
//! A client of [`EraPolicy::ModernOnly`] fails where the table leads away from the probe; one of
//! [`EraPolicy::LegacyOnly`] is never modern. A client that knows a legacy server begins with `initialize`: it drops the
//! known era and starts over with the probe at a sign that only modern servers give, and where no other step remains. A
//! server that is known to be modern and ends the link at the probe is started again, and probed.
//!
//! Only a valid initialize result proves the legacy era; only a valid discovery result, or a sign that only modern
//! servers give, proves the modern era.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions>

#[cfg(test)]
mod tests;

use crate::peer::{Leniency, Strictness};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{ClientCapabilities, Era, Revision};

use super::handshake::{self, ServerDescription};
use super::{ClientConfig, ConnectError, ConnectStep, Diagnostic, EraPolicy, KnownEra, ServerInfo};

/// The maximum number of probes; no honest server asks for more.
const MAX_PROBES: u8 = 3;

/// A request whose outcome is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EraRequest {
    /// `server/discover`; `repeated` if an answer led to the same version once more.
    Probe { version: Revision, repeated: bool },
    /// `initialize`; `listed` if a list of the server determined the version. `probed` is the version of the last probe.
    Initialize { version: Revision, listed: bool, probed: Revision },
}

impl EraRequest {
    /// The first probe.
    pub(crate) const PROBE: Self = Self::Probe { version: Revision::LATEST, repeated: false };

    /// `initialize` with a version that no list determined.
    pub(crate) const fn initialize(version: Revision) -> Self {
        Self::Initialize { version, listed: false, probed: Revision::LATEST }
    }

    /// The request that follows if the server turns out not to be modern.
    pub(crate) const fn or_initialize(self) -> Self {
        match self {
            Self::Probe { version: probed, .. } => {
                Self::Initialize { version: Revision::LATEST_LEGACY, listed: false, probed }
            }
            Self::Initialize { .. } => self,
        }
    }

    /// The last probe.
    pub(crate) const fn or_probe(self) -> Self {
        match self {
            Self::Probe { .. } => self,
            Self::Initialize { probed, .. } => Self::Probe { version: probed, repeated: false },
        }
    }

    pub(crate) const fn step(self) -> ConnectStep {
        match self {
            Self::Probe { .. } => ConnectStep::Probe,
            Self::Initialize { .. } => ConnectStep::Initialize,
        }
    }
}

/// The outcome of a request as evidence of the server's era.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A valid discovery result, with the server's versions.
    Discovered(Vec<String>),
    /// A valid initialize result, with the server's version; whether an unknown one is `tolerated`.
    Initialized { version: String, tolerated: bool },
    /// -32022, with the server's versions if they are readable.
    UnsupportedVersion(Option<Vec<String>>),
    /// -32021, and whether this client declares the required capabilities.
    MissingCapability { declared: bool },
    /// -32020 on a transport with headers.
    HeaderMismatch,
    /// Another sign that only modern servers give.
    Modern,
    /// Any other answer, or a lack of one that the transport takes for an answer.
    NotUnderstood {
        /// The version in place of the refused one that the error offers.
        offered: Option<Revision>,
        /// Whether the answer leaves another way.
        elsewhere: bool,
    },
    /// The end of the link, which can be opened again; `elsewhere` if that has not been tried.
    Ended { elsewhere: bool },
    /// A failure that says nothing about the era and may pass.
    Temporary,
    /// A refusal of every request, whatever its era.
    Barred,
}

/// The decision on an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EraDecision {
    /// Send this request next.
    Ask(EraRequest),
    /// The server is of this revision's era.
    Finish(Revision),
    /// Try the other way to the server.
    Elsewhere,
    /// Drop the known era, and start with the probe.
    StartOver,
    /// Send the same request again, later.
    Retry,
    /// Fail with the error of the outcome itself.
    GiveUp,
    /// Fail: the server is legacy, and the policy allows only modern ones.
    RejectLegacy,
    /// Fail with another error.
    Fail(ConnectError),
}

/// Decides what follows from the outcome of a request: the [table](self) of era detection.
pub(crate) fn judge(
    policy: EraPolicy,
    known: Option<KnownEra>,
    asked: EraRequest,
    evidence: &Evidence,
) -> EraDecision {
    // Only a client that speaks both eras may start over.
    let known = known.filter(|_| policy == EraPolicy::Auto).map(|known| known.era);
    match (asked, evidence) {
        (_, Evidence::Temporary) => EraDecision::Retry,
        (_, Evidence::Barred) => EraDecision::GiveUp,
        (EraRequest::Probe { version, repeated }, _) => {
            judge_probe(policy, known, (version, repeated), evidence)
        }
        (_, Evidence::Initialized { version, tolerated }) => judge_initialized(policy, version, *tolerated),
        (EraRequest::Initialize { listed, probed, .. }, _) => {
            judge_refusal(policy, known == Some(Era::Legacy), listed, probed, evidence)
        }
    }
}

/// Judges the outcome of a probe.
fn judge_probe(
    policy: EraPolicy,
    known: Option<Era>,
    (version, repeated): (Revision, bool),
    evidence: &Evidence,
) -> EraDecision {
    match evidence {
        Evidence::Discovered(versions) => choose(policy, versions, version, EraDecision::Finish),
        //= C2.5 "On a recognised modern error (-32022 etc.) do not fall back to `initialize`"
        Evidence::UnsupportedVersion(Some(versions))
            if !versions.iter().any(|listed| listed == version.as_str()) =>
        {
            let probe = |version| EraDecision::Ask(EraRequest::Probe { version, repeated: false });
            choose(policy, versions, version, probe)
        }
        Evidence::UnsupportedVersion(Some(_))
        | Evidence::MissingCapability { declared: true }
        | Evidence::HeaderMismatch
            if !repeated =>
        {
            EraDecision::Ask(EraRequest::Probe { version, repeated: true })
        }
        Evidence::UnsupportedVersion(_) | Evidence::MissingCapability { .. } | Evidence::HeaderMismatch => {
            EraDecision::GiveUp
        }
        Evidence::Modern => EraDecision::Finish(version),
        Evidence::Ended { .. } if known == Some(Era::Modern) => EraDecision::StartOver,
        Evidence::Ended { elsewhere: true } if policy != EraPolicy::ModernOnly => EraDecision::Elsewhere,
        Evidence::Ended { .. } => EraDecision::GiveUp,
        _ if policy == EraPolicy::ModernOnly => EraDecision::RejectLegacy,
        Evidence::NotUnderstood { elsewhere: true, .. } => EraDecision::Elsewhere,
        //= C2.4 "stdio fallback is not tied to one error code: any non-modern error"
        _ => EraDecision::Ask(EraRequest::Probe { version, repeated }.or_initialize()),
    }
}

/// Judges a valid initialize result. An unknown version is read, if that is `tolerated`, as the newest known legacy
/// revision that is not later.
fn judge_initialized(policy: EraPolicy, version: &str, tolerated: bool) -> EraDecision {
    match Revision::parse(version) {
        Some(revision) if policy.versions().any(|allowed| allowed == revision) => {
            EraDecision::Finish(revision)
        }
        //= K14 "tolerated and reported"
        None if tolerated => {
            // Dates of this form are ordered as texts are; nothing is known about any other text.
            let earlier = |known: &&Revision| is_date(version) && known.as_str() <= version;
            let used = Revision::LEGACY.iter().find(earlier).copied();
            EraDecision::Finish(used.unwrap_or(Revision::OLDEST))
        }
        //= K14 "An unknown version in the result of `initialize` is a typed error"
        //= C2.13 "unsupported version → disconnect"
        _ => no_common_version(policy, &[version.to_string()]),
    }
}

/// Judges an outcome of `initialize` other than a valid result; `may_start_over` if a known era led to it.
fn judge_refusal(
    policy: EraPolicy,
    may_start_over: bool,
    listed: bool,
    probed: Revision,
    evidence: &Evidence,
) -> EraDecision {
    match evidence {
        Evidence::UnsupportedVersion(_)
        | Evidence::MissingCapability { .. }
        | Evidence::HeaderMismatch
        | Evidence::Modern
            if may_start_over =>
        {
            EraDecision::StartOver
        }
        Evidence::UnsupportedVersion(Some(versions)) if !listed => {
            choose(policy, versions, probed, EraDecision::Finish)
        }
        Evidence::HeaderMismatch | Evidence::Modern if policy == EraPolicy::Auto => {
            EraDecision::Finish(probed)
        }
        &Evidence::NotUnderstood { offered: Some(version), .. } if !listed => {
            EraDecision::Ask(EraRequest::Initialize { version, listed: true, probed })
        }
        Evidence::NotUnderstood { elsewhere: true, .. } | Evidence::Ended { elsewhere: true } => {
            EraDecision::Elsewhere
        }
        _ if may_start_over => EraDecision::StartOver,
        _ => EraDecision::GiveUp,
    }
}

/// Chooses the newest common version of a server's list.
fn choose(
    policy: EraPolicy,
    versions: &[String],
    probed: Revision,
    modern: impl FnOnce(Revision) -> EraDecision,
) -> EraDecision {
    match policy.choose_version(versions) {
        Some(version) if version.era() == Era::Modern => modern(version),
        Some(version) => EraDecision::Ask(EraRequest::Initialize { version, listed: true, probed }),
        None => no_common_version(policy, versions),
    }
}

fn no_common_version(policy: EraPolicy, theirs: &[String]) -> EraDecision {
    let ours = policy.versions().map(Revision::as_str).collect();
    EraDecision::Fail(ConnectError::NoCommonVersion { ours, theirs: theirs.to_vec() })
}

/// Whether a text has the form `2025-11-25`.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// The outcome of a request of detection.
#[derive(Debug)]
pub(crate) struct JudgedAnswer {
    pub(crate) evidence: Evidence,
    /// The server's description of itself in a valid result; otherwise the error to report if detection fails.
    pub(crate) server: Result<Box<ServerDescription>, ConnectError>,
}

impl JudgedAnswer {
    pub(crate) const fn failure(evidence: Evidence, error: ConnectError) -> Self {
        Self { evidence, server: Err(error) }
    }
}

/// The next action of a detection.
#[derive(Debug)]
pub(crate) enum DetectAction {
    /// Wait for input or a timer.
    Wait,
    /// Send `server/discover` with this version.
    Probe(Revision),
    /// Send `initialize` with this version.
    Initialize(Revision),
    /// Open a fresh link; over HTTP, the event stream of HTTP+SSE.
    Open,
    /// Detection has succeeded: continue with this server.
    Finish { server: Box<ServerInfo>, known_era: KnownEra },
    /// Detection has failed.
    Fail(ConnectError),
}

/// Reads the answers of one server and judges them.
#[derive(Debug)]
pub(crate) struct EraJudge {
    pub(crate) policy: EraPolicy,
    /// The era that the server had before, until detection is finished or has refuted it.
    pub(crate) known: Option<KnownEra>,
    capabilities: ClientCapabilities,
    is_lenient: bool,
    tolerates_unknown_version: bool,
    /// The number of probes since detection began or started over.
    pub(crate) probes: u8,
    /// The errors of earlier steps, each of which led to another step.
    pub(crate) failed: Vec<ConnectError>,
    /// Reports to the application that are not taken yet.
    diagnostics: Vec<Diagnostic>,
}

impl EraJudge {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let is_lenient = config.strictness == Strictness::Lenient;
        Self {
            policy: config.era_policy,
            known: config.known_era,
            capabilities: config.capabilities.clone(),
            is_lenient,
            tolerates_unknown_version: is_lenient || config.tolerate_unknown_version,
            probes: 0,
            failed: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Takes the reports to the application: a wrong known era, tolerated deviations.
    pub(crate) fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        core::mem::take(&mut self.diagnostics)
    }

    /// The first request, by the policy and the known era.
    pub(crate) fn first_request(&self) -> EraRequest {
        match (self.policy, self.known) {
            (EraPolicy::Auto | EraPolicy::LegacyOnly, Some(KnownEra { era: Era::Legacy, version, .. })) => {
                EraRequest::initialize(version)
            }
            (EraPolicy::LegacyOnly, _) => EraRequest::initialize(Revision::LATEST_LEGACY),
            (EraPolicy::Auto | EraPolicy::ModernOnly, _) => EraRequest::PROBE,
        }
    }

    /// Counts a probe.
    ///
    /// # Errors
    /// If there were too many.
    pub(crate) fn count_probe(&mut self) -> Result<(), ConnectError> {
        if self.probes >= MAX_PROBES {
            let reason = format!("it asked for another version {MAX_PROBES} times");
            let during = ConnectStep::Probe.as_str();
            return Err(ConnectError::Unexpected { during, reason });
        }
        self.probes = self.probes.saturating_add(1);
        Ok(())
    }

    // --- Evidence ---

    /// Reads a result; `None` if it does not answer that request.
    pub(crate) fn read_result(&self, asked: EraRequest, result: &Raw) -> Option<JudgedAnswer> {
        let (evidence, server) = match asked {
            EraRequest::Probe { .. } => {
                let (versions, server) = handshake::read_discover(result)?;
                (Evidence::Discovered(versions), server)
            }
            EraRequest::Initialize { .. } => {
                let (version, server) = handshake::read_initialize(result)?;
                (Evidence::Initialized { version, tolerated: self.tolerates_unknown_version }, server)
            }
        };
        Some(JudgedAnswer { evidence, server: Ok(server) })
    }

    /// Reads an error that only modern servers send; `None` for any other.
    pub(crate) fn read_modern_error(&self, asked: EraRequest, error: &ErrorObject) -> Option<JudgedAnswer> {
        let data = error.data.as_ref();
        let mut reported = ConnectError::Refused { during: asked.step().as_str(), error: error.clone() };
        let about_probe = matches!(asked, EraRequest::Probe { .. });
        //= C1.10 "No fixed meaning may be given to -32000…-32019"
        let evidence = match error.code {
            code::UNSUPPORTED_PROTOCOL_VERSION => {
                Evidence::UnsupportedVersion(handshake::offered_versions(data))
            }
            code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                let required = handshake::required_capabilities(data).filter(|_| about_probe);
                let declared = required.is_some_and(|(names, required)| {
                    reported = ConnectError::MissingCapabilities { required };
                    handshake::declares_all(&self.capabilities, &names)
                });
                Evidence::MissingCapability { declared }
            }
            //= C1.11 "Recognise -32020 HeaderMismatch"
            code::HEADER_MISMATCH => {
                if about_probe {
                    reported = ConnectError::HeadersChanged { error: error.clone() };
                }
                Evidence::HeaderMismatch
            }
            _ => return None,
        };
        Some(JudgedAnswer::failure(evidence, reported))
    }

    /// The version that an error offers in place of the refused one, if this client is lenient and takes one.
    pub(crate) fn offered_version(&self, asked: EraRequest, error: &ErrorObject) -> Option<Revision> {
        match asked {
            EraRequest::Initialize { version, listed: false, .. } if self.is_lenient => {
                handshake::alternative_version(error.data.as_ref(), version)
            }
            _ => None,
        }
    }

    // --- Decisions ---

    /// Decides what follows from an answer.
    pub(crate) fn judge(&self, asked: EraRequest, answer: &JudgedAnswer) -> EraDecision {
        judge(self.policy, self.known, asked, &answer.evidence)
    }

    /// Decides what follows from an answer, and keeps what later steps need to know. A failure is always
    /// [`EraDecision::Fail`].
    pub(crate) fn decide(&mut self, asked: EraRequest, answer: &JudgedAnswer) -> EraDecision {
        let decision = self.judge(asked, answer);
        let error = answer.server.as_ref().err();
        match (&decision, error) {
            (EraDecision::GiveUp, Some(error)) => return EraDecision::Fail(error.clone()),
            (EraDecision::RejectLegacy, Some(error)) => {
                return EraDecision::Fail(ConnectError::LegacyServer { evidence: error.to_string() });
            }
            (EraDecision::StartOver, _) => self.forget_known(),
            _ => {}
        }
        let is_step = matches!(
            decision,
            EraDecision::Ask(EraRequest::Initialize { .. }) | EraDecision::Elsewhere | EraDecision::StartOver
        );
        self.failed.extend(error.filter(|_| is_step).cloned());
        self.diagnostics.extend(tolerated(asked, &answer.evidence, &decision).map(Diagnostic::Tolerated));
        decision
    }

    /// Drops a known era that proved wrong.
    pub(crate) fn forget_known(&mut self) {
        self.known = None;
        self.probes = 0;
        self.diagnostics.push(Diagnostic::KnownEraWrong);
    }

    /// Ends detection: the server is known, and `known_era` is what the next connection should know.
    pub(crate) fn finish(
        &mut self,
        revision: Revision,
        mut server: Option<Box<ServerDescription>>,
        known_era: KnownEra,
    ) -> DetectAction {
        if self.known.take().is_some_and(|known| known.era != known_era.era) {
            self.forget_known();
        }
        self.failed.clear();
        if let Some(server) = server.as_mut().filter(|_| self.is_lenient) {
            let tolerated = server.tolerate_empty_arrays().into_iter().map(|of| Leniency::EmptyArray { of });
            self.diagnostics.extend(tolerated.map(Diagnostic::Tolerated));
        }
        let server = ServerInfo::new(revision, server);
        DetectAction::Finish { server: Box::new(server), known_era }
    }

    /// Returns all errors of a failed detection as one.
    pub(crate) fn all_failed(&mut self, error: ConnectError) -> ConnectError {
        let mut tried = core::mem::take(&mut self.failed);
        if tried.is_empty() {
            return error;
        }
        tried.push(error);
        ConnectError::AllFailed(tried)
    }
}

/// The deviation from the specification that a decision tolerates.
fn tolerated(asked: EraRequest, evidence: &Evidence, decision: &EraDecision) -> Option<Leniency> {
    match (asked, evidence, decision) {
        (
            EraRequest::Initialize { version: refused, .. },
            Evidence::NotUnderstood { .. },
            &EraDecision::Ask(EraRequest::Initialize { version: offered, .. }),
        ) => Some(Leniency::VersionRetried { refused, offered }),
        (_, Evidence::Initialized { version, .. }, &EraDecision::Finish(used))
            if version != used.as_str() =>
        {
            Some(Leniency::UnknownVersion { answered: handshake::excerpt(version), used })
        }
        _ => None,
    }
}
