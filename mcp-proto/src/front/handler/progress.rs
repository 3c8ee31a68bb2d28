//! Progress of a request.

use alloc::string::String;

use crate::rpc::Id;
use crate::schema::{Number, ProgressParams};

/// The progress of a request: see [`Context::progress`](super::context::Context::progress).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    done: Number,
    total: Option<Number>,
    message: Option<String>,
}

impl Progress {
    /// Creates a report that `done` is complete, in any unit.
    pub fn new(done: impl Into<Number>) -> Self {
        Self { done: done.into(), total: None, message: None }
    }

    /// Sets the value of `done` at which the work is complete.
    #[must_use]
    pub fn total(mut self, total: impl Into<Number>) -> Self {
        self.total = Some(total.into());
        self
    }

    /// Sets a message for the user about the current step (2025-03-26 and later).
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl Progress {
    /// Converts the report into the parameters of a notification, for the client that chose `token`.
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
