//! Handles on many threads and a driver on another.

use core::task::Poll;
use std::thread;

use crate::common::front::ClientHarness;
use crate::common::messages::{answer, text};
use futures_lite::future::block_on;
use serde_json::{Value, json};

const THREADS: usize = 4;
const CALLS: usize = 500;

/// Contract 1: no response is lost between a command on one thread and the driver on another, in either order.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs threads")]
fn every_call_of_every_thread_gets_its_own_answer() {
    let ClientHarness { client, mut driver, .. } = ClientHarness::modern();
    let driven = thread::spawn(move || {
        block_on(core::future::poll_fn(|cx| {
            loop {
                let polled = driver.poll(cx, |machine, _| {
                    let mut out = Vec::new();
                    match machine.poll_link() {
                        Some(_) => Poll::Ready(None),
                        None if machine.poll_transmit(&mut out) => Poll::Ready(Some(out)),
                        None => Poll::Pending,
                    }
                });
                let Poll::Ready(written) = polled else { return Poll::Pending };
                let Some(out) = written else { return Poll::Ready(()) };
                let mut replies = String::new();
                for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                    let line: Value = serde_json::from_slice(line).unwrap();
                    if line["method"] == "tools/call" {
                        let said = line["params"]["arguments"]["say"].as_str().unwrap();
                        replies.push_str(&format!("{}\n", answer(&line["id"], text(said))));
                    }
                }
                driver.lock(|machine, now| machine.handle_input(now, replies.into()));
            }
        }));
    });
    let callers: Vec<_> = (0..THREADS)
        .map(|caller| {
            let client = client.clone();
            thread::spawn(move || {
                for number in 0..CALLS {
                    let say = format!("{caller}/{number}");
                    if number % 7 == 0 {
                        // Sent and dropped at once.
                        drop(client.call_tool("echo", json!({ "say": say })).start().unwrap());
                    }
                    let result = block_on(client.call_tool("echo", json!({ "say": say }))).unwrap();
                    assert_eq!(result.text_content(), say);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    drop(client);
    driven.join().unwrap();
}
