//! What the application can do about a client's tokens while the driver runs.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use mcp_proto::adapter::Clock as _;
use mcp_proto::auth::Now;
use mcp_proto::auth::client::{
    AuthClient, AuthContext, AuthError, FinishError, Redirect, RequestAuth, TokenStatus,
};
use mcp_proto::front::CacheContextEnder;
use mcp_proto::transport::http::Verb;

use crate::time::RuntimeClock;

/// The machine, which the driver and the application's handles share.
pub(super) struct SharedAuth {
    pub(super) clock: Arc<RuntimeClock>,
    server: String,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) machine: AuthClient,
    pub(super) driver: Option<Waker>,
    /// The authorization context of the connection's cache, and what ends it.
    context: AuthContext,
    cache: Option<CacheContextEnder>,
    pub(super) outcomes: OutcomeLog,
    /// Whether a person has a page to agree on.
    pub(super) page_open: bool,
    waiting: Vec<Waker>,
    driven: bool,
}

/// What the machine has told so far.
#[derive(Default)]
pub(super) struct OutcomeLog {
    /// How often something that others wait for came to an end, and the last one.
    ends: u64,
    last: Option<AuthError>,
    logouts: u64,
    /// Why the store still has what the last of them was to forget.
    removal_error: Option<String>,
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
            waiting: Vec::new(),
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
            // Under the lock: no request gets its credentials between the one change and the other.
            if let Some(cache) = &state.cache {
                cache.end();
            }
        }
        result
    }

    /// Has the cache of a connection end its context along with that of the tokens.
    pub(super) fn link_cache(&self, cache: CacheContextEnder) {
        self.lock(|state, _| state.cache = Some(cache));
    }

    /// Has the machine do something on behalf of others than the driver, who has to look at it then.
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

    /// Takes note of the end of what others wait for.
    pub(super) fn record_end(&self, failure: Option<AuthError>) {
        self.record(|told| {
            told.ends = told.ends.saturating_add(1);
            told.last = failure;
        });
    }

    /// Takes note of the end of a logout, and of why the store still has the tokens, if it does.
    pub(super) fn record_logout(&self, kept: Option<String>) {
        self.record(|told| {
            told.logouts = told.logouts.saturating_add(1);
            told.removal_error = kept;
        });
    }

    fn record(&self, note: impl FnOnce(&mut OutcomeLog)) {
        let waiting = self.lock(|state, _| {
            note(&mut state.outcomes);
            std::mem::take(&mut state.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The driver is gone: nobody will be told anything any more.
    pub(super) fn handle_driver_drop(&self) {
        let (waiting, cache) = self.lock(|state, _| {
            state.driven = false;
            (std::mem::take(&mut state.waiting), state.cache.take())
        });
        // Handles may outlive the connection, and need not keep its answers in memory.
        drop(cache);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for what `look` finds.
    async fn wait<T>(&self, mut look: impl FnMut(&State) -> Option<T>) -> Result<T, LoginError> {
        poll_fn(|cx| {
            self.lock(|state, _| match look(state) {
                Some(found) => Poll::Ready(Ok(found)),
                None if !state.driven => Poll::Ready(Err(LoginError::DriverDropped)),
                None => {
                    if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        state.waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            })
        })
        .await
    }
}

/// A client's tokens: to log in and out, and to tell where a page has led. [`ClientDriver::auth`](crate::ClientDriver::auth)
/// has it, or [`ClientOptions::authorize`](crate::ClientOptions::authorize).
#[derive(Clone)]
pub struct AuthHandle(pub(super) Arc<SharedAuth>);

impl AuthHandle {
    /// Gets a new token, whether there is one or not.
    ///
    /// # Errors
    /// If there is none in the end.
    pub async fn login(&self) -> Result<TokenStatus, LoginError> {
        let before = self.0.lock(|state, _| state.outcomes.ends);
        self.0.command(|machine, now| machine.login(now));
        self.wait_for_end(before).await
    }

    /// Waits for the end of what is under way, if anything is, and says which token there is then.
    ///
    /// # Errors
    /// If there is none.
    pub async fn token_status(&self) -> Result<TokenStatus, LoginError> {
        let before = self.0.lock(|state, _| state.outcomes.ends);
        let server = self.0.server.clone();
        match self.0.command(|machine, now| machine.credentials(now, Verb::Post, &server)) {
            RequestAuth::Ready { .. } => self.status().ok_or(LoginError::LoggedOut),
            RequestAuth::Wait => self.wait_for_end(before).await,
        }
    }

    async fn wait_for_end(&self, before: u64) -> Result<TokenStatus, LoginError> {
        let look = |state: &State| {
            (state.outcomes.ends > before && !state.machine.is_busy()).then(|| match &state.outcomes.last {
                None => state.machine.status().ok_or(LoginError::LoggedOut),
                Some(error) => Err(LoginError::Failed(error.clone())),
            })
        };
        self.0.wait(look).await?
    }

    /// Forgets every token, here and in the store, and gives them back to who issued them.
    ///
    /// # Errors
    /// If the store still has them, or the driver is gone.
    pub async fn logout(&self) -> Result<(), LoginError> {
        let before = self.0.lock(|state, _| state.outcomes.logouts);
        self.0.command(|machine, now| machine.logout(now));
        let kept = self
            .0
            .wait(|state| (state.outcomes.logouts > before).then(|| state.outcomes.removal_error.clone()))
            .await?;
        kept.map_or(Ok(()), |why| Err(LoginError::RemovalFailed(why)))
    }

    /// Tells where a page has led.
    ///
    /// # Errors
    /// If that is no answer to the page that is open, or a bad one.
    pub fn finish(&self, redirect: Redirect) -> Result<(), FinishError> {
        self.0.finish(redirect)
    }

    /// Nobody is going to agree on the page that is open: what waits for it fails.
    pub fn cancel_page(&self) {
        self.0.command(|machine, now| machine.cancel_page(now));
    }

    /// What is known of the token, as of when the store was last read; `None` if there is none, or it was not read yet.
    #[must_use]
    pub fn status(&self) -> Option<TokenStatus> {
        self.0.lock(|state, _| state.machine.status())
    }
}

impl fmt::Debug for AuthHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthHandle")
    }
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginError {
    /// It could not be had.
    Failed(AuthError),
    /// Nobody is logged in.
    LoggedOut,
    /// This process has forgotten the tokens, and the store has not: why.
    RemovalFailed(String),
    /// The driver was dropped.
    DriverDropped,
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::LoggedOut => f.write_str("nobody is logged in"),
            Self::RemovalFailed(why) => write!(f, "the tokens are still kept: {why}"),
            Self::DriverDropped => f.write_str("the driver of the connection was dropped"),
        }
    }
}

impl std::error::Error for LoginError {}
