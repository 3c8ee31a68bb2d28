//! Redirects of the server's endpoint.

use crate::common::http_client::{ClientWire, Exchange, config, modern};
use mcp_proto::peer::client::Diagnostic;
use mcp_proto::peer::{Leniency, Outcome, RequestId, RequestOptions, Strictness};
use mcp_proto::schema::{CallTool, CallToolParams};
use serde_json::json;

/// Calls the tool `x`.
fn call(wire: &mut ClientWire) -> (RequestId, Exchange) {
    let mut client = wire.client.at(wire.now);
    let request = client.request::<CallTool>(&CallToolParams::new("x"), RequestOptions::default()).unwrap();
    (request, wire.expect("tools/call"))
}

#[test]
fn client_follows_redirects_within_the_origin() {
    modern(config(), |wire| {
        let (request, exchange) = call(wire);
        wire.reply(&exchange, 307, &[("location", "/mcp/")], "");
        let again = wire.expect("tools/call");
        assert_eq!(&*again.request.url, "http://localhost:3000/mcp/");
        assert_eq!(again.id(), exchange.id());
        assert_eq!(again.header("mcp-name"), Some("x"));
        wire.answer(&again, json!({"content": []}));
        wire.result(request);

        let (request, exchange) = call(wire);
        assert_eq!(&*exchange.request.url, "http://localhost:3000/mcp");
        wire.reply(&exchange, 307, &[("location", "http://elsewhere.example/mcp")], "");
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 307));
        wire.expect_silence();
    });
}

#[test]
fn client_reports_a_redirect_whose_target_the_browser_keeps() {
    modern(config(), |wire| {
        let (request, exchange) = call(wire);
        wire.reply(&exchange, 0, &[], "");
        let Outcome::Transport(error) = wire.outcome(request) else { panic!("it has failed") };
        assert!(error.is_opaque_redirect());
        let text = error.to_string();
        assert!(text.starts_with("HTTP redirect to a URL that the browser does not show"), "{text}");
        wire.expect_silence();

        let (request, exchange) = call(wire);
        wire.head(&exchange, 103, &[("link", "</style.css>")]);
        wire.answer(&exchange, json!({"content": []}));
        wire.result(request);
    });
}

#[test]
fn client_follows_a_redirect_to_https_and_never_goes_back() {
    modern(config(), |wire| {
        let (early, parallel) = call(wire);
        assert_eq!(&*parallel.request.url, "http://localhost:3000/mcp");
        let (request, exchange) = call(wire);
        wire.reply(&exchange, 307, &[("location", "https://localhost:3000/mcp/")], "");
        let again = wire.expect("tools/call");
        assert_eq!(&*again.request.url, "https://localhost:3000/mcp/");
        let told = wire.diagnostics();
        assert!(matches!(told[..], [Diagnostic::Tolerated(Leniency::RedirectToHttps)]), "{told:?}");
        wire.answer(&again, json!({"content": []}));
        wire.result(request);
        // Sent before the client knew, and redirected too.
        wire.reply(&parallel, 308, &[("location", "https://localhost:3000/other")], "");
        let again = wire.expect("tools/call");
        assert_eq!(&*again.request.url, "https://localhost:3000/other");
        assert!(wire.diagnostics().is_empty(), "it is reported once");
        wire.answer(&again, json!({"content": []}));
        wire.result(early);

        let (request, exchange) = call(wire);
        assert_eq!(&*exchange.request.url, "https://localhost:3000/mcp/");
        wire.reply(&exchange, 307, &[("location", "http://localhost:3000/mcp")], "");
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 307));
        wire.expect_silence();
    });
    let mut strict = config();
    strict.client.strictness = Strictness::Strict;
    modern(strict, |wire| {
        let (request, exchange) = call(wire);
        wire.reply(&exchange, 307, &[("location", "https://localhost:3000/mcp/")], "");
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 307));
    });
}

#[test]
fn client_limits_the_number_of_redirects() {
    modern(config(), |wire| {
        let (request, first) = call(wire);
        wire.reply(&first, 308, &[("location", "/mcp")], "");
        for _ in 0..5 {
            let exchange = wire.expect("tools/call");
            wire.reply(&exchange, 308, &[("location", "/mcp")], "");
        }
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 308));
        wire.expect_silence();
    });
}
