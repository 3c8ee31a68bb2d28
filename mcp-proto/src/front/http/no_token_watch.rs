//! Stands in for `token_watch` without the feature `auth`: there are no tokens.

use core::task::{Context, Poll};

use super::service::Service;
use crate::Instant;
use crate::front::handler::inbound_request::CallerAccess;

#[derive(Default)]
pub(super) struct TokenWatch;

impl TokenWatch {
    pub(super) fn new(_: &Service, _: &CallerAccess) -> Self {
        Self
    }

    pub(super) fn poll(&mut self, _: &Service, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
