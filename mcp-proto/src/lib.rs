//! The [Model Context Protocol](https://modelcontextprotocol.io) (MCP) as a **sans-IO state machine**: bytes and
//! clock readings go in; bytes to send, events and the next deadline come out. It opens no socket, starts no
//! process or thread, and reads no clock or random source.
//!
//! To write a server or a client, depend on an adapter, which exports the types of this crate that programs need:
//! `mcp-smol` for child processes, standard input and output and sockets, `mcp-hyper` for HTTP. The
//! [guides](https://docs.rs/mcp-hyper/latest/mcp_hyper/guide/) begin there; in a clone of the repository,
//! `cargo doc --workspace --all-features --no-deps` writes them to `target/doc/mcp_hyper/guide/index.html`.
//!
//! **In scope**: both roles, all five revisions (2024-11-05 to 2026-07-28), both eras and their detection, framing,
//! request correlation, timeouts, progress, cancellation, limits, authorization.
//! **Out of scope**: opening connections, starting processes, reading clocks. Adapters do that; the page `guide` of
//! `adapter` says how to write one.
//!
//! # Layers
//!
//! A layer uses only the layers above it in this picture:
//!
//! ```text
//! codec      framing               lines (bounded, resynchronising) · server-sent events · header values, media types
//! rpc        JSON-RPC 2.0          envelopes with raw payloads · ids · pending requests · errors
//! redact     secrets in traffic    hidden in frames, texts and headers that are logged or shown
//! schema     the MCP vocabulary    typed params and results of every method of every revision
//! trace_file recorded traffic      what went over the wire, in a file; the requirements it shows to be broken; recordings
//! validate   JSON Schema           arguments and results of tools, form values (feature schema-validate)
//! consent    user consent          pages to open, icons, tool behaviour, shown by a host before it acts
//! skills     checked skills        entries and files of a server's skills, verified by its client (feature skills)
//! quota      fair shares           owners, counts and the byte budget of a server
//! peer       MCP semantics         client: era detection, lifecycle, input rounds, tasks, watches, cache
//!                                  server: dispatch, both eras, subscriptions, sealed request state
//! transport  how messages travel   newline stream · message channel · Streamable HTTP and HTTP+SSE
//! auth       OAuth 2.1             authorization of HTTP requests: client and resource server
//! front      async handles         Client, Server and Router on core::task (feature std): no executor, no spawn
//! host       many servers          configuration, approval of project servers, starts and reconnections, tools for
//!                                  models (feature host)
//! ```
//!
//! A tool call enters each layer once on its way down and once on its way up. [`rpc`] encodes the request into the
//! transport's buffer. The answer is delimited in one pass, matched by its id, and decoded by the requested method's
//! result type.
//!
//! # The life of a request
//!
//! ```text
//! on the client's side
//!   Client::call_tool, options, await       front/client/calls · front/request
//!   the command, on any transport           peer/client/commands
//!   checks, encoding                        peer/client/outgoing_messages
//!   the record: stage, times, owner         peer/client/request_record · peer/requests
//!   a line, or an exchange                  transport/framing · transport/http/client
//!     the adapter writes and reads
//!   a line, or a response                   codec · transport/http/client/read
//!   the members of the message              rpc/envelope
//!   progress, or the answer                 peer/client/received_progress · receive
//!   the record ends: its owner takes it     peer/client (resolve)
//!     or is sent again with input           peer/client/input_rounds
//!     or follows a task                     peer/client/tasks
//!     or its time is up, or it is cancelled peer/client/timeouts · outgoing_messages
//!   the future is ready                     front/request_slots · front/request
//!
//! on the server's side
//!     the adapter reads
//!   a line, or a request                    codec/lines · transport/http/server/request_intake
//!   the members of the message              rpc/envelope
//!   checks: era, `_meta`, capabilities      peer/server/admit
//!   the record: held, running, listening    peer/server/backlog · dispatch · subscriptions
//!   the handler and its context             front/router/dispatch · front/handler
//!   progress, requests to the client        peer/server/notify · outgoing_requests
//!   the answer                              peer/server/answer
//!   a line, or a response                   transport/framing · transport/http/server/response
//!     the adapter writes
//! ```
//!
//! # What the adapters carry
//!
//! ```text
//! your program    Client and its handlers  ·  Router and its handlers
//!                      │ calls, requests, answers, events
//! mcp-proto       StreamClient            HttpClient              ChannelClient
//! no I/O          StreamServer            HttpServer              ChannelServer
//!                      │ bytes                 │ heads, bodies, ends   │ whole messages
//! adapter         mcp-smol                mcp-hyper               mcp-hyper
//! all I/O              │                       │                       │
//!                 child processes,        HTTP/1.1, HTTP/2,       WebSocket
//!                 standard streams,       TLS
//!                 sockets
//! ```
//!
//! Beside these an adapter carries the orders to open and to end links or exchanges, how they ended, and the time: each
//! machine says by when it must be called again. The page of [`peer::client`] shows the states of a client and the stages
//! of its requests.
//!
//! # The loop
//!
//! Every machine is driven in the same way. Its methods come in four kinds: **commands** (`request`, `cancel`,
//! `respond`, …), **inputs** (`handle_*`), **outputs** (`poll_*`) and **getters**.
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
//! A command that is given while acting on an event makes new output. A loop that waits after a single pass leaves that
//! output unsent until something else happens. `examples/blocking.rs` is this loop as a program.
//!
//! An HTTP client has `poll_action` in place of `poll_link` and `poll_transmit`, and takes heads, bodies and ends of
//! responses as inputs. An HTTP server has one machine for each exchange. `transport::http` documents both loops.
//!
//! # Contracts
//!
//!  1. Every accepted request has exactly one outcome, while the machine is driven or once it is dropped.
//!  2. Any method may be called in any order at any time. Draining late costs latency and bounded memory, never
//!     correctness.
//!  3. The outputs do not depend on the order in which they are polled.
//!  4. However the input is split into chunks, the events and the output bytes are the same.
//!  5. After `handle_timeout(t)`, `poll_timeout` is later than `t` or `None`. A spurious call does nothing.
//!  6. Outgoing messages and events have separate queues: a slow application delays no ping and no reply.
//!  7. An idle poll costs O(1), an operation O(log n) of the requests in flight, an input of n bytes O(n log n).
//!  8. Everything that a peer can grow has a limit with a default, in bytes too: [`Limits`]. An HTTP server shares its
//!     limits fairly between its clients.
//!  9. A peer's fault is an event or an outcome: never a panic, never an error of an input method, never silence.
//! 10. Local misuse returns a small typed error and changes nothing.
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
//! | `seal` | no | servers whose handlers request input from 2026-07-28 clients, with sealed request states; with `auth`, logins that another process finishes; the adapters enable it by default |
//! | `auth` | no | OAuth over HTTP |
//! | `host` | no | `host`: many servers: their configuration and approval, when each is tried again, their tools for a model |
//! | `skills` | no | folders of instructions for models: their entries, frontmatter and digests; `host` implies it |
//! | `auth-jwt` | no | servers that verify signed access tokens and proofs of possession |
//! | `schemars` | no | `Router::tool`: schemas of tools from the types of their arguments and results; the adapters enable it by default |
//! | `schema-validate` | no | `validate`: arguments and results of tools checked against their JSON Schemas |
//! | `tracing` | no | `front::trace`: a span for each request, for the subscribers of the crate `tracing` |
//! | `trace-file` | no | `trace_file`: files of what went over the wire, and what they say about each request; recorders of machines, and `transport::replay_machines`, which runs these again |
//! | `js` | no | `adapter::SystemClock` on the target `wasm32-unknown-unknown`, by the clocks of JavaScript; nothing elsewhere |
//! | `testing` | no | `testing`: a router and a client, or two machines, on a simulated clock and network |
//! | `fuzzing` | no | the bodies of the fuzz targets |
//!
//! Without `std` the crate needs only `alloc`.
#![no_std]
#![forbid(unsafe_code)]
// Beside the pages of the crates that link here. Without this, rustdoc links to the crates that it documented before,
// and `cargo doc --no-deps` documents a workspace in any order. docs.rs replaces it.
#![doc(html_root_url = "../")]
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

#[macro_use]
mod formatting;

#[cfg_attr(
    not(all(feature = "std", feature = "server", feature = "http")),
    allow(dead_code, reason = "not every feature uses all of it")
)]
mod inline_map;
#[cfg_attr(
    not(all(feature = "std", feature = "server", feature = "http")),
    allow(dead_code, reason = "not every feature uses all of it")
)]
mod lazy_box;
mod limits;
mod meta_keys;
#[cfg_attr(
    not(all(feature = "server", feature = "host", feature = "http", feature = "auth")),
    allow(dead_code, reason = "features use all of it together")
)]
mod ordered_map;
#[cfg_attr(
    not(all(feature = "server", feature = "host", feature = "http", feature = "auth")),
    allow(dead_code, reason = "features use all of it together")
)]
mod ordered_set;
mod prelude;
#[cfg(feature = "secret")]
mod secret;
mod text;
mod time;
#[cfg_attr(
    not(all(feature = "auth", feature = "client")),
    allow(dead_code, reason = "not every feature uses all of it")
)]
mod url;

#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
pub mod adapter;
#[cfg(feature = "auth")]
pub mod auth;
#[cfg(feature = "client")]
#[cfg_attr(
    not(all(feature = "http", feature = "std")),
    allow(unreachable_pub, reason = "part of the HTTP client's configuration, and of adapters")
)]
mod backoff;
pub mod codec;
pub mod consent;
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
#[cfg_attr(
    not(all(feature = "client", feature = "auth-jwt", feature = "seal", feature = "schema-validate")),
    allow(dead_code, reason = "not every feature uses all of it")
)]
pub mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "host")]
pub mod host;
#[cfg_attr(
    not(all(feature = "client", feature = "server", feature = "http", feature = "std")),
    allow(dead_code, unreachable_pub, unused_imports, reason = "not every feature uses all of it")
)]
pub mod peer;
#[cfg(any(feature = "server", all(feature = "std", feature = "client")))]
pub mod quota;
pub mod redact;
#[cfg_attr(
    not(all(feature = "client", feature = "server", feature = "http")),
    allow(dead_code, unused_imports, reason = "not every feature uses all of it")
)]
pub mod rpc;
pub mod schema;
#[cfg(all(feature = "seal", any(feature = "auth", feature = "server")))]
#[cfg_attr(not(feature = "server"), allow(unreachable_pub, reason = "servers name all of it"))]
mod seal;
#[cfg(all(feature = "std", feature = "server", any(feature = "seal", feature = "auth")))]
mod single_use;
#[cfg(all(feature = "client", feature = "skills"))]
pub mod skills;
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(unused_imports, reason = "each role uses its part")
)]
mod sync;
#[cfg(all(feature = "testing", feature = "client", feature = "server"))]
pub mod testing;
#[cfg(feature = "trace-file")]
pub mod trace_file;
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, unused_imports, reason = "shared by the roles")
)]
pub mod transport;
#[cfg(feature = "schema-validate")]
pub mod validate;

pub use bytes::Bytes;
#[cfg(all(feature = "std", feature = "server", feature = "schemars"))]
pub use front::Structured;
#[cfg(all(feature = "std", feature = "client"))]
pub use front::{Client, ClientContext, ClientHandlers};
#[cfg(all(feature = "std", feature = "server"))]
pub use front::{Context, LiveRouter, NoArguments, Progress, Router, without_arguments};
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
pub use front::{Error, HandlerError};
pub use limits::Limits;
pub use schema::{
    CallToolResult, ContentBlock, ElicitAction, ElicitParams, ElicitSchema, Implementation, PrimitiveSchema,
    Tool, ToolAnnotations,
};
#[cfg(feature = "secret")]
pub use secret::Secret;
pub use time::{HumanDuration, Instant, UnixTime};
