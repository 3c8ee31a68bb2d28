//! Tools behind a router.

use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::{
    Context, HandlerError, LocalHandlers, NoArguments, ResultOrInput, Router, RouterError, without_arguments,
};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{CallToolResult, ContentBlock, InputRequiredResult, Json, Prompt, Tool};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

fn adder() -> Router {
    Router::new("calculator", "1.0.0").tool_with(tool("add"), async |Add { a, b }, _| (a + b).to_string())
}

#[test]
fn client_calls_a_tool_with_arguments() {
    for mut s in [ServerHarness::modern(adder()), ServerHarness::legacy(adder())] {
        let result = s.call("add", json!({"a": 2, "b": 3}));
        assert_eq!(result["content"], json!([{"type": "text", "text": "5"}]));
        s.expect_silence();
    }
}

/// R5
#[test]
fn server_declares_what_is_registered() {
    let mut s = ServerHarness::modern(adder());
    let declared = s.result("server/discover", json!({}))["capabilities"].clone();
    assert_eq!(declared, json!({"tools": {}}));
    assert_eq!(s.error("prompts/list", json!({}))["code"], code::METHOD_NOT_FOUND);
    assert_eq!(s.error("resources/read", json!({"uri": "x:y"}))["code"], code::METHOD_NOT_FOUND);
}

/// S8.2
#[test]
fn declared_capability_has_its_list_even_if_empty() {
    let router = Router::new("empty", "1").declare(mcp_proto::schema::ServerCapability::Tools);
    assert_eq!(ServerHarness::modern(router).result("tools/list", json!({}))["tools"], json!([]));
}

/// S8.7
#[test]
fn unknown_tool_is_a_protocol_error() {
    for mut s in [ServerHarness::modern(adder()), ServerHarness::legacy(adder())] {
        let error = s.error("tools/call", json!({"name": "sub", "arguments": {}}));
        assert_eq!(error["code"], code::INVALID_PARAMS);
        assert!(error["message"].as_str().unwrap().contains("sub"));
    }
}

/// S8.7
#[test]
fn malformed_call_is_a_protocol_error() {
    for mut s in [ServerHarness::modern(adder()), ServerHarness::legacy(adder())] {
        for call in [json!({}), json!({"name": 7}), json!({"name": "add", "arguments": [2, 3]})] {
            assert_eq!(s.error("tools/call", call.clone())["code"], code::INVALID_PARAMS, "{call}");
        }
        assert_eq!(s.call("add", json!({"a": 2, "b": 3}))["content"][0]["text"], "5");
    }
}

/// S8.7
#[test]
fn invalid_arguments_are_reported_to_the_model_at_revisions_that_require_it() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut s = ServerHarness::legacy_with(adder(), version, json!({}));
        let error = s.error("tools/call", json!({"name": "add", "arguments": {"a": 2}}));
        assert_eq!(error["code"], code::INVALID_PARAMS, "{version}");
    }
    for mut s in [ServerHarness::modern(adder()), ServerHarness::legacy(adder())] {
        let result = s.call("add", json!({"a": 2}));
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("missing field `b`"), "{result}");
    }
}

#[test]
fn client_calls_a_tool_without_arguments() {
    let router = Router::new("ping", "1").tool_with(tool("ping"), async |NoArguments {}, _| "pong");
    let mut s = ServerHarness::modern(router);
    assert_eq!(s.result("tools/call", json!({"name": "ping"}))["content"][0]["text"], "pong");
    assert_eq!(s.call("ping", json!({"what": "ever"}))["content"][0]["text"], "pong");
}

#[test]
fn function_that_takes_only_the_context_is_a_handler() {
    async fn revision(cx: Context) -> String {
        cx.revision().as_str().to_owned()
    }
    let prompt = Prompt::new("about");
    let router = Router::new("about", "1")
        .tool_with(tool("revision"), without_arguments(revision))
        .prompt(prompt, without_arguments(async |cx: Context| cx.revision().as_str().to_owned()));
    let mut s = ServerHarness::modern(router);
    assert_eq!(s.call("revision", json!({}))["content"][0]["text"], "2026-07-28");
    let messages = s.result("prompts/get", json!({"name": "about"}))["messages"].clone();
    assert_eq!(messages[0]["content"]["text"], "2026-07-28");
}

/// F96, S8.7
#[test]
fn error_of_a_tool_is_reported_to_the_model() {
    let router = Router::new("files", "1")
        .tool_with(tool("word"), async |NoArguments {}, _| {
            Err::<String, _>(HandlerError::new("the disk is full"))
        })
        .tool_with(tool("error"), async |NoArguments {}, _| {
            let number: i32 = "seven".parse()?;
            Ok(number.to_string())
        })
        .tool_with(tool("protocol"), async |NoArguments {}, _| {
            Err::<&str, _>(ErrorObject::new(4711, "no such thing").into())
        });
    let mut s = ServerHarness::modern(router);
    let result = s.call("word", json!({}));
    assert_eq!(
        (&result["isError"], &result["content"][0]["text"]),
        (&json!(true), &json!("the disk is full"))
    );
    assert_eq!(s.call("error", json!({}))["content"][0]["text"], "invalid digit found in string");
    assert_eq!(
        s.error("tools/call", json!({"name": "protocol"})),
        json!({"code": 4711, "message": "no such thing"})
    );
}

#[test]
fn server_answers_for_a_tool_that_panics_and_continues() {
    #[derive(Deserialize)]
    struct Boom {
        boom: bool,
    }
    let router = Router::new("bugs", "1").tool_with(tool("maybe"), async |Boom { boom }, _| {
        assert!(!boom, "!boom");
        "fine"
    });
    let mut s = ServerHarness::modern(router);
    let result = s.call("maybe", json!({"boom": true}));
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the tool failed unexpectedly"), "{text}");
    assert!(!text.contains("!boom"), "the panic message stays on the server");
    assert_eq!(s.call("maybe", json!({"boom": false}))["content"][0]["text"], "fine");
}

/// A library that needs its runtime panics where a handler first polls it.
#[test]
fn server_answers_for_a_tool_that_needs_a_missing_runtime() {
    const TEXT: &str = "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    let router = Router::new("clock", "1").tool_with(tool("sleep"), async |NoArguments {}, _| {
        core::future::poll_fn(|_| -> core::task::Poll<()> { panic!("{TEXT}") }).await;
        "done"
    });
    let mut s = ServerHarness::modern(router);
    let result = s.call("sleep", json!({}));
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("the reason is in the server's log") && !text.contains("reactor"), "{text}");
}

#[test]
fn raw_tool_receives_the_unchanged_call() {
    let router = Router::new("raw", "1").tool_raw(tool("raw"), async |call, _| {
        let mut result = CallToolResult::new();
        result.structured_content = call.arguments;
        result.content = vec![ContentBlock::text(call.name)];
        result
    });
    let mut s = ServerHarness::modern(router);
    let result = s.call("raw", json!({"any": ["thing"]}));
    assert_eq!(result["structuredContent"], json!({"any": ["thing"]}));
    assert_eq!(result["content"][0]["text"], "raw");
}

#[test]
fn tool_may_require_input_first() {
    let router = Router::new("ask", "1").tool_raw(tool("ask"), async |call, _| match call.request_state {
        Some(state) => ResultOrInput::Result(state),
        None => {
            let mut needed = InputRequiredResult::new();
            needed.request_state = Some("round two".into());
            ResultOrInput::InputRequired(needed)
        }
    });
    let mut s = ServerHarness::modern(router);
    let first = s.call("ask", json!({}));
    assert_eq!(
        (&first["resultType"], &first["requestState"]),
        (&json!("input_required"), &json!("round two"))
    );
    let second = s.result("tools/call", json!({"name": "ask", "requestState": "round two"}));
    assert_eq!(
        (&second["resultType"], &second["content"][0]["text"]),
        (&json!("complete"), &json!("round two"))
    );
}

/// S8.3, S8.16
#[test]
fn server_lists_tools_in_order_page_by_page() {
    let mut router = Router::new("many", "1").page_size(2);
    for name in ["e", "d", "c", "b", "a"] {
        router = router.tool_with(tool(name), async |NoArguments {}, _| "");
    }
    let mut s = ServerHarness::modern(router);
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = s.result("tools/list", params);
        names.extend(
            page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        assert!(page["tools"].as_array().unwrap().len() <= 2);
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(names, ["e", "d", "c", "b", "a"]);
    assert_eq!(s.error("tools/list", json!({"cursor": "zzz"}))["code"], code::INVALID_PARAMS);
}

/// S7.1
#[test]
fn list_has_cache_hints_at_revisions_that_define_them() {
    let listed = ServerHarness::modern(adder()).result("tools/list", json!({}));
    assert!(listed["ttlMs"].is_u64() && listed["cacheScope"].is_string(), "{listed}");
    let listed = ServerHarness::legacy(adder()).result("tools/list", json!({}));
    assert!(listed.get("ttlMs").is_none() && listed.get("cacheScope").is_none(), "{listed}");
}

/// S8.4
#[test]
fn router_checks_names_at_registration() {
    let problem = |name: &str| {
        Router::new("x", "1").tool_with(tool(name), async |NoArguments {}, _| "").check().unwrap_err()
    };
    let long = "x".repeat(129);
    for name in ["", "a b", "ä", "a/b", long.as_str()] {
        assert_eq!(problem(name), RouterError::ToolName { name: name.into() });
    }
    let fine = "x".repeat(127) + "-";
    let router = Router::new("x", "1").tool_with(tool(&fine), async |NoArguments {}, _| "");
    assert_eq!(router.check(), Ok(()));
}

/// S8.4
#[test]
fn router_refuses_a_duplicate_name() {
    let router = adder().tool_with(tool("add"), async |NoArguments {}, _| "");
    assert_eq!(router.check(), Err(RouterError::Duplicate { kind: "tool", name: "add".into() }));
    assert_eq!(
        router.check().unwrap_err().to_string(),
        r#"the tool "add" is registered twice: rename or remove one of them"#
    );
}

/// S8.5
#[test]
fn input_schema_is_an_object() {
    let router = |schema: Json| {
        Router::new("x", "1").tool_with(Tool::new("t", "", schema), async |NoArguments {}, _| "")
    };
    let others =
        [json!("no schema"), json!([]), json!({"type": "string"}), json!({"type": ["object", "null"]})];
    for schema in others {
        let checked = router(schema.clone().into()).check();
        assert_eq!(checked, Err(RouterError::InputSchema { tool: "t".into() }), "{schema}");
    }
    // Arguments are always objects, so the router adds the type that an author omits.
    let mut s = ServerHarness::modern(router(json!({"properties": {}}).into()));
    let listed = s.result("tools/list", json!({}));
    assert_eq!(listed["tools"][0]["inputSchema"], json!({"type": "object", "properties": {}}));
}

/// Pain 22
#[test]
fn tools_of_a_local_router_need_not_be_send() {
    let count = std::rc::Rc::new(core::cell::Cell::new(0));
    let router: Router<LocalHandlers> =
        Router::local("counter", "1").tool_with(tool("count"), move |NoArguments {}, _| {
            let count = count.clone();
            async move {
                count.set(count.get() + 1);
                count.get().to_string()
            }
        });
    let mut s = ServerHarness::modern(router);
    s.call("count", json!({}));
    assert_eq!(s.call("count", json!({}))["content"][0]["text"], "2");
}

#[test]
fn driver_of_a_router_may_move_to_another_thread() {
    fn moved<T: Send + 'static>() {}
    moved::<mcp_proto::adapter::ServerDriver<mcp_proto::transport::StreamServer>>();
    moved::<mcp_proto::front::Context>();
    moved::<mcp_proto::front::ServerHandle>();
}

#[test]
fn tool_may_return_nothing() {
    let router = Router::new("x", "1").tool_with(tool("do"), async |NoArguments {}, _| {});
    assert_eq!(ServerHarness::modern(router).call("do", json!({}))["content"], json!([]));
}

#[test]
fn one_router_serves_many_connections() {
    let router = std::sync::Arc::new(adder());
    for _ in 0..2 {
        let machine = mcp_proto::transport::StreamServer::new(router.config());
        let clock = std::sync::Arc::new(crate::common::polling::TestClock::default());
        let entropy = std::sync::Arc::new(crate::common::polling::CountingEntropy::default());
        let (handle, driver) = mcp_proto::adapter::server(machine, clock, entropy, router.clone());
        drop((handle, driver));
    }
}

#[cfg(feature = "schemars")]
mod described {
    use mcp_proto::front::Structured;
    use schemars::JsonSchema;
    use serde::Serialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct Where {
        /// The city to ask for.
        city: String,
        /// The number of days ahead.
        #[serde(default)]
        days: u8,
    }

    #[derive(Serialize, JsonSchema)]
    struct Weather {
        degrees: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        wind: Option<f64>,
    }

    fn weather() -> Router {
        Router::new("weather", "1")
            .tool("weather", "The weather of a city", async |Where { city, days }, _| {
                if city == "Atlantis" {
                    return Err(HandlerError::new("under water"));
                }
                Ok(Structured(Weather { degrees: f64::from(days), wind: None }))
            })
            .tool("ping", "Says pong", async |NoArguments {}, _| "pong")
    }

    /// S8.5, S8.6
    #[test]
    fn router_derives_schemas_from_types() {
        let listed = ServerHarness::modern(weather()).result("tools/list", json!({}));
        let tool = &listed["tools"][0];
        assert_eq!(tool["description"], "The weather of a city");
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["inputSchema"]["required"], json!(["city"]));
        assert_eq!(tool["inputSchema"]["properties"]["city"]["description"], "The city to ask for.");
        assert!(tool["inputSchema"].get("$schema").is_none() && tool["inputSchema"].get("title").is_none());
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["required"], json!(["degrees"]));
        assert_eq!(
            listed["tools"][1]["inputSchema"],
            json!({"type": "object", "additionalProperties": false})
        );
        assert!(listed["tools"][1].get("outputSchema").is_none());
    }

    /// S8.6
    #[test]
    fn structured_result_is_also_sent_as_text() {
        let mut s = ServerHarness::modern(weather());
        let result = s.call("weather", json!({"city": "Bern", "days": 2}));
        assert_eq!(result["structuredContent"], json!({"degrees": 2.0}));
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        assert_eq!(s.call("weather", json!({"city": "Atlantis"}))["isError"], true);
    }

    /// S8.5
    #[test]
    fn router_refuses_argument_types_that_are_no_object() {
        let router = Router::new("x", "1").tool("t", "", async |_: String, _| "");
        assert_eq!(router.check(), Err(RouterError::InputSchema { tool: "t".into() }));
    }
}
