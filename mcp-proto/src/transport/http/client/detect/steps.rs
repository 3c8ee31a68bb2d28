//! Transitions between the steps of detection.

use super::*;

impl HttpEraDetection {
    pub(super) fn enter_step(&mut self, step: HttpDetectStep) {
        self.step = step;
        self.retries = 0;
        self.last_error = None;
        self.is_backing_off = false;
        self.timer = None;
    }

    pub(super) fn set_timer(&mut self, now: Instant, patience: Duration) {
        self.is_backing_off = false;
        self.timer_duration = patience;
        self.timer = Some(now + patience);
    }

    pub(super) fn start_probe(
        &mut self,
        now: Instant,
        version: Revision,
        repeated: bool,
    ) -> HttpDetectAction {
        if self.probes >= MAX_PROBES {
            return self.fail(ConnectError::Unexpected {
                during: PROBE,
                reason: format!("it asked for another version {MAX_PROBES} times"),
            });
        }
        self.probes = self.probes.saturating_add(1);
        self.probed_version = version;
        let step = HttpDetectStep::Probing { version, repeated };
        match self.step {
            // Retries still count: the server is the same.
            HttpDetectStep::Probing { .. } => self.step = step,
            _ => self.enter_step(step),
        }
        self.set_timer(now, self.timeouts.probe_http);
        HttpDetectAction::Probe(version)
    }

    pub(super) fn start_handshake(
        &mut self,
        now: Instant,
        version: Revision,
        way: HandshakeTarget,
        lead: HandshakeReason,
    ) -> HttpDetectAction {
        self.enter_step(HttpDetectStep::Handshake { version, target: way, reason: lead });
        self.set_timer(now, self.timeouts.initialize_http);
        HttpDetectAction::Initialize(version)
    }

    /// Retries the step after a delay, as far as attempts and time are left.
    pub(super) fn back_off(
        &mut self,
        now: Instant,
        error: ConnectError,
        pause: Option<Duration>,
    ) -> HttpDetectAction {
        if self.is_backing_off {
            return HttpDetectAction::Wait;
        }
        let pause = pause.unwrap_or_else(|| self.backoff.pause(self.retries, &mut self.rng));
        let again = now + pause;
        if self.retries >= self.backoff.attempts || self.deadline.is_some_and(|end| end <= again) {
            return self.fail(error);
        }
        self.retries = self.retries.saturating_add(1);
        self.last_error = Some(error);
        self.is_backing_off = true;
        self.timer = Some(again);
        HttpDetectAction::Wait
    }

    /// Handles a probe that shows no modern server.
    pub(super) fn handle_not_modern(&mut self, now: Instant, evidence: ConnectError) -> HttpDetectAction {
        if self.policy == EraPolicy::ModernOnly {
            return self.fail(ConnectError::LegacyServer { evidence: evidence.to_string() });
        }
        self.failed_steps.push(evidence);
        self.start_handshake(
            now,
            Revision::LATEST_LEGACY,
            HandshakeTarget::Endpoint,
            HandshakeReason::Detection,
        )
    }

    /// Handles a server that refused every step so far.
    pub(super) fn handle_refused(
        &mut self,
        now: Instant,
        lead: HandshakeReason,
        error: ConnectError,
    ) -> HttpDetectAction {
        if lead != HandshakeReason::Detection && self.policy == EraPolicy::Auto && !self.has_started_over {
            return self.start_over(now, error);
        }
        self.fail(error)
    }

    /// Restarts detection once, after the known era proved wrong.
    pub(super) fn start_over(&mut self, now: Instant, error: ConnectError) -> HttpDetectAction {
        self.has_started_over = true;
        self.known_era = None;
        self.known_era_dropped = true;
        self.probes = 0;
        self.handshake_version_chosen = false;
        self.failed_steps.push(error);
        self.start_probe(now, Revision::LATEST, false)
    }

    pub(super) fn finish_discovered(&mut self, now: Instant, discovered: DiscoverAnswer) -> HttpDetectAction {
        match self.policy.choose_version(&discovered.versions) {
            Some(version) if version.era() == Era::Modern => {
                self.finish(version, HandshakeTarget::Endpoint, Some(discovered.server))
            }
            Some(version) => {
                self.handshake_version_chosen = true;
                self.start_handshake(now, version, HandshakeTarget::Endpoint, HandshakeReason::Detection)
            }
            None => self.fail_no_common_version(discovered.versions),
        }
    }

    pub(super) fn finish_initialized(
        &mut self,
        way: HandshakeTarget,
        initialized: handshake::InitializeAnswer,
    ) -> HttpDetectAction {
        let tolerated = self.tolerate || self.strictness == Strictness::Lenient;
        match handshake::initialized_revision(self.policy, tolerated, initialized.version) {
            Ok((version, _)) if version.era() == Era::Modern && way == HandshakeTarget::SseEndpoint => self
                .fail(ConnectError::Unexpected {
                    during: INITIALIZE,
                    reason: format!("revision {} cannot be used over HTTP+SSE", version.as_str()),
                }),
            Ok((version, leniency)) => {
                self.leniency = leniency;
                self.finish(version, way, Some(initialized.server))
            }
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn finish(
        &mut self,
        version: Revision,
        way: HandshakeTarget,
        server: Option<Box<ServerDescription>>,
    ) -> HttpDetectAction {
        let era = version.era();
        self.known_era_dropped |= self.known_era.take().is_some_and(|verdict| verdict.era != era);
        self.enter_step(HttpDetectStep::Detected { era, target: way });
        self.deadline = None;
        self.failed_steps.clear();
        HttpDetectAction::Finish {
            server: Box::new(ServerInfo::new(era, version, server)),
            verdict: KnownEra { era, version, probe_breaks_server: false },
        }
    }

    pub(super) fn fail_no_common_version(&mut self, theirs: Vec<String>) -> HttpDetectAction {
        self.fail(handshake::no_common_version(self.policy, theirs))
    }

    pub(super) fn fail(&mut self, error: ConnectError) -> HttpDetectAction {
        self.enter_step(HttpDetectStep::Failed);
        self.deadline = None;
        if self.failed_steps.is_empty() {
            return HttpDetectAction::Fail(error);
        }
        let mut tried = core::mem::take(&mut self.failed_steps);
        tried.push(error);
        HttpDetectAction::Fail(ConnectError::AllFailed(tried))
    }
}
