//! Stands in for `auth` without that feature: clients do not log in.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::Instant;
use mcp_proto::adapter::CacheContextEnder;
use mcp_proto::front::HandlerMode;
use mcp_proto::schema::Extension;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::{AuthorizationRequired, HttpRequest};

use super::options::ConnectError;
use super::{ClientLoop, NO_AUTHORIZATION};
use crate::runtime::Runtime;
use crate::time::RuntimeClock;

/// The id of a fetch that never happens.
pub(super) type FetchId = u64;

/// The response to a fetch that never happens.
pub(super) struct FetchResponse;

#[derive(Default)]
pub(super) struct AuthOptions;

impl AuthOptions {
    pub(super) fn extension(&self) -> Option<Extension> {
        None
    }

    pub(super) fn start(self, _: &str, _: &Arc<RuntimeClock>) -> Result<Option<Authorizer>, ConnectError> {
        Ok(None)
    }
}

/// Uninhabited, as this build has no authorization.
pub(super) enum Authorizer {}

impl Authorizer {
    pub(super) fn listen(&mut self, _: &impl Runtime) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn link_cache(&self, _: CacheContextEnder) {
        match *self {}
    }

    pub(super) fn forget_exchange(&mut self, _: ExchangeId) {
        match *self {}
    }

    pub(super) fn is_finishing(&self) -> bool {
        match *self {}
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match *self {}
    }
}

impl<H: HandlerMode, R: Runtime> ClientLoop<H, R> {
    pub(super) fn open(&mut self, now: Instant, request: HttpRequest) {
        self.transport.open(now, request);
    }

    pub(super) fn handle_challenge(&mut self, challenge: &AuthorizationRequired) {
        self.has_input = true;
        self.front.lock(|machine, now| machine.refuse(now, challenge.exchange, NO_AUTHORIZATION));
    }

    pub(super) fn observe_events(&mut self) {}

    pub(super) fn forget_ended(&mut self) {}

    pub(super) fn poll_authorizer(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
