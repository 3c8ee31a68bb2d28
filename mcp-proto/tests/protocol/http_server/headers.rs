//! Headers that mirror the body: both must agree (S3.8 to S3.10).

use std::cell::Cell;

use mcp_proto::codec::header;
use mcp_proto::peer::server::Eras;
use mcp_proto::schema::{Extension, ExtensionMethod};
use mcp_proto::transport::http::param_headers::ParamHeaders;
use mcp_proto::transport::http::server::{RequestHead, RequestIntake, Setup};
use serde_json::{Value, json};

use crate::common::http_client::CountedFields;
use crate::common::http_server::{TestRequest, config_with, modern, post, setup};
use crate::common::messages::MODERN;

const MISMATCH: (u16, i64) = (400, -32020);

fn call(name: &str) -> TestRequest {
    modern(7, "tools/call", json!({"name": name}))
}

/// S3.8
#[test]
fn each_header_is_required() {
    let setup = setup();
    for name in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"] {
        assert_eq!(call("t").without(name).expect_refusal(&setup), MISMATCH, "{name}");
    }
    let read = modern(1, "resources/read", json!({"uri": "file:///a b"}));
    assert_eq!(read.without("Mcp-Name").expect_refusal(&setup), MISMATCH);
    let prompt = modern(1, "prompts/get", json!({"name": "p"}));
    assert_eq!(prompt.without("Mcp-Name").expect_refusal(&setup), MISMATCH);
    let task = modern(1, "tasks/get", json!({"taskId": "t1"}));
    assert_eq!(task.without("Mcp-Name").expect_refusal(&setup), MISMATCH);
}

/// S3.8
#[test]
fn each_header_must_equal_the_value_in_the_body() {
    let setup = setup();
    assert_eq!(call("t").with("MCP-Protocol-Version", "2025-11-25").expect_refusal(&setup), MISMATCH);
    assert_eq!(call("t").with("Mcp-Method", "tools/list").expect_refusal(&setup), MISMATCH);
    // Values are case-sensitive.
    assert_eq!(call("t").with("Mcp-Method", "Tools/Call").expect_refusal(&setup), MISMATCH);
    assert_eq!(call("t").with("Mcp-Name", "T").expect_refusal(&setup), MISMATCH);
    assert_eq!(
        modern(1, "tasks/cancel", json!({"taskId": "t1"})).with("Mcp-Name", "t2").expect_refusal(&setup),
        MISMATCH
    );
    assert_eq!(
        modern(1, "resources/read", json!({"uri": "x:y"})).with("Mcp-Name", "x:z").expect_refusal(&setup),
        MISMATCH
    );
}

#[test]
fn refusal_names_the_header_and_both_values_and_carries_the_request_id() {
    let setup = setup();
    let body: Value =
        serde_json::from_slice(&call("bar").with("Mcp-Name", "foo").answer(&setup).body).unwrap();
    let message = "Header mismatch: mcp-name header value 'foo' does not match body value 'bar'";
    assert_eq!(body, json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32020, "message": message}}));
    let long = call(&"n".repeat(10_000)).with("Mcp-Name", "m".repeat(10_000)).answer(&setup);
    assert!(long.body.len() < 1000);
}

/// S3.9
#[test]
fn server_accepts_a_name_in_base64() {
    let setup = setup();
    for name in ["Hello, 世界", " padded ", "=?base64?literal?=", "line1\nline2", "", "plain"] {
        call(name).with("Mcp-Name", header::encode(name).as_bytes()).exchange(&setup);
        let wrong = header::encode("other 世界").into_owned();
        assert_eq!(call(name).with("Mcp-Name", wrong).expect_refusal(&setup), MISMATCH, "{name}");
    }
    // Base64 is valid for a plain name too.
    call("a").with("Mcp-Name", "=?base64?YQ==?=").exchange(&setup);
}

/// S3.9
#[test]
fn server_refuses_characters_that_no_header_may_have() {
    let setup = setup();
    assert_eq!(call("é").with("Mcp-Name", "é").expect_refusal(&setup), MISMATCH);
    assert_eq!(call("a").with("Mcp-Name", b"a\x01").expect_refusal(&setup), MISMATCH);
    assert_eq!(call("a").with("Mcp-Name", "=?base64?YQ?=").expect_refusal(&setup), MISMATCH);
    assert_eq!(call("a").with("Mcp-Name", "=?base64?/w==?=").expect_refusal(&setup), MISMATCH);
}

/// S3.10
#[test]
fn server_ignores_the_case_of_header_names_and_space_around_values() {
    let setup = setup();
    for (version, method, name) in [
        ("mcp-protocol-version", "mcp-method", "mcp-name"),
        ("MCP-PROTOCOL-VERSION", "MCP-METHOD", "MCP-NAME"),
    ] {
        let asked = call("t").without("MCP-Protocol-Version").without("Mcp-Method").without("Mcp-Name");
        asked.header(version, MODERN).header(method, " tools/call\t").header(name, " t ").exchange(&setup);
    }
}

#[test]
fn server_reads_the_headers_of_a_request_in_one_pass() {
    for (method, served) in [("POST", true), ("GET", false)] {
        let headers = [
            ("host", "localhost"),
            ("origin", "http://localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", "t"),
        ];
        let fields = CountedFields(&headers, Cell::default());
        let head = RequestHead { method, path: "/mcp", fields: &fields, client: None };
        assert_eq!(RequestIntake::new(&setup(), &head).is_ok(), served);
        assert_eq!(fields.1.get(), 1);
    }
}

#[test]
fn server_refuses_a_header_with_two_different_values() {
    let setup = setup();
    for (name, other) in
        [("Mcp-Method", "tools/list"), ("Mcp-Name", "u"), ("MCP-Protocol-Version", "2025-11-25")]
    {
        assert_eq!(call("t").header(name, other).expect_refusal(&setup), MISMATCH, "{name}");
    }
    call("t").header("Mcp-Method", "tools/call").exchange(&setup);
}

#[test]
fn body_without_a_name_is_no_header_mismatch() {
    let setup = setup();
    // A missing name is no mismatch; the application handles it.
    modern(1, "tools/call", json!({})).exchange(&setup);
    modern(1, "tools/call", json!({"name": 5})).exchange(&setup);
    // Nor is a header that the method does not define.
    modern(1, "tools/list", json!({})).header("Mcp-Name", "t").exchange(&setup);
}

#[test]
fn server_compares_names_after_decoding_escapes() {
    let setup = setup();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "NAME", "_meta": crate::common::messages::request_meta(),
    }});
    let escaped = body.to_string().replace("NAME", "\\u0074");
    post(&body)
        .body(escaped)
        .header("MCP-Protocol-Version", MODERN)
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "t")
        .exchange(&setup);
}

#[test]
fn server_refuses_unreadable_parameters() {
    let setup = setup();
    let asked = |params: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        post(&json!(null))
            .body(body)
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", "tools/call")
    };
    assert_eq!(asked(r#"{"a":tru}"#).expect_refusal(&setup), (400, -32700));
    assert_eq!(asked(r#"{"name":"a","name":"b"}"#).expect_refusal(&setup), (400, -32602));
    assert_eq!(asked(r#"{"_meta":5}"#).expect_refusal(&setup), (400, -32602));
    let twice = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/protocolVersion":"x"}}"#;
    assert_eq!(asked(twice).expect_refusal(&setup), (400, -32602));
}

/// S3.8: two readers of the body must not differ in the value that the header repeats.
#[test]
fn server_refuses_a_repeated_parameter_that_the_name_of_an_extension_mirrors() {
    let method = ExtensionMethod::new("com.example/print").with_name_param("printer");
    let printing = Extension::new("com.example/printing").unwrap().with_method(method);
    let setup = Setup::new(config_with(|config| config.extensions.push(printing)));
    let asked = |printers: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "com.example/print", "params": {
            "printers": 0, "_meta": crate::common::messages::request_meta(),
        }});
        post(&body)
            .body(body.to_string().replace(r#""printers":0"#, printers))
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", "com.example/print")
            .header("Mcp-Name", "hall")
    };
    asked(r#""printer":"hall""#).modern(&setup);
    for twice in [r#""printer":"hall","printer":"vault""#, r#""printer":"hall","\u0070rinter":"vault""#] {
        assert_eq!(asked(twice).expect_refusal(&setup), MISMATCH);
    }
}

/// S1.6, S3.8: the rules of an extension hold once the client declares it; headers that differ from the body never pass.
#[test]
fn server_expects_the_name_header_of_an_extension_only_from_clients_that_declare_it() {
    let method = ExtensionMethod::new("com.example/print").with_name_param("printer");
    let printing = Extension::new("com.example/printing").unwrap().with_method(method);
    let setup = Setup::new(config_with(|config| config.extensions.push(printing)));
    let asked = |is_declared: bool| {
        let mut meta = crate::common::messages::request_meta();
        if is_declared {
            meta["io.modelcontextprotocol/clientCapabilities"]["extensions"]["com.example/printing"] =
                json!({});
        }
        let params = json!({"printer": "hall", "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "com.example/print", "params": params});
        post(&body).header("MCP-Protocol-Version", MODERN).header("Mcp-Method", "com.example/print")
    };
    // The peer refuses it with -32021.
    asked(false).modern(&setup);
    assert_eq!(asked(true).expect_refusal(&setup), MISMATCH);
    for is_declared in [false, true] {
        asked(is_declared).header("Mcp-Name", "hall").modern(&setup);
        assert_eq!(asked(is_declared).header("Mcp-Name", "vault").expect_refusal(&setup), MISMATCH);
    }
}

fn region() -> ParamHeaders {
    let schema = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"}}}"#;
    ParamHeaders::from_schema(schema).unwrap().unwrap()
}

/// S3.8, S3.9
#[test]
fn server_compares_mirrored_parameters_with_their_headers() {
    let (setup, params) = (setup(), region());
    let call = |arguments: Value| {
        modern(7, "tools/call", json!({"name": "t", "arguments": arguments})).with_param_headers(&params)
    };
    let checked = |asked: TestRequest| asked.modern(&setup).check(&params);
    let both = call(json!({"region": "Zürich", "limit": 42, "query": "x"}));
    let encoded = header::encode("Zürich").into_owned();
    assert!(
        checked(both.clone().header("Mcp-Param-Region", &encoded).header("mcp-param-limit", "42.0")).is_ok()
    );
    assert!(checked(call(json!({"region": null}))).is_ok());
    let refused = [
        both.clone(),
        both.clone().header("Mcp-Param-Region", &encoded),
        both.clone().header("Mcp-Param-Region", "Bern").header("Mcp-Param-Limit", "42"),
        both.header("Mcp-Param-Region", "Zürich").header("Mcp-Param-Limit", "42"),
        call(json!({})).header("Mcp-Param-Region", "Bern"),
    ];
    for asked in refused {
        let answer = checked(asked).unwrap_err();
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &body["id"], &body["error"]["code"]), (400, &json!(7), &json!(-32020)));
    }
    // No tool of this server has a header of this name.
    assert!(checked(call(json!({})).header("Mcp-Param-Other", "x")).is_ok());
}

#[test]
fn request_names_its_tool() {
    let setup = setup();
    assert_eq!(call("t").modern(&setup).tool().as_deref(), Some("t"));
    assert_eq!(modern(1, "prompts/get", json!({"name": "p"})).modern(&setup).tool(), None);
}

/// R6, S3.9: the server accepts integers of at most 53 bits in a marked parameter, and compares them as numbers.
#[test]
fn server_accepts_only_integers_of_53_bits_in_marked_parameters() {
    let (setup, params) = (setup(), region());
    let checked = |limit: &str, header: &str| {
        let body = modern(7, "tools/call", json!({"name": "t", "arguments": {"limit": 4711}}));
        let body = body.replaced("4711", limit).header("Mcp-Param-Limit", header).with_param_headers(&params);
        body.modern(&setup).check(&params).is_ok()
    };
    for limit in ["0", "9007199254740991", "-9007199254740991"] {
        assert!(checked(limit, limit), "{limit}");
        assert!(checked(&format!("{limit}.0"), limit), "{limit}");
        assert!(!checked(limit, "7"), "{limit}");
    }
    for limit in ["9007199254740992", "-9007199254740992", "18446744073709551615", "1e300", "1.5"] {
        assert!(!checked(limit, limit), "{limit}");
    }
}

/// S3.8, S3.18: a server without clients of earlier revisions refuses every message without the version.
#[test]
fn modern_only_server_requires_the_version_header_of_notifications_too() {
    let setup = Setup::new(config_with(|config| config.eras = Eras::ModernOnly));
    let notification =
        |params: Value| post(&json!({"jsonrpc": "2.0", "method": "notifications/x", "params": params}));
    let named = || json!({"_meta": crate::common::messages::request_meta()});
    for params in [named(), json!({})] {
        assert_eq!(notification(params.clone()).expect_refusal(&setup), MISMATCH);
        let with_version = notification(params).header("MCP-Protocol-Version", MODERN);
        assert_eq!(with_version.answer(&setup).status, 202);
    }
    assert_eq!(
        notification(named()).header("MCP-Protocol-Version", "2025-11-25").expect_refusal(&setup),
        MISMATCH
    );
    assert_eq!(call("t").without("MCP-Protocol-Version").expect_refusal(&setup), MISMATCH);
    // A server of both eras takes a notification without it: no header is defined for notifications.
    assert_eq!(notification(named()).answer(&crate::common::http_server::setup()).status, 202);
}
