//! The Model Context Protocol as a **sans-IO state machine**: bytes and clock readings go in; bytes to send, events and
//! the next deadline come out. No socket, no process, no thread, no clock and no random source is inside.
//!
//! **In scope**: both roles, all five revisions (2024-11-05 to 2026-07-28) and both eras, the era that a peer speaks and
//! how to find it out, framing, correlation, timeouts, progress, cancellation, limits.
//! **Out of scope**: opening connections, starting processes, reading clocks: that is what an adapter does. `mcp-smol`
//! and `mcp-hyper` are two; another is an afternoon's work.
//!
//! # Layers
//!
//! Each knows only those above it in this picture:
//!
//! ```text
//! codec    framing alone          lines: bounded, resynchronising · event streams · header values, media types
//! rpc      JSON-RPC 2.0           envelopes with raw payloads · ids · the table of pending requests · errors
//! schema   the MCP vocabulary     typed params and results of every method of every revision, one table of methods
//! consent  what to show and refuse  pages to visit, icons, what tools may do
//! peer     what messages mean     client: era detection, lifecycle, input rounds, tasks, watches, what may be kept
//!                                 server: dispatch, both eras, subscriptions, sealed states
//! quota    who holds how much     fair shares of what a server holds: owners, counts, one byte budget
//! auth     who may            OAuth for HTTP: discovery, grants, tokens, proofs; no exchange is made from here
//! transport  how messages travel  newline stream · message channel · Streamable HTTP and HTTP+SSE
//! front    (std) async handles    Client, Server and Router on core::task and a mutex: no executor, no spawn
//! ```
//!
//! A tool call goes down through them once and comes up once: [`rpc`] encodes it straight into the transport's buffer;
//! an answer is delimited in one pass, found in the table by its id, and decoded by the method that was asked, never by
//! guessing.
//!
//! # The loop
//!
//! Every machine is driven alike. Its methods come in four kinds: **commands** (`at(now)` gives them: `request`, `cancel`,
//! `respond`, …), **inputs** (`handle_*`), **outputs** (`poll_*`) and **getters**, most of them by `peer()`.
//!
//! ```text
//! loop {
//!     drain poll_link      → open or close the link            (clients)
//!     drain poll_transmit  → write
//!     drain poll_event     → act
//!     again, until none of them has anything
//!     wait for: readable → handle_input | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! Acting on an event makes output: a request, an answer, the end of the link. A loop that waits after one pass sends it
//! only when something else happens. `examples/blocking.rs` is this loop as a program.
//!
//! Over HTTP a client has `poll_action` in the place of the first two, and heads, bodies and ends as inputs; a server
//! is an exchange at a time: `transport::http` has both loops.
//!
//! # What holds, whatever the other side does
//!
//!  1. Every request accepted ends with exactly one outcome, while the machine is driven or once it is dropped.
//!  2. Any method may be called in any order at any time. Draining late costs latency and bounded memory, never
//!     correctness.
//!  3. The outputs do not depend on each other's order.
//!  4. However the input is cut into chunks, the same events and the same bytes come out.
//!  5. After `handle_timeout(t)`, `poll_timeout` is later than `t` or `None`. A spurious call does nothing.
//!  6. What is to be sent and what is to be told are queued apart: a slow application stalls no ping and no reply.
//!  7. An idle poll costs O(1), an operation O(log n) of what is in flight, an input of n bytes O(n log n).
//!  8. Everything that a peer can grow has a limit with a default, in bytes too: [`Limits`]. A server over HTTP shares what
//!     it holds fairly between its clients.
//!  9. A peer's fault is an event or an outcome: never a panic, never an error of an input method, never silence.
//! 10. Misuse on this side returns a small typed error and changes nothing.
//! 11. Errors made here are never mistaken for errors received from the peer.
//! 12. Partial input lives in the machine, so dropping a future loses none.
//! 13. The same inputs and clock readings give the same outputs.
//!
//! **A panic is a bug of this crate; no input can cause one.**
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `std` | yes | the async front |
//! | `client`, `server` | yes | the roles |
//! | `http` | no | the HTTP transports |
//! | `seal` | no | servers that ask clients of 2026-07-28 within their handlers, by sealed states |
//! | `auth` | no | OAuth over HTTP |
//! | `auth-jwt` | no | servers that verify signed access tokens and proofs of possession |
//! | `schemars` | no | input schemas of typed tool handlers, from the argument's type |
//! | `schema-validate` | no | `validate`: arguments and results of tools checked against their JSON Schemas |
//! | `testing` | no | `testing`: two peers on a simulated clock and network |
//! | `fuzzing` | no | the bodies of the fuzz targets |
//!
//! Without `std` the crate needs `alloc` alone.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unreachable
    )
)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg_attr(
    not(all(feature = "std", feature = "server", feature = "http")),
    allow(dead_code, reason = "not every feature uses all of it")
)]
mod inline_map;
mod limits;
mod time;
#[cfg_attr(
    not(all(feature = "auth", feature = "client")),
    allow(dead_code, reason = "not every feature uses all of it")
)]
mod url;

#[cfg(feature = "auth")]
pub mod auth;
#[cfg(feature = "client")]
#[cfg_attr(not(feature = "http"), allow(unreachable_pub, reason = "part of the HTTP client's configuration"))]
mod backoff;
pub mod codec;
pub mod consent;
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
pub mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, unused_imports, reason = "one role alone does not use all that both share")
)]
pub mod peer;
#[cfg(feature = "server")]
pub mod quota;
pub mod rpc;
pub mod schema;
#[cfg(all(feature = "testing", feature = "client", feature = "server"))]
pub mod testing;
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, reason = "shared by the roles")
)]
pub mod transport;
#[cfg(feature = "schema-validate")]
pub mod validate;

pub use bytes::Bytes;
pub use limits::Limits;
pub use time::{HumanDuration, Instant, UnixTime};
