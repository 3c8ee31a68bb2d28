//! Stands in for `trace` without the feature `tracing`: there are no spans.

use super::reply::Reply;
use crate::peer::{Outcome, RequestId, RequestOptions};
use crate::rpc::{Id, Raw};
use crate::schema::{Method, Revision};

pub(in crate::front) struct RequestSpan;

impl RequestSpan {
    pub(super) fn none() -> Self {
        Self
    }

    pub(super) fn of_call<M: Method>(
        _: Option<&str>,
        _: &M::Params,
        _: impl FnOnce() -> Option<Revision>,
        _: &mut RequestOptions,
    ) -> Self {
        Self
    }

    pub(super) fn of_request(
        _: &str,
        _: Option<&Raw>,
        _: Option<Revision>,
        _: impl Fn() -> Option<Id>,
        _: impl Fn(Option<&str>) -> bool,
    ) -> Self {
        Self
    }

    pub(super) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }

    pub(super) fn record_sent<E>(&mut self, _: &Result<RequestId, E>) {}

    pub(super) fn resolve(&mut self, _: &SpanEnd, _: impl FnOnce() -> Option<Revision>) {}

    pub(super) fn resolve_reply(&mut self, _: &Reply) {}
}

pub(in crate::front) struct HandlerSpan;

impl HandlerSpan {
    pub(super) fn current() -> Self {
        Self
    }

    pub(super) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }
}

pub(in crate::front) struct SpanEnd;

impl SpanEnd {
    pub(super) fn of_outcome(_: &Outcome) -> Self {
        Self
    }

    pub(super) fn decoded<R, E>(self, _: &Result<R, E>) -> Self {
        self
    }
}
