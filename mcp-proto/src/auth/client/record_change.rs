//! Changes to the stored record.

use alloc::string::String;
use alloc::sync::Arc;

use crate::auth::{Now, Secret};

use super::error::AuthError;
use super::record::{ClientSource, Lease, Record, RegisteredClient, Tokens};

/// A change that is being saved.
pub(super) struct PendingSave {
    pub(super) change: RecordChange,
    /// The record with the change, as sent to the store.
    pub(super) record: Record,
    /// How often another process had changed the stored record.
    pub(super) conflicts: u32,
}

/// A change to the record, which applies to whatever version is stored.
pub(super) enum RecordChange {
    /// Reserve the renewal of the token for this process, even over that lease.
    TakeLease { lease: Lease, of: Arc<Tokens>, over: Option<Lease> },
    /// Release the reservation after an error.
    ReleaseLease { lease: Lease, error: AuthError },
    /// Remove the refresh token, which was rejected, and the client if it was rejected too.
    DropRefresh { of: Arc<Tokens>, client: Option<String> },
    /// Remove a registration that the authorization server no longer knows.
    ForgetClient { issuer: String, id: String, error: AuthError },
    /// Add a new registration.
    AddClient { issuer: String, client: RegisteredClient },
    /// Set the tokens, unless the renewed ones were replaced meanwhile.
    SetTokens {
        tokens: Arc<Tokens>,
        replaced: Option<Arc<Tokens>>,
        pin: Option<RegisteredClient>,
        key: Option<Secret>,
    },
    /// Remove the record.
    Clear,
}

impl RecordChange {
    /// The record with this change. `None` if the change is obsolete.
    pub(super) fn apply(&self, now: Now, base: &Record) -> Option<Record> {
        let mut record = base.clone();
        let has = |tokens: &Tokens| base.tokens.as_ref().is_some_and(|known| known.access == tokens.access);
        match self {
            Self::TakeLease { lease, of, over } => {
                let taken = base.lease.as_ref().is_some_and(|other| {
                    other.holder != lease.holder && other.expires > now.unix && over.as_ref() != Some(other)
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

/// Removes a registration. A preregistration stays pinned to its authorization server.
fn forget_client(record: &mut Record, issuer: &str, id: &str) {
    record.clients.retain(|known, client| {
        known != issuer || client.id != id || client.source == ClientSource::Configured
    });
}
