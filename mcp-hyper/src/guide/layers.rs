//! Layers: one place to log, limit, deny, change or answer requests, in a server, a client or a host.
//!
//! A [`Layer`](mcp_proto::front::layer::Layer) is code around each request, and at each message. [`Router::layer`](crate::Router::layer),
//! [`ClientOptions::layer`](crate::ClientOptions::layer) and `HostOptions::layer` add one; the first that is added is
//! outermost. Without layers nothing is called, and nothing costs more; messages pass by layers without a `message` of their own.
//!
//! # Which layer: of the protocol, or of HTTP
//!
//! | To | Use |
//! |---|---|
//! | log, count, deny or limit calls by tool, principal or arguments | a [`Layer`](mcp_proto::front::layer::Layer) |
//! | change parameters or `_meta`, or answer in place of a handler | a [`Layer`](mcp_proto::front::layer::Layer) |
//! | see what machines answer themselves: handshakes, pings, cancellations, progress | [`Layer::message`](mcp_proto::front::layer::Layer::message) |
//! | compress bodies, limit addresses, set headers of responses, route paths | a layer of `tower` around [`ServerOptions::service`](crate::ServerOptions::service) |
//! | require tokens | a [guard](super::authorization) |
//! | follow one request through many programs | the feature `tracing` |
//!
//! A layer of HTTP sees requests of HTTP: one may carry many messages, an answer may be a stream of them, and a session may
//! outlive it. It cannot answer a call without knowing the protocol. A layer of the protocol is the same over standard streams,
//! HTTP and WebSocket, in both eras; what HTTP knows of a request is among its
//! [attachments](mcp_proto::front::layer::LayerRequest::attachments).
//!
//! # What runs when
//!
//! In a server the token, the scopes and the rates are checked before any layer, on what arrives; so are the rates of the routers
//! that are parts of it. What they refuse no layer sees, and no [`Audit`](mcp_proto::front::layer::Audit). Then the layers run, and inside of them the handler. What a layer changes is checked again: the scopes
//! and the schema of the tool, and the rates if it is another tool, whose time limit holds from then on. A client of 2026-07-28
//! repeats its request with the input that a handler asks for, and layers see each of these attempts: the reply
//! [requires input](mcp_proto::front::layer::Reply::is_input_required), and the next request
//! [is a retry](mcp_proto::front::layer::LayerRequest::is_retry), whose [number](mcp_proto::front::layer::LayerRequest::attempt)
//! the sealed state counts. If a call becomes a task, its creation is the reply.
//!
//! In a client a layer runs once for each call of the application, outside of the cache, input rounds and repetitions: what it
//! puts in place of a result is never cached, and neither is a result of which it changed the message. It also runs around the requests of the server that handlers
//! answer, and around those of a [`TaskHandle`](mcp_proto::front::TaskHandle), whose wait is one `tasks/get`. In a host it
//! runs around each call of the application, outside of the wait for a server; pins and approvals are checked inside, on what is
//! sent.
//!
//! If a request is cancelled, the future of its layers is dropped. If a layer panics, the request ends as one whose handler
//! panics, and the connection goes on.
//!
//! # What others see of it
//!
//! | | A client of a server | The application of a client or host |
//! |---|---|---|
//! | denied call of a tool | a result with `isError`, whose text the model reads | [`Error::Layer`](crate::Error::Layer); a model reads its text with `Host::call_for_model` |
//! | other denied request | an error of the code -32600 | [`Error::Layer`](crate::Error::Layer) |
//! | early answer | a result like any other | a result like any other |
//! | `_meta` that a layer adds | part of the request, as handlers see it | sent with the request; entries that the protocol defines for itself stay |
//!
//! # Audit and rules
//!
//! [`Audit`](mcp_proto::front::layer::Audit) records who called what and how it ended, without secrets;
//! [`Rules`](mcp_proto::front::layer::Rules) allow, deny and limit by principal, server, tool and arguments. The audit is
//! outermost, so that it records what the rules deny:
//!
//! ```
//! use mcp_hyper::Router;
//! use mcp_hyper::mcp_proto::front::layer::{Audit, InvalidPointer, RuleMatch, Rules};
//! use mcp_hyper::mcp_proto::quota::RateLimit;
//!
//! fn guarded(router: Router) -> Result<Router, InvalidPointer> {
//!     let audit = Audit::new(|record| eprintln!("{:?} {} {:?}", record.principal, record.method, record.outcome));
//!     let rules = Rules::new()
//!         .allow(RuleMatch::tool("delete_*").principal("ada"))
//!         .deny(RuleMatch::tool("delete_*"), "only Ada deletes notes")
//!         .deny(RuleMatch::tool("search").argument("/folder", "/private")?, "that folder is private")
//!         .rate(RuleMatch::tool("search"), RateLimit::per_second(5))
//!         .rate(RuleMatch::tool("report"), RateLimit::per_minute(10).burst(2));
//!     Ok(router.layer(audit).layer(rules))
//! }
//! # drop(guarded(Router::new("notes", "1.0.0")));
//! ```
//!
//! Beyond a rate the model reads `too many requests: try again in 12 s`.
//!
//! A host may also ask its user before each call of a tool: `HostOptions::on_tool_call`.
//!
//! # An example: a log of cancelled requests
//!
//! A cancelled request drops the future of its layers, so that what a layer does after `next.run(…).await` does not run. The
//! destructor of a value in the future does:
//!
//! ```
//! use mcp_hyper::mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next};
//!
//! /// Logs a request that ends without a reply.
//! struct CancelLog {
//!     method: String,
//!     has_replied: bool,
//! }
//!
//! impl Drop for CancelLog {
//!     fn drop(&mut self) {
//!         if !self.has_replied {
//!             eprintln!("{} was cancelled", self.method);
//!         }
//!     }
//! }
//!
//! struct LogCancelled;
//!
//! impl Layer for LogCancelled {
//!     fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
//!         let mut log = CancelLog { method: request.method().to_owned(), has_replied: false };
//!         Box::pin(async move {
//!             let reply = next.run(request).await;
//!             log.has_replied = true;
//!             reply
//!         })
//!     }
//! }
//! # drop(mcp_hyper::Router::new("notes", "1.0.0").layer(LogCancelled));
//! ```
//!
//! [`Audit`](mcp_proto::front::layer::Audit) records it as
//! [`AuditOutcome::Dropped`](mcp_proto::front::layer::AuditOutcome::Dropped).
//!
//! # An example: a cache of chosen tools
//!
//! A server whose tools are slow, and give each principal the same result for the same arguments. The key has the principal, so
//! that nobody gets another's result. Attempts with input and their replies, failures, and results that are not of one of the
//! chosen tools are never stored:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//!
//! use mcp_hyper::mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next, Reply};
//! use mcp_hyper::mcp_proto::schema::{CallToolParams, CallToolResult};
//!
//! /// The principal, the tool, its arguments as they arrived, and the revision, which decides what a result may contain.
//! type Key = (Option<String>, String, String, String);
//!
//! #[derive(Clone, Default)]
//! struct ResultCache {
//!     tools: &'static [&'static str],
//!     stored: Arc<Mutex<BTreeMap<Key, CallToolResult>>>,
//! }
//!
//! const MOST_STORED: usize = 1000;
//!
//! impl ResultCache {
//!     fn key(&self, request: &LayerRequest) -> Option<Key> {
//!         let tool = request.item()?;
//!         let is_chosen = request.method() == "tools/call" && self.tools.contains(&tool.as_str());
//!         if !is_chosen || request.is_retry() {
//!             return None;
//!         }
//!         let call: CallToolParams = request.decode().ok()?;
//!         // A call that is to become a task is not one with a result.
//!         if call.task.is_some() {
//!             return None;
//!         }
//!         let principal = request.principal().map(|principal| principal.as_str().to_owned());
//!         let arguments = call.arguments.map_or(String::new(), |arguments| arguments.as_str().to_owned());
//!         Some((principal, tool, arguments, request.revision()?.to_string()))
//!     }
//! }
//!
//! impl Layer for ResultCache {
//!     fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
//!         let Some(key) = self.key(&request) else { return next.run(request) };
//!         if let Some(found) = self.stored.lock().unwrap().get(&key).cloned() {
//!             return next.answer(Reply::result(found));
//!         }
//!         let stored = self.stored.clone();
//!         Box::pin(async move {
//!             let reply = next.run(request).await;
//!             if !reply.is_failure() && !reply.is_input_required() {
//!                 // The result of a tool alone: not the creation of a task. A layer of a client calls `decode` instead.
//!                 if let Some(result) = reply.result_as::<CallToolResult>() {
//!                     let mut stored = stored.lock().unwrap();
//!                     if stored.len() < MOST_STORED {
//!                         stored.insert(key, result.clone());
//!                     }
//!                 }
//!             }
//!             reply
//!         })
//!     }
//! }
//!
//! # use mcp_hyper::mcp_proto::{schema::Tool, testing};
//! # use mcp_hyper::Router;
//! # use serde_json::{Value, json};
//! # let runs = Arc::new(Mutex::new(0));
//! # let count = runs.clone();
//! # let tool = Tool::new("report", "Writes a report", json!({ "type": "object" }));
//! # let router = Router::new("reports", "1.0.0").tool_with(tool, move |year: Value, _| {
//! #     *count.lock().unwrap() += 1;
//! #     async move { format!("the report of {}", year["year"]) }
//! # });
//! let router = router.layer(ResultCache { tools: &["report"], ..ResultCache::default() });
//! # testing::pair(router).run(async |client| {
//! #     for year in [2025, 2025, 2026] {
//! #         let report = client.call_tool("report", json!({ "year": year })).await.unwrap();
//! #         assert_eq!(report.text_content(), format!("the report of {year}"));
//! #     }
//! # });
//! # assert_eq!(*runs.lock().unwrap(), 2);
//! ```
//!
//! Results that may differ by time need a lifetime as well, and results of one user's data do not belong into a cache without
//! principals: over standard streams there is one user, over HTTP without tokens there may be many.
