//! Loading of the record from the store, and saving of its changes by compare-and-swap.

use super::AuthClient;
use super::error::AuthError;
use super::event::{Action, Event, Question, SaveOutcome, StoredRecord};
use super::flow::{Flow, FlowPurpose, FlowStep, StepResult};
use super::record::{PendingSave, RecordChange};
use crate::auth::Now;
use crate::prelude::*;

/// Maximum number of conflicts of one change: that many mean that another process keeps writing.
const CONFLICTS: u32 = 16;

impl AuthClient {
    /// Begins a flow: loads the record.
    pub(super) fn load(&mut self, flow: Flow) -> StepResult {
        if self.actions.is_store_busy() {
            return flow.enter(FlowStep::Queued);
        }
        self.actions.push(Action::Load);
        flow.enter(FlowStep::Loading)
    }

    /// Handles the record that the store holds.
    pub fn handle_loaded(&mut self, now: Now, loaded: Result<Option<StoredRecord>, String>) {
        self.now = now;
        if !self.actions.accept(Question::Load) {
            return;
        }
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::Queued => client.load(flow),
            FlowStep::Loading => {
                match loaded {
                    Ok(stored) => client.tokens.adopt_stored(stored),
                    Err(detail) if flow.purpose == FlowPurpose::Logout => {
                        return client.handle_removal_failure(flow, detail);
                    }
                    Err(detail) => return Err(AuthError::Store(detail)),
                }
                client.choose_step(flow)
            }
            FlowStep::AwaitingRenewal(wait) => {
                client.tokens.adopt_stored(loaded.map_err(AuthError::Store)?);
                client.handle_lease_state(flow, wait)
            }
            other => flow.enter(other),
        });
    }

    /// Saves a change to the record.
    pub(super) fn save(&mut self, flow: Flow, change: RecordChange) -> StepResult {
        self.save_again(flow, change, 0)
    }

    fn save_again(&mut self, flow: Flow, change: RecordChange, conflicts: u32) -> StepResult {
        let clear = matches!(change, RecordChange::Clear);
        if clear && self.tokens.version.is_none() {
            return self.revoke_removed(flow);
        }
        let record = match change.apply(self.now, &self.tokens.record) {
            Some(record) => record,
            None => {
                // Another process made the change obsolete.
                return match change {
                    RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => {
                        Err(error)
                    }
                    RecordChange::UseLogin { id, .. } => Err(self.tokens.record.login_error(&id)),
                    _ => self.choose_step(flow),
                };
            }
        };
        let stored = (!clear || !record.is_empty()).then(|| record.clone());
        self.actions.push(Action::Store { record: stored, expected: self.tokens.version });
        flow.enter(FlowStep::Saving(Box::new(PendingSave { change, record, conflicts })))
    }

    /// Handles the outcome of an [`Action::Store`].
    pub fn handle_stored(&mut self, now: Now, saved: Result<SaveOutcome, String>) {
        self.now = now;
        if !self.actions.accept(Question::Store) {
            return;
        }
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::Queued => client.load(flow),
            FlowStep::Saving(save) => match saved {
                Ok(SaveOutcome::Done(version)) => {
                    let is_removed = matches!(save.change, RecordChange::Clear) && save.record.is_empty();
                    let version = (!is_removed).then_some(version);
                    client.tokens.adopt_saved(save.record, version);
                    client.handle_saved(flow, save.change)
                }
                Ok(SaveOutcome::Conflict(there)) if save.conflicts < CONFLICTS => {
                    client.tokens.adopt_stored(there);
                    client.save_again(flow, save.change, save.conflicts.saturating_add(1))
                }
                Ok(SaveOutcome::Conflict(_)) => {
                    client.handle_save_failure(flow, *save, "other processes keep writing it".into())
                }
                Err(detail) => client.handle_save_failure(flow, *save, detail),
            },
            other => flow.enter(other),
        });
    }

    /// Continues after the change was saved.
    fn handle_saved(&mut self, mut flow: Flow, change: RecordChange) -> StepResult {
        match change {
            RecordChange::TakeLease { lease, of, .. } => self.renew(flow, lease, of),
            RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => Err(error),
            RecordChange::DropRefresh { .. } => {
                flow.refresh_rejected = true;
                self.continue_without_renewal(flow)
            }
            RecordChange::AddClient { .. } => self.start_grant(flow),
            RecordChange::SetTokens { .. } => Ok(None),
            RecordChange::UseLogin { .. } => self.redeem_login(flow),
            RecordChange::Clear => self.revoke_removed(flow),
        }
    }

    /// Continues after the change could not be saved: without saving it, where possible.
    fn handle_save_failure(&mut self, flow: Flow, save: PendingSave, detail: String) -> StepResult {
        match &save.change {
            // Without it, another process could do the same.
            RecordChange::TakeLease { .. } | RecordChange::UseLogin { .. } => {
                return Err(AuthError::Store(detail));
            }
            RecordChange::Clear => return self.handle_removal_failure(flow, detail),
            RecordChange::ReleaseLease { .. } | RecordChange::ForgetClient { .. } => {}
            RecordChange::SetTokens { .. } => {
                self.tokens.adopt(save.record);
                self.events.push(Event::SaveFailed(detail));
            }
            RecordChange::AddClient { .. } | RecordChange::DropRefresh { .. } => {
                self.tokens.adopt(save.record)
            }
        }
        self.handle_saved(flow, save.change)
    }
}
