//! Logins that one process begins and any process finishes, once.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use super::AuthClient;
use super::event::{AuthError, FinishError};
use super::event::{AuthorizationPage, Event};
use super::flow::{Flow, FlowPurpose, StepResult};
use super::grants::{PAGE_TIMEOUT, Redirect};
use super::record::{RecordChange, RegisteredClient, form};
use crate::UnixTime;
use crate::auth::{Es256, Now, Requirement, ResourceMetadata, Scopes, Secret};
use crate::prelude::*;

/// The number of bytes of a login's id.
const ID_BYTES: usize = 12;

/// A login whose page is open and which any process can finish, within ten minutes. All of it is secret, and
/// [`Debug`](core::fmt::Debug) shows none of it; [`seal`](Self::seal) makes a text of it for storage.
///
/// An [`AuthClient`] finishes it at most once: before the code of the redirect is sent, the login's id is written to the
/// record of tokens, by compare-and-swap. So the store guarantees the single use, for all processes that share it; the
/// guarantee outlives a [`logout`](AuthClient::logout).
#[derive(Clone, PartialEq, Eq)]
pub struct PendingLogin {
    id: [u8; ID_BYTES],
    expires: UnixTime,
    content: LoginContent,
}

/// What is sealed of a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LoginContent {
    /// The canonical URL of the server.
    server: String,
    issuer: String,
    at_origin: bool,
    /// Whether the issuer announced that it names itself in redirects.
    iss_in_answers: bool,
    client: RegisteredClient,
    pin_client: bool,
    /// The resource that the token is requested for.
    resource: String,
    redirect_uri: String,
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    scopes: Option<Scopes>,
    #[serde(with = "form")]
    state: Secret,
    #[serde(with = "form")]
    verifier: Secret,
    /// Whether the token is bound to a key, and must be.
    bound: bool,
    must_be_bound: bool,
    /// That key in PEM, unless it is the application's.
    #[serde(default, with = "form", skip_serializing_if = "Option::is_none")]
    key: Option<Secret>,
}

debug_fields! { PendingLogin => "PendingLogin(..)" }

impl PendingLogin {
    /// When the login can no longer be finished.
    pub fn expires(&self) -> UnixTime {
        self.expires
    }

    fn id(&self) -> String {
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
    login: PendingLogin,
    code: Secret,
}

/// # Logins that another process finishes
impl AuthClient {
    /// Begins a login that any process can finish: [`Event::LoginBegun`] has its page, and what
    /// [`finish_login`](Self::finish_login) needs. Requests of this client do not wait for it: [`Event::Failed`] with
    /// [`AuthError::LoginRequired`] follows. [`LoginMode::NonInteractive`](super::LoginMode::NonInteractive) does not
    /// rule it out. A grant that needs no page gets its token at once.
    ///
    /// The scopes are requested beside those of the configuration: those that [`AuthError::LoginRequired`] or
    /// [`AuthError::InsufficientScope`] has named.
    ///
    /// ```
    /// use mcp_proto::auth::Now;
    /// use mcp_proto::auth::client::{Action, AuthClient, AuthConfig};
    /// use mcp_proto::{Instant, UnixTime};
    ///
    /// let now = Now { instant: Instant::ORIGIN, unix: UnixTime::EPOCH };
    /// let config = AuthConfig::new("my web application", "https://app.example.com/callback");
    /// let mut client = AuthClient::new(config, "https://example.com/mcp", [7; 32])?;
    /// client.begin_login(now, None);
    /// // The driver carries out the actions. Then `Event::LoginBegun` has the page, and the login to be stored.
    /// assert!(matches!(client.poll_action(), Some(Action::Load)));
    /// # Ok::<(), mcp_proto::auth::client::AuthConfigError>(())
    /// ```
    pub fn begin_login(&mut self, now: Now, scopes: Option<Scopes>) {
        self.now = now;
        self.step_ups.clear();
        let requirement = Requirement { scope: scopes, ..Requirement::default() };
        match self.flows.current {
            None => self.begin_flow(FlowPurpose::BeginLogin, requirement),
            Some(_) => self.flows.queued = Some((FlowPurpose::BeginLogin, requirement)),
        }
    }

    /// Hands the open page over to the application, in place of waiting for its redirect.
    pub(super) fn hand_over_login(
        &mut self,
        flow: Flow,
        page: AuthorizationPage,
        state: Secret,
        verifier: Secret,
    ) -> StepResult {
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(self.rng.next_bytes()).for_each(|(to, byte)| *to = byte);
        let server = &flow.server.metadata;
        let client_id = flow.client.as_ref().map(|client| client.id.clone()).unwrap_or_default();
        let registered = self.tokens.record.clients.get(&server.issuer);
        let registered = registered.filter(|client| client.id == client_id).cloned();
        let content = LoginContent {
            server: self.resource.clone(),
            issuer: server.issuer.clone(),
            at_origin: flow.server.at_origin,
            iss_in_answers: server.iss_in_answers,
            client: registered
                .unwrap_or_else(|| RegisteredClient { id: client_id, ..RegisteredClient::default() }),
            pin_client: flow.pin_client,
            resource: self.resource_for(&flow),
            redirect_uri: flow.redirect_uri.clone(),
            scopes: flow.scopes.clone(),
            state,
            verifier,
            bound: flow.key.is_some(),
            must_be_bound: flow.needs_bound_token(),
            key: flow.new_key.clone(),
        };
        let login = PendingLogin { id, expires: self.now.unix + PAGE_TIMEOUT, content };
        let scopes = page.scopes.clone();
        self.events.push(Event::LoginBegun(page, Box::new(login)));
        Err(AuthError::LoginRequired { scopes })
    }

    //= F109 "a redirect that is finished later with its URL, code and state; a lost state is an error"
    /// Finishes a login that this or another process began for the same server, with the redirect of its page.
    /// [`Event::Ready`] or [`Event::Failed`] reports the result; a login that was finished before fails with
    /// [`AuthError::LoginUsed`]. An open page of this client is closed.
    ///
    /// # Errors
    /// If the login has expired or is of another server, or the redirect is not of its page or invalid; nothing is used up
    /// then. [`FinishError::Busy`] while another operation is in progress.
    pub fn finish_login(
        &mut self,
        now: Now,
        login: &PendingLogin,
        redirect: Redirect,
    ) -> Result<(), FinishError> {
        self.now = now;
        let other_resource =
            self.config.resource.as_ref().is_some_and(|chosen| *chosen != login.content.resource);
        if login.content.server != self.resource || other_resource {
            return Err(FinishError::OtherLogin);
        }
        if login.expires <= now.unix {
            return Err(FinishError::Expired);
        }
        if redirect.state.as_ref() != Some(&login.content.state) {
            return Err(FinishError::StateMismatch);
        }
        let code = self
            .check_redirect(
                redirect,
                &login.content.issuer,
                login.content.iss_in_answers,
                &login.content.redirect_uri,
            )
            .map_err(FinishError::Failed)?;
        if self.flows.open_page().is_some() {
            // Its requests wait for this login.
            self.drop_flow();
        }
        if self.is_busy() {
            return Err(FinishError::Busy);
        }
        self.step_ups.clear();
        let redemption = Some(Box::new(Redemption { login: login.clone(), code }));
        let purpose = FlowPurpose::FinishLogin;
        self.flows.current = Some(Flow { purpose, redemption, ..Flow::default() });
        self.run_step(Self::load);
        Ok(())
    }

    /// Looks up the issuer of the login, with the record loaded.
    pub(super) fn discover_login_issuer(&mut self, flow: Flow) -> StepResult {
        let Some(Redemption { login, .. }) = flow.redemption.as_deref() else { return Ok(None) };
        if self.tokens.record.used_logins.contains_key(&login.id()) {
            return Err(AuthError::LoginUsed);
        }
        if !self.is_issuer_allowed(&login.content.issuer) {
            return Err(AuthError::RegisteredElsewhere { issuer: login.content.issuer.clone() });
        }
        let (issuer, at_origin) = (login.content.issuer.clone(), login.content.at_origin);
        self.discover_known(flow, &issuer, at_origin)
    }

    /// Marks the login as used, with its issuer discovered.
    pub(super) fn use_login(&mut self, flow: Flow) -> StepResult {
        let Some(Redemption { login, .. }) = flow.redemption.as_deref() else { return Ok(None) };
        // The clocks of processes may differ by this much.
        let until = login.expires.since_epoch().as_secs().saturating_add(60);
        let change = RecordChange::UseLogin { id: login.id(), until };
        self.save(flow, change)
    }

    /// Redeems the code of the login, which is marked as used.
    pub(super) fn redeem_login(&mut self, mut flow: Flow) -> StepResult {
        let Some(redemption) = flow.redemption.take() else { return Ok(None) };
        let Redemption { login: PendingLogin { content: login, .. }, code } = *redemption;
        let client = self.credentials_for(&login.issuer, &login.client.id);
        // Another process may have stored another registration since.
        let is_kept = self.tokens.record.clients.get(&login.issuer).is_some_and(|kept| kept.id == client.id);
        let is_configured = login.client.redirect_uri.is_none();
        flow.client = Some(if is_kept || is_configured { client } else { login.client.credentials() });
        flow.pin_client = login.pin_client;
        flow.redirect_uri = login.redirect_uri;
        flow.scopes = login.scopes;
        flow.requirement.requires_dpop = login.must_be_bound;
        flow.resource = Some(ResourceMetadata { resource: login.resource, ..ResourceMetadata::default() });
        if login.bound {
            let stored = login.key.as_ref().map(|pem| Es256::from_pkcs8_pem(pem.expose()));
            flow.key = match stored {
                Some(key) => Some(Arc::new(key.map_err(|_| AuthError::Key)?)),
                None => Some(self.tokens.signer().ok_or(AuthError::Key)?),
            };
            flow.new_key = login.key;
        }
        self.redeem_code(flow, &login.verifier, &code)
    }
}
