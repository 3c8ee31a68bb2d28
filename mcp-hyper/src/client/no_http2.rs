//! Stands in for `http2` without that feature.

use std::convert::Infallible;
use std::error::Error;
use std::io;

use http::{Request, Response};
use hyper::body::Incoming;
use mcp_proto::front::HandlerMode;

use super::body::BufferedBody;
use super::connector::{BackgroundTasks, Io};
use super::dial_error::definite_error;
use super::options::ClientOptions;
use super::send_error::{Loss, SendError};
use super::target::Target;
use crate::runtime::Runtime;

/// Has no implementation.
#[diagnostic::on_unimplemented(
    message = "`ClientOptions::http2_prior_knowledge` needs the feature `http2`",
    note = "in `Cargo.toml`, add `\"http2\"` to the features of `mcp-hyper`; it is on by default"
)]
pub trait SpeaksHttp2 {}

/// The compiler's message names the feature.
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    #[doc(hidden)]
    pub fn http2_prior_knowledge(self) -> Self
    where
        Self: SpeaksHttp2,
    {
        self
    }
}

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
