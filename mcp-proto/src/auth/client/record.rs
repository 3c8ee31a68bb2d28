//! What is stored of a client: the record of tokens and registrations with its changes, and logins that were begun.

use alloc::borrow::Cow;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::UnixTime;
use crate::auth::{Now, Scopes, Secret, TokenKind};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

use super::config::{AuthMethod, ClientCredentials, ClientProof};
use super::error::AuthError;
#[cfg(feature = "seal")]
use super::error::FinishError;

/// The stored state of one server, or of one account at it: tokens, and this client's registrations by authorization
/// server. All of it is secret, and [`Debug`](core::fmt::Debug) shows none of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) tokens: Option<Arc<Tokens>>,
    /// Registrations by issuer.
    pub(super) clients: OrderedMap<String, RegisteredClient>,
    /// The key that tokens are bound to, in PEM.
    pub(super) key: Option<Secret>,
    pub(super) lease: Option<Lease>,
    /// The ids of logins that were finished and not expired yet, with the ends of their lives in seconds of Unix time.
    pub(super) used_logins: OrderedMap<String, u64>,
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
    fn used_logins_at(&self, now: UnixTime) -> OrderedMap<String, u64> {
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
    clients: Cow<'a, OrderedMap<String, RegisteredClient>>,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    key: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Cow<'a, Lease>>,
    #[serde(default, rename = "usedLogins", skip_serializing_if = "has_none")]
    used_logins: Cow<'a, OrderedMap<String, u64>>,
}

fn has_none<T>(map: &OrderedMap<String, T>) -> bool {
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

/// The number of bytes of a login's id.
pub(super) const ID_BYTES: usize = 12;

/// A login whose page is open and which any process can finish, within ten minutes. All of it is secret, and
/// [`Debug`](core::fmt::Debug) shows none of it; [`seal`](Self::seal) makes a text of it for storage.
///
/// An [`AuthClient`](super::AuthClient) finishes it at most once: before the code of the redirect is sent, the login's id is written to the
/// record of tokens, by compare-and-swap. So the store guarantees the single use, for all processes that share it; the
/// guarantee outlives a [`logout`](super::AuthClient::logout).
#[derive(Clone, PartialEq, Eq)]
pub struct PendingLogin {
    pub(super) id: [u8; ID_BYTES],
    pub(super) expires: UnixTime,
    pub(super) content: LoginContent,
}

/// What is sealed of a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginContent {
    /// The canonical URL of the server.
    pub(super) server: String,
    pub(super) issuer: String,
    pub(super) at_origin: bool,
    /// Whether the issuer announced that it names itself in redirects.
    pub(super) iss_in_answers: bool,
    pub(super) client: RegisteredClient,
    pub(super) pin_client: bool,
    /// The resource that the token is requested for.
    pub(super) resource: String,
    pub(super) redirect_uri: String,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) scopes: Option<Scopes>,
    #[serde(with = "form")]
    pub(super) state: Secret,
    #[serde(with = "form")]
    pub(super) verifier: Secret,
    /// Whether the token is bound to a key, and must be.
    pub(super) bound: bool,
    pub(super) must_be_bound: bool,
    /// That key in PEM, unless it is the application's.
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Secret>,
}

debug_fields! { PendingLogin => "PendingLogin(..)" }

impl PendingLogin {
    /// When the login can no longer be finished.
    pub fn expires(&self) -> UnixTime {
        self.expires
    }

    pub(super) fn id(&self) -> String {
        self.id.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
    }
}

#[cfg(feature = "seal")]
impl PendingLogin {
    /// Seals the login for storage, such as in a cookie or in the user's web session: about 700 bytes, more with many scopes
    /// or a generated key, all of them characters that a cookie can have.
    ///
    /// The text opens only with the same `session`: a secret of the user's web session, such as its id. Otherwise an
    /// attacker could have a user finish the attacker's login. Where processes keep the tokens of several accounts, the
    /// session must decide the account.
    ///
    /// ```
    /// use mcp_proto::UnixTime;
    /// use mcp_proto::auth::client::{FinishError, PendingLogin};
    /// use mcp_proto::auth::{SealKey, Sealer};
    ///
    /// fn stored(login: &PendingLogin, session: &str) -> String {
    ///     // All instances have the same keys.
    ///     login.seal(&Sealer::new(SealKey::new([1; 32]), []), session.as_bytes())
    /// }
    ///
    /// let keys = Sealer::new(SealKey::new([1; 32]), []);
    /// let foreign = PendingLogin::open(&keys, UnixTime::EPOCH, b"session 7", "a text of someone else");
    /// assert_eq!(foreign.unwrap_err(), FinishError::OtherLogin);
    /// ```
    pub fn seal(&self, keys: &crate::seal::Sealer, session: &[u8]) -> String {
        let login = zeroize::Zeroizing::new(serde_json::to_vec(&self.content).unwrap_or_default());
        // A login that is sealed twice has the same id both times, and is finished once.
        keys.seal_for(crate::seal::SealPurpose::Login, self.id, session, self.expires, &login)
    }

    /// Opens what [`seal`](Self::seal) made with the same session.
    ///
    /// # Errors
    /// [`FinishError::Expired`] after ten minutes; [`FinishError::OtherLogin`] if the text was sealed with other keys or for
    /// another session, or was changed.
    pub fn open(
        keys: &crate::seal::Sealer,
        now: UnixTime,
        session: &[u8],
        sealed: &str,
    ) -> Result<Self, FinishError> {
        let opened = keys.open_for(crate::seal::SealPurpose::Login, now, session, sealed);
        let opened = opened.map_err(|error| match error {
            crate::seal::SealError::Expired => FinishError::Expired,
            crate::seal::SealError::Foreign => FinishError::OtherLogin,
        })?;
        let payload = zeroize::Zeroizing::new(opened.payload);
        let content = serde_json::from_slice(&payload).map_err(|_| FinishError::OtherLogin)?;
        Ok(Self { id: opened.nonce, expires: opened.expires, content })
    }
}

/// A login that is being finished, and the code of its redirect.
pub(super) struct Redemption {
    pub(super) login: PendingLogin,
    pub(super) code: Secret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_bounded_and_a_known_issuer_displaces_no_other() {
        let issuer = |number: usize| format!("https://{number:03}.example");
        let mut record = Record::default();
        for number in 0..=CLIENTS {
            record.insert_client(issuer(number), RegisteredClient::default());
        }
        assert_eq!(record.clients.len(), CLIENTS);
        assert!(record.clients.contains_key(&issuer(CLIENTS)));
        record.insert_client(issuer(CLIENTS), RegisteredClient { id: "new".into(), ..Default::default() });
        assert_eq!(record.clients.len(), CLIENTS);
        assert_eq!(record.clients.get(&issuer(CLIENTS)).unwrap().id, "new");
    }
}
