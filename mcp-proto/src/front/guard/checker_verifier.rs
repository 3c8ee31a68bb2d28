//! An adapter from `Checker` to `Verifier`, with the requests that wait for its exchanges.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use super::{FetchResponse, VerificationFuture, Verifier};
use crate::auth::server::{
    Access, Checker, IntrospectionChecker, IntrospectionConfig, PresentedToken, TokenValidation,
    UnverifiedToken, VerifyError,
};
use crate::auth::{Fetch, FetchId, FetchPolicy, FetchPolicyError, Now};
use crate::front::wakers::{Waiters, Wakers, lock, update};
use crate::prelude::*;
use crate::quota::{QuotaOwner, Shares};

/// The maximum number of requests that wait for exchanges. Each costs some KiB. A sender with more than its share of
/// the places is answered with 429.
const MAX_WAITING: usize = 1024;

/// The maximum number of drivers that wait for an exchange to make: one for each server of the verifier.
const MAX_DRIVERS: usize = 16;

/// Verifies tokens by introspection at their issuer.
pub type IntrospectionVerifier = CheckerVerifier<IntrospectionChecker>;

/// A [`Checker`] as a [`Verifier`]: requests that need the same exchange wait for it together. Clones share the checker
/// and its cache.
pub struct CheckerVerifier<C>(Arc<Mutex<State<C>>>);

struct State<C> {
    checker: C,
    /// The requests that wait for each exchange.
    waiting: BTreeMap<FetchId, Waiters>,
    /// The same requests, counted by owner.
    shares: Shares,
    drivers: Vec<Waker>,
}

impl CheckerVerifier<IntrospectionChecker> {
    /// Creates a verifier with `config`.
    ///
    /// # Errors
    /// If the endpoint is unsafe for a password.
    pub fn introspecting(config: IntrospectionConfig) -> Result<Self, FetchPolicyError> {
        IntrospectionChecker::new(config).map(Self::from_checker)
    }
}

impl<C: Checker + 'static> CheckerVerifier<C> {
    /// Creates a verifier from `checker`.
    #[must_use]
    pub fn from_checker(checker: C) -> Self {
        Self(Arc::new(Mutex::new(State {
            checker,
            waiting: BTreeMap::new(),
            shares: Shares::new(MAX_WAITING),
            drivers: Vec::new(),
        })))
    }
}

impl<C: Checker> State<C> {
    /// Wakes the drivers to poll for exchanges.
    fn wake_drivers(&mut self, wakers: &mut Wakers) {
        if self.checker.has_fetch() {
            self.drivers.drain(..).for_each(|driver| wakers.wake(Some(driver)));
        }
    }
}

impl<C: Checker + 'static> Verifier for CheckerVerifier<C> {
    fn verify(&self, presented: PresentedToken) -> VerificationFuture {
        Box::pin(TokenCheck { state: self.0.clone(), presented, waiter: None })
    }

    fn poll_fetch(&self, cx: &mut Context<'_>) -> Poll<(Fetch, FetchPolicy)> {
        let left = cx.waker().clone();
        update(&self.0, |state, wakers| {
            match state.checker.poll_fetch() {
                Some(fetch) => {
                    wakers.discard(Some(left));
                    Poll::Ready(fetch)
                }
                None => {
                    if state.drivers.iter().any(|driver| driver.will_wake(&left)) {
                        wakers.discard(Some(left));
                    } else {
                        // Beyond the limit, the first driver is woken, polls again and then waits again.
                        let first = (state.drivers.len() >= MAX_DRIVERS).then(|| state.drivers.remove(0));
                        wakers.wake(first);
                        state.drivers.push(left);
                    }
                    Poll::Pending
                }
            }
        })
    }

    fn handle_fetched(&self, now: Now, id: FetchId, fetched: Result<FetchResponse, String>) {
        update(&self.0, |state, wakers| {
            match fetched {
                Ok(FetchResponse { status, body }) => state.checker.handle_answer(now, id, status, &body),
                Err(detail) => state.checker.handle_failed(now, id, &detail),
            }
            state.wake_drivers(wakers);
            if let Some(mut waiters) = state.waiting.remove(&id) {
                wakers.wake_all(&mut waiters);
            }
        });
    }
}

/// The verification of a request's token.
struct TokenCheck<C: Checker> {
    state: Arc<Mutex<State<C>>>,
    presented: PresentedToken,
    /// Its place among the waiting requests.
    waiter: Option<FetchWaiter>,
}

/// The place of a request that waits for an exchange.
struct FetchWaiter {
    fetch: FetchId,
    key: Option<u64>,
    /// The owner whose quota it uses.
    owner: QuotaOwner,
}

impl<C: Checker> TokenCheck<C> {
    /// Leaves the place. Returns the owner whose quota it used.
    fn leave(&mut self, state: &mut State<C>, wakers: &mut Wakers) -> Option<QuotaOwner> {
        let FetchWaiter { fetch, key, owner } = self.waiter.take()?;
        state.shares.give_back(&owner, 1);
        if let Some(waiters) = state.waiting.get_mut(&fetch) {
            waiters.leave(key, wakers);
        }
        Some(owner)
    }

    /// Takes a place from the share of the sender, or of the known owner of the token. Returns that owner.
    fn take_share(&self, state: &mut State<C>) -> Option<QuotaOwner> {
        let PresentedToken { owner, token, received: now, .. } = &self.presented;
        if state.shares.try_take(owner, 1).is_ok() {
            return Some(owner.clone());
        }
        let named = state.checker.known_owner(*now, token)?;
        state.shares.try_take(&named, 1).ok().map(|()| named)
    }

    /// Continues a verification. `failed` is the token whose signature check failed, if one did. `Err` is a token whose signature must
    /// be verified outside the lock.
    fn advance(
        &mut self,
        failed: Option<&UnverifiedToken>,
        left: &Waker,
        wakers: &mut Wakers,
    ) -> Result<CheckPoll, UnverifiedToken> {
        let shared = self.state.clone();
        let mut state = lock(&shared);
        let held = self.leave(&mut state, wakers);
        let PresentedToken { received: now, ref owner, ref token, .. } = self.presented;
        let validation = match failed {
            Some(failed) => state.checker.recheck(now, token, failed),
            None => state.checker.check(now, owner, token),
        };
        state.wake_drivers(wakers);
        let id = match validation {
            TokenValidation::Valid(access) => return Ok(Poll::Ready(Ok(*access))),
            TokenValidation::SignatureUnchecked(signed) => return Err(signed),
            TokenValidation::Rejected(error) => return Ok(Poll::Ready(Err(error))),
            TokenValidation::Pending(id) => id,
        };
        let owner = match held {
            // A request that checks again keeps its place.
            Some(owner) => {
                state.shares.take(&owner, 1);
                Some(owner)
            }
            None => self.take_share(&mut state),
        };
        let Some(owner) = owner else {
            let why = "too many requests wait for the verification of their tokens";
            return Ok(Poll::Ready(Err(VerifyError::over_quota(why))));
        };
        let mut key = None;
        state.waiting.entry(id).or_default().wait(&mut key, left.clone(), wakers);
        self.waiter = Some(FetchWaiter { fetch: id, key, owner });
        Ok(Poll::Pending)
    }
}

type CheckPoll = Poll<Result<Access, VerifyError>>;

impl<C: Checker> Future for TokenCheck<C> {
    type Output = Result<Access, VerifyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut failed = None;
        loop {
            let mut wakers = Wakers::default();
            let advanced = self.advance(failed.as_ref(), cx.waker(), &mut wakers);
            wakers.release();
            let signed = match advanced {
                Ok(polled) => return polled,
                Err(signed) => signed,
            };
            // Outside the lock: verification takes long.
            match signed.verify(&self.presented.token) {
                Ok(access) => return Poll::Ready(Ok(access)),
                Err(error) if signed.has_key_id() => return Poll::Ready(Err(error)),
                // A newer key may have signed it: retried only once other keys are known.
                Err(_) => failed = Some(signed),
            }
        }
    }
}

impl<C: Checker> Drop for TokenCheck<C> {
    fn drop(&mut self) {
        if self.waiter.is_some() {
            let shared = self.state.clone();
            update(&shared, |state, wakers| self.leave(state, wakers));
        }
    }
}

impl<C> Clone for CheckerVerifier<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: fmt::Debug> fmt::Debug for CheckerVerifier<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckerVerifier").field(&lock(&self.0).checker).finish()
    }
}
