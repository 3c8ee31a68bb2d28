//! The server role over HTTP: one exchange per request in the modern era, sessions in the legacy era.
//!
//! The HTTP adapter drives each request like this:
//!
//! ```text
//! RequestIntake::new(setup, head) checks the head                → Err(HttpResponse): send it
//! intake.handle_body(bytes) …     collects the body, bounded     → Err(HttpResponse): send it
//! intake.finish()                 → RequestRoute:
//!     Answer                      send it
//!     Modern                      Exchange::open; then send its head and body, until it ends
//!     Stateless                   Exchange::open_stateless; the same
//!     OpenSession                 Session::open, stored by its id; send the answer
//!     Session                     find the session; Session::handle_post
//!     Listen, Delete              find the session; Session::listen, Session::delete
//!     LegacyEvents, LegacyPost    the same for clients of 2024-11-05
//! ```
//!
//! The adapter drives an open exchange in a loop:
//!
//! ```text
//! loop {
//!     drain poll_event            → act
//!     drain poll_head, poll_body  → write
//!     again, until none of them has anything
//!     wait for: the client leaves → handle_disconnect | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! An [`Exchange`] shares only the [`Setup`] with other exchanges. A [`Session`] has several streams, each the body of
//! one answer. This module takes no locks, never waits, reads no clock and generates no random numbers.
//!
//! How requests are answered:
//!
//! | request | answer |
//! |---|---|
//! | a version in `_meta`, or a modern one in the header | an exchange: 400 with -32020 if headers and body differ, -32022 if the version is not supported, -32602 if `_meta` lacks a required member; 404 with -32601 for unknown methods |
//! | `initialize` without a version in `_meta` | a new session |
//! | any other request with a session id | in that session, or 404 |
//! | any other request | 400 |
//! | either, on a [stateless](HttpServerConfig::stateless) server | an exchange |
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

mod config;
mod exchange;
mod forwarded;
mod origin;
mod request_head;
mod request_intake;
mod response;
mod route;
mod session;

pub use config::{HttpServerConfig, LegacyPaths, Setup};
pub use exchange::Exchange;
pub use forwarded::{ProxyAddressError, TrustedProxies, TrustedProxy};
pub use origin::{Hosts, Origins};
pub use request_head::{RequestHead, SessionId};
pub use request_intake::RequestIntake;
#[cfg(feature = "std")]
pub(crate) use request_intake::check_upgrade;
#[cfg(feature = "std")]
pub(crate) use response::AnswerBody;
pub use response::{BodyKind, Chunk, HttpResponse, ResponseHead, ResponseHeaders};
pub use route::{ModernRequest, Post, PostedNotification, RequestRoute, StatelessPost};
#[cfg(feature = "std")]
pub(crate) use session::IdleSession;
pub use session::{ConnectionId, PostOutcome, Session, Sessions};
#[cfg(feature = "auth")]
pub(crate) use {response::RETRY_AFTER_SECS, response::WWW_AUTHENTICATE};
