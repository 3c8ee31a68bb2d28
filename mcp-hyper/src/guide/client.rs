//! Writing a client: calling the tools of a server from your program.
//!
//! Connecting returns two things. The [`Client`](crate::Client) is the handle that your program uses: cheap to
//! clone, on any thread. The **driver** is a future that moves the bytes of the connection: spawn it on your
//! executor, or nothing happens.
//!
//! # A server that is a program
//!
//! ```no_run
//! use mcp_smol::Command;
//! use serde_json::json;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     smol::block_on(async {
//!         let command = Command::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]);
//!         let (client, driver) = mcp_smol::connect(command);
//!         smol::spawn(driver).detach();
//!
//!         for tool in client.list_tools().await? {
//!             println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//!         }
//!         let sum = client.call_tool("get-sum", json!({ "a": 2, "b": 3 })).await?;
//!         println!("{}", sum.text_content());
//!         client.close().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The program inherits few variables of the environment; `Command::env` adds others.
//! [`Client::close`](crate::Client::close) ends it and what it has started. If it exits, the errors of the calls
//! quote the end of its standard error.
//!
//! # A server at a URL
//!
//! Only the connection differs. `https:` and `http:` URLs work with the default features, `wss:` and `ws:` with
//! `websocket`:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mcp_hyper::ClientOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (client, driver) = ClientOptions::new("my-program", "1.0.0")
//!     .header("authorization", "Bearer my-key")
//!     .request_timeout(Duration::from_secs(10))
//!     .connect("https://example.com/mcp")?;
//! # smol::block_on(async {
//! smol::spawn(driver).detach();
//! println!("{:?}", client.ready().await?.revision);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! A token that another program rotates comes from an async function: `headers_from` asks it before the first request, and
//! again after status 401. If the token is another one now, the refused requests are repeated, and no call is lost:
//!
//! ```no_run
//! use http::{HeaderMap, HeaderValue, header};
//! use mcp_hyper::ClientOptions;
//!
//! async fn read_token() -> Result<HeaderMap, Box<dyn std::error::Error>> {
//!     let token = std::fs::read_to_string("/run/secrets/token")?;
//!     let value = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
//!     Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
//! }
//!
//! let options = ClientOptions::new("my-program", "1.0.0").headers_from(read_token);
//! # drop(options);
//! ```
//!
//! For one call to one server, [`call_once`](crate::call_once) takes what either `connect` returns; nothing is spawned:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = mcp_hyper::connect("https://example.com/mcp")?;
//! let sum = mcp_hyper::call_once(server, "add", serde_json::json!({ "a": 2, "b": 3 })).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # On Tokio
//!
//! Spawn the driver with `tokio::spawn(driver)`. The default feature `smol` works under it, with a thread for
//! sockets and timers; the feature `tokio` in its place uses Tokio's own:
//!
//! ```toml
//! [dependencies]
//! mcp-hyper = { version = "0.1", default-features = false, features = ["client", "tokio", "platform-roots"] }
//! mcp-smol = { version = "0.1", default-features = false, features = ["client", "tokio"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```rust,ignore
//! async fn print_sum(client: Client, a: f64, b: f64) -> Result<(), mcp_smol::Error> {
//!     println!("{}", client.call_tool("add", json!({ "a": a, "b": b })).await?.text_content());
//!     // Returns once the child process has exited, or the connections are closed.
//!     client.close().await;
//!     Ok(())
//! }
//! ```
//!
//! ```rust,ignore
//! let options = mcp_hyper::ClientOptions::new("tokio", "1.0.0").runtime(mcp_hyper::Tokio);
//! let (client, driver) = options.connect(&url)?;
//! let driver = tokio::spawn(driver);
//! print_sum(client, 3.0, 4.0).await?;
//! driver.await??;
//! ```
//!
//! A server that is a program has the options of `mcp_smol`, and connecting cannot fail:
//!
//! ```rust,ignore
//! let options = mcp_smol::ClientOptions::new("tokio", "1.0.0").runtime(RuntimeKind::Tokio);
//! let (client, driver) = options.connect(command);
//! ```
//!
//! The project's tests build and run the program (`tests/adapters/src/bin/tokio.rs`).
//! Without `runtime` the default counts, which is smol as soon as any crate of the program enables that feature. If nothing polls
//! the driver, calls wait until their timeout, and their error then names the driver; an event of the client says it after a
//! second.
//!
//! # Calls
//!
//! A call is a future that takes options before it is awaited. Dropping it cancels the call, at the server too:
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_hyper::{Client, Error};
//! use serde_json::json;
//!
//! async fn export(client: &Client) -> Result<String, Error> {
//!     let result = client
//!         .call_tool("export", json!({ "format": "pdf" }))
//!         .timeout(Duration::from_secs(60))
//!         .on_progress(|report| println!("{}", report.progress))
//!         .await?;
//!     if result.failed() {
//!         println!("The tool reports a failure.");
//!     }
//!     Ok(result.text_content())
//! }
//! # drop(export);
//! # // The defaults of the table below.
//! # let config = mcp_proto::peer::client::ClientConfig::new(mcp_hyper::Implementation::new("test", "1.0.0"));
//! # assert_eq!(config.request_timeout, Duration::from_secs(30));
//! # assert_eq!(config.request_hard_timeout, Duration::from_secs(10 * 60));
//! # assert_eq!(config.connect.total, Duration::from_secs(120));
//! ```
//!
//! A tool that declares an output schema returns structured content besides its text, JSON for programs:
//!
//! ```
//! use mcp_hyper::Client;
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! #[derive(Deserialize)]
//! struct Time {
//!     hour: u8,
//!     minute: u8,
//! }
//!
//! async fn now(client: &Client) -> Result<Time, Box<dyn std::error::Error>> {
//!     let result = client.call_tool("now", json!({})).await?;
//!     Ok(result.structured::<Time>()?)
//! }
//! # #[derive(serde::Serialize, schemars::JsonSchema)] struct Now { hour: u8, minute: u8 }
//! # let router = mcp_hyper::Router::new("clock", "1.0.0").tool("now", "Tells the time", async |mcp_hyper::NoArguments {}, _| {
//! #     mcp_hyper::Structured(Now { hour: 9, minute: 30 })
//! # });
//! # let Time { hour, minute } = mcp_proto::testing::pair(router).run(async |client| now(&client).await)?;
//! # assert_eq!((hour, minute), (9, 30));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Time | Default | Changed by |
//! |---|---|---|
//! | for an answer, or for the next report of progress | 30 s | `timeout`; `request_timeout` of the options |
//! | for an answer, whatever its progress | 10 min | `hard_timeout` |
//! | until the server is ready | 120 s | `ready_timeout` of the options |
//! | until a server of 2025-11-25 or earlier that hangs is noticed | never | `keepalive` of the options |
//!
//! Each call has exactly one outcome. [`Error::is_unsent`](crate::Error::is_unsent) says that the server cannot
//! have acted on it. A tool that fails is no error: [`failed`](crate::CallToolResult::failed) tells, and its text
//! is for the model.
//!
//! # Questions of the server
//!
//! A server may ask the user
//! ([elicitation](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation)) or the model
//! (sampling). A client declares what it has handlers for, and servers of every revision then ask:
//!
//! ```
//! use mcp_hyper::schema::{ElicitResult, Map};
//! use mcp_hyper::{ClientContext, ClientHandlers, ElicitParams};
//!
//! let handlers = ClientHandlers::new().elicitation(async |question: ElicitParams, _: ClientContext| {
//!     // Show it with the name of the server, and let the user choose.
//!     println!("{}", question.message());
//!     ElicitResult::accept(Map::new())
//! });
//! let options = mcp_hyper::ClientOptions::new("my-program", "1.0.0").handlers(handlers);
//! # drop(options);
//! ```
//!
//! # Changes
//!
//! [`Client::watch`](crate::Client::watch) reports changed lists and resources, in every revision. Over HTTP it opens a
//! lost stream again. It ends with its connection: when a child process exits, for example. `Watch::reopen` continues
//! it on the next connection, and a [host](super::host) makes those by itself.
//!
//! # Skills
//!
//! A server may offer skills: folders of instructions for a model. With the feature `skills` a client lists them, and reads
//! nothing before it is asked to. Each file that it reads must have the size and the digest that the server listed, and the
//! frontmatter of `SKILL.md` the listed fields; a file that is not listed is not requested. A server may require that the
//! client declares skills, by `declare_skills`.
//!
//! ```
//! use mcp_hyper::mcp_proto::skills::SkillManifest;
//! use mcp_hyper::schema::ClientCapabilities;
//! use mcp_hyper::{Client, ClientHandlers, ClientOptions, Error};
//!
//! let handlers = ClientHandlers::new().declare(ClientCapabilities::declare_skills);
//! let options = ClientOptions::new("my-program", "1.0.0").handlers(handlers);
//! # drop(options);
//!
//! async fn load(client: &Client, name: &str) -> Result<Option<String>, Error> {
//!     for entry in client.list_skills().await? {
//!         if entry.name() == name {
//!             let skill = SkillManifest::new(entry)?;
//!             let file = client.read_skill_file(&skill, skill.uri()).await?;
//!             return Ok(file.text().map(str::to_owned));
//!         }
//!     }
//!     Ok(None)
//! }
//! # let _ = load;
//! ```
//!
//! When the content is no longer what was listed, `Error::Skill` says which file differs, and `Client::get_skill` gets the
//! present entry. A name is only a label, and what a skill says is untrusted text of its server: a [host](super::host) shows
//! where each is from, and asks the user first. `mcpio skills --verify` checks those of a server.
//!
//! # More
//!
//! | To | Read |
//! |---|---|
//! | log in | [`authorization`](super::authorization) |
//! | read results in parts, from a server whose dialect has them | [`ClientOptions::chunked_results`](crate::ClientOptions::chunked_results) |
//! | use the servers of configuration files | [`host`](super::host) |
//! | test the program | [`testing`](super::testing) |
//! | show users what a command, a page or a tool would do | [`mcp_proto::consent`] |
