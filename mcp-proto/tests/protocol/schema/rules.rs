//! Rules that types do not express: trace context, extensions, sampling conversations, base64.

use mcp_proto::schema::{
    ClientCapabilities, ContentBlock, CreateMessageParams, CreateMessageResult, Extension, Json, Meta,
    SamplingError, ServerCapabilities, TraceContext, TraceError, apps, meta, tasks,
};
use serde_json::{Value, json};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

// --- Trace context ---

/// C1.21
#[test]
fn traceparent_must_follow_w3c_trace_context() {
    let context = TraceContext::new(PARENT).unwrap();
    assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(context.parent_id(), "00f067aa0ba902b7");
    assert!(context.is_sampled());
    assert!(!TraceContext::new(PARENT.replace("-01", "-02")).unwrap().is_sampled());
    // An unknown future version may have more parts.
    assert!(TraceContext::new(format!("01{}-more", &PARENT[2..])).is_ok());
    for bad in [
        String::new(),
        PARENT.to_uppercase(),
        PARENT.replace("00-0", "ff-0"),
        format!("{PARENT}-more"),
        PARENT.replace("-01", ""),
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
        PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
        PARENT.replace("00f067aa0ba902b7", "00f067aa0ba902b"),
        PARENT.replace('-', "_"),
        format!(" {PARENT}"),
    ] {
        assert_eq!(TraceContext::new(bad.clone()), Err(TraceError::Parent), "{bad}");
    }
}

/// C1.21
#[test]
fn tracestate_has_at_most_32_distinct_members() {
    let with = |state: &str| TraceContext::new(PARENT).unwrap().with_state(state);
    let many = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
    for good in [
        "rojo=00f067aa0ba902b7",
        "congo=t61rcWkgMzE,rojo=1",
        "fw529a3039@dt=x y",
        "a=1, ,b=2",
        "0a/b*c-d_e=~",
    ] {
        assert_eq!(with(good).unwrap().tracestate(), Some(good));
    }
    assert!(with(&many(32)).is_ok());
    for bad in ["Key=1", "a", "=1", "a=", "a=b=c", "a=1,a=2", "a=ü", "a=\t", "@a=1"] {
        assert_eq!(with(bad), Err(TraceError::State), "{bad}");
    }
    for bad in [many(33), format!("{}=1", "a".repeat(257)), format!("a={}", "x".repeat(257))] {
        assert_eq!(with(&bad), Err(TraceError::State));
    }
}

/// C1.21
#[test]
fn trace_context_is_bounded() {
    let parent = |length: usize| format!("01{}-{}", &PARENT[2..], "x".repeat(length - PARENT.len() - 1));
    assert!(TraceContext::new(parent(256)).is_ok());
    assert_eq!(TraceContext::new(parent(257)), Err(TraceError::Parent));
    let with = |state: &str| TraceContext::new(PARENT).unwrap().with_state(state);
    let state = format!("a={},b={}", "x".repeat(254), "x".repeat(253));
    assert_eq!(state.len(), 512);
    assert_eq!(with(&state).unwrap().tracestate(), Some(&*state));
    let long = format!("{state}x");
    assert_eq!(with(&long), Err(TraceError::State));
    // A peer's state that is too long is left out.
    let meta: Meta = serde_json::from_value(json!({"traceparent": PARENT, "tracestate": long})).unwrap();
    assert_eq!(meta.trace_context(), Some(TraceContext::new(PARENT).unwrap()));
}

/// C1.21
#[test]
fn baggage_must_follow_w3c_baggage() {
    let mut own = Meta::new();
    for good in ["userId=alice", "a=1,b = 2 ; p; q=3", "a=%C3%BC", "a="] {
        assert_eq!(own.set_baggage(good), Ok(()), "{good}");
        assert_eq!(own.baggage().as_deref(), Some(good));
    }
    let long = format!("a={}", "x".repeat(8192));
    let many = vec!["a=1"; 181].join(",");
    for bad in ["", "a", "=1", "a=1,", "a b=1", "a=\"x\"", "a=ü", "a=x\\y", "a=1;=2", &long, &many] {
        assert_eq!(own.set_baggage(bad), Err(TraceError::Baggage), "{bad}");
    }
    assert_eq!(own.baggage().as_deref(), Some("a="));
}

/// C1.21: an invalid `traceparent` is read as absent; an invalid `tracestate` only drops the state.
#[test]
fn invalid_trace_context_is_read_as_absent() {
    let read = |json: Value| -> Meta { serde_json::from_str(&json.to_string()).unwrap() };
    let whole = read(json!({"traceparent": PARENT, "tracestate": "a=1", "baggage": "a=1"}));
    let context = whole.trace_context().unwrap();
    assert_eq!((context.traceparent(), context.tracestate()), (PARENT, Some("a=1")));
    let odd = read(json!({"traceparent": PARENT, "tracestate": "A", "baggage": 7}));
    assert_eq!(odd.trace_context().unwrap().tracestate(), None);
    assert_eq!(odd.baggage(), None);
    assert_eq!(read(json!({"traceparent": "00", "tracestate": "a=1"})).trace_context(), None);
    let mut own = whole.clone();
    own.set_trace_context(&TraceContext::new(PARENT).unwrap());
    assert_eq!(own.get(meta::TRACESTATE), None);
}

// --- Extensions ---

/// C2.9
#[test]
fn extension_identifier_requires_a_prefix_and_a_name() {
    for good in ["com.example/charts", tasks::EXTENSION, apps::EXTENSION, "example/x", "a-b.c1/d_e.f"] {
        assert!(Meta::is_extension(good), "{good}");
        assert!(Extension::new(good).is_ok(), "{good}");
        assert!(ClientCapabilities::new().with_extension(good, Json::empty_object()).is_ok());
    }
    for bad in [
        "charts",
        "",
        "/charts",
        "com.example/",
        "com..example/x",
        "1com/x",
        "com.example/a/b",
        "com.example/-x",
    ] {
        assert!(!Meta::is_extension(bad), "{bad}");
        assert_eq!(Extension::new(bad).unwrap_err().identifier, bad);
        let refused = ServerCapabilities::new().with_extension(bad, Json::empty_object());
        assert_eq!(refused.unwrap_err().identifier, bad);
    }
    let declared =
        ServerCapabilities::new().with_extension("com.example/charts", json!({"size": 3})).unwrap();
    assert_eq!(declared.extension("com.example/charts").unwrap().as_str(), r#"{"size":3}"#);
    assert_eq!(declared.extension("com.example/other"), None);
}

/// C1.20: all prefixed names that this crate writes are the specification's.
#[test]
fn own_keys_and_extensions_use_reversed_domain_names() {
    let own = [
        meta::PROTOCOL_VERSION,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES,
        meta::LOG_LEVEL,
        meta::SUBSCRIPTION_ID,
        meta::SERVER_INFO,
        meta::RELATED_TASK,
        tasks::EXTENSION,
        apps::EXTENSION,
    ];
    for name in own {
        assert!(name.starts_with("io.modelcontextprotocol/") && Meta::is_extension(name), "{name}");
        assert!(Meta::is_reserved_key(name), "{name}");
    }
}

/// C14.11
#[test]
fn host_declares_the_media_type_of_pages_that_it_renders() {
    let declared = ClientCapabilities::new().with_apps();
    let settings = declared.extension("io.modelcontextprotocol/ui").unwrap();
    assert_eq!(settings.as_str(), r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#);
    assert!(declared.renders_apps());
    let read = |json: Value| -> ClientCapabilities { serde_json::from_str(&json.to_string()).unwrap() };
    for other in
        [json!({}), json!({"mimeTypes": ["text/html"]}), json!({"mimeTypes": "text/html;profile=mcp-app"})]
    {
        assert!(
            !read(json!({"extensions": {"io.modelcontextprotocol/ui": other}})).renders_apps(),
            "{other}"
        );
    }
    assert!(!ClientCapabilities::new().renders_apps());
}

// --- Sampling conversations ---

fn conversation(messages: Value) -> CreateMessageParams {
    serde_json::from_str(&json!({"messages": messages, "maxTokens": 100}).to_string()).unwrap()
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "add", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "toolUseId": id, "content": [{"type": "text", "text": "5"}]})
}

fn text() -> Value {
    json!({"type": "text", "text": "Hello"})
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn model(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

/// C11.4
#[test]
fn conversation_requires_matching_tool_calls_and_results() {
    for good in [
        json!([]),
        json!([user(text())]),
        json!([
            user(text()),
            model(json!([text(), call("1"), call("2")])),
            user(json!([result("2"), result("1")]))
        ]),
        // An id may be reused once its call has a result.
        json!([
            model(call("1")),
            user(result("1")),
            model(json!([call("1")])),
            user(json!([result("1")])),
            model(text())
        ]),
    ] {
        assert_eq!(conversation(good.clone()).check(), Ok(()), "{good}");
    }
    let id = |id: &str| String::from(id);
    for (bad, fault) in [
        (json!([model(call("1")), user(json!([result("1"), text()]))]), SamplingError::Mixed { index: 1 }),
        (json!([model(call("1")), model(result("1"))]), SamplingError::Mixed { index: 1 }),
        (json!([user(text()), model(call("1"))]), SamplingError::Unanswered { id: id("1") }),
        (json!([model(call("1")), user(text())]), SamplingError::Unanswered { id: id("1") }),
        (
            json!([model(json!([call("1"), call("2")])), user(result("1"))]),
            SamplingError::Unanswered { id: id("2") },
        ),
        (json!([user(result("1"))]), SamplingError::NoCall { id: id("1") }),
        (
            json!([model(call("1")), user(json!([result("1"), result("1")]))]),
            SamplingError::NoCall { id: id("1") },
        ),
        (
            json!([model(json!([call("1"), call("1")])), user(result("1"))]),
            SamplingError::Call { id: id("1") },
        ),
        (json!([user(call("1")), user(result("1"))]), SamplingError::Call { id: id("1") }),
        (json!([user(text()), {"role": "system", "content": text()}]), SamplingError::Message { index: 1 }),
    ] {
        assert_eq!(conversation(bad.clone()).check(), Err(fault), "{bad}");
    }
}

fn rule(tools: &[&str], mode: Option<&str>, messages: Value) -> mcp_proto::schema::ToolRule {
    let mut params = json!({"messages": messages, "maxTokens": 100});
    params["tools"] = tools
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect::<Vec<_>>()
        .into();
    if let Some(mode) = mode {
        params["toolChoice"] = json!({"mode": mode});
    }
    let params: CreateMessageParams = serde_json::from_str(&params.to_string()).unwrap();
    params.tool_rule()
}

fn sampling_result(content: Value, stop_reason: &str) -> CreateMessageResult {
    let text = json!({"role": "assistant", "content": content, "model": "m", "stopReason": stop_reason});
    serde_json::from_str(&text.to_string()).unwrap()
}

/// R9
#[test]
fn answer_calls_only_offered_tools_and_one_if_required() {
    let messages = json!([user(text())]);
    let tool = SamplingError::Tool { name: "add".into() };
    let (calls, talks) = (sampling_result(json!([call("1")]), "toolUse"), sampling_result(text(), "endTurn"));
    for (tools, mode, calling, talking) in [
        (&["add"][..], None, Ok(()), Ok(())),
        (&["add"], Some("auto"), Ok(()), Ok(())),
        (&["add"], Some("required"), Ok(()), Err(SamplingError::NoTool)),
        (&["add"], Some("none"), Err(tool.clone()), Ok(())),
        (&["sub"], None, Err(tool.clone()), Ok(())),
        (&[], None, Err(tool), Ok(())),
    ] {
        let rule = rule(tools, mode, messages.clone());
        assert_eq!(rule.check(&calls), calling, "{tools:?} {mode:?}");
        assert_eq!(rule.check(&talks), talking, "{tools:?} {mode:?}");
    }
    // The model has called a tool before, or its answer was cut off.
    let done = json!([user(text()), model(call("1")), user(result("1"))]);
    assert_eq!(rule(&["add"], Some("required"), done).check(&talks), Ok(()));
    assert_eq!(
        rule(&["add"], Some("required"), messages).check(&sampling_result(text(), "maxTokens")),
        Ok(())
    );
}

/// C11.5: the order of the hints counts, not the order of the models.
#[test]
fn first_hint_that_matches_a_model_chooses_it() {
    let preferences = |hints: Value| -> mcp_proto::schema::ModelPreferences {
        serde_json::from_str(&json!({ "hints": hints }).to_string()).unwrap()
    };
    let models = ["tiny-1", "sonnet-3", "sonnet-4", "opus-4"];
    for (hints, chosen) in [
        (json!([{"name": "sonnet"}, {"name": "opus"}]), Some("sonnet-3")),
        (json!([{"name": "opus"}, {"name": "sonnet"}]), Some("opus-4")),
        (json!([{"name": "gpt"}, {}, {"name": ""}, {"name": "tiny"}]), Some("tiny-1")),
        (json!([{"name": "gpt"}]), None),
        (json!([]), None),
    ] {
        assert_eq!(preferences(hints.clone()).choose(models), chosen, "{hints}");
    }
    assert_eq!(mcp_proto::schema::ModelPreferences::new().choose(models), None);
}

// --- Base64 ---

/// C9.11, S8.15
#[test]
fn bytes_survive_base64_and_invalid_base64_is_an_error() {
    let bytes: Vec<u8> = (0..=255).collect();
    let ContentBlock::Image(mut image) = ContentBlock::image_bytes(&bytes, "image/png") else { panic!() };
    assert_eq!(image.bytes().unwrap(), bytes);
    let ContentBlock::Audio(mut audio) = ContentBlock::audio_bytes(&bytes, "audio/wav") else { panic!() };
    assert_eq!(audio.bytes().unwrap(), bytes);
    let mut blob = mcp_proto::schema::BlobResourceContents::from_bytes("x:y", &bytes);
    assert_eq!(blob.bytes().unwrap(), bytes);
    // Base64 without padding is accepted.
    image.data = "aGk".into();
    assert_eq!(image.bytes().unwrap(), b"hi");
    for bad in ["aGk=\n", "a", "####", "aGk==", "YWJj-_", "aGl="] {
        (image.data, audio.data, blob.blob) = (bad.into(), bad.into(), bad.into());
        assert!(image.bytes().is_err() && audio.bytes().is_err() && blob.bytes().is_err(), "{bad:?}");
    }
}
