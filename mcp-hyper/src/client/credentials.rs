//! The credentials of a client's requests: an application's source of headers, or OAuth.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::future::Boxed;
use http::HeaderMap;
use mcp_proto::adapter::{CacheContextEnder, Clock as _};
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};
use mcp_proto::{HumanDuration, Instant};

use super::headers::{SourcedHeaders, reserved_header};
#[cfg(feature = "auth")]
use crate::auth;
use crate::time::RuntimeClock;

/// How long a source of headers may take: as long as a request waits for its response by default.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why an exchange is refused after the source has given the same headers again.
const UNCHANGED: &str = "its headers were read again and have not changed: renew the key or token in them";

/// An action for the driver on an exchange.
#[derive(Debug)]
pub(crate) enum ExchangeAction {
    /// Send this request, with its credentials if there are any.
    Open(HttpRequest),
    /// Fail an exchange whose request was not sent.
    Fail(ExchangeId, String),
    /// Repeat an exchange that the server refused.
    Resume(ExchangeId),
    /// Fail an exchange that the server refused.
    Refuse(ExchangeId, String),
}

/// What provides a client's credentials.
pub(super) enum Authorizer {
    Headers(Box<HeaderSource>),
    #[cfg(feature = "auth")]
    OAuth(Box<auth::Authorizer>),
}

/// Calls the method of the same name on either kind.
macro_rules! either {
    ($authorizer:expr, $kind:ident => $call:expr) => {
        match $authorizer {
            Authorizer::Headers($kind) => $call,
            #[cfg(feature = "auth")]
            Authorizer::OAuth($kind) => $call,
        }
    };
}

impl Authorizer {
    /// Links a connection's cache, whose context ends whenever the credentials change.
    pub(super) fn link_cache(&mut self, cache: CacheContextEnder) {
        either!(self, kind => kind.link_cache(cache));
    }

    /// Attaches credentials to a request, or queues it until there are some.
    pub(super) fn authorize(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        either!(self, kind => kind.authorize(request))
    }

    /// Drops an exchange that the client has cancelled.
    pub(super) fn forget_exchange(&mut self, exchange: ExchangeId) {
        either!(self, kind => kind.forget_exchange(exchange));
    }

    /// Handles the refusal of an exchange by 401 or 403.
    pub(super) fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        either!(self, kind => kind.handle_challenge(challenge));
    }

    /// When to call [`poll`](Self::poll) at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        either!(self, kind => kind.poll_timeout())
    }

    /// Whether work is in progress that must not be cancelled.
    pub(super) fn is_finishing(&self) -> bool {
        match self {
            Self::Headers(_) => false,
            #[cfg(feature = "auth")]
            Self::OAuth(oauth) => oauth.is_finishing(),
        }
    }

    /// Returns the next action for the driver.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeAction> {
        either!(self, kind => kind.poll(cx))
    }
}

/// Asks an application for headers. An error's text is shown to the user.
pub(super) type AskHeaders = Box<dyn FnMut() -> Boxed<Result<HeaderMap, String>> + Send>;

/// A source that is being asked.
struct AskedSource {
    answer: Boxed<Result<HeaderMap, String>>,
    /// When it has taken too long.
    due: Instant,
    /// The last exchange that was sent before.
    last_sent: Option<ExchangeId>,
}

/// A source of headers, and the exchanges that wait for it.
pub(super) struct HeaderSource {
    ask: AskHeaders,
    headers: SourcedHeaders,
    clock: Arc<RuntimeClock>,
    cache: Option<CacheContextEnder>,
    asked: Option<AskedSource>,
    /// Requests that wait for the first headers.
    waiting: BTreeMap<ExchangeId, HttpRequest>,
    /// Exchanges that the server refused, parked until the source has answered.
    refused: Vec<ExchangeId>,
    /// The last exchange that was sent; numbers rise.
    last_sent: Option<ExchangeId>,
    /// The last exchange that was sent with other headers than the present ones.
    last_outdated: Option<ExchangeId>,
    /// The last exchange that was sent before the source gave the present headers again.
    last_confirmed: Option<ExchangeId>,
    actions: VecDeque<ExchangeAction>,
}

impl HeaderSource {
    pub(super) fn new(ask: AskHeaders, headers: SourcedHeaders, clock: Arc<RuntimeClock>) -> Self {
        Self {
            ask,
            headers,
            clock,
            cache: None,
            asked: None,
            waiting: BTreeMap::new(),
            refused: Vec::new(),
            last_sent: None,
            last_outdated: None,
            last_confirmed: None,
            actions: VecDeque::new(),
        }
    }

    fn link_cache(&mut self, cache: CacheContextEnder) {
        self.cache = Some(cache);
    }

    fn authorize(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        if self.headers.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.last_sent = self.last_sent.max(Some(request.exchange));
            return Some(request);
        }
        self.waiting.insert(request.exchange, request);
        self.begin();
        None
    }

    fn forget_exchange(&mut self, exchange: ExchangeId) {
        self.waiting.remove(&exchange);
        self.refused.retain(|refused| *refused != exchange);
        self.actions.retain(
            |action| !matches!(action, ExchangeAction::Open(request) if request.exchange == exchange),
        );
    }

    fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        let exchange = challenge.exchange;
        if challenge.status != 401 {
            self.refuse(exchange, "its headers are read again after status 401 only");
        } else if challenge.attempt > 0 {
            self.refuse(exchange, "the server refused the new headers too: renew the key or token in them");
        } else if Some(exchange) <= self.last_outdated {
            self.actions.push_back(ExchangeAction::Resume(exchange));
        } else if Some(exchange) <= self.last_confirmed {
            // Of many calls in flight, only the first asks.
            self.refuse(exchange, UNCHANGED);
        } else {
            self.refused.push(exchange);
            self.begin();
        }
    }

    fn refuse(&mut self, exchange: ExchangeId, why: &str) {
        self.actions.push_back(ExchangeAction::Refuse(exchange, why.to_owned()));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.asked.as_ref().map(|asked| asked.due)
    }

    /// Asks the source, unless it is being asked.
    fn begin(&mut self) {
        if self.asked.is_none() {
            let (answer, due) = ((self.ask)(), self.clock.now() + SOURCE_TIMEOUT);
            self.asked = Some(AskedSource { answer, due, last_sent: self.last_sent });
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeAction> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Poll::Ready(action);
            }
            let Some(AskedSource { answer, due, last_sent }) = &mut self.asked else { return Poll::Pending };
            let last_sent = *last_sent;
            let answer = match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => answer.and_then(check),
                Poll::Pending if self.clock.now() < *due => return Poll::Pending,
                Poll::Pending => {
                    Err(format!("their source did not answer within {}", HumanDuration(SOURCE_TIMEOUT)))
                }
            };
            self.asked = None;
            match answer {
                Ok(headers) => self.handle_headers(headers, last_sent),
                Err(error) => self.handle_error(&format!("the headers could not be read: {error}")),
            }
        }
    }

    //= F107 "A hook is asked after 401, and the request is repeated once"
    /// Repeats the refused requests if there are other headers now, and sends those that have waited.
    fn handle_headers(&mut self, headers: HeaderMap, sent_before: Option<ExchangeId>) {
        let mut present = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = present.is_none();
        let has_changed = present.as_ref() != Some(&headers);
        *present = Some(headers);
        drop(present);
        match has_changed {
            true => self.last_outdated = self.last_sent,
            false => self.last_confirmed = sent_before,
        }
        if has_changed
            && !is_first
            && let Some(cache) = &self.cache
        {
            cache.end();
        }
        for exchange in mem::take(&mut self.refused) {
            match has_changed {
                true => self.actions.push_back(ExchangeAction::Resume(exchange)),
                false => self.refuse(exchange, UNCHANGED),
            }
        }
        for request in mem::take(&mut self.waiting).into_values() {
            let request = self.authorize(request);
            self.actions.extend(request.map(ExchangeAction::Open));
        }
    }

    fn handle_error(&mut self, error: &str) {
        for exchange in mem::take(&mut self.refused) {
            self.refuse(exchange, error);
        }
        let waiting = mem::take(&mut self.waiting).into_keys();
        self.actions.extend(waiting.map(|exchange| ExchangeAction::Fail(exchange, error.to_owned())));
    }
}

/// Checks a source's headers, and marks them: they are secret under any name.
fn check(mut headers: HeaderMap) -> Result<HeaderMap, String> {
    if let Some(error) = reserved_header(&headers) {
        return Err(error.to_string());
    }
    headers.values_mut().for_each(|value| value.set_sensitive(true));
    Ok(headers)
}

debug_fields! { HeaderSource(self) { waiting = self.waiting.len(), refused = self.refused.len() } }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::DefaultRuntime;
    use http::HeaderValue;
    use mcp_proto::transport::http::Verb;
    use std::future::{pending, ready};
    use std::sync::Mutex;
    use std::task::Waker;

    fn source(ask: impl FnMut() -> Boxed<Result<HeaderMap, String>> + Send + 'static) -> HeaderSource {
        let clock = Arc::new(RuntimeClock::new(&Arc::new(DefaultRuntime::default())));
        HeaderSource::new(Box::new(ask), SourcedHeaders::default(), clock)
    }

    /// A source with another header each time.
    fn counting() -> HeaderSource {
        let mut count = 0;
        source(move || {
            count += 1;
            Box::pin(ready(Ok(HeaderMap::from_iter([(http::header::COOKIE, HeaderValue::from(count))]))))
        })
    }

    fn cookie(source: &HeaderSource) -> HeaderValue {
        source.headers.lock().unwrap().as_ref().unwrap()["cookie"].clone()
    }

    fn request(number: u64) -> HttpRequest {
        let (exchange, url) = (ExchangeId::new(number), "http://localhost/".into());
        HttpRequest { exchange, verb: Verb::Post, url, headers: Vec::new(), body: Vec::new().into() }
    }

    fn refuse(source: &mut HeaderSource, number: u64, status: u16) {
        let exchange = ExchangeId::new(number);
        let refusal = AuthorizationRequired { exchange, status, header: None, dpop_nonce: None, attempt: 0 };
        source.handle_challenge(&refusal);
    }

    fn actions(source: &mut HeaderSource) -> Vec<String> {
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match source.poll(&mut cx) {
            Poll::Ready(ExchangeAction::Open(request)) => Some(format!("open {}", request.exchange.number())),
            Poll::Ready(ExchangeAction::Resume(exchange)) => Some(format!("resume {}", exchange.number())),
            Poll::Ready(ExchangeAction::Fail(exchange, why)) => {
                Some(format!("fail {}: {why}", exchange.number()))
            }
            Poll::Ready(ExchangeAction::Refuse(exchange, why)) => {
                Some(format!("refuse {}: {why}", exchange.number()))
            }
            Poll::Pending => None,
        })
        .collect()
    }

    /// F107
    #[test]
    fn request_that_is_refused_after_the_headers_changed_is_repeated_without_asking() {
        let mut source = counting();
        assert!(source.authorize(request(1)).is_none());
        assert_eq!(actions(&mut source), ["open 1"]);
        assert!(source.authorize(request(2)).is_some());
        refuse(&mut source, 1, 401);
        assert_eq!(actions(&mut source), ["resume 1"]);
        refuse(&mut source, 2, 401);
        assert_eq!(
            (actions(&mut source), cookie(&source)),
            (vec!["resume 2".to_owned()], HeaderValue::from(2))
        );
        assert!(source.authorize(request(3)).is_some());
        refuse(&mut source, 3, 401);
        assert_eq!(
            (actions(&mut source), cookie(&source)),
            (vec!["resume 3".to_owned()], HeaderValue::from(3))
        );
        assert!(cookie(&source).is_sensitive());
    }

    /// F107
    #[test]
    fn calls_in_flight_ask_the_source_once_in_all() {
        let count = Arc::new(Mutex::new(0));
        let asked = count.clone();
        let mut source = source(move || {
            *asked.lock().unwrap() += 1;
            Box::pin(ready(Ok(HeaderMap::new())))
        });
        assert!(source.authorize(request(1)).is_none());
        actions(&mut source);
        for number in 2..=100 {
            assert!(source.authorize(request(number)).is_some());
        }
        for number in 1..=100 {
            refuse(&mut source, number, 401);
            assert_eq!(actions(&mut source), [format!("refuse {number}: {UNCHANGED}")]);
        }
        assert_eq!(*count.lock().unwrap(), 2);
        // A later call asks again.
        assert!(source.authorize(request(101)).is_some());
        refuse(&mut source, 101, 401);
        actions(&mut source);
        assert_eq!(*count.lock().unwrap(), 3);
    }

    /// F107
    #[test]
    fn status_403_does_not_ask_the_source() {
        let mut source = counting();
        assert!(source.authorize(request(1)).is_none());
        actions(&mut source);
        refuse(&mut source, 1, 403);
        assert!(actions(&mut source)[0].starts_with("refuse 1: "));
        assert_eq!(cookie(&source), HeaderValue::from(1));
    }

    /// F107
    #[test]
    fn source_that_does_not_answer_fails_what_waits_for_it() {
        let mut source = source(|| Box::pin(pending()));
        assert!(source.authorize(request(1)).is_none() && source.authorize(request(2)).is_none());
        source.forget_exchange(ExchangeId::new(2));
        assert!(actions(&mut source).is_empty());
        let due = source.poll_timeout().unwrap();
        assert_eq!(due.saturating_since(source.clock.now()).as_secs(), 29);
        source.asked.as_mut().unwrap().due = source.clock.now();
        assert_eq!(
            actions(&mut source),
            ["fail 1: the headers could not be read: their source did not answer within 30 s"]
        );
        assert_eq!(source.poll_timeout(), None);
    }
}
