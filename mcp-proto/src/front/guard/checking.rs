//! A checker, with those who wait for what is fetched for it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use super::{Fetched, Verification, Verifier};
use crate::auth::server::{
    Access, Checker, IntrospectionChecker, IntrospectionConfig, Presented, Verdict, VerifyError,
};
#[cfg(feature = "auth-jwt")]
use crate::auth::server::{JwtChecker, JwtConfig};
use crate::auth::{Fetch, FetchId, Now, Reach, ReachError};
use crate::front::signal::{Waiters, Wakers, lock};

/// How many requests wait for what is fetched; more are answered with 503. They cost some KiB each.
const WAITING: usize = 1024;

/// How many drivers wait for something to fetch: there is one for each server that the verifier is for.
const DRIVERS: usize = 16;

/// Verifies signed tokens by the keys of their issuers.
#[cfg(feature = "auth-jwt")]
pub type JwtVerifier = Checking<JwtChecker>;

/// Verifies tokens by asking their issuer.
pub type IntrospectionVerifier = Checking<IntrospectionChecker>;

/// A [`Checker`] as a [`Verifier`]: requests wait for what it has fetched, together where it is the same. Clones share the
/// checker, with what it keeps.
pub struct Checking<C>(Arc<Mutex<State<C>>>);

struct State<C> {
    checker: C,
    /// Those who wait for the end of an exchange.
    waiting: BTreeMap<FetchId, Waiters>,
    waiters: usize,
    drivers: Vec<Waker>,
}

#[cfg(feature = "auth-jwt")]
impl Checking<JwtChecker> {
    /// As `config` has it.
    #[must_use]
    pub fn new(config: JwtConfig) -> Self {
        Self::of(JwtChecker::new(config))
    }
}

impl Checking<IntrospectionChecker> {
    /// As `config` has it.
    ///
    /// # Errors
    /// If the endpoint is none that a password may be sent to.
    pub fn introspecting(config: IntrospectionConfig) -> Result<Self, ReachError> {
        IntrospectionChecker::new(config).map(Self::of)
    }
}

impl<C: Checker + 'static> Checking<C> {
    /// This checker.
    #[must_use]
    pub fn of(checker: C) -> Self {
        Self(Arc::new(Mutex::new(State {
            checker,
            waiting: BTreeMap::new(),
            waiters: 0,
            drivers: Vec::new(),
        })))
    }
}

impl<C: Checker> State<C> {
    /// Has the drivers look if there is something to fetch.
    fn call_drivers(&mut self, wakers: &mut Wakers) {
        if self.checker.has_fetch() {
            self.drivers.drain(..).for_each(|driver| wakers.wake(Some(driver)));
        }
    }
}

impl<C: Checker + 'static> Verifier for Checking<C> {
    fn verify(&self, presented: Presented) -> Verification {
        Box::pin(Asking { state: self.0.clone(), presented, waits: None })
    }

    fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, Reach)> {
        let left = cx.waker().clone();
        let mut wakers = Wakers::default();
        let polled = {
            let mut state = lock(&self.0);
            match state.checker.poll_fetch() {
                Some(fetch) => {
                    wakers.spend(Some(left));
                    Poll::Ready(fetch)
                }
                None => {
                    if state.drivers.iter().any(|driver| driver.will_wake(&left)) {
                        wakers.spend(Some(left));
                    } else {
                        // One too many looks again at once, and is in line again then.
                        let first = (state.drivers.len() >= DRIVERS).then(|| state.drivers.remove(0));
                        wakers.wake(first);
                        state.drivers.push(left);
                    }
                    Poll::Pending
                }
            }
        };
        wakers.release();
        polled
    }

    fn fetched(&self, now: Now, id: FetchId, fetched: Result<Fetched, String>) {
        let mut wakers = Wakers::default();
        {
            let mut state = lock(&self.0);
            match fetched {
                Ok(Fetched { status, body }) => state.checker.handle_answer(now, id, status, &body),
                Err(detail) => state.checker.handle_failed(now, id, &detail),
            }
            state.call_drivers(&mut wakers);
            if let Some(mut waiters) = state.waiting.remove(&id) {
                wakers.wake_all(&mut waiters);
            }
        }
        wakers.release();
    }
}

/// A request that is being verified.
struct Asking<C: Checker> {
    state: Arc<Mutex<State<C>>>,
    presented: Presented,
    /// What it waits for, and its place there.
    waits: Option<(FetchId, Option<u64>)>,
}

impl<C: Checker> Asking<C> {
    /// Gives up its place.
    fn leave(&mut self, state: &mut State<C>, wakers: &mut Wakers) {
        let Some((id, key)) = self.waits.take() else { return };
        state.waiters = state.waiters.saturating_sub(1);
        if let Some(waiters) = state.waiting.get_mut(&id) {
            waiters.leave(key, wakers);
        }
    }
}

impl<C: Checker> Future for Asking<C> {
    type Output = Result<Access, VerifyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let left = cx.waker().clone();
        let mut wakers = Wakers::default();
        let this = &mut *self;
        let polled = {
            let shared = this.state.clone();
            let mut state = lock(&shared);
            this.leave(&mut state, &mut wakers);
            let verdict = state.checker.check(this.presented.now, &this.presented.token);
            state.call_drivers(&mut wakers);
            match verdict {
                Verdict::Good(access) => Poll::Ready(Ok(*access)),
                // Not under the lock.
                #[cfg(feature = "auth-jwt")]
                Verdict::Signed(signed) => {
                    drop(state);
                    Poll::Ready(signed.verify(&this.presented.token))
                }
                Verdict::Refused(error) => Poll::Ready(Err(error)),
                Verdict::Wait(_) if state.waiters >= WAITING => Poll::Ready(Err(VerifyError::unavailable(
                    "too many requests wait for their tokens to be checked",
                ))),
                Verdict::Wait(id) => {
                    let mut key = None;
                    state.waiting.entry(id).or_default().wait(&mut key, left.clone(), &mut wakers);
                    state.waiters = state.waiters.saturating_add(1);
                    this.waits = Some((id, key));
                    Poll::Pending
                }
            }
        };
        wakers.release();
        polled
    }
}

impl<C: Checker> Drop for Asking<C> {
    fn drop(&mut self) {
        if self.waits.is_some() {
            let mut wakers = Wakers::default();
            let shared = self.state.clone();
            self.leave(&mut lock(&shared), &mut wakers);
            wakers.release();
        }
    }
}

impl<C> Clone for Checking<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: fmt::Debug> fmt::Debug for Checking<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checking").field(&lock(&self.0).checker).finish()
    }
}
