//! Stands in for `guard` without the feature `auth`: servers require no tokens.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use mcp_proto::front::http::HttpExchange;
use mcp_proto::front::{Attachments, HandlerMode};
use mcp_proto::transport::http::server::RequestHead;

use super::service::HttpService;
use super::websocket::Upgrade;
use crate::runtime::AnyRuntime;
use crate::time::RuntimeClock;

#[derive(Default)]
pub(super) struct GuardOptions;

impl GuardOptions {
    pub(super) fn start(self, _: &AnyRuntime) -> (TokenGuard, Option<Fetcher>) {
        (TokenGuard, None)
    }
}

pub(super) struct TokenGuard;

impl TokenGuard {
    pub(super) fn check(&self, _: &RequestHead<'_>, _: &RuntimeClock) -> Option<Infallible> {
        None
    }
}

/// Uninhabited, as no token requires a fetch.
pub(super) enum Fetcher {}

impl Fetcher {
    pub(super) fn poll(&mut self, _: &RuntimeClock, _: &mut Context<'_>) {
        match *self {}
    }
}

/// Uninhabited, as no request has a token.
pub(super) struct UnverifiedRequest<H: HandlerMode>(Infallible, PhantomData<H>);

impl<H: HandlerMode> UnverifiedRequest<H> {
    pub(super) fn new(
        check: Infallible,
        _: Parts,
        _: Option<IpAddr>,
        _: Attachments,
        _: HttpService<H>,
        _: Option<Upgrade<H>>,
    ) -> Self {
        match check {}
    }

    pub(super) fn poll(&mut self, _: &mut Context<'_>) -> Poll<(HttpExchange<H>, Arc<RuntimeClock>)> {
        match self.0 {}
    }
}
