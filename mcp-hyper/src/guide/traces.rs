//! Traces: the traffic of any client and server in a file, and the requirements that it breaks.
//!
//! # A server that an application starts
//!
//! `mcpio tap` stands between the two. In the application's configuration it comes before the command of the server, where
//! `mcpio tap install` puts it:
//!
//! ```text
//! $ mcpio tap install --trace-file /tmp/example.trace cursor example
//! /home/ann/.cursor/mcp.json
//! -     "example": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"] }, // mine
//! +     "example": { "command": "/usr/bin/mcpio", "args": ["tap", "--trace-file", "/tmp/example.trace", "--", "npx", "-y", …
//! From its next start on, the server writes /tmp/example.trace.
//! To see it live: mcpio trace --follow /tmp/example.trace
//! To undo: mcpio tap remove cursor example
//! ```
//!
//! `--dry-run` shows the difference alone. It knows the files of `host::discover`; another file is named by
//! its path. Everything else in the file stays, comments and spaces included, and so do the variables of the entry: no secret
//! becomes an argument. `mcpio tap remove` restores each byte. The file is replaced at once, unless it was changed in between
//! (`host::replace_file`); it is left alone if the server is in several files, or a name is there twice.
//! While a session writes the file, another one writes `example.2.trace` beside it, and says so on standard error; the next
//! session alone takes the place of the first. In a program, `host::config::CommandText` of `mcp-proto` edits a command.
//!
//! Every byte passes on as it is, also what is no message; so do standard error, closed pipes, SIGINT, SIGTERM and SIGHUP,
//! and the exit code. At Ctrl-C the terminal itself sends SIGINT to the server too, and `tap` sends no second one. The server
//! has the whole environment of `tap`. The file is written as the session goes on, for its owner's eyes alone; what comes
//! faster than it can be written is left out, and the file says so.
//!
//! Secrets are hidden before anything is written: by the rules of [`mcp_proto::redact`], and besides the values of variables
//! and of options of the command that are named like secrets, such as `API_KEY` and `--api-key`, wherever they stand. Of a
//! text above 64 KiB that is not JSON, only its length and a digest of the whole are written; of JSON above 16 MiB, and of longer
//! text that begins as JSON and breaks off, the beginning. Sessions, tasks, cursors, states of requests and ids of events have
//! pseudonyms, such as `[id:4f1c25d0a3b1e8f2]`: the same ones have the same pseudonym in a trace, and nobody
//! learns them from it, since the key is not kept. Look through a trace before you send it to somebody, since a secret that has
//! no sign of one is shown.
//!
//! ```text
//! $ mcpio trace /tmp/example.trace
//! connection 1: npx @modelcontextprotocol/server-everything over stdio, 2025-11-25
//! AT       REQUEST              TOOK    OUTCOME
//! 0.004 s  → initialize         412 ms  answered
//! 0.418 s  → tools/list         3 ms    answered
//! 0.440 s  → tools/call get-sum 2 ms    answered
//! 0.401 s, the server sent a text that is no message: not JSON: expected a value at byte 0
//!     S2.1 https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
//! ```
//!
//! `→` is a request of the client, `←` one of the server. Below the table stand requests that took far longer than
//! the others, and how many have no answer. `--json` prints the same for programs, with the requests, their
//! times and the broken requirements; `--mermaid` a sequence diagram. A connection is named by its program, and by the package
//! that `npx` and the like run. The exit code is 1 if a requirement was broken.
//!
//! `mcpio trace --follow FILE` shows in another terminal what passes, from the beginning of the trace on, and goes on with the
//! file that takes its place, until Ctrl-C. It may be started before there is a trace.
//!
//! # A server at a URL
//!
//! `mcpio tap URL` prints a URL of its own, to be given to the client in the place of the server's, and passes requests on:
//!
//! ```text
//! $ mcpio tap --trace-file /tmp/example.trace https://example.com/mcp
//! Passing requests on to https://example.com/mcp until Ctrl-C, from:
//! http://127.0.0.1:38211/5b0c8a1e2f9d4c7788a1b2c3d4e5f607/mcp
//! ```
//!
//! Requests and answers pass as they are, event streams piece by piece, as fast as the client reads; a client that closes its
//! connection ends the request at the server. Only the headers of a single connection and those that name the address change,
//! and `accept-encoding` is left out, so that the trace can be read. The path is a secret of each start, and requests that a web
//! page has sent are refused. As the URL is another one at each start, `mcpio tap install` does not change servers at a URL.
//! HTTP+SSE of 2024-11-05, whose server names a second URL, and WebSocket are not supported. While 256 connections of
//! clients are open, others are answered with status 503.
//!
//! The client cannot log in through it: a client asks for a token for the URL that it uses, and has to refuse a server whose
//! metadata names another one ([RFC 9728](https://www.rfc-editor.org/rfc/rfc9728#section-3.3)); a server has to refuse a token
//! that was issued for another resource. So `mcpio` logs in by itself: it uses the tokens of `mcpio login`, or opens the page of
//! a login at the first refusal. A fixed key or token needs none of this: it passes if the client's configuration has it, and
//! `--header-env`, `--header-file` or `--header` add it. In a program, `ClientOptions::forward` does the same.
//!
//! # All of it, in a browser
//!
//! `mcpio trace FILE --html FILE.html` writes one page with the whole trace. It needs no other file and no network; its content
//! security policy lets it load nothing, and texts of peers are texts in it, with control characters spelled out. So it may be
//! opened where the trace comes from somebody else, and be sent to somebody like the trace itself.
//!
//! - *Sequence* has a lane for each connection, with its era, and each message as an arrow from its sender.
//! - *Requests* has them as bars on a line of time; a click on `took` puts the slowest and those without an answer first.
//! - *Findings* has the broken requirements, with the pages that state them.
//!
//! Search looks through all payloads. Filters are the connection, the method, the outcome, the sender, the kind of message, and a
//! part of the time, by dragging over the overview. A chosen message is on the right: its payload as JSON in lines, with each
//! number and each member as it was sent. All works by keys: `/` searches, `1` `2` `3` change the view, arrows choose, `g` goes
//! from a request to its answer, `n` to the next finding, Escape resets. The largest trace (64 MiB) is a page of half its size.
//!
//! # Other tools
//!
//! `mcpio trace --har FILE > FILE.har` writes the exchanges over HTTP as an archive, which the network view of browsers
//! opens; connections on standard streams and WebSockets are left out, and named. `--otlp` writes the requests as spans of
//! OpenTelemetry, under the spans that `traceparent` names, for a collector:
//!
//! ```text
//! $ mcpio trace --otlp /tmp/example.trace | curl -H 'Content-Type: application/json' -d @- http://localhost:4318/v1/traces
//! ```
//!
//! In a program, `Trace::to_har` and `Trace::to_otlp` write the same.
//!
//! # The recorded server
//!
//! `mcpio mock FILE` is the server of a trace, for tests of clients: on standard input and output, or over HTTP as `mcpio serve`.
//! It describes itself as that server did and gives its answers, with the progress, log messages and requests that came
//! before them, to clients of any revision. A request that is not recorded is refused, with the recorded ones:
//!
//! ```text
//! $ mcpio call get-sum a=2 b=4 -- mcpio mock good.trace
//! mcpio: the peer answered with an error: the recording lacks tools/call {"name":"get-sum","arguments":{"a":2,"b":4}}: it has
//! {"name":"get-sum","arguments":{"a":2,"b":3}} (-32602)
//! ```
//!
//! # The recorded client
//!
//! `mcpio replay FILE -- COMMAND` makes the requests of a trace again, of a live server, and compares the answers by their meaning:
//! `_meta`, cursors, ids that programs make up, times, the order of members and of named items may differ, and `--ignore
//! POINTER` adds to that. It only reads; `--calls NAME` and `--read-only-calls` call tools. A request with a value that the
//! trace hides is not made. Without a server the recorded one answers: a test of this client. Exit code 1 says that an answer
//! differs; `--json` is for programs.
//!
//! A trace is a test of a router in a line:
//!
//! ```no_run
//! # fn router() -> mcp_proto::Router { mcp_proto::Router::new("example", "1.0.0") }
//! # let session = std::fs::read("session.trace").unwrap();
//! // In a test: `include_bytes!("session.trace")`.
//! mcp_proto::testing::replay(router(), session);
//! ```
//!
//! # A walk: a fault, and where it comes from
//!
//! A server works, and its session is recorded while it does:
//!
//! ```text
//! $ mcpio call get-sum a=2 b=3 -- mcpio tap --trace-file good.trace -- npx -y @modelcontextprotocol/server-everything
//! The sum of 2 and 3 is 5.
//! ```
//!
//! A later version of it (here one with two planted faults) makes an application complain. Its session, recorded by `tap` in
//! the application's configuration, says what is wrong on the wire:
//!
//! ```text
//! $ mcpio trace bad.trace
//! connection 1: node over stdio, 2025-11-25
//! AT       REQUEST               TOOK    OUTCOME
//! 0.009 s  → server/discover     320 ms  error -32601: Method not found
//! 0.329 s  → initialize          13 ms   answered
//! 0.345 s  → tools/list          13 ms   answered
//! 0.361 s  → tools/call get-sum  3 ms    answered
//! 0.363 s, the server sent a text that is no message: not JSON: expected a value at byte 0
//!     S2.1 https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
//! ```
//!
//! `mcpio trace bad.trace --html bad.html` shows the same on a page, with the text as it was sent:
//!
#![doc = concat!(
    "<img alt=\"The page: the sequence of the messages, and what is wrong with the chosen one\" ",
    "src=\"data:image/png;base64,",
    include_str!("trace_page.png.base64"),
    "\">"
)]
//!
//! It logs to standard output. That is not all; the good session, made again with the new version, shows the rest:
//!
//! ```text
//! $ mcpio replay good.trace --read-only-calls -- node server-everything/dist/index.js
//! REQUEST             ANSWER
//! initialize          the same
//! tools/list          the same
//! tools/call get-sum  differs
//! tools/call get-sum: /result/content/0/text: recorded "The sum of 2 and 3 is 5.", now "The sum of 2 and 3 is -1."
//! mcpio: an answer differs
//! ```
//!
//! Whether the application copes with a server that is right can be tried without one: `mcpio mock good.trace` is in its
//! configuration in the place of the server.
//!
//! # A bug report
//!
//! `mcpio bundle bad.trace` writes `bad.bundle`: the trace, redacted again, with the versions of this program and of the protocol, the
//! system, and the names of the environment's variables, not their values. It first shows the contents, and asks.
//! The file is a trace: `mcpio trace`, `replay` and `mock` read it.
//!
//! # A client of yours
//!
//! Each command of `mcpio` takes `--trace-file FILE`, over HTTP too. In a program, a host writes one file for all of its
//! servers, with the standard error of those that are programs:
//!
//! ```no_run
//! use mcp_hyper::host::{HostOptions, TraceFile};
//!
//! let trace = TraceFile::create("servers.trace", "my-agent 1.0.0")?;
//! let options = HostOptions::new("my-agent", "1.0.0").trace(trace);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `TraceFile::observer` traces a single client. A thread of low priority removes the secrets and writes the file: a slow or full
//! disk ends the trace, and holds no message up. At 64 MiB the file begins anew, and the one before stays beside it.
//! `TraceFile::to_sink` writes to whatever takes lines, such as a pipe, instead of a file. Call `TraceFile::flush` at the end.
//!
//! A server has the same on its side: `ServerOptions::on_wire` with the observer of a `TraceFile::connection_of_server`, over HTTP
//! with those of a `TraceFile::http_server`, whose trace has a connection for each session, and one for the requests of each socket that
//! have no session. `--trace-file` of `mcpio serve` and `mcpio mock` does that; that of `mcpio connect` has its side as a client.
//!
//! # The same again, bit for bit
//!
//! A fault of this implementation, or one that depends on time, is found best where it happens again. With `--trace-raw` the
//! file of `--trace-file` also has each step of the machine of the client, or of a server (`mcpio serve`, `connect`): what it was
//! given (bytes as they came, commands, times) and what came out (bytes, events, timeouts). `mcpio replay` runs the machine
//! again, without a network and in no time, and shows the first step that is another one:
//!
//! ```text
//! $ mcpio call add a=2 b=3 --trace-file /tmp/raw.trace --trace-raw -- example-server
//! the trace /tmp/raw.trace will have credentials and other secrets in it: keep it to yourself
//! 5
//! $ mcpio replay /tmp/raw.trace
//! 1 machine did the same again, in 41 steps
//! ```
//!
//! The same version with the same features is needed. **Such a trace has all secrets**, and a warning says so. A server over HTTP
//! has a machine for each exchange and for each session. What they share is recorded where it is asked: the answers of handlers
//! and stores are commands, and so are published changes; whether the byte budget had room, and who may subscribe, are answers.
//! What is answered before a machine has the request is not in it: rates, guards, and sessions that do not exist. In a program,
//! `TraceFile::with_secrets` writes one, `ClientConfig::recorder` and
//! `ServerConfig::recorder` take any sink, and `mcp_proto::transport::replay_machines` runs it. A program that panicked leaves the step at
//! which it did as the last one.
//!
//! # Reading a trace
//!
//! A trace is lines of JSON: `mcp_proto::trace_file` describes and reads them, `mcp_proto::trace_file::SCHEMA` is their JSON
//! Schema, and `Trace::report` pairs requests with their answers:
//!
//! ```
//! use mcp_hyper::mcp_proto::trace_file::{RequestOutcome, Trace};
//!
//! # let file = br#"{"mcpTrace":1,"started":1764169200000,"program":"test","redacted":true}
//! # {"at":20,"connection":1,"event":"message","from":"client","frame":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"}
//! # "#;
//! let report = Trace::parse(file)?.report();
//! let unanswered = report.requests.iter().filter(|request| request.outcome == RequestOutcome::Unanswered);
//! assert_eq!(unanswered.count(), 1);
//! # Ok::<(), mcp_hyper::mcp_proto::trace_file::TraceError>(())
//! ```
