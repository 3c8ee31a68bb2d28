//! Stands in for `websocket` without the feature `websocket`: no connection is upgraded.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use mcp_proto::front::HandlerMode;
use mcp_proto::front::http::HttpChannel;
use mcp_proto::transport::http::server::{HttpResponse, ResponseHeaders};

use super::connection::ConnectionError;
use super::monitor::ConnectionMonitor;
use crate::time::RuntimeClock;

pub(super) fn handshake(_: &Parts) -> Result<ResponseHeaders, HttpResponse> {
    Err(HttpResponse::empty(426))
}

/// Uninhabited, as no connection is upgraded.
pub(super) struct WebSocket<Io, H>(Infallible, PhantomData<fn(Io) -> H>);

impl<Io, H: HandlerMode> WebSocket<Io, H> {
    pub(super) fn start(
        _: Io,
        _: &[u8],
        _: HttpChannel<H>,
        _: bool,
        _: Arc<RuntimeClock>,
        _: Arc<ConnectionMonitor>,
    ) -> Option<Self> {
        None
    }

    pub(super) fn retire(&mut self) {
        match self.0 {}
    }

    pub(super) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        match self.0 {}
    }
}
