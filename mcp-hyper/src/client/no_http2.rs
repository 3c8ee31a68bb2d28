//! Stands in for `http2` without that feature.

use std::convert::Infallible;
use std::error::Error;
use std::io;

use http::{Request, Response};
use hyper::body::Incoming;

use super::body::BufferedBody;
use super::connector::{BackgroundTasks, Io};
use super::dial_error::definite_error;
use super::send_error::{Loss, SendError};
use super::target::Target;

/// Uninhabited, as this build has no HTTP/2.
#[derive(Clone)]
pub(super) struct Http2(Infallible);

impl Http2 {
    pub(super) async fn handshake(_: Io, _: &BackgroundTasks) -> io::Result<Self> {
        Err(definite_error("built without HTTP/2: enable the feature `http2`"))
    }

    pub(super) async fn send(
        &mut self,
        _: Request<BufferedBody>,
        _: &Target,
    ) -> Result<Response<Incoming>, SendError<Request<BufferedBody>>> {
        match self.0 {}
    }

    pub(super) fn is_used(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn note_served(&mut self) {
        match self.0 {}
    }

    pub(super) fn is_closed(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn limit(&self) -> usize {
        match self.0 {}
    }
}

pub(super) fn loss(_: &(dyn Error + 'static)) -> Option<Loss> {
    None
}
