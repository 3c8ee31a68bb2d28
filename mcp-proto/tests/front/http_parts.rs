//! Results of tools in parts, from a handler to the client.

use core::time::Duration;
use std::sync::Arc;

use crate::common::tools::tool;
use mcp_proto::Instant;
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, Event};
use mcp_proto::peer::{Outcome, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, CallToolResult, Implementation};
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::{FrontPeer, HttpPair};
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig};
use mcp_proto::transport::http::server::HttpServerConfig;

/// The texts of the parts and of the result of a call.
fn call(era: EraPolicy, server_has_parts: bool, client_reads_parts: bool) -> (Vec<String>, String) {
    let router = Router::new("writer", "1").tool_with(tool("write"), async |NoArguments {}, cx: Context| {
        let sent = ["one", "two"].map(|part| cx.partial_result(&CallToolResult::text(part)));
        format!("one two, sent: {}", sent.iter().all(|sent| *sent))
    });
    let mut config = HttpServerConfig::new(router.config());
    config.chunked_results = server_has_parts;
    let peer = FrontPeer::new(router, config, Arc::new(SimulatedClock::default()), 7);
    let mut client = ClientConfig::new(Implementation::new("client", "1.0"));
    client.era_policy = era;
    let mut client = HttpClientConfig::new(client, "http://localhost:3000/mcp");
    client.chunked_results = client_reads_parts;
    let client = HttpClient::new(client, Instant::ORIGIN).unwrap();
    let mut pair = HttpPair::new(client, Box::new(peer), 7);
    pair.advance(Duration::from_secs(1));
    let now = pair.now();
    let params = CallToolParams::new("write");
    pair.client.at(now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    pair.advance(Duration::from_secs(5));
    let (mut parts, mut result) = (Vec::new(), None);
    while let Some(event) = pair.client.poll_event() {
        match event {
            Event::PartialResult { fragment, .. } => {
                parts.push(fragment.decode::<CallToolResult>().unwrap().text_content());
            }
            Event::Outcome { outcome, .. } => {
                let outcome: Outcome = outcome;
                assert!(result.replace(outcome.decode::<CallTool>().unwrap().text_content()).is_none());
            }
            _ => {}
        }
    }
    (parts, result.unwrap())
}

/// F56: with and without the option on either side, in both eras.
#[test]
fn client_gets_the_parts_of_a_result_and_the_whole() {
    for era in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        for (server, client) in [(true, true), (true, false), (false, true)] {
            let (parts, result) = call(era, server, client);
            let expected: &[&str] = if server && client { &["one", "two"] } else { &[] };
            assert_eq!(parts, expected, "{era:?}");
            assert_eq!(result, format!("one two, sent: {server}"), "{era:?}");
        }
    }
}
