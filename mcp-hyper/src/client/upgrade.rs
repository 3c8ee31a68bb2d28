//! The request that turns an HTTP/1.1 connection into a WebSocket. RFC 6455, section 4.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use async_tungstenite::tungstenite::handshake::derive_accept_key;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_lite::future::{Boxed, or};
use http::header::{self, HeaderMap};
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use mcp_proto::rpc::Text;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::HttpRequest;

use super::connection::Connector;
use super::headers::{WireEvent, mark_secrets};
use super::target::{Origin, Scheme, Target};
use super::transport::Transport;
use crate::io::{BufferedBody, HyperIo};
use crate::runtime::{Runtime, Stream};
use crate::websocket::SUBPROTOCOL;

/// The result of an upgrade request.
pub(super) enum UpgradeOutcome {
    /// The connection, and the bytes that were read after the answer.
    Upgraded { io: Box<dyn Stream>, ahead: bytes::Bytes, status: StatusCode, headers: HeaderMap },
    /// The server answered with another status.
    Refused { status: StatusCode, headers: HeaderMap },
    /// The server answered with an upgrade to something else.
    Invalid { status: StatusCode, headers: HeaderMap, detail: &'static str },
    /// There was no connection, or no answer.
    Failed(String),
}

impl<R: Runtime> Transport<R> {
    /// Sends an upgrade request with the application's headers, on a connection of its own.
    ///
    /// # Errors
    /// If the request cannot be sent: why.
    pub(super) fn upgrade(&mut self, request: HttpRequest) -> Result<Boxed<UpgradeOutcome>, String> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|_| "the system's random number generator failed")?;
        let key = BASE64.encode(nonce);
        let mut request = request;
        for (name, value) in [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "mcp"),
        ] {
            request.headers.push((name.into(), Text::from_static(value)));
        }
        request.headers.push(("sec-websocket-key".into(), key.clone().into()));
        let (target, mut request) = self.prepare(request)?;
        *request.uri_mut() = target.origin_form();
        request.headers_mut().insert(header::HOST, target.host.clone());
        let connector = self.connector.clone();
        Ok(Box::pin(connect(connector, target, request, derive_accept_key(key.as_bytes()))))
    }

    /// Shows the head of an answer to the application's observer.
    pub(super) fn show_head(&mut self, exchange: ExchangeId, status: StatusCode, headers: &mut HeaderMap) {
        mark_secrets(headers);
        self.show(WireEvent::Head { exchange, status, headers });
    }
}

async fn connect<R: Runtime>(
    connector: Arc<Connector<R>>,
    target: Arc<Target>,
    request: Request<BufferedBody>,
    accept: String,
) -> UpgradeOutcome {
    let origin = &target.origin;
    let stream = match connector.limited(origin, connector.open_tunnel(origin)).await {
        Ok(stream) => stream,
        Err(error) => return UpgradeOutcome::Failed(error.detail),
    };
    let upgrading = async { upgrade(stream, request, &accept).await.map_err(|error| error.to_string()) };
    match or(upgrading, async { Err(connector.time_out("answer of", origin).await) }).await {
        Ok(outcome) => outcome,
        Err(detail) => UpgradeOutcome::Failed(format!("{}: {detail}", origin.with_port())),
    }
}

async fn upgrade(
    stream: Box<dyn Stream>,
    request: Request<BufferedBody>,
    accept: &str,
) -> Result<UpgradeOutcome, hyper::Error> {
    let (mut sender, connection) = http1::handshake(HyperIo(stream)).await?;
    let mut answering = pin!(sender.send_request(request));
    let mut serving = pin!(connection.without_shutdown());
    let mut parts = None;
    let answer = poll_fn(|cx| {
        if parts.is_none()
            && let Poll::Ready(ended) = serving.as_mut().poll(cx)
        {
            parts = Some(ended);
        }
        answering.as_mut().poll(cx)
    });
    let (head, _) = answer.await?.into_parts();
    let (status, headers) = (head.status, head.headers);
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(UpgradeOutcome::Refused { status, headers });
    }
    let upgrade = headers.get(header::UPGRADE);
    let is_websocket = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let detail = if !is_websocket || headers.get(header::SEC_WEBSOCKET_ACCEPT).is_none_or(|key| key != accept)
    {
        "the server's answer to the upgrade is not that of a WebSocket"
    } else if headers.get(header::SEC_WEBSOCKET_PROTOCOL).is_some_and(|protocol| protocol != SUBPROTOCOL) {
        "the server chose another subprotocol than `mcp`"
    } else if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        "the server chose an extension of WebSocket that was not offered"
    } else {
        let parts = match parts {
            Some(parts) => parts?,
            None => serving.await?,
        };
        return Ok(UpgradeOutcome::Upgraded { io: parts.io.0, ahead: parts.read_buf, status, headers });
    };
    Ok(UpgradeOutcome::Invalid { status, headers, detail })
}

impl<R: Runtime> Connector<R> {
    /// Opens a stream for a WebSocket. A proxy opens a tunnel for it, encrypted or not.
    async fn open_tunnel(&self, origin: &Origin) -> io::Result<Box<dyn Stream>> {
        // As for HTTP/2, which proxies do not forward either.
        let (stream, _) = self.open_stream(origin, true, |_| true).await?;
        match origin.scheme {
            Scheme::Http => Ok(stream),
            Scheme::Https => self.tls.encrypt_http1(stream, &origin.host).await,
        }
    }
}
