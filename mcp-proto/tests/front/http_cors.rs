//! Requests of web pages of other origins (CORS).

use mcp_proto::front::{NoArguments, Router};
use mcp_proto::transport::http::server::{CorsOrigins, Hosts, ResponseHead};

use crate::common::front_http::{HttpHarness, field};
use crate::common::tools::tool;

const PAGE: &str = "https://app.example";
const OTHER: &str = "https://other.example";

fn web(cors: CorsOrigins) -> HttpHarness {
    let router = Router::new("web", "1.0.0").tool_with(tool("greet"), async |NoArguments {}, _| "hello");
    HttpHarness::configured(router, |config| config.cors = Some(cors))
}

fn preflight(web: &HttpHarness, origin: &str, headers: &str) -> ResponseHead {
    let asked = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", headers),
    ];
    web.send("OPTIONS", &asked, "").head()
}

#[test]
fn server_answers_the_preflight_request_of_an_allowed_page() {
    let web = web(CorsOrigins::only([PAGE]));
    let head = preflight(&web, PAGE, "content-type, mcp-param-region, Mcp-Param-City,x-other, mcp-param-a b");
    assert_eq!(head.status, 204);
    assert_eq!(field(&head, "access-control-allow-origin"), Some(PAGE));
    assert_eq!(field(&head, "access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert_eq!(field(&head, "access-control-allow-credentials"), None);
    let allowed = field(&head, "access-control-allow-headers").unwrap();
    let allowed: Vec<&str> = allowed.split(", ").collect();
    let needed =
        ["authorization", "dpop", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];
    assert!(needed.iter().all(|name| allowed.contains(name)), "{allowed:?}");
    assert!(allowed.contains(&"mcp-param-region") && allowed.contains(&"Mcp-Param-City"), "{allowed:?}");
    assert!(!allowed.contains(&"x-other") && !allowed.iter().any(|name| name.contains(' ')), "{allowed:?}");
    let many: Vec<String> = (0..2_000).map(|number| format!("mcp-param-{number}")).collect();
    let head = preflight(&web, PAGE, &many.join(","));
    assert!(field(&head, "access-control-allow-headers").unwrap().len() < 5_000);
}

#[test]
fn server_lets_an_allowed_page_read_every_answer() {
    let mut web = web(CorsOrigins::only([PAGE]));
    let origin = [("origin", PAGE)];
    let session = web.open();
    for (method, headers, body, status) in [
        ("POST", &[][..], "no JSON", 400),
        ("POST", &[("content-type", "text/plain")], "{}", 415),
        ("PUT", &[], "", 405),
        ("DELETE", &[("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")], "", 200),
    ] {
        let head = web.send(method, &[&origin, headers].concat(), body).head();
        assert_eq!((head.status, field(&head, "access-control-allow-origin")), (status, Some(PAGE)));
        let exposed = field(&head, "access-control-expose-headers").unwrap();
        let read = ["mcp-session-id", "www-authenticate", "dpop-nonce", "retry-after"];
        assert!(read.iter().all(|name| exposed.contains(name)), "{exposed}");
        assert_eq!(field(&head, "vary"), Some("origin"));
    }
    // A cache must not show this answer to the page.
    let head = web.send("POST", &[], "no JSON").head();
    assert_eq!((field(&head, "access-control-allow-origin"), field(&head, "vary")), (None, Some("origin")));
}

/// S3.2
#[test]
fn server_serves_no_page_of_another_origin() {
    let web = web(CorsOrigins::only([PAGE, "null", "*"]));
    for origin in [OTHER, "null", "*", "https://app.example:444", "http://app.example", ""] {
        let head = preflight(&web, origin, "");
        assert_eq!((head.status, field(&head, "access-control-allow-origin")), (403, None), "{origin}");
        let head = web.send("POST", &[("origin", origin)], "{}").head();
        assert_eq!((head.status, field(&head, "access-control-allow-origin")), (403, None), "{origin}");
    }
    let both = [("origin", PAGE), ("origin", OTHER)];
    assert_eq!(web.send("POST", &both, "{}").head().status, 403);
    // Pages of this machine are served as without CORS, and may not read across origins.
    let head = preflight(&web, "http://localhost:3000", "");
    assert_eq!((head.status, field(&head, "access-control-allow-origin")), (405, None));
}

#[test]
fn function_decides_which_origins_are_allowed() {
    let web = web(CorsOrigins::matching(|origin| origin.ends_with(".preview.example") || origin == "null"));
    assert_eq!(preflight(&web, "https://a.preview.example", "").status, 204);
    assert_eq!(preflight(&web, PAGE, "").status, 403);
    assert_eq!(preflight(&web, "null", "").status, 403);
}

/// S3.5
#[test]
fn preflight_request_names_a_host_and_a_path_that_are_served() {
    let router = Router::new("web", "1.0.0");
    let web = HttpHarness::configured(router, |config| {
        config.cors = Some(CorsOrigins::only([PAGE]));
        config.hosts = Hosts::Only(vec!["mcp.example".into()]);
        config.path = Some("/mcp".into());
    });
    let asked = |host, path| {
        let asked = [("host", host), ("origin", PAGE), ("access-control-request-method", "POST")];
        web.send_to(path, "OPTIONS", &asked, "").head().status
    };
    assert_eq!(asked("mcp.example", "/mcp"), 204);
    assert_eq!(asked("evil.example", "/mcp"), 403);
    assert_eq!(asked("mcp.example", "/other"), 404);
}

#[test]
fn server_without_cors_answers_no_preflight_request() {
    let web = HttpHarness::new(Router::new("web", "1.0.0"));
    let head = preflight(&web, "http://localhost:3000", "");
    assert_eq!((head.status, field(&head, "vary")), (405, None));
}
