//! A connection in memory: both directions of a byte stream, and the drivers on it.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::Arc;

use mcp_proto::Bytes;
use mcp_proto::adapter::{ClientDriver, ServerDriver};
use mcp_proto::front::{Client, SendHandlers};
use mcp_proto::transport::{StreamClient, StreamServer};
use serde_json::Value;
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread::{self, JoinHandle};

use crate::common::front::ClientHarness;
use crate::common::messages::{answer, parse_lines, text};

/// Messages that one task waits for.
#[derive(Default)]
pub struct Inbox(Mutex<InboxState>);

#[derive(Default)]
struct InboxState {
    messages: VecDeque<Value>,
    is_closed: bool,
    waker: Option<Waker>,
}

impl Inbox {
    pub fn push(&self, message: Value) {
        self.change(|state| state.messages.push_back(message));
    }

    pub fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut InboxState)) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls for the next message; `None` after the last.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Value>> {
        let mut state = self.0.lock().unwrap();
        match state.messages.pop_front() {
            None if !state.is_closed => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            next => Poll::Ready(next),
        }
    }

    pub fn next(&self) -> Option<Value> {
        block_on(poll_fn(|cx| self.poll_next(cx)))
    }
}

/// Both directions of a connection.
#[derive(Default)]
pub struct Wire {
    pub to_server: Inbox,
    pub to_client: Inbox,
}

/// A client of a modern server, which has not started its driver.
pub fn client() -> (Client, ClientDriver<StreamClient>, Arc<Wire>) {
    let ClientHarness { client, driver, .. } = ClientHarness::modern();
    (client, driver, Arc::default())
}

/// Drives a client until its connection has ended.
pub fn poll_client(driver: &mut ClientDriver<StreamClient>, wire: &Wire, cx: &mut Context<'_>) -> Poll<()> {
    loop {
        let polled = driver.poll(cx, |machine, _| {
            let mut out = Vec::new();
            if machine.poll_link().is_some() {
                return Poll::Ready(None);
            }
            if machine.poll_transmit(&mut out) { Poll::Ready(Some(out)) } else { Poll::Pending }
        });
        match polled {
            Poll::Ready(Some(out)) => parse_lines(&out).for_each(|line| wire.to_server.push(line)),
            Poll::Ready(None) => wire.to_server.close(),
            Poll::Pending if driver.closed().is_some() => {
                wire.to_server.close();
                return Poll::Ready(());
            }
            Poll::Pending => match wire.to_client.poll_next(cx) {
                Poll::Ready(Some(message)) => {
                    driver.lock(|machine, now| machine.handle_input(now, line(&message)))
                }
                Poll::Ready(None) => {
                    driver.lock(|machine, now| machine.handle_eof(now, "the server has ended"))
                }
                Poll::Pending => return Poll::Pending,
            },
        }
    }
}

/// Starts a thread that drives a client until its connection has ended.
pub fn spawn_client(mut driver: ClientDriver<StreamClient>, wire: &Arc<Wire>) -> JoinHandle<()> {
    let wire = wire.clone();
    thread::spawn(move || {
        block_on(poll_fn(|cx| poll_client(&mut driver, &wire, cx)));
        driver.handle_link_down();
    })
}

/// Starts a thread of a server whose tool echoes its argument.
pub fn spawn_echo(wire: &Arc<Wire>) -> JoinHandle<()> {
    let wire = wire.clone();
    thread::spawn(move || {
        while let Some(message) = wire.to_server.next() {
            if message["method"] == "tools/call" {
                let (id, params) = (&message["id"], &message["params"]);
                wire.to_client.push(answer(id, text(params["arguments"]["say"].as_str().unwrap())));
            }
        }
        wire.to_client.close();
    })
}

/// Drives a server until its connection has ended.
pub fn poll_server(
    driver: &mut ServerDriver<StreamServer, SendHandlers>,
    wire: &Wire,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let mut out = Vec::new();
        let polled =
            driver.poll(
                cx,
                |machine, _| {
                    if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending }
                },
            );
        parse_lines(&out).for_each(|line| wire.to_client.push(line));
        if polled.is_ready() {
            continue;
        }
        if driver.closed().is_some() {
            wire.to_client.close();
            return Poll::Ready(());
        }
        match wire.to_server.poll_next(cx) {
            Poll::Ready(Some(message)) => {
                driver.lock(|machine, now| machine.handle_input(now, line(&message)))
            }
            Poll::Ready(None) => driver.lock(|machine, now| machine.handle_eof(now, "the client has ended")),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// Starts a thread that drives a server until its connection has ended.
pub fn spawn_server(
    mut driver: ServerDriver<StreamServer, SendHandlers>,
    wire: &Arc<Wire>,
) -> JoinHandle<()> {
    let wire = wire.clone();
    thread::spawn(move || block_on(poll_fn(|cx| poll_server(&mut driver, &wire, cx))))
}

fn line(message: &Value) -> Bytes {
    format!("{message}\n").into()
}
