//! The application's handle to a client's tokens while the driver runs.

use std::convert::Infallible;
use std::future::{pending, poll_fn, ready};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready as ready_or_pending};
use std::time::Duration;

use bytes::Bytes;
use futures_lite::future::{Boxed, or};
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use mcp_proto::adapter::{CacheContextEnder, Clock as _};
use mcp_proto::auth::Now;
use mcp_proto::auth::client::{
    AuthClient, AuthContext, AuthError, AuthorizationPage, FinishError, PendingLogin, Redirect, RequestAuth,
    TokenStatus,
};
#[cfg(feature = "seal")]
use mcp_proto::auth::{Scopes, Sealer};
use mcp_proto::transport::http::Verb;

use crate::io::{BufferedBody, HyperIo};
use crate::runtime::{Acceptor, Runtime, Stream};
use crate::time::RuntimeClock;

/// How long handles wait for the driver's first poll.
const FIRST_POLL: Duration = Duration::from_secs(30);

/// The auth client's state, which the driver and the application's handles share.
pub(super) struct SharedAuth {
    pub(super) clock: Arc<RuntimeClock>,
    server: String,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) machine: AuthClient,
    pub(super) driver: Option<Waker>,
    /// The authorization context of the connection's cache.
    context: AuthContext,
    cache: Option<CacheContextEnder>,
    outcomes: OutcomeLog,
    /// Whether a login page waits for the user's consent.
    pub(super) page_open: bool,
    /// Whether any login page was opened.
    pub(super) page_shown: bool,
    /// The operation that a handle of [stored logins](AuthHandle::begin_login) started last.
    pub(super) operation: Arc<Operation>,
    waiting: Vec<Waker>,
    /// Whether the driver was polled once.
    pub(super) was_polled: bool,
    driven: bool,
}

/// What an operation has led to so far: another one may have ended before its caller looks.
#[derive(Default)]
pub(super) struct Operation {
    /// The login that it began for any process to finish.
    pub(super) login: OnceLock<(AuthorizationPage, Box<PendingLogin>)>,
    result: OnceLock<Result<TokenStatus, LoginError>>,
}

/// Outcomes that the auth client has reported so far.
#[derive(Default)]
pub(super) struct OutcomeLog {
    /// Number of finished logins; `last` is the error of the latest one.
    ends: u64,
    last: Option<AuthError>,
    logouts: u64,
    /// Why the last logout failed to remove the record from the store.
    removal_error: Option<String>,
}

impl State {
    /// Counts the end of a login or renewal, together with the event that reports it: the machine may begin another one
    /// at once.
    pub(super) fn end_operation(&mut self, failure: Option<AuthError>) {
        self.page_open = false;
        self.outcomes.ends = self.outcomes.ends.saturating_add(1);
        self.outcomes.last = failure;
        // Later operations of the machine's own leave the first result.
        _ = self.operation.result.set(self.result());
    }

    /// The result of the operation that ended last.
    fn result(&self) -> Result<TokenStatus, LoginError> {
        match &self.outcomes.last {
            None => self.machine.status().ok_or(LoginError::LoggedOut),
            Some(error) => Err(LoginError::Failed(error.clone())),
        }
    }
}

impl SharedAuth {
    pub(super) fn new(clock: Arc<RuntimeClock>, server: String, machine: AuthClient) -> Arc<Self> {
        let state = State {
            context: machine.context(),
            cache: None,
            machine,
            driver: None,
            outcomes: OutcomeLog::default(),
            page_open: false,
            page_shown: false,
            operation: Arc::default(),
            waiting: Vec::new(),
            was_polled: false,
            driven: true,
        };
        Arc::new(Self { clock, server, state: Mutex::new(state) })
    }

    pub(super) fn lock<T>(&self, act: impl FnOnce(&mut State, Now) -> T) -> T {
        let now = Now { instant: self.clock.now(), unix: self.clock.unix_time() };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state, now);
        let context = state.machine.context();
        if context != state.context {
            state.context = context;
            // Under the lock, so that no request gets its credentials between the two changes.
            if let Some(cache) = &state.cache {
                cache.end();
            }
        }
        result
    }

    /// Links a connection's cache, whose context ends together with that of the tokens.
    pub(super) fn link_cache(&self, cache: CacheContextEnder) {
        self.lock(|state, _| state.cache = Some(cache));
    }

    /// Runs a command on the auth client for a caller other than the driver, and wakes the driver.
    fn command<T>(&self, act: impl FnOnce(&mut AuthClient, Now) -> T) -> T {
        let (result, driver) = self.lock(|state, now| (act(&mut state.machine, now), state.driver.take()));
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    pub(super) fn finish(&self, redirect: Redirect) -> Result<(), FinishError> {
        let finished = self.command(|machine, now| machine.finish(now, redirect));
        if finished.is_ok() {
            self.lock(|state, _| state.page_open = false);
        }
        finished
    }

    /// Records the end of a logout, and the error if the store still has the tokens.
    pub(super) fn record_logout(&self, removal_error: Option<String>) {
        self.wake_waiting(|log| {
            log.logouts = log.logouts.saturating_add(1);
            log.removal_error = removal_error;
        });
    }

    /// Notes an outcome, and wakes all waiters.
    pub(super) fn wake_waiting(&self, note: impl FnOnce(&mut OutcomeLog)) {
        let waiting = self.lock(|state, _| {
            note(&mut state.outcomes);
            std::mem::take(&mut state.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Records that the driver was dropped, and fails all waiters.
    pub(super) fn handle_driver_drop(&self) {
        let (waiting, cache) = self.lock(|state, _| {
            state.driven = false;
            (std::mem::take(&mut state.waiting), state.cache.take())
        });
        // Handles may outlive the connection, and need not keep its cached responses in memory.
        drop(cache);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` returns a value.
    async fn wait<T>(&self, mut look: impl FnMut(&mut State, Now) -> Option<T>) -> Result<T, LoginError> {
        let looking = poll_fn(|cx| {
            self.lock(|state, now| match look(state, now) {
                Some(found) => Poll::Ready(Ok(found)),
                None if !state.driven => Poll::Ready(Err(LoginError::DriverDropped)),
                None => {
                    if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        state.waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            })
        });
        or(looking, self.expire()).await
    }

    /// Ends a wait for a driver that nothing polls.
    async fn expire<T>(&self) -> Result<T, LoginError> {
        let was_polled = || self.lock(|state, _| state.was_polled);
        if !was_polled() {
            self.clock.sleep_in_handle(FIRST_POLL).await;
            if !was_polled() {
                return Err(LoginError::DriverNotPolled);
            }
        }
        pending().await
    }
}

/// A client's tokens: logs in and out, and completes redirects. [`ClientDriver::auth`](crate::ClientDriver::auth) or
/// [`ClientOptions::authorize`](crate::ClientOptions::authorize) returns it.
#[derive(Clone)]
pub struct AuthHandle(pub(super) Arc<SharedAuth>);

impl AuthHandle {
    /// Obtains a new token, even if there is a valid one.
    ///
    /// # Errors
    /// [`LoginError`], if the login ends without a token.
    pub async fn login(&self) -> Result<TokenStatus, LoginError> {
        let before = self.0.lock(|state, _| state.outcomes.ends);
        self.0.command(|machine, now| machine.login(now));
        self.wait_for_end(before).await
    }

    /// Returns the status of the token that the client has, if it is [what the configuration
    /// demands](AuthClient::has_configured_token) or this client has already shown a page to the user; otherwise logs in.
    /// `None` if the server has no metadata to log in by, or its authorization server registers no clients.
    ///
    /// Call it once the client is [ready](mcp_proto::front::Client::ready): a server that accepts connections without a
    /// token may still require one for its tools.
    ///
    /// # Errors
    /// [`LoginError`], if the login ends without a token.
    pub async fn ensure_token(&self) -> Result<Option<TokenStatus>, LoginError> {
        // The user may have granted fewer scopes: another page would change nothing.
        let status = self.0.lock(|state, _| {
            let fits = state.page_shown || state.machine.has_configured_token();
            state.machine.status().filter(|_| fits)
        });
        if status.is_some() {
            return Ok(status);
        }
        match self.login().await {
            Ok(status) => Ok(Some(status)),
            Err(LoginError::Failed(
                AuthError::NoResourceMetadata | AuthError::RegistrationRefused { .. },
            )) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the token's status, after waiting for the end of a login or renewal in progress.
    ///
    /// # Errors
    /// [`LoginError`], if there is no token.
    pub async fn token_status(&self) -> Result<TokenStatus, LoginError> {
        let before = self.0.lock(|state, _| state.outcomes.ends);
        let server = self.0.server.clone();
        match self.0.command(|machine, now| machine.credentials(now, Verb::Post, &server)) {
            RequestAuth::Ready { .. } => self.status().ok_or(LoginError::LoggedOut),
            RequestAuth::Wait => self.wait_for_end(before).await,
        }
    }

    async fn wait_for_end(&self, before: u64) -> Result<TokenStatus, LoginError> {
        let look = |state: &mut State, _| {
            (state.outcomes.ends > before && !state.machine.is_busy()).then(|| state.result())
        };
        self.0.wait(look).await?
    }

    /// Deletes every token, here and in the store, and revokes them at their issuer.
    ///
    /// # Errors
    /// [`LoginError`], if the store still has the tokens, or the driver was dropped.
    pub async fn logout(&self) -> Result<(), LoginError> {
        let before = self.0.lock(|state, _| state.outcomes.logouts);
        self.0.command(|machine, now| machine.logout(now));
        let kept = self
            .0
            .wait(|state, _| (state.outcomes.logouts > before).then(|| state.outcomes.removal_error.clone()))
            .await?;
        kept.map_or(Ok(()), |why| Err(LoginError::RemovalFailed(why)))
    }

    /// Completes the open login page with the URL that it redirected to.
    ///
    /// # Errors
    /// [`FinishError`], if the redirect does not belong to the open page, or is invalid.
    pub fn finish(&self, redirect: Redirect) -> Result<(), FinishError> {
        self.0.finish(redirect)
    }

    /// Cancels the open login page: requests that wait for it fail.
    pub fn cancel_page(&self) {
        self.0.command(|machine, now| machine.cancel_page(now));
    }

    /// The token's status as of the last read of the store; `None` if there is no token, or the store was not read yet.
    #[must_use]
    pub fn status(&self) -> Option<TokenStatus> {
        self.0.lock(|state, _| state.machine.status())
    }
}

debug_fields! { AuthHandle => "AuthHandle" }

/// A login that was begun, and that any process with the same keys and the same store can finish: see
/// [`AuthHandle::begin_login`].
#[cfg(feature = "seal")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealedLogin {
    /// The page that the user opens, such as by a redirect of the browser.
    pub page: AuthorizationPage,
    /// The login, for [`AuthHandle::finish_login`]: about 700 bytes, more with many scopes or a generated key, all of them
    /// characters that a cookie can have.
    pub sealed: String,
}

#[cfg(feature = "seal")]
debug_fields! { SealedLogin { page } }

/// # Logins that another process finishes (feature `seal`)
#[cfg(feature = "seal")]
impl AuthHandle {
    /// Begins a login that this or another process finishes within ten minutes, by [`finish_login`](Self::finish_login),
    /// as web applications need it: the user's next request may reach another instance. Nothing waits for the page:
    /// this process may end. Also a client without [`on_event`](super::Authorization::on_event) can begin a login; its
    /// requests fail meanwhile with [`LoginRequired`](AuthError::LoginRequired).
    ///
    /// Store the login where the user's next request finds it, in a cookie or in the web session. It can be opened only
    /// with the same keys and with the same `session`: a secret of the user's web session, such as its id. Otherwise an
    /// attacker could have a user finish the attacker's login, and the user would work with the attacker's account.
    ///
    /// `scopes` are requested beside those of the configuration: those that an error has named, such as
    /// [`InsufficientScope`](AuthError::InsufficientScope).
    ///
    /// [The guide](crate::guide::authorization) shows a web application.
    ///
    /// # Errors
    /// [`LoginError`], if there is no page: the server does not name its authorization server, for example.
    pub async fn begin_login(
        &self,
        keys: &Sealer,
        session: &str,
        scopes: Option<Scopes>,
    ) -> Result<SealedLogin, LoginError> {
        let start = |state: &mut State, now| {
            (!state.machine.is_busy()).then(|| {
                state.operation = Arc::default();
                state.machine.begin_login(now, scopes.clone());
                state.operation.clone()
            })
        };
        let operation = self.0.wait(start).await?;
        let ended = self.wait_for_result(&operation).await;
        match (operation.login.get(), ended) {
            (Some((page, login)), _) => {
                let sealed = login.seal(keys, session.as_bytes());
                Ok(SealedLogin { page: page.clone(), sealed })
            }
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(LoginError::NoPage),
        }
    }

    /// Finishes a login that this or another process [began](Self::begin_login) with the same keys and the same session,
    /// with the URL that its page has led to. Waits for another operation in progress first; a page that this client has
    /// open is closed.
    ///
    /// A login is finished at most once, whatever the number of processes: the [`TokenStore`](super::TokenStore) guarantees
    /// it, by the mark that [`swap`](super::TokenStore::swap) adds to the record before the code is sent. So all processes
    /// must share the store.
    ///
    /// # Errors
    /// [`LoginError::NotFinished`] for a foreign session, an expired login or the redirect of another page;
    /// [`LoginError::Failed`] with [`LoginUsed`](AuthError::LoginUsed) if it was finished before, with
    /// [`RedirectIssuerMismatch`](AuthError::RedirectIssuerMismatch) if another issuer answers, and with any other error
    /// of a login.
    pub async fn finish_login(
        &self,
        keys: &Sealer,
        session: &str,
        sealed: &str,
        redirect: Redirect,
    ) -> Result<TokenStatus, LoginError> {
        let now = self.0.lock(|_, now| now.unix);
        let login =
            PendingLogin::open(keys, now, session.as_bytes(), sealed).map_err(LoginError::of_finish)?;
        let start = |state: &mut State, now| {
            match state.machine.finish_login(now, &login, redirect.clone()) {
                Err(FinishError::Busy) => return None,
                Err(error) => return Some(Err(LoginError::of_finish(error))),
                Ok(()) => state.operation = Arc::default(),
            }
            Some(Ok(state.operation.clone()))
        };
        let operation = self.0.wait(start).await??;
        self.wait_for_result(&operation).await
    }

    /// Wakes the driver, and waits for the operation that was started.
    async fn wait_for_result(&self, operation: &Operation) -> Result<TokenStatus, LoginError> {
        self.0.command(|_, _| ());
        self.0.wait(|_, _| operation.result.get().cloned()).await?
    }
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginError {
    /// The login or renewal failed.
    Failed(AuthError),
    /// A [stored login](AuthHandle::finish_login) was not finished: nothing was sent, and it is not used up.
    NotFinished(FinishError),
    /// A [login to be stored](AuthHandle::begin_login) has no page, as the grant needs none: there is a token.
    NoPage,
    /// The client is logged out.
    LoggedOut,
    /// The logout deleted the tokens from this process, but not from the store, for this reason.
    RemovalFailed(String),
    /// The driver was dropped.
    DriverDropped,
    /// The driver was not polled within 30 seconds: spawn it on an executor.
    DriverNotPolled,
}

error_text! { LoginError:
    Failed(error) => "{error}";
    NotFinished(error) => "{error}";
    NoPage => "the grant needs no page: the client has a token";
    LoggedOut => "not logged in";
    RemovalFailed(why) => "the tokens are still kept: {why}";
    DriverDropped => "the driver of the connection was dropped";
    DriverNotPolled => "the driver of the connection is not polled: spawn it on an executor";
}

#[cfg(feature = "seal")]
impl LoginError {
    fn of_finish(error: FinishError) -> Self {
        match error {
            FinishError::Failed(error) => Self::Failed(error),
            error => Self::NotFinished(error),
        }
    }
}

// Loopback redirect listener: a small HTTP server on this machine.
//
// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

/// Path of the redirect URI. Issuers with a separate path get one below it.
const PATH: &str = "/callback";
/// Time limit of one browser request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum bytes of a request head. Codes may be long.
const HEAD_BYTES: usize = 32 * 1024;

/// A loopback listener for redirects from login pages. It listens while a page is open, and answers each request with a
/// short text for the user; only the redirect that belongs to the open page completes the login.
///
/// The client that it is given to accepts the connections, by its [`Runtime`](crate::Runtime).
pub struct LoopbackRedirects {
    listener: TcpListener,
    address: SocketAddr,
}

impl LoopbackRedirects {
    /// Binds any free port of 127.0.0.1. Authorization servers let native applications use any port: RFC 8252, section
    /// 7.3.
    ///
    /// # Errors
    /// If no port is free.
    pub fn bind() -> io::Result<Self> {
        Self::bind_port(0)
    }

    /// Binds this port of 127.0.0.1, for authorization servers that require a registered port.
    ///
    /// # Errors
    /// If the port is in use.
    pub fn bind_port(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The redirect URI, for [`AuthConfig::new`](mcp_proto::auth::client::AuthConfig::new).
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Accepts connections by this runtime from now on.
    pub(super) fn listen(self, runtime: &impl Runtime) -> io::Result<RedirectListener> {
        runtime.listen(self.listener).map(RedirectListener)
    }
}

/// The listener of [`LoopbackRedirects`] in a runtime.
pub(super) struct RedirectListener(Box<dyn Acceptor>);

/// Maximum number of consecutive errors before other work gets a turn.
const ERRORS: usize = 8;

impl RedirectListener {
    /// Accepts the next connection, and returns the future that serves it.
    pub(super) fn poll_accept(&mut self, shared: &Arc<SharedAuth>, cx: &mut Context<'_>) -> Poll<Boxed<()>> {
        for _ in 0..ERRORS {
            // An error cannot be reported here; the page expires by its own deadline.
            if let Ok((stream, _)) = ready_or_pending!(self.0.poll_accept(cx)) {
                return Poll::Ready(Box::pin(serve_connection(stream, shared.clone())));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

debug_fields! { LoopbackRedirects { address } }

async fn serve_connection(stream: Box<dyn Stream>, shared: Arc<SharedAuth>) {
    let timers = shared.clock.timers().clone();
    let service = service_fn(move |request| ready(Ok::<_, Infallible>(respond(&request, &shared))));
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES);
    let served = async {
        // Whatever error this connection has, the page is still open.
        let _ = http.serve_connection(HyperIo(stream), service).await;
    };
    or(served, timers.sleep(PATIENCE)).await;
}

fn respond(request: &Request<Incoming>, shared: &SharedAuth) -> Response<BufferedBody> {
    let below = request.uri().path().strip_prefix(PATH);
    if below.is_none_or(|below| !below.is_empty() && !below.starts_with('/')) {
        return render_page(StatusCode::NOT_FOUND, "There is nothing here.");
    }
    if request.method() != Method::GET {
        return render_page(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to be done here.");
    }
    let led_to = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    match shared.finish(Redirect::parse(led_to)) {
        Ok(()) => {
            render_page(StatusCode::OK, "That is all. You can close this page and go back to the program.")
        }
        Err(_) => render_page(StatusCode::BAD_REQUEST, "The program did not expect this request."),
    }
}

/// Renders a page that shows the text, loads nothing, and sends no referrer.
fn render_page(status: StatusCode, text: &str) -> Response<BufferedBody> {
    let body = format!("<!doctype html><meta charset=utf-8><title>Authorization</title><p>{text}\n");
    let mut response = Response::new(BufferedBody(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
