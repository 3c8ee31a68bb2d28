//! A whole `tools/call` in memory, both sides on one thread.
//!
//! The limit has no protocol, no state and no connection: [`Lean`]. "Bare" is our state machines without futures,
//! "front" our async handles over them with bytes carried by hand. The rows "over a duplex" run each SDK's own driver
//! on the same tokio executor over the same in-memory pipe.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::front::{Client, Router};
use mcp_proto::schema::{self, Tool};
use rmcp::ServiceExt as _;

use crate::front_pair::FrontPair;
use crate::lean::Lean;
use crate::measure::{Mode, Row, Table, Unit};
use crate::official::{self, Echo, Era, Load, tokio_runtime};
use crate::pair::{MESSAGE, Pair};

/// Room of a duplex in bytes: more than all requests in flight need.
const ROOM: usize = 64 * 1024;

pub(crate) fn run(mode: &Mode) {
    for era in Era::BOTH {
        for load in Load::BOTH {
            table(era, load).run(mode);
        }
    }
}

fn table(era: Era, load: Load) -> Table {
    let requests = load.requests();
    let mut rows = vec![
        Row::new("limit: lean", requests, move || {
            let mut lean = Lean::default();
            move || (0..requests).for_each(|_| lean.round_trip())
        }),
        Row::new("rmcp over a duplex", requests, move || rmcp(era, load)),
        Row::new("ours over a duplex", requests, move || duplex(era, load)),
        Row::new("ours, front", requests, move || {
            let mut front = FrontPair::ready(era.policy());
            move || run_front(&mut front, load)
        }),
    ];
    if load == Load::Sequential {
        rows.push(Row::new("ours, bare", requests, move || {
            let era = if era == Era::Modern { schema::Era::Modern } else { schema::Era::Legacy };
            let mut pair = Pair::ready(era, 16);
            move || (0..requests).for_each(|_| pair.round_trip())
        }));
    }
    let title = format!("in memory, {}, {}", era.revision(), load.name());
    Table { title, unit: Unit::Each, peer: "rmcp over a duplex", rows }
}

fn rmcp(era: Era, load: Load) -> impl FnMut() {
    let runtime = tokio_runtime();
    let (near, far) = tokio::io::duplex(ROOM);
    let client = runtime.block_on(async {
        tokio::spawn(async { official::Server::new().serve(far).await.expect("it serves").waiting().await });
        official::Client::connect(near, era).await
    });
    move || runtime.block_on(load.run(|| client.call()))
}

/// A router with the tool that every server here offers.
pub(crate) fn router() -> Router {
    let tool = Tool::new("echo", "Returns its message", serde_json::json!({ "type": "object" }));
    Router::new("echo", "1.0.0").tool_with(tool, async |Echo { message }, _| message)
}

/// Calls the tool by our client.
pub(crate) async fn call(client: &Client) {
    let result = client.call_tool("echo", Echo::new()).await.expect("an answer");
    assert_eq!(result.text_content(), MESSAGE);
}

fn duplex(era: Era, load: Load) -> impl FnMut() {
    let runtime = tokio_runtime();
    let (near, far) = tokio::io::duplex(ROOM);
    let client = runtime.block_on(async {
        let (reader, writer) = tokio::io::split(far);
        let server = mcp_smol::ServerOptions::new(router()).stream(Half(reader), Half(writer));
        tokio::spawn(server.1);
        let (reader, writer) = tokio::io::split(near);
        let (client, driver) = mcp_smol::ClientOptions::new("benchmark", "1.0.0")
            .era_policy(era.policy())
            .connect_stream(Half(reader), Half(writer));
        tokio::spawn(driver);
        client.ready().await.expect("it connects");
        client
    });
    move || runtime.block_on(load.run(|| call(&client)))
}

/// Half of a stream of tokio, with the traits of `futures-io`.
struct Half<S>(S);

impl<S: tokio::io::AsyncRead + Unpin> AsyncRead for Half<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut out = tokio::io::ReadBuf::new(out);
        Pin::new(&mut self.0).poll_read(cx, &mut out).map_ok(|()| out.filled().len())
    }
}

impl<S: tokio::io::AsyncWrite + Unpin> AsyncWrite for Half<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn run_front(pair: &mut FrontPair, load: Load) {
    let client = pair.client.clone();
    let mut calls: Pin<&mut dyn Future<Output = ()>> = pin!(load.run(|| call(&client)));
    // Their wakers do nothing here but note which of the calls to poll again.
    let mut cx = Context::from_waker(Waker::noop());
    while calls.as_mut().poll(&mut cx).is_pending() {
        pair.carry();
    }
}
