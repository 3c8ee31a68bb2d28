//! Stands in for `input_rounds` without the feature `seal`: handlers cannot request input from clients of 2026-07-28.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use super::connection::InboundRequest;
use crate::front::Error;
use crate::front::handler_error::HandlerError;
use crate::prelude::*;
use crate::rpc::{Raw, Text};
use crate::schema::{Era, FormError, InputRequest, InputRequiredResult, Method};

pub(in crate::front) struct Sealing;

impl Sealing {
    pub(in crate::front) fn new(_: String) -> Self {
        Self
    }
}

/// Uninhabited, as no request has input rounds.
pub(in crate::front) enum InputRounds {}

impl InputRounds {
    pub(in crate::front) fn of(_: &Text, _: Option<&Raw>, _: Era, _: &Arc<Sealing>) -> Option<Self> {
        None
    }

    pub(in crate::front) fn release_message(&self) {
        match *self {}
    }

    pub(in crate::front) fn attempt(&self, _: &InboundRequest) -> Option<u32> {
        match *self {}
    }

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

    pub(in crate::front) fn poll<F: Future>(
        &self,
        _: Pin<&mut F>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Result<F::Output, HandlerError>> {
        match *self {}
    }

    pub(in crate::front) fn poll_in_task<T, E>(
        &self,
        _: &InboundRequest,
        _: impl FnOnce() -> Result<Poll<T>, E>,
    ) -> Result<Poll<T>, E> {
        match *self {}
    }

    pub(in crate::front) fn suspend_if_stalled(
        &self,
        _: &InboundRequest,
    ) -> Option<Result<InputRequiredResult, HandlerError>> {
        match *self {}
    }
}
