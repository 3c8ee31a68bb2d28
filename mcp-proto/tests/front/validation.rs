//! Routers and clients that validate tools against their schemas.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use std::sync::Arc;

use crate::common::front::{ClientHarness, config};
use crate::common::messages::discover_result;
use crate::common::polling::{boxed, pending, poll, ready};
use crate::common::router::ServerHarness;
use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{
    ClientHandlers, Error, ErrorOrigin, Event, HandlerError, NoArguments, OutputChecks, Router, RouterError,
    SendHandlers,
};
use mcp_proto::peer::client::Diagnostic;
use mcp_proto::peer::{Leniency, Strictness};
use mcp_proto::rpc::code;
use mcp_proto::schema::{CallToolResult, Json, Tool};
use mcp_proto::validate::{Bound, Bounds, CheckError, OutputError, SchemaError};
use serde::Deserialize;
use serde_json::{Value, json};

mod router {
    use super::*;

    #[derive(Deserialize)]
    struct Book {
        seats: u32,
    }

    /// A tool whose arguments need more than a type to describe.
    fn booking(calls: &Arc<AtomicUsize>) -> Router {
        let schema = json!({
            "type": "object",
            "properties": {"seats": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["seats"],
        });
        let calls = calls.clone();
        Router::new("booking", "1").tool_with(Tool::new("book", "", schema), move |Book { seats }, _| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move { format!("{seats} seats") }
        })
    }

    /// S8.7, S8.8
    #[test]
    fn arguments_that_violate_the_schema_never_reach_the_handler() {
        let calls = Arc::new(AtomicUsize::new(0));
        for mut s in [ServerHarness::modern(booking(&calls)), ServerHarness::legacy(booking(&calls))] {
            for (arguments, what) in [
                (json!({"seats": 10}), "/seats: value is greater than the maximum of 9"),
                (json!({"seats": "two"}), r#"/seats: value is not of type "integer""#),
                (json!({}), r#""seats" is a required property"#),
            ] {
                let result = s.call("book", arguments);
                assert_eq!(result["isError"], true);
                let text = result["content"][0]["text"].as_str().unwrap();
                assert_eq!(text, format!("the arguments do not fit the tool book: {what}"));
            }
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        assert_eq!(
            ServerHarness::modern(booking(&calls)).call("book", json!({"seats": 2}))["content"][0]["text"],
            "2 seats"
        );
    }

    /// S8.7: a protocol error before 2025-11-25.
    #[test]
    fn invalid_arguments_have_the_error_of_the_revision() {
        let calls = Arc::default();
        for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
            let mut s = ServerHarness::legacy_with(booking(&calls), version, json!({}));
            let error = s.error("tools/call", json!({"name": "book", "arguments": {"seats": 0}}));
            assert_eq!(error["code"], code::INVALID_PARAMS, "{version}");
        }
    }

    /// S8.5
    #[test]
    fn router_validates_a_call_without_arguments_like_one_with_empty_arguments() {
        let strict = json!({"type": "object", "additionalProperties": false});
        let router = Router::new("x", "1")
            .tool_with(Tool::new("none", "", strict), async |NoArguments {}, _| "done")
            .tool_raw(Tool::new("some", "", json!({"required": ["a"]})), async |_, _| "done");
        let mut s = ServerHarness::modern(router);
        assert_eq!(s.result("tools/call", json!({"name": "none"}))["content"][0]["text"], "done");
        assert_eq!(s.call("none", json!({"a": 1}))["isError"], true);
        assert_eq!(s.result("tools/call", json!({"name": "some"}))["isError"], true);
    }

    fn weather(
        result: impl Fn() -> Result<CallToolResult, HandlerError> + Clone + Send + Sync + 'static,
    ) -> Router {
        let output =
            json!({"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]});
        let tool = Tool::new("weather", "", json!({"type": "object"})).with_output_schema(output);
        let typed = result.clone();
        Router::new("weather", "1")
            .tool_with(tool.clone(), move |NoArguments {}, _| core::future::ready(typed()))
            .tool_raw(Tool { name: "raw".into(), ..tool }, move |_, _| core::future::ready(result()))
    }

    /// S8.6
    #[test]
    fn router_does_not_send_a_result_that_violates_the_output_schema() {
        type Wrong = fn() -> Result<CallToolResult, HandlerError>;
        let wrong: [Wrong; 3] = [
            || Ok(CallToolResult::from_structured(&json!({"degrees": "warm"}))?),
            || Ok(CallToolResult::text("warm")),
            || Ok(CallToolResult::from_structured(&json!(null))?),
        ];
        for wrong in wrong {
            for tool in ["weather", "raw"] {
                for mut s in [ServerHarness::modern(weather(wrong)), ServerHarness::legacy(weather(wrong))] {
                    let error = s.error("tools/call", json!({"name": tool, "arguments": {}}));
                    assert_eq!(error["code"], code::INTERNAL_ERROR);
                    let message = error["message"].as_str().unwrap();
                    assert!(message.starts_with("the tool has failed: "), "{message}");
                }
            }
        }
    }

    /// S8.6: 95.5 is a number.
    #[test]
    fn router_sends_a_result_that_satisfies_the_output_schema() {
        let mut s = ServerHarness::modern(weather(|| {
            Ok(CallToolResult::from_structured(&json!({"degrees": 95.5}))?)
        }));
        for tool in ["weather", "raw"] {
            assert_eq!(s.call(tool, json!({}))["structuredContent"], json!({"degrees": 95.5}));
        }
    }

    /// S8.6
    #[test]
    fn router_does_not_validate_the_error_of_a_tool() {
        let mut s = ServerHarness::modern(weather(|| Err(HandlerError::new("no such place"))));
        let result = s.call("weather", json!({}));
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "no such place");
        let mut s = ServerHarness::modern(weather(|| Ok(CallToolResult::error("no such place"))));
        assert_eq!(s.call("raw", json!({}))["isError"], true);
    }

    /// S8.6
    #[test]
    fn router_validates_the_result_of_detached_work() {
        let output = json!({"type": "object", "required": ["degrees"]});
        let tool = Tool::new("later", "", json!({"type": "object"})).with_output_schema(output);
        let router = Router::new("x", "1").tasks(TaskConfig::default()).detaching_tool(
            tool,
            TaskChoice::Optional,
            async |NoArguments {}, _| Ok(DetachedWork::new(async |_| CallToolResult::text("warm"))),
        );
        let error = ServerHarness::modern(router).error("tools/call", json!({"name": "later"}));
        assert_eq!(error["code"], code::INTERNAL_ERROR);
    }

    /// C1.23, C1.26, S1.13, S8.23
    #[test]
    fn router_refuses_a_tool_with_unusable_schemas() {
        let tool = |input: Value| Tool::new("t", "", input);
        let router = |tool| Router::new("x", "1").tool_raw(tool, async |_, _| "");
        let outside = json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}});
        let problem = router(tool(outside)).check().unwrap_err();
        assert_eq!(
            problem.to_string(),
            r#"the input schema of the tool "t" is not usable, correct it: the schema refers to "https://example.com/a", which is not part of it"#
        );
        let odd = tool(json!({"type": "object"})).with_output_schema(json!({"$schema": "urn:mine"}));
        assert_eq!(
            router(odd).check(),
            Err(RouterError::Schema {
                tool: "t".into(),
                which: "output",
                error: SchemaError::Dialect { uri: "urn:mine".into() },
            })
        );
    }

    /// C1.27, S1.13
    #[test]
    fn application_can_set_the_validation_bounds_of_a_router() {
        let bounds = Bounds { instance_bytes: 100, ..Bounds::default() };
        let router = Router::new("x", "1")
            .schema_bounds(bounds)
            .tool_raw(Tool::new("t", "", json!({"type": "object"})), async |_, _| "done");
        let mut s = ServerHarness::modern(router);
        let text = s.call("t", json!({"a": "a".repeat(100)}))["content"][0]["text"].clone();
        assert_eq!(text, "the arguments do not fit the tool t: the value cannot be checked: it is too long");
        let router = Router::new("x", "1")
            .schema_bounds(Bounds { values: 1, ..bounds })
            .tool_raw(Tool::new("t", "", json!({"type": "object"})), async |_, _| "done");
        let error = SchemaError::Bound(Bound::Values);
        assert_eq!(router.check(), Err(RouterError::Schema { tool: "t".into(), which: "input", error }));
    }
}

mod client {
    use super::*;

    fn listed(output: Value) -> Value {
        json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "weather", "inputSchema": {"type": "object"}, "outputSchema": output}],
        })
    }

    /// A client that has listed a tool with this output schema.
    fn client_with_schema(output: Value) -> ClientHarness {
        let mut s = ClientHarness::modern();
        list(&mut s, output);
        s
    }

    fn list(s: &mut ClientHarness, output: Value) {
        let mut page = s.client.list_tools_page(None);
        pending(poll(&mut page));
        let id = s.expect("tools/list");
        s.answer(&id, listed(output));
        ready(poll(&mut page)).unwrap();
    }

    fn call(s: &mut ClientHarness, answer: Value) -> Result<CallToolResult, Error> {
        let mut call = s.client.call_tool("weather", json!({}));
        pending(poll(&mut call));
        let id = s.expect("tools/call");
        s.answer(&id, answer);
        ready(poll(&mut call))
    }

    fn structured(value: Value) -> Value {
        json!({"resultType": "complete", "content": [], "structuredContent": value})
    }

    /// C9.7, C9.8, F98
    #[test]
    fn client_returns_an_error_with_the_result_that_violates_the_schema() {
        let mut s =
            client_with_schema(json!({"type": "object", "properties": {"degrees": {"type": "number"}}}));
        assert!(call(&mut s, structured(json!({"degrees": 95.5}))).is_ok());
        let error = call(&mut s, structured(json!({"degrees": "warm"}))).unwrap_err();
        assert_eq!(error.origin(), ErrorOrigin::Peer);
        assert_eq!(
            error.to_string(),
            r#"the result of the tool "weather" is not valid: the structured result does not fit the output schema: /degrees: value is not of type "number""#
        );
        let Error::Output { tool, error: fault, result } = error else { panic!("{error}") };
        assert_eq!(tool, "weather");
        assert!(
            matches!(fault, OutputError::Value(CheckError::Mismatch { pointer, .. }) if pointer == "/degrees")
        );
        assert_eq!(result.structured_content, Some(Json::from(json!({"degrees": "warm"}))));
    }

    /// C9.7
    #[test]
    fn client_validates_structured_content_of_any_json_type() {
        for (schema, value) in [("array", json!([1, 2])), ("null", json!(null)), ("string", json!("warm"))] {
            let mut s = client_with_schema(json!({"type": schema}));
            assert!(call(&mut s, structured(value)).is_ok(), "{schema}");
            assert!(call(&mut s, structured(json!(7))).is_err(), "{schema}");
        }
    }

    /// C9.6, C9.7
    #[test]
    fn client_does_not_validate_the_error_of_a_tool() {
        let mut s = client_with_schema(json!({"type": "object"}));
        let failure =
            json!({"resultType": "complete", "isError": true, "content": [{"type": "text", "text": "no"}]});
        assert!(call(&mut s, failure).unwrap().failed());
        let missing = json!({"resultType": "complete", "content": [{"type": "text", "text": "yes"}]});
        assert!(matches!(call(&mut s, missing), Err(Error::Output { error: OutputError::Missing, .. })));
    }

    /// C9.7
    #[test]
    fn client_uses_the_latest_listed_schema_and_validates_nothing_without_one() {
        let mut s = ClientHarness::modern();
        assert!(call(&mut s, structured(json!(1))).is_ok());
        list(&mut s, json!({"type": "string"}));
        assert!(call(&mut s, structured(json!(1))).is_err());
        list(&mut s, json!({"type": "number"}));
        assert!(call(&mut s, structured(json!(1))).is_ok());
    }

    /// C1.23, C1.26: the client accepts nothing if it cannot validate.
    #[test]
    fn client_accepts_no_result_with_an_unusable_schema() {
        let mut s = client_with_schema(json!({"$ref": "https://example.com/schema"}));
        let error = call(&mut s, structured(json!(1))).unwrap_err();
        assert!(matches!(
            error,
            Error::Output { error: OutputError::Schema(SchemaError::Reference { .. }), .. }
        ));
        let mut s = client_with_schema(json!({"$schema": "https://example.com/dialect"}));
        let error = call(&mut s, structured(json!(1))).unwrap_err();
        assert!(matches!(
            error,
            Error::Output { error: OutputError::Schema(SchemaError::Dialect { .. }), .. }
        ));
    }

    #[test]
    fn client_reports_missing_structured_content_in_place_of_a_failure_if_it_is_told_to() {
        for strictness in [Strictness::Lenient, Strictness::Strict] {
            let mut config = config();
            config.tolerate_missing_output = true;
            config.strictness = strictness;
            let mut s = ClientHarness::<SendHandlers>::open(config, ClientHandlers::new());
            let id = s.expect("server/discover");
            s.answer(&id, discover_result());
            list(&mut s, json!({"type": "object", "required": ["degrees"]}));
            let mut events = s.client.events();
            let text = json!({"resultType": "complete", "content": [{"type": "text", "text": "warm"}]});
            let called = call(&mut s, text);
            let is_tolerated = strictness == Strictness::Lenient;
            assert_eq!(called.is_ok(), is_tolerated);
            let reported = match poll(&mut boxed(events.next())) {
                Poll::Ready(Some(Event::Diagnostic(Diagnostic::Tolerated(leniency)))) => Some(leniency),
                _ => None,
            };
            let missing = Leniency::MissingOutput { tool: "weather".into() };
            assert_eq!(reported, is_tolerated.then_some(missing));
            // Content of another kind stays a failure.
            assert!(call(&mut s, structured(json!({}))).is_err());
        }
    }

    #[test]
    fn application_can_disable_validation() {
        let mut s = client_with_schema(json!({"type": "string"}));
        s.client.check_outputs(OutputChecks::Off);
        assert!(call(&mut s, structured(json!(1))).is_ok());
        s.client.check_outputs(OutputChecks::AgainstSchemas);
        assert!(call(&mut s, structured(json!(1))).is_err());
    }

    /// C9.7
    #[test]
    fn client_validates_results_of_a_legacy_server_too() {
        let mut s = ClientHarness::legacy();
        list(&mut s, json!({"type": "object", "required": ["a"]}));
        assert!(call(&mut s, json!({"content": [], "structuredContent": {"a": 1}})).is_ok());
        assert!(call(&mut s, json!({"content": [], "structuredContent": {}})).is_err());
    }

    /// C9.7: any JSON value in 2026-07-28, only an object before.
    #[test]
    fn structured_results_of_a_legacy_server_are_objects() {
        for (value, is_object) in [(json!([1]), false), (json!("a"), false), (json!({"a": 1}), true)] {
            let result = json!({"content": [], "structuredContent": value});
            let mut legacy = ClientHarness::legacy();
            list(&mut legacy, json!({}));
            match call(&mut legacy, result) {
                Ok(_) => assert!(is_object, "{value}"),
                Err(Error::Output { error: OutputError::NotAnObject, .. }) => assert!(!is_object, "{value}"),
                Err(other) => panic!("{other}"),
            }
            let mut modern = ClientHarness::modern();
            list(&mut modern, json!({}));
            assert!(call(&mut modern, structured(value)).is_ok());
        }
    }
}
