//! The watch over the token of an open stream.

use core::task::{Context, Poll};
use core::time::Duration;

use super::service::Service;
use crate::auth::Now;
use crate::auth::server::{GrantedAccess, Reverification};
use crate::front::handler::inbound_request::CallerAccess;
use crate::prelude::*;
use crate::{Instant, UnixTime};

/// How long the verification of an open stream's token may take.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(15);

/// Watches over the token of the request that opened a stream: its expiry, and its verification at an interval.
#[derive(Default)]
pub(super) struct TokenWatch(Option<Box<WatchedToken>>);

struct WatchedToken {
    granted: GrantedAccess,
    expires: Option<Instant>,
    /// When the next verification begins; while one runs, when it must be complete.
    due: Option<Instant>,
    verification: Option<Reverification>,
}

impl TokenWatch {
    pub(super) fn new(service: &Service, access: &CallerAccess) -> Self {
        Self(access.as_ref().map(|granted| {
            let expires = deadline(service, granted.access().expires);
            let due = granted.reverifier().and_then(|reverifier| service.now().after(reverifier.interval()));
            Box::new(WatchedToken { granted: granted.clone(), expires, due, verification: None })
        }))
    }

    /// Ready, once, when a request with the token is no longer accepted.
    pub(super) fn poll(&mut self, service: &Service, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.as_mut().is_none_or(|token| token.poll_valid(service, cx)) {
            return Poll::Pending;
        }
        self.0 = None;
        Poll::Ready(())
    }

    /// The time at which [`poll`](Self::poll) is due.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let token = self.0.as_ref()?;
        [token.expires, token.due].into_iter().flatten().min()
    }
}

impl WatchedToken {
    /// Whether the token is valid, as far as that is known.
    fn poll_valid(&mut self, service: &Service, cx: &mut Context<'_>) -> bool {
        let now = service.now();
        if self.expires.is_some_and(|at| at <= now) {
            return false;
        }
        let Some(reverifier) = self.granted.reverifier() else { return true };
        let mut is_due = self.due.is_some_and(|at| at <= now);
        if is_due && self.verification.is_none() {
            let unix = service.clock.unix_time();
            self.verification = Some(reverifier.verify(Now { instant: now, unix }));
            self.due = now.after(VERIFY_TIMEOUT);
            is_due = false;
        }
        let Some(verification) = &mut self.verification else { return true };
        match verification.as_mut().poll(cx) {
            Poll::Ready(Some(access)) if access.principal == self.granted.access().principal => {
                self.expires = deadline(service, access.expires);
                self.due = now.after(reverifier.interval());
                self.verification = None;
                true
            }
            Poll::Ready(_) => false,
            Poll::Pending => !is_due,
        }
    }
}

/// The time of the server's clock at which a token expires.
fn deadline(service: &Service, expires: Option<UnixTime>) -> Option<Instant> {
    service.now().after(expires?.saturating_since(service.clock.unix_time()))
}
