//! The machine of an HTTP client over hyper-util's pooled client, on Tokio: each exchange is a task, and one loop drives
//! the machine. It calls the tool `add` of a server: `http_client URL`.
//!
//! The duties of the driver: for each `Open` the head of the answer, then its body in pieces, then exactly one
//! end; whether a request that failed can have reached the server, since only one that cannot is sent again; and no
//! redirects, cookies or retries of its own. What an aborted exchange still reports is ignored.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use mcp_proto::adapter::{self, Clock as _, SystemClock};
use mcp_proto::front::ClientHandlers;
use mcp_proto::peer::client::ClientConfig;
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig, HttpRequest};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState};
use mcp_proto::{Bytes, Implementation};
use tokio::sync::mpsc;

/// A report of the task of an exchange.
enum Report {
    Head(u16, HeaderMap),
    Body(Bytes),
    End(ExchangeEnd),
}

/// Sends a request and reports its answer. A full queue of reports slows the server down.
async fn exchange(
    pool: Http<HttpConnector, Full<Bytes>>,
    request: HttpRequest,
    reports: &mpsc::Sender<(ExchangeId, Report)>,
) -> Result<(), ExchangeEnd> {
    let failed = |sent, error: &dyn Error| ExchangeEnd::Failed { sent, detail: error.to_string() };
    let mut message = Request::builder().method(request.verb.as_str()).uri(&*request.url);
    for (name, value) in &request.headers {
        message = message.header(&**name, &**value);
    }
    let message =
        message.body(Full::new(request.body)).map_err(|error| failed(SentState::NotSent, &error))?;
    let answer = pool.request(message).await.map_err(|error| {
        let sent = if error.is_connect() { SentState::NotSent } else { SentState::MaybeSent };
        failed(sent, &error)
    })?;
    let (head, mut body) = answer.into_parts();
    let _ = reports.send((request.exchange, Report::Head(head.status.as_u16(), head.headers))).await;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ExchangeEnd::Truncated(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            let _ = reports.send((request.exchange, Report::Body(data))).await;
        }
    }
    Ok(())
}

async fn drive(mut driver: adapter::ClientDriver<HttpClient>, clock: Arc<SystemClock>) {
    let pool = Http::builder(TokioExecutor::new()).build_http();
    let (reports, mut inbox) = mpsc::channel(16);
    let mut exchanges = BTreeMap::new();
    loop {
        let due = driver.next_timeout();
        let wait = due.map_or(Duration::MAX, |due| due.saturating_since(clock.now()));
        tokio::select! {
            action = driver.next_output(due, |machine, _| machine.poll_action()) => match action {
                Some(Action::Open(request)) => {
                    let (id, pool, reports) = (request.exchange, pool.clone(), reports.clone());
                    let task = tokio::spawn(async move {
                        let end = exchange(pool, request, &reports).await.err().unwrap_or(ExchangeEnd::Complete);
                        let _ = reports.send((id, Report::End(end))).await;
                    });
                    exchanges.insert(id, task);
                }
                Some(Action::Abort(id)) => drop(exchanges.remove(&id).map(|task| task.abort())),
                // Only if it is configured.
                Some(Action::AuthorizationRequired(_)) => {}
                None if driver.closed().is_some() => break,
                None => {}
            },
            Some((id, report)) = inbox.recv() => driver.lock(|machine, now| match report {
                Report::Head(status, headers) => {
                    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
                    machine.handle_head(now, id, status, &headers.collect::<Vec<_>>());
                }
                Report::Body(data) => machine.handle_body(now, id, data),
                Report::End(end) => {
                    exchanges.remove(&id);
                    machine.handle_end(now, id, end);
                }
            }),
            () = tokio::time::sleep(wait) => {}
        }
    }
    exchanges.into_values().for_each(|task| task.abort());
    driver.handle_link_down();
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: http_client URL")?;
    let clock = Arc::new(SystemClock::new());
    let mut config =
        HttpClientConfig::new(ClientConfig::new(Implementation::new("http-client", "1.0.0")), url);
    config.seed = std::process::id().into();
    let machine = HttpClient::new(config, clock.now())?;
    let (client, driver) = adapter::client(machine, clock.clone(), ClientHandlers::new());
    let driver = tokio::spawn(drive(driver, clock));
    println!("{}", client.call_tool("add", serde_json::json!({ "a": 2, "b": 3 })).await?.text_content());
    adapters::check(&client).await?;
    client.close().await;
    Ok(driver.await?)
}
