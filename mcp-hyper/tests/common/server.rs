//! A server on its own port, and a client of raw bytes. Every wait has a timeout.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use mcp_hyper::mcp_proto::front::{Context, NoArguments, Router};
use mcp_hyper::mcp_proto::schema::{ServerCapability, Tool};
use serde_json::{Value, json};

use super::runtime::{ServerListener, TestRuntime, server_listener, within};

/// Nothing on a loopback takes this long.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `done`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One end of a connection that is no server's: a Unix socket, or a loopback connection on Windows.
#[cfg(unix)]
pub type Pipe = smol::net::unix::UnixStream;
#[cfg(windows)]
pub type Pipe = smol::net::TcpStream;

/// Both ends of a connection.
pub fn pipe() -> (Pipe, Pipe) {
    #[cfg(unix)]
    return Pipe::pair().unwrap();
    #[cfg(windows)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let polled = |stream| smol::Async::new(stream).unwrap().into();
        (polled(ours), polled(listener.accept().unwrap().0))
    }
}

/// A client's connection.
pub struct RawClient {
    pub stream: TcpStream,
    read: Vec<u8>,
    /// The received part of an event stream.
    events: String,
}

/// An answer, as far as its head.
#[derive(Debug)]
pub struct ResponseHead {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl ResponseHead {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

impl RawClient {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, read: Vec::new(), events: String::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Posts a body with the usual headers and those of `more`, lines with their ends.
    pub fn post(&mut self, path: &str, more: &str, body: &str) {
        self.send(format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{more}content-length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut buf = [0; 16 * 1024];
        let count = self.stream.read(&mut buf)?;
        self.read.extend_from_slice(&buf[..count]);
        Ok(count)
    }

    /// Everything until `end`, inclusive.
    pub fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end.as_bytes()) {
                return String::from_utf8(self.read.drain(..at + end.len()).collect()).unwrap();
            }
            let count = self.fill().unwrap();
            assert!(count > 0, "no {end:?} in {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    pub fn exactly(&mut self, bytes: usize) -> String {
        while self.read.len() < bytes {
            assert!(self.fill().unwrap() > 0, "the answer breaks off");
        }
        String::from_utf8(self.read.drain(..bytes).collect()).unwrap()
    }

    pub fn head(&mut self) -> ResponseHead {
        let text = self.until("\r\n\r\n");
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        ResponseHead { status, headers }
    }

    /// A whole answer.
    pub fn answer(&mut self) -> (ResponseHead, String) {
        let head = self.head();
        let body = match head.get("content-length") {
            Some(length) => self.exactly(length.parse().unwrap()),
            None if head.get("transfer-encoding").is_some() => {
                let mut body = String::new();
                while let Some(chunk) = self.chunk() {
                    body.push_str(&chunk);
                }
                body
            }
            None => String::new(),
        };
        (head, body)
    }

    /// The next piece of a chunked body.
    pub fn chunk(&mut self) -> Option<String> {
        let length = usize::from_str_radix(self.until("\r\n").trim_end(), 16).unwrap();
        let chunk = self.exactly(length);
        assert_eq!(self.until("\r\n"), "\r\n");
        (length > 0).then_some(chunk)
    }

    /// Waits for the server to close the connection, in whatever way.
    pub fn closed(&mut self) -> bool {
        loop {
            match self.fill() {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return true,
                Err(_) => return false,
            }
        }
    }
}

/// A listener of the tests' runtime, and where it listens.
pub fn listener() -> (ServerListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (server_listener(listener), address)
}

/// A listener of smol, whichever the tests' runtime is, and where it listens.
pub fn smol_listener() -> (smol::net::TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.try_into().unwrap(), address)
}

/// Options of a server on the tests' runtime.
pub fn serving<H: mcp_hyper::ServerMode>(
    router: impl Into<mcp_hyper::mcp_proto::front::ServedRouter<H>>,
) -> mcp_hyper::ServerOptions<H> {
    mcp_hyper::ServerOptions::new(router).runtime(TestRuntime)
}

/// Runs a server's future on a thread.
pub fn run(driver: impl Future<Output = io::Result<()>> + Send + 'static) -> JoinHandle<io::Result<()>> {
    std::thread::spawn(|| smol::block_on(within(driver)))
}

/// Waits for it to end.
pub fn ended(server: JoinHandle<io::Result<()>>) -> io::Result<()> {
    wait_until("the driver ends", || server.is_finished());
    server.join().unwrap()
}

/// Where hyper's client runs its connection of HTTP/2.
#[derive(Clone, Copy)]
pub struct Spawn;

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Spawn {
    fn execute(&self, future: F) {
        smol::spawn(future).detach();
    }
}

pub type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

/// A client of HTTP/2 on any stream.
pub async fn http2<S>(stream: S, tune: impl FnOnce(&mut hyper::client::conn::http2::Builder<Spawn>)) -> Sender
where
    S: smol::io::AsyncRead + smol::io::AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = hyper::client::conn::http2::Builder::new(Spawn);
    tune(&mut builder);
    let (sender, connection) = builder.handshake(smol_hyper::rt::FuturesIo::new(stream)).await.unwrap();
    smol::spawn(connection).detach();
    sender
}

/// A POST with the usual headers and those of `more`, lines with their ends.
pub fn request(more: &str, body: &str) -> hyper::Request<Full<Bytes>> {
    let mut request = hyper::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in more.lines().map(|line| line.split_once(": ").unwrap()) {
        request = request.header(name, value);
    }
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

/// A log of the handlers.
#[derive(Clone, Default)]
pub struct HandlerLog(Arc<[AtomicUsize; 2]>);

impl HandlerLog {
    /// Calls of `wait` that have begun.
    pub fn begun_calls(&self) -> usize {
        self.0[0].load(SeqCst)
    }

    /// Calls of `wait` that are over, whether they came to an end or were dropped.
    pub fn ended_calls(&self) -> usize {
        self.0[1].load(SeqCst)
    }

    fn begin(&self) -> Running {
        self.0[0].fetch_add(1, SeqCst);
        Running(self.clone())
    }
}

struct Running(HandlerLog);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0[1].fetch_add(1, SeqCst);
    }
}

#[derive(serde::Deserialize)]
struct Echo {
    message: String,
}

#[derive(serde::Deserialize)]
struct Size {
    bytes: usize,
}

/// `echo` says what it is told; `report` reports progress first; `big` says much; `wait` never answers, `soon` after a
/// moment.
pub fn router(log: &HandlerLog) -> Router {
    let tool = |name: &str| Tool::new(name, "", json!({ "type": "object" }));
    let (wait, soon) = (log.clone(), log.clone());
    Router::new("server", "1")
        .declare(ServerCapability::ToolsListChanged)
        .tool_with(tool("echo"), async |Echo { message }, _| message)
        .tool_with(tool("report"), async |Echo { message }, cx: Context| {
            cx.progress(1);
            message
        })
        .tool_with(tool("big"), async |Size { bytes }, _| "x".repeat(bytes))
        .tool_with(tool("wait"), move |NoArguments {}, cx: Context| {
            let running = wait.begin();
            async move {
                cx.progress(1);
                std::future::pending::<()>().await;
                drop(running);
                "never"
            }
        })
        .tool_with(tool("soon"), move |NoArguments {}, _| {
            let running = soon.begin();
            async move {
                smol::Timer::after(Duration::from_millis(300)).await;
                drop(running);
                "done"
            }
        })
}

/// A `tools/call` of 2026-07-28: the headers that mirror it, and its body.
pub fn call(tool: &str, arguments: &Value, progress: Progress) -> (String, String) {
    let mut meta = meta();
    if let Progress::Wanted = progress {
        meta["progressToken"] = json!("token");
    }
    modern("tools/call", tool, json!({ "name": tool, "arguments": arguments, "_meta": meta }))
}

/// Whether a call asks for progress, and so for a stream.
#[derive(Clone, Copy)]
pub enum Progress {
    Wanted,
    Unwanted,
}

/// A subscription to the changes of the list of tools.
pub fn listen() -> (String, String) {
    let notifications = json!({ "toolsListChanged": true });
    modern("subscriptions/listen", "", json!({ "notifications": notifications, "_meta": meta() }))
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn modern(method: &str, name: &str, params: Value) -> (String, String) {
    let mut headers = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n");
    if !name.is_empty() {
        headers.push_str(&format!("mcp-name: {name}\r\n"));
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    (headers, body.to_string())
}

/// The headers of a request in a session of 2025-11-25.
pub fn in_session(session: &str) -> String {
    format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n")
}

/// How a client of 2025-11-25 begins.
fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

/// The text of a tool's result.
pub fn text(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
}

impl RawClient {
    /// Calls a tool at `/mcp`.
    pub fn call(&mut self, tool: &str, arguments: &Value, progress: Progress) {
        let (headers, body) = call(tool, arguments, progress);
        self.post("/mcp", &headers, &body);
    }

    /// Has `echo` say something, and checks that it does.
    pub fn echo(&mut self, message: &str) {
        self.call("echo", &json!({ "message": message }), Progress::Unwanted);
        let (head, body) = self.answer();
        assert_eq!((head.status, &*text(&body)), (200, message));
    }

    /// Opens a session of 2025-11-25; returns its id.
    pub fn initialize(&mut self) -> String {
        self.post("/mcp", "", &initialize().to_string());
        let (head, body) = self.answer();
        assert_eq!(head.status, 200, "{body}");
        let session = head.get("mcp-session-id").unwrap().to_owned();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.post("/mcp", &in_session(&session), &initialized.to_string());
        assert_eq!(self.answer().0.status, 202);
        session
    }

    /// Lets go of buffers that nothing is in.
    pub fn forget(&mut self) {
        self.read.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// The data of the next event of a stream; comments are passed over.
    pub fn event(&mut self) -> Value {
        loop {
            while let Some(end) = self.events.find("\n\n") {
                let event: String = self.events.drain(..end + 2).collect();
                let data: String = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                // The first one of a stream that can be resumed has none.
                if !data.is_empty() {
                    return serde_json::from_str(&data).unwrap();
                }
            }
            let more = self.chunk().expect("the stream goes on");
            self.events.push_str(&more);
        }
    }
}

/// Runs it for [`PATIENCE`] at most.
pub fn bounded<T>(future: impl Future<Output = T>) -> T {
    smol::block_on(smol::future::or(future, async {
        smol::Timer::after(PATIENCE).await;
        panic!("still not done")
    }))
}

/// [`wait_until`] without blocking.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "this never happened: {what}");
        smol::Timer::after(Duration::from_millis(1)).await;
    }
}
