//! Reading and writing what is kept: one change at a time, in one step whoever else writes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use crate::auth::{Now, Secret};

use super::AuthClient;
use super::error::AuthError;
use super::event::{Action, Event, Saved, Stored};
use super::flow::{End, Flow, Next, Step, Want};
use super::record::{Client, Lease, Record, Source, Tokens};

/// What the store or the host has yet to answer.
pub(super) struct Awaits {
    pub(super) what: Question,
    /// Whether it has been asked: before that nothing is an answer.
    pub(super) polled: bool,
}

impl Awaits {
    pub(super) fn is(&self, what: Question) -> bool {
        self.polled && self.what == what
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// What the store holds.
    Load,
    /// What became of a change.
    Store,
    /// An assertion.
    Assertion,
}

/// A change that is being written.
pub(super) struct Save {
    change: Change,
    /// What was sent to the store.
    record: Record,
    /// How often it found something else there.
    conflicts: u32,
}

/// Somebody who writes that often leaves no room for others.
const CONFLICTS: u32 = 16;

/// A change to what is kept, whatever that is by now.
pub(super) enum Change {
    /// This process renews that token, and nobody else does; that lease counts no more.
    Lease { lease: Lease, of: Arc<Tokens>, over: Option<Lease> },
    /// It does not any more.
    Unlease { lease: Lease, error: AuthError },
    /// The token can not be renewed.
    Spent { of: Arc<Tokens>, client: Option<String> },
    /// This client is not known there any more.
    Stranger { issuer: String, id: String, error: AuthError },
    /// This client registered.
    Client { issuer: String, client: Client },
    /// There is a token, in the place of that one if it was renewed.
    Tokens { tokens: Arc<Tokens>, replaced: Option<Arc<Tokens>>, pin: Option<Client>, key: Option<Secret> },
    /// Everything is forgotten.
    Nothing,
}

impl Change {
    /// The record with this change, unless that has lost its point.
    fn apply(&self, now: Now, base: &Record) -> Option<Record> {
        let mut record = base.clone();
        let has = |tokens: &Tokens| base.tokens.as_ref().is_some_and(|known| known.access == tokens.access);
        match self {
            Self::Lease { lease, of, over } => {
                let taken = base.lease.as_ref().is_some_and(|there| {
                    there.by != lease.by && there.until > now.unix && over.as_ref() != Some(there)
                });
                if !has(of) || taken {
                    return None;
                }
                record.lease = Some(lease.clone());
            }
            Self::Unlease { lease, .. } => {
                if base.lease.as_ref() != Some(lease) {
                    return None;
                }
                record.lease = None;
            }
            Self::Spent { of, client } => {
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
            Self::Stranger { issuer, id, .. } => forget_client(&mut record, issuer, id),
            Self::Client { issuer, client } => record.keep_client(issuer.clone(), client.clone()),
            Self::Tokens { tokens, replaced, pin, key } => {
                if replaced.as_ref().is_some_and(|replaced| !has(replaced)) {
                    return None;
                }
                record.tokens = Some(tokens.clone());
                record.lease = None;
                if let Some(pin) = pin {
                    record.keep_client(tokens.issuer.clone(), pin.clone());
                }
                if let Some(key) = key {
                    record.key = Some(key.clone());
                }
            }
            Self::Nothing => return None,
        }
        Some(record)
    }
}

/// Forgets what an authorization server gave out; what is the application's stays bound to it.
fn forget_client(record: &mut Record, issuer: &str, id: &str) {
    record
        .clients
        .retain(|known, client| known != issuer || client.id != id || client.source == Source::Configured);
}

impl AuthClient {
    /// Begins a flow by reading what is kept.
    pub(super) fn load(&mut self, flow: Box<Flow>) -> Next {
        if self.awaits.is_some() {
            return Ok(flow.at(Step::Queued));
        }
        self.ask_to_load();
        Ok(flow.at(Step::Loading))
    }

    pub(super) fn ask_to_load(&mut self) {
        self.awaits = Some(Awaits { what: Question::Load, polled: false });
        self.actions.push_back(Action::Load);
    }

    pub(super) fn store_answered(&mut self, now: Now, loaded: Result<Option<Stored>, String>) {
        if self.awaits.take_if(|awaits| awaits.is(Question::Load)).is_none() {
            return;
        }
        self.step(now, |client, mut flow| match flow.take_step() {
            Step::Queued => client.load(flow),
            Step::Loading => {
                match loaded {
                    Ok(stored) => client.adopt(stored),
                    Err(detail) if flow.want == Want::Logout => return client.unforgotten(now, flow, detail),
                    Err(detail) => return Err(AuthError::Store(detail).into()),
                }
                client.decide(now, flow)
            }
            Step::Watching(watch) => {
                client.adopt(loaded.map_err(AuthError::Store)?);
                client.watched(now, flow, watch)
            }
            other => Ok(flow.at(other)),
        });
    }

    /// Has a change written.
    pub(super) fn save(&mut self, now: Now, flow: Box<Flow>, change: Change) -> Next {
        self.save_again(now, flow, change, 0)
    }

    fn save_again(&mut self, now: Now, flow: Box<Flow>, change: Change, conflicts: u32) -> Next {
        let forget = matches!(change, Change::Nothing);
        if forget && self.version.is_none() {
            return self.forgotten(now, flow);
        }
        let record = match change.apply(now, &self.record) {
            Some(record) => record,
            None if forget => Record::default(),
            None => return self.overtaken(now, flow, change),
        };
        self.awaits = Some(Awaits { what: Question::Store, polled: false });
        self.actions
            .push_back(Action::Store { record: (!forget).then(|| record.clone()), expected: self.version });
        Ok(flow.at(Step::Saving(Box::new(Save { change, record, conflicts }))))
    }

    pub(super) fn stored(&mut self, now: Now, saved: Result<Saved, String>) {
        if self.awaits.take_if(|awaits| awaits.is(Question::Store)).is_none() {
            return;
        }
        self.step(now, |client, mut flow| match flow.take_step() {
            Step::Queued => client.load(flow),
            Step::Saving(save) => match saved {
                Ok(Saved::Done(version)) => {
                    client.version = (!matches!(save.change, Change::Nothing)).then_some(version);
                    client.take(save.record);
                    client.changed(now, flow, save.change)
                }
                Ok(Saved::Conflict(there)) if save.conflicts < CONFLICTS => {
                    client.adopt(there);
                    client.save_again(now, flow, save.change, save.conflicts.saturating_add(1))
                }
                Ok(Saved::Conflict(_)) => {
                    client.unwritten(now, flow, save, "others write all the time".into())
                }
                Err(detail) => client.unwritten(now, flow, save, detail),
            },
            other => Ok(flow.at(other)),
        });
    }

    /// What the store holds is what is known from now on.
    pub(super) fn adopt(&mut self, stored: Option<Stored>) {
        self.loaded = true;
        let (record, version) = match stored {
            Some(Stored { record, version }) => (record, Some(version)),
            None => (Record::default(), None),
        };
        self.version = version;
        self.take(record);
    }

    /// The change is written.
    fn changed(&mut self, now: Now, flow: Box<Flow>, change: Change) -> Next {
        match change {
            Change::Lease { lease, of, .. } => self.renew(now, flow, lease, of),
            Change::Unlease { error, .. } | Change::Stranger { error, .. } => Err(error.into()),
            Change::Spent { .. } => self.spent(now, flow),
            Change::Client { .. } => self.grant(now, flow),
            Change::Tokens { .. } => Err(End::Ready),
            Change::Nothing => self.forgotten(now, flow),
        }
    }

    /// Goes on once a token turned out not to be renewable.
    fn spent(&mut self, now: Now, mut flow: Box<Flow>) -> Next {
        flow.spent = true;
        self.without_renewal(now, flow)
    }

    /// Somebody else was faster, and the change has lost its point.
    fn overtaken(&mut self, now: Now, flow: Box<Flow>, change: Change) -> Next {
        match change {
            Change::Unlease { error, .. } | Change::Stranger { error, .. } => Err(error.into()),
            _ => self.decide(now, flow),
        }
    }

    /// The change could not be written. What can be done without is done without.
    fn unwritten(&mut self, now: Now, flow: Box<Flow>, save: Box<Save>, detail: String) -> Next {
        match save.change {
            Change::Tokens { .. } => {
                self.take(save.record);
                self.tell(Event::NotKept(detail));
                Err(End::Ready)
            }
            Change::Client { .. } => {
                self.take(save.record);
                self.grant(now, flow)
            }
            Change::Spent { .. } => {
                self.take(save.record);
                self.spent(now, flow)
            }
            Change::Unlease { error, .. } | Change::Stranger { error, .. } => Err(error.into()),
            Change::Lease { .. } => Err(AuthError::Store(detail).into()),
            Change::Nothing => self.unforgotten(now, flow, detail),
        }
    }
}
