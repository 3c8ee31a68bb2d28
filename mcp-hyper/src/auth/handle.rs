//! What the application can do about a client's tokens while the driver runs.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use mcp_proto::auth::Now;
use mcp_proto::auth::client::{Admission, AuthClient, AuthContext, AuthError, FinishError, Redirect, Status};
use mcp_proto::front::{CacheContextEnder, Clock as _};
use mcp_proto::transport::http::Verb;

use crate::time::RuntimeClock;

/// The machine, which the driver and the application's handles share.
pub(super) struct Shared {
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
    pub(super) told: Told,
    /// Whether a person has a page to agree on.
    pub(super) page: bool,
    waiting: Vec<Waker>,
    driven: bool,
}

/// What the machine has told so far.
#[derive(Default)]
pub(super) struct Told {
    /// How often something that others wait for came to an end, and the last one.
    ends: u64,
    last: Option<AuthError>,
    logouts: u64,
    /// Why the store still has what the last of them was to forget.
    kept: Option<String>,
}

impl Shared {
    pub(super) fn new(clock: Arc<RuntimeClock>, server: String, machine: AuthClient) -> Arc<Self> {
        let state = State {
            context: machine.context(),
            cache: None,
            machine,
            driver: None,
            told: Told::default(),
            page: false,
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
    pub(super) fn end_context_of(&self, cache: CacheContextEnder) {
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
            self.lock(|state, _| state.page = false);
        }
        finished
    }

    /// Takes note of the end of what others wait for.
    pub(super) fn tell_end(&self, failure: Option<AuthError>) {
        self.tell(|told| {
            told.ends = told.ends.saturating_add(1);
            told.last = failure;
        });
    }

    /// Takes note of the end of a logout, and of why the store still has the tokens, if it does.
    pub(super) fn tell_logout(&self, kept: Option<String>) {
        self.tell(|told| {
            told.logouts = told.logouts.saturating_add(1);
            told.kept = kept;
        });
    }

    fn tell(&self, note: impl FnOnce(&mut Told)) {
        let waiting = self.lock(|state, _| {
            note(&mut state.told);
            std::mem::take(&mut state.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The driver is gone: nobody will be told anything any more.
    pub(super) fn leave(&self) {
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
pub struct AuthHandle(pub(super) Arc<Shared>);

impl AuthHandle {
    /// Gets a new token, whether there is one or not.
    ///
    /// # Errors
    /// If there is none in the end.
    pub async fn login(&self) -> Result<Status, LoginError> {
        let before = self.0.lock(|state, _| state.told.ends);
        self.0.command(|machine, now| machine.login(now));
        self.end_after(before).await
    }

    /// Waits for the end of what is under way, if anything is, and says which token there is then.
    ///
    /// # Errors
    /// If there is none.
    pub async fn token(&self) -> Result<Status, LoginError> {
        let before = self.0.lock(|state, _| state.told.ends);
        let server = self.0.server.clone();
        match self.0.command(|machine, now| machine.credentials(now, Verb::Post, &server)) {
            Admission::Go { .. } => self.status().ok_or(LoginError::LoggedOut),
            Admission::Wait => self.end_after(before).await,
        }
    }

    async fn end_after(&self, before: u64) -> Result<Status, LoginError> {
        let look = |state: &State| {
            (state.told.ends > before && !state.machine.is_busy()).then(|| match &state.told.last {
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
        let before = self.0.lock(|state, _| state.told.logouts);
        self.0.command(|machine, now| machine.logout(now));
        let kept =
            self.0.wait(|state| (state.told.logouts > before).then(|| state.told.kept.clone())).await?;
        kept.map_or(Ok(()), |why| Err(LoginError::NotForgotten(why)))
    }

    /// Tells where a page has led.
    ///
    /// # Errors
    /// If that is no answer to the page that is open, or a bad one.
    pub fn finish(&self, redirect: Redirect) -> Result<(), FinishError> {
        self.0.finish(redirect)
    }

    /// Nobody is going to agree on the page that is open: what waits for it fails.
    pub fn give_up(&self) {
        self.0.command(|machine, now| machine.give_up_page(now));
    }

    /// What is known of the token, as of when the store was last read; `None` if there is none, or it was not read yet.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
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
    NotForgotten(String),
    /// The driver was dropped.
    DriverDropped,
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::LoggedOut => f.write_str("nobody is logged in"),
            Self::NotForgotten(why) => write!(f, "the tokens are still kept: {why}"),
            Self::DriverDropped => f.write_str("the driver of the connection was dropped"),
        }
    }
}

impl std::error::Error for LoginError {}
