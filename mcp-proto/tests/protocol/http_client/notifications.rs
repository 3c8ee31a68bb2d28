//! Notifications of the client over HTTP to a modern server.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>

use crate::common::http_client::{config, modern};
use crate::common::messages::MODERN;
use mcp_proto::schema::CustomParams;
use serde_json::json;

const METHOD: &str = "com.example/paperAdded";

/// C4.1, C4.3, C4.4, C4.6: each notification is a POST of its own, with the same headers.
#[test]
fn each_notification_is_a_post_with_its_headers() {
    modern(config(), |wire| {
        let mut params = CustomParams::new();
        params.extra.insert("sheets", 500);
        for _ in 0..2 {
            wire.client.at(wire.now).notify_custom(METHOD, &params).unwrap();
        }
        let posts = [wire.expect(METHOD), wire.expect(METHOD)];
        assert_ne!(posts[0].exchange(), posts[1].exchange());
        for post in &posts {
            assert_eq!(post.header("content-type"), Some("application/json"));
            assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
            assert_eq!(post.header("mcp-protocol-version"), Some(MODERN));
            assert_eq!(post.header("mcp-method"), Some(METHOD));
            assert_eq!(post.header("mcp-name"), None);
            assert_eq!(post.body, json!({"jsonrpc": "2.0", "method": METHOD, "params": {"sheets": 500}}));
            wire.accept(post);
        }
        wire.expect_silence();
        assert!(wire.diagnostics().is_empty());
    });
}
