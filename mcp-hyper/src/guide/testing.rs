//! Testing your own server or client: without processes, without sockets, on simulated time.
//!
//! `mcp_proto::testing::pair` joins a router and a client. Neither an executor nor an adapter takes part: the pair
//! polls both sides, carries their bytes, and advances the clock when nothing else can happen. A timeout of an hour
//! takes no time, and a run can be repeated exactly.
//!
//! ```toml
//! [dev-dependencies]
//! mcp-proto = { version = "0.1", features = ["http", "testing"] }
//! ```
//!
//! It is the same `mcp-proto` that `mcp-smol` and `mcp-hyper` use, so that the code under test needs no changes, as
//! long as it takes a [`Client`](crate::Client) or returns a [`Router`](crate::Router) and leaves connecting to its
//! `main`.
//!
//! Each example below is the body of a `#[test]`.
//!
//! # A server
//!
//! The code under test is a function that returns the router.
//!
//! ```
//! use mcp_hyper::{HandlerError, Router};
//! use mcp_hyper::mcp_proto::testing;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn router() -> Router {
//!     Router::new("calculator", "1.0.0").tool("divide", "Divides two numbers", async |Divide { a, b }, _| {
//!         if b == 0.0 {
//!             return Err(HandlerError::new("the divisor is 0"));
//!         }
//!         Ok(a / b)
//!     })
//! }
//!
//! // The newest revision on a stream and over HTTP, and the legacy protocol on both.
//! let pair = || testing::pair(router());
//! for mut pair in [pair(), pair().http(), pair().legacy(), pair().http().legacy()] {
//!     let quotient = pair.run(async |client| client.call_tool("divide", json!({ "a": 6, "b": 3 })).await)?;
//!     assert_eq!(quotient.text_content(), "2");
//!
//!     // A tool that fails reports that in its result, for the model to read. The connection is still the same.
//!     let failure = pair.run(async |client| client.call_tool("divide", json!({ "a": 6, "b": 0 })).await)?;
//!     assert!(failure.failed());
//!     assert_eq!(failure.text_content(), "the divisor is 0");
//! }
//! # Ok::<(), mcp_hyper::Error>(())
//! ```
//!
//! `pair` panics if the router is invalid: two tools of one name, for example. Handlers that are not `Send` are tested
//! in the same way, with [`Router::local`](crate::Router::local).
//!
//! # The handlers of a client
//!
//! The code under test is a function that returns the [`ClientHandlers`](crate::ClientHandlers). The test is a server
//! that asks. The client of the pair declares what its handlers can answer, as that of an adapter does.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use mcp_hyper::schema::{ElicitResult, Map};
//! use mcp_hyper::{ClientContext, ClientHandlers, Context, ElicitParams, ElicitSchema, HandlerError, NoArguments, Router};
//! use mcp_hyper::mcp_proto::testing;
//! use serde_json::json;
//!
//! /// Shows each question in a dialog of the application, which returns whether the user agrees.
//! fn handlers(dialog: impl Fn(&str) -> bool + Clone + Send + Sync + 'static) -> ClientHandlers {
//!     ClientHandlers::new().elicitation(move |question: ElicitParams, cx: ClientContext| {
//!         let dialog = dialog.clone();
//!         async move {
//!             let server = cx.server().and_then(|server| server.implementation.as_ref());
//!             let name = server.map_or("A server", |server| server.display_name());
//!             match dialog(&format!("{name} asks: {}", question.message())) {
//!                 true => ElicitResult::accept(Map::new()),
//!                 false => ElicitResult::decline(),
//!             }
//!         }
//!     })
//! }
//!
//! /// A server whose tool returns the user's answer.
//! fn router() -> Router {
//!     Router::new("notes", "1.0.0").tool("delete", "Deletes everything", async |NoArguments {}, cx: Context| {
//!         let question = ElicitParams::form("Delete everything?", ElicitSchema::empty());
//!         let answer = cx.elicit("sure", question).await?;
//!         Ok::<_, HandlerError>(answer.action.to_string())
//!     })
//! }
//!
//! for (agrees, expected) in [(true, "accept"), (false, "decline")] {
//!     // Servers of 2026-07-28 ask in the result of a call, older ones by a request of their own.
//!     for pair in [testing::pair(router()), testing::pair(router()).legacy()] {
//!         let shown = Arc::new(Mutex::new(String::new()));
//!         let log = shown.clone();
//!         let mut pair = pair.handlers(handlers(move |text: &str| {
//!             *log.lock().unwrap() = text.to_owned();
//!             agrees
//!         }));
//!         let answer = pair.run(async |client| client.call_tool("delete", json!({})).await)?;
//!         assert_eq!(answer.text_content(), expected);
//!         assert_eq!(*shown.lock().unwrap(), "notes asks: Delete everything?");
//!     }
//! }
//! # Ok::<(), mcp_hyper::Error>(())
//! ```
//!
//! # Time
//!
//! A handler that waits takes its timer as a parameter: in the program that of the runtime, such as
//! `|time| async move { smol::Timer::after(time).await; }`, in a test that of a clock that the pair shares. Here progress
//! extends the timeout, and the hard timeout ends a call whatever its progress:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use mcp_hyper::{Context, Error, NoArguments, Router};
//! use mcp_hyper::mcp_proto::adapter::Clock;
//! use mcp_hyper::mcp_proto::testing::{self, SimulatedClock};
//! use serde_json::json;
//!
//! /// A tool that takes 200 s, and reports progress every 20 s.
//! fn router<F>(sleep: impl Fn(Duration) -> F + Clone + Send + Sync + 'static) -> Router
//! where
//!     F: Future<Output = ()> + Send + 'static,
//! {
//!     Router::new("reports", "1.0.0").tool("export", "Exports ten pages", move |NoArguments {}, cx: Context| {
//!         let sleep = sleep.clone();
//!         async move {
//!             for page in 1..=10 {
//!                 sleep(Duration::from_secs(20)).await;
//!                 cx.progress(page);
//!             }
//!             "exported"
//!         }
//!     })
//! }
//! # drop(router(|time| async move { smol::Timer::after(time).await; }));
//!
//! let clock = Arc::new(SimulatedClock::default());
//! let timer = clock.clone();
//! let router = router(move |time| {
//!     let timer = timer.clone();
//!     async move { timer.sleep(time).await }
//! });
//! let mut pair = testing::pair(router).clock(clock.clone());
//!
//! // No two reports are 30 s apart, which is the default timeout.
//! let result = pair.run(async |client| client.call_tool("export", json!({})).await)?;
//! assert_eq!(result.text_content(), "exported");
//!
//! let before = clock.now();
//! let call = async |client: mcp_hyper::Client| {
//!     client.call_tool("export", json!({})).hard_timeout(Duration::from_secs(60)).await
//! };
//! assert!(matches!(pair.run(call), Err(Error::TimedOut { hard_timeout: true, .. })));
//! assert_eq!(clock.now().saturating_since(before), Duration::from_secs(60));
//! # Ok::<(), Error>(())
//! ```
//!
//! # What else a test can set and see
//!
//! | Method of the pair | |
//! |---|---|
//! | `configure` | changes the configuration of the client: its timeouts, limits, cache |
//! | `network` | sets the latency, and the size of the pieces in which bytes arrive |
//! | `seed` | sets the seed of ids and keys: the same seed gives the same run |
//! | `transcript` | returns all messages so far with their times, a line each |
//!
//! A test that waits for something that cannot happen does not hang: it panics and quotes the last messages. Threads,
//! sockets and the timers of a runtime are not part of the simulation, whose time passes while they wait: a call whose
//! handler waits for one times out at once. Pass such things to the handler as parameters.
//!
//! ```
//! # use mcp_hyper::{Error, NoArguments, Router};
//! # use serde_json::json;
//! # use std::time::Duration;
//! let router = Router::new("reports", "1.0.0").tool("export", "Exports a page", async |NoArguments {}, _| {
//!     smol::Timer::after(Duration::from_secs(3600)).await;
//! });
//! let call = async |client: mcp_hyper::Client| client.call_tool("export", json!({})).await;
//! assert!(matches!(mcp_proto::testing::pair(router).run(call), Err(Error::TimedOut { .. })));
//! # // A test that cannot end.
//! # let stuck = std::panic::catch_unwind(|| {
//! #     let mut pair = mcp_proto::testing::pair(Router::new("reports", "1.0.0"));
//! #     pair.run(async |client| {
//! #         client.ready().await.unwrap();
//! #         std::future::pending::<()>().await;
//! #     });
//! # });
//! # let text = *stuck.unwrap_err().downcast::<String>().unwrap();
//! # assert!(text.starts_with("the test waits for something that cannot happen") && text.contains("server/discover"), "{text}");
//! # // An invalid router.
//! # let tool = || Router::new("reports", "1.0.0").tool("export", "", async |NoArguments {}, _| ());
//! # let twice = || tool().tool("export", "", async |NoArguments {}, _| ());
//! # assert!(std::panic::catch_unwind(|| mcp_proto::testing::pair(tool())).is_ok());
//! # assert!(std::panic::catch_unwind(|| mcp_proto::testing::pair(twice())).is_err());
//! ```
//!
//! # Below the front
//!
//! Adapters and programs that drive a machine themselves use `testing::Pair`, which joins two machines by a byte
//! stream, and `testing::http::HttpPair`, which joins them by HTTP and can delay, cut and refuse exchanges.
//! `SimulatedClock` and `CountingEntropy` make any driver of [`mcp_proto::adapter`] reproducible.
