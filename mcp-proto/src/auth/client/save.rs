//! Reading and writing what is kept: one change at a time, in one step whoever else writes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use crate::auth::{Now, Secret};

use super::AuthClient;
use super::error::AuthError;
use super::event::{Event, SaveOutcome, StoredRecord};
use super::flow::{Flow, FlowEnd, FlowPurpose, FlowStep, StepResult};
use super::record::{ClientSource, Lease, Record, RegisteredClient, Tokens};

/// A change that is being written.
pub(super) struct PendingSave {
    change: RecordChange,
    /// What was sent to the store.
    record: Record,
    /// How often it found something else there.
    conflicts: u32,
}

/// Somebody who writes that often leaves no room for others.
const CONFLICTS: u32 = 16;

/// A change to what is kept, whatever that is by now.
pub(super) enum RecordChange {
    /// This process renews that token, and nobody else does; that lease counts no more.
    TakeLease { lease: Lease, of: Arc<Tokens>, over: Option<Lease> },
    /// It does not any more.
    ReleaseLease { lease: Lease, error: AuthError },
    /// The token can not be renewed.
    DropRefresh { of: Arc<Tokens>, client: Option<String> },
    /// This client is not known there any more.
    ForgetClient { issuer: String, id: String, error: AuthError },
    /// This client registered.
    AddClient { issuer: String, client: RegisteredClient },
    /// There is a token, in the place of that one if it was renewed.
    SetTokens {
        tokens: Arc<Tokens>,
        replaced: Option<Arc<Tokens>>,
        pin: Option<RegisteredClient>,
        key: Option<Secret>,
    },
    /// Everything is forgotten.
    Clear,
}

impl RecordChange {
    /// The record with this change, unless that has lost its point.
    fn apply(&self, now: Now, base: &Record) -> Option<Record> {
        let mut record = base.clone();
        let has = |tokens: &Tokens| base.tokens.as_ref().is_some_and(|known| known.access == tokens.access);
        match self {
            Self::TakeLease { lease, of, over } => {
                let taken = base.lease.as_ref().is_some_and(|there| {
                    there.holder != lease.holder && there.expires > now.unix && over.as_ref() != Some(there)
                });
                if !has(of) || taken {
                    return None;
                }
                record.lease = Some(lease.clone());
            }
            Self::ReleaseLease { lease, .. } => {
                if base.lease.as_ref() != Some(lease) {
                    return None;
                }
                record.lease = None;
            }
            Self::DropRefresh { of, client } => {
                if !has(of) {
                    return None;
                }
                if let Some(tokens) = &mut record.tokens {
                    Arc::make_mut(tokens).refresh = None;
                }
                if let Some(client) = client {
                    forget_client(&mut record, &of.issuer, client);
                }
                record.lease = None;
            }
            Self::ForgetClient { issuer, id, .. } => forget_client(&mut record, issuer, id),
            Self::AddClient { issuer, client } => record.insert_client(issuer.clone(), client.clone()),
            Self::SetTokens { tokens, replaced, pin, key } => {
                if replaced.as_ref().is_some_and(|replaced| !has(replaced)) {
                    return None;
                }
                record.tokens = Some(tokens.clone());
                record.lease = None;
                if let Some(pin) = pin {
                    record.insert_client(tokens.issuer.clone(), pin.clone());
                }
                if let Some(key) = key {
                    record.key = Some(key.clone());
                }
            }
            Self::Clear => return None,
        }
        Some(record)
    }
}

/// Forgets what an authorization server gave out; what is the application's stays bound to it.
fn forget_client(record: &mut Record, issuer: &str, id: &str) {
    record.clients.retain(|known, client| {
        known != issuer || client.id != id || client.source == ClientSource::Configured
    });
}

impl AuthClient {
    /// Begins a flow by reading what is kept.
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
            FlowStep::AwaitingRenewal(watch) => {
                client.tokens.adopt_stored(loaded.map_err(AuthError::Store)?);
                client.handle_lease_state(now, flow, watch)
            }
            other => Ok(flow.into_step(other)),
        });
    }

    /// Has a change written.
    pub(super) fn save(&mut self, now: Now, flow: Box<Flow>, change: RecordChange) -> StepResult {
        self.save_again(now, flow, change, 0)
    }

    fn save_again(&mut self, now: Now, flow: Box<Flow>, change: RecordChange, conflicts: u32) -> StepResult {
        let forget = matches!(change, RecordChange::Clear);
        if forget && self.tokens.version().is_none() {
            return self.revoke_removed(now, flow);
        }
        let record = match change.apply(now, self.tokens.record()) {
            Some(record) => record,
            None if forget => Record::default(),
            None => return self.handle_superseded(now, flow, change),
        };
        self.actions.store((!forget).then(|| record.clone()), self.tokens.version());
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
                    client.handle_save_failure(now, flow, save, "others write all the time".into())
                }
                Err(detail) => client.handle_save_failure(now, flow, save, detail),
            },
            other => Ok(flow.into_step(other)),
        });
    }

    /// The change is written.
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

    /// Goes on once a token turned out not to be renewable.
    fn continue_unrenewable(&mut self, now: Now, mut flow: Box<Flow>) -> StepResult {
        flow.refresh_rejected = true;
        self.continue_without_renewal(now, flow)
    }

    /// Somebody else was faster, and the change has lost its point.
    fn handle_superseded(&mut self, now: Now, flow: Box<Flow>, change: RecordChange) -> StepResult {
        match change {
            RecordChange::ReleaseLease { error, .. } | RecordChange::ForgetClient { error, .. } => {
                Err(error.into())
            }
            _ => self.choose_step(now, flow),
        }
    }

    /// The change could not be written. What can be done without is done without.
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
