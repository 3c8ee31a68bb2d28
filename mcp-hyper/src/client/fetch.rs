//! Fetches from authorization servers: one request and one buffered response per connection.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_lite::future::or;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use mcp_proto::auth::{Fetch, FetchPolicy};

use super::connection::{BackgroundTasks, Connection, Connector};
use super::error::{SendError, error_chain};
use super::headers::{USER_AGENT, method};
use super::stream::OnlyStream;
use super::target::{Proxy, Target};
use crate::io::BufferedBody;
use crate::runtime::{AnyRuntime, Runtime};
use crate::task_set::TaskSet;

/// The response to a fetch.
pub(crate) struct FetchResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

// Leaves out headers and body, which may contain secrets.
debug_fields! { FetchResponse { status } }

/// Time limit of a fetch without a client, from the name lookup to the last byte of the response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Performs a fetch that belongs to no client: with the proxies of the environment, and the default trust roots. The
/// error's text is shown to the user.
pub(crate) async fn fetch_once(
    runtime: AnyRuntime,
    fetch: Fetch,
    policy: FetchPolicy,
) -> Result<FetchResponse, String> {
    let timer = runtime.timer();
    let connector = Connector {
        runtime: Arc::new(runtime),
        proxy: Proxy::from_environment().map_err(|error| error.to_string())?,
        unix_socket: None,
        stream: OnlyStream::default(),
        prior_knowledge: false,
        timeout: PATIENCE,
        tls: Default::default(),
        background: BackgroundTasks::default(),
    };
    let performed = fetch_with(connector, fetch, policy);
    or(performed, async {
        timer.sleep(PATIENCE).await;
        Err(format!("no answer within {PATIENCE:?}"))
    })
    .await
}

/// Performs a fetch on a connection of its own; the error's text is shown to the user. The caller limits its duration.
pub(super) async fn fetch_with<R: Runtime>(
    connector: Connector<R>,
    fetch: Fetch,
    policy: FetchPolicy,
) -> Result<FetchResponse, String> {
    let mut performing = pin!(perform(&connector, fetch, policy));
    let mut connections = TaskSet::default();
    poll_fn(|cx| {
        loop {
            let polled = performing.as_mut().poll(cx);
            let opened = connector.background.take();
            let is_new = !opened.is_empty();
            for connection in opened {
                connections.insert(connection);
            }
            while connections.poll_next(cx).is_ready() {}
            // A connection that was opened just now has not been polled for its request yet.
            if polled.is_ready() || !is_new {
                return polled;
            }
        }
    })
    .await
}

async fn perform<R: Runtime>(
    connector: &Connector<R>,
    fetch: Fetch,
    policy: FetchPolicy,
) -> Result<FetchResponse, String> {
    policy.check(&fetch.url).map_err(|error| error.to_string())?;
    let target = Target::parse(&fetch.url).ok_or("the URL is neither http: nor https:")?;
    let limit = fetch.limit;
    let mut request = request(fetch)?;
    let url = target.origin.url();
    let is_allowed = |address| policy.allows_at(&url, address);
    let connection = connector.connect(&target.origin, is_allowed).await.map_err(|failure| failure.detail)?;
    let sent = match connection {
        Connection::Http1(mut connection) => {
            connection.set_target(&mut request, &target);
            connection.sender.ready().await.map_err(|error| error_chain(&error))?;
            connection.sender.send_request(request).await.map_err(|error| error_chain(&error))
        }
        Connection::Http2(mut connection) => {
            connection.send(request, &target).await.map_err(SendError::into_detail)
        }
    };
    let (head, body) = sent?.into_parts();
    Ok(FetchResponse { status: head.status, headers: head.headers, body: read(body, limit).await? })
}

fn request(fetch: Fetch) -> Result<Request<BufferedBody>, String> {
    let mut request = Request::new(BufferedBody(fetch.body));
    *request.method_mut() = method(fetch.verb);
    let headers = request.headers_mut();
    for (name, value) in fetch.headers {
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| format!("the value of the header {name} is not valid in HTTP"))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    headers.insert(header::USER_AGENT, USER_AGENT);
    Ok(request)
}

async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, String> {
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(bytes) = frame.map_err(|error| error_chain(&error))?.into_data() {
            if bytes.len() > limit.saturating_sub(whole.len()) {
                return Err(format!("the answer is longer than {limit} bytes"));
            }
            whole.extend_from_slice(&bytes);
        }
    }
    Ok(whole.freeze())
}
