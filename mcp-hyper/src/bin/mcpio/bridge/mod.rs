//! `mcpio connect`: a server on standard input and output that passes every message on to another server, for
//! applications that only start programs.
//!
//! Towards the application it is a router, towards the server a client; both speak either era, so that they need not
//! speak the same one. It begins with the application's first request: what the application declares there is declared
//! to the server, and what the server then declares is the answer.
//!
//! ```text
//! application → stdin → Router (calls) → Client → server
//!                     ← sampling, elicitation, roots (server_requests)
//!                     ← changes, log messages (notifications)
//! ```

mod calls;
mod notifications;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::Limits;
use mcp_proto::codec::{Line, Lines};
use mcp_proto::front::{Client, Context, Error, Event, Events, HandlerError, ServerHandle};
use mcp_proto::peer::InboundId;
use mcp_proto::peer::client::{ClientConfig, ServerInfo};
use mcp_proto::redact::Redactor;
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    ClientCapabilities, Implementation, Initialize, LoggingLevel, Method as _, Ping, ServerCapabilities,
    ServerCapability, meta,
};
use mcp_smol::{ServerOptions, Stdin, Stdout};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use smol::Timer;
use smol::channel::{self, Receiver, Sender};
use smol::future::{self, or};
use smol::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, Cursor};
use smol::lock::OnceCell;

use crate::connect::{self, ClientSetup, LoginPolicy};
use crate::error::{CommandError, Interrupts, Result};
use crate::options::{CommonOptions, LoginOptions};
use crate::reports::NonMessageCounter;
use crate::server_trace::ServerTrace;

use calls::{QueuedRequest, SuspendedCall};

pub(crate) const CONNECT: &str = "\
Be the server at a URL, or that of a command, on standard input and output

For applications that only start programs, in their configuration for example:

    {\"mcpServers\": {\"NAME\": {\"command\": \"mcpio\", \"args\": [\"connect\", \"https://example.com/mcp\"]}}}

If the server requires a login, its page opens in a browser, and its address is printed to standard error. Application \
and server need not speak the same era of the protocol: `mcpio connect -- COMMAND` translates for a program. It ends when \
the application closes standard input; with exit code 3 if the server cannot be connected, or its program ends.";

/// How long the server may take to be ready once the application has closed its side: as long as calls in flight then.
const GRACE: Duration = Duration::from_secs(2);

/// Most requests of a server of 2025-11-25 that wait until the application sends a request. Handlers of more wait.
const MAX_QUEUED: usize = 64;

/// What the handlers of both sides share.
struct Bridge {
    /// Whether the application's first request was one of 2026-07-28. It may yet open a legacy session.
    began_modern: bool,
    /// The client of the server, and the server as it describes itself, once it is known.
    server: OnceLock<(Client, Arc<ServerInfo>)>,
    /// The application's legacy session, once it is ready.
    session: OnceCell<ServerHandle>,
    /// The server's requests for an application of 2026-07-28, which takes them in the results of its own requests.
    server_requests: (Sender<QueuedRequest>, Receiver<QueuedRequest>),
    /// Requests that wait until earlier notifications are passed on: each sender is dropped then.
    waiting: (Sender<Sender<()>>, Receiver<Sender<()>>),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The calls of the server that wait until the application has answered, oldest first, by the state that it returns.
    suspended: VecDeque<(String, SuspendedCall)>,
    /// How many calls were suspended.
    count: u64,
    /// The requests of 2026-07-28 that are not answered, for the notifications that belong to one.
    running: BTreeMap<InboundId, Context>,
    /// The level that was set at a legacy server for an application of 2026-07-28.
    level: Option<LoggingLevel>,
}

impl Bridge {
    fn new(began_modern: bool) -> Arc<Self> {
        Arc::new(Self {
            began_modern,
            server: OnceLock::new(),
            session: OnceCell::new(),
            server_requests: channel::bounded(MAX_QUEUED),
            waiting: channel::unbounded(),
            state: Mutex::default(),
        })
    }

    fn server(&self) -> Result<(&Client, &ServerInfo), HandlerError> {
        let server = self.server.get().map(|(client, server)| (client, &**server));
        server.ok_or_else(|| HandlerError::new("the server is not connected"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for the one side, from the error of a call of the other.
fn handler_error(error: Error) -> HandlerError {
    match error {
        Error::Peer(error) => error.into(),
        error => error.into(),
    }
}

/// Serves standard input and output as the server of this command or at this URL, until the application closes them.
///
/// # Errors
/// If the server cannot be connected, which the application learns too, or is lost.
pub(crate) async fn connect(command: &[OsString], login: &LoginOptions, common: &CommonOptions) -> Result {
    let failed = CommandError::server_of("standard input and output");
    let (mut input, output) = mcp_smol::stdio().map_err(&failed)?;
    let Some(first) = FirstRequest::read(&mut input).await.map_err(failed)? else { return Ok(()) };
    let id = first.id.clone();
    // Until the server is ready.
    let mut streams = Some((input, output));
    let result = run(command, login, common, first, &mut streams).await;
    if let (Err(failure), Some((_, mut output))) = (&result, streams) {
        let error = json!({ "code": code::INTERNAL_ERROR, "message": failure.message() });
        let answer = format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        // If this fails, the application is gone.
        let _ = output.write_all(answer.as_bytes()).await;
        let _ = output.close().await;
    }
    result
}

async fn run(
    command: &[OsString],
    login: &LoginOptions,
    common: &CommonOptions,
    first: FirstRequest,
    streams: &mut Option<(Stdin, Stdout)>,
) -> Result {
    let bridge = Bridge::new(first.is_modern);
    let handlers = calls::handlers(&bridge, first.capabilities);
    let mut config = connect::client_config(common);
    config.info = first.info.unwrap_or(config.info);
    wait_for_ever(&mut config, common);
    let mut read = first.read;
    let setup = ClientSetup { config, handlers, login: LoginPolicy::Page(login), shows_stderr: true };
    let non_messages = NonMessageCounter::new();
    let mut interrupts = Interrupts::listen();
    let opening = connect::open(command, common, setup, non_messages.clone());
    let (client, driver, killer) = interrupts.until(opening).await?;
    let events = client.events();
    let passing = async {
        let Some(server) = until_ready(&client, &mut read, streams).await else { return Ok(()) };
        let server =
            server.map_err(|error| CommandError::from(error).with_sentence(non_messages.summary()))?;
        non_messages.ignore();
        let Some((input, output)) = streams.take() else { return Ok(()) };
        let _ = bridge.server.set((client.clone(), server.clone()));
        serve(&bridge, (&client, &server), events, (Cursor::new(read).chain(input), output), common).await
    };
    let result = interrupts.run(passing, client.close(), driver, killer.as_ref()).await;
    result.map_err(|failure| connect::with_hints(failure, command))
}

/// Waits for the server, for not much longer than the application does: `None` if that has closed its side.
async fn until_ready(
    client: &Client,
    read: &mut Vec<u8>,
    streams: &mut Option<(Stdin, Stdout)>,
) -> Option<Result<Arc<ServerInfo>, Error>> {
    let ended = async {
        if let Some((input, _)) = streams {
            read_to_end(input, read).await;
        }
        Timer::after(GRACE).await;
        None
    };
    or(async { Some(client.ready().await) }, ended).await
}

/// Serves the application until it closes its side, or the server is lost.
async fn serve(
    bridge: &Arc<Bridge>,
    (client, server): (&Client, &ServerInfo),
    events: Events<Event>,
    (input, output): (impl AsyncRead + Unpin, Stdout),
    common: &CommonOptions,
) -> Result {
    let capabilities = server.capabilities.clone().unwrap_or_else(every_capability);
    let options = ServerOptions::new(calls::router(bridge, server));
    let options = options.configure(|config| {
        config.capabilities = capabilities;
        config.recorder = ServerTrace::new(common, "stdio", Redactor::new()).recorder();
    });
    let (handle, serving) = options.stream(input, output);
    let lost = async {
        client.closed().await;
        // The calls that are lost are answered first.
        handle.close().await;
        future::pending().await
    };
    // From the first message on, which is handled before other notifications are.
    let requested = handle.events();
    let served = or(serving, or(lost, notifications::pass(bridge, &handle, events, requested))).await;
    bridge.state().suspended.clear();
    match future::poll_once(client.closed()).await {
        Some(lost) => Err(Error::Closed(lost).into()),
        None => served.map_err(CommandError::server_of("serving standard input and output")),
    }
}

/// The application has timeouts of its own. With `--timeout` the first that ends counts.
fn wait_for_ever(config: &mut ClientConfig, common: &CommonOptions) {
    if common.timeout.is_none() {
        config.request_timeout = Duration::MAX;
        config.request_hard_timeout = Duration::MAX;
    }
}

/// The capabilities of a server that does not say which it has.
fn every_capability() -> ServerCapabilities {
    [
        ServerCapability::Tools,
        ServerCapability::Prompts,
        ServerCapability::Resources,
        ServerCapability::Completions,
    ]
    .into_iter()
    .fold(ServerCapabilities::new(), ServerCapabilities::with)
}

// The first request of the application, which says who it is and what it can do.

/// The first request of the application.
#[derive(Debug, Default)]
struct FirstRequest {
    /// Its id; `null` if it is none.
    id: Value,
    /// The application's name and version, if it says them.
    info: Option<Implementation>,
    capabilities: ClientCapabilities,
    /// Whether it is a request of 2026-07-28, rather than `initialize`.
    is_modern: bool,
    /// Everything that was read: the request too, which is answered once the server is known.
    read: Vec<u8>,
}

#[derive(Deserialize)]
struct FirstMessage {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Map<String, Value>,
}

impl FirstRequest {
    /// Reads up to the first request other than `ping`; `None` if there is none.
    ///
    /// # Errors
    /// Those of the stream.
    async fn read(input: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let (mut read, mut lines) = (Vec::new(), Lines::new(Limits::default().message_bytes));
        loop {
            while let Some(line) = lines.poll_line() {
                let Line::Whole(line) = line else { continue };
                if let Some(first) = Self::of(&line) {
                    return Ok(Some(Self { read, ..first }));
                }
            }
            // The machine that reads it next refuses an oversized message.
            if is_full(&read) {
                return Ok(Some(Self { read, ..Self::default() }));
            }
            let scanned = read.len();
            if read_some(input, &mut read).await? == 0 {
                return Ok(None);
            }
            lines.handle_input(Bytes::copy_from_slice(read.get(scanned..).unwrap_or_default()));
        }
    }

    fn of(line: &[u8]) -> Option<Self> {
        let FirstMessage { id, method, params } = serde_json::from_slice(line).ok()?;
        let (id, method) = (id?, method.filter(|method| method != Ping::NAME)?);
        let is_modern = method != Initialize::NAME;
        let mut members = params;
        let (mut info, mut capabilities) = ("clientInfo", "capabilities");
        if is_modern {
            members = members.remove("_meta").and_then(decode).unwrap_or_default();
            (info, capabilities) = (meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES);
        }
        let info = members.remove(info).and_then(decode);
        let capabilities = members.remove(capabilities).and_then(decode).unwrap_or_default();
        Some(Self { id, info, capabilities, is_modern, read: Vec::new() })
    }
}

/// Reads on until the application has closed its side. It can be dropped at any time.
async fn read_to_end(input: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) {
    while !is_full(read) {
        if let Ok(0) | Err(_) = read_some(input, read).await {
            return;
        }
    }
    future::pending().await
}

async fn read_some(input: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) -> io::Result<usize> {
    let mut block = vec![0; 16 * 1024];
    let count = input.read(&mut block).await?;
    read.extend_from_slice(block.get(..count).unwrap_or_default());
    Ok(count)
}

fn is_full(read: &[u8]) -> bool {
    read.len() > Limits::default().message_bytes
}

fn decode<T: DeserializeOwned>(value: Value) -> Option<T> {
    // The types of the protocol are read from text alone.
    serde_json::from_str(&value.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::schema::ClientCapability;
    use smol::future::block_on;

    fn first(text: &str) -> Option<FirstRequest> {
        block_on(FirstRequest::read(&mut text.as_bytes())).unwrap()
    }

    #[test]
    fn first_request_names_the_application_and_its_capabilities() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let legacy =
            r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18",
            "capabilities":{"sampling":{}},"clientInfo":{"name":"desk","version":"1"}}}"#
                .replace('\n', "");
        let modern = r#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientInfo":{"name":"desk","version":"1"},
            "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}"#
            .replace('\n', "");
        for (request, is_modern) in [(legacy, false), (modern, true)] {
            let text = format!("{ping}\n\nnoise\n{request}\n{ping}\n");
            let found = first(&text).unwrap();
            assert_eq!((found.is_modern, found.info.unwrap().name), (is_modern, "desk".to_owned()));
            assert!(found.capabilities.has(ClientCapability::Sampling));
            assert_eq!(found.read, text.as_bytes());
        }
    }

    #[test]
    fn application_that_sends_no_request_has_no_first_request() {
        for text in ["", "\n", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "[]\n"] {
            assert!(first(text).is_none(), "{text}");
        }
        let endless = "x".repeat(Limits::default().message_bytes + 1);
        assert_eq!(first(&endless).unwrap().id, Value::Null);
    }
}
