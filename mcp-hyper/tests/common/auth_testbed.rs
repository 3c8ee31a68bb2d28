//! An authorization testbed: a server that requires tokens, its authorization server, and a browser.

use std::sync::{Arc, Mutex};

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use serde_json::{Value, json};
use smol::channel::{Receiver, Sender};
use smol::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// A member of a form.
    pub fn form(&self, name: &str) -> Option<String> {
        let fields = self.body.split('&').filter_map(|field| field.split_once('='));
        fields.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Status, headers beside the length, body.
pub type CannedResponse = (u16, String, String);

/// Responses that replace the usual ones.
type ResponseOverride = Box<dyn Fn(&ReceivedRequest) -> Option<CannedResponse> + Send + Sync>;

struct State {
    base: String,
    received: Mutex<Vec<ReceivedRequest>>,
    /// How many tokens were given out.
    tokens: Mutex<u32>,
    response_override: ResponseOverride,
    gate: Option<PathGate>,
}

/// A path whose answers wait for the test.
pub struct PathGate {
    pub path: &'static str,
    /// Receives a message for each request.
    pub asked: Sender<()>,
    /// Lets each of them be answered.
    pub release: Receiver<()>,
}

/// Both servers, on one port of this machine.
#[derive(Clone)]
pub struct AuthTestbed(Arc<State>);

impl AuthTestbed {
    pub async fn new() -> Self {
        Self::with(|_| None).await
    }

    pub async fn with(
        otherwise: impl Fn(&ReceivedRequest) -> Option<CannedResponse> + Send + Sync + 'static,
    ) -> Self {
        Self::open(Box::new(otherwise), None).await
    }

    pub async fn with_gate(gate: PathGate) -> Self {
        Self::open(Box::new(|_| None), Some(gate)).await
    }

    async fn open(otherwise: ResponseOverride, gate: Option<PathGate>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            base,
            received: Mutex::default(),
            tokens: Mutex::default(),
            response_override: otherwise,
            gate,
        };
        let testbed = Self(Arc::new(state));
        let serving = testbed.clone();
        smol::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                smol::spawn(serving.clone().serve(stream)).detach();
            }
        })
        .detach();
        testbed
    }

    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.0.base)
    }

    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.0.received.lock().unwrap().clone()
    }

    /// The requests to this path.
    pub fn requests_to(&self, path: &str) -> Vec<ReceivedRequest> {
        self.received().into_iter().filter(|seen| seen.path.split('?').next() == Some(path)).collect()
    }

    async fn serve(self, mut stream: TcpStream) {
        while let Some(seen) = read(&mut stream).await {
            self.0.received.lock().unwrap().push(seen.clone());
            if let Some(gate) = self.0.gate.as_ref().filter(|gate| gate.path == seen.path) {
                gate.asked.send(()).await.unwrap();
                gate.release.recv().await.unwrap();
            }
            let (status, headers, body) =
                (self.0.response_override)(&seen).unwrap_or_else(|| self.answer(&seen));
            let length = body.len();
            let text = format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {length}\r\n\r\n{body}");
            let last = seen.header("connection") == Some("close");
            if stream.write_all(text.as_bytes()).await.is_err() || last {
                return;
            }
        }
    }

    fn answer(&self, seen: &ReceivedRequest) -> CannedResponse {
        let base = &self.0.base;
        match seen.path.split('?').next().unwrap_or_default() {
            "/.well-known/oauth-protected-resource/mcp" => ok(&json!({
                "resource": self.url(), "authorization_servers": [base], "scopes_supported": ["tools"],
            })),
            "/.well-known/oauth-authorization-server" => ok(&json!({
                "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
                "revocation_endpoint": format!("{base}/revoke"), "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": true,
            })),
            "/register" => (
                201,
                TYPE.into(),
                json!({
                    "client_id": "client-1", "redirect_uris": seen.json()["redirect_uris"],
                    "token_endpoint_auth_method": "none",
                })
                .to_string(),
            ),
            "/authorize" => {
                let part = |name: &str| query(&seen.path, name).unwrap_or_default();
                let target = part("redirect_uri").replace("%3A", ":").replace("%2F", "/");
                let iss = base.replace(':', "%3A").replace('/', "%2F");
                let location = format!("{target}?code=code-1&state={}&iss={iss}", part("state"));
                (302, format!("location: {location}\r\n"), String::new())
            }
            "/token" => {
                let mut tokens = self.0.tokens.lock().unwrap();
                *tokens += 1;
                ok(&json!({
                    "access_token": format!("token-{tokens}"), "token_type": "Bearer", "expires_in": 3600,
                    "refresh_token": format!("refresh-{tokens}"), "scope": "tools",
                }))
            }
            "/revoke" => (200, String::new(), String::new()),
            "/mcp"
                if seen.header("authorization").is_some_and(|value| value.starts_with("Bearer token-")) =>
            {
                answer(&seen.json())
            }
            "/mcp" => self.unauthorized(),
            _ => (404, String::new(), String::new()),
        }
    }

    pub fn unauthorized(&self) -> CannedResponse {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.0.base);
        (401, format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n"), "who are you?".into())
    }
}

const TYPE: &str = "content-type: application/json\r\n";

pub fn ok(body: &Value) -> CannedResponse {
    (200, TYPE.into(), body.to_string())
}

/// The answer of a modern server with one tool.
pub fn answer(request: &Value) -> CannedResponse {
    let result = match request["method"].as_str() {
        Some("server/discover") => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
        }),
        Some("tools/list") => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "tool", "inputSchema": {"type": "object"}}],
        }),
        _ => json!({ "resultType": "complete", "content": [{ "type": "text", "text": "done" }] }),
    };
    ok(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

fn query(path: &str, name: &str) -> Option<String> {
    let (_, query) = path.split_once('?')?;
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest { method, path, headers, body: String::from_utf8(body).unwrap() })
}

/// An answer to the browser.
pub struct BrowserResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl BrowserResponse {
    pub fn location(&self) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix("location: "))
    }
}

/// A browser: asks for a page, without following where it leads.
pub async fn visit(method: &str, url: &str) -> BrowserResponse {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    // It may be closed while more is unread.
    let _ = stream.read_to_string(&mut text).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    BrowserResponse { status, head: head.to_owned(), body: body.to_owned() }
}

/// A person who agrees: visits the page, and goes where it leads.
pub async fn agree(page: &str) -> BrowserResponse {
    let shown = visit("GET", page).await;
    visit("GET", shown.location().unwrap()).await
}
