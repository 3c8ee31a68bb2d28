//! Stands in for `streams` without the feature `http2`.

use std::convert::Infallible;
use std::marker::PhantomData;

use mcp_proto::front::{HandlerMode, LocalHandlers, SendHandlers};

/// Whether a server's futures are `Send`, as its router's handlers are: [`SendHandlers`] or [`LocalHandlers`].
/// Applications do not implement it.
pub trait ServerMode: HandlerMode {}

impl ServerMode for SendHandlers {}

impl ServerMode for LocalHandlers {}

/// Uninhabited, as a connection has one request at a time.
pub(super) struct DemandQueue<H>(Infallible, PhantomData<fn() -> H>);

impl<H> DemandQueue<H> {
    pub(super) fn announce(&self) -> BodyDemand {
        match self.0 {}
    }
}

/// Uninhabited, as no body belongs to a stream.
pub(super) enum BodyDemand {}

impl BodyDemand {
    pub(super) fn set_waiting(&self, _: bool) {
        match *self {}
    }
}
