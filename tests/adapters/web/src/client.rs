//! The adapter of a client: each exchange is a `fetch`, and one loop drives the machine.
//!
//! The machine follows redirects, so that `fetch` must not; a browser hides where they lead. It retries, and caches, so
//! that `fetch` must do neither. What an aborted exchange still reports is ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_channel::Sender;
use futures_lite::future::{or, pending};
use js_sys::{Array, Promise, Uint8Array};
use mcp_proto::adapter::{self, ClientDriver, Clock as _, Entropy as _, SystemClock};
use mcp_proto::front::{Client, ClientHandlers};
use mcp_proto::peer::client::ClientConfig;
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig, HttpRequest, UrlError};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{AbortController, AbortSignal, Headers, RequestInit, RequestRedirect, Response};

use crate::{Parts, Random, sleep, text};

#[wasm_bindgen]
extern "C" {
    // Of the page or the worker, whichever this is.
    fn fetch(url: &str, init: &RequestInit) -> Promise;
}

/// A report of an exchange.
enum Report {
    Head(u16, Vec<(String, String)>),
    Body(mcp_proto::Bytes),
    End(ExchangeEnd),
}

type Reports = Sender<(ExchangeId, Report)>;

/// Sends a request and reports its answer. A full queue of reports slows the server down.
async fn exchange(request: HttpRequest, signal: AbortSignal, reports: &Reports) -> Result<(), ExchangeEnd> {
    // The browser does not say whether the request has left it.
    let failed = |error: JsValue| ExchangeEnd::Failed { sent: SentState::MaybeSent, detail: text(&error) };
    let headers = Headers::new().map_err(failed)?;
    for (name, value) in &request.headers {
        headers.append(name, value).map_err(failed)?;
    }
    let init = RequestInit::new();
    init.set_method(request.verb.as_str());
    init.set_headers(&headers);
    init.set_redirect(RequestRedirect::Manual);
    init.set_signal(Some(&signal));
    if !request.body.is_empty() {
        init.set_body(&Uint8Array::from(&request.body[..]));
    }
    let answer: Response = JsFuture::from(fetch(&request.url, &init)).await.map_err(failed)?.unchecked_into();
    let fields = js_sys::try_iter(&answer.headers()).map_err(failed)?.into_iter().flatten().flatten();
    let field = |pair: JsValue| {
        let pair: Array = pair.unchecked_into();
        Some((pair.get(0).as_string()?, pair.get(1).as_string()?))
    };
    let head = Report::Head(answer.status(), fields.filter_map(field).collect());
    let _ = reports.send((request.exchange, head)).await;
    let Some(body) = answer.body() else { return Ok(()) };
    let parts = Parts::new(&body);
    let truncated = |error: JsValue| ExchangeEnd::Truncated(text(&error));
    while let Some(part) = parts.next().await.map_err(truncated)? {
        let _ = reports.send((request.exchange, Report::Body(part))).await;
    }
    Ok(())
}

enum Event {
    Action(Option<Action>),
    Report(ExchangeId, Report),
    Timeout,
}

/// Connects to a URL. The client is driven for as long as it is open.
pub fn connect(client: ClientConfig, url: &str) -> Result<Client, UrlError> {
    let clock = Arc::new(SystemClock::new());
    let mut config = HttpClientConfig::new(client, url);
    let mut seed = [0; 8];
    Random.fill(&mut seed);
    config.seed = u64::from_ne_bytes(seed);
    let machine = HttpClient::new(config, clock.now())?;
    let (client, driver) = adapter::client(machine, clock.clone(), ClientHandlers::new());
    spawn_local(drive(driver, clock));
    Ok(client)
}

async fn drive(mut driver: ClientDriver<HttpClient>, clock: Arc<SystemClock>) {
    let (reports, inbox) = async_channel::bounded(16);
    let mut exchanges = BTreeMap::new();
    loop {
        let due = driver.next_timeout();
        let action =
            async { Event::Action(driver.next_output(due, |machine, _| machine.poll_action()).await) };
        let report = async {
            match inbox.recv().await {
                Ok((id, report)) => Event::Report(id, report),
                Err(_) => pending().await,
            }
        };
        let timeout = async {
            let Some(due) = due else { return pending().await };
            sleep(due.saturating_since(clock.now())).await;
            Event::Timeout
        };
        match or(action, or(report, timeout)).await {
            Event::Action(Some(Action::Open(request))) => {
                let (id, reports) = (request.exchange, reports.clone());
                let Ok(controller) = AbortController::new() else { break };
                let signal = controller.signal();
                exchanges.insert(id, controller);
                spawn_local(async move {
                    let end =
                        exchange(request, signal, &reports).await.err().unwrap_or(ExchangeEnd::Complete);
                    let _ = reports.send((id, Report::End(end))).await;
                });
            }
            Event::Action(Some(Action::Abort(id))) => drop(exchanges.remove(&id).map(|open| open.abort())),
            // Only if it is configured.
            Event::Action(Some(Action::AuthorizationRequired(_))) => {}
            Event::Action(None) if driver.closed().is_some() => break,
            Event::Action(None) | Event::Timeout => {}
            Event::Report(id, report) => driver.lock(|machine, now| match report {
                Report::Head(status, headers) => machine.handle_head(now, id, status, &headers),
                Report::Body(part) => machine.handle_body(now, id, part),
                Report::End(end) => {
                    exchanges.remove(&id);
                    machine.handle_end(now, id, end);
                }
            }),
        }
    }
    exchanges.into_values().for_each(|open| open.abort());
    driver.handle_link_down();
}
