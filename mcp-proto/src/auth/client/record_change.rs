//! Changes to the stored record.

use alloc::string::String;
use alloc::sync::Arc;

use crate::auth::{Now, Secret};

use super::error::AuthError;
use super::record::{ClientSource, Lease, Record, RegisteredClient, Tokens};

/// A change that is being written.
pub(super) struct PendingSave {
    pub(super) change: RecordChange,
    /// What was sent to the store.
    pub(super) record: Record,
    /// How often it found something else there.
    pub(super) conflicts: u32,
}

/// A change to what is kept, whatever that is by now.
pub(super) enum RecordChange {
    /// This process renews that token, and nobody else does; that lease counts no more.
    TakeLease { lease: Lease, of: Arc<Tokens>, over: Option<Lease> },
    /// It does not any more.
    ReleaseLease { lease: Lease, error: AuthError },
    /// The token cannot be renewed.
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
    pub(super) fn apply(&self, now: Now, base: &Record) -> Option<Record> {
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
