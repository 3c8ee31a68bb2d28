//! One exchange with a server that tokens have to do with, on a connection of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures_lite::future::or;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use mcp_proto::auth::Fetch;

use super::body::Whole;
use super::failure::chain;
use super::target::{Scheme, Target};
use crate::io::HyperIo;
use crate::runtime::{Endpoint, Runtime, Stream};

/// How long an exchange may take, from the look-up of its host to the last byte of the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of an exchange.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    #[cfg_attr(not(test), allow(dead_code, reason = "for who asks on behalf of clients"))]
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Makes an exchange, with whichever of the host's addresses is allowed and answers first. Redirects are not followed, and
/// proxies not used: they would look up names themselves. Says what went wrong, for people.
pub(crate) async fn fetch<R: Runtime>(
    runtime: &R,
    tls: Tls,
    fetch: Fetch,
    allows: impl Fn(IpAddr) -> bool,
) -> Result<Answered, String> {
    let patience = async {
        runtime.timer().sleep(PATIENCE).await;
        Err(format!("no answer within {PATIENCE:?}"))
    };
    or(ask(runtime, tls, fetch, allows), patience).await
}

async fn ask<R: Runtime>(
    runtime: &R,
    tls: Tls,
    fetch: Fetch,
    allows: impl Fn(IpAddr) -> bool,
) -> Result<Answered, String> {
    let target = Target::parse(&fetch.url).ok_or("this is no URL")?;
    let origin = target.origin.clone();
    let failed = |error: io::Error| format!("can not connect to {}: {error}", origin.with_port());
    let mut stream = dial(runtime, &origin.host, origin.port, allows).await.map_err(failed)?;
    if origin.scheme == Scheme::Https {
        stream = encrypt(tls, stream, &origin.host).await.map_err(failed)?;
    }
    let (mut sender, connection) =
        http1::handshake(HyperIo(stream)).await.map_err(|error| chain(&error))?;
    // What goes wrong with it is told by the request.
    let background = async {
        drop(connection.await);
        std::future::pending().await
    };
    let limit = fetch.limit;
    let asking = async {
        let request = request(fetch, &target).ok_or("the request can not be written")?;
        let response = sender.send_request(request).await.map_err(|error| chain(&error))?;
        let (head, body) = response.into_parts();
        Ok(Answered { status: head.status, headers: head.headers, body: read(body, limit).await? })
    };
    or(asking, background).await
}

fn request(fetch: Fetch, target: &Target) -> Option<Request<Whole>> {
    let mut request = Request::new(Whole(fetch.body));
    *request.method_mut() = Method::from_bytes(fetch.verb.as_str().as_bytes()).ok()?;
    *request.uri_mut() = target.origin_form();
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::try_from(target.origin.authority()).ok()?);
    for (name, value) in &fetch.headers {
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Some(request)
}

async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, String> {
    let mut read = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame.map_err(|error| chain(&error))?.into_data() {
            if read.len() + data.len() > limit {
                return Err(format!("the answer is longer than {limit} bytes"));
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(read.into())
}

async fn dial<R: Runtime>(
    runtime: &R,
    host: &str,
    port: u16,
    allows: impl Fn(IpAddr) -> bool,
) -> io::Result<Box<dyn Stream>> {
    let addresses = runtime.resolve(host, port).await?;
    let allowed: Vec<SocketAddr> =
        addresses.into_iter().filter(|address| allows(address.ip())).collect();
    let mut failure = io::Error::new(io::ErrorKind::PermissionDenied, "it has no address that may be visited");
    for address in allowed {
        match runtime.connect(&Endpoint::Tcp(address)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// How connections are encrypted: as the application says, or by what is trusted anyway.
#[cfg(feature = "tls")]
pub(crate) type Tls = Option<std::sync::Arc<futures_rustls::rustls::ClientConfig>>;
/// They are not.
#[cfg(not(feature = "tls"))]
pub(crate) type Tls = Option<std::convert::Infallible>;

#[cfg(feature = "tls")]
async fn encrypt(tls: Tls, stream: Box<dyn Stream>, host: &str) -> io::Result<Box<dyn Stream>> {
    use futures_rustls::TlsConnector;
    use futures_rustls::pki_types::ServerName;

    let mut config = match tls {
        Some(config) => config,
        None => crate::tls::default_client().map_err(io::Error::other)?,
    };
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    // One request is all there is.
    std::sync::Arc::make_mut(&mut config).alpn_protocols = [b"http/1.1".to_vec()].into();
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}

#[cfg(not(feature = "tls"))]
async fn encrypt(_: Tls, _: Box<dyn Stream>, _: &str) -> io::Result<Box<dyn Stream>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this was built without TLS"))
}
