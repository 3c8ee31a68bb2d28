//! From `rmcp` (3.9) to these crates: names, behaviour that differs, and a server and a client in both; below, features
//! beside those of other SDKs.
//!
//! # Where things are
//!
//! `rmcp` is one crate whose transports are features. Here the protocol is `mcp-proto`; `mcp-smol` carries it over
//! child processes, standard streams and sockets, `mcp-hyper` over HTTP. [The index](super) says which to depend on.
//!
//! In `rmcp` a *service* (your handlers) is served over a *transport*, which gives a `RunningService` on Tokio tasks.
//! Here a function of an adapter takes your handlers and gives a handle and a **driver**: a future that you spawn or
//! await, on any executor.
//!
//! # Names: both roles
//!
//! | `rmcp` 3.9 | Here |
//! |---|---|
//! | `ServiceExt::serve(transport)`, `RunningService` | a function of the adapter, which returns a handle and a driver: `mcp_smol::connect`, [`connect`](crate::connect), `mcp_smol::serve_stdio`, [`serve`](crate::serve()) |
//! | `RoleClient`, `RoleServer` | none: clients have a [`Client`](crate::Client), handlers of servers a [`Context`](crate::Context) |
//! | `Peer<RoleClient>` | [`Client`](crate::Client) |
//! | `Peer<RoleServer>` | [`Context`](crate::Context) during a request; [`ServerHandle`](mcp_proto::front::ServerHandle) or [`HttpServer`](mcp_proto::front::http::HttpServer) outside |
//! | `RunningService::waiting` | await the driver, or [`Client::closed`](crate::Client::closed) |
//! | `RunningService::cancel`, `close`, `CancellationToken` of the service | [`Client::close`](crate::Client::close), [`HttpHandle::close`](mcp_proto::front::http::HttpHandle::close), or drop the driver |
//! | `rmcp::model` | [`schema`](crate::schema), by the names of the specification |
//! | `ErrorData` | [`HandlerError`](crate::HandlerError) returned by handlers; [`ErrorObject`](mcp_proto::rpc::ErrorObject) as sent and received |
//! | `Transport`, `IntoTransport`, `Worker` | a driver of your own over [`mcp_proto::adapter`] |
//! | `(AsyncRead, AsyncWrite)` as a transport | `mcp_smol::connect_stream`, `mcp_smol::serve`; the traits are those of `futures-io` |
//! | feature `local` | [`Router::local`](crate::Router::local), [`ClientHandlers::local`](crate::ClientHandlers::local): no feature |
//!
//! # Names: servers
//!
//! | `rmcp` 3.9 | Here |
//! |---|---|
//! | `ServerHandler`, `#[tool_router]`, `#[tool_handler]` | [`Router`](crate::Router) |
//! | `#[tool]` on a method, `Parameters<T>` | [`Router::tool`](crate::Router::tool): an async closure or function whose first parameter is `T`; [`Router::tool_with`](crate::Router::tool_with) with a schema of your own |
//! | `Json<T>` as a result | [`Structured<T>`](crate::Structured) |
//! | `CallToolResult::success(vec![ContentBlock::text(…)])` | return a `String`, a number, a `Vec` of blocks, or a [`CallToolResult`](crate::CallToolResult): [`ToolOutput`](mcp_proto::front::ToolOutput) |
//! | `#[prompt_router]`, `#[prompt]` | [`Router::prompt`](crate::Router::prompt) |
//! | `list_resources`, `list_resource_templates`, `read_resource` | [`Router::resource`](crate::Router::resource), [`Router::template`](crate::Router::template) |
//! | `complete` | [`Router::completion`](crate::Router::completion) |
//! | `on_custom_request` | [`Router::custom`](crate::Router::custom), [`Router::fallback`](crate::Router::fallback) |
//! | `get_info`, `ServerConfig`, `ServerCapabilities::builder` | [`Router::new`](crate::Router::new), [`Router::instructions`](crate::Router::instructions); capabilities follow from what is registered |
//! | `&self` of the handler | [`Router::with_state`](crate::Router::with_state), [`Context::state`](crate::Context::state), or captured clones |
//! | `RequestContext<RoleServer>` | [`Context`](crate::Context) |
//! | `RequestContext::ct` | the handler is dropped; [`Context::cancelled`](crate::Context::cancelled) for work that it moved elsewhere |
//! | `RequestContext::extensions` (`Extensions`), `Extension<Parts>` | [`Context::attachments`](crate::Context::attachments): over HTTP the head as [`http::request::Parts`], and the [`PeerAddress`](crate::PeerAddress) |
//! | `RequestContext::meta` | [`Context::meta`](crate::Context::meta) |
//! | `Peer::notify_progress` | [`Context::progress`](crate::Context::progress) |
//! | `Peer::elicit`, `create_elicitation`; `InputRequiredResult` with `InputResponses` | [`Context::elicit`](crate::Context::elicit), the same code in both eras |
//! | `Peer::create_message`, `Peer::list_roots` | [`Context::sample`](crate::Context::sample), [`Context::roots`](crate::Context::roots) |
//! | `RequestStateCodec` | done by [`Context::elicit`](crate::Context::elicit); keys by [`Router::seal`](crate::Router::seal) |
//! | `Peer::notify_tool_list_changed` and the like | sent by [`LiveRouter::update`](crate::LiveRouter::update), which also changes the list |
//! | `TaskManager` | [`Router::tasks`](crate::Router::tasks), [`Router::task_tool`](crate::Router::task_tool) |
//! | `transport::stdio` | `mcp_smol::serve_stdio`, or `mcp_smol::run_stdio` without an executor |
//! | `StreamableHttpService`, `LocalSessionManager` | [`serve`](crate::serve()), or [`ServerOptions::service`](crate::ServerOptions::service) for a hyper service |
//! | `StreamableHttpServerConfig` | [`ServerOptions`](crate::ServerOptions), its `configure` and `limits` |
//!
//! # Names: clients
//!
//! | `rmcp` 3.9 | Here |
//! |---|---|
//! | `ClientHandler`; `()` | [`ClientHandlers`](crate::ClientHandlers); none |
//! | `TokioChildProcess::new(Command)` | `mcp_smol::connect(mcp_smol::Command)` |
//! | `StreamableHttpClientTransport::from_uri` | [`connect`](crate::connect) |
//! | `StreamableHttpClientTransportConfig`: `auth_header`, `custom_headers` | [`ClientOptions::header`](crate::ClientOptions::header), [`headers`](crate::ClientOptions::headers) |
//! | `ClientLifecycleMode`, `serve_with_lifecycle` | [`ClientOptions::era_policy`](crate::ClientOptions::era_policy) |
//! | `call_tool(CallToolRequestParams::new(…).with_arguments(…))` | [`Client::call_tool`](crate::Client::call_tool): a name and any `Serialize` |
//! | `list_all_tools`; `list_tools` | [`Client::list_tools`](crate::Client::list_tools); [`list_tools_page`](crate::Client::list_tools_page) |
//! | `PeerRequestOptions`: `timeout`, `reset_timeout_on_progress`, `max_total_timeout` | [`Request::timeout`](mcp_proto::front::Request::timeout), which progress restarts; [`Request::hard_timeout`](mcp_proto::front::Request::hard_timeout) |
//! | `send_cancellable_request`, `RequestHandle` | [`Request::start`](mcp_proto::front::Request::start), [`Call`](mcp_proto::front::Call) |
//! | `ProgressDispatcher`, `ProgressSubscriber` | [`Request::on_progress`](mcp_proto::front::Request::on_progress), [`Call::progress`](mcp_proto::front::Call::progress) |
//! | `Peer::listen`, `Subscription`; `subscribe` | [`Client::watch`](crate::Client::watch), in both eras |
//! | `ServiceError`, `ClientInitializeError` | [`Error`](crate::Error) |
//! | `Peer::peer_info` | [`Client::ready`](crate::Client::ready), [`Client::server`](crate::Client::server) |
//! | `AuthorizationManager`, `AuthorizationSession`, `OAuthState`, `AuthClient` | `auth::Authorization` in `ClientOptions::authorization` (feature `auth`) |
//! | `StateStore`, `StoredAuthorizationState` | none: `AuthHandle::begin_login` returns the login, sealed, for your web session |
//! | `CredentialStore`, `InMemoryCredentialStore` | `auth::TokenStore`; `auth::MemoryStore`, `auth::FileStore` |
//!
//! # What behaves differently
//!
//! **Nothing is spawned.** `rmcp` runs each connection and each handler as a Tokio task. Here the task that polls the
//! driver also runs the handlers, in turns: a handler that blocks or computes for long stops its connection. Move such
//! work to a thread and await that. [`Router::spawn_handlers`](crate::Router::spawn_handlers) makes each handler a task.
//!
//! **Tokio is not needed**, and can be used: `tokio::spawn(driver)` works with the default features. The feature
//! `tokio` replaces the sockets and timers as well.
//!
//! **Connecting does not wait.** `serve` returns after the handshake, or fails. `connect` returns at once; the first
//! call waits for the handshake, and fails with its error. [`Client::ready`](crate::Client::ready) waits for it alone.
//!
//! **The era is detected.** `serve` of `rmcp` makes the legacy handshake, unless a `ClientLifecycleMode` says
//! otherwise. Here a client detects the server's era unless a policy forbids that.
//!
//! **Timeouts are on.** In `rmcp` a call waits for ever by default. Here it ends after 30 s without progress, and after
//! ten minutes in any case; both can be set for a client and for a request.
//!
//! **Dropping a call cancels it** on the wire. `rmcp` 3.9 does so for its typed methods, but not for a `RequestHandle`.
//!
//! **A cancelled handler is dropped** where it waits. In `rmcp` it goes on, unless it looks at `ct`.
//!
//! **Each call has one outcome.** [`Error`](crate::Error) tells a server's error from a lost connection, and
//! [`is_unsent`](crate::Error::is_unsent) whether the call can be repeated safely.
//!
//! **Results have the type of their method.** `rmcp` decodes results into an untagged enum, by their shape; one of
//! another shape is `UnexpectedResponse`. Here the method decides, and a result that does not fit is
//! [`Error::Decode`](crate::Error::Decode), with the result as received.
//!
//! **Input rounds and tasks are followed.** In `rmcp`, `RunningService::call_tool` answers input requests,
//! `Peer::call_tool` does not, and neither follows a task. Here each call does both, unless its options say otherwise.
//!
//! **A handler that asks runs again from its start** once it has the answers of a client of 2026-07-28, so effects
//! before the question go into [`Context::run_once`](crate::Context::run_once).
//!
//! **Errors of tools** are read by the model in both: there as `Err(String)`, here as any error that converts into a
//! [`HandlerError`](crate::HandlerError). A JSON-RPC error is `ErrorData` there, an
//! [`ErrorObject`](mcp_proto::rpc::ErrorObject) here.
//!
//! **One router serves every connection.** `StreamableHttpService` makes a handler for each session. State of a single
//! client in `&self` becomes a map here, by [`Context::principal`](crate::Context::principal) for example.
//!
//! **Web pages are refused by default.** Both check `Host` against loopback names. `rmcp` checks `Origin` only when it
//! is configured; here only pages of this machine are served until `HttpServerConfig::origins` names others.
//!
//! **Child processes inherit few variables**: those that programs need to run. `mcp_smol::Command::env` adds others,
//! and `Environment::Inherited` passes on all.
//!
//! **Standard output is safe** on Unix: from `mcp_smol::serve_stdio` on, what other code prints goes to standard error.
//!
//! # A server, ported
//!
//! With `rmcp`:
//!
//! ```text
//! use rmcp::handler::server::wrapper::Parameters;
//! use rmcp::{ServerHandler, ServiceExt, tool, tool_handler, tool_router};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Operands {
//!     a: f64,
//!     b: f64,
//! }
//!
//! struct Calculator;
//!
//! #[tool_router]
//! impl Calculator {
//!     #[tool(description = "Adds two numbers")]
//!     fn add(&self, Parameters(Operands { a, b }): Parameters<Operands>) -> String {
//!         (a + b).to_string()
//!     }
//!
//!     #[tool(description = "Divides two numbers")]
//!     fn divide(&self, Parameters(Operands { a, b }): Parameters<Operands>) -> Result<String, String> {
//!         if b == 0.0 {
//!             return Err("the divisor is 0".to_owned());
//!         }
//!         Ok((a / b).to_string())
//!     }
//! }
//!
//! #[tool_handler(name = "calculator", version = "1.0.0")]
//! impl ServerHandler for Calculator {}
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     Calculator.serve(rmcp::transport::stdio()).await?.waiting().await?;
//!     Ok(())
//! }
//! ```
//!
//! Here, with `mcp-smol`:
//!
//! ```no_run
//! use mcp_smol::{HandlerError, Router};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Operands {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn router() -> Router {
//!     Router::new("calculator", "1.0.0")
//!         .tool("add", "Adds two numbers", async |Operands { a, b }, _| a + b)
//!         .tool("divide", "Divides two numbers", async |Operands { a, b }, _| {
//!             if b == 0.0 {
//!                 return Err(HandlerError::new("the divisor is 0"));
//!             }
//!             Ok(a / b)
//!         })
//! }
//!
//! fn main() -> Result<(), mcp_smol::ServeError> {
//!     mcp_smol::run_stdio(router())
//! }
//! ```
//!
//! # A client, ported
//!
//! With `rmcp`:
//!
//! ```text
//! use std::time::Duration;
//!
//! use rmcp::ServiceExt;
//! use rmcp::model::{CallToolRequestParams, ContentBlock};
//! use rmcp::transport::TokioChildProcess;
//! use serde_json::json;
//! use tokio::process::Command;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = ().serve(TokioChildProcess::new(Command::new("calculator"))?).await?;
//!     for tool in client.list_all_tools().await? {
//!         println!("{}", tool.name);
//!     }
//!     let arguments = json!({ "a": 2, "b": 3 }).as_object().cloned().unwrap_or_default();
//!     let call = client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments));
//!     let sum = tokio::time::timeout(Duration::from_secs(60), call).await??;
//!     println!("{}", sum.content.first().and_then(ContentBlock::as_text).map_or("", |text| &text.text));
//!     client.cancel().await?;
//!     Ok(())
//! }
//! ```
//!
//! Here, with `mcp-smol` and `smol`. On Tokio, `tokio::spawn(driver)` takes the place of the second line:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mcp_smol::Command;
//! use serde_json::json;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     smol::block_on(async {
//!         let (client, driver) = mcp_smol::connect(Command::new("calculator"));
//!         smol::spawn(driver).detach();
//!         for tool in client.list_tools().await? {
//!             println!("{}", tool.name);
//!         }
//!         let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).timeout(Duration::from_secs(60)).await?;
//!         println!("{}", sum.text_content());
//!         client.close().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # Features beside other SDKs
//!
//! Features of SDKs for the Model Context Protocol, side by side, as of November 2026.
//!
//! The columns of the others were read from their sources and issue trackers, not measured: `rmcp` 3.9, `rust-mcp-sdk`
//! 2.0, and the TypeScript SDK 2.4, Python SDK 2.3 and Go SDK 1.7. Later versions may differ. ✓ present, ◐ in part, ✗
//! not found, ? not looked into, – does not apply. A dot separates features that a row names in that order.
//!
//! ## Protocol
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | client · server | ✓ · ✓ | ✓ · ✓ | ? | ✓ · ✓ | ✓ · ✓ | ✓ · ✓ |
//! | revisions | 5 | 5 | ? | 5 | 5 | 5 |
//! | both eras, detected | ✓, remembered if the application wants | ✓, probe of 10 s | ? | an option, probe by a process of its own | ✓, same process | ✓ |
//! | JSON-RPC batches (2025-03-26) | ✓, received | ✗ | ? | ◐ | ◐ | ✓ |
//! | input rounds · sealed request states | ✓ · ✓ encrypted, rotation of keys, expiry, bound to principal and request | ✓ · ✓ rotation of keys | ? | ✓ · HMAC | ✓ · AES-GCM, rotation of keys | ✓ · ✗ |
//! | `subscriptions/listen` | ✓, lost streams opened again | ✓ | ? | ✓, not opened again | ✓ | ✓ |
//! | response cache by `ttlMs` | ✓, bounded in bytes, by login | ✓, not bounded in bytes | ? | ✓ | ✓ | ◐ |
//! | `x-mcp-header` · retry after `HeaderMismatch` | ✓ · ✓ | ✓ · ? | ? | ✓ · ✓ | ✓ · ✓ | ✓ · ✗ |
//! | tasks: extension · 2025-11-25 | ✓ · ✓ | ✓ · ✗ | ? | ✗ | ◐ | ✗ |
//! | skills: files verified by the client · of a folder, read at each request | ✓ · ✓ | ◐ a function · ✗ | ? | ✗ | ✗ | ✗ |
//! | lists to their end, with a guard against loops | ✓ | ✗ | ? | ✓ | ✗ | ✓ |
//! | results of tools checked by the client | an option | ✗ | ? | ✓ | ✓ | ✗ |
//!
//! ## Transports
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | standard streams, child processes | ✓, any runtime | ✓, Tokio | ? | ✓ | ✓ | ✓ |
//! | Streamable HTTP: client · server | ✓ · ✓, any runtime | ✓ reqwest · ✓ tower | ? | ✓ · ✓ | ✓ · ✓ | ✓ · ✓ |
//! | HTTP+SSE (2024-11-05) | client: detected; server: an option | ✗ | ? | ✓ | ✓ | ✓ |
//! | WebSocket | an option | ✗ | ? | ✗ in version 2 | ◐ | ✗ |
//! | lost session (404) opened again | ✓ | ✓ | ? | ✗ | ✗ | ✗ |
//! | whole connection made again | ✓, by `host` | ✗ | ? | ✗ | ✗ | ✗ |
//! | tree of child processes ended | ✓ | ◐ | ? | ✗ | ✓ | ✗ |
//! | end of the standard error in errors | ✓ | ✗ | ? | ✗ | ✗ | ✗ |
//!
//! ## Calls
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | default timeout | 30 s | none | ? | 60 s | none | of the context |
//! | timeout extended by progress | ✓ | an option | ? | an option | ? | ? |
//! | maximum whatever the progress | ✓, 10 min by default | an option | ? | ✓ | ? | ? |
//! | cancellation on the wire | ✓, also when dropped | ◐, also when dropped | ? | ✓ | ✓ | ✓ |
//!
//! ## Authorization
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | OAuth: RFC 9728, RFC 8414 or OIDC, PKCE, RFC 8707, RFC 9207, client id documents, registration, step-up | ✓ | ✓ | ? | ✓ | ✓ | ✓ |
//! | client credentials | ✓ | ✓ | ? | ✓ | ✓ | ✓ |
//! | `private_key_jwt` | ✓ | ✓ | ? | ✓ | ✓ | ✗ |
//! | access across applications, by an identity provider | ✓ | ✓ | ? | ✓ | ◐ | ✓ |
//! | DPoP | ✓ | ✗ | ? | ✓ | ✗ | ✗ |
//! | workload identity federation | ✓ | ✗ | ? | ✗ | ✗ | ✗ |
//!
//! ## How they are built and tested
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | core without `std` | ✓ | ✗ | ? | – | – | – |
//! | runs without Tokio | ✓ | ✗ | ? | – | – | – |
//! | fuzzing | ✓ | ✗ | ? | ✗ | ✗ | ◐ |
//! | property tests | ✓ | ✗ | ? | ✗ | ✗ | ◐ |
//! | simulated network and clock | ✓ | ✗ | ✗ | ✗ | ✗ | ◐ |
//! | official conformance suite as a whole | ✓, two exceptions in `tests/conformance.d` | ? | claimed, on a smaller suite | ? | ? | ? |
//!
//! ## Sizes and speed
//!
//! Crates in the dependency tree on Linux, of normal dependencies: `rmcp` with its types alone has 50, as a client of
//! child processes 57, with Streamable HTTP 106, with TLS 119, with OAuth 138. [The index](super) counts those of this
//! project for each choice of features; `tests/dependencies` reproduces the counts.
//!
//! The README's section "How fast" has requests per second beside `rmcp` and beside the same exchange without the
//! protocol. `tests/peers/benchmark` reproduces them and writes `tests/peers/RESULTS.md`, which says how to run a
//! single row.
