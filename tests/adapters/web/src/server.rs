//! The adapter of a server: a `Request` in, a `Response` out.
//!
//! A platform that runs several instances serves clients of 2026-07-28 with all of them; the sessions of older clients
//! live in one instance.

use std::sync::Arc;

use futures_lite::future::or;
use js_sys::{Array, Uint8Array};
use mcp_proto::adapter::SystemClock;
use mcp_proto::front::http::{HttpExchange, HttpServer, http_server};
use mcp_proto::front::{HandlerMode, Router};
use mcp_proto::transport::http::server::{BodyKind, HttpServerConfig, RequestHead, ResponseHead};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    Headers, ReadableStream, Request, Response, ResponseInit, TransformStream, Url,
    WritableStreamDefaultWriter,
};

use crate::{Parts, Random, aborted, sleep};

/// Starts a server. Its sessions are driven for as long as it is open.
pub fn serve<H: HandlerMode>(router: Router<H>, config: HttpServerConfig) -> HttpServer<H> {
    let (server, driver) = http_server(router, config, Arc::new(SystemClock::new()), Arc::new(Random));
    spawn_local(driver.run(sleep));
    server
}

/// Reads the body of a request, as far as the exchange wants it.
async fn receive<H: HandlerMode>(
    exchange: &mut HttpExchange<H>,
    body: Option<ReadableStream>,
) -> Result<(), JsValue> {
    let parts = body.map(|body| Parts::new(&body));
    while exchange.wants_body() {
        let part = match &parts {
            Some(parts) => parts.next().await?,
            None => None,
        };
        match part {
            Some(part) => exchange.handle_body(part),
            None => exchange.handle_body_end(),
        }
    }
    Ok(())
}

/// Writes the body of an answer as fast as the client reads it. A client that goes cancels the stream, which drops the
/// exchange, and with it the handler.
async fn write<H: HandlerMode>(mut exchange: HttpExchange<H>, writer: WritableStreamDefaultWriter) {
    let gone = JsFuture::from(writer.closed());
    let body = async {
        while let Some(part) = exchange.next_body(sleep).await {
            if JsFuture::from(writer.write_with_chunk(&Uint8Array::from(&part[..]))).await.is_err() {
                return;
            }
        }
        let _ = JsFuture::from(writer.close()).await;
    };
    or(body, async { drop(gone.await) }).await;
}

fn response(head: &ResponseHead, body: Option<&ReadableStream>) -> Result<Response, JsValue> {
    let headers = Headers::new()?;
    for (name, value) in head.headers.iter() {
        headers.append(name, value)?;
    }
    let init = ResponseInit::new();
    init.set_status(head.status);
    init.set_headers(&headers);
    Response::new_with_opt_readable_stream_and_init(body, &init)
}

/// Answers a request. A client that goes before the answer aborts the signal of its request, where the platform has one:
/// that drops the exchange, and with it the handler.
pub async fn answer<H: HandlerMode>(server: &HttpServer<H>, request: Request) -> Result<Response, JsValue> {
    let url = Url::new(&request.url())?;
    // `Request` has no header `Host` on most platforms: it is that of the URL.
    let mut headers = vec![("host".to_owned(), url.host())];
    for pair in js_sys::try_iter(&request.headers())?.into_iter().flatten().flatten() {
        let pair: Array = pair.unchecked_into();
        let field = pair.get(0).as_string().zip(pair.get(1).as_string());
        headers.extend(field.filter(|(name, _)| name != "host"));
    }
    let (method, path) = (request.method(), url.pathname());
    let head = RequestHead { method: &method, path: &path, fields: &headers, client: None };
    let mut exchange = server.exchange(&head, None);
    receive(&mut exchange, request.body()).await?;
    let signal = request.signal();
    let gone = async {
        aborted(&signal).await;
        None
    };
    let answer = async { Some(exchange.next_head(sleep).await) };
    let Some(head) = or(answer, gone).await else { return Err(signal.reason()) };
    if head.body == BodyKind::Empty {
        return response(&head, None);
    }
    let pipe = TransformStream::new()?;
    let answer = response(&head, Some(&pipe.readable()))?;
    spawn_local(write(exchange, pipe.writable().get_writer()?));
    Ok(answer)
}
