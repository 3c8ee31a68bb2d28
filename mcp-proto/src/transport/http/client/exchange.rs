//! One exchange: what it is for, and what has come of it so far.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use crate::schema::Revision;

use super::address::Address;
use super::answer::{Ended, Events, Whole};
use super::outbox::Post;

/// What an exchange is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// The era probe.
    Probe { wire: i64, body: Bytes, revision: Revision },
    /// The legacy handshake.
    Initialize { wire: i64, body: Bytes },
    /// A request.
    Call(i64),
    /// The rest of the stream that answers a request.
    Resume { number: i64, last_event: Arc<str> },
    /// A notification or a reply.
    Post(Post),
    /// What the server says of its own accord.
    Listen { last_event: Option<Arc<str>> },
    /// The one stream of HTTP+SSE.
    Events,
    /// The end of a session.
    Delete,
}

/// What has come of an exchange.
#[derive(Debug)]
pub(super) enum Reading {
    /// Nothing.
    Nothing,
    /// A body that is read when it is whole.
    Whole(Box<Whole>),
    /// A stream of events.
    Events(Box<Events>),
    /// A refusal that is not the end of it.
    Held(Box<Ended>),
}

pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    pub(super) url: Address,
    pub(super) redirects: u8,
    /// How often what it is for was held, and went out again.
    pub(super) resumed: u32,
    /// Which session it belongs to.
    pub(super) generation: u32,
    /// The session that the head named.
    pub(super) session: Option<String>,
    /// The nonce of RFC 9449 that the head brought.
    pub(super) dpop_nonce: Option<String>,
    pub(super) reading: Reading,
    /// What is left of what may follow the answer, in bytes, once it has come.
    pub(super) rest: Option<usize>,
}

impl Exchange {
    /// Whether it carries one request, whose result is the only one that its response may hold.
    pub(super) fn answers_one(&self) -> bool {
        matches!(self.purpose, Purpose::Probe { .. } | Purpose::Initialize { .. } | Purpose::Call(_))
    }
}

impl fmt::Debug for Exchange {
    /// Omits the session and the bytes read so far.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("purpose", &self.purpose)
            .field("url", &self.url)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}
