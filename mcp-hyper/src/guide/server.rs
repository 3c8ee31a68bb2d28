//! Writing a server: tools that a model calls in your program.
//!
//! A server is a [`Router`](crate::Router) with tools, and one line that serves it: over standard input and output
//! for an application that starts the server as its child process, or over HTTP for applications that know its URL.
//! The examples on this page also need the crates `schemars` and `serde`.
//!
//! # Over standard input and output
//!
//! The application starts your program and exchanges lines with it. No executor is needed:
//!
//! ```no_run
//! use mcp_smol::Router;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     /// The first number.
//!     a: f64,
//!     /// The second number.
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_smol::ServeError> {
//!     let router = Router::new("calculator", "1.0.0")
//!         .instructions("Use this server for exact arithmetic.")
//!         .tool("add", "Adds two numbers", async |Add { a, b }, _| a + b);
//!     mcp_smol::run_stdio(router)
//! }
//! ```
//!
//! The model sees the name, the description and the schema of the arguments, with the comments of their fields. Started
//! by hand, the program waits in silence for a client.
//!
//! On Unix, what the program prints from `run_stdio` on goes to standard error, not into the protocol. Before that,
//! and on Windows, print with `eprintln!`.
//!
//! Applications read the command from a configuration file, such as `.mcp.json` (Claude Code) or `~/.cursor/mcp.json`:
//!
//! ```json
//! { "mcpServers": { "calculator": { "command": "/home/ann/calculator/target/debug/calculator" } } }
//! ```
//!
//! # Over HTTP
//!
//! The same router on a socket, at the path `/mcp`:
//!
//! ```no_run
//! use mcp_hyper::Router;
//!
//! fn main() -> Result<(), mcp_hyper::ServeError> {
//!     let router = Router::new("calculator", "1.0.0"); // and its tools, as above
//!     smol::block_on(async {
//!         let listener = smol::net::TcpListener::bind("127.0.0.1:8080").await?;
//!         mcp_hyper::serve(listener, router).await
//!     })
//! }
//! ```
//!
//! As it stands, it answers only requests whose `Host` and `Origin` name this machine, so that no web page reaches
//! it. To serve others:
//!
//! | To | Set |
//! |---|---|
//! | serve under a public name | `HttpServerConfig::hosts`, in [`ServerOptions::configure`](crate::ServerOptions::configure) |
//! | serve web pages of the same origin, of other origins | `HttpServerConfig::origins`, `HttpServerConfig::cors`, likewise |
//! | stand behind a proxy | [`ServerOptions::trusted_proxies`](crate::ServerOptions::trusted_proxies), or all clients share one quota |
//! | require a login | [`authorization`](super::authorization) |
//! | be part of an axum or hyper application | [`tokio`](super::tokio), or [`ServerOptions::service`](crate::ServerOptions::service) |
//! | send results in parts, to clients whose dialect has them | [`ServerOptions::chunked_results`](crate::ServerOptions::chunked_results) |
//! | serve from several machines | [`ServerOptions`](crate::ServerOptions), “Behind a load balancer” |
//!
//! # What a handler takes and returns
//!
//! A handler is an async closure or function of its arguments and a [`Context`](crate::Context). Arguments that do
//! not match their type never reach it: the model receives the decoding error.
//!
//! | The handler returns | The model sees |
//! |---|---|
//! | `String`, `&str`, a number, a `bool` | its text |
//! | `()` | an empty success |
//! | a `Vec` of texts, or of [`ContentBlock`](crate::ContentBlock)s | all of them: text, images, sound, links |
//! | [`Structured`](crate::Structured)`(value)` | JSON, whose schema the tool declares |
//! | a [`CallToolResult`](crate::CallToolResult) | what you put into it |
//! | `Err(`[`HandlerError`](crate::HandlerError)`)` | the message, as a failed call; others that implement `Error` convert by `?` |
//!
//! A tool without arguments takes [`NoArguments`](crate::NoArguments). This one returns structured content, which
//! clients [read as a type](super::client#calls):
//!
//! ```
//! use mcp_hyper::{NoArguments, Router, Structured};
//! use schemars::JsonSchema;
//! use serde::Serialize;
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Time {
//!     hour: u8,
//!     minute: u8,
//! }
//!
//! let router = Router::new("clock", "1.0.0").tool("now", "Tells the time", async |NoArguments {}, _| {
//!     Structured(Time { hour: 9, minute: 30 })
//! });
//! # // What the table says.
//! # let router = router
//! #     .tool("number", "", async |NoArguments {}, _| 1.5)
//! #     .tool("bool", "", async |NoArguments {}, _| true)
//! #     .tool("nothing", "", async |NoArguments {}, _| ())
//! #     .tool("texts", "", async |NoArguments {}, _| vec!["a", "b"])
//! #     .tool("typed", "", async |add: std::collections::BTreeMap<String, u8>, _| format!("{add:?}"))
//! #     .tool("failure", "", async |NoArguments {}, _| { let n: u8 = "x".parse()?; Ok(n) });
//! # let mut pair = mcp_proto::testing::pair(router);
//! # let mut call = |tool: &'static str, arguments: serde_json::Value| {
//! #     pair.run(async |client| client.call_tool(tool, arguments).await).unwrap()
//! # };
//! # let none = serde_json::json!({});
//! # assert_eq!(call("now", none.clone()).structured::<serde_json::Value>().unwrap()["minute"], 30);
//! # for (tool, text) in [("number", "1.5"), ("bool", "true"), ("nothing", ""), ("texts", "a\nb")] {
//! #     assert_eq!(call(tool, none.clone()).text_content(), text);
//! # }
//! # let failure = call("failure", none);
//! # assert!(failure.failed() && failure.text_content() == "invalid digit found in string");
//! # let refused = call("typed", serde_json::json!({ "a": "text" }));
//! # assert!(refused.failed() && refused.text_content().starts_with("the arguments do not fit the tool typed: "));
//! ```
//!
//! # State
//!
//! Handlers share one typed value, or capture clones. Requests run at the same time, so the value has its own lock:
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use mcp_hyper::{Context, Router};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Note { text: String }
//!
//! struct Notes(Mutex<Vec<String>>);
//!
//! let motto: Arc<str> = "Write it down".into();
//! let router = Router::new("notes", "1.0.0")
//!     .with_state(Notes(Mutex::default()))
//!     .tool("add", "Adds a note", async |Note { text }, cx: Context<Notes>| {
//!         cx.state().0.lock().unwrap().push(text);
//!         "added"
//!     })
//!     .tool("quote", "Quotes a note", move |Note { text }, _| {
//!         let motto = motto.clone();
//!         async move { format!("{motto}: {text}") }
//!     });
//! # let mut pair = mcp_proto::testing::pair(router);
//! # for (tool, text) in [("add", "added"), ("quote", "Write it down: milk")] {
//! #     let note = serde_json::json!({ "text": "milk" });
//! #     let result = pair.run(async |client| client.call_tool(tool, note).await).unwrap();
//! #     assert_eq!(result.text_content(), text);
//! # }
//! ```
//!
//! Handlers that are not `Send` belong to a [`Router::local`](crate::Router::local).
//!
//! Handlers take turns on the thread of their server: one that blocks (a sleep of the thread, a long computation, a
//! synchronous client) stops every client, and is an event of the server after a second. Await such work on another
//! thread (`smol::unblock`, `tokio::task::spawn_blocking`), or make each handler a task of your executor:
//! [`Router::spawn_handlers`](crate::Router::spawn_handlers).
//!
//! # During a call
//!
//! A handler reports progress, logs, and asks the user by a form or a page. The same code works with clients of every
//! revision. With a client of 2026-07-28 a handler that asks runs again from its start once the answer is there:
//! [`Context::run_once`](crate::Context::run_once) protects work that must not happen twice.
//!
//! ```
//! use mcp_hyper::schema::{Json, LoggingLevel, ServerCapability};
//! use mcp_hyper::{
//!     Context, ElicitAction, ElicitParams, ElicitSchema, HandlerError, Router, Tool, without_arguments,
//! };
//!
//! async fn delete(cx: Context) -> Result<&'static str, HandlerError> {
//!     let question = ElicitParams::form("Delete everything?", ElicitSchema::empty());
//!     if cx.elicit("sure", question).await?.action != ElicitAction::Accept {
//!         return Ok("Nothing was deleted.");
//!     }
//!     for percent in [25, 50, 75, 100] {
//!         cx.progress(percent);
//!     }
//!     cx.log(LoggingLevel::Info, "deleted everything");
//!     Ok("Deleted.")
//! }
//!
//! let tool = Tool::new("delete_all", "Deletes everything", Json::empty_object());
//! let router = Router::new("files", "1.0.0")
//!     .tool_with(tool, without_arguments(delete))
//!     .declare(ServerCapability::Logging);
//! # drop(router);
//! ```
//!
//! Clients receive log messages only from a server that declares logging. A handler that logs without it is reported, on a
//! byte stream as a diagnostic of the connection, over HTTP once as
//! [`HttpServerEvent::UndeclaredLogging`](mcp_proto::front::http::HttpServerEvent::UndeclaredLogging).
//!
//! `run_stdio`, `serve_stdio` and [`serve`](crate::serve) return no handle whose events could be read: the feature `tracing`
//! emits the reports about handlers, that one logs without the capability or that one blocks its driver, as events of the
//! level `WARN`.
//!
//! When the client cancels the call, the handler's future is dropped.
//! [`Context::cancelled`](crate::Context::cancelled) tells work that runs elsewhere.
//!
//! # Resources and prompts
//!
//! A resource is a document that the application may read; a prompt is a message that the user may choose. Variables of
//! templates and arguments of prompts are strings; fields that are numbers or `bool` are parsed:
//!
//! ```
//! use mcp_hyper::schema::{Prompt, PromptArgument, Resource, ResourceTemplate};
//! use mcp_hyper::{HandlerError, Router};
//! # #[derive(serde::Deserialize)] struct Note { id: u32 }
//! # #[derive(serde::Deserialize)] struct Review { code: String }
//!
//! let mut review = Prompt::new("review");
//! let mut code = PromptArgument::new("code");
//! code.required = Some(true);
//! review.arguments = Some(vec![code]);
//! let router = Router::new("notes", "1.0.0")
//!     .resource(Resource::new("note:///today", "today"), async |_, _| "Buy milk")
//!     .template(ResourceTemplate::new("note:///{id}", "note"), async |Note { id }, _| match id {
//!         7 => Ok("Water the plants"),
//!         _ => Err(HandlerError::no_resource(format!("note:///{id}"))),
//!     })
//!     .prompt(review, async |Review { code }, _| format!("Review this code:\n{code}"));
//! # let mut pair = mcp_proto::testing::pair(router);
//! # for (uri, text) in [("note:///today", "Buy milk"), ("note:///7", "Water the plants")] {
//! #     let read = pair.run(async |client| client.read_resource(uri).await).unwrap();
//! #     assert!(format!("{:?}", read.contents).contains(text));
//! # }
//! # let missing = pair.run(async |client| client.read_resource("note:///8").await).unwrap_err();
//! # assert!(missing.is_resource_not_found());
//! # let prompt = pair.run(async |client| client.get_prompt("review", [("code", "1 + 1")]).await).unwrap();
//! # assert!(format!("{:?}", prompt.messages).contains("Review this code:"));
//! ```
//!
//! # Skills
//!
//! A skill is a folder of instructions that a model reads when it needs them: a `SKILL.md`, whose frontmatter has a name and
//! a description, and the files that it refers to. With the feature `skills` a router serves skills from memory:
//!
//! ```
//! use mcp_hyper::Router;
//! use mcp_hyper::mcp_proto::front::skills::InMemorySkill;
//!
//! const REFUNDS: &str = "---
//! name: refunds
//! description: Pays money back to customers
//! ---
//! Write to the customer first, with templates/email.md.
//! ";
//!
//! let refunds = InMemorySkill::new(REFUNDS).under("acme").file("templates/email.md", "Dear customer, …");
//! let router = Router::new("billing", "1.0.0").skill(refunds);
//! # let mut pair = mcp_proto::testing::pair(router);
//! # pair.run(async |client| {
//! let email = client.read_resource("skill://acme/refunds/templates/email.md").await?;
//! # assert_eq!(email.contents.len(), 1);
//! # assert_eq!(client.list_skills().await?.len(), 1);
//! # Ok::<(), mcp_hyper::Error>(())
//! # }).unwrap();
//! ```
//!
//! `mcp_hyper::skills::SkillFolder` serves those of a folder on disk, and reads it at each request; it serves nothing outside
//! of the folder. Any other source is a `SkillSource`, for `Router::skills_from`.
//!
//! The router declares the extension, and lists each skill with the digest and the size of every file. Clients that know it
//! speak 2026-07-28; for others, files in memory are resources like any other. There is no notification of changes:
//! [`Router::cache`](crate::Router::cache) says how long a client may keep the list.
//!
//! # Several routers
//!
//! A router takes in others, each with its own state: [`merge`](crate::Router::merge) under the same names,
//! [`mount`](crate::Router::mount) under names that begin with a prefix. The handlers see the names that they were
//! registered under. What both register is an error of [`check`](crate::Router::check), and of what serves the router.
//!
//! ```
//! use mcp_hyper::schema::Resource;
//! use mcp_hyper::{NoArguments, Router};
//! use serde_json::json;
//!
//! fn notes() -> Router {
//!     Router::new("notes", "1.0.0")
//!         .tool("clear", "Deletes all notes", async |NoArguments {}, _| "done")
//!         .resource(Resource::new("note:///today", "today"), async |_, _| "Buy milk")
//! }
//!
//! let router = Router::new("desk", "1.0.0").mount("notes", notes());
//! # let mut pair = mcp_proto::testing::pair(router);
//! # pair.run(async |client| {
//! let cleared = client.call_tool("notes_clear", json!({})).await?;
//! let today = client.read_resource("notes+note:///today").await?;
//! # assert_eq!((cleared.text_content().as_str(), today.contents.len()), ("done", 1));
//! # Ok::<(), mcp_hyper::Error>(())
//! # }).unwrap();
//! ```
//!
//! # More
//!
//! | To | Read |
//! |---|---|
//! | use Tokio, or serve in an axum application | [`tokio`](super::tokio) |
//! | test the router without processes and sockets | [`testing`](super::testing) |
//! | add and remove tools while the server runs | [`Router::live`](crate::Router::live) |
//! | return from a call at once and work on | [`Router::task_tool`](crate::Router::task_tool) |
//! | let clients cache lists and results | [`Router::cache`](crate::Router::cache) |
//! | limit how long a handler of a tool may take | [`Router::tool_timeout`](crate::Router::tool_timeout) |
//! | limit how often each client calls tools; by default only completions are limited | [`Router::tool_rate`](crate::Router::tool_rate) |
//! | see all of it in one program | `mcp-hyper/examples/notebook.rs` |
