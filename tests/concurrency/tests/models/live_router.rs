//! Routers that threads change while servers serve them.

use std::sync::Arc;

use mcp_proto::front::{LiveRouter, NoArguments, Router};
use mcp_proto::schema::ServerCapability;
use serde_json::json;
use shuttle::thread;

use crate::common::messages::{LEGACY, request};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use crate::explore::explore;
use crate::wire::{Wire, spawn_server};

fn live() -> LiveRouter {
    Router::new("live", "1").declare(ServerCapability::Tools).live()
}

fn add(live: &LiveRouter, name: &'static str) {
    live.update(|router| router.tool_with(tool(name), move |NoArguments {}, _| core::future::ready(name)))
        .unwrap();
}

/// No update of two threads at once is lost, and a client learns of the last one: the list that it reads after its last
/// notification is complete. Fails if an update does not wait for the other, or is not woken by its end.
#[test]
fn client_learns_of_every_update() {
    explore(|| {
        let live = live();
        let ServerHarness { driver, .. } = ServerHarness::legacy_shared(live.clone(), LEGACY, json!({}));
        let wire = Arc::<Wire>::default();
        let driven = spawn_server(driver, &wire);
        let updaters = ["first", "second"].map(|name| {
            let live = live.clone();
            thread::spawn(move || add(&live, name))
        });
        let mut is_stale = false;
        for id in 2.. {
            if !is_stale {
                assert_eq!(wire.to_client.next().unwrap()["method"], "notifications/tools/list_changed");
            }
            wire.to_server.push(request(&json!(id), "tools/list", json!({})));
            let (changes, listed) = list(&wire, id);
            if listed == 2 {
                break;
            }
            // A list may be older than a change that arrives before it.
            is_stale = changes > 0;
        }
        updaters.into_iter().for_each(|updater| updater.join().unwrap());
        wire.to_server.close();
        driven.join().unwrap();
    });
}

/// The number of changes before the answer to a request for the list, and of tools in that.
fn list(wire: &Wire, id: u32) -> (usize, usize) {
    let mut changes = 0;
    loop {
        let message = wire.to_client.next().unwrap();
        if message["id"] == id {
            return (changes, message["result"]["tools"].as_array().unwrap().len());
        }
        changes += 1;
    }
}

/// A server may end while its router changes, and calls are answered by the router of before or after the change.
#[test]
fn server_can_be_dropped_during_an_update() {
    explore(|| {
        let live = live();
        let ServerHarness { driver, .. } = ServerHarness::legacy_shared(live.clone(), LEGACY, json!({}));
        let wire = Arc::<Wire>::default();
        wire.to_server.push(request(&json!(2), "tools/call", json!({"name": "first", "arguments": {}})));
        wire.to_server.close();
        let driven = spawn_server(driver, &wire);
        let other = live.clone();
        let updater = thread::spawn(move || add(&other, "first"));
        add(&live, "second");
        for thread in [updater, driven] {
            thread.join().unwrap();
        }
        live.update(|router| router.remove_tool("first").remove_tool("second")).unwrap();
    });
}
