//! The stored record of tokens and registrations: its form, and its changes.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::UnixTime;
use crate::auth::{Now, Scopes, Secret, TokenKind};
use crate::prelude::*;

use super::AuthClient;
use super::config::{AuthMethod, ClientCredentials, ClientProof};
use super::event::AuthError;
use super::event::{Action, Event, Question, SaveOutcome, StoredRecord};
use super::flow::{Flow, FlowPurpose, FlowStep, StepResult};

/// The stored state of one server, or of one account at it: tokens, and this client's registrations by authorization
/// server. All of it is secret, and [`Debug`](core::fmt::Debug) shows none of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) tokens: Option<Arc<Tokens>>,
    /// Registrations by issuer.
    pub(super) clients: BTreeMap<String, RegisteredClient>,
    /// The key that tokens are bound to, in PEM.
    pub(super) key: Option<Secret>,
    pub(super) lease: Option<Lease>,
    /// The ids of logins that were finished and not expired yet, with the ends of their lives in seconds of Unix time.
    pub(super) used_logins: BTreeMap<String, u64>,
}

/// Maximum number of logins that may be finished within their ten minutes. Beyond it new ones are refused, as an id that
/// is forgotten could be used again.
const USED_LOGINS: usize = 256;

/// Maximum number of registrations; a new one replaces another. Servers change their authorization server rarely.
const CLIENTS: usize = 16;

/// The tokens for the server.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) issuer: String,
    pub(super) client_id: String,
    /// The subject of the ID token that was issued with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<String>,
    pub(super) resource: String,
    #[serde(with = "form")]
    pub(super) access: Secret,
    #[serde(with = "form")]
    pub(super) kind: TokenKind,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<Secret>,
    #[serde(with = "form")]
    pub(super) issued: UnixTime,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<UnixTime>,
    /// The scopes that the authorization server granted, if it named them.
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) granted: Option<Scopes>,
    /// The scopes that were requested.
    #[serde(default, rename = "asked", with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<Scopes>,
    /// Whether the authorization server was found at the server's own origin, as in 2025-03-26, rather than named by
    /// the server's metadata.
    #[serde(default)]
    pub(super) at_origin: bool,
}

/// The registration of this client at an authorization server.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) id: String,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Secret>,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<AuthMethod>,
    /// When the secret expires.
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<UnixTime>,
    /// The redirect URI of a dynamic registration. `None` for a preregistration without an issuer, which is used only
    /// with this one from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redirect_uri: Option<String>,
}

/// The lease by which one process renews a token while others wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lease {
    #[serde(rename = "by")]
    pub(super) holder: String,
    #[serde(rename = "until", with = "form")]
    pub(super) expires: UnixTime,
}

impl Record {
    /// The record as JSON. It is secret: store it where no other user can read it.
    pub fn to_json(&self) -> Secret {
        let form = RecordForm {
            version: 1,
            tokens: self.tokens.as_deref().map(Cow::Borrowed),
            clients: Cow::Borrowed(&self.clients),
            key: self.key.clone(),
            lease: self.lease.as_ref().map(Cow::Borrowed),
            used_logins: Cow::Borrowed(&self.used_logins),
        };
        Secret::new(serde_json::to_string(&form).unwrap_or_default())
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// If it is not a record, or is of a later version.
    pub fn from_json(json: &[u8]) -> Result<Self, RecordError> {
        let form: RecordForm<'_> = serde_json::from_slice(json).map_err(|_| RecordError::Syntax)?;
        if form.version != 1 {
            return Err(RecordError::Version);
        }
        Ok(Self {
            tokens: form.tokens.map(|tokens| Arc::new(tokens.into_owned())),
            clients: form.clients.into_owned(),
            key: form.key,
            lease: form.lease.map(Cow::into_owned),
            used_logins: form.used_logins.into_owned(),
        })
    }

    /// Whether the record has no contents.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the record has tokens, rather than registrations alone. They may have expired.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// The unexpired ids among those of finished logins.
    fn used_logins_at(&self, now: UnixTime) -> BTreeMap<String, u64> {
        let now = now.since_epoch().as_secs();
        self.used_logins.clone().into_iter().filter(|(_, until)| *until > now).collect()
    }

    /// Why a login with this id cannot be finished.
    pub(super) fn login_error(&self, id: &str) -> AuthError {
        if self.used_logins.contains_key(id) {
            return AuthError::LoginUsed;
        }
        AuthError::LoginRefused
    }

    fn insert_client(&mut self, issuer: String, client: RegisteredClient) {
        while self.clients.len() >= CLIENTS && !self.clients.contains_key(&issuer) {
            self.clients.pop_first();
        }
        //= C12.20 "Persisted credentials keyed by issuer"
        //= C12.21 "Separate registration state per AS when PRM lists several"
        self.clients.insert(issuer, client);
    }
}

debug_fields! { Record => "Record(..)" }

/// Why a text is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not the JSON of a record.
    Syntax,
    /// A later version of this crate wrote it.
    Version,
}

error_text! { RecordError:
    Syntax => "the stored data is not a record of tokens";
    Version => "the stored record was written by a later version";
}

impl RegisteredClient {
    pub(super) fn credentials(&self) -> ClientCredentials {
        ClientCredentials {
            id: self.id.clone(),
            proof: self.secret.clone().map_or(ClientProof::None, ClientProof::Secret),
            method: self.method,
        }
    }
}

/// The JSON of a record.
#[derive(Serialize, Deserialize)]
struct RecordForm<'a> {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Cow<'a, Tokens>>,
    #[serde(default, skip_serializing_if = "has_none")]
    clients: Cow<'a, BTreeMap<String, RegisteredClient>>,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    key: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Cow<'a, Lease>>,
    #[serde(default, rename = "usedLogins", skip_serializing_if = "has_none")]
    used_logins: Cow<'a, BTreeMap<String, u64>>,
}

fn has_none<T>(map: &BTreeMap<String, T>) -> bool {
    map.is_empty()
}

/// The JSON of values in a record.
pub(super) mod form {
    use alloc::string::String;
    use core::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::UnixTime;
    use crate::auth::client::AuthMethod;
    use crate::auth::{Scopes, Secret, TokenKind};

    pub(in crate::auth::client) trait Form: Sized {
        fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;
        fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
    }

    pub(in crate::auth::client) fn serialize<T: Form, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.write(to)
    }

    pub(in crate::auth::client) fn deserialize<'de, T: Form, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        T::read(from)
    }

    impl<T: Form> Form for Option<T> {
        fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match self {
                Some(value) => value.write(to),
                None => to.serialize_none(),
            }
        }

        fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            #[derive(Deserialize)]
            #[serde(bound = "T: Form")]
            struct Read<T>(#[serde(deserialize_with = "deserialize")] T);
            Ok(Option::<Read<T>>::deserialize(from)?.map(|Read(value)| value))
        }
    }

    impl Form for UnixTime {
        fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.serialize_u64(self.since_epoch().as_secs())
        }

        fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            u64::deserialize(from).map(|seconds| Self::from_epoch(Duration::from_secs(seconds)))
        }
    }

    /// Implements the form of a type as text, by a function that writes it and one that reads it.
    macro_rules! texts {
        ($($type:ty: $write:expr, $read:expr;)*) => {$(
            impl Form for $type {
                fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    to.collect_str(&$write(self))
                }

                fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    $read(String::deserialize(from)?).ok_or_else(|| D::Error::custom("it is unknown"))
                }
            }
        )*};
    }

    texts! {
        Secret: Secret::expose, |text: String| Some(Secret::new(text));
        Scopes: core::convert::identity, |text: String| Some(Scopes::parse(&text));
        TokenKind: |kind: &TokenKind| kind.as_str(), |text: String| {
            TokenKind::parse(&text).filter(|kind| *kind != TokenKind::Assertion)
        };
        AuthMethod: |method: &AuthMethod| method.as_str(), |text: String| AuthMethod::parse(&text);
    }
}

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
    /// Mark a login as used, until its expiry.
    UseLogin { id: String, until: u64 },
    /// Remove the record, except the marks of used logins.
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
            Self::UseLogin { id, until } => {
                // The mark of a login that has expired may be gone, and would not show that it was used.
                let is_expired = *until <= now.unix.since_epoch().as_secs();
                record.used_logins = base.used_logins_at(now.unix);
                if is_expired
                    || record.used_logins.len() >= USED_LOGINS
                    || record.used_logins.insert(id.clone(), *until).is_some()
                {
                    return None;
                }
            }
            Self::Clear => {
                record = Record { used_logins: base.used_logins_at(now.unix), ..Record::default() };
            }
        }
        Some(record)
    }
}

/// Removes a registration. A preregistration stays pinned to its authorization server.
fn forget_client(record: &mut Record, issuer: &str, id: &str) {
    record
        .clients
        .retain(|known, client| known != issuer || client.id != id || client.redirect_uri.is_none());
}

// Loading of the record from the store, and saving of its changes by compare-and-swap.

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
