//! Sees to a client's authorization: asks the machine before each exchange, brings it what was refused, and carries out
//! what it wants.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::Stream as _;
use futures_lite::future::Boxed;
use futures_util::stream::FuturesUnordered;
use mcp_proto::Instant;
use mcp_proto::auth::client::{
    Action, Admission, AuthClient, AuthConfigError, AuthError, Event, Person, Refused, Saved, Stamp,
    Standing, Stored,
};
use mcp_proto::auth::{Fetch, FetchId, Reach, Secret};
use mcp_proto::front::CacheContextEnder;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};

use super::handle::Shared;
use super::{Assert, AuthHandle, Authorization, LoopbackRedirects, OnEvent, TokenStore};
use crate::client::Fetched;
use crate::time::RuntimeClock;

/// How many browsers are answered at once.
const GUESTS: usize = 8;

/// What is to be done about exchanges and fetches.
#[derive(Debug)]
pub(crate) enum Deed {
    /// A request is to go out, with whatever credentials there are.
    Open(HttpRequest),
    /// A refused exchange is to be made again.
    Resume(ExchangeId),
    /// A refused exchange stays refused.
    Refuse(ExchangeId, String),
    Fetch(Fetch, Reach),
    Abort(FetchId),
}

/// What has come of something that the machine wanted.
enum Chore {
    Loaded(Result<Option<Stored>, String>),
    Stored(Result<Saved, String>),
    Assertion(Result<Secret, String>),
}

/// An exchange that the server has been asked.
struct Asked {
    url: Arc<str>,
    stamp: Option<Stamp>,
}

pub(crate) struct Desk {
    shared: Arc<Shared>,
    store: Arc<dyn TokenStore>,
    key: Arc<str>,
    on_event: Option<OnEvent>,
    assert: Option<Assert>,
    redirects: Option<LoopbackRedirects>,
    /// Why the store still has what was to be forgotten.
    still_kept: Option<String>,
    chores: FuturesUnordered<Boxed<Chore>>,
    guests: FuturesUnordered<Boxed<()>>,
    asked: BTreeMap<ExchangeId, Asked>,
    /// Exchanges that have ended, about which there may be a challenge yet.
    ended: Vec<ExchangeId>,
    /// Requests that wait before they go out.
    held: BTreeMap<ExchangeId, HttpRequest>,
    /// Exchanges that were refused, and wait.
    challenged: Vec<ExchangeId>,
    deeds: VecDeque<Deed>,
}

impl Desk {
    pub(crate) fn new(
        authorization: Authorization,
        server: &str,
        clock: Arc<RuntimeClock>,
        seed: [u8; 32],
    ) -> Result<Self, AuthConfigError> {
        let Authorization { mut config, store, account, on_event, assert, redirects } = authorization;
        if on_event.is_none() {
            config.person = Person::Absent;
        }
        let machine = AuthClient::new(config, server, seed)?;
        let key = match account {
            Some(account) => format!("{}#{account}", machine.resource()),
            None => machine.resource().to_owned(),
        };
        Ok(Self {
            shared: Shared::new(clock, server.to_owned(), machine),
            store,
            key: key.into(),
            on_event,
            assert,
            redirects,
            still_kept: None,
            chores: FuturesUnordered::new(),
            guests: FuturesUnordered::new(),
            asked: BTreeMap::new(),
            ended: Vec::new(),
            held: BTreeMap::new(),
            challenged: Vec::new(),
            deeds: VecDeque::new(),
        })
    }

    /// Has the cache of a connection end its authorization context whenever the tokens do.
    pub(crate) fn end_context_of(&self, cache: CacheContextEnder) {
        self.shared.end_context_of(cache);
    }

    pub(crate) fn handle(&self) -> AuthHandle {
        AuthHandle(self.shared.clone())
    }

    // --- Exchanges ---

    /// Adds to a request what it is to go out with, unless that has to be waited for.
    pub(crate) fn admit(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        let admission =
            self.shared.lock(|state, now| state.machine.credentials(now, request.verb, &request.url));
        match admission {
            Admission::Go { headers, stamp } => Some(self.furnish(request, headers, stamp)),
            Admission::Wait => {
                self.held.insert(request.exchange, request);
                None
            }
        }
    }

    fn furnish(
        &mut self,
        mut request: HttpRequest,
        headers: Vec<(&'static str, Secret)>,
        stamp: Option<Stamp>,
    ) -> HttpRequest {
        let headers = headers.iter().map(|(name, value)| (Cow::Borrowed(*name), value.expose().to_owned()));
        request.headers.extend(headers);
        self.asked.insert(request.exchange, Asked { url: request.url.clone(), stamp });
        request
    }

    /// The head of an answer has come.
    pub(crate) fn note_head(&mut self, exchange: ExchangeId, nonce: Option<&str>) {
        if let (Some(nonce), Some(asked)) = (nonce, self.asked.get(&exchange)) {
            self.shared.lock(|state, _| state.machine.keep_nonce(&asked.url, nonce));
        }
    }

    /// An exchange has ended. There may be a challenge about it yet.
    pub(crate) fn note_end(&mut self, exchange: ExchangeId) {
        self.ended.push(exchange);
    }

    /// Everything has been told of the exchanges that have ended.
    pub(crate) fn forget_ended(&mut self) {
        for exchange in self.ended.drain(..) {
            self.asked.remove(&exchange);
        }
    }

    /// Nobody is interested in an exchange any more.
    pub(crate) fn forget(&mut self, exchange: ExchangeId) {
        self.asked.remove(&exchange);
        self.held.remove(&exchange);
        self.challenged.retain(|challenged| *challenged != exchange);
        self.deeds.retain(|deed| !matches!(deed, Deed::Open(request) if request.exchange == exchange));
    }

    /// An exchange was refused.
    pub(crate) fn challenged(&mut self, challenge: &AuthorizationRequired) {
        let exchange = challenge.exchange;
        let refused = Refused {
            status: challenge.status,
            header: challenge.header.as_deref(),
            used: self.asked.remove(&exchange).and_then(|asked| asked.stamp),
            attempt: challenge.attempt,
            nonce: challenge.dpop_nonce.as_deref(),
        };
        match self.shared.lock(|state, now| state.machine.challenged(now, &refused)) {
            Standing::Again => self.deeds.push_back(Deed::Resume(exchange)),
            Standing::Wait => self.challenged.push(exchange),
            Standing::Never(error) => self.deeds.push_back(Deed::Refuse(exchange, error.to_string())),
        }
    }

    // --- The machine ---

    /// What has come of a fetch.
    pub(crate) fn fetched(&mut self, id: FetchId, fetched: Result<Fetched, String>) {
        self.shared.lock(|state, now| match fetched {
            Ok(Fetched { status, headers, body }) => {
                let fields = crate::fields::Headers(&headers);
                state.machine.handle_answer(now, id, status.as_u16(), &fields, body);
            }
            Err(detail) => state.machine.handle_failed(now, id, &detail),
        });
    }

    /// When it is to be polled again, whatever happens.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.shared.lock(|state, _| state.machine.poll_timeout())
    }

    /// Whether something is under way that should not be broken off: a token that is renewed and was not kept is lost.
    pub(crate) fn is_finishing(&self) -> bool {
        !self.chores.is_empty() || self.shared.lock(|state, _| state.machine.is_busy() && !state.page)
    }

    /// The next thing to do.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Deed> {
        loop {
            if let Some(deed) = self.deeds.pop_front() {
                return Poll::Ready(deed);
            }
            let done = self.poll_chores(cx) | self.tell_time(cx) | self.take_action() | self.take_event();
            if !(done | self.poll_guests(cx)) && self.deeds.is_empty() {
                return Poll::Pending;
            }
        }
    }

    fn poll_chores(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(chore)) = Pin::new(&mut self.chores).poll_next(cx) else { return false };
        self.shared.lock(|state, now| match chore {
            Chore::Loaded(loaded) => state.machine.handle_loaded(now, loaded),
            Chore::Stored(saved) => state.machine.handle_stored(now, saved),
            Chore::Assertion(assertion) => state.machine.handle_assertion(now, assertion),
        });
        true
    }

    fn tell_time(&self, cx: &Context<'_>) -> bool {
        self.shared.lock(|state, now| {
            if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
                state.driver = Some(cx.waker().clone());
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
            Some((action, *state.machine.reach()))
        });
        let Some((action, reach)) = action else { return false };
        let (store, key) = (self.store.clone(), self.key.clone());
        match action {
            Action::Fetch(fetch) => self.deeds.push_back(Deed::Fetch(fetch, reach)),
            Action::Abort(fetch) => self.deeds.push_back(Deed::Abort(fetch)),
            Action::Load => self.chores.push(Box::pin(async move {
                Chore::Loaded(store.load(&key).await.map_err(|error| error.to_string()))
            })),
            Action::Store { record, expected } => self.chores.push(Box::pin(async move {
                let saved = store.swap(&key, expected, record).await;
                Chore::Stored(saved.map_err(|error| error.to_string()))
            })),
            Action::Assertion(request) => match &mut self.assert {
                Some(assert) => {
                    let assertion = assert(request);
                    self.chores.push(Box::pin(async move { Chore::Assertion(assertion.await) }));
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
            match event {
                Event::NeedsAuthorization(_) => state.page = true,
                Event::PageObsolete | Event::Ready(_) | Event::Failed(_) => state.page = false,
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
            Event::Ready(_) => self.settle(None),
            Event::Failed(error) => self.settle(Some(error)),
            Event::NotForgotten(why) => self.still_kept = Some(why),
            Event::LoggedOut => self.shared.tell_logout(self.still_kept.take()),
            _ => {}
        }
        true
    }

    /// What waited goes on, or fails. A request that never went out does so now: the server may let it through, and says
    /// what it wants if not.
    fn settle(&mut self, failure: Option<AuthError>) {
        for exchange in std::mem::take(&mut self.challenged) {
            self.deeds.push_back(match &failure {
                None => Deed::Resume(exchange),
                Some(error) => Deed::Refuse(exchange, error.to_string()),
            });
        }
        for request in std::mem::take(&mut self.held).into_values() {
            let request = match failure {
                None => self.admit(request),
                Some(_) => {
                    self.shared.lock(|state, _| state.machine.skip_credentials());
                    Some(self.furnish(request, Vec::new(), None))
                }
            };
            self.deeds.extend(request.map(Deed::Open));
        }
        self.shared.tell_end(failure);
    }

    /// Answers browsers, and lets new ones in while there is a page.
    fn poll_guests(&mut self, cx: &mut Context<'_>) -> bool {
        let page = self.shared.lock(|state, _| state.page);
        while self.guests.len() < GUESTS
            && let Some(redirects) = self.redirects.as_ref().filter(|_| page)
            && let Poll::Ready(guest) = redirects.poll_accept(&self.shared, cx)
        {
            self.guests.push(guest);
        }
        matches!(Pin::new(&mut self.guests).poll_next(cx), Poll::Ready(Some(())))
            || page != self.shared.lock(|state, _| state.page)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("held", &self.held.len())
            .field("challenged", &self.challenged.len())
            .finish_non_exhaustive()
    }
}
