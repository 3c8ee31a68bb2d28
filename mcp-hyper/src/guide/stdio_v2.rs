//! `stdio-v2`: HTTP/2 over the standard streams of a child process. **Experimental**: a prototype of what the Transports
//! Working Group tries as the next transport of programs; it may change in any version.
//!
//! The program speaks Streamable HTTP over HTTP/2 with prior knowledge, from the first byte on: its standard input has
//! the requests, its standard output the responses, standard error is free text as before. Requests, event streams and
//! messages of the server share the two pipes; a large result does not hold up the small ones beside it, and a server
//! has one protocol for pipes and for the network. Nothing is negotiated: the configuration says which of the two
//! transports a program speaks.
//!
//! # A server
//!
//! With the feature `stdio-v2` of `mcp-hyper`:
//!
//! ```no_run
//! use mcp_hyper::Router;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_hyper::ServeError> {
//!     let router = Router::new("calculator", "1.0.0")
//!         .tool("add", "Adds two numbers", async |Add { a, b }, _| a + b);
//!     smol::block_on(mcp_hyper::serve_stdio_v2(router))
//! }
//! ```
//!
//! It ends with its input. Requests may go to any path and host; clients of this project send them to
//! `http://localhost/mcp`. Nothing else may be written to standard output: use standard error for logs.
//! `ServerOptions::stdio_v2` takes options, and `HttpService::http2_connection` any stream.
//!
//! # A client
//!
//! ```no_run
//! use mcp_hyper::ClientOptions;
//! use mcp_smol::Command;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! smol::block_on(async {
//!     let server = Command::new("my-server");
//!     let (client, driver) = ClientOptions::new("my-host", "1.0.0").connect_command_v2(server)?;
//!     let driver = smol::spawn(driver);
//!     println!("{} tools", client.list_tools().await?.len());
//!     client.close().await;
//!     // The program has exited.
//!     driver.await?;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! `ClientOptions::connect_stream` takes a stream: a `mcp_smol::ChildStream` shows each line of standard error and can be
//! killed. A host's entry has `"type": "stdio-v2"` beside its `command`. On the command line, `mcpio serve --stdio-v2` is such a
//! server, `mcpio tools --stdio-v2 -- COMMAND` calls one, and `mcpio connect --stdio-v2 -- COMMAND` makes one usable for
//! applications that know lines alone.
//!
//! # What ends, and how it is reported
//!
//! | What | On the wire | The client |
//! |---|---|---|
//! | a call is cancelled | RST_STREAM, in sessions of 2025-11-25 `notifications/cancelled`; the handler is dropped | its future is gone; a response that was under way is discarded |
//! | one stream fails | RST_STREAM | that call alone fails |
//! | the connection breaks, and the program still runs | GOAWAY, or the pipes close | all calls and the driver fail with the reason, and the program is ended |
//! | the server goes away in good order | GOAWAY without an error | open calls end as usual, later ones fail after their [attempts](mcp_proto::transport::http::client::HttpClientConfig::backoff); then the client ends |
//! | the program prints text between the frames | | all calls and the driver fail with [`Failed`](mcp_proto::peer::LostReason::Failed), which names the cause |
//! | the program exits or is killed | the pipes close | the same, with exit status and the last lines of standard error |
//! | the client is closed | GOAWAY, then the end of input | the driver ends once the program has exited; by SIGTERM if it does not |
//! | the program speaks lines, or prints something else first | | [`WrongTransport`](mcp_proto::peer::LostReason::WrongTransport) at once: a host does not start it again |
//! | the client speaks lines | an empty SETTINGS frame | the program says so on standard error and exits; clients of this project fail with `WrongTransport` |
//!
//! A program that speaks lines and answers nothing to HTTP/2 fails the client once the first request times out, after
//! [`initialize`](mcp_proto::peer::client::ConnectTimeouts::initialize) (60 s); the error says that it has sent nothing. While
//! a client reads a stream slowly, its window of 256 KiB fills and the server waits; other streams pass on. After
//! [`write_timeout`](crate::ServerLimits::write_timeout) (30 s) without a byte read, the server resets that stream. A server
//! that reads nothing fails calls by their timeouts. Metadata stands where it does for every server at a URL: of 2026-07-28 in
//! the `_meta` of the body, which counts, and its version, method and name in headers too, for what stands between. A request
//! whose headers say something else is refused.
//!
//! # What a call costs
//!
//! A `tools/call` of 100 bytes and its result, by both processes together, on Linux. `cargo bench -p mcp-hyper --features cli
//! --bench stdio_v2` shows the calls per second, the two transports in turn in one run; its `--repeat` is for profilers.
//!
//! | | lines | `stdio-v2` |
//! |---|--:|--:|
//! | instructions, 2026-07-28, one at a time | 51 k | 166 k |
//! | instructions, 2025-11-25, 64 in flight | 35 k | 159 k |
//! | calls per second, 2026-07-28, one at a time · 64 in flight | 1 · 1 | 0.21 · 0.26 |
//! | bytes, 2026-07-28 · 2025-11-25 | 731 · 398 | 794 · 493 |
//! | writes, 2026-07-28, one at a time · 64 in flight | 2 · 0.03 | 3 · 0.08 |
//! | memory of a client, at most | 8.2 MB | 9.9 MB |
//! | the program of a server with one tool, thin LTO, stripped | 2.7 MB | 4.5 MB |
//!
//! HTTP/2 itself (the crates `h2`, `hyper`, `http` and `bytes`, without the memory that they copy and allocate) takes about 60 k
//! of these instructions, more than a whole call by lines: twice the cost of lines, the aim, is out of reach with them.
