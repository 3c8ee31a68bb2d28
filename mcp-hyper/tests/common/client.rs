//! A client, and a server whose bytes the test writes.

use std::future::Future;
use std::time::Duration;

use futures_lite::future::or;
use futures_lite::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use mcp_hyper::mcp_proto::front::{Client, Error};
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use mcp_hyper::mcp_proto::transport::http::client::ListenPolicy;
use mcp_hyper::{ClientDriver, ClientOptions, Proxy, Runtime};
use serde_json::{Value, json};
use smol::Timer;
use smol::net::{TcpListener, TcpStream};

use super::runtime::{TestRuntime, within};

/// Runs it for ten seconds at most.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    smol::block_on(or(within(future), async {
        Timer::after(Duration::from_secs(10)).await;
        panic!("still not done after ten seconds")
    }))
}

pub type TestOptions = ClientOptions<mcp_hyper::mcp_proto::front::SendHandlers, TestRuntime>;

/// A client that speaks to modern servers alone and asks no proxy.
pub fn modern() -> TestOptions {
    ClientOptions::new("test", "1")
        .runtime(TestRuntime)
        .era_policy(EraPolicy::ModernOnly)
        .proxy(Proxy::none())
}

/// A client that speaks to legacy servers alone, does not listen and asks no proxy.
pub fn legacy() -> TestOptions {
    let options = ClientOptions::new("test", "1")
        .runtime(TestRuntime)
        .era_policy(EraPolicy::LegacyOnly)
        .proxy(Proxy::none());
    options.configure(|config| config.listen = ListenPolicy::Never)
}

/// Connects, and has the driver polled beside the test.
pub fn connect<R: Runtime>(
    options: ClientOptions<mcp_hyper::mcp_proto::front::SendHandlers, R>,
    url: &str,
) -> (Client, smol::Task<Result<(), Error>>)
where
    ClientDriver<mcp_hyper::mcp_proto::front::SendHandlers, R>: Send,
{
    let (client, driver) = options.connect(url).unwrap();
    (client, smol::spawn(within(driver)))
}

pub async fn call(client: &Client) -> Result<String, Error> {
    client.call_tool("tool", json!({})).await.map(|result| result.text_content())
}

/// A listener of this test's own, and the URL of a server there.
pub async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    (listener, url)
}

/// A request as it came over the wire.
#[derive(Debug)]
pub struct Request {
    /// The first line.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} is there twice: {self:?}");
        all.first().copied()
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// The answer to a request; that of a call is `text`.
    pub fn answer(&self, text: &str) -> Value {
        answer_to(&self.body, text)
    }
}

pub fn answer_to(request: &Value, text: &str) -> Value {
    let result = match request["method"].as_str().unwrap() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private"
        }),
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "server", "version": "1"}
        }),
        _ => json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] }),
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

/// The server's side of a connection.
pub struct ServerConnection<S> {
    pub stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ServerConnection<S> {
    /// The next request, unless the client has closed the connection.
    pub async fn request(&mut self) -> Option<Request> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if self.stream.read(&mut byte).await.unwrap_or(0) == 0 {
                assert!(head.is_empty(), "closed inside of a head");
                return None;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
        self.stream.read_exact(&mut body).await.unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Some(Request { line, headers, body })
    }

    pub async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// A whole answer of JSON.
    pub async fn answer(&mut self, message: &Value) {
        self.answer_with("", message).await;
    }

    /// A whole answer of JSON, with more headers.
    pub async fn answer_with(&mut self, headers: &str, message: &Value) {
        let body = message.to_string();
        let length = body.len();
        self.write(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
        .await;
    }

    /// The head of an event stream.
    pub async fn events(&mut self) {
        self.write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
    }

    /// A chunk.
    pub async fn chunk(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// An event, as one chunk.
    pub async fn event(&mut self, message: &Value) {
        self.chunk(&format!("data: {message}\n\n")).await;
    }

    /// The last chunk.
    pub async fn end_of_events(&mut self) {
        self.write("0\r\n\r\n").await;
    }

    /// Answers requests, each call with its number, until the client closes the connection or there were `most`; returns
    /// them.
    pub async fn serve(&mut self, most: usize) -> Vec<Request> {
        let mut requests = Vec::new();
        while requests.len() < most
            && let Some(request) = self.request().await
        {
            requests.push(request);
            let request = requests.last().unwrap();
            if request.body["id"].is_null() {
                self.write("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
            } else {
                let calls = requests.iter().filter(|request| request.method() == "tools/call").count();
                self.answer(&request.answer(&calls.to_string())).await;
            }
        }
        requests
    }
}

/// The next connection.
pub async fn accept(listener: &TcpListener) -> ServerConnection<TcpStream> {
    ServerConnection { stream: listener.accept().await.unwrap().0 }
}
