//! Watching what goes over the wire.

use http::{HeaderMap, Method, StatusCode};
use mcp_proto::bind::http::{End, ExchangeId};

/// What went over the wire, as far as the exchange is concerned: how it was cut into frames or chunks, and how it was
/// encrypted, is not shown.
///
/// Values of headers that are secret, such as `authorization`, are marked as
/// [sensitive](http::HeaderValue::is_sensitive): their `Debug` form hides them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// A request that is sent as soon as there is a connection for it.
    Request {
        /// The exchange that it begins.
        exchange: ExchangeId,
        /// What is to be done.
        method: &'a Method,
        /// With what.
        url: &'a str,
        /// All headers but those of the connection.
        headers: &'a HeaderMap,
        /// The whole body.
        body: &'a [u8],
    },
    /// The beginning of an answer.
    Head {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
    },
    /// A piece of an answer's body, wherever it was cut.
    Body {
        /// The exchange that it belongs to.
        exchange: ExchangeId,
        /// The piece; never empty.
        bytes: &'a [u8],
    },
    /// The end of an exchange, unless this side has aborted it.
    End {
        /// Which.
        exchange: ExchangeId,
        /// How.
        end: &'a End,
    },
}

/// Who watches the wire, if anybody does.
#[derive(Default)]
pub(super) struct Tap(pub(super) Option<Box<Watch>>);

pub(super) type Watch = dyn FnMut(WireEvent<'_>) + Send;

impl Tap {
    pub(super) fn show(&mut self, event: WireEvent<'_>) {
        if let Some(watch) = &mut self.0 {
            watch(event);
        }
    }
}
