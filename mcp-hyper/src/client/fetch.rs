//! Exchanges with authorization servers: one request, one answer that is read whole, and the end of the connection.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::AbortHandle;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use mcp_proto::auth::{Fetch, Reach};
use mcp_proto::bind::http::Verb;

use super::body::Whole;
use super::connector::{Connection, Connector, Http2};
use super::exchange::{Step, Task};
use super::failure::chain;
use super::headers::USER_AGENT;
use super::target::Target;
use crate::runtime::Runtime;

/// An answer.
pub(crate) struct Fetched {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl fmt::Debug for Fetched {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").field("status", &self.status).finish_non_exhaustive()
    }
}

pub(super) fn task<R: Runtime>(
    connector: Arc<Connector<R>>,
    fetch: Fetch,
    reach: Reach,
) -> (Task, AbortHandle) {
    let id = fetch.id;
    Task::stoppable(Box::pin(async move {
        let fetched = perform(&connector, fetch, reach).await;
        Step::Fetched { id, fetched }
    }))
}

/// Makes the exchange; says why not, for people. How long it may take is for others to say.
async fn perform<R: Runtime>(
    connector: &Connector<R>,
    fetch: Fetch,
    reach: Reach,
) -> Result<Fetched, String> {
    reach.check(&fetch.url).map_err(|error| error.to_string())?;
    let target = Target::parse(&fetch.url).ok_or("this is no URL of HTTP")?;
    let limit = fetch.limit;
    let mut request = request(fetch)?;
    let sent = match connector.connect_within(&target.origin, reach).await? {
        Connection::Http1(mut connection) => {
            connection.address(&mut request, &target);
            connection.sender.ready().await.map_err(|error| chain(&error))?;
            connection.sender.send_request(request).await
        }
        Connection::Http2(mut connection) => {
            Http2::address(&mut request, &target);
            connection.sender.send_request(request).await
        }
    };
    let (head, body) = sent.map_err(|error| chain(&error))?.into_parts();
    Ok(Fetched { status: head.status, headers: head.headers, body: read(body, limit).await? })
}

fn request(fetch: Fetch) -> Result<Request<Whole>, String> {
    let mut request = Request::new(Whole(fetch.body));
    *request.method_mut() = match fetch.verb {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Delete => Method::DELETE,
    };
    let headers = request.headers_mut();
    for (name, value) in fetch.headers {
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| format!("the header {name} can not be sent"))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    headers.insert(header::USER_AGENT, USER_AGENT);
    Ok(request)
}

async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, String> {
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(bytes) = frame.map_err(|error| chain(&error))?.into_data() {
            if bytes.len() > limit.saturating_sub(whole.len()) {
                return Err(format!("the answer is longer than {limit} bytes"));
            }
            whole.extend_from_slice(&bytes);
        }
    }
    Ok(whole.freeze())
}
