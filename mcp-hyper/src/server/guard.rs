//! The guard of a server: the tokens of requests, and the fetches that verify them.

use std::future::{Future, Ready, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::Either;
use http::request::Parts;
use mcp_proto::adapter::Clock as _;
use mcp_proto::auth::{Fetch, FetchId, FetchPolicy, Now};
use mcp_proto::front::Attachments;
use mcp_proto::front::guard::{FetchResponse, Guard, GuardDecision, PendingVerification};
use mcp_proto::front::http::HttpExchange;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead};

use super::connection::Upgrade;
use super::exchange::ServerMode;
use super::service::{HttpService, RequestFields, request_head, with_head};
use crate::client::fetch::fetch_once;
use crate::runtime::AnyRuntime;
use crate::task_set::TaskSet;
use crate::time::{Alarm, RuntimeClock};

/// The guard of a server, if it requires tokens, and the application's function that performs the guard's fetches.
#[derive(Default)]
pub(super) struct GuardOptions(pub(super) Option<(Guard, Option<FetchFn>)>);

impl GuardOptions {
    /// Splits the options into the parts for the service and for its driver.
    pub(super) fn start(self, runtime: &AnyRuntime) -> (TokenGuard, Option<Fetcher>) {
        let Some((guard, fetch)) = self.0 else { return (TokenGuard(None), None) };
        let fetch = fetch.unwrap_or_else(|| fetch_on(runtime.clone()));
        (TokenGuard(Some(guard.clone())), Some(Fetcher::new(guard, fetch)))
    }
}

/// Performs fetches with the sockets of this runtime.
fn fetch_on(runtime: AnyRuntime) -> FetchFn {
    Arc::new(move |request, policy| {
        let runtime = runtime.clone();
        Box::pin(async move {
            let fetched = fetch_once(runtime, request, policy).await?;
            Ok(FetchResponse { status: fetched.status.as_u16(), body: fetched.body })
        })
    })
}

/// The guard of a service, if it requires tokens.
pub(super) struct TokenGuard(Option<Guard>);

/// The check of a request's token: its failure, or the verification.
pub(super) type TokenCheck = Either<Ready<<PendingVerification as Future>::Output>, PendingVerification>;

impl TokenGuard {
    /// Starts to check a request's token, if the server requires one.
    pub(super) fn check(&self, head: &RequestHead<'_>, clock: &RuntimeClock) -> Option<TokenCheck> {
        Some(match self.0.as_ref()?.check(head, now(clock)) {
            GuardDecision::Answer(answer) => Either::Left(ready(Err(answer))),
            GuardDecision::Verifying(verifying) => Either::Right(verifying),
        })
    }
}

fn now(clock: &RuntimeClock) -> Now {
    Now { instant: clock.now(), unix: clock.unix_time() }
}

/// Maximum number of concurrent fetches. Further ones wait.
const AT_ONCE: usize = 64;

/// Performs one HTTP fetch.
pub(super) type FetchFn = Arc<dyn Fn(Fetch, FetchPolicy) -> FetchFuture + Send + Sync>;

/// The future of one fetch's response.
pub(super) type FetchFuture = Pin<Box<dyn Future<Output = Result<FetchResponse, String>> + Send>>;

/// A fetch's future that also returns its id.
type NumberedFetch = Pin<Box<dyn Future<Output = (FetchId, Result<FetchResponse, String>)> + Send>>;

/// Performs the fetches that a guard requests.
pub(super) struct Fetcher {
    guard: Guard,
    fetch: FetchFn,
    fetches: TaskSet<NumberedFetch>,
}

impl Fetcher {
    pub(super) fn new(guard: Guard, fetch: FetchFn) -> Self {
        Self { guard, fetch, fetches: TaskSet::default() }
    }

    /// Starts requested fetches and hands finished ones to the guard.
    pub(super) fn poll(&mut self, clock: &RuntimeClock, cx: &mut Context<'_>) {
        loop {
            while self.fetches.len() < AT_ONCE
                && let Poll::Ready((fetch, policy)) = self.guard.poll_fetch(cx)
            {
                let id = fetch.id;
                let fetching = (self.fetch)(fetch, policy);
                self.fetches.insert(Box::pin(async move { (id, fetching.await) }));
            }
            let Poll::Ready((id, fetched)) = self.fetches.poll_next(cx) else { return };
            self.guard.handle_fetched(now(clock), id, fetched);
        }
    }
}

/// Time limit of a token's verification; longer than that of the fetches it can require.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(15);

/// A request whose token is being verified; its body is read only afterwards.
pub(super) struct TokenVerification<H: ServerMode> {
    check: TokenCheck,
    /// The head, until the exchange has it.
    parts: Option<Parts>,
    client: Option<IpAddr>,
    attachments: Attachments,
    service: HttpService<H>,
    /// The upgrade that the request asks for, if any.
    upgrade: Option<Upgrade<H>>,
    alarm: Alarm,
    until: Option<Instant>,
}

impl<H: ServerMode> TokenVerification<H> {
    /// Begins the verification for a request: its head, its client's address and its attachments.
    pub(super) fn new(
        check: TokenCheck,
        (parts, client, attachments): (Parts, Option<IpAddr>, Attachments),
        upgrade: Option<Upgrade<H>>,
        service: HttpService<H>,
    ) -> Self {
        let until = service.shared().clock.after(VERIFY_TIMEOUT);
        Self {
            check,
            parts: Some(parts),
            client,
            attachments,
            service,
            upgrade,
            alarm: Alarm::default(),
            until,
        }
    }

    /// Polls the verification; ready with the exchange that serves the request.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(HttpExchange<H>, Arc<RuntimeClock>)> {
        let Self { check, parts, client, attachments, service, upgrade, alarm, until } = self;
        let shared = service.shared();
        let verified = match Pin::new(check).poll(cx) {
            Poll::Ready(verified) => verified,
            Poll::Pending => {
                ready!(alarm.poll_until(*until, shared.clock.timers(), cx));
                Err(HttpResponse::empty(503))
            }
        };
        let Some(parts) = parts.take() else { return Poll::Pending };
        let fields = RequestFields::of(&parts);
        let head = request_head(&parts, &fields, *client);
        let server = &shared.server;
        let exchange = match verified {
            Ok(authorized) => {
                let attachments = std::mem::take(attachments);
                match upgrade.take() {
                    Some(upgrade) => {
                        let attachments = with_head(attachments, without_token(parts.clone()), *client);
                        let open = |it| server.upgrade_for(&head, authorized, attachments, it);
                        upgrade.exchange(service, &head, open)
                    }
                    None => {
                        let exchange = server.exchange_for(&head, authorized);
                        exchange.with_attachments(with_head(attachments, without_token(parts), *client))
                    }
                }
            }
            Err(answer) => server.answered_exchange(&head, answer),
        };
        Poll::Ready((exchange, shared.clock.clone()))
    }
}

/// A head without its token, which is meant for the server alone.
fn without_token(mut parts: Parts) -> Parts {
    parts.headers.remove(http::header::AUTHORIZATION);
    parts.headers.remove("dpop");
    parts
}
