//! The current tokens and their validity.

use alloc::sync::Arc;
use core::time::Duration;

use crate::auth::{Es256, Now, Scopes, Secret, Signer, TokenKind, TokenResponse};
use crate::{Instant, UnixTime};

use super::event::{AuthContext, RecordVersion, StoredRecord, TokenGeneration, TokenStatus};
use super::record::{Record, Tokens};

/// The record as last read or written, with the state of its tokens in this process.
pub(super) struct TokenState {
    record: Record,
    version: Option<RecordVersion>,
    loaded: bool,
    generation: TokenGeneration,
    context: AuthContext,
    /// Whether requests of this context carry a token.
    authorized: bool,
    /// The token that this process obtained last.
    issued: Option<IssuedToken>,
    /// The application's key for tokens.
    provided_key: Option<Arc<dyn Signer>>,
    /// The key in the record.
    stored_key: Option<Arc<dyn Signer>>,
    /// No early renewal before this time.
    early_renewal_after: Option<Instant>,
}

/// A token that this process obtained itself.
struct IssuedToken {
    access: Secret,
    origin: TokenOrigin,
    /// When it expires by the monotonic clock.
    expires: Option<Instant>,
}

/// How a token was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOrigin {
    Grant,
    Renewal,
}

/// The lifetime of a token: at least ten seconds. A token that expires before its use would make each request wait for
/// another.
fn clamp_lifetime(lifetime: Duration) -> Duration {
    lifetime.max(Duration::from_secs(10))
}

/// When a token expires by the wall clock. `None` beyond the end of that clock.
pub(super) fn expiry(now: Now, lifetime: Duration) -> Option<UnixTime> {
    Some(now.unix + clamp_lifetime(lifetime)).filter(|end| *end > now.unix)
}

impl TokenState {
    /// No tokens yet. Tokens are bound to `provided_key`, if there is one, rather than to the key in the record.
    pub(super) fn new(provided_key: Option<Arc<dyn Signer>>) -> Self {
        Self {
            record: Record::default(),
            version: None,
            loaded: false,
            generation: TokenGeneration::default(),
            context: AuthContext::default(),
            authorized: false,
            issued: None,
            provided_key,
            stored_key: None,
            early_renewal_after: None,
        }
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn current(&self) -> Option<&Arc<Tokens>> {
        self.record.tokens.as_ref()
    }

    pub(super) fn version(&self) -> Option<RecordVersion> {
        self.version
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.loaded
    }

    pub(super) fn generation(&self) -> TokenGeneration {
        self.generation
    }

    pub(super) fn context(&self) -> AuthContext {
        self.context
    }

    pub(super) fn status(&self) -> Option<TokenStatus> {
        let tokens = self.current()?;
        Some(TokenStatus {
            issuer: tokens.issuer.clone(),
            client_id: tokens.client_id.clone(),
            scopes: tokens.granted.clone().or_else(|| tokens.requested.clone()),
            expires: tokens.expires,
            has_refresh: tokens.refresh.is_some(),
            kind: tokens.kind,
            resource: tokens.resource.clone(),
        })
    }

    // --- Changes ---

    /// Adopts the record that the store holds.
    pub(super) fn adopt_stored(&mut self, stored: Option<StoredRecord>) {
        self.loaded = true;
        match stored {
            Some(StoredRecord { record, version }) => self.adopt_saved(record, Some(version)),
            None => self.adopt_saved(Record::default(), None),
        }
    }

    /// Adopts a record that the store has saved as this version; `None` if it was removed.
    pub(super) fn adopt_saved(&mut self, record: Record, version: Option<RecordVersion>) {
        self.version = version;
        self.adopt(record);
    }

    /// Adopts a record that is not in the store.
    pub(super) fn adopt(&mut self, record: Record) {
        let access = |record: &Record| record.tokens.as_ref().map(|tokens| tokens.access.clone());
        if access(&record) != access(&self.record) {
            self.generation = TokenGeneration(self.generation.0.saturating_add(1));
            self.early_renewal_after = None;
            if !self.is_renewal_for_same_subject(&record) {
                self.end_context();
            }
            self.authorized = record.tokens.is_some();
        }
        if record.key != self.record.key {
            let key = record.key.as_ref().and_then(|pem| Es256::from_pkcs8_pem(pem.expose()).ok());
            self.stored_key = key.map(|key| Arc::new(key) as Arc<dyn Signer>);
        }
        self.record = record;
    }

    /// Forgets the record.
    pub(super) fn clear(&mut self) {
        self.adopt_saved(Record::default(), None);
        self.issued = None;
    }

    /// Notes an issued token before it is saved.
    pub(super) fn note_issued(&mut self, now: Now, granted: &TokenResponse, origin: TokenOrigin) {
        let expires = granted.lifetime.and_then(|lifetime| now.deadline_after(clamp_lifetime(lifetime)));
        self.issued = Some(IssuedToken { access: granted.access.clone(), origin, expires });
    }

    /// Notes whether a request is sent with a token: the response depends on that.
    pub(super) fn note_sent(&mut self, authorized: bool) {
        if self.authorized != authorized {
            self.authorized = authorized;
            self.end_context();
        }
    }

    /// Begins another authorization context.
    pub(super) fn end_context(&mut self) {
        self.context = AuthContext(self.context.0.saturating_add(1));
    }

    pub(super) fn pause_early_renewal(&mut self, until: Option<Instant>) {
        self.early_renewal_after = until;
    }

    // --- Questions ---

    /// Whether this process renewed the token of `record`, for the same subject as that of the current token.
    fn is_renewal_for_same_subject(&self, record: &Record) -> bool {
        let (Some(old), Some(new)) = (self.current(), &record.tokens) else { return false };
        let renewed = self
            .issued
            .as_ref()
            .is_some_and(|issued| issued.origin == TokenOrigin::Renewal && issued.access == new.access);
        let subject = new.subject.is_some() && new.subject == old.subject;
        renewed && subject && self.authorized && old.issuer == new.issuer
    }

    /// The current token as it was issued, if this process obtained it.
    fn issued(&self) -> Option<&IssuedToken> {
        let tokens = self.current()?;
        self.issued.as_ref().filter(|issued| issued.access == tokens.access)
    }

    /// How this process obtained the current token, if it did.
    pub(super) fn origin(&self) -> Option<TokenOrigin> {
        self.issued().map(|issued| issued.origin)
    }

    /// The key that tokens are bound to.
    pub(super) fn signer(&self) -> Option<Arc<dyn Signer>> {
        self.provided_key.clone().or_else(|| self.stored_key.clone())
    }

    /// Whether there is a valid token that is newer than the one used.
    pub(super) fn has_newer(&self, now: Now, used: Option<TokenGeneration>) -> bool {
        used < Some(self.generation) && !self.has_expired(now)
    }

    /// Whether there is no token, it has expired by either clock, or its key is lost.
    pub(super) fn has_expired(&self, now: Now) -> bool {
        let Some(tokens) = self.current() else { return true };
        if tokens.kind == TokenKind::Dpop && self.signer().is_none() {
            return true;
        }
        //= C12.24 "expiry honoured"
        tokens.expires.is_some_and(|end| end <= now.unix)
            || self.issued().and_then(|issued| issued.expires).is_some_and(|end| end <= now.instant)
    }

    /// Whether the token expires within a minute, or within the second half of a short lifetime: then a renewed one
    /// arrives in time, although clocks may differ a little.
    pub(super) fn expires_soon(&self, now: Now) -> bool {
        const MARGIN: Duration = Duration::from_secs(60);
        let half = self.current().and_then(|tokens| {
            let end = tokens.expires?;
            end.saturating_since(tokens.issued).checked_div(2)
        });
        let margin = half.map_or(MARGIN, |half| MARGIN.min(half));
        self.has_expired(Now { instant: now.instant + margin, unix: now.unix + margin })
    }

    pub(super) fn is_early_renewal_paused(&self, now: Now) -> bool {
        self.early_renewal_after.is_some_and(|until| until > now.instant)
    }

    /// Whether the token can be renewed with its refresh token.
    pub(super) fn can_renew(&self) -> bool {
        self.current().is_some_and(|tokens| {
            tokens.refresh.is_some() && (tokens.kind != TokenKind::Dpop || self.signer().is_some())
        })
    }

    /// Whether the token grants these scopes, as far as is known.
    pub(super) fn allows_scopes(&self, scopes: Option<&Scopes>) -> bool {
        let known = self.current().and_then(|tokens| tokens.granted.as_ref().or(tokens.requested.as_ref()));
        match (known, scopes) {
            (_, None) => true,
            (Some(known), Some(scopes)) => known.contains_all(scopes),
            (None, Some(_)) => false,
        }
    }
}
