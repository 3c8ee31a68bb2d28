//! Redaction of secrets in frames, texts and headers.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use mcp_proto::redact::{FrameDigest, Pseudonyms, Redactor};
use proptest::prelude::*;
use serde_json::{Value, json};

const SECRET: &str = "hünter 2/+\"\\\n";

fn redacted(redactor: &mut Redactor, frame: &str) -> String {
    String::from_utf8(redactor.frame(frame.as_bytes()).into_owned()).unwrap()
}

fn json_string(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn each_unit_escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = if byte.is_ascii_alphanumeric() {
            encoded.write_char(byte.into())
        } else {
            write!(encoded, "%{byte:02x}")
        };
        encoded
    })
}

/// The spellings of a secret in which a peer may repeat it.
fn spellings(secret: &str) -> Vec<String> {
    let basic = format!("me:{secret}");
    vec![
        json_string(secret),
        each_unit_escaped(secret),
        json_string(&json_string(secret)),
        percent_encoded(secret),
        json_string(&percent_encoded(&json_string(secret))),
        secret.replace(' ', "+").bytes().map(|byte| format!("%{byte:02X}")).collect(),
        BASE64_STANDARD.encode(secret),
        BASE64_STANDARD.encode(basic),
        BASE64_URL_SAFE_NO_PAD.encode(format!("{{\"a\":{secret}}}")),
    ]
}

/// F104
#[test]
fn redactor_hides_a_known_secret_in_every_spelling_and_place() {
    for secret in [SECRET, "hunter2", "ghp 1234~"] {
        for spelling in spellings(secret) {
            for frame in [
                format!(r#"{{"method":"m","params":{{"text":"a {spelling} b"}}}}"#),
                format!(r#"[{{"result":{{"{spelling}":1}}}},{{"id":1,"method":"m"}}]"#),
                format!("event: message\ndata: {{\"x\":[\"{spelling}\"]}}\n\n"),
                format!("{{\"cut\":\"a {spelling} b\",\"x"),
                format!("\u{1b}[2J noise {spelling}\n{{\"x\":\"{spelling}\"}}\nmore"),
                format!("data: /messages?a={spelling}&b"),
            ] {
                let mut redactor = Redactor::new().known(secret);
                let shown = redacted(&mut redactor, &frame);
                assert!(shown.contains("[redacted]"), "{frame}\n{shown}");
                assert!(!shown.contains(&spelling), "{frame}\n{shown}");
                if let Ok(Value::Object(_) | Value::Array(_)) = serde_json::from_str(&frame) {
                    assert!(serde_json::from_str::<Value>(&shown).is_ok(), "{frame}\n{shown}");
                }
            }
        }
    }
}

/// F104
#[test]
fn redactor_hides_what_a_known_secret_touches_across_the_parts_of_json() {
    for (secret, frame, shown) in [
        ("hunter2\"", r#"{"a":"hunter2"}"#, r#"{"a":"[redacted]"}"#),
        ("hunter2\"", r#"{"an hunter2":["\thunter2"]}"#, r#"{"[redacted]":["[redacted]"]}"#),
        ("hunter2\"", "data: {\"a\":\"hunter2\"}\nnoise", "data: {\"a\":\"[redacted]\"}\nnoise"),
        ("\"hunter2", "{\"a\":\"hunter2\"}\nx \"hunter2 x", "{\"a\":\"[redacted]\"}\nx [redacted] x"),
        (
            r#"{"user":"ann","id":[1,2]}"#,
            r#"{"x":{"user":"ann","id":[1,2]},"y":"ann"}"#,
            r#"{"x":{"[redacted]":"[redacted]","[redacted]":["[redacted]","[redacted]"]},"y":"ann"}"#,
        ),
        // Its beginning is a part of an escape.
        ("nhunter2", r#"{"a":"is\nhunter2","b":"c"}"#, r#"{"a":"[redacted]","b":"c"}"#),
        ("one\n{}\ntwo", "is one\n{}\ntwo, x", "is [redacted]{}\n[redacted], x"),
        (
            "hunter2 abc",
            r#"{"a":"hunter2 \u0061bc","b":"x hunter2 abc\n"}"#,
            r#"{"a":"[redacted]","b":"x [redacted]\n"}"#,
        ),
    ] {
        assert_eq!(redacted(&mut Redactor::new().known(secret), frame), shown);
    }
}

/// F104
#[test]
fn redactor_hides_secrets_by_names_pointers_and_headers() {
    let mut redactor = Redactor::new().name("PIN code").pointer("/params/arguments/rows/*/cell~1a");
    for (frame, shown) in [
        (r#"{"password":"hunter2","n":1}"#, r#"{"password":"[redacted]","n":1}"#),
        (r#"{"apiKey" : 12.5e1, "key":2}"#, r#"{"apiKey" : "[redacted]", "key":2}"#),
        (
            r#"{"credentials":{"user":"ann","more":[1,null,true,""]}}"#,
            r#"{"credentials":{"user":"[redacted]","more":["[redacted]",null,true,""]}}"#,
        ),
        (r#"{"pin_code":"1"}"#, r#"{"pin_code":"[redacted]"}"#),
        (r#"{"pass\u0077ord":"1"}"#, r#"{"pass\u0077ord":"[redacted]"}"#),
        (
            r#"{"params":{"arguments":{"rows":[{"cell/a":"x"},{"b":"y"}]}}}"#,
            r#"{"params":{"arguments":{"rows":[{"cell/a":"[redacted]"},{"b":"y"}]}}}"#,
        ),
        (
            r#"[{"params":{"arguments":{"rows":[{"cell/a":1}]}}}]"#,
            r#"[{"params":{"arguments":{"rows":[{"cell/a":"[redacted]"}]}}}]"#,
        ),
        (
            r#"{"params":{"_meta":{"progressToken":"t1"},"cursor":"c"}}"#,
            r#"{"params":{"_meta":{"progressToken":"t1"},"cursor":"c"}}"#,
        ),
        (
            r#"{"text":"{\"password\":\"hunter2\",\"n\":1}"}"#,
            r#"{"text":"{\"password\":\"[redacted]\",\"n\":1}"}"#,
        ),
        (r#"{"text":"DB_PASSWORD=hunter2\nuser=ann"}"#, r#"{"text":"DB_PASSWORD=[redacted]\nuser=ann"}"#),
    ] {
        assert_eq!(redacted(&mut redactor, frame), shown);
    }
    for (name, value, shown) in [
        ("Authorization", "Bearer abc", "Bearer [redacted]"),
        ("Mcp-Session-Id", "abc", "[redacted]"),
        ("pin-code", "abc", "[redacted]"),
        ("Location", "https://a:b@host/?sid=7&x=1", "https://[redacted]@host/?sid=[redacted]&x=1"),
        ("Mcp-Method", "tools/call", "tools/call"),
        ("WWW-Authenticate", "Bearer scope=\"a\"", "Bearer scope=\"a\""),
    ] {
        assert_eq!(redactor.header(name, value), shown);
    }
}

/// F104
#[test]
fn redactor_hides_secrets_in_malformed_frames_and_texts() {
    for (text, shown) in [
        (r#"{"password":"hun\"ter2","x"#, r#"{"password":"[redacted]","x"#),
        (r#"{"password":"hunter2"#, r#"{"password":"[redacted]"#),
        ("Authorization: Basic YTpi, x\r\nnext", "Authorization: [redacted]\r\nnext"),
        ("Set-Cookie: a=b; c=d\nnext", "Set-Cookie: [redacted]\nnext"),
        ("token = abc def", "token = [redacted] def"),
        ("DB_PASSWORD=[k9x!secret", "DB_PASSWORD=[redacted]"),
        (
            "spring.security.oauth2.client.registration.my-company-keycloak.client-secret=hunter2",
            "spring.security.oauth2.client.registration.my-company-keycloak.client-secret=[redacted]",
        ),
        ("use ghp_0123456789abcdefghijABCDEF now", "use [redacted] now"),
        ("x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjF9.c2ln y", "x [redacted] y"),
        // Without a digit.
        ("x eyJhbGciOiJub.eyJzdWIiOiJh.clng y", "x [redacted] y"),
        ("curl -H 'x: Bearer 0123456789abcdef'", "curl -H 'x: Bearer [redacted]'"),
        ("postgres://ann:pw@db/x?sslmode=require", "postgres://[redacted]@db/x?sslmode=require"),
        ("GET /mcp?session_id=7&page=2", "GET /mcp?session_id=[redacted]&page=2"),
        ("GET /mcp?id=0f8fad5bd9cb469fa165", "GET /mcp?id=[redacted]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----",
        ),
    ] {
        assert_eq!(Redactor::new().text(text), shown);
        assert_eq!(redacted(&mut Redactor::new(), text), shown);
    }
    for text in
        ["basic authentication", "a bearer token is needed", "https://example.com/@scope/x", "5 = 2 + 3"]
    {
        assert_eq!(Redactor::new().text(text), text);
    }
    let mut known = Redactor::known_only().known("Bearer hunter2");
    assert_eq!(known.text("password=hunter3, hunter2"), "password=hunter3, [redacted]");
    assert_eq!(known.cut_text("not hunte"), "not [redacted]");
    assert_eq!(redacted(&mut known, "\"a hunt"), "\"a [redacted]");
    assert_eq!(known.frame(b"\xffhunter2"), &b"\xff[redacted]"[..]);
}

/// F104
#[test]
fn redactor_learns_from_schemas_which_fields_are_passwords() {
    let schema = json!({
        "type": "object",
        "properties": {
            "pin": { "type": "string", "format": "password" },
            "more": { "type": "object", "properties": { "door": { "$ref": "#/$defs/code" } } },
            "codes": { "type": "array", "items": { "format": "password" } },
            "password": { "description": "of the account" },
            "name": { "type": "string" },
        },
        "$defs": { "code": { "$ref": "#/$defs/hidden" }, "hidden": { "anyOf": [{ "format": "password" }] } },
    });
    let list =
        json!({ "id": 1, "result": { "tools": [{ "name": "pay", "inputSchema": schema }] } }).to_string();
    let call = r#"{"params":{"name":"pay","arguments":{"pin":1234,"more":{"door":"x"},"codes":["a","b"],"name":"ann"}}}"#;
    let hidden = r#"{"params":{"name":"pay","arguments":{"pin":"[redacted]","more":{"door":"[redacted]"},"codes":["[redacted]","[redacted]"],"name":"ann"}}}"#;
    let mut redactor = Redactor::new();
    assert_eq!(redacted(&mut redactor, call), call);
    assert_eq!(redacted(&mut redactor, &list), list, "a schema names secrets and has none");
    assert_eq!(redacted(&mut redactor, call), hidden);
    assert_eq!(redacted(&mut Redactor::new().schema(&schema.to_string()), call), hidden);
    // A structured result, and its copy for clients that read only texts.
    let result = r#"{"id":3,"result":{"structuredContent":{"pin":"1234"},"content":[{"type":"text","text":"{\"pin\":\"1234\"}"}]}}"#;
    assert_eq!(redacted(&mut redactor, result), result.replace("1234", "[redacted]"));
    // The pin of a form.
    let answer = r#"{"id":2,"result":{"action":"accept","content":{"pin":"7"}}}"#;
    assert_eq!(redacted(&mut redactor, answer), answer.replace('7', "[redacted]"));
}

#[test]
fn server_cannot_blind_a_redacted_log_by_its_schemas() {
    let field = json!({ "format": "password" });
    let schema =
        json!({ "properties": { "method": field, "name": field, "params": field, "jsonrpc": field } });
    let mut redactor = Redactor::new().schema(&schema.to_string());
    let call = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#;
    assert_eq!(redacted(&mut redactor, call), call);
}

/// What is shown of a frame of which only the beginning, up to `|`, was kept.
fn beginning_of(redactor: &mut Redactor, frame: &str) -> String {
    let (beginning, rest) = frame.split_once('|').unwrap_or((frame, ""));
    let mut digest = redactor.digest();
    [beginning, rest].iter().for_each(|piece| digest.update(piece.as_bytes()));
    String::from_utf8(redactor.cut_frame(beginning.as_bytes(), &digest).into_owned()).unwrap()
}

#[test]
fn identifier_has_one_pseudonym_wherever_it_is() {
    let id = "5f0c/a9+1868a90c5e3f4d21==";
    let pseudonyms = Pseudonyms::new([1; 16]);
    let mut redactor = Redactor::new().pseudonyms(pseudonyms.clone());
    let shown = redactor.header("Last-Event-ID", id).into_owned();
    assert!(shown.starts_with("[id:") && shown.len() == 21, "{shown}");
    for (text, escaped) in [
        (format!("id: {id}"), format!("id: {shown}")),
        (format!("id:{id}\ndata: {{\"a\":1}}\n\n"), format!("id:{shown}\ndata: {{\"a\":1}}\n\n")),
        (
            format!("event: endpoint\ndata: /m?sessionId={}", percent_encoded(id)),
            format!("event: endpoint\ndata: /m?sessionId={shown}"),
        ),
    ] {
        assert_eq!(redacted(&mut redactor, &text), escaped);
    }
    assert_eq!(
        redactor.text("http://h/?session_id=5f0c/a9%2B1868a90c5e3f4d21==&a=1"),
        format!("http://h/?session_id={shown}&a=1")
    );
    for (pointer, member) in [
        ("params", json!({ "cursor": id, "arguments": { "cursor": "x" } })),
        ("params", json!({ "requestState": id })),
        ("params", json!({ "taskId": id, "status": "working" })),
        ("params", json!({ "notifications": { "taskIds": [id, id] } })),
        ("params", json!({ "_meta": { "io.modelcontextprotocol/related-task": { "taskId": id } } })),
        ("result", json!({ "nextCursor": id, "tools": [] })),
        (
            "result",
            json!({ "requestState": id, "inputRequests": { "a": { "params": { "elicitationId": id } } } }),
        ),
        ("result", json!({ "taskId": id })),
        ("result", json!({ "task": { "taskId": id }, "tasks": [{ "taskId": id }] })),
    ] {
        let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "x", pointer: member }).to_string();
        let expected = frame.replace(id, &shown);
        assert_eq!(redacted(&mut redactor, &frame), expected);
        let escaped = frame.replace(id, &each_unit_escaped(id));
        assert_eq!(redacted(&mut redactor, &escaped), expected);
        // What is redacted already stays as it is.
        assert_eq!(redacted(&mut redactor, &expected), expected);
    }
    // Long parts of it are found anywhere, by other redactors too.
    let session = "1868a90c-5e3f-4d21-9b1f-a1b2c3d4e5f6";
    let shown = redactor.header("mcp-session-id", session).into_owned();
    let mut other = Redactor::new().pseudonyms(pseudonyms);
    assert_eq!(other.text(&format!("no session '{session}'.")), format!("no session '{shown}'."));
    let nested = json!({ "error": { "code": -1, "message": json!({ "session": session }).to_string() } });
    assert_eq!(redacted(&mut other, &nested.to_string()), nested.to_string().replace(session, &shown));
    // Another trace has other pseudonyms.
    let third = Redactor::new().pseudonyms(Pseudonyms::new([2; 16]));
    assert_ne!(third.header("mcp-session-id", session), shown);
    assert_eq!(third.text("786512e2-9e0d-44bd-8f29-789f320fe840"), "786512e2-9e0d-44bd-8f29-789f320fe840");
}

#[test]
fn beginning_of_a_frame_is_redacted_by_its_structure() {
    let tools =
        r#"{"result":{"tools":[{"inputSchema":{"properties":{"pin":{"format":"password"}}}},{"name":"x"#;
    let mut redactor = Redactor::new().known("hunter2").pointer("/params/arguments/x");
    assert_eq!(beginning_of(&mut redactor, tools), tools);
    for (frame, shown) in [
        (
            r#"{"params":{"arguments":{"pin":"1234","y":"ab"#,
            r#"{"params":{"arguments":{"pin":"[redacted]","y":"ab"#,
        ),
        (r#"data: {"params":{"arguments":{"pin":"12"#, r#"data: {"params":{"arguments":{"pin":"[redacted]"#),
        (r#"{"params":{"arguments":{"x":["#, r#"{"params":{"arguments":{"x":["#),
        (r#"{"params":{"arguments":{"x":["a\"b\"#, r#"{"params":{"arguments":{"x":["[redacted]"#),
        (r#"{"a":"it is hunt"#, r#"{"a":"it is [redacted]"#),
        (r#"{"a":"it is hun\u007"#, r#"{"a":"it is hun\u007"#),
        (r#"{"a":"it is hunt\u00"#, r#"{"a":"it is [redacted]"#),
        (r#"{"a":1,"hunter2":2,"hunte"#, r#"{"a":1,"[redacted]":2,"[redacted]"#),
        (r#"{"a":1,"#, r#"{"a":1,"#),
        (r#"{"a":1}}"#, "[redacted]"),
        (r#"{"a":1} {"b"#, "[redacted]"),
        ("<html>", "[redacted]"),
        ("{\"a\":\"\u{7f}\t", "[redacted]"),
    ] {
        assert_eq!(beginning_of(&mut redactor, frame), shown);
    }
    assert_eq!(redactor.cut_frame(b"{\"a\":\"\xc3", &FrameDigest::default()), &b"{\"a\":\""[..]);
    let deep = format!(r#"{{"d":{}{},"password":"hunter3","a":""#, "[".repeat(200), "]".repeat(200));
    assert_eq!(beginning_of(&mut redactor, &deep), "[redacted]");
    let mut redactor = redactor.pseudonyms(Pseudonyms::new([1; 16]));
    let withheld = ["<html>| a", "<html> |a", "<html>| b"].map(|frame| beginning_of(&mut redactor, frame));
    assert!(withheld[0] == withheld[1] && withheld[1] != withheld[2] && withheld[0].starts_with("[id:"));
    // No words of it are known as parts of identifiers from then on.
    let (text, mut digest) = ("<html> 1868a90c-5e3f-4d21-9b1f-a1b2c3d4e5f6", redactor.digest());
    digest.update(text.as_bytes());
    assert!(redactor.cut_frame(text.as_bytes(), &digest).starts_with(b"[id:"));
    assert_eq!(redactor.text(text), text);
}

/// F104: the end of a stream or of a connection cuts a message anywhere.
#[test]
fn message_that_breaks_off_is_redacted_by_its_structure() {
    let mut redactor = Redactor::new().known("hunter2-known");
    for (frame, shown) in [
        (
            r#"{"params":{"arguments":{"password":{"value":"hunt"#,
            r#"{"params":{"arguments":{"password":{"value":"[redacted]"#,
        ),
        (r#"data: {"token":["hunter3",""#, r#"data: {"token":["[redacted]",""#),
        (r#"{"text":"it is hunter2-kno"#, r#"{"text":"it is [redacted]"#),
        (r#"{"text":"a"#, r#"{"text":"a"#),
    ] {
        assert_eq!(redacted(&mut redactor, frame), shown);
    }
    // A known secret may have a quote in it, and so lie across parts of the message.
    let mut quoted = Redactor::new().known("hunter2 \"");
    assert_eq!(redacted(&mut quoted, r#"{"a":"hunter2 ","b":"#), r#"{"a":"[redacted],"b":"#);

    let mut redactor = redactor.pseudonyms(Pseudonyms::new([1; 16]));
    let task = r#"{"params":{"taskId":"786512e2-9e0d"#;
    assert_eq!(redacted(&mut redactor, task), r#"{"params":{"taskId":"[redacted]"#);
}

/// F104
#[test]
fn message_is_json_that_can_be_read_as_a_whole() {
    let mut redactor = Redactor::new();
    let deep = format!(r#"{{"d":{}{},"password":{{"v":"hunter2"}}}}"#, "[".repeat(200), "]".repeat(200));
    for frame in [&b"{\"password\":\"hunter2"[..], b"{\"a\":\"\xff\"}", b"text", b"1", deep.as_bytes()] {
        assert_eq!(redactor.message(frame), None);
    }
    let shown = redactor.message(br#" {"password":{"v":"hunter2"}}"#).unwrap();
    assert_eq!(String::from_utf8_lossy(&shown), r#" {"password":{"v":"[redacted]"}}"#);
}

/// F104
#[test]
fn what_an_application_configures_and_what_passes_is_known() {
    let words =
        ["serve", "--api-key", "hunter-key", "--token=hunter-token", "postgres://me:hunter%2Fpw@db/x", "-v"];
    let mut redactor = Redactor::new().known_in_command(&words).known_in("https://h/?sig=hunter-sig&page=12");
    redactor.learn(b"Bearer hunter-bearer");
    for secret in ["hunter-key", "hunter-token", "hunter/pw", "hunter-sig", "hunter-bearer"] {
        for spelling in spellings(secret) {
            let shown = redacted(&mut redactor, &format!("[\"a {spelling} b\"]"));
            assert!(shown.contains("[redacted]") && !shown.contains(&spelling), "{secret}: {shown}");
        }
    }
    assert_eq!(redactor.text("serve -v, page 12, db/x"), "serve -v, page 12, db/x");
    for token in 0..8 {
        redactor.learn(format!("token {token}").as_bytes());
    }
    assert_eq!(redactor.text("token 0, token 7, hunter-bearer"), "[redacted], [redacted], hunter-bearer");
    let schema = r#"{"properties":{"pin":{"type":"string","format":"password","x-mcp-header":"Door"}}}"#;
    let redactor = Redactor::new().schema(schema);
    assert_eq!(redactor.header("Mcp-Param-Door", "1234"), "[redacted]");
    assert_eq!(redactor.header("mcp-param-room", "1234"), "1234");
}

#[test]
fn debug_output_of_a_redactor_shows_no_secret() {
    assert!(!format!("{:?}", Redactor::new().known("hunter2")).contains("hunter2"));
}

fn any_json(secret: &'static str) -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(secret.to_owned()),
        ".{0,12}".prop_map(move |text| format!("{text}{secret}{text}")),
        r#"(password|token|a)[=: "'\\{]{0,4}\PC{0,8}"#,
        "https?://[a-z:@]{0,8}/\\?[a-z]{1,3}=[a-z0-9%]{0,20}",
    ];
    let leaf = prop_oneof![
        text.clone().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null)
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop_oneof![text.clone(), Just("password".into())], inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn redacted_json_is_json_without_the_secret(value in any_json("hunter2\"ü"), cut in any::<prop::sample::Index>()) {
        let frame = json!({ "x": value }).to_string();
        let mut redactor = Redactor::new().known("hunter2\"ü");
        let shown = redacted(&mut redactor, &frame);
        prop_assert!(serde_json::from_str::<Value>(&shown).is_ok(), "{frame}\n{shown}");
        prop_assert!(!shown.contains("hunter2"), "{frame}\n{shown}");
        // Of a frame that is cut off, less than four bytes of the secret may remain.
        let at = frame.floor_char_boundary(cut.index(frame.len()));
        let beginning = &frame[..at];
        for shown in [redacted(&mut redactor, beginning), beginning_of(&mut redactor, beginning)] {
            prop_assert!(!shown.contains("hunt"), "{beginning}\n{shown}");
        }
    }

    #[test]
    fn redaction_of_any_text_keeps_utf_8(text in "\\PC{0,80}") {
        let mut redactor = Redactor::new().known("äöü!");
        let shown = redactor.text(&text).into_owned();
        prop_assert!(redactor.text(&shown).contains("[redacted]") || shown == text);
        redacted(&mut redactor, &text);
    }
}
