//! Logins that one process begins and any process finishes, once.

use alloc::sync::Arc;

use super::AuthClient;
use super::error::{AuthError, FinishError};
use super::event::{AuthorizationPage, Event};
use super::flow::{Flow, FlowPurpose, StepResult};
use super::grants::{PAGE_TIMEOUT, Redirect};
use super::record::{ID_BYTES, LoginContent, PendingLogin, RecordChange, Redemption, RegisteredClient};
use crate::auth::{Es256, Now, Requirement, ResourceMetadata, Scopes, Secret};
use crate::prelude::*;

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
