//! The uninhabited type of input rounds without the feature `seal`.

use alloc::string::String;
use core::future::Future;
use core::task::Context as TaskContext;

use super::round_reply::RoundReply;
use crate::front::Error;
use crate::front::handler::inbound_request::InboundRequest;
use crate::schema::{FormError, InputRequest, Method};

/// Input rounds without the feature `seal`: this type has no value.
pub(in crate::front) enum InputRounds {}

impl InputRounds {
    pub(in crate::front) async fn request_input<M: Method>(
        &self,
        _: &InboundRequest,
        _: String,
        _: InputRequest,
        _: impl FnOnce(M::Result) -> Result<M::Result, FormError>,
    ) -> Result<M::Result, Error> {
        match *self {}
    }

    pub(in crate::front) async fn run_once<T, F: Future<Output = T>>(
        &self,
        _: &InboundRequest,
        _: &str,
        _: F,
    ) -> T {
        match *self {}
    }

    pub(in crate::front) fn start_poll(&self) {
        match *self {}
    }

    pub(in crate::front) fn end_poll(&self, _: &mut TaskContext<'_>) -> Option<RoundReply> {
        match *self {}
    }

    pub(in crate::front) fn suspend_if_stalled(&self, _: &InboundRequest) -> Option<RoundReply> {
        match *self {}
    }

    pub(in crate::front) fn finish(&self) -> Option<RoundReply> {
        match *self {}
    }
}
