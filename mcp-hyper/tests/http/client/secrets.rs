//! `Debug` forms show no secret. Row C12.24.

use std::sync::{Arc, Mutex};

use mcp_hyper::auth::{Authorization, MemoryStore, TokenStore as _};
use mcp_hyper::mcp_proto::auth::Secret;
use mcp_hyper::mcp_proto::auth::client::{AuthConfig, Record, Redirect};
use mcp_hyper::{Proxy, WireEvent};

use crate::common::auth_testbed::{AuthTestbed, answer};
use crate::common::client::{connect, modern, run};

const MARKER: &str = "marker-of-a-secret";

#[test]
fn wire_events_show_no_session_no_cookie_and_no_credentials() {
    run(async {
        let town = AuthTestbed::with(|seen| {
            let (status, headers, body) = answer(&serde_json::from_str(&seen.body).ok()?);
            let secret =
                format!("set-cookie: a={MARKER}\r\nmcp-session-id: {MARKER}\r\nx-auth: {MARKER}\r\n");
            Some((status, headers + &secret, body.replace("done", MARKER)))
        })
        .await;
        let told = Arc::new(Mutex::new(String::new()));
        let tell = told.clone();
        let watch = move |event: WireEvent<'_>| {
            tell.lock().unwrap().push_str(&format!("{event:?} {event:#?}\n"));
        };
        let mut options = modern().on_wire(watch);
        for name in ["authorization", "cookie", "x-session", "x-api-key", "x-passwd", "x-signature", "dpop"] {
            options = options.header(name, MARKER);
        }
        let url = town.url().replace("http://", &format!("http://user:{MARKER}@")) + "?key=" + MARKER;
        let (client, _driver) = connect(options, &url);
        client.call_tool("tool", serde_json::json!({})).await.unwrap();
        let told = told.lock().unwrap();
        assert!(told.contains("mcp-session-id") && told.contains("set-cookie"), "{told}");
        assert!(!told.contains(MARKER), "{told}");
    });
}

#[test]
fn debug_output_of_configurations_hides_secrets() {
    let config = AuthConfig::new("test", "http://127.0.0.1/callback").client_secret(
        "https://auth.example.com",
        "id",
        Secret::new(MARKER),
    );
    let redirect = Redirect::parse(&format!("/callback?code={MARKER}&state={MARKER}"));
    let mut shown = format!("{config:?} {redirect:?}");
    shown.push_str(&format!("{:?}", Authorization::new(config)));
    let proxy = Proxy::through(&format!("http://user:{MARKER}@proxy.example.com")).unwrap();
    let options = modern().proxy(proxy.clone()).header("x-anything", MARKER).header("cookie", MARKER);
    shown.push_str(&format!("{options:?} {proxy:?}"));
    let record = serde_json::json!({ "version": 1, "tokens": {
        "issuer": "https://auth.example.com", "client_id": "id", "resource": "https://example.com",
        "access": MARKER, "kind": "Bearer", "refresh": MARKER, "issued": 1, "subject": MARKER,
    }});
    let record = Record::from_json(record.to_string().as_bytes()).unwrap();
    let store = MemoryStore::new();
    smol::block_on(store.swap("key", None, Some(record.clone()))).unwrap();
    let stored = smol::block_on(store.load("key")).unwrap();
    shown.push_str(&format!("{record:?} {store:?} {stored:?}"));
    assert!(!shown.contains(MARKER), "{shown}");
}
