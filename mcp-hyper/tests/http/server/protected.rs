//! Servers that require tokens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use mcp_hyper::mcp_proto::auth::server::{Access, JwtConfig, PresentedToken, Protection, VerifyError};
use mcp_hyper::mcp_proto::auth::{Es256, Requirement, Signer as _};
use mcp_hyper::mcp_proto::front::guard::{FetchResponse, Guard, JwtVerifier};
use mcp_hyper::mcp_proto::front::http::HttpServer;
use mcp_hyper::mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_hyper::mcp_proto::peer::Principal;
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{ServerOptions, http};
use serde_json::{Value, json};

use crate::common::server::{
    HandlerLog, PATIENCE, Progress, RawClient, ResponseHead, call, ended, http2, listener, request, router,
    run, serving, wait_until,
};

fn tools() -> Router {
    router(&HandlerLog::default())
        .tool_with(Tool::new("who", "", json!({ "type": "object" })), async |NoArguments {}, cx: Context| {
            cx.access().map_or_else(String::new, |access| access.principal.as_str().to_owned())
        })
        .tool_with(Tool::new("head", "", json!({ "type": "object" })), async |NoArguments {}, cx: Context| {
            let head = cx.attachments().get::<http::request::Parts>().unwrap();
            ["authorization", "dpop", "host"]
                .map(|name| head.headers.contains_key(name).to_string())
                .join(" ")
        })
        .tool_with(
            Tool::new("write", "", json!({ "type": "object" })),
            async |NoArguments {}, cx: Context| {
                cx.require(["write"])?;
                Ok::<_, HandlerError>("written")
            },
        )
}

/// An issuer: its metadata and its key, which is the seed. Counts its requests.
struct Issuer {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    fn start(seed: u8) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let (issuer, count) = (url.clone(), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                    head.extend(byte);
                }
                count.fetch_add(1, SeqCst);
                let head = String::from_utf8(head).unwrap();
                let body = match head.split(' ').nth(1) {
                    Some("/.well-known/openid-configuration") => json!({
                        "issuer": issuer, "token_endpoint": format!("{issuer}/token"),
                        "jwks_uri": format!("{issuer}/keys"),
                    }),
                    Some("/keys") => json!({ "keys": [jwk(seed)] }),
                    _ => Value::Null,
                };
                let status = if body.is_null() { "404 Not Found" } else { "200 OK" };
                let body = body.to_string();
                let length = body.len();
                write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            }
        });
        Self { url, asked }
    }
}

fn key(seed: u8) -> Es256 {
    Es256::from_entropy(&[seed; 32]).unwrap()
}

fn jwk(seed: u8) -> Value {
    serde_json::from_str(&key(seed).public_jwk()).unwrap()
}

fn token(seed: u8, issuer: &str, audience: &str, scope: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({ "iss": issuer, "sub": "ada", "aud": audience, "exp": now + 60, "scope": scope });
    let header = json!({ "alg": "ES256", "typ": "at+jwt" });
    let input = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    format!("{input}.{}", BASE64.encode(key(seed).sign(input.as_bytes()).unwrap()))
}

/// A server behind a guard that is built for its URL.
struct ProtectedServer {
    address: SocketAddr,
    url: String,
    server: HttpServer,
    running: thread::JoinHandle<std::io::Result<()>>,
}

impl ProtectedServer {
    fn start(guard: impl FnOnce(&str) -> Guard) -> Self {
        Self::start_with(|options, url| options.protect(guard(url)))
    }

    fn start_with(protect: impl FnOnce(ServerOptions, &str) -> ServerOptions) -> Self {
        let (listener, address) = listener();
        let url = format!("http://{address}/mcp");
        let (server, driver) = protect(serving(tools()), &url).listen(listener);
        Self { address, url, server, running: run(driver) }
    }

    fn call(&self, tool: &str, token: Option<&str>) -> (ResponseHead, String) {
        let (headers, body) = call(tool, &json!({}), Progress::Unwanted);
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut client = RawClient::connect(self.address);
        client.post("/mcp", &format!("{headers}{token}"), &body);
        client.answer()
    }

    fn close(self) {
        self.server.close();
        ended(self.running).unwrap();
    }
}

#[track_caller]
fn requirement(head: &ResponseHead) -> Requirement {
    Requirement::parse(head.get("www-authenticate").expect("a challenge")).unwrap()
}

fn text(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    body["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

#[test]
fn health_check_needs_no_token() {
    let server = ProtectedServer::start_with(|options, url| {
        let protection = Protection::new(url, "http://127.0.0.1:1").unwrap();
        let guard = Guard::new(protection, JwtVerifier::new(JwtConfig::new("http://127.0.0.1:1")));
        options.protect(guard).health("/healthz", || true)
    });
    let mut client = RawClient::connect(server.address);
    client
        .send("GET /healthz HTTP/1.1\r\nhost: 10.0.0.1\r\n\r\nGET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(client.answer().0.status, 200);
    assert_eq!(client.answer().0.status, 401);
    server.close();
}

/// The server discovers and fetches the keys that verify tokens: S10.1 to S10.4 and S10.7 over real sockets.
#[test]
fn server_verifies_tokens_by_the_keys_of_their_issuer() {
    let issuer = Issuer::start(1);
    let server = ProtectedServer::start(|url| {
        let protection = Protection::new(url, &issuer.url).unwrap().required(["mcp"]).unwrap();
        Guard::new(protection, JwtVerifier::new(JwtConfig::new(&issuer.url)))
    });

    let (head, _) = server.call("who", None);
    let demanded = requirement(&head);
    assert_eq!((head.status, demanded.error.as_deref()), (401, None));
    let metadata = demanded.resource_metadata.unwrap();
    let path = metadata.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let mut client = RawClient::connect(server.address);
    client.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    let (head, body) = client.answer();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((head.status, &body["resource"]), (200, &json!(server.url)));
    assert_eq!(body["authorization_servers"], json!([issuer.url]));
    assert_eq!(issuer.asked.load(SeqCst), 0, "the server fetches nothing before the first token");

    let good = token(1, &issuer.url, &server.url, "mcp");
    let (head, body) = server.call("who", Some(&good));
    assert_eq!((head.status, text(&body)), (200, format!("{}#ada", issuer.url)));
    let (head, _) = server.call("write", Some(&good));
    assert_eq!((head.status, requirement(&head).scope.unwrap().to_string()), (403, "mcp write".to_owned()));
    let more = token(1, &issuer.url, &server.url, "mcp write");
    assert_eq!(text(&server.call("write", Some(&more)).1), "written");
    // Handlers see the head of the request, but not the token.
    assert_eq!(text(&server.call("head", Some(&more)).1), "false false true");
    let asked = issuer.asked.load(SeqCst);

    for bad in [
        token(2, &issuer.url, &server.url, "mcp"),
        token(1, &issuer.url, "https://other.example/mcp", "mcp"),
        token(1, "http://127.0.0.1:1", &server.url, "mcp"),
        "garbage".to_owned(),
    ] {
        let (head, _) = server.call("who", Some(&bad));
        assert_eq!((head.status, requirement(&head).error.as_deref()), (401, Some("invalid_token")));
    }
    assert_eq!(issuer.asked.load(SeqCst), asked, "the keys are fresh");
    server.close();
}

/// Many requests wait for the same keys, on several independent connections.
#[test]
fn requests_wait_for_keys_together_over_http2_too() {
    let issuer = Issuer::start(1);
    let server = ProtectedServer::start(|url| {
        let protection = Protection::new(url, &issuer.url).unwrap();
        Guard::new(protection, JwtVerifier::new(JwtConfig::new(&issuer.url)))
    });
    let good = token(1, &issuer.url, &server.url, "");
    smol::block_on(async {
        let stream = smol::net::TcpStream::connect(server.address).await.unwrap();
        let mut sender = http2(stream, |_| {}).await;
        let mut answers = Vec::new();
        for _ in 0..20 {
            let (headers, body) = call("who", &json!({}), Progress::Unwanted);
            let headers = format!("{}authorization: Bearer {good}\n", headers.replace("\r\n", "\n"));
            sender.ready().await.unwrap();
            answers.push(sender.send_request(request(&headers, &body)));
        }
        for answer in answers {
            assert_eq!(answer.await.unwrap().status(), 200);
        }
    });
    assert_eq!(issuer.asked.load(SeqCst), 3, "metadata at its second place, and keys");
    server.close();
}

/// An issuer that cannot be reached is no reason to let anybody in, nor to send them away for good.
#[test]
fn server_answers_503_while_the_issuer_is_unreachable() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let issuer = format!("http://{gone}");
    let server = ProtectedServer::start(|url| {
        let protection = Protection::new(url, &issuer).unwrap();
        Guard::new(protection, JwtVerifier::new(JwtConfig::new(&issuer)))
    });
    let (head, body) = server.call("who", Some(&token(1, &issuer, &server.url, "")));
    assert_eq!((head.status, head.get("www-authenticate")), (503, None));
    assert!(!body.contains(&gone.to_string()), "{body}");
    server.close();
}

/// Without a token, a client cannot make the server read and store a body.
#[test]
fn server_does_not_read_the_body_before_the_token_is_verified() {
    let server = ProtectedServer::start(|url| {
        let protection = Protection::new(url, "http://localhost:1").unwrap();
        Guard::new(protection, async |_: PresentedToken| Err(VerifyError::invalid("it is not known")))
    });
    for authorization in ["", "authorization: Bearer abc\r\n"] {
        let mut client = RawClient::connect(server.address);
        client.send(format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json\r\n{authorization}content-length: 1000000000\r\n\r\n{{"
        ));
        assert_eq!(client.answer().0.status, 401);
        assert!(client.closed());
    }
    server.close();
}

/// An application with its own fetch function, which can refuse addresses.
#[test]
fn application_can_make_the_exchanges() {
    const ISSUER: &str = "https://login.example";
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = ProtectedServer::start_with(|options, url| {
        let guard =
            Guard::new(Protection::new(url, ISSUER).unwrap(), JwtVerifier::new(JwtConfig::new(ISSUER)));
        options.protect_with(guard, move |fetch, reach| {
            count.fetch_add(1, SeqCst);
            async move {
                assert!(!reach.allows([127, 0, 0, 1].into()), "the issuer is not on this machine");
                let set = json!({ "keys": [jwk(3)] });
                let metadata = json!({
                    "issuer": ISSUER, "token_endpoint": "https://login.example/t",
                    "jwks_uri": "https://login.example/k",
                });
                let body = if fetch.url.ends_with("/k") { set } else { metadata };
                Ok(FetchResponse { status: 200, body: body.to_string().into() })
            }
        })
    });
    let (head, body) = server.call("who", Some(&token(3, ISSUER, &server.url, "")));
    assert_eq!((head.status, text(&body)), (200, "https://login.example#ada".to_owned()));
    assert_eq!(asked.load(SeqCst), 2);
    server.close();
}

/// A client that disconnects while its token is being verified leaves nothing behind.
#[test]
fn verification_ends_with_the_client() {
    struct HandlerGuard(Arc<AtomicUsize>);

    impl Drop for HandlerGuard {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }

    let held = Arc::new(AtomicUsize::new(0));
    let holds = held.clone();
    let server = ProtectedServer::start(|url| {
        Guard::new(Protection::new(url, "http://localhost:1").unwrap(), move |_: PresentedToken| {
            holds.fetch_add(1, SeqCst);
            let one = HandlerGuard(holds.clone());
            async move {
                smol::Timer::after(Duration::from_secs(3600)).await;
                drop(one);
                Ok(Access::new(Principal::new("nobody"), ""))
            }
        })
    });
    let (headers, body) = call("who", &json!({}), Progress::Unwanted);
    let mut client = RawClient::connect(server.address);
    client.post("/mcp", &format!("{headers}authorization: Bearer abc\r\n"), &body);
    wait_until("the token is being verified", || held.load(SeqCst) == 1);
    drop(client);
    wait_until("the verification is dropped", || held.load(SeqCst) == 0);
    server.close();
}
