//! The envelope parser: accepted messages, errors with their positions, and recovered members.

mod properties;

use bytes::Bytes;
use mcp_proto::rpc::{
    Batch, EnvelopeKind, ErrorObject, Frame, Id, InvalidMessageKind, Malformed, MalformedKind, Message,
    Recovered, code, read, recover, recover_ends,
};
use mcp_proto::schema::{CallToolParams, CallToolResult, Params, ResultFields};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

fn frame(text: impl AsRef<[u8]>) -> Result<Frame, Malformed> {
    read(&Bytes::copy_from_slice(text.as_ref()), 128)
}

fn message(text: impl AsRef<[u8]>) -> Message {
    match frame(text.as_ref()) {
        Ok(Frame::Single(message)) => message,
        other => panic!("{other:?} for {}", String::from_utf8_lossy(text.as_ref())),
    }
}

fn malformed(text: impl AsRef<[u8]>) -> Malformed {
    match frame(text.as_ref()) {
        Err(malformed) => malformed,
        other => panic!("{other:?} for {}", String::from_utf8_lossy(text.as_ref())),
    }
}

fn batch(text: &str) -> Batch {
    match frame(text) {
        Ok(Frame::Batch(batch)) => batch,
        other => panic!("{other:?} for {text}"),
    }
}

/// The parts of a message as one JSON value, for comparison.
fn parts(message: &Message) -> Value {
    let id = |id: &Id| serde_json::to_value(id).unwrap();
    match message {
        Message::Request(request) => json!({
            "id": id(&request.id),
            "method": *request.method,
            "params": request.params.as_ref().map(|params| params.decode::<Value>().unwrap()),
        }),
        Message::Notification(notification) => json!({
            "method": *notification.method,
            "params": notification.params.as_ref().map(|params| params.decode::<Value>().unwrap()),
        }),
        Message::Response(response) => match &response.outcome {
            Ok(result) => json!({
                "id": response.id.as_ref().map(id),
                "result": result.decode::<Value>().unwrap(),
            }),
            Err(error) => json!({
                "id": response.id.as_ref().map(id),
                "code": error.code,
                "message": error.message,
                "data": error.data.as_ref().map(|data| data.decode::<Value>().unwrap()),
            }),
        },
    }
}

/// C1.1, F19
#[test]
fn request_has_an_id_and_a_method() {
    let request = message(r#"{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"cursor":""}}"#);
    assert_eq!(parts(&request), json!({"id": 0, "method": "tools/list", "params": {"cursor": ""}}));
    let request = message(r#"{"jsonrpc":"2.0","id":"","method":"ping"}"#);
    assert_eq!(parts(&request), json!({"id": "", "method": "ping", "params": null}));
}

/// C1.4, F19
#[test]
fn notification_has_no_id() {
    let notification = message(r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}"#);
    assert_eq!(notification.kind(), EnvelopeKind::Notification);
    assert_eq!(parts(&notification), json!({"method": "notifications/initialized", "params": []}));
}

/// F19
#[test]
fn result_may_be_any_json() {
    for result in ["{}", "null", "[1,[]]", "\"text\"", "-1.5e+3", "true"] {
        let text = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":"a"}}"#);
        let Message::Response(response) = message(text) else { panic!("{result}") };
        assert_eq!(response.id, Some(Id::from("a")));
        assert_eq!(response.outcome.unwrap().as_str(), result);
    }
}

/// C1.9
#[test]
fn error_may_lack_an_id() {
    for id in ["", r#""id":null,"#] {
        let error = message(format!(
            r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"Parse \u0065rror","data":[ 1 ],"more":0}}}}"#
        ));
        assert_eq!(parts(&error), json!({"id": null, "code": -32700, "message": "Parse error", "data": [1]}));
    }
}

#[test]
fn null_beside_a_result_or_error_counts_as_absent() {
    let result = message(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#);
    assert_eq!(parts(&result), json!({"id": 1, "result": {}}));
    let error = message(r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}"#);
    assert_eq!(parts(&error), json!({"id": 1, "code": 1, "message": "", "data": null}));
}

#[test]
fn null_params_count_as_absent() {
    let request = message(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#);
    assert_eq!(parts(&request), json!({"id": 1, "method": "ping", "params": null}));
}

#[test]
fn nested_values_share_the_memory_of_the_frame() {
    let text = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1}}"#);
    let Ok(Frame::Single(Message::Request(request))) = read(&text, 128) else { panic!() };
    assert_eq!(request.params.unwrap().as_bytes().as_ptr(), text[49..].as_ptr());
    assert_eq!(request.method.as_ptr(), text[34..].as_ptr());
}

#[test]
fn parser_unescapes_member_names_and_ignores_unknown_ones() {
    let request = message(
        "\r\n{ \"jsonrpc\"\t: \"2\\u002e0\" , \"other\" : [{\"id\":2}] , \"\\u0069d\" : 7 , \"method\" : \"p\\u0069ng\" } ",
    );
    assert_eq!(parts(&request), json!({"id": 7, "method": "ping", "params": null}));
}

#[test]
fn parser_accepts_all_ids_of_64_bits() {
    for id in [i64::MIN, -1, 0, i64::MAX] {
        let request = message(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!(parts(&request)["id"], json!(id));
    }
}

/// C1.22: each error has a kind, an offset and the code to answer with.
#[test]
fn parser_reports_the_offset_of_invalid_json() {
    let syntax = |expected| MalformedKind::Syntax { expected };
    let cases: [(&[u8], MalformedKind, usize); 26] = [
        (b"", MalformedKind::Truncated, 0),
        (b"  ", MalformedKind::Truncated, 2),
        (b"{", MalformedKind::Truncated, 1),
        (b"[", MalformedKind::Truncated, 1),
        (b"tru", MalformedKind::Truncated, 3),
        (b"-", MalformedKind::Truncated, 1),
        (br#"{"jsonrpc":"2.0","id":1"#, MalformedKind::Truncated, 23),
        (br#"{"jsonrpc":"2.0","id":1,"result":{"a":"b"#, MalformedKind::Truncated, 40),
        (br#"{"jsonrpc":"2.0","id":1,"result":{"a":"b\"#, MalformedKind::Truncated, 41),
        (br#"{"jsonrpc":"2.0","id":1,"result":{"a":[]"#, MalformedKind::Truncated, 40),
        (b"{\"a\":\"\xFF\"}", MalformedKind::NotUtf8, 6),
        (b"{\"a\":\"\xED\xA0\x80\"}", MalformedKind::NotUtf8, 6),
        (b"Server listening on stdio", syntax("a value"), 0),
        (b"{}x", syntax("the end of the message"), 2),
        (b"{}{}", syntax("the end of the message"), 2),
        (b"{\"a\" 1}", syntax("a colon"), 5),
        (b"{\"a\":1 \"b\":2}", syntax("a comma or the end of the object"), 7),
        (b"{\"a\":1,}", syntax("a member name"), 7),
        (b"{,}", syntax("a member name"), 1),
        (b"{\"a\":01}", syntax("a comma or the end of the object"), 6),
        (b"{\"a\":+1}", syntax("a value"), 5),
        (b"{\"a\":1.}", syntax("a digit"), 7),
        (b"{\"a\":[1}]}", syntax("the closing bracket that matches the opening one"), 7),
        (b"\0{}", syntax("a value"), 0),
        (b"{\"a\":[1,\0]}", syntax("no control character outside of a string"), 8),
        (b"{\"a\":[1,\\\"]\"]}", syntax("no control character outside of a string"), 8),
    ];
    for (text, kind, offset) in cases {
        let found = malformed(text);
        assert_eq!((&found.kind, found.offset), (&kind, offset), "{}", String::from_utf8_lossy(text));
        assert_eq!(found.code(), code::PARSE_ERROR);
    }
}

#[test]
fn parser_rejects_invalid_strings_in_the_envelope() {
    for (text, offset) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, 33),
        (r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#, 22),
        (r#"{"jsonrpc":"2.0","id":1,"method":"\x"}"#, 33),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\0b\"}", 33),
        (r#"{"jsonrpc":"2.0","\ud800":1,"method":"ping"}"#, 17),
    ] {
        let found = malformed(text);
        let kind = MalformedKind::Syntax { expected: "a string of valid characters and escapes" };
        assert_eq!((&found.kind, found.offset), (&kind, offset), "{text}");
    }
}

/// C1.22: only the result or the error of a response is repaired.
#[test]
fn parser_replaces_what_is_not_unicode_in_a_response() {
    let result = |text: &[u8]| match message(text) {
        Message::Response(response) => {
            let deviation = *response.deviation.expect("a deviation");
            let outcome = response.outcome.map(|result| result.as_str().to_string());
            (outcome.map_err(|error| error.message), deviation.kind, deviation.offset)
        }
        other => panic!("{other:?}"),
    };
    let head = r#"{"jsonrpc":"2.0","id":1,"#;
    for (member, repaired, at) in [
        (r#""result":{"a":["\ud83d\ude00 \ud83d"]}"#, Ok(r#"{"a":["\ud83d\ude00 \ufffd"]}"#), 53),
        (r#""result":"\udE00\u0041""#, Ok(r#""\ufffd\u0041""#), 34),
        (r#""error":{"code":1,"message":"a\ud83d"}"#, Err("a\u{fffd}"), 54),
    ] {
        let found = result(format!("{head}{member}}}").as_bytes());
        let expected = repaired.map(String::from).map_err(String::from);
        assert_eq!(found, (expected, MalformedKind::LoneSurrogate, at), "{member}");
    }
    for (member, repaired, at) in [
        (&b"\"result\":{\"a\":\"\xFF\xE9b\"}"[..], Ok("{\"a\":\"\u{fffd}\u{fffd}b\"}"), 39),
        (b"\"result\":[\"\xFF\\ud83d\"]", Ok("[\"\u{fffd}\\ufffd\"]"), 35),
        (b"\"error\":{\"code\":1,\"message\":\"\xFF\"}", Err("\u{fffd}"), 53),
    ] {
        let found = result(&[head.as_bytes(), member, b"}"].concat());
        let expected = repaired.map(String::from).map_err(String::from);
        assert_eq!(found, (expected, MalformedKind::NotUtf8, at));
    }
    for text in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"a\":\"\xFF\"}}"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xFF\",\"result\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\xFF}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"requestState\":\"\xFF\"}}",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xFF\"}]",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xFF\"",
    ] {
        assert_eq!(malformed(text).kind, MalformedKind::NotUtf8, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn lone_surrogate_in_one_response_leaves_its_batch_alone() {
    let text = r#"[{"jsonrpc":"2.0","id":1,"result":"\ud83d"},{"jsonrpc":"2.0","id":2,"result":"\u0041"}]"#;
    let deviations: Vec<_> = batch(text)
        .map(|message| match message {
            Ok(Message::Response(response)) => response.deviation.map(|deviation| deviation.offset),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(deviations, [Some(35), None]);
}

/// C1.1: the `null` id of a notification is a deviation; that of any other method is an error.
#[test]
fn notification_may_have_the_id_null() {
    let text = r#"{"jsonrpc":"2.0","id":null,"method":"notifications/message","params":{"a":1}}"#;
    let Message::Notification(notification) = message(text) else { panic!() };
    assert_eq!(
        (&*notification.method, notification.params.unwrap().as_str()),
        ("notifications/message", r#"{"a":1}"#)
    );
    let deviation = notification.deviation.unwrap();
    assert_eq!(deviation.kind, MalformedKind::NotAMessage(InvalidMessageKind::IdNull));
    assert_eq!((deviation.offset, deviation.recovered.kind), (22, Some(EnvelopeKind::Request)));
    assert_eq!(recover(text.as_bytes()).kind, Some(EnvelopeKind::Notification));
    assert_eq!(recover(&text.as_bytes()[..70]).kind, None, "an id may follow");
}

/// C1.1
#[test]
fn parser_reports_why_json_is_not_a_message() {
    let cases = [
        ("5", InvalidMessageKind::NotAnObject, 0),
        (" \"text\"", InvalidMessageKind::NotAnObject, 1),
        ("{}", InvalidMessageKind::VersionMissing, 0),
        (r#"{"id":1,"method":"ping"}"#, InvalidMessageKind::VersionMissing, 0),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, InvalidMessageKind::VersionUnknown, 11),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, InvalidMessageKind::VersionUnknown, 11),
        (r#"{"jsonrpc":"2.0"}"#, InvalidMessageKind::NoMethodOrOutcome, 0),
        (r#"{"jsonrpc":"2.0","id":1}"#, InvalidMessageKind::NoMethodOrOutcome, 0),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, InvalidMessageKind::IdNull, 22),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, InvalidMessageKind::IdNotInteger, 22),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, InvalidMessageKind::IdNotInteger, 22),
        (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, InvalidMessageKind::IdNotInteger, 22),
        (
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#,
            InvalidMessageKind::IdNotInteger,
            22,
        ),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, InvalidMessageKind::IdType, 22),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, InvalidMessageKind::IdType, 22),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, InvalidMessageKind::MethodType, 33),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, InvalidMessageKind::MethodType, 33),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#, InvalidMessageKind::ParamsType, 49),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"a"}"#, InvalidMessageKind::ParamsType, 49),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, InvalidMessageKind::MethodAndOutcome, 49),
        (r#"{"jsonrpc":"2.0","result":{}}"#, InvalidMessageKind::IdMissing, 0),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, InvalidMessageKind::IdNull, 22),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            InvalidMessageKind::ResultAndError,
            44,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"error":null}"#, InvalidMessageKind::ErrorType, 32),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2}}"#,
            InvalidMessageKind::Duplicate("code"),
            42,
        ),
    ];
    for (text, kind, offset) in cases {
        let found = malformed(text);
        assert_eq!((&found.kind, found.offset), (&MalformedKind::NotAMessage(kind), offset), "{text}");
        assert_eq!(found.code(), code::INVALID_REQUEST);
    }
}

#[test]
fn malformed_error_keeps_the_peers_text() {
    for (error, code, text, kind) in [
        (r#""no""#, 0, "no", InvalidMessageKind::ErrorType),
        (r#"["no"]"#, 0, r#"["no"]"#, InvalidMessageKind::ErrorType),
        (r#"{"message":"no"}"#, 0, "no", InvalidMessageKind::ErrorCode),
        (r#"{"code":1.5,"message":"no"}"#, 0, "no (code 1.5)", InvalidMessageKind::ErrorCode),
        (r#"{"code":"E_GONE","message":"no"}"#, 0, "no (code E_GONE)", InvalidMessageKind::ErrorCode),
        (r#"{"code":"-32601","message":"no"}"#, -32601, "no", InvalidMessageKind::ErrorCode),
        (r#"{"code":-32601.0,"message":"no"}"#, -32601, "no", InvalidMessageKind::ErrorCode),
        (r#"{"code":-1}"#, -1, r#"{"code":-1}"#, InvalidMessageKind::ErrorMessage),
        (
            r#"{"code":-1,"message":null}"#,
            -1,
            r#"{"code":-1,"message":null}"#,
            InvalidMessageKind::ErrorMessage,
        ),
        (r#"{"code":-1,"message":["no"]}"#, -1, r#"["no"]"#, InvalidMessageKind::ErrorMessage),
        (r#"{}"#, 0, "{}", InvalidMessageKind::ErrorMessage),
    ] {
        let Message::Response(response) = message(format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#))
        else {
            panic!("{error}")
        };
        let read = response.outcome.unwrap_err();
        assert_eq!((read.code, &*read.message, response.id), (code, text, Some(Id::from(7))), "{error}");
        let deviation = response.deviation.expect(error);
        assert_eq!((&deviation.kind, deviation.offset), (&MalformedKind::NotAMessage(kind), 32), "{error}");
        assert_eq!(deviation.recovered.id, Some(Id::from(7)));
    }
    assert_eq!(ErrorObject::new(code::UNREADABLE, "no").to_string(), "no");
}

#[test]
fn response_id_may_be_an_integral_float() {
    let id = |id: &str| match frame(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)) {
        Ok(Frame::Single(Message::Response(response))) => {
            let deviation = response.deviation.expect("a float is a deviation");
            assert_eq!(deviation.kind, MalformedKind::NotAMessage(InvalidMessageKind::IdNotInteger));
            assert_eq!(deviation.recovered.id, None, "a strict parser accepts no such id");
            response.id
        }
        _ => None,
    };
    for (text, number) in
        [("7.0", 7), ("7e0", 7), ("0.7E+1", 7), ("-0.0", 0), ("9007199254740992.0", 1 << 53)]
    {
        assert_eq!(id(text), Some(Id::from(number)), "{text}");
    }
    for text in ["7.5", "9007199254740994.0", "1e400", "-1e19", "1e-400"] {
        assert_eq!(id(text).filter(|id| *id != Id::from(0)), None, "{text}");
    }
    let cut = recover(br#"{"jsonrpc":"2.0","id":7.0,"result":{"content":["#);
    assert_eq!((cut.id, cut.kind), (Some(Id::from(7)), Some(EnvelopeKind::Response)));
    assert_eq!(recover(br#"{"jsonrpc":"2.0","id":7.0,"method":"ping"}"#).id, None);
}

#[test]
fn parser_rejects_duplicate_members() {
    for name in ["jsonrpc", "id", "method", "params", "result", "error"] {
        let found =
            malformed(format!(r#"{{"{name}":"2.0","\u00{:x}{}":"2.0"}}"#, name.as_bytes()[0], &name[1..]));
        assert_eq!(found.kind, MalformedKind::NotAMessage(InvalidMessageKind::Duplicate(name)));
        assert_eq!(found.offset, name.len() + 10);
    }
}

#[test]
fn malformed_message_describes_its_error() {
    let found = malformed(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#);
    assert_eq!(found.to_string(), "not a JSON-RPC message: `id` is not an integer of 64 bits at byte 22");
    let found = Malformed::too_long(b"{", b"", 17_000_000);
    assert_eq!(found.to_string(), "the message of 17000000 bytes is over the limit, `Limits::message_bytes`");
    assert_eq!(malformed("{]").to_string(), "not JSON: expected a member name at byte 1");
}

/// A response may have a member `params`, which is ignored: nothing found in it holds for the result.
#[test]
fn parameters_beside_a_result_do_not_affect_it() {
    let result = |text: &str| match message(text) {
        Message::Response(response) => response.outcome.unwrap(),
        other => panic!("{other:?}"),
    };
    let invalid = result(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[nonsense]},"params":{}}"#);
    assert!(invalid.validate().is_err(), "{invalid:?}");
    let repaired = result(r#"{"jsonrpc":"2.0","id":1,"result":"\ud83d","params":{}}"#);
    assert_eq!(repaired.as_str(), r#""\ufffd""#);
    // The `_meta` of the parameters lies where the result has another member.
    let valid = result(
        r#"{"jsonrpc":"2.0","id":1,"result":{"abcde":"0123456789","content":[]},"params":{"_meta":{"a":1}}}"#,
    );
    let read: CallToolResult = valid.decode().unwrap();
    assert_eq!(read, CallToolResult::from_json(valid.as_str()).unwrap());
}

/// What the scan has noted of parameters changes nothing about how they are read.
#[test]
fn parameters_are_read_from_a_message_as_from_their_text() {
    for params in [
        r#"{"name":"a","arguments":{"b":[1]},"_meta":{"c":"d"}}"#,
        r#"{ "_meta" : {} , "arguments" : null , "name" : "a" }"#,
        r#"{"structuredContent":{"x":1},"name":"a","arguments":{"b":2}}"#,
        r#"{"name":"a","\u005fmeta":{"c":1},"arguments":{"\u0062":"\ud83d\ude00"}}"#,
        r#"{"name":"a","arguments":{"b":"\ud83d"}}"#,
        r#"{"name":"\ud83d","arguments":{}}"#,
        r#"{"name":"a","arguments":{"b":1},"arguments":{"b":2}}"#,
        r#"{"name":"a","_meta":{"k":1,"k":2}}"#,
        r#"{"name":"a","arguments":{"b":nonsense}}"#,
        r#"{"name":"a","arguments":[1]}"#,
        r#"{"name":7}"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let Message::Request(request) = message(&text) else { panic!("{text}") };
        let raw = request.params.unwrap();
        assert_eq!(raw.as_str(), params);
        assert_eq!(raw.validate().is_ok(), serde_json::from_str::<IgnoredAny>(params).is_ok(), "{params}");
        let read = CallToolParams::from_raw(&raw).map_err(|error| error.to_string());
        let expected = CallToolParams::from_json(params).map_err(|error| error.to_string());
        assert_eq!(read, expected, "{params}");
    }
}

#[test]
fn parser_limits_nesting_without_recursion() {
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","id":9,"result":{open}{close}}}"#)
    };
    let Message::Response(deepest) = message(nested(127)) else { panic!() };
    deepest.outcome.unwrap().decode::<Value>().expect("the value is within serde_json's own limit");
    for levels in [128, 100_000] {
        let found = malformed(nested(levels));
        assert_eq!(found.kind, MalformedKind::TooDeep { limit: 128 });
        assert_eq!(found.code(), code::INVALID_REQUEST);
        assert_eq!(found.recovered.id, Some(Id::Number(9)), "{levels}");
    }
    assert_eq!(malformed("[".repeat(100_000)).kind, MalformedKind::TooDeep { limit: 128 });
    let members = malformed("{\"a\":".repeat(100_000));
    assert_eq!(members.kind, MalformedKind::TooDeep { limit: 128 });
    assert_eq!(members.kind.to_string(), "nested deeper than 128 levels, the limit `Limits::depth`");
}

#[test]
fn caller_sets_the_nesting_limit_up_to_128() {
    let depth = |text: &str, limit| read(&Bytes::copy_from_slice(text.as_bytes()), limit).map(drop);
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{"a":[]}}"#;
    assert_eq!(depth(text, 3), Ok(()));
    assert_eq!(depth(text, 2).unwrap_err().offset, 38);
    assert_eq!(depth(text, 1).unwrap_err().offset, 33);
    assert_eq!(depth(text, 0).unwrap_err().offset, 0);
    assert_eq!(depth(&format!("[{text}]"), 4), Ok(()));
    assert_eq!(depth(&format!("[{text}]"), 3).unwrap_err().kind, MalformedKind::TooDeep { limit: 3 });
    let deep = "[".repeat(129) + &"]".repeat(129);
    assert_eq!(depth(&deep, usize::MAX).unwrap_err().kind, MalformedKind::TooDeep { limit: 128 });
}

#[test]
fn parser_delimits_strings_and_containers_of_any_length() {
    for length in 0..300 {
        let text = "x".repeat(length) + "\\\"\\\\";
        let params = format!(r#"{{"{text}":["{text}","]}}"],"n":{{}}}}"#);
        let Message::Notification(found) =
            message(format!(r#"{{"jsonrpc":"2.0","method":"a","params":{params} }}"#))
        else {
            panic!()
        };
        assert_eq!(found.params.unwrap().as_str(), params);
    }
}

/// R1
#[test]
fn batch_yields_its_messages_one_by_one() {
    let mut batch = batch(
        r#" [ {"jsonrpc":"2.0","id":1,"method":"ping"} , {"jsonrpc":"2.0","method":"note"},{"jsonrpc":"2.0","id":2,"result":{}}] "#,
    );
    assert_eq!((batch.len(), batch.is_empty(), batch.size_hint()), (3, false, (3, Some(3))));
    let kinds: Vec<EnvelopeKind> = batch.by_ref().map(|message| message.unwrap().kind()).collect();
    assert_eq!(kinds, [EnvelopeKind::Request, EnvelopeKind::Notification, EnvelopeKind::Response]);
    assert!(batch.is_empty());
}

/// R1
#[test]
fn malformed_message_does_not_affect_the_rest_of_its_batch() {
    let mut batch = batch(
        r#"[1,{"jsonrpc":"2.0","id":1.5,"method":"a"},{"x" 1},{"jsonrpc":"2.0","id":3,"method":"b"},[]]"#,
    );
    let mut next = || batch.next().unwrap();
    assert_eq!(next().unwrap_err().kind, MalformedKind::NotAMessage(InvalidMessageKind::NotAnObject));
    let fraction = next().unwrap_err();
    assert_eq!((fraction.offset, fraction.recovered.kind), (25, Some(EnvelopeKind::Request)));
    assert_eq!(next().unwrap_err().kind, MalformedKind::Syntax { expected: "a colon" });
    assert_eq!(parts(&next().unwrap())["method"], "b");
    assert_eq!(next().unwrap_err().kind, MalformedKind::NotAMessage(InvalidMessageKind::NotAnObject));
    assert!(batch.next().is_none());
}

/// R1
#[test]
fn parser_returns_an_empty_batch() {
    assert!(batch("[ ]").is_empty());
}

#[test]
fn parser_limits_the_messages_of_a_batch() {
    let batch_of = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    assert_eq!(batch(&batch_of(Batch::MAX)).len(), Batch::MAX);
    assert_eq!(malformed(batch_of(Batch::MAX + 1)).kind, MalformedKind::BatchTooLong);
}

#[test]
fn malformed_message_has_its_recovered_members() {
    let found = malformed(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":7}"#).recovered;
    let expected = Recovered {
        id: Some(Id::from("a")),
        kind: Some(EnvelopeKind::Request),
        method: Some("tools/call".into()),
    };
    assert_eq!(found, expected);
    let found = malformed(b"{\"result\":{\"text\":\"\xFF\"},\"id\":7}").recovered;
    assert_eq!(
        found,
        Recovered { id: Some(Id::Number(7)), kind: Some(EnvelopeKind::Response), method: None }
    );
    let found = malformed(r#"{"jsonrpc":"1.0","method":"ping"}"#).recovered;
    assert_eq!(found.kind, Some(EnvelopeKind::Notification));
    let found = malformed(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#).recovered;
    assert_eq!((found.id, found.kind), (None, Some(EnvelopeKind::Request)));
}

#[test]
fn recovery_ignores_an_id_that_is_ambiguous_or_may_be_cut_off() {
    assert_eq!(recover(br#"{"id":1,"id":2,"method":"ping"}"#).id, None);
    assert_eq!(recover(br#"{"jsonrpc":"2.0","id":12"#).id, None);
    assert_eq!(recover(br#"{"jsonrpc":"2.0","id":12,"#).id, Some(Id::Number(12)));
    assert_eq!(recover(br#"{"params":{"id":1,"#).id, None);
    assert_eq!(recover(br#"[{"id":1,"method":"ping"}]"#), Recovered::default());
}

#[test]
fn recovery_needs_the_end_to_recognise_a_notification() {
    assert_eq!(recover(br#"{"jsonrpc":"2.0","method":"ping","#).kind, None);
    assert_eq!(recover(br#"{"jsonrpc":"2.0","method":"ping"}"#).kind, Some(EnvelopeKind::Notification));
}

#[test]
fn recovery_reads_members_behind_a_long_value_from_the_end() {
    let found = recover_ends(br#"{"result":{"te"#, br#"}]}} , "jsonrpc" : "2.0" , "\u0069d" : "a\\\"b" } "#);
    assert_eq!(
        found,
        Recovered { id: Some(Id::from("a\\\"b")), kind: Some(EnvelopeKind::Response), method: None }
    );
    let found = recover_ends(br#"{"params":"#, br#"xt"}},"method":"tools/call","id":5}"#);
    let expected = Recovered {
        id: Some(Id::Number(5)),
        kind: Some(EnvelopeKind::Request),
        method: Some("tools/call".into()),
    };
    assert_eq!(found, expected);
}

#[test]
fn recovery_ignores_nested_or_cut_off_members_at_the_end() {
    let ends = |tail: &str| recover_ends(br#"{"result":{"#, tail.as_bytes()).id;
    assert_eq!(ends(r#""id":1}}"#), None, "nested");
    assert_eq!(ends(r#""id":1}"#), None, "the name may have begun earlier");
    assert_eq!(ends(r#"\"id":1}"#), None, "part of a longer name");
    assert_eq!(ends(r#",\"id":1}"#), None, "part of a longer name");
    assert_eq!(ends(r#"x"},"id":1"#), None, "not the end");
    assert_eq!(ends(r#"x"} "id":1}"#), None, "not JSON");
    assert_eq!(ends(r#"x"},"id":1,"id":2}"#), None, "twice");
    assert_eq!(ends(r#"x"},"id":1}"#), Some(Id::Number(1)));
}
