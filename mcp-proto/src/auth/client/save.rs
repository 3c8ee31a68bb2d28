//! Loading and saving the record: one change at a time, by compare-and-swap.

use alloc::boxed::Box;
use alloc::string::String;

use crate::auth::Now;

use super::AuthClient;
use super::error::AuthError;
use super::event::{Event, SaveOutcome, StoredRecord};
use super::flow::{Flow, FlowEnd, FlowPurpose, FlowStep, StepResult};
use super::record::Record;
use super::record_change::{PendingSave, RecordChange};

/// Maximum number of conflicts of one change: that many mean that another process keeps writing.
const CONFLICTS: u32 = 16;

impl AuthClient {
    /// Begins a flow: loads the record.
    pub(super) fn load(&mut self, flow: Box<Flow>) -> StepResult {
        if self.actions.is_store_busy() {
            return Ok(flow.into_step(FlowStep::Queued));
        }
        self.actions.load();
        Ok(flow.into_step(FlowStep::Loading))
    }

    pub(super) fn handle_store_answer(&mut self, now: Now, loaded: Result<Option<StoredRecord>, String>) {
        if !self.actions.accept_loaded() {
            return;
        }
        self.run_step(now, |client, mut flow| match flow.take_step() {
            FlowStep::Queued => client.load(flow),
            FlowStep::Loading => {
                match loaded {
                    Ok(stored) => client.tokens.adopt_stored(stored),
                    Err(detail) if flow.purpose == FlowPurpose::Logout => {
                        return client.handle_removal_failure(now, flow, detail);
                    }
                    Err(detail) => return Err(AuthError::Store(detail).into()),
                }
                client.choose_step(now, flow)
            }
            FlowStep::AwaitingRenewal(wait) => {
                client.tokens.adopt_stored(loaded.map_err(AuthError::Store)?);
                client.handle_lease_state(now, flow, wait)
            }
            other => Ok(flow.into_step(other)),
        });
    }

    /// Saves a change to the record.
    pub(super) fn save(&mut self, now: Now, flow: Box<Flow>, change: RecordChange) -> StepResult {
        self.save_again(now, flow, change, 0)
    }

    fn save_again(&mut self, now: Now, flow: Box<Flow>, change: RecordChange, conflicts: u32) -> StepResult {
        let clear = matches!(change, RecordChange::Clear);
        if clear && self.tokens.version().is_none() {
            return self.revoke_removed(now, flow);
        }
        let record = match change.apply(now, self.tokens.record()) {
            Some(record) => record,
            None if clear => Record::default(),
            None => return self.handle_superseded(now, flow, change),
        };
        self.actions.store((!clear).then(|| record.clone()), self.tokens.version());
        Ok(flow.into_step(FlowStep::Saving(Box::new(PendingSave { change, record, conflicts }))))
    }

    pub(super) fn handle_save_outcome(&mut self, now: Now, saved: Result<SaveOutcome, String>) {
        if !self.actions.accept_stored() {
            return;
        }
        self.run_step(now, |client, mut flow| match flow.take_step() {
            FlowStep::Queued => client.load(flow),
            FlowStep::Saving(save) => match saved {
                Ok(SaveOutcome::Done(version)) => {
                    let version = (!matches!(save.change, RecordChange::Clear)).then_some(version);
                    client.tokens.adopt_saved(save.record, version);
                    client.handle_saved(now, flow, save.change)
                }
                Ok(SaveOutcome::Conflict(there)) if save.conflicts < CONFLICTS => {
                    client.tokens.adopt_stored(there);
                    client.save_again(now, flow, save.change, save.conflicts.saturating_add(1))
                }
                Ok(SaveOutcome::Conflict(_)) => {
                    client.handle_save_failure(now, flow, save, "other processes keep writing it".into())
                }
                Err(detail) => client.handle_save_failure(now, flow, save, detail),
            },
            other => Ok(flow.into_step(other)),
        });
    }

    /// Continues after the change was saved.
    fn handle_saved(&mut self, now: Now, flow: Box<Flow>, change: RecordChange) -> StepResult {
        match change {
            RecordChange::TakeLease { lease, of, .. } => self.renew(now, flow, lease, of),
            RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => {
                Err(error.into())
            }
            RecordChange::DropRefresh { .. } => self.continue_unrenewable(now, flow),
            RecordChange::AddClient { .. } => self.start_grant(now, flow),
            RecordChange::SetTokens { .. } => Err(FlowEnd::Ready),
            RecordChange::Clear => self.revoke_removed(now, flow),
        }
    }

    /// Continues after the authorization server rejected the refresh token.
    fn continue_unrenewable(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        flow.refresh_rejected = true;
        self.continue_without_renewal(now, flow)
    }

    /// Continues after another process made the change obsolete.
    fn handle_superseded(&mut self, now: Now, flow: Box<Flow>, change: RecordChange) -> StepResult {
        match change {
            RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => {
                Err(error.into())
            }
            _ => self.choose_step(now, flow),
        }
    }

    /// Continues after the change could not be saved: without saving it, where possible.
    fn handle_save_failure(
        &mut self,
        now: Now,
        flow: Box<Flow>,
        save: Box<PendingSave>,
        detail: String,
    ) -> StepResult {
        match save.change {
            RecordChange::SetTokens { .. } => {
                self.tokens.adopt(save.record);
                self.events.push(Event::SaveFailed(detail));
                Err(FlowEnd::Ready)
            }
            RecordChange::AddClient { .. } => {
                self.tokens.adopt(save.record);
                self.start_grant(now, flow)
            }
            RecordChange::DropRefresh { .. } => {
                self.tokens.adopt(save.record);
                self.continue_unrenewable(now, flow)
            }
            RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => {
                Err(error.into())
            }
            RecordChange::TakeLease { .. } => Err(AuthError::Store(detail).into()),
            RecordChange::Clear => self.handle_removal_failure(now, flow, detail),
        }
    }
}
