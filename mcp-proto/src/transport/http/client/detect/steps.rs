//! From one question to the next.

use super::*;

impl Detect {
    pub(super) fn enter(&mut self, step: Step) {
        self.step = step;
        self.retries = 0;
        self.last = None;
        self.resting = false;
        self.timer = None;
    }

    pub(super) fn wait_for(&mut self, now: Instant, patience: Duration) {
        self.resting = false;
        self.patience = patience;
        self.timer = Some(now + patience);
    }

    pub(super) fn probe(&mut self, now: Instant, version: Revision, repeated: bool) -> Act {
        if self.probes >= MOST_PROBES {
            return self.fail(ConnectError::Unexpected {
                during: PROBE,
                reason: format!("it asked for another version {MOST_PROBES} times"),
            });
        }
        self.probes = self.probes.saturating_add(1);
        self.modern = version;
        let step = Step::Probing { asked: version, repeated };
        match self.step {
            // What was tried again stays counted: the server is the same.
            Step::Probing { .. } => self.step = step,
            _ => self.enter(step),
        }
        self.wait_for(now, self.timeouts.probe_http);
        Act::Probe(version)
    }

    pub(super) fn handshake(&mut self, now: Instant, version: Revision, way: Way, lead: Lead) -> Act {
        self.enter(Step::Handshake { asked: version, way, lead });
        self.wait_for(now, self.timeouts.initialize_http);
        Act::Initialize(version)
    }

    /// What went wrong may be over soon: the same step again after a pause, if there is time for that.
    pub(super) fn rest(&mut self, now: Instant, error: ConnectError, pause: Option<Duration>) -> Act {
        if self.resting {
            return Act::Wait;
        }
        let pause = pause.unwrap_or_else(|| self.backoff.pause(self.retries, &mut self.chance));
        let again = now + pause;
        if self.retries >= self.backoff.attempts || self.end.is_some_and(|end| end <= again) {
            return self.fail(error);
        }
        self.retries = self.retries.saturating_add(1);
        self.last = Some(error);
        self.resting = true;
        self.timer = Some(again);
        Act::Wait
    }

    /// The server is not modern, as far as the probe can tell.
    pub(super) fn not_modern(&mut self, now: Instant, evidence: ConnectError) -> Act {
        if self.mode == EraPolicy::ModernOnly {
            return self.fail(ConnectError::LegacyServer { evidence: evidence.to_string() });
        }
        self.tried.push(evidence);
        self.handshake(now, Revision::LATEST_LEGACY, Way::Endpoint, Lead::Detection)
    }

    /// The server will have nothing of what was tried.
    pub(super) fn refused(&mut self, now: Instant, lead: Lead, error: ConnectError) -> Act {
        if lead != Lead::Detection && self.mode == EraPolicy::Auto && !self.started_over {
            return self.start_over(now, error);
        }
        self.fail(error)
    }

    /// What was remembered of the server led nowhere: detection from the start, once.
    pub(super) fn start_over(&mut self, now: Instant, error: ConnectError) -> Act {
        self.started_over = true;
        self.verdict = None;
        self.verdict_dropped = true;
        self.probes = 0;
        self.chosen = false;
        self.tried.push(error);
        self.probe(now, Revision::LATEST, false)
    }

    pub(super) fn settle_discovered(&mut self, now: Instant, discovered: DiscoverAnswer) -> Act {
        match self.choose(&discovered.versions) {
            Some(version) if version.era() == Era::Modern => {
                self.settle(version, Way::Endpoint, Some(discovered.server))
            }
            Some(version) => {
                self.chosen = true;
                self.handshake(now, version, Way::Endpoint, Lead::Detection)
            }
            None => self.no_common_version(discovered.versions),
        }
    }

    pub(super) fn settle_initialized(
        &mut self,
        asked: Revision,
        way: Way,
        initialized: handshake::InitializeAnswer,
    ) -> Act {
        match Revision::parse(&initialized.version) {
            Some(version) if version.era() == Era::Modern && way == Way::BesideEvents => {
                self.fail(ConnectError::Unexpected {
                    during: INITIALIZE,
                    reason: format!("nothing of {} travels beside a stream of events", version.as_str()),
                })
            }
            Some(version) if self.allowed().any(|allowed| allowed == version) => {
                self.settle(version, way, Some(initialized.server))
            }
            None if self.tolerate => self.settle(asked, way, Some(initialized.server)),
            _ => self.no_common_version([initialized.version].into()),
        }
    }

    pub(super) fn settle(
        &mut self,
        version: Revision,
        way: Way,
        server: Option<Box<ServerDescription>>,
    ) -> Act {
        let era = version.era();
        self.verdict_dropped |= self.verdict.take().is_some_and(|verdict| verdict.era != era);
        self.enter(Step::Settled { era, way });
        self.end = None;
        self.tried.clear();
        let server = match server {
            Some(server) => server.into_info(era, version),
            None => ServerInfo {
                era,
                revision: version,
                implementation: None,
                capabilities: None,
                instructions: None,
            },
        };
        Act::Settle {
            server: Box::new(server),
            verdict: KnownEra { era, version, probe_breaks_server: false },
        }
    }

    pub(super) fn no_common_version(&mut self, theirs: Vec<String>) -> Act {
        let ours = self.allowed().map(Revision::as_str).collect();
        self.fail(ConnectError::NoCommonVersion { ours, theirs })
    }

    pub(super) fn fail(&mut self, error: ConnectError) -> Act {
        self.enter(Step::Failed);
        self.end = None;
        if self.tried.is_empty() {
            return Act::Fail(error);
        }
        let mut tried = core::mem::take(&mut self.tried);
        tried.push(error);
        Act::Fail(ConnectError::AllFailed(tried))
    }
}
