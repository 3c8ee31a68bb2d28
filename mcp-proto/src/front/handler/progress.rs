//! How far the work on a request has come.

use alloc::string::String;

use crate::rpc::Id;
use crate::schema::{Number, ProgressParams};

/// How far the work on a request has come: see [`Context::progress`](super::context::Context::progress).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: Number,
    total: Option<Number>,
    message: Option<String>,
}

impl Progress {
    /// So much is done, in whatever unit.
    pub fn new(done: impl Into<Number>) -> Self {
        Self { done: done.into(), total: None, message: None }
    }

    /// How much it will be at the end.
    #[must_use]
    pub fn total(mut self, total: impl Into<Number>) -> Self {
        self.total = Some(total.into());
        self
    }

    /// What is being done, for people (2025-03-26 and later).
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl Progress {
    /// The notification, for the client that chose `token`.
    pub(super) fn into_params(self, token: Id) -> ProgressParams {
        let Self { done, total, message } = self;
        let mut params = ProgressParams::new(token, done);
        params.total = total;
        params.message = message;
        params
    }
}

impl<N: Into<Number>> From<N> for Progress {
    fn from(done: N) -> Self {
        Self::new(done)
    }
}
