//! The authorization of a client's requests, as part of its driver.
//!
//! The [`Authorizer`] attaches credentials to each request, passes challenges to the
//! [`AuthClient`](mcp_proto::auth::client::AuthClient), and carries out its actions.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_lite::future::Boxed;
use mcp_proto::Instant;
use mcp_proto::adapter::CacheContextEnder;
use mcp_proto::auth::client::{
    Action, AuthClient, AuthConfigError, AuthError, Event, LoginMode, RefusedRequest, RequestAuth,
    RetryDecision, SaveOutcome, StoredRecord, TokenGeneration,
};
use mcp_proto::auth::{Fetch, FetchId, FetchPolicy, Secret};
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};

#[cfg(feature = "host")]
use super::KnownRecord;
use super::handle::{RedirectListener, SharedAuth};
use super::{Assert, AuthHandle, Authorization, LoopbackRedirects, OnEvent, TokenStore};
use crate::client::ExchangeAction;
use crate::client::fetch::FetchResponse;
use crate::io::Headers;
use crate::runtime::Runtime;
use crate::task_set::{TaskKey, TaskSet};
use crate::time::{Alarm, RuntimeClock};

/// Maximum number of browser connections served at the same time.
const MAX_REDIRECT_CONNECTIONS: usize = 8;

/// The host's reply to a storage action or an assertion request of the auth client.
enum HostReply {
    Loaded(Result<Option<StoredRecord>, String>),
    Stored(Result<SaveOutcome, String>),
    Assertion(Result<Secret, String>),
    Fetched(FetchId, Result<FetchResponse, String>),
}

/// Performs a fetch.
pub(crate) type FetchFn =
    Box<dyn Fn(Fetch, FetchPolicy) -> Boxed<Result<FetchResponse, String>> + Send + Sync>;

/// A request that was sent to the server.
struct SentExchange {
    url: Arc<str>,
    generation: Option<TokenGeneration>,
}

pub(crate) struct Authorizer {
    shared: Arc<SharedAuth>,
    store: Arc<dyn TokenStore>,
    key: Arc<str>,
    on_event: Option<OnEvent>,
    assert: Option<Assert>,
    fetch: FetchFn,
    redirects: Option<RedirectListener>,
    /// Why the last logout failed to remove the record from the store.
    removal_error: Option<String>,
    host_replies: TaskSet<Boxed<HostReply>>,
    /// The host's reply that is the response to a fetch. The auth client makes one at a time.
    fetching: Option<TaskKey>,
    redirect_connections: TaskSet<Boxed<()>>,
    sent: BTreeMap<ExchangeId, SentExchange>,
    /// Exchanges that have ended but may still receive a challenge.
    ended: Vec<ExchangeId>,
    /// Requests that wait for credentials before they are sent.
    waiting: BTreeMap<ExchangeId, HttpRequest>,
    /// Exchanges that the server refused, parked until the client is authorized.
    refused: Vec<ExchangeId>,
    actions: VecDeque<ExchangeAction>,
}

impl Authorizer {
    pub(crate) fn new(
        authorization: Authorization,
        server: &str,
        clock: Arc<RuntimeClock>,
        seed: [u8; 32],
        fetch: FetchFn,
    ) -> Result<Self, AuthConfigError> {
        let Authorization { mut config, store, account, on_event, assert, .. } = authorization;
        if on_event.is_none() {
            config.login_mode = LoginMode::NonInteractive;
        }
        let machine = AuthClient::new(config, server, seed)?;
        let key = super::store_key(machine.resource(), account.as_deref());
        Ok(Self {
            shared: SharedAuth::new(clock, server.to_owned(), machine),
            store,
            key: key.into(),
            on_event,
            assert,
            fetch,
            redirects: None,
            removal_error: None,
            host_replies: TaskSet::default(),
            fetching: None,
            redirect_connections: TaskSet::default(),
            sent: BTreeMap::new(),
            ended: Vec::new(),
            waiting: BTreeMap::new(),
            refused: Vec::new(),
            actions: VecDeque::new(),
        })
    }

    /// Accepts redirects by this runtime.
    pub(crate) fn listen(
        &mut self,
        redirects: Option<LoopbackRedirects>,
        runtime: &impl Runtime,
    ) -> io::Result<()> {
        self.redirects = redirects.map(|redirects| redirects.listen(runtime)).transpose()?;
        Ok(())
    }

    /// Links a connection's cache, whose authorization context ends whenever the tokens change.
    pub(crate) fn link_cache(&self, cache: CacheContextEnder) {
        self.shared.link_cache(cache);
    }

    pub(crate) fn handle(&self) -> AuthHandle {
        AuthHandle(self.shared.clone())
    }

    /// The record of the tokens, as of the last read or write of the store.
    #[cfg(feature = "host")]
    pub(crate) fn known_record(&self) -> KnownRecord {
        let version = self.shared.lock(|state, _| state.machine.record_version());
        KnownRecord { store: self.store.clone(), key: self.key.clone(), version }
    }

    // --- Exchanges ---

    /// Attaches credentials to a request, or queues it until there are some.
    pub(crate) fn authorize(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        let admission =
            self.shared.lock(|state, now| state.machine.credentials(now, request.verb, &request.url));
        match admission {
            RequestAuth::Ready { headers, generation: stamp } => {
                Some(self.attach_credentials(request, headers, stamp))
            }
            RequestAuth::Wait => {
                self.waiting.insert(request.exchange, request);
                None
            }
        }
    }

    fn attach_credentials(
        &mut self,
        mut request: HttpRequest,
        headers: Vec<(&'static str, Secret)>,
        stamp: Option<TokenGeneration>,
    ) -> HttpRequest {
        let headers =
            headers.iter().map(|(name, value)| (Cow::Borrowed(*name), value.expose().to_owned().into()));
        request.headers.extend(headers);
        self.sent.insert(request.exchange, SentExchange { url: request.url.clone(), generation: stamp });
        request
    }

    /// Records the head of a response, with its DPoP nonce.
    pub(crate) fn note_head(&mut self, exchange: ExchangeId, nonce: Option<&str>) {
        if let (Some(nonce), Some(asked)) = (nonce, self.sent.get(&exchange)) {
            self.shared.lock(|state, _| state.machine.keep_nonce(&asked.url, nonce));
        }
    }

    /// Records the end of an exchange. A challenge for it may still follow.
    pub(crate) fn note_end(&mut self, exchange: ExchangeId) {
        self.ended.push(exchange);
    }

    /// Drops ended exchanges, once all of their events have been handled.
    pub(crate) fn forget_ended(&mut self) {
        for exchange in self.ended.drain(..) {
            self.sent.remove(&exchange);
        }
    }

    /// Drops an exchange that the client has cancelled.
    pub(crate) fn forget_exchange(&mut self, exchange: ExchangeId) {
        self.sent.remove(&exchange);
        self.waiting.remove(&exchange);
        self.refused.retain(|challenged| *challenged != exchange);
        self.actions.retain(
            |action| !matches!(action, ExchangeAction::Open(request) if request.exchange == exchange),
        );
    }

    /// Handles a 401 or 403 challenge for an exchange.
    pub(crate) fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        let exchange = challenge.exchange;
        let refused = RefusedRequest {
            status: challenge.status,
            www_authenticate: challenge.header.as_deref(),
            generation: self.sent.remove(&exchange).and_then(|asked| asked.generation),
            attempt: challenge.attempt,
            nonce: challenge.dpop_nonce.as_deref(),
        };
        match self.shared.lock(|state, now| state.machine.handle_challenge(now, &refused)) {
            RetryDecision::Retry => self.actions.push_back(ExchangeAction::Resume(exchange)),
            RetryDecision::Wait => self.refused.push(exchange),
            RetryDecision::Fail(error) => {
                self.actions.push_back(ExchangeAction::Refuse(exchange, error.to_string()))
            }
        }
    }

    // --- The auth client ---

    /// When to call [`poll`](Self::poll) at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.shared.lock(|state, _| state.machine.poll_timeout())
    }

    /// Whether work is in progress that must not be cancelled: a token that was renewed but not stored is lost.
    pub(crate) fn is_finishing(&self) -> bool {
        self.host_replies.len() > usize::from(self.fetching.is_some())
            || self.shared.lock(|state, _| state.machine.is_busy() && !state.page_open)
    }

    /// Returns the next action for the driver.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeAction> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Poll::Ready(action);
            }
            let done =
                self.poll_host_replies(cx) | self.handle_timeout(cx) | self.take_action() | self.take_event();
            if !(done | self.poll_redirects(cx)) && self.actions.is_empty() {
                return Poll::Pending;
            }
        }
    }

    fn poll_host_replies(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(reply) = self.host_replies.poll_next(cx) else { return false };
        if let HostReply::Fetched(..) = &reply {
            self.fetching = None;
        }
        self.shared.lock(|state, now| match reply {
            HostReply::Fetched(id, Ok(FetchResponse { status, headers, body })) => {
                state.machine.handle_answer(now, id, status.as_u16(), &Headers(&headers), body);
            }
            HostReply::Fetched(id, Err(detail)) => state.machine.handle_failed(now, id, &detail),
            HostReply::Loaded(loaded) => state.machine.handle_loaded(now, loaded),
            HostReply::Stored(saved) => state.machine.handle_stored(now, saved),
            HostReply::Assertion(assertion) => state.machine.handle_assertion(now, assertion),
        });
        true
    }

    fn handle_timeout(&self, cx: &Context<'_>) -> bool {
        self.shared.lock(|state, now| {
            if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
                state.driver = Some(cx.waker().clone());
                state.was_polled = true;
            }
            let due = state.machine.poll_timeout().is_some_and(|due| due <= now.instant);
            if due {
                state.machine.handle_timeout(now);
            }
            due
        })
    }

    fn take_action(&mut self) -> bool {
        let action = self.shared.lock(|state, _| {
            let action = state.machine.poll_action()?;
            Some((action, *state.machine.fetch_policy()))
        });
        let Some((action, policy)) = action else { return false };
        let (store, key) = (self.store.clone(), self.key.clone());
        match action {
            Action::Fetch(fetch) => {
                let id = fetch.id;
                let fetching = (self.fetch)(fetch, policy);
                let task = Box::pin(async move { HostReply::Fetched(id, fetching.await) });
                self.fetching = Some(self.host_replies.insert(task));
            }
            Action::Abort(_) => {
                if let Some(task) = self.fetching.take() {
                    self.host_replies.remove(task);
                }
            }
            Action::Load => {
                self.host_replies.insert(Box::pin(async move {
                    HostReply::Loaded(store.load(&key).await.map_err(|error| error.to_string()))
                }));
            }
            Action::Store { record, expected } => {
                self.host_replies.insert(Box::pin(async move {
                    let saved = store.swap(&key, expected, record).await;
                    HostReply::Stored(saved.map_err(|error| error.to_string()))
                }));
            }
            Action::Assertion(request) => match &mut self.assert {
                Some(assert) => {
                    let assertion = assert(request);
                    self.host_replies.insert(Box::pin(async move { HostReply::Assertion(assertion.await) }));
                }
                None => self.shared.lock(|state, now| {
                    state.machine.handle_assertion(now, Err("this program has none".to_owned()));
                }),
            },
            _ => {}
        }
        true
    }

    fn take_event(&mut self) -> bool {
        let Some(event) = self.shared.lock(|state, _| {
            let event = state.machine.poll_event()?;
            match &event {
                Event::NeedsAuthorization(_) => (state.page_open, state.page_shown) = (true, true),
                Event::LoginBegun(page, login) => {
                    _ = state.operation.login.set((page.clone(), login.clone()))
                }
                Event::PageObsolete => state.page_open = false,
                Event::Ready(_) => state.end_operation(None),
                Event::Failed(error) => state.end_operation(Some(error.clone())),
                _ => {}
            }
            Some(event)
        }) else {
            return false;
        };
        if let Some(tell) = &mut self.on_event {
            tell(&event);
        }
        match event {
            Event::Ready(_) => self.resume_waiting(None),
            Event::Failed(error) => self.resume_waiting(Some(error)),
            Event::RemovalFailed(why) => self.removal_error = Some(why),
            Event::LoggedOut => self.shared.record_logout(self.removal_error.take()),
            _ => {}
        }
        true
    }

    /// Resumes waiting exchanges, or fails those that the server refused. A request that was never sent is now sent in
    /// either case: the server may accept it without a token, and otherwise sends a challenge.
    fn resume_waiting(&mut self, failure: Option<AuthError>) {
        for exchange in std::mem::take(&mut self.refused) {
            self.actions.push_back(match &failure {
                None => ExchangeAction::Resume(exchange),
                Some(error) => ExchangeAction::Refuse(exchange, error.to_string()),
            });
        }
        for request in std::mem::take(&mut self.waiting).into_values() {
            let request = match failure {
                None => self.authorize(request),
                Some(_) => {
                    self.shared.lock(|state, _| state.machine.skip_credentials());
                    Some(self.attach_credentials(request, Vec::new(), None))
                }
            };
            self.actions.extend(request.map(ExchangeAction::Open));
        }
        self.shared.wake_waiting(|_| ());
    }

    /// Serves redirect connections, and accepts new ones while a page is open.
    fn poll_redirects(&mut self, cx: &mut Context<'_>) -> bool {
        let page = self.shared.lock(|state, _| state.page_open);
        while self.redirect_connections.len() < MAX_REDIRECT_CONNECTIONS
            && let Some(redirects) = self.redirects.as_mut().filter(|_| page)
            && let Poll::Ready(connection) = redirects.poll_accept(&self.shared, cx)
        {
            self.redirect_connections.insert(connection);
        }
        self.redirect_connections.poll_next(cx).is_ready()
            || page != self.shared.lock(|state, _| state.page_open)
    }
}

impl Drop for Authorizer {
    fn drop(&mut self) {
        self.shared.handle_driver_drop();
    }
}

debug_fields! { Authorizer(self) { waiting = self.waiting.len(), refused = self.refused.len() } }

/// The future that carries out the operations of an [`AuthHandle`] where no client is connected: see
/// [`ClientOptions::authorize`](crate::ClientOptions::authorize). It never ends; drop it once no operation is left.
#[must_use = "logins wait until the driver is polled: spawn it on an executor"]
pub struct AuthDriver {
    authorizer: Authorizer,
    alarm: Alarm,
    clock: Arc<RuntimeClock>,
}

impl AuthDriver {
    pub(crate) fn new(authorizer: Authorizer, clock: Arc<RuntimeClock>) -> (AuthHandle, Self) {
        (authorizer.handle(), Self { authorizer, alarm: Alarm::default(), clock })
    }

    /// Runs the driver beside `work` on the task that awaits this, until `work` is done; then drops the driver.
    ///
    /// ```no_run
    /// use mcp_hyper::ClientOptions;
    /// use mcp_hyper::auth::{AuthConfig, Authorization, FileStore, TokenStatus};
    ///
    /// # async fn example() -> Result<TokenStatus, Box<dyn std::error::Error>> {
    /// let config = AuthConfig::new("my program", "http://127.0.0.1/callback");
    /// let authorization = Authorization::new(config).store(FileStore::new("/home/ann/.local/state/my-program"));
    /// let options = ClientOptions::new("my-program", "1.0.0").authorization(authorization);
    /// let (auth, driver) = options.authorize("https://notes.example.com/mcp")?;
    /// Ok(driver.run_until(auth.token_status()).await?)
    /// # }
    /// ```
    pub async fn run_until<T>(self, work: impl Future<Output = T>) -> T {
        let driving = async {
            self.await;
            std::future::pending().await
        };
        futures_lite::future::or(work, driving).await
    }
}

impl Future for AuthDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { authorizer, alarm, clock } = &mut *self;
        loop {
            // Without a client there are no exchanges with the server.
            while authorizer.poll(cx).is_ready() {}
            let due = authorizer.poll_timeout().and_then(|at| clock.at(at));
            ready!(alarm.poll_until(due, clock.timers(), cx));
        }
    }
}

debug_fields! { AuthDriver { authorizer } }
