//! The guard of a server: options, the tokens of requests, and the fetches that verify them.

mod fetching;

use std::future::{Future, Ready, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::Either;
use http::header::AUTHORIZATION;
use http::request::Parts;
use mcp_proto::adapter::Clock as _;
use mcp_proto::auth::{Fetch, FetchPolicy, Now};
use mcp_proto::front::guard::{FetchResponse, Guard, GuardDecision, PendingVerification};
use mcp_proto::front::http::HttpExchange;
use mcp_proto::front::{Attachments, HandlerMode};
use mcp_proto::transport::http::server::{HttpResponse, RequestHead};

use self::fetching::FetchFn;
pub(super) use self::fetching::Fetcher;
use super::options::ServerOptions;
use super::service::{HttpService, RequestFields, head, with_head};
use super::websocket::Upgrade;
use crate::client::auth::fetch::fetch_once;
use crate::runtime::AnyRuntime;
use crate::time::{Alarm, RuntimeClock};

/// The guard of a server, if it requires tokens, and the application's function that performs the guard's fetches.
#[derive(Default)]
pub(super) struct GuardOptions(Option<(Guard, Option<FetchFn>)>);

impl GuardOptions {
    /// Splits the options into the parts for the service and for its driver.
    pub(super) fn start(self, runtime: &AnyRuntime) -> (TokenGuard, Option<Fetcher>) {
        let Some((guard, fetch)) = self.0 else { return (TokenGuard(None), None) };
        let fetch = fetch.unwrap_or_else(|| fetch_on(runtime.clone()));
        (TokenGuard(Some(guard.clone())), Some(Fetcher::new(guard, fetch)))
    }
}

impl<H: HandlerMode> ServerOptions<H> {
    /// Requires a token with every request, as the guard demands. The token determines the request's principal.
    ///
    /// The one exception is the protected resource metadata, which is served at `Protection::metadata_url`; this URL
    /// must lead to this server.
    ///
    /// The driver performs the guard's fetches, such as those of an issuer's keys: with the sockets of its
    /// [runtime](Self::runtime), through the proxies of the environment, and over TLS with the trust roots that clients of this crate use by default.
    /// [`protect_with`](Self::protect_with) replaces this fetcher.
    ///
    /// ```
    /// use mcp_hyper::ServerOptions;
    /// use mcp_hyper::mcp_proto::auth::Secret;
    /// use mcp_hyper::mcp_proto::auth::server::{IntrospectionConfig, Protection};
    /// use mcp_hyper::mcp_proto::front::Router;
    /// use mcp_hyper::mcp_proto::front::guard::{Guard, IntrospectionVerifier};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const ISSUER: &str = "https://login.example";
    /// let password = Secret::new(std::env::var("PASSWORD").unwrap_or_default());
    /// let asking = IntrospectionConfig::new(ISSUER, "https://login.example/introspect", "notes", password);
    /// let protection = Protection::new("https://mcp.example/mcp", ISSUER)?.required(["notes"])?;
    /// let options = ServerOptions::new(Router::new("notes", "1.0.0"))
    ///     .protect(Guard::new(protection, IntrospectionVerifier::introspecting(asking)?));
    /// # drop(options);
    /// # Ok(())
    /// # }
    /// ```
    pub fn protect(mut self, guard: Guard) -> Self {
        self.guard = GuardOptions(Some((guard, None)));
        self
    }

    /// Like [`protect`](Self::protect), with a custom fetcher. It must not connect to an address that the policy does
    /// not [allow](FetchPolicy::allows) or follow redirects; it must end within a few seconds, and read no more bytes
    /// than the fetch's limit.
    pub fn protect_with<F>(
        mut self,
        guard: Guard,
        fetch: impl Fn(Fetch, FetchPolicy) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<FetchResponse, String>> + Send + 'static,
    {
        let fetch: FetchFn = Arc::new(move |request, policy| Box::pin(fetch(request, policy)));
        self.guard = GuardOptions(Some((guard, Some(fetch))));
        self
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
type TokenCheck = Either<Ready<<PendingVerification as Future>::Output>, PendingVerification>;

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

/// Time limit of a token's verification; longer than that of the fetches it can require.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(15);

/// A request whose token is being verified; its body is read only afterwards.
pub(super) struct UnverifiedRequest<H: HandlerMode>(Box<Inner<H>>);

struct Inner<H: HandlerMode> {
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

impl<H: HandlerMode> UnverifiedRequest<H> {
    /// A request with this head, from the address `client`.
    pub(super) fn new(
        check: TokenCheck,
        parts: Parts,
        client: Option<IpAddr>,
        attachments: Attachments,
        service: HttpService<H>,
        upgrade: Option<Upgrade<H>>,
    ) -> Self {
        let until = service.shared().clock.after(VERIFY_TIMEOUT);
        let (parts, alarm) = (Some(parts), Alarm::default());
        Self(Box::new(Inner { check, parts, client, attachments, service, upgrade, alarm, until }))
    }

    /// Polls the verification; ready with the exchange that serves the request.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(HttpExchange<H>, Arc<RuntimeClock>)> {
        let Inner { check, parts, client, attachments, service, upgrade, alarm, until } = &mut *self.0;
        let shared = service.shared();
        let verified = match Pin::new(check).poll(cx) {
            Poll::Ready(verified) => verified,
            Poll::Pending => {
                ready!(alarm.poll_until(*until, shared.clock.timers(), cx));
                Err(HttpResponse::empty(503))
            }
        };
        let Some(parts) = parts.take() else { return Poll::Pending };
        let exchange = match verified {
            Ok(authorized) => {
                let fields = RequestFields::of(&parts);
                let head = head(&parts, &fields, *client);
                let attachments = std::mem::take(attachments);
                match upgrade.take() {
                    Some(upgrade) => {
                        let attachments = with_head(attachments, without_token(parts.clone()), *client);
                        upgrade.exchange_for(shared, &head, authorized, attachments)
                    }
                    None => {
                        let exchange = shared.server.exchange_for(&head, authorized);
                        exchange.with_attachments(with_head(attachments, without_token(parts), *client))
                    }
                }
            }
            Err(answer) => shared.server.answered_exchange(answer),
        };
        Poll::Ready((exchange, shared.clock.clone()))
    }
}

/// A head without its token, which is meant for the server alone.
fn without_token(mut parts: Parts) -> Parts {
    parts.headers.remove(AUTHORIZATION);
    parts.headers.remove("dpop");
    parts
}
