//! The stored record of tokens and registrations: its form, its changes, and their storage by compare-and-swap.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::AuthClient;
use super::config::{AuthMethod, ClientCredentials, ClientProof};
use super::error::AuthError;
use super::event::{Event, SaveOutcome, StoredRecord};
use super::flow::{Flow, FlowEnd, FlowPurpose, FlowStep, StepResult};
use crate::UnixTime;
use crate::auth::{Now, Scopes, Secret, TokenKind};

/// The stored state of one server, or of one account at it: tokens, and this client's registrations by authorization
/// server. All of it is secret, and [`Debug`](fmt::Debug) shows none of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) tokens: Option<Arc<Tokens>>,
    /// Registrations by issuer.
    pub(super) clients: BTreeMap<String, RegisteredClient>,
    /// The key that tokens are bound to, in PEM.
    pub(super) key: Option<Secret>,
    pub(super) lease: Option<Lease>,
}

/// Maximum number of registrations; a new one replaces another. Servers change their authorization server rarely.
const CLIENTS: usize = 16;

/// The tokens for the server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) issuer: String,
    pub(super) client_id: String,
    /// The subject of the ID token that was issued with them.
    pub(super) subject: Option<String>,
    pub(super) resource: String,
    pub(super) access: Secret,
    pub(super) kind: TokenKind,
    pub(super) refresh: Option<Secret>,
    pub(super) issued: UnixTime,
    pub(super) expires: Option<UnixTime>,
    /// The scopes that the authorization server granted, if it named them.
    pub(super) granted: Option<Scopes>,
    /// The scopes that were requested.
    pub(super) requested: Option<Scopes>,
    pub(super) issuer_source: IssuerSource,
}

/// How the authorization server was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IssuerSource {
    /// The server's metadata names it.
    Named,
    /// It is at the server's own origin, as in 2025-03-26.
    Origin,
}

/// The registration of this client at an authorization server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RegisteredClient {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) method: Option<AuthMethod>,
    /// When the secret expires.
    pub(super) expires: Option<UnixTime>,
    pub(super) source: ClientSource,
}

/// The source of a client id.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum ClientSource {
    /// Dynamic registration, with this redirect URI.
    Registered { redirect_uri: String },
    /// A preregistration without an issuer, which is used only with this one from now on.
    Configured,
}

/// The lease by which one process renews a token while others wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) holder: String,
    pub(super) expires: UnixTime,
}

impl Record {
    /// The record as JSON. It is secret: store it where no other user can read it.
    pub fn to_json(&self) -> Secret {
        let form = RecordForm {
            version: 1,
            tokens: self.tokens.as_deref().map(TokensForm::of),
            clients: self
                .clients
                .iter()
                .map(|(issuer, client)| (issuer.as_str().into(), ClientForm::of(client)))
                .collect(),
            key: self.key.as_ref().map(|key| key.expose().into()),
            lease: self.lease.as_ref().map(|lease| LeaseForm {
                by: lease.holder.as_str().into(),
                until: to_seconds(lease.expires),
            }),
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
        let mut clients = BTreeMap::new();
        for (issuer, client) in form.clients {
            clients.insert(issuer.into_owned(), client.read()?);
        }
        Ok(Self {
            tokens: form.tokens.map(TokensForm::read).transpose()?.map(Arc::new),
            clients,
            key: form.key.map(secret),
            lease: form
                .lease
                .map(|lease| Lease { holder: lease.by.into_owned(), expires: from_seconds(lease.until) }),
        })
    }

    /// Whether the record has no contents.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn insert_client(&mut self, issuer: String, client: RegisteredClient) {
        while self.clients.len() >= CLIENTS && !self.clients.contains_key(&issuer) {
            self.clients.pop_first();
        }
        //= C12.20 "Persisted credentials keyed by issuer"
        //= C12.21 "Separate registration state per AS when PRM lists several"
        self.clients.insert(issuer, client);
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Record(..)")
    }
}

/// Why a text is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not the JSON of a record.
    Syntax,
    /// A later version of this crate wrote it.
    Version,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "the stored data is not a record of tokens",
            Self::Version => "the stored record was written by a later version",
        })
    }
}

impl core::error::Error for RecordError {}

impl RegisteredClient {
    pub(super) fn credentials(&self) -> ClientCredentials {
        ClientCredentials {
            id: self.id.clone(),
            proof: self.secret.clone().map_or(ClientProof::None, ClientProof::Secret),
            method: self.method,
        }
    }
}

fn to_seconds(time: UnixTime) -> u64 {
    time.since_epoch().as_secs()
}

fn from_seconds(seconds: u64) -> UnixTime {
    UnixTime::from_epoch(Duration::from_secs(seconds))
}

#[derive(Serialize, Deserialize)]
struct RecordForm<'a> {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<TokensForm<'a>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    clients: BTreeMap<Cow<'a, str>, ClientForm<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseForm<'a>>,
}

fn secret(text: Cow<'_, str>) -> Secret {
    Secret::new(text.into_owned())
}

#[derive(Serialize, Deserialize)]
struct LeaseForm<'a> {
    by: Cow<'a, str>,
    until: u64,
}

#[derive(Serialize, Deserialize)]
struct TokensForm<'a> {
    issuer: Cow<'a, str>,
    client_id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<Cow<'a, str>>,
    resource: Cow<'a, str>,
    access: Cow<'a, str>,
    kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh: Option<Cow<'a, str>>,
    issued: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    granted: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<Cow<'a, str>>,
    #[serde(default)]
    at_origin: bool,
}

impl<'a> TokensForm<'a> {
    fn of(tokens: &'a Tokens) -> Self {
        Self {
            issuer: tokens.issuer.as_str().into(),
            client_id: tokens.client_id.as_str().into(),
            subject: tokens.subject.as_deref().map(Cow::from),
            resource: tokens.resource.as_str().into(),
            access: tokens.access.expose().into(),
            kind: match tokens.kind {
                TokenKind::Dpop => "DPoP",
                _ => "Bearer",
            }
            .into(),
            refresh: tokens.refresh.as_ref().map(|token| token.expose().into()),
            issued: to_seconds(tokens.issued),
            expires: tokens.expires.map(to_seconds),
            granted: tokens.granted.as_ref().map(|scopes| scopes.to_string().into()),
            asked: tokens.requested.as_ref().map(|scopes| scopes.to_string().into()),
            at_origin: tokens.issuer_source == IssuerSource::Origin,
        }
    }

    fn read(self) -> Result<Tokens, RecordError> {
        let kind = match &*self.kind {
            "DPoP" => TokenKind::Dpop,
            "Bearer" => TokenKind::Bearer,
            _ => return Err(RecordError::Syntax),
        };
        Ok(Tokens {
            issuer: self.issuer.into_owned(),
            client_id: self.client_id.into_owned(),
            subject: self.subject.map(Cow::into_owned),
            resource: self.resource.into_owned(),
            access: Secret::new(self.access.into_owned()),
            kind,
            refresh: self.refresh.map(secret),
            issued: from_seconds(self.issued),
            expires: self.expires.map(from_seconds),
            granted: self.granted.as_deref().map(Scopes::parse),
            requested: self.asked.as_deref().map(Scopes::parse),
            issuer_source: if self.at_origin { IssuerSource::Origin } else { IssuerSource::Named },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct ClientForm<'a> {
    id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redirect_uri: Option<Cow<'a, str>>,
}

impl<'a> ClientForm<'a> {
    fn of(client: &'a RegisteredClient) -> Self {
        Self {
            id: client.id.as_str().into(),
            secret: client.secret.as_ref().map(|secret| secret.expose().into()),
            method: client.method.map(|method| method.as_str().into()),
            expires: client.expires.map(to_seconds),
            redirect_uri: match &client.source {
                ClientSource::Registered { redirect_uri } => Some(redirect_uri.as_str().into()),
                ClientSource::Configured => None,
            },
        }
    }

    fn read(self) -> Result<RegisteredClient, RecordError> {
        let method = match self.method {
            Some(name) => Some(AuthMethod::parse(&name).ok_or(RecordError::Syntax)?),
            None => None,
        };
        Ok(RegisteredClient {
            id: self.id.into_owned(),
            secret: self.secret.map(secret),
            method,
            expires: self.expires.map(from_seconds),
            source: self.redirect_uri.map_or(ClientSource::Configured, |uri| ClientSource::Registered {
                redirect_uri: uri.into_owned(),
            }),
        })
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
