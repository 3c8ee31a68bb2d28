//! Stands in for `upgrade` and `websocket` without the feature `websocket`: no connection is upgraded.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use mcp_proto::front::HandlerMode;
use mcp_proto::front::http::{HttpChannel, HttpExchange};
use mcp_proto::transport::http::server::{HttpResponse, RequestHead, ResponseHeaders};

use super::error::{ConnectionError, OnError};
use super::monitor::ConnectionMonitor;
use super::service::ServiceState;
use crate::time::RuntimeClock;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WebSocketOptions;

/// Always empty, as no connection is upgraded.
#[derive(Clone)]
pub(super) struct UpgradeSlot<H>(PhantomData<fn() -> H>);

impl<H> Default for UpgradeSlot<H> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<H: HandlerMode> UpgradeSlot<H> {
    pub(super) fn take(&self) -> Option<Infallible> {
        None
    }
}

/// Always empty, as no connection is upgraded.
pub(super) struct UpgradeQueue<H>(PhantomData<fn() -> H>);

impl<H> Default for UpgradeQueue<H> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<H> UpgradeQueue<H> {
    pub(super) fn close(&self) {}
}

/// Always empty, as no connection is upgraded.
pub(super) struct EmbeddedWebSockets<H>(PhantomData<fn() -> H>);

impl<H> EmbeddedWebSockets<H> {
    pub(super) fn new(_: OnError) -> Self {
        Self(PhantomData)
    }

    pub(super) fn poll(&mut self, _: &UpgradeQueue<H>, _: &mut Context<'_>) {}

    pub(super) fn clear(&mut self) {}
}

/// Uninhabited, as no request is an upgrade.
pub(super) struct Upgrade<H>(Infallible, PhantomData<fn() -> H>);

impl<H: HandlerMode> Upgrade<H> {
    pub(super) fn on_connection(_: &UpgradeSlot<H>, _: WebSocketOptions, _: &Parts) -> Option<Self> {
        None
    }

    pub(super) fn on_embedded(_: WebSocketOptions, _: &mut Parts) -> Option<Self> {
        None
    }

    pub(super) fn exchange(
        self,
        _: &ServiceState<H>,
        _: &RequestHead<'_>,
        _: impl FnOnce(Result<ResponseHeaders, HttpResponse>) -> (HttpExchange<H>, Option<HttpChannel<H>>),
    ) -> HttpExchange<H> {
        match self.0 {}
    }
}

/// Uninhabited, as no connection is upgraded.
pub(super) struct WebSocket<Io, H>(Infallible, PhantomData<fn(Io) -> H>);

impl<Io, H> WebSocket<Io, H> {
    pub(super) fn start(
        _: Io,
        _: &[u8],
        front: Infallible,
        _: WebSocketOptions,
        _: Arc<RuntimeClock>,
        _: Arc<ConnectionMonitor>,
    ) -> Option<Self> {
        match front {}
    }

    pub(super) fn retire(&mut self) {
        match self.0 {}
    }

    pub(super) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        match self.0 {}
    }
}
