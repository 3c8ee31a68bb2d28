//! Detection of servers that answer both the era probe and the handshake.

use super::*;

impl EraDetection {
    /// Handles a server that answered the probe and accepted `initialize`: it speaks both eras, and this process serves
    /// legacy from now on.
    pub(super) fn handle_both_answered(
        &mut self,
        now: Instant,
        asked: Revision,
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
            && self.has_time_to_restart(now)
        {
            self.failed_attempts.push(ConnectError::BothErasAnswered);
            self.opening = LinkReason::Modern(version);
            self.probes = 0;
            return self.reopen();
        }
        self.also_modern = modern;
        self.finish_initialized(asked, initialized)
    }

    /// Whether a fresh link can be opened on which only the probe is sent.
    pub(super) fn can_restart_as_modern(&self) -> bool {
        self.era_policy == EraPolicy::Auto && self.can_reopen && self.opening == LinkReason::First
    }

    /// Whether time remains for another start, even one that takes twice as long as this one.
    fn has_time_to_restart(&self, now: Instant) -> bool {
        let (Some(opened), Some(end)) = (self.opened_at, self.total_deadline) else { return false };
        now.saturating_since(opened).saturating_mul(2) <= end.saturating_since(now)
    }
}
