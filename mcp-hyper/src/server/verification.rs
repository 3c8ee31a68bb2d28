//! A request whose token is being verified.

#[cfg(feature = "auth")]
pub(super) use with_tokens::UnverifiedRequest;
#[cfg(not(feature = "auth"))]
pub(super) use without::UnverifiedRequest;

#[cfg(feature = "auth")]
mod with_tokens {
    use std::future::Future as _;
    use std::net::IpAddr;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, ready};
    use std::time::{Duration, Instant};

    use http::request::Parts;
    use mcp_proto::front::HandlerMode;
    use mcp_proto::front::guard::PendingVerification;
    use mcp_proto::front::http::HttpExchange;
    use mcp_proto::transport::http::server::HttpResponse;

    use crate::server::service::{HttpService, RequestFields, head};
    use crate::time::{Alarm, RuntimeClock};

    /// Time limit of a token's verification; longer than that of the fetches it can require.
    const VERIFY_TIMEOUT: Duration = Duration::from_secs(15);

    /// A request whose token is being verified; its body is read only afterwards.
    pub(in super::super) struct UnverifiedRequest<H: HandlerMode>(Box<Inner<H>>);

    struct Inner<H: HandlerMode> {
        verifying: PendingVerification,
        parts: Parts,
        client: Option<IpAddr>,
        service: HttpService<H>,
        alarm: Alarm,
        until: Option<Instant>,
    }

    impl<H: HandlerMode> UnverifiedRequest<H> {
        /// A request with this head, from the address `client`.
        pub(in super::super) fn new(
            verifying: PendingVerification,
            parts: Parts,
            client: Option<IpAddr>,
            service: HttpService<H>,
        ) -> Self {
            let until = service.shared().clock.after(VERIFY_TIMEOUT);
            Self(Box::new(Inner { verifying, parts, client, service, alarm: Alarm::default(), until }))
        }

        /// Polls the verification; ready with the exchange that serves the request.
        pub(in super::super) fn poll(
            &mut self,
            cx: &mut Context<'_>,
        ) -> Poll<(HttpExchange<H>, Arc<RuntimeClock>)> {
            let Inner { verifying, parts, client, service, alarm, until } = &mut *self.0;
            let shared = service.shared();
            let verified = match Pin::new(verifying).poll(cx) {
                Poll::Ready(verified) => verified,
                Poll::Pending => {
                    ready!(alarm.poll_until(*until, shared.clock.timers(), cx));
                    Err(HttpResponse::empty(503))
                }
            };
            let exchange = match verified {
                Ok(authorized) => {
                    let fields = RequestFields::of(parts);
                    shared.server.exchange_for(&head(parts, &fields, *client), authorized)
                }
                Err(answer) => shared.server.answered_exchange(answer),
            };
            Poll::Ready((exchange, shared.clock.clone()))
        }
    }
}

#[cfg(not(feature = "auth"))]
mod without {
    use std::convert::Infallible;
    use std::marker::PhantomData;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use mcp_proto::front::HandlerMode;
    use mcp_proto::front::http::HttpExchange;

    use crate::time::RuntimeClock;

    /// Uninhabited, as this build has no token verification.
    pub(in super::super) struct UnverifiedRequest<H: HandlerMode>(Infallible, PhantomData<H>);

    impl<H: HandlerMode> UnverifiedRequest<H> {
        pub(in super::super) fn poll(
            &mut self,
            _: &mut Context<'_>,
        ) -> Poll<(HttpExchange<H>, Arc<RuntimeClock>)> {
            match self.0 {}
        }
    }
}
