//! The cost of a request while others are in flight, and of a notification to many subscribers.

use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_lite::future;
use http_body_util::BodyExt as _;
use mcp_proto::schema;
use rmcp::model::{ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification};

use crate::held::{Ours, Theirs, URI};
use crate::lean::Lean;
use crate::measure::{Mode, Row, Table, Unit};
use crate::official::tokio_runtime;
use crate::pair::Pair;

const SUBSCRIBERS: u32 = 10_000;

pub(crate) fn run(mode: &Mode) {
    for (revision, era) in [("2025-11-25", schema::Era::Legacy), ("2026-07-28", schema::Era::Modern)] {
        in_flight(revision, era).run(mode);
    }
    let rows = vec![
        Row::new("limit: copies of the message", SUBSCRIBERS, copies),
        Row::new("rmcp", SUBSCRIBERS, theirs),
        Row::new("ours", SUBSCRIBERS, ours),
    ];
    let title = "one resource updated, 10,000 subscribers, 2026-07-28".to_owned();
    Table { title, unit: Unit::Each, peer: "rmcp", rows }.run(mode);
}

fn in_flight(revision: &str, era: schema::Era) -> Table {
    let pair = |name, in_flight| {
        Row::new(name, 1, move || {
            let mut pair = Pair::ready(era, in_flight);
            // `round_trip` sends the last one.
            (1..in_flight).for_each(|_| drop(pair.ask()));
            move || pair.round_trip()
        })
    };
    let rows = vec![
        Row::new("limit: lean", 1, || {
            let mut lean = Lean::default();
            move || lean.round_trip()
        }),
        pair("ours, 1", 1),
        pair("ours, 100", 100),
        pair("ours, 10,000", 10_000),
        pair("ours, 100,000", 100_000),
    ];
    let title = format!("bare round trip while others are in flight, {revision}");
    Table { title, unit: Unit::Each, peer: "ours, 1", rows }
}

/// The bytes that each subscriber gets.
fn copies() -> impl FnMut() {
    let message = format!(
        r#"data: {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{URI}","_meta":{{"io.modelcontextprotocol/subscriptionId":1}}}}}}"#
    );
    move || {
        for _ in 0..SUBSCRIBERS {
            black_box(message.clone());
        }
    }
}

fn ours() -> impl FnMut() {
    let ours = Ours::new();
    let mut exchanges: Vec<_> = (0..SUBSCRIBERS).map(|_| ours.listen()).collect();
    move || {
        ours.server.resource_updated(URI);
        let mut cx = Context::from_waker(Waker::noop());
        for exchange in &mut exchanges {
            let Poll::Ready(Some(part)) = exchange.poll_body(&mut cx) else { panic!("no notification") };
            black_box(part);
        }
    }
}

fn theirs() -> impl FnMut() {
    let runtime = tokio_runtime();
    let theirs = Theirs::new();
    let mut bodies: Vec<_> =
        runtime.block_on(async { future_list((0..SUBSCRIBERS).map(|_| theirs.listen())).await });
    let subscribers = Arc::clone(&theirs.server.subscribers);
    move || {
        let sinks = subscribers.lock().unwrap().clone();
        runtime.block_on(async {
            for sink in &sinks {
                let params = ResourceUpdatedNotificationParam::new(URI);
                let update = ResourceUpdatedNotification::new(params);
                sink.send(ServerNotification::ResourceUpdatedNotification(update)).await.expect("it listens");
            }
            for body in &mut bodies {
                black_box(body.frame().await);
            }
        });
    }
}

async fn future_list<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut outputs = Vec::new();
    for future in futures {
        outputs.push(future.await);
        future::yield_now().await;
    }
    outputs
}
