//! Stands in for `websocket` without that feature: its URLs are invalid.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode};
use mcp_proto::peer::client::ClientConfig;

use super::auth::Authorizer;
use super::transport::Transport;
use crate::time::RuntimeClock;

/// The HTTP URL of an upgrade, which never happens.
pub(crate) fn http_url(_: &str) -> Option<UpgradeUrl> {
    None
}

#[derive(Clone, Copy, Default)]
pub(super) struct WebSocketOptions;

/// Uninhabited, as no URL is that of a WebSocket.
#[derive(Clone, Copy)]
pub(crate) enum UpgradeUrl {}

impl AsRef<str> for UpgradeUrl {
    fn as_ref(&self) -> &str {
        match *self {}
    }
}

/// Uninhabited, as no URL is that of a WebSocket.
pub(super) struct WebSocketLoop<H, R>(Infallible, PhantomData<(fn() -> H, R)>);

pub(super) fn start<H: HandlerMode, R>(
    _: ClientConfig,
    _: WebSocketOptions,
    url: UpgradeUrl,
    _: ClientHandlers<H>,
    _: Transport<R>,
    _: Option<Authorizer>,
    _: Arc<RuntimeClock>,
) -> (Client, Box<WebSocketLoop<H, R>>) {
    match url {}
}

impl<H, R> WebSocketLoop<H, R> {
    pub(super) fn authorizer(&self) -> Option<&Authorizer> {
        match self.0 {}
    }

    pub(super) fn transport(&self) -> &Transport<R> {
        match self.0 {}
    }

    pub(super) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.0 {}
    }
}
